"""The whole shell on a real pseudo-terminal, with the real llama.cpp server behind it."""

from __future__ import annotations

import os
import re
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pexpect  # type: ignore[import-untyped]
import pytest
from aiohttp import web

from tests.providers.fake import serving
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.llama.server import LlamaServer, StartLlama

# Each waits for real processes and a real server.
pytestmark = pytest.mark.slow


@dataclass
class Terminal:
    """Starts shells and types into them. ``log`` is every byte that any of them showed."""

    folder: Path
    log: bytearray

    def environment(self, **more: str) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "SHELL": "/bin/sh",
            "TOKENBOX_POLICY_RESERVE_OUT": "16",
            "TOKENBOX_TOKENIZE_USE_ENDPOINT": "true",
            **more,
        }

    def open(self, *arguments: str, columns: int = 100, **more: str) -> pexpect.spawn:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "tokenbox", "shell", *arguments],
            env=self.environment(**more),
            cwd=str(self.folder),
            dimensions=(40, columns),
            timeout=SECONDS,
        )
        child.logfile_read = _Log(self.log)
        return child


class _Log:
    def __init__(self, into: bytearray) -> None:
        self._into = into

    def write(self, data: bytes) -> None:
        self._into += data

    def flush(self) -> None: ...


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, bytearray())


class Typing:
    """A shell being used. ``sees`` waits for a text to be shown, past what it saw before."""

    def __init__(self, child: pexpect.spawn) -> None:
        self.child = child

    def sees(self, pattern: str) -> re.Match[bytes]:
        self.child.expect(pattern.encode())
        found = self.child.match
        assert isinstance(found, re.Match)
        return found

    def types(self, line: str) -> None:
        self.child.send(line.encode() + b"\r")

    def leaves(self) -> int | None:
        """Ctrl-D at the next prompt."""
        self.sees(r"\d>")
        self.child.sendeof()
        self.child.expect(pexpect.EOF)
        self.child.close()
        status: int | None = self.child.exitstatus
        return status


def test_a_whole_conversation(terminal: Terminal, llama: LlamaServer) -> None:
    shell = Typing(terminal.open("--endpoint", llama.url, "--budget", "400"))
    shell.sees(r"model\.gguf at http://127.* :help for help")
    shell.sees(r"model\.gguf 0/400>")
    shell.types("hello there")
    shell.sees(r"model\.gguf reads \d+ tokens")
    shell.sees(r"maximum length")
    shell.sees(r"model\.gguf ~(\d+)/400>")
    shell.types("!cd / && ls -d /*bin* --color=always; false")
    shell.sees(r"\x1b\[\S*m/bin")
    shell.sees(r"\[exit status 1; (\d+) tokens on offer")
    shell.types("!echo was $?; pwd; test -t 0 && test -t 1 && echo on a terminal")
    shell.sees(r"was 1\r\n/\r\non a terminal")
    shell.types(":tokens hello world")
    shell.sees(r"(\d+) \(http://127.*/tokenize\)")
    shell.child.send(b":cont\t")
    shell.sees("ext")
    shell.types("")
    shell.sees(r"output on offer")
    total = shell.sees(r"total +(\d+) .*of 400 tokens")[1]
    assert shell.sees(r"model\.gguf (\d+)/400>")[1] == total
    shell.types(":nonsens")
    shell.sees(r"error:.* there is no command :nonsens")
    assert shell.leaves() == 0
    assert b"continue with: tokenbox shell --resume" in terminal.log
    assert b"Traceback" not in terminal.log


