"""Errors for packages that the engine needs and that are missing or cannot be imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["for_engine"]


@contextmanager
def for_engine(name: str) -> Generator[None]:
    """Raise an error with the name of a package that is missing or cannot be imported.

    >>> with for_engine("halocline.run"):
    ...     import numby
    Traceback (most recent call last):
        ...
    ModuleNotFoundError: halocline.run needs the package 'numby', which is not installed. Install \
the extra 'engine': pip install 'halocline[engine]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package, _, inner = (error.name or "").partition(".")
        if package.startswith("halocline"):
            raise
        if inner or importlib.util.find_spec(package) is not None:
            raise _broken(name, package, error) from error
        raise ModuleNotFoundError(
            f"{name} needs the package '{package}', which is not installed. Install the extra"
            " 'engine': pip install 'halocline[engine]'.",
            name=error.name,
        ) from error
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package.startswith("halocline"):
            raise
        raise _broken(name, package, error) from error


def _broken(name: str, package: str, error: ImportError) -> ImportError:
    """Return the error for a package that is installed, but whose import fails."""
    try:
        installed = f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        installed = package
    return ImportError(
        f"{name} needs '{installed}', which is installed but does not import: {error}. Install"
        " versions that fit each other: pip install --upgrade 'halocline[engine]'.",
        name=error.name,
    )
