"""Read the files of a folder as text: decode them, redact secrets, and classify each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.block_kinds import FormatHint, Priority
from tokenbox.content.blocks import CodeBlock, DiffBlock, DocumentBlock
from tokenbox.errors import TokenboxError, plural
from tokenbox.folder.copied import compiled, copied_repositories
from tokenbox.folder.generated import as_text
from tokenbox.folder.git import git_diff, latest_changes
from tokenbox.folder.globs import is_for_files, last_match, matcher
from tokenbox.folder.languages import kind_of
from tokenbox.folder.names import shown
from tokenbox.folder.notebooks import as_cells
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.option_values import Strip
from tokenbox.folder.options import PackSettings, SettingProblem
from tokenbox.folder.priors import GENERATED, VENDORED, prior_of
from tokenbox.folder.project import ProjectSettings, project_settings
from tokenbox.folder.reading import read_file
from tokenbox.folder.redacted import without_secrets
from tokenbox.folder.secrets import Redacted
from tokenbox.folder.stripping import stripped
from tokenbox.folder.walk import Found, common_folder, resolved, walk

if TYPE_CHECKING:
    from tokenbox.folder.languages import FileKind
    from tokenbox.folder.priorities import PriorityRule
    from tokenbox.folder.priors import Prior
    from tokenbox.tokenizers.cache import CountCache

_INVALID_IN_XML = bytes(set(range(0x20)) - set(b"\t\n\r"))
# The kinds of files in which a tool writes the changes, and the number of changed lines that is shown of one.
_WRITTEN_BY_TOOLS = ("lock file", "generated")
_MAX_CHANGED = 40
# Secrets are searched in that many bytes at once: many small files take no longer than one large one.
_AT_ONCE = 100_000


class NothingToPack(TokenboxError, code="nothing_to_pack"):
    """There is no file that can be packed."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The files found and the project's settings for them. No file has been read yet."""

    found: Found
    settings: ProjectSettings
    named: tuple[str, ...]


class File(NamedTuple):
    """A file. ``text``: UTF-8 with secrets redacted; None for a file that only the tree names.

    ``path`` is the file system's, ``name`` is shown. ``asked``: the priority that a rule gives it. ``lines``:
    the number, from 1, that each line of the text has in the file; None if no line was removed.
    """

    path: str
    name: str
    size: int
    text: bytes | None
    kind: FileKind
    prior: Prior
    asked: Priority | None = None
    lines: Sequence[int] | None = None

    def line_numbers(self, first: int = 1) -> Iterable[int]:
        """Yield the numbers that the lines of the text have in the file, from line ``first`` of the text."""
        return count(first) if self.lines is None else islice(self.lines, first - 1, None)

    @property
    def data(self) -> bytes:
        """The text; empty for a file that only the tree names."""
        return self.text or b""

    def block(self) -> CodeBlock | DocumentBlock:
        """Return all of the file as a block."""
        if self.kind.format is not None:
            return DocumentBlock(self.name, self.data, self.kind.format)
        return CodeBlock(self.kind.lang, self.name, self.data)


@dataclass(frozen=True, slots=True)
class Source:
    """The content to pack: files in the order of their paths, changes, and notes on what was left out.

    ``log``: the latest commits, if requested. ``instructions``: a text to show after the files.
    """

    root: str
    files: tuple[File, ...]
    changes: tuple[DiffBlock, ...]
    notes: tuple[Note, ...]
    log: str = ""
    instructions: str | None = None

    @property
    def leading(self) -> list[DocumentBlock | DiffBlock]:
        """The blocks before the files: the commits and the changes."""
        log = [DocumentBlock("git log", self.log.encode(), FormatHint.PLAIN)] if self.log else []
        return [*log, *self.changes]

    @property
    def trailing(self) -> list[DocumentBlock]:
        """The blocks after the files: the instructions."""
        if self.instructions is None:
            return []
        return [DocumentBlock("instructions", self.instructions.encode(), FormatHint.PLAIN)]

    @property
    def size(self) -> int:
        """The size of all texts in bytes."""
        return sum(len(file.data) for file in self.files)


