"""Sections and a budget in, a layout out, with the record of what became of each section and why."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tokenbox.compose.again import MADE
from tokenbox.compose.bounds import Warned, check_policy, checked_groups, engine_boxes, warnings
from tokenbox.compose.counting import Counter
from tokenbox.compose.diff import SCHEMA, LayoutDiff, diff
from tokenbox.compose.linear import PricedWhole
from tokenbox.compose.messages import MessagesWhole, check_roles, count_of_messages, messages_of
from tokenbox.compose.pricing import checked_total, exact_whole
from tokenbox.compose.requests import RequestCounter
from tokenbox.compose.seamed import NotSeamable
from tokenbox.content.section import Group, Section, Text
from tokenbox.content.weight import weight_text
from tokenbox.engine import box, degrade
from tokenbox.engine.result import Action, Decision, Policy
from tokenbox.errors import (
    ContextCriticalOverflow,
    InvalidBudget,
    InvalidSection,
    LayoutError,
    TokenizerError,
)
from tokenbox.integers import token_budget
from tokenbox.tokenizers.cache import CountCache, text_digest
from tokenbox.tokenizers.registry import UNKNOWN, as_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.compose.parts import Parts
    from tokenbox.compose.requests import Count
    from tokenbox.engine.result import Step, StepLog
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

    Groups = Mapping[str, Group | Mapping[str, object]]


ALGORITHM = "token-box-model/1"
SEPARATOR = "\n\n"

# With conservative pricing, the whole is counted beforehand if it has so few characters, or if the parts
# alone are at most a quarter over the budget: whatever fits as a whole is kept as a whole.
SMALL = 16_384
NEAR = 4
# A layout priced conservatively is refined once if more than a twentieth of the budget stayed free.
WASTE = 20

_CONTENT = attrgetter("content")


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """What a layout is made with, beside sections, budget and tokenizer."""

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
        """The options, checked, also against the sections."""
        if policy not in list(Policy):
            raise LayoutError(f"policy is one of {', '.join(Policy)}, not {policy!r}.")
        if type(reclaim) is not bool:
            raise LayoutError(f"reclaim is True or False, not {reclaim!r}.")
        checked = checked_groups({} if groups is None else groups)
        options = cls(_checked_separator(separator), Policy(str(policy)), checked, reclaim)
        check_policy(sections, checked, options.policy)
        return options

    def to_dict(self) -> dict[str, object]:
        """The options as plain data; the policy and groups only where they are not the default."""
        data: dict[str, object] = {"separator": self.separator, "reclaim": self.reclaim}
        if self.policy is not Policy.FACET:
            data["policy"] = self.policy.value
            data["groups"] = {
                group.name: group.to_dict() for group in sorted(self.groups, key=lambda g: g.name)
            }
        return data


def layout(
    sections: Iterable[Section | Mapping[str, object]],
    budget: int,
    tokenizer: str | Tokenizer | RequestCounter | Callable[[str], int],
    separator: str = SEPARATOR,
    *,
    policy: Policy | str = Policy.FACET,
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> Layout:
    """Lay ``sections`` out into ``budget`` tokens (FACET Token Box Model; docs/layout.md has the rules).

    ``sections``: :class:`Section` objects, or mappings with the same fields. ``tokenizer``: a name such as
    ``"o200k_base"``, a tokenizer object, any function from text to a count, or a chat format: then sections
    are messages by their roles, and the budget holds on the request. ``separator`` stands between
    sections that have text. ``policy``: ``"facet"``, the letter of the model, drops what cannot be kept;
    ``"degrade"`` first gives every section a smaller form, then cuts each as far as its ``min``, then drops.
    ``groups``: by name, what sections have in common (:class:`Group`, or mappings). ``reclaim`` gives back,
    after cutting, what then fits again (``degrade`` always does). ``cache`` holds counts between layouts
    (default: one for the process).

    Raises :class:`ContextCriticalOverflow` if the critical sections alone do not fit,
    :class:`InvalidSection` and :class:`InvalidBudget` for bad input, and a ``TokenizerError`` for text that
    cannot be counted.
    """
    checked = checked_sections(sections)
    options = LayoutOptions.of(checked, separator, policy, groups, reclaim=reclaim)
    return lay_out(checked, budget, options, tokenizer, cache)


def lay_out(
    sections: Sequence[Section],
    budget: object,
    options: LayoutOptions,
    tokenizer: str | Tokenizer | RequestCounter | Callable[[str], int],
    cache: CountCache | None = None,
) -> Layout:
    """``layout`` for sections and options that have been checked."""
    return _lay_out(sections, token_budget(budget), options, counter_of(sections, tokenizer, cache))


def counter_of(
    sections: Sequence[Section],
    tokenizer: str | Tokenizer | RequestCounter | Callable[[str], int],
    cache: object,
) -> Counter:
    """What counts: texts, or with a counter of requests the sections as messages."""
    checked = _checked_cache(cache)
    if not isinstance(tokenizer, RequestCounter):
        return Counter(as_tokenizer(tokenizer), checked)
    check_roles(sections)
    return Counter(as_tokenizer(getattr(tokenizer, "tokenizer", UNKNOWN)), checked, tokenizer)


def whatif(
    sections: Iterable[Section | Mapping[str, object]],
    budgets: Iterable[int],
    tokenizer: str | Tokenizer | RequestCounter | Callable[[str], int],
    separator: str = SEPARATOR,
    *,
    policy: Policy | str = Policy.FACET,
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> list[Layout | ContextCriticalOverflow]:
    """One layout per budget, in order, counting each text once.

    A budget too small for the critical sections has its error in its place.
    """
    checked = checked_sections(sections)
    options = LayoutOptions.of(checked, separator, policy, groups, reclaim=reclaim)
    return lay_out_all(checked, budgets, options, counter_of(checked, tokenizer, cache))


def lay_out_all(
    sections: Sequence[Section], budgets: object, options: LayoutOptions, counter: Counter
) -> list[Layout | ContextCriticalOverflow]:
    """``whatif`` for sections that have been checked, and a counter that may know them."""
    if not isinstance(budgets, Iterable) or isinstance(budgets, str | bytes):
        raise InvalidBudget(f"budgets is a list of whole numbers, not {budgets!r}.", budget=repr(budgets))
    results: list[Layout | ContextCriticalOverflow] = []
    for budget in [token_budget(b) for b in budgets]:
        try:
            results.append(_lay_out(sections, budget, options, counter))
        except ContextCriticalOverflow as overflow:
            results.append(overflow)
    return results


def _lay_out(sections: Sequence[Section], budget: int, options: LayoutOptions, counter: Counter) -> Layout:
    """Price the whole exactly where the tokenizer allows it, run the engine, check the result."""
    if counter.requests is not None:
        return _lay_out_messages(sections, budget, options, counter, counter.requests)
    try:
        exact = exact_whole(sections, options.separator, counter)
        if exact is not None:
            result = _run(exact, budget, options)
            # Where this fails, the cuts claimed for the vocabulary do not hold on these texts.
            if result.total == checked_total(exact, [result.text]):
                return result
    except NotSeamable:
        pass
    return _lay_out_priced(sections, budget, options, _text_pricing(sections, options, counter))


def _lay_out_messages(
    sections: Sequence[Section],
    budget: int,
    options: LayoutOptions,
    counter: Counter,
    requests: RequestCounter,
) -> Layout:
    """Lay out what is sent as messages: the budget holds on the request."""
    counts: dict[tuple[str, ...], Count | None] = {}

    def whole(correction: int) -> MessagesWhole:
        priced = MessagesWhole(sections, options.separator, counter, requests)
        priced.correction = correction
        return priced

    def count(texts: Sequence[str]) -> int:
        key = tuple(texts)
        if key not in counts:
            counts[key] = count_of_messages(sections, texts, requests)
        counted = counts[key]
        return 0 if counted is None else counted.total

    pricing = _Pricing(sections, whole, count, lambda: whole(0).sizes, is_cheap=True)
    result = _run(whole(0), budget, options)
    if result.total != count(result.texts):
        result = _lay_out_priced(sections, budget, options, pricing)
    return replace(result, tokenizer=requests.identity, count=counts[tuple(result.texts)])


class _Pricing(NamedTuple):
    """How a whole is priced, with a correction, and counted once it is emitted."""

    sections: Sequence[Section]
    whole: Callable[[int], Parts]
    count: Callable[[Sequence[str]], int]
    sizes: Callable[[], Sequence[int]]
    is_cheap: bool

    def is_worth_counting(self, budget: int) -> bool:
        """Whether to count the whole beforehand: it costs little, or may fit though its parts seem not to."""
        if self.is_cheap or sum(self.sizes()) <= budget + budget // NEAR:
            return True
        return sum(map(len, map(_CONTENT, self.sections))) <= SMALL


def _text_pricing(sections: Sequence[Section], options: LayoutOptions, counter: Counter) -> _Pricing:
    return _Pricing(
        sections,
        lambda correction: PricedWhole(sections, options.separator, counter, correction),
        lambda texts: counter.whole(options.separator.join(text for text in texts if text)),
        lambda: counter.sizes(sections),
        getattr(counter.tokenizer, "cheap", False),
    )


def _lay_out_priced(
    sections: Sequence[Section], budget: int, options: LayoutOptions, pricing: _Pricing
) -> Layout:
    """Price joins conservatively and let the count of the emitted whole decide.

    If that is over the budget by e, lay out again as if the budget were smaller by e; if much was left free,
    once again with what the count taught.
    """
    correction, fitting, least = 0, None, 1
    if pricing.is_worth_counting(budget):
        total = pricing.count([section.content for section in sections])
        correction = total - pricing.whole(0).total
        if total <= budget:
            return _expand_priced(total, budget, options, pricing, correction)
    while True:
        estimate = _run(pricing.whole(correction), budget, options)
        result = replace(estimate, total=pricing.count(estimate.texts))
        if result.total > budget:
            if fitting is not None:
                return fitting
            if not any(section.shrink and text for section, text in zip(sections, result.texts, strict=True)):
                raise _inconsistent(result)
            # The step doubles, so that a counter that punishes every guess still ends the search soon.
            correction += max(result.total - estimate.total, result.total - budget, least)
            least *= 2
        elif fitting is not None or not result.log or budget - result.total <= budget // WASTE:
            return result
        else:
            fitting = result
            correction += result.total - estimate.total


def _expand_priced(
    total: int, budget: int, options: LayoutOptions, pricing: _Pricing, correction: int
) -> Layout:
    """Everything fits, as ``total`` tokens: only the extra items are taken at a price.

    If they turn out to be over the budget by e, they are offered e less, at last nothing.
    """
    offered = budget
    while True:
        estimate = _run(pricing.whole(correction), offered, options)
        result = replace(estimate, total=pricing.count(estimate.texts), budget=budget)
        if result.total <= budget:
            return result
        offered = max(total, offered - (result.total - budget))


def _inconsistent(result: Layout) -> TokenizerError:
    """For a counter that gave the critical sections alone a smaller count a moment ago."""
    return TokenizerError(
        f"the counter {result.tokenizer.name} is not consistent: the critical sections alone "
        f"were {result.fixed_load:,} tokens, and now the same text is {result.total:,}. "
        "A count must depend on the text only."
    )


def _run(whole: Parts, budget: int, options: LayoutOptions) -> Layout:
    """Run the engine on one pricing of the whole and record what came out."""
    if options.policy is Policy.FACET:
        fixed_load, log = box.lay_out(whole.sections, budget, whole, reclaim=options.reclaim)
    else:
        fixed_load, log = degrade.lay_out(
            *engine_boxes(whole.sections, options.groups, budget), budget, whole
        )
    return Layout(
        inputs=tuple(whole.sections),
        texts=tuple(whole.texts),
        sizes=tuple(whole.sizes),
        base_sizes=tuple(whole.base_sizes),
        log=log,
        text=whole.separator.join(text for text in whole.texts if text),
        total=whole.total,
        budget=budget,
        fixed_load=fixed_load,
        tokenizer=whole.counter.tokenizer.identity,
        options=options,
        forms=whole.form,
        pricing=whole.pricing,
        counter=whole.counter,
    )


class _Checked(list[Section]):
    """Sections that were checked, which is not done twice."""

    __slots__ = ()


def checked_sections(sections: object) -> list[Section]:
    """``sections`` as such. Raises :class:`InvalidSection`, for an id that comes twice too."""
    if isinstance(sections, _Checked):
        return sections
    if not isinstance(sections, Iterable) or isinstance(sections, str | bytes | Mapping):
        raise InvalidSection(f"sections is a list of sections, not {type(sections).__name__}.")
    given = list(sections)
    mixed = set(map(type, given)) != {Section}
    checked = _Checked(MADE.sections(given, Section.of) if mixed else given)  # type: ignore[arg-type]
    ids = [section.id for section in checked]
    if len(set(ids)) < len(ids):
        twice = next(name for position, name in enumerate(ids) if name in ids[:position])
        raise InvalidSection(f"two sections have the id {twice!r}. Ids are unique.", id=twice)
    return checked


def _checked_cache(cache: object) -> CountCache | None:
    if cache is not None and not isinstance(cache, CountCache):
        raise LayoutError(f"cache is a CountCache, not {type(cache).__name__}.")
    return cache


def _checked_separator(separator: object) -> str:
    if not isinstance(separator, str):
        raise LayoutError(f"a separator is text, not {type(separator).__name__}.")
    if not separator.isascii():
        text_digest(separator)
    return separator


@dataclass(frozen=True, slots=True)
class SectionResult:
    """What became of one section, in tokens: ``base_size`` of its content, ``size`` of the ``text`` emitted.

    ``form``: which of its ``forms`` that is, or is cut from; None: its content.
    """

    id: str
    decision: Decision
    base_size: int
    size: int
    text: str = field(default="", repr=False)
    form: str | None = None
    steps: tuple[Step, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "decision": self.decision.value,
            "base_size": self.base_size,
            "size": self.size,
            **({} if self.form is None else {"form": self.form}),
            "steps": [step.to_dict() for step in self.steps],
        }


@dataclass(frozen=True)
class Layout:
    """A finished layout. ``total <= budget``, and ``total`` is the count of ``text`` as a whole.

    With a counter of requests the whole is ``messages()``: ``count`` is the count of that request, and
    ``total`` its total.

    ``joins`` is what the separators and the merging at section borders add: ``total`` minus the sum of the
    section sizes (it may be negative). ``pricing`` says how joins were priced while deciding: ``exact`` or
    ``conservative``. ``fixed_load`` is the count of the critical sections alone.
    """

    inputs: tuple[Section, ...] = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    base_sizes: tuple[int, ...] = field(repr=False)
    log: StepLog = field(repr=False)
    text: str = field(repr=False)
    total: int
    budget: int
    fixed_load: int
    tokenizer: TokenizerIdentity
    options: LayoutOptions
    forms: Mapping[int, int] = field(repr=False)
    pricing: str
    counter: Counter | None = field(repr=False, compare=False)
    count: Count | None = None

    def __getstate__(self) -> dict[str, object]:
        # A tokenizer with its engine stays in its process; the record travels.
        return {**self.__dict__, "counter": None}

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
    def warnings(self) -> tuple[Warned, ...]:
        """What the sections say and what has no effect."""
        return tuple(warnings(self.inputs, self.base_sizes))

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
        if not number or not self.inputs[i].forms:
            return None
        form = self.inputs[i].forms[number - 1]
        return f"text {number}" if isinstance(form, Text) else str(form)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over the RFC 8785 JSON of everything that decides the layout, and of its result."""
        import rfc8785  # noqa: PLC0415  # only who asks for a digest pays for it

        return hashlib.sha256(rfc8785.dumps(cast("Any", self._digested()))).hexdigest()

    def messages(self) -> list[dict[str, str]]:
        """One chat message per section with text, in order: ``{"role", "content"}``.

        Raises :class:`LayoutError` where a section that was emitted has no role.
        """
        return messages_of(self.inputs, self.texts)

    def to_dict(self) -> dict[str, object]:
        """The record as JSON-compatible data; its schema is ``tokenbox schema result``."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "total": self.total,
            **({} if self.count is None else {"count": self.count.to_dict()}),
            "joins": self.joins,
            "fixed_load": self.fixed_load,
            "pricing": self.pricing,
            "tokenizer": self.tokenizer.to_dict(),
            **({} if self.policy is Policy.FACET else {"policy": self.policy.value}),
            "sections": [section.to_dict() for section in self.sections],
            **({"warnings": [warned.to_dict() for warned in self.warnings]} if self.warnings else {}),
            "text": self.text,
            "digest": self.digest,
        }

    def whatif(self, budgets: Iterable[int]) -> list[Layout | ContextCriticalOverflow]:
        """The same sections at other budgets; no text is counted again. See :func:`tokenbox.whatif`.

        Raises :class:`LayoutError` for a layout that came from another process, without its tokenizer.
        """
        if self.counter is None:
            raise LayoutError(
                "this layout is a copy without its tokenizer. "
                "Use tokenbox.whatif(layout.inputs, budgets, tokenizer)."
            )
        return lay_out_all(self.inputs, budgets, self.options, self.counter)

    def diff(self, other: Layout) -> LayoutDiff:
        """What differs in ``other``: budgets, decisions, sizes, and the first byte of the text."""
        if not isinstance(other, Layout):
            raise LayoutError(f"a layout is compared with a layout, not with {type(other).__name__}.")
        return diff(self, other)

    def explain(self, width: int = 80) -> str:
        """The layout as a plain-text picture ``width`` columns wide."""
        from tokenbox.render.explain import explain  # noqa: PLC0415  # a picture is drawn only on request

        return explain(self, width)

    def __repr__(self) -> str:
        from tokenbox.render.html import in_words  # noqa: PLC0415  # as above

        decisions = [section.decision.value for section in self.sections]
        return in_words(
            "Layout", self.total, self.budget, self.tokenizer.name, decisions, exact=self.tokenizer.exact
        )

    def _repr_html_(self) -> str:
        """A small picture, for notebooks."""
        from tokenbox.render.html import FigureRow, figure  # noqa: PLC0415  # as above

        rows = [
            FigureRow(one.id, one.decision.value, one.base_size, one.size, tuple(s.why for s in one.steps))
            for one in self.sections
        ]
        return figure(
            f"Layout · {self.tokenizer.name}",
            rows,
            total=self.total,
            budget=self.budget,
            exact=self.tokenizer.exact,
            notes=[warned.message for warned in self.warnings],
        )

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
        *_degrading_fields(section),
    ]
    return hashlib.sha256("".join(f"{len(f)}:{f}" for f in fields).encode()).hexdigest()


def _degrading_fields(section: Section) -> Iterable[str]:
    """Each field beside those of the model that says something, with its name before it."""
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
