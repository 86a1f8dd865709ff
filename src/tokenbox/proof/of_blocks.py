"""The records of rendered blocks in a bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tokenbox.compose.blocks import ALGORITHM, block_digest, render_blocks
from tokenbox.content.block_kinds import AnnotationKind, Priority
from tokenbox.content.blocks import (
    AnnotationBlock,
    DiffBlock,
    FileTreeBlock,
    ImageBlock,
    PayloadBlock,
    resolve_priorities,
)
from tokenbox.errors import InvalidBudget, UnknownTokenizer, shown
from tokenbox.lcp import encode
from tokenbox.proof.bundle import INPUTS
from tokenbox.proof.calls import RecordedFunction, missing_texts
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.evidence import EvidenceKind, Input, Summary
from tokenbox.proof.manifest import bracketed
from tokenbox.render.templates import block_description, block_label

if TYPE_CHECKING:
    from tokenbox.compose.blocks import BlockLayout
    from tokenbox.content.blocks import Block
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.proof.calls import Arguments, Recorded
    from tokenbox.proof.evidence import Record

# The prefix of the ids for the options of a folder pack and for its files with their worth. No block has it.
# A replay renders the blocks again, but does not choose them again, because it does not have the folder.
CHOICE = "choice"
# The limit of a block's index, which counts the annotations between blocks.
_MAX_INDEX = 5_000_000
# A placeholder for what is not rendered: an annotation, or a block of an excluded type.
_GAP = AnnotationBlock(0, AnnotationKind.TAG, b"")


def block_names(blocks: Iterable[Block]) -> list[str]:
    """Return the name of each block in a bundle: its label and path, title or name, numbered if not unique.

    The alternative text of an image is content, so it is not part of the name.
    """
    names = [
        block_label(block)
        if isinstance(block, ImageBlock)
        else f"{block_label(block)} {block_description(block)}"
        for block in blocks
    ]
    total, seen = Counter(names), Counter[str]()
    for place, name in enumerate(names):
        if total[name] > 1:
            seen[name] += 1
            names[place] = f"{name} #{seen[name]}"
    return names


def block_input(block: Block, name: str, index: int, priority: Priority, tokens: int | None) -> Input:
    """Return the record of a block. ``index``: its place in the given list, including annotations."""
    return Input(
        id=name,
        kind="block",
        digest=block_digest(block),
        size=_size(block),
        tokens=tokens,
        source=getattr(block, "path", None),
        fields={"index": index, "type": block.type_name, "priority": priority.display},
        texts=(partial(encode, [block]),),
    )


def recorded_blocks(recorded: Recorded) -> list[Block]:
    """Return the blocks that the bundle names by digest, each at its index, then their priorities.

    Raises ``ReplayImpossible`` if one is missing.
    """
    found = {_index(record): recorded.texts.block(record["digest"]) for record in recorded.inputs}
    missing = [str(record["id"]) for record in recorded.inputs if found[_index(record)] is None]
    if missing:
        raise missing_texts(missing, "blocks")
    blocks: list[Block] = [_GAP] * (max(found, default=-1) + 1)
    for index, block in found.items():
        blocks[index] = cast("Block", block)
    return blocks + [
        AnnotationBlock.of_priority(_index(record), _priority(record)) for record in recorded.inputs
    ]


def _size(block: Block) -> int:
    """Return the size of the content in bytes."""
    if isinstance(block, PayloadBlock):
        return len(block.payload)
    if isinstance(block, DiffBlock):
        return sum(len(hunk.lines) for hunk in block.hunks)
    if isinstance(block, FileTreeBlock):
        return len(encode([block]))
    return 0


def _shown(arguments: Arguments, result: BlockLayout | None) -> tuple[list[int], list[str]]:
    """Return the places of the blocks that are inputs, and their names."""
    blocks: Sequence[Block] = arguments["blocks"]
    places = (
        [place for place, block in enumerate(blocks) if not isinstance(block, AnnotationBlock)]
        if result is None
        else [found.index for found in result.blocks]
    )
    return places, block_names(blocks[place] for place in places)


def _inputs(arguments: Arguments, result: BlockLayout | None) -> Iterator[Input]:
    """Yield the blocks as they were given, without the summaries made during the call."""
    blocks = arguments["blocks"]
    priorities = resolve_priorities(blocks)
    sizes = {} if result is None else {found.index: found.base_size for found in result.blocks}
    for place, name in zip(*_shown(arguments, result), strict=True):
        yield block_input(blocks[place], name, place, priorities[place], sizes.get(place))


def _result(arguments: Arguments, result: BlockLayout) -> dict[str, Any]:
    names = dict(zip(*_shown(arguments, result), strict=True))
    made = set(result.summarized)
    return {
        "decisions": tuple(_decisions(result, names)),
        "emitted": result.pieces,
        "digest": result.digest,
        "figures": {"total": result.total, "over": result.over, "pricing": result.pricing},
        "summaries": tuple(
            Summary((names[found.index],), block.summary)
            for block, found in zip(result.inputs, result.blocks, strict=True)
            if found.index in made and block.summary is not None
        ),
    }


def _decisions(result: BlockLayout, names: dict[int, str]) -> Iterator[Record]:
    """Yield the decision on each block and each merged priority, then the steps in order."""
    for block in result.blocks:
        yield {
            "id": names[block.index],
            "decision": block.form.value,
            "base_size": block.base_size,
            "size": block.size,
        }
    for line in result.merged:
        yield {"id": f"the {line.priority.display} blocks", "decision": "line", **line.to_dict()}
    for step in result.log:
        block = result.blocks[step.block]
        yield {
            "id": names[block.index],
            "action": step.form.value,
            "after": step.size,
            "why": step.why(block.priority.display),
        }


def _critical(arguments: Arguments, error: ContextCriticalOverflow) -> Iterable[tuple[str, int]]:
    """Return the critical blocks by their names in the bundle: the names in the error may contain text."""
    places, names = _shown(arguments, None)
    priorities = resolve_priorities(arguments["blocks"])
    critical = [
        name for place, name in zip(places, names, strict=True) if priorities[place] is Priority.CRITICAL
    ]
    return zip(critical, (size for _, size in error.critical), strict=False)


def _read(recorded: Recorded) -> dict[str, Any]:
    """Return the arguments, with the recorded summaries instead of a function that makes them."""
    blocks = recorded_blocks(recorded)
    made = {name: record["digest"] for record in recorded.contents.summaries for name in _names(record)}
    digests = {_index(record): made[name] for record in recorded.inputs if (name := record["id"]) in made}
    texts = recorded.texts_of(
        [(f"summary of {index}", digest) for index, digest in digests.items()], "summaries"
    )
    summaries = dict(zip(digests, texts, strict=True))
    return {
        "blocks": [
            replace(block, summary=None) if place in summaries else block
            for place, block in enumerate(blocks)
        ],
        "budget": recorded.figure("tokens"),
        "summarize": None
        if recorded.arguments.get("summarize") is None
        else lambda index, _room: summaries.get(index),
    }


def _names(record: Record) -> list[str]:
    return [name for name in cast("list[object]", record["of"]) if isinstance(name, str)]


def _index(record: Record) -> int:
    index = cast("Record", record["fields"]).get("index")
    if not isinstance(index, int) or index is True or not 0 <= index <= _MAX_INDEX:
        raise BundleInvalid(f"has the index {shown(index)}.", file=INPUTS, field=str(record["id"]))
    return index


def _priority(record: Record) -> Priority:
    name = cast("Record", record["fields"]).get("priority")
    for priority in Priority:
        if priority.display == name:
            return priority
    raise BundleInvalid(f"has the priority {shown(name)}.", file=INPUTS, field=str(record["id"]))


def _chosen(recorded: Recorded) -> frozenset[str]:
    """Return the fields with the options of a folder pack, and with its files and their worth."""
    ids = [str(record.get("id")) for record in recorded.contents.decisions]
    chosen = (id_ for id_ in ids if id_ == CHOICE or id_.startswith(f"{CHOICE} "))
    return frozenset(f"decisions[{bracketed(id_)}]" for id_ in chosen)


RENDER_BLOCKS = RecordedFunction(
    name="render_blocks",
    kind=EvidenceKind.BLOCKS,
    algorithm=ALGORITHM,
    call=render_blocks,
    apart=frozenset({"blocks", "budget", "tokenizer", "cache"}),
    inputs=_inputs,
    result=_result,
    read=_read,
    critical=_critical,
    undecided=(InvalidBudget, UnknownTokenizer),
    taken=_chosen,
)
