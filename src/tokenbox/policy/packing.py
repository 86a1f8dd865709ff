"""Packing: plan what of a request would be sent within its limits, and which summaries would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tokenbox.compose.blocks import BlockLayout, render_blocks
from tokenbox.compose.bound import count_of_text
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import NO_BOUND, Count, RequestCounter, checked_count
from tokenbox.compose.sections import layout
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import AnnotationBlock, resolve_priorities
from tokenbox.content.request import read_request
from tokenbox.conversation.record import Fitted, WindowDecision
from tokenbox.engine.ladder import Form
from tokenbox.engine.result import Decision
from tokenbox.errors import TokenboxError
from tokenbox.integers import MAX_INTEGER
from tokenbox.policy import messages
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.errors import InvalidPolicy, StrategyFailed, UnknownStrategy
from tokenbox.policy.estimate import (
    NOTHING,
    count_messages,
    counted_sections,
    section_tokenizer,
    text_counter,
)
from tokenbox.policy.guard import GuardLimits, Uncertain, checked_uncertain, needed
from tokenbox.policy.records import ChunkPlan, PackPlan, SummaryOp
from tokenbox.policy.strategies import (
    WORTH,
    Candidate,
    ChosenLayout,
    Picked,
    Ranking,
    Strategy,
    check_budget,
    choose,
    name_of,
    oldest_first,
)

if TYPE_CHECKING:
    from enum import StrEnum

    from tokenbox.compose.layout import Layout
    from tokenbox.policy.estimate import Counts
    from tokenbox.policy.records import AnyLayout
    from tokenbox.tokenizers.protocol import Tokenizer


# The most summaries that are proposed.
MAX_PROPOSALS: Final = 8


def of_sections(request: Chunks, made: Layout, counter: Counts) -> list[SummaryOp]:
    """Propose summaries that would bring back the sections that were cut or dropped last.

    Sections come back in reverse order of loss, so the k-th proposal brings back the last k. It summarizes
    the largest flexible section of those that would then be there.
    """
    lost = [step.section for step in made.log if step.after < step.before]
    order = [i for i in dict.fromkeys(lost) if made.sections[i].decision is not Decision.KEPT]
    ops: list[SummaryOp] = []
    present = {i for i, one in enumerate(made.sections) if one.decision is not Decision.DROPPED}
    sizes = made.base_sizes
    flexible = [i for i, section in enumerate(made.inputs) if section.shrink != 0]
    by_size = sorted(flexible, key=lambda i: (-sizes[i], i))
    for count in range(1, min(len(order), MAX_PROPOSALS) + 1):
        back = order[-count:]
        kept = present.union(back)
        largest = next((i for i in by_size if i in kept), None)
        if largest is None:
            break
        at_most = _room(request, made, sorted(kept), largest, counter)
        if not 0 < at_most < sizes[largest]:
            break
        names = tuple(made.inputs[i].id for i in sorted(back) if i != largest)
        summarized = (made.inputs[largest].id,)
        ops.append(SummaryOp(summarized, sizes[largest], at_most, names or summarized))
    return ops


def _room(request: Chunks, made: Layout, kept: Sequence[int], without: int, counter: Counts) -> int:
    """Return the tokens left for a text in place of ``without`` if all others of ``kept`` are whole.

    How its borders merge with its neighbors is unknown: each costs the separator and a token, or as a message
    some slack.
    """
    if isinstance(counter, RequestCounter):
        texts = ["x" if i == without else request.texts[i] for i in kept]
        return made.budget - counted_sections(request, kept, texts, counter)[0] - SLACK
    others = [request.texts[i] for i in kept if i != without]
    join = COUNTS.each(counter, [request.separator])[0] + 1
    return made.budget - COUNTS.whole(counter, others, request.separator) - 2 * join


def of_blocks(request: Chunks, made: BlockLayout, tokenizer: Tokenizer) -> list[SummaryOp]:
    """Propose summaries for blocks that are shown as less than a summary."""
    ops: list[SummaryOp] = []
    if made.budget is None:
        return ops
    for one in made.blocks:
        lesser = one.form in (Form.PLACEHOLDER, Form.MERGED, Form.OMITTED)
        block = request.items[one.index]
        if not lesser or not one.steps or block.summary is not None or one.priority.display == "background":
            continue
        free = made.budget - made.total + (one.size if one.form is Form.PLACEHOLDER else 0)
        at_most = free - _markup(block, tokenizer)
        if 0 < at_most < one.base_size:
            name = (request.ids[one.index],)
            ops.append(SummaryOp(name, one.base_size, at_most, name))
        if len(ops) == MAX_PROPOSALS:
            break
    return ops


def _markup(block: object, tokenizer: Tokenizer) -> int:
    """Return the tokens of a block's summary beside its own text, with some slack for merging."""
    summarized = replace(block, summary="x")  # type: ignore[type-var]  # every block is a dataclass
    try:
        alone = render_blocks([summarized], tokenizer, verbosity="summary")  # type: ignore[list-item]
    except TokenboxError:
        return MAX_INTEGER
    return alone.total + SLACK


