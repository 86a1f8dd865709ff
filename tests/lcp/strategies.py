"""Hypothesis strategies for blocks and packs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tokenbox.content.block_kinds import (
    AnnotationKind,
    BlockType,
    DataFormat,
    EntryKind,
    FormatHint,
    Lang,
    MediaType,
    ToolStatus,
    TurnRole,
)
from tokenbox.content.blocks import (
    AnnotationBlock,
    Block,
    CodeBlock,
    ConversationBlock,
    DiffBlock,
    DocumentBlock,
    EmbeddingRefBlock,
    ExtensionBlock,
    FileTreeBlock,
    Hunk,
    ImageBlock,
    LineRange,
    StructuredDataBlock,
    ToolResultBlock,
    TreeEntry,
    UnknownBlock,
)

if TYPE_CHECKING:
    from collections.abc import Callable

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Long repetitions, so that compression has an effect.
contents = st.binary(max_size=40) | st.builds(
    lambda part, times: part * times, st.binary(min_size=1, max_size=9), st.integers(1, 90)
)
maybe_texts = st.none() | texts
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)

entries: st.SearchStrategy[TreeEntry] = st.recursive(
    st.builds(TreeEntry, texts, st.sampled_from(EntryKind), u64),
    lambda children: st.builds(
        TreeEntry, texts, st.just(EntryKind.DIRECTORY), u64, st.lists(children, max_size=3).map(tuple)
    ),
    max_leaves=6,
)
hunks = st.builds(Hunk, u32, u32, contents)
MEANINGFUL = {*BlockType, 0xFF}

blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(
        CodeBlock, st.integers(0, 255).map(Lang), texts, contents, st.none() | st.builds(LineRange, u32, u32)
    ),
    st.builds(ConversationBlock, st.sampled_from(TurnRole), contents, maybe_texts),
    st.builds(FileTreeBlock, texts, st.lists(entries, max_size=3).map(tuple)),
    st.builds(ToolResultBlock, texts, st.sampled_from(ToolStatus), contents, maybe_texts),
    st.builds(DocumentBlock, texts, contents, st.sampled_from(FormatHint)),
    st.builds(StructuredDataBlock, st.sampled_from(DataFormat), contents, maybe_texts),
    st.builds(DiffBlock, texts, st.lists(hunks, max_size=3).map(tuple)),
    st.builds(AnnotationBlock, u32, st.sampled_from(AnnotationKind), contents),
    st.builds(EmbeddingRefBlock, contents, contents, texts),
    st.builds(ImageBlock, st.sampled_from(MediaType), texts, contents),
    st.builds(ExtensionBlock, texts, texts, contents),
    st.builds(UnknownBlock, st.sampled_from(sorted(set(range(256)) - MEANINGFUL)), contents),
).flatmap(lambda block: maybe_texts.map(_summarized(block)))

block_lists = st.lists(blocks, min_size=1, max_size=6)


def _summarized(block: Block) -> Callable[[str | None], Block]:
    return lambda summary: replace(block, summary=summary)


@st.composite
def chunked(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Split ``data`` into chunks of one size, or at any places; chunks may be empty."""
    size = draw(st.sampled_from([1, 2, 3, 7, 64, len(data) or 1]))
    if draw(st.booleans()):
        return [data[at : at + size] for at in range(0, len(data), size)]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
