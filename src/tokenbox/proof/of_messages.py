"""The records of fitted messages in a bundle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.items import Item, read_item, read_items
from tokenbox.content.message import InvalidMessage, Message, Role, check_messages, freeze_object
from tokenbox.conversation.fitting import fit
from tokenbox.conversation.low_water import AutoLowWater
from tokenbox.conversation.record import ALGORITHM, as_json
from tokenbox.errors import InvalidBudget, UnknownTokenizer
from tokenbox.proof.bundle import INPUTS
from tokenbox.proof.calls import RecordedFunction, ratio
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.evidence import EvidenceKind, Input
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.conversation.record import Fitted
    from tokenbox.proof.calls import Arguments, Recorded
    from tokenbox.proof.evidence import Record

MESSAGE: Final = "message"
TOOLS: Final = "tools"


def message_input(message: Message | Item, name: str, tokens: int | None) -> Input:
    """Return the record of a message. The digest is of its JSON, which is all that a replay needs."""
    calls = message.calls if isinstance(message, Item) else message.tool_calls
    fields: dict[str, Any] = {"role": message.role.value, "calls": len(calls)}
    if isinstance(message, Item) and not message.verbatim:
        fields["converted"] = True
    return _input(name, MESSAGE, as_given(message.to_dict()), tokens, fields)


def tools_input(tools: Iterable[Mapping[str, object]]) -> Input:
    return _input(TOOLS, TOOLS, as_given([dict(tool) for tool in tools]), None, {})


def message_texts(messages: Iterable[Message | Item], tools: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield the texts that a bundle of these messages and tools names by digest."""
    for message in messages:
        yield as_given(message.to_dict())
    yield as_given([dict(tool) for tool in tools])


def recorded_items(recorded: Recorded) -> tuple[list[Item], list[dict[str, object]] | None]:
    """Return the items and tools that the bundle names. Raises ``ReplayImpossible`` if one is missing."""
    values, tools = _recorded_values(recorded)
    marks = [_is_converted(record) for record in recorded.inputs if record["kind"] == MESSAGE]
    return [_item(value, is_converted) for value, is_converted in zip(values, marks, strict=True)], tools


def _is_converted(record: Record) -> bool:
    fields = record["fields"]
    return isinstance(fields, dict) and fields.get("converted") is True


def _item(value: object, is_converted: bool) -> Item:  # noqa: FBT001  # as it is recorded
    """Return a recorded item. A converted one is not sent as it is read, whatever it looks like."""
    if not is_converted or not isinstance(value, dict):
        return read_item(value)
    several = value.get("messages")  # an object that its library sends as several messages
    read = read_items(several) if isinstance(several, list) else [read_item(value)]
    messages = tuple(message for item in read for message in item.messages)
    return Item(messages, read[0].joins, verbatim=False, raw=freeze_object(value, "message"))


def recorded_messages(recorded: Recorded) -> tuple[list[Message], list[dict[str, object]] | None]:
    """Return the chat messages and tools that the bundle names, as :func:`recorded_items`."""
    values, tools = _recorded_values(recorded)
    return check_messages(values), tools


def _recorded_values(recorded: Recorded) -> tuple[list[Any], list[dict[str, object]] | None]:
    wanted = [(str(record["id"]), record["digest"]) for record in recorded.inputs]
    texts = recorded.texts_of(wanted, "messages")
    values = [recorded.json(text, name) for text, (name, _) in zip(texts, wanted, strict=True)]
    kinds = [record["kind"] for record in recorded.inputs]
    messages = [value for value, kind in zip(values, kinds, strict=True) if kind == MESSAGE]
    tools = [value for value, kind in zip(values, kinds, strict=True) if kind == TOOLS]
    if len(messages) + len(tools) < len(values) or len(tools) > 1:
        raise BundleInvalid("must be the messages and tools of a request.", file=INPUTS)
    if tools and not (isinstance(tools[0], list) and all(isinstance(tool, dict) for tool in tools[0])):
        raise BundleInvalid("is not a list of tools.", file=INPUTS, field=TOOLS)
    return messages, tools[0] if tools else None


def as_given(value: object) -> str:
    """Return the JSON with the keys in their given order, as in the request."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _name(place: int, message: Item) -> str:
    """Return the name of a message, the same as in errors."""
    return f"messages[{place}] ({message.role.value})"


def _input(name: str, kind: str, text: str, tokens: int | None, fields: Record) -> Input:
    data = utf8(text)
    return Input(
        name, kind, hashlib.sha256(data).hexdigest(), len(data), tokens, fields=fields, texts=(text,)
    )


def _inputs(arguments: Arguments, fitted: Fitted[Any] | None) -> Iterator[Input]:
    messages = read_items(arguments["messages"]) if fitted is None else fitted.inputs
    sizes: Sequence[int | None] = [None] * len(messages) if fitted is None else fitted.sizes
    for place, (message, tokens) in enumerate(zip(messages, sizes, strict=True)):
        yield message_input(message, _name(place, message), tokens)
    if arguments.get("tools"):
        yield tools_input(arguments["tools"])


def _result(_: Arguments, fitted: Fitted[Any]) -> dict[str, Any]:
    kept = [as_json(item.to_dict()) for item in fitted.shown.values()]
    return {
        "decisions": tuple(_decisions(fitted)),
        "emitted": f"[{','.join(kept)}]",
        "digest": fitted.digest,
        "figures": {"total": fitted.total, "exact": fitted.exact},
    }


def _decisions(fitted: Fitted[Any]) -> Iterator[Record]:
    """Yield the decision on each exchange and each system message, then the steps in order."""
    for number, exchange in enumerate(fitted.exchanges, 1):
        yield {"id": f"exchange {number}", **exchange.to_dict()}
    for place, message in enumerate(fitted.inputs):
        if message.role in {Role.SYSTEM, Role.DEVELOPER}:
            size = fitted.sizes[place]
            yield {"id": _name(place, message), "decision": "kept", "base_size": size, "size": size}
    for step in fitted.steps:
        yield step.to_dict()


def _read(recorded: Recorded) -> dict[str, Any]:
    messages, tools = recorded_items(recorded)
    return {
        "messages": messages,
        "tools": tools,
        "budget": recorded.figure("tokens"),
        "low_water": recorded_low_water(recorded.arguments.get("low_water")),
    }


def recorded_low_water(value: object) -> Any:  # noqa: ANN401  # any LowWater; fit checks it
    """Parse a ratio such as ``1/3``, a decimal, ``auto``, or the eagerness of an :class:`AutoLowWater`."""
    if isinstance(value, dict):
        return AutoLowWater(ratio(value.get("eagerness")))
    return ratio(value)


FIT = RecordedFunction(
    name="fit",
    kind=EvidenceKind.WINDOW,
    algorithm=ALGORITHM,
    call=fit,
    apart=frozenset({"messages", "tools", "budget", "tokenizer"}),
    inputs=_inputs,
    result=_result,
    read=_read,
    undecided=(InvalidMessage, InvalidBudget, UnknownTokenizer),
)