def test_ctrl_c_interrupts_the_command_and_not_the_shell(terminal: Terminal, llama: LlamaServer) -> None:
    shell = Typing(terminal.open("--endpoint", llama.url, TOKENBOX_POLICY_RESERVE_OUT="12000"))
    shell.sees(r"096>")
    # One program: between two, an interrupt can miss both, in any shell.
    shell.types("!sh -c 'echo start\"\"ed; exec sleep 60'; echo not reached")
    shell.sees("started")
    shell.child.sendintr()
    shell.sees(r"\[exit status 130")
    shell.types("!echo rea''dy; read -r line; echo got $line")
    shell.sees("ready")
    shell.types("typed")
    shell.sees("got typed")
    shell.types("talk for long")
    shell.sees(r"reads \d+ tokens \.\.\.\S*\r\x1b\[K")
    shell.child.sendintr()
    shell.sees(r"\[stopped; the partial answer is kept\]")
    shell.child.sendintr()  # at the prompt it only clears the line
    shell.types("!echo still he''re")
    shell.sees("still here")
    assert shell.leaves() == 0


def test_a_session_survives_a_kill(terminal: Terminal, start_llama: StartLlama) -> None:
    server = start_llama(fresh=True)
    shell = Typing(terminal.open("mine", "--endpoint", server.url))
    shell.sees(r"096>")
    shell.types("remember the penguin")
    shell.sees(r"maximum length")
    shell.sees(r"model\.gguf ~\d+/4,096>")  # the prompt asks no server
    shell.types(":budget")
    used = shell.sees(r"(\d+) of 4,096 tokens")[1]
    shell.child.kill(signal.SIGKILL)
    shell.child.wait()
    again = Typing(terminal.open("--endpoint", server.url, "--resume"))
    again.sees(r"continuing 'mine': 2 messages, " + used.decode() + " tokens")
    again.types(":cost")
    again.sees(r"unpriced for 1 call: \d+ tokens in, 16 out")
    server.kill()
    again.types("are you there?")
    again.sees(r"refuses connections")
    assert again.leaves() == 0
    assert b"Traceback" not in terminal.log


def test_a_kill_in_the_middle_of_an_answer_loses_only_that(
    terminal: Terminal, start_llama: StartLlama
) -> None:
    server = start_llama(fresh=True)
    shell = Typing(terminal.open("mine", "--endpoint", server.url))
    shell.sees("096>")
    shell.types("remember the penguin")
    shell.sees(r"maximum length")
    assert shell.leaves() == 0
    shell = Typing(terminal.open("--endpoint", server.url, "--resume", TOKENBOX_POLICY_RESERVE_OUT="12000"))
    shell.sees("096>")
    shell.types("talk for long")
    shell.sees(r"reads \d+ tokens \.\.\.\S*\r\x1b\[K")
    shell.child.kill(signal.SIGKILL)
    shell.child.wait()
    again = Typing(terminal.open("--endpoint", server.url, "--resume", columns=200))
    again.sees(r"your last question was not answered; ask again: talk for long")
    again.sees(r"continuing 'mine': 2 messages")
    again.types(":cost detail")
    again.sees(r"main .* 2 ")
    assert again.leaves() == 0


@pytest.mark.parametrize("how", ["SIGTERM", "closed"])
def test_a_shell_that_is_ended_keeps_the_partial_answer(
    terminal: Terminal, start_llama: StartLlama, how: str
) -> None:
    server = start_llama(fresh=True)
    shell = Typing(terminal.open("--endpoint", server.url, TOKENBOX_POLICY_RESERVE_OUT="12000"))
    shell.sees("096>")
    shell.types("talk for long")
    shell.sees(r"reads \d+ tokens \.\.\.\S*\r\x1b\[K[^\r]+")
    if how == "closed":
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, shell.child.child_fd)  # the terminal closes, and its number stays pexpect's
        os.close(null)
    else:
        shell.child.kill(signal.SIGTERM)
    shell.child.wait()
    assert shell.child.signalstatus == (signal.SIGHUP if how == "closed" else signal.SIGTERM)
    again = Typing(terminal.open("--endpoint", server.url, "--resume"))
    again.sees(r"continuing '[^']+': 2 messages")
    assert again.leaves() == 0
    assert b"Traceback" not in terminal.log


