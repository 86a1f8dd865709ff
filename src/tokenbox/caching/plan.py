"""Plan the breakpoints of a prompt cache, only where they pay at given prices.

A write costs more than input and a read less, so caching a prefix pays if enough requests read it before it
expires. Parts that change with each request are left outside.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from tokenbox.caching.changes import marked, marks_of, volatile
from tokenbox.caching.prompt import Layer, PromptSpan, api_of, spans, too_deep
from tokenbox.caching.rules import (
    FIVE_MINUTES,
    HALF_AN_HOUR,
    ONE_HOUR,
    CacheProvider,
    CacheRules,
    rules_of,
)
from tokenbox.catalog import Price
from tokenbox.catalog.names import checked_name
from tokenbox.conversation.counters import counter_of, tokenizer_of
from tokenbox.conversation.low_water import AUTO, AutoLowWater
from tokenbox.errors import TokenboxError, plural, shown
from tokenbox.integers import whole
from tokenbox.ledger.cost import dollars
from tokenbox.models import counters_for
from tokenbox.records import AsRecord, to_record

if TYPE_CHECKING:
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.tokenizers.protocol import Tokenizer

_PER_MILLION: Final = Decimal(1_000_000)
_UNMARKABLE: Final = frozenset(("thinking", "redacted_thinking"))
"""Blocks that cannot be marked; nor can an empty text."""
_READ_SHARE: Final = Decimal("0.1")
"""The price of a read, as a share of the input price, if no price is known: Anthropic's and OpenAI's rule."""


class InvalidCachePlan(TokenboxError, code="invalid_cache_plan"):
    """The number of requests or seconds is invalid."""


@dataclass(frozen=True, slots=True)
class CacheBreakpoint(AsRecord):
    """One mark: the prompt up to the end of the block at ``place``, of about ``tokens`` tokens, is cached."""

    place: str
    tokens: int
    seconds: int
    why: str


@dataclass(frozen=True, slots=True)
class CachePlan:
    """The breakpoints and fields to set for a provider's cache.

    ``body``: the request with the marks and fields. ``saves``: the dollars saved over all expected requests,
    compared with the original request; None if no price is known. Breakpoints that do not pay are not set.
    ``notes``: what was left out and why. All tokens are estimates.
    """

    provider: CacheProvider
    model: str
    tokens: int
    breakpoints: tuple[CacheBreakpoint, ...]
    fields: Mapping[str, Any]
    body: dict[str, Any]
    saves: Decimal | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "provider model tokens exact breakpoints fields saves notes",
            exact=False,
            saves=None if self.saves is None else f"{self.saves:f}",
        )

    def explain(self) -> str:
        """Return the plan as text."""
        lines = [
            f"{self.model or 'no model'}: ~{plural(self.tokens, 'token')}, cache of {self.provider.value}"
        ]
        lines += [
            f"  breakpoint at {one.place}, ~{plural(one.tokens, 'token')}, "
            f"for {_lifetime(one.seconds)}: {one.why}"
            for one in self.breakpoints
        ]
        lines += [f"  {name} = {value}" for name, value in self.fields.items()]
        if self.saves and (self.breakpoints or self.fields):
            lines.append(f"  saves about ~{dollars(self.saves)}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def plan(
    body: Mapping[str, Any],
    *,
    model: str | None = None,
    requests: int = 10,
    seconds: int = 60,
    price: Price | None = None,
    before: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> CachePlan:
    """Plan breakpoints for a request whose prefix ``requests`` more will share, one every ``seconds``.

    ``model``: the request's own by default. ``price``: from :func:`tokenbox.catalog.price`; without it the
    providers' published ratios decide. ``before``: the previous request, whose cache entries should still be
    found. ``key``: the ``prompt_cache_key``, by default a digest of tools and system prompt.

    An existing mark stays and takes one of the places. Raises ``InvalidMessage``, or
    :class:`InvalidCachePlan` for figures that are not counts.
    """
    for name, figure in (("requests", requests), ("seconds", seconds)):
        if whole(figure) is None or figure < 0:
            raise InvalidCachePlan(f"{name} is a whole number, 0 or more, not {shown(figure)}.")
    if price is not None and not isinstance(price, Price):
        raise InvalidCachePlan(f"price is a Price of tokenbox.catalog.price, not {shown(price)}.")
    api_of(body)  # which refuses anything but a request
    named = str(body.get("model", "")) if model is None else checked_name(model)
    rules = rules_of(named)
    return _Planning(body, named, rules, requests, seconds, price, before, key).run()


def with_breakpoints(body: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return a request to a Claude model with breakpoints, if one more request like it pays for them.

    A body that has marks, that nothing pays for, or whose shape is not understood, is returned as it is, and
    so is one for another provider's model.
    """
    if rules_of(model).provider is not CacheProvider.ANTHROPIC:
        return body
    try:
        api_of(body)
        if marked(body):
            return body
        planned = plan(body, model=model, requests=1)
    except TokenboxError:
        return body
    return planned.body if planned.breakpoints else body


