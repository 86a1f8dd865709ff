"""The requests of the soak: kinds, their frequencies, and the responses that are allowed."""

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
# Keys with their shares of the requests and their quotas. Those per minute are meant to be exceeded.
KEYS: Mapping[str, tuple[int, str | None]] = {
    "free": (35, None),
    "tokens": (25, "1000000000 tokens/month"),
    "dollars": (10, "$9000/month"),
    "tokens-a-minute": (15, "600000 tokens/minute"),
    "dollars-a-minute": (15, "$2/minute"),
}
# A key for one model and one mode, with requests for others.
NARROW = "narrow"
# Per key and API, sizes of outputs repeat only after this number: they identify the calls in the ledger.
MARKS = 20_011
UNSEEN = 40


class Behaviour(StrEnum):
    """The behaviour of a client."""

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
    Behaviour.LEAVES_SENDING,
    Behaviour.LEAVES_WAITING,
    Behaviour.LEAVES_READING,
    Behaviour.READS_NOTHING,
}
# Faults of the upstream, with the status and the error code that the client must get.
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
# Faults with an error of the upstream cost nothing; all others cost the whole reservation.
REFUSED = {"server_error", "rate_limited", "flat_error", "redirect", "refuses_key"}
# Faults within a stream, with the code of the error that ends it.
IN_STREAM = {
    "half_a_chunk": "upstream_broke",
    "half_a_body": "upstream_broke",
    "ends_early": "upstream_broke",
    "bad_event": "upstream_garbled",
    "stalls": "upstream_timeout",
}


