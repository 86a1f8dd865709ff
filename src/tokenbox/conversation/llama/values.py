"""What llama.cpp's Jinja computes with: values, their texts, their functions (common/jinja/value.cpp).

A value is a Python value: str, int, float, bool, None, list, tuple, dict, :class:`Undefined`,
:class:`Function` or :class:`Keyword`. Texts are bytes to llama.cpp: lengths and slices count bytes, and only
ASCII letters have cases.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import string
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.syntax import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.conversation.llama.run import Run

    Handler = Callable[["Run", dict[str, Any], list[Any]], Any]

MAX_CHARACTERS: Final = 64 * 1024 * 1024
MAX_PARTS: Final = 1_000_000
_INT64: Final = 1 << 63
_SPACE: Final = " \t\n\v\f\r"
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


Failed = TemplateError
"""The template failed on these messages, or refuses them."""


class Undefined:
    """A value that is not there. ``hint`` is the name it was asked for by."""

    __slots__ = ("hint",)

    def __init__(self, hint: str = "") -> None:
        self.hint = hint


class Function:
    """A built-in function, with what it was taken from, or a macro."""

    __slots__ = ("bound", "call", "name")

    def __init__(self, name: str, call: Handler, bound: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.call = call
        self.bound = bound


class Keyword:
    """An argument that was given by name."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value


class Loop(dict[str, Any]):
    """The variable ``loop``, which has no built-in functions."""


UNDEFINED: Final = Undefined()


def of_json(value: Any) -> Any:
    """The value of a piece of JSON: integers have 64 bits."""
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, list | tuple):
        return [of_json(item) for item in value]
    return {str(key): of_json(item) for key, item in value.items()}


def integer(value: int) -> int | float:
    """An integer of JSON as 64 bits hold it; longer ones are floats."""
    if -_INT64 <= value < _INT64:
        return value
    return value - 2 * _INT64 if 0 < value < 2 * _INT64 else float(value)


def kind(value: object) -> str:
    """The name of a type in error messages."""
    if isinstance(value, Undefined):
        return "Undefined"
    return _KINDS.get(type(value), "Object")


_KINDS: Final[Mapping[type, str]] = {
    str: "String", int: "Integer", float: "Float", bool: "Boolean", list: "Array", tuple: "Tuple",
    dict: "Object", Loop: "Object", type(None): "None", Function: "Function", Keyword: "KwArg",
}  # fmt: skip


def is_number(value: object) -> bool:
    """An integer or a float; a truth value is none."""
    return type(value) is int or type(value) is float


def truth(value: object) -> bool:
    if isinstance(value, bool | str | int | float | list | tuple | dict):
        return bool(value)
    if value is None or isinstance(value, Undefined):
        return False
    raise Failed(f"{kind(value)} is not a bool value.")


def text_of(value: Any) -> str:
    """How a value is written into a text."""
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
    raise Failed(f"{kind(value)} is not a string value.")


def float_text(value: float) -> str:
    if not math.isfinite(value):
        found = f"{value}"
        return ("-nan" if math.copysign(1, value) < 0 else "nan") if math.isnan(value) else found
    found = f"{value:f}".rstrip("0")
    return found + "0" if found.endswith(".") else found


def shown(value: Any) -> str:
    """How a value is written inside a list or an object."""
    if isinstance(value, str):
        return to_json(value) if "'" in value else f"'{value}'"
    if isinstance(value, Undefined):
        return f"Undefined (hint: '{value.hint}')" if value.hint else "Undefined"
    if isinstance(value, Function):
        return f"Function<{value.name}>({shown(value.bound[0]) if value.bound else ''})"
    return "KwArg" if isinstance(value, Keyword) else text_of(value)


