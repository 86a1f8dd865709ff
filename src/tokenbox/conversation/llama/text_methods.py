"""The methods and filters of texts in llama.cpp's Jinja (common/jinja/value.cpp)."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, AnyStr, Final

from tokenbox.conversation.llama.functions import at, count, named, simple, tojson, typed, unsupported
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import (
    LOWER,
    SPACE,
    UNDEFINED,
    UPPER,
    Handler,
    Undefined,
    as_int,
    byte_length,
    decoded,
    encoded,
    is_number,
    kind,
    take_slice,
    truth,
    written,
)

if TYPE_CHECKING:
    from tokenbox.conversation.llama.run import Run


def _strip(left: bool, right: bool) -> Handler:  # noqa: FBT001  # which ends
    def strip(run: Run, _: dict[str, Any], args: list[Any]) -> str:
        typed(args[:1], str)
        chars = named(args, "chars", 1)
        # Each once: Python looks through them for each character.
        given = SPACE if isinstance(chars, Undefined) else "".join(set(written(run, chars)))
        text: str = args[0]
        if given.isascii():
            return _stripped(text, given, left=left, right=right) if given else text
        return decoded(_stripped(encoded(text), encoded(given), left=left, right=right))

    return strip


def _stripped(text: AnyStr, given: AnyStr, *, left: bool, right: bool) -> AnyStr:
    text = text.lstrip(given) if left else text
    return text.rstrip(given) if right else text


def _split(*, from_right: bool) -> Handler:
    def split(run: Run, _: dict[str, Any], args: list[Any]) -> list[str]:
        count(args, 1, 3)
        typed(args[:1], str)
        between = written(run, args[1]) if len(args) > 1 else " "
        if not between:
            raise TemplateError("empty separator.")
        text: str = args[0]
        run.steps(text.count(between))
        most = as_int(args[2]) if len(args) > 2 else -1
        return text.rsplit(between, most) if from_right else text.split(between, most)

    return split


def _replace(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    typed(args[:3], str, str, str)
    text: str
    text, old, new = args[:3]
    if len(args) > 3 and as_int(args[3]) > 0:
        raise TemplateError("NotImplemented: replace with a count.")
    if old == new:
        return text
    if not old:
        data, made = encoded(text), encoded(new)
        run.steps(len(data))
        run.grow(len(made) * (len(data) + 1))
        return decoded(made + b"".join(bytes([byte]) + made for byte in data))
    run.grow(len(text) + text.count(old) * max(0, len(new) - len(old)))
    return text.replace(old, new)


def _format(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    typed(args[:1], str)
    run.steps(args[0].count("{"))
    pieces = args[0].split("{")
    made, place = [pieces[0]], 1
    for piece in pieces[1:]:
        if not piece.startswith("}"):
            raise TemplateError("NotImplemented: format() only supports simple '{}' placeholders.")
        made += [written(run, at(args, place)), piece[1:]]
        run.grow(len(made[-2]))
        place += 1
    return "".join(made)


_NUMERAL: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX])?([0-9A-Za-z]*)")


def _to_int(_run: Run, _: dict[str, Any], args: list[Any]) -> int:
    default, given = named(args, "default", 1), named(args, "base", 2)
    base = 10 if isinstance(given, Undefined) else as_int(given)
    if base != 0 and not 2 <= base <= 36:
        raise TemplateError("int() base must be 0 or between 2 and 36.")
    typed(args[:1], str)
    found = _leading_int(args[0], base)
    if found is not None and -(1 << 31) <= found < 1 << 31:
        return found
    return 0 if isinstance(default, Undefined) else as_int(default)


def _leading_int(text: str, base: int) -> int | None:
    """Parse a leading integer as C's strtol does."""
    found = _NUMERAL.match(text)
    assert found is not None  # noqa: S101  # the pattern matches any text
    sign, prefix, digits = found.groups("")
    if base == 0:
        base = 16 if prefix else 8 if digits.startswith("0") else 10
    if prefix and base != 16:
        prefix, digits = "", "0"
    alphabet = (string.digits + string.ascii_lowercase)[:base]
    taken = digits[: len(digits) - len(digits.lower().lstrip(alphabet))]
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
        raise TemplateError(f"{kind(default)} is not a float value.")
    return float(default)


def _text_default(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    default = args[1] if len(args) > 1 and not isinstance(args[1], Undefined) else ""
    return default if truth(named(args, "boolean", 2)) and not args[0] else args[0]


def slice_filter(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2, 4)
    return take_slice(args[0], args[1], at(args, 2), at(args, 3, UNDEFINED) if len(args) > 2 else 1)


def _indent(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    count(args, 1, 4)
    typed(args[:1], str)
    width = named(args, "width", 1)
    first, blank = truth(named(args, "first", 2)), truth(named(args, "blank", 3))
    if type(width) is int:
        if not 0 <= width <= 10_000:
            raise TemplateError("a width of indent is too large.")
        pad = " " * width
    else:
        pad = width if isinstance(width, str) else "    "
    text: str = args[0]
    lines_made = text.count("\n") + 1
    run.steps(lines_made)
    run.grow(lines_made * len(pad))
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    made: list[str] = []
    for line in lines:
        # An empty first line is lost: the server detects the first line by an empty output.
        begun = bool(made)
        found = ("\n" if begun else "") + (pad if ((line or blank) if begun else first) else "") + line
        if found:
            made.append(found)
    if text.endswith("\n"):
        made.append("\n" + (pad if blank else ""))
    return "".join(made)


def _uncertain_case(change: Callable[[str], str]) -> Handler:
    """A filter that llama.cpp applies to each part of a joined text; parts are not known here."""

    def run_it(run: Run, _: dict[str, Any], args: list[Any]) -> str:
        typed(args[:1], str)
        run.uncertain = True
        return change(args[0])

    return run_it


def _capitalize(text: str) -> str:
    return text[:1].translate(UPPER) + text[1:].translate(LOWER)


def _title(text: str) -> str:
    return re.sub(r"[^ \t\n\v\f\r]+", lambda match: _capitalize(match[0]), text)


TEXT_METHODS: Final[Mapping[str, Handler]] = {
    "default": _text_default,
    "upper": simple(lambda text: text.translate(UPPER), str),
    "lower": simple(lambda text: text.translate(LOWER), str),
    "strip": _strip(left=True, right=True),
    "rstrip": _strip(left=False, right=True),
    "lstrip": _strip(left=True, right=False),
    "title": _uncertain_case(_title),
    "capitalize": _uncertain_case(_capitalize),
    "length": simple(byte_length, str),
    "startswith": simple(str.startswith, str, str),
    "endswith": simple(str.endswith, str, str),
    "split": _split(from_right=False),
    "rsplit": _split(from_right=True),
    "replace": _replace,
    "format": _format,
    "int": _to_int,
    "float": _to_float,
    "string": simple(lambda text: text, str),
    "slice": slice_filter,
    "safe": simple(lambda text: text, str),
    "tojson": tojson,
    "indent": _indent,
    "join": unsupported("String join"),
}
