"""Programs of the corpus by compilers of expressions on whole arrays: PyTorch and JAX."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from corpus.calls import CorpusCall
from corpus.whole_arrays import in_memory_order, pure_whole_arrays, whole_arrays
from corpus_gt4py import Peer

from halocline_engine.ir.types import Axis

__all__ = ["jax_call", "torch_call"]


def torch_call(call: CorpusCall, arrays: Mapping[str, Any]) -> Peer:
    """Return a call of a program that `torch.compile` made one graph of, compiled."""
    torch: Any = importlib.import_module("torch")
    ordered = in_memory_order(call, arrays)
    tensors = {name: torch.as_tensor(array, device="cuda") for name, array in ordered.items()}
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    # Each program counts as another version of one wrapper.
    torch._dynamo.config.recompile_limit = 256
    # One graph, or an error that is listed: parts that are not compiled would say nothing.
    work = torch.compile(whole_arrays(call, torch), dynamic=False, fullgraph=True)
    work(tensors)
    for name, tensor in tensors.items():
        tensor.copy_(kept[name])
    torch.cuda.synchronize()
    return Peer(lambda: work(tensors), arrays)


class _Jax:
    """A program of JAX, whose results take the memory of what they replace."""

    def __init__(self, call: CorpusCall, arrays: Mapping[str, Any]) -> None:
        jax: Any = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        numpy: Any = importlib.import_module("jax.numpy")
        written = {field.name for field in call.compiled.program.fields if field.written}
        ordered = in_memory_order(call, arrays)
        made = {name: numpy.array(array.get()) for name, array in ordered.items()}
        self.call, self.jax = call, jax
        self.fixed = {name: array for name, array in made.items() if name not in written}
        self.changed = {name: array for name, array in made.items() if name in written}
        self.work = jax.jit(pure_whole_arrays(call, numpy), donate_argnums=(1,))
        # Compiled, and the values as they were before the call.
        self.work(self.fixed, {name: numpy.copy(array) for name, array in self.changed.items()})

    def __call__(self) -> None:
        self.changed = self.work(self.fixed, self.changed)

    def __getitem__(self, name: str) -> Any:
        """Return an array with its axes as the program has them."""
        axes = {field.name: field.axes for field in self.call.compiled.program.fields}[name]
        layout = [Axis(axis) for axis in self.call.layout]
        array = self.changed[name].transpose([layout.index(axis) for axis in Axis])
        kept = tuple(slice(None) if axis in axes else 0 for axis in Axis)
        self.jax.block_until_ready(array)
        return importlib.import_module("cupy").from_dlpack(array)[kept]


def jax_call(call: CorpusCall, arrays: Mapping[str, Any]) -> Peer:
    """Return a call of a program that JAX compiled."""
    made = _Jax(call, arrays)
    return Peer(made, _Arrays(made))


class _Arrays(Mapping[str, Any]):
    """The arrays that a program of JAX changes, as they are when they are asked for."""

    def __init__(self, made: _Jax) -> None:
        self._made = made

    def __getitem__(self, name: str) -> Any:
        return self._made[name]

    def __iter__(self) -> Any:
        return iter(self._made.changed)

    def __len__(self) -> int:
        return len(self._made.changed)