_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escaped(text: str) -> str:
    """A string as JSON writes it. Quotes are replaced as a whole: a template may double them for ever."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return _CONTROL.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", text)


def to_json(value: Any, indent: int = -1, between: str = ", ", after_key: str = ": ") -> str:
    """The filter ``tojson``: floats with six digits, nothing but control characters escaped."""
    newline = "\n" if indent >= 0 else ""

    def write(item: Any, level: int) -> str:
        if isinstance(item, str):
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
            pairs = [
                f"{write(text_of(key), level + 1)}{after_key}{write(part, level + 1)}"
                for key, part in item.items()
            ]
            return wrapped(pairs, "{}", level)
        return "null"

    def wrapped(inner: list[str], brackets: str, level: int) -> str:
        if not inner:
            return brackets
        if indent < 0:
            return brackets[0] + between.join(inner) + brackets[1]
        outer, pad = " " * indent * level, " " * indent * (level + 1)
        return (
            f"{brackets[0]}{newline}{pad}"
            + f"{between}{newline}{pad}".join(inner)
            + f"{newline}{outer}{brackets[1]}"
        )

    return write(value, 0)


def _ascii_json(written: str) -> str:
    return "".join(letter if letter < "\x80" else json.dumps(letter)[1:-1] for letter in written)


def is_fixed(value: object) -> bool:
    """Whether a value may be a key: nothing that can change is in it."""
    if isinstance(value, tuple):
        return all(map(is_fixed, value))
    return isinstance(value, str | int | float | bool) or value is None


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


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda a, b: a == b, "ge": lambda a, b: a >= b, "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b, "ne": lambda a, b: a != b,
}  # fmt: skip


def compare(left: Any, right: Any, how: str) -> bool:
    if is_number(left) and is_number(right):
        return _COMPARE[how](float(left), float(right))
    if (isinstance(left, str) and (isinstance(right, str) or is_number(right))) or (
        isinstance(right, str) and is_number(left)
    ):
        return _COMPARE[how](text_of(left), text_of(right))
    if isinstance(left, bool) and isinstance(right, bool):
        if how not in {"eq", "ne"}:
            raise Failed("Unsupported comparison operator for bool type.")
        return _COMPARE[how](left, right)
    return False


def key_of(key: Any) -> Any:
    if not is_fixed(key):
        raise Failed(f"Object key of unhashable type: {kind(key)}.")
    return key


def contains(needle: Any, haystack: Any) -> bool:
    if isinstance(haystack, Undefined):
        return False
    if isinstance(haystack, list | tuple):
        return any(equal(needle, item) for item in haystack)
    if isinstance(haystack, str):
        if not isinstance(needle, str):
            raise Failed(f"'in' looks for texts in a text, not for {kind(needle)}.")
        return needle in haystack
    if isinstance(haystack, dict):
        return key_of(needle) in haystack
    raise Failed(f"'in' test expects iterable as first argument, got {kind(haystack)}.")


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(_bytes(text))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def sliced(values: Any, start: int, stop: int, step: int) -> Any:
    size = len(values)
    if step > 0:
        first = max(size + start, 0) if start < 0 else min(start, size)
        last = max(size + stop, 0) if stop < 0 else min(stop, size)
        return values[first:last:step]
    first = max(size + start, 0) if start < 0 else min(start, size - 1)
    last = max(size + stop, -1) if stop < -1 else min(stop, size - 1)
    if step == -1 and first == size - 1 and last == -1:
        return values[::-1]
    places = [place for place in range(first, last, step) if 0 <= place < size]
    if isinstance(values, bytes):
        return bytes(values[place] for place in places)
    return like(values, [values[place] for place in places])


def like(values: Any, items: list[Any]) -> Any:
    """The items as a list, or as a tuple where the values were one."""
    return tuple(items) if isinstance(values, tuple) else items


def take_slice(values: Any, start: Any, stop: Any, step: Any) -> Any:
    if not all(type(bound) is int for bound in (start, step)):
        raise Failed("slice expects integers.")
    if step == 0:
        raise Failed("slice step cannot be zero.")
    if isinstance(values, str):
        return _text(sliced(_bytes(values), start, _int(stop), step))
    if isinstance(values, list | tuple):
        return sliced(values, start, _int(stop), step)
    raise Failed(f"Unknown (built-in) filter 'slice' for type {kind(values)}.")


def index_text(text: str, place: int, default: Any) -> Any:
    data = _bytes(text)
    return _text(data[place : place + 1]) if 0 <= place < len(data) else default


def _int(value: Any) -> int:
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return cast_int(value) if math.isfinite(value) else 0
    raise Failed(f"{kind(value)} is not an int value.")


def cast_int(value: float) -> int:
    """A float as C++ casts it to 64 bits (on x86-64 where it has more)."""
    return int(value) if math.isfinite(value) and -_INT64 <= value < _INT64 else -_INT64


# Arguments


def at(args: list[Any], place: int, default: Any = None) -> Any:
    if len(args) > place:
        return args[place]
    if default is None:
        raise Failed(f"a function expected at least {place + 1} arguments, got {len(args)}.")
    return default


def keyword(args: list[Any], name: str, default: Any = UNDEFINED) -> Any:
    for arg in args:
        if isinstance(arg, Keyword) and arg.name == name:
            return arg.value
    return default


def named(args: list[Any], name: str, place: int) -> Any:
    found = keyword(args, name)
    if isinstance(found, Undefined) and place < len(args) and not isinstance(args[place], Keyword):
        return args[place]
    return found


def count(args: list[Any], least: int, most: int = 999) -> None:
    if not least <= len(args) <= most:
        raise Failed(f"a function expected between {least} and {most} arguments, got {len(args)}.")


def typed(args: list[Any], *types: Any) -> None:
    count(args, len(types))
    for arg, wanted in zip(args, types, strict=False):
        right = type(arg) is int if wanted is int else isinstance(arg, wanted)
        if not right:
            raise Failed(f"a function expected another type than {kind(arg)}.")


# Functions of everything


def _tojson(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    count(args, 1, 5)
    ascii_only, indent = named(args, "ensure_ascii", 1), named(args, "indent", 2)
    separators = named(args, "separators", 3)
    run.used_deeply(args[0])
    if truth(named(args, "sort_keys", 4)):
        raise Failed("NotImplemented: tojson sort_keys=true.")
    width = indent if type(indent) is int else -1
    given = separators if isinstance(separators, list | tuple) else []
    between = text_of(given[0]) if given else (", " if width < 0 else ",")
    after_key = text_of(given[1]) if len(given) > 1 else ": "
    run.grow(0)
    written = to_json(args[0], min(width, 1000), between, after_key)
    run.grow(len(written))
    return _ascii_json(written) if truth(ascii_only) and not written.isascii() else written


def _default(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2, 3)
    lacks = (
        not truth(args[0])
        if truth(named(args, "boolean", 2))
        else args[0] is None or isinstance(args[0], Undefined)
    )
    return args[1] if lacks else args[0]


def attribute(value: Any, name: Any, default: Any) -> Any:
    if isinstance(name, Undefined):
        return default
    if isinstance(value, list | tuple):
        place = int(name) if isinstance(name, str) and name.isascii() and name.isdigit() else name
        if isinstance(place, bool | int):
            place = int(place) + len(value) if place < 0 else int(place)
            return value[place] if 0 <= place < len(value) else default
        return default
    return value.get(key_of(name), default) if isinstance(value, dict) else default


def _select(*, keep: bool) -> Handler:
    def select(run: Run, env: dict[str, Any], args: list[Any]) -> list[Any]:
        count(args, 2, 4)
        typed(args[:2], (list, tuple), str)
        if len(args) == 2:
            chosen = [truth(attribute(item, args[1], UNDEFINED)) for item in args[0]]
        else:
            # With three arguments the first names the test, and looks at the items themselves.
            test = TESTS.get(text_of(args[-2]))
            if test is None:
                raise Failed(f"selectattr: unknown test {args[-2]!r}.")
            of = args[0] if len(args) == 3 else [attribute(item, args[1], UNDEFINED) for item in args[0]]
            chosen = [truth(test(run, env, [item, args[-1]])) for item in of]
        return [item for item, taken in zip(args[0], chosen, strict=True) if taken is keep]

    return select


def _to_object(_run: Run, _: dict[str, Any], args: list[Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    rest = args
    if args and isinstance(args[0], list | tuple):
        rest = args[1:]
        for pair in args[0]:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise Failed("namespace/dict() iterable argument must consist of tuples.")
            made[key_of(pair[0])] = pair[1]
    elif args and isinstance(args[0], dict):
        rest = args[1:]
        made.update(args[0])
    for arg in rest:
        if not isinstance(arg, Keyword):
            raise Failed("namespace/dict() arguments must be kwargs, dict and/or iterable of tuples.")
        made[arg.name] = arg.value
    return made


def _raise(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    typed(args[:1], str)
    raise Failed(f"the chat template refuses these messages: {args[0]}.")


def _strftime(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    typed(args[:1], str)
    return run.date(args[0])


def _range(run: Run, _: dict[str, Any], args: list[Any]) -> list[int]:
    count(args, 1, 3)
    typed(args[:1], int)
    bounds = [args[0]] + [_int(arg) for arg in args[1:]]
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if step == 0:
        raise Failed("range() step argument must not be zero.")
    places = range(start, stop, step)
    if len(places) > MAX_PARTS:
        raise Failed("a range is too long.")
    run.steps(len(places))
    return list(places)


FUNCTIONS: Final[Mapping[str, Handler]] = {
    "raise_exception": _raise, "dict": _to_object, "namespace": _to_object, "strftime_now": _strftime,
    "range": _range, "tojson": _tojson,
}  # fmt: skip


# Tests


def _of_type(*types: type) -> Handler:
    def test(_run: Run, _: dict[str, Any], args: list[Any]) -> bool:
        count(args, 1)
        return (type(args[0]) in types) or isinstance(args[0], tuple(t for t in types if t is not int))

    return test


def _comparing(how: str) -> Handler:
    def test(_run: Run, _: dict[str, Any], args: list[Any]) -> bool:
        count(args, 2, 2)
        return compare(args[0], args[1], how)

    return test


def _simple(check: Callable[..., Any], *types: Any) -> Handler:
    def run_it(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
        typed(args, *types)
        return check(*args[: len(types)])

    return run_it


def _same(_run: Run, _: dict[str, Any], args: list[Any]) -> bool:
    count(args, 2)
    left, right = args[:2]
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return False
    if type(left) is int and type(right) is int:
        return left == right and -5 <= left <= 256
    if isinstance(left, bool) and isinstance(right, bool):
        return left == right
    return left is right


def _unsupported(what: str) -> Handler:
    def fail(_run: Run, _: dict[str, Any], _args: list[Any]) -> Any:
        raise Failed(f"NotImplemented: {what}.")

    return fail


def _divisible(value: int, by: int) -> bool:
    if by == 0:
        raise Failed("divisibleby zero.")
    return math.fmod(value, by) == 0


_ITERABLE: Final = _of_type(dict, Loop, list, tuple, str, Undefined)
TESTS: Final[Mapping[str, Handler]] = {
    "boolean": _of_type(bool),
    "callable": _of_type(Function),
    "odd": _simple(lambda value: value % 2 != 0, int),
    "even": _simple(lambda value: value % 2 == 0, int),
    "false": _simple(lambda value: value is False, object),
    "true": _simple(lambda value: value is True, object),
    "divisibleby": _simple(_divisible, int, int),
    "string": _of_type(str),
    "integer": _of_type(int),
    "float": _of_type(float),
    "number": _of_type(int, float),
    "iterable": _ITERABLE,
    "sequence": _ITERABLE,
    "mapping": _of_type(dict, Loop),
    "lower": _simple(lambda text: text == text.translate(_LOWER), str),
    "upper": _simple(lambda text: text == text.translate(_UPPER), str),
    "none": _simple(lambda value: value is None, object),
    "defined": _simple(lambda value: not isinstance(value, Undefined), object),
    "undefined": _of_type(Undefined),
    **{name: _comparing("eq") for name in ("eq", "equalto")},
    **{name: _comparing("gt") for name in ("gt", "greaterthan")},
    **{name: _comparing("lt") for name in ("lt", "lessthan")},
    "ge": _comparing("ge"),
    "ne": _comparing("ne"),
    "in": _simple(contains, object, object),
    "test": _simple(lambda name: name in TESTS, str),
    "sameas": _same,
    "escaped": _unsupported("escaped test"),
    "filter": _unsupported("filter test"),
}


# Functions of texts


def _strip(left: bool, right: bool) -> Handler:  # noqa: FBT001  # which ends
    def strip(_run: Run, _: dict[str, Any], args: list[Any]) -> str:
        typed(args[:1], str)
        chars = named(args, "chars", 1)
        given = _SPACE if isinstance(chars, Undefined) else text_of(chars)
        text: str = args[0]
        if not given.isascii():
            return _text(_strip_bytes(_bytes(text), _bytes(given), left=left, right=right))
        if not given:
            return text
        text = text.lstrip(given) if left else text
        return text.rstrip(given) if right else text

    return strip


def _strip_bytes(data: bytes, given: bytes, *, left: bool, right: bool) -> bytes:
    data = data.lstrip(given) if left else data
    return data.rstrip(given) if right else data


def _split(*, from_right: bool) -> Handler:
    def split(_run: Run, _: dict[str, Any], args: list[Any]) -> list[str]:
        count(args, 1, 3)
        typed(args[:1], str)
        between = text_of(args[1]) if len(args) > 1 else " "
        if not between:
            raise Failed("empty separator.")
        most = _int(args[2]) if len(args) > 2 else -1
        return args[0].rsplit(between, most) if from_right else args[0].split(between, most)  # type: ignore[no-any-return]

    return split


def _replace(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    typed(args[:3], str, str, str)
    text, old, new = args[:3]
    if len(args) > 3 and _int(args[3]) > 0:
        raise Failed("NotImplemented: replace with a count.")
    if old == new:
        return text  # type: ignore[no-any-return]
    if not old:
        data, made = _bytes(text), _bytes(new)
        run.grow(len(data) + len(made) * (len(data) + 1))
        return _text(made + b"".join(bytes([byte]) + made for byte in data))
    run.grow(len(text) + text.count(old) * max(0, len(new) - len(old)))
    return text.replace(old, new)  # type: ignore[no-any-return]


def _format(_run: Run, _: dict[str, Any], args: list[Any]) -> str:
    typed(args[:1], str)
    pieces = args[0].split("{")
    made, place = [pieces[0]], 1
    for piece in pieces[1:]:
        if not piece.startswith("}"):
            raise Failed("NotImplemented: format() only supports simple '{}' placeholders.")
        made += [text_of(at(args, place)), piece[1:]]
        place += 1
    return "".join(made)


_NUMERAL: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX])?([0-9A-Za-z]*)")


def _to_int(_run: Run, _: dict[str, Any], args: list[Any]) -> int:
    default, given = named(args, "default", 1), named(args, "base", 2)
    base = 10 if isinstance(given, Undefined) else _int(given)
    if base != 0 and not 2 <= base <= 36:
        raise Failed("int() base must be 0 or between 2 and 36.")
    typed(args[:1], str)
    found = _leading_int(args[0], base)
    if found is not None and -(1 << 31) <= found < 1 << 31:
        return found
    return 0 if isinstance(default, Undefined) else _int(default)


def _leading_int(text: str, base: int) -> int | None:
    """As C's strtol: what can be read at the start."""
    match = _NUMERAL.match(text)
    if match is None:  # it always matches
        return None
    sign, prefix, digits = match[1], match[2], match[3]
    if base == 0:
        base = 16 if prefix else 8 if digits.startswith("0") else 10
    if prefix and base != 16:
        prefix, digits = None, "0"
    taken = ""
    for digit in digits:
        if int(digit, 36) >= base:
            break
        taken += digit
    if not taken:
        return 0 if prefix else None
    return int(sign + taken, base)