def survey(paths: Sequence[str | os.PathLike[str]], within: str | None = None) -> Survey:
    """Find the files in ``paths``. Nothing above the folder ``within`` is read, not even project rules.

    Raises ``PathProblem``, ``ProjectProblem``, ``PriorityProblem`` and ``PackTooLarge``.
    """
    named = tuple(resolved(os.fspath(path)) for path in paths)
    settings = project_settings(common_folder(named), within)
    found = walk(named, settings.ignore, within)
    return Survey(found, settings, named)


def read(
    surveyed: Survey,
    settings: PackSettings | None = None,
    *,
    rules: Sequence[PriorityRule] = (),
    redact: bool = True,
    instructions: str | None = None,
    memory: CountCache | None = None,
    advance: Callable[[], None] = lambda: None,
    seen: Callable[[bytes], None] = lambda _: None,
) -> Source:
    """Read the files of a survey.

    ``rules`` override the project's own. ``redact``: replace secrets. ``instructions``: a text to show after
    the files. ``memory`` caches what was redacted. ``advance`` is called after each file, ``seen`` with the
    text of each. Raises :class:`NothingToPack` and ``GitProblem``.
    """
    settings = settings or PackSettings()
    include, exclude = settings.include or (), settings.exclude or ()
    root = surveyed.found.root
    # Git first, so that its errors are reported early.
    changes = [] if settings.diff is None else git_diff(root, settings.diff, _inside(root, surveyed.named))
    commits = latest_changes(root, settings.log) if settings.log else ""
    priorities = [*surveyed.settings.priorities, *rules]
    reader = _Reader(priorities, redact=redact, strip=settings.strip or (), memory=memory)
    is_wanted = _choice(include, exclude)
    wanted = {path: size for path, size in surveyed.found.files.items() if is_wanted(path)}
    files: list[File] = []
    opened: list[_Opened] = []
    waiting = 0
    for path, size in wanted.items():
        content, note = read_file(root, path)
        if note is not None:
            reader.notes.append(note)
        if content is not None or (note is not None and note.kind is NoteKind.LARGE):
            opened.append(reader.open(path, size if content is None else len(content), content))
            waiting += opened[-1].size
        if waiting >= _AT_ONCE:
            files += reader.files(opened, seen)
            opened, waiting = [], 0
        advance()
    files += reader.files(opened, seen)
    files = with_others(files)
    changes = [change for change in changes if is_wanted(change.path)]
    if not files and not changes:
        why = (
            _no_match(len(surveyed.found.files), include, exclude)
            if surveyed.found.files and not wanted
            else _why_nothing(surveyed.found, reader.notes)
        )
        raise NothingToPack(
            f"there is no file to pack: {why}.",
            notes=[note.to_dict() for note in surveyed.found.notes],
        )
    priors = {file.path: file.prior for file in files}
    cleaned = tuple(reader.change(change, priors.get(change.path)) for change in changes)
    log_text = reader.text(commits, "git log")
    said = None if instructions is None else reader.text(instructions, "instructions")
    notes = sorted({*reader.notes, *surveyed.found.notes}, key=lambda note: note.order)
    return Source(root, tuple(files), cleaned, tuple(notes), log_text, said)


def _why_nothing(found: Found, read: Sequence[Note]) -> str:
    """Return the likely reason where no pattern leaves out everything: the first note, or empty folders."""
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


def _choice(include: Sequence[str], exclude: Sequence[str]) -> Callable[[str], bool]:
    """Return a function of a path: whether it matches ``include`` (default: all) and not ``exclude``."""
    if not include and not exclude:
        return lambda _: True
    for option, globs in (("include", include), ("exclude", exclude)):
        for glob in globs:
            if not is_for_files(glob):
                raise SettingProblem(
                    f"{option} {glob[:200]!r}: this is not a file pattern. Write one as in .gitignore, "
                    "without '!' before it: what --include chooses, --exclude can leave out.",
                    setting=option,
                )
    included, excluded = matcher(include), matcher(exclude)  # no patterns match nothing

    def is_wanted(path: str) -> bool:
        name = os.fsencode(path)
        return (not include or included.fullmatch(name) is not None) and excluded.fullmatch(name) is None

    return is_wanted


class _Opened(NamedTuple):
    """A file as it was read, with its secrets. ``text``: None for a file that only the tree names."""

    path: str
    name: str
    size: int
    text: bytes | None


