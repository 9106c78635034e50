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
    from halocline_engine.run import run
    from halocline_engine.stencil import Stencil, stencil

__all__ = [
    "ArgumentError",
    "AxisError",
    "BoundaryError",
    "CancelledError",
    "CapacityError",
    "DatasetError",
    "DependenceError",
    "DeviceError",
    "FieldError",
    "HaloclineError",
    "InternalError",
    "LimitError",
    "NameRuleError",
    "OutputError",
    "ProgramError",
    "RequestError",
    "Stencil",
    "SyntaxRuleError",
    "TypeRuleError",
    "run",
    "stencil",
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

    @run.setter
    def run(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""

    @stencil.setter
    def stencil(self, module: types.ModuleType) -> None:
        """Let the import of the module pass."""


_package = sys.modules[__name__]
_package.__class__ = _Door
