r"""``head``, ``tail``, ``middle``, ``ends`` in lines or in tokens, ``dedup_lines``.

A line ends after ``\n``, ``\r\n`` or ``\r`` and includes its line end, so the joined lines are the text. A
tokenizer cannot count a lone surrogate, so the lenses that count tokens replace it with U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lens import ArgumentProblem, LensKind, Parameter, lens, register
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from tokenbox.content.lenses.lens import Apply
    from tokenbox.tokenizers.protocol import Tokenizer

    _ByLines = Callable[[str, int], str]
    _ByTokens = Callable[[str, int, Tokenizer], str]

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_COUNTED = re.compile(r" \[x([0-9]{1,3}(?:,[0-9]{3}){0,5})\]$")
# Lines that give others their meaning, without an indent: [section] of TOML and INI, tags, ends of blocks,
# steps of a Dockerfile. A build log has lines such as [INFO], too.
_STRUCTURE = re.compile(
    r"\[\[?(?!(?i:info|warn|warning|error|debug|trace)\])(?=[^\[\]]*[a-z])[^\[\]]+\]\]?"
    r"|</?[a-z][^<>]*>(?:[^<>]*</\w+>)?"
    r"|fi|done|esac|(?i:else|then|end|end ?if|endfor|endwhile)"
    r"|(?:FROM|RUN|COPY|ENV|WORKDIR|CMD|ENTRYPOINT) \S.*"
)
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_LEFT_OUT = re.compile(
    r"\[\.\.\. ([0-9]{1,15}) lines? left out(?:; expand [0-9a-f]+)? \.\.\.\](?:\r\n|\n|\r)?"
)


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text``, each with its line end; an empty list for an empty text."""
    return _LINE.findall(text)


def without_styles(text: str) -> str:
    """Return the text without the escape sequences for colours and styles on a terminal."""
    return _STYLE.sub("", text) if "\x1b" in text else text


