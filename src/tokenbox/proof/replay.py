"""Replaying a bundle: the same inputs decided anew, and every field of the outcome compared.

The texts come from the bundle, if it was made with texts, or are given again; each is known by its digest, so
it does not matter where it was found. Whatever a bundle says is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from tokenbox.compose.block_record import block_digest
from tokenbox.compose.lay_out import layout
from tokenbox.compose.render_blocks import render_blocks
from tokenbox.content.block_kinds import AnnotationKind, Priority
from tokenbox.content.blocks import AnnotationBlock
from tokenbox.content.message import UndeclaredCost, check_messages
from tokenbox.content.section import Section
from tokenbox.conversation.fit import fit
from tokenbox.conversation.record import as_json
from tokenbox.engine.window import Limits
from tokenbox.errors import TokenboxError, UnknownTokenizer
from tokenbox.lcp import LcpError, decode
from tokenbox.lcp.frames import MAGIC
from tokenbox.proof.bundle import INPUTS, MANIFEST, build
from tokenbox.proof.contents import Contents, differences, read_contents
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.evidence import Kind, Outcome
from tokenbox.proof.manifest import read_manifest, shown
from tokenbox.proof.of_blocks import of_blocks, of_blocks_error
from tokenbox.proof.of_layout import given_budget, of_layout, of_layout_error
from tokenbox.proof.of_window import TOOLS, of_window, of_window_error
from tokenbox.proof.verify import MemoryFiles
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.registry import FILE_PREFIX, get

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from tokenbox.content.blocks import Block
    from tokenbox.proof.contents import Difference
    from tokenbox.proof.evidence import Evidence, Record
    from tokenbox.tokenizers.protocol import Tokenizer

    Remake = Callable[[Contents, "Texts", Tokenizer], Evidence]

# What is not decided by a layout but said of it.
_SAID = frozenset({"schema", "engine", "budget", "template", "model", "override", "parent", "from"})
# Places of blocks in a list with annotations between them; nobody annotates a block a hundred times.
_MAX_INDEX = 5_000_000
_SHOWN = 3


class Texts:
    """Texts and blocks by digest, wherever they are from."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self._texts: dict[str, bytes] = {}
        self._blocks: dict[str, Block] = {}
        self._packs: list[bytes] = []
        for text in texts:
            self.add(text)

    def add(self, text: bytes) -> None:
        """A text; a pack (``.bcp``) is its blocks too, once one is asked for."""
        self._texts[hashlib.sha256(text).hexdigest()] = text
        if text.startswith(MAGIC):
            self._packs.append(text)

    def add_blocks(self, blocks: Iterable[Block]) -> None:
        self._blocks |= {block_digest(block): block for block in blocks}

    def text(self, digest: object) -> str | None:
        data = self._texts.get(digest) if isinstance(digest, str) else None
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    def block(self, digest: object) -> Block | None:
        for pack in self._packs:
            # A text may only begin like a pack.
            with suppress(LcpError):
                self.add_blocks(decode(pack).blocks)
        self._packs = []
        return self._blocks.get(digest) if isinstance(digest, str) else None


@dataclass(frozen=True, slots=True)
class Replay:
    """What came out otherwise: nothing, if the bundle holds. ``left`` is recorded, ``right`` came out now."""

    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        return not self.differences


def replay(
    contents: Contents,
    texts: Texts,
    tokenizer: Tokenizer | None = None,
    others: Mapping[Kind, Remake] | None = None,
) -> Replay:
    """Decide again what the bundle says was decided.

    ``tokenizer``: in place of the one that the bundle names, such as one of your own. ``others``: who decides
    what is not a layout, such as ``tokenbox.ctx.replay.REMAKES``. Raises
    :class:`ReplayImpossible` where a text or the tokenizer is missing, or nobody here can decide it.
    """
    remake = {**REMAKES, **(others or {})}.get(contents.manifest.kind)
    if remake is None:
        raise ReplayImpossible(
            f"a bundle of kind {contents.manifest.kind} is not replayed here.",
            kind=contents.manifest.kind.value,
        )
    counter = recorded_tokenizer(contents) if tokenizer is None else tokenizer
    return compared(contents, remake(contents, texts, _as_exact_as_recorded(contents, counter)))


def compared(contents: Contents, evidence: Evidence) -> Replay:
    """What a bundle says beside what was decided again."""
    bundle = build(evidence)
    again = read_contents(MemoryFiles(bundle.files), read_manifest(bundle.files[MANIFEST], bundle.id))
    return Replay(tuple(differences(contents, again, besides=_SAID)))


