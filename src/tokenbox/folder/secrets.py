"""Find secrets in files with the detectors of detect-secrets, and replace them by their kind.

Only the detectors run, one line at a time: nothing is verified over the network, and nothing is imported that
a configuration names. Two filters come before them: linear-time patterns over the bytes select the lines that
may contain a secret (``secret_lines``), and stricter patterns over those lines reject most of them. So most
files do not need the detectors, whose import takes 0.2 s because they bring an HTTP client. Lines with
``pragma: allowlist secret`` are not redacted.

Not used: entropy, which takes every hash for a secret, and public addresses, which are not secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from tokenbox.folder import made_up, private_keys
from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.secret_keywords import is_environment, passwords_in
from tokenbox.folder.secret_lines import (
    DETECTORS,
    contexts_in,
    detectors_in,
    kinds_in,
    line_filter,
    suspicious_lines,
    without_case,
)
from tokenbox.folder.secret_shapes import (
    ANY_SERVICE,
    BY_FILE,
    CONTEXTS,
    KEYS,
    PASSWORDS,
    SHORTEST,
)
from tokenbox.folder.secret_values import SUFFIXES, YAML, values_in

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

# Detector: a second pattern that a line must match, where the first one is common. It never excludes a secret
# that the detector finds and `_is_no_secret` accepts (tests/pack/test_secrets.py compares the results).
_NEEDS = {
    "AWSKeyDetector": r"(?:a3t[a-z0-9]|abia|acca|akia|asia)[0-9a-z]{16}|aws.*['\"][0-9a-z/+]{40}['\"]",
    "BasicAuthDetector": r"://[^\s:/@]+:[^\s:/@]+@",
    "DiscordBotTokenDetector": r"[mno][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}",
    "GitLabTokenDetector": r"gl[a-z]{2,5}-[\w-]{20}|gr1348941[\w-]{20}",
    "IbmCloudIamDetector": r"(?:key|pwd|pass|token).*[\w-]{44}",
    "JwtTokenDetector": r"eyj[\w=-]{7,}\.[\w=-]",  # the shortest is {"a":1}
    "MailchimpDetector": r"(?:^|[^a-z0-9])[0-9a-f]{32}-us[0-9]",
    "SendGridDetector": r"sg\.[\w-]{22}\.[\w-]{43}",
}
# What google-re2 does not have in the patterns of the detectors: what is before a name, and what is not after
# a value, both without taking it. All repetitions of the patterns that keep the latter are bounded.
_NAME_BEGINS = (r"""(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)""", r"(?:\B(?:\[[\"']?|[\"'])|\b)")
_VALUE_ENDS = re.compile(r"\(\?!\[([^]]*)\]\)\)")
# The comments after a line that say that it has no secret.
_PRAGMA = r"[ \t]*pragma: ?(?:allow|white)list[ -]secret"
_ALLOWED_IN_YAML = re2.compile(f"#{_PRAGMA}".encode())
_ALLOWED = re2.compile(
    rf"(?:#|//|'|--){_PRAGMA}|/\*{_PRAGMA}.*\*/[ \t]*$|<!--[# \t]*{_PRAGMA}.*-->[ \t]*$".encode()
)
# In tests and manuals most passwords and signed tokens are fictitious, and redacting them would only hide
# content: there a password is a secret only if it looks random, and a token only if a real host issued it.
# The keys of services are redacted everywhere.
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__(?:tests|fixtures|mocks)__|specs?|testing|test[_-]?data|fixtures|docs?|[\w.]*tests|t"
    r"|(?-i:[a-z]+Test))/|(?:^|/)test_[^/]*$"
    r"|[_.-](?:test|spec)\.[^/]*$|tests?\.(?:java|kt|cs|swift|php)$|\.rst$|\.t$",
    re.IGNORECASE,
)
# What is before a key: no word, or an escape, as in ``"token:\nhf_..."`` and in addresses.
_BEFORE = r"(?:(?<!\w)|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
# Some detectors return only the beginning of a token, such as "ghp".
_REST = r"[A-Za-z0-9_+/=.~-]*"
# A shorter value may stand in the line by chance: it is replaced where nothing of a word is around it, and a
# password in an address only there.
_MIN_UNIQUE = 8
_BY_WORDS = frozenset(("Secret Keyword", "Credentials", *CONTEXTS))
# A part of a token of Slack is as long as this: ``GHSA-xoxo-1234-xoxo`` is an advisory, and
# ``xoxb-123-123-abcabc`` an example.
_PART_OF_SLACK = re.compile(r"[A-Za-z0-9%]{10}")
_DATA_BEFORE = re.compile(r"[\w+/]\Z")
_DATA_AFTER = re.compile(r"\w")
# Longer lines are data or minified, and some detectors take more than linear time: only what is around
# a possible secret is looked at there, and not for passwords after words.
_MAX_LINE = 4_000
# How many names of one kind are looked at in a line, and how many in the value of another one.
_MAX_LOOKS, _MAX_LOOKS_INSIDE = 50, 2
# A longer value after a name is data. Not counted in a pattern: google-re2 has a state for each number.
_MAX_NAMED = 1_000
_AROUND = 200
# A longer word is no secret, but an image or a font in base64; a signed token has one if it has many claims.
_MAX_SECRET, _MAX_SIGNED = 2_000, 16_000
_DATA_WORD = re.compile(rb"(eyJ[\w=-]+\.eyJ[\w=-]+\.[\w-]+)|[\w+/=-]+")
_LINE = re.compile(rb"[^\n]+")
_WORD = re.compile(rb"\w*")
_NAME_END = re.compile(rb"[\w.-]{0,80}\Z")
# Where a value may be the name of a variable or a type, if it is in no string and no comment.
_CODE = re.compile(
    r"\.(?:c|cc|clj|cpp|cs|cu|cxx|d|dart|erl|exs?|fs|glsl|go|groovy|h|hh|hlsl|hpp|hs|inl|java|jl|kts?|lua|m|metal|mli?|mm"
    r"|[cm]?[jt]sx?|nim|pas|php|pyi?|rb|rs|scala|sol|swift|v|vb|wgsl|zig)$"
)
_TEXT_BEGINS = re.compile(rb"[\"'`#]|//")
_VALUE_END = re.compile(rb"[\s\"'`<>]")


class _Finding(NamedTuple):
    kind: str
    value: str


class _LineNumbers:
    """The numbers of lines, from 1, at ascending positions in a text, which is read once."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at, self._number = 0, 1

    def at(self, position: int) -> int:
        self._number += self._content.count(b"\n", self._at, position)
        self._at = position
        return self._number


