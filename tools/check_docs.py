"""Run the examples of README.md and docs/*.md and compare their output with the text.

A mark, an HTML comment on the line before a fenced block, tells what to do with the block:

    <!-- run -->        run a `python` block; in a `console` block, run each command after `$ ` (continued
                        after `> `) and compare stdout and stderr with the lines below it
    <!-- prints -->     the expected output of the `python` block before; without it, nothing is expected
    <!-- file NAME -->  write the block to NAME, for the blocks after it

If a page writes a pyproject.toml, its entry points are registered as if the project was installed.
The blocks of one document run in order in one empty folder, in which `examples` links to the project's own.
Every fence must be closed before the next heading or fence. Every command of `tokenbox --help` must also
occur in the text of docs/cli.md, as `tokenbox COMMAND`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.cli.listing import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 900  # seconds per block or command, for a busy machine; documented commands take far less

MARK = re.compile(r"<!-- (run|prints|file (\S+)) -->")
FENCE = re.compile(r"(`{3,})(\w*)")
HEADING = re.compile(r"#{2,4} \w")  # a Markdown heading; a comment begins with one #
MAY_CONTAIN_HEADINGS = frozenset({"markdown", "text"})  # languages of blocks


class DocsError(Exception):
    """An example whose output differs, or a wrong mark. The message starts with file and line."""


@dataclass(frozen=True, slots=True)
class Block:
    """A marked block. ``line`` is the line number (from 1) of its opening fence."""

    mark: str
    file: str | None
    language: str
    text: str
    line: int


def marked_blocks(document: str) -> list[Block]:
    """Return the marked blocks in order; check the fences of all blocks."""
    lines = document.splitlines(keepends=True)
    blocks = []
    mark: re.Match[str] | None = None
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence is None:
            if mark is not None:
                raise DocsError(f"{at + 1}: a mark must be followed by a fenced block")
            mark = MARK.fullmatch(lines[at].strip())
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].rstrip() == fence[1]), None)
        if end is None:
            raise DocsError(f"{at + 1}: the fence is never closed")
        check_closed(lines, at, end, fence)
        if mark is not None:
            kind = mark[1].split()[0]
            blocks.append(Block(kind, mark[2], fence[2], "".join(lines[at + 1 : end]), at + 1))
        mark = None
        at = end + 1
    if mark is not None:
        raise DocsError(f"{len(lines)}: a mark must be followed by a fenced block")
    return blocks


def check_closed(lines: list[str], start: int, end: int, fence: re.Match[str]) -> None:
    """Raise if the block contains an opening fence or a heading: its closing fence is probably missing."""
    for at in range(start + 1, end):
        opened = FENCE.match(lines[at])
        if opened is not None and len(opened[1]) >= len(fence[1]):
            raise DocsError(f"{start + 1}: the fence is not closed before the one of line {at + 1}")
        if HEADING.match(lines[at]) and fence[2] not in MAY_CONTAIN_HEADINGS:
            raise DocsError(f"{start + 1}: the fence is not closed before the heading of line {at + 1}")


def prose_lines(document: str) -> Iterator[str]:
    """Yield the lines outside fenced blocks."""
    open_fence = ""
    for line in document.splitlines(keepends=True):
        fence = FENCE.match(line)
        if open_fence:
            if line.rstrip() == open_fence:
                open_fence = ""
        elif fence is not None:
            open_fence = fence[1]
        else:
            yield line


def commands(console: str) -> list[tuple[str, str]]:
    """Return each command of a console block with its documented output."""
    found: list[tuple[str, str]] = []
    in_command = False
    for line in console.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:], ""))
            in_command = True
        elif in_command and line.startswith("> "):
            found[-1] = (found[-1][0] + line[2:], "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
            in_command = False
        else:
            raise DocsError("a console block starts with a command: $ ...")
    return found


def output_of(arguments: list[str], folder: Path) -> tuple[str, int]:
    """Run a program; return its output (both streams, without trailing blanks of lines) and exit status."""
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)]),
        "PYTHONIOENCODING": "utf-8",
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    run = subprocess.run(  # noqa: S603  # from our own documents
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    return without_trailing_blanks(run.stdout), run.returncode


def without_trailing_blanks(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def compare(shown: str, printed: str) -> None:
    shown = without_trailing_blanks(shown)
    if shown != printed:
        difference = unified_diff(
            shown.splitlines(), printed.splitlines(), "the document shows", "it prints", lineterm=""
        )
        raise DocsError("\n".join(["what it prints is not what is shown", *difference]))


def install(project: Path, folder: Path) -> None:
    """Write the metadata that `pip install --editable .` would write for a page's pyproject.toml."""
    if project.name != "pyproject.toml":
        return
    document = tomllib.loads(project.read_text(encoding="utf-8"))
    table = document.get("project", {})
    if "entry-points" not in table:
        return
    modules = document.get("tool", {}).get("setuptools", {}).get("py-modules", [])
    named = {
        value.partition(":")[0] for points in table["entry-points"].values() for value in points.values()
    }
    if missing := sorted(named.difference(modules)):
        raise DocsError(f"pip would not install {', '.join(missing)}: add it to py-modules")
    info = folder / f"{table['name'].replace('-', '_')}-{table['version']}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {table['version']}\n", encoding="utf-8"
    )
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in table["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")


