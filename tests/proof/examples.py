"""Evidence for tests: a layout, a refusal, and blocks with a summary."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenbox.content.block_kinds import Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock
from tokenbox.content.section import Section
from tokenbox.errors import TokenboxError
from tokenbox.proof.bundle import VOLATILE, build
from tokenbox.proof.calls import proven
from tokenbox.proof.of_blocks import RENDER_BLOCKS
from tokenbox.proof.of_sections import LAYOUT

if TYPE_CHECKING:
    from tokenbox.proof.calls import RecordedFunction
    from tokenbox.proof.evidence import Evidence

MARKERS = ("QUAGGA rules", "QUAGGA notes é", "QUAGGA extra", "QUAGGA code", "QUAGGA summary")
SECTIONS = [
    Section("rules", f"Answer in English. {MARKERS[0]}", role="system"),
    Section(
        "notes", f"one two {MARKERS[1]} three four", shrink="1/3", strategy="squeeze |> head(2)", keep="tail"
    ),
    Section("more", "five", shrink=1, grow="0.5", extra=(MARKERS[2], "six")),
]
BLOCKS = [
    CodeBlock(lang=Lang.PYTHON, path="a.py", content=MARKERS[3].encode() * 40),
    AnnotationBlock.of_priority(2, Priority.CRITICAL),
    CodeBlock(lang=Lang.RUST, path="b.rs", content=b"fn main() {}\n"),
]
MADE = ("2026-11-21T10:00:00.000000Z", "host", {"python": "cpython 3.11.0"})


def evidence_of(
    function: RecordedFunction[..., Any],
    *args: Any,
    source: str | None = None,
    **kwargs: Any,
) -> Evidence:
    """Return the evidence of a call, also of one that raises."""
    found: list[Evidence] = []
    with suppress(TokenboxError):
        proven(function, found.append, source=source)(*args, **kwargs)
    (evidence,) = found
    return evidence


def layout_evidence(budget: int = 60) -> Evidence:
    return evidence_of(LAYOUT, SECTIONS, budget, "utf8-bytes", source="prompt.toml")


def refusal_evidence() -> Evidence:
    return layout_evidence(3)


def blocks_evidence() -> Evidence:
    return evidence_of(RENDER_BLOCKS, BLOCKS, "chars4", 60, summarize=lambda *_: MARKERS[4])


EXAMPLES = {"layout": layout_evidence, "refusal": refusal_evidence, "blocks": blocks_evidence}


def files_of(evidence: Evidence, *, texts: bool = False) -> tuple[str, dict[str, bytes]]:
    bundle = build(evidence, texts=texts)
    return bundle.id, {**bundle.files, VOLATILE: bundle.volatile(*MADE)}
