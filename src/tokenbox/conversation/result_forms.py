"""Shorter forms of results: one line each, or their head and tail.

The full text of a shortened result is stored under its handle, the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.lenses.lines import ends_tokens
from tokenbox.content.results import cuttable_texts, media_in_words, results, with_texts, without_media
from tokenbox.engine.reduction import common_cap

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.content.message import Message
    from tokenbox.tokenizers.protocol import Tokenizer

HANDLE: Final = 12
"""The number of digits of a handle that are shown. Any unambiguous prefix is accepted."""
# The maximum number of attempts to cut a result to a size.
_CUTS: Final = 4


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item as it is shown: the caller's value or a copy with shortened results, and the parsed item."""

    value: Any
    item: Item

    def with_texts(self, texts: Sequence[str], bare: Container[int] = ()) -> ShownItem:
        """Return the item with other texts of its results. Those in ``bare`` lose their images and files."""
        return ShownItem(*with_texts(self.value, self.item, texts, bare))


@dataclass(frozen=True, slots=True)
class ResultForms:
    """The forms of results, with their marks of omitted text.

    ``handles``: marks include the handle. ``names``: of the tools, by the ids of their calls.
    """

    tokenizer: Tokenizer
    handles: bool
    names: Mapping[str | None, str]

    def masked(self, given: ShownItem) -> ShownItem:
        """Return the item with one line in place of each result, or of its images and files.

        A result that is no longer than its line stays.
        """
        found = results(given.item)
        if found:
            return given.with_texts(list(map(self.line_or_text, found)), range(len(found)))
        return ShownItem(*without_media(given.value))

    def line_or_text(self, result: Message) -> str:
        size = self.tokenizer.count(result.text)
        line = self._mark(result, size)
        return line if result.media or self.tokenizer.count(line) < size else result.text

    def cut(
        self,
        given: ShownItem,
        size: int,
        at_most: int,
        size_of: Callable[[ShownItem], int],
        *,
        media: bool,
    ) -> tuple[ShownItem, int] | None:
        """Return the item, of ``size`` tokens, cut to ``at_most``, with its size; None if it has no room.

        ``media``: with its images and files; else one line says which were left out.
        """
        found, bare = results(given.item), range(0)
        texts = cuttable_texts(given.item)
        lines = [""] * len(texts)
        if found and not media:
            lines = list(map(self._line, found))
            bare = range(len(found))
            size = size_of(given.with_texts(_joined(texts, lines), bare))
        sizes = [self.tokenizer.count(text) for text in texts]
        room = at_most - (size - sum(sizes))
        for _ in range(_CUTS):
            cap = common_cap(sorted(sizes), room)
            if room < 0 or cap <= 0 < max(sizes, default=1):
                return None
            ends = [ends_tokens(text, cap, self.tokenizer, self.handle(text)) for text in texts]
            if any(text != end and text.startswith(end) for text, end in zip(texts, ends, strict=True)):
                return None  # there is no room for the line that says what is missing
            form = given.with_texts(_joined(ends, lines), bare)
            now = size_of(form)
            if now <= at_most:
                return form, now
            room -= now - at_most
        return None

    def _mark(self, result: Message, tokens: int) -> str:
        """Return the line in place of a result with a text of ``tokens`` tokens."""
        call, text, media = result.tool_call_id or result.name, result.text, media_in_words(result)
        about = "" if self.tokenizer.identity.exact else "~"
        name = self.names.get(call, call) or "a tool"
        size = [f"{about}{tokens:,} tokens"] if text or not media else []
        handle = self.handle(text) if size else ""
        back = f"; expand {handle}" if handle else ""
        return f"[result of {', '.join([name, *size, *filter(None, [media])])}, left out{back}]"

    def handle(self, text: str) -> str:
        """Return the handle that a mark shows; empty if marks have none."""
        return handle_of(text)[:HANDLE] if self.handles else ""

    def _line(self, result: Message) -> str:
        """Return the line for the images and files that leave a result whose text stays."""
        media = media_in_words(result)
        return f"\n[{media}, left out]" if media and result.text else self._mark(result, 0) if media else ""


def handle_of(text: str) -> str:
    """Return the handle of an omitted text: the SHA-256 (hex) of its UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _joined(texts: Sequence[str], lines: Sequence[str]) -> list[str]:
    return [f"{text}{line}".strip("\n") if line else text for text, line in zip(texts, lines, strict=True)]
