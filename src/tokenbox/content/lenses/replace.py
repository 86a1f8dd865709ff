r"""``replace(pattern, by)`` on google-re2, whose searches take time linear in the text.

The text is replaced again as long as that makes it shorter. What does not settle that way is left as it
was: so ``replace`` leaves its own results unchanged, as every lens does. Where ``by`` holds no match this is
one plain replacement. A ``by`` that the pattern would replace for ever (``"a"`` by ``"aa"``) is refused when
it is built.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tokenbox.content.lenses.lens import ArgumentProblem, LensKind, Parameter, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.tokenizers.protocol import Tokenizer

# Halving settles a run of a million characters in 20 passes.
_MAX_PASSES = 32
_GROUP = re.compile(r"\\(?:([0-9])|(\\)|(.?))", re.DOTALL)


def build_replace(pattern: str, by: str) -> Callable[[str, Tokenizer], str]:
    """The function for ``replace``. Raises :class:`ArgumentProblem` for a bad pattern or replacement."""
    compiled = _compile(pattern)
    template = _template(by, compiled.groups)

    def once(data: bytes) -> bytes:
        return _replace_once(data, compiled, template)

    if all(isinstance(part, bytes) for part in template):
        literal = b"".join(part for part in template if isinstance(part, bytes))
        again = once(literal)
        if again != literal and len(again) >= len(literal):
            raise ArgumentProblem("by is itself matched by the pattern, so replacing would never end", "by")

    def apply(text: str, _: Tokenizer) -> str:
        data = text.encode("utf-8", "surrogatepass")
        settled = _settle(once, data)
        return text if settled is None or settled == data else settled.decode("utf-8", "surrogatepass")

    return apply


def _compile(pattern: str) -> Any:  # noqa: ANN401  # re2 has no types
    import re2  # noqa: PLC0415  # loads a native library

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        words = error.args[0] if error.args else ""
        said = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        raise ArgumentProblem(f"the regular expression is not valid (RE2: {said})", "pattern") from error


def _template(by: str, groups: int) -> tuple[bytes | int, ...]:
    r"""``by`` in pieces: literal bytes, and group numbers for ``\0`` to ``\9``."""
    parts: list[bytes | int] = []
    literal = ""
    end = 0
    for match in _GROUP.finditer(by):
        literal += by[end : match.start()] + (match[2] or "")
        end = match.end()
        if match[1] is not None:
            group = int(match[1])
            if group > groups:
                raise ArgumentProblem(f"by asks for group {group}, the pattern has {groups}", "by")
            parts += [literal.encode("utf-8", "surrogatepass"), group]
            literal = ""
        elif match[2] is None:
            raise ArgumentProblem(
                r"a backslash in by is written \\\\ (\0 to \9 stand for the groups of the pattern)", "by"
            )
    parts.append((literal + by[end:]).encode("utf-8", "surrogatepass"))
    return tuple(part for part in parts if part != b"")


def _replace_once(data: bytes, compiled: Any, template: tuple[bytes | int, ...]) -> bytes:  # noqa: ANN401
    pieces: list[bytes] = []
    end, last_empty = 0, -1
    for match in compiled.finditer(data):
        first, last = match.span()
        # RE2 also finds \B and \C between the bytes of a character; there is nothing to replace there.
        if first < end or _inside_character(data, first) or _inside_character(data, last):
            continue
        if first == last:
            if first == last_empty:
                continue
            last_empty = first
        pieces.append(data[end:first])
        pieces += [part if isinstance(part, bytes) else match.group(part) or b"" for part in template]
        end = last
    pieces.append(data[end:])
    return b"".join(pieces)


def _inside_character(data: bytes, place: int) -> bool:
    return place < len(data) and data[place] & 0xC0 == 0x80  # noqa: PLR2004  # a UTF-8 continuation byte


def _settle(once: Callable[[bytes], bytes], data: bytes) -> bytes | None:
    """What repeating ``once`` ends in; None if it grows, turns in circles or takes too long."""
    current = once(data)
    for _ in range(_MAX_PASSES):
        following = once(current)
        if following == current:
            return current
        if len(following) >= len(current):
            return None
        current = following
    return None


register(
    LensKind(
        "replace",
        "1",
        build_replace,
        (Parameter("pattern", str), Parameter("by", str)),
        description="what matches a regular expression (RE2) replaced; \\1 is its first group",
        example='replace("[0-9]{4,}", "N")',
    )
)
