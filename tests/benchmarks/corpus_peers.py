"""Other compilers on programs of the corpus, a part of `gpu_corpus.py`.

PyTorch compiles expressions on whole arrays, and GT4Py takes the text itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from corpus.calls import CorpusCall
from corpus.whole_arrays import in_memory_order, whole_arrays

__all__ = ["PeerTimes", "peer_times"]

_HEAD = """\
from gt4py.cartesian.gtscript import (
    BACKWARD, FORWARD, PARALLEL, Field, IJ, K, computation, float32, float64, interval,
    abs, exp, log, max, min, sqrt)
"""


@dataclass(frozen=True)
class PeerTimes:
    """Milliseconds of a call, and of the same by another compiler; or why there is no time."""

    name: str
    dtype: str
    layout: str
    peer: str
    milliseconds: float
    peer_milliseconds: float
    problem: str = ""


def peer_times(
    device: Any,
    calls: Sequence[CorpusCall],
    timed: Callable[[Any, Callable[[], None]], float],
    seconds: float,
) -> list[PeerTimes]:
    """Return the times of peers that are installed, for as many calls as there is time for."""
    found: list[PeerTimes] = []
    begun = perf_counter()
    for call in calls:
        arrays = call.arrays(device)
        program = call.stencil("cuda")
        own = timed(device, lambda c=call, p=program, a=arrays: c.run(p, a))
        for peer, make in (("torch.compile", _torch), ("GT4Py gt:gpu", _gt4py)):
            if importlib.util.find_spec("torch" if make is _torch else "gt4py") is None:
                continue
            if perf_counter() - begun > seconds:
                return found
            taken, problem = 0.0, ""
            try:
                taken = timed(device, make(call, arrays))
            except Exception as error:  # a peer may raise anything
                problem = f"{type(error).__name__}: {error}"[:200]
            one = (call.case.name, call.dtype, call.layout, peer)
            found.append(PeerTimes(*one, round(own * 1e3, 4), round(taken * 1e3, 4), problem))
        del arrays
        device.get_default_memory_pool().free_all_blocks()
    return found


def _torch(call: CorpusCall, arrays: Mapping[str, Any]) -> Callable[[], None]:
    torch: Any = importlib.import_module("torch")
    ordered = in_memory_order(call, arrays)
    tensors = {name: torch.as_tensor(array, device="cuda") for name, array in ordered.items()}
    torch.compiler.reset()
    # One graph, or an error that is listed: parts that are not compiled would say nothing.
    work = torch.compile(whole_arrays(call, torch), dynamic=False, fullgraph=True)
    return lambda: work(tensors)


def _gt4py(call: CorpusCall, arrays: Mapping[str, Any]) -> Callable[[], None]:
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    name = f"{call.case.name}_{call.dtype}"
    path = Path(tempfile.mkdtemp(prefix="gt4py-")) / f"{name}.py"
    path.write_text(f"{_HEAD}real = {call.dtype}\n{call.case.text(call.dtype)}")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    made = gtscript.stencil(backend="gt:gpu", definition=getattr(module, call.case.name))
    place = {"origin": call.halo, "domain": call.domain, "validate_args": False}
    return lambda: made(**arrays, **call.case.scalars, **place)
