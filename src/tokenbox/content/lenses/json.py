"""``json_minify``, ``json_shorten``, ``json_table``: shorter JSON.

Numbers keep their notation, and objects their order and duplicate keys. A text is one JSON value (RFC 8259),
or JSON Lines: an object or a list on each line. Any other text is returned unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import omission

_BLANK = " \t\n\r"
# (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read that then failed.
_TOKEN = re.compile(
    r"""[ \t\n\r]*+(?:
        (?P<scalar>
            "(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|(?!))*+"
          | -?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?
          | true | false | null
        )
      | (?P<mark>[\[\]{},:])
    )""",
    re.VERBOSE,
)

# The states of the parser, by the expected token. VALUE: a value; FIRST: a value or the end of the array just
# opened; KEY, FIRST_KEY: the same in an object; COLON; AFTER: a comma or the end of the array or object.
_VALUE, _FIRST, _KEY, _FIRST_KEY, _COLON, _AFTER = range(6)
# The state after each token: a mark, a string (by its quote), or another scalar (s).
_OF_VALUE = {'"': _AFTER, "s": _AFTER, "[": _FIRST, "{": _FIRST_KEY}
_NEXT = {
    _VALUE: _OF_VALUE,
    _FIRST: {**_OF_VALUE, "]": _AFTER},
    _KEY: {'"': _COLON},
    _FIRST_KEY: {'"': _COLON, "}": _AFTER},
    _COLON: {":": _VALUE},
    _AFTER: {"]": _AFTER, "}": _AFTER},
}
# The closing mark, and the state after a comma.
_INSIDE = {"[": ("]", _VALUE), "{": ("}", _KEY)}


@lens("2", "JSON without white space; other text unchanged")
def json_minify(text: str) -> str:
    """Remove white space outside strings if the text is JSON."""
    whole = _minified(text)
    if whole is not None:
        return whole
    lines = [_minified(line) for line in _json_lines(text)]
    return text if None in lines or not lines else "\n".join(map(str, lines)) + "\n"


def _json_lines(text: str) -> list[str]:
    """Return the lines of a text that may be JSON Lines; none if it is not."""
    lines = [line for line in text.split("\n") if line.strip(_BLANK)]
    return lines if len(lines) > 1 and all(line.lstrip(_BLANK)[0] in "{[" for line in lines) else []


def _minified(text: str) -> str | None:
    """Return the JSON text without white space; None if it is not JSON."""
    parts: list[str] = []
    inside: list[tuple[str, int]] = []
    state, place = _VALUE, 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        token = match["scalar"] or match["mark"]
        sign = token if match["mark"] else '"' if token[0] == '"' else "s"
        goes_on = sign == "," and state == _AFTER and inside
        following = inside[-1][1] if goes_on else _NEXT[state].get(sign)
        if following is None or (sign in ("]", "}") and (not inside or inside.pop()[0] != sign)):
            return None
        state = following
        if sign in _INSIDE:
            inside.append(_INSIDE[sign])
        parts.append(token)
    is_whole = state == _AFTER and not inside and not text[place:].strip(_BLANK)
    return "".join(parts) if is_whole else None


class _Number(str):
    """A number in its original notation."""

    __slots__ = ()


class _Object(list[tuple[str, object]]):
    """The members of an object, in order, including duplicate keys."""

    __slots__ = ()


_SHORTENED = re.compile(r"\[\.\.\. [0-9]+ (?:characters?|items?) left out \.\.\.\]$")
_MAX_DEPTH = 200


@lens(
    "3",
    "JSON with long texts and lists shortened, each with a count of the rest",
    Parameter("text", int, default=200),
    Parameter("items", int, default=10),
    example="json_shorten(text=200, items=10)",
)
def json_shorten(given: str, text: int, items: int) -> str:
    """Shorten each text to its first characters and each list to its first items.

    A rest that is not longer than the note that would count it stays.
    """
    values, is_lines = _values(given)
    shorter = [_written(_shortened(value, text, items)) for value in values]
    return "".join(f"{line}\n" for line in shorter) if is_lines else shorter[0] if shorter else given


def _shortened(value: object, text: int, items: int) -> object:
    if isinstance(value, _Object):
        return _Object((key, _shortened(inner, text, items)) for key, inner in value)
    if isinstance(value, list):
        has_note = len(value) == items + 1 and isinstance(value[-1], str) and _SHORTENED.fullmatch(value[-1])
        if len(value) <= items or has_note:
            return [_shortened(inner, text, items) for inner in value]
        out = len(value) - items
        note = omission(out, "item")
        least = len(note) + 2  # quoted
        is_longer = 2 * out > least + 1 or len(_written(value[items:])) - 2 > least
        rest = [note] if is_longer else value[items:]
        return [*(_shortened(inner, text, items) for inner in value[:items]), *rest]
    if isinstance(value, str) and not isinstance(value, _Number) and len(value) > text:
        if _SHORTENED.search(value):
            return value
        out = len(value) - text
        note = omission(out, "character")
        return f"{value[:text]}{note}" if out > len(note) else value
    return value


@lens(
    "4",
    "a list of JSON objects as a table, one row each; fields by path, such as 'id, user.name'",
    Parameter("fields", str, default=""),
    Parameter("rows", int, default=1000),
    example='json_table("id, user.name")',
)
def json_table(text: str, fields: str, rows: int) -> str:
    """Show a list of objects as a tab-separated table whose columns are the paths of the fields.

    The text is the list, JSON Lines, or an object with exactly one list of objects, also inside other
    objects; its other members are shown above the table. A path may begin with the path of that list. A path
    into a list of a row chooses that list. Without ``fields``, the table has all fields, in order of
    appearance. The text is unchanged if no row has any of the ``fields``, or the table is not shorter.
    """
    values, is_lines = _values(text)
    name, beside, found = _rows_of(values if is_lines else values[0]) if values else ("", None, None)
    if found is None:
        return text
    values_by_path = [_flat(row) for row in found]
    flat = [dict(row) for row in values_by_path]
    if any(len(row) < len(given) for row, given in zip(flat, values_by_path, strict=True)):
        return text  # a key is there twice, and a table has one cell for it
    every = list(dict.fromkeys(path for row in flat for path in row))
    wanted = [path.strip().removeprefix(f"{name}.") for path in fields.split(",") if path.strip()]
    chosen = dict.fromkeys(_columns(flat, every, wanted) if wanted else every)
    # A table with more cells than the text has characters is longer.
    if not chosen or len(chosen) * min(rows, len(flat)) > len(text):
        return text
    lines = [] if beside is None else [_written(beside)]
    note = f"[{len(found)} row{'' if len(found) == 1 else 's'}"
    if len(found) > rows:
        note += f", the first {rows} shown"
    if len(chosen) < len(every):
        note += f", fields left out: {', '.join(path for path in every if path not in chosen)}"
    lines += [f"{note}]", "\t".join(map(_cell, chosen))]
    lines += ["\t".join(_cell(row.get(path, "")) for path in chosen) for row in flat[:rows]]
    table = "\n".join(lines) + "\n"
    return table if len(table) < len(text) else text


def _columns(rows: Sequence[Mapping[str, object]], every: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the paths that are wanted or below one, and the lists that a wanted path leads into."""
    lists = {path for row in rows for path, value in row.items() if isinstance(value, list) and value}
    return [
        path
        for path in every
        if any(f"{path}.".startswith(f"{one}.") for one in wanted)
        or (path in lists and any(one.startswith(f"{path}.") for one in wanted))
    ]


