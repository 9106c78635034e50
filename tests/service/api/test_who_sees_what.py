"""Figures of all owners are for operators, and an idempotency key stands for one upload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halocline_service.auth.keys import create

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running


def test_figures_of_all_owners_are_for_operators(idle: Running, client_of: ClientOf) -> None:
    settings = idle.settings.model_copy(update={"auth": "keys", "operators": ["olga"]})
    owners = ("ann", "bob", "olga")
    clients = {
        owner: client_of(settings, Authorization=f"Bearer {create(idle.store.keys, owner).text}")
        for owner in owners
    }
    body = {"inputs": {"string": "x"}}
    for _ in range(3):
        answer = clients["ann"].post(
            "/processes/echo/execution", json=body, headers={"Prefer": "respond-async"}
        )
        assert answer.status_code == 201
    seen = {owner: clients[owner].get("/metrics").text for owner in owners}
    queued = 'halocline_jobs{state="queued"}'
    assert f"{queued} 3.0" in seen["ann"]
    assert f"{queued} 0.0" in seen["bob"]
    assert f"{queued} 3.0" in seen["olga"]
    assert "halocline_http_requests" not in seen["bob"]
    assert "halocline_http_requests" in seen["olga"]


@pytest.mark.parametrize(
    "other", [{"digest": "b" * 64}, {"digest": "a" * 64, "keep": True}, {}], ids=str
)
def test_an_idempotency_key_stands_for_one_upload(idle: Running, other: dict[str, object]) -> None:
    first = {"digest": "a" * 64, "keep": False}
    headers = {"Idempotency-Key": "k"}
    made = idle.client.post("/uploads", json=first, headers=headers)
    assert made.status_code == 201
    again = idle.client.post("/uploads", json=first, headers=headers)
    assert again.json()["id"] == made.json()["id"]
    conflict = idle.client.post("/uploads", json=other, headers=headers)
    assert (conflict.status_code, conflict.json()["code"]) == (409, "idempotency")
    assert conflict.json()["detail"] == ("Idempotency key 'k' was used before for another request.")


def test_readiness_writes_nothing(idle: Running) -> None:
    database = idle.settings.data_dir / "halocline.sqlite3-wal"
    before = database.read_bytes() if database.exists() else b""
    for _ in range(3):
        assert idle.client.get("/readyz").json()["checks"]["database"] == "ok"
    assert (database.read_bytes() if database.exists() else b"") == before
