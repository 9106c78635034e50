"""Kernels for CUDA: what is known when they are compiled, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from halocline_engine.errors import InternalError
from halocline_engine.kernels.indirect.problem import Duplicates
from halocline_engine.kernels.indirect.sparse import Form

__all__ = [
    "FIRST_THREADS",
    "Combination",
    "Passes",
    "Product",
    "Variant",
    "combination_name",
    "emit",
    "emit_combination",
    "emit_passes",
    "emit_product",
    "kernel_name",
    "passes_names",
    "product_name",
]

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
_INDICES = {32: "int", 64: "long long"}
_VALUES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
#: Threads of a block in the first pass of a grouped gather, and what each moves at a time.
FIRST_THREADS, _FIRST_FLIGHT = 512, 4


@dataclass(frozen=True, slots=True)
class Variant:
    """Kernel of a transfer, in which every thread moves `flight` pieces.

    `word` is the bytes of a piece, `pieces` how many an element has, `index_bits` those of an
    index; `wide` says that words are counted with 64 bits. With `take`, sources are indexed; with
    `put`, targets; `masked` says that some indices may be below zero. `threads` are those of a
    block. What is read by indices is `kept` in a device's cache before what is read once.
    """

    word: int
    pieces: int
    take: bool
    put: bool
    flight: int = 4
    index_bits: int = 32
    wide: bool = False
    masked: bool = False
    threads: int = 256
    kept: bool = False

    def __post_init__(self) -> None:
        """Refuse what no device could run."""
        if self.kept and self.word < 4:
            raise InternalError("Words of 4, 8 or 16 bytes are kept.")


@dataclass(frozen=True, slots=True)
class Passes:
    """Both passes of a grouped gather of elements of `pieces` words.

    `wide` says that what lies between them is counted with 64 bits. The second pass has blocks of
    `threads`, as many as `blocks` of them on a processor, each with `flight` elements at a time,
    which reach shared memory `past` registers or through them.
    """

    word: int
    pieces: int
    wide: bool = False
    flight: int = 4
    threads: int = 512
    blocks: int = 2
    past: bool = False

    def __post_init__(self) -> None:
        """Refuse what no device could run."""
        if self.past and (self.word < 4 or self.pieces != 1):
            raise InternalError("Asynchronous copies move 4, 8 or 16 bytes.")


@dataclass(frozen=True, slots=True)
class Combination:
    """A kernel that combines the values of groups; `value` is a type's name."""

    value: str
    operation: Duplicates
    index_bits: int = 32
    threads: int = 256


@dataclass(frozen=True, slots=True)
class Product:
    """A kernel for products of a sparse matrix with `levels` members of a batch at a time.

    `block` is that of a matrix in slices, or 0 for one by rows. `balanced` says that cells are
    renormalised and the weights of some row add up to 0, see `sparse.balanced`.
    """

    value: str
    form: Form
    renormalise: bool
    index_bits: int = 32
    levels: int = 8
    threads: int = 128
    block: int = 0
    balanced: bool = False


def kernel_name(variant: Variant) -> str:
    """Return the name of a variant's kernel, which says what it is."""
    named = {
        "t": variant.take,
        "p": variant.put,
        "m": variant.masked,
        "w": variant.wide,
        "k": variant.kept,
    }
    flags = "".join(letter for letter, flag in named.items() if flag)
    return (
        f"move{8 * variant.word}_{variant.flight}_{flags}_i{variant.index_bits}"
        f"_p{variant.pieces}_b{variant.threads}"
    )


def emit(variants: Sequence[Variant]) -> str:
    """Return a translation unit with a kernel for each variant."""
    entries = (_entry(variant) for variant in dict.fromkeys(variants))
    return "\n".join([_file("transfer.cu"), *entries])


def passes_names(passes: Passes) -> tuple[str, str]:
    """Return the names of the kernels of both passes."""
    kind = f"{8 * passes.word}_p{passes.pieces}{'_w' * passes.wide}"
    second = f"f{passes.flight}_b{passes.threads}x{passes.blocks}{'_past' * passes.past}"
    return f"pass_one{kind}_{second}", f"pass_two{kind}_{second}"


