"""The files for operating the gateway name commands, options and settings that there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tokenbox.cli.app import build_app
from tokenbox.config.keys import KEYS

DEPLOY = Path(__file__).parents[2] / "deploy"


def options_of(command: str) -> set[str]:
    found = get_command(build_app()).commands[command]  # type: ignore[attr-defined]  # a group
    return {option for parameter in found.params for option in parameter.opts + parameter.secondary_opts}


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_variables_are_those_of_settings(path: Path) -> None:
    known = {key.variable for key in KEYS}
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
