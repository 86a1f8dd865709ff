"""Chat messages: immutable values in the shape of OpenAI's Chat Completions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from tokenbox.errors import TokenboxError, several
from tokenbox.integers import whole
from tokenbox.tokenizers.utf8 import utf8

T = TypeVar("T")

MAX_DEPTH: Final = 32
"""The maximum nesting depth of a message or a tool. The schema of a tool has a depth of about ten."""
# Python writes integers of up to 4,300 digits as text.
_MAX_BITS: Final = 14_000


class InvalidMessage(TokenboxError, code="invalid_message"):
    """A server would reject the message. ``details["index"]`` is its position in the list."""


class UndeclaredCost(TokenboxError, code="undeclared_cost"):
    """The token count of an image or a file is unknown, so the total is unknown too."""


class Role(StrEnum):
    """The role of a message. System and developer messages are not part of the window."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    FUNCTION = "function"
    """The result of a ``function_call``, the legacy form of tool calls."""


_ROLES: Final[Mapping[str, Role]] = {role.value: role for role in Role}


class PartKind(StrEnum):
    TEXT = "text"
    IMAGE = "image"
    FILE = "file"
    AUDIO = "audio"
    VIDEO = "video"


# The keys of a message's reasoning: of llama.cpp and vLLM, of OpenRouter, then of Ollama.
_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
# The keys of a message that needs no content: of the assistant, and of a system message (Anthropic's effort).
_IN_PLACE_OF_CONTENT: Final = {
    Role.ASSISTANT: frozenset(("tool_calls", "refusal", "audio", *_REASONING)),
    Role.SYSTEM: frozenset(("output_config",)),
}
# The kind of each part "type", and for texts the key of the text.
_PARTS: Final[Mapping[str, tuple[PartKind, str]]] = {
    "text": (PartKind.TEXT, "text"),
    "input_text": (PartKind.TEXT, "text"),
    "output_text": (PartKind.TEXT, "text"),
    "refusal": (PartKind.TEXT, "refusal"),
    "thinking": (PartKind.TEXT, "thinking"),
    "reasoning": (PartKind.TEXT, "text"),
    "reasoning_text": (PartKind.TEXT, "text"),
    "summary_text": (PartKind.TEXT, "text"),
    "guard_content": (PartKind.TEXT, "text"),
    "image_url": (PartKind.IMAGE, ""),
    "input_image": (PartKind.IMAGE, ""),
    "image": (PartKind.IMAGE, ""),
    "file": (PartKind.FILE, ""),
    "input_file": (PartKind.FILE, ""),
    "document": (PartKind.FILE, ""),
    "document_url": (PartKind.FILE, ""),
    "resource": (PartKind.FILE, ""),  # of MCP and Mistral
    "resource_link": (PartKind.FILE, ""),
    "audio": (PartKind.AUDIO, ""),
    "input_audio": (PartKind.AUDIO, ""),
    "audio_url": (PartKind.AUDIO, ""),
    "video_url": (PartKind.VIDEO, ""),
    "input_video": (PartKind.VIDEO, ""),
    "computer_screenshot": (PartKind.IMAGE, ""),
}


class Object(tuple["tuple[str, Frozen]", ...]):
    """A JSON object as a tuple of its pairs, in order: immutable and hashable."""

    __slots__ = ()


Frozen = str | int | float | bool | None | Object | tuple["Frozen", ...]
"""An immutable JSON value."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a content: a text, or an image, file or recording.

    ``tokens``: the token count that the part's own key ``tokens`` declares; None for a text, or if unknown.
    """

    kind: PartKind
    text: str
    tokens: int | None
    source: Object = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = thaw(self.source)
        return found


