"""A request after parsing: checked JSON, the model it asks for, and its output limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox.content.unseen import FILE_MARKS, unseen_input
from tokenbox.content.unseen_fields import PLAIN_FIELDS
from tokenbox.gateway.fields import (
    CHOICES,
    CHOICES_FIELDS,
    FALLBACKS,
    FALLBACKS_FIELDS,
    OTHER_LIMITS,
    REASONING_BESIDE,
    REASONING_BUDGETS,
    REASONING_WITHOUT_LIMIT,
    check_fields,
    check_prices,
    outer,
    output_limits,
    routing_field,
)
from tokenbox.gateway.refusals import invalid_request
from tokenbox.gateway.strict_json import json_text, read_object
from tokenbox.integers import MAX_INTEGER
from tokenbox.providers.shapes import at

if TYPE_CHECKING:
    from tokenbox.gateway.protocols import Protocol
    from tokenbox.gateway.settings import RequestLimits

T = TypeVar("T")
Headers = tuple[tuple[bytes, bytes], ...]

_LONGEST_NAME = 256
# Bytes of a body that is parsed in the event loop; larger ones are parsed in a thread.
_INLINE = 65_536
_PARSERS = ThreadPoolExecutor(2, "tokenbox-read")
# llama.cpp's value for "no limit".
_UNLIMITED = -1
# OpenAI's limit of ``n``.
_MAX_CHOICES = 128
_MOST_FALLBACKS = 8


# A fallback of Anthropic's API may be an object: a model, and what is different for it.
_FALLBACK_KEYS = frozenset(("model", "max_tokens", "output_config", "speed", "thinking"))


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A client's request: ``body`` is its JSON object, ``data`` the bytes it came in.

    ``choices`` is the number of answers to generate, over all prompts. ``fallbacks`` are other models that
    may answer in place of ``model``, as OpenRouter and LiteLLM read them in a request. ``max_output`` is the
    largest output limit that any field states; None if none does. A field may lift it (``is_endless``).
    """

    protocol: Protocol
    model: str
    body: dict[str, Any]
    data: bytes
    stream: bool
    max_output: int | None
    choices: int
    client_auth: Headers = field(default=(), repr=False)
    fallbacks: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The models that may answer."""
        return (self.model, *self.fallbacks)

    @property
    def input(self) -> Any:  # noqa: ANN401  # whatever the client sent
        """The value of ``messages``, ``prompt`` or ``input``."""
        return self.body.get(self.protocol.input_key)

    @property
    def prompts(self) -> list[Any]:
        """The prompts, each a text or token ids: completions and embeddings take several at once."""
        value = self.input
        is_one = not isinstance(value, list) or not value or any(type(item) is int for item in value)
        return [value] if is_one else value

    @property
    def parts(self) -> list[Any]:
        """The messages or prompts whose sizes a refusal reports."""
        if self.protocol.takes_prompts:
            return self.prompts
        return self.input if isinstance(self.input, list) else [self.input]

    @property
    def is_limited(self) -> bool:
        """Whether a field limits the output. One in an object does not: it only raises what is reserved."""
        keys = (*self.protocol.output_keys, *OTHER_LIMITS)
        return any(self.body.get(key) not in (None, _UNLIMITED) for key in keys)

    @property
    def is_endless(self) -> bool:
        """Whether no field is a limit, or one lifts the others: -1, or reasoning without a limit."""
        keys = self.protocol.output_keys
        lifted = any(self.body.get(key) == _UNLIMITED for key in keys)
        return lifted or self.thinks_endlessly or not self.is_limited

    @property
    def thinks_endlessly(self) -> bool:
        """Whether it asks for reasoning beside the answer, without a limit (DashScope)."""
        budget = self.body.get(REASONING_BESIDE)
        return budget == _UNLIMITED or (budget is None and self.body.get(REASONING_WITHOUT_LIMIT) is True)

    @property
    def limited_by(self) -> str | None:
        """The field with the output limit; the field with the largest one if there are several."""
        stated = [key for key in self.protocol.output_keys if self.body.get(key) is not None]
        return max(stated, key=self.body.__getitem__, default=None)

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the event with the usage."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def unseen(self, seen: Collection[str] = (), *, media: bool = False) -> str | None:
        """Return :func:`unseen_input` of this request."""
        file_texts = any(map(self.data.__contains__, FILE_MARKS[self.protocol.takes_prompts]))
        return unseen_input(
            self.body, self.protocol.api, self.models, seen, media=media, file_texts=file_texts
        )

    def with_model(self, model: str) -> ApiCall:
        """Return the same request to another model."""
        return replace(self.with_body({**self.body, "model": model}), model=model)

    def served_as(self, served: Callable[[str], str]) -> ApiCall:
        """Return the same request to the models that its names stand for, its fallbacks too."""
        if all(served(name) == name for name in self.models):
            return self
        body = {**self.body, "model": served(self.model)}
        for path in FALLBACKS:
            names = at(body, path)
            if isinstance(names, list):
                place = tuple(path.split("."))
                body = with_value(body, place, [_with_name(item, served) for item in names])
        model, names = body["model"], dict.fromkeys(map(served, self.fallbacks))
        fallbacks = tuple(name for name in names if name != model)
        return replace(self.with_body(body), model=model, fallbacks=fallbacks)

    def without_body(self) -> ApiCall:
        """Return the call without its body, which is not needed once it was sent."""
        return replace(self, body={}, data=b"")

    def with_input(self, value: Any) -> ApiCall:  # noqa: ANN401  # JSON
        """Return the same call with other messages, prompt or input."""
        return self.with_body({**self.body, self.protocol.input_key: value})

    def with_body(self, body: dict[str, Any]) -> ApiCall:
        """Return the same call with another body."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return replace(self, body=body, data=data, max_output=_max_output(self.protocol, body))