def ends_lines(text: str, count: int) -> str:
    """Return the first and last lines, ``count`` in all, with a line between them that counts the others.

    It returns all of the text if that is not shorter. A counting line among the removed lines counts as the
    lines that it replaced, so the lens is idempotent.
    """
    return _around_gap(text, (count + 1) // 2, count // 2)


@lens(
    "1", "the first lines, with a line that counts the others", Parameter("n", int), example="first_lines(3)"
)
def first_lines(text: str, n: int) -> str:
    """Return the first ``n`` lines and a line that counts the others, or all of it if that is not shorter."""
    return _around_gap(text, n, 0)


def _around_gap(text: str, first: int, last: int) -> str:
    """Return the first and last lines around one that counts the others; the text if that is not shorter."""
    lines = split_lines(text)
    end = len(lines) - last
    if end <= first:
        return text
    less = "".join([*lines[:first], _line_for(lines[first:end]), *lines[end:]])
    return less if len(less) < len(text) else text


def _line_for(removed: Sequence[str]) -> str:
    """Return the line that counts these lines, with the line end of the last."""
    end = _LINE_END.search(removed[-1])
    return omission(count_omitted(removed), "line") + (end[0] if end else "")


def omission(count: int, unit: str, *, about: bool = False, handle: str = "") -> str:
    """Return the note that replaces ``count`` lines, tokens or other units.

    ``handle``: returns the omitted text from ``expand``.
    """
    back = f"; expand {handle}" if handle else ""
    return f"[... {'~' if about else ''}{count} {unit}{'' if count == 1 else 's'} left out{back} ...]"


def split_count(line: str) -> tuple[str, int]:
    """Return a line without its end and its ``[xN]``, and the number of lines that it stands for."""
    words = line.rstrip("\r\n")
    counted = _COUNTED.search(words)
    return (words[: counted.start()], int(counted[1].replace(",", ""))) if counted else (words, 1)


def with_count(line: str, count: int) -> str:
    """Return the line with ``[xN]`` for the number of lines that it stands for; unchanged if that is 1."""
    if count == 1:
        return line
    words, _ = split_count(line)
    end = _LINE_END.search(line)
    return f"{words} [x{count:,}]{end[0] if end else ''}"


def count_omitted(lines: Iterable[str]) -> int:
    """Return the number of lines that these stand for: a counting line stands for the lines it replaced."""
    total = 0
    for line in lines:
        stands_for = _LEFT_OUT.fullmatch(line)
        total += int(stands_for[1]) if stands_for else 1
    return total


@lens("5", "each repeated line once, with a count; in code, only lines repeated in a row")
def dedup_lines(text: str) -> str:
    """Keep the first of equal lines, with ``[x3]`` for three of them. Blank lines are all kept.

    In code the meaning of a line depends on the lines around it, so only consecutive equal lines are merged.
    Lines are not merged if the count would be longer than they are.
    """
    lines = split_lines(text)
    in_rows = _is_code(lines)
    # Lines to merge have the same key.
    keys: list[tuple[str, int]] = []
    times: dict[tuple[str, int], int] = {}
    characters: dict[tuple[str, int], int] = {}
    for line in lines:
        words, count = split_count(line)
        row = keys[-1][1] + (keys[-1][0] != words) if in_rows and keys else 0
        keys.append((words, row))
        times[keys[-1]] = times.get(keys[-1], 0) + count
        characters[keys[-1]] = characters.get(keys[-1], 0) + len(line)
    result: list[str] = []
    once: dict[tuple[str, int], str] = {}  # the first line of each key, with the count
    for line, key in zip(lines, keys, strict=True):
        is_first = key not in once
        merged = once.setdefault(key, with_count(line, times[key]))
        if not key[0].strip() or len(merged) >= characters[key]:
            result.append(line)
        elif is_first:
            result.append(merged)
    return "".join(result)


def _is_code(lines: Sequence[str]) -> bool:
    """Return whether at least a tenth of the lines are as those of code.

    Of the distinct lines, those that are indented, or end as lines of code do; of all lines, those that give
    others their meaning.
    """
    times: dict[str, int] = {}
    for words, count in map(split_count, lines):
        if words.strip():
            times[words.rstrip()] = times.get(words.rstrip(), 0) + count
    code = sum(words[0] in " \t" or words[-1] in "{}:;,(" for words in times)
    structure = sum(count for words, count in times.items() if _STRUCTURE.fullmatch(words))
    return 10 * code >= len(times) or 10 * structure >= sum(times.values())


_SURROGATE = re.compile("[\ud800-\udfff]")


def ends_tokens(text: str, count: int, tokenizer: Tokenizer, handle: str = "") -> str:
    """Return the start and the end of the text, with a line between them that counts the removed tokens.

    The result has at most ``count`` tokens with that line. If the line does not fit, only the start is kept.
    ``handle``: named in the line.
    """
    text = _SURROGATE.sub("\ufffd", text)
    whole = tokenizer.count(text)
    if whole <= count:
        return text
    room = count - tokenizer.count(f"\n{_missing(whole, tokenizer, handle)}\n")
    while room > 0:
        first = truncate(text, room - room // 2, tokenizer, "head")
        last = truncate(text[len(first) :], room // 2, tokenizer, "tail")
        missing = whole - tokenizer.count(first) - tokenizer.count(last)
        result = f"{first}\n{_missing(missing, tokenizer, handle)}\n{last}"
        over = tokenizer.count(result) - count
        if over <= 0:
            return result
        room -= over
    return truncate(text, count, tokenizer, "head")


def _missing(count: int, tokenizer: Tokenizer, handle: str) -> str:
    return omission(max(0, count), "token", about=not tokenizer.identity.exact, handle=handle)


def _part(name: str, version: str, by_lines: _ByLines, by_tokens: _ByTokens, description: str) -> None:
    """Register a lens that keeps a part of the text, measured in lines or in tokens."""

    def build(*, lines: int | None = None, tokens: int | None = None) -> Apply:
        if lines is not None and tokens is None:
            return lambda text, _: by_lines(text, lines)
        if tokens is not None and lines is None:
            return lambda text, tokenizer: by_tokens(text, tokens, tokenizer)
        raise ArgumentProblem("it takes either lines or tokens")

    parameters = (
        Parameter("lines", int, optional=True),
        Parameter("tokens", int, optional=True, keyword_only=True),
    )
    usage, example = f"{name}(lines) or {name}(tokens=...)", f"{name}(lines=40)"
    register(LensKind(name, version, build, parameters, usage, description, example))


def _register_cut(keep: str, start: Callable[[int], int], description: str) -> None:
    """Register a lens that keeps one run. ``start``: its first line, by the number of the other lines."""

    def by_lines(text: str, count: int) -> str:
        lines = split_lines(text)
        first = start(max(0, len(lines) - count))
        return "".join(lines[first : first + count])

    def by_tokens(text: str, count: int, tokenizer: Tokenizer) -> str:
        return truncate(_SURROGATE.sub("\ufffd", text), count, tokenizer, keep)

    _part(keep, "1", by_lines, by_tokens, description)


_register_cut("head", lambda _: 0, "the first lines or tokens")
_register_cut("tail", lambda over: over, "the last lines or tokens")
_register_cut("middle", lambda over: over // 2, "lines or tokens from the middle")
_part(
    "ends",
    "2",
    ends_lines,
    ends_tokens,
    "the first and last lines or tokens, with a line between them that counts the others",
)
