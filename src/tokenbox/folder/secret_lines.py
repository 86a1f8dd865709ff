"""Which lines of a file may contain a secret, and which patterns each of them may match.

Two filters of linear-time patterns over the bytes: the first has the beginnings of patterns, the second the
patterns of lines. Most lines pass neither.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate

import re2

from tokenbox.folder.secret_shapes import CONTEXTS, KEYS

# Detector: a pattern that a line must match (ignoring case) for the detector to run. Kept simple, so that the
# automaton of all patterns stays small: 600 MB/s, against 25 MB/s with the full patterns of the detectors.
# tests/pack/test_secrets.py names those that we leave out, and fails if a new version has a detector more.
DETECTORS = {
    "ArtifactoryDetector": r"akc[a-z0-9]{10}",
    "AWSKeyDetector": r"a3t[a-z0-9]|abia|acca|akia|asia|aws",
    "AzureStorageKeyDetector": r"accountkey=",
    "BasicAuthDetector": r"://[^\s:/@]+:[^\s@]",
    "CloudantDetector": r"cloudant",
    "DiscordBotTokenDetector": r"\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}",
    "GitHubTokenDetector": r"gh[pousr]_",
    "GitLabTokenDetector": r"gl[a-z]{2,5}-|gr1348941",
    "IbmCloudIamDetector": r"ibm|iam[_-]?api|cloud[_-]?api",
    "IbmCosHmacDetector": r"secret[-_]?(?:access)?[-_]?key",
    "JwtTokenDetector": r"eyj",
    "MailchimpDetector": r"-us[0-9]",
    "NpmDetector": r":_authtoken=",
    "OpenAIDetector": r"t3blbkfj",
    "PypiTokenDetector": r"pypi-age",
    "SendGridDetector": r"sg\.",
    "SlackDetector": r"xox[abposr]-|hooks\.slack\.com",
    "SoftlayerDetector": r"softlayer",
    "SquareOAuthDetector": r"sq0csp-",
    "StripeDetector": r"[rs]k_live_",
    "KeywordDetector": (
        r"(?:api|auth|service|account|db|database|priv|private|client)_?key|(?:db|database|key)_?pass|"
        r"passw(?:or)?d|pwd|secret|contrase[ñn]a"
    ),
}
# The parts of a pattern; the beginning of one, without repetitions except the first characters of one at its
# end; and what such a beginning must have, so that few lines match it.
_PART = re.compile(r"\\.|\[(?:\\.|[^]])+\]|.")
_BEGINNING = re.compile(
    r"((?:[\w/:~=<@\"& -]|\\[^\w]|\[[a-z_:]+-?\]|\(\?:(?:[\w|?-]|\(\?:[\w|]+\))+\))+)(?![?*{+])"
    r"(?:(\[[^]]+\])\{(?:[6-9]|[0-9]{2}))?"
)
_SPECIFIC = re.compile(r"[\w/:~=<@& -]{4}|^(?:\w|\[\w+\]){2}(?:[/_-]|\\\.)")
_LONG_RUN = re.compile(r"\{(?:1[2-9]|[2-9][0-9]|1[0-9]{2})")
# The search goes on after a line of this length, and not in it: a match takes as long as a search of it.
_LONG_LINE = 2_000
# The bytes for the states of the filter of lines; with the default of re2 it makes them again and again.
_MAX_STATES = 32 << 20


def suspicious_lines(contents: Sequence[bytes]) -> list[list[tuple[int, int]]]:
    """Return the start and end of each line of each content that may contain a secret.

    All contents are searched as one, as to begin a search takes as long as to search thousands of bytes.
    """
    starts = list(accumulate((len(content) + 1 for content in contents), initial=0))
    found: list[list[tuple[int, int]]] = [[] for _ in contents]
    for start, end in _suspicious_in(b"\n".join(contents)):
        n = bisect_right(starts, start) - 1
        found[n].append((start - starts[n], end - starts[n]))
    return found


def _suspicious_in(content: bytes) -> list[tuple[int, int]]:
    lines = sorted({line for pattern in first_filter() for line in _lines_with(pattern, content)})
    if not lines:
        return []
    # All at once, too.
    starts = list(accumulate((end - start + 1 for start, end in lines), initial=0))
    text = b"\n".join(content[start:end] for start, end in lines)
    matches = {start for pattern in second_filter() for start, _ in _lines_with(pattern, text)}
    return [lines[n] for n in sorted({bisect_right(starts, start) - 1 for start in matches})]


def _lines_with(pattern: re.Pattern[bytes], text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line with a match. Only the first match of a long line is searched."""
    end = -1
    while end < len(text):
        for match in pattern.finditer(text, max(end, 0)):
            if match.start() >= end:
                start = text.rfind(b"\n", 0, match.start()) + 1
                end = text.find(b"\n", match.start())
                end = len(text) if end < 0 else end
                yield start, end
                if end - start > _LONG_LINE:
                    break
        else:
            return


