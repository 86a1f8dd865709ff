"""The changes in a folder and its latest commits, by git; and clones of remote repositories.

In a folder, git runs without anything that a repository can configure to run a program of its own: no pager,
external diff, text conversion, file system monitor or content filter, no fetching, and no submodules, which
have their own configuration. So a file with a content filter is compared unfiltered.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from tokenbox.content.blocks import DiffBlock, Hunk
from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown
from tokenbox.worth.recent import PastChange, lines_written

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
# The options of each command that prints paths.
_SAFE = ("--no-color", "--no-ext-diff", "--no-textconv", "--relative")
_LOG = ("log", "--no-show-signature", *_SAFE)
# The same hunks, whatever the user's settings.
_STEADY = ("--diff-algorithm=histogram", "--no-indent-heuristic")
_DIFF = (
    "diff",
    *_SAFE,
    *_STEADY,
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--unified=3",
    "--find-renames",
    "--submodule=short",
    "--ignore-submodules=dirty",
)
# The lines of larger files are not compared.
_SMALL_FILES = ("-c", "core.bigFileThreshold=512k")
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_NO_COMMIT = f"fatal: bad revision '{HEAD}'"
_NO_REPOSITORY = "fatal: not a git repository"
_FILTER = re.compile(r"filter\..*\.(?:clean|process|required)\Z", re.DOTALL)
_NO_FILTER = {"clean": "", "process": "", "required": "false"}
_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@.*\n", re.MULTILINE)
# The header lines of a file to show.
_HEADERS = (b"new file", b"deleted file", b"old mode", b"new mode", b"rename ", b"copy ", b"Binary files")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

# The number of commits that are evidence of relevance, and of those whose lines are read.
_MAX_COMMITS, _MAX_PATCHES = 1500, 200
# The number of files of a commit that the log names: a release of a workspace changes hundreds.
_MAX_NAMES = 12
_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")


class GitProblem(TokenboxError, code="git_failed"):
    """Git is not installed, or failed. The message includes git's own."""


def git_diff(root: str, revision: str, paths: Sequence[str]) -> list[DiffBlock]:
    """Return the differences of the files ``paths`` below ``root`` from ``revision``, in git's order.

    Their paths are the file system's. The lines of a hunk include its ``@@`` line, because renderings do not
    show the position otherwise.
    Untracked files are not included. Raises :class:`GitProblem`.
    """
    if revision.startswith("-") or not revision.strip():
        raise GitProblem(
            f"{revision[:60]!r} is not a revision. Name a commit, branch or tag.", revision=revision
        )
    run_git(["rev-parse", "--is-inside-work-tree"], root)  # otherwise diff would compare plain files
    return _blocks(_compared(root, revision, "--", *(paths or ["."])))


def git_renames(root: str, revision: str) -> dict[str, str]:
    """Return the old path of each file below ``root`` that was renamed since ``revision``.

    Raises :class:`GitProblem`.
    """
    output = _compared(root, "--diff-filter=R", "--name-status", "-z", "--end-of-options", revision, "--")
    names = os.fsdecode(output).split("\0")[:-1]
    return dict(zip(names[2::3], names[1::3], strict=True))  # a status, the old path, the new one


def past_changes(root: str, *, lines: bool = False) -> list[PastChange]:
    """Return the latest commits in and below ``root``, without merges, the latest first; paths as shown.

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
        paths = [shown(os.fsdecode(path.strip(b"\n"))) for path in names.split(b"\0")]
        found.append(PastChange(message, [path for path in paths if path], _written(patches.get(name, ()))))
    return found


def _written(blocks: Sequence[DiffBlock]) -> Mapping[str, frozenset[bytes]]:
    """Return the lines that a commit wrote, by path as shown."""
    return {
        shown(block.path): lines_written(
            line[1:] for hunk in block.hunks for line in hunk.lines.split(b"\n") if line[:1] == b"+"
        )
        for block in blocks
    }


def latest_changes(root: str, number: int) -> str:
    """Return the latest commits in and below ``root``: a line for each, with the first files it changed.

    Raises ``GitProblem``.
    """
    lines = []
    for entry in git_log(number, "%h %ad %s", root, "--date=short"):
        title, *names = filter(None, entry.decode("utf-8", "replace").split("\n"))
        more = len(names) - _MAX_NAMES
        rest = [f"... {more} more"] if more > 0 else []
        lines.append("\n  ".join([title, *names[:_MAX_NAMES], *rest]))
    return "\n".join(lines)


def is_url(path: str) -> bool:
    """Return whether it is the address of a remote repository: ``https://...``, ``git@host:path``."""
    return _URL.fullmatch(path) is not None