class ToolCall(NamedTuple):
    """A tool call. ``arguments``: the text that the model wrote, usually JSON."""

    id: str | None
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message. :meth:`of` reads a mapping, and :meth:`to_dict` returns it.

    ``content`` is a text, a tuple of parts, or None. Unknown keys are kept.
    """

    role: Role
    content: str | tuple[Part, ...] | None
    name: str | None
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    source: Object = field(repr=False)

    SYSTEM_ROLES: ClassVar = frozenset({Role.SYSTEM, Role.DEVELOPER})
    RESULT_ROLES: ClassVar = frozenset({Role.TOOL, Role.FUNCTION})

    @classmethod
    def of(cls, value: Mapping[str, object] | Message | object) -> Message:
        """Read a message from a mapping or an SDK's object (by ``model_dump``). Return a message unchanged.

        Raises :class:`InvalidMessage`.
        """
        if isinstance(value, Message):
            return value
        if (plain := plain_message(value)) is not None:
            return plain
        if not isinstance(value, Mapping):
            dump = getattr(value, "model_dump", None)
            value = dump(exclude_none=True) if callable(dump) else value
            if not isinstance(value, Mapping):
                raise InvalidMessage(
                    f'a message is a mapping such as {{"role": "user", "content": "hi"}}, not '
                    f"{type(value).__name__}."
                )
        source = freeze_object(value, "message")
        given = dict(source)
        role = _role(given.get("role"))
        calls = _tool_calls(given)
        if calls and role is not Role.ASSISTANT:
            raise InvalidMessage(f"only an assistant calls tools, not {role.value}.")
        return cls(
            role,
            _content(given, role, has_calls=bool(calls)),
            _optional_text(given, "name"),
            calls,
            _optional_text(given, "tool_call_id"),
            source,
        )

    @property
    def text(self) -> str:
        """The text of its content, all parts joined."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text for part in self.content)

    @property
    def reasoning(self) -> str:
        """The assistant's reasoning if the message contains it, else the empty text."""
        if self.role is not Role.ASSISTANT:
            return ""
        given = dict(self.source)
        return next((text for key in _REASONING if isinstance(text := given.get(key), str)), "")

    @property
    def counted_text(self) -> str:
        """The text to count: its reasoning, its text, and its tool calls."""
        text = self.reasoning + self.text
        return text + "".join(call.name + call.arguments for call in self.tool_calls)

    @property
    def media(self) -> tuple[Part, ...]:
        """Its parts that are not text."""
        if self.content is None or isinstance(self.content, str):
            return ()
        return tuple(part for part in self.content if part.kind is not PartKind.TEXT)

    def to_dict(self, *, declared: bool = True) -> dict[str, Any]:
        """Return the original mapping; with ``declared=False`` without the parts' own key ``tokens``.

        A server may reject the key ``tokens``: send ``to_dict(declared=False)``.
        """
        found: dict[str, Any] = thaw(self.source)
        if not declared and self.media:
            for part in found["content"]:
                part.pop("tokens", None)
        return found


def read_as(role: str, given: Mapping[str, object]) -> Message:
    """Read a message as one of ``role``. Its source keeps a role that only its server knows."""
    return replace(Message.of({**given, "role": role}), source=freeze_object(given, "message"))


def is_plain(value: Any) -> bool:  # noqa: ANN401  # any value from a caller
    """Return whether this is a message of only a known role and a text, the most common kind."""
    return (
        value.__class__ is dict
        and len(value) == 2
        and value.get("content").__class__ is str
        and (role := value.get("role")).__class__ is str
        and role in _ROLES
    )


def plain_message(value: Any) -> Message | None:  # noqa: ANN401  # any value from a caller
    """Read a message of only a role and a text (:func:`is_plain`); None for any other value."""
    if not is_plain(value):
        return None
    role, content = _ROLES[value["role"]], value["content"]
    if not content.isascii():
        try:
            content.encode()
        except UnicodeEncodeError:
            return None
    return Message(role, content, None, (), None, Object(value.items()))


def media_kind(part_type: object) -> PartKind | None:
    """Return the kind for the ``type`` of an image, a file or a recording; None for any other type."""
    known = _PARTS.get(part_type) if isinstance(part_type, str) else None
    return None if known is None or known[0] is PartKind.TEXT else known[0]


def check_messages(values: Iterable[object]) -> list[Message]:
    """Read a list of messages. Raises :class:`InvalidMessage`; ``details["index"]`` is the position."""
    return read_each(values, Message.of, "mappings")