# Tokens by which a text may count more inside its markup than alone.
SLACK: Final = 4


class Planned(NamedTuple):
    layout: AnyLayout
    chunks: Sequence[ChunkPlan]
    summary_ops: Sequence[SummaryOp] = ()


_Plan = Callable[[Picked], Planned]


def pack(
    request: Chunks,
    limits: GuardLimits,
    counter: Counts,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    uncertain: Uncertain | str = Uncertain.MARGIN,
) -> PackPlan:
    """Plan a request by ``strategy`` (default: that of the chunks' kind) within ``limits``.

    ``box`` cuts and drops sections by priority (Token Box Model), ``ladder`` gives blocks lesser forms,
    ``window`` drops the oldest. If the count of the plan is an estimate, enough is dropped that the guard
    lets the rest pass under ``uncertain``. Raises ``ContextCriticalOverflow`` if what must be kept does not
    fit, :class:`UnknownStrategy` and ``StrategyFailed``, and :class:`InvalidPolicy` if the reserve leaves no
    room at all.
    """
    rule = checked_uncertain(uncertain)
    if limits.input_limit < 0:
        raise InvalidPolicy(
            f"nothing is left for the input: {limits.reserve_out:,} tokens are reserved for the answer, and "
            f"of {limits.max_ctx:,} only {limits.usable:,} may be used. Lower reserve_out or headroom.",
            field="reserve_out",
            reserve_out=limits.reserve_out,
            usable=limits.usable,
        )
    name = strategy_name(request, strategy)
    budget = limits.input_limit
    planned, count = _plan(strategy, request, budget, counter)
    while limits.denies(tokens := needed(count, rule)[0]) and budget > 0:
        # The margin of an estimate grows with its total: shrink the budget in proportion, and so far that
        # something is dropped. Without an upper bound, drop a tenth at a time until what has none is dropped.
        smaller = count.total * 9 // 10 if tokens == NO_BOUND else budget * limits.input_limit // tokens
        budget = max(0, min(budget - 1, planned.layout.total - 1, smaller))
        planned, count = _plan(strategy, request, budget, counter)
    return PackPlan(
        packed=tuple(chunk for chunk in planned.chunks if chunk.decision.value not in _DROPPED),
        dropped=tuple(chunk for chunk in planned.chunks if chunk.decision.value in _DROPPED),
        summary_ops=tuple(planned.summary_ops),
        layout=planned.layout,
        request=request,
        limits=limits,
        strategy=name,
        count=count,
        budget=budget,
        model=model,
    )


