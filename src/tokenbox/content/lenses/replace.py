r"""``replace(pattern, by)`` on google-re2, which searches in linear time.

The replacement is repeated while it makes the text shorter. A text that does not settle is returned
unchanged. So ``replace`` is idempotent, as every lens is. If ``by`` contains no match, one replacement is
enough. A ``by`` that would be replaced for ever (``"a"`` by ``"aa"``) is rejected when the lens is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import re2

from tokenbox.content.lenses.lens import ArgumentProblem, LensKind, Parameter, register

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

# A replacement that halves a run settles a run of a million characters in 20 passes.
_MAX_PASSES = 32
_GROUP = re.compile(r"\\(?:([0-9])|(\\)|(.?))", re.DOTALL)


def build_replace(pattern: str, by: str) -> Callable[[str, Tokenizer], str]:
    """Build ``replace``. Raises :class:`ArgumentProblem` for an invalid pattern or replacement."""
    compiled = _compile(pattern)
    template = _template(by, compiled.groups)

    def once(data: bytes) -> bytes:
        return _replace_once(data, compiled, template)

    if all(isinstance(part, bytes) for part in template):
        literal = b"".join(part for part in template if isinstance(part, bytes))
        again = once(literal)
        if again != literal and len(again) >= len(literal):
            raise ArgumentProblem("it contains a match of the pattern, so this would never end", "by")

    def apply(text: str, _: Tokenizer) -> str:
        data = text.encode("utf-8", "surrogatepass")
        settled = _settle(once, data)
        return text if settled is None or settled == data else settled.decode("utf-8", "surrogatepass")

    return apply


def _compile(pattern: str) -> Any:  # noqa: ANN401  # re2 has no types
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        cause = error.args[0] if error.args else ""
        reason = cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(cause)
        raise ArgumentProblem(f"the regular expression is not valid (RE2: {reason})", "pattern") from error


def _template(by: str, groups: int) -> tuple[bytes | int, ...]:
    r"""Split ``by`` into literal bytes and the group numbers of ``\0`` to ``\9``."""
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


def _replace_once(data: bytes, compiled: Any, template: tuple[bytes | int, ...]) -> bytes:  # noqa: ANN401  # of RE2
    pieces: list[bytes] = []
    end, last_empty = 0, -1
    for match in compiled.finditer(data):
        first, last = match.span()
        # RE2 also matches \B and \C between the bytes of a character. Skip these matches.
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
    return place < len(data) and data[place] & 0xC0 == 0x80  # a UTF-8 continuation byte


def _settle(once: Callable[[bytes], bytes], data: bytes) -> bytes | None:
    """Repeat ``once`` until nothing changes; None if the text grows, cycles or takes too many passes."""
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
        description="replace the matches of a regular expression (RE2); \\1 is its first group",
        example='replace("[0-9]{4,}", "N")',
    )
)