class Redacted(NamedTuple):
    """A content without its secrets, and a note for each."""

    content: bytes
    notes: list[Note]


def redact_all(contents: Sequence[tuple[bytes, str]]) -> list[Redacted]:
    """Replace each secret in the ``contents`` (UTF-8, each with its path) by ``[redacted: KIND]``."""
    whole = b"\n".join(content for content, _ in contents)
    has_private_keys = any(map(whole.__contains__, private_keys.MARKS))
    found: list[Redacted] = []
    for content, path in contents:
        notes: list[Note] = []
        text = content
        if has_private_keys and any(map(text.__contains__, private_keys.MARKS)):
            text = _without_private_keys(text, path, notes)
        if path.endswith(SUFFIXES) and _TEST.search(path) is None:
            text = _without_values(text, path, notes)
        found.append(Redacted(text, notes))
    lines = suspicious_lines([text for text, _ in found])
    return [
        _without_keys(*one, path, some) for one, (_, path), some in zip(found, contents, lines, strict=True)
    ]


def _without_keys(content: bytes, notes: list[Note], path: str, lines: Sequence[tuple[int, int]]) -> Redacted:
    """Replace the secrets on these ``lines``; on any of a file whose format has secrets of its own."""
    by_file = _by_file(path)
    if by_file is not None:
        lines = [match.span() for match in _LINE.finditer(content)]
    if not (lines or notes):
        return Redacted(content, notes)
    pieces: list[bytes] = []
    done, numbers = 0, _LineNumbers(content)
    for start, end in lines:
        is_long = end - start > _MAX_LINE and len(content[start:end].decode("utf-8", "replace")) > _MAX_LINE
        for first, last in _possible(content, start, end) if is_long else ((start, end),):
            line = redacted = content[first:last].decode("utf-8", "surrogateescape")
            found = list(_secrets_in(line, path, by_file, keys_only=is_long))
            if not found or _is_allowed(line, path):
                continue
            for finding in sorted(found, key=partial(_order, line)):
                redacted, times = _value(finding).subn(_mark(finding.kind, path), redacted)
                if times:
                    notes.append(Note(shown(path), NoteKind.SECRET, finding.kind, numbers.at(start)))
            if redacted != line:
                pieces += (content[done:first], redacted.encode("utf-8", "surrogateescape"))
                done = last
    result = b"".join([*pieces, content[done:]]) if pieces else content
    return Redacted(result, sorted(set(notes), key=lambda note: note.order))