@dataclass(slots=True)
class Request:
    """One request. ``allowed``: pairs (status, error code) of valid responses; code None is a whole answer.

    ``answer``: the text of a whole answer. ``ends_with``: the code of the error that ends a stream.
    ``counted``: the gateway must report the same number of tokens as ``words.tokens_of``.
    """

    number: int
    kind: str
    api: str
    key: str
    body: dict[str, Any]
    allowed: set[tuple[int, str | None]]
    answer: str = ""
    behaviour: Behaviour = Behaviour.GOOD
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
    """Generates requests, all different."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0
        self.made: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._marks: Counter[tuple[str, str]] = Counter()

    def next(self) -> Request:
        weights = {name: weight for name, (weight, _) in KINDS.items()}
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        return self.of(kind)

    def of(self, kind: str) -> Request:
        self.number += 1
        self.made[kind] += 1
        request: Request = KINDS[kind][1](self, kind)
        if request.key.endswith("a-minute"):
            request.allowed.add((429, "quota_exceeded"))
        if request.fault is not None and not request.behaviour.leaves:
            self.faults[request.fault] += 1
        return request

    # The kinds.

    def plain(self, kind: str) -> Request:
        return self._request(kind, self._api(), stream=self._coin())

    def tools(self, kind: str) -> Request:
        api = self._one("chat", "chat", "responses", "messages")
        request = self._request(kind, api, stream=self._coin())
        schema = {"type": "object", "properties": {"what": {"type": "string", "description": "To look up."}}}
        about = {"name": "look", "description": "Looks something up."}
        if api == "messages":
            request.body["tools"] = [{**about, "input_schema": schema}]
            used = {"type": "tool_use", "id": "t0", "name": "look", "input": {"what": "river"}}
            done = {"type": "tool_result", "tool_use_id": "t0", "content": self._text(40)}
            request.body["messages"] += [
                {"role": "assistant", "content": [used]},
                {"role": "user", "content": [done]},
            ]
        elif api == "responses":
            request.body["tools"] = [{"type": "function", **about, "parameters": schema}]
            call = {"type": "function_call", "call_id": "t0", "name": "look", "arguments": "{}"}
            done = {"type": "function_call_output", "call_id": "t0", "output": self._text(40)}
            request.body["input"] = [{"role": "user", "content": request.body["input"]}, call, done]
        else:
            request.body["tools"] = [{"type": "function", "function": {**about, "parameters": schema}}]
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": "t0", "type": "function", "function": function}]
            request.body["messages"] += [
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "t0", "content": self._text(40)},
            ]
        return request

    def counted_here(self, kind: str) -> Request:
        """A request that the gateway counts itself; without a quota, as the upstream counts differently."""
        words = self.random.choice([50, 200, 700, 700, 3_000])
        request = self._request(kind, "chat", key="free", words=words, stream=self._coin())
        # New words fill the gateway's cache of words up to its limit.
        self._add(request.body, " ".join(f"{self.random.getrandbits(40):x}" for _ in range(UNSEEN)))
        request.body["model"], request.counted = "gpt-4o", False
        return request

    def long(self, kind: str) -> Request:
        """A body so long that it is counted in a thread."""
        request = self.counted_here(kind)
        more = self._text(self.random.choice([8_000, 30_000]))
        request.body["messages"].append({"role": "user", "content": more})
        return request

    def over_the_limit(self, kind: str) -> Request:
        request = self._request(kind, self._api(), stream=self._coin())
        self._add(request.body, f"x{WINDOW}")
        request.allowed = {(400, "context_length_exceeded")}
        return request

    def fit(self, kind: str) -> Request:
        """A request of three times the window, which is made to fit."""
        api = self._one("chat", "messages", "responses")
        request = self._request(kind, api, stream=self._coin())
        turns = []
        for _ in range(8):
            words = f"#{self.number} x{WINDOW // 5} {self._text(100)}"
            turns += [{"role": "user", "content": words}, {"role": "assistant", "content": self._text(20)}]
        name = "input" if api == "responses" else "messages"
        last = request.body[name]
        request.body[name] = [
            *turns,
            *(last if isinstance(last, list) else [{"role": "user", "content": last}]),
        ]
        request.headers["x-tokenbox-mode"], request.counted = "fit", False
        return request

    def fault_of_the_upstream(self, kind: str) -> Request:
        fault = self.random.choices(list(FAULTS), [4] * (len(FAULTS) - 1) + [1])[0]
        request = self._request(kind, self._api(), stream=self._coin(), fault=fault)
        request.allowed = {FAULTS[fault]}
        if request.api == "messages" and fault == "rate_limited":
            request.allowed = {(429, "upstream_error")}  # the upstream's error has OpenAI's shape
        return request

    def fault_in_a_stream(self, kind: str) -> Request:
        fault = self.random.choices(list(IN_STREAM), [4] * (len(IN_STREAM) - 1) + [1])[0]
        api = self._one("chat", "completions", "responses", "messages")
        request = self._request(kind, api, stream=True, fault=fault)
        request.ends_with = IN_STREAM[fault]
        return request

    def leaves(self, kind: str) -> Request:
        behaviour = self._one(Behaviour.LEAVES_SENDING, Behaviour.LEAVES_WAITING, Behaviour.LEAVES_READING)
        if behaviour is Behaviour.LEAVES_READING:
            api = self._one("chat", "completions", "responses", "messages")
            request = self._request(kind, api, stream=True, fault=self._one("endless", "endless", "flood"))
        else:
            is_silent = behaviour is Behaviour.LEAVES_WAITING and self._coin()
            fault = "silent" if is_silent else None
            request = self._request(kind, self._api(), stream=self._coin(), fault=fault)
        request.behaviour = behaviour
        return request

    def slow_client(self, kind: str) -> Request:
        behaviour = self._one(Behaviour.READS_SLOWLY, Behaviour.SENDS_SLOWLY)
        size = 4_000 if behaviour is Behaviour.READS_SLOWLY else 12
        request = self._request(kind, "chat", stream=True, pieces=50, size=size)
        request.behaviour = behaviour
        return request

    def reads_nothing(self, kind: str) -> Request:
        request = self._request(kind, "chat", stream=True, fault="flood")
        request.behaviour = Behaviour.READS_NOTHING
        return request

    def slow_upstream(self, kind: str) -> Request:
        return self._request(kind, self._api(), stream=self._coin(), delay=0.5, pieces=20, pause=0.05)

    def crowd(self, kind: str) -> Request:
        """A request for an upstream with a concurrency of two and a queue of two."""
        request = self._request(kind, "chat", key="free", stream=False, delay=0.3)
        request.body["model"] = "busy"
        request.allowed.add((503, "upstream_busy"))
        return request

    def refused_early(self, kind: str) -> Request:
        """A wrong key, a wrong model, a wrong mode, or an invalid field."""
        why = self._one("invalid_key", "model_not_allowed", "mode_not_allowed", "invalid_request")
        request = self._request(kind, self._api(), key=NARROW, stream=False)
        request.allowed = {(403, why)}
        if why == "invalid_key":
            request.key, request.allowed = "nobody", {(401, why)}
        elif why == "model_not_allowed":
            request.body["model"] = "gpt-4o"
        elif why == "mode_not_allowed":
            request.headers["x-tokenbox-mode"] = "observe"
        else:
            request.body["n"], request.allowed = "many", {(400, why)}
        return request

    def small(self, kind: str) -> Request:
        """A request for the model whose window a reload changes; the caller sets ``allowed``."""
        request = self._request(kind, "chat", key="free", stream=False)
        self._add(request.body, "x6000")
        request.body["model"], request.body["max_tokens"] = "small", 1
        return request

    # Parts of requests.

    def _request(
        self,
        kind: str,
        api: str,
        *,
        stream: bool,
        key: str | None = None,
        words: int | None = None,
        **metadata: Any,
    ) -> Request:
        if key is None:
            weights = [weight for weight, _ in KEYS.values()]
            key = self.random.choices(list(KEYS), weights)[0]
        self._marks[key, api] += 1
        mark = 1 + self._marks[key, api] * 7919 % MARKS
        question = f"#{self.number} " + self._text(self.random.randrange(20, 200) if words is None else words)
        body: dict[str, Any] = {"model": "soak"}
        if api in ("chat", "messages"):
            if self._coin() and api == "messages":
                body["system"] = self._text(30)
            body["messages"] = [
                *([{"role": "system", "content": self._text(30)}] if api == "chat" else []),
                {"role": "user", "content": self._text(20)},
                {"role": "assistant", "content": self._text(20)},
                {"role": "user", "content": question},
            ]
        else:
            body["prompt" if api == "completions" else "input"] = question
        limit = OUTPUT.get(api, "max_tokens")
        if limit is None:
            self._add(body, f"x{mark}")
        else:
            body[limit] = mark
        if stream and api != "embeddings":
            body["stream"] = True
            if api in ("chat", "completions") and self._coin():
                body["stream_options"] = {"include_usage": True}
        given = {name: value for name, value in metadata.items() if value is not None}
        body["metadata"] = {"number": self.number, **given}
        answer = "".join(pieces_of(self.number, given.get("pieces", 4), given.get("size", 12)))
        return Request(self.number, kind, api, key, body, {(200, None)}, answer, counted=True)

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

    def _coin(self) -> bool:
        return self.random.random() < 0.5

    def _one(self, *which: Any) -> Any:  # noqa: ANN401
        return self.random.choice(which)


# Kinds of requests with their weights.
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
    "refused at the door": (3, Mix.refused_early),
    "a probe after a reload": (0, Mix.small),
}
