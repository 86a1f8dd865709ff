"""A bundle replays from its texts; what comes out otherwise is named; a forged one raises typed errors."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tests.proof.examples import BLOCKS, EXAMPLES, SECTIONS, blocks_evidence, layout_evidence
from tokenbox.api import layout
from tokenbox.api import render_blocks as proven_blocks
from tokenbox.compose.blocks import render_blocks
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import AnnotationBlock, Block, CodeBlock
from tokenbox.content.section import Section
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget, TokenboxError
from tokenbox.proof.bundle import MANIFEST, build
from tokenbox.proof.calls import Texts
from tokenbox.proof.contents import Contents, differences, read_contents
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.manifest import Manifest, read_manifest
from tokenbox.proof.of_blocks import CHOICE
from tokenbox.proof.replay import FUNCTIONS, replay
from tokenbox.proof.verify import MemoryFiles
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenbox.proof import Evidence
    from tokenbox.tokenizers.protocol import Tokenizer


def contents_of(evidence: Evidence) -> tuple[Contents, Texts]:
    bundle = build(evidence, texts=True)
    files = MemoryFiles(bundle.files)
    contents = read_contents(files, read_manifest(bundle.files[MANIFEST], bundle.id))
    return contents, Texts.of_bundle(files, contents.manifest)


def test_no_more_texts_are_read_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenbox.proof.calls.MAX_TEXTS", 10)
    with pytest.raises(ReplayImpossible, match="at most 10 are read"):
        contents_of(layout_evidence())


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_was_decided_is_decided_again(name: str) -> None:
    assert replay(*contents_of(EXAMPLES[name]())).differences == ()


@pytest.mark.parametrize("budget", [5, 30, 40, 55, 58, 59, 60, 61, 200])
@pytest.mark.parametrize("tokenizer", ["utf8-bytes", "o200k_base", "code-aware"])
def test_layouts_at_many_budgets(budget: int, tokenizer: str) -> None:
    found: list[Evidence] = []
    try:
        tokenbox.layout(SECTIONS, budget, tokenizer, reclaim=True, proof=found.append)
    except ContextCriticalOverflow:
        assert found[0].outcome.code == "context_critical_overflow"
    again = replay(*contents_of(found[0]))
    assert again.same
    assert "tokenizer.exact" not in again.uncompared  # only of an exact tokenizer used as an estimate


@pytest.mark.parametrize(
    ("made_by", "counter", "differs", "uncompared"),
    [
        (as_estimate(get("o200k_base")), None, False, True),  # of a model that only resembles one
        (as_estimate(get("o200k_base")), get("o200k_base"), False, True),
        (get("o200k_base"), None, False, False),
        (get("o200k_base"), as_estimate(get("o200k_base")), True, False),
        (get("chars4"), None, False, False),
        (get("chars4"), get("utf8-bytes"), True, False),
    ],
)
def test_the_mark_of_a_counter_is_compared_unless_it_was_an_estimate_for_another_model(
    made_by: Tokenizer, counter: Tokenizer | None, *, differs: bool, uncompared: bool
) -> None:
    found: list[Evidence] = []
    tokenbox.layout(SECTIONS, 200, made_by, proof=found.append)
    again = replay(*contents_of(found[0]), counter)
    assert ("tokenizer.exact" in {one.field for one in again.differences}) is differs
    assert ("tokenizer.exact" in again.uncompared) is uncompared


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-5", "gpt-3.5-turbo-0301", "azure/gpt-4", "gpt 4o", "llama-3.1-8b", "of-nobody"],
)
@pytest.mark.parametrize("budget", [10, 110, 200])
def test_layouts_of_messages(model: str, budget: int) -> None:
    """A model without a chat format of its own counts messages with the identity of its vocabulary."""
    found: list[Evidence] = []
    sections: list[dict[str, object]] = [
        {"id": str(n), "role": "user", "content": f"Hello there {n} " * 9, "shrink": min(n, 1)}
        for n in range(6)
    ]
    with suppress(ContextCriticalOverflow):
        tokenbox.layout(sections, budget, model=model, proof=found.append)
    assert replay(*contents_of(found[0])).differences == ()


@pytest.mark.parametrize("budget", range(8, 120, 6))
@pytest.mark.parametrize("tokenizer", ["utf8-bytes", "o200k_base"])
def test_layouts_that_degrade(budget: int, tokenizer: str) -> None:
    found: list[Evidence] = []
    groups: dict[str, dict[str, object]] = {
        "chat": {"max": "50%", "priority": 400, "parent": "all"},
        "all": {"min": 3},
    }
    sections: list[dict[str, object]] = [
        {"id": "rules", "content": "Be brief."},
        {"id": "a", "content": ["one", {"two": 2}, "three"], "shrink": 1, "group": "chat", "min": 4},
        {
            "id": "b",
            "content": "x  y\n" * 9,
            "shrink": 1,
            "group": "chat",
            "forms": ["squeeze", {"text": "xs"}],
        },
        {"id": "c", "content": "One. Two. Three.", "shrink": 2, "cut": "sentence", "marker": " [{tokens}]"},
        {"id": "d", "content": "with c", "shrink": 1, "with": "c", "max": 40},
    ]
    with suppress(ContextCriticalOverflow):
        tokenbox.layout(sections, budget, tokenizer, policy="degrade", groups=groups, proof=found.append)
    assert replay(*contents_of(found[0])).same


@given(
    budget=st.integers(1, 400),
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    priorities=st.lists(st.sampled_from(Priority), min_size=6, max_size=6),
    summarized=st.sets(st.integers(0, 6)),
    soft=st.booleans(),
)
@settings(max_examples=examples(80))
def test_blocks_with_summaries_made_on_the_way(
    budget: int, lengths: list[int], priorities: list[Priority], summarized: set[int], soft: bool
) -> None:
    blocks: list[Block] = [AnnotationBlock.of_priority(0, Priority.LOW)]
    for number, length in enumerate(lengths):
        blocks.append(CodeBlock(lang=BLOCKS[0].lang, path=f"{number % 2}.py", content=b"x = 1\n" * length))  # type: ignore[attr-defined]
        blocks.append(AnnotationBlock.of_priority(len(blocks) - 1, priorities[number]))

    def summarize(index: int, room: int) -> str | None:
        return f"summary {index}" if index in summarized and room > 7 else None

    found: list[Evidence] = []
    try:
        proven_blocks(blocks, "chars4", budget, soft=soft, summarize=summarize, proof=found.append)
    except TokenboxError:
        assert found[0].outcome.status != "ok"
    assert replay(*contents_of(found[0])).differences == ()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "algorithm",
            "token-box-model/0",
            "an older rule: version 0 of token-box-model (here 1). Only the",
        ),
        ("algorithm", "token-box-model/9", "a newer rule: version 9 of token-box-model (here 1)"),
        ("algorithm", "no rule" * 99, "The bundle names the same rules"),
        ("lenses", "squeeze@0 |> head@1(lines=2)", "an older rule: version 0 of squeeze (here 1)"),
        ("engine", {"name": "tokenbox", "version": "0.0.1"}, "replay it with tokenbox 0.0.1."),
        ("digest", "0" * 64, "its record does not follow from its inputs"),
    ],
)
def test_a_replay_that_differs_gives_a_reason(field: str, value: object, said: str) -> None:
    contents, texts = contents_of(layout_evidence())
    assert replay(contents, texts).reason is None
    predicate: dict[str, object] = {**contents.manifest.predicate, "digest": "1" * 64}
    inputs = list(contents.inputs)
    if field == "lenses":
        inputs[1] = {**inputs[1], "fields": {**inputs[1]["fields"], "lenses": value}}
    else:
        predicate[field] = value
    manifest = Manifest(contents.manifest.id, {**contents.manifest.record, "predicate": predicate})
    found = replay(Contents(manifest, inputs, contents.decisions, contents.summaries), texts)
    assert said in str(found.reason)


def test_what_differs_is_named() -> None:
    contents, texts = contents_of(layout_evidence())
    found = replay(contents, texts, tokenbox.tokenizers.registry.get("facet-units"))
    assert [d.field for d in found.differences] == ["digest", "tokenizer.fingerprint", "tokenizer.name"]
    assert found.reason is not None
    assert found.reason.startswith("The bundle was made with the tokenizer 'utf8-bytes'")
    assert "'facet-units'" in found.reason
    other, _ = contents_of(layout_evidence(70))
    names = {d.field: (d.left, d.right) for d in differences(contents, other)}
    assert names["budget.tokens.value"] == (60, 70)
    assert differences(contents, contents) == []
    without = Contents(contents.manifest, contents.inputs[:-1], contents.decisions, contents.summaries)
    assert differences(contents, without)[0].field.startswith("inputs[more].")
    assert "right" not in differences(contents, without)[0].to_dict()
    assert "left" not in differences(without, contents)[0].to_dict()


def test_a_missing_text_is_named() -> None:
    contents, _ = contents_of(layout_evidence())
    with pytest.raises(ReplayImpossible, match="rules, notes, more"):
        replay(contents, Texts([b"something else"]))
    contents, _ = contents_of(blocks_evidence())
    with pytest.raises(ReplayImpossible, match=r"code a\.py, code b\.rs"):
        replay(contents, Texts())


def test_a_text_that_looks_like_a_pack_is_a_text() -> None:
    evidence = of_evidence([Section("a", "BCP\0 is how packs begin")])
    assert replay(*contents_of(evidence)).same
    texts = Texts([b"BCP\0", b"BCP\0\xff\xff", b"x"])
    assert texts.block("0" * 64) is None
    assert texts.block([]) is None
    assert texts.text({}) is None


def of_evidence(sections: list[Section]) -> Evidence:
    found: list[Evidence] = []
    layout(sections, 100, "utf8-bytes", proof=found.append)
    return found[0]


def forged(evidence: Evidence, change: Callable[[Any, Any], None]) -> None:
    """Replay a bundle in which somebody made ``change``: it may still hold, but any error is ours."""
    contents, texts = contents_of(evidence)
    original = {
        "manifest": contents.manifest.record,
        "inputs": list(contents.inputs),
        "decisions": list(contents.decisions),
        "summaries": list(contents.summaries),
    }
    changed = json.loads(json.dumps(original))
    change(changed, changed["manifest"]["predicate"])
    changed["manifest"] = type(contents.manifest)("0" * 64, changed["manifest"])
    with suppress(TokenboxError):
        replay(Contents(**changed), texts)


ODD: list[object] = [
    *(None, True, -1, 2**53 - 1, "", "x", [], [[]], {}, {"a": []}, ["x"], "1e999999", "file:/etc/passwd"),
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_forged_bundle(name: str, odd: object) -> None:
    evidence = EXAMPLES[name]()

    def put(place: Callable[[Any, Any], Any], key: str, value: object = odd) -> None:
        forged(evidence, lambda lists, predicate: place(lists, predicate).__setitem__(key, value))

    for field in evidence.inputs[0].fields:
        put(lambda lists, _: lists["inputs"][0]["fields"], field)
    for field in evidence.arguments:
        put(lambda _, predicate: predicate["arguments"], field)
    forged(evidence, lambda lists, _: lists["inputs"].append(dict(lists["inputs"][0], fields={"x": odd})))
    forged(evidence, lambda lists, _: lists["inputs"].append(dict(lists["inputs"][0])))
    forged(evidence, lambda _, predicate: predicate.__setitem__("arguments", {}))
    for other in FUNCTIONS:
        put(lambda _, predicate: predicate, "function", other)
    if isinstance(odd, str):
        put(lambda _, predicate: predicate["tokenizer"], "name")
    if odd is None or (isinstance(odd, int | str) and odd is not True):
        put(lambda _, predicate: predicate["budget"]["tokens"], "value")


def test_no_file_is_opened_for_a_tokenizer() -> None:
    contents, texts = contents_of(layout_evidence())
    record = json.loads(json.dumps(contents.manifest.record))
    record["predicate"]["tokenizer"]["name"] = "file:/dev/zero"
    with pytest.raises(ReplayImpossible, match="--tokenizer"):
        replay(
            Contents(type(contents.manifest)("0" * 64, record), contents.inputs, contents.decisions, []),
            texts,
        )


def test_proof_of_a_layout_is_as_without() -> None:
    found: list[Evidence] = []
    result = tokenbox.layout(SECTIONS, 60, "utf8-bytes", proof=found.append, source="here")
    assert result == tokenbox.layout(SECTIONS, 60, "utf8-bytes")
    assert found[0].inputs[0].source == "here"
    with pytest.raises(InvalidBudget):
        tokenbox.layout(SECTIONS, -1, "utf8-bytes", proof=found.append)
    assert len(found) == 1
    blocks = proven_blocks(BLOCKS, "chars4", 60, proof=found.append)
    assert blocks == render_blocks(BLOCKS, "chars4", 60) == proven_blocks(BLOCKS, "chars4", 60)
    assert found[1].digest == blocks.digest


def broken(_: Evidence) -> None:
    raise OSError("the sink is broken")


def test_a_sink_that_fails() -> None:
    with pytest.raises(OSError, match="broken"):
        tokenbox.layout(SECTIONS, 60, "utf8-bytes", proof=broken)
    with pytest.raises(ContextCriticalOverflow) as caught:
        tokenbox.layout(SECTIONS, 3, "utf8-bytes", proof=broken)
    assert caught.value.__notes__ == ["There is no proof of this: the sink is broken"]


def test_a_counter_that_fails_is_proved_to_have_failed() -> None:
    def counter(text: str) -> int:
        raise ZeroDivisionError(text)

    found: list[Evidence] = []
    with pytest.raises(tokenbox.TokenboxError):
        tokenbox.layout(SECTIONS, 60, counter, proof=found.append)
    assert found[0].outcome.to_dict() == {"status": "failed", "code": "tokenizer_error", "figures": {}}
    assert b"QUAGGA" not in b"".join(build(found[0]).files.values())


def test_a_digest_covers_what_it_says() -> None:
    assert layout_evidence().inputs[2].fields["extra"] == [
        hashlib.sha256(text.encode()).hexdigest() for text in SECTIONS[2].extra
    ]


def test_the_proof_of_a_pack_says_what_was_asked_and_what_each_file_is_worth(tmp_path: Path) -> None:
    for name in ("red", "blue", "green"):
        (tmp_path / f"{name}.py").write_text(f"def {name}():\n    return '{name}'\n" * 40)
    found: list[Evidence] = []
    tokenbox.pack(tmp_path, 300, "blue is wrong", tokenizer="utf8-bytes", proof=found.append)
    asked, *files = [record for record in found[-1].decisions if str(record["id"]).startswith(CHOICE)]
    assert asked["query"] == hashlib.sha256(b"blue is wrong").hexdigest()
    best = max(files, key=lambda record: int(str(record["worth"])))
    assert (best["id"], best["decision"]) == ("choice blue.py", "focused")
    assert len(files) == 3
    contents, texts = contents_of(found[-1])
    again = replay(contents, texts)
    assert again.same
    assert "decisions[choice]" in again.uncompared


def test_a_function_of_the_caller_is_reported_before_an_unknown_tokenizer() -> None:
    """Naming the tokenizer would not help."""
    found: list[Evidence] = []
    tokenbox.ctx.pack(["one"], 100, 0, strategy=lambda *_: [0], tokenizer=len, proof=found.append)
    with pytest.raises(ReplayImpossible, match="strategy is a function of the caller"):
        replay(*contents_of(found[0]))


def test_another_exact_tokenizer_does_not_stand_in_for_an_estimate() -> None:
    """Only the bundle's own exact tokenizer may have counted for another model, as an estimate."""
    found: list[Evidence] = []
    tokenbox.layout(SECTIONS, 60, "code-aware", proof=found.append)
    again = replay(*contents_of(found[0]), get("o200k_base"))
    assert "tokenizer.exact" in [one.field for one in again.differences]
    assert "tokenizer.exact" not in again.uncompared
