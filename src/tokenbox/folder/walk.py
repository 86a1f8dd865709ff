"""Find the files of a folder: a walk that opens only folders and follows no links."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tokenbox.errors import TokenboxError
from tokenbox.folder.git import clone_command
from tokenbox.folder.ignore import DEFAULT_RULES, NEVER, RULE_FILES, IgnoreRules
from tokenbox.folder.names import order, shown
from tokenbox.folder.notes import Note, NoteKind

# The depth limit of a file tree block (lcp.limits.MAX_TREE_DEPTH).
MAX_DEPTH = 128
# Half the limit of a block of a pack (lcp.limits.MAX_BODY), and more than any context window.
MAX_BYTES = 8 << 20
# All contents are held in memory. Files over ``MAX_BYTES`` are not read and do not count.
MAX_TOTAL_BYTES, MAX_FILES = 512 << 20, 1_000_000


class PathProblem(TokenboxError, code="path_unusable"):
    """A named path cannot be packed."""


class PackTooLarge(TokenboxError, code="pack_too_large"):
    """The files exceed the size that can be packed at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """The files below ``root``, sorted; ``files`` maps each path, with slashes, to its size in bytes."""

    root: str
    files: dict[str, int]
    notes: list[Note] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The size in bytes of all files that are read."""
        return sum(size for size in self.files.values() if size <= MAX_BYTES)


def walk(
    paths: Sequence[str | os.PathLike[str]], ignore: Collection[str] = (), within: str | None = None
) -> Found:
    """Return the files in and below ``paths`` that no rule ignores.

    The root is the common folder of all ``paths``, and file paths are relative to it. ``ignore``: additional
    rules for it. Nothing above ``within`` is read, not even rules. The named paths themselves are always
    included, and followed if they are links.
    Raises :class:`PathProblem` for a path that does not exist, or is neither file nor folder, and
    :class:`PackTooLarge` at the first file that is too much.
    """
    named = [resolved(os.fspath(path)) for path in paths]
    root = common_folder(named)
    rules = _outer_rules(root, ignore, within)
    walker = _Walker(root)
    for absolute in named:
        relative = "" if absolute == root else _relative(root, absolute)
        if os.path.isdir(absolute):  # these are strings, which pathlib would change
            walker.folder(relative, _rules_for(root, relative, rules).for_named(relative))
        else:
            walker.add(relative, os.stat(absolute).st_size)
    files = {path: walker.files[path] for path in sorted(walker.files, key=order)}
    return Found(root, files, sorted(set(walker.notes), key=lambda note: note.order))


def common_folder(named: Sequence[str]) -> str:
    """Return the folder that contains all the absolute paths."""
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in named]
    return os.path.commonpath(folders)


def project_folder(root: str, within: str | None = None) -> str:
    """Return the nearest folder at or above ``root`` that contains ``.git``; ``root`` if no folder does.

    ``within``: do not search above this folder.
    """
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if folder in {within, above}:
            return root
        folder = above
    return folder


def is_left_out(path: str, top: str) -> bool:
    """Return whether a pack of the project at ``top`` never has this file, or its rules leave it out."""
    steps = _relative(top, path).split("/")
    rules, here = IgnoreRules(DEFAULT_RULES), ""
    for number, step in enumerate(steps, 1):
        rules = rules.inside(here, os.path.join(top, here), RULE_FILES)
        if step in NEVER or rules.ignores(f"{here}{step}", is_folder=number < len(steps)):
            return True
        here = f"{here}{step}/"
    return False


class _Walker:
    def __init__(self, root: str) -> None:
        self._root = root
        self._done: set[str] = set()
        self._total = 0
        self.files: dict[str, int] = {}
        self.notes: list[Note] = []

    def add(self, path: str, size: int) -> None:
        """Add a file. Raises :class:`PackTooLarge` at once, so that no disk is walked to its end."""
        if path in self.files:  # it is named, and in a folder that is, too
            return
        self.files[path] = size
        self._total += size if size <= MAX_BYTES else 0
        if self._total > MAX_TOTAL_BYTES or len(self.files) > MAX_FILES:
            raise PackTooLarge(
                f"{shown(self._root)} is too large: {len(self.files):,} files, and there may be more, have "
                f"{self._total:,} bytes; at most {MAX_FILES:,} files of {MAX_TOTAL_BYTES:,} bytes can be "
                "packed. Name the folder of one project, or leave some out with .tokenboxignore.",
                bytes=self._total,
                limit=MAX_TOTAL_BYTES,
            )

    def folder(self, path: str, rules: IgnoreRules) -> None:
        """Add the files in and below the folder ``path`` ("" is the root)."""
        pending = [(path, rules)]
        while pending:
            here, outer = pending.pop()
            if here in self._done:
                continue
            self._done.add(here)
            pending += self._entries(here, outer)

    def _entries(self, here: str, outer: IgnoreRules) -> list[tuple[str, IgnoreRules]]:
        """Add the files of one folder, and return its folders."""
        absolute = os.path.join(self._root, here) if here else self._root
        try:
            with os.scandir(absolute) as listing:
                entries = list(listing)
        except OSError as error:
            self._note_failure(here, error)
            return []
        start = f"{here}/" if here else ""
        rules = outer.inside(start, absolute, (entry.name for entry in entries))
        folders = []
        for entry in entries:
            path = start + entry.name
            if entry.name in NEVER:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                self._note_failure(path, error)
                continue
            is_folder = stat.S_ISDIR(status.st_mode)
            if rules.ignores(path, is_folder=is_folder):
                continue
            if is_folder:
                if path.count("/") + 2 > MAX_DEPTH:  # the files in it are one level deeper
                    self.notes.append(Note(shown(path), NoteKind.DEEP, f"more than {MAX_DEPTH} levels"))
                else:
                    folders.append((path, rules))
            elif stat.S_ISREG(status.st_mode):
                self.add(path, status.st_size)
            elif stat.S_ISLNK(status.st_mode):
                self.notes.append(Note(shown(path), NoteKind.LINK, self._target(path)))
            else:
                self.notes.append(Note(shown(path), NoteKind.SPECIAL, kind_of_special(status.st_mode)))
        return folders

    def _target(self, path: str) -> str:
        """Return a remark on a link that is broken or leaves the folder; "" for one to a file inside."""
        absolute = os.path.join(self._root, path)
        try:
            target = os.path.realpath(absolute, strict=True)
        except OSError:
            return "it leads nowhere"
        inside = target == self._root or target.startswith(self._root.rstrip("/") + "/")
        return "" if inside else "it leads out of the folder"

    def _note_failure(self, path: str, error: OSError) -> None:
        self.notes.append(Note.of_failure(shown(path) or ".", error))


def kind_of_special(mode: int) -> str:
    """Return the kind of something that is neither file, folder nor link."""
    kinds = {
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a device",
        stat.S_IFCHR: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "of an unknown kind")


def resolved(path: str) -> str:
    """Return the absolute path without links. Raises :class:`PathProblem`."""
    try:
        absolute = os.path.realpath(path, strict=True)
        mode = os.stat(absolute).st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "Name existing files and folders."
        if path.startswith(("http://", "https://", "git@")):
            hint = f"Clone it first: {clone_command(path)}"
        elif "*" in path:
            hint = f"To select files by a pattern: tokenbox pack . --include '{shown(path)}'"
        raise PathProblem(f"{shown(path)}: {reason}. {hint}", path=path) from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise PathProblem(
            f"{shown(path)} is {kind_of_special(mode)}, which is never opened. Name files and folders.",
            path=path,
        )
    if inside := NEVER.intersection(absolute.split("/")):
        raise PathProblem(
            f"{shown(path)} is inside {min(inside)}, which is never packed. Name files of the project.",
            path=path,
        )
    if _is_bare(absolute):
        raise PathProblem(
            f"{shown(path)} is a bare git repository, without a working tree. "
            f"Clone it first: git clone {shown(path)}",
            path=path,
        )
    return absolute


def _is_bare(folder: str) -> bool:
    """Return whether the folder is a bare git repository."""
    return os.path.isfile(os.path.join(folder, "HEAD")) and all(
        os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs")
    )


def _relative(root: str, absolute: str) -> str:
    return absolute[len(root.rstrip("/")) + 1 :]


def _outer_rules(root: str, ignore: Collection[str], within: str | None) -> IgnoreRules:
    """Return the rules of the folders above the root, up to the project's own, and ``ignore``."""
    rules = IgnoreRules(DEFAULT_RULES)
    folder = project_folder(root, within)
    while folder != root:
        way = _relative(folder, root)
        rules = rules.above(folder, f"{way}/")
        folder = os.path.join(folder, way.partition("/")[0])
    return IgnoreRules(ignore, rules) if ignore else rules


def _rules_for(root: str, relative: str, rules: IgnoreRules) -> IgnoreRules:
    """Return the rules of the folders between the root and the folder ``relative``."""
    here, absolute = "", root
    for step in relative.split("/") if relative else []:
        rules = rules.inside(here, absolute, RULE_FILES)
        here, absolute = f"{here}{step}/", os.path.join(absolute, step)
    return rules
