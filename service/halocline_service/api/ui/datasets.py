"""The page 'Datasets': those of the operator, and the user's uploads."""

from __future__ import annotations

from urllib.parse import quote

from halocline_service.api.schemas import DatasetList, UploadInfo, UploadList
from halocline_service.api.ui.html import Html, element
from halocline_service.api.ui.words import moment, size

__all__ = ["datasets_main"]


def datasets_main(datasets: DatasetList, uploads: UploadList, *, before: str | None) -> Html:
    """Write the page."""
    return element(
        "main",
        element("h1", "Datasets"),
        element("section", element("h2", "On the server"), _named(datasets), id="named"),
        element("section", element("h2", "Your uploads"), _uploads(uploads, before), id="uploads"),
        element("div", id="send"),
        id="main",
        tabindex="-1",
    )


def _uploads(uploads: UploadList, before: str | None) -> Html:
    if not uploads.uploads:
        return element("p", "You have no uploads.", class_="empty")
    head = ("Reference", "State", "Size", "Files", "Created", "")
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
    kept = "" if upload.kept else ", deleted with its jobs"
    is_complete = upload.status == "complete"
    inside = element("div", data_dataset=upload.reference, class_="inside")
    return element(
        "tr",
        element("td", element("code", upload.reference), inside if is_complete else None),
        element("td", f"{upload.status}{kept}", data_head="State"),
        element("td", size(upload.bytes), data_head="Size"),
        element("td", "—" if upload.keys is None else upload.keys, data_head="Files"),
        element("td", moment(upload.created), data_head="Created"),
        element("td", _use(upload.reference) if is_complete else None),
        data_upload=upload.id,
    )


def _use(reference: str) -> Html:
    address = f"new?dataset={quote(reference, safe=':', errors='replace')}"
    return element("a", "Use in a new job", href=address, class_="button")


def _named(datasets: DatasetList) -> Html:
    if not datasets.datasets:
        return element("p", "There are no datasets in the folders of the operator.", class_="empty")
    items = (
        element(
            "li",
            element(
                "div",
                element("strong", name),
                element("div", data_dataset=name, class_="inside"),
            ),
            _use(name),
        )
        for name in datasets.datasets
    )
    more = element("p", f"There are more than {len(datasets.datasets)}.")
    listed = element("ul", *items, class_="datasets")
    return element("div", listed, more if datasets.truncated else None)
