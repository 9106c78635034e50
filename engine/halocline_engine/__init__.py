"""Stencils and solves on xarray datasets, on as many GPUs as there are.

>>> import numpy as np
>>> import halocline_engine as he
>>> program = '''
... def double(a: Field[float], b: Field[float]):
...     with computation(PARALLEL), interval(...):
...         b = 2.0 * a
... '''
>>> double = he.stencil(program, target="reference")
>>> a, b = np.ones((4, 3, 2)), np.zeros((4, 3, 2))
>>> double(a, b)
>>> float(b.sum())
48.0

Functions are loaded when they are first used, so that importing this package loads neither Dask
nor xarray.
"""

import importlib
import typing

from halocline_engine.errors import (
    ArgumentError,
    AxisError,
    BoundaryError,
    CancelledError,
    CapacityError,
    ClusterError,
    DatasetError,
    DependenceError,
    DeviceError,
    DivergenceError,
    FieldError,
    HaloclineError,
    InternalError,
    LimitError,
    NameRuleError,
    OutputError,
    ProgramError,
    RequestError,
    SourceError,
    SyntaxRuleError,
    TypeRuleError,
)
from halocline_engine.program_warning import ProgramWarning

if typing.TYPE_CHECKING:
    from halocline_engine.distribute.tasks.options import Options
    from halocline_engine.functions.column import column, column_matrix
    from halocline_engine.functions.gather import gather, scatter
    from halocline_engine.functions.matmul import matmul
    from halocline_engine.functions.neighbours import neighbours
    from halocline_engine.functions.reductions.reduce import reduce
    from halocline_engine.functions.regrid import regrid
    from halocline_engine.functions.run import run
    from halocline_engine.functions.sequence import sequence
    from halocline_engine.functions.solve import factor, pentadiagonal, solve, tree, tridiagonal
    from halocline_engine.functions.stencil import Stencil, stencil
    from halocline_engine.kernels.indirect.plan import PlanCache
    from halocline_engine.language.limits import Limits

    __version__: str

__all__ = [
    "ArgumentError",
    "AxisError",
    "BoundaryError",
    "CancelledError",
    "CapacityError",
    "ClusterError",
    "DatasetError",
    "DependenceError",
    "DeviceError",
    "DivergenceError",
    "FieldError",
    "HaloclineError",
    "InternalError",
    "LimitError",
    "Limits",
    "NameRuleError",
    "Options",
    "OutputError",
    "PlanCache",
    "ProgramError",
    "ProgramWarning",
    "RequestError",
    "SourceError",
    "Stencil",
    "SyntaxRuleError",
    "TypeRuleError",
    "__version__",
    "column",
    "column_matrix",
    "factor",
    "gather",
    "matmul",
    "neighbours",
    "pentadiagonal",
    "reduce",
    "regrid",
    "run",
    "scatter",
    "sequence",
    "solve",
    "stencil",
    "tree",
    "tridiagonal",
]

#: Modules by the names that are loaded from them on first use.
_MODULES = {
    "Limits": "language.limits",
    "Options": "distribute.tasks.options",
    "PlanCache": "kernels.indirect.plan",
    "Stencil": "functions.stencil",
    "column": "functions.column",
    "column_matrix": "functions.column",
    "factor": "functions.solve",
    "gather": "functions.gather",
    "matmul": "functions.matmul",
    "neighbours": "functions.neighbours",
    "pentadiagonal": "functions.solve",
    "reduce": "functions.reductions.reduce",
    "regrid": "functions.regrid",
    "run": "functions.run",
    "scatter": "functions.gather",
    "sequence": "functions.sequence",
    "solve": "functions.solve",
    "stencil": "functions.stencil",
    "tree": "functions.solve",
    "tridiagonal": "functions.solve",
}


def __getattr__(name: str) -> typing.Any:
    if name == "__version__":
        from halocline_engine.version import halocline_version

        return halocline_version()
    if name not in _MODULES:
        from halocline_engine.interface.elsewhere import without_attribute

        raise AttributeError(without_attribute(__name__, name, __all__))
    from halocline_engine.interface.installed import for_engine

    with for_engine(f"{__name__}.{name}"):
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    found = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
