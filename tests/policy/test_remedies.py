"""Both directions of every remedy: following it passes, the change one smaller does not."""

from __future__ import annotations

from typing import Any

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tokenbox import Section, tokenizers
from tokenbox.engine.result import Decision
from tokenbox.policy import Enforcement, GuardLimits, enforce, pack, read_chunks
from tokenbox.policy.records import CutChunks, LargerWindow, LowerMaxTokens
from tokenbox.tokenizers import CallableTokenizer

TOKENIZERS = {
    "o200k": tokenizers.get("o200k_base"),
    "bytes": tokenizers.get("utf8-bytes"),
    "heuristic": tokenizers.get("heuristic"),
    "function": CallableTokenizer(lambda text: len(text.split()) + len(text) // 7, name="odd"),
}
words = st.lists(
    st.sampled_from(["Context", "is", "a", "resource.", "\n", "naïve", "你好", "  ", "x = 1\n", "'s"]),
    max_size=30,
).map(" ".join)
sections: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    content=words,
    priority=st.sampled_from([100, 500, 900]),
    shrink=st.sampled_from([0, 1, 1, 2]),
    min=st.sampled_from([0, 0, 5]),
)
requests = st.lists(words | sections, min_size=1, max_size=6).map(
    lambda items: [
        Section(**{"id": f"s{i}", **item}) if isinstance(item, dict) else item for i, item in enumerate(items)
    ]
)


def limits_of(enforcement: Enforcement, **changes: Any) -> GuardLimits:
    old = enforcement.limits
    fields = {
        "max_ctx": old.max_ctx,
        "reserve_out": old.reserve_out,
        "headroom": old.headroom,
        "max_input": old.max_input,
    }
    return GuardLimits.of(**{**fields, **changes})


@settings(max_examples=examples(150))
@given(
    chunks=requests,
    window=st.integers(1, 150),
    reserve=st.integers(0, 60),
    headroom=st.sampled_from(["0", "0.05", "0.15", "0.333"]),
    max_input=st.none() | st.integers(0, 80),
    counter=st.sampled_from(sorted(TOKENIZERS)),
)
def test_following_the_plan_passes_and_one_less_does_not(
    chunks: list[Any], window: int, reserve: int, headroom: str, max_input: int | None, counter: str
) -> None:
    tokenizer, request = TOKENIZERS[counter], read_chunks(chunks)
    limits = GuardLimits.of(window, reserve, headroom, max_input)

    def passes(limits: GuardLimits) -> bool:
        return enforce(request, limits, tokenizer).ok

    verdict = enforce(request, limits, tokenizer)
    if verdict.ok:
        assert verdict.plan == ()
        return
    assert verdict.why.over > 0
    for remedy in verdict.plan:
        if isinstance(remedy, LowerMaxTokens):
            assert passes(limits_of(verdict, reserve_out=remedy.max_tokens))
            assert not passes(limits_of(verdict, reserve_out=remedy.max_tokens + 1))
            assert 0 < remedy.max_tokens < reserve
        elif isinstance(remedy, LargerWindow):
            enough = remedy.max_input if max_input is None or remedy.max_input is not None else max_input
            assert passes(limits_of(verdict, max_ctx=remedy.max_ctx, max_input=enough))
            assert not passes(limits_of(verdict, max_ctx=remedy.max_ctx - 1, max_input=enough))
            if remedy.max_input is not None:
                assert not passes(limits_of(verdict, max_ctx=remedy.max_ctx, max_input=remedy.max_input - 1))
        else:
            check_cut(remedy, limits, tokenizer)


def check_cut(remedy: CutChunks, limits: GuardLimits, tokenizer: Any) -> None:  # noqa: ANN401
    """What is packed passes when sent; with the last change taken back, even in part, it does not."""
    plan = remedy.plan
    assert remedy.cuts
    assert plan.total <= limits.input_limit
    layout: Any = plan.layout
    sent = [text for text in layout.texts if text]
    assert enforce(read_chunks(sent), limits, tokenizer).ok
    assert enforce(read_chunks(sent), limits, tokenizer).tokens_in == plan.total
    if layout.pricing != "exact":
        return  # of a function nothing is known; that its layouts are not wasteful is tested with layouts
    last = layout.log[-1].section
    original, left = layout.inputs[last].content, layout.texts[last]
    cut = layout.sections[last].decision is Decision.TRUNCATED and not layout.inputs[last].min
    cluster = regex.match(r"\X", original[len(left) :]) if cut else None
    back = original if cluster is None else left + cluster[0]
    texts = [back if i == last else text for i, text in enumerate(layout.texts)]
    undone = enforce(read_chunks([text for text in texts if text]), limits, tokenizer)
    if cut and undone.ok:
        # A longer cut may be smaller as part of the whole than alone: a cut is bounded by its own count.
        assert tokenizer.count(back) > layout.sections[last].size
        return
    assert not undone.ok