@contextmanager
def cloned(url: str, *, whole: bool) -> Iterator[str]:
    """Yield the folder of a clone of ``url``, deleted at the end. ``URL#REF`` names a branch or tag.

    ``whole``: with its history; otherwise only the latest commit. Git uses the user's keys and settings; it
    does not prompt, run hooks or fetch submodules. Raises ``GitProblem``.
    """
    address, _, ref = url.partition("#")
    with tempfile.TemporaryDirectory(prefix="tokenbox-") as folder:
        target = os.path.join(folder, _name(address))
        command = ["git", "-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--no-recurse-submodules"]
        command += [] if whole else ["--depth=1", "--single-branch"]
        command += [f"--branch={ref}"] if ref else []
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        ended = _ended(
            [*command, "--", address, target], environment, "a remote repository needs it. Install it"
        )
        if ended.returncode:
            message = _without_password(ended.stderr.decode("utf-8", "replace").strip())
            reason = next(
                (line for line in message.splitlines() if line.startswith("fatal: ")), message[:200]
            )
            raise GitProblem(
                f"git cannot clone {_without_password(address)}: {reason.rstrip('.')}. "
                f"Try it yourself: {clone_command(url)}",
                git=message[:2000],
            )
        yield target


def clone_command(url: str) -> str:
    """Return the command that clones ``URL`` or ``URL#REF``, without a password."""
    address, _, ref = url.partition("#")
    branch = [f"--branch={ref}"] if ref else []
    return shown(shlex.join(["git", "clone", *branch, _without_password(address)]))


def git_log(number: int, format_: str, root: str, *options: str) -> list[bytes]:
    """Return the latest commits in and below ``root``, each formatted and followed by the paths it changed.

    Raises :class:`GitProblem`.
    """
    # Without a search for renames git reads no content, which a partial clone may lack.
    only_names = ("--name-only", "--no-renames")
    command = [*_LOG, f"-{number}", *only_names, *options, f"--format=%x00%x01{format_}", "--", "."]
    return run_git(command, root).split(b"\0\x01")[1:]  # a message may contain any byte but NUL


def git_patches(number: int, root: str) -> dict[bytes, list[DiffBlock]]:
    """Return what the latest commits in and below ``root`` changed in existing files, by their hashes.

    Merges, large files and context lines are left out. Raises :class:`GitProblem`, also for a partial clone.
    """
    command = [*_LOG, *_STEADY, f"-{number}", "--patch", "--unified=0", "--diff-filter=M"]
    command += ["--src-prefix=a/", "--dst-prefix=b/", "--no-renames", "--no-merges", "--ignore-submodules"]
    output = run_git([*_SMALL_FILES, *command, "--format=%x01%H", "--", "."], root)
    # Every line of a patch begins with a sign, a letter or a backslash.
    entries = (entry.partition(b"\n") for entry in re.split(rb"(?:\A|\n)\x01", output)[1:])
    return {name: _blocks(patch) for name, _, patch in entries}


def _blocks(output: bytes) -> list[DiffBlock]:
    """Parse the output of ``git diff``."""
    starts = [match.start() for match in _FILE.finditer(output)]
    return [_block(output[start:end]) for start, end in pairwise([*starts, len(output)])]


def _compared(root: str, *arguments: str) -> bytes:
    """Return the output of ``git diff``, with each content filter of the settings disabled."""
    settings = run_git(["config", "--null", "--name-only", "--list"], root)
    names = {os.fsdecode(name) for name in settings.split(b"\0")}
    drivers = sorted({name.rpartition(".")[0] for name in names if _FILTER.match(name)})
    disabled = [(f"{driver}.{name}", value) for driver in drivers for name, value in _NO_FILTER.items()]
    environment = {"GIT_CONFIG_COUNT": str(len(disabled))}
    for i, (key, value) in enumerate(disabled):
        environment |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value}
    return run_git([*_DIFF, *arguments], root, environment)


