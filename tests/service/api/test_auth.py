"""Who may see what: API keys, and that nobody sees what is another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halocline_service.auth.keys import create
from halocline_service.settings import Settings

if TYPE_CHECKING:
    from fastapi.testclient import TestClient
    from tests.service.conftest import ClientOf, Running

    from halocline_service.store.base import Store

PUBLIC = {
    *("/", "/conformance", "/api", "/api/3.0", "/problems/{code}"),
    *("/processes", "/processes/{process_id}", "/livez", "/readyz"),
}
PROGRAM = "def f(a: Field[float]):\n  with computation(PARALLEL), interval(...):\n    a = 1.0\n"


@pytest.fixture
def closed(idle: Running) -> Settings:
    return idle.settings.model_copy(update={"auth": "keys"})


@pytest.fixture
def ann(idle: Running, closed: Settings, client_of: ClientOf) -> TestClient:
    key = create(idle.store.keys, "ann").text
    return client_of(closed, Authorization=f"Bearer {key}")


@pytest.fixture
def bob(idle: Running, closed: Settings, client_of: ClientOf) -> TestClient:
    key = create(idle.store.keys, "bob").text
    return client_of(closed, Authorization=f"Bearer {key}")


def operations(idle: Running) -> list[tuple[str, str]]:
    document = idle.app.openapi()
    return [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]


def test_every_route_but_the_public_ones_needs_a_key(
    idle: Running, closed: Settings, client_of: ClientOf
) -> None:
    client = client_of(closed)
    seen: set[str] = set()
    for method, path in operations(idle):
        url = path.replace("{process_id}", "echo").replace("{code}", "dataset")
        answer = client.request(method, url, json={} if method == "POST" else None)
        seen.add(path)
        if path in PUBLIC:
            assert answer.status_code < 400 or path == "/readyz", (method, path, answer.text)
        else:
            assert answer.status_code == 401, (method, path)
            assert answer.json()["code"] == "unauthorized"
            assert answer.headers["www-authenticate"] == 'Bearer realm="halocline"'
    assert seen >= PUBLIC
    assert len(seen) >= 20


@pytest.mark.parametrize(
    "header",
    [
        "Bearer x",
        "Bearer hc_000000000000_" + "a" * 43,
        "Basic aGM6aGM=",
        "Bearer",
        "hc_000000000000_" + "a" * 43,
    ],
)
def test_what_is_no_key(closed: Settings, client_of: ClientOf, header: str) -> None:
    client = client_of(closed, Authorization=header)
    assert client.get("/jobs").status_code == 401


def test_a_key_with_another_secret_is_refused(
    idle: Running, closed: Settings, client_of: ClientOf
) -> None:
    key = create(idle.store.keys, "ann").text
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    assert client_of(closed, Authorization=f"Bearer {key}").get("/jobs").status_code == 200
    assert client_of(closed, Authorization=f"Bearer {wrong}").get("/jobs").status_code == 401


def test_a_revoked_key_is_refused(idle: Running, closed: Settings, client_of: ClientOf) -> None:
    key = create(idle.store.keys, "ann")
    client = client_of(closed, Authorization=f"Bearer {key.text}")
    assert client.get("/jobs").status_code == 200
    idle.store.keys.revoke(key.kept.id)
    assert client.get("/jobs").status_code == 401


def test_the_secret_is_not_kept(idle: Running) -> None:
    key = create(idle.store.keys, "ann")
    secret = key.text.rpartition("_")[2]
    for path in idle.settings.data_dir.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()


def test_what_is_anothers_is_not_there(idle: Running, ann: TestClient, bob: TestClient) -> None:
    """Over all routes: what Ann has is for Bob as if it did not exist, word for word."""
    job = ann.post(
        "/processes/stencil/execution",
        json={"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}},
    ).json()["jobID"]
    upload = ann.post("/uploads").json()["id"]
    missing = "00000000-0000-7000-8000-000000000000"
    tried = 0
    for method, path in operations(idle):
        if "{job_id}" not in path and "{upload_id}" not in path:
            continue
        tried += 1
        mine, none = (
            _normal(bob, method, path, job if "{job_id}" in path else upload, each)
            for each in (None, missing)
        )
        assert mine == none, (method, path)
        # Of the objects of a result 404 would be fill values.
        assert mine[0] == (410 if path.endswith("{output}.zarr/{key}") else 404), (method, path)
    assert tried >= 12
    assert ann.get(f"/jobs/{job}").json()["status"] == "accepted"
    assert ann.get(f"/uploads/{upload}").status_code == 200
    assert bob.get("/jobs").json()["jobs"] == []


def _normal(client: TestClient, method: str, path: str, owned: str, instead: str | None) -> Any:
    used = instead or owned
    url = (
        path.replace("{job_id}", used)
        .replace("{upload_id}", used)
        .replace("{output}", "result")
        .replace("{key}", "zarr.json")
    )
    answer = client.request(method, url)
    return answer.status_code, answer.text.replace(used, "ID")


def test_anothers_data_cannot_be_computed_with(
    idle: Running, ann: TestClient, bob: TestClient
) -> None:
    upload = ann.post("/uploads").json()["id"]
    ann.put(f"/uploads/{upload}.zarr/zarr.json", json={"zarr_format": 3, "node_type": "group"})
    assert ann.post(f"/uploads/{upload}/complete").status_code == 200
    body = {"inputs": {"program": PROGRAM, "dataset": f"upload:{upload}"}}
    assert ann.post("/processes/stencil/execution", json=body).status_code == 201
    refused = bob.post("/processes/stencil/execution", json=body)
    assert (refused.status_code, refused.json()["code"]) == (404, "dataset")


def test_idempotency_keys_are_each_owners_own(ann: TestClient, bob: TestClient) -> None:
    body = {"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    jobs = [
        client.post(
            "/processes/stencil/execution", json=body, headers={"Idempotency-Key": "k"}
        ).json()["jobID"]
        for client in (ann, bob)
    ]
    assert jobs[0] != jobs[1]


def test_without_keys_only_this_machines_names_are_answered(idle: Running) -> None:
    assert idle.client.get("/livez", headers={"Host": "localhost:8000"}).status_code == 200
    assert idle.client.get("/livez", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("owner", ["", " ", " ann", "ann\n", "a\x1b[2J", "\u202e", "a" * 201])
def test_an_owner_has_a_name(store: Store, owner: str) -> None:
    with pytest.raises(ValueError, match="An owner must be a name of 1 to 200 printable"):
        create(store.keys, owner)
    assert list(store.keys.list()) == []
