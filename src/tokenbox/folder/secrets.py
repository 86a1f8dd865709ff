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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from tokenbox.folder import made_up
from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.secret_lines import (
    DETECTORS,
    contexts_in,
    detectors_in,
    kinds_in,
    line_filter,
    suspicious_lines,
)
from tokenbox.folder.secret_shapes import (
    ANY_SERVICE,
    BY_FILE,
    CONTEXTS,
    KEYS,
    PASSWORDS,
    SHORTEST,
)
from tokenbox.folder.secret_values import SUFFIXES, values_in

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

# Detector: a second pattern that a line must match, where the first one is common. It never excludes a secret
# that the detector finds and `_is_no_secret` accepts (tests/pack/test_secrets.py compares the results).
_TYPE = r":\s*[&'?\w.<>\[\] |]{1,40}="
_AFTER_NAME = (
    rf"\w{{0,60}}[\]'\"]{{0,2}}(?:\[[0-9]*\])?\s*"
    rf"(?:{_TYPE}|:=|=>|[!=]{{1,3}}|:)\s*(?:@|[bru]{{1,2}}(?=[\"']))?"
)
_NEEDS = {
    "AWSKeyDetector": r"(?:a3t[a-z0-9]|abia|acca|akia|asia)[0-9a-z]{16}|aws.*['\"][0-9a-z/+]{40}['\"]",
    "BasicAuthDetector": r"://[^\s:/@]+:[^\s:/@]+@",
    "DiscordBotTokenDetector": r"[mno][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}",
    "GitLabTokenDetector": r"gl[a-z]{2,5}-[\w-]{20}|gr1348941[\w-]{20}",
    "IbmCloudIamDetector": r"(?:key|pwd|pass|token).*[\w-]{44}",
    "JwtTokenDetector": r"eyj[\w=-]+\.[\w=-]",
    "SendGridDetector": r"sg\.[\w-]{22}\.[\w-]{43}",
}
# For the keyword detector: a name, an assignment or comparison, and a digit in the value. The value is in
# quotes, before the name in a comparison, or (in the files named below) bare.
_KEYWORD_NEEDS = (
    r"(?:{name})(?:{after}[\"'`]|\w{{0,60}}(?:.assign)?\(\"|\S{{0,50}}\s*[\"'`](?=[^\"']*[\"'`];))"
    r"[^\"']*[0-9][^\"']*[\"'`]"
    r"|[\"'`][^\"']*[0-9][^\"']*[\"'`]\s*[!=]{{2,3}}\s*\w*(?:{name})"
)
_KEYWORD_NEEDS_BARE = r"(?:{name}){after}[\"'`]?[^\"']*(?:[0-9]|(?-i:[a-z][A-Z][^\"']*[a-z][A-Z]))"
_BARE_VALUES = re.compile(r"\.(?:e?ya?ml|c(?:nf|onf|fg|f)|ini|properties|toml)$")
# In tests and manuals most passwords and signed tokens are fictitious, and redacting them would only hide
# content: there a password is a secret only if it looks random, and a token only if a real host issued it.
# The keys of services are redacted everywhere.
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__(?:tests|fixtures|mocks)__|specs?|testing|test[_-]?data|fixtures|docs?|[\w.]*tests|t"
    r"|(?-i:[a-z]+Test))/|(?:^|/)test_[^/]*$"
    r"|[_.-](?:test|spec)\.[^/]*$|tests?\.(?:java|kt|cs|swift|php)$|\.rst$|\.t$",
    re.IGNORECASE,
)
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
# Assignments that the keyword detector does not know, as in ``password := "..."``, ``password = b"..."`` and
# ``password: String = "..."``.
_OTHER_ASSIGNMENT = re.compile(rf":=(?=\s*[\"'`])|{_TYPE}\s*[bru]{{0,2}}(?=[\"'])|=\s*[bru]{{1,2}}(?=[\"'])")
# What is before a key: no word, or an escape, as in ``"token:\nhf_..."`` and in addresses.
_BEFORE = r"(?:(?<!\w)|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
# A private key as far as its last line, or, if that is missing, as in a file of PuTTY, as far as it is in
# base64. The lines that a diff removes begin with a dash. Its words may be encoded for a URL, or in base64.
_IN_BASE64 = (b"UFJJVkFURSBLRVk", b"BSSVZBVEUgS0VZ", b"QUklWQVRFIEtFW")
_PRIVATE_KEY = (
    rb"(-{4,5} ?BEGIN(?: |%20|\+)"
    rb"(?:(?:[A-Z0-9 +]|%20){0,40}PRIVATE(?: |%20|\+)KEY(?: BLOCK)?|OpenVPN Static key V[0-9]) ?-{4,5}"
    rb"|Private-Lines: [0-9]{1,4}(?=\s)|LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,40}?(?:"
    + b"|".join(_IN_BASE64)
    + rb"))"
    rb"((?:[^-]|-(?!----)){40,20000}?(?=-{4,6} ?END)"
    rb"|(?:(?:\s|\\[nr]|[\"',.+#>|*]|(?<=\n)-){0,20}[A-Za-z0-9+/=]{20,20000}){1,500}"
    rb"(?:(?:\s|\\[nr]){1,4}-?[A-Za-z0-9+/]{0,19}(?:={1,2}|(?=\s{1,2}[ +-]?Private-MAC)))?)"
)
_PRIVATE_KEY_MARKS = (
    b"PRIVATE KEY",
    b"PRIVATE%20KEY",
    b"PRIVATE+KEY",
    b"Private-Lines: ",
    b"OpenVPN Static key",
    *_IN_BASE64,
)
# Data of a key, not a row of x; without it the text is code that reads or writes keys.
_KEY_DATA = re.compile(
    rb"(?<!\\)(?!(.)\1{19})(?:(?=[A-Za-z+/=]{0,20}[0-9])[A-Za-z0-9+/=]{20}|[A-Za-z+/=]{32})"
)
# What stands in the place of a key: escapes and headers (RFC 1421), which stay like punctuation, or data.
_KEY_PIECE = re.compile(rb"(\\[nrt]|<[a-z]{1,4} ?/?>|\b[A-Z][\w-]+: [^\n\\\"']*)|[A-Za-z0-9+/=]+")
# Some detectors return only the beginning of a token, such as "ghp".
_REST = r"[A-Za-z0-9_+/=.~-]*"
# A shorter value may stand in the line by chance: it is replaced where nothing of a word is around it, and a
# password in an address only there.
_MIN_UNIQUE = 8
_BY_WORDS = frozenset(("Secret Keyword", "Credentials", *CONTEXTS))
# The tokens of Slack are longer: ``GHSA-xoxo-1234-xoxo`` is an advisory.
_MIN_SLACK = 20
# Longer lines are data or minified, and some detectors take more than linear time: only what is around
# a possible secret is looked at there, and not for passwords after words.
_MAX_LINE = 4_000
_AROUND = 200
_LINE = re.compile(rb"[^\n]+")
_WORD = re.compile(rb"\w*")
_NAME_END = re.compile(rb"[\w.-]{0,80}\Z")
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


