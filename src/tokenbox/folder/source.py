"""The files of a folder as text: read, decoded, without secrets, and what each is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenbox.content.blocks import CodeBlock, DiffBlock, DocumentBlock
from tokenbox.errors import TokenboxError
from tokenbox.folder.difference import git_diff
from tokenbox.folder.generated import as_text
from tokenbox.folder.history import latest_changes
from tokenbox.folder.languages import kind_of
from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.priorities import PriorityRules, matcher
from tokenbox.folder.priors import Priors
from tokenbox.folder.project import ProjectSettings, project_settings
from tokenbox.folder.reading import MAX_BYTES, read_file
from tokenbox.folder.secrets import redact as without_secrets
from tokenbox.folder.stripping import stripped
from tokenbox.folder.walk import Found, common_folder, resolved, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tokenbox.content.block_kinds import Priority
    from tokenbox.folder.languages import FileKind
    from tokenbox.folder.priorities import PriorityRule
    from tokenbox.folder.priors import Prior
    from tokenbox.folder.stripping import Strip

# All of it is in memory. What is never read does not count.
MAX_TOTAL_BYTES = 512 << 20

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
class File:
    """A file. ``text`` is UTF-8, without secrets; None for what is only named in the tree.

    ``path`` is as the file system has it, ``name`` as it is shown. ``asked``: the class that a rule gave it.
    """

    path: str
    name: str
    size: int
    text: bytes | None
    kind: FileKind
    prior: Prior
    asked: Priority | None = None

    def block(self) -> CodeBlock | DocumentBlock:
        """The whole file as a block."""
        assert self.text is not None  # noqa: S101  # the caller has seen to it
        if self.kind.format is not None:
            return DocumentBlock(self.name, self.text, self.kind.format)
        return CodeBlock(self.kind.lang, self.name, self.text)


@dataclass(frozen=True, slots=True)
class Source:
    """What there is to pack: the files in the order of their paths, the changes, and what was left out."""

    root: str
    files: tuple[File, ...]
    changes: tuple[DiffBlock, ...]
    notes: tuple[Note, ...]
    log: str = ""
    """The latest commits, if they are asked for."""

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return sum(len(file.text) for file in self.files if file.text is not None)


def survey(paths: Sequence[str | os.PathLike[str]], within: str | None = None) -> Survey:
    """What is in ``paths``. Nothing above the folder ``within`` is read, not even the project's rules.

    Raises ``PathProblem``, ``ProjectProblem`` and ``PriorityProblem``.
    """
    named = tuple(resolved(os.fspath(path)) for path in paths)
    settings = project_settings(common_folder(named), within)
    found = walk(named, settings.ignore, within)
    total = sum(size for size in found.files.values() if size <= MAX_BYTES)
    if total > MAX_TOTAL_BYTES:
        raise PackTooLarge(
            f"{len(found.files):,} files have {total:,} bytes; at most {MAX_TOTAL_BYTES:,} can be packed. "
            "Name fewer folders, or leave some out with .tokenboxignore.",
            bytes=total,
            limit=MAX_TOTAL_BYTES,
        )
    return Survey(found, settings, named)


def read(  # noqa: PLR0913  # each is an option of its own
    surveyed: Survey,
    *,
    rules: Sequence[PriorityRule] = (),
    diff: str | None = None,
    redact: bool = True,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    strip: Collection[Strip] = (),
    log: int = 0,
    advance: Callable[[], None] = lambda: None,
    seen: Callable[[str], None] = lambda _: None,
) -> Source:
    """Read the files of a survey.

    ``rules`` go before the project's own. ``diff``: the revision that the working tree is compared with.
    ``redact``: replace secrets. ``include`` and ``exclude``: patterns as in .gitignore of the only files
    that are packed, and of files that are not. ``strip``: what is left out of files. ``log``: how many of the
    latest commits are shown. ``advance`` is called after each file that was read, ``seen``
    with the text of each. Raises :class:`NothingToPack`, ``GitProblem``.
    """
    root = surveyed.found.root
    # Git first: what it cannot do should not take long to say.
    changes = [] if diff is None else git_diff(root, diff, _inside(root, surveyed.named))
    commits = latest_changes(root, log) if log else ""
    reader = _Reader(PriorityRules([*surveyed.settings.priorities, *rules]), redact=redact, strip=strip)
    files = []
    for path, size in _wanted(surveyed.found.files, include, exclude).items():
        content, note = read_file(root, path)
        if note is not None:
            reader.notes.append(note)
        if content is not None or (note is not None and note.kind is NoteKind.LARGE):
            file = reader.file(path, size if content is None else len(content), content)
            if file.text is not None:
                seen(file.text.decode())
            files.append(file)
        advance()
    if not files and not changes:
        raise NothingToPack(
            f"there is no file to pack: {_why_nothing(surveyed.found, reader.notes, include, exclude)}.",
            notes=[note.to_dict() for note in surveyed.found.notes],
        )
    cleaned = tuple(map(reader.change, changes))
    notes = sorted({*reader.notes, *surveyed.found.notes}, key=lambda note: note.order)
    return Source(root, tuple(files), cleaned, tuple(notes), reader.commits(commits))


def _why_nothing(found: Found, read: Sequence[Note], include: Sequence[str], exclude: Sequence[str]) -> str:
    """The patterns that leave out everything, or what the first note says, or what it is most often."""
    if found.files and not _wanted(found.files, include, exclude):
        return _no_match(len(found.files), include, exclude)
    notes = [*found.notes, *read]
    if not notes:
        return "the folders are empty, or .gitignore leaves out everything"
    more = f", and {len(notes) - 1:,} more such" if len(notes) > 1 else ""
    return f"{notes[0]}{more}"


def _no_match(number: int, include: Sequence[str], exclude: Sequence[str]) -> str:
    given = " ".join([*(f"--include {glob}" for glob in include), *(f"--exclude {glob}" for glob in exclude)])
    files = "the only file" if number == 1 else f"all {number:,} files"
    ending = next((glob for glob in include if re.fullmatch(r"\.?\w{1,8}", glob)), None)
    hint = "" if ending is None else f". Files with an ending are --include '*.{ending.removeprefix('.')}'"
    return f"{given} leaves out {files}{hint}"


def _wanted(files: dict[str, int], include: Sequence[str], exclude: Sequence[str]) -> dict[str, int]:
    """The files that match a pattern of ``include``, if there is one, and none of ``exclude``."""
    if not include and not exclude:
        return files
    wanted, unwanted = matcher(include), matcher(exclude)
    return {
        path: size
        for path, size in files.items()
        if (not include or wanted.fullmatch(os.fsencode(path)))
        and not (exclude and unwanted.fullmatch(os.fsencode(path)))
    }


class _Reader:
    def __init__(self, rules: PriorityRules, *, redact: bool, strip: Collection[Strip]) -> None:
        self._rules = rules
        self._strip = strip
        self._priors = Priors()
        self._redact = redact
        self.notes: list[Note] = []

    def file(self, path: str, size: int, content: bytes | None) -> File:
        name, text = shown(path), None
        known = None if content is None else as_text(content)
        if known is None:
            if content is not None:
                self.notes.append(Note(name, NoteKind.BINARY))
        else:
            text, encoding = known
            if encoding is not None:
                self.notes.append(Note(name, NoteKind.DECODED, encoding))
            if _XML_FORBIDS.search(text):
                self.notes.append(Note(name, NoteKind.CONTROLS))
            text, notes = self._clean(text, path)
            self.notes += notes
            if self._strip:
                text = stripped(text, path, kind_of(path, text).outline, self._strip)
                size = len(text)
        known_text = text or b""
        kind, prior = kind_of(path, known_text), self._priors.of(path, known_text)
        return File(path, name, size, text, kind, prior, self._rules.asked(path))

    def commits(self, log: str) -> str:
        """The commits without secrets."""
        text, notes = self._clean(log.encode(), "git log")
        self.notes += notes
        return text.decode()

    def change(self, block: DiffBlock) -> DiffBlock:
        hunks = []
        for hunk in block.hunks:
            lines, notes = self._clean(hunk.lines, block.path)
            # Its lines are not the file's.
            self.notes += [replace(note, line=None, detail=f"{note.detail}, in the diff") for note in notes]
            hunks.append(replace(hunk, lines=lines))
        return replace(block, hunks=tuple(hunks))

    def _clean(self, text: bytes, path: str) -> tuple[bytes, list[Note]]:
        return without_secrets(text, path) if self._redact else (text, [])


def _inside(root: str, named: Sequence[str]) -> list[str]:
    """The paths that were named, relative to the root; none if that is everything."""
    return [] if root in named else [os.path.relpath(path, root) for path in named]
