"""Uploads: any Zarr store of plain arrays goes in, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from deadlines import until
from tests.service.conftest import HELD

from halocline_service.api.routes import uploads
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.turns import alone
from halocline_service.jobs.job import UploadRequest
from halocline_service.store.base import StoreAway

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "float64",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": "NaN",
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {},
    "dimension_names": ["x"],
}


def start(service: Running) -> tuple[str, str]:
    answer = service.client.post("/uploads")
    assert answer.status_code == 201
    info = answer.json()
    assert answer.headers["Location"] == f"http://testserver/uploads/{info['id']}"
    assert info["href"] == f"http://testserver/uploads/{info['id']}.zarr"
    assert (info["status"], info["reference"]) == ("open", f"upload:{info['id']}")
    return info["id"], f"/uploads/{info['id']}.zarr"


def put(service: Running, url: str, content: Any) -> Any:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return service.client.put(url, content=data)


def send(service: Running, folder: Path, url: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            answer = service.client.put(
                f"{url}/{path.relative_to(folder)}", content=path.read_bytes()
            )
            assert answer.status_code == 204


def test_a_dataset_is_sent_and_computed_with(service: Running) -> None:
    upload, url = start(service)
    assert service.client.get(f"{url}/zarr.json").status_code == 404
    send(service, service.data / "sst.zarr", url)
    answer = service.client.get(f"{url}/sst/c/0/0/0")
    assert answer.content == (service.data / "sst.zarr/sst/c/0/0/0").read_bytes()
    assert answer.headers["cache-control"] == "no-store"
    done = service.client.post(f"/uploads/{upload}/complete").json()
    files = [path for path in (service.data / "sst.zarr").rglob("*") if path.is_file()]
    assert (done["status"], done["keys"]) == ("complete", len(files))
    assert service.client.post(f"/uploads/{upload}/complete").json() == done
    assert service.client.get(f"/uploads/{upload}").json() == done
    answer = service.client.get(f"{url}/sst/c/0/0/0")
    assert "immutable" in answer.headers["cache-control"]
    job = service.submit(dataset=f"upload:{upload}")
    assert service.wait(job)["status"] == "successful"


def test_metadata_is_consolidated_by_the_service(idle: Running) -> None:
    upload, url = start(idle)
    put(idle, f"{url}/zarr.json", GROUP)
    put(idle, f"{url}/a/zarr.json", ARRAY)
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    root = idle.client.get(f"{url}/zarr.json").json()
    assert root["consolidated_metadata"]["metadata"] == {"a": ARRAY}


def test_consolidated_metadata_that_was_sent_is_not_believed(idle: Running) -> None:
    upload, url = start(idle)
    lie = {"kind": "inline", "must_understand": False, "metadata": {"b": ARRAY}}
    put(idle, f"{url}/zarr.json", GROUP | {"consolidated_metadata": lie})
    put(idle, f"{url}/a/zarr.json", ARRAY)
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    root = idle.client.get(f"{url}/zarr.json").json()
    assert set(root["consolidated_metadata"]["metadata"]) == {"a"}


def test_a_store_of_format_2(idle: Running) -> None:
    upload, url = start(idle)
    array = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [2],
        "dtype": "<f8",
        "compressor": {"id": "zstd", "level": 1},
        "filters": [{"id": "shuffle", "elementsize": 8}],
        "fill_value": "NaN",
        "order": "C",
    }
    put(idle, f"{url}/.zgroup", {"zarr_format": 2})
    put(idle, f"{url}/a/.zarray", array)
    put(idle, f"{url}/a/.zattrs", {"_ARRAY_DIMENSIONS": ["x"]})
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    consolidated = idle.client.get(f"{url}/.zmetadata").json()
    assert consolidated["zarr_consolidated_format"] == 1
    assert set(consolidated["metadata"]) == {".zgroup", "a/.zarray", "a/.zattrs"}


def test_an_upload_that_is_refused_can_be_mended(idle: Running) -> None:
    upload, url = start(idle)
    put(idle, f"{url}/zarr.json", GROUP)
    put(idle, f"{url}/a/zarr.json", ARRAY | {"data_type": "object"})
    refused = idle.client.post(f"/uploads/{upload}/complete")
    assert (refused.status_code, refused.json()["code"]) == (400, "dataset")
    assert refused.json()["detail"] == (
        "Zarr metadata 'a/zarr.json' has data type 'object', which is not supported."
    )
    assert idle.client.get(f"/uploads/{upload}").json()["status"] == "open"
    put(idle, f"{url}/a/zarr.json", ARRAY)
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200


def test_a_complete_upload_is_frozen(idle: Running) -> None:
    upload, url = start(idle)
    put(idle, f"{url}/zarr.json", GROUP)
    idle.client.post(f"/uploads/{upload}/complete")
    late = put(idle, f"{url}/a/zarr.json", ARRAY)
    assert (late.status_code, late.json()["code"]) == (409, "upload")
    assert late.json()["detail"] == f"Upload '{upload}' is complete and cannot be changed."
    assert idle.client.get(f"{url}/a/zarr.json").status_code == 404


def test_an_upload_that_is_not_complete_is_no_dataset(idle: Running) -> None:
    upload, _ = start(idle)
    program = "def f(a: Field[float]):\n  with computation(PARALLEL), interval(...):\n    a = 1.0\n"
    answer = idle.client.post(
        "/processes/stencil/execution",
        json={"inputs": {"program": program, "dataset": f"upload:{upload}"}},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "dataset")
    assert answer.json()["detail"] == f"Upload '{upload}' is not complete."


def test_an_empty_upload_is_no_zarr_store(idle: Running) -> None:
    upload, _ = start(idle)
    answer = idle.client.post(f"/uploads/{upload}/complete")
    assert answer.status_code == 400
    assert answer.json()["detail"] == f"Upload '{upload}' has nothing in it."
    assert answer.json()["hint"].startswith("POST /uploads opens an upload; then PUT /uploads/{id}")


@pytest.mark.parametrize(
    "key",
    ["../x", "..%2Fx", "a/../../x", "%2Fx", "a//b", ".x", "a/.x", "a%00", "a%5Cb", "", "a/", "C:x"],
)
def test_names_that_are_no_keys(idle: Running, key: str) -> None:
    _, url = start(idle)
    before = {path for path in idle.settings.data_dir.rglob("*") if "uploads" not in str(path)}
    answer = put(idle, f"{url}/{key}", b"x")
    assert answer.status_code in (400, 404, 405)
    after = {path for path in idle.settings.data_dir.rglob("*") if "uploads" not in str(path)}
    assert {path.name for path in after - before} <= {"halocline.sqlite3-wal"}
    assert not list(idle.settings.data_dir.glob("uploads/*/*"))


def test_a_key_cannot_be_a_folder_too(idle: Running) -> None:
    _, url = start(idle)
    assert put(idle, f"{url}/a/b", b"x").status_code == 204
    assert put(idle, f"{url}/a", b"x").status_code == 409
    assert put(idle, f"{url}/a/b/c", b"x").status_code == 409


def test_sizes_are_bounded(idle: Running) -> None:
    _, url = start(idle)
    too_large = put(idle, f"{url}/a", b"x" * (2**19 + 1))
    assert (too_large.status_code, too_large.json()["code"]) == (413, "body-too-large")
    assert put(idle, f"{url}/a", b"x" * 2**19).status_code == 204  # more than other bodies may be
    assert put(idle, f"{url}/b", b"x" * 2**19).status_code == 204
    full = put(idle, f"{url}/c", b"x")
    assert (full.status_code, full.json()["code"]) == (413, "body-too-large")
    assert full.json()["detail"] == "The upload has more than 1048576 bytes."
    assert idle.client.get(f"{url}/c").status_code == 404
    assert put(idle, f"{url}/b", b"y" * 2**19).status_code == 204  # sent again, it counts once


def test_the_same_key_gives_the_same_upload(idle: Running) -> None:
    def again() -> Any:
        return idle.client.post("/uploads", headers={"Idempotency-Key": "k-1"})

    with ThreadPoolExecutor(4) as pool:
        answers = [each.result() for each in [pool.submit(again) for _ in range(8)]]
    assert {each.status_code for each in answers} == {201}
    assert len({each.headers["Location"] for each in answers}) == 1
    opened = answers[0].json()
    url = f"/uploads/{opened['id']}.zarr"
    put(idle, f"{url}/zarr.json", GROUP)
    assert again().json() == opened
    done = idle.client.post(f"/uploads/{opened['id']}/complete").json()
    assert again().json() == done  # a late repetition opens nothing
    folders = idle.settings.data_dir / "uploads"
    assert [path.name for path in folders.iterdir()] == [f"{opened['id']}.zarr"]
    assert idle.client.delete(f"/uploads/{opened['id']}").status_code == 204
    assert again().json()["id"] != opened["id"]


def test_an_upload_whose_process_died_is_opened_by_the_same_key(idle: Running) -> None:
    made = idle.store.uploads.add(UploadRequest(owner="local", idempotency_key="k-1"), limit=9)
    answer = idle.client.post("/uploads", headers={"Idempotency-Key": "k-1"})
    assert answer.json()["id"] == made.id
    assert put(idle, f"/uploads/{made.id}.zarr/zarr.json", GROUP).status_code == 204


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_keys_have_a_length(idle: Running, key: str) -> None:
    answer = idle.client.post("/uploads", headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")


def test_a_key_that_is_sent_again_counts_once(idle: Running, client_of: ClientOf) -> None:
    _, url = start(idle)
    for _ in range(4):  # twice the bytes that one upload may have
        assert put(idle, f"{url}/a", b"x" * 2**19).status_code == 204
    assert put(idle, f"{url}/a", b"x" * 100).status_code == 204
    assert put(idle, f"{url}/b", b"x" * 2**19).status_code == 204
    client = client_of(idle.settings.model_copy(update={"upload_keys": 1}))
    few = f"/uploads/{client.post('/uploads').json()['id']}.zarr"
    assert [client.put(f"{few}/a", content=b"x").status_code for _ in range(2)] == [204, 204]
    assert client.put(f"{few}/b", content=b"x").status_code == 413


def test_what_is_refused_is_not_counted(idle: Running) -> None:
    _, url = start(idle)
    assert put(idle, f"{url}/a", b"x" * 2**19).status_code == 204
    for _ in range(3):
        assert put(idle, f"{url}/a/b", b"x" * 2**19).status_code == 409
    assert put(idle, f"{url}/b", b"x" * 2**19).status_code == 204
    for _ in range(3):
        assert put(idle, f"{url}/c", b"x").status_code == 413
    assert put(idle, f"{url}/b", b"").status_code == 204
    assert put(idle, f"{url}/c", b"x").status_code == 204


def test_a_key_that_is_sent_many_times_at_once_counts_once(idle: Running) -> None:
    _, url = start(idle)
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(put, idle, f"{url}/a", b"x" * 2**18) for _ in range(8)]
        assert {each.result().status_code for each in sent} == {204}
    assert put(idle, f"{url}/b", b"x" * 2**19).status_code == 204
    assert put(idle, f"{url}/c", b"x" * 2**18).status_code == 204
    assert put(idle, f"{url}/d", b"x").status_code == 413


def test_the_number_of_uploads_is_bounded(idle: Running, client_of: ClientOf) -> None:
    client = client_of(idle.settings.model_copy(update={"uploads_per_owner": 1}))
    assert client.post("/uploads").status_code == 201
    assert client.post("/uploads").status_code == 429


def test_a_full_disk_is_said(idle: Running, client_of: ClientOf) -> None:
    client = client_of(idle.settings.model_copy(update={"disk_headroom_bytes": 2**60}))
    upload = client.post("/uploads").json()["id"]
    answer = client.put(f"/uploads/{upload}.zarr/a", content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (507, "output")
    assert answer.json()["detail"] == "The object cannot be stored: the disk is full."


def test_an_upload_is_deleted_with_its_files(idle: Running) -> None:
    upload, url = start(idle)
    put(idle, f"{url}/zarr.json", GROUP)
    assert idle.client.delete(f"/uploads/{upload}").status_code == 204
    assert idle.client.get(f"/uploads/{upload}").status_code == 404
    assert list((idle.settings.data_dir / "uploads").iterdir()) == []


def test_a_dataset_that_a_job_reads_is_not_deleted(idle: Running) -> None:
    upload, url = start(idle)
    send(idle, idle.data / "sst.zarr", url)
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    job = idle.submit(dataset=f"upload:{upload}")
    refused = idle.client.delete(f"/uploads/{upload}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in-use")
    assert refused.json()["detail"] == (
        f"'upload:{upload}' cannot be deleted: job '{job}' reads it."
    )
    assert refused.json()["hint"] == (
        "Wait for the job to end, or dismiss it with DELETE /jobs/{id}."
    )
    assert idle.client.get(f"{url}/zarr.json").status_code == 200
    idle.client.delete(f"/jobs/{job}")
    assert idle.client.delete(f"/uploads/{upload}").status_code == 204


def test_a_result_that_a_job_reads_is_not_deleted(service: Running) -> None:
    first = service.submit()
    service.wait(first)
    second = service.submit(dataset=f"job:{first}", scalars=HELD)
    refused = service.client.delete(f"/jobs/{first}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in-use")
    service.client.delete(f"/jobs/{second}")
    assert service.client.delete(f"/jobs/{first}").status_code == 200


def filled(idle: Running) -> tuple[str, str]:
    """Open an upload and send a small store."""
    upload, url = start(idle)
    put(idle, f"{url}/zarr.json", GROUP)
    put(idle, f"{url}/a/zarr.json", ARRAY)
    return upload, url


def test_completing_goes_on_where_a_process_died(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the database went away, after the store was taken from its writers."""

    def fail(*_: object, **__: object) -> None:
        raise StoreAway("The database does not answer.")

    upload, _ = filled(idle)
    with monkeypatch.context() as patch:
        patch.setattr(idle.store.uploads, "complete", fail)
        assert idle.client.post(f"/uploads/{upload}/complete").status_code == 503
    assert idle.client.get(f"/uploads/{upload}").json()["status"] == "open"
    done = idle.client.post(f"/uploads/{upload}/complete")
    assert (done.status_code, done.json()["status"]) == (200, "complete")


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note who asks for a turn to complete or delete an upload."""
    asked: list[Path] = []

    def noted(parts: Path, **named: Any) -> Any:
        asked.append(parts)
        return alone(parts, **named)

    monkeypatch.setattr(uploads, "alone", noted)
    return asked


def test_requests_to_complete_wait_for_each_other(
    idle: Running, monkeypatch: pytest.MonkeyPatch, turns: list[Path]
) -> None:
    """As one that is repeated because its connection was lost."""
    complete = idle.store.uploads.complete

    def slow(*given: Any, **named: Any) -> Any:
        until(lambda: len(turns) == 4)
        return complete(*given, **named)

    monkeypatch.setattr(idle.store.uploads, "complete", slow)
    upload, _ = filled(idle)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(idle.client.post, f"/uploads/{upload}/complete") for _ in range(4)]
        answers = [each.result() for each in asked]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.text for answer in answers}) == 1


def test_deleting_waits_for_completing(
    idle: Running, monkeypatch: pytest.MonkeyPatch, turns: list[Path]
) -> None:
    upload, _ = filled(idle)
    complete = idle.store.uploads.complete
    begun = threading.Event()

    def slow(*given: Any, **named: Any) -> Any:
        begun.set()
        until(lambda: len(turns) == 2)
        return complete(*given, **named)

    monkeypatch.setattr(idle.store.uploads, "complete", slow)
    with ThreadPoolExecutor(1) as pool:
        completed = pool.submit(idle.client.post, f"/uploads/{upload}/complete")
        begun.wait(10)
        assert idle.client.delete(f"/uploads/{upload}").status_code == 204
        assert completed.result().status_code == 200
    assert list((idle.settings.data_dir / "uploads").iterdir()) == []


def test_one_that_takes_too_long_is_told(idle: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_TURN_SECONDS", 0.1)
    upload, _ = filled(idle)
    folder = os.open(idle.settings.data_dir / "uploads" / f"{upload}.parts", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    answer = idle.client.post(f"/uploads/{upload}/complete")
    os.close(folder)
    assert (answer.status_code, answer.json()["code"]) == (409, "upload")
    assert answer.json()["detail"] == (f"Upload '{upload}' is being completed by another request.")
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200


def test_a_late_object_makes_no_new_store(idle: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was received while the upload was open, and comes when it is not."""
    upload, url = filled(idle)

    def late(*_: object) -> None:
        assert idle.store.uploads.remove(upload, owner="local")
        Layout(idle.settings.data_dir.resolve()).forget_upload(upload)

    monkeypatch.setattr("halocline_service.api.routes.objects.check_size", late)
    answer = put(idle, f"{url}/a/c/0", b"x" * 16)
    assert (answer.status_code, answer.json()["code"]) == (409, "upload")
    assert list((idle.settings.data_dir / "uploads").iterdir()) == []


@pytest.mark.parametrize("chunked", [False, True])
def test_an_object_that_is_cut_off_is_not_stored(
    live: str, service: Running, chunked: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    upload, url = start(service)
    folder = service.settings.data_dir / "uploads"
    parts = folder / f"{upload}.parts"
    host = urlsplit(live)
    head = "Transfer-Encoding: chunked" if chunked else "Content-Length: 1000"
    body = b"64\r\n" + b"x" * 100 if chunked else b"x" * 100
    with socket.create_connection((str(host.hostname), int(host.port or 0))) as connection:
        connection.sendall(
            f"PUT {url}/a/c/0 HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode()
        )
        connection.sendall(body)
        until(lambda: list(parts.iterdir()))
    until(lambda: not list(parts.iterdir()))
    assert list((folder / f"{upload}.open").iterdir()) == []
    assert service.client.get(f"{url}/a/c/0").status_code == 404
    text = service.client.get("/metrics").text
    assert 'status="500"' not in text
    assert "Exception" not in capsys.readouterr().err
