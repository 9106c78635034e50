"""What a dispatcher does besides running jobs: tidying, checking datasets, classifying errors."""

from __future__ import annotations

import errno
import inspect
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from deadlines import until
from sqlalchemy import update
from tests.service.conftest import HELD

import halocline_engine
from halocline_engine.errors import (
    ArgumentError,
    CancelledError,
    DatasetError,
    DeviceError,
    InternalError,
    OutputError,
)
from halocline_engine.functions.run import run as run_stencil
from halocline_service.datasets import links
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.references import Resolver
from halocline_service.datasets.turns import alone
from halocline_service.dispatcher.attempts.attempt import ROOM, InProcess, Tools, attempt
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.dispatcher.outcome import Crashed, Failed, Lost, Stopped, outcome_of
from halocline_service.dispatcher.sweep import REMAINS_SECONDS, Sweep
from halocline_service.jobs.job import Job, JobRequest, UploadRequest
from halocline_service.processes.table import PROCESSES
from halocline_service.settings import Settings
from halocline_service.store.base import Page
from halocline_service.store.sql.database import connect, writing
from halocline_service.store.sql.tables import upload as upload_table

if TYPE_CHECKING:
    from tests.service.conftest import Running

PROGRAM = """
def double(inp: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = inp + inp
"""


def _accept(_path: Path) -> None:
    """Find nothing wrong with a file."""


def tools(idle: Running, **changes: Any) -> Tools:
    layout = Layout(idle.settings.data_dir.resolve())
    given: dict[str, Any] = {
        "layout": layout,
        "resolver": Resolver(idle.store, layout, tuple(idle.settings.data_roots)),
        "runner": idle.engine,
        "scan": _accept,
        "cluster": "tcp://scheduler:8786",
        "largest_chunk": 2**30,
    }
    return Tools(**(given | changes))


def claimed(idle: Running, dataset: str, holder: str = "w", **given: Any) -> Job:
    """Put a job into the store past the checks of the API, and claim it."""
    inputs = {"program": "x", "dataset": dataset, **given}
    asked = JobRequest(
        owner="local",
        process="stencil",
        request={"inputs": inputs, "outputs": ["result"]},
        fingerprint="f",
    )
    idle.store.jobs.add(asked, queue_limit=10)
    job = idle.store.jobs.claim(holder)
    assert job is not None
    return job


def run(idle: Running, dataset: str, **changes: Any) -> Any:
    return attempt(
        claimed(idle, dataset), tools(idle, **changes), lambda event: None, lambda: False
    )


def sweep(idle: Running, settings: Settings, *, later: float = 0.0) -> None:
    layout = Layout(settings.data_dir.resolve())
    seconds = settings.upload_open_seconds
    Sweep(idle.store, layout, seconds, now=lambda: time.time() + later).run()


def test_what_an_operator_grants_is_passed_on(idle: Running) -> None:
    run(idle, "sst.zarr", limits={"memory_limit": 10**9, "device_memory_limit": 10**8})
    granted = idle.engine.calls[0]["options"]
    assert (granted.memory_limit, granted.device_memory_limit, granted.chunk_cache) == (
        10**9,
        10**8,
        None,
    )


def test_every_process_takes_what_is_granted() -> None:
    functions = {name for name, one in PROCESSES.items() if one.inline is None} - {
        "stencil",
        "plan",
    }
    assert len(functions) > 10
    for name in ("run", *sorted(functions)):
        assert "options" in inspect.signature(getattr(halocline_engine, name)).parameters, name


def test_the_scheduler_is_passed_on(idle: Running) -> None:
    outputs = run(idle, "sst.zarr")
    assert outputs == {"zarr": {"result": "attempt-1/result.zarr"}}
    assert idle.engine.calls[0]["cluster"] == "tcp://scheduler:8786"
    assert "options" not in idle.engine.calls[0]


def test_references_are_resolved_again(idle: Running) -> None:
    """A link that was put there after the check of the API leads nowhere."""
    with pytest.raises(DatasetError, match="is not under a folder that may be read"):
        run(idle, "/etc/passwd")
    assert idle.engine.calls == []