def low_water(price: Price | None) -> LowWater:
    """Return how far to evict for a model of that price, decided by cost if both prices are known.

    Without a price for cached tokens the result is ``"auto"``, which assumes that they cost nothing.
    """
    if price is None or price.input is None or price.cached_input is None:
        return AUTO
    if price.input <= price.cached_input:
        return AUTO
    return AutoLowWater.by_price(price.input, price.cached_input, written=price.cache_write)


def tokenizer_for(model: str) -> Tokenizer:
    """Return the tokenizer for a model; for an empty name, the one for unknown models."""
    return tokenizer_of(counters_for(model).counter if model else counter_of(None))


@dataclass
class _Planning:
    """A plan under construction, from the arguments of :func:`plan`."""

    body: Mapping[str, Any]
    model: str
    rules: CacheRules
    requests: int
    seconds: int
    price: Price | None
    before: Mapping[str, Any] | None
    key: str | None

    def __post_init__(self) -> None:
        self._spans = spans(self.body)
        self._earlier = [] if self.before is None else spans(self.before)
        tokenizer = tokenizer_for(self.model)
        self._ends = list(accumulate(tokenizer.count_batch([span.text for span in self._spans])))
        self._rates = None if self.price is None else self.price.at(self._total)
        self._notes: list[str] = []
        self._fields: dict[str, Any] = {}

    @property
    def _total(self) -> int:
        return self._ends[-1] if self._ends else 0

    def run(self) -> CachePlan:
        self._warn()
        match self.rules.provider:
            case CacheProvider.ANTHROPIC:
                found = self._for_anthropic()
            case CacheProvider.OPENAI_EXPLICIT:
                found = self._for_openai_explicit()
            case CacheProvider.OPENAI:
                found = self._for_openai()
            case _:
                found = []
                self._notes.append(
                    "there is nothing to set: servers such as llama.cpp, vLLM and DeepSeek's reuse equal "
                    "beginnings by themselves"
                )
        try:
            body: dict[str, Any] = copy.deepcopy(dict(self.body))
        except RecursionError:
            raise too_deep() from None
        for one in found:
            _mark(body, one, self.rules.provider)
        body.update(self._fields)
        return CachePlan(
            self.rules.provider,
            self.model,
            self._total,
            tuple(found),
            self._fields,
            body,
            self._saved(found),
            tuple(self._notes),
        )

    # Providers ----------------------------------------------------------------------------------------------

    def _for_anthropic(self) -> list[CacheBreakpoint]:
        marks = marked(self.body)
        places = self.rules.places - len(marks)
        seconds = self._lifetime()
        if seconds is None:
            return []
        if places <= 0:
            self._notes.append(f"the request has {len(marks)} marks already, and there is room for no more")
            return []
        wanted = self._end_of_prefix()
        wanted += self._end_of([Layer.MESSAGES], "the whole of it, which the next request goes on from")
        wanted += self._stepping_stones(wanted)
        return self._chosen(self._in_order(wanted, seconds), places, seconds, marks)

    def _in_order(self, wanted: Sequence[CacheBreakpoint], seconds: int) -> list[CacheBreakpoint]:
        """Leave out marks that Anthropic would refuse: one of an hour may not follow one of 5 minutes."""
        at = {span.place: number for number, span in enumerate(self._spans)}
        present = [
            (
                at.get(place, -1),
                ONE_HOUR if isinstance(mark, Mapping) and mark.get("ttl") == "1h" else FIVE_MINUTES,
            )
            for place, mark in marks_of(self.body)
        ]
        found = []
        for one in wanted:
            here = at[one.place]
            if any(
                other < seconds if there < here else other > seconds
                for there, other in present
                if there != here
            ):
                self._notes.append(
                    f"{one.place} is not marked: the request has marks of another lifetime, and those of 1 h "
                    "must stand before those of 5 min"
                )
            else:
                found.append(one)
        return found

    def _for_openai_explicit(self) -> list[CacheBreakpoint]:
        if self.requests == 0 or self.seconds > HALF_AN_HOUR:
            # The automatic breakpoint would be written at 1.25 times the price and never read.
            self._fields["prompt_cache_options"] = {"mode": "explicit"}
            self._notes.append("nothing reads it again in time, so nothing is written")
            return []
        self._for_openai()
        wanted = self._end_of_prefix()
        if self._fields and wanted:
            return self._chosen(wanted, self.rules.places - 1, HALF_AN_HOUR, [])
        return []

    def _for_openai(self) -> list[CacheBreakpoint]:
        if self._total < self.rules.minimum:
            self._too_small(self._total)
            return []
        if self.requests == 0:
            self._notes.append("no request follows, so there is nothing to share")
            return []
        if "prompt_cache_key" not in self.body:
            self._fields["prompt_cache_key"] = self.key or self._digest()
        known = self.rules.provider is CacheProvider.OPENAI and "prompt_cache_retention" not in self.body
        if known and self.seconds > self.rules.lifetimes[0][0] == FIVE_MINUTES:
            self._notes.append(
                "a cache in memory is forgotten after 5 to 10 minutes without a request; "
                'prompt_cache_retention="24h" keeps it, where the model takes it'
            )
        return []

    # Rules --------------------------------------------------------------------------------------------------

    def _lifetime(self) -> int | None:
        """Return the cheapest lifetime that bridges the time between requests; None if none does or pays."""
        for seconds, factor in self.rules.lifetimes:
            if self.seconds <= seconds:
                if self._gain(factor) > 0:
                    return seconds
                self._notes.append(
                    f"{plural(self.requests, 'more request')} would not pay for the write, which costs "
                    f"{factor} times the input"
                )
                return None
        self._notes.append(
            f"the cache forgets after {_lifetime(self.rules.lifetimes[-1][0])}, and the next request comes "
            f"after {_lifetime(self.seconds)}"
        )
        return None

    def _gain(self, factor: Decimal) -> Decimal:
        """Return the savings per cached token over all requests, in dollars per million or input prices."""
        full, read, write = Decimal(1), _READ_SHARE, factor
        price = self._rates
        if price is not None and price.input is not None and price.cached_input is not None:
            full, read, write = price.input, price.cached_input, factor * price.input
            if price.cache_write is not None and factor == self.rules.lifetimes[0][1]:
                write = price.cache_write
        return self.requests * (full - read) - (write - full)

    def _end_of_prefix(self) -> list[CacheBreakpoint]:
        """Return a mark at the end of what stays the same whatever the messages are."""
        if self._is_stable():
            return self._end_of(
                [Layer.TOOLS, Layer.SYSTEM], "tools and system prompt, also after messages left"
            )
        return self._end_of([Layer.TOOLS], "the tools, since the system prompt changes")

    def _end_of(self, layers: Sequence[Layer], why: str) -> list[CacheBreakpoint]:
        """Return a mark on the last markable block of these layers, if the prompt is long enough there."""
        here = [i for i, span in enumerate(self._spans) if span.layer in layers and self._markable(span)]
        if not here:
            return []
        if self._ends[here[-1]] < self.rules.minimum:
            if Layer.MESSAGES in layers:
                self._too_small(self._ends[here[-1]])
            return []
        return [CacheBreakpoint(self._spans[here[-1]].place, self._ends[here[-1]], 0, why)]

    def _stepping_stones(self, wanted: Sequence[CacheBreakpoint]) -> list[CacheBreakpoint]:
        """Return marks towards the end of the previous request, if it is further back than ``look_back``."""
        look_back = self.rules.look_back
        if self.before is None or look_back is None or not wanted:
            return []
        ended = len(self._earlier) - 1
        last = next(at for at, span in enumerate(self._spans) if span.place == wanted[-1].place)
        stones = []
        at = last
        while at - ended > look_back:
            at -= look_back
            while at > ended and not self._markable(self._spans[at]):
                at -= 1
            why = f"the request before ended more than {look_back} blocks back"
            stones.append(CacheBreakpoint(self._spans[at].place, self._ends[at], 0, why))
        return list(reversed(stones))

    def _chosen(
        self, wanted: Sequence[CacheBreakpoint], places: int, seconds: int, marks: Sequence[str]
    ) -> list[CacheBreakpoint]:
        """Return the first ``places`` of the wanted marks, in the order of the prompt."""
        found: dict[str, CacheBreakpoint] = {}
        for one in wanted:
            if one.place not in marks and one.place not in found and len(found) < places:
                found[one.place] = replace(one, seconds=seconds)
        if len({one.place for one in wanted} - set(marks)) > places:
            self._notes.append(f"there are {self.rules.places} places, and more were wanted")
        return sorted(found.values(), key=lambda one: one.tokens)

    def _is_stable(self) -> bool:
        """Return True if the system prompt is expected not to change."""
        system = [span for span in self._spans if span.layer is Layer.SYSTEM]
        if any(volatile(span.text) for span in system):
            return False
        was = [span.text for span in self._earlier if span.layer is Layer.SYSTEM]
        return self.before is None or was == [span.text for span in system]

    def _warn(self) -> None:
        for span in self._spans:
            found = volatile(span.text) if span.layer < Layer.MESSAGES else None
            if found is not None:
                self._notes.append(
                    f"{span.place} has {found!r} in it: if that changes, nothing behind it is read from the "
                    "cache. Put it into the last user message"
                )

    def _too_small(self, tokens: int) -> None:
        self._notes.append(
            f"~{tokens:,} tokens are less than the {self.rules.minimum:,} that {self.model} caches at least"
        )

    def _markable(self, span: PromptSpan) -> bool:
        if not isinstance(span.value, Mapping) or span.kind in _UNMARKABLE:
            return False
        if self.rules.provider is CacheProvider.OPENAI_EXPLICIT:
            return span.layer is not Layer.TOOLS and span.role != "assistant" and span.kind == "text"
        return span.kind != "text" or bool(span.value.get("text"))

    def _digest(self) -> str:
        """Return a key for all requests with these tools and this system prompt."""
        text = "\0".join(span.text for span in self._spans if span.layer < Layer.MESSAGES)
        return f"tb-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"

    def _saved(self, found: Sequence[CacheBreakpoint]) -> Decimal | None:
        price = self._rates
        if price is None or price.input is None or price.cached_input is None:
            return None
        if "prompt_cache_options" in self._fields:
            written = price.input * Decimal("1.25") if price.cache_write is None else price.cache_write
            return self._total * (written - price.input) / _PER_MILLION
        if not found:
            return Decimal(0)
        factor = dict(self.rules.lifetimes)[found[0].seconds]
        return max(one.tokens for one in found) * self._gain(factor) / _PER_MILLION


def _mark(body: dict[str, Any], one: CacheBreakpoint, provider: CacheProvider) -> None:
    """Set a mark in the request."""
    field, _, rest = one.place.partition("[")
    if field in {"system", "instructions"} and isinstance(body.get(field), str):
        if provider is not CacheProvider.ANTHROPIC:
            return
        body[field] = [{"type": "text", "text": body[field]}]
    if provider is CacheProvider.ANTHROPIC:
        name, value = "cache_control", {"type": "ephemeral"}
        if one.seconds == ONE_HOUR:
            value["ttl"] = "1h"
    else:
        name, value = "prompt_cache_breakpoint", {"mode": "explicit"}
    number, _, inner = rest.partition("]")
    target = body[field][int(number)]
    if inner.startswith(".content["):
        if isinstance(target["content"], str):
            kind = "input_text" if field == "input" else "text"
            target["content"] = [{"type": kind, "text": target["content"]}]
        target = target["content"][int(inner.removeprefix(".content[").removesuffix("]"))]
    target[name] = value


def _lifetime(seconds: int) -> str:
    if seconds >= ONE_HOUR and seconds % ONE_HOUR == 0:
        return f"{seconds // ONE_HOUR} h"
    return f"{seconds // 60} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds} s"