def run_git(arguments: Sequence[str], folder: str, settings: Mapping[str, str] | None = None) -> bytes:
    """Return the output of git, run without any program of the repository. Raises :class:`GitProblem`.

    ``settings``: additional environment variables.
    """
    # GIT_* variables could name programs, or another repository.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, **_ENVIRONMENT, **(settings or {})}
    needed = "--base, --diff and --history need it. Install it, or leave them out"
    ended = _ended([*_GIT, *arguments], environment, needed, folder)
    if ended.returncode:
        message = ended.stderr.decode("utf-8", "replace").strip()
        if message == _NO_COMMIT:
            raise GitProblem(
                "there is no commit yet to compare with. Commit first, or leave out --diff.",
                git=message,
            )
        if message.startswith(_NO_REPOSITORY):
            raise GitProblem(
                "this is not a git repository. Pack a clone, or leave out --diff, --history and --log.",
                git=message[:2000],
            )
        raise GitProblem(f"git failed: {_summary(message)}", git=message[:2000])
    return ended.stdout


def _ended(
    command: Sequence[str], environment: Mapping[str, str], needed: str, folder: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end. ``needed``: what needs it, for the error without it. Raises :class:`GitProblem`."""
    try:
        return subprocess.run(  # noqa: S603  # a fixed program, no shell, and no argument of others is an option
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitProblem(f"git is not installed, and {needed}.") from None
    except (OSError, ValueError) as error:  # an argument with a NUL
        raise GitProblem(f"git cannot be run: {getattr(error, 'strerror', None) or error}.") from None


def _summary(message: str) -> str:
    """Return the first lines of a message of git, without its usage."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith("usage:")]
    return " ".join(lines[:4])[:600] or "it gave no reason"


def _block(text: bytes) -> DiffBlock:
    """Parse the part of the output for one file."""
    # Only a line outside of hunks can match: inside, each begins with a blank, a sign or a backslash.
    starts = list(_HUNK.finditer(text))
    ends = [*(match.start() for match in starts), len(text)]
    hunks = [
        Hunk(int(match[1]), int(match[2]), text[match.start() : end])
        for match, end in zip(starts, ends[1:], strict=True)
    ]
    head = text[: ends[0]].splitlines(keepends=True)
    shown_head = b"".join(line for line in head if line.startswith(_HEADERS))
    if shown_head:
        hunks.insert(0, Hunk(0, 0, shown_head))
    return DiffBlock(os.fsdecode(_path(head)), tuple(hunks))


def _path(head: Sequence[bytes]) -> bytes:
    """Return the new path of a file; of a deleted file, its old path."""
    for prefix, side in ((b"rename to ", b""), (b"copy to ", b""), (b"+++ ", b"b/"), (b"--- ", b"a/")):
        for line in reversed(head):
            name = _unquoted(line[len(prefix) :].rstrip(b"\n").removesuffix(b"\t"))
            if line.startswith(prefix) and (not side or name != b"/dev/null"):
                return name[len(side) :]
    # ``a/PATH b/PATH``, of a file without changed lines or a new name.
    names = head[0][len(b"diff --git ") :].rstrip(b"\n")
    return _unquoted(names[: names.index(b'" ') + 1])[2:] if names[:1] == b'"' else names[2 : len(names) // 2]


def _unquoted(name: bytes) -> bytes:
    """Decode a name that git quotes because of special characters."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(
        lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else _ESCAPED.get(m[1], m[1]),
        name[1:-1],
    )


def _name(address: str) -> str:
    name = re.split(r"[/:]", address.rstrip("/"))[-1].removesuffix(".git")
    return name if re.fullmatch(r"[\w-][\w.-]*", name) else "repository"


def _without_password(address: str) -> str:
    return re.sub(r"(?<=//)[^/\s]+@", "", address)  # a password may contain an @