def test_metadata_is_checked_before_anything_is_opened(idle: Running, tmp_path: Path) -> None:
    root = tmp_path / "more"
    (root / "bad.zarr" / "a").mkdir(parents=True)
    (root / "bad.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O"}
    (root / "bad.zarr" / "a" / ".zarray").write_text(json.dumps(array))
    resolver = Resolver(idle.store, Layout(idle.settings.data_dir), (root,))
    with pytest.raises(DatasetError, match=r"has data type '\|O', which is not supported"):
        run(idle, "bad.zarr", resolver=resolver)
    assert idle.engine.calls == []


@pytest.mark.parametrize("seconds", [0.25, -1.0])
@pytest.mark.parametrize("place", ["sst/c/0/0/0", "sst/c/1", "x/zarr.json"])
def test_links_that_lead_out_of_the_roots_are_refused(
    idle: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, seconds: float
) -> None:
    """Before anything is read; or, where there is much to look at, before a result is shown."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    shutil.copytree(idle.data / "sst.zarr", root / "linked.zarr")
    outside.mkdir()
    (root / "linked.zarr" / place).rename(outside / "secret")
    (root / "linked.zarr" / place).symlink_to(outside / "secret")
    monkeypatch.setattr(links.Links.begin, "__kwdefaults__", {"seconds": seconds})
    resolver = Resolver(idle.store, Layout(idle.settings.data_dir.resolve()), (root,))
    with pytest.raises(DatasetError) as caught:
        run(idle, "linked.zarr", resolver=resolver)
    assert caught.value.message == (
        f"In dataset 'linked.zarr', '{place}' is a link that leads out of the folders that may be "
        "read."
    )
    assert len(idle.engine.calls) == (0 if seconds > 0 else 1)


def test_links_within_the_roots_are_followed(idle: Running, tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    shutil.copytree(idle.data / "sst.zarr", root / "linked.zarr")
    other.mkdir()
    chunks = root / "linked.zarr" / "sst" / "c" / "1"
    chunks.rename(other / "chunks")
    chunks.symlink_to(other / "chunks")
    (root / "linked.zarr" / "sst" / "c" / "again").symlink_to(root / "linked.zarr" / "sst")
    layout = Layout(idle.settings.data_dir.resolve())
    assert run(idle, "linked.zarr", resolver=Resolver(idle.store, layout, (root, other)))
    (other / "chunks" / "0" / "1").symlink_to("/etc/hostname")
    with pytest.raises(DatasetError, match="leads out of the folders"):
        run(idle, "linked.zarr", resolver=Resolver(idle.store, layout, (root, other)))


def test_folders_that_cannot_be_listed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links in them could be followed all the same."""
    (tmp_path / "a.zarr" / "c").mkdir(parents=True)
    scan = os.scandir

    def refuse(folder: str) -> Any:
        if folder.endswith("c"):
            raise PermissionError
        return scan(folder)

    monkeypatch.setattr("halocline_service.datasets.links.os.scandir", refuse)
    with pytest.raises(DatasetError) as caught:
        links.Links("a.zarr", tmp_path / "a.zarr", [tmp_path]).begin()
    assert caught.value.message == "In dataset 'a.zarr', 'c' cannot be listed."


def test_folders_that_go_meanwhile_have_no_links(tmp_path: Path) -> None:
    (tmp_path / "a.zarr" / "c").mkdir(parents=True)
    looked = links.Links("a.zarr", tmp_path / "a.zarr", [tmp_path])
    looked.begin(seconds=-1.0)
    (tmp_path / "a.zarr" / "c").rmdir()
    looked.finish()


def test_files_are_scanned_before_anything_is_opened(idle: Running, tmp_path: Path) -> None:
    root = tmp_path / "more"
    root.mkdir()
    (root / "a.nc").write_bytes(b"\x89HDF\r\n\x1a\n")
    seen: list[Path] = []

    def scan(path: Path) -> None:
        seen.append(path)
        raise DatasetError("It reads another file.")

    resolver = Resolver(idle.store, Layout(idle.settings.data_dir), (root,))
    with pytest.raises(DatasetError, match="It reads another file"):
        run(idle, "a.nc", resolver=resolver, scan=scan)
    assert seen == [root / "a.nc"]
    assert idle.engine.calls == []


