# ruff: noqa: ANN401, ARG001, ARG005  # anything is given as chunks; a fixture is a folder to be in; strategies take three
"""Strategies of a user's own: functions, modules and entry points; what they promise is checked."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ctx.asking import document
from tokenbox import ContextCriticalOverflow, Section, ctx
from tokenbox.ctx import Candidate, CutChunks, StrategyFailed, UnknownStrategy
from tokenbox.errors import InvalidTokenizer
from tokenbox.named_code import entry_points_of
from tokenbox.policy.guard import needed
from tokenbox.policy.strategies import Ranking
from tokenbox.tokenizers.registry import of_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def newest_first(candidates: Sequence[Candidate], budget: int, count: Callable[[str], int]) -> list[int]:
    left, chosen = budget, []
    for one in reversed(candidates):
        if one.tokens + 2 <= left:
            left -= one.tokens + 2
            chosen.append(one.index)
    return chosen


def test_a_function_is_a_strategy(project: Path) -> None:
    plan = ctx.pack(["a" * 40, "b" * 30, "c" * 20], 60, 0, 0, newest_first, tokenizer="utf8-bytes")
    assert plan.text == "c" * 20 + "\n\n" + "b" * 30
    assert plan.strategy.endswith("test_strategies:newest_first")
    assert [one.id for one in plan.dropped] == ["chunk[0]"]
    assert plan.total == 52
    again = ctx.pack(["a" * 40, "b" * 30, "c" * 20], 60, 0, 0, newest_first, tokenizer="utf8-bytes")
    assert plan.layout.digest == again.layout.digest
    blocks = [document("a", "apple " * 6), document("b", "berry " * 6)]
    chosen = ctx.pack(blocks, 130, 0, 0, lambda c, b, n: [1], tokenizer="utf8-bytes")
    assert [one.id for one in chosen.packed] == ["block[1]"]
    assert "berry" in chosen.text
    assert "apple" not in chosen.text


def test_a_strategy_may_shorten_sections(project: Path) -> None:
    def first_words(candidates: Sequence[Candidate], budget: int, count: Callable[[str], int]) -> list[Any]:
        return [(one.index, one.text[:10]) for one in candidates if count(one.text[:10]) <= budget]

    plan = ctx.pack(["a" * 40, "b" * 30], 22, 0, 0, first_words, tokenizer="utf8-bytes")
    assert plan.text == "a" * 10 + "\n\n" + "b" * 10
    assert [(one.decision.value, one.size) for one in plan.packed] == [("compressed", 10)] * 2


def test_a_strategy_is_found_by_module_and_by_setting(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "our_policy.py").write_text(
        "def last(candidates, budget, count):\n    return [len(candidates) - 1]\n"
    )
    monkeypatch.syspath_prepend(str(project))
    plan = ctx.pack(["a", "b"], 100, strategy="our_policy:last", model="tiny")
    assert (plan.text, plan.strategy) == ("b", "our_policy:last")
    with (project / ".tokenbox" / "config.toml").open("a") as file:
        file.write('strategy = "our_policy:last"\n')
    ctx.reload()
    assert ctx.pack(["a", "b"], 100, model="small").text == "b"
    verdict = ctx.enforce("small", ["a" * 90, "b" * 90])
    (cut,) = [one for one in verdict.plan if isinstance(one, CutChunks)]
    assert cut.plan.text == "b" * 90


@pytest.fixture
def _installed() -> Iterator[None]:
    """The list of installed packages is read again before and after a test that installs one."""
    entry_points_of.cache_clear()
    yield
    entry_points_of.cache_clear()


@pytest.mark.usefixtures("_installed")
def test_an_installed_strategy_is_found_by_its_entry_point(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = project / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tokenbox.strategies]\nacme-last = acme_plugin:last\nbroken = acme_plugin:none\n"
    )
    (project / "acme_plugin.py").write_text(
        "def last(candidates, budget, count):\n    return [len(candidates) - 1]\n"
    )
    monkeypatch.syspath_prepend(str(project))
    assert ctx.pack(["a", "b"], 100, strategy="acme-last", model="tiny").text == "b"
    with pytest.raises(UnknownStrategy, match="Did you mean 'acme-last'"):
        ctx.pack(["a"], 100, strategy="acme-lost", model="tiny")
    with pytest.raises(StrategyFailed, match="AttributeError") as caught:
        ctx.pack(["a"], 100, strategy="broken", model="tiny")
    assert isinstance(caught.value.__cause__, AttributeError)


class Alternating:
    def __init__(self) -> None:
        self.turn = 0

    def __call__(
        self, candidates: Sequence[Candidate], budget: int, count: Callable[[str], int]
    ) -> list[int]:
        self.turn += 1
        return [self.turn % 2]


def boom(candidates: Sequence[Candidate], budget: int, count: Callable[[str], int]) -> list[int]:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (Alternating(), "not deterministic"),
        (boom, "failed: ZeroDivisionError"),
        (lambda c, b, n: [2], "from 0 to 1"),
        (lambda c, b, n: [-1], "from 0 to 1"),
        (lambda c, b, n: ["chunk[0]"], "an answer is an index"),
        (lambda c, b, n: [True], "an answer is an index"),
        (lambda c, b, n: [(0, b"x")], "an answer is an index"),
        (lambda c, b, n: [0, 0], "twice"),
        (lambda c, b, n: [0, 1], "chose 12 tokens as a whole, 2 over"),
        (lambda c, b, n: [(0, "x" * 11)], "over the 10"),
        (lambda c, b, n: None, "failed: TypeError"),
        (lambda c, b, n: itertools.repeat(0), "twice"),
        (lambda c, b, n: sys.exit(1), "failed: SystemExit"),
        (lambda c, b, n: {0}, "gave a set, which has no order"),
        (lambda: [0], "failed: TypeError"),
    ],
)
def test_a_strategy_that_breaks_its_promise_is_refused(project: Path, strategy: Any, why: str) -> None:
    with pytest.raises(StrategyFailed, match=why):
        ctx.pack(["a" * 5, "b" * 5], 10, 0, 0, strategy, tokenizer="utf8-bytes")


def test_a_strategy_keeps_what_is_critical(project: Path) -> None:
    chunks: list[Any] = [Section("rules", "abc"), "def"]
    with pytest.raises(StrategyFailed, match="left out rules"):
        ctx.pack(chunks, 100, 0, 0, lambda c, b, n: [1], tokenizer="utf8-bytes")
    with pytest.raises(StrategyFailed, match="changed rules"):
        ctx.pack(chunks, 100, 0, 0, lambda c, b, n: [(0, "a")], tokenizer="utf8-bytes")
    with pytest.raises(StrategyFailed, match="only sections"):
        ctx.pack([document("a", "b")], 900, 0, 0, lambda c, b, n: [(0, "a")], tokenizer="utf8-bytes")


@pytest.mark.parametrize("strategy", [lambda c, b, n: [one.index for one in c], boom])
def test_where_nothing_could_fit_no_strategy_is_to_blame(project: Path, strategy: Any) -> None:
    """What must be kept is too much: the same refusal as for our own strategies, with its figures."""
    requests: list[list[Any]] = [
        [Section("rules", "a" * 30), "notes"],
        [{"role": "system", "content": "a" * 30}, {"role": "user", "content": "b"}],
    ]
    for chunks, size in zip(requests, (30, 48), strict=True):
        with pytest.raises(ContextCriticalOverflow, match=rf"[ ~]{size}\b"):
            ctx.pack(chunks, 20, 0, 0, strategy, tokenizer="utf8-bytes")
        verdict = ctx.enforce("m", chunks, max_ctx=20, max_tokens_request=0, strategy=strategy, tokenizer=len)
        assert not verdict.ok
        assert [type(remedy).__name__ for remedy in verdict.plan] == ["LargerWindow"]


def test_errors_of_a_strategy_come_out_with_their_cause(project: Path) -> None:
    with pytest.raises(StrategyFailed) as caught:
        ctx.pack(["a"], 100, strategy=boom, model="tiny")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_tokenizers_are_named_as_strategies_are(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = project / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tokenbox.tokenizers]\nacme-words = acme_tokenizers:words\nacme-broken = acme_tokenizers:none\n"
    )
    (project / "acme_tokenizers.py").write_text("def words(text):\n    return len(text.split())\n")
    monkeypatch.syspath_prepend(str(project))
    for name in ("acme_tokenizers:words", "acme-words"):
        found = ctx.estimate("acme", ["one two three"], tokenizer=name)
        assert (found.tokens_in, found.exact, found.tokenizer.name) == (3, False, name)
    with (project / ".tokenbox" / "config.toml").open("a") as file:
        file.write('[models.acme]\ntokenizer = "acme_tokenizers:words"\n')
    ctx.reload()
    assert ctx.estimate("acme", ["one two"]).tokens_in == 2
    for bad in ("acme-broken", "acme_tokenizers:none", "no_such_module:f"):
        with pytest.raises(InvalidTokenizer, match="cannot be imported"):
            ctx.estimate("acme", ["one"], tokenizer=bad)
    entry_points_of.cache_clear()
    broken, listed = of_packages()
    entry_points_of.cache_clear()
    assert (broken.name, broken.identity) == ("acme-broken", None)
    assert (listed.name, listed.summary) == ("acme-words", "installed: acme_tokenizers:words")
    assert listed.identity is not None


def test_by_worth_what_the_last_question_needs_stays() -> None:
    turns = [{"role": "user", "content": f"topic {name} " + "blah " * 40} for name in ("apples", "rivers")]
    messages = [
        {"role": "system", "content": "You help."},
        *turns,
        *({"role": "user", "content": f"more of stones {n} " + "blah " * 40} for n in range(3)),
        {"role": "user", "content": "what did I say of rivers?"},
    ]
    plan = ctx.pack(messages, 180, 20, strategy="worth", tokenizer="o200k_base")
    kept = [one.index for one in plan.packed]
    assert {0, 2, 6} <= set(kept)
    assert kept == sorted(kept)
    assert plan.count.total <= plan.budget


@pytest.mark.parametrize("tokenizer", ["o200k_base", "gpt-4o"])
def test_by_worth_leaves_room_for_tools_and_markers(tokenizer: str) -> None:
    """It adds up messages; what is sent has more. That is no failure of the caller's."""
    chat = [{"role": "user", "content": f"tide {n} at Brest"} for n in range(40)]
    parameters = {"type": "object", "properties": {"a": {"type": "string", "description": "words " * 40}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    whole = ctx.estimate(None, chat, tokenizer=tokenizer, tools=tools).tokens_in
    for max_ctx in range(whole - 250, whole, 25):
        plan = ctx.pack(chat, max_ctx, 0, strategy="worth", tokenizer=tokenizer, tools=tools)
        assert plan.total <= max_ctx
        assert plan.packed[-1].id == "message[39]"


@given(st.lists(st.tuples(st.text(max_size=60), st.booleans()), max_size=12), st.integers(0, 200))
def test_by_worth_is_within_the_budget_where_the_critical_ones_are(
    chunks: list[tuple[str, bool]], budget: int
) -> None:
    candidates = [
        Candidate(i, f"c{i}", text, len(text), critical=critical) for i, (text, critical) in enumerate(chunks)
    ]
    kept = Ranking(candidates).within(budget)
    assert kept == sorted(set(kept))
    assert {one.index for one in candidates if one.critical} <= set(kept)
    size = sum(len(chunks[i][0]) for i in kept)
    critical = sum(len(text) for text, is_critical in chunks if is_critical)
    assert size <= max(budget, critical)


def test_settings_name_a_strategy_for_each_kind(project: Path) -> None:
    with (project / ".tokenbox" / "config.toml").open("a") as file:
        file.write(
            '[policy]\nstrategy = "box"\n[policy.strategies]\nmessages = "worth"\nsections = "window"\n'
        )
    ctx.reload()
    chat = [{"role": "user", "content": "why?"}]
    plans = [ctx.pack(chunks, 900, 10, tokenizer="utf8-bytes") for chunks in (chat, ["a"])]
    assert [plan.strategy for plan in plans] == ["worth", "window"]
    with (project / ".tokenbox" / "config.toml").open("a") as file:
        file.write('[models.mine]\nmax_ctx = 900\nstrategy = "box"\ntokenizer = "utf8-bytes"\n')
    ctx.reload()
    assert ctx.pack(["a"], model="mine").strategy == "box"
    assert ctx.pack(chat, model="mine").strategy == "window"  # box is not for chats


@pytest.mark.parametrize("form", ["sections", "messages", "blocks"])
def test_by_worth_keeps_everything_that_fits_and_spends_the_budget(form: str) -> None:
    """A chunk of three tokens costs no eight more."""
    made: dict[str, list[Any]] = {
        "sections": [f"t{n}" for n in range(300)],
        "messages": [{"role": "user", "content": f"t{n}"} for n in range(300)],
        "blocks": [document(f"t{n}", f"t{n}") for n in range(300)],
    }
    chunks = made[form]
    whole = ctx.estimate(None, chunks, tokenizer="utf8-bytes").tokens_in
    everything = ctx.pack(chunks, whole, 0, strategy="worth", tokenizer="utf8-bytes", uncertain="allow")
    assert not everything.dropped
    half = ctx.pack(chunks, whole // 2, 0, strategy="worth", tokenizer="utf8-bytes", uncertain="allow")
    assert whole * 45 // 100 < half.total <= whole // 2


def test_a_plan_that_the_guard_refuses_is_not_made_again_for_every_token_less() -> None:
    """Whole chunks are dropped: any budget of at least what they have gives the same plan."""
    asked: list[int] = []

    def first(chunks: Sequence[Candidate], budget: int, count: Callable[[str], int]) -> list[int]:
        asked.append(budget)
        return list(range(budget // 1_001))

    chunks = ["x" * 4_000] * 40
    plan = ctx.pack(chunks, 33_000, 0, strategy=first, tokenizer="chars4")
    limit = needed(plan.count)[0] - 1
    asked.clear()
    again = ctx.pack(chunks, limit, 0, strategy=first, tokenizer="chars4")
    assert needed(again.count)[0] <= limit
    assert len(asked) <= 8


def test_by_worth_leaves_out_a_question_that_may_be_cut_and_chunks_without_tokens() -> None:
    """Our own strategy never fails where another makes a plan."""
    asked = [{"id": "q", "content": "w " * 40, "role": "user", "shrink": 1}]
    assert ctx.pack(asked, 10, 0, strategy="worth", tokenizer="gpt-4o").dropped
    unseen = ctx.pack(["\r\n"] * 5, 2, 0, strategy="worth", tokenizer=lambda text: len(text) // 3)
    assert unseen.total <= 2