def _mark(kind: str, path: str) -> str:
    """Return what stands in the place of a secret. YAML takes what is before ``: `` in a value for a name."""
    return f"[redacted:{kind}]" if path.endswith(YAML) else f"[redacted: {kind}]"


def _order(line: str, finding: _Finding) -> tuple[int, bool, _Finding]:
    """Sort what takes more of the line first, and the kind of a key before what may be any."""
    match = _value(finding).search(line)
    return -len(match[0]) if match else 0, finding.kind in _BY_WORDS | ANY_SERVICE, finding


def _value(finding: _Finding) -> re.Pattern[str]:
    """Return the pattern of what to replace in the line of a finding."""
    value = re.escape(finding.value)
    if finding.kind == "Basic Auth Credentials":
        return re.compile(f"(?<=:){value}(?=@)")
    if len(finding.value) < _MIN_UNIQUE and finding.kind in _BY_WORDS:
        return re.compile(rf"(?:(?<!\w)|(?<=\s-p)){value}(?!\w)")  # mysql -pPASSWORD
    return re.compile(value + _REST)


def _possible(content: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what may have a secret in a long line: signed tokens, and parts of at most ``_MAX_LINE``."""
    first = start
    for word in _DATA_WORD.finditer(content, start, end):
        size = word.end() - word.start()
        if size > _MAX_SECRET:
            is_signed = word[1] is not None and size <= _MAX_SIGNED
            yield from _possible_in(content, first, word.start() + (0 if is_signed else _AROUND))
            if is_signed:
                yield word.span()
            first = word.end()
    yield from _possible_in(content, first, end)


def _possible_in(content: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield such parts of a part of the line."""
    done = start
    while match := line_filter().search(content, done, end):
        first = max(done, match.start() - _AROUND)
        if first > start:  # not in a word: what follows in it would look like the beginning of a key
            first = _WORD.match(content, first, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        if first > match.start():
            done = max(first, match.start() + 1)
            continue
        stop = _VALUE_END.search(content, match.end(), min(end, match.start() + _MAX_LINE // 2))
        done = min(end, match.start() + _MAX_LINE // 2 if stop is None else stop.end() + _AROUND)
        yield first, done


def _without_private_keys(content: bytes, path: str, notes: list[Note]) -> bytes:
    numbers = _LineNumbers(content)
    content, starts = private_keys.redact(content, _mark("Private Key", path).encode())
    notes += [Note(shown(path), NoteKind.SECRET, "Private Key", numbers.at(start)) for start in starts]
    return content


def _without_values(content: bytes, path: str, notes: list[Note]) -> bytes:
    """Replace the secrets whose name is on another line."""
    numbers, done, pieces = _LineNumbers(content), 0, list[bytes]()
    for start, end, kind in values_in(content, path):
        notes.append(Note(shown(path), NoteKind.SECRET, kind, numbers.at(start)))
        pieces += (content[done:start], _mark(kind, path).encode())
        done = end
    return b"".join([*pieces, content[done:]]) if pieces else content


@cache
def _key(kind: str) -> re.Pattern[str]:
    return re.compile(_BEFORE + KEYS[kind][1], re.ASCII)


@cache
def _contexts() -> tuple[tuple[str, re.Pattern[bytes]], ...]:
    return tuple((kind, re2.compile(pattern.encode())) for kind, (_, pattern) in CONTEXTS.items())


def _by_file(path: str) -> re.Pattern[bytes] | None:
    """Return the pattern of the secrets in a file of this name, if its format has such."""
    pattern = BY_FILE.get(".env" if is_environment(path) else path.rpartition("/")[2].lower())
    return None if pattern is None else re2.compile(pattern.encode())


def _secrets_in(
    line: str, path: str, by_file: re.Pattern[bytes] | None, *, keys_only: bool
) -> Iterator[_Finding]:
    """Yield the secrets in a line. ``keys_only``: not those that only a word before them tells."""
    in_test = _TEST.search(path) is not None
    yield from _known_shapes(line, path, by_file, in_test=in_test, keys_only=keys_only)
    for name, kind, value in _detected(line, path, keys_only=keys_only):
        if not value or made_up.is_placeholder(value) or _is_no_secret(value, line, name):
            continue
        finding = _Finding(kind, value)
        whole = _value(finding).search(line)  # what follows may be a word: ``/ghp_.../user``
        is_real = _REAL_IN_TESTS.get(name) if in_test else None
        if (
            whole is not None
            and not made_up.is_blanked(whole[0])
            and (is_real is None or is_real(value, line))
        ):
            yield finding


def _detected(line: str, path: str, *, keys_only: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what the detectors find: the name of one, the kind of secret and its value."""
    data = line.encode("utf-8", "surrogateescape")
    for number in detectors_in().Match(data) or ():
        name, need = _needs()[number]
        if name == "KeywordDetector":
            if not keys_only:
                yield from ((name, "Secret Keyword", value) for value in passwords_in(line, path))
        elif need is None or need.search(data) is not None:
            detector = detectors()[name]
            with suppress(RecursionError):  # claims of a token that are nested too deeply to be real ones
                for value in set(detector.analyze_string(data.decode("utf-8", "replace"))):
                    yield name, detector.secret_type, value


@cache
def _needs() -> tuple[tuple[str, re.Pattern[bytes] | None], ...]:
    """Return each detector with its second pattern, if it has one."""
    return tuple((name, without_case([_NEEDS[name]]) if name in _NEEDS else None) for name in DETECTORS)


def _is_allowed(line: str, path: str) -> bool:
    """Return whether a comment in the line says that it has no secret."""
    pattern = _ALLOWED_IN_YAML if path.endswith(".yaml") else _ALLOWED
    return pattern.search(line.encode("utf-8", "surrogateescape")) is not None


def _known_shapes(
    line: str, path: str, by_file: re.Pattern[bytes] | None, *, in_test: bool, keys_only: bool
) -> Iterator[_Finding]:
    """Yield the secrets that our own patterns find in a line."""
    data = line.encode("utf-8", "surrogateescape")
    for kind in kinds_in(data):
        if in_test and kind in ANY_SERVICE:  # an id of a test looks random, too
            continue
        for match in _key(kind).finditer(line):
            if kind != "Authorization Header" or not made_up.is_fictitious_login(match[0], in_test=in_test):
                yield _Finding(kind, match[0])
    if by_file is not None and (own := by_file.search(data)):
        value = own[1].decode()  # re2 matches valid UTF-8 only
        if not made_up.is_placeholder(value):
            yield _Finding("Credentials", value)
    if not (in_test or keys_only):
        yield from _after_names(data, is_code=_CODE.search(path) is not None)


def _after_names(line: bytes, *, is_code: bool) -> Iterator[_Finding]:
    """Yield the secrets that only what stands before them tells."""
    for number in contexts_in().Match(line) or ():
        (kind, context), at, looks, end = _contexts()[number], 0, 0, 0
        for _ in range(_MAX_LOOKS):
            found = context.search(line, at)
            if found is None:
                break
            start, at = found.start(found.lastindex or 0), found.end()
            looks = looks + 1 if at <= end else 0
            end = max(end, at)
            value = line[start : found.end(found.lastindex or 0)].decode()
            name = line[_NAME_END.search(line, 0, found.start()).start() : start]  # type: ignore[union-attr]  # it matches nothing, too
            is_bare = is_code and _TEXT_BEGINS.search(line, 0, start) is None
            if (
                len(value) <= _MAX_NAMED
                and _may_be(kind, value, is_bare=is_bare)
                and not made_up.is_placeholder(value)
                and not made_up.is_public_key(name)
            ):
                yield _Finding(kind, value)
            elif looks < _MAX_LOOKS_INSIDE:  # it may contain a name: ``token: process.env.TOKEN || "..."``
                at = max(start, found.start() + 1)


def _may_be(kind: str, value: str, *, is_bare: bool) -> bool:
    """Return whether a value may be a secret of a kind. ``is_bare``: in code, and not in a string."""
    if kind in PASSWORDS:
        return made_up.may_be_password(value, SHORTEST.get(kind, made_up.MIN_VALUE)) or made_up.is_passphrase(
            value
        )
    return made_up.is_random(value) and not (is_bare and made_up.is_identifier(value))


@cache
def detectors() -> Mapping[str, BasePlugin]:
    """Return the detectors by the names of their classes, with patterns that take linear time."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: Mapping[str, Any] = get_mapping_from_secret_type_to_class()  # its annotation is too narrow
    found = {cls.__name__: cls() for cls in classes.values() if cls.__name__ in DETECTORS}
    for detector in found.values():
        if hasattr(detector, "denylist"):
            detector.denylist = tuple(map(linear, detector.denylist))
    return found


def linear(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern of a detector for google-re2; itself if that does not have all of it.

    Each of those must have bounded repetitions only (tests/pack/test_secrets.py).
    """
    text = pattern.pattern.replace(*_NAME_BEGINS)
    text = _VALUE_ENDS.sub(r")(?:[^\1]|$)", text)
    if "(?!" in text:
        return pattern
    return re2.compile(f"(?i){text}" if pattern.flags & re.IGNORECASE else text)  # type: ignore[no-any-return]


# Detector: whether its finding in a test or a manual may be real.
_REAL_IN_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "JwtTokenDetector": made_up.has_a_real_issuer,
    "KeywordDetector": made_up.looks_random,
    "BasicAuthDetector": made_up.is_for_a_real_host,
}


def _is_no_secret(value: str, line: str, name: str) -> bool:
    """Return whether the finding of a detector is a placeholder, a template, a reference or an id."""
    from detect_secrets.filters import heuristic

    tests: tuple[Callable[[str], bool], ...] = (
        heuristic.is_templated_secret,
        heuristic.is_prefixed_with_dollar_sign,
        heuristic.is_not_alphanumeric_string,
    )
    is_none = _NO_SECRETS.get(name)
    return any(test(value) for test in tests) or (is_none is not None and is_none(value, line))


def _is_no_token_of_slack(value: str, _line: str) -> bool:
    token = value.rpartition("/")[2]
    return _PART_OF_SLACK.search(token.partition("-")[2] or token) is None


def _is_no_token_of_artifactory(value: str, _line: str) -> bool:
    """Return whether it has only letters, as a protein, no lower case, or zeros in base64."""
    return "AAAAA" in value or not (any(map(str.isdigit, value)) and any(map(str.islower, value)))


def _is_amid_data(value: str, line: str) -> bool:
    """Return whether it stands in data in base64, or in a genome."""
    before, _, after = line.partition(value)
    return _DATA_BEFORE.search(before) is not None or _DATA_AFTER.match(after) is not None


# Detector: whether its finding is no secret.
_NO_SECRETS: Mapping[str, Callable[[str, str], bool]] = {
    "SlackDetector": _is_no_token_of_slack,
    "ArtifactoryDetector": _is_no_token_of_artifactory,
    "AWSKeyDetector": _is_amid_data,
    "BasicAuthDetector": made_up.is_for_a_local_server,
}