def test_a_server_that_dies_in_the_middle(terminal: Terminal, start_llama: StartLlama) -> None:
    server = start_llama(fresh=True)
    shell = Typing(terminal.open("--endpoint", server.url, TOKENBOX_POLICY_RESERVE_OUT="12000"))
    shell.sees("096>")
    shell.types("talk for long")
    shell.sees(r"reads \d+ tokens \.\.\.\S*\r\x1b\[K")
    server.kill()
    shell.sees(r"broke off; the partial answer is kept")
    shell.sees(r"\(stream_cut\)")
    start_llama(fresh=True, port=server.port)
    shell.types(":context")
    shell.sees(r"assistant +~?[1-9]")
    assert shell.leaves() == 0
    assert b"Traceback" not in terminal.log


def test_the_model_can_be_switched(terminal: Terminal, llama: LlamaServer, start_llama: StartLlama) -> None:
    settings = terminal.folder / "home" / ".config" / "tokenbox" / "config.toml"
    settings.parent.mkdir(parents=True)
    other = start_llama(template="turns")
    settings.write_text(
        f'model = "one"\n[models.one]\nendpoint = "{llama.url}"\n[models.two]\nendpoint = "{other.url}/"\n'
    )
    shell = Typing(terminal.open("--no-save"))
    shell.sees("one 0/4,096>")
    shell.types("hello world")
    shell.sees("one ~[1-9][0-9]*/4,096>")
    shell.types(":model two")
    shell.sees(re.escape(f"two at {other.url}; the context is"))
    shell.sees("two [1-9][0-9]*/4,096>")
    shell.types("and again")
    shell.sees("maximum length")
    shell.types(":cost detail")
    shell.sees(r"one .*?main.*? 1 ")
    shell.sees(r"two .*?main.*? 1 ")
    shell.sees(r"\[estimated session ctx: \d+ tokens; token_budget=4096 \(\d+% used\)\]")
    assert shell.leaves() == 0


@pytest.mark.parametrize("columns", [60, 200])
def test_no_key_is_on_the_screen_or_on_the_disk(terminal: Terminal, llama: LlamaServer, columns: int) -> None:
    secret = f"sk-{os.urandom(16).hex()}"
    settings = terminal.folder / "home" / ".config" / "tokenbox" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[models.m]\nendpoint = "{llama.url}"\nkey_env = "MY_KEY"\n')
    shell = Typing(terminal.open(columns=columns, MY_KEY=secret))
    shell.sees("096>")
    for line, then in (
        (":config", "proof.texts"),
        (":models", "MY_KEY"),
        ("!env > /dev/null; echo ra''n", r"\d tokens on\s+offer"),
        ("what is in my environment?", "maximum length"),
        (":context --json", '"token_budget"'),
        (":save out.json", "saved to"),
        (":proof write", "verify"),
    ):
        shell.types(line)
        shell.sees(then)
    assert shell.leaves() == 0
    assert secret.encode() not in terminal.log
    files = [path for path in terminal.folder.rglob("*") if path.is_file()]
    assert {"tokenbox.db", "shell_history", "out.json", "manifest.json"} <= {path.name for path in files}
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_without_a_model_it_says_how_to_get_one(terminal: Terminal) -> None:
    shell = Typing(terminal.open(columns=80))
    shell.sees("no model yet")
    shell.types("hello")
    shell.sees(r"tokenbox config set models\.local\.endpoint")
    shell.types("!echo works all the sa''me")
    shell.sees("works all the same")
    assert shell.leaves() == 0


def test_the_wait_for_a_busy_server_is_announced_before_it(terminal: Terminal) -> None:
    async def busy(_request: web.Request) -> web.Response:
        error = {"error": {"message": "loading the model"}}
        return web.json_response(error, status=503, headers={"retry-after": "20"})

    with serving({"/v1/chat/completions": busy}) as server:
        shell = Typing(terminal.open("--endpoint", server.url, "--no-save"))
        shell.sees("096>")
        shell.types("hello")
        shell.sees(r"retrying in 20 s, Ctrl-C stops\]")
        assert server.paths().count("/v1/chat/completions") == 1
        shell.child.sendintr()
        shell.sees("loading the model")
        assert shell.leaves() == 0