def _plan(
    strategy: str | Strategy | None, request: Chunks, budget: int, counter: Counts
) -> tuple[Planned, Count]:
    """Return the plan of the strategy for a budget, and the count of what it sends."""
    if strategy is None or isinstance(strategy, str):
        planned = _planner(strategy_name(request, strategy), request.kind)(request, budget, counter)
    else:
        planned = _by_function(strategy, request, budget, counter)
    made = planned.layout
    if isinstance(made, Fitted):
        return planned, count_messages(request.request(list(made.shown.values())), counter)
    if isinstance(made, BlockLayout) or not isinstance(counter, RequestCounter):
        return planned, count_of_text(made.text, made.total, text_counter(counter))
    return planned, NOTHING if made.count is None else made.count


def strategy_name(request: Chunks, strategy: str | Strategy | None) -> str:
    if strategy is None:
        return DEFAULT_STRATEGY[request.kind]
    return strategy if isinstance(strategy, str) else name_of(strategy)


# The built-in strategies.


def _box(request: Chunks, budget: int, counter: Counts) -> Planned:
    section_tokenizer(request, counter)  # raises
    made = layout(request.sections, budget, counter, request.separator)
    chunks = [
        ChunkPlan(i, one.id, one.decision, one.base_size, one.size, tuple(step.why for step in one.steps))
        for i, one in enumerate(made.sections)
    ]
    return Planned(made, chunks, of_sections(request, made, counter))


def _ladder(request: Chunks, budget: int, counter: Counts) -> Planned:
    tokenizer = text_counter(counter)
    made = render_blocks(request.items, tokenizer, budget)
    chunks = [
        ChunkPlan(one.index, request.ids[one.index], one.form, one.base_size, one.size, one.why)
        for one in made.blocks
    ]
    return Planned(made, chunks, of_blocks(request, made, tokenizer))


def _window(request: Chunks, budget: int, counter: Counts) -> Planned:
    """Drop the oldest exchanges of messages, or the first flexible sections."""
    if request.kind is ChunkKind.MESSAGES:
        return Planned(*messages.windowed(request, budget, counter))
    candidates = _candidates(request, section_tokenizer(request, counter))
    texts = request.texts

    def count_whole(indices: Sequence[int]) -> int:
        return counted_sections(request, indices, [texts[i] for i in indices], counter)[0]

    kept = oldest_first(candidates, budget, count_whole)
    critical = [one.index for one in candidates if one.critical]
    if kept == critical and count_whole(critical) > budget:
        layout(request.sections, budget, counter, request.separator)  # raises, with all the figures
    return _sections_chosen([(i, None) for i in kept], "window", candidates, request, budget, counter)


# Choices: by worth, and by strategies of users.


def _by_function(strategy: Strategy, request: Chunks, budget: int, counter: Counts) -> Planned:
    may_change = request.kind is ChunkKind.SECTIONS

    def choice(offer: _Offer, planned: _Plan) -> Planned:
        return planned(choose(strategy, offer.candidates, budget, offer.count, may_change=may_change))

    return _by_choice(name_of(strategy), choice, request, budget, counter)


def _worth(request: Chunks, budget: int, counter: Counts) -> Planned:
    """Keep what is most relevant to the last question."""

    def choice(offer: _Offer, planned: _Plan) -> Planned:
        return _most_worth(Ranking(offer.candidates), budget, planned)

    return _by_choice(WORTH, choice, request, budget, counter)


def _by_choice(
    name: str, choice: Callable[[_Offer, _Plan], Planned], request: Chunks, budget: int, counter: Counts
) -> Planned:
    """Return the plan that ``choice`` makes of the candidates; raise if it is over the budget."""
    offer = _offer(request, counter)

    def planned(picked: Picked) -> Planned:
        if request.kind is ChunkKind.SECTIONS:
            return _sections_chosen(picked, name, offer.candidates, request, budget, counter)
        return _whole_chosen([index for index, _ in picked], name, offer, request, counter)

    try:
        made = choice(offer, planned)
        check_budget(name, made.layout.total, budget)
    except StrategyFailed:
        # If not even what must be kept fits, no strategy is to blame: this raises that, with the figures.
        _planner(DEFAULT_STRATEGY[request.kind], request.kind)(request, budget, counter)
        raise
    return made


