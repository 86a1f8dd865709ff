"""The chunks of a request as a strategy sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.compose.blocks import render_blocks
from tokenbox.compose.requests import count_by, is_request_counter
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import AnnotationBlock, resolve_priorities
from tokenbox.content.message import Role
from tokenbox.content.request import read_request
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.estimate import ChunkCounter, section_tokenizer, sizes_of, text_counter
from tokenbox.policy.strategies import Candidate

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer


class StrategyInput(NamedTuple):
    """The candidates, their places in the request, and a function that counts a text."""

    candidates: Sequence[Candidate]
    places: Sequence[int]
    count: Callable[[str], int]


def strategy_input(request: Chunks, counter: ChunkCounter) -> StrategyInput:
    if request.kind is ChunkKind.BLOCKS:
        tokenizer = text_counter(counter)
        # Without annotations, which are about other blocks.
        places = [i for i, block in enumerate(request.items) if not isinstance(block, AnnotationBlock)]
        return StrategyInput(_blocks(request, places, tokenizer), places, tokenizer.count)
    everything = range(len(request.items))
    if request.kind is ChunkKind.MESSAGES:
        return StrategyInput(_messages(request, counter), everything, _text_count(counter))
    return StrategyInput(sections_of(request, counter), everything, section_tokenizer(request, counter).count)


def sections_of(request: Chunks, counter: ChunkCounter) -> list[Candidate]:
    return [
        Candidate(i, one.id, one.content, size, one.priority, one.shrink == 0, one.role)
        for i, (one, size) in enumerate(zip(request.sections, sizes_of(request, counter), strict=True))
    ]


def _blocks(request: Chunks, places: Sequence[int], tokenizer: Tokenizer) -> list[Candidate]:
    priorities = resolve_priorities(request.items)
    rendered = [render_blocks([request.items[i]], tokenizer, verbosity="full") for i in places]
    return [
        Candidate(
            index,
            request.ids[i],
            alone.text,
            alone.total,
            int(priorities[i]),
            priorities[i] is Priority.CRITICAL,
        )
        for index, (i, alone) in enumerate(zip(places, rendered, strict=True))
    ]


def _messages(request: Chunks, counter: ChunkCounter) -> list[Candidate]:
    """Return the messages. Those of the system and the last of the user are critical."""
    last = max((i for i, item in enumerate(request.items) if item.role is Role.USER), default=-1)
    return [
        Candidate(i, name, item.text, size, None, i == last or item.is_system, item.role.value)
        for i, (name, item, size) in enumerate(
            zip(request.ids, request.items, sizes_of(request, counter), strict=True)
        )
    ]


def _text_count(counter: ChunkCounter) -> Callable[[str], int]:
    """Return a function that counts a text; for a chat format, as a user's message."""
    if not is_request_counter(counter):
        return counter.count
    return lambda text: count_by(counter, read_request([{"role": "user", "content": text}])).total
