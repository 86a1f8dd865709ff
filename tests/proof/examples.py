"""Evidence for tests: a layout, a refusal, and blocks with a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tokenbox
from tokenbox.compose.render_blocks import render_blocks
from tokenbox.content.block_kinds import Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock
from tokenbox.content.section import Section
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.proof.bundle import VOLATILE, Volatile, build
from tokenbox.proof.of_blocks import of_blocks
from tokenbox.proof.of_layout import of_layout, of_layout_error
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
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
MADE = Volatile("2026-11-21T10:00:00.000000Z", "host", {"python": "cpython 3.11.0"})


def layout_evidence(budget: int = 60) -> Evidence:
    return of_layout(tokenbox.layout(SECTIONS, budget, "utf8-bytes"), source="prompt.toml")


def refusal_evidence() -> Evidence:
    try:
        tokenbox.layout(SECTIONS, 3, "utf8-bytes")
    except ContextCriticalOverflow as error:
        identity = get("utf8-bytes").identity
        return of_layout_error(error, SECTIONS, 3, identity, "\n\n", reclaim=False)
    raise AssertionError


def blocks_evidence() -> Evidence:
    return of_blocks(render_blocks(BLOCKS, "chars4", 60, summarize=lambda *_: MARKERS[4]))


EXAMPLES = {"layout": layout_evidence, "refusal": refusal_evidence, "blocks": blocks_evidence}


def files_of(evidence: Evidence, *, texts: bool = False) -> tuple[str, dict[str, bytes]]:
    bundle = build(evidence, texts=texts)
    return bundle.id, {**bundle.files, VOLATILE: bundle.volatile(MADE)}
