"""Packing: plan what of a request would be sent within its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenbox.compose.blocks import BlockLayout, render_blocks
from tokenbox.compose.bound import count_of_text
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import NO_BOUND, Count, is_request_counter
from tokenbox.compose.sections import layout
from tokenbox.content.message import thaw
from tokenbox.conversation.record import Fitted, WindowDecision
from tokenbox.engine.result import Decision
from tokenbox.policy import summaries
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.errors import InvalidPolicy, StrategyFailed, UnknownStrategy
from tokenbox.policy.estimate import (
    NOTHING,
    ChunkCounter,
    count_messages,
    counted_sections,
    request_counter,
    section_tokenizer,
    text_counter,
)
from tokenbox.policy.guard import GuardLimits, Uncertain, checked_uncertain, needed
from tokenbox.policy.records import AnyLayout, ChunkPlan, PackPlan, SummaryOp
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
from tokenbox.policy.strategy_input import StrategyInput, sections_of, strategy_input

if TYPE_CHECKING:
    from enum import StrEnum

    from tokenbox.content.items import Item


class Planned(NamedTuple):
    layout: AnyLayout
    chunks: Sequence[ChunkPlan]
    summary_ops: Sequence[SummaryOp] = ()


_Plan = Callable[[Picked], Planned]


def pack(
    request: Chunks,
    limits: GuardLimits,
    counter: ChunkCounter,
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
            f"the window less its headroom has {limits.usable:,}. Lower reserve_out, or raise max_ctx.",
            field="reserve_out",
            reserve_out=limits.reserve_out,
            usable=limits.usable,
        )
    budget = limits.input_limit
    planned, count = _Packing(request, counter, budget).by(strategy)
    while limits.denies(tokens := needed(count, rule)[0]) and budget > 0:
        # The margin of an estimate grows with its total: shrink the budget in proportion, and so far that
        # something is dropped. Without an upper bound, drop a tenth at a time until what has none is dropped.
        smaller = count.total * 9 // 10 if tokens == NO_BOUND else budget * limits.input_limit // tokens
        budget = max(0, min(budget - 1, planned.layout.total - 1, smaller))
        planned, count = _Packing(request, counter, budget).by(strategy)
    return PackPlan(
        packed=tuple(chunk for chunk in planned.chunks if chunk.decision.value not in _DROPPED),
        dropped=tuple(chunk for chunk in planned.chunks if chunk.decision.value in _DROPPED),
        summary_ops=tuple(planned.summary_ops),
        layout=planned.layout,
        request=request,
        limits=limits,
        strategy=strategy_name(request, strategy),
        count=count,
        budget=budget,
        model=model,
    )


# Decisions and forms that send nothing of the chunk's own.
_DROPPED: Final = frozenset({"dropped", "merged", "omitted", "evicted"})


@dataclass(frozen=True, slots=True)
class _Packing:
    """The chunks of a request, what counts them, and the budget for what is sent."""

    request: Chunks
    counter: ChunkCounter
    budget: int

    def by(self, strategy: str | Strategy | None) -> tuple[Planned, Count]:
        """Return the plan of the strategy, and the count of what it sends."""
        if strategy is None or isinstance(strategy, str):
            planned = _planner(strategy_name(self.request, strategy), self.request.kind)(self)
        else:
            planned = self._by_function(strategy)
        made = planned.layout
        if isinstance(made, Fitted):
            return planned, count_messages(self.request.request(list(made.shown.values())), self.counter)
        if isinstance(made, BlockLayout) or not is_request_counter(self.counter):
            return planned, count_of_text(made.text, made.total, text_counter(self.counter))
        return planned, NOTHING if made.count is None else made.count

    # The built-in strategies.

    def box(self) -> Planned:
        section_tokenizer(self.request, self.counter)  # raises
        made = layout(self.request.sections, self.budget, self.counter, self.request.separator)
        chunks = [
            ChunkPlan(i, one.id, one.decision, one.base_size, one.size, tuple(step.why for step in one.steps))
            for i, one in enumerate(made.sections)
        ]
        return Planned(made, chunks, summaries.of_sections(self.request, made, self.counter))

    def ladder(self) -> Planned:
        tokenizer = text_counter(self.counter)
        made = render_blocks(self.request.items, tokenizer, self.budget)
        chunks = [
            ChunkPlan(one.index, self.request.ids[one.index], one.form, one.base_size, one.size, one.why)
            for one in made.blocks
        ]
        return Planned(made, chunks, summaries.of_blocks(self.request, made, tokenizer))

    def window(self) -> Planned:
        """Evict whole exchanges of messages, the oldest first."""
        made = self._fitted(self.request.items, self.budget)
        why = {number: step.why for step in made.steps for number in step.messages}
        changed = {i: (WindowDecision.REDUCED, made.sizes_now[i]) for i in made.shortened}
        changed |= dict.fromkeys(made.gone, (WindowDecision.EVICTED, 0))
        chunks = []
        for i, (name, size) in enumerate(zip(self.request.ids, made.sizes, strict=True)):
            decision, now = changed.get(i, (WindowDecision.KEPT, size))
            chunks.append(ChunkPlan(i, name, decision, size, now, (why[i],) if i in why else ()))
        return Planned(made, chunks, summaries.of_messages(self.request, made, self.counter))

    def window_of_sections(self) -> Planned:
        """Drop the first flexible sections."""
        request, candidates = self.request, sections_of(self.request, self.counter)

        def count_whole(indices: Sequence[int]) -> int:
            return counted_sections(request, indices, [request.texts[i] for i in indices], self.counter)[0]

        kept = oldest_first(candidates, self.budget, count_whole)
        critical = [one.index for one in candidates if one.critical]
        if kept == critical and count_whole(critical) > self.budget:
            layout(request.sections, self.budget, self.counter, request.separator)  # raises, with all figures
        return self._sections_chosen([(i, None) for i in kept], "window", candidates)

    def worth(self) -> Planned:
        """Keep what is most relevant to the last question."""

        def choice(given: StrategyInput, planned: _Plan) -> Planned:
            return _most_worth(Ranking(given.candidates), self.budget, planned)

        return self._by_choice(WORTH, choice)

    def _by_function(self, strategy: Strategy) -> Planned:
        may_change = self.request.kind is ChunkKind.SECTIONS

        def choice(given: StrategyInput, planned: _Plan) -> Planned:
            return planned(
                choose(strategy, given.candidates, self.budget, given.count, may_change=may_change)
            )

        return self._by_choice(name_of(strategy), choice)

    # Choices: by worth, and by strategies of users.

    def _by_choice(self, name: str, choice: Callable[[StrategyInput, _Plan], Planned]) -> Planned:
        """Return the plan that ``choice`` makes of the candidates; raise if it is over the budget."""
        kind, given = self.request.kind, strategy_input(self.request, self.counter)

        def planned(picked: Picked) -> Planned:
            if kind is ChunkKind.SECTIONS:
                return self._sections_chosen(picked, name, given.candidates)
            return self._whole_chosen([index for index, _ in picked], name, given)

        try:
            made = choice(given, planned)
            check_budget(name, made.layout.total, self.budget)
        except StrategyFailed:
            # If not even what must be kept fits, no strategy is to blame: this raises that, with the figures.
            _planner(DEFAULT_STRATEGY[kind], kind)(self)
            raise
        return made

    def _whole_chosen(self, indices: Sequence[int], name: str, given: StrategyInput) -> Planned:
        """Return the chosen messages or blocks. Raises ``StrategyFailed`` if a call lacks its results."""
        made: AnyLayout
        left_out, kept = _OF_MESSAGES if self.request.kind is ChunkKind.MESSAGES else _OF_BLOCKS
        chosen = [self.request.items[given.places[index]] for index in indices]
        if self.request.kind is ChunkKind.MESSAGES:
            made = self._fitted(chosen, None)
            if made.evicted:
                raise StrategyFailed(
                    f"the strategy {name} separated a tool call from its results, which no server accepts.",
                    strategy=name,
                )
            sizes = {index: given.candidates[index].tokens for index in indices}
        else:
            made = render_blocks(chosen, text_counter(self.counter), verbosity="full")
            sizes = {index: block.size for index, block in zip(indices, made.blocks, strict=True)}
        chunks = [
            ChunkPlan(
                place, one.id, kept if one.index in sizes else left_out, one.tokens, sizes.get(one.index, 0)
            )
            for place, one in zip(given.places, given.candidates, strict=True)
        ]
        return Planned(made, chunks)

    def _sections_chosen(self, chosen: Picked, name: str, candidates: Sequence[Candidate]) -> Planned:
        """Return the chosen sections, counted as they are sent."""
        request, counter = self.request, self.counter
        texts: list[str | None] = [None] * len(candidates)
        for index, changed in chosen:
            texts[index] = candidates[index].text if changed is None else changed
        order = tuple(index for index, _ in chosen)
        emitted = [texts[i] or "" for i in order]
        total, count = counted_sections(request, order, emitted, counter)
        changed_texts = [text for _, text in chosen if text is not None]
        counts = COUNTS.each(section_tokenizer(request, counter), changed_texts)
        known = dict(zip(changed_texts, counts, strict=True))
        sizes = tuple(
            0 if text is None else (one.tokens if text == one.text else known[text])
            for one, text in zip(candidates, texts, strict=True)
        )
        made = ChosenLayout(
            ids=request.ids,
            order=order,
            texts=tuple(texts),
            base_sizes=tuple(one.tokens for one in candidates),
            sizes=sizes,
            text=request.separator.join(filter(None, emitted)),
            total=total,
            budget=self.budget,
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

    def _fitted(self, items: Sequence[Item], budget: int | None) -> Fitted[Any]:
        """Fit the items into the budget, beside the tools and the other fields of the request."""
        from tokenbox.conversation.fitting import fit  # slow to import; the guard alone fits nothing

        tools, fields = self.request.tools or None, thaw(self.request.fields)
        return fit(items, budget, request_counter(self.counter), tools=tools, fields=fields)


# The decisions on a chunk that was left out, and on one that was chosen.
_OF_MESSAGES: Final[tuple[StrEnum, StrEnum]] = (WindowDecision.EVICTED, WindowDecision.KEPT)
_OF_BLOCKS: Final[tuple[StrEnum, StrEnum]] = (Decision.DROPPED, Decision.KEPT)


def _decision(candidate: Candidate, text: str | None) -> Decision:
    if text is None or (candidate.text and not text):
        return Decision.DROPPED
    return Decision.KEPT if text == candidate.text else Decision.COMPRESSED


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
_STRATEGIES: Final[Mapping[str, Mapping[ChunkKind, Callable[[_Packing], Planned]]]] = {
    "box": {ChunkKind.SECTIONS: _Packing.box},
    "ladder": {ChunkKind.BLOCKS: _Packing.ladder},
    "window": {ChunkKind.SECTIONS: _Packing.window_of_sections, ChunkKind.MESSAGES: _Packing.window},
    WORTH: dict.fromkeys(ChunkKind, _Packing.worth),
}


def strategy_name(request: Chunks, strategy: str | Strategy | None) -> str:
    if strategy is None:
        return DEFAULT_STRATEGY[request.kind]
    return strategy if isinstance(strategy, str) else name_of(strategy)


def fits_kind(name: str, kind: ChunkKind) -> bool:
    return kind in _STRATEGIES.get(name, {})


def _planner(name: str, kind: ChunkKind) -> Callable[[_Packing], Planned]:
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
