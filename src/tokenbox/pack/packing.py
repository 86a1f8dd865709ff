"""Files become blocks: what each is, how urgent it is, and what may stand for it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import AnnotationBlock, Block, CodeBlock, DocumentBlock, FileTreeBlock
from tokenbox.errors import TokenboxError
from tokenbox.pack.difference import git_diff
from tokenbox.pack.generated import as_text, is_generated, is_vendored
from tokenbox.pack.languages import kind_of
from tokenbox.pack.listing import file_tree, folders_only
from tokenbox.pack.names import shown
from tokenbox.pack.notes import Note, NoteKind
from tokenbox.pack.priorities import Priorities, PriorityRule
from tokenbox.pack.project import ProjectSettings, project_settings
from tokenbox.pack.reading import read_file
from tokenbox.pack.secrets import redact as without_secrets
from tokenbox.pack.summaries import summary_of
from tokenbox.pack.walk import Found, common_folder, resolved, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.content.blocks import DiffBlock
    from tokenbox.pack.languages import Kind

# All of it is in memory several times over.
MAX_TOTAL_BYTES = 512 << 20

# Tokens of the first line of an outline, and of a signature at least; and bytes that no token beats.
_LEAST_OUTLINE = 10
_LEAST_SIGNATURE = 3
_BYTES_PER_TOKEN = 8
_DEFINITION = re.compile(
    rb"^(?:(?P<top>(?P<opens>class|export class)|async def|def|func|fn|pub fn|function|export) "
    rb"|(?: {4}|\t)(?:async def|def) )[^\n]*",
    re.MULTILINE,
)

_XML_FORBIDS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class PackTooLarge(TokenboxError):
    """The files are more than can be packed at once."""

    code = "pack_too_large"


class NothingToPack(TokenboxError):
    """There is no file that can be packed."""

    code = "nothing_to_pack"


@dataclass(frozen=True, slots=True)
class Survey:
    """The files there are, and what the project says of them. Nothing is read yet."""

    found: Found
    settings: ProjectSettings
    named: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file in a pack: ``block`` is its index in the blocks, None if it is only named in the tree."""

    path: str
    size: int
    block: int | None


@dataclass(frozen=True, slots=True)
class Collection:
    """A folder as blocks: the file tree, the differences, the files; then the priorities of all of them.

    ``summary(i)`` makes the summary of block ``i``, which costs time: None where there is none.
    """

    blocks: tuple[Block, ...]
    files: tuple[PackedFile, ...]
    notes: tuple[Note, ...]
    _summaries: tuple[Callable[[], str | None] | None, ...]

    def summary(self, index: int, room: int | None = None) -> str | None:
        """The summary of block ``index``, made anew. ``room``: tokens that are free for it, without markup.

        An outline that counts more by its signatures alone is not made, because parsing is what takes long.
        """
        make = self._summaries[index] if index < len(self._summaries) else None
        if make is None or (room is not None and not outline_may_fit(self.blocks[index], room)):
            return None
        return make()

    def summarized(self) -> tuple[Block, ...]:
        """The blocks with all their summaries, as a ``.bcp`` pack stores them."""
        return tuple(
            block if (summary := self.summary(index)) is None else replace(block, summary=summary)
            for index, block in enumerate(self.blocks)
        )


def survey(paths: Sequence[str | os.PathLike[str]]) -> Survey:
    """What is in ``paths``. Raises ``PathProblem``, ``ProjectProblem`` and ``PriorityProblem``."""
    named = tuple(resolved(os.fspath(path)) for path in paths)
    settings = project_settings(common_folder(named))
    found = walk(named, settings.ignore)
    total = sum(found.files.values())
    if total > MAX_TOTAL_BYTES:
        raise PackTooLarge(
            f"{len(found.files):,} files have {total:,} bytes; at most {MAX_TOTAL_BYTES:,} can be packed. "
            "Name fewer folders, or leave some out with .tokenboxignore.",
            bytes=total,
            limit=MAX_TOTAL_BYTES,
        )
    return Survey(found, settings, named)


def collect(
    surveyed: Survey,
    *,
    rules: Sequence[PriorityRule] = (),
    diff: str | None = None,
    redact: bool = True,
    advance: Callable[[], None] = lambda: None,
    made: Callable[[Block], None] = lambda _: None,
) -> Collection:
    """The files as blocks, in the order of their paths.

    ``rules`` go before the project's own. ``diff``: the revision that the working tree is compared with.
    ``redact``: replace secrets. ``advance`` is called after each file that was read, ``made`` with each block
    that is not an annotation. Raises :class:`NothingToPack`, ``GitProblem``.
    """
    collector = _Collector(Priorities([*surveyed.settings.priorities, *rules]), redact=redact, made=made)
    root = surveyed.found.root
    # Git first: what it cannot do should not take long to say.
    changes = [] if diff is None else git_diff(root, diff, _inside(root, surveyed.named))
    contents: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    for path, size in surveyed.found.files.items():
        content, note = read_file(root, path)
        collector.note(note)
        if content is not None:
            contents[path] = content
        if content is not None or (note is not None and note.kind is NoteKind.LARGE):
            sizes[path] = size if content is None else len(content)
        advance()
    if not sizes and not changes:
        raise NothingToPack(
            "there is no file to pack: the folders are empty, or .gitignore leaves out everything.",
            notes=[note.to_dict() for note in surveyed.found.notes],
        )
    collector.tree(file_tree(sizes))
    for change in changes:
        collector.change(change)
    for path, size in sizes.items():
        collector.file(path, size, contents.pop(path, None))
    return collector.collection(surveyed.found.notes)