async def parse_body(data: bytes, read: Callable[[], T]) -> T:
    """Return ``read()``. A large body ``data`` is parsed in a thread, so that other requests go on."""
    if len(data) <= _INLINE:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_PARSERS, read)


def read_call(protocol: Protocol, data: bytes, limits: RequestLimits, client_auth: Headers = ()) -> ApiCall:
    """Parse a body. Raises :class:`Refusal` (400) naming what is wrong with it."""
    return call_of(protocol, read_object(data, limits), data, limits, client_auth)


def call_of(
    protocol: Protocol, body: dict[str, Any], data: bytes, limits: RequestLimits, client_auth: Headers
) -> ApiCall:
    """Return a parsed body, ``data`` in bytes, as a call. Raises :class:`Refusal` (400)."""
    check_fields(body)
    model = body.get("model")
    if model is None or model == "":
        raise invalid_request("model is missing: it names the model that is to answer.", "model")
    if not is_name(model):
        raise invalid_request(
            f"model is a name of at most {_LONGEST_NAME} printable characters, without commas and without "
            "spaces around it.",
            "model",
        )
    fallbacks = _fallbacks(body, takes_objects=protocol.has_fallback_objects)
    check_prices(body)
    key = protocol.input_key
    if key not in body and protocol.needs_input:
        raise invalid_request(f"{key} is missing.", key)
    value = body.get(key)
    if key == "messages" and not (isinstance(value, list) and {dict}.issuperset(map(type, value))):
        raise invalid_request("messages is a list of objects.", key)
    if isinstance(value, list) and len(value) > limits.messages:
        raise invalid_request(f"{key} has {len(value):,} items; at most {limits.messages:,} are taken.", key)
    stream = body.get("stream", False)
    if stream is not None and not isinstance(stream, bool):
        raise invalid_request(f"stream is true or false, not {json_text(stream)}.", "stream")
    max_output = _max_output(protocol, body)
    choices = _choices(body)
    call = ApiCall(protocol, model, body, data, stream is True, max_output, choices, client_auth, fallbacks)
    return replace(call, choices=choices * len(call.prompts)) if protocol.takes_prompts else call


def _fallbacks(body: Mapping[str, Any], *, takes_objects: bool) -> tuple[str, ...]:
    """Return the other models that may answer. Raises :class:`Refusal` (400) for anything but names."""
    if PLAIN_FIELDS.issuperset(body):
        return ()
    if (path := routing_field(body)) is not None:
        raise invalid_request(
            f"{path} says who answers or what is sent. Leave it out: the operator sets that.",
            path.partition(".")[0],
        )
    found: list[str] = []
    for key in FALLBACKS:
        value = at(body, key)
        if value is None:
            continue
        names: list[Any] = value if isinstance(value, list) else [None]
        if takes_objects:
            names = list(map(_fallback_name, names))
        if not all(map(is_name, names)):
            raise invalid_request(f"{key} is a list of names of models, so that each can be checked.", key)
        found += names
    if len(found) > _MOST_FALLBACKS:
        raise invalid_request(
            f"at most {_MOST_FALLBACKS} other models may be named, not {len(found)}.", "models"
        )
    return tuple(dict.fromkeys(name for name in found if name != body.get("model")))


