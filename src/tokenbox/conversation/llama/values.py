"""The values of llama.cpp's Jinja: their texts, comparison and slices (common/jinja/value.cpp).

A value is a Python value: str, int, float, bool, None, list, tuple, dict, :class:`Undefined`,
:class:`Function` or :class:`Keyword`. llama.cpp treats texts as bytes: lengths and slices count bytes, and
only ASCII letters have cases.
"""

from __future__ import annotations

import json
import math
import operator
import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge

if TYPE_CHECKING:
    from tokenbox.conversation.llama.run import Run

Handler = Callable[["Run", dict[str, Any], list[Any]], Any]
"""The code of a function, filter or test: it gets the run, the scope and the arguments."""

MAX_RANGE: Final = 1_000_000
_MAX_KEY: Final = 10_000  # parts of a tuple that is a key or compared
_INT64: Final = 1 << 63
SPACE: Final = " \t\n\v\f\r"
UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Undefined:
    """A missing value. ``hint``: the name that was looked up."""

    __slots__ = ("hint",)

    def __init__(self, hint: str = "") -> None:
        self.hint = hint


class Function:
    """A built-in function, bound to a value if it is a method, or a macro."""

    __slots__ = ("bound", "call", "name")

    def __init__(self, name: str, call: Handler, bound: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.call = call
        self.bound = bound


class Keyword:
    __slots__ = ("name", "value")

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value


class Loop(dict[str, Any]):
    """The variable ``loop``, which has no methods."""


UNDEFINED: Final = Undefined()


def of_json(value: Any) -> Any:
    """Return the value for parsed JSON, with 64-bit integers. Raises :class:`TemplateError`."""
    try:
        return _of_json(value)
    except RecursionError:
        raise TemplateError("a value of the request is nested too deeply for a chat template.") from None


def _of_json(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, list | tuple):
        return [_of_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _of_json(item) for key, item in value.items()}
    raise TemplateError(f"a chat template takes JSON, which has no {type(value).__name__}.")


def strict_json(text: str) -> Any:
    """Parse JSON without NaN and infinities. Raises ``ValueError`` and ``RecursionError``."""
    return json.loads(text, parse_constant=_no_json)


def _no_json(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def joined(parts: Iterable[Mapping[str, Any]], between: str) -> str:
    """Join the texts of the parts, without a separator before the first that is not empty."""
    text = ""
    for part in parts:
        text += (between if text else "") + part.get("text", "")
    return text


def integer(value: int) -> int | float:
    """Return an integer of JSON wrapped to 64 bits; a longer one becomes a float.

    Raises :class:`TemplateError` if it is larger than any float, which llama.cpp refuses.
    """
    if -_INT64 <= value < _INT64:
        return value
    try:
        return value - 2 * _INT64 if 0 < value < 2 * _INT64 else float(value)
    except OverflowError:
        raise TemplateError(f"A number of {value.bit_length():,} bits is larger than any float.") from None


def kind(value: object) -> str:
    """Return the name of a value's type, for error messages."""
    if isinstance(value, Undefined):
        return "Undefined"
    return _KINDS.get(type(value), "Object")


_KINDS: Final[Mapping[type, str]] = {
    str: "String", int: "Integer", float: "Float", bool: "Boolean", list: "Array", tuple: "Tuple",
    dict: "Object", Loop: "Object", type(None): "None", Function: "Function", Keyword: "KwArg",
}  # fmt: skip


def is_number(value: object) -> bool:
    """Return True for an integer or a float, but not for a bool."""
    return type(value) is int or type(value) is float


def truth(value: object) -> bool:
    if isinstance(value, bool | str | int | float | list | tuple | dict):
        return bool(value)
    if value is None or isinstance(value, Undefined):
        return False
    raise TemplateError(f"{kind(value)} is not a bool value.")


def text_of(value: Any) -> str:
    """Return the text of a value when it is printed."""
    if isinstance(value, str):
        return value
    if value is True:
        return "True"
    if value is False:
        return "False"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if value is None:
        return "None"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(shown, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items()) + "}"
    raise TemplateError(f"{kind(value)} is not a string value.")


def float_text(value: float) -> str:
    if not math.isfinite(value):
        found = f"{value}"
        return ("-nan" if math.copysign(1, value) < 0 else "nan") if math.isnan(value) else found
    found = f"{value:f}".rstrip("0")
    return found + "0" if found.endswith(".") else found


def shown(value: Any) -> str:
    """Return the text of a value inside a printed list or object."""
    if isinstance(value, str):
        return f'"{_escaped(value)}"' if "'" in value else f"'{value}'"
    if isinstance(value, Undefined):
        return f"Undefined (hint: '{value.hint}')" if value.hint else "Undefined"
    if isinstance(value, Function):
        return f"Function<{value.name}>({shown(value.bound[0]) if value.bound else ''})"
    return "KwArg" if isinstance(value, Keyword) else text_of(value)


_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_ESCAPES: Final = {chr(code): f"\\u{code:04x}" for code in range(32)} | {
    "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"
}  # fmt: skip


def _escaped(text: str) -> str:
    """Escape a string for JSON, by bulk replacement: a template may double the quotes again and again."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    if _CONTROL.search(text):
        for control, escape in _ESCAPES.items():
            text = text.replace(control, escape)
    return text


def to_json(run: Run, value: Any, indent: int = -1, between: str = ", ", after_key: str = ": ") -> str:
    """Return the JSON of the filter ``tojson``: floats with six digits, only control characters escaped."""

    def write(item: Any, level: int) -> str:
        run.steps()
        if isinstance(item, str):
            run.grow(len(item))
            return f'"{_escaped(item)}"'
        if item is True:
            return "true"
        if item is False:
            return "false"
        if isinstance(item, int):
            return str(item)
        if isinstance(item, float):
            return f"{item:g}"
        if isinstance(item, list | tuple):
            return wrapped([write(part, level + 1) for part in item], "[]", level)
        if isinstance(item, dict):
            run.grow(len(after_key) * len(item))
            pairs = [
                f"{write(text_of(key), level + 1)}{after_key}{write(part, level + 1)}"
                for key, part in item.items()
            ]
            return wrapped(pairs, "{}", level)
        return "null"

    def wrapped(inner: list[str], brackets: str, level: int) -> str:
        if not inner:
            return brackets
        width = max(indent, 0) * (level + 1)
        run.grow(sum(map(len, inner)) + len(inner) * (len(between) + width))
        if indent < 0:
            return brackets[0] + between.join(inner) + brackets[1]
        outer, pad = " " * indent * level, " " * width
        return f"{brackets[0]}\n{pad}" + f"{between}\n{pad}".join(inner) + f"\n{outer}{brackets[1]}"

    return write(value, 0)


def written(run: Run, value: Any) -> str:
    """Return the text of any value when it is printed."""
    if isinstance(value, list | tuple | dict):
        run.reads_deeply(value)
    return text_of(value)


def ascii_json(json_text: str) -> str:
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], json_text)


def is_fixed(value: object) -> bool:
    """Return True if a value is immutable and so can be a key. Raises for a tuple of too many parts."""
    if not isinstance(value, tuple):
        return isinstance(value, str | int | float | bool) or value is None
    waiting, parts = [*value], 1
    while waiting:
        parts += 1
        if parts > _MAX_KEY:
            raise TemplateTooLarge(f"a tuple of the chat template has more than {_MAX_KEY:,} parts.")
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        elif not is_fixed(part):
            return False
    return True


def _is_comparable(values: Any) -> bool:
    return all(map(is_fixed, values))


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    if isinstance(left, int | float):
        return isinstance(right, int | float) and left == right
    if left is None:
        return right is None
    if isinstance(left, Undefined):
        return isinstance(right, Undefined)
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and _is_comparable(left) and _is_comparable(right) and left == right
    if isinstance(left, dict):
        comparable = _is_comparable(left.values()) and _is_comparable(right.values())
        return comparable and list(left.items()) == list(right.items())
    return left is right


def compare(left: Any, right: Any, how: str) -> bool:
    """Compare two values by a function of :mod:`operator`."""
    order: Callable[[Any, Any], bool] = getattr(operator, how)
    if is_number(left) and is_number(right):
        return order(float(left), float(right))
    if (isinstance(left, str) and (isinstance(right, str) or is_number(right))) or (
        isinstance(right, str) and is_number(left)
    ):
        return order(text_of(left), text_of(right))
    if isinstance(left, bool) and isinstance(right, bool):
        if how not in {"eq", "ne"}:
            raise TemplateError("Unsupported comparison operator for bool type.")
        return order(left, right)
    return False


def key_of(key: Any) -> Any:
    if not is_fixed(key):
        raise TemplateError(f"Object key of unhashable type: {kind(key)}.")
    return key


def contains(needle: Any, haystack: Any) -> bool:
    if isinstance(haystack, Undefined):
        return False
    if isinstance(haystack, list | tuple):
        return any(equal(needle, item) for item in haystack)
    if isinstance(haystack, str):
        if not isinstance(needle, str):
            raise TemplateError(f"'in' looks for texts in a text, not for {kind(needle)}.")
        return needle in haystack
    if isinstance(haystack, dict):
        return key_of(needle) in haystack
    raise TemplateError(f"'in' test expects iterable as first argument, got {kind(haystack)}.")


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(encoded(text))


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def sliced(values: Any, start: int, stop: int, step: int) -> Any:
    if step > 0:
        return values[start:stop:step]
    size = len(values)
    first = max(size + start, 0) if start < 0 else min(start, size - 1)
    last = max(size + stop, -1) if stop < -1 else min(stop, size - 1)
    if step == -1 and first == size - 1 and last == -1:
        return values[::-1]
    places = [place for place in range(first, last, step) if 0 <= place < size]
    if isinstance(values, bytes):
        return bytes(values[place] for place in places)
    return like(values, [values[place] for place in places])


def like(values: Any, items: list[Any]) -> Any:
    """Return the items as a list, or as a tuple if ``values`` is one."""
    return tuple(items) if isinstance(values, tuple) else items


def take_slice(values: Any, start: Any, stop: Any, step: Any) -> Any:
    if not all(type(bound) is int for bound in (start, step)):
        raise TemplateError("slice expects integers.")
    if step == 0:
        raise TemplateError("slice step cannot be zero.")
    if isinstance(values, str):
        return decoded(sliced(encoded(values), start, as_int(stop), step))
    if isinstance(values, list | tuple):
        return sliced(values, start, as_int(stop), step)
    raise TemplateError(f"Unknown (built-in) filter 'slice' for type {kind(values)}.")


def index_text(text: str, place: int, default: Any) -> Any:
    data = encoded(text)
    return decoded(data[place : place + 1]) if 0 <= place < len(data) else default


def as_int(value: Any) -> int:
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return cast_int(value) if math.isfinite(value) else 0
    raise TemplateError(f"{kind(value)} is not an int value.")


def cast_int(value: float) -> int:
    """Cast a float to a 64-bit integer as C++ does on x86-64."""
    return int(value) if math.isfinite(value) and -_INT64 <= value < _INT64 else -_INT64
