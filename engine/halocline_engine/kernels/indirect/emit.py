"""Variants of the code for CUDA: what is known when it is compiled, and the text for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, assert_never

from halocline_engine.errors import InternalError
from halocline_engine.kernels.indirect.problem import Duplicates
from halocline_engine.kernels.indirect.sparse import Form

__all__ = [
    "Combination",
    "Direct",
    "Packed",
    "Pipelined",
    "Product",
    "Scheme",
    "SharedIndex",
    "Variant",
    "Window",
    "combination_name",
    "emit",
    "emit_combination",
    "emit_product",
    "emit_window",
    "kernel_name",
    "product_name",
    "window_name",
]

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
_INDICES = {32: "int", 64: "long long"}
_VALUES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
#: Bytes of shared memory that a block may have without asking for more.
_SHARED = 48 * 1024


@dataclass(frozen=True, slots=True)
class Direct:
    """Every thread moves `flight` pieces, with indices from global memory."""

    flight: int = 4


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """A block moves `elements` whole elements and keeps their indices in shared memory."""

    flight: int = 4
    elements: int = 1024


@dataclass(frozen=True, slots=True)
class Pipelined:
    """`producers` warps read into a ring of `stages` in shared memory, the others write from it."""

    flight: int = 4
    stages: int = 3
    producers: int = 4


@dataclass(frozen=True, slots=True)
class Packed:
    """Every thread gathers `flight` times as many elements as fill 16 bytes.

    An element is one word of 4 or 8 bytes, and sources are indexed, targets dense.
    """

    flight: int = 2


Scheme: TypeAlias = Direct | SharedIndex | Pipelined | Packed


@dataclass(frozen=True, slots=True)
class Variant:
    """One kernel. Sizes that are 0 are arguments.

    `word` is the bytes of a piece, `index_bits` those of an index; `wide` says that words are
    counted with 64 bits. With `take`, sources are indexed; with `put`, targets; `masked` says that
    some indices may be below zero. `threads` are those of a block, and `fixed` says that this is
    compiled in.
    """

    word: int
    scheme: Scheme
    take: bool
    put: bool
    index_bits: int = 32
    wide: bool = False
    masked: bool = False
    pieces: int = 0
    count: int = 0
    threads: int = 256
    fixed: bool = True

    def __post_init__(self) -> None:
        """Refuse what no device could run."""
        match self.scheme:
            case Direct():
                shared = 0
            case SharedIndex(elements=elements):
                shared = elements * (self.index_bits // 8) * (self.take + self.put)
            case Pipelined(flight=flight, stages=stages, producers=producers):
                shared = stages * (32 * producers * flight * self.word + 16)
                if self.word < 4:
                    raise InternalError("Asynchronous copies move 4, 8 or 16 bytes.")
                if self.threads <= 32 * producers:
                    raise InternalError("A block needs warps that write beside those that read.")
            case Packed():
                shared = 0
                dense = self.take and not self.put
                if self.word not in (4, 8) or self.pieces != 1 or not dense:
                    raise InternalError("Elements are packed that are gathered, of one word.")
            case _:
                assert_never(self.scheme)
        if shared > _SHARED:
            raise InternalError(f"A block would need {shared} bytes of shared memory.")


@dataclass(frozen=True, slots=True)
class Window:
    """The first pass of a grouped gather, by windows of `elements` elements in shared memory."""

    word: int
    pieces: int
    elements: int
    index_bits: int = 32
    flight: int = 4
    threads: int = 256

    def __post_init__(self) -> None:
        """Refuse what no device could run."""
        if self.word * self.pieces * self.elements > _SHARED:
            raise InternalError(f"A window of {self.elements} elements does not fit.")


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

    `block` is that of a matrix in slices, or 0 for one by rows.
    """

    value: str
    form: Form
    renormalise: bool
    index_bits: int = 32
    levels: int = 8
    threads: int = 128
    block: int = 0


def kernel_name(variant: Variant) -> str:
    """Return the name of a variant's kernel, which says what it is."""
    match variant.scheme:
        case Direct(flight):
            scheme = f"direct{flight}"
        case SharedIndex(flight, elements):
            scheme = f"shared{flight}x{elements}"
        case Pipelined(flight, stages, producers):
            scheme = f"pipelined{flight}x{stages}x{producers}"
        case Packed(flight):
            scheme = f"packed{flight}"
        case _:
            assert_never(variant.scheme)
    flags = "".join(
        letter
        for letter, flag in zip(
            "tpmwf",
            (variant.take, variant.put, variant.masked, variant.wide, variant.fixed),
            strict=True,
        )
        if flag
    )
    return (
        f"move{8 * variant.word}_{scheme}_{flags}_i{variant.index_bits}"
        f"_p{variant.pieces}_n{variant.count}_b{variant.threads}"
    )