def read_each(values: object, read: Callable[[object], T], expected: str) -> list[T]:
    """Read every value of a list of messages. Raises :class:`InvalidMessage`, which names the position."""
    given = several(values)
    if given is None:
        inner = [
            key for key in ("messages", "input", "contents") if isinstance(values, Mapping) and key in values
        ]
        example = f"Give its {inner[0]}." if inner else 'Give [{"role": "user", "content": "hi"}].'
        if isinstance(values, bytes):
            example = "Decode it first: .decode()."
        raise InvalidMessage(f"messages are a list of {expected}, not {type(values).__name__}. {example}")
    found = []
    for index, value in enumerate(given):
        try:
            found.append(read(value))
        except InvalidMessage as error:
            raise InvalidMessage(f"messages[{index}]: {error.message}", index=index) from None
    return found


Place: TypeAlias = "str | tuple[Place, str | int]"
"""A value's place in a JSON document: its name, or the place around it with its key or position.

It is written out only where it is shown: a key of megabytes would be repeated for each value below it.
"""


def path_of(place: Place) -> str:
    """Return the path of a place, such as ``tools[0].name``, with long keys shortened."""
    steps = []
    while isinstance(place, tuple):
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step:.60}")
    return f"{place:.60}" + "".join(reversed(steps))


def freeze_object(value: Mapping[str, object], where: Place, depth: int = 0) -> Object:
    """Return an immutable copy of a JSON object. Raises :class:`InvalidMessage` if it is not JSON."""
    pairs: list[tuple[str, Frozen]] = []
    for given, item in value.items():
        key = given if given.__class__ is str and given.isascii() else _key(given, where)
        if item.__class__ is str:
            _check_text(item, (where, key))
            pairs.append((key, item))
        else:
            pairs.append((key, _freeze(item, (where, key), depth + 1)))
    return Object(pairs)


def _key(key: object, where: Place) -> str:
    """Return a key as a plain text."""
    if not isinstance(key, str):
        raise InvalidMessage(f"{path_of(where)} has a key that is not text: {key!r:.60}.")
    _check_text(key, where)
    return str.__str__(key)


def thaw(value: Frozen) -> Any:  # noqa: ANN401  # JSON
    """Return a new mutable copy of a frozen JSON value."""
    if isinstance(value, Object):
        return {key: thaw(item) for key, item in value}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


