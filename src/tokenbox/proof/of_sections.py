"""The records of layouts in a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from tokenbox.compose import sections as compose_sections
from tokenbox.compose.constraints import checked_groups
from tokenbox.compose.layout import ALGORITHM, section_digest
from tokenbox.content.section import Section, Text
from tokenbox.content.weight import weight_text
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.engine.result import Policy
from tokenbox.errors import InvalidBudget, InvalidSection, UnknownTokenizer
from tokenbox.proof.bundle import INPUTS
from tokenbox.proof.calls import MESSAGES, RecordedFunction
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.evidence import EvidenceKind, Input
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from tokenbox.compose.layout import Layout
    from tokenbox.proof.calls import Arguments, Recorded
    from tokenbox.proof.evidence import Record

# The fields of a section that the record has unchanged.
_PLAIN = "priority min grow shrink strategy role keep max group with cut marker".split()


def section_input(section: Section, tokens: int | None) -> Input:
    """Return the record of a section. ``tokens``: of its content; None if not counted."""
    texts = section.texts
    return Input(
        id=section.id,
        kind="section",
        digest=section_digest(section),
        size=sum(len(text) if text.isascii() else len(text.encode()) for text in texts),
        tokens=tokens,
        fields={
            "content": section.content_digest.hex(),
            "priority": section.priority,
            "min": section.min,
            "grow": weight_text(section.grow),
            "shrink": weight_text(section.shrink),
            "strategy": None if section.strategy is None else str(section.strategy),
            "lenses": None if section.strategy is None else section.strategy.identity,
            "role": section.role,
            "keep": section.keep.value,
            "extra": [text_digest(text).hex() for text in section.extra],
            **_degrading(section),
        },
        texts=texts,
    )


def _degrading(section: Section) -> Record:
    """Return the fields for degrading, if set; texts by their digests."""
    fields = section.degrading()
    if section.forms:
        fields["forms"] = [
            {"text": text_digest(form.text).hex()}
            if isinstance(form, Text)
            else {"pipeline": str(form), "lenses": form.identity}
            for form in section.forms
        ]
    if section.items is not None:
        fields["items"] = [len(item) for item in section.items]
    return fields


def recorded_sections(recorded: Recorded) -> list[Section]:
    """Return the sections that the bundle names. Raises ``ReplayImpossible`` if a text is missing."""
    digests = [
        (str(record["id"]), digest)
        for record in recorded.inputs
        for group in _texts(record).values()
        for digest in group
    ]
    texts = iter(recorded.texts_of(digests, "the texts of sections"))
    sections = []
    for record in recorded.inputs:
        fields = cast("Record", record["fields"])
        found = {name: [next(texts) for _ in digests] for name, digests in _texts(record).items()}
        own = iter(found["forms"])
        given = {
            "id": record["id"],
            "content": _content(found["content"][0], fields.get("items")),
            "extra": found["extra"],
            "forms": [
                {"text": next(own)} if "text" in form else form.get("pipeline") for form in _forms(fields)
            ],
        }
        sections.append(Section.of(given | {name: fields[name] for name in _PLAIN if name in fields}))
    return sections


def _content(text: str, lengths: object) -> object:
    """Return the content: a text, or a list of items, which are lines with the given lengths."""
    if not isinstance(lengths, list):
        return text
    if not all(type(length) is int for length in lengths):
        raise BundleInvalid("must be a list of lengths.", file=INPUTS, field="items")
    starts = [0, *accumulate(length + 1 for length in lengths)]
    return [text[start : start + length] for start, length in zip(starts, lengths, strict=False)]


def _texts(record: Record) -> dict[str, list[object]]:
    """Return the digests of a section's texts, by their use."""
    fields = cast("Record", record["fields"])
    extra = fields.get("extra")
    return {
        "content": [fields.get("content")],
        "extra": extra if isinstance(extra, list) else [None],
        "forms": [form["text"] for form in _forms(fields) if "text" in form],
    }


def _forms(fields: Record) -> list[dict[str, object]]:
    forms = fields.get("forms", [])
    if not isinstance(forms, list) or not all(isinstance(form, dict) for form in forms):
        raise BundleInvalid("must be a list of tables.", file=INPUTS, field="forms")
    return forms


def _inputs(arguments: Arguments, layout: Layout | None) -> Iterator[Input]:
    sections = arguments["sections"]
    sizes = [None] * len(sections) if layout is None else layout.base_sizes
    return map(section_input, sections, sizes)


def _result(_: Arguments, layout: Layout) -> dict[str, Any]:
    return {
        "decisions": tuple(_decisions(layout)),
        "emitted": layout.text,
        "digest": layout.digest,
        "figures": {
            "total": layout.total,
            # The identity of a chat format does not tell whether it proves the count of this request.
            **({} if layout.count is None else {"exact": layout.exact}),
            "joins": layout.joins,
            "fixed_load": layout.fixed_load,
            "pricing": layout.pricing,
        },
    }


def _decisions(layout: Layout) -> Iterator[Record]:
    """Yield the decision on each section, then the steps in order."""
    for section in layout.sections:
        yield {
            "id": section.id,
            "decision": section.decision.value,
            **({} if section.form is None else {"form": section.form}),
            "base_size": section.base_size,
            "size": section.size,
        }
    for step in layout.log:
        yield {
            "id": layout.inputs[step.section].id,
            "action": step.action.value,
            "before": step.before,
            "after": step.after,
            "why": step.why,
        }


def _also(arguments: Arguments) -> dict[str, object]:
    """Return the policy and its groups, unless they are the default, and whether messages were counted.

    A vocabulary that counts messages, with the markers of chat formats, has the identity of the vocabulary.
    """
    found: dict[str, object] = {}
    if isinstance(arguments["tokenizer"], MarkersFormat):
        found[MESSAGES] = True
    policy = str(arguments.get("policy", Policy.FACET))
    if policy != Policy.FACET:
        groups = arguments["groups"]
        given = None if groups is None else {group.name: group.to_dict() for group in checked_groups(groups)}
        found |= {"policy": policy, "groups": given}
    return found


def _read(recorded: Recorded) -> dict[str, Any]:
    policy = {name: recorded.arguments[name] for name in ("policy", "groups") if name in recorded.arguments}
    return {"sections": recorded_sections(recorded), "budget": recorded.figure("tokens"), **policy}


LAYOUT = RecordedFunction(
    name="layout",
    kind=EvidenceKind.LAYOUT,
    algorithm=ALGORITHM,
    call=compose_sections.layout,
    apart=frozenset({"sections", "budget", "tokenizer", "cache", "policy", "groups"}),
    also=_also,
    also_names=frozenset({"policy", "groups", MESSAGES}),
    inputs=_inputs,
    result=_result,
    read=_read,
    undecided=(InvalidSection, InvalidBudget, UnknownTokenizer),
)