@cache
def first_filter() -> tuple[re.Pattern[bytes], ...]:
    """Return patterns: each line that matches the second filter matches one of them.

    The time on a text goes into building the states of an automaton. These are few for the beginnings of
    patterns, and for long runs of characters where nothing else is searched.
    """
    own = {*_parts(KEYS), *_parts(CONTEXTS)} - _runs()
    return _any_of({*(_beginning(part) or part for part in own), *DETECTORS.values()} - _runs()), _any_run()


@cache
def second_filter() -> tuple[re.Pattern[bytes], ...]:
    """Return the patterns of lines that may contain a secret."""
    return *_key_lines(), _any_of(line for line, _ in CONTEXTS.values()), _any_of(DETECTORS.values())


def _parts(shapes: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the alternatives of the patterns of lines."""
    for line, _ in shapes.values():
        yield from _alternatives(line)


def _beginning(part: str) -> str | None:
    """Return the beginning of a pattern; None if too many lines have it."""
    match = _BEGINNING.match(part)
    if match is None or _SPECIFIC.search(match[1]) is None:
        return None
    return f"{match[1]}{match[2]}{{6}}" if match[2] else match[1]


@cache
def _runs() -> frozenset[str]:
    """Return the patterns of long runs of characters that have no such beginning."""
    own = (part for part in (*_parts(KEYS), *_parts(CONTEXTS)) if _beginning(part) is None)
    return frozenset(part for part in (*own, *DETECTORS.values()) if _LONG_RUN.search(part))


@cache
def _any_run() -> re.Pattern[bytes]:
    return _any_of(_runs())


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern at each ``|`` outside of groups."""
    found, depth = [""], 0
    for part in _PART.findall(pattern):
        depth += (part == "(") - (part == ")")
        if part == "|" and not depth:
            found.append("")
        else:
            found[-1] += part
    return found


_KINDS = tuple(KEYS)


def kinds_in(line: bytes) -> list[str]:
    """Return the kinds of keys of our own table that a line may contain."""
    if not any(pattern.search(line) for pattern in _key_lines()):
        return []  # most lines are here for a detector's word
    return [_KINDS[number] for number in _kinds_of_lines().Match(line) or ()]


@cache
def _kinds_of_lines() -> re2.Set:
    return _set_of(line for line, _ in KEYS.values())


@cache
def contexts_in() -> re2.Set:
    """Return what finds in a line the numbers of the contexts that it has."""
    return _set_of((pattern for _, pattern in CONTEXTS.values()), any_case=False)


@cache
def detectors_in() -> re2.Set:
    """Return what finds in a line the numbers of the detectors whose first pattern matches."""
    return _set_of(DETECTORS.values())


@cache
def _key_lines() -> tuple[re.Pattern[bytes], ...]:
    """Return the patterns of lines that may contain a key of our own table. One of both has fewer states."""
    return _any_of({*_parts(KEYS)} - _runs()), _any_run()


@cache
def line_filter() -> re.Pattern[bytes]:
    """Return the pattern of what may be a secret in a long line."""
    ours = (line for line, _ in (*KEYS.values(), *CONTEXTS.values()))
    return without_case([*DETECTORS.values(), *ours])


def _set_of(patterns: Iterable[str], *, any_case: bool = True) -> re2.Set:
    """Return what finds in a line the numbers of the patterns that match."""
    found = re2.Set.SearchSet(options(any_case=any_case))
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found


def _any_of(patterns: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern of the places where one of these matches; re2 joins neighbours that begin alike."""
    return without_case(sorted(patterns, key=str.lower))


def without_case(patterns: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern of the places where one of these matches, the first that does."""
    return re2.compile("|".join(patterns).encode(), options())  # type: ignore[no-any-return]


def options(*, any_case: bool = True) -> re2.Options:
    """Return the options of patterns of lines."""
    chosen = re2.Options()
    chosen.case_sensitive = not any_case
    chosen.never_nl = True
    chosen.max_mem = _MAX_STATES
    chosen.log_errors = False  # where the states need more, the search is slower
    return chosen
