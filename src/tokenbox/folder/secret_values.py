"""Find secrets whose name is on another line: in manifests of Kubernetes, in pairs of a name and a value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import re2

from tokenbox.folder import made_up

# In a manifest of Kubernetes, or its diff: what says that it is a secret, its data, and a value of that, in
# base64 or as it is.
_BETWEEN_MANIFESTS = re.compile(rb"(?m)^[ +-]?---")
_KIND_SECRET = re.compile(rb"(?m)^[ +-]?kind:[ \t]*[\"']?Secret\b")
_SECRET_DATA = re.compile(
    rb"(?m)^([ +-])?(stringD|d)ata:[ \t]*\r?\n"
    rb"(?:(?:(?(1)[ +-])[ \t][^\n]*|\r?)\n)*(?:(?(1)[ +-])[ \t][^\n]*)?"
)
_NAME = rb"(?m)^[ +-]?[ \t]+[\"']?[\w.-]+[\"']?:[ \t]+"
_BASE64 = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_ENCODED = re.compile(_NAME + rb"[\"']?(" + _BASE64 + rb")(?=[\"']?[ \t\r]*$)")
_PLAIN = re.compile(
    _NAME
    + rb"(?:\"((?:[^\"\\\n]|\\.)+)\"|'((?:[^'\n]|'')+)'|([^\s\"'|>{#][^\n]*?))(?:[ \t]+#[^\n]*)?[ \t\r]*$"
)
# ``name: API_TOKEN`` and below it ``value: ...``, as in Kubernetes and in JSON; an entry of a property list;
# the default of a variable in Terraform.
_ENDS = r"[\w.-]*(?:(passw(?:or)?d|pwd)|(secret)|token|_?key)"
# Shorter keys and tokens name other things, such as colours.
_SHORTEST_KEY = 16
_QUOTE = r"[\"']?"
_PAIR = re2.compile(
    (
        rf"(?i)(?:\b(?:name|key){_QUOTE}\s*[:=]\s*{_QUOTE}{_ENDS}{_QUOTE}\s*,?\s*{_QUOTE}value{_QUOTE}\s*[:=]\s*{_QUOTE}"
        rf"|<key>{_ENDS}</key>\s*<string>"
        rf"|\bvariable\s+\"{_ENDS}\"\s*\{{[^{{}}]{{0,400}}?\bdefault\s*=\s*\")([^\s\"'<>{{}}$,]{{8,}})"
    ).encode()
)
YAML = (".yaml", ".yml")
SUFFIXES = (*YAML, ".json", ".tf", ".plist")
"""The endings of files that have such secrets."""


class SecretValue(NamedTuple):
    """A secret from byte ``start`` to ``end``."""

    start: int
    end: int
    kind: str


def values_in(content: bytes, path: str) -> Iterator[SecretValue]:
    """Yield the secrets in a file with one of the ``SUFFIXES``, in order."""
    found = list(_of_kubernetes(content)) if path.endswith(YAML) and b"Secret" in content else []
    found += _of_pairs(content)
    done = 0
    for start, end, kind in sorted(found, key=lambda value: value.start):
        if end > done:  # a pair may stand in a value of a manifest
            yield SecretValue(max(start, done), end, kind)
            done = end


def _of_kubernetes(content: bytes) -> Iterator[SecretValue]:
    """Yield the values of the secrets of Kubernetes, which are only encoded."""
    borders = [0, *(between.start() for between in _BETWEEN_MANIFESTS.finditer(content)), len(content)]
    for start, end in pairwise(borders):
        if _KIND_SECRET.search(content, start, end) is None:
            continue
        for data in _SECRET_DATA.finditer(content, start, end):
            pattern = _ENCODED if data[2] == b"d" else _PLAIN
            for value in pattern.finditer(content, *data.span()):
                group = value.lastindex or 0
                if pattern is _ENCODED or not made_up.is_placeholder(value[group].decode()):
                    yield SecretValue(value.start(group), value.end(group), "Kubernetes Secret")


def _of_pairs(content: bytes) -> Iterator[SecretValue]:
    for pair in _PAIR.finditer(content):
        *named, value = pair.groups()
        text = value.decode()
        start = pair.end() - len(value)
        if any(named[::2]):
            is_real = made_up.may_be_password(text)
        else:
            is_real = made_up.is_random(text) and (any(named[1::2]) or len(text) >= _SHORTEST_KEY)
        is_public = made_up.is_public_key(content[pair.start() : start])
        if is_real and not is_public and not made_up.is_placeholder(text):
            yield SecretValue(start, pair.end(), "Named Value")
