"""What the soak asks, how often, and what has to come of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from soaking.words import WINDOW, pieces_of, text

if TYPE_CHECKING:
    from collections.abc import Mapping

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "embeddings": "/v1/embeddings",
}
OUTPUT = {"responses": "max_output_tokens", "embeddings": None}
# Whose requests they are, how often, and the quotas of their keys. Those of a minute are to be used up.
KEYS: Mapping[str, tuple[int, str | None]] = {
    "free": (35, None),
    "tokens": (25, "1000000000 tokens/month"),
    "dollars": (10, "$9000/month"),
    "tokens-a-minute": (15, "600000 tokens/minute"),
    "dollars-a-minute": (15, "$2/minute"),
}
# One that may use one model and one mode; it is asked for others.
NARROW = "narrow"
# The most that a key, an API and a size have together only once: by them the ledger's entries are told apart.
MARKS = 20_011
UNSEEN = 40


class Manner(StrEnum):
    """How a client behaves."""

    GOOD = "good"
    READS_SLOWLY = "reads slowly"
    READS_NOTHING = "reads nothing"
    SENDS_SLOWLY = "sends slowly"
    LEAVES_SENDING = "leaves while it sends"
    LEAVES_WAITING = "leaves before the answer"
    LEAVES_READING = "leaves in the answer"

    @property
    def leaves(self) -> bool:
        return self in LEAVING


LEAVING = {
    Manner.LEAVES_SENDING,
    Manner.LEAVES_WAITING,
    Manner.LEAVES_READING,
    Manner.READS_NOTHING,
}
# What the client must see of each fault of the upstream: the status and the code of the error.
FAULTS = {
    "reset_before": (502, "upstream_broke"),
    "half_a_head": (502, "upstream_broke"),
    "no_http": (502, "upstream_garbled"),
    "reset_after_head": (502, "upstream_broke"),
    "bad_json": (502, "upstream_garbled"),
    "page": (502, "upstream_garbled"),
    "redirect": (502, "upstream_garbled"),
    "server_error": (500, "upstream_error"),
    "rate_limited": (429, "rate_limit_exceeded"),
    "flat_error": (400, "upstream_error"),
    "refuses_key": (502, "upstream_refused_key"),
    "silent": (504, "upstream_timeout"),
}
# The upstream refused these, so they cost nothing; the others broke off, so they cost all that was reserved.
REFUSED = {"server_error", "rate_limited", "flat_error", "redirect", "refuses_key"}
# The code of the error that a stream ends with.
IN_STREAM = {
    "half_a_chunk": "upstream_broke",
    "half_a_body": "upstream_broke",
    "ends_early": "upstream_broke",
    "bad_event": "upstream_garbled",
    "stalls": "upstream_timeout",
}


@dataclass(slots=True)
class Ask:
    """One request. ``allowed``: (status, code of the error) that may come of it; code None: a whole answer.

    ``said``: what a whole answer says. ``ends_with``: the code of the error that a stream ends with.
    ``counted``: the gateway has to find the same number of tokens as we.
    """

    number: int
    kind: str
    api: str
    key: str
    body: dict[str, Any]
    allowed: set[tuple[int, str | None]]
    said: str = ""
    manner: Manner = Manner.GOOD
    headers: dict[str, str] = field(default_factory=dict)
    ends_with: str | None = None
    counted: bool = False

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def fault(self) -> str | None:
        fault = self.body.get("metadata", {}).get("fault")
        return None if fault is None else str(fault)

    @property
    def has_quota(self) -> bool:
        return self.key in KEYS and KEYS[self.key][1] is not None


class Mix:
    """Makes requests, one like no other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0
        self.made: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._marks: Counter[tuple[str, str]] = Counter()

    def next(self) -> Ask:
        weights = {name: weight for name, (weight, _) in KINDS.items()}
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        return self.of(kind)

    def of(self, kind: str) -> Ask:
        self.number += 1
        self.made[kind] += 1
        ask: Ask = KINDS[kind][1](self, kind)
        if ask.key.endswith("a-minute"):
            ask.allowed.add((429, "quota_exceeded"))
        if ask.fault is not None and not ask.manner.leaves:
            self.faults[ask.fault] += 1
        return ask

    # The kinds.

    def plain(self, kind: str) -> Ask:
        return self._ask(kind, self._api(), stream=self._maybe())

    def tools(self, kind: str) -> Ask:
        api = self._one("chat", "chat", "responses", "messages")
        ask = self._ask(kind, api, stream=self._maybe())
        schema = {"type": "object", "properties": {"what": {"type": "string", "description": "To look up."}}}
        about = {"name": "look", "description": "Looks something up."}
        if api == "messages":
            ask.body["tools"] = [{**about, "input_schema": schema}]
            used = {"type": "tool_use", "id": "t0", "name": "look", "input": {"what": "river"}}
            done = {"type": "tool_result", "tool_use_id": "t0", "content": self._text(40)}
            ask.body["messages"] += [
                {"role": "assistant", "content": [used]},
                {"role": "user", "content": [done]},
            ]
        elif api == "responses":
            ask.body["tools"] = [{"type": "function", **about, "parameters": schema}]
            call = {"type": "function_call", "call_id": "t0", "name": "look", "arguments": "{}"}
            done = {"type": "function_call_output", "call_id": "t0", "output": self._text(40)}
            ask.body["input"] = [{"role": "user", "content": ask.body["input"]}, call, done]
        else:
            ask.body["tools"] = [{"type": "function", "function": {**about, "parameters": schema}}]
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": "t0", "type": "function", "function": function}]
            ask.body["messages"] += [
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "t0", "content": self._text(40)},
            ]
        return ask

    def counted_here(self, kind: str) -> Ask:
        """For a model that the gateway counts by itself; no quota, for the upstream counts another way."""
        words = self.random.choice([50, 200, 700, 700, 3_000])
        ask = self._ask(kind, "chat", key="free", words=words, stream=self._maybe())
        # Words that nobody has seen fill what the gateway remembers of words, so that its bounds are met.
        self._add(ask.body, " ".join(f"{self.random.getrandbits(40):x}" for _ in range(UNSEEN)))
        ask.body["model"], ask.counted = "gpt-4o", False
        return ask

    def long(self, kind: str) -> Ask:
        """As many bytes as are counted in a thread."""
        ask = self.counted_here(kind)
        more = self._text(self.random.choice([8_000, 30_000]))
        ask.body["messages"].append({"role": "user", "content": more})
        return ask

    def over_the_limit(self, kind: str) -> Ask:
        ask = self._ask(kind, self._api(), stream=self._maybe())
        self._add(ask.body, f"x{WINDOW}")
        ask.allowed = {(400, "context_length_exceeded")}
        return ask

    def fit(self, kind: str) -> Ask:
        """Three windows full, which is made to fit."""
        api = self._one("chat", "messages", "responses")
        ask = self._ask(kind, api, stream=self._maybe())
        turns = []
        for _ in range(8):
            words = f"#{self.number} x{WINDOW // 5} {self._text(100)}"
            turns += [{"role": "user", "content": words}, {"role": "assistant", "content": self._text(20)}]
        name = "input" if api == "responses" else "messages"
        last = ask.body[name]
        ask.body[name] = [*turns, *(last if isinstance(last, list) else [{"role": "user", "content": last}])]
        ask.headers["x-tokenbox-mode"], ask.counted = "fit", False
        return ask

    def fault_of_the_upstream(self, kind: str) -> Ask:
        fault = self.random.choices(list(FAULTS), [4] * (len(FAULTS) - 1) + [1])[0]
        ask = self._ask(kind, self._api(), stream=self._maybe(), fault=fault)
        ask.allowed = {FAULTS[fault]}
        if ask.api == "messages" and fault == "rate_limited":
            ask.allowed = {(429, "upstream_error")}  # an error in OpenAI's shape is none of Anthropic's
        return ask

    def fault_in_a_stream(self, kind: str) -> Ask:
        fault = self.random.choices(list(IN_STREAM), [4] * (len(IN_STREAM) - 1) + [1])[0]
        api = self._one("chat", "completions", "responses", "messages")
        ask = self._ask(kind, api, stream=True, fault=fault)
        ask.ends_with = IN_STREAM[fault]
        return ask

    def leaves(self, kind: str) -> Ask:
        manner = self._one(Manner.LEAVES_SENDING, Manner.LEAVES_WAITING, Manner.LEAVES_READING)
        if manner is Manner.LEAVES_READING:
            api = self._one("chat", "completions", "responses", "messages")
            ask = self._ask(kind, api, stream=True, fault=self._one("endless", "endless", "flood"))
        else:
            is_silent = manner is Manner.LEAVES_WAITING and self._maybe()
            fault = "silent" if is_silent else None
            ask = self._ask(kind, self._api(), stream=self._maybe(), fault=fault)
        ask.manner = manner
        return ask

    def slow_client(self, kind: str) -> Ask:
        manner = self._one(Manner.READS_SLOWLY, Manner.SENDS_SLOWLY)
        size = 4_000 if manner is Manner.READS_SLOWLY else 12
        ask = self._ask(kind, "chat", stream=True, pieces=50, size=size)
        ask.manner = manner
        return ask

    def reads_nothing(self, kind: str) -> Ask:
        ask = self._ask(kind, "chat", stream=True, fault="flood")
        ask.manner = Manner.READS_NOTHING
        return ask

    def slow_upstream(self, kind: str) -> Ask:
        return self._ask(kind, self._api(), stream=self._maybe(), delay=0.5, pieces=20, pause=0.05)

    def crowd(self, kind: str) -> Ask:
        """For an upstream with two places and two that may wait."""
        ask = self._ask(kind, "chat", key="free", stream=False, delay=0.3)
        ask.body["model"] = "busy"
        ask.allowed.add((503, "upstream_busy"))
        return ask

    def refused_at_the_door(self, kind: str) -> Ask:
        """A wrong key, a wrong model, a wrong mode, no JSON."""
        why = self._one("invalid_key", "model_not_allowed", "mode_not_allowed", "invalid_request")
        ask = self._ask(kind, self._api(), key=NARROW, stream=False)
        ask.allowed = {(403, why)}
        if why == "invalid_key":
            ask.key, ask.allowed = "nobody", {(401, why)}
        elif why == "model_not_allowed":
            ask.body["model"] = "gpt-4o"
        elif why == "mode_not_allowed":
            ask.headers["x-tokenbox-mode"] = "observe"
        else:
            ask.body["n"], ask.allowed = "many", {(400, why)}
        return ask

    def small(self, kind: str) -> Ask:
        """For the model whose window a reload changes. Whoever asks knows what is to come."""
        ask = self._ask(kind, "chat", key="free", stream=False)
        self._add(ask.body, "x6000")
        ask.body["model"], ask.body["max_tokens"] = "small", 1
        return ask

    # Their parts.

    def _ask(
        self,
        kind: str,
        api: str,
        *,
        stream: bool,
        key: str | None = None,
        words: int | None = None,
        **metadata: Any,  # noqa: ANN401
    ) -> Ask:
        if key is None:
            weights = [weight for weight, _ in KEYS.values()]
            key = self.random.choices(list(KEYS), weights)[0]
        self._marks[key, api] += 1
        mark = 1 + self._marks[key, api] * 7919 % MARKS
        said = f"#{self.number} " + self._text(self.random.randrange(20, 200) if words is None else words)
        body: dict[str, Any] = {"model": "soak"}
        if api in ("chat", "messages"):
            if self._maybe() and api == "messages":
                body["system"] = self._text(30)
            body["messages"] = [
                *([{"role": "system", "content": self._text(30)}] if api == "chat" else []),
                {"role": "user", "content": self._text(20)},
                {"role": "assistant", "content": self._text(20)},
                {"role": "user", "content": said},
            ]
        else:
            body["prompt" if api == "completions" else "input"] = said
        limit = OUTPUT.get(api, "max_tokens")
        if limit is None:
            self._add(body, f"x{mark}")
        else:
            body[limit] = mark
        if stream and api != "embeddings":
            body["stream"] = True
            if api in ("chat", "completions") and self._maybe():
                body["stream_options"] = {"include_usage": True}
        given = {name: value for name, value in metadata.items() if value is not None}
        body["metadata"] = {"number": self.number, **given}
        said = "".join(pieces_of(self.number, given.get("pieces", 4), given.get("size", 12)))
        return Ask(self.number, kind, api, key, body, {(200, None)}, said, counted=True)

    @staticmethod
    def _add(body: dict[str, Any], more: str) -> None:
        if "messages" in body:
            body["messages"][-1]["content"] += f" {more}"
        else:
            body["prompt" if "prompt" in body else "input"] += f" {more}"

    def _api(self) -> str:
        return self.random.choices(list(PATHS), [50, 10, 15, 17, 8])[0]

    def _text(self, words: int) -> str:
        return text(self.random, words)

    def _maybe(self) -> bool:
        return self.random.random() < 0.5

    def _one(self, *which: Any) -> Any:  # noqa: ANN401
        return self.random.choice(which)


# How many of all are of which kind.
KINDS: Mapping[str, tuple[float, Any]] = {
    "plain": (38, Mix.plain),
    "with tools": (8, Mix.tools),
    "counted by the gateway itself": (8, Mix.counted_here),
    "long": (1, Mix.long),
    "over the limit": (5, Mix.over_the_limit),
    "made to fit": (4, Mix.fit),
    "a fault of the upstream": (14, Mix.fault_of_the_upstream),
    "a fault in a stream": (5, Mix.fault_in_a_stream),
    "the client leaves": (7, Mix.leaves),
    "a slow client": (2, Mix.slow_client),
    "a client that reads nothing": (0.2, Mix.reads_nothing),
    "a slow upstream": (2, Mix.slow_upstream),
    "a crowd": (3, Mix.crowd),
    "refused at the door": (3, Mix.refused_at_the_door),
    "a probe after a reload": (0, Mix.small),
}
