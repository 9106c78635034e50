"""Datasets that jobs can name: those of the operator, and the user's own uploads."""

from __future__ import annotations

from halocline_service.api.schemas import DatasetList, UploadInfo, UploadList
from halocline_service.api.ui.html import Html, element
from halocline_service.api.ui.words import moment, size

__all__ = ["datasets_main"]


def datasets_main(datasets: DatasetList, uploads: UploadList, *, before: str | None) -> Html:
    """Write the page."""
    return element(
        "main",
        element("h1", "Datasets"),
        element("section", element("h2", "Your uploads"), _uploads(uploads, before), id="uploads"),
        element("div", id="send"),
        element("section", element("h2", "On the server"), _named(datasets), id="named"),
        id="main",
        tabindex="-1",
    )


def _uploads(uploads: UploadList, before: str | None) -> Html:
    if not uploads.uploads:
        return element("p", "There are none.", class_="empty")
    head = ("Reference", "State", "Size", "Objects", "Created", "")
    older = any(link.rel == "next" for link in uploads.links)
    last = uploads.uploads[-1].id
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", *(element("th", word, scope="col") for word in head))),
            element("tbody", *(_row(each) for each in uploads.uploads)),
        ),
        element(
            "nav",
            element("a", "Newest", href="datasets") if before else None,
            element("a", "Older", href=f"datasets?before={last}") if older else None,
            class_="pager",
            aria_label="More uploads",
        ),
    )


def _row(upload: UploadInfo) -> Html:
    kept = "" if upload.kept else ", goes with its jobs"
    use = element("a", "Use", href=f"new?dataset={upload.reference}")
    return element(
        "tr",
        element("td", element("code", upload.reference)),
        element("td", f"{upload.status}{kept}", data_head="State"),
        element("td", size(upload.bytes), data_head="Size"),
        element("td", "—" if upload.keys is None else upload.keys, data_head="Objects"),
        element("td", moment(upload.created), data_head="Created"),
        element("td", use if upload.status == "complete" else None),
        data_upload=upload.id,
    )


def _named(datasets: DatasetList) -> Html:
    if not datasets.datasets:
        return element(
            "p", "No dataset lies below the folders that the operator names.", class_="empty"
        )
    items = (element("li", element("code", name)) for name in datasets.datasets)
    more = element("p", f"There are more than {len(datasets.datasets)}.")
    return element("div", element("ul", *items), more if datasets.truncated else None)
