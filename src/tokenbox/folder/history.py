"""What git remembers of a folder: the messages of past changes, and what each changed."""

from __future__ import annotations

from tokenbox.folder.difference import run_git

LOOKED_AT = 1500
"""Changes that are looked at, the latest first."""


def past_changes(root: str) -> list[tuple[bytes, list[str]]]:
    """The messages of changes in and below ``root``, each with the paths it changed.

    Raises ``GitProblem``.
    """
    output = run_git(
        [
            *(
                "log",
                "--no-merges",
                f"-{LOOKED_AT}",
                "--name-only",
                "--relative",
                "--no-color",
                "--no-ext-diff",
            ),
            *("--no-textconv", "-z", "--format=%x01%B%x02", "--", "."),
        ],
        root,
    )
    found = []
    for entry in output.split(b"\x01")[1:]:
        message, _, names = entry.partition(b"\x02")
        paths = [name.strip(b"\n").decode("utf-8", "surrogateescape") for name in names.split(b"\0")]
        found.append((message, [path for path in paths if path]))
    return found


def latest_changes(root: str, number: int) -> str:
    """The latest commits in and below ``root``: a line for each, with the files it changed.

    Raises ``GitProblem``.
    """
    output = run_git(
        [
            *("log", f"-{number}", "--name-only", "--relative", "--no-color", "--no-ext-diff"),
            *("--no-textconv", "--date=short", "--format=%x01%h %ad %s", "--", "."),
        ],
        root,
    )
    lines = []
    for entry in output.decode("utf-8", "replace").split("\x01")[1:]:
        title, *names = [line for line in entry.splitlines() if line]
        lines.append("\n".join([title, *(f"  {name}" for name in names)]))
    return "\n".join(lines)
