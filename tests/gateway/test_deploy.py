"""The files for operating the gateway name commands, options and settings that there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import pytest
from typer.main import get_command

from tokenbox.cli.app import build_app
from tokenbox.config.keys import KEYS, OTHER_VARIABLES
from tokenbox.gateway.application import Application
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from tokenbox.gateway.services import GatewayServices

DEPLOY = Path(__file__).parents[2] / "deploy"


def options_of(command: str) -> set[str]:
    found = get_command(build_app()).commands[command]  # type: ignore[attr-defined]  # a group
    return {option for parameter in found.params for option in parameter.opts + parameter.secondary_opts}


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_variables_are_those_of_settings(path: Path) -> None:
    known = {*(key.variable for key in KEYS), *OTHER_VARIABLES}
    used = set(re.findall(r"TOKENBOX_[A-Z_]+", path.read_text(encoding="utf-8")))
    assert used <= known
    assert used


def test_the_unit_starts_what_there_is() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "tokenbox-gateway.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= options_of("serve")


@pytest.mark.parametrize("name", ["tokenbox-gateway.service", "Dockerfile"])
def test_the_settings_are_the_operators_own(name: str) -> None:
    """Or a key is sent to no upstream but its own service, and the command of that error helps no service."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    settings = "/etc/tokenbox/.tokenbox/config.toml"
    assert re.search(rf"^# Settings: {settings}", text, re.MULTILINE)
    assert re.search(rf"^(?:Environment=|ENV )TOKENBOX_USER_CONFIG={settings}(?: |$)", text, re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd reads the unit")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "tokenbox-gateway.service").read_text(encoding="utf-8")
    unit = tmp_path / "tokenbox-gateway.service"
    unit.write_text(text.replace("/opt/tokenbox/bin/tokenbox", sys.executable), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_starts_what_there_is() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    said = {
        line.split()[0]: json.loads(line[line.index("[") :]) for line in lines if line[:3] in ("ENT", "CMD")
    }
    assert said["ENTRYPOINT"] == ["tokenbox"]
    assert said["CMD"][0] == "serve"
    assert {word for word in said["CMD"] if word.startswith("--")} <= options_of("serve")


def test_the_compose_file_starts_what_there_is() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the compose file")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    command = services["gateway"]["command"]
    assert command[0] == "serve"
    assert {word for word in command if word.startswith("--")} <= options_of("serve")
    assert set(services["gateway"]["depends_on"]) <= set(services)
    upstream = command[command.index("--upstream") + 1]
    assert upstream.partition("://")[2].partition(":")[0] in services


def test_the_image_has_what_it_copies() -> None:
    root = DEPLOY.parent
    for line in (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--"):
            assert all((root / name).exists() for name in words[1:-1]), line


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def test_the_image_asks_for_its_health_where_it_listens() -> None:
    text = dockerfile()
    asked = urlsplit(re.findall(r"HEALTHCHECK.*'(http://[^']+)'", text)[0])
    environment = dict(re.findall(r"(TOKENBOX_[A-Z_]+)=(\S+)", text))
    host, port = environment["TOKENBOX_GATEWAY_ADMIN_HOST"], environment["TOKENBOX_GATEWAY_ADMIN_PORT"]
    assert (asked.hostname, str(asked.port)) == (host, port)
    operating = Application(cast("GatewayServices", None), is_local=False)  # no route is asked
    Routes(operating.services).add_operating_to(operating)
    assert ("GET", asked.path) in operating.routes
    assert re.findall(r"EXPOSE (\d+)", text) == [str(GatewaySettings(()).port)]


def test_the_image_writes_only_to_its_volume_and_installs_extras_that_there_are() -> None:
    text = dockerfile()
    (volume,) = re.findall(r"VOLUME (\S+)", text)
    for variable in ("TOKENBOX_GATEWAY_DATABASE", "TOKENBOX_GATEWAY_STATE"):
        assert re.findall(rf"{variable}=(\S+)", text)[0].startswith(f"{volume}/")
    extras = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert set(re.findall(r"'\.\[([a-z,]+)\]'", text)[0].split(",")) <= extras.keys()


def test_the_compose_file_names_its_own_services_ports_and_volumes() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the compose file")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services, gateway = compose["services"], compose["services"]["gateway"]
    command = gateway["command"]
    model = services["model"]["command"]
    assert urlsplit(command[command.index("--upstream") + 1]).port == int(model[model.index("--port") + 1])
    stores = [gateway["environment"][f"TOKENBOX_GATEWAY_{name}"] for name in ("DATABASE", "REDIS")]
    assert {urlsplit(re.sub(r"\$\{[^}]*\}", "x", store)).hostname for store in stores} <= services.keys()
    named = [volume.partition(":")[::2] for one in services.values() for volume in one.get("volumes", ())]
    assert {name for name, _ in named if name.isidentifier()} == compose["volumes"].keys()
    (state,) = re.findall(r"VOLUME (\S+)", dockerfile())
    assert ("state", state) in named
    built = DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]
    assert built.resolve() == DEPLOY / "Dockerfile"
    limits = GatewaySettings(()).limits
    seconds = limits.drain_seconds + limits.grace_seconds
    assert int(gateway["stop_grace_period"].removesuffix("s")) > seconds


def test_the_unit_has_the_folders_and_the_time_that_it_needs() -> None:
    text = (DEPLOY / "tokenbox-gateway.service").read_text(encoding="utf-8")
    (state,) = re.findall(r"StateDirectory=(\S+)", text)
    for name in ("DATABASE", "STATE"):
        assert re.findall(rf"TOKENBOX_GATEWAY_{name}=(\S+)", text)[0].startswith(f"/var/lib/{state}/")
    limits = GatewaySettings(()).limits
    assert int(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) > limits.drain_seconds + limits.grace_seconds