# The rounds in which the room for the most relevant chunks is approached.
_ROUNDS: Final = 6


def _most_worth(ranking: Ranking, budget: int, planned: _Plan) -> Planned:
    """Choose by worth for as much room as the separators, markers and tools leave to the chunks."""

    def within(room: int) -> Planned:
        return planned([(index, None) for index in ranking.within(room)])

    low, high = ranking.needed, ranking.total
    if (made := within(high)).layout.total <= budget:
        return made
    over, fits, best = made.layout.total, 0, None
    if low > 0:
        best = within(low)
        fits = best.layout.total
    for _ in range(_ROUNDS):
        # The total is taken to grow with the room, from what fits to what is over.
        if fits >= budget or not low < (room := low + (high - low) * (budget - fits) // (over - fits)) < high:
            break
        if (made := within(room)).layout.total <= budget:
            low, fits, best = room, made.layout.total, made
        else:
            high, over = room, made.layout.total
    return within(low) if best is None else best


DEFAULT_STRATEGY: Final[Mapping[ChunkKind, str]] = {
    ChunkKind.SECTIONS: "box",
    ChunkKind.BLOCKS: "ladder",
    ChunkKind.MESSAGES: "window",
}
_STRATEGIES: Final[Mapping[str, Mapping[ChunkKind, Callable[[Chunks, int, Counts], Planned]]]] = {
    "box": {ChunkKind.SECTIONS: _box},
    "ladder": {ChunkKind.BLOCKS: _ladder},
    "window": {ChunkKind.SECTIONS: _window, ChunkKind.MESSAGES: _window},
    WORTH: dict.fromkeys(ChunkKind, _worth),
}


def fits_kind(name: str, kind: ChunkKind) -> bool:
    return kind in _STRATEGIES.get(name, {})


# Decisions and forms that send nothing of the chunk's own.
_DROPPED: Final = frozenset({"dropped", "merged", "omitted", "evicted"})


def _planner(name: str, kind: ChunkKind) -> Callable[[Chunks, int, Counts], Planned]:
    planners = _STRATEGIES.get(name)
    if planners is None:
        raise UnknownStrategy(
            f"no strategy is called {name!r}. There are: {', '.join(_STRATEGIES)}; or give a function.",
            strategy=name,
        )
    if kind not in planners:
        fitting = [other for other, kinds in _STRATEGIES.items() if kind in kinds]
        raise UnknownStrategy(
            f"the strategy {name} is not for {kind.value}: use one of {', '.join(fitting)}.",
            strategy=name,
            kind=kind.value,
        )
    return planners[kind]


class _Offer(NamedTuple):
    """The chunks as a strategy sees them, their places in the request, and a function that counts a text."""

    candidates: Sequence[Candidate]
    places: Sequence[int]
    count: Callable[[str], int]


def _offer(request: Chunks, counter: Counts) -> _Offer:
    if request.kind is ChunkKind.MESSAGES:
        candidates = messages.candidates_of(request, counter)
        return _Offer(candidates, range(len(candidates)), _text_count(counter))
    if request.kind is ChunkKind.SECTIONS:
        tokenizer = section_tokenizer(request, counter)
        candidates = _candidates(request, tokenizer)
        return _Offer(candidates, range(len(candidates)), tokenizer.count)
    tokenizer = text_counter(counter)
    # Without annotations, which are about other blocks.
    places = [i for i, block in enumerate(request.items) if not isinstance(block, AnnotationBlock)]
    return _Offer(_block_candidates(request, places, tokenizer), places, tokenizer.count)


def _whole_chosen(
    indices: Sequence[int], name: str, offer: _Offer, request: Chunks, counter: Counts
) -> Planned:
    """Return the chosen messages or blocks."""
    made: AnyLayout
    if request.kind is ChunkKind.MESSAGES:
        made, decisions = messages.chosen(request, indices, name, counter), _OF_MESSAGES
        sizes = {index: offer.candidates[index].tokens for index in indices}
    else:
        blocks = [request.items[offer.places[index]] for index in indices]
        shown = render_blocks(blocks, text_counter(counter), verbosity="full")
        made, decisions = shown, _OF_BLOCKS
        sizes = {index: block.size for index, block in zip(indices, shown.blocks, strict=True)}
    chunks = [
        ChunkPlan(place, one.id, decisions[one.index in sizes], one.tokens, sizes.get(one.index, 0))
        for place, one in zip(offer.places, offer.candidates, strict=True)
    ]
    return Planned(made, chunks)


# The decisions on a chunk that was left out, and on one that was chosen.
_OF_MESSAGES: Final[tuple[StrEnum, StrEnum]] = (WindowDecision.EVICTED, WindowDecision.KEPT)
_OF_BLOCKS: Final[tuple[StrEnum, StrEnum]] = (Decision.DROPPED, Decision.KEPT)


def _text_count(counter: Counts) -> Callable[[str], int]:
    """Return a function that counts a text; for a chat format, as a user's message."""
    if not isinstance(counter, RequestCounter):
        return counter.count
    return lambda text: (
        checked_count(counter.count_request(read_request([{"role": "user", "content": text}]))).total
    )


def _candidates(request: Chunks, tokenizer: Tokenizer) -> list[Candidate]:
    """Return the sections as a strategy sees them."""
    sizes = COUNTS.each(tokenizer, request.texts)
    return [
        Candidate(i, one.id, one.content, size, one.priority, one.shrink == 0, one.role)
        for i, (one, size) in enumerate(zip(request.sections, sizes, strict=True))
    ]


def _sections_chosen(
    chosen: Picked,
    name: str,
    candidates: Sequence[Candidate],
    request: Chunks,
    budget: int,
    counter: Counts,
) -> Planned:
    """Return the chosen sections, counted as they are sent."""
    tokenizer = section_tokenizer(request, counter)
    texts: list[str | None] = [None] * len(candidates)
    for index, changed in chosen:
        texts[index] = candidates[index].text if changed is None else changed
    order = tuple(index for index, _ in chosen)
    emitted = [texts[i] or "" for i in order]
    total, count = counted_sections(request, order, emitted, counter)
    base_sizes = tuple(one.tokens for one in candidates)
    changed_texts = [text for _, text in chosen if text is not None]
    counts = dict(zip(changed_texts, COUNTS.each(tokenizer, changed_texts), strict=True))
    sizes = tuple(
        0 if text is None else (one.tokens if text == one.text else counts[text])
        for one, text in zip(candidates, texts, strict=True)
    )
    made = ChosenLayout(
        ids=request.ids,
        order=order,
        texts=tuple(texts),
        base_sizes=base_sizes,
        sizes=sizes,
        text=request.separator.join(filter(None, emitted)),
        total=total,
        budget=budget,
        strategy=name,
        tokenizer=counter.identity,
        separator=request.separator,
        count=count,
    )
    chunks = [
        ChunkPlan(one.index, one.id, _decision(one, text), one.tokens, size)
        for one, text, size in zip(candidates, texts, sizes, strict=True)
    ]
    return Planned(made, chunks)


def _decision(candidate: Candidate, text: str | None) -> Decision:
    if text is None or (candidate.text and not text):
        return Decision.DROPPED
    return Decision.KEPT if text == candidate.text else Decision.COMPRESSED


def _block_candidates(request: Chunks, places: Sequence[int], tokenizer: Tokenizer) -> list[Candidate]:
    """Return the blocks at ``places`` as a strategy sees them."""
    priorities = resolve_priorities(request.items)
    rendered = [render_blocks([request.items[i]], tokenizer, verbosity="full") for i in places]
    return [
        Candidate(
            index,
            request.ids[i],
            alone.text,
            alone.total,
            int(priorities[i]),
            priorities[i] is Priority.CRITICAL,
        )
        for index, (i, alone) in enumerate(zip(places, rendered, strict=True))
    ]
