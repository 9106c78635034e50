"""The documentation site: `make docs` builds it from the root of the repository into build/docs.

Pages link to each other, and to files of the repository, as they do on GitHub, so the source folder
is the root; `include_patterns` says which of its Markdown is part of the site.
"""

import importlib.metadata
import os
import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

project = "Halocline"
author = "the Halocline authors"
copyright = f"2026, {author}"  # noqa: A001 - the name that Sphinx reads
release = importlib.metadata.version("halocline")

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "deploy/runbook.md",
    "engine/DESIGN.md",
    "service/DESIGN.md",
    "engine/decisions/*.md",
    "service/decisions/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [".*", "build", "tests", "clients", "benchmarks", "demo*"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
nitpicky = True

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

# Notebooks of the gallery run in a kernel each; those that did not change come from the cache.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_merge_streams = True
nb_execution_cache_path = "build/notebooks"

# Buttons copy what a reader may run: code without prompts, and no output.
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_selector = (
    "div[class*=highlight-]:not(.highlight-text):not(.highlight-none) > div.highlight pre"
)

default_role = "code"
python_maximum_signature_line_length = 60
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
smartquotes = False

templates_path = ["templates"]
html_additional_pages = {"index": "to-the-first-page.html"}
html_theme = "pydata_sphinx_theme"
html_title = "Halocline"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {f"docs/{page}": [] for page in ("install", "tutorial", "troubleshooting")}
html_theme_options = {
    "logo": {"text": f"{project} {release}"},
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
}

_ROW = re.compile(r"^\| \[[^]]*\]\(([^):#]+)\.md\) \|", re.MULTILINE)

#: Pages for developers: part of the site, but not of its search.
_UNSEARCHED = re.compile(r"engine/|service/|docs/performance|docs/design|CONTRIBUTING")


def is_searched(page: str) -> bool:
    """Return whether the search finds a page."""
    return _UNSEARCHED.match(page) is None


class _Site(StandaloneHTMLBuilder):
    """The HTML builder, whose search index has the pages for users only."""

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        if is_searched(pagename):
            super().index_page(pagename, doctree, title)


def setup(app: Sphinx) -> None:
    """Read the contents of sections from their tables, and offer notebooks for download."""
    app.add_builder(_Site, override=True)
    app.connect("source-read", _with_contents)
    app.connect("doctree-read", _with_download, priority=400)  # before downloads are collected


def _with_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Make the pages that the tables of a page lead to, row by row, the pages below it."""
    pages = _ROW.findall(source[0])
    if name.endswith("decisions/README"):
        pages = ["0*", "../../service/decisions/0*"]
        source[0] += "\n```{toctree}\n:glob:\n:titlesonly:\n\n" + "\n".join(pages) + "\n```\n"
    elif pages:
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def _with_download(app: Sphinx, page: nodes.document) -> None:
    """Offer each page of the gallery as the notebook that was run, below its title."""
    name = app.env.docname
    if name.startswith("docs/gallery/"):
        notebook = Path(app.env.mystnb_config.output_folder, f"{name}.ipynb")
        place = f"/{os.path.relpath(notebook, app.srcdir)}"
        link = download_reference("", "Download as a notebook", reftarget=place)
        title = next(iter(page.findall(nodes.title)))
        title.parent.insert(title.parent.index(title) + 1, nodes.paragraph("", "", link))
