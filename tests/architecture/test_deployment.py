"""The compose file keeps its promises: nothing but the API is reachable, nothing runs as root."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from typer.main import get_command

from halocline_service.commands import app
from halocline_service.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NAMES = sorted(SERVICES)
ONCE = ("certificate", "migrate")
TLS = "tls:/var/lib/halocline-tls"
#: Settings that this file gives itself, or that do not apply here.
OWN = {"data_dir", "data_roots", "host", "port", "auth", "public_url", "workers", "gpus"}
CLUSTER = {"scheduler", "tls_identity"}


def commands() -> dict[str, set[str]]:
    """Options of every command of `halocline-server`."""
    group = cast("Any", get_command(app))
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in group.commands.items()
    }


def test_the_services_are_the_processes() -> None:
    assert NAMES == [
        "api",
        "certificate",
        "dispatcher",
        "migrate",
        "scheduler",
        "worker-cpu",
        "worker-gpu",
    ]
    assert SERVICES["worker-cpu"]["profiles"] == ["cpu"]
    assert SERVICES["worker-gpu"]["profiles"] == ["gpu"]


def test_only_the_api_is_reachable_and_on_loopback() -> None:
    assert [name for name in NAMES if "ports" in SERVICES[name]] == ["api"]
    assert SERVICES["api"]["ports"] == ["${HALOCLINE_BIND:-127.0.0.1:8000}:8000"]
    assert SERVICES["api"]["environment"]["HALOCLINE_AUTH"] == "keys"
    assert COMPOSE["networks"]["core"] == {"internal": True}


def test_the_api_shares_no_network_with_what_runs_what_it_is_sent() -> None:
    networks = {name: SERVICES[name]["networks"] for name in NAMES}
    assert networks.pop("api") == ["edge"]
    assert all(network == ["core"] for network in networks.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_service_has_no_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["init"] is True
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")
    assert "privileged" not in service
    assert all(volume.endswith(":ro") for volume in service["volumes"] if ":/data" in volume)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ONCE])
def test_a_service_that_stays_is_looked_after(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


def test_a_gpu_worker_is_given_its_devices_and_allocates_on_them() -> None:
    worker = SERVICES["worker-gpu"]
    (device,) = worker["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert "cupy.ones" in worker["healthcheck"]["test"][1]


def test_what_runs_what_it_is_sent_asks_for_a_certificate_that_the_api_has_not() -> None:
    folder = TLS.partition(":")[2]
    assert {n for n in NAMES if any(folder in v for v in SERVICES[n]["volumes"])} == {
        *("certificate", "dispatcher", "scheduler", "worker-cpu", "worker-gpu")
    }
    assert [name for name in NAMES if TLS in SERVICES[name]["volumes"]] == ["certificate"]
    for name in ("certificate", "dispatcher", "scheduler", "worker-cpu", "worker-gpu"):
        environment = SERVICES[name]["environment"]
        assert environment["HALOCLINE_SCHEDULER"].startswith("tls://")
        assert environment["HALOCLINE_TLS_IDENTITY"].startswith(f"{folder}/")
    assert f"-o 10001 -g 10001 {folder}" in (ROOT / "deploy/Dockerfile").read_text()


def test_health_is_asked_for_with_the_certificate() -> None:
    """A connection without a handshake would be a line of the scheduler's log, each time."""
    for name in ("dispatcher", "scheduler", "worker-cpu"):
        assert SERVICES[name]["healthcheck"]["test"] == ["CMD", "halocline-server", "reach"]


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_the_operator_reach_the_containers(name: str) -> None:
    """A name without a value is taken from `.env` or the shell."""
    given = {key for key, value in SERVICES[name]["environment"].items() if value is None}
    expected = set(Settings.model_fields) - OWN - CLUSTER - {"tls_trusted", "database_url"}
    if name in ("api", "dispatcher", "migrate"):
        expected |= {"database_url"}  # its password is not for those who run what they are sent
    assert given == {f"HALOCLINE_{field.upper()}" for field in expected}


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_settings_exist(name: str) -> None:
    program, command, *rest = SERVICES[name]["command"].split()
    assert program == "halocline-server"
    assert {word for word in rest if word.startswith("--")} <= commands()[command]
    fields = {f"HALOCLINE_{field.upper()}" for field in Settings.model_fields}
    assert set(SERVICES[name]["environment"]) <= fields


def test_every_variable_is_described() -> None:
    example = (ROOT / "deploy/.env.example").read_text()
    text = (ROOT / "docker-compose.yml").read_text()
    used = {part.split(":-")[0] for part in text.split("${")[1:]}
    assert all(f"\n{name}=" in example for name in used)
