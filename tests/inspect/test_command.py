"""``tokenbox inspect`` as a process: served, opened, refused."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tokenbox
from tests.waiting import SECONDS, until
from tokenbox.cli import main

DOCUMENT = (
    'budget = 9\ntokenizer = "utf8-bytes"\n[[sections]]\nid = "a"\ncontent = "some words"\nshrink = 1\n'
)
COMMAND = [sys.executable, "-m", "tokenbox", "inspect"]


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "a.toml"
    path.write_text(DOCUMENT)
    return path


def answer(port: int, path: str, host: str | None = None, method: str = "GET") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    return connection.getresponse()


def test_it_is_served_to_this_machine_only_until_it_is_interrupted(document: Path) -> None:
    with subprocess.Popen([*COMMAND, str(document), "--serve"], stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = re.match(r"serving http://127\.0\.0\.1:(\d+)/ ", server.stderr.readline())
            assert found is not None
            port = int(found[1])
            page = answer(port, "/")
            assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
            assert b"<title>a.toml - tokenbox</title>" in page.read()
            assert answer(port, "/", "evil.example").status == 421
            assert answer(port, "/etc/passwd").status == 404
            assert answer(port, "/", method="POST").status == 501
            head = answer(port, "/", f"localhost:{port}", "HEAD")
            assert (head.status, head.read()) == (200, b"")
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(SECONDS) == 130


def test_a_port_that_is_taken_is_said_to_be(document: Path) -> None:
    with subprocess.Popen([*COMMAND, str(document), "--serve"], stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            port = server.stderr.readline().split(":")[-1].split("/")[0]
            ran = subprocess.run(
                [*COMMAND, str(document), "--serve", "--port", port],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            server.terminate()
            server.wait(SECONDS)
    assert ran.returncode == 2
    assert f"port {port} cannot be used" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_it_is_opened_in_the_browser(document: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}\n')
    script.chmod(0o755)
    out = tmp_path / "out.html"
    environment = {**os.environ, "BROWSER": f"{script} %s"}
    subprocess.run([*COMMAND, str(document), "-o", str(out), "--open"], env=environment, check=True)
    until(lambda: asked.exists() and asked.read_text() == out.as_uri())
    ran = subprocess.run(
        [*COMMAND, str(document), "--open"], env=environment, capture_output=True, text=True, check=True
    )
    page = Path(ran.stderr.removeprefix("page: ").strip())
    try:
        until(lambda: asked.read_text() == page.as_uri())
        assert page.read_bytes() == out.read_bytes()
    finally:
        page.unlink()


@pytest.mark.parametrize("suffix", [".json", ".toml", ".jsonl"])
@pytest.mark.slow
def test_too_many_sections_are_refused_kindly_and_soon(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"many{suffix}"
    number = 200_000
    if suffix == ".json":
        path.write_text(f'{{"budget": 9, "sections": [{",".join(["{}"] * number)}]}}')
    elif suffix == ".toml":
        path.write_text("budget = 9\n" + "[[sections]]\n" * number)
    else:
        path.write_text('{"messages": []}\n' * 2 + json.dumps({"messages": ["x"] * number}))
    ran = subprocess.run(
        [*COMMAND, str(path), "--json"], capture_output=True, text=True, check=False, timeout=4 * SECONDS
    )
    assert ran.returncode == 2
    error = json.loads(ran.stdout)["error"]
    assert (error["code"], error["limit"]) == ("inspect_too_large", 50_000)
    assert "at most 50,000" in ran.stderr


@pytest.mark.parametrize("kind", ["nested", "infinite"])
def test_what_no_program_wrote_is_said_so(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "session.jsonl"
    if kind == "nested":
        content: object = "text"
        for _ in range(400):
            content = [{"type": "tool_result", "content": content}]
        lines = [
            {"type": "user", "uuid": "1", "message": {"role": "user", "content": content}},
            {"type": "assistant", "uuid": "2", "message": {"role": "assistant", "content": "yes"}},
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        file = tmp_path / "layout.json"
        record = tokenbox.layout([{"id": "a", "content": "x"}], 40, "utf8-bytes").to_dict()
        file.write_text(json.dumps({**record, "total": float("inf")}))
    assert main(["inspect", str(file), "-o", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert "inspect_unknown_input" in error
    assert "bug" not in error