def emit_passes(several: Sequence[Passes]) -> str:
    """Return a translation unit with two kernels for each."""
    parts = [_file("passes.cu")]
    for one in dict.fromkeys(several):
        word, offset = _WORDS[one.word], _INDICES[64 if one.wide else 32]
        first, second = passes_names(one)
        start = 'extern "C" __global__ void __launch_bounds__'
        sizes = f"{str(one.past).lower()}, {one.flight}, {one.threads}"
        parts.append(
            f"{start}({FIRST_THREADS}, 1) {first}(\n"
            f"    const {word} *source, {word} *between, const unsigned short *take,\n"
            "    const long long *starts, const int *counts, const long long elements,\n"
            "    const int window) {\n"
            f"  pass_one<{word}, {one.pieces}, {_FIRST_FLIGHT}, {FIRST_THREADS}>(\n"
            "      source, between, take, starts, counts, elements, window);\n}\n"
            f"{start}({one.threads}, {one.blocks}) {second}(\n"
            f"    const {word} *between, {word} *target, const {offset} *from,\n"
            "    const unsigned short *place, const long long *lists, const long long count,\n"
            "    const int tile) {\n"
            f"  pass_two<{word}, {one.pieces}, {offset}, {sizes}>(\n"
            "      between, target, from, place, lists, count, tile);\n}\n"
        )
    return "\n".join(parts)


def combination_name(combination: Combination) -> str:
    """Return the name of a combination's kernel."""
    operation = combination.operation.value
    return f"combine_{operation}_{combination.value}_i{combination.index_bits}"


def emit_combination(combinations: Sequence[Combination]) -> str:
    """Return a translation unit with a kernel for each combination."""
    parts = [_file("combine.cu")]
    for one in dict.fromkeys(combinations):
        value, index = _VALUES[one.value], _INDICES[one.index_bits]
        parts.append(
            f'extern "C" __global__ void __launch_bounds__({one.threads}) '
            f"{combination_name(one)}(\n"
            f"    const {value} *source, {value} *target, const {index} *places,\n"
            f"    const {index} *starts, const {index} *order, const long long source_step,\n"
            "    const long long target_step, const long long groups, const int values) {\n"
            f"  combine<{value}, {index}, {one.operation.name}>(\n"
            "      source, target, places, starts, order, source_step, target_step, groups,"
            " values);\n}\n"
        )
    return "\n".join(parts)


def product_name(product: Product) -> str:
    """Return the name of a product's kernel."""
    missing = "renormalised" if product.renormalise else "plain"
    missing += "_balanced" * product.balanced
    return (
        f"product_{product.form.value}_{missing}_{product.value}_i{product.index_bits}"
        f"_l{product.levels}_b{product.threads}_s{product.block}"
    )


def emit_product(products: Sequence[Product]) -> str:
    """Return a translation unit with a kernel for each product."""
    parts = [_file("product.cu")]
    for one in dict.fromkeys(products):
        value, index = _VALUES[one.value], _INDICES[one.index_bits]
        flags = f"{str(one.renormalise).lower()}, {str(one.balanced).lower()}"
        kind = f"{value}, {index}, {one.form.name}, {flags}, {one.levels}"
        starts, function, begins = f"const {index} *starts", f"product<{kind}>", "starts"
        if one.block:
            starts = "const long long *offsets, const int *lengths"
            function, begins = f"product_sliced<{kind}, {one.block}>", "offsets, lengths"
        parts.append(
            f'extern "C" __global__ void __launch_bounds__({one.threads}) {product_name(one)}(\n'
            f"    const {value} *field, {value} *out, {starts},\n"
            f"    const {index} *columns, const double *weights, const int rows,\n"
            "    const long long cells, const int batch, const double least) {\n"
            f"  {function}(\n"
            f"      field, out, {begins}, columns, weights, rows, cells, batch, least);\n}}\n"
        )
    return "\n".join(parts)


def _entry(variant: Variant) -> str:
    word, index = _WORDS[variant.word], _INDICES[variant.index_bits]
    flags = (variant.take, variant.put, variant.masked, variant.kept)
    constants = (
        word,
        index,
        "long long" if variant.wide else "int",
        *(str(flag).lower() for flag in flags),
        variant.flight,
        variant.pieces,
        variant.threads,
    )
    return (
        f'extern "C" __global__ void __launch_bounds__({variant.threads}) {kernel_name(variant)}(\n'
        f"    const {word} *source, {word} *target, const {index} *take, const {index} *put,\n"
        "    const long long source_step, const long long target_step, const long long count) {\n"
        f"  transfer<{', '.join(map(str, constants))}>(\n"
        "      source, target, take, put, source_step, target_step, count);\n}\n"
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text()
