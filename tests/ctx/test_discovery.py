"""What a server says of its model counts, once it was asked, and never before."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.transcript import CommandLine
from tests.gateway.running import upstream
from tokenbox import ctx
from tokenbox.catalog import ModelLimits
from tokenbox.compose.requests import By, Count
from tokenbox.config import load, servers
from tokenbox.errors import TokenizerError
from tokenbox.files import CACHE_VARIABLE
from tokenbox.policy.errors import UnknownWindow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.running import Stub
    from tests.llama.server import StartLlama
    from tokenbox.config import Config


__all__ = ["upstream"]


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "_own", {})
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def settings(
    folder: Path, endpoint: str, more: str = "", *, model: str = "tiny", tokenizer: str = "utf8-bytes"
) -> Config:
    file = folder / ".tokenbox" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    text = f'[models.home]\nmodel = "{model}"\nendpoint = "{endpoint}"\ntokenizer = "{tokenizer}"\n{more}'
    file.write_text(text, encoding="utf-8")
    return load(folder, {})


def test_the_server_is_asked_only_when_a_caller_says_so(tmp_path: Path, start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=512)
    config = settings(tmp_path, server.url)
    with pytest.raises(UnknownWindow):
        ctx.enforce("home", ["x" * 500], max_tokens_request=100, config=config)
    (found,) = ctx.discover(config=config)
    assert found.problem is None
    assert found.limits.context_window is not None
    assert found.limits.context_window.value == 512
    verdict = ctx.enforce("home", ["x" * 500], max_tokens_request=100, config=config)
    assert not verdict.ok
    assert verdict.limits.max_ctx == 512
    assert "/v1/models" in verdict.limits.sources["max_ctx"]
    assert ctx.enforce("home", ["x" * 412], max_tokens_request=100, config=config).ok
    info = next(info for info in ctx.capabilities("home", config=config) if info.id == "home")
    assert info.context_window == 512


def test_the_settings_go_before_the_server(tmp_path: Path, start_llama: StartLlama) -> None:
    config = settings(tmp_path, start_llama(n_ctx=512).url, "max_ctx = 300\n")
    ctx.discover(config=config)
    verdict = ctx.enforce("home", ["x" * 250], max_tokens_request=100, config=config)
    assert verdict.limits.max_ctx == 300


def test_a_server_that_is_not_there_is_a_problem_and_no_error(tmp_path: Path) -> None:
    config = settings(tmp_path, "http://127.0.0.1:9")
    (found,) = ctx.discover(config=config)
    assert found.problem is not None
    assert "127.0.0.1:9" in found.problem
    assert config.server_said("home") == ModelLimits()
    assert ctx.discover("nobody", config=config)[0].problem == "no endpoint is set"


def test_models_live_shows_what_the_server_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start_llama: StartLlama
) -> None:
    command_line = CommandLine(monkeypatch, tmp_path)
    settings(command_line.folder, start_llama(n_ctx=512).url)
    before = command_line("models", "home")
    assert before.status == 2
    found = command_line("models", "tiny", "--live")
    assert found.status == 0, found.err
    assert "512" in found.out.decode()
    nobody = command_line("models", "gpt-5", "--live")
    assert nobody.status == 0


def test_the_server_counts_where_the_settings_let_it(tmp_path: Path, start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=512)
    config = settings(tmp_path, server.url, "[tokenize]\nuse_endpoint = true\n")
    chat = [{"role": "user", "content": "Hello there, how are you?"}]
    found = ctx.estimate("home", chat, config=config)
    assert (found.exact, found.count.by) == (True, By.SERVER)
    ctx.discover(config=config)
    verdict = ctx.enforce("home", chat, max_tokens_request=100, config=config)
    assert (verdict.exact, verdict.tokens_in) == (True, found.tokens_in)
    without = ctx.estimate("home", chat, config=settings(tmp_path, server.url))
    assert not without.exact


@pytest.mark.parametrize("allowed", [True, False])
def test_every_command_has_the_number_of_estimate_for_a_model_with_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start_llama: StartLlama, *, allowed: bool
) -> None:
    """The server counts for all of them if the settings let it, and for none of them if they do not."""
    command_line = CommandLine(monkeypatch, tmp_path)
    more = "[tokenize]\nuse_endpoint = true\n" if allowed else ""
    settings(command_line.folder, start_llama(n_ctx=512).url, more, model="gpt-4o", tokenizer="o200k_base")
    tool = {"type": "function", "function": {"name": "tide", "description": "High tide at a port"}}
    body = {"messages": [{"role": "user", "content": "Hello there, how are you?"}], "tools": [tool]}
    (command_line.folder / "chat.json").write_text(json.dumps(body))
    (command_line.folder / "notes.txt").write_text("Hello there")
    check = '[check.chats]\nfiles = ["*.json"]\nbudget = 1000\nmodel = "home"\n'
    with (command_line.folder / ".tokenbox" / "config.toml").open("a") as file:
        file.write(check)

    def said(*arguments: str) -> Any:  # noqa: ANN401  # JSON
        result = command_line(*arguments, "--json")
        assert result.status == 0, result.err
        return json.loads(result.out)

    expected = said("estimate", "-m", "home", "--messages", "chat.json")
    counted = said("count", "-m", "home", "chat.json")["files"][0]["count"]
    fitted = said("fit", "-m", "home", "chat.json", "-b", "400")["count"]
    for found in (counted, fitted):
        assert (found["total"], found["exact"]) == (expected["tokens_in"], allowed)
        assert found["by"] == ("server" if allowed else "published")
    assert said("check")["files"][0]["tokens"] == expected["tokens_in"]
    text = said("count", "-m", "home", "notes.txt")
    assert (text["total"], text["tokenizer"]["exact"]) == (2, False), "another server may have any model"


@pytest.mark.slow
def test_what_was_said_holds_in_other_processes_with_its_day(tmp_path: Path, start_llama: StartLlama) -> None:
    config = settings(tmp_path, start_llama(n_ctx=512).url)
    ctx.discover(config=config, today=date(2026, 11, 21))
    ask = "ctx.enforce('home', ['x'], max_tokens_request=1).limits.sources['max_ctx']"
    code = f"from tokenbox import ctx; print({ask})"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "/v1/models" in run.stdout
    assert "2026-11-21" in run.stdout


def test_a_server_that_cannot_count_makes_nothing_exact(tmp_path: Path, upstream: Stub) -> None:
    """A local count in its place is neither the server's nor proven to be right there."""
    messages = [{"role": "user", "content": "hello"}]

    def count(more: str) -> Count:
        more = f'kind = "openai-compatible"\n{more}'
        config = settings(tmp_path, upstream.url, more, model="gpt-4o", tokenizer="o200k_base")
        return ctx.estimate("home", messages, config=config).count

    found = count("[tokenize]\nuse_endpoint = true\n")
    assert (found.total, found.exact, found.by) == (8, False, By.PUBLISHED)
    assert found.at_most > 2_000
    found = count("")
    assert (found.total, found.exact, found.by) == (8, False, By.PUBLISHED)


def test_a_server_without_an_exact_count_names_a_way_out(tmp_path: Path) -> None:
    settings(tmp_path, "http://127.0.0.1:9")
    file = tmp_path / ".tokenbox" / "config.toml"
    connection = (
        '[models.home]\nmodel = "claude-sonnet-4-5"\nkind = "anthropic"\nendpoint = "http://127.0.0.1:9"\n'
    )
    file.write_text(f"{connection}[tokenize]\nuse_endpoint = true\n", encoding="utf-8")
    config = load(tmp_path, {})
    messages = [{"role": "user", "content": "hello"}]
    with pytest.raises(TokenizerError, match=r"no exact count of this request.* --tokenizer heuristic"):
        ctx.estimate("home", messages, config=config)
    assert not ctx.estimate("home", messages, config=config, tokenizer="heuristic").exact
