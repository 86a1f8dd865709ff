"""A request read: checked JSON, and what it asks of a model."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox.gateway.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.gateway.protocols import Protocol
    from tokenbox.gateway.settings import Limits

Found = TypeVar("Found")
Headers = tuple[tuple[bytes, bytes], ...]

# RFC 8785 and every client are exact up to here; no limit of output is larger.
_MAX_INTEGER = 2**53 - 1
_LONGEST_NAME = 256
# Of larger bodies, the values may be so many that reading them takes long: in a thread, it holds nobody up.
_INLINE = 65_536
_READERS = ThreadPoolExecutor(2, "tokenbox-read")
# There are not many more values than these; some of them may be in texts.
_BETWEEN = (b",", b"{", b"[")
# As llama.cpp says "without a limit".
_UNLIMITED = -1
# Where a request says how many answers it wants: of the best of so many it is shown n, and all are made; the
# last is llama.cpp's own.
_CHOICES = ("n", "best_of", "n_cmpl")


@dataclass(frozen=True, slots=True)
class Call:
    """What a client asks: ``body`` is its JSON as an object, ``data`` the very bytes.

    ``choices``: how many answers are made in all, of all its prompts.
    """

    protocol: Protocol
    model: str
    body: dict[str, Any]
    data: bytes
    stream: bool
    max_output: int | None
    choices: int
    client_auth: Headers = field(default=(), repr=False)

    @property
    def input(self) -> Any:  # noqa: ANN401  # whatever the client sent
        """Its messages, prompt or input."""
        return self.body.get(self.protocol.input_key)

    @property
    def prompts(self) -> list[Any]:
        """Its prompts, each a text or tokens: completions and embeddings take several at once."""
        value = self.input
        is_one = not isinstance(value, list) or not value or any(type(item) is int for item in value)
        return [value] if is_one else value

    @property
    def parts(self) -> list[Any]:
        """What a refusal has the sizes of: its messages or prompts."""
        if self.protocol.takes_prompts:
            return self.prompts
        return self.input if isinstance(self.input, list) else [self.input]

    @property
    def limited_by(self) -> str | None:
        """Where it states its output limit; the largest, where there are several."""
        stated = [key for key in self.protocol.output_keys if self.body.get(key) is not None]
        return max(stated, key=self.body.__getitem__, default=None)

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the event with the usage."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def with_body(self, body: dict[str, Any]) -> Call:
        """The same call with another body."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return replace(self, body=body, data=data, max_output=_max_output(self.protocol, body))


async def read_in_time(data: bytes, read: Callable[[], Found]) -> Found:
    """What ``read`` makes of the body ``data``, without holding others up."""
    if len(data) <= _INLINE:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_READERS, read)


def read_call(protocol: Protocol, data: bytes, limits: Limits, client_auth: Headers = ()) -> Call:
    """The call in a body. Raises :class:`Refusal` (400) naming what is wrong with it."""
    body = read_object(data, limits)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise bad("model is missing: it names the model that is to answer.", "model")
    if len(model) > _LONGEST_NAME or not model.isprintable():  # it goes to logs and databases
        raise bad(f"model is a name of at most {_LONGEST_NAME} printable characters.", "model")
    key = protocol.input_key
    if key not in body and protocol.needs_input:
        raise bad(f"{key} is missing.", key)
    value = body.get(key)
    if key == "messages" and not (isinstance(value, list) and {dict}.issuperset(map(type, value))):
        raise bad("messages is a list of objects.", key)
    if isinstance(value, list) and len(value) > limits.messages:
        raise bad(f"{key} has {len(value):,} items; at most {limits.messages:,} are taken.", key)
    stream = body.get("stream", False)
    if stream is not None and not isinstance(stream, bool):
        raise bad(f"stream is true or false, not {_shown(stream)}.", "stream")
    most = _max_output(protocol, body)
    call = Call(protocol, model, body, data, stream is True, most, _choices(body), client_auth)
    return replace(call, choices=call.choices * len(call.prompts)) if protocol.takes_prompts else call


def read_object(data: bytes, limits: Limits) -> dict[str, Any]:
    """A JSON object, with nothing in it that two readers could read differently.

    Raises :class:`Refusal` (400): NaN, a key that is there twice, broken UTF-8, too deep, too many values.
    """
    if len(data) > limits.values and sum(map(data.count, _BETWEEN)) > limits.values:
        raise bad(f"the body has more than {limits.values:,} values. Send less at once.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise bad(f"the body is not UTF-8: byte {error.start:,} is 0x{data[error.start]:02X}.") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if text[:1] == "\ufeff":
            raise bad("the body begins with a byte order mark, which JSON does not have.") from None
        raise bad(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep(limits.depth) from None
    except ValueError as error:
        raise bad(f"the body is not JSON that can be used: {error}.") from None
    if not isinstance(value, dict):
        raise bad(f"the body is a JSON object, not {_kind(value)}.")
    if text.count("[") + text.count("{") > limits.depth and _depth_over(value, limits.depth):
        raise _too_deep(limits.depth)
    return value


def bad(message: str, param: str | None = None) -> Refusal:
    """The refusal of a request that is not what its API says."""
    is_name = param is not None and message.startswith(param)
    return Refusal(400, "invalid_request", message if is_name else message[0].upper() + message[1:], param)


def _choices(body: dict[str, Any]) -> int:
    """The most answers that any of the names for it asks for."""
    most = 1
    for key in _CHOICES:
        value = body.get(key)
        if value is None:
            continue
        value = _whole(value)
        if value is None or not 1 <= value <= 128:  # noqa: PLR2004  # OpenAI's own limit
            raise bad(f"{key} is a whole number from 1 to 128, not {_shown(body[key])}.", key)
        most = max(most, value)
    return most


def _max_output(protocol: Protocol, body: dict[str, Any]) -> int | None:
    """The most that any of the limits allows: which of several a server heeds is up to it."""
    stated = []
    for key in protocol.output_keys:
        value = body.get(key)
        if value is None:
            continue
        value = _whole(value)
        if value is None or not -1 <= value <= _MAX_INTEGER:
            raise bad(f"{key} is a whole number of tokens, not {_shown(body[key])}.", key)
        stated.append(value)
    return None if not stated or _UNLIMITED in stated else max(stated)


def _whole(value: object) -> int | None:
    """The whole number that it is; 5.0 is one, too."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_INTEGER:
        return int(value)
    return value if type(value) is int else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} is there twice")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is larger than any number")
    return value


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


# json.loads makes one each time.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)


def _depth_over(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep(limit: int) -> Refusal:
    return bad(f"the body is nested more than {limit} levels deep.")


def _kind(value: object) -> str:
    return {list: "a list", str: "text", type(None): "null", bool: "true or false"}.get(
        type(value), "a number"
    )


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004
