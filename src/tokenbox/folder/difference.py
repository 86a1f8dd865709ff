"""What changed in the working tree, by git: a block for each file.

Git is run with nothing that a repository can configure to run a program of its own: no pager, no external
diff, no text conversion, no file system monitor, no filter of contents, nothing fetched, and no look into
submodules, which have configurations of their own. So a file that a filter would change is compared as it is.
"""

from __future__ import annotations

import os
import re
import subprocess
from types import MappingProxyType
from typing import TYPE_CHECKING

from tokenbox.content.blocks import DiffBlock, Hunk
from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HEAD = "HEAD"

_GIT = (
    "git",
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
)
_DIFF = (
    *(
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--unified=3",
    ),
    *(
        "--find-renames",
        "--diff-algorithm=histogram",
        "--no-indent-heuristic",
        "--submodule=short",
        "--ignore-submodules=dirty",
        "--relative",
    ),
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_NO_COMMIT = f"fatal: bad revision '{HEAD}'"
_FILTER = re.compile(r"filter\..*\.(?:clean|process|required)\Z", re.DOTALL)
_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@.*\n", re.MULTILINE)
# What is said of a file beside its lines, and worth telling.
_SAID = (b"new file", b"deleted file", b"old mode", b"new mode", b"rename ", b"copy ", b"Binary files")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class GitProblem(TokenboxError):
    """Git is not there, or cannot make the diff. The message has what git said."""

    code = "git_failed"


def git_diff(root: str, revision: str, paths: Sequence[str]) -> list[DiffBlock]:
    """How the files ``paths`` below ``root`` differ from ``revision``, in git's order.

    Each hunk's lines begin with its own ``@@`` line, because renderings show nothing else of a hunk's place.
    Files that git does not track do not differ. Raises :class:`GitProblem`.
    """
    if revision.startswith("-") or not revision.strip():
        raise GitProblem(
            f"{revision[:60]!r} is not a revision. Name a commit, branch or tag.", revision=revision
        )
    _run([*_GIT, "rev-parse", "--is-inside-work-tree"], root)  # or diff would compare plain files
    configured = _run([*_GIT, "config", "--null", "--name-only", "--list"], root)
    output = _run([*_GIT, *_DIFF, revision, "--", *(paths or ["."])], root, _no_filters(configured))
    starts = [match.start() for match in _FILE.finditer(output)]
    ends = [*starts[1:], len(output)][: len(starts)]
    return [_block(output[start:end]) for start, end in zip(starts, ends, strict=True)]


def run_git(arguments: Sequence[str], folder: str) -> bytes:
    """What git prints, with nothing that a repository can configure to run. Raises :class:`GitProblem`."""
    return _run([*_GIT, *arguments], folder)


def _no_filters(configured: bytes) -> dict[str, str]:
    """The environment that undoes each filter among the NUL-ended names of what is configured."""
    names = {os.fsdecode(name) for name in configured.split(b"\0")}
    drivers = sorted({name.rpartition(".")[0] for name in names if _FILTER.match(name)})
    undone = [
        (f"{driver}.{variable}", value)
        for driver in drivers
        for variable, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    settings = {"GIT_CONFIG_COUNT": str(len(undone))}
    for i, (key, value) in enumerate(undone):
        settings[f"GIT_CONFIG_KEY_{i}"], settings[f"GIT_CONFIG_VALUE_{i}"] = key, value
    return settings


def _run(command: Sequence[str], folder: str, settings: Mapping[str, str] = MappingProxyType({})) -> bytes:
    # What the environment says of git's programs and of where the repository is would undo the above.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, **_ENVIRONMENT, **settings}
    try:
        ended = subprocess.run(  # noqa: S603  # a fixed program, and no shell
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise GitProblem(
            "git is not installed, and --diff and --history need it. Install it, or leave them out."
        ) from None
    except OSError as error:
        raise GitProblem(f"git cannot be run: {error.strerror}.") from None
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip()
        if said == _NO_COMMIT:
            raise GitProblem(
                "there is no commit yet, so nothing to compare with. Commit first, or leave out --diff.",
                git=said,
            )
        raise GitProblem(f"git failed: {_first_words(said)}", git=said[:2000])
    return ended.stdout


def _first_words(said: str) -> str:
    """What git said, up to where it explains its whole usage."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("usage:")]
    return " ".join(lines[:4])[:600] or "it gave no reason"


def _block(text: bytes) -> DiffBlock:
    """One file of the output."""
    hunks = list(_hunks(text))
    at = _HUNK.search(text)
    head = text[: at.start() if at else len(text)].splitlines(keepends=True)
    said = b"".join(line for line in head if line.startswith(_SAID))
    if said:
        hunks.insert(0, Hunk(0, 0, said))
    return DiffBlock(shown(os.fsdecode(_path(head))), tuple(hunks))


def _hunks(text: bytes) -> Iterator[Hunk]:
    # Only a line outside of hunks can begin so: inside, each begins with a blank, a sign or a backslash.
    starts = list(_HUNK.finditer(text))
    ends = [*(match.start() for match in starts[1:]), len(text)][: len(starts)]
    for match, end in zip(starts, ends, strict=True):
        yield Hunk(int(match[1]), int(match[2]), text[match.start() : end])


def _path(head: Sequence[bytes]) -> bytes:
    """The path of the file as it is now; of a deleted file, as it was."""
    named = {}
    for line in head:
        for sign in (b"+++ ", b"--- ", b"rename to ", b"copy to "):
            if line.startswith(sign):
                named[sign] = _unquoted(line[len(sign) :].rstrip(b"\n").removesuffix(b"\t"))
    for sign in (b"rename to ", b"copy to "):
        if sign in named:
            return named[sign]
    for sign in (b"+++ ", b"--- "):
        if named.get(sign, b"/dev/null") != b"/dev/null":
            return named[sign][2:]
    return _path_said_twice(head[0][len(b"diff --git ") :].rstrip(b"\n"))


def _path_said_twice(names: bytes) -> bytes:
    """The path in ``a/PATH b/PATH``, where neither lines nor a new name say it."""
    if names.startswith(b'"'):
        return _unquoted(names[: names.index(b'" ') + 1])[2:]
    return names[2 : len(names) // 2]


def _unquoted(name: bytes) -> bytes:
    """A name as git writes it, without the quotes it needs for odd characters."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(
        lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else _ESCAPED.get(m[1], m[1]),  # noqa: PLR2004
        name[1:-1],
    )
