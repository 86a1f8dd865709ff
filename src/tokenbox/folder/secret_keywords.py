"""Find the values after words such as ``password``, in linear time.

The grammar is that of the keyword detector of detect-secrets, whose patterns take cubic time on a line of
``pwd=pwd=pwd=``. Here google-re2 searches, which never goes back: each quote has an alternative of its own in
place of a reference to the first one, and the first match is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from posixpath import splitext

import re2

from tokenbox.folder import made_up
from tokenbox.folder.secret_lines import DETECTORS, options

_NAME = f"(?:{DETECTORS['KeywordDetector']})"
# A letter, and a space, as Python's patterns know them: those of re2 are ASCII.
_LETTER = r"[\pL\pN_]"
_SPACE = r"[\s\v\x1c-\x1f\x85\pZ]"
_NAMED = rf"(?i){_NAME}{_LETTER}*"
_CLOSED = rf"[\]'\"]{{0,2}}{_SPACE}*"
_VALUE = rf"({_LETTER}(?:[^\v'\"]*[^\v,'\"`])?)"
_QUOTED = rf"(?:'{_VALUE}'|\"{_VALUE}\"|`{_VALUE}`)"
_BARE = rf"(?:{_QUOTED}|{_VALUE})"
_EQUAL = rf"(?:={{1,3}}|!==?){_SPACE}*"
_COMPARED = rf"{_QUOTED}{_SPACE}*[!=]{{2,3}}{_SPACE}*{_LETTER}*{_NAME}"
# At most 50 characters, which google-re2 would have a state for each of.
_BEFORE_SEMICOLON = rf"{_NAMED}(?P<between>[^\s\v\x1c-\x1f\x85\pZ]*?){_SPACE}*{_QUOTED};"
_MAX_BETWEEN, _MAX_LOOKS = 50, 4
# What assigns a value in settings, in C and its kind, in C++, and elsewhere; each pattern finds one value.
_IN_SETTINGS = (
    rf"{_NAMED}[\]'\"]{{0,2}}:{_SPACE}*{_BARE}",
    rf"{_NAMED}{_CLOSED}{_EQUAL}{_BARE}",
    _COMPARED,
    _BEFORE_SEMICOLON,
)
_IN_C = (rf"{_NAMED}(?:\[[0-9]*\])?{_SPACE}*[!=]{{1,2}}{_SPACE}*@?\"{_VALUE}\"",)
_IN_CPP = (rf"{_NAME}{_LETTER}*(?:.assign)?\(\"{_VALUE}\"", rf"{_NAMED}{_CLOSED}{_EQUAL}{_QUOTED}")
_IN_CODE = (
    rf"{_NAMED}[\]'\"]{{0,2}}:{_SPACE}*{_QUOTED}",
    _COMPARED,
    rf"{_NAMED}{_CLOSED}{_EQUAL}{_QUOTED}",
    _BEFORE_SEMICOLON,
    rf"{_NAMED}{_CLOSED}=>?{_SPACE}*{_QUOTED}",
)
_BY_SUFFIX = {
    **dict.fromkeys((".cs", ".c", ".m"), _IN_C),
    ".cpp": _IN_CPP,
    **dict.fromkeys(
        (".eyaml", ".yaml", ".yml", ".cnf", ".conf", ".cfg", ".cf", ".ini", ".properties", ".toml"),
        _IN_SETTINGS,
    ),
}
# Assignments that the grammar does not know, as in ``password := "..."``, ``password = b"..."`` and
# ``password: String = "..."``.
_OTHER_ASSIGNMENT = re.compile(
    r":=(?=\s*[\"'`])|:\s*[&'?\w.<>\[\] |]{1,40}=\s*[bru]{0,2}(?=[\"'])|=\s*[bru]{1,2}(?=[\"'])"
)
_QUOTES = ("'", '"', "`")
_COMMENT = re.compile(r"(?<!\s)\s+(?:[#;]|//).*")
# Where a secret is, in a variable, a store or a file of keys; an action on it; the date of its last change.
_PLACE = re.compile(
    r"(?:env|op|vault|file)(?:::?|/)\S|id_(?:rsa|dsa|ecdsa|ed25519)\b|[a-z0-9-]{2,20}:[A-Z][A-Za-z]+\Z"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?\Z"
)
# How passwords are made or kept, not one of them, as in ``password_encryption = "scram-sha-256"``.
_KIND_OF_SECRET = re.compile(
    r"(?:secret|passw(?:or)?d|key)\w{0,20}?(?:algorithm|encryption|policy|length|size|type|method|strategy)\W",
    re.IGNORECASE,
)
# The beginning of what may be letters at random. The words of other languages look so, too.
_ONE_WORD = re.compile(r"[A-Za-z]{15}")
# A call or an index after an assignment or comparison, in a line of at most this many characters.
_REFERENCE = re2.compile(rf"(?::=?|[!=]{{1,3}}){_SPACE}*(?:{_LETTER}|[.-])+[\[(][^\v]*[\])]".encode())
_MAX_REFERENCE = 1_000


def passwords_in(line: str, path: str) -> Iterator[str]:
    """Yield the values in a line whose name says that they are secret, but what is surely no password."""
    for one in dict.fromkeys((line, _OTHER_ASSIGNMENT.sub("=", line, count=1))):
        data = one.encode("utf-8", "surrogateescape")
        for pattern in _patterns(_grammar(path)):
            if found := _first(pattern, data):
                value = found[found.lastindex or 0].decode()
                value = _without_the_rest(value, one.partition(value)[0])
                if not _is_no_password(value, line, path):
                    yield value


def _first(pattern: re.Pattern[bytes], data: bytes) -> re.Match[bytes] | None:
    at = 0
    for _ in range(_MAX_LOOKS):
        found = pattern.search(data, at)
        if found is None or len(found.groupdict().get("between", b"").decode()) <= _MAX_BETWEEN:
            return found
        at = found.start() + 1
    return None


def is_environment(path: str) -> bool:
    """Return whether it is a file of environment variables such as ``.env``."""
    name = path.rpartition("/")[2]
    return name.startswith(".env") or name.endswith(".env")


def _grammar(path: str) -> tuple[str, ...]:
    """Return what assigns a value in such a file. In code a secret is in quotes; a bare value is code."""
    return _IN_SETTINGS if is_environment(path) else _BY_SUFFIX.get(splitext(path)[1], _IN_CODE)


@cache
def _patterns(grammar: tuple[str, ...]) -> tuple[re.Pattern[bytes], ...]:
    return tuple(re2.compile(pattern.encode(), options(any_case=False)) for pattern in grammar)


def _without_the_rest(value: str, before: str) -> str:
    """Remove a comment from a bare value, and brackets opened before it, as in ``${PASSWORD:value}``."""
    if not before.endswith(_QUOTES):
        value = _COMMENT.sub("", value)
    for opening, closing in ("{}", "()", "[]"):
        if value.endswith(closing) and value.count(closing) > value.count(opening) and opening in before:
            value = value[:-1]
    return value


def _is_no_password(value: str, line: str, path: str) -> bool:
    """Return whether a value after a word such as ``password`` is no password."""
    if is_environment(path):
        return made_up.is_address(value) and not any(map(made_up.is_random, re.split(r"[/?&=]", value)))
    if (
        len(value) < made_up.MIN_VALUE
        or not (
            any(c.isdigit() for c in value)
            or (_ONE_WORD.match(value) is not None and made_up.has_random_letters(value))
            or (_grammar(path) is _IN_SETTINGS and made_up.is_passphrase(value))
        )
        or value.count(" ") > 1  # a sentence, such as "At least 12 characters"
        or made_up.is_name_of_else(value)
        or _PLACE.match(value) is not None
        or _KIND_OF_SECRET.search(line.partition(value)[0]) is not None
        or _is_reference(line)
    ):
        return True
    from detect_secrets.filters import heuristic

    return (
        heuristic.is_sequential_string(value)
        or heuristic.is_potential_uuid(value)
        or heuristic.is_likely_id_string(value, line)
    )


def _is_reference(line: str) -> bool:
    """Return whether a line calls what knows the secret, as in ``password = ask_for("password_2")``."""
    return (
        len(line) <= _MAX_REFERENCE and _REFERENCE.search(line.encode("utf-8", "surrogateescape")) is not None
    )
