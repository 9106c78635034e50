"""Halocline's engine: stencils and solves on xarray datasets, on as many GPUs as there are.

```python
import halocline_engine as he

diffuse = he.stencil(text)
diffuse(a, b, coeff=0.1, origin=(1, 1, 0), domain=(nx, ny, nz))
```

What computes is loaded when it is first asked for: a process that only checks programs imports
`language`, `ir` and `analysis` through this package, and must not load Dask or xarray by that.
"""

import sys
import types
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
    FieldError,
    HaloclineError,
    InternalError,
    LimitError,
    NameRuleError,
    OutputError,
    ProgramError,
    RequestError,
    SyntaxRuleError,
    TypeRuleError,
)

if typing.TYPE_CHECKING:
    from halocline_engine.column import column, column_matrix
    from halocline_engine.distribute.tasks.options import Options
    from halocline_engine.indirect import gather, scatter
    from halocline_engine.kernels.indirect.plan import PlanCache
    from halocline_engine.matmul import matmul
    from halocline_engine.meshes import neighbours
    from halocline_engine.regridding import regrid
    from halocline_engine.run import run
    from halocline_engine.solve import factor, pentadiagonal, solve, tree, tridiagonal
    from halocline_engine.stencil import Stencil, stencil

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
    "FieldError",
    "HaloclineError",
    "InternalError",
    "LimitError",
    "NameRuleError",
    "Options",
    "OutputError",
    "PlanCache",
    "ProgramError",
    "RequestError",
    "Stencil",
    "SyntaxRuleError",
    "TypeRuleError",
    "column",
    "column_matrix",
    "factor",
    "gather",
    "matmul",
    "neighbours",
    "pentadiagonal",
    "regrid",
    "run",
    "scatter",
    "solve",
    "stencil",
    "tree",
    "tridiagonal",
]


class _Door(types.ModuleType):
    """Gives functions that have modules of the same name beside them.

    Importing such a module binds its name here, which a `__getattr__` would then never see.
    """

    @property
    def run(self) -> typing.Any:
        from halocline_engine.run import run

        return run

    @property
    def stencil(self) -> typing.Any:
        from halocline_engine.stencil import stencil

        return stencil

    @property
    def Stencil(self) -> typing.Any:
        from halocline_engine.stencil import Stencil

        return Stencil

    @property
    def Options(self) -> typing.Any:
        from halocline_engine.distribute.tasks.options import Options

        return Options

    @property
    def column(self) -> typing.Any:
        from halocline_engine.column import column

        return column

    @property
    def column_matrix(self) -> typing.Any:
        from halocline_engine.column import column_matrix

        return column_matrix

    @property
    def gather(self) -> typing.Any:
        from halocline_engine.indirect import gather

        return gather

    @property
    def scatter(self) -> typing.Any:
        from halocline_engine.indirect import scatter

        return scatter

    @property
    def PlanCache(self) -> typing.Any:
        from halocline_engine.kernels.indirect.plan import PlanCache

        return PlanCache

    @property
    def matmul(self) -> typing.Any:
        from halocline_engine.matmul import matmul

        return matmul

    @property
    def neighbours(self) -> typing.Any:
        from halocline_engine.meshes import neighbours

        return neighbours

    @property
    def regrid(self) -> typing.Any:
        from halocline_engine.regridding import regrid

        return regrid

    @property
    def factor(self) -> typing.Any:
        from halocline_engine.solve import factor

        return factor

    @property
    def pentadiagonal(self) -> typing.Any:
        from halocline_engine.solve import pentadiagonal

        return pentadiagonal

    @property
    def solve(self) -> typing.Any:
        from halocline_engine.solve import solve

        return solve

    @property
    def tree(self) -> typing.Any:
        from halocline_engine.solve import tree

        return tree

    @property
    def tridiagonal(self) -> typing.Any:
        from halocline_engine.solve import tridiagonal

        return tridiagonal

    @column.setter
    def column(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""

    @matmul.setter
    def matmul(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""

    @run.setter
    def run(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""

    @solve.setter
    def solve(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""

    @stencil.setter
    def stencil(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""


_package = sys.modules[__name__]
_package.__class__ = _Door
