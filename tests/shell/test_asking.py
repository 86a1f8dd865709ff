"""``tokenbox ask``: one question, with a pipe as its context."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.cli.transcript import CommandLine
from tests.providers.fake import head_of, raw, serving
from tests.shell.test_servers import HEAD, delta, says, script
from tests.waiting import SECONDS
from tokenbox.providers.counting import TokenCount
from tokenbox.providers.memory import SESSION
from tokenbox.shell.asking import ask as ask_once
from tokenbox.shell.room import refusal
from tokenbox.store.calls import CallSpan
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tests.llama.server import LlamaServer
    from tests.shell.conftest import Begin

    Ask = Callable[..., "Asked"]


SETTINGS = {"TOKENBOX_POLICY_RESERVE_OUT": "12", "TOKENBOX_TOKENIZE_USE_ENDPOINT": "true"}


@dataclass
class Asked:
    stdout: bytes
    stderr: bytes
    returncode: int


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run ``tokenbox ask``, as a script does."""
    tokenbox = CommandLine(monkeypatch, tmp_path)
    for name, value in {**SETTINGS, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    SESSION.forget()

    def run(*arguments: str, stdin: bytes = b"") -> Asked:
        ran = tokenbox("ask", *arguments, stdin=stdin)
        return Asked(ran.out, ran.err.encode(), ran.status)

    return run


def test_the_answer_is_on_standard_output(ask: Ask) -> None:
    with serving(
        {"/v1/models": {"data": [{"id": "m"}]}, "/v1/chat/completions": script(says("42", " it is"))}
    ) as server:
        ran = ask("--endpoint", server.url, "What", "is it?")
        sent = server.asked[-1].body
    assert (ran.stdout, ran.stderr, ran.returncode) == (b"42 it is\n", b"", 0)
    assert sent["messages"] == [{"role": "user", "content": "What is it?"}]


def test_a_pipe_is_cut_to_the_budget_and_the_record_says_so(ask: Ask, llama: LlamaServer) -> None:
    data = "\n".join(f"line {n} of the log" for n in range(2000)).encode()
    ran = ask("--endpoint", llama.url, "--budget", "300", "--json", "What went wrong?", stdin=data)
    assert ran.returncode == 0
    record = json.loads(ran.stdout)
    assert record["prompt"]["tokens"] <= 300
    assert record["prompt"]["exact"] is True
    assert record["usage"]["input_tokens"] == record["prompt"]["tokens"]
    assert 0 < record["input"]["kept"] < record["input"]["tokens"]
    assert b"the middle is left out" in ran.stderr


def test_what_fits_is_sent_whole(ask: Ask) -> None:
    with serving(
        {"/v1/models": {"data": [{"id": "m"}]}, "/v1/chat/completions": script(says("fine"))}
    ) as server:
        ran = ask("--endpoint", server.url, "--system", "Be brief.", "ok?", stdin=b"\x1b[31mred\x1b[0m\n\n")
        messages = server.asked[-1].body["messages"]
    assert ran.returncode == 0
    assert [message["content"] for message in messages] == ["Be brief.", "red\n\nok?"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "code"),
    [
        (("--budget", "3", "a question with more tokens than that"), b"", 3, "context_critical_overflow"),
        (("what?",), b"\x00\x01binary", 2, "bad_arguments"),
        (("--model", "nosuch", "what?"), b"", 2, "server_failed"),
    ],
)
def test_failures_have_their_status_and_code(
    ask: Ask, arguments: tuple[str, ...], stdin: bytes, status: int, code: str
) -> None:
    routes = {"/v1/models": {"data": [{"id": "m"}]}, "/v1/chat/completions": (500, {"error": "broken"})}
    with serving(routes) as server:
        ran = ask("--endpoint", server.url, "--json", *arguments, stdin=stdin)
    assert (ran.returncode, json.loads(ran.stdout)["error"]["code"]) == (status, code)
    assert f"({code})".encode() in ran.stderr
    assert b"Traceback" not in ran.stderr


def test_a_server_that_is_not_there_is_said_once(ask: Ask) -> None:
    ran = ask("--endpoint", "http://127.0.0.1:9", "what?")
    assert ran.returncode == 2
    assert ran.stderr.count(b"error:") == 1
    assert b"(connection_refused)" in ran.stderr


def test_what_it_cost_is_in_the_ledger(ask: Ask, llama: LlamaServer, tmp_path: Path) -> None:
    assert ask("--endpoint", llama.url, "hello").returncode == 0
    with open_store(tmp_path / "tokenbox.db") as store:
        assert store.calls.totals(CallSpan()).calls == 1


@pytest.mark.slow
def test_ctrl_c_prints_what_came(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        event = b"data: %s\n\n" % json.dumps(delta(content="half an ans")).encode()
        writer.write(HEAD + b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
        await reader.read()  # until the client leaves

    settings = tmp_path / ".config" / "tokenbox" / "config.toml"
    settings.parent.mkdir(parents=True)
    with raw(talk) as server:
        settings.write_text(f'[models.m]\nendpoint = "{server.url}"\nkind = "openai-compatible"\n')
        process = subprocess.Popen(
            [sys.executable, "-m", "tokenbox", "ask", "what?"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TOKENBOX_POLICY_RESERVE_OUT": "12"},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        came = process.stdout.read(len("half an ans"))
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=SECONDS)
    assert (came + rest, process.returncode) == (b"half an ans\n", 130)
    assert said == b"[stopped; the partial answer is kept]\n"


@pytest.mark.parametrize(("per_byte", "window"), [(1, None), (3, None), (None, 4_000)])
def test_what_is_sent_is_within_the_budget_whatever_the_model_counts(
    start: Begin, monkeypatch: pytest.MonkeyPatch, per_byte: int | None, window: int | None
) -> None:
    """The local tokenizer that cuts has one token a byte; the model has more, or is only estimated."""
    settings = '[models.m]\nendpoint = "{}"\ntokenizer = "utf8-bytes"\n'
    settings += "" if window is None else f"max_ctx = {window}\n[policy]\nuncertain = 'bound'\n"
    with serving({"/v1/chat/completions": script(says("fine"))}) as server:
        session, _ = start(settings=settings.format(server.url), flags={"shell.token_budget": window or 400})
        if per_byte is not None:

            def count(messages: Sequence[Mapping[str, Any]], _: object) -> TokenCount:
                size = sum(len(message["content"]) for message in messages)
                return TokenCount(size * per_byte, exact=True, source="server")

            monkeypatch.setattr(session.models, "count_request", count)
        result = ask_once(session, "why?", b"one two three\n" * 4000)
        verdict = refusal(session)
    assert verdict is None
    assert result.kept is not None
    assert result.given == 14 * 4000 - 1
    assert (window or 400) // 3 < result.sent.value <= (window or 400)
