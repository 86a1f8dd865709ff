"""Tokenizers and strategies of other packages and of the operator, named in settings and in requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.check_docs import install

if TYPE_CHECKING:
    from tests.gateway.running import Answer, Gateways, RunningGateway, Stub

PROJECT = """
[project]
name = "acme"
version = "1.0"
[project.entry-points."tokenbox.tokenizers"]
acme-words = "acme_code:words"
acme-bug = "acme_code:bug"
acme-lost = "acme_code:lost"
acme-exit = "acme_exit:words"
[project.entry-points."tokenbox.strategies"]
acme-last = "acme_code:last"
acme-bad = "acme_code:bad"
acme-endless = "acme_code:endless"
[tool.setuptools]
py-modules = ["acme_code", "acme_exit"]
"""
CODE = """
import itertools, pathlib
def words(text): return len(text.split())
def bug(text): raise ZeroDivisionError("by zero")
def last(candidates, budget, count): return [len(candidates) - 1]
def bad(candidates, budget, count): raise ZeroDivisionError("by zero")
def endless(candidates, budget, count): return itertools.repeat(0)
"""
EVIL = (
    "import pathlib\npathlib.Path('ran').touch()\ndef words(text): return 1\ndef last(c, b, n): return [0]\n"
)
SETTINGS = """
[models.house]
max_ctx = 200
reserve_out = 20
tokenizer = "{tokenizer}"
[gateway]
mode = "enforce"
"""
CHUNKS = ["one two three", "four five"]


@pytest.fixture(scope="module")
def own(
    shared_gateways: Gateways, upstream: Stub, tmp_path_factory: pytest.TempPathFactory
) -> RunningGateway:
    """A gateway beside an installed package; its operator allowed one function of a module."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "acme_code.py").write_text(CODE)
    (folder / "acme_exit.py").write_text("raise SystemExit(3)\n")
    (folder / "evil_code.py").write_text(EVIL)
    (folder / "pyproject.toml").write_text(PROJECT)
    install(folder / "pyproject.toml", folder)
    env = {"PYTHONPATH": str(folder), "TOKENBOX_CODE_ALLOWED": "acme_code:words,acme_code:last"}
    return shared_gateways(upstream.url, config=SETTINGS.format(tokenizer="acme-words"), env=env)


def test_a_request_names_what_is_installed_or_allowed(own: RunningGateway) -> None:
    for tokenizer, strategy in (("acme-words", "acme-last"), ("acme_code:words", "acme_code:last")):
        body = {"chunks": CHUNKS, "max_ctx": 4, "tokenizer": tokenizer, "strategy": strategy}
        plan = own.post("/v1/plan", body).json
        assert [chunk["id"] for chunk in plan["packed"]] == ["chunk[1]"]
        assert (plan["total"], plan["tokenizer"]["name"], plan["exact"]) == (2, tokenizer, False)
        refused = own.post("/v1/enforce", body).json
        assert refused["ok"] is False
        assert any("cuts" in remedy for remedy in refused["plan"])
        sections = [{"id": "a", "content": "one two three"}]
        layout = own.post("/v1/layout", {"sections": sections, "budget": 3, "tokenizer": tokenizer}).json
        assert layout["total"] == 3


def test_a_model_of_the_settings_is_counted_by_it(own: RunningGateway) -> None:
    def ask(words: int) -> Answer:
        messages = [{"role": "user", "content": "incomprehensibilities " * words}]
        return own.post("/v1/chat/completions", {"model": "house", "max_tokens": 5, "messages": messages})

    # One for each word, which has five tokens in a usual vocabulary; and the markers of a chat.
    fewer, more = (int(ask(words).headers["x-tokenbox-input-tokens"]) for words in (30, 40))
    assert more - fewer == 10
    assert ask(200).status == 400
    assert own.post("/v1/plan", {"chunks": CHUNKS, "model": "house"}).json["total"] == 5


NOT_ALLOWED = "one that the operator allowed"
WRONG: list[tuple[dict[str, object], str]] = [
    ({"tokenizer": "evil_code:words"}, NOT_ALLOWED),
    ({"strategy": "evil_code:last"}, NOT_ALLOWED),
    ({"tokenizer": "acme-none"}, NOT_ALLOWED),
    ({"strategy": "acme-none"}, NOT_ALLOWED),
    ({"tokenizer": "file:/etc/passwd"}, NOT_ALLOWED),
    ({"tokenizer": ["acme-words"]}, NOT_ALLOWED),
    ({"strategy": ["acme-last"]}, NOT_ALLOWED),
    ({"tokenizer": "acme-lost"}, "cannot be imported: AttributeError"),
    ({"tokenizer": "acme-exit"}, "cannot be imported: SystemExit"),
    ({"tokenizer": "acme-bug"}, "acme-bug failed: ZeroDivisionError"),
]


def test_what_is_not_allowed_or_has_a_bug_is_an_answer(own: RunningGateway) -> None:
    for named, said in WRONG:
        for path in ("/v1/plan", "/v1/enforce"):
            answer = own.post(path, {"chunks": CHUNKS, "max_ctx": 4, "tokenizer": "acme-words", **named})
            assert (answer.status, said in answer.json["error"]["message"]) == (400, True), answer.data
    assert not list(own.folder.rglob("ran"))
    assert "Traceback" not in own.log
    # A bug in a strategy does not take the refusal away.
    for strategy in ("acme-bad", "acme-endless"):
        body = {"chunks": CHUNKS, "max_ctx": 4, "tokenizer": "acme-words", "strategy": strategy}
        refused = own.post("/v1/enforce", body)
        assert (refused.status, refused.json["ok"]) == (200, False)
        answer = own.post("/v1/plan", body)
        assert (answer.status, answer.json["error"]["code"]) == (400, "strategy_failed")
    assert own.get("/healthz").status == 200
