"""Count chunks: everything that would be sent as a :class:`Count`, and each chunk alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.compose.blocks import BlockLayout, render_blocks
from tokenbox.compose.bound import count_of_text
from tokenbox.compose.messages import count_of_messages
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import By, Count, RequestCounter, count_by, is_request_counter, with_unseen
from tokenbox.conversation.counters import tokenizer_of
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.pieces import open_session
from tokenbox.errors import InvalidText
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.errors import InvalidChunks
from tokenbox.policy.records import Estimate
from tokenbox.tokenizers.protocol import Tokenizer

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.content.request import Request

ChunkCounter = Tokenizer | RequestCounter
"""The counter of chunks: of their texts, or of the request that they are sent as."""


def estimate(request: Chunks, counter: ChunkCounter, model: str | None = None) -> Estimate:
    """Count the request, as a whole and each chunk alone."""
    count = count_chunks(request, counter)
    return Estimate(count, tuple(sizes_of(request, counter)), counter.identity, model, request.ids)


def count_chunks(request: Chunks, counter: ChunkCounter) -> Count:
    """Count everything that would be sent, with separators, markup or chat format."""
    if request.kind is ChunkKind.MESSAGES:
        return count_messages(request.request(request.items), counter)
    if request.kind is ChunkKind.SECTIONS:
        total, count = counted_sections(request, range(len(request.items)), request.texts, counter)
        if count is not None:
            return count
        tokenizer = text_counter(counter)
        # An exact count is its own bound.
        text = "" if tokenizer.identity.exact else request.separator.join(filter(None, request.texts))
        return count_of_text(text, total, tokenizer)
    tokenizer = text_counter(counter)
    shown = rendered(request, tokenizer) if request.items else None
    text, total = ("", 0) if shown is None else (shown.text, shown.total)
    return count_of_text(text, total, tokenizer)


def counted_sections(
    request: Chunks, order: Sequence[int], texts: Sequence[str], counter: ChunkCounter
) -> tuple[int, Count | None]:
    """Return the tokens of the sections at ``order`` with these texts, and their count as messages.

    The count is None if they are one text. Its upper bound is left to the caller: it reads the text again.
    """
    if not is_request_counter(counter):
        try:
            return COUNTS.whole(counter, texts, request.separator), None
        except InvalidText:
            _ = request.sections  # raises the error that names the chunk
            raise
    section_tokenizer(request, counter)  # raises
    counted = count_of_messages([request.sections[i] for i in order], texts, counter)
    count = NOTHING if counted is None else counted
    return count.total, count


NOTHING: Final = Count(0, exact=True, at_most=0, by=By.TEXT)
"""The count if nothing is sent."""


def section_tokenizer(request: Chunks, counter: ChunkCounter) -> Tokenizer:
    """Return the tokenizer of the sections' own texts. Raises :class:`InvalidChunks`."""
    if is_request_counter(counter) and request.have_roles:
        return tokenizer_of(counter)
    return text_counter(counter)


def count_messages(sent: Request, counter: ChunkCounter) -> Count:
    """Count a request of messages, without an upper bound if it refers to input that the server keeps."""
    return with_unseen(count_by(request_counter(counter), sent), sent)


def sizes_of(request: Chunks, counter: ChunkCounter) -> list[int]:
    """Return the count of each chunk alone; 0 for an annotation, which is never sent.

    A section is its text, also if it is sent as a message.
    """
    if request.kind is ChunkKind.MESSAGES:
        return sizes_of_messages(counter, request.items)
    if request.kind is ChunkKind.SECTIONS:
        return COUNTS.each(section_tokenizer(request, counter), request.texts)
    tokenizer = text_counter(counter)
    if not request.items:
        return []
    sizes = {block.index: block.size for block in rendered(request, tokenizer).blocks}
    return [sizes.get(i, 0) for i in range(len(request.items))]


def sizes_of_messages(counter: ChunkCounter, items: Sequence[Item]) -> list[int]:
    """Return the tokens that each item adds to a request."""
    session = open_session(request_counter(counter))
    return [session.cost(item) for item in items]


def rendered(request: Chunks, tokenizer: Tokenizer) -> BlockLayout:
    return render_blocks(request.items, tokenizer, verbosity="full")


def request_counter(counter: ChunkCounter) -> RequestCounter:
    """Return a counter of requests: a tokenizer counts with the markers of the common formats."""
    return counter if is_request_counter(counter) else MarkersFormat(counter)


def text_counter(counter: ChunkCounter) -> Tokenizer:
    """Return a counter of texts. Raises :class:`InvalidChunks` for a chat format."""
    if is_request_counter(counter):
        raise InvalidChunks(
            "a chat format counts messages, not texts or blocks. Give messages, give every section a role, "
            "or give a tokenizer."
        )
    return counter
