"""The guard on its exact boundary, against the rule of ADR 007 written out in fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox import Section, count, ctx, fit, layout, override, tokenizers
from tokenbox.catalog import Figure
from tokenbox.compose.requests import By, Count
from tokenbox.conversation import Conversation, tool_costs
from tokenbox.conversation.published import OpenAIFormat
from tokenbox.errors import TokenizerError
from tokenbox.models import OutputMode, Stated, resolve_figures
from tokenbox.policy import GuardLimits, Uncertain, enforce, guard, pack, read_chunks
from tokenbox.policy.errors import InvalidPolicy
from tokenbox.policy.guard import Basis
from tokenbox.policy.records import CutChunks, LowerMaxTokens
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from tokenbox.content.request import Request

BYTES = tokenizers.get("utf8-bytes")
WINDOWS = (0, 1, 2, 3, 7, 10, 99, 100, 101, 4_096, 8_191, 128_000, 1_000_003)
RESERVES = (0, 1, 2, 50, 99, 100, 1_024, 4_096)
HEADROOMS = ("0", "0.05", "0.1", "0.15", "0.333", "0.5", "0.999", "0.07", "1e-9", "0.29")


def refused(tokens_in: int, reserve: int, window: int, headroom: str) -> bool:
    return Fraction(tokens_in + reserve) > window * (1 - Fraction(headroom))


@pytest.mark.parametrize(("window", "reserve"), list(product(WINDOWS, RESERVES)))
def test_the_guard_is_exact_on_its_boundary(window: int, reserve: int) -> None:
    for headroom in HEADROOMS:
        limits = GuardLimits.of(window, reserve, headroom)
        budget = math.floor(window * (1 - Fraction(headroom))) - reserve  # layout.md, 1
        assert limits.input_limit == budget
        for tokens_in in {0, 1, *range(max(0, budget - 2), max(0, budget) + 3)}:
            expected = refused(tokens_in, reserve, window, headroom)
            assert limits.denies(tokens_in) == expected == (tokens_in > budget)


def test_a_request_is_refused_one_token_beyond_its_boundary() -> None:
    for window, reserve, headroom in ((100, 20, "0.1"), (7, 0, "0.333"), (50, 49, "0"), (1_000, 1, "0.29")):
        limits = GuardLimits.of(window, reserve, headroom)
        for size in (limits.input_limit - 1, limits.input_limit, limits.input_limit + 1):
            verdict = enforce(read_chunks(["a" * size]), limits, BYTES)
            assert verdict.ok is not refused(size, reserve, window, headroom)
            assert verdict.why.over == size - limits.input_limit


@given(
    window=st.integers(0, 2**53 - 1),
    reserve=st.integers(0, 2**53 - 1),
    headroom=st.decimals(0, 1, places=6, allow_nan=False).filter(lambda h: h < 1),
    tokens_in=st.integers(0, 2**53 - 1),
    near=st.integers(-2, 2),
)
def test_both_forms_of_the_rule_agree(
    window: int, reserve: int, headroom: Decimal, tokens_in: int, near: int
) -> None:
    limits = GuardLimits.of(window, reserve, headroom)
    for size in (tokens_in, max(0, limits.input_limit + near)):
        assert (
            limits.denies(size)
            == (size > limits.input_limit)
            == refused(size, reserve, window, str(headroom))
        )


@given(
    window=st.integers(1, 10**6),
    reserve=st.integers(0, 10**6),
    headroom=st.decimals(0, "0.99", places=3),
    tokens_in=st.integers(0, 10**6),
)
def test_the_figures_of_the_remedies_are_the_least_that_pass(
    window: int, reserve: int, headroom: Decimal, tokens_in: int
) -> None:
    limits = GuardLimits.of(window, reserve, headroom)
    least = limits.smallest_window(tokens_in)
    assert not GuardLimits.of(least, reserve, headroom).denies(tokens_in)
    assert least == 0 or GuardLimits.of(least - 1, reserve, headroom).denies(tokens_in)
    most = limits.largest_reserve(tokens_in)
    if most >= 0:
        assert not GuardLimits.of(window, most, headroom).denies(tokens_in)
    assert GuardLimits.of(window, max(most + 1, 0), headroom).denies(tokens_in)


def test_the_smallest_limit_wins() -> None:
    request = read_chunks(["a" * 60])
    window_only = enforce(request, GuardLimits.of(100, 30, "0.05"), BYTES)
    assert window_only.ok
    both = enforce(request, GuardLimits.of(100, 30, "0.05", max_input=59), BYTES)
    assert not both.ok
    assert both.why.binding == "max_input_tokens"
    assert "60 tokens of input, of at most 59: 1 too many" in both.why.say
    assert not [one for one in both.plan if isinstance(one, LowerMaxTokens)], (
        "a smaller answer would not help"
    )
    assert enforce(request, GuardLimits.of(100, 30, "0.05", max_input=60), BYTES).ok


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ("0.05", Fraction(1, 20)),
        (Decimal("0.15"), Fraction(3, 20)),
        (0.1, Fraction(1, 10)),  # by its shortest decimal form, not as binary
        (0, Fraction(0)),
        (Fraction(1, 3), Fraction(1, 3)),
        ("5e-2", Fraction(1, 20)),
    ],
)
def test_a_headroom_is_read_exactly(given: object, exact: Fraction) -> None:
    assert GuardLimits.of(100, 0, given).headroom == exact


@pytest.mark.parametrize(
    "bad",
    [
        "1",
        1,
        "1.0",
        -1,
        "-0.1",
        "nan",
        "inf",
        float("nan"),
        float("inf"),
        "5%",
        "",
        "x",
        None,
        True,
        [],
        b"0",
    ],
)
def test_what_is_no_headroom_is_refused(bad: object) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        GuardLimits.of(100, 0, bad)
    assert caught.value.details["field"] == "headroom"


@pytest.mark.parametrize("field", ["max_ctx", "reserve_out", "max_input"])
@pytest.mark.parametrize("bad", [-1, 1.0, "100", True, 2**53, float("nan"), b"1", []])
def test_what_is_no_number_of_tokens_is_refused(field: str, bad: object) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        GuardLimits.of(**{"max_ctx": 100, field: bad})  # type: ignore[arg-type]
    assert caught.value.details["field"] == field


def test_the_limits_of_a_model_are_all_its_figures() -> None:
    figures = resolve_figures(
        None,
        call=Stated(
            Figure(1_000, "a"),
            Figure(700, "b"),
            output_reserve=Figure(100, "c"),
            headroom=(Fraction(1, 10), "d"),
        ),
    )
    limits = GuardLimits.of_model(figures)
    assert limits == GuardLimits.of(1_000, 100, "0.1", 700, {**dict(limits.sources)})
    assert dict(limits.sources) == {"max_ctx": "a", "max_input": "b", "reserve_out": "c", "headroom": "d"}


def test_an_override_is_explicit_per_call_and_recorded() -> None:
    limits, request = GuardLimits.of(10, 5), read_chunks(["a" * 6])
    assert not enforce(request, limits, BYTES).ok
    allowed = enforce(request, limits, BYTES, override=override.allow_over_context("measured: it works"))
    assert allowed.ok
    assert allowed.why.overridden
    assert allowed.plan, "what would have helped is still said"
    assert allowed.to_dict()["override"] == {"allow_over_context": True, "reason": "measured: it works"}
    assert not enforce(request, limits, BYTES).ok, "it was for one call"
    unneeded = enforce(read_chunks(["a"]), limits, BYTES, override=override.allow_over_context())
    assert unneeded.ok
    assert not unneeded.why.overridden
    for lie in (True, "yes", {"allow_over_context": True}, override.allow_over_context):
        with pytest.raises(InvalidPolicy, match="explicit"):
            enforce(request, limits, BYTES, override=lie)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["x" * 1_001, 5, "\ud800"])
def test_a_reason_is_a_short_text(bad: str) -> None:
    with pytest.raises(override.InvalidOverride):
        override.allow_over_context(bad)


def test_an_output_mode_is_one_of_three() -> None:
    request = read_chunks(["a"])
    for mode in OutputMode:
        assert enforce(request, GuardLimits.of(10), BYTES, output_mode=mode.value).output_mode is mode
    for bad in ("yaml", "", None, 5, ["text"]):
        with pytest.raises(InvalidPolicy, match="text, json, stream"):
            enforce(request, GuardLimits.of(10), BYTES, output_mode=bad)  # type: ignore[arg-type]


def test_an_estimate_is_marked_wherever_it_is_shown() -> None:
    request, limits = read_chunks(["a" * 400, "b" * 400]), GuardLimits.of(200, 50)
    verdict = enforce(request, limits, tokenizers.get("heuristic"))
    assert not verdict.ok
    assert not verdict.exact
    assert "~231 tokens of input" in verdict.why.say
    assert "~81 too many" in verdict.why.say
    record = verdict.to_dict()
    assert record["tokenizer"] == tokenizers.get("heuristic").identity.to_dict()
    assert isinstance(record["why"], dict)
    assert record["why"]["exact"] is False
    assert "~" in verdict.plan[0].say


EXACT = Count(90, exact=True, at_most=90, by=By.TEMPLATE)


@pytest.mark.parametrize(
    ("count", "uncertain", "ok", "basis", "decided_on"),
    [
        (EXACT, "margin", True, Basis.EXACT, 90),
        (replace(EXACT, total=101, at_most=101), "allow", False, Basis.EXACT, 101),
        # Over by the total is refused, whatever the setting.
        (Count(101, exact=False, at_most=200, by=By.MARKERS), "allow", False, Basis.TOTAL, 101),
        (Count(101, exact=False, at_most=200, by=By.MARKERS), "bound", False, Basis.TOTAL, 200),
        # Under by the bound is allowed, whatever the setting.
        (Count(80, exact=False, at_most=100, by=By.PUBLISHED), "bound", True, Basis.AT_MOST, 100),
        (Count(99, exact=False, at_most=100, by=By.TEXT), "margin", True, Basis.AT_MOST, 100),
        # Between the two the setting decides: by the total, its margin, or the bound.
        (Count(96, exact=False, at_most=500, by=By.PUBLISHED), "allow", True, Basis.TOTAL, 96),
        (Count(96, exact=False, at_most=500, by=By.PUBLISHED), "margin", False, Basis.MARGIN, 101),
        (Count(95, exact=False, at_most=500, by=By.PUBLISHED), "margin", True, Basis.MARGIN, 100),
        (Count(87, exact=False, at_most=500, by=By.TEXT), "margin", False, Basis.MARGIN, 101),
        (Count(100, exact=False, at_most=500, by=By.MARKERS), "margin", True, Basis.MARGIN, 100),
        (Count(10, exact=False, at_most=101, by=By.SERVER), "bound", False, Basis.AT_MOST, 101),
        # Each prompt has the window for itself.
        (Count(150, exact=True, at_most=150, by=By.TEXT, largest=100), "margin", True, Basis.EXACT, 100),
    ],
)
def test_an_uncertain_count_is_decided_by_the_setting(
    count: Count, uncertain: str, ok: bool, basis: Basis, decided_on: int
) -> None:
    verdict = guard(count, GuardLimits.of(130, 30), Uncertain(uncertain))
    assert (verdict.ok, verdict.basis, verdict.tokens) == (ok, basis, decided_on)
    record = verdict.to_dict()
    assert (record["basis"], record["uncertain"]) == (basis.value, uncertain)


@given(
    total=st.integers(0, 10_000),
    more=st.integers(0, 10_000),
    by=st.sampled_from(By),
    exact=st.booleans(),
    window=st.integers(0, 25_000),
    uncertain=st.sampled_from(Uncertain),
)
def test_what_an_estimate_needs_does_not_depend_on_the_limits(
    total: int, more: int, by: By, exact: bool, window: int, uncertain: Uncertain
) -> None:
    count = Count(total, exact, total if exact else total + more, by)
    verdict = guard(count, GuardLimits.of(window), uncertain)
    assert verdict.ok == (verdict.tokens <= window)
    assert total <= verdict.tokens <= count.at_most
    if window < total:
        assert not verdict.ok
    if window >= count.at_most:
        assert verdict.ok
    stricter = guard(count, GuardLimits.of(window), Uncertain.BOUND)
    laxer = guard(count, GuardLimits.of(window), Uncertain.ALLOW)
    assert stricter.ok <= verdict.ok <= laxer.ok


def test_the_setting_decides_and_the_record_says_so() -> None:
    request, limits = read_chunks([{"role": "user", "content": "a" * 100}]), GuardLimits.of(400, 50)
    records = {}
    for uncertain in Uncertain:
        verdict = enforce(request, limits, BYTES, uncertain=uncertain)
        why = verdict.to_dict()["why"]
        assert isinstance(why, dict)
        records[uncertain.value] = (verdict.ok, why["basis"], why["uncertain"])
    assert records == {
        "margin": (True, "margin", "margin"),
        "bound": (False, "at_most", "bound"),
        "allow": (True, "total", "allow"),
    }
    for bad in ("maybe", None, 5):
        with pytest.raises(InvalidPolicy, match="margin, bound, allow"):
            enforce(request, limits, BYTES, uncertain=bad)  # type: ignore[arg-type]


def test_a_plan_of_an_uncertain_count_passes_the_guard() -> None:
    chat = [{"role": role, "content": "word " * 40} for _ in range(20) for role in ("user", "assistant")]
    request = read_chunks([*chat, {"role": "user", "content": "go on"}])
    counter = OpenAIFormat(older=False, published=False)
    for uncertain in Uncertain:
        limits = GuardLimits.of(3_200, 100)
        plan = pack(request, limits, counter, uncertain=uncertain)
        assert guard(plan.count, limits, uncertain).ok
        assert plan.total <= plan.budget <= limits.input_limit
        assert plan.dropped if uncertain is Uncertain.BOUND else plan.packed


def test_integers_of_other_libraries_are_integers() -> None:
    class Int64:
        def __init__(self, value: int) -> None:
            self.value = value

        def __index__(self) -> int:
            return self.value

    limits = GuardLimits.of(Int64(100), Int64(20))
    assert (limits.max_ctx, limits.reserve_out) == (100, 20)
    assert type(limits.max_ctx) is int
    numpy = pytest.importorskip("numpy", reason="a test dependency")
    assert GuardLimits.of(numpy.int64(100)).max_ctx == 100
    with pytest.raises(InvalidPolicy):
        GuardLimits.of(numpy.float64(100))


class Counter:
    """A counter of requests of the caller's."""

    identity = TokenizerIdentity("own", "1", "f" * 64, exact=True)

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def count_request(self, request: Request) -> Any:  # noqa: ANN401  # no count
        return self._answer


