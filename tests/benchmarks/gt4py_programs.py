"""Programs of `workloads` as GT4Py stencils, from the same text."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from workloads import Case

__all__ = ["gt4py_stencil"]

_HEAD = """\
import numpy as np
from gt4py.cartesian.gtscript import (
    BACKWARD, FORWARD, PARALLEL, Field, computation, float32, float64, interval)
"""


def gt4py_stencil(case: Case, dtype: str, backend: str, folder: Path) -> Any:
    """Return the stencil, compiled; its text is put in a file, where GT4Py reads it from."""
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    name = re.sub(r"\W", "_", f"program_{case.name}_{dtype}")
    text = case.text.format(dtype=dtype)
    text = re.sub(r"Field\[(\w+)\]", r"Field[np.\1]", text)
    text = re.sub(r": (float(?:32|64))\b", r": np.\1", text)
    path = folder / f"{name}.py"
    path.write_text(_HEAD + text.replace("def program(", f"def {name}("))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return gtscript.stencil(backend=backend, definition=getattr(module, name))