def test_a_result_that_would_open_as_empty_is_not_published(idle: Running) -> None:
    def runner(*_: object, output: str, **__: object) -> None:
        Path(output).mkdir()
        (Path(output) / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')

    with pytest.raises(InternalError, match="wrote no consolidated Zarr store as the result"):
        run(idle, "sst.zarr", runner=runner)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (DeviceError("It failed."), Crashed, "device"),
        (ConnectionResetError(), Lost, "device"),
        (TimeoutError(), Lost, "device"),
        (ArgumentError("It is wrong."), Failed, "argument"),
        (OSError(errno.ENOSPC, "full"), Failed, "output"),
        (MemoryError(), Failed, "capacity"),
        (OSError(errno.EIO, "broken"), Lost, "device"),
        (OSError(errno.ESTALE, "stale"), Lost, "device"),
        (OSError(errno.ETIMEDOUT, "late"), Lost, "device"),
        (OSError(errno.EMFILE, "many"), Lost, "device"),
        (FileNotFoundError(errno.ENOENT, "gone"), Failed, "internal"),
        (KeyError("secret"), Failed, "internal"),
    ],
)
def test_errors_are_retried_only_if_another_attempt_may_help(
    error: Exception, kind: type, code: str
) -> None:
    outcome = outcome_of(error)
    assert isinstance(outcome, kind)
    assert isinstance(outcome, Failed | Lost | Crashed)
    assert outcome.error["code"] == code
    assert "secret" not in str(outcome.error)


