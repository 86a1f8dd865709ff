"""The latest commits of a folder, by ``git log``: their messages, and what each changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tokenbox.folder.difference import GitProblem, git_log, git_patches
from tokenbox.worth.recent import PastChange, lines_written

if TYPE_CHECKING:
    from tokenbox.content.blocks import DiffBlock

# The number of commits that are evidence of relevance, and of those whose lines are read.
_MAX_COMMITS, _MAX_PATCHES = 1500, 200


def past_changes(root: str, *, lines: bool = False) -> list[PastChange]:
    """Return the latest commits in and below ``root``, without merges, the latest first.

    ``lines``: with the lines that the last of them wrote. Raises ``GitProblem``.
    """
    try:
        patches = git_patches(_MAX_PATCHES, root) if lines else {}
    except GitProblem:  # a partial clone lacks the content of old files; another problem is met again below
        patches = {}
    found = []
    for entry in git_log(_MAX_COMMITS, "%H%x02%B%x02", root, "--no-merges", "-z"):
        name, _, said = entry.partition(b"\x02")
        message, _, names = said.rpartition(b"\x02")  # a message may contain any byte but NUL
        paths = [path.strip(b"\n").decode("utf-8", "surrogateescape") for path in names.split(b"\0")]
        found.append(PastChange(message, [path for path in paths if path], _written(patches.get(name, ()))))
    return found


def _written(blocks: Sequence[DiffBlock]) -> Mapping[str, frozenset[bytes]]:
    """Return the lines that a commit wrote, by path."""
    return {
        block.path: lines_written(
            line[1:] for hunk in block.hunks for line in hunk.lines.split(b"\n") if line[:1] == b"+"
        )
        for block in blocks
    }


def latest_changes(root: str, number: int) -> str:
    """Return the latest commits in and below ``root``: a line for each, with the files it changed.

    Raises ``GitProblem``.
    """
    lines = []
    for entry in git_log(number, "%h %ad %s", root, "--date=short"):
        title, *names = entry.decode("utf-8", "replace").split("\n")
        lines.append("\n".join([title, *(f"  {name}" for name in names if name)]))
    return "\n".join(lines)
