"""Simulate eviction policies on the sizes of a session, and compute the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tokenbox.engine.reduction import enforce
from tokenbox.engine.window import ItemKind, Window

if TYPE_CHECKING:
    from session import Prompts, Session

    from tokenbox.engine.steps import WindowLimits

KINDS = {"system": ItemKind.FIXED, "user": ItemKind.USER, "tool": ItemKind.RESULT}


@dataclass(frozen=True)
class Point:
    """Tokens processed again beyond what is new, and the mean context of a request."""

    again: float
    context: float


@dataclass(frozen=True)
class Numbers:
    """Sizes of the messages; the last of a run of tool results has the size of the run.

    ``base``: the tokens that prime the reply.
    """

    sizes: list[int]
    kinds: list[ItemKind]
    calls: list[int]
    """The number of results for the calls of each message."""
    requests: list[int]
    base: int

    @classmethod
    def of(cls, session: Session, prompts: Prompts) -> Numbers:
        messages = session.messages
        runs = iter(map(len, prompts.runs(messages)))
        is_tool = [message["role"] == "tool" for message in messages] + [False]
        sizes = [0 if here and after else next(runs) for here, after in pairwise(is_tool)]
        calls = [len(message.get("tool_calls", ())) for message in messages]
        kinds = [
            KINDS.get(message["role"], ItemKind.CALL if waiting else ItemKind.ANSWER)
            for message, waiting in zip(messages, calls, strict=True)
        ]
        return cls(sizes, kinds, calls, session.requests, len(prompts.priming))

    @property
    def ends(self) -> list[int]:
        """Return the tokens from the beginning to the end of each message."""
        total, made = 0, []
        for size in self.sizes:
            total += size
            made.append(total)
        return made


def play(numbers: Numbers, limits: WindowLimits) -> Point:
    """Run the session with tokenbox's window."""
    window, call, taken = Window(numbers.base), 0, 0
    again, context = 0, 0
    for request in numbers.requests:
        new = 0
        for number in range(taken, request):
            kind, size = numbers.kinds[number], numbers.sizes[number]
            if kind is ItemKind.CALL:
                call = number
            window.append(
                kind, size, calls=numbers.calls[number], call=call if kind is ItemKind.RESULT else None
            )
            new += size
        taken = request
        if enforce(window, limits):
            again += window.total - numbers.base - numbers.sizes[0] - new
        if limits.budget is not None and window.total > limits.budget:
            raise SystemExit("over the budget")
        context += window.total
    return Point(again, context / len(numbers.requests))


def best(numbers: Numbers, budget: int, price: float) -> Point:
    """Minimise the tokens processed again minus ``price`` per token of context, knowing the future.

    Dynamic programming over all requests and the exchanges with which the kept messages can begin.
    """
    ends = [0, *numbers.ends]
    system = numbers.sizes[0]
    fixed = numbers.base + system
    starts = [ends[i] for i, kind in enumerate(numbers.kinds) if kind is ItemKind.USER]
    costs: dict[int, tuple[float, int, int]] = {0: (0.0, 0, 0)}
    taken, last = system, 0
    for request in numbers.requests:
        end = ends[request]
        new, taken = end - taken, end
        while last + 1 < len(starts) and starts[last + 1] < end:
            last += 1
        before = sorted(costs.items())
        costs, place = {}, 0
        cheapest: tuple[float, int, int] | None = None
        known = dict(before)
        for start in range(last + 1):
            while place < len(before) and before[place][0] < start:
                cheapest = min(cheapest or before[place][1], before[place][1])
                place += 1
            kept = end - starts[start]
            if fixed + kept > budget:
                continue
            options = []
            if start in known:
                options.append(known[start])
            if cheapest is not None:
                cost, again, context = cheapest
                options.append((cost + kept - new, again + kept - new, context))
            if options:
                cost, again, context = min(options)
                costs[start] = (cost - price * (fixed + kept), again, context + fixed + kept)
    _, again, context = min(costs.values())
    return Point(again, context / len(numbers.requests))
