"""Layout of sections within a budget: pricing, the engine's decisions, and the check of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.compose.columns import SectionColumns, is_short
from tokenbox.compose.constraints import engine_boxes
from tokenbox.compose.counting import Counter
from tokenbox.compose.deciding import deciding_sections
from tokenbox.compose.layout import SEPARATOR, Layout, LayoutOptions, LayoutRecord
from tokenbox.compose.messages import MessagesWhole, check_roles, count_of_messages
from tokenbox.compose.parts import Parts, PricedWhole
from tokenbox.compose.requests import Count, Counts, RequestCounter, is_request_counter
from tokenbox.compose.seamed import NotSeamable, checked_total, exact_whole
from tokenbox.engine import box, degrade
from tokenbox.engine.result import Policy, Step
from tokenbox.errors import (
    ContextCriticalOverflow,
    InvalidBudget,
    InvalidSection,
    TokenizerError,
    plural,
    several,
    shown,
)
from tokenbox.integers import token_budget
from tokenbox.tokenizers.registry import UNKNOWN, as_tokenizer

if TYPE_CHECKING:
    from tokenbox.content.group import Group
    from tokenbox.content.section import Section
    from tokenbox.tokenizers.cache import CountCache

    Groups = Mapping[str, Group | Mapping[str, object]]
    Total = Callable[[Sequence[str], str], int]
    """Counts an emitted whole; the arguments are the texts and the joined text."""


# With conservative pricing, the whole is counted first if it is short, or if the sum of the parts is at most
# 1/NEAR over the budget: it may fit although the parts seem not to.
NEAR = 4
# A conservative layout is refined once if more than 1/WASTE of the budget is unused.
WASTE = 20


def layout(
    sections: Iterable[Section | Mapping[str, object]],
    budget: int,
    tokenizer: Counts,
    separator: str = SEPARATOR,
    *,
    policy: Policy | str = Policy.FACET,
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> Layout:
    """Lay ``sections`` out into ``budget`` tokens as :func:`tokenbox.layout` does, which has the options.

    With a counter of requests, sections are messages with their roles, and the budget applies to the request.
    """
    checked = checked_sections(sections)
    options = LayoutOptions.of(checked, separator, policy, groups, reclaim=reclaim)
    limit, counter = token_budget(budget), layout_counter(checked, tokenizer, cache)
    return _lay_out_deciding(checked, limit, options, counter) or _lay_out(checked, limit, options, counter)


def layout_counter(
    sections: Sequence[Section],
    tokenizer: Counts,
    cache: CountCache | None = None,
) -> Counter:
    """Return the counter of the sections' texts, or of messages if a counter of requests is given."""
    if not is_request_counter(tokenizer):
        return Counter(as_tokenizer(tokenizer), cache, checked=True)  # when the sections were made
    check_roles(sections)
    return Counter(as_tokenizer(getattr(tokenizer, "tokenizer", UNKNOWN)), cache, tokenizer)


def lay_out_all(
    sections: Sequence[Section], options: LayoutOptions, counter: Counter, budgets: object
) -> list[Layout | ContextCriticalOverflow]:
    """Return one layout per budget, in order, counting each text once.

    For a budget too small for the critical sections, the list contains the error.
    """
    given = several(budgets)
    if given is None:
        raise InvalidBudget(
            f"budgets is a list of whole numbers, not {shown(budgets)}.", given=shown(budgets)
        )
    columns = checked_sections(sections)
    results: list[Layout | ContextCriticalOverflow] = []
    for budget in [token_budget(b) for b in given]:
        try:
            results.append(_lay_out(columns, budget, options, counter))
        except ContextCriticalOverflow as overflow:
            results.append(overflow)
    return results