_FLOAT: Final = re.compile(
    r"[ \t\n\v\f\r]*([+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan))",
    re.IGNORECASE,
)


def _to_float(_run: Run, _: dict[str, Any], args: list[Any]) -> float:
    typed(args[:1], str)
    default = named(args, "default", 1)
    match = _FLOAT.match(args[0])
    if match:
        return float(match[1])
    if isinstance(default, Undefined):
        return 0.0
    if not is_number(default):
        raise Failed(f"{kind(default)} is not a float value.")
    return float(default)


def _text_default(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    default = args[1] if len(args) > 1 and not isinstance(args[1], Undefined) else ""
    return default if truth(named(args, "boolean", 2)) and not args[0] else args[0]


def _text_slice(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2, 4)
    return take_slice(args[0], args[1], at(args, 2), at(args, 3, UNDEFINED) if len(args) > 2 else 1)


def _indent(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    count(args, 1, 4)
    typed(args[:1], str)
    width = named(args, "width", 1)
    first, blank = truth(named(args, "first", 2)), truth(named(args, "blank", 3))
    if type(width) is int:
        if not 0 <= width <= 10_000:
            raise Failed("a width of indent is too large.")
        pad = " " * width
    else:
        pad = width if isinstance(width, str) else "    "
    text: str = args[0]
    run.grow(len(text) + (text.count("\n") + 1) * len(pad))
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    made = ""
    for line in lines:
        # An empty first line is forgotten, as the server tells the first by what is written so far.
        if made:
            made += "\n"
        if (line or blank) if made else first:
            made += pad
        made += line
    if text.endswith("\n"):
        made += "\n" + (pad if blank else "")
    return made


def _uncertain_case(change: Callable[[str], str]) -> Handler:
    """A text that was joined has its parts changed one by one; such texts are not told apart here."""

    def run_it(run: Run, _: dict[str, Any], args: list[Any]) -> str:
        typed(args[:1], str)
        run.uncertain = True
        return change(args[0])

    return run_it


def _capitalize(text: str) -> str:
    return text[:1].translate(_UPPER) + text[1:].translate(_LOWER)


def _title(text: str) -> str:
    return re.sub(r"[^ \t\n\v\f\r]+", lambda match: _capitalize(match[0]), text)


_TEXT: Final[Mapping[str, Handler]] = {
    "default": _text_default,
    "upper": _simple(lambda text: text.translate(_UPPER), str),
    "lower": _simple(lambda text: text.translate(_LOWER), str),
    "strip": _strip(left=True, right=True),
    "rstrip": _strip(left=False, right=True),
    "lstrip": _strip(left=True, right=False),
    "title": _uncertain_case(_title),
    "capitalize": _uncertain_case(_capitalize),
    "length": _simple(byte_length, str),
    "startswith": _simple(str.startswith, str, str),
    "endswith": _simple(str.endswith, str, str),
    "split": _split(from_right=False),
    "rsplit": _split(from_right=True),
    "replace": _replace,
    "format": _format,
    "int": _to_int,
    "float": _to_float,
    "string": _simple(lambda text: text, str),
    "slice": _text_slice,
    "safe": _simple(lambda text: text, str),
    "tojson": _tojson,
    "indent": _indent,
    "join": _unsupported("String join"),
}


# Functions of numbers and truth values

_INT: Final[Mapping[str, Handler]] = {
    "default": _default, "abs": _simple(abs, int), "int": _simple(int, int), "float": _simple(float, int),
    "safe": _tojson, "string": _tojson, "tojson": _tojson,
}  # fmt: skip
_FLOATS: Final[Mapping[str, Handler]] = {
    "default": _default, "abs": _simple(abs, float), "int": _simple(cast_int, float),
    "float": _simple(float, float), "safe": _tojson, "string": _tojson, "tojson": _tojson,
}  # fmt: skip
_BOOL: Final[Mapping[str, Handler]] = {
    "default": _default, "int": _simple(int, bool), "float": _simple(float, bool),
    "safe": _simple(text_of, bool), "string": _simple(text_of, bool), "tojson": _tojson,
}  # fmt: skip


# Functions of lists


def _first(values: Any) -> Any:
    return values[0] if values else UNDEFINED


def _last(values: Any) -> Any:
    return values[-1] if values else UNDEFINED


def _join(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    count(args, 1, 3)
    typed(args[:1], (list, tuple))
    between, name = named(args, "d", 1), named(args, "attribute", 2)
    texts = []
    for item in args[0]:
        value = item if isinstance(name, Undefined) else attribute(item, name, UNDEFINED)
        if not isinstance(value, str) and not is_number(value):
            raise Failed("join() can only join arrays of strings or numerics.")
        texts.append(text_of(value))
    glue = "" if isinstance(between, Undefined) else text_of(between)
    run.grow(sum(map(len, texts)) + len(glue) * len(texts))
    return glue.join(texts)


def _shown_list(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    run.used_deeply(args[0])
    written = text_of(args[0])
    run.grow(len(written))
    return written


def _map(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2)
    if not isinstance(args[1], Keyword):
        raise Failed("NotImplemented: map with a filter.")
    name, default = named(args, "attribute", 1), keyword(args, "default")
    return like(args[0], [attribute(item, name, default) for item in args[0]])


def _append(run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2)
    if isinstance(args[0], tuple):
        raise Failed("Attempting to modify immutable type.")
    run.changes(args[0])
    args[0].append(args[1])
    return args[0]


def _pop(run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 1, 2)
    if isinstance(args[0], tuple):
        raise Failed("Attempting to modify immutable type.")
    place = _int(args[1]) if len(args) > 1 else -1
    place += len(args[0]) if place < 0 else 0
    if not 0 <= place < len(args[0]):
        raise Failed("pop: the index is out of bounds.")
    run.changes(args[0])
    return args[0].pop(place)


def _before(left: Any, right: Any, *, reverse: bool) -> int:
    how = "gt" if reverse else "lt"
    return -1 if compare(left, right, how) else 1 if compare(right, left, how) else 0


def _sorted(run: Run, items: list[Any], key: Callable[[Any], Any], *, reverse: bool) -> list[Any]:
    """In order; what has no order stands as C++'s sort leaves it, which is certain for short lists only."""
    order = functools.cmp_to_key(functools.partial(_before, reverse=reverse))
    found = sorted(items, key=lambda item: order(key(item)))
    if len(items) > 16 and any(
        _before(key(a), key(b), reverse=reverse) == 0 for a, b in itertools.pairwise(found)
    ):
        run.uncertain = True
    return found


def _sort(run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 1, 4)
    reverse, name = truth(named(args, "reverse", 1)), named(args, "attribute", 3)

    def key(item: Any) -> Any:
        return item if isinstance(name, Undefined) else attribute(item, name, UNDEFINED)

    return like(args[0], _sorted(run, list(args[0]), key, reverse=reverse))


def _extreme(how: str) -> Handler:
    def extreme(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
        count(args, 1, 4)
        name = named(args, "attribute", 2)
        if not args[0]:
            return UNDEFINED
        best = args[0][0]
        for item in args[0]:
            pair = (item, best)
            if not isinstance(name, Undefined):
                pair = attribute(item, name, UNDEFINED), attribute(best, name, UNDEFINED)
            if compare(*pair, how):
                best = item
        return best

    return extreme


def _listed(change: Callable[..., Any]) -> Handler:
    return _simple(change, (list, tuple))


_LIST: Final[Mapping[str, Handler]] = {
    "default": _default,
    "list": _listed(list),
    "first": _listed(_first),
    "last": _listed(_last),
    "length": _listed(len),
    "slice": _text_slice,
    "selectattr": _select(keep=True),
    "select": _select(keep=True),
    "rejectattr": _select(keep=False),
    "reject": _select(keep=False),
    "join": _join,
    "string": _shown_list,
    "tojson": _tojson,
    "map": _map,
    "append": _append,
    "pop": _pop,
    "sort": _sort,
    "reverse": _listed(lambda values: values[::-1]),
    "min": _extreme("lt"),
    "max": _extreme("gt"),
    "unique": _unsupported("Array unique"),
}


# Functions of objects


def _get(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2, 3)
    typed(args[:2], dict, str)
    return args[0].get(args[1], args[2] if len(args) > 2 else None)


def _dictsort(run: Run, _: dict[str, Any], args: list[Any]) -> dict[Any, Any]:
    by, reverse = named(args, "by", 2), truth(named(args, "reverse", 3))
    place = 1 if by == "value" else 0
    return dict(_sorted(run, list(args[0].items()), lambda pair: pair[place], reverse=reverse))


_OBJECT: Final[Mapping[str, Handler]] = {
    "get": _get,
    "keys": _simple(list, dict),
    "values": _simple(lambda value: list(value.values()), dict),
    "items": _simple(lambda value: list(value.items()), dict),
    "tojson": _tojson,
    "string": _shown_list,
    "length": _simple(len, dict),
    "dictsort": _dictsort,
    "join": _unsupported("object join"),
}


# Functions of nothing


def _empty(make: Callable[[], Any]) -> Handler:
    def empty(_run: Run, _: dict[str, Any], _args: list[Any]) -> Any:
        return make()

    return empty


_NO_LIST, _NO_TEXT = _empty(list), _empty(str)
_NO_NUMBER, _NO_VALUE = _empty(int), _empty(lambda: UNDEFINED)
_NO_LISTS: Final = ("items", "map", "reject", "rejectattr", "select", "selectattr", "unique")
_NONE: Final[Mapping[str, Handler]] = {
    "default": _default, "tojson": _tojson, "string": _empty(lambda: "None"), "safe": _empty(lambda: "None"),
    **dict.fromkeys(_NO_LISTS, _NO_LIST),
}  # fmt: skip
_NOTHING: Final[Mapping[str, Handler]] = {
    "default": _default,
    **dict.fromkeys((*_NO_LISTS, "list", "reverse", "sort"), _NO_LIST),
    **dict.fromkeys(
        ("capitalize", "join", "lower", "replace", "safe", "string", "strip", "title", "truncate", "upper"),
        _NO_TEXT,
    ),
    **dict.fromkeys(("length", "sum", "wordcount"), _NO_NUMBER),
    **dict.fromkeys(("first", "last", "max", "min"), _NO_VALUE),
}

BUILTINS: Final[dict[type, Mapping[str, Handler]]] = {
    str: _TEXT, int: _INT, float: _FLOATS, bool: _BOOL, list: _LIST, tuple: _LIST, dict: _OBJECT, Loop: {},
    type(None): _NONE, Undefined: _NOTHING,
}  # fmt: skip
