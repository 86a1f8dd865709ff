"""The file tree at the head of a pack: what exists, its tokens, and how each file is shown.

A folder is *unfolded* (its entries are listed) or *folded* (one line with its files and tokens). The top
level is always listed; the folder worth most is unfolded first, as long as the tree keeps within its room.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import EntryKind
from tokenbox.content.blocks import FileTreeBlock, TreeEntry
from tokenbox.folder.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

# The packed folder itself. Its name is not content: the same files in another folder are the same pack.
ROOT = "."
LEGEND = "file, tokens, what is shown of it: full, part, outline, or nothing (-)\n"

Branch: TypeAlias = "dict[str, int | Branch]"


class FileShown(Enum):
    """How a file is shown.

    Each value is one token in the tree, so that what the tree counts does not depend on it.
    """

    LISTED = "-"
    OUTLINE = "outline"
    FOCUSED = "part"
    FULL = "full"


@dataclass(slots=True)
class Folder:
    """A folder: its files and folders, and what all of them count. ``worth`` orders the folders."""

    name: str
    depth: int
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[tuple[str, str, int | None]] = field(default_factory=list)
    count: int = 0
    tokens: int = 0
    worth: int = 0

    def line(self) -> str:
        """The folder, folded."""
        number = f"{self.count} file{'' if self.count == 1 else 's'}"
        return f"{'  ' * (self.depth - 1)}{shown(self.name)}/ {number}, {self.tokens}\n"

    def head(self) -> str:
        """The folder, unfolded: what is in it follows."""
        return f"{'  ' * (self.depth - 1)}{shown(self.name)}/\n"


def folders(files: Iterable[tuple[str, int | None, int]]) -> Folder:
    """The tree of (path, tokens, worth). Tokens are None for what is not text."""
    root = Folder("", 0)
    for path, tokens, worth in files:
        *steps, name = path.split("/")
        here = root
        for step in steps:
            _add(here, tokens, worth)
            here = here.folders.setdefault(step, Folder(step, here.depth + 1))
        _add(here, tokens, worth)
        here.files.append((path, name, tokens))
    return root


def _add(folder: Folder, tokens: int | None, worth: int) -> None:
    folder.count += 1
    folder.tokens += tokens or 0
    folder.worth += worth


def file_line(folder: Folder, name: str, tokens: int | None, how: FileShown | None) -> str:
    """A file, its tokens, and how it is shown; None where that goes without saying."""
    figure = "binary" if tokens is None else str(tokens) if how is None else f"{tokens} {how.value}"
    return f"{'  ' * folder.depth}{shown(name)} {figure}\n"


_ANY = 1 << 40


class Listing:
    """The tree within ``room`` tokens. ``counts`` counts lines; the sum of lines is what the tree counts."""

    def __init__(
        self, root: Folder, room: int | None, counts: Callable[[Sequence[str]], Sequence[int]]
    ) -> None:
        self._root = root
        self._counts = counts
        self._unfolded: set[int] = set()
        self._cut: dict[int, int] = {}
        self.size = sum(counts([LEGEND]))
        self.is_cut = False
        """Whether anything is folded or left out."""
        self.least = 0
        """What the smallest tree counts: its first line, and how many more there are."""
        self._begin(_ANY if room is None else room)
        self._unfold(_ANY if room is None else room)

    def text(self, how: Mapping[str, FileShown] | None) -> str:
        """The tree, with how each file is shown; files that are not in ``how`` are not shown.

        ``""`` where no line fits.
        """
        if self._cut.get(id(self._root)) == 0:
            return ""
        lines = [] if how is None else [LEGEND]
        self._write(self._root, how, lines)
        return "".join(lines).removesuffix("\n")

    def _begin(self, room: int) -> None:
        """The top level: all of it, or as much of it as there is room for."""
        lines = self._lines(self._root, room)
        sizes = self._counts(lines)
        more = self._counts([_more(self._root, 10_000)])[0]
        self.least = self.size + sum(sizes[:1]) + more
        whole = len(lines) == len(self._root.folders) + len(self._root.files)
        if whole and self.size + sum(sizes) <= room:
            self.size += sum(sizes)
        else:
            self.is_cut = True
            used, kept = self.size + more, 0
            for size in sizes:
                if used + size > room:
                    break
                kept, used = kept + 1, used + size
            self._cut[id(self._root)] = kept
            self.size = used if kept else 0
        self._unfolded.add(id(self._root))

    def _unfold(self, room: int) -> None:
        """Unfold folders, the one worth most first; of the last as much as there is room for."""
        waiting: list[tuple[int, int, Folder]] = []
        for folder in [] if self._cut else self._root.folders.values():
            heappush(waiting, (-folder.worth, len(waiting), folder))
        pushed = len(waiting)
        while waiting:
            folder = heappop(waiting)[2]
            # No line counts fewer than four tokens.
            least = self.size + 4 * (len(folder.files) + len(folder.folders))
            size = room + 1 if least > room else self.size + self._unfolded_size(folder)
            if size > room:
                self.is_cut = True
                self._unfold_part(folder, room)
                return
            self.size = size
            self._unfolded.add(id(folder))
            for inner in folder.folders.values():
                pushed += 1
                heappush(waiting, (-inner.worth, pushed, inner))

    def _unfold_part(self, folder: Folder, room: int) -> None:
        """List the first entries of a folder, and how many more there are."""
        lines = self._lines(folder, room)
        folded, head, more, *sizes = self._counts(
            [folder.line(), folder.head(), _more(folder, 10_000), *lines]
        )
        used, kept = self.size - folded + head + more, 0
        for size in sizes:
            if used + size > room:
                break
            used, kept = used + size, kept + 1
        if kept:
            self._unfolded.add(id(folder))
            self._cut[id(folder)] = kept
            self.size = used

    def _unfolded_size(self, folder: Folder) -> int:
        """By how much the tree grows if the folder is unfolded."""
        folded, head, *lines = self._counts([folder.line(), folder.head(), *self._lines(folder)])
        return head - folded + sum(lines)

    def _lines(self, folder: Folder, room: int = _ANY) -> list[str]:
        """The lines of what is in a folder, its own folders folded: no more than there can be room for."""
        lines = [inner.line() for inner in islice(folder.folders.values(), 1 + room // 4)]
        files = islice(folder.files, max(0, 1 + room // 4 - len(lines)))
        return lines + [file_line(folder, name, tokens, FileShown.LISTED) for _, name, tokens in files]

    def _write(self, folder: Folder, how: Mapping[str, FileShown] | None, lines: list[str]) -> None:
        left = self._cut.get(id(folder), _ANY)
        for inner in islice(folder.folders.values(), left):
            if id(inner) in self._unfolded:
                lines.append(inner.head())
                self._write(inner, how, lines)
            else:
                lines.append(inner.line())
        left = max(0, left - len(folder.folders))
        lines += [
            file_line(folder, name, tokens, None if how is None else how.get(path, FileShown.LISTED))
            for path, name, tokens in islice(folder.files, left)
        ]
        if id(folder) in self._cut:
            more = len(folder.folders) + len(folder.files) - self._cut[id(folder)]
            lines.append(_more(folder, more))


def _more(folder: Folder, number: int) -> str:
    return f"{'  ' * folder.depth}... {number} more\n"


def file_tree(files: Mapping[str, int]) -> FileTreeBlock:
    """The tree of ``files`` (path to size in bytes), in their order."""
    return FileTreeBlock(ROOT, _entries(branches(files)))


def branches(files: Mapping[str, int]) -> Branch:
    """The files by folder: a name stands for a number or for what is in the folder."""
    root: Branch = {}
    for path, number in files.items():
        *steps, name = path.split("/")
        here = root
        for step in steps:
            inner = here.setdefault(step, {})
            if isinstance(inner, int):  # a file that was replaced by a folder meanwhile
                inner = here[step] = {}
            here = inner
        here.setdefault(name, number)
    return root


def folders_only(tree: FileTreeBlock) -> str | None:
    """The folders with their numbers of files; None if that says no less than the tree."""
    lines: list[str] = []
    count = _list_folders(tree.entries, 0, lines)
    if not lines:
        return None
    files = sum(entry.kind is EntryKind.FILE for entry in tree.entries)
    here = f"{_files(files)} here, {_files(count)} in all"
    return "\n".join([here, *lines]) + "\n"


def _entries(branch: Branch) -> tuple[TreeEntry, ...]:
    return tuple(
        TreeEntry(shown(name), size=inner)
        if isinstance(inner, int)
        else TreeEntry(shown(name), EntryKind.DIRECTORY, children=_entries(inner))
        for name, inner in branch.items()
    )


def _list_folders(entries: tuple[TreeEntry, ...], depth: int, lines: list[str]) -> int:
    """Append a line for each folder; returns the number of files below."""
    count = 0
    for entry in entries:
        if entry.kind is EntryKind.FILE:
            count += 1
            continue
        at = len(lines)
        lines.append("")
        inside = _list_folders(entry.children, depth + 1, lines)
        lines[at] = f"{'  ' * depth}{entry.name}/ ({_files(inside)})"
        count += inside
    return count


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
