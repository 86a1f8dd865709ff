"""``json_minify``: JSON without the white space between its parts.

Nothing is parsed into values: numbers keep their spelling, strings their escapes, objects their duplicate
keys and order. Text that is not one JSON value (RFC 8259) is returned unchanged.
"""

from __future__ import annotations

import re

_BLANK = " \t\n\r"
_TOKEN = re.compile(
    r"""[ \t\n\r]*+(?:
        (?P<scalar>
            "(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"
          | -?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+
          | true | false | null
        )
      | (?P<mark>[\[\]{},:])
    )""",
    re.VERBOSE,
)

# What may come next, by state. VALUE: a value; FIRST: a value or the end of the array just opened;
# KEY, FIRST_KEY: the same in an object; COLON; AFTER: a comma or the end of what is open.
_VALUE, _FIRST, _KEY, _FIRST_KEY, _COLON, _AFTER = range(6)
_OPENS = {"[": ("]", _FIRST), "{": ("}", _FIRST_KEY)}


def json_minify(text: str) -> str:
    """The text without white space outside strings if it is JSON, else the text itself."""
    parts: list[str] = []
    closers: list[str] = []
    state, place = _VALUE, 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        scalar, mark = match["scalar"], match["mark"]
        if scalar is not None:
            following = _after_scalar(state, scalar)
        elif mark in _OPENS and state in {_VALUE, _FIRST}:
            closer, following = _OPENS[mark]
            closers.append(closer)
        elif mark == ":" and state == _COLON:
            following = _VALUE
        elif mark == "," and state == _AFTER and closers:
            following = _KEY if closers[-1] == "}" else _VALUE
        elif closers and mark == closers[-1] and state in {_AFTER, _FIRST, _FIRST_KEY}:
            closers.pop()
            following = _AFTER
        else:
            following = None
        if following is None:
            return text
        parts.append(scalar if scalar is not None else mark)
        state = following
    whole = state == _AFTER and not closers and not text[place:].strip(_BLANK)
    return "".join(parts) if whole else text


def _after_scalar(state: int, scalar: str) -> int | None:
    if state in {_VALUE, _FIRST}:
        return _AFTER
    if state in {_KEY, _FIRST_KEY} and scalar[0] == '"':
        return _COLON
    return None