def redact(content: bytes, path: str) -> tuple[bytes, list[Note]]:
    """Replace each secret in ``content`` (UTF-8) by ``[redacted: KIND]``, and return a note for each."""
    notes: list[Note] = []
    if any(map(content.__contains__, _PRIVATE_KEY_MARKS)):
        content = _without_private_keys(content, path, notes)
    if path.endswith(SUFFIXES) and _TEST.search(path) is None:
        content = _without_values(content, path, notes)
    by_file = _by_file(path)
    is_any_line = by_file is not None
    lines = [match.span() for match in _LINE.finditer(content)] if is_any_line else suspicious_lines(content)
    if not (lines or notes):
        return content, notes
    pieces: list[bytes] = []
    done, numbers = 0, _LineNumbers(content)
    for start, end in lines:
        is_long = end - start > _MAX_LINE and len(content[start:end].decode("utf-8", "replace")) > _MAX_LINE
        for first, last in _possible(content, start, end) if is_long else ((start, end),):
            line = content[first:last].decode("utf-8", "surrogateescape")
            if not (
                _needs_detectors(line, path, keys_only=is_long)
                or (by_file and by_file.search(content[first:last]))
            ):
                continue
            redacted = line
            found = _secrets_in(line, path, by_file, keys_only=is_long)
            for finding in sorted(found, key=partial(_order, line)):
                redacted, times = _value(finding).subn(f"[redacted: {finding.kind}]", redacted)
                if times:
                    notes.append(Note(shown(path), NoteKind.SECRET, finding.kind, numbers.at(start)))
            if redacted != line:
                pieces += (content[done:first], redacted.encode("utf-8", "surrogateescape"))
                done = last
    result = b"".join([*pieces, content[done:]]) if pieces else content
    return result, sorted(set(notes), key=lambda note: note.order)


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
    """Yield the parts of a long line with what may be a secret, each of at most ``_MAX_LINE`` bytes."""
    done = start
    for match in line_filter().finditer(content, start, end):
        if match.start() < done:
            continue
        first = max(done, match.start() - _AROUND)
        if first > start:  # not in a word: what follows in it would look like the beginning of a key
            first = _WORD.match(content, first).end()  # type: ignore[union-attr]  # it matches nothing, too
        stop = _VALUE_END.search(content, match.end(), min(end, match.start() + _MAX_LINE // 2))
        done = min(end, match.start() + _MAX_LINE // 2 if stop is None else stop.end() + _AROUND)
        yield first, done


def _without_private_keys(content: bytes, path: str, notes: list[Note]) -> bytes:
    """Replace the data between the first and the last line of each private key.

    Line ends, quotes and other punctuation stay, so that code around it is still code.
    """
    numbers = _LineNumbers(content)

    def replacement(match: re.Match[bytes]) -> bytes:
        data = _KEY_DATA.search(match[2])
        if data is None:
            return match[0]
        notes.append(Note(shown(path), NoteKind.SECRET, "Private Key", numbers.at(match.start())))
        before, after = (
            _KEY_PIECE.sub(lambda piece: piece[1] or b"", part)
            for part in (match[2][: data.start()], match[2][data.end() :])
        )
        return b"".join((match[1], before, b"[redacted: Private Key]", after))

    return re.sub(_PRIVATE_KEY, replacement, content)


def _without_values(content: bytes, path: str, notes: list[Note]) -> bytes:
    """Replace the secrets whose name is on another line."""
    numbers, done, pieces = _LineNumbers(content), 0, list[bytes]()
    for start, end, kind in values_in(content, path):
        notes.append(Note(shown(path), NoteKind.SECRET, kind, numbers.at(start)))
        pieces += (content[done:start], f"[redacted: {kind}]".encode())
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
    pattern = BY_FILE.get(".env" if _is_environment(path) else path.rpartition("/")[2].lower())
    return None if pattern is None else re2.compile(pattern.encode())


def _needs_detectors(line: str, path: str, *, keys_only: bool = False) -> bool:
    """Return whether the line passes the second filter. ``keys_only``: as for ``_secrets_in``."""
    data = line.encode("utf-8", "surrogateescape")
    if any(_key(kind).search(line) for kind in kinds_in(data)):
        return True
    if not keys_only and contexts_in().Match(data):
        return True
    detectors = detectors_in().Match(data) or ()
    if not detectors:
        return False
    needs = _needs(bare=_BARE_VALUES.search(path) is not None, environment=_is_environment(path))
    return any((need := needs[n]) is None or need.search(line) is not None for n in detectors)


@cache
def _needs(*, bare: bool, environment: bool) -> tuple[re.Pattern[str] | None, ...]:
    """Return the second pattern of each detector, if it has one."""
    keyword = _KEYWORD_NEEDS + ("|" + _KEYWORD_NEEDS_BARE if bare else "")
    needs = {
        **_NEEDS,
        "KeywordDetector": keyword.format(name=DETECTORS["KeywordDetector"], after=_AFTER_NAME),
    }
    if environment:  # any value of a password is a secret there
        del needs["KeywordDetector"]
    return tuple(re.compile(needs[name], re.IGNORECASE) if name in needs else None for name in DETECTORS)


def _secrets_in(
    line: str, path: str, by_file: re.Pattern[bytes] | None, *, keys_only: bool
) -> Iterator[_Finding]:
    """Yield the secrets in a line. ``keys_only``: not those that only a word before them tells."""
    from detect_secrets.filters.allowlist import is_line_allowlisted
    from detect_secrets.util.code_snippet import get_code_snippet

    if is_line_allowlisted(path, line, get_code_snippet([line], 1)):
        return
    in_test = _TEST.search(path) is not None
    yield from _known_shapes(line, by_file, in_test=in_test, keys_only=keys_only)
    for plugin, first in _detectors():
        if first.search(line) is None or (keys_only and type(plugin).__name__ == "KeywordDetector"):
            continue
        is_real = _REAL_IN_TESTS.get(type(plugin).__name__) if in_test else None
        for value in set(_found_by(plugin, line, path)):
            if not value or _is_no_secret(value, line, path, plugin):
                continue
            if is_real is None or is_real(value, line):
                yield _Finding(plugin.secret_type, value)


def _known_shapes(
    line: str, by_file: re.Pattern[bytes] | None, *, in_test: bool, keys_only: bool
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
    for number in () if in_test or keys_only else contexts_in().Match(data) or ():
        (kind, context), at = _contexts()[number], 0
        while found := context.search(data, at):
            group = found.lastindex or 0
            at, value = found.end(), found[group].decode()
            is_password, least = kind in PASSWORDS, SHORTEST.get(kind, made_up.MIN_VALUE)
            may_be = (
                made_up.may_be_password(value, least) or made_up.is_passphrase(value)
                if is_password
                else made_up.is_random(value)
            )
            name = data[_NAME_END.search(data, 0, found.start()).start() : found.start(group)]  # type: ignore[union-attr]  # it matches nothing, too
            if may_be and not made_up.is_placeholder(value) and not made_up.is_public_key(name):
                yield _Finding(kind, value)
            else:  # it may contain the name of one: ``token: process.env.TOKEN || "..."``
                at = max(found.start(group), found.start() + 1)


@cache
def _detectors() -> tuple[tuple[BasePlugin, re.Pattern[str]], ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: Mapping[str, Any] = get_mapping_from_secret_type_to_class()  # its annotation is too narrow
    known = {cls.__name__: cls for cls in classes.values()}
    return tuple(
        (known[name](), re.compile(first, re.IGNORECASE))
        for name, first in DETECTORS.items()
        if name in known
    )


def _found_by(plugin: BasePlugin, line: str, path: str) -> Iterator[str]:
    from detect_secrets.plugins.keyword import (
        CONFIG_DENYLIST_REGEX_TO_GROUP,
        REGEX_BY_FILETYPE,
        KeywordDetector,
    )
    from detect_secrets.util.filetype import determine_file_type

    if not isinstance(plugin, KeywordDetector):
        with suppress(RecursionError):  # claims of a token that are nested too deeply to be real ones
            yield from plugin.analyze_string(line)
        return
    # In code a secret is in quotes; a bare value is code.
    of_type = None if path.endswith(".go") else REGEX_BY_FILETYPE.get(determine_file_type(path))
    patterns = CONFIG_DENYLIST_REGEX_TO_GROUP if _is_environment(path) else of_type
    for one in {line, _OTHER_ASSIGNMENT.sub("=", line, count=1)}:
        yield from plugin.analyze_string(one, patterns)


def _is_environment(path: str) -> bool:
    """Return whether it is a file of environment variables such as ``.env``."""
    name = path.rpartition("/")[2]
    return name.startswith(".env") or name.endswith(".env")


# Detector: whether its finding in a test or a manual may be real.
_REAL_IN_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "JwtTokenDetector": made_up.has_a_real_issuer,
    "KeywordDetector": made_up.looks_random,
    "BasicAuthDetector": made_up.is_for_a_real_host,
}


def _is_no_secret(value: str, line: str, path: str, plugin: BasePlugin) -> bool:
    """Return whether a finding is a placeholder, a template, a reference or an id."""
    from detect_secrets.filters import heuristic

    tests: tuple[Callable[[str], bool], ...] = (
        heuristic.is_templated_secret,
        heuristic.is_prefixed_with_dollar_sign,
        heuristic.is_not_alphanumeric_string,
    )
    if made_up.is_placeholder(value) or any(test(value) for test in tests):
        return True
    detector = type(plugin).__name__
    if detector == "SlackDetector" and len(value) < _MIN_SLACK:
        return True
    if detector == "AWSKeyDetector" and (
        value.endswith("EXAMPLE")  # as in the manual of AWS
        or re.search(r"[\w+/]{0}|{0}\w".format(re.escape(value)), line)  # amid data in base64, or a genome
    ):
        return True
    if detector == "BasicAuthDetector":
        return made_up.is_for_a_local_server(value, line)
    if detector != "KeywordDetector" or _is_environment(path):
        return False
    return (
        len(value) < made_up.MIN_VALUE
        or not (
            any(c.isdigit() for c in value)
            or (_BARE_VALUES.search(path) is not None and made_up.is_passphrase(value))
        )
        or value.count(" ") > 1  # a sentence, such as "At least 12 characters"
        or _PLACE.match(value) is not None
        or _KIND_OF_SECRET.search(line.partition(value)[0]) is not None
        or heuristic.is_sequential_string(value)
        or heuristic.is_potential_uuid(value)
        or heuristic.is_indirect_reference(line)
        or heuristic.is_likely_id_string(value, line, plugin)
    )
