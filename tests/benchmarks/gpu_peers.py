"""What one would use on a GPU instead, timed as their authors advise; a part of `gpu_stencil.py`.

A peer that is not installed, fails or has no time left is listed with the reason.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from expressions import EXPRESSIONS, columns_by_levels
from gt4py_programs import gt4py_stencil
from workloads import Case, Domain

__all__ = ["PEERS", "Gt4pyCompilations", "PeerFigure", "peer_figures"]

PEERS = ("CuPy", "JAX", "torch.compile", "GT4Py gt:gpu")
_DTYPES = ("float64", "float32")
#: Peers meet the cases in this order, because time may run out.
_FIRST = ("horizontal diffusion", "2d5pt", "3d7pt", "tridiagonal", "star r=4", "3d27pt")
#: Who is timed together: those that take a moment, then those that take seconds for each program.
_PASSES = (("CuPy", "JAX"), ("GT4Py gt:gpu",), ("torch.compile",))
#: Compilations of GT4Py at the same time.
_COMPILERS = 8


class _Timing(Protocol):
    @property
    def seconds(self) -> tuple[float, ...]: ...
    @property
    def copies(self) -> tuple[float, ...]: ...
    def share(self, moved: float) -> float: ...


#: (work, dtype, what waits for it) -> times beside those of a copy
_Compared = Callable[..., _Timing]
_Fields = Mapping[str, Any]


@dataclass(frozen=True)
class PeerFigure:
    """One peer on one case; without a share, the reason."""

    case: str
    dtype: str
    peer: str
    domain: Domain
    milliseconds: float | None = None
    copy: float | None = None
    share: float | None = None
    reason: str = ""


class _Absent(Exception):
    """A peer has no sensible way to write a case."""


class Gt4pyCompilations:
    """GT4Py compiles programs in processes of its own, while other things are measured."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gt4py-"))
        os.environ.setdefault("GT_CACHE_ROOT", str(self.folder / "cache"))
        os.environ.setdefault("CUDA_HOME", "/usr/local/cuda")
        self._pool: Any = None
        self._work: dict[tuple[str, str], Any] = {}
        chosen = _ordered(cases)
        if not chosen or find_spec("gt4py") is None:
            return
        self._pool = get_context("spawn").Pool(_COMPILERS)
        self._work = {
            (case.name, dtype): self._pool.apply_async(_compile_one, (case, dtype, self.folder))
            for case in chosen
            for dtype in _DTYPES
        }

    def wait(self, case: str, dtype: str, deadline: float) -> None:
        """Return when a program is compiled; raises what its compilation did, or `_Absent`."""
        work = self._work.get((case, dtype))
        if work is None:
            raise ImportError("No module named 'gt4py'")
        work.wait(max(0.0, deadline - perf_counter()))
        if not work.ready():
            raise _Absent("it did not compile in time")
        work.get()

    def stop(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.terminate()


def _ordered(cases: Iterable[Case]) -> list[Case]:
    order = {name: number for number, name in enumerate(_FIRST)}
    return sorted(cases, key=lambda c: order.get(c.name, len(order)))


def peer_figures(
    cupy: Any,
    compared: _Compared,
    cases: Iterable[Case],
    domains: Mapping[str, Domain],
    compiling: Gt4pyCompilations,
    deadline: float,
) -> Iterator[PeerFigure]:
    """Time all peers on all cases until the deadline on `perf_counter`."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    makers: Mapping[str, Callable[[Case, str, _Fields, Domain], _Work]] = {
        "CuPy": lambda case, dtype, fields, _domain: _cupy(cupy, case, dtype, fields),
        "JAX": lambda case, _dtype, fields, _domain: _jax(case, fields),
        "torch.compile": lambda case, _dtype, fields, _domain: _torch(case, fields),
        "GT4Py gt:gpu": lambda case, dtype, fields, domain: _gt4py(
            compiling, deadline, case, dtype, fields, domain
        ),
    }
    missing: dict[str, str] = {}
    rounds = [(names, c, d) for names in _PASSES for c in _ordered(cases) for d in _DTYPES]
    for names, case, dtype in rounds:
        blanks = [PeerFigure(case.name, dtype, name, domains[case.name]) for name in names]
        late = "there was no time left" if perf_counter() > deadline else ""
        reasons = {name: missing.get(name, late) for name in names}
        fields = {} if all(reasons.values()) else _inputs(cupy, case, domains[case.name], dtype)
        for blank in blanks:
            if reasons[blank.peer]:
                yield _without(blank, reasons[blank.peer])
            else:
                yield _timed(cupy, compared, blank, makers[blank.peer], case, fields, missing)
        del fields
        cupy.get_default_memory_pool().free_all_blocks()


#: What to run, and what waits for it: None where CUDA events see it.
_Work = tuple[Callable[[], object], Callable[[], object] | None]


def _timed(
    cupy: Any,
    compared: _Compared,
    blank: PeerFigure,
    make: Callable[[Case, str, _Fields, Domain], _Work],
    case: Case,
    fields: _Fields,
    missing: dict[str, str],
) -> PeerFigure:
    try:
        work, finish = make(case, blank.dtype, fields, blank.domain)
        timing = compared(work, blank.dtype, finish)
    except ImportError as error:
        missing[blank.peer] = f"not installed: {error}"
        return _without(blank, missing[blank.peer])
    except _Absent as error:
        return _without(blank, str(error))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{blank.case} {blank.dtype}: {error!r} in {where.name}, line {where.lineno}"
        return _without(blank, reason[-300:])
    finally:
        work = finish = None
        cupy.get_default_memory_pool().free_all_blocks()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()
    moved = float(np.prod(blank.domain, dtype=np.int64)) * case.bytes_per_point(blank.dtype)
    return PeerFigure(
        case=blank.case,
        dtype=blank.dtype,
        peer=blank.peer,
        domain=blank.domain,
        milliseconds=median(timing.seconds) * 1e3,
        copy=median(timing.copies) / 1e9,
        share=timing.share(moved),
    )


def _without(blank: PeerFigure, reason: str) -> PeerFigure:
    return PeerFigure(blank.case, blank.dtype, blank.peer, blank.domain, reason=reason)


def _inputs(cupy: Any, case: Case, domain: Domain, dtype: str) -> dict[str, Any]:
    """Return contiguous arrays indexed [k, j, i], made on the device."""
    ni, nj, nk = (n + 2 * h for n, h in zip(domain, case.halo, strict=True))
    fields: dict[str, Any] = {}
    for name, (low, high) in case.inputs.items():
        array = cupy.random.random((nk, nj, ni), dtype=dtype)
        array *= high - low
        array += low
        fields[name] = array
    return fields


def _cupy(cupy: Any, case: Case, dtype: str, fields: _Fields) -> _Work:
    if case.name == "tridiagonal":
        return lambda: columns_by_levels(fields, cupy.empty_like), None
    expression = _expression(case)
    scalars = {name: np.dtype(dtype).type(value) for name, value in case.scalars.items()}
    return lambda: expression(cupy.where, fields, scalars), None


def _expression(case: Case) -> Callable[..., Any]:
    if case.name not in EXPRESSIONS:
        raise _Absent(f"'{case.name}' has no form without a loop over levels")
    return EXPRESSIONS[case.name]


def _jax(case: Case, fields: _Fields) -> _Work:
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    own = {name: jax.dlpack.from_dlpack(array) for name, array in fields.items()}
    if case.name == "tridiagonal":
        solve: Any = jax.lax.linalg.tridiagonal_solve
        batch = {
            name: jax.numpy.moveaxis(array, 0, -1).block_until_ready()
            for name, array in own.items()
        }

        def solved(f: _Fields) -> Any:
            return solve(f["a"], f["b"], f["c"], f["d"][..., None])

        function = jax.jit(solved)
        return _waiting(lambda: function(batch))
    compiled = jax.jit(partial(_expression(case), jax.numpy.where, scalars=case.scalars))
    return _waiting(lambda: compiled(own))


def _waiting(work: Callable[[], Any]) -> _Work:
    """Return work whose last result can be waited for; earlier ones are done by then."""
    last: list[Any] = []

    def go() -> None:
        last[:] = [work()]

    def finish() -> None:
        last[0].block_until_ready()

    return go, finish


def _torch(case: Case, fields: _Fields) -> _Work:
    torch: Any = importlib.import_module("torch")
    own = {name: torch.as_tensor(array, device="cuda") for name, array in fields.items()}
    if case.name not in EXPRESSIONS:
        raise _Absent(f"'{case.name}' is a loop over levels, which it unrolls for minutes")
    expression = _expression(case)
    torch._dynamo.reset()

    def program(f: _Fields) -> Any:
        return expression(torch.where, f, case.scalars)

    compiled = torch.compile(program, dynamic=False)
    return lambda: compiled(own), torch.cuda.synchronize


def _compile_one(case: Case, dtype: str, folder: Path) -> float:
    # Its build reads the pyproject.toml of the working directory, which is not one for it.
    os.chdir(folder)
    # It changes the settings of `distutils` before anything has asked for them.
    builder: Any = importlib.import_module("gt4py.cartesian.backend.pyext_builder")
    builder.distutils.sysconfig.get_config_vars()
    began = perf_counter()
    gt4py_stencil(case, dtype, "gt:gpu", folder)
    return perf_counter() - began


def _rows(shape: Sequence[int], dtype: str, halo: Domain) -> Any:
    """Return an array indexed [i, j, k] whose rows lie along I, their first points aligned."""
    cupy: Any = importlib.import_module("cupy")
    size = np.dtype(dtype).itemsize
    unit = 128 // size
    pitch = -(-shape[0] // unit) * unit
    room = cupy.empty(pitch * shape[1] * shape[2] + 2 * unit, dtype)
    first = -(room.data.ptr // size + halo[0]) % unit
    strides = (size, pitch * size, pitch * shape[1] * size)
    return cupy.lib.stride_tricks.as_strided(room[first:], shape, strides)


def _gt4py(
    compiling: Gt4pyCompilations,
    deadline: float,
    case: Case,
    dtype: str,
    fields: _Fields,
    domain: Domain,
) -> _Work:
    compiling.wait(case.name, dtype, deadline)
    storage: Any = importlib.import_module("gt4py.storage")
    stencil = gt4py_stencil(case, dtype, "gt:gpu", compiling.folder)
    shape = tuple(n + 2 * h for n, h in zip(domain, case.halo, strict=True))
    options = {"dtype": np.dtype(dtype), "backend": "gt:gpu", "aligned_index": case.halo}
    # Its own storage (1.1.9) counts bytes in 32 bits: larger arrays are laid out as it would.
    large = np.prod(shape, dtype=np.int64) * np.dtype(dtype).itemsize >= 2**31
    own = {
        name: _rows(shape, dtype, case.halo) if large else storage.empty(shape, **options)
        for name in case.fields
    }
    for name, array in fields.items():
        own[name][...] = array.transpose(2, 1, 0)
    scalars = {name: np.dtype(dtype).type(value) for name, value in case.scalars.items()}
    return (
        lambda: stencil(**own, **scalars, origin=case.halo, domain=domain, validate_args=False),
        None,
    )
