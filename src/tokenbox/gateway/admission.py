"""Whether a request fits: input, reserved output, window and headroom, in whole numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from tokenbox.gateway.refusals import Refusal, over_limit
from tokenbox.gateway.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from tokenbox.gateway.calls import Call
    from tokenbox.tokenizers.protocol import TokenizerIdentity

# A request that states no output limit, and has to have one, gets this one.
OUTPUT_UNDER_QUOTA = 4096


@dataclass(frozen=True, slots=True)
class Room:
    """What a model can take, in tokens; None is unknown.

    ``limit`` is the window less its headroom, for input and output together; ``max_input`` for the input
    alone. ``sources`` says where each is from.
    """

    window: int | None
    limit: int | None
    max_input: int | None
    max_output: int | None
    reserve: int
    headroom: str
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of a request as a whole.

    ``largest``: of several prompts, each of which has the window for itself, the largest; None for one.
    ``parts``: of the texts of each message alone, where that was counted, and whether exactly.
    ``identity``: of what counted here; None where a server did.
    """

    tokens: int
    exact: bool
    source: str
    parts: tuple[int, ...] | None = None
    parts_exact: bool = False
    identity: TokenizerIdentity | None = None
    largest: int | None = None

    @property
    def in_window(self) -> int:
        """The tokens that have to be in the window together."""
        return self.tokens if self.largest is None else self.largest


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request fits, with all figures. ``remaining`` is what stays free, None if that is unknown."""

    counted: Counted
    reserved: int
    room: Room
    mode: Mode

    @property
    def budget(self) -> int | None:
        """What the input may be, None where that is unknown; below 0 if the output alone is too much."""
        room = self.room
        if room.limit is None:
            return room.max_input
        left = room.limit - self.reserved
        return left if room.max_input is None else min(left, room.max_input)

    @property
    def deficit(self) -> int:
        budget = self.budget
        return 0 if budget is None else max(0, self.counted.in_window - budget)

    @property
    def remaining(self) -> int | None:
        budget = self.budget
        return None if budget is None else max(0, budget - self.counted.in_window)

    def figures(self) -> dict[str, object]:
        """Everything about the decision, for the answer, the proof and the log."""
        room, largest = self.room, self.counted.largest
        return {
            "mode": self.mode.value,
            "input_tokens": self.counted.tokens,
            **({} if largest is None else {"largest_prompt": largest}),
            "exact": self.counted.exact,
            "counted_by": self.counted.source,
            "reserved": self.reserved,
            "context_window": room.window,
            "headroom": room.headroom,
            "limit": room.limit,
            "max_input_tokens": room.max_input,
            "remaining": self.remaining,
            "sources": dict(room.sources),
        }


def judge(call: Call, counted: Counted, room: Room, mode: Mode) -> Verdict:
    """The figures of a request against its model. The output reserved is what the request asks for.

    An answer has a token at least: servers refuse a prompt that fills the window.
    """
    reserved = room.reserve if call.max_output is None else call.max_output
    return Verdict(counted, max(1, reserved) if call.protocol.output_keys else 0, room, mode)


def with_output_limit(call: Call, verdict: Verdict, key: str) -> tuple[Call, Verdict]:
    """The call with an output limit, for a key with a quota: nothing else bounds what it may use.

    ``key`` is what the server calls it in a chat. Whatever else says that there is no limit is replaced.
    """
    if call.max_output is not None or not call.protocol.output_keys:
        return call, verdict
    left = verdict.remaining
    most = OUTPUT_UNDER_QUOTA if left is None else max(1, min(OUTPUT_UNDER_QUOTA, verdict.reserved + left))
    own = key if call.protocol.name == "chat" else call.protocol.output_keys[0]
    unlimited = {name: most for name in call.protocol.output_keys if call.body.get(name) is not None}
    bounded = call.with_body({**call.body, **unlimited, own: most})
    return bounded, judge(bounded, verdict.counted, verdict.room, verdict.mode)


def limit_of(window: int | None, headroom: Fraction) -> int | None:
    """What input and output together may be: the window less its headroom, rounded down."""
    return None if window is None else int(window * (1 - headroom))


def refusal_of(call: Call, verdict: Verdict) -> Refusal:
    """The 400 for a request that does not fit, or whose window nobody knows; with the smallest remedies."""
    room = verdict.room
    if verdict.budget is None:
        return Refusal(
            400,
            "context_window_unknown",
            f"How much the model {call.model!r} can take is not known, so nothing can be promised. The "
            f"operator sets it: [models.{call.model!r}] max_ctx in the configuration, or the mode observe.",
            "model",
            verdict.figures(),
        )
    figures = {**verdict.figures(), "deficit": verdict.deficit, "fixes": remedies(call, verdict)}
    if verdict.counted.parts is not None:
        figures["messages"] = sizes(call, verdict.counted)
    by_input = room.max_input is not None and (
        room.limit is None or room.limit - verdict.reserved > room.max_input
    )
    limit = room.max_input if by_input else room.limit
    assert limit is not None  # noqa: S101  # a budget has one of them
    return over_limit(
        input_tokens=verdict.counted.in_window,
        reserved=0 if by_input else verdict.reserved,
        limit=limit,
        window=room.window if room.window is not None else limit,
        param=call.protocol.input_key,
        exact=verdict.counted.exact,
        figures=figures,
    )


def remedies(call: Call, verdict: Verdict) -> list[dict[str, object]]:
    """The single changes that would make it fit, smallest first."""
    found: list[dict[str, object]] = []
    room, tokens = verdict.room, verdict.counted.in_window
    free = None if room.limit is None else room.limit - tokens
    input_fits = room.max_input is None or tokens <= room.max_input
    if call.protocol.output_keys and input_fits and free is not None and free > 0:
        key = call.limited_by or call.protocol.output_keys[0]
        found.append(
            {"change": "reduce_output", "param": key, "to": free, "say": f"set {key} to {free} or less"}
        )
    if verdict.budget is not None and verdict.budget > 0:
        found.append(
            {
                "change": "reduce_input",
                "by": verdict.deficit,
                "to": verdict.budget,
                "say": f"send at least {verdict.deficit} tokens less in the {call.protocol.input_key}",
            }
        )
    can_be_fitted = call.protocol.name in ("chat", "messages", "responses") and (verdict.budget or 0) > 0
    if can_be_fitted and verdict.mode is not Mode.FIT:
        found.append({"change": "fit", "say": "send the header x-tokenbox-mode: fit, if your key may use it"})
    return found


def sizes(call: Call, counted: Counted) -> list[dict[str, object]]:
    """The size of each message alone, or of each prompt."""
    return [
        {
            "index": index,
            "role": item.get("role") if isinstance(item, dict) else None,
            "tokens": tokens,
            "exact": counted.parts_exact,
        }
        for index, (item, tokens) in enumerate(zip(call.parts, counted.parts or (), strict=False))
    ]


def decision_id(value: Mapping[str, object]) -> str:
    """SHA-256 (hex) over the RFC 8785 JSON of a decision: text keys in ASCII, whole numbers, texts.

    For such data RFC 8785 is compact JSON with sorted keys.
    """
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a model named with half a character
        data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()