def test_a_result_that_is_larger_than_the_disk_is_refused_by_the_engine(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it begins, with numbers, and without telling where the service keeps its files."""
    usage = shutil.disk_usage("/")._replace(free=100)
    place = "halocline_engine.distribute.jobs.outputs.shutil.disk_usage"
    monkeypatch.setattr(place, Mock(return_value=usage))
    job = claimed(idle, "sst.zarr", program=PROGRAM, fields={"inp": "sst"})
    used = tools(idle, runner=run_stencil, cluster=None)
    with pytest.raises(OutputError) as caught:
        attempt(job, used, lambda event: None, lambda: False)
    assert caught.value.message == (
        f"The run needs up to 768 bytes under 'the service's folder/jobs/{job.id}/attempt-1', "
        "but only 100 are free."
    )
    assert caught.value.hint == ROOM


def test_a_job_that_is_dismissed_is_no_matter_of_the_log(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock()
    monkeypatch.setattr("halocline_service.dispatcher.loop._log", log)
    job = service.submit(scalars=HELD)
    service.wait(job, "running")
    service.client.delete(f"/jobs/{job}")
    told = log.bind.return_value
    until(lambda: "job ended" in [call.args[0] for call in told.info.call_args_list])
    assert not told.warning.called


def test_what_was_read_from_a_dataset_that_was_deleted_is_not_published(
    idle: Running, tmp_path: Path
) -> None:
    """A chunk that is gone reads as fill values, without an error."""
    root = tmp_path / "more"
    shutil.copytree(idle.data / "sst.zarr", root / "a.zarr")
    resolver = Resolver(idle.store, Layout(idle.settings.data_dir.resolve()), (root,))

    def runner(program: str, dataset: str, **given: Any) -> Any:
        shutil.rmtree(Path(dataset) / "sst" / "c")
        result = idle.engine(program, dataset, **given)
        shutil.rmtree(dataset)
        return result

    with pytest.raises(DatasetError) as caught:
        run(idle, "a.zarr", resolver=resolver, runner=runner)
    assert str(caught.value.message) == "Dataset 'a.zarr' was deleted while it was read."
    assert caught.value.hint == ("Submit the job again with a dataset that exists until its end.")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_ends_the_job_and_leaves_nothing(
    service: Running, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def runner(*_: object, output: str, workspace: str, **__: object) -> None:
        (Path(workspace) / "pass-000002.json").write_text("half")
        Path(output).mkdir()
        (Path(output) / "zarr.json").write_text("half")
        raise OSError(code, "No space left on device", output)

    monkeypatch.setattr(type(service.engine), "__call__", runner)
    job = service.submit()
    done = service.wait(job)
    assert done["status"] == "failed"
    assert done["attempt"] == 1
    assert done["message"] == "The result cannot be written: the disk is full."
    assert (done["exception"]["code"], done["exception"]["hint"]) == ("output", ROOM)
    answer = service.client.get(f"/jobs/{job}/results")
    assert (answer.status_code, answer.json()["code"]) == (507, "output")
    folder = service.settings.data_dir / "jobs" / job
    until(lambda: not list(folder.rglob("*")))


def test_being_cancelled_is_no_failure() -> None:
    assert outcome_of(CancelledError("Stop.")) == Stopped()


def test_files_that_nothing_needs_are_swept(idle: Running) -> None:
    layout = Layout(idle.settings.data_dir.resolve())
    removed = claimed(idle, "sst.zarr")
    layout.work(removed.id).mkdir(parents=True)
    idle.store.jobs.cancel(removed.id, owner="local")
    assert idle.store.jobs.remove(removed.id, owner="local")
    finished = claimed(idle, "sst.zarr")
    layout.work(finished.id).mkdir(parents=True)
    idle.store.jobs.cancel(finished.id, owner="local")
    idle.store.jobs.drop(finished.lease)
    writing = claimed(idle, "sst.zarr")
    layout.work(writing.id).mkdir(parents=True)
    sweep(idle, idle.settings)
    assert not layout.work(finished.id).exists()
    assert layout.work(removed.id).exists()  # its worker may still write, and tidies up itself
    sweep(idle, idle.settings, later=2 * REMAINS_SECONDS)
    assert not layout.job(removed.id).exists()
    assert layout.work(writing.id).exists()


def test_a_dispatcher_sweeps_when_it_starts(idle: Running) -> None:
    layout = Layout(idle.settings.data_dir.resolve())
    finished = claimed(idle, "sst.zarr")
    layout.work(finished.id).mkdir(parents=True)
    idle.store.jobs.cancel(finished.id, owner="local")
    idle.store.jobs.drop(finished.lease)
    stop = threading.Event()
    thread = threading.Thread(
        target=Dispatcher(idle.settings, idle.store, InProcess(tools(idle))).run, args=(stop,)
    )
    thread.start()
    until(lambda: not layout.work(finished.id).exists())
    stop.set()
    thread.join()


def test_uploads_that_were_left_expire(idle: Running) -> None:
    layout = Layout(idle.settings.data_dir.resolve())
    settings = idle.settings.model_copy(update={"upload_open_seconds": 3600.0})

    def opened(*, idle_seconds: float) -> str:
        upload = idle.client.post("/uploads").json()["id"]
        assert idle.client.put(f"/uploads/{upload}.zarr/a", content=b"x").status_code == 204
        age(layout.upload_parts(upload), idle_seconds)
        return upload

    def age(path: Path, seconds: float) -> None:
        then = time.time() - seconds
        os.utime(path, (then, then))

    left, lately, coming, held = (opened(idle_seconds=each) for each in (7200, 60, 7200, 7200))
    (layout.upload_parts(coming) / "part").write_bytes(b"x")
    age(layout.upload_parts(coming), 7200)
    # Its process died before it made a folder.
    lost = idle.store.uploads.add(UploadRequest(owner="local"), limit=9).id
    young = idle.store.uploads.add(UploadRequest(owner="local"), limit=9).id
    engine = connect(settings.database)
    with writing(engine) as db:
        old = upload_table.c.id != young
        db.execute(update(upload_table).where(old).values(created=time.time() - 7200))
    engine.dispose()
    with alone(layout.upload_parts(held), seconds=1.0):
        sweep(idle, settings)
    kept = {each.id for each in idle.store.uploads.list("local", Page())}
    assert kept == {lately, coming, held, young}
    names = {path.name for path in (layout.root / "uploads").iterdir()}
    assert names == {
        f"{each}.{kind}" for each in (lately, coming, held) for kind in ("open", "parts")
    }
    answer = idle.client.put(f"/uploads/{left}.zarr/a", content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert idle.client.get(f"/uploads/{lost}").status_code == 404


def test_a_complete_upload_does_not_expire(idle: Running) -> None:
    upload = idle.client.post("/uploads").json()["id"]
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    idle.client.put(f"/uploads/{upload}.zarr/zarr.json", content=json.dumps(group))
    assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    settings = idle.settings.model_copy(update={"upload_open_seconds": 1e-6})
    sweep(idle, settings)
    assert idle.client.get(f"/uploads/{upload}.zarr/zarr.json").status_code == 200
