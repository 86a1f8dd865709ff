"""The file tree at the head of a pack: the files, their tokens, and how each is shown.

A folder is *unfolded* (its entries are listed) or *folded* (one line with its files and tokens). The top
level is always listed; folders are unfolded by descending worth until the tree fills its room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import EntryKind
from tokenbox.content.blocks import FileTreeBlock, TreeEntry
from tokenbox.errors import plural
from tokenbox.folder.names import shown

if TYPE_CHECKING:
    from typing import TypeAlias

# The packed folder's real name is left out: the same files in another folder are the same pack.
_ROOT = "."
_LEGEND = "file, tokens, what is shown of it: full, part, outline, or nothing (-)\n"

Branch: TypeAlias = "dict[str, int | Branch]"


class FileShown(Enum):
    """How a file is shown.

    Each value is one token in the tree, so that the size of the tree does not depend on it.
    """

    LISTED = "-"
    OUTLINE = "outline"
    FOCUSED = "part"
    FULL = "full"


@dataclass(slots=True)
class Folder:
    """A folder with its entries. ``count`` of files, ``tokens`` and ``worth`` include all folders below."""

    name: str
    depth: int
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[tuple[str, str, int | None]] = field(default_factory=list)
    count: int = 0
    tokens: int = 0
    worth: int = 0

    def line(self) -> str:
        """Return the line of the folder if it is folded; the root has none."""
        number = f"{self.count} file{'' if self.count == 1 else 's'}"
        return f"{self.head()[:-1]} {number}, {self.tokens}\n" if self.depth else ""

    def head(self) -> str:
        """Return the line of the folder if it is unfolded: the lines of its entries follow."""
        return f"{'  ' * (self.depth - 1)}{shown(self.name)}/\n" if self.depth else ""


def folders(files: Iterable[tuple[str, int | None, int]]) -> Folder:
    """Return the tree of the files, given as (path, tokens, worth). Tokens are None for a binary file."""
    root = Folder("", 0)
    known = {"": root}

    def at(path: str) -> Folder:
        if path not in known:
            above, _, name = path.rpartition("/")
            outer = at(above)
            known[path] = outer.folders[name] = Folder(name, outer.depth + 1)
        return known[path]

    for path, tokens, worth in files:
        above, _, name = path.rpartition("/")
        here = at(above)
        here.files.append((path, name, tokens))
        here.count += 1
        here.tokens += tokens or 0
        here.worth += worth
    for path, folder in reversed(known.items()):  # the folders inside of one come after it
        if folder is not root:
            outer = known[path.rpartition("/")[0]]
            outer.count += folder.count
            outer.tokens += folder.tokens
            outer.worth += folder.worth
    return root


def _file_line(folder: Folder, name: str, tokens: int | None, how: FileShown | None) -> str:
    """Return the line of a file; ``how`` is None if every file is shown in full."""
    figure = "binary" if tokens is None else str(tokens) if how is None else f"{tokens} {how.value}"
    return f"{'  ' * folder.depth}{shown(name)} {figure}\n"


_UNLIMITED = 1 << 40


class Listing:
    """The tree within ``room`` tokens (None: no limit). ``counts`` counts lines, and their sum is its size.

    ``is_cut``: whether something is folded or left out.
    """

    def __init__(
        self, root: Folder, room: int | None, counts: Callable[[Sequence[str]], Sequence[int]]
    ) -> None:
        self._root = root
        self._counts = counts
        self._unfolded: set[int] = set()
        self._cut: dict[int, int] = {}
        self.size = sum(counts([_LEGEND]))
        self.is_cut = False
        self._unfold(_UNLIMITED if room is None else room)

    @property
    def least(self) -> int:
        """The tokens of the smallest tree: its first line and the number of the others."""
        first = self._lines(self._root, 0)[:1]
        return sum(self._counts([_LEGEND, _more(self._root, 10_000), *first]))

    def text(self, how: Mapping[str, FileShown] | None) -> str:
        """Return the tree, with how each file is shown (not at all, if ``how`` does not say).

        ``how`` is None if every file is shown in full. The tree is ``""`` if no line fits.
        """
        if id(self._root) not in self._unfolded:
            return ""
        lines = [] if how is None else [_LEGEND]
        self._write(self._root, how, lines)
        return "".join(lines).removesuffix("\n")

    def _unfold(self, room: int) -> None:
        """Unfold folders by descending worth, the root first; of the last one, the entries that fit."""
        heap = [(0, 0, self._root)]
        pushed = 0
        while heap:
            folder = heappop(heap)[2]
            # More lines than this are not counted: nearly all have four tokens or more.
            has_room = len(folder.files) + len(folder.folders) <= 1 + room // 4
            size = self.size + self._growth(folder) if has_room else room + 1
            if size > room:
                self.is_cut = True
                self._unfold_part(folder, room)
                return
            self.size = size
            self._unfolded.add(id(folder))
            for inner in folder.folders.values():
                pushed += 1
                heappush(heap, (-inner.worth, pushed, inner))

    def _unfold_part(self, folder: Folder, room: int) -> None:
        """List the first entries of a folder, and the number of the others."""
        lines = self._lines(folder, room)
        folded, head, more, *sizes = self._counts(
            [folder.line(), folder.head(), _more(folder, 10_000), *lines]
        )
        used, kept = _fitting(sizes, self.size - folded + head + more, room)
        if kept:
            self._unfolded.add(id(folder))
            self._cut[id(folder)] = kept
            self.size = used
        elif folder is self._root:
            self.size = 0

    def _growth(self, folder: Folder) -> int:
        """Return the tokens that unfolding the folder adds."""
        folded, head, *lines = self._counts([folder.line(), folder.head(), *self._lines(folder)])
        return head - folded + sum(lines)

    def _lines(self, folder: Folder, room: int = _UNLIMITED) -> list[str]:
        """Return the lines of the entries of a folder, as many as there can be room for."""
        lines = [inner.line() for inner in islice(folder.folders.values(), 1 + room // 4)]
        files = islice(folder.files, max(0, 1 + room // 4 - len(lines)))
        return lines + [_file_line(folder, name, tokens, FileShown.LISTED) for _, name, tokens in files]

    def _write(self, folder: Folder, how: Mapping[str, FileShown] | None, lines: list[str]) -> None:
        left = self._cut.get(id(folder), _UNLIMITED)
        for inner in islice(folder.folders.values(), left):
            if id(inner) in self._unfolded:
                lines.append(inner.head())
                self._write(inner, how, lines)
            else:
                lines.append(inner.line())
        left = max(0, left - len(folder.folders))
        lines += [
            _file_line(folder, name, tokens, None if how is None else how.get(path, FileShown.LISTED))
            for path, name, tokens in islice(folder.files, left)
        ]
        if id(folder) in self._cut:
            more = len(folder.folders) + len(folder.files) - self._cut[id(folder)]
            lines.append(_more(folder, more))


def _more(folder: Folder, number: int) -> str:
    return f"{'  ' * folder.depth}... {number} more\n"


def _fitting(sizes: Sequence[int], used: int, room: int) -> tuple[int, int]:
    """Return the tokens used with the first entries that fit, and their number."""
    for kept, size in enumerate(sizes):
        if used + size > room:
            return used, kept
        used += size
    return used, len(sizes)


def file_tree(files: Mapping[str, int]) -> FileTreeBlock:
    """Return the tree of ``files`` (path to size in bytes), in their order."""
    return FileTreeBlock(_ROOT, _entries(branches(files)))


def branches(files: Mapping[str, int]) -> Branch:
    """Return the files by folder: a name maps to the number of a file, or to the entries of a folder."""
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
    """Return the folders with their numbers of files; None if there are no folders."""
    lines: list[str] = []
    count = _list_folders(tree.entries, 0, lines)
    files = sum(entry.kind is EntryKind.FILE for entry in tree.entries)
    here = f"{plural(files, 'file')} here, {plural(count, 'file')} in all"
    return "\n".join([here, *lines]) + "\n" if lines else None


def _entries(branch: Branch) -> tuple[TreeEntry, ...]:
    return tuple(
        TreeEntry(shown(name), size=inner)
        if isinstance(inner, int)
        else TreeEntry(shown(name), EntryKind.DIRECTORY, children=_entries(inner))
        for name, inner in branch.items()
    )


def _list_folders(entries: tuple[TreeEntry, ...], depth: int, lines: list[str]) -> int:
    """Append a line for each folder, and return the number of files below."""
    count = 0
    for entry in entries:
        if entry.kind is EntryKind.FILE:
            count += 1
            continue
        at = len(lines)
        lines.append("")
        inside = _list_folders(entry.children, depth + 1, lines)
        lines[at] = f"{'  ' * depth}{entry.name}/ ({plural(inside, 'file')})"
        count += inside
    return count
