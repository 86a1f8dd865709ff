"""The tree of errors: as drawn, with stable codes, each with its place."""

from __future__ import annotations

import inspect
import json
import re

from tokenbox.errors import TokenboxError
from tokenbox.lcp import errors
from tokenbox.lcp.errors import LcpError, MissingEndSentinel, UnexpectedEof

CLASSES = {
    name: value
    for name, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, TokenboxError) and value.__module__ == errors.__name__
}


def test_the_tree_is_drawn_as_it_is() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, tuple[str, str | None]] = {}
    parents: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        if match := re.match(r"    ([│├└─ ]*)(\w+)\s+(lcp_\w+)", line):
            indent, name, code = len(match[1]), match[2], match[3]
            while parents and parents[-1][0] >= indent:
                parents.pop()
            drawn[name] = (code, parents[-1][1] if parents else None)
            parents.append((indent, name))
    real = {
        name: (cls.code, cls.__bases__[0].__name__ if cls is not LcpError else None)
        for name, cls in CLASSES.items()
    }
    assert drawn == real


def test_codes_are_unique() -> None:
    codes = [cls.code for cls in CLASSES.values()]
    assert len(set(codes)) == len(codes)


def test_an_error_says_where() -> None:
    error = UnexpectedEof(5, "a number")
    assert str(error).startswith("byte 5: ")
    error.located(2, 100)
    assert str(error).startswith("block 2, byte 105: ")
    assert str(error) == error.message
    assert error.to_dict() == {
        "code": "lcp_unexpected_eof",
        "message": str(error),
        "offset": 105,
        "block": 2,
        "expanded_body": False,
    }


def test_an_error_in_an_expanded_body_counts_from_its_start() -> None:
    error = UnexpectedEof(5, "a number")
    error.located(2, None)
    assert str(error).startswith("block 2, byte 5 of its expanded body: ")


def test_errors_are_plain_data() -> None:
    assert json.loads(json.dumps(MissingEndSentinel(offset=8).to_dict()))["offset"] == 8