def _lay_out_deciding(
    sections: SectionColumns, budget: int, options: LayoutOptions, counter: Counter
) -> Layout | None:
    """Lay out only the sections that decide, if there are others. The others are counted for the record."""
    deciding = deciding_sections(sections, options, counter)
    if deciding is None:
        return None
    if getattr(counter.tokenizer, "cuts", None) is None:
        pricing = _text_pricing(sections, options, counter)
        if not deciding.are_over(budget + budget // NEAR):
            return None  # the whole is worth counting
        return _search(budget, options, pricing._replace(whole=partial(deciding.priced, budget)))
    try:
        whole = deciding.seamed(budget)
    except NotSeamable:
        return None
    return None if whole is None else _run_checked(whole, budget, options)


def _lay_out(sections: SectionColumns, budget: int, options: LayoutOptions, counter: Counter) -> Layout:
    """Price the whole exactly if the tokenizer allows it, run the engine, and check the result."""
    if counter.requests is not None:
        return _lay_out_messages(sections, budget, options, counter, counter.requests)
    try:
        exact = exact_whole(sections, options.separator, counter)
        result = None if exact is None else _run_checked(exact, budget, options)
    except NotSeamable:
        result = None
    return result or _lay_out_priced(sections, budget, options, _text_pricing(sections, options, counter))


def _lay_out_messages(
    sections: SectionColumns,
    budget: int,
    options: LayoutOptions,
    counter: Counter,
    requests: RequestCounter,
) -> Layout:
    """Lay out sections as messages: the budget applies to the request."""
    counts: dict[tuple[str, ...], Count | None] = {}

    def count(texts: Sequence[str], _joined: str = "") -> int:
        key = tuple(texts)
        if key not in counts:
            counts[key] = count_of_messages(sections, texts, requests)
        counted = counts[key]
        return 0 if counted is None else counted.total

    whole = partial(MessagesWhole, sections, options.separator, counter, requests)
    pricing = _Pricing(sections, counter, whole, count, is_cheap=True)
    result = _run(whole(0), budget, options)
    if result.total != count(result.texts):
        result = _lay_out_priced(sections, budget, options, pricing)
    return replace(result, tokenizer=requests.identity, count=counts[tuple(result.texts)])


class _Pricing(NamedTuple):
    """The functions that price a whole with a correction, and count an emitted whole."""

    sections: SectionColumns
    counter: Counter
    whole: Callable[[int], Parts]
    total: Total
    is_cheap: bool

    def is_worth_counting(self, budget: int) -> bool:
        """Return whether to count the whole first: it is fast, or the whole may fit."""
        if self.is_cheap or is_short(self.sections.contents):
            return True
        return sum(self.counter.sizes(self.sections)) <= budget + budget // NEAR


def _text_pricing(sections: SectionColumns, options: LayoutOptions, counter: Counter) -> _Pricing:
    return _Pricing(
        sections,
        counter,
        partial(PricedWhole, sections, options.separator, counter),
        lambda _texts, joined: counter.whole(joined),
        is_cheap=getattr(counter.tokenizer, "cheap", False),
    )


def _lay_out_priced(
    sections: SectionColumns, budget: int, options: LayoutOptions, pricing: _Pricing
) -> Layout:
    """Price joins conservatively, and count the emitted whole to decide.

    If the whole is over the budget by e, lay out again with a budget smaller by e. If much of the budget is
    unused, lay out once more with a corrected price.
    """
    correction = 0
    if pricing.is_worth_counting(budget):
        texts = sections.contents
        total = pricing.total(texts, joined_text(texts, options.separator))
        correction = total - pricing.whole(0).total
        if total <= budget:
            return _expand_priced(total, budget, options, pricing, correction)
    return _search(budget, options, pricing, correction)


def _search(budget: int, options: LayoutOptions, pricing: _Pricing, correction: int = 0) -> Layout:
    """Lay out with corrected prices until the counted whole fits."""
    fitting, least = None, 1
    while True:
        whole = pricing.whole(correction)
        result = _run(whole, budget, options, pricing.total)
        if result.total > budget:
            if fitting is not None:
                return fitting
            may_yield = any(map(result.texts.__getitem__, pricing.sections.ranked.flexible))
            if not may_yield and not any(step.items for step in result.log):
                raise TokenizerError(
                    f"the counter {result.tokenizer.name} is not consistent: the critical sections alone "
                    f"were {plural(result.fixed_load, 'token')}, and now the same text is {result.total:,}. "
                    "A count must depend on the text only."
                )
            # The step doubles, so that the search ends soon even with an adverse counter.
            correction += max(result.total - whole.total, result.total - budget, least)
            least *= 2
        elif fitting is not None or budget - result.total <= budget // WASTE or not result.record.changed:
            return result
        else:
            fitting = result
            correction += result.total - whole.total


def _expand_priced(
    total: int, budget: int, options: LayoutOptions, pricing: _Pricing, correction: int
) -> Layout:
    """Lay out sections that all fit, with ``total`` tokens: only the extra items need pricing.

    If the result is over the budget by e, lay out again with e tokens less for the extra items.
    """
    offered = budget
    while True:
        result = _run(pricing.whole(correction), offered, options, pricing.total)
        if result.total <= budget:
            return result if offered == budget else replace(result, budget=budget)
        if offered == total:  # cut for their own maxima, the sections are more than they were whole
            return _search(budget, options, pricing, correction)
        offered = max(total, offered - (result.total - budget))


def _run_checked(whole: Parts, budget: int, options: LayoutOptions) -> Layout | None:
    """Run the engine on exact prices; None if cuts claimed for the vocabulary do not hold on these texts."""
    result = _run(whole, budget, options)
    return result if result.total == checked_total(whole, [result.text]) else None


def _run(whole: Parts, budget: int, options: LayoutOptions, count: Total | None = None) -> Layout:
    """Run the engine on one pricing of the whole, and record the result. Its total is priced, or counted."""
    sections = checked_sections(whole.sections)
    if options.policy is Policy.FACET:
        ranked = sections.ranked if whole.ranked is None else whole.ranked
        fixed_load, log = box.lay_out(sections.grows, ranked, budget, whole, reclaim=options.reclaim)
    else:
        fixed_load, log = degrade.lay_out(*engine_boxes(sections, options.groups, budget), budget, whole)
    base_sizes, counter, is_complete = whole.base_sizes, whole.counter, not whole.is_partial

    def record() -> tuple[tuple[int, ...], tuple[Step, ...]]:
        if is_complete:
            return tuple(base_sizes), tuple(log)
        return _lay_out(sections, budget, options, counter).record.made

    texts, text = tuple(whole.texts), joined_text(whole.texts, whole.separator)
    return Layout(
        columns=sections,
        texts=texts,
        sizes=tuple(whole.sizes),
        record=LayoutRecord(record, changed=bool(log) or not is_complete),
        text=text,
        total=whole.total if count is None else count(texts, text),
        budget=budget,
        fixed_load=fixed_load,
        tokenizer=whole.counter.tokenizer.identity,
        options=options,
        forms=whole.form,
        too_small=whole.too_small,
        pricing=whole.pricing,
        counter=whole.counter,
        at_budgets=partial(lay_out_all, sections, options, whole.counter),
    )


def joined_text(texts: Iterable[str], separator: str) -> str:
    """Join the texts that are not empty."""
    return separator.join(filter(None, texts))


def checked_sections(sections: object) -> SectionColumns:
    """Check sections and mappings. Raises :class:`InvalidSection`, also for a duplicate id."""
    if isinstance(sections, SectionColumns):
        return sections
    given = several(sections)
    if given is None:
        raise InvalidSection(
            f"sections is a list of sections, not {type(sections).__name__}. "
            'Give [{"id": "question", "content": "Why?"}], or read a file: tokenbox.documents.read_document.'
        )
    return SectionColumns.of(given)