def run_block(block: Block, shown: str, folder: Path) -> None:
    """Run one block and compare its output. ``shown`` is the text of its `prints` block, for Python."""
    if block.language == "python":
        printed, status = output_of([sys.executable, "-c", block.text], folder)
        if status != 0:
            raise DocsError(f"it fails with exit status {status}:\n{printed}")
        compare(shown, printed)
    elif block.language == "console":
        for command, expected in commands(block.text):
            # A command may be there to show how it fails, so only its output is compared.
            printed, _ = output_of(["bash", "-c", command], folder)
            compare(expected, printed)
    else:
        raise DocsError(
            f"only python and console blocks can run, not {block.language or 'one without a language'}"
        )


def check_blocks(name: str, document: str) -> int:
    """Process the marked blocks. Return the number of blocks run; raise at the first difference."""
    line = 0
    runs = 0
    try:
        blocks = marked_blocks(document)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "examples").symlink_to(ROOT / "examples")
            for block, after in zip_longest(blocks, blocks[1:]):
                line = block.line
                if block.file is not None:
                    file = folder / block.file
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(block.text, encoding="utf-8")
                    install(file, folder)
                elif block.mark == "run":
                    shown = after.text if after is not None and after.mark == "prints" else ""
                    run_block(block, shown, folder)
                    runs += 1
    except DocsError as error:
        place = f"{name}:{line}: " if line else f"{name}:"
        raise DocsError(f"{place}{error}") from None
    return runs


def check_commands(names: Iterable[str], document: str) -> int:
    """Check that the prose of ``document`` mentions every command. Return the number of commands."""
    prose = "".join(prose_lines(document))
    listed = list(names)
    missing = [name for name in listed if not re.search(rf"\btokenbox {re.escape(name)}\b", prose)]
    if missing:
        raise DocsError(f"docs/cli.md: it does not describe: {', '.join(missing)}")
    return len(listed)


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def check_page(path: Path) -> tuple[str, list[str]]:
    """Run the examples of a page. Return a line about it, and the problem, if there is one."""
    name = str(path.relative_to(ROOT))
    try:
        return f"{name}: {check_blocks(name, path.read_text(encoding='utf-8'))} blocks run", []
    except (DocsError, OSError, subprocess.TimeoutExpired) as error:
        return f"{name}: failed", [str(error)]


def main() -> int:
    problems = []
    with ThreadPoolExecutor(4) as threads:
        for line, found in threads.map(check_page, documents()):
            print(line)
            problems += found
    try:
        count = check_commands(COMMANDS, (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
        print(f"docs/cli.md: {count} commands described")
    except (DocsError, OSError) as error:
        problems.append(str(error))
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
