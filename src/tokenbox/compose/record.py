"""The record of a layout: what was emitted, what became of each section and why, and the digest of it all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tokenbox.content.weight import weight_text
from tokenbox.engine.result import Action, Decision
from tokenbox.errors import LayoutError
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenbox.compose.counting import Counter
    from tokenbox.compose.diff import LayoutDiff
    from tokenbox.content.section import Section
    from tokenbox.engine.result import Log, Step
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SCHEMA = "tokenbox.layout/1"
ALGORITHM = "token-box-model/1"


@dataclass(frozen=True, slots=True)
class SectionResult:
    """What became of one section, in tokens: ``base_size`` of its content, ``size`` of what was emitted."""

    id: str
    decision: Decision
    base_size: int
    size: int
    steps: tuple[Step, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "decision": self.decision.value,
            "base_size": self.base_size,
            "size": self.size,
            "steps": [step.to_dict() for step in self.steps],
        }


@dataclass(frozen=True)
class Layout:
    """A finished layout. ``total <= budget``, and ``total`` is the count of ``text`` as a whole.

    ``joins`` is what the separators and the merging at section borders add: ``total`` minus the sum of the
    section sizes (it may be negative). ``pricing`` says how joins were priced while deciding: ``exact`` or
    ``conservative``. ``fixed_load`` is the count of the critical sections alone.
    """

    inputs: tuple[Section, ...] = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    base_sizes: tuple[int, ...] = field(repr=False)
    log: Log = field(repr=False)
    text: str = field(repr=False)
    total: int
    budget: int
    fixed_load: int
    tokenizer: TokenizerIdentity
    separator: str
    reclaim: bool
    pricing: str
    counter: Counter | None = field(repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        # A tokenizer with its engine stays in its process; the record travels.
        return {**self.__dict__, "counter": None}

    @property
    def joins(self) -> int:
        return self.total - sum(self.sizes)

    @cached_property
    def sections(self) -> tuple[SectionResult, ...]:
        """Every section in declared order, dropped ones too."""
        steps: dict[int, list[Step]] = {}
        for step in self.log:
            steps.setdefault(step.section, []).append(step)
        return tuple(
            SectionResult(
                section.id,
                _decision(section, text, steps.get(i, ())),
                base_size,
                size,
                tuple(steps.get(i, ())),
            )
            for i, (section, text, base_size, size) in enumerate(
                zip(self.inputs, self.texts, self.base_sizes, self.sizes, strict=True)
            )
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over the RFC 8785 JSON of everything that decides the layout, and of its result."""
        import rfc8785  # noqa: PLC0415  # only who asks for a digest pays for it

        return hashlib.sha256(rfc8785.dumps(cast("Any", self._digested()))).hexdigest()

    def messages(self) -> list[dict[str, str]]:
        """One chat message per section with text, in order: ``{"role", "content"}``.

        Raises :class:`LayoutError` where a section that was emitted has no role.
        """
        bare = [
            section.id
            for section, text in zip(self.inputs, self.texts, strict=True)
            if text and not section.role
        ]
        if bare:
            raise LayoutError(
                f"section {bare[0]!r} has no role, so there are no messages. "
                "Give every section a role, or use the text.",
                id=bare[0],
            )
        return [
            {"role": section.role or "", "content": text}
            for section, text in zip(self.inputs, self.texts, strict=True)
            if text
        ]

    def to_dict(self) -> dict[str, object]:
        """The record as JSON-compatible data; its schema is ``tokenbox schema result``."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "total": self.total,
            "joins": self.joins,
            "fixed_load": self.fixed_load,
            "pricing": self.pricing,
            "tokenizer": self.tokenizer.to_dict(),
            "sections": [section.to_dict() for section in self.sections],
            "text": self.text,
            "digest": self.digest,
        }

    def whatif(self, budgets: Iterable[int]) -> list[Layout | ContextCriticalOverflow]:
        """The same sections at other budgets; no text is counted again. See :func:`tokenbox.whatif`.

        Raises :class:`LayoutError` for a layout that came from another process, without its tokenizer.
        """
        from tokenbox.compose.lay_out import lay_out_all  # noqa: PLC0415  # which makes layouts

        if self.counter is None:
            raise LayoutError(
                "this layout is a copy without its tokenizer. "
                "Use tokenbox.whatif(layout.inputs, budgets, tokenizer)."
            )
        return lay_out_all(self.inputs, budgets, self.separator, self.counter, reclaim=self.reclaim)

    def diff(self, other: Layout) -> LayoutDiff:
        """What differs in ``other``: budgets, decisions, sizes, and the first byte of the text."""
        if not isinstance(other, Layout):
            raise LayoutError(f"a layout is compared with a layout, not with {type(other).__name__}.")
        from tokenbox.compose.diff import diff  # noqa: PLC0415  # made only on request

        return diff(self, other)

    def explain(self, width: int = 80) -> str:
        """The layout as a plain-text picture ``width`` columns wide."""
        from tokenbox.render.explain import explain  # noqa: PLC0415  # a picture is drawn only on request

        return explain(self, width)

    def _digested(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "algorithm": ALGORITHM,
            "options": {"separator": self.separator, "reclaim": self.reclaim},
            "budget": self.budget,
            "tokenizer": self.tokenizer.to_dict(),
            "inputs": [section_digest(section) for section in self.inputs],
            "decisions": [
                [section.id, section.decision.value, section.base_size, section.size]
                for section in self.sections
            ],
            "emitted": text_digest(self.text).hex(),
        }


_DECISIONS = {
    Action.EXPAND: Decision.EXPANDED,
    Action.COMPRESS: Decision.COMPRESSED,
    Action.TRUNCATE: Decision.TRUNCATED,
    Action.DROP: Decision.DROPPED,
}


def _decision(section: Section, text: str, steps: Sequence[Step]) -> Decision:
    """What the last step left, where that is not the content itself."""
    if not steps or (text == section.content and steps[-1].action is not Action.DROP):
        return Decision.KEPT
    return _DECISIONS[steps[-1].action]


def section_digest(section: Section) -> str:
    """SHA-256 (hex) over everything in a section that can change a layout."""
    fields = [
        section.id,
        section.content_digest.hex(),
        str(section.priority),
        str(section.min),
        weight_text(section.grow),
        weight_text(section.shrink),
        "" if section.strategy is None else section.strategy.identity,
        section.role or "",
        section.keep.value,
        *(text_digest(item).hex() for item in section.extra),
    ]
    return hashlib.sha256("".join(f"{len(f)}:{f}" for f in fields).encode()).hexdigest()
