"""Uploads that are named by their content, and go with the last job that reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from fastapi import Request

from halocline_service.api.routes import uploads
from halocline_service.auth.keys import create
from halocline_service.datasets.digests import digest_of, digest_within
from halocline_service.datasets.tree import Census
from halocline_service.jobs.job import UploadRequest
from halocline_service.settings import Settings
from halocline_service.store.base import Store

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

PROGRAM = """
def double(inp: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = inp + inp
"""


def opened(client: Any, digest: str | None, **given: Any) -> Any:
    return client.post("/uploads", json={"digest": digest, **given})


def put(client: Any, folder: Path, upload: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            url = f"/uploads/{upload}.zarr/{path.relative_to(folder)}"
            assert client.put(url, content=path.read_bytes()).status_code == 204


def sent(idle: Running, *, keep: bool = False) -> str:
    """Send the dataset of all tests, announced by its digest."""
    folder = idle.data / "sst.zarr"
    upload = opened(idle.client, digest_of(folder), keep=keep).json()["id"]
    put(idle.client, folder, upload)
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    return upload


def summed(folder: Path) -> str:
    """Make a digest as anyone can in a shell."""
    command = "find . -type f | cut -c3- | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum"
    done = subprocess.run(["sh", "-c", command], cwd=folder, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split()[0]


def files(idle: Running) -> set[str]:
    return {path.name for path in (idle.settings.data_dir / "uploads").iterdir()}


def dismissed(idle: Running, job: str) -> None:
    """End a job and remove it."""
    for _ in range(2):
        assert idle.client.delete(f"/jobs/{job}").status_code == 200


def test_a_digest_is_what_sha256sum_makes_of_it(idle: Running) -> None:
    folder = idle.data / "sst.zarr"
    command = "find . -type f | cut -c3- | LC_ALL=C sort | xargs sha256sum | sha256sum"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == digest_of(folder)


def test_keys_are_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    for name in ("b", "a/0", "a.b", "A", "\u00e4", "\U00010000", "\uffee"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    command = "find . -type f | cut -c3- | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == digest_of(tmp_path)


def test_the_same_content_is_sent_once(idle: Running) -> None:
    digest = digest_of(idle.data / "sst.zarr")
    upload = sent(idle)
    answer = opened(idle.client, digest, keep=False)
    assert answer.status_code == 200
    info = answer.json()
    assert (info["id"], info["status"], info["digest"], info["kept"]) == (
        upload,
        "complete",
        digest,
        False,
    )
    assert opened(idle.client, digest).json()["kept"]
    assert opened(idle.client, "0" * 64).status_code == 201
    assert opened(idle.client, None).status_code == 201
    assert idle.client.post("/uploads").status_code == 201
    for wrong in ("0", "G" * 64, "A" * 64, digest + "\n"):
        assert opened(idle.client, wrong).status_code == 400
    assert opened(idle.client, digest, kept=True).json()["code"] == "argument"


def test_an_open_upload_is_nobodys_content(idle: Running) -> None:
    digest = digest_of(idle.data / "sst.zarr")
    first, second = (opened(idle.client, digest).json() for _ in range(2))
    assert first["id"] != second["id"]
    assert "digest" not in first


def test_what_another_owner_has_is_not_told(
    settings: Settings, store: Store, client_of: ClientOf, data: Path
) -> None:
    for owner in ("ann", "bob"):
        key = create(store.keys, owner).text
        keyed = settings.model_copy(update={"auth": "keys"})
        client = client_of(keyed, Authorization=f"Bearer {key}")
        answer = opened(client, digest_of(data / "sst.zarr"))
        assert answer.status_code == 201
        upload = answer.json()["id"]
        put(client, data / "sst.zarr", upload)
        assert client.post(f"/uploads/{upload}/complete").status_code == 200


def test_a_digest_is_not_believed(idle: Running) -> None:
    """What lies there is what counts; and it can be mended."""
    folder, announced = idle.data / "sst.zarr", digest_of(idle.data / "sst.zarr")
    upload = opened(idle.client, announced).json()["id"]
    put(idle.client, folder, upload)
    broken = f"/uploads/{upload}.zarr/sst/c/0/0/0"
    whole = (folder / "sst/c/0/0/0").read_bytes()
    assert idle.client.put(broken, content=whole[:-1]).status_code == 204
    found = digest_of(idle.settings.data_dir / "uploads" / f"{upload}.open")
    for _ in range(2):
        answer = idle.client.post(f"/uploads/{upload}/complete")
        assert (answer.status_code, answer.json()["code"]) == (409, "upload")
        assert answer.json()["detail"] == (
            f"Upload '{upload}' has the digest {found}, but {announced} was announced."
        )
        assert answer.json()["hint"] == (
            "Send the objects that differ again and complete it again, or delete it and begin anew."
        )
    assert opened(idle.client, announced).status_code == 201  # it is nobody's content yet
    assert idle.client.put(broken, content=whole).status_code == 204
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    assert opened(idle.client, announced).json()["id"] == upload


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["check_tree", "digest_of", "consolidate", "count"])
@pytest.mark.parametrize("then", [False, True])
def test_a_completion_that_is_cut_off_is_made_again(
    idle: Running, monkeypatch: pytest.MonkeyPatch, step: str, then: bool
) -> None:
    """Metadata that was written meanwhile is not what was sent, and is not compared with it."""
    folder = idle.data / "sst.zarr"
    upload = opened(idle.client, digest_of(folder)).json()["id"]
    put(idle.client, folder, upload)
    work, freeze = getattr(uploads, step), vars(uploads)["_freeze"]

    def killed(*given: Any, **more: Any) -> Any:
        if then:
            work(*given, **more)
        raise Killed

    row = idle.store.uploads.get(upload, owner=None)
    assert row is not None
    request = Request({"type": "http", "app": idle.app})
    with monkeypatch.context() as patch:
        patch.setattr(uploads, step, killed)
        with pytest.raises(Killed):
            freeze(request, idle.app.state.context, row)
    answer = idle.client.post(f"/uploads/{upload}/complete")
    assert answer.status_code == 200, answer.text
    assert opened(idle.client, row.digest).json()["id"] == upload


def test_a_change_after_a_refusal_is_compared_again(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = idle.data / "sst.zarr"
    upload = opened(idle.client, digest_of(folder)).json()["id"]
    put(idle.client, folder, upload)
    with monkeypatch.context() as patch:  # refused after its digest was found to be right
        patch.setattr(uploads, "count", Mock(return_value=Census(1, 2**60)))
        assert idle.client.post(f"/uploads/{upload}/complete").status_code == 413
    assert idle.client.put(f"/uploads/{upload}.zarr/sst/c/0/0/0", content=b"x").status_code == 204
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 409


def test_an_upload_goes_with_the_last_job_that_reads_it(idle: Running) -> None:
    upload, kept = sent(idle), idle.client.post("/uploads").json()["id"]
    first, second = (idle.submit(dataset=f"upload:{upload}") for _ in range(2))
    dismissed(idle, first)
    assert f"{upload}.zarr" in files(idle)
    assert opened(idle.client, digest_of(idle.data / "sst.zarr"), keep=False).status_code == 200
    dismissed(idle, second)
    assert files(idle) == {f"{kept}.open", f"{kept}.parts"}
    assert idle.client.get(f"/uploads/{upload}").status_code == 404


def test_an_upload_of_its_own_stays(idle: Running) -> None:
    upload = sent(idle, keep=True)
    dismissed(idle, idle.submit(dataset=f"upload:{upload}"))
    assert files(idle) == {f"{upload}.zarr"}
    assert idle.client.get(f"/uploads/{upload}").json()["kept"]


def test_an_upload_that_goes_while_a_job_comes_is_told(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = sent(idle)
    add = idle.store.jobs.add
    gone: list[object] = []

    def late(*given: Any, **more: Any) -> Any:
        gone.append(idle.store.uploads.remove(upload, owner="local"))
        return add(*given, **more)

    monkeypatch.setattr(idle.store.jobs, "add", late)
    inputs = {"program": PROGRAM, "dataset": f"upload:{upload}"}
    for _ in range(2):  # at the last moment, and before anything was looked at
        answer = idle.client.post("/processes/stencil/execution", json={"inputs": inputs})
        assert (answer.status_code, answer.json()["code"]) == (404, "dataset")
        assert answer.json()["detail"] == f"There is no upload '{upload}'."
        assert answer.json()["missing"] == f"upload:{upload}"
    assert len(gone) == 1
    assert idle.client.get("/jobs").json()["jobs"] == []


def test_the_way_out_at_the_limit_works(idle: Running) -> None:
    limit = idle.settings.uploads_per_owner
    for _ in range(limit):
        idle.store.uploads.add(UploadRequest(owner="local"), limit=limit)
    answer = idle.client.post("/uploads")
    assert (answer.status_code, answer.json()["code"]) == (429, "queue-full")
    assert answer.json()["detail"] == f"You have {limit} uploads, and no more are allowed."
    assert answer.json()["hint"] == (
        "Delete some: GET /uploads lists yours, DELETE /uploads/{id} deletes one. Uploads for jobs"
        " are deleted with the last job."
    )
    first = idle.client.get("/uploads").json()["uploads"][0]["id"]
    assert idle.client.delete(f"/uploads/{first}").status_code == 204
    assert idle.client.post("/uploads").status_code == 201


def test_what_is_large_is_not_digested(tmp_path: Path) -> None:
    (tmp_path / "a.nc").write_bytes(b"twelve bytes")
    listed = subprocess.run(["sha256sum", tmp_path / "a.nc"], capture_output=True, check=True)
    assert digest_within(tmp_path / "a.nc", 12) == listed.stdout.decode().split()[0]
    assert digest_within(tmp_path / "a.nc", 11) is None
    assert digest_within(tmp_path, 12) == digest_of(tmp_path)
    assert digest_within(tmp_path, 11) is None
