"""An endpoint of another package: as docs/extending.md has it, and what cannot be added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import SECONDS
from tokenbox.gateway.application import Application
from tools.check_docs import ROOT, install, marked_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.running import Gateways, Stub
    from tokenbox.gateway.asgi import Reply

PROJECT = """
[project]
name = "taker"
version = "1.0"
[project.entry-points."tokenbox.endpoints"]
taker = "{module}:routes"
[tool.setuptools]
py-modules = ["{module}"]
"""
MODULES = {
    "takes_ours": "async def own(i, r): ...\ndef routes(s): return [('GET', '/healthz', own)]\n",
    "takes_chat": "async def own(i, r): ...\ndef routes(s): return [('POST', '/v1/chat/completions', own)]\n",
    "breaks": "def routes(s): raise RuntimeError('no')\n",
}


def test_of_paths_that_end_with_a_name_the_longest_answers() -> None:
    async def handler(*_: object) -> Reply:
        raise NotImplementedError

    services: Any = None
    app = Application(services, is_local=False)
    paths = [f"{'/a' * depth}/{{name}}" for depth in range(1, 20)]
    for path in paths:
        app.add("GET", path, handler)
    assert [app.route_path(path.replace("{name}", "x")) for path in paths] == paths


def test_the_endpoint_of_the_page_answers_who_has_a_key(
    shared_gateways: Gateways, upstream: Stub, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for block in marked_blocks(page):
        if block.file in ("pyproject.toml", "acme_endpoint.py"):
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
            install(tmp_path / block.file, tmp_path)
    options = ["--database", str(tmp_path / "keys.db")]
    key = shared_gateways.command("gateway", "keys", "create", "one", *options)
    env = {"PYTHONPATH": str(tmp_path)}
    gateway = shared_gateways(upstream.url, options=[*options, "--keys"], env=env)
    assert gateway.post("/acme/words", b"one two").status == 401
    answer = gateway.post("/acme/words", b"one two", authorization=f"Bearer {key}")
    assert (answer.status, answer.json) == (200, {"words": 2})
    assert gateway.get("/acme/words", authorization=f"Bearer {key}").status == 405
    assert gateway.get("/healthz").json == {"status": "ok"}


@pytest.mark.parametrize(
    ("module", "why"),
    [
        pytest.param("takes_ours", "ValueError: GET /healthz is taken", marks=pytest.mark.slow),
        ("takes_chat", "ValueError: POST /v1/chat/completions is taken"),
        ("breaks", "RuntimeError: no"),
        pytest.param("lost", "ModuleNotFoundError", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_added_stops_the_start(
    shared_gateways: Gateways, upstream: Stub, tmp_path: Path, module: str, why: str
) -> None:
    if module in MODULES:
        (tmp_path / f"{module}.py").write_text(MODULES[module], encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(module=module), encoding="utf-8")
    install(tmp_path / "pyproject.toml", tmp_path)
    gateway = shared_gateways(upstream.url, env={"PYTHONPATH": str(tmp_path)}, wait=False)
    assert gateway.process.wait(SECONDS) == 2
    assert why in gateway.log
    assert "(gateway_endpoint)" in gateway.log
    assert "Traceback" not in gateway.log