def _rows_of(value: object) -> tuple[str, _Object | None, list[_Object] | None]:
    """Return the path of the list of rows, the object without it, and the rows. The outermost list counts."""
    if _is_rows(value):
        return "", None, value  # type: ignore[return-value]  # checked by _is_rows
    if isinstance(value, _Object):
        has_list = any(_is_rows(inner) for _, inner in value)
        found = [(place, *_rows_of(inner)) for place, (_, inner) in enumerate(value)]
        tables = [one for one in found if one[3] is not None and (not one[1] or not has_list)]
        if len(tables) == 1:
            place, path, rest, rows = tables[0]
            key = value[place][0]
            beside = _Object(value)
            beside[place : place + 1] = [] if rest is None else [(key, rest)]
            return f"{key}.{path}" if path else key, beside or None, rows
    return "", None, None


def _is_rows(value: object) -> bool:
    if not isinstance(value, list) or isinstance(value, _Object):
        return False
    return bool(value) and all(isinstance(row, _Object) for row in value)


def _flat(row: _Object, before: str = "") -> list[tuple[str, object]]:
    """Return the values of an object by path. A list is one value."""
    found: list[tuple[str, object]] = []
    for key, value in row:
        path = f"{before}{key}"
        found += _flat(value, f"{path}.") if isinstance(value, _Object) and value else [(path, value)]
    return found


def _cell(value: object) -> str:
    words = value if isinstance(value, str) else _written(value)
    return re.sub(r"[\t\r\n]+", " ", words)


def _values(text: str) -> tuple[list[object], bool]:
    """Return the value of a JSON text, or those of JSON Lines and True; none if the text is neither."""
    if (whole := _parsed(text)) is not None:
        return [whole[0]], False
    values: list[object] = []
    for line in _json_lines(text):
        if (value := _parsed(line)) is None:
            return [], False
        values.append(value[0])
    return values, bool(values)


def _parsed(text: str) -> tuple[object] | None:
    """Parse a JSON text. Return the value in a tuple, or None if the text is not JSON."""

    def refuse(_: str) -> NoReturn:
        raise ValueError

    try:
        value = json.loads(
            text, parse_float=_Number, parse_int=_Number, parse_constant=refuse, object_pairs_hook=_Object
        )
        return None if _depth(value) > _MAX_DEPTH else (value,)
    except (ValueError, RecursionError):
        return None


def _depth(value: object) -> int:
    """Return the nesting depth of lists and objects."""
    depth, level = 0, [value]
    while level:
        level = [
            inner
            for one in level
            if isinstance(one, list)
            for inner in ([member for _, member in one] if isinstance(one, _Object) else one)
        ]
        depth += 1
    return depth


def _written(value: object) -> str:
    """Return the value as JSON without white space."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_quoted(key)}:{_written(inner)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=any("\ud800" <= c <= "\udfff" for c in text))
