"""Sections and a budget in, a layout out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.counting import Counter
from tokenbox.compose.linear import PricedWhole
from tokenbox.compose.pricing import checked_total, exact_whole
from tokenbox.compose.record import Layout
from tokenbox.compose.seamed import NotSeamable
from tokenbox.content.section import MAX_INTEGER, Section
from tokenbox.engine import box
from tokenbox.errors import (
    ContextCriticalOverflow,
    InvalidBudget,
    InvalidSection,
    LayoutError,
    TokenizerError,
)
from tokenbox.tokenizers.cache import CountCache, text_digest
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.compose.parts import Parts
    from tokenbox.tokenizers.protocol import Tokenizer

SEPARATOR = "\n\n"

# With conservative pricing, the whole is counted beforehand if it has so few characters, or if the parts
# alone are at most a quarter over the budget: whatever fits as a whole is kept as a whole.
SMALL = 16_384
NEAR = 4
# A layout priced conservatively is refined once if more than a twentieth of the budget stayed free.
WASTE = 20


def layout(
    sections: Iterable[Section | Mapping[str, object]],
    budget: int,
    tokenizer: str | Tokenizer | Callable[[str], int],
    separator: str = SEPARATOR,
    *,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> Layout:
    """Lay ``sections`` out into ``budget`` tokens (FACET Token Box Model; docs/layout.md has the rules).

    ``sections``: :class:`Section` objects, or mappings with the same fields. ``tokenizer``: a name such as
    ``"o200k_base"``, a tokenizer object, or any function from text to a count. ``separator`` stands between
    sections that have text. ``reclaim`` gives back, after cutting, what then fits again. ``cache`` holds
    counts between layouts (default: one for the process).

    Raises :class:`ContextCriticalOverflow` if the critical sections alone do not fit,
    :class:`InvalidSection` and :class:`InvalidBudget` for bad input, and a ``TokenizerError`` for text that
    cannot be counted.
    """
    checked = checked_sections(sections)
    counter = Counter(as_tokenizer(tokenizer), _checked_cache(cache))
    options = _checked_separator(separator), counter
    return _lay_out(checked, _checked_budget(budget), *options, reclaim=_checked_flag(reclaim))


def whatif(
    sections: Iterable[Section | Mapping[str, object]],
    budgets: Iterable[int],
    tokenizer: str | Tokenizer | Callable[[str], int],
    separator: str = SEPARATOR,
    *,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> list[Layout | ContextCriticalOverflow]:
    """One layout per budget, in order, counting each text once.

    A budget too small for the critical sections has its error in its place.
    """
    checked = checked_sections(sections)
    counter = Counter(as_tokenizer(tokenizer), _checked_cache(cache))
    options = _checked_separator(separator), counter
    return lay_out_all(checked, budgets, *options, reclaim=_checked_flag(reclaim))


def lay_out_all(
    sections: Sequence[Section], budgets: object, separator: str, counter: Counter, *, reclaim: bool
) -> list[Layout | ContextCriticalOverflow]:
    """``whatif`` for sections that have been checked, and a counter that may know them."""
    if not isinstance(budgets, Iterable) or isinstance(budgets, str | bytes):
        raise InvalidBudget(f"budgets is a list of whole numbers, not {budgets!r}.", budget=repr(budgets))
    results: list[Layout | ContextCriticalOverflow] = []
    for budget in [_checked_budget(b) for b in budgets]:
        try:
            results.append(_lay_out(sections, budget, separator, counter, reclaim=reclaim))
        except ContextCriticalOverflow as overflow:
            results.append(overflow)
    return results


def _lay_out(
    sections: Sequence[Section], budget: int, separator: str, counter: Counter, *, reclaim: bool
) -> Layout:
    """Price the whole exactly where the tokenizer allows it, run the engine, check the result."""
    try:
        exact = exact_whole(sections, separator, counter)
        if exact is not None:
            result = _run(exact, budget, reclaim=reclaim)
            # Where this fails, the cuts claimed for the vocabulary do not hold on these texts.
            if result.total == checked_total(exact, [result.text]):
                return result
    except NotSeamable:
        pass
    return _lay_out_priced(sections, budget, separator, counter, reclaim=reclaim)


def _lay_out_priced(
    sections: Sequence[Section],
    budget: int,
    separator: str,
    counter: Counter,
    *,
    reclaim: bool,
) -> Layout:
    """Price joins conservatively and let the count of the emitted whole decide.

    If that is over the budget by e, lay out again as if the budget were smaller by e; if much was left free,
    once again with what the count taught.
    """
    correction, fitting, least = 0, None, 1
    if _worth_counting(budget, sections, counter):
        everything = separator.join(section.content for section in sections if section.content)
        total = counter.whole(everything)
        correction = total - PricedWhole(sections, separator, counter, 0).total
        if total <= budget:
            return _expand_priced(sections, total, budget, separator, counter, correction, reclaim=reclaim)
    while True:
        estimate = _run(PricedWhole(sections, separator, counter, correction), budget, reclaim=reclaim)
        result = replace(estimate, total=counter.whole(estimate.text))
        if result.total > budget:
            if fitting is not None:
                return fitting
            if not any(section.shrink and text for section, text in zip(sections, result.texts, strict=True)):
                raise _inconsistent(result, counter)
            # The step doubles, so that a counter that punishes every guess still ends the search soon.
            correction += max(result.total - estimate.total, result.total - budget, least)
            least *= 2
        elif fitting is not None or not result.log or budget - result.total <= budget // WASTE:
            return result
        else:
            fitting = result
            correction += result.total - estimate.total


def _expand_priced(
    sections: Sequence[Section],
    total: int,
    budget: int,
    separator: str,
    counter: Counter,
    correction: int,
    *,
    reclaim: bool,
) -> Layout:
    """Everything fits, as ``total`` tokens: only the extra items are taken at a price.

    If they turn out to be over the budget by e, they are offered e less, at last nothing.
    """
    offered = budget
    while True:
        estimate = _run(PricedWhole(sections, separator, counter, correction), offered, reclaim=reclaim)
        result = replace(estimate, total=counter.whole(estimate.text), budget=budget)
        if result.total <= budget:
            return result
        offered = max(total, offered - (result.total - budget))


def _worth_counting(budget: int, sections: Sequence[Section], counter: Counter) -> bool:
    """Whether to count the whole beforehand: it costs little, or may fit although its parts seem not to."""
    if getattr(counter.tokenizer, "cheap", False) or sum(counter.sizes(sections)) <= budget + budget // NEAR:
        return True
    return sum(len(section.content) for section in sections) <= SMALL


def _inconsistent(result: Layout, counter: Counter) -> TokenizerError:
    """For a counter that gave the critical sections alone a smaller count a moment ago."""
    return TokenizerError(
        f"the counter {counter.tokenizer.identity.name} is not consistent: the critical sections alone "
        f"were {result.fixed_load:,} tokens, and now the same text is {result.total:,}. "
        "A count must depend on the text only."
    )


def _run(whole: Parts, budget: int, *, reclaim: bool) -> Layout:
    """Run the engine on one pricing of the whole and record what came out."""
    fixed_load, log = box.lay_out(whole.sections, budget, whole, reclaim=reclaim)
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
        separator=whole.separator,
        reclaim=reclaim,
        pricing=whole.pricing,
        counter=whole.counter,
    )


def checked_sections(sections: object) -> list[Section]:
    """``sections`` as such. Raises :class:`InvalidSection`, for an id that comes twice too."""
    if not isinstance(sections, Iterable) or isinstance(sections, str | bytes | Mapping):
        raise InvalidSection(f"sections is a list of sections, not {type(sections).__name__}.")
    checked = [
        section if isinstance(section, Section) else Section.of(section, position)
        for position, section in enumerate(sections)
    ]
    ids = [section.id for section in checked]
    if len(set(ids)) < len(ids):
        twice = next(name for position, name in enumerate(ids) if name in ids[:position])
        raise InvalidSection(f"two sections have the id {twice!r}. Ids are unique.", id=twice)
    return checked


def _checked_budget(budget: object) -> int:
    if type(budget) is not int or not 0 <= budget <= MAX_INTEGER:
        raise InvalidBudget(
            f"a budget is a whole number of tokens, 0 or more, not {budget!r}.", budget=repr(budget)
        )
    return budget


def _checked_cache(cache: object) -> CountCache | None:
    if cache is not None and not isinstance(cache, CountCache):
        raise LayoutError(f"cache is a CountCache, not {type(cache).__name__}.")
    return cache


def _checked_flag(reclaim: object) -> bool:
    if type(reclaim) is not bool:
        raise LayoutError(f"reclaim is True or False, not {reclaim!r}.")
    return reclaim


def _checked_separator(separator: object) -> str:
    if type(separator) is not str:
        raise LayoutError(f"a separator is text, not {type(separator).__name__}.")
    if not separator.isascii():
        text_digest(separator)
    return separator
