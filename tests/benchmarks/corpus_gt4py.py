"""GT4Py's backends on programs of the corpus, in arrays as its own storages lay them out.

    PYTHONPATH=engine:benchmarks python tests/benchmarks/corpus_gt4py.py BACKEND DTYPE [NAME ...]

compiles programs and leaves them in GT4Py's cache, whose folder is `GT_CACHE_ROOT` or one of the
system's temporary folders; other processes take them from there.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from corpus.calls import CorpusCall
from corpus.cases import CorpusCase, corpus

__all__ = ["Peer", "built", "gt4py_call", "gt4py_stencil"]

_HEAD = """\
from gt4py.cartesian.gtscript import (
    BACKWARD, FORWARD, PARALLEL, Field, GlobalTable, I, IJ, J, K, computation, float32, float64,
    function, horizontal, int64, interval, region, abs, ceil, exp, floor, log, max, min, sqrt)
"""
_FOLDER = Path(
    os.environ.setdefault("GT_CACHE_ROOT", str(Path(tempfile.gettempdir()) / "halocline-gt4py"))
)
os.environ.setdefault("DACE_CONFIG", str(_FOLDER / ".dace.conf"))
_FOLDER.mkdir(parents=True, exist_ok=True)
#: What DaCe 2.0.0b1 uses before GT4Py 1.1.12 declares it; it asks for errors that came before.
_DECLARED = """\
#pragma once
#include <cuda_runtime.h>
template <class State> inline void __dace_gpu_drain_error(State *) { (void)cudaGetLastError(); }
"""
#: Backends that wait for the device after each call unless told otherwise.
_DEVICE = ("gt:gpu", "dace:gpu")


@dataclass(frozen=True)
class Peer:
    """A program that another compiler made: what is called, and the arrays that it changes.

    `storages` are all its arrays, where the engine can take them as they are.
    """

    call: Callable[[], object]
    arrays: Mapping[str, Any]
    storages: Mapping[str, Any] | None = None


def _adapt(backend: str) -> None:
    """Let DaCe 2.0.0b1 compile what GT4Py 1.1.12 generates; flags of optimisation stay."""
    # GT4Py takes variables of the build for known, which they are after a first question.
    importlib.import_module("setuptools").distutils.sysconfig.get_config_vars()
    config: Any = importlib.import_module("gt4py.cartesian.config")
    flags = config.build_settings["extra_compile_args"]["cxx"]
    flags[:] = [flag for flag in flags if flag != "-std=c++20"]
    os.environ.pop("NVCC_APPEND_FLAGS", None)
    if backend == "dace:cpu":
        flags.append("-std=c++20")
    if backend == "dace:gpu":
        header = _FOLDER / "declared.h"
        header.write_text(_DECLARED)
        os.environ["NVCC_APPEND_FLAGS"] = f"-include {header}"


def gt4py_stencil(case: CorpusCase, dtype: str, backend: str) -> Any:
    """Return a program compiled by GT4Py; its text is put in a file, where GT4Py reads it from."""
    name = f"{case.name}_{dtype}"
    with tempfile.TemporaryDirectory(prefix="gt4py-") as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(f"{_HEAD}real = {dtype}\n{case.text(dtype)}")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(str(path))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return _compiled(getattr(module, case.name), name, dtype, backend)


def _compiled(definition: Any, name: str, dtype: str, backend: str) -> Any:
    _adapt(backend)
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    numpy: Any = importlib.import_module("numpy")
    real = getattr(numpy, dtype)
    plane = gtscript.Field[gtscript.IJ, real]  # of temporaries, which it knows by a name alone
    options: dict[str, Any] = {"dtypes": {"real": real, "plane": plane}}
    if backend in _DEVICE:
        options["device_sync"] = False
    return gtscript.stencil(backend=backend, definition=definition, name=name, **options)


def built(name: str, dtype: str, backend: str) -> tuple[float, str]:
    """Return the seconds that GT4Py takes to compile a program, and why it does not."""
    case = next(one for one in corpus() if one.name == name)
    # Its compiler takes the settings of a project in the current folder for its own.
    os.chdir(_FOLDER)
    begun, problem = perf_counter(), ""
    try:
        gt4py_stencil(case, dtype, backend)
    except (Exception, SystemExit) as error:  # whatever another compiler raises
        problem = f"{type(error).__name__}: {error}"[:300]
    return perf_counter() - begun, problem


def gt4py_call(call: CorpusCall, library: Any, backend: str) -> Peer:
    """Return a call of a program by GT4Py, on storages of its own with the values of a call."""
    storage: Any = importlib.import_module("gt4py.storage")
    made, arrays = gt4py_stencil(call.case, call.dtype, backend), call.arrays(library)
    halo = dict(zip("IJK", call.halo, strict=True))
    own: dict[str, Any] = {}
    origins: dict[str, tuple[int, ...]] = {}
    for name, array in arrays.items():
        dimensions = [axis.value for axis in call.axes[name]]
        data = array.shape[len(dimensions) :]
        inside = tuple(halo[axis] for axis in dimensions)
        origins[name] = (*inside, *(0 for _ in data))
        if not dimensions:
            own[name] = array
            continue
        own[name] = storage.empty(
            array.shape[: len(dimensions)],
            (call.dtype, data) if data else call.dtype,
            backend=backend,
            aligned_index=inside,
            dimensions=dimensions,
        )
        own[name][...] = array
    real = getattr(importlib.import_module("numpy"), call.dtype)
    scalars = {
        name: value if isinstance(value, int) else real(value)
        for name, value in call.case.scalars.items()
    }
    frozen = made.freeze(origin=origins, domain=call.domain)
    return Peer(lambda: frozen(**own, **scalars), own, own)


def main() -> None:
    """Compile the programs that are named, or all."""
    backend, dtype, *names = sys.argv[1:]
    for case in corpus():
        if not names or case.name in names:
            seconds, problem = built(case.name, dtype, backend)
            print(f"{case.name:26} {dtype} {backend} {seconds:6.1f} {problem}", flush=True)


if __name__ == "__main__":
    main()