def _fallback_name(item: Any) -> Any:  # noqa: ANN401  # JSON
    """Return the name of the model of a fallback. Raises :class:`Refusal` (403) for a higher price."""
    if not isinstance(item, dict) or not item.keys() <= _FALLBACK_KEYS:
        return item
    check_prices(item)
    return item.get("model")


def _with_name(item: Any, served: Callable[[str], str]) -> Any:  # noqa: ANN401  # JSON
    """Return a fallback with the name of the model that serves it."""
    return {**item, "model": served(item["model"])} if isinstance(item, dict) else served(item)


def with_value(value: Any, path: Sequence[str | int], new: Any) -> Any:  # noqa: ANN401  # JSON
    """Return a copy with ``new`` at the end of the path. Everything beside the path is shared."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = with_value(copy[path[0]], path[1:], new)
    return copy


def _fallback_budgets(body: Mapping[str, Any]) -> Iterator[int | None]:
    """Yield the budgets for reasoning of fallbacks, which replace that of the request."""
    if FALLBACKS_FIELDS.isdisjoint(body):
        return
    for item in (item for path in FALLBACKS for item in at(body, path) or () if isinstance(item, dict)):
        yield _limit(item, "thinking.budget_tokens")


def is_name(value: object) -> bool:
    """Whether it may name a model: printable, as it is logged, without outer spaces, as servers differ.

    LiteLLM's proxy takes names with commas between for several models, and asks them all.
    """
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_NAME
        and value.isprintable()
        and "," not in value
        and value == value.strip()
    )


def _choices(body: dict[str, Any]) -> int:
    """Return the largest number of answers that any field asks for."""
    most = 1
    if CHOICES_FIELDS.isdisjoint(body):
        return most
    for path in CHOICES:
        stated = at(body, path)
        if stated is None:
            continue
        value = _whole(stated)
        if value is None or not 1 <= value <= _MAX_CHOICES:
            raise invalid_request(
                f"{path} is a whole number from 1 to {_MAX_CHOICES}, not {json_text(stated)}.",
                path.partition(".")[0],
            )
        most = max(most, value)
    return most


def _max_output(protocol: Protocol, body: dict[str, Any]) -> int | None:
    """Return the largest of the output limits, since servers differ in which they heed; None without any."""
    if not protocol.output_keys:
        return None
    own = protocol.output_keys
    stated = [_limit(body, key, _UNLIMITED) for key in own if key in body]
    budgets: Iterable[int | None] = ()
    beside = 0
    if not _without_others(own).issuperset(body):
        stated += [_tokens(path, value) for path, value in output_limits(body) if path not in own]
        budgets = (_limit(body, path, _UNLIMITED) for path in REASONING_BUDGETS)
        beside = max(0, _limit(body, REASONING_BESIDE, _UNLIMITED) or 0)
    found = [value for value in (*stated, *_fallback_budgets(body)) if value not in {None, _UNLIMITED}]
    raised = [value for value in (*found, *budgets) if value is not None]
    return max(raised) + beside if found else None


@cache
def _without_others(own: tuple[str, ...]) -> frozenset[str]:
    """Return the fields of nearly all requests that neither limit the output nor hold such a limit."""
    return PLAIN_FIELDS.difference(OTHER_LIMITS, outer(REASONING_BUDGETS)).union(own)


def _limit(body: dict[str, Any], path: str, least: int = 0) -> int | None:
    """Return the number of tokens at ``path``, or None. Raises :class:`Refusal` (400)."""
    return _tokens(path, at(body, path), least)


def _tokens(path: str, inner: object, least: int = 0) -> int | None:
    if inner is None:
        return None
    value = _whole(inner)
    if value is None or not least <= value <= MAX_INTEGER:
        unlimited = ", or -1 for no limit" if least == _UNLIMITED else ", of at least 0"
        raise invalid_request(
            f"{path} is a whole number of tokens{unlimited}, not {json_text(inner)}.", path.partition(".")[0]
        )
    return value


def _whole(value: object) -> int | None:
    """Return the integer that it is, such as 5 for 5.0, or None."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER:
        return int(value)
    return value if type(value) is int else None
