"""What a page shows of each thing that tokenbox gives, of its records and of its proofs."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tokenbox
from tests.conversation.requests import request as random_request
from tests.effort import examples
from tests.inspect.pages import laid_out, sections
from tokenbox import ctx
from tokenbox.content.block_kinds import FormatHint, Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, DocumentBlock
from tokenbox.inspect import NothingToInspect, PageEntry, entry_of, page
from tokenbox.inspect.importers.lhar import written
from tokenbox.inspect.of_gateway import gateway_items
from tokenbox.inspect.reading import InspectOptions, entries_in
from tokenbox.proof.calls import Texts

ROLES = ("user", "assistant")
GOLDEN = Path(__file__).parents[1] / "golden"


def final(entry: PageEntry) -> dict[str, tuple[str, int | None]]:
    """Decision and size of every item in the last frame."""
    states = {state.item: state for frame in entry.frames for state in frame.changes}
    return {entry.items[i].id: (state.decision, state.size) for i, state in sorted(states.items())}


def test_a_layout_has_its_sections_steps_forms_and_boundaries() -> None:
    made = laid_out()
    entry = entry_of(made, "prompt")
    assert final(entry) == {one.id: (one.decision.value, one.size) for one in made.sections}
    frame = entry.frames[0]
    assert (frame.budget, frame.total, frame.fixed, frame.exact) == (400, made.total, made.fixed_load, True)
    assert [(step.items, step.action, step.before, step.after) for step in frame.steps] == [
        ((step.section,), step.action.value, step.before, step.after) for step in made.log
    ]
    history = entry.items[1]
    assert [form.name for form in history.forms] == ["head(lines=5)", "text 2"]
    assert all(form.size == tokenbox.count(form.text, tokenizer="o200k_base").total for form in history.forms)
    assert entry.boundaries is not None
    assert len(entry.boundaries) == made.total
    assert dict(entry.facts)["Digest"] == made.digest


def test_the_last_step_of_a_section_has_its_text() -> None:
    made = laid_out(200)
    steps = entry_of(made).frames[0].steps
    last = {step.items[0]: step for step in steps}
    assert {i: step.text for i, step in last.items()} == {i: made.texts[i] for i in last}
    compressed = [step for step in steps if step.action == "compress" and step is not last[step.items[0]]]
    counts = [tokenbox.count(step.text, tokenizer="o200k_base").total for step in compressed if step.text]
    assert counts == [step.after for step in compressed if step.text]


def test_blocks_have_their_forms_and_reasons() -> None:
    blocks = [
        CodeBlock(Lang.PYTHON, content=b"x = 1\n" * 200, path="a.py", summary="one assignment"),
        DocumentBlock("notes", b"word " * 300, FormatHint.MARKDOWN),
        AnnotationBlock.of_priority(1, Priority.LOW),
    ]
    made = tokenbox.render_blocks(blocks, "o200k_base", 400)
    entry = entry_of(made)
    assert [state.decision for state in entry.frames[0].changes] == [one.form.value for one in made.blocks]
    assert entry.frames[0].prompt == made.text
    assert any(step.why for step in entry.frames[0].steps)


def few() -> list[tokenbox.Section]:
    """Sections without what only the policy degrade obeys."""
    return [tokenbox.Section.of({k: v for k, v in one.items() if k != "forms"}) for one in sections()[:4]]


def messages() -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read it. " * 30},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a long result " * 200},
        {"role": "assistant", "content": "I have read it."},
        {"role": "user", "content": "And now?"},
    ]


def test_fitted_messages_say_what_left_and_how_it_comes_back() -> None:
    fitted = tokenbox.fit(messages(), 260, model="gpt-4o", handles=True)
    entry = entry_of(fitted)
    states = entry.frames[0].changes
    assert [state.decision for state in states] == ["kept", "kept", "kept", "cut", "kept", "kept"]
    (handle,) = [state.expand for state in states if state.expand]
    assert fitted.expand(handle) == messages()[3]["content"]
    assert entry.frames[0].total == fitted.total
    assert all(step.whole for step in entry.frames[0].steps)


def test_a_conversation_shows_its_next_request() -> None:
    conversation = tokenbox.Conversation(count="o200k_base", system="Be brief.", token_budget=1000)
    conversation.user("What is a token?")
    entry = entry_of(conversation)
    assert entry.frames[0].total == conversation.estimate_tokens()
    assert sum(item.base or 0 for item in entry.items) == conversation.estimate_tokens()


def test_a_plan_and_a_decision_show_the_limits_and_the_remedies() -> None:
    plan = ctx.pack(few(), 300, 100, model="gpt-4o", tokenizer="o200k_base")
    entry = entry_of(plan)
    assert entry.limits == (("context window", 300), ("reserved for the answer", 100))
    assert entry.frames[0].budget == 200
    denied = ctx.enforce("gpt-4o", few(), max_tokens_request=100, max_ctx=300, tokenizer="o200k_base")
    entry = entry_of(denied)
    assert entry.verdict is not None
    assert (entry.verdict.ok, entry.verdict.title) == (False, "This request is refused.")
    assert len(entry.verdict.lines) == 1 + len(denied.plan)
    assert [frame.label for frame in entry.frames] == ["as it was given", "cut to fit"]
    assert entry_of(ctx.enforce("gpt-4o", few()[:1], tokenizer="o200k_base")).verdict.ok  # type: ignore[union-attr]


def test_anything_else_is_refused_by_its_name() -> None:
    with pytest.raises(NothingToInspect, match="not dict"):
        entry_of({})


# Files.


def read(path: Path, *, budget: int | None = None) -> PageEntry:
    (entry,) = entries_in(str(path), None if path.is_dir() else path.read_bytes(), InspectOptions(budget))
    return entry


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_request_counts_what_count_says(tmp_path: Path, seed: int) -> None:
    """One number, and its mark, on every surface; and the parts add up to it."""
    given = random_request(seed)
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(given))
    for model in ("gpt-4o", "claude-sonnet-4-5"):
        try:
            expected = tokenbox.count(given, model)
        except tokenbox.TokenboxError as error:
            with pytest.raises(type(error)):
                entries_in(str(path), path.read_bytes(), InspectOptions(model=model))
            continue
        (entry,) = entries_in(str(path), path.read_bytes(), InspectOptions(model=model))
        (frame,) = entry.frames
        assert (frame.total, frame.exact) == (expected.total, expected.exact)
        parts = sum(state.size or 0 for state in frame.changes)
        assert parts >= expected.total
        assert parts == expected.total or frame.changes[0].decision == "absent"
        logged = tmp_path / "log.jsonl"
        logged.write_text(json.dumps({"request": given}))
        (entry,) = entries_in(str(logged), logged.read_bytes(), InspectOptions(model=model))
        assert (entry.frames[0].total, entry.frames[0].exact) == (expected.total, expected.exact)


DOCUMENT = """
budget = 9
[[sections]]
id = "a"
content = "one two three four five six seven eight nine ten"
shrink = 1
"""


def test_a_document_is_laid_out(tmp_path: Path) -> None:
    path = tmp_path / "prompt.toml"
    path.write_text(DOCUMENT)
    assert read(path).frames[0].budget == 9
    assert read(path, budget=4).frames[0].total == 4
    assert final(read(path, budget=4)) == {"a": ("truncated", 4)}


def records() -> dict[str, Any]:
    blocks = tokenbox.render_blocks(
        [DocumentBlock("notes", b"word " * 300, FormatHint.MARKDOWN)], "o200k_base", 40
    )
    return {
        "layout": laid_out(),
        "blocks": blocks,
        "conversation": tokenbox.fit(messages(), 260, model="gpt-4o"),
        "plan": ctx.pack(few(), 300, 100, tokenizer="o200k_base"),
        "decision": ctx.enforce("gpt-4o", few(), max_tokens_request=100, max_ctx=300, tokenizer="o200k_base"),
        "estimate": ctx.estimate("gpt-4o", few(), tokenizer="o200k_base"),
    }


@pytest.mark.parametrize("kind", ["layout", "blocks", "conversation", "plan", "decision", "estimate"])
def test_a_saved_record_shows_what_it_says(tmp_path: Path, kind: str) -> None:
    value = records()[kind]
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(value.to_dict()))
    entry = read(path)
    assert entry.kind == kind
    if kind == "layout":
        assert final(entry) == final(entry_of(value))
        assert entry.frames[0].prompt == value.text
    if kind == "decision":
        assert entry.verdict == entry_of(value).verdict
        assert entry.limits == entry_of(value).limits
    page([entry])


def test_an_estimate_by_an_exact_vocabulary_is_shown_as_an_estimate() -> None:
    """The vocabulary counts texts exactly; what stands around the messages is not known exactly."""
    sections = [{"id": "a", "role": "user", "content": "hello " * 9}]
    layout = tokenbox.layout(sections, 99, "o200k_base", model="an-unknown-model")
    assert layout.tokenizer.exact
    saved = json.dumps(layout.to_dict()).encode()
    (entry,) = entries_in("saved.json", saved, InspectOptions())
    assert [one.frames[0].exact for one in (entry, entry_of(layout))] == [False, False]
    # The mark stands at the figure: the name of the vocabulary says nothing about it.
    named = [dict(one.facts)["Tokenizer"] for one in (entry, entry_of(layout))]
    assert named == ["o200k_base", f"o200k_base {layout.tokenizer.version}"]


def test_the_summary_of_a_batch_is_shown(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "hello world"}\n{"text": "hello"}\n')
    command = [sys.executable, "-m", "tokenbox", "batch", str(rows), "-o", str(tmp_path / "out.jsonl")]
    options = ["--task", "count", "--content", "text", "-t", "utf8-bytes", "--json"]
    ran = subprocess.run([*command, *options], capture_output=True, check=True)
    path = tmp_path / "summary.json"
    path.write_bytes(ran.stdout)
    entry = read(path)
    assert entry.kind == "batch"
    assert entry.frames[0].total == 16
    assert dict(entry.facts)["Rows"] == "2"


@pytest.mark.parametrize("figure", [-5, "x", [], 1.5, 10**400])
def test_a_saved_error_is_shown_whatever_its_figures(figure: object) -> None:
    error = {"code": "invalid_budget", "message": "m", "budget": figure, "fixed_load": figure}
    (entry,) = entries_in("e.json", json.dumps({"error": error}).encode(), InspectOptions())
    assert (entry.kind, entry.frames[0].budget, entry.frames[0].total) == ("refusal", None, None)


@pytest.mark.parametrize("schema", ["tokenbox.plan/1", "tokenbox.window/9", "tokenbox.count/1"])
def test_a_record_of_another_schema_is_refused_by_its_name(schema: str) -> None:
    """It was refused with a list of everything that a page shows, as if it were no record at all."""
    data = {**records()["conversation"].to_dict(), "schema": schema}
    with pytest.raises(NothingToInspect, match=f"has the schema '{schema}'"):
        entries_in("saved.json", json.dumps(data).encode(), InspectOptions())


@pytest.mark.parametrize("kind", ["layout", "blocks", "conversation", "plan", "decision", "estimate"])
def test_a_record_that_was_tampered_with_is_refused_or_shown(tmp_path: Path, kind: str) -> None:
    """Never a traceback, whatever stands in the place of a value."""
    data = records()[kind].to_dict()
    path = tmp_path / "saved.json"
    values: tuple[object, ...] = (None, -1, "x", [], {}, [1], [{}], 10**400)
    for name in data:
        for wrong in values:
            path.write_text(json.dumps({**data, name: wrong}))
            try:
                page([read(path)])
                written([read(path)], wrapped=True)
            except tokenbox.TokenboxError as error:
                assert str(error)  # noqa: PT017


@pytest.mark.parametrize("name", [path.stem for path in sorted((GOLDEN / "proof").glob("*.tar"))])
def test_a_proof_shows_what_it_proves(name: str) -> None:
    entry = read(GOLDEN / "proof" / f"{name}.tar")
    facts = dict(entry.facts)
    assert entry.kind == "proof"
    assert len(facts["Bundle"]) == 64
    assert entry.items
    if name == "refusal":
        assert entry.verdict is not None
        assert not entry.verdict.ok
    page([entry])


def test_a_proof_of_a_gateway_shows_what_left_and_why() -> None:
    entry = read(GOLDEN / "proof" / "gateway-made-to-fit.tar")
    given, frame = entry.frames
    decisions = [state.decision for state in frame.changes]
    assert decisions == ["beside", "kept", *["evicted"] * 16, "cut", "kept", "kept"]
    assert entry.items[1].text == "Be brief."
    assert [step.action for step in frame.steps] == ["truncate", *["evict"] * 8]
    assert frame.steps[0].why == "the setting truncate keeps at most 64 tokens of an old text"
    assert entry.verdict is not None
    assert entry.verdict.lines == (
        "Changed to make it fit: truncate (1,171 -> 1,108 tokens), then evict (1,108 -> 236 tokens).",
    )
    assert not any("does not contain" in note for note in entry.notes)
    assert (given.total, frame.total) == (1_171, 236)
    for one in entry.frames:  # the strip is true to scale
        assert sum(state.size or 0 for state in one.changes) == one.total
    assert all(state.size for state in frame.changes if state.decision in ("beside", "kept", "cut"))
    (cut,) = [state for state in frame.changes if state.decision == "cut"]
    assert cut.text != entry.items[cut.item].text
    assert (cut.size or 0) < (entry.items[cut.item].base or 0)
    evictions = [step for step in frame.steps if step.action == "evict"]
    assert evictions[0].items == (2, 3)  # the first messages after the system message


@pytest.mark.parametrize("name", ["gateway-admitted", "gateway-refused", "gateway-counted-by-a-server"])
def test_a_request_that_a_gateway_left_as_it_was_has_sizes(name: str) -> None:
    entry = read(GOLDEN / "proof" / f"{name}.tar")
    (frame,) = entry.frames
    sizes = [state.size for state in frame.changes]
    assert all(size is not None for size in sizes)
    assert frame.parts_exact is False
    if name != "gateway-counted-by-a-server":  # its figure may be smaller than ours
        assert sum(size or 0 for size in sizes) == frame.total


@pytest.mark.parametrize("key", ["messages", "input"])
def test_a_summary_that_a_gateway_added_is_shown_in_its_place(key: str) -> None:
    given = [{"role": role, "content": f"{role} {n} " + "word " * 20} for n in range(3) for role in ROLES]
    shorter = {**given[5], "content": "assistant 2"}
    sent = [{"role": "system", "content": "In short: words."}, given[4], shorter]
    bodies = [json.dumps({"model": "m", key: one}).encode() for one in (given, sent)]
    texts = Texts(bodies)
    digests = [hashlib.sha256(body).hexdigest() for body in bodies]
    inputs: list[Any] = [
        {"id": f"{key}[{n}]", "kind": m["role"], "digest": "00"} for n, m in enumerate(given)
    ]
    recorded: Any = SimpleNamespace(
        inputs=[*inputs, {"id": "request", "kind": "request", "digest": digests[0]}],
        texts=texts,
        contents=SimpleNamespace(manifest=SimpleNamespace(emitted=digests[1])),
        predicate={"tokenizer": {"name": "stub:/tokenize"}},
    )
    made = gateway_items(recorded, inputs, {0, 1, 2, 3}, {5}, (1_000, 500))
    assert made is not None
    assert made.sent is not None
    words = [state.decision for state in made.sent]
    assert words == ["beside", "added", *["evicted"] * 4, "kept", "cut"]
    assert [made.items[i].text for i in (1, made.first)] == [sent[0]["content"], given[0]["content"]]
    assert made.sent[-1].text == "assistant 2"
    for states, total in ((made.given, 1_000), (made.sent, 500)):
        assert sum(state.size or 0 for state in states) == total
    # A bundle that contradicts itself is shown without what it contradicts.
    assert gateway_items(recorded, inputs[:-1], set(), set(), (1, 1)) is None
    forged = gateway_items(recorded, inputs, set(), set(), (1, 1))
    assert forged is not None
    assert forged.sent is None


def test_a_proof_with_texts_is_laid_out_again_and_compared(tmp_path: Path) -> None:
    from tokenbox.store.bundles import Bundles  # only here

    bundles = Bundles(tmp_path, texts=True)
    given = [sections()[place] for place in (0, 3, 5)]  # every budget of the slider is laid out
    made = tokenbox.layout(given, 60, "o200k_base", policy="degrade", proof=bundles)
    assert "truncated" in str(made)
    (folder,) = [path for path in tmp_path.iterdir() if len(path.name) == 64]
    entry = read(folder)
    assert entry.notes[0] == "Laid out again from the bundle; the digest equals the recorded one."
    assert dict(entry.facts)["Digest"] == made.digest
    assert entry.slider is not None
    without = Bundles(tmp_path / "without")
    tokenbox.layout(given, 60, "o200k_base", policy="degrade", proof=without)
    (folder,) = [path for path in (tmp_path / "without").iterdir() if len(path.name) == 64]
    entry = read(folder)
    assert all(item.text is None for item in entry.items)
    assert final(entry) == final(entry_of(made))


def test_a_folder_and_a_pack_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def one():\n    return 1\n" * 100)
    (tmp_path / "b.md").write_text("# Notes\n" + "word " * 400)
    entry = read(tmp_path, budget=300)
    assert entry.kind == "pack"
    assert entry.frames[0].total is not None
    assert entry.frames[0].total <= 300
    from tokenbox.lcp import encode  # only here

    path = tmp_path / "p.bcp"
    path.write_bytes(
        encode([CodeBlock(Lang.PYTHON, content=b"x = 1\n" * 200, path="a.py", summary="one assignment")])
    )
    entry = read(path, budget=60)
    assert [state.decision for state in entry.frames[0].changes] == ["summary"]
    assert entry.slider is not None


@pytest.mark.slow
def test_messages_with_a_budget_are_fitted(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"model": "gpt-4o", "messages": messages()}))
    entry = read(path, budget=260)
    assert entry.kind == "conversation"
    assert entry.frames[0].total == tokenbox.fit(messages(), 260, model="gpt-4o").total
    assert read(path).kind == "request"


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"a": 1}\n{"b": 2}', b"[" * 100_000]
)
def test_what_is_nothing_is_said_to_be_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(NothingToInspect):
        read(path)


@pytest.mark.parametrize("text", ["null", "[]", "3", '{"a": 1', "'a'"])
def test_only_what_is_no_json_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a b.json"
    path.write_text(text)
    with pytest.raises(NothingToInspect) as refused:
        read(path)
    command = shlex.split(refused.value.message.partition("To see the place: python ")[2])
    run = [sys.executable, *(command or ["-m", "json.tool", str(path)])]
    done = subprocess.run(run, capture_output=True, check=False)
    assert (done.returncode == 0) == (not command), "the command shows where"
