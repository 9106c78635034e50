"""Halocline's service: jobs over HTTP."""

import importlib.metadata
import typing

__all__ = ["__version__"]

if typing.TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        return importlib.metadata.version("halocline")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
