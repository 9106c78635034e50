"""The API's document as a file: what clients share with the service instead of a package."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from halocline_service.app import create_app
from halocline_service.settings import Settings
from halocline_service.store.memory.store import memory_store

__all__ = ["openapi_text"]


def openapi_text() -> str:
    """Make the text of `deploy/openapi.json`; it does not depend on any setting."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(data_dir=Path(folder), auth="keys"), store=memory_store())
        return json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
