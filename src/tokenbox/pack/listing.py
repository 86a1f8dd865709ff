"""The file tree at the head of a pack, and its summary: the folders alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import EntryKind
from tokenbox.content.blocks import FileTreeBlock, TreeEntry
from tokenbox.pack.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

# The packed folder itself. Its name is no content: the same files in another folder are the same pack.
ROOT = "."

Branch: TypeAlias = "dict[str, int | Branch]"


def file_tree(files: Mapping[str, int]) -> FileTreeBlock:
    """The tree of ``files`` (path to size in bytes), in their order."""
    return FileTreeBlock(ROOT, _entries(branches(files)))


def branches(files: Mapping[str, int]) -> Branch:
    """The files by folder: a name stands for a number or for what is in the folder."""
    root: Branch = {}
    for path, number in files.items():
        *folders, name = path.split("/")
        here = root
        for folder in folders:
            inner = here.setdefault(folder, {})
            if isinstance(inner, int):  # a file that was replaced by a folder meanwhile
                inner = here[folder] = {}
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
