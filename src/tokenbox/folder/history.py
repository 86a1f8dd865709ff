"""The latest commits of a folder, by ``git log``: their messages, and the files that each changed."""

from __future__ import annotations

from tokenbox.folder.difference import git_log

# The number of commits that are evidence of relevance.
_MAX_COMMITS = 1500


def past_changes(root: str) -> list[tuple[bytes, list[str]]]:
    """Return the messages of the latest commits in and below ``root``, each with the paths it changed.

    Raises ``GitProblem``.
    """
    found = []
    for entry in git_log(_MAX_COMMITS, "%B%x02", root, "--no-merges", "-z"):
        message, _, names = entry.partition(b"\x02")
        paths = [name.strip(b"\n").decode("utf-8", "surrogateescape") for name in names.split(b"\0")]
        found.append((message, [path for path in paths if path]))
    return found


def latest_changes(root: str, number: int) -> str:
    """Return the latest commits in and below ``root``: a line for each, with the files it changed.

    Raises ``GitProblem``.
    """
    lines = []
    for entry in git_log(number, "%h %ad %s", root, "--date=short"):
        title, *names = [line for line in entry.decode("utf-8", "replace").splitlines() if line]
        lines.append("\n".join([title, *(f"  {name}" for name in names)]))
    return "\n".join(lines)
