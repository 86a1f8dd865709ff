"""A finished layout: the emitted text, the decision for each section, and the digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenbox.compose.constraints import SectionWarning, check_policy, checked_groups, warnings
from tokenbox.compose.diff import SCHEMA, LayoutDiff, diff
from tokenbox.compose.messages import messages_of
from tokenbox.content.canonical import record_digest
from tokenbox.content.section import Section, Text
from tokenbox.content.weight import weight_text
from tokenbox.engine.result import Action, Decision, Policy, SectionResult, Step
from tokenbox.errors import ContextCriticalOverflow, InvalidText, LayoutError, one_of, shown
from tokenbox.records import to_record
from tokenbox.render.explain import explain
from tokenbox.render.html import Pictured, in_words
from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from tokenbox.compose.columns import SectionColumns
    from tokenbox.compose.counting import Counter
    from tokenbox.compose.requests import Count
    from tokenbox.content.group import Group
    from tokenbox.tokenizers.protocol import TokenizerIdentity

    Made = tuple[tuple[int, ...], tuple[Step, ...]]
    AtBudgets = Callable[[object], list["Layout | ContextCriticalOverflow"]]


ALGORITHM = "token-box-model/1"
SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """The options of a layout, in addition to sections, budget and tokenizer."""

    separator: str = SEPARATOR
    policy: Policy = Policy.FACET
    groups: tuple[Group, ...] = ()
    reclaim: bool = False

    @classmethod
    def of(
        cls,
        sections: Sequence[Section],
        separator: object,
        policy: object,
        groups: object,
        *,
        reclaim: object,
    ) -> LayoutOptions:
        """Validate the options, also against the sections."""
        chosen = one_of(Policy, "policy", policy, LayoutError)
        if type(reclaim) is not bool:
            raise LayoutError(f"reclaim is True or False, not {shown(reclaim)}.")
        checked = () if groups is None else checked_groups(groups)
        options = cls(_checked_separator(separator), chosen, checked, reclaim)
        check_policy(sections, checked, chosen)
        return options

    def to_dict(self) -> dict[str, object]:
        """Return the options as plain data, without policy and groups for the default policy."""
        data: dict[str, object] = {"separator": self.separator, "reclaim": self.reclaim}
        if self.policy is not Policy.FACET:
            data["policy"] = self.policy.value
            data["groups"] = {
                group.name: group.to_dict() for group in sorted(self.groups, key=lambda g: g.name)
            }
        return data


class LayoutRecord:
    """What a layout did to every section: the counts of the contents, and the steps. Made when it is read.

    ``changed``: whether there are steps, known before.
    """

    def __init__(self, make: Callable[[], Made], *, changed: bool) -> None:
        self._make, self.changed = make, changed

    @cached_property
    def made(self) -> Made:
        return self._make()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LayoutRecord) and self.made == other.made

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __reduce__(self) -> tuple[object, ...]:
        return _record_of, self.made


def _record_of(*made: Any) -> LayoutRecord:
    return LayoutRecord(lambda: made, changed=bool(made[1]))


@dataclass(frozen=True)
class Layout(Pictured):
    """A finished layout. ``total`` is the count of the whole ``text``, and ``total <= budget``.

    With a counter of requests, the whole is ``messages()``: ``count`` is the count of that request, and
    ``total`` is its total.

    ``joins``: the tokens added by separators and by merging at section borders, which is ``total`` minus the
    sum of the section sizes (it may be negative). ``pricing``: how joins were priced during the decisions,
    ``exact`` or ``conservative``. ``fixed_load``: the count of the critical sections alone.
    """

    columns: SectionColumns = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    record: LayoutRecord = field(repr=False)
    text: str = field(repr=False)
    total: int
    budget: int
    fixed_load: int
    tokenizer: TokenizerIdentity
    options: LayoutOptions
    forms: Mapping[int, int] = field(repr=False)
    too_small: Mapping[int, tuple[int, int]] = field(repr=False)
    pricing: str
    counter: Counter | None = field(repr=False, compare=False)
    at_budgets: AtBudgets | None = field(repr=False, compare=False)
    count: Count | None = None

    def __getstate__(self) -> dict[str, object]:
        # A tokenizer's engine cannot be pickled.
        return {**self.__dict__, "counter": None, "at_budgets": None}

    @cached_property
    def inputs(self) -> tuple[Section, ...]:
        """The sections."""
        return tuple(self.columns)

    @property
    def base_sizes(self) -> tuple[int, ...]:
        """The count of every section's content."""
        return self.record.made[0]

    @property
    def log(self) -> tuple[Step, ...]:
        """The steps, in order."""
        return self.record.made[1]

    @property
    def separator(self) -> str:
        return self.options.separator

    @property
    def reclaim(self) -> bool:
        return self.options.reclaim

    @property
    def policy(self) -> Policy:
        return self.options.policy

    @cached_property
    def warnings(self) -> tuple[SectionWarning, ...]:
        """The settings of sections that have no effect, and the forms that a ``min`` kept out."""
        kept_out = {
            i: (self._named_form(i, number), size)
            for i, (number, size) in self.too_small.items()
            if self.texts[i] != self.inputs[i].content
        }
        return tuple(warnings(self.inputs, self.base_sizes, kept_out))

    @property
    def exact(self) -> bool:
        """Whether ``total`` is exact. A vocabulary is exact for texts; a count of messages says so itself."""
        return self.tokenizer.exact if self.count is None else self.count.exact

    @property
    def joins(self) -> int:
        return self.total - sum(self.sizes)

    @cached_property
    def sections(self) -> tuple[SectionResult, ...]:
        """All sections in declared order, including dropped ones."""
        steps: dict[int, list[Step]] = {}
        for step in self.log:
            steps.setdefault(step.section, []).append(step)
        return tuple(
            SectionResult(
                section.id,
                decision(section, text, steps.get(i, ())),
                base_size,
                size,
                text,
                self._form(i) if text else None,
                tuple(steps.get(i, ())),
            )
            for i, (section, text, base_size, size) in enumerate(
                zip(self.inputs, self.texts, self.base_sizes, self.sizes, strict=True)
            )
        )

    def _form(self, i: int) -> str | None:
        number = self.forms.get(i, 0)
        return self._named_form(i, number) if number and self.inputs[i].forms else None

    def _named_form(self, i: int, number: int) -> str:
        form = self.inputs[i].alternatives[number - 1]
        return f"text {number}" if isinstance(form, Text) else str(form)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 (hex) of the RFC 8785 JSON of all inputs of the layout and its result."""
        return record_digest(self._digested())

    def messages(self) -> list[dict[str, str]]:
        """Return one chat message per section with text, in order: ``{"role", "content"}``.

        Raises :class:`LayoutError` if an emitted section has no role.
        """
        return messages_of(self.inputs, self.texts)

    def to_dict(self) -> dict[str, object]:
        """Return the record as JSON-compatible data. ``tokenbox schema result`` prints its schema."""
        return to_record(
            self,
            "schema budget total count? joins fixed_load pricing tokenizer policy? sections warnings? text "
            "digest",
            schema=SCHEMA,
            policy=None if self.policy is Policy.FACET else self.policy.value,
        )

    def whatif(self, budgets: Iterable[int]) -> list[Layout | ContextCriticalOverflow]:
        """Lay out the same sections at other budgets, without counting again. See :func:`tokenbox.whatif`.

        Raises :class:`LayoutError` for a layout from another process, which has no tokenizer.
        """
        if self.at_budgets is None:
            raise LayoutError(
                "this layout is a copy without its tokenizer. "
                "Use tokenbox.whatif(layout.inputs, budgets, tokenizer)."
            )
        return self.at_budgets(budgets)

    def diff(self, other: Layout) -> LayoutDiff:
        """Compare with ``other``: budgets, decisions, sizes, and the first changed byte of the text."""
        if not isinstance(other, Layout):
            raise LayoutError(
                f"a layout can be compared only with a layout, not with {type(other).__name__}."
            )
        return diff(self, other)

    def explain(self, width: int = 80) -> str:
        """Return a plain-text picture of the layout, ``width`` columns wide."""
        return explain(self, width)

    def __repr__(self) -> str:
        decisions = [section.decision.value for section in self.sections]
        return in_words("Layout", self.total, self.budget, self.tokenizer.name, decisions, exact=self.exact)

    def _digested(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "algorithm": ALGORITHM,
            "options": self.options.to_dict(),
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


def decision(section: Section, text: str, steps: Sequence[Step]) -> Decision:
    """Return the decision of the last step; ``KEPT`` if the text is the content."""
    if not steps or (text == section.content and steps[-1].action is not Action.DROP):
        return Decision.KEPT
    return _DECISIONS[steps[-1].action]


def section_digest(section: Section) -> str:
    """Return the SHA-256 (hex) of all fields of a section that can change a layout."""
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
        *_degrading_fields(section),
    ]
    return hashlib.sha256("".join(f"{len(f)}:{f}" for f in fields).encode()).hexdigest()


def _degrading_fields(section: Section) -> Iterable[str]:
    """Yield the name and value of each field beyond the Token Box Model's that is not at its default."""
    for name, value in section.degrading().items():
        yield f"{name}="
        if name == "forms":
            yield from (
                text_digest(form.text).hex() if isinstance(form, Text) else form.identity
                for form in section.forms
            )
        else:
            yield str(value)
    if section.items is not None:
        yield "items="
        yield from (str(len(item)) for item in section.items)


def _checked_separator(separator: object) -> str:
    if not isinstance(separator, str):
        raise LayoutError(f"a separator is text, not {type(separator).__name__}.")
    if not separator.isascii():
        try:
            text_digest(separator)
        except InvalidText as error:
            raise InvalidText(f"the separator: {error}", **error.details) from None
    return separator