def _freeze(value: object, where: Place, depth: int) -> Frozen:
    if depth > MAX_DEPTH:
        raise InvalidMessage(f"{path_of(where).partition('.')[0]} is nested more than {MAX_DEPTH} deep.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMessage(f"{path_of(where)} is {value}, which is not JSON.")
        return value
    if isinstance(value, str):
        _check_text(value, where)
        return str.__str__(value)  # of a member of an enumeration its text, not its name
    if isinstance(value, Mapping):
        return freeze_object(value, where, depth)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return tuple(_freeze(item, (where, place), depth + 1) for place, item in enumerate(value))
    if (number := whole(value)) is not None:
        if number.bit_length() > _MAX_BITS:
            raise InvalidMessage(
                f"{path_of(where)} is an integer of {number.bit_length():,} bits; at most {_MAX_BITS:,}."
            )
        return number
    is_binary = isinstance(value, bytes | bytearray) or hasattr(value, "tobytes")  # such as Pillow's images
    hint = " Give it in base64, or its address." if is_binary else ""
    raise InvalidMessage(f"{path_of(where)} is {type(value).__name__}, which is not JSON.{hint}")


def _check_text(text: Any, where: Place) -> None:  # noqa: ANN401  # a str or a subclass
    if not text.isascii():
        try:
            utf8(text)
        except TokenboxError as error:
            raise InvalidMessage(f"{path_of(where)}: {error.message}") from None


# Roles of other libraries and formats, and the role to use instead.
_OTHER_ROLES = {"human": "user", **dict.fromkeys(("ai", "bot", "model", "gpt"), "assistant")}
# Keys of other libraries and formats for the content.
_OTHER_CONTENT_KEYS = ("text", "message", "value", "body")


def _role(value: Frozen | None) -> Role:
    role = _ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        problem = "has no role" if value is None else f"has the role {value!r:.60}"
        suggestion = _OTHER_ROLES.get(value) if isinstance(value, str) else None
        hint = "" if suggestion is None else f" Write {suggestion!r}."
        raise InvalidMessage(f"a message {problem}; a role is one of {', '.join(_ROLES)}.{hint}")
    return role


def _optional_text(given: Mapping[str, Frozen], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidMessage(f"{key} is text, not {type(value).__name__}.")
    return value


def _content(given: Mapping[str, Frozen], role: Role, *, has_calls: bool) -> str | tuple[Part, ...] | None:
    content = given.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        # Some servers take null as an empty text, llama.cpp's in messages of every role.
        may_lack = has_calls or not _IN_PLACE_OF_CONTENT.get(role, frozenset()).isdisjoint(given)
        if not may_lack and "content" not in given:
            near = next((key for key in _OTHER_CONTENT_KEYS if key in given), None)
            hint = "Give a text; it may be empty."
            raise InvalidMessage(
                f"a message of the {role.value} has no content. "
                + (hint if near is None else f"Its text is in {near!r}: rename that key to 'content'.")
            )
        return None
    if isinstance(content, tuple) and not isinstance(content, Object):
        return tuple(_part(part, place) for place, part in enumerate(content))
    hint = " Put the part into a list." if isinstance(content, Object) else ""
    raise InvalidMessage(f"content is a text or a list of parts, not {type(thaw(content)).__name__}.{hint}")


def _part(part: Frozen, place: int) -> Part:
    given = dict(part) if isinstance(part, Object) else {}
    kind = given.get("type")
    known = _PARTS.get(kind) if isinstance(kind, str) else None
    if not isinstance(part, Object) or known is None:
        raise InvalidMessage(
            f'content[{place}] is not a part such as {{"type": "text", "text": "hi"}}; '
            f"the types are {', '.join(_PARTS)}."
        )
    if known[0] is PartKind.TEXT:
        text = given.get(known[1])
        if not isinstance(text, str):
            raise InvalidMessage(f"content[{place}] has no text at {known[1]!r}.")
        return Part(known[0], text, None, part)
    tokens = given.get("tokens")
    if tokens is not None and (type(tokens) is not int or tokens < 0):
        raise InvalidMessage(f"content[{place}].tokens is a whole number of tokens, not {tokens!r:.60}.")
    return Part(known[0], "", tokens, part)


def _tool_calls(given: Mapping[str, Frozen]) -> tuple[ToolCall, ...]:
    calls = given.get("tool_calls")
    if calls is None or (not calls and not isinstance(calls, Object)):
        legacy = given.get("function_call")
        return (_tool_call(Object([("function", legacy)]), 0),) if isinstance(legacy, Object) else ()
    if not isinstance(calls, tuple) or isinstance(calls, Object):
        raise InvalidMessage("tool_calls is a list.")
    return tuple(_tool_call(call, place) for place, call in enumerate(calls))


def _tool_call(call: Frozen, place: int) -> ToolCall:
    where = f"tool_calls[{place}]"
    given = dict(call) if isinstance(call, Object) else {}
    called, key = given.get("function"), "arguments"
    if called is None and given.get("type") == "custom":
        called, key = given.get("custom"), "input"
    if not isinstance(called, Object):
        raise InvalidMessage(f'{where} has no function: {{"name": ..., "arguments": ...}}.')
    inner = dict(called)
    name, arguments = inner.get("name"), inner.get(key, "")
    if not isinstance(name, str):
        raise InvalidMessage(f"{where} has no name.")
    if not isinstance(arguments, str):
        arguments = json.dumps(thaw(arguments), ensure_ascii=False)
    identifier = given.get("id")
    if identifier is not None and not isinstance(identifier, str):
        raise InvalidMessage(f"{where}.id is text, not {type(identifier).__name__}.")
    return ToolCall(identifier, name, arguments)
