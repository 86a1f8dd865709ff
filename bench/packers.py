"""The programs that are measured, with command lines as their documentation shows."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
COMMIT = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "commit", "-q", "-m", "corpus"]
TASK = "explain this library"
# Block the network: connections to this proxy are refused at once.
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
}
# A program that prints the number of tokens of stdin.
COUNT = (
    "import sys, tiktoken; e = tiktoken.get_encoding('o200k_base'); "
    "t = sys.stdin.buffer.read().decode(errors='replace'); print(len(e.encode_ordinary(t)))"
)


class Failed(Exception):
    """A program produced no result."""


@dataclass(frozen=True)
class Program:
    """A program; ``arguments(corpus, output, budget)`` returns its command line."""

    name: str
    executable: Path
    arguments: Callable[[Path, Path, int | None], list[str]]
    full: bool = True
    budgets: bool = False
    caches: bool = False
    needs_git: bool = False
    writes_stdout: bool = False
    distribution: str = ""
    result: Callable[[bytes], bytes] = field(default=lambda data: data)
    note: str = ""

    def takes(self, budget: int | None) -> bool:
        return self.full if budget is None else self.budgets

    def command(self, corpus: Path, output: Path, budget: int | None) -> list[str]:
        return [str(self.executable), *self.arguments(corpus, output, budget)]

    def version(self) -> dict[str, str]:
        """Return the version, and the note for the table."""
        if not self.executable.exists():
            return {"version": "not installed", "note": self.note}
        package = self.executable.parents[1] / self.distribution / "package.json"
        if package.is_file():
            return {"version": json.loads(package.read_text(encoding="utf-8"))["version"], "note": self.note}
        code = f"from importlib.metadata import version; print(version({self.distribution!r}))"
        done = subprocess.run(
            [self.executable.parent / "python", "-c", code], capture_output=True, text=True, check=True
        )
        return {"version": done.stdout.strip(), "note": self.note}

    @staticmethod
    def last_message(messages: str) -> str:
        """Return the last line of the messages, truncated."""
        lines = [line.strip() for line in messages.splitlines() if line.strip()]
        return lines[-1][:160] if lines else ""


def _python(name: str) -> Path:
    return HERE / (f".venv-{name}" if name else ".venv") / "bin"


def _node(name: str) -> Path:
    return HERE / f".npm-{name}" / "node_modules" / ".bin" / name


def _tokenbox(corpus: Path, output: Path, budget: int | None) -> list[str]:
    limit = [] if budget is None else ["--budget", str(budget)]
    return ["pack", str(corpus), "--output", str(output), *limit]


def _repomix(corpus: Path, output: Path, budget: int | None) -> list[str]:
    limit = [] if budget is None else ["--token-budget", str(budget)]
    return ["--quiet", "-o", str(output), *limit, str(corpus)]


def redcon(corpus: Path, output: Path, budget: int | None) -> list[str]:
    """Return the command line of redcon."""
    return [
        *("-q", "pack", TASK, "--repo", str(corpus), "--max-tokens", str(budget)),
        *("--format", "context-only", "--out-prefix", str(output)),
    ]


PROGRAMS = (
    Program(
        "tokenbox",
        Path(sys.executable).with_name("tokenbox"),
        _tokenbox,
        budgets=True,
        caches=True,
        distribution="tokenbox-llm",
        note="with the extra `outline`; the cache of counts is the only one",
    ),
    Program(
        "repomix",
        _node("repomix"),
        _repomix,
        budgets=True,
        caches=True,
        distribution="repomix",
        note="`--token-budget` only says that it is over, by its exit status",
    ),
    Program(
        "repomix --compress",
        _node("repomix"),
        lambda *given: ["--compress", *_repomix(*given)],
        budgets=True,
        caches=True,
        distribution="repomix",
        note="signatures of every file, its nearest to a budget",
    ),
    Program(
        "gitingest",
        _python("gitingest") / "gitingest",
        lambda corpus, output, _: [str(corpus), "-o", str(output)],
        distribution="gitingest",
        note="no budget",
    ),
    Program(
        "code2prompt",
        _python("code2prompt") / "code2prompt",
        lambda corpus, output, _: ["--path", str(corpus), "-o", str(output), "--tokens"],
        distribution="code2prompt",
        note="the one on PyPI; counts cl100k; no budget",
    ),
    Program(
        "redcon",
        _python("redcon") / "redcon",
        redcon,
        full=False,
        budgets=True,
        caches=True,
        writes_stdout=True,
        distribution="redcon",
        note="ranks files for a task; its own estimate of tokens unless tiktoken is there",
    ),
    Program(
        "aider map",
        _python("aider") / "aider",
        lambda _corpus, _output, budget: [
            *("--show-repo-map", "--map-tokens", str(budget), "--model", "gpt-4o", "--yes-always"),
            *("--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-gitignore"),
            *("--no-show-release-notes", "--no-pretty", "--no-stream"),
        ],
        full=False,
        budgets=True,
        caches=True,
        needs_git=True,
        writes_stdout=True,
        distribution="aider-chat",
        result=lambda data: data[data.find(b"\n\n") + 2 :],
        note="signatures only, ranked; what it says before the map is not counted",
    ),
    Program(
        "codefetch",
        _node("codefetch"),
        lambda corpus, _output, budget: ["--dir", str(corpus), "-o", "out.md", "--max-tokens", str(budget)],
        full=False,
        budgets=True,
        distribution="codefetch",
        note="its default estimate of tokens, as the exact ones have to be downloaded",
    ),
    Program(
        "contextcram",
        _python("") / "python",
        lambda corpus, output, budget: [
            str(HERE / "contextcram_files.py"),
            str(corpus),
            str(output),
            str(budget),
        ],
        full=False,
        budgets=True,
        distribution="contextcram",
        note="a library: every file an item, o200k by tiktoken, its default strategy",
    ),
)
BY_NAME = {program.name: program for program in PROGRAMS}