class _Reader:
    def __init__(
        self,
        rules: Sequence[PriorityRule],
        *,
        redact: bool,
        strip: Collection[Strip],
        memory: CountCache | None = None,
    ) -> None:
        self._memory = memory
        self._asked = last_match([(rule.glob, rule.priority) for rule in rules])
        self._strip = strip
        self._redact = redact
        self.notes: list[Note] = []

    def open(self, path: str, size: int, content: bytes | None) -> _Opened:
        """Return the text of a file as it is; ``content`` is None if it is too large to read."""
        name, text = shown(path), None
        decoded = None if content is None else as_text(content)
        if decoded is not None:
            text, encoding = decoded
            if encoding is not None:
                self.notes.append(Note(name, NoteKind.DECODED, encoding))
            if len(text.translate(None, _INVALID_IN_XML)) < len(text):
                self.notes.append(Note(name, NoteKind.CONTROLS))
            if path.endswith(".ipynb") and (
                cells := as_cells(text, outputs=Strip.OUTPUTS not in self._strip)
            ):
                text, size = cells, len(cells)
                self.notes.append(Note(name, NoteKind.CELLS))
        elif content is not None:
            self.notes.append(Note(name, NoteKind.BINARY))
        return _Opened(path, name, size, text)

    def files(self, opened: Sequence[_Opened], seen: Callable[[bytes], None]) -> Iterator[File]:
        """Yield the files, with their secrets redacted. ``seen`` is called with each text."""
        cleaned = iter(self._clean_all([(one.text, one.path) for one in opened if one.text is not None]))
        for path, name, size, found in opened:
            text, lines = found, None
            if text is not None:
                text, notes = next(cleaned)
                self.notes += notes
                if self._strip:
                    text, lines = stripped(text, kind_of(path, text).outline, self._strip)
                seen(text)
            own_size = len(text) if text is not None and self._strip else size
            kind, prior = kind_of(path, text or b""), prior_of(path, text or b"")
            yield File(path, name, own_size, text, kind, prior, self._asked(path), lines)

    def text(self, text: str, name: str) -> str:
        """Return the text with secrets redacted."""
        cleaned, notes = self._clean(text.encode(), name)
        self.notes += notes
        return cleaned.decode()

    def change(self, block: DiffBlock, prior: Prior | None) -> DiffBlock:
        """Return the changes with secrets redacted, or only their number if a tool wrote many.

        ``prior``: that of the file; None if it is not packed.
        """
        path, name = block.path, shown(block.path)
        prior, asked = prior or prior_of(path, b""), self._asked(path)
        if prior.name in _WRITTEN_BY_TOOLS and (asked is None or asked > Priority.HIGH):
            signs = [line[:1] for hunk in block.hunks for line in hunk.lines.split(b"\n")]
            added, removed = signs.count(b"+"), signs.count(b"-")
            if added + removed > _MAX_CHANGED:
                number = f"{plural(added, 'line')} added, {removed:,} removed"
                self.notes.append(Note(name, NoteKind.COUNTED, number))
                return DiffBlock(name, (replace(block.hunks[0], lines=f"[{number}]\n".encode()),))
        hunks = []
        for hunk in block.hunks:
            lines, notes = self._clean(hunk.lines, path)
            # The lines of a hunk are not numbered as those of the file.
            self.notes += [replace(note, line=None, detail=f"{note.detail}, in the diff") for note in notes]
            hunks.append(replace(hunk, lines=lines))
        return DiffBlock(name, tuple(hunks))

    def _clean(self, text: bytes, path: str) -> Redacted:
        return self._clean_all([(text, path)])[0]

    def _clean_all(self, texts: Sequence[tuple[bytes, str]]) -> list[Redacted]:
        if not self._redact:
            return [Redacted(text, []) for text, _ in texts]
        return without_secrets(texts, self._memory)


def with_others(files: Sequence[File]) -> list[File]:
    """Return the files with the priors of what was copied or compiled, as the other files tell."""
    copied = copied_repositories((file.path, file.data) for file in files)
    written = frozenset(compiled([file.path for file in files]))

    def of(file: File) -> File:
        prior = (
            GENERATED if file.path in written else VENDORED if file.path.startswith(copied) else file.prior
        )
        return file if file.prior.percent <= prior.percent else file._replace(prior=prior)

    return [of(file) for file in files]


def _inside(root: str, named: Sequence[str]) -> list[str]:
    """Return the named paths relative to the root; none if the root itself is named."""
    return [] if root in named else [os.path.relpath(path, root) for path in named]