class _Collector:
    def __init__(self, priorities: Priorities, *, redact: bool, made: Callable[[Block], None]) -> None:
        self._priorities = priorities
        self._redact = redact
        self._made = made
        self._blocks: list[Block] = []
        self._urgency: list[Priority] = []
        self._summaries: list[Callable[[], str | None] | None] = []
        self._files: list[PackedFile] = []
        self._notes: list[Note] = []

    def note(self, note: Note | None) -> None:
        if note is not None:
            self._notes.append(note)

    def tree(self, block: FileTreeBlock) -> None:
        self._add(block, Priority.HIGH, partial(folders_only, block))

    def change(self, block: DiffBlock) -> None:
        hunks = []
        for hunk in block.hunks:
            lines, notes = self._clean(hunk.lines, block.path)
            # Its lines are not the file's.
            self._notes += [replace(note, line=None, detail=f"{note.detail}, in the diff") for note in notes]
            hunks.append(replace(hunk, lines=lines))
        self._add(replace(block, hunks=tuple(hunks)), Priority.CRITICAL, None)

    def file(self, path: str, size: int, content: bytes | None) -> None:
        name = shown(path)
        known = None if content is None else as_text(content)
        if known is None:
            if content is not None:
                self._notes.append(Note(name, NoteKind.BINARY))
            self._files.append(PackedFile(name, size, None))
            return
        text, encoding = known
        if encoding is not None:
            self._notes.append(Note(name, NoteKind.DECODED, encoding))
        if _XML_FORBIDS.search(text):
            self._notes.append(Note(name, NoteKind.CONTROLS))
        text, notes = self._clean(text, path)
        self._notes += notes
        kind = kind_of(path, text)
        self._files.append(PackedFile(name, size, len(self._blocks)))
        summary = partial(_summary, text, kind.outline)
        self._add(_block(name, kind, text), self._priority(path, text), summary)

    def collection(self, notes: Sequence[Note]) -> Collection:
        annotations = [
            AnnotationBlock.of_priority(index, priority)
            for index, priority in enumerate(self._urgency)
            if priority is not Priority.NORMAL
        ]
        return Collection(
            (*self._blocks, *annotations),
            tuple(self._files),
            tuple(sorted({*self._notes, *notes}, key=lambda note: note.order)),
            tuple(self._summaries),
        )

    def _add(self, block: Block, priority: Priority, summary: Callable[[], str | None] | None) -> None:
        self._blocks.append(block)
        self._made(block)
        self._urgency.append(priority)
        self._summaries.append(summary)

    def _priority(self, path: str, content: bytes) -> Priority:
        asked = self._priorities.asked(path)
        if asked is not None:
            return asked
        if is_vendored(path) or is_generated(path, content):
            return Priority.BACKGROUND
        return self._priorities.default(path)

    def _clean(self, text: bytes, path: str) -> tuple[bytes, list[Note]]:
        return without_secrets(text, path) if self._redact else (text, [])


def _block(name: str, kind: Kind, text: bytes) -> Block:
    if kind.format is not None:
        return DocumentBlock(name, text, kind.format)
    return CodeBlock(kind.lang, name, text)


def outline_may_fit(block: Block, room: int) -> bool:
    """Whether an outline of the block, by its first line and its signatures, may count ``room`` tokens.

    Signatures are told by how a line begins: at its start, or one level in after a class.
    """
    if not isinstance(block, CodeBlock):
        return True
    least, in_class = _LEAST_OUTLINE, False
    if least > room:
        return False
    for match in _DEFINITION.finditer(block.content):
        if match["top"]:
            in_class = match["opens"] is not None
        elif not in_class:
            continue
        least += max(_LEAST_SIGNATURE, len(match[0]) // _BYTES_PER_TOKEN)
        if least > room:
            return False
    return True


def _summary(text: bytes, outline: str | None) -> str | None:
    return summary_of(text.decode(), outline)


def _inside(root: str, named: Sequence[str]) -> list[str]:
    """The paths that were named, relative to the root; none if that is everything."""
    return [] if root in named else [os.path.relpath(path, root) for path in named]