def recorded_tokenizer(contents: Contents) -> Tokenizer:
    """The tokenizer that the bundle names. No file is opened because a bundle says so."""
    name = str(cast("Record", contents.manifest.predicate["tokenizer"])["name"])
    try:
        if not name.startswith(FILE_PREFIX):
            return get(name)
    except UnknownTokenizer:
        pass
    raise ReplayImpossible(
        f"the tokenizer that counted is not known here: {name[:100]!r}. Give it with --tokenizer.",
        tokenizer=name[:100],
    )


def _as_exact_as_recorded(contents: Contents, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer, an estimate where it was one: right for other models, not for the one in question."""
    recorded = cast("Record", contents.manifest.predicate["tokenizer"])
    same = tokenizer.identity.fingerprint == recorded["fingerprint"]
    estimate = same and recorded["exact"] is False and tokenizer.identity.exact
    return as_estimate(tokenizer) if estimate else tokenizer


def remake_layout(contents: Contents, texts: Texts, tokenizer: Tokenizer) -> Evidence:
    """The evidence of laying the recorded sections out again."""
    sections = recorded_sections(contents, texts)
    options, budget = _options(contents), _budget(contents)
    separator, reclaim = options.get("separator"), options.get("reclaim")
    if not isinstance(separator, str) or not isinstance(reclaim, bool) or budget is None:
        raise BundleInvalid("is not that of a layout.", file=MANIFEST, field="predicate.options")
    try:
        return of_layout(layout(sections, budget, tokenizer, separator, reclaim=reclaim))
    except TokenboxError as error:
        return of_layout_error(error, sections, budget, tokenizer.identity, separator, reclaim=reclaim)


def remake_blocks(contents: Contents, texts: Texts, tokenizer: Tokenizer) -> Evidence:
    """The evidence of rendering the recorded blocks again, with the summaries that were made then."""
    made = {name for summary in contents.summaries for name in cast("list[object]", summary["of"])}
    blocks = recorded_blocks(contents, texts)
    summaries: dict[int, str | None] = {}
    for record in contents.inputs:
        if record["id"] in made:
            index = _index(record)
            summaries[index], blocks[index] = blocks[index].summary, replace(blocks[index], summary=None)
    options, budget = _options(contents), _budget(contents)
    mode, verbosity, soft = (options.get(name) for name in ("mode", "verbosity", "soft"))
    if not isinstance(mode, str) or not isinstance(verbosity, str) or not isinstance(soft, bool):
        raise BundleInvalid("is not that of blocks.", file=MANIFEST, field="predicate.options")
    try:
        result = render_blocks(
            blocks,
            tokenizer,
            budget,
            mode,
            verbosity=verbosity,
            soft=soft,
            summarize=lambda index, _room: summaries.get(index),
        )
    except TokenboxError as error:
        return of_blocks_error(error, blocks, given_budget(budget), tokenizer.identity, options)
    return of_blocks(result)


def remake_window(contents: Contents, texts: Texts, tokenizer: Tokenizer) -> Evidence:
    """The evidence of fitting the recorded messages again; ``tokenizer`` may be a ``ChatFormat``."""
    found = [(record, texts.text(record["digest"])) for record in contents.inputs]
    missing = [str(record["id"]) for record, text in found if text is None]
    if missing:
        raise missing_texts(missing, "messages")
    values = {
        kind: [_json(str(text), r) for r, text in found if r["kind"] == kind] for kind in ("message", TOOLS)
    }
    messages = check_messages(values["message"])
    tools = values[TOOLS][0] if values[TOOLS] else None
    options, budget = _options(contents), _budget(contents)
    limits = _window_limits(options, budget)
    pinned = cast("Collection[int]", options.get("pinned"))
    try:
        return of_window(
            fit(
                messages,
                budget,
                tokenizer,
                tools=tools,
                max_turns=limits.max_turns,
                low_water=Fraction(limits.mark, budget) if budget else 1,
                pinned=pinned,
            )
        )
    except UndeclaredCost as error:
        if contents.manifest.predicate["outcome"] != Outcome.of(error).to_dict():
            raise ReplayImpossible(
                "what an image or a file costs was said by media_tokens, which is not in the bundle. "
                'Declare it in the part, as "tokens".'
            ) from None
        problem: TokenboxError = error
    except TokenboxError as error:
        problem = error
    text = as_json(tools) if tools else None
    return of_window_error(
        problem, messages, limits, tokenizer.identity, pinned=frozenset(pinned), tools_text=text
    )


def _json(text: str, record: Record) -> Any:  # noqa: ANN401  # JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BundleInvalid("is no JSON.", file=INPUTS, field=str(record["id"])) from None


def _window_limits(options: Record, budget: int | None) -> Limits:
    turns, mark, pinned = (options.get(name) for name in ("max_turns", "low_water", "pinned"))
    if (
        not (turns is None or type(turns) is int)
        or type(mark) is not int
        or not 0 <= mark <= (budget or 0)
        or not isinstance(pinned, list)
    ):
        raise BundleInvalid("is not that of a window.", file=MANIFEST, field="predicate.options")
    return Limits(turns, budget, mark)


REMAKES: Mapping[Kind, Remake] = {
    Kind.LAYOUT: remake_layout,
    Kind.BLOCKS: remake_blocks,
    Kind.WINDOW: remake_window,
}

# Stands where something was that is not rendered: an annotation, or a block of a type that was not asked for.
_GAP = AnnotationBlock(0, AnnotationKind.TAG, b"")


def recorded_sections(contents: Contents, texts: Texts) -> list[Section]:
    """The sections that the bundle names by digest. Raises :class:`ReplayImpossible` where one is missing."""
    missing = [
        str(record["id"])
        for record in contents.inputs
        if any(texts.text(digest) is None for digest in _text_digests(record))
    ]
    if missing:
        raise missing_texts(missing, "the texts of sections")
    return [_section(record, texts) for record in contents.inputs]


def recorded_blocks(contents: Contents, texts: Texts) -> list[Block]:
    """The blocks that the bundle names by digest, each in its place, then their priorities.

    Raises :class:`ReplayImpossible` where one is missing.
    """
    found = {_index(record): texts.block(record["digest"]) for record in contents.inputs}
    missing = [str(record["id"]) for record in contents.inputs if found[_index(record)] is None]
    if missing:
        raise missing_texts(missing, "blocks")
    blocks: list[Block] = [_GAP] * (max(found, default=-1) + 1)
    for index, block in found.items():
        blocks[index] = cast("Block", block)
    return blocks + [
        AnnotationBlock.of_priority(_index(record), _priority(record)) for record in contents.inputs
    ]


def _text_digests(record: Record) -> list[object]:
    fields = cast("Record", record["fields"])
    extra = fields.get("extra")
    return [fields.get("content"), *(extra if isinstance(extra, list) else [None])]


def _section(record: Record, texts: Texts) -> Section:
    fields = cast("Record", record["fields"])
    content, *extra = (texts.text(digest) for digest in _text_digests(record))
    options = ("priority", "min", "grow", "shrink", "strategy", "role", "keep")
    return Section.of(
        {
            "id": record["id"],
            "content": content,
            "extra": extra,
            **{name: fields[name] for name in options if name in fields},
        }
    )


def _options(contents: Contents) -> Record:
    return cast("Record", contents.manifest.predicate["options"])


def _budget(contents: Contents) -> int | None:
    tokens = cast("Mapping[str, Mapping[str, object]]", contents.manifest.predicate["budget"])["tokens"][
        "value"
    ]
    if isinstance(tokens, str):
        raise BundleInvalid("is no number of tokens.", file=MANIFEST, field="predicate.budget.tokens.value")
    return cast("int | None", tokens)


def _index(record: Record) -> int:
    index = cast("Record", record["fields"]).get("index")
    if not isinstance(index, int) or index is True or not 0 <= index <= _MAX_INDEX:
        raise BundleInvalid(
            f"has the index {shown(index)}, which is none.", file=INPUTS, field=str(record["id"])
        )
    return index


def _priority(record: Record) -> Priority:
    name = cast("Record", record["fields"]).get("priority")
    for priority in Priority:
        if priority.display == name:
            return priority
    raise BundleInvalid(f"has no priority {shown(name)}.", file=INPUTS, field=str(record["id"]))


def missing_texts(names: list[str], what: str) -> ReplayImpossible:
    """The error for texts that are nowhere."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ReplayImpossible(
        f"{what} are missing: {', '.join(names[:_SHOWN])}{more}. The bundle has them not; give "
        "them again with --from, or make bundles with --proof-texts.",
        missing=names,
    )
