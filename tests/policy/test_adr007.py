# ruff: noqa: ANN401  # JSON
"""nrv ADR 007, clause by clause: each from the library and from the command line."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import tokenbox
from tests.gateway.running import shared_gateways, start_gateway, upstream
from tokenbox import ctx, override, tokenizers
from tokenbox.config import forget, read_state, remember
from tokenbox.errors import InvalidTokenizer, NoTokenizer, TokenboxError
from tokenbox.models import Stated, resolve_figures
from tokenbox.policy import GuardLimits
from tokenbox.policy.records import LargerWindow, LowerMaxTokens
from tokenbox.tokenizers.ownership import BASELINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.transcript import CommandLine, Result
    from tests.gateway.running import Gateways, Stub
    from tokenbox.proof import Evidence

__all__ = ["shared_gateways", "start_gateway", "tokenbox", "upstream"]  # fixtures

SETTINGS = """
[models.tiny]
max_ctx = 100
reserve_out = 20
headroom = "0.05"
tokenizer = "utf8-bytes"
"""
CODE = """
def last(candidates, budget, count):
    return [len(candidates) - 1]

def words(text):
    return len(text.split())
"""


@pytest.fixture
def run(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """A project with a small model, a text of 40 bytes and one of 60, and code of its own."""
    (tokenbox.folder / ".tokenbox").mkdir()
    (tokenbox.folder / ".tokenbox" / "config.toml").write_text(SETTINGS)
    (tokenbox.folder / "a").write_text("a" * 40)
    (tokenbox.folder / "b").write_text("b" * 60)
    (tokenbox.folder / "own_adr.py").write_text(CODE)
    monkeypatch.chdir(tokenbox.folder)
    ctx.reload()
    path = list(sys.path)
    yield tokenbox
    sys.path[:] = path
    tokenizers.disable_all_baselines()
    ctx.reload()


CHUNKS = ["a" * 40, "b" * 60]


def said(result: Result) -> Any:
    return json.loads(result.out)


# 1. Userland owns policy


def test_01_repositories_decide_how_to_pack(run: CommandLine) -> None:
    def last(candidates: Any, budget: int, count: Any) -> list[int]:  # noqa: ARG001
        return [len(candidates) - 1]

    assert ctx.pack(CHUNKS, model="tiny", strategy=last).text == "b" * 60
    found = said(run("plan", "-m", "tiny", "--strategy", "own_adr:last", "--json", "a", "b"))
    assert [chunk["id"] for chunk in found["packed"]] == ["b"]


def test_02_what_is_over_the_limit_is_rejected_unless_overridden(run: CommandLine) -> None:
    assert not ctx.enforce("tiny", CHUNKS).ok
    assert ctx.enforce("tiny", CHUNKS, override=override.allow_over_context("we asked")).ok
    assert run("enforce", "-m", "tiny", "a", "b").status == 4
    assert run("enforce", "-m", "tiny", "--allow-over-context", "we asked", "a", "b").status == 0


# 2. Tokenization ownership


def test_03_no_tokenizer_counts_that_nobody_asked_for(run: CommandLine) -> None:
    with pytest.raises(NoTokenizer):
        ctx.estimate("gpt-4o", CHUNKS)
    assert "(no_tokenizer)" in run("estimate", "-m", "gpt-4o", "a").err


def test_04_two_baseline_families_and_no_other(run: CommandLine) -> None:
    assert set(BASELINES) == {"gpt-bpe", "llama3-bpe"}
    assert run("config", "set", "tokenizers.baselines", "gpt-bpe,llama3-bpe").status == 0
    assert run("config", "set", "tokenizers.baselines", "claude-bpe").status == 2
    for name in BASELINES:
        assert run("count", "-t", name, "a").status == 0
        assert tokenizers.get(name).count("a") == 1


def test_05_repositories_register_tokenizers(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers.register("acme", lambda text: len(text.split()), version="3")
    try:
        assert ctx.estimate("acme-7b", ["one two"]).tokens_in == 2
    finally:
        tokenizers.unregister("acme")
    assert run("config", "set", "models.acme-7b.tokenizer", "own_adr:words").status == 0
    assert "(code_not_allowed)" in run("estimate", "-m", "acme-7b", "a").err  # a file chose it, not its user
    monkeypatch.setenv("TOKENBOX_CODE_ALLOWED", str(run.folder))
    assert run("estimate", "-m", "acme-7b", "a").out.split()[:2] == [b"~1", b"a"]


def test_06_settings_enable_and_disable_baselines(run: CommandLine) -> None:
    for enabled in ("gpt-bpe", ""):
        assert run("config", "set", "tokenizers.baselines", enabled).status == 0
        assert run("estimate", "-m", "gpt-4o", "a").status == (0 if enabled else 2)
        if enabled:
            assert ctx.estimate("gpt-4o", ["a"]).exact
            assert tokenizers.resolve("gpt-4o").identity.name == "o200k_base"
            continue
        with pytest.raises(NoTokenizer):
            ctx.estimate("gpt-4o", ["a"])
        with pytest.raises(NoTokenizer):
            tokenizers.resolve("gpt-4o")


@pytest.mark.parametrize("model", ["gpt-4o", "nobody-knows-it", 'odd "name', "x.y"])
def test_07_without_a_tokenizer_it_fails_fast_and_each_remedy_works(run: CommandLine, model: str) -> None:
    with pytest.raises(TokenboxError) as caught:
        ctx.enforce(model, ["a"])
    remedies = caught.value.details["remedies"]
    assert isinstance(remedies, list)
    assert remedies
    result = run("enforce", "-m", model, "a")
    assert result.status == 2
    lines = [line.partition(": ")[2] for line in result.err.splitlines()[1:]]
    assert lines == remedies  # each on its own line, the recommended one first
    settings = (run.folder / ".tokenbox" / "config.toml").read_bytes()
    for remedy in remedies:
        for command in remedy.split(" && "):
            assert run(*shlex.split(command)[1:]).status == 0, command
        assert run("enforce", "-m", model, "a").status == 0, remedy
        (run.folder / ".tokenbox" / "config.toml").write_bytes(settings)


def test_08_the_heuristic_is_an_opt_in(run: CommandLine) -> None:
    assert tokenizers.get("heuristic").count("a" * 40) == 12  # 40 / 4, and 15 % more, rounded up
    assert run("config", "set", "tokenizers.heuristic", "true").status == 0
    found = ctx.estimate("nobody-knows-it", ["a" * 40])
    assert (found.tokens_in, found.exact) == (12, False)
    assert run("estimate", "-m", "nobody-knows-it", "a").out.split()[0] == b"~12"


def test_09_counts_are_deterministic(run: CommandLine) -> None:
    calls = itertools.count()
    with pytest.raises(InvalidTokenizer):
        tokenizers.register("acme", lambda text: next(calls) if text else 0)
    assert len({ctx.estimate("tiny", CHUNKS).tokens_in for _ in range(3)}) == 1
    assert len({run("estimate", "-m", "tiny", "a", "b").out for _ in range(3)}) == 1


def test_10_proof_records_the_tokenizer_and_its_version(run: CommandLine) -> None:
    found: list[Evidence] = []
    ctx.pack(CHUNKS, model="tiny", proof=found.append)
    assert (found[0].tokenizer.name, found[0].tokenizer.version) == ("utf8-bytes", "1")
    run("plan", "-m", "tiny", "--proof", "a", "b")
    (bundle,) = said(run("proof", "list", "--json"))["bundles"]
    shown = said(run("proof", "show", bundle["id"], "--json"))
    assert '"name": "utf8-bytes"' in json.dumps(shown)
    assert '"version": "1"' in json.dumps(shown)


# 3. Minimal interfaces


def test_11_estimate_gives_the_whole_and_each_chunk(run: CommandLine) -> None:
    found = ctx.estimate("tiny", CHUNKS)
    assert (found.tokens_in, found.per_chunk) == (102, (40, 60))
    record = said(run("estimate", "-m", "tiny", "--json", "a", "b"))
    assert (record["tokens_in"], [one["tokens"] for one in record["per_chunk"]]) == (102, [40, 60])


def test_12_capabilities_give_window_output_and_tokenizer(run: CommandLine) -> None:
    found = next(one for one in ctx.capabilities("gpt-4o") if one.id == "gpt-4o")
    assert found.context_window == 128_000
    assert found.max_output_tokens == 16_384
    assert found.tokenizer_name == "o200k_base"
    assert next(one for one in ctx.capabilities() if one.id == "tiny").context_window == 100
    (record,) = [one for one in said(run("models", "gpt-4o", "--json"))["models"] if one["id"] == "gpt-4o"]
    assert "128000" in json.dumps(record)


def test_13_pack_gives_a_plan_and_calls_no_model(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(event: str, arguments: object) -> None:
        if watching and event.startswith("socket."):
            raise AssertionError(event, arguments)

    watching = True
    sys.addaudithook(no_network)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    plan = ctx.pack(CHUNKS, 100, 20, "0.05", "box", tokenizer="utf8-bytes")
    assert (len(plan.packed) + len(plan.dropped), plan.total <= 75) == (2, True)
    assert plan.summary_ops
    found = said(run("plan", "-m", "tiny", "--json", "a", "b"))
    watching = False
    assert found["total"] == plan.total
    assert found["summary_ops"]


def test_14_enforce_says_whether_why_and_what_would_help(run: CommandLine) -> None:
    found = ctx.enforce("tiny", CHUNKS, output_mode="json", max_tokens_request=50)
    assert (found.ok, found.why.over) == (False, 57)
    assert isinstance(found.plan[-1], LargerWindow)
    given = ("--max-tokens", "50", "--output-mode", "json")
    assert said(run("enforce", "-m", "tiny", *given, "--json", "a", "b")) == {
        **found.to_dict(),
        "plan": [{**one, **_named(one)} for one in json.loads(json.dumps(found.to_dict()["plan"]))],
    }


def _named(remedy: dict[str, Any]) -> dict[str, Any]:
    """On the command line chunks have the names of their files."""
    if "cuts" not in remedy:
        return {}
    names = {"chunk[0]": "a", "chunk[1]": "b"}
    text = json.dumps({"cuts": remedy["cuts"], "say": remedy["say"]})
    for name, file in names.items():
        text = text.replace(name, file)
    changed: dict[str, Any] = json.loads(text)
    return changed


def test_15_the_registry_registers_resolves_enables_and_disables(run: CommandLine) -> None:
    tokenizers.enable_baseline("gpt-bpe")
    assert tokenizers.resolve("gpt-4").identity.name == "cl100k_base"
    tokenizers.disable_all_baselines()
    with pytest.raises(NoTokenizer):
        tokenizers.resolve("gpt-4")
    listed = run("tokenizers").out.decode()
    assert all(name in listed for name in ("gpt-bpe", "llama3-bpe"))


# 4. What servers are expected to do


def gateway_settings(stub: Stub) -> str:
    return (
        f'[upstreams.stub]\nurl = "{stub.url}"\nkind = "vllm"\n[policy]\nmax_ctx = 400\n'
        '[gateway]\nmode = "enforce"\n'
    )


def chat(words: int) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "word " * words}]}


def settings_for(run: CommandLine, address: str) -> None:
    """A project whose model ``m`` is behind the gateway at that address."""
    said = f'[models.m]\nendpoint = "{address}"\ntokenizer = "utf8-bytes"\n'
    (run.folder / ".tokenbox" / "config.toml").write_text(said)
    ctx.reload()


def test_16_the_server_exposes_what_models_hold(
    run: CommandLine, shared_gateways: Gateways, upstream: Stub
) -> None:
    """The gateway is our server. Its list of models is what ``ctx.discover`` reads."""
    gateway = shared_gateways(config=gateway_settings(upstream))
    settings_for(run, gateway.url)
    (found,) = ctx.discover("m")
    assert found.limits.context_window is not None
    assert found.limits.context_window.value == 400
    (record,) = [one for one in said(run("models", "m", "--live", "--json"))["models"] if one["id"] == "m"]
    assert record["context_window"]["value"] == 400
    (model, *_) = gateway.get("/v1/models").json["data"]
    assert model["max_model_len"] == 400


@pytest.mark.slow
def test_17_the_server_rejects_what_is_over_and_never_truncates(
    run: CommandLine, shared_gateways: Gateways, upstream: Stub
) -> None:
    gateway = shared_gateways(config=gateway_settings(upstream))
    before = len(upstream.seen)
    answer = gateway.post("/v1/chat/completions", chat(900))
    assert answer.status == 400
    assert "context_length_exceeded" in answer.data.decode()
    # A client with a budget of its own that is too large: what it sends is refused, and not cut.
    asked = run("ask", "--endpoint", gateway.url, "-m", "m", "--budget", "9000", "word " * 900)
    assert asked.status != 0
    assert "context" in asked.err
    assert len(upstream.seen) == before


@pytest.mark.slow
def test_18_the_server_reports_what_is_used_and_what_remains(
    run: CommandLine, shared_gateways: Gateways, upstream: Stub
) -> None:
    gateway = shared_gateways(config=gateway_settings(upstream))
    answer = gateway.post("/v1/chat/completions", chat(9))
    used, left = (int(answer.headers[f"x-tokenbox-{name}"]) for name in ("input-tokens", "remaining"))
    assert used + 10 + left == 400
    # A person sees the same in the shell: its budget is what this server says, less the reserve of 100.
    shell = run("shell", "--endpoint", gateway.url, "-m", "m", "--no-save", stdin=b"What is left?\n:budget\n")
    assert re.search(rb"^~[1-9]\d* of 300 tokens", shell.out, re.MULTILINE)


def test_19_the_servers_own_count_is_an_opt_in(run: CommandLine) -> None:
    """Without ``tokenize.use_endpoint`` an address that answers nobody is not asked."""
    with (run.folder / ".tokenbox" / "config.toml").open("a") as file:
        file.write('endpoint = "http://127.0.0.1:1"\n')
    ctx.reload()
    assert ctx.estimate("tiny", ["abc"]).tokens_in == 3
    assert run("estimate", "-m", "tiny", "a").out.split()[0] == b"40"
    assert said(run("config", "tokenize.use_endpoint", "--json"))["value"] is False


# 5. The guardrail


@pytest.mark.parametrize(("size", "ok"), [(75, True), (76, False)])
def test_20_denied_if_and_only_if_over_the_usable_window(run: CommandLine, size: int, ok: bool) -> None:
    """75 + 20 <= 100 * (1 - 0.05), and 76 + 20 is more."""
    (run.folder / "c").write_text("c" * size)
    assert ctx.enforce("tiny", ["c" * size]).ok is ok
    assert run("enforce", "-m", "tiny", "c").status == (0 if ok else 4)


def test_20_remedies_work_as_they_are_printed(run: CommandLine) -> None:
    """Each command of a refusal, run as it stands there, ends well; none is above what the model gives."""
    for model, tokens in (("tiny", "58"), ("gpt-4", "8100")):
        given = ("-t", "utf8-bytes", "--max-tokens", tokens)
        refused = run("enforce", "-m", model, *given, "a", "b")
        assert refused.status == 4
        commands = [
            line.strip() for line in refused.out.decode().splitlines() if line.startswith("  tokenbox ")
        ]
        assert commands
        for command in commands:
            assert run(*shlex.split(command)[1:]).status == 0, command
    figures = resolve_figures("gpt-4", call=Stated())
    assert figures.max_output is not None
    (lower,) = [
        one
        for one in ctx.enforce("gpt-4", CHUNKS, max_tokens_request=8_100, tokenizer="utf8-bytes").plan
        if isinstance(one, LowerMaxTokens)
    ]
    assert lower.max_tokens == min(figures.max_output, GuardLimits.of(8_192).largest_reserve(102))


# Notes


@pytest.mark.parametrize("command", ["estimate", "plan", "enforce"])
def test_21_what_is_remembered_and_not_understood_is_said(run: CommandLine, command: str) -> None:
    (run.folder / ".tokenbox" / "state.json").write_text('{"values": {"models.tiny.max_ctx": -3}}')
    result = run(command, "-m", "tiny", "a")
    assert result.status == 0
    (warning,) = result.err.splitlines()
    remedy = warning.partition("Remove it with: ")[2]
    assert run(*shlex.split(remedy)[1:]).status == 0
    assert run(command, "-m", "tiny", "a").err == ""


def test_21_choices_are_remembered_for_each_model(run: CommandLine) -> None:
    for key, value in (("max_ctx", "90"), ("reserve_out", "10"), ("strategy", "window")):
        remember(run.folder, f"models.tiny.{key}", value)
    assert read_state(run.folder).values["models.tiny.max_ctx"] == 90
    ctx.reload()
    plan = ctx.pack(["a" * 50, "b" * 60], model="tiny")
    assert (plan.limits.max_ctx, plan.limits.reserve_out, plan.strategy) == (90, 10, "window")
    assert said(run("plan", "-m", "tiny", "--json", "a", "b"))["strategy"] == "window"
    state = run.folder / ".tokenbox" / "state.json"
    text = state.read_text().replace('"models.tiny.max_ctx": 90', '"models.tiny.max_ctx": "many"')
    state.write_text(text.replace('"models.tiny.strategy"', '"models.tiny.mood"'))
    told = run("config").err
    assert "models.tiny.max_ctx" in told
    assert "models.tiny.mood" in told
    forget(run.folder, "models.tiny.reserve_out")
    os.utime(run.folder / ".tokenbox" / "config.toml")
    ctx.reload()
    assert ctx.enforce("tiny", ["a"]).limits.reserve_out == 20
