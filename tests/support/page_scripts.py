"""Calls of the page's own modules from tests."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page


def in_module(page: Page, path: str, code: str, given: object = None) -> Any:
    """Run code that is given a `module` of the page and a value, `given`; give what it returns."""
    call = f"""async ([path, given]) => {{
      const script = document.querySelector("script[type=module]").src;
      const module = await import(new URL(path, script));
      {code}
    }}"""
    return page.evaluate(call, [path, given])