def test_other_models_are_asked_for_only_where_a_request_is_refused() -> None:
    asked = []

    def others(tokens_in: int) -> list[str]:
        asked.append(tokens_in)
        return ["larger", "huge"]

    request, tokenizer = read_chunks(["a" * 100]), TOKENIZERS["bytes"]
    assert enforce(request, GuardLimits.of(200, 20), tokenizer, alternatives=others).ok
    assert asked == []
    verdict = enforce(request, GuardLimits.of(110, 20), tokenizer, alternatives=others)
    assert asked == [100]
    larger = next(one for one in verdict.plan if isinstance(one, LargerWindow))
    assert larger.max_ctx == 120
    assert larger.say == "use a model with a window of at least 120 tokens: larger, huge"


def test_what_must_be_kept_is_not_cut() -> None:
    request = read_chunks([Section("rules", "a" * 90), "b" * 30])
    verdict = enforce(request, GuardLimits.of(100, 20), TOKENIZERS["bytes"])
    assert not [one for one in verdict.plan if isinstance(one, CutChunks)]
    assert [type(one) for one in verdict.plan] == [LargerWindow]


def test_a_reserve_beyond_the_window_leaves_only_remedies_that_work() -> None:
    request = read_chunks(["a" * 10])
    verdict = enforce(request, GuardLimits.of(100, 200, "0.1"), TOKENIZERS["bytes"])
    assert [one.to_dict()["change"] for one in verdict.plan] == ["lower_max_tokens", "larger_window"]
    assert verdict.plan[0] == LowerMaxTokens(80, 200)


@settings(max_examples=examples(150))
@given(chunks=requests, window=st.integers(1, 120), counter=st.sampled_from(["o200k", "bytes", "heuristic"]))
def test_a_summary_of_the_size_offered_brings_back_what_is_offered(
    chunks: list[Any], window: int, counter: str
) -> None:
    tokenizer, request = TOKENIZERS[counter], read_chunks(chunks)
    critical = tokenizer.count(
        "\n\n".join(s.content for s in request.sections if s.shrink == 0 and s.content)
    )
    plan = pack(request, GuardLimits.of(max(window, critical)), tokenizer)
    for op in plan.summary_ops:
        (name,) = op.chunks
        at = request.ids.index(name)
        summary = tokenizers.truncate("Summary: " + "it says this and that, " * 60, op.at_most, tokenizer)
        again = [
            Section(
                s.id,
                summary if i == at else s.content,
                priority=s.priority,
                shrink=s.shrink,
                min=s.min,
            )
            for i, s in enumerate(request.sections)
        ]
        repacked = pack(read_chunks(again), plan.limits, tokenizer)
        kept = {one.id for one in repacked.packed if one.decision is Decision.KEPT}
        assert set(op.brings_back) <= kept
        lost = {one.id for one in plan.dropped} | {
            one.id for one in plan.packed if one.decision is not Decision.KEPT
        }
        assert set(op.brings_back) <= lost, "only what was lost can come back"


def test_summary_offers_bring_back_more_and_more() -> None:
    chunks = [Section(f"s{i}", "w" * 30, priority=i, shrink=1) for i in range(1, 5)]
    chunks.append(Section("big", "v" * 200, priority=900, shrink=1))
    plan = pack(read_chunks(chunks), GuardLimits.of(240), TOKENIZERS["bytes"])
    assert [one.id for one in plan.dropped] == ["s1", "s2"]
    assert [one.id for one in plan.packed if one.decision is Decision.TRUNCATED] == ["s3"]
    assert [(op.chunks, op.brings_back) for op in plan.summary_ops] == [
        (("big",), ("s3",)),
        (("big",), ("s2", "s3")),
        (("big",), ("s1", "s2", "s3")),
    ]
    sizes = [op.at_most for op in plan.summary_ops]
    assert sizes == sorted(sizes, reverse=True)
    assert all(0 < size < 200 for size in sizes)