def emit(variants: Sequence[Variant]) -> str:
    """Return a translation unit with a kernel for each variant."""
    parts = [_file("transfer.cu")]
    if any(isinstance(variant.scheme, Pipelined) for variant in variants):
        parts.append(_file("pipeline.cu"))
    if any(isinstance(variant.scheme, Packed) for variant in variants):
        parts.append(_file("packed.cu"))
    return "\n".join([*parts, *(_entry(variant) for variant in dict.fromkeys(variants))])


def window_name(window: Window) -> str:
    """Return the name of a window's kernel."""
    return (
        f"window{8 * window.word}_p{window.pieces}_e{window.elements}_i{window.index_bits}"
        f"_f{window.flight}_b{window.threads}"
    )


def emit_window(windows: Sequence[Window]) -> str:
    """Return a translation unit with a kernel for each window."""
    parts = [_file("window.cu")]
    for one in dict.fromkeys(windows):
        word, index = _WORDS[one.word], _INDICES[one.index_bits]
        sizes = f"{one.pieces}, {one.elements}, {one.flight}, {one.threads}"
        parts.append(
            f'extern "C" __global__ void __launch_bounds__({one.threads}) {window_name(one)}(\n'
            f"    const {word} *source, {word} *target, const unsigned short *take,\n"
            f"    const {index} *put, const long long *starts, const long long elements) {{\n"
            f"  gather_window<{word}, {index}, {sizes}>(\n"
            "      source, target, take, put, starts, elements);\n}\n"
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
    return (
        f"product_{product.form.value}_{missing}_{product.value}_i{product.index_bits}"
        f"_l{product.levels}_b{product.threads}_s{product.block}"
    )


def emit_product(products: Sequence[Product]) -> str:
    """Return a translation unit with a kernel for each product."""
    parts = [_file("product.cu")]
    for one in dict.fromkeys(products):
        value, index = _VALUES[one.value], _INDICES[one.index_bits]
        kind = f"{value}, {index}, {one.form.name}, {str(one.renormalise).lower()}, {one.levels}"
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


def _packed_entry(variant: Variant, flight: int) -> str:
    word, index = _WORDS[variant.word], _INDICES[variant.index_bits]
    constants = (
        word,
        index,
        "long long" if variant.wide else "int",
        str(variant.masked).lower(),
        flight,
        f"{variant.count}ll",
        variant.threads if variant.fixed else 0,
    )
    return (
        f'extern "C" __global__ void __launch_bounds__({variant.threads}) {kernel_name(variant)}(\n'
        f"    const {word} *source, {word} *target, const {index} *take, const {index} *,\n"
        "    const long long source_step, const long long target_step, const int,\n"
        "    const long long count) {\n"
        f"  transfer_packed<{', '.join(map(str, constants))}>(\n"
        "      source, target, take, source_step, target_step, count);\n}\n"
    )


def _entry(variant: Variant) -> str:
    word, index = _WORDS[variant.word], _INDICES[variant.index_bits]
    match variant.scheme:
        case Direct(flight):
            function, sizes = "transfer", (flight,)
        case SharedIndex(flight, elements):
            function, sizes = "transfer_shared", (flight, elements)
        case Pipelined(flight, stages, producers):
            function, sizes = "transfer_pipelined", (flight, stages, producers)
        case Packed(flight):
            return _packed_entry(variant, flight)
        case _:
            assert_never(variant.scheme)
    flags = (variant.take, variant.put, variant.masked)
    constants = (
        word,
        index,
        "long long" if variant.wide else "int",
        *(str(flag).lower() for flag in flags),
        *sizes,
        variant.pieces,
        f"{variant.count}ll",
        variant.threads if variant.fixed else 0,
    )
    return (
        f'extern "C" __global__ void __launch_bounds__({variant.threads}) {kernel_name(variant)}(\n'
        f"    const {word} *source, {word} *target, const {index} *take, const {index} *put,\n"
        "    const long long source_step, const long long target_step, const int pieces,\n"
        "    const long long count) {\n"
        f"  {function}<{', '.join(map(str, constants))}>(\n"
        "      source, target, take, put, source_step, target_step, pieces, count);\n}\n"
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text()