WRONG: list[Any] = [None, 5, Count(-5, True, -5, By.SERVER), Count(1, True, 1.5, By.SERVER)]  # type: ignore[arg-type]
WRONG += [Count(True, True, 1, By.SERVER), Count(1, "no", 1, By.SERVER)]  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", WRONG)
def test_the_guard_compares_no_figure_that_is_no_count(answer: object) -> None:
    chat: Any = [{"role": "user", "content": "text"}]
    tools: Any = [{"type": "function", "function": {"name": "f"}}]
    calls: list[Callable[[], object]] = [
        lambda: ctx.enforce("m", chat, tokenizer=Counter(answer), max_ctx=100),
        lambda: ctx.estimate("m", chat, tokenizer=Counter(answer)),
        lambda: count(chat, tokenizer=Counter(answer)),
        lambda: fit(chat, 100, Counter(answer)),
        lambda: layout([{"id": "a", "role": "user", "content": "text"}], 100, Counter(answer)),
        lambda: Conversation("", Counter(answer)).estimate_tokens(),
        lambda: tool_costs(tools, Counter(answer), chat),
    ]
    for call in calls:
        with pytest.raises(TokenizerError, match="the counter of requests gave"):
            call()


def test_of_two_equal_limits_the_window_binds() -> None:
    limits = GuardLimits.of(100, 20, max_input=80)
    assert guard(Count(81, exact=True, at_most=81, by=By.SERVER), limits).binding == "context_window"


def test_of_sections_as_long_the_first_is_cut() -> None:
    sections = [Section(n, n * (10 if n == "x" else 40), priority=int(n != "x"), shrink=1) for n in "xab"]
    found = enforce(read_chunks(sections), GuardLimits.of(60), tokenizers.get("utf8-bytes"))
    single, several = (remedy for remedy in found.plan if isinstance(remedy, CutChunks))
    assert [cut.id for cut in single.cuts] == ["a"]
    assert len(several.cuts) == 2
