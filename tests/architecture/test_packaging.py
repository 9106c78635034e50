"""What the package says of itself, and what other packages are made of."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
#: Names that packages of conda-forge have instead.
CONDA = {
    "cf-xarray": "cf_xarray",
    "dask": "dask-core",
    "matplotlib": "matplotlib-base",
    "prometheus-client": "prometheus_client",
}


def requirements(*groups: list[str]) -> dict[str, str]:
    """Names and bounds of what groups of requirements list, as conda writes them."""
    found: dict[str, str] = {}
    for each in (one for group in groups for one in group):
        if not each.startswith("halocline["):
            name, bound = re.fullmatch(r"([\w-]+)(.*)", each).groups()  # pyright: ignore[reportOptionalMemberAccess]
            found[CONDA.get(name.lower(), name.lower())] = bound
    return found


def test_the_conda_packages_need_what_the_extras_need() -> None:
    recipe: Any = yaml.safe_load((ROOT / "deploy/conda/recipe.yaml").read_text())
    asked: dict[str, dict[str, str]] = {}
    for output in recipe["outputs"]:
        run = dict(each.split(" ", 1) for each in output["requirements"]["run"])
        asked[output["package"]["name"]] = {
            name: bound
            for name, bound in run.items()
            if name != "python" and not name.startswith("halocline")
        }
    assert recipe["context"]["version"] == PROJECT["project"]["version"]
    assert asked == {
        "halocline-core": requirements(PROJECT["project"]["dependencies"]),
        "halocline": requirements(EXTRAS["http"], EXTRAS["netcdf"], EXTRAS["engine"]),
        "halocline-service": requirements(EXTRAS["service"]),
    }


def test_the_image_installs_what_the_service_needs() -> None:
    script = re.search(r"names = \(([^)]*)\)", (ROOT / "deploy/Dockerfile").read_text())
    assert script is not None
    names = re.findall(r"'([\w-]+)'", script[1])
    asked = {one for extra in ("service", "postgres") for one in included(extra)}
    assert {*names} == asked


def included(extra: str) -> set[str]:
    """Return an extra and the extras that it includes."""
    parts = [re.match(r"halocline\[(.*)\]", each) for each in EXTRAS[extra]]
    inner = {name for part in parts if part for name in part[1].split(",")}
    return {extra}.union(*(included(name) for name in inner))


def test_the_citation_has_the_version_of_the_package() -> None:
    citation: Any = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]


@pytest.mark.parametrize("address", ["https://host/owner/name", ""])
def test_links_of_the_package_lead_to_the_repository_or_nowhere(address: str) -> None:
    class Interface:
        root = str(ROOT)

    module = type(sys)("interface")
    module.MetadataHookInterface = Interface  # pyright: ignore[reportAttributeAccessIssue]
    with patch.dict(sys.modules, {"hatchling.metadata.plugin.interface": module}):
        hook: Any = {"__name__": "build_metadata"}
        exec((ROOT / "build_metadata.py").read_text(), hook)  # noqa: S102 - hatchling runs it so
    metadata: dict[str, Any] = {}

    def address_of(_root: object) -> str:
        return address

    with patch.dict(hook, {"_address": address_of}):
        hook["PackageMetadata"]().update(metadata)
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert all(link.startswith(("https://", "#")) for link in links)
    assert (f"{address}/blob/main/CONTRIBUTING.md" in links) == bool(address)
    assert "Contributing" in text
    assert set(metadata["urls"]) == (
        {"Homepage", "Documentation", "Source", "Issues", "Changelog"} if address else set()
    )
    assert all(url.startswith(address) for url in metadata["urls"].values())
