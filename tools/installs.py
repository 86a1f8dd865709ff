"""Install tokenbox, base and each extra alone, on each Python found, and show packages and sizes.

    python tools/installs.py                       every Python from 3.11 on, and other libraries
    python tools/installs.py --write               also write bench/results/installs.md
    python tools/installs.py --python /usr/bin/python3.12 --extra gateway

Each installation gets its own environment and must pass its trial: a command that uses it. Sizes are those of
the installed files without bytecode, which pip writes when it installs and which takes about as much as the
sources. Packages come from the index that uv is configured with, so this is not a test.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "bench" / "results" / "installs.md"
UV = str(Path(sys.executable).with_name("uv"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PEERS = ("tiktoken", "langchain-core", "litellm")
NPM_PEER = "repomix"

COUNT = "import tokenbox; assert tokenbox.count('Hello, world!', tokenizer='o200k_base').total == 4"
LENS = (
    "from tokenbox.content.lenses import parse_pipeline as p; import tokenbox.tokenizers as n; "
    "t = n.get('chars4')"
)
# By extra: Python code that works if the extra is installed and fails without it.
TRIALS = {
    "": COUNT,
    "all": COUNT,
    "batch": "import fsspec, pyarrow.parquet; from tokenbox.batch import run",
    "bcp": "from tokenbox.lcp.compression import compressed, expanded as e; e(compressed(b'x' * 999), 999)",
    "fast": "import tokenbox.tokenizers as t; assert t.get('o200k_base', engine='fast').count('Hello') == 1",
    "files": "import sentencepiece, tokenizers",
    "gateway": "import uvicorn, tokenbox.gateway.run, tokenbox.store.postgresql",
    "html": f"{LENS}; p('html_to_text').apply('<b>x</b>', t)",
    "llama3": "import tokenbox.tokenizers as t; assert t.get('llama3-bpe').count('Hello') == 1",
    "mcp": "import mcp, tokenbox.shell.mcp_tools",
    "notebook": "import tokenbox; from tokenbox.inspect import slider; "
    "slider(tokenbox.layout([{'id': 'a', 'content': 'Hello, world!', 'shrink': 1}], 3, 'o200k_base'))",
    "otel": "from tokenbox.gateway import traces; traces.traces_from({})",
    "outline": f"{LENS}; p('outline(\"python\")').apply('x = 1', t)",
    "ray": "import ray",
    "shell": "import httptools, prompt_toolkit, tokenbox.shell.editor",
    "sign": "from tokenbox.proof.signing import new_key; new_key()",
}


@dataclass(frozen=True, slots=True)
class Installed:
    """One environment: the number of packages without pip, and the bytes of their files without bytecode."""

    name: str
    python: str
    packages: int
    size: int
    problem: str | None = None

    @property
    def megabytes(self) -> str:
        return f"{self.size / 1_000_000:.1f}"


def run(*arguments: str, cwd: str | None = None) -> str:
    done = subprocess.run(  # noqa: S603  # our own programs
        arguments, capture_output=True, text=True, check=False, cwd=cwd, timeout=900
    )
    if done.returncode != 0:
        raise OSError((done.stderr.strip() or done.stdout.strip())[-400:])
    return done.stdout


def size_of(folder: Path) -> int:
    """Return the bytes of the files below ``folder`` without bytecode; count hard links once."""
    seen = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".pyc" and not path.is_symlink():
            found = path.stat()
            seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


def install(name: str, python: str, requirement: str, trial: str) -> Installed:
    """Install ``requirement`` into a new environment of ``python`` and run the trial."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "env"
        try:
            run(UV, "venv", "--quiet", "--python", python, str(environment))
            own = str(environment / "bin" / "python")
            run(UV, "pip", "install", "--quiet", "--link-mode", "copy", "--python", own, requirement)
            version = run(own, "-c", "import platform; print(platform.python_version())").strip()
            listed = json.loads(run(UV, "pip", "list", "--quiet", "--format", "json", "--python", own))
            folder = next((environment / "lib").glob("python3*/site-packages"))
            size = size_of(folder)
            run(own, "-c", trial, cwd=scratch)
        except OSError as error:
            return Installed(name, python, 0, 0, str(error).splitlines()[-1])
        return Installed(name, version, len(listed), size)


def install_npm(name: str) -> Installed | None:
    """Install a package of npm; return None if npm is missing."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        try:
            run(npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", name, cwd=scratch)
        except OSError as error:
            return Installed(name, "node", 0, 0, str(error).splitlines()[-1])
        lock = json.loads((Path(scratch) / "package-lock.json").read_text(encoding="utf-8"))
        return Installed(name, "node", len(lock["packages"]) - 1, size_of(Path(scratch)))


def pythons() -> list[str]:
    """Return the interpreters of ``PYTHONS`` that start, one per version."""
    found = []
    for version in PYTHONS:
        named = [f"python{version}", *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
        found += [path for name in named if (path := shutil.which(name)) is not None and starts(path)][:1]
    return found


def starts(python: str) -> bool:
    try:
        run(python, "-V")
    except OSError:
        return False
    return True


def table(rows: list[Installed], order: str) -> str:
    lines = [f"| {order} | Python | packages | MB | trial |", "|---|---|---:|---:|---|"]
    for row in rows:
        cells = (row.name, row.python, str(row.packages or "-"), row.megabytes if row.size else "-")
        lines.append(f"| {' | '.join(cells)} | {row.problem or 'ok'} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--python", action="append", help="an interpreter; may be repeated")
    parser.add_argument("--extra", action="append", help="an extra; may be repeated. Default: base and all")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    given = parser.parse_args()
    if not Path(UV).is_file():
        parser.error(f"uv is missing. Run: {sys.executable} -m pip install -r requirements/lock.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = given.extra or ["", *project["optional-dependencies"]]
    chosen = given.python or pythons()
    rows = []
    for python in chosen:
        for extra in extras:
            name = f"tokenbox-llm[{extra}]" if extra else "tokenbox-llm"
            requirement = f"{project['name']}[{extra}] @ {ROOT.as_uri()}" if extra else str(ROOT)
            rows.append(install(name, python, requirement, TRIALS[extra]))
            print(rows[-1], flush=True)
    peers = [install(name, chosen[0], name, f"import {name.replace('-', '_')}") for name in PEERS]
    peers += [row] if (row := install_npm(NPM_PEER)) is not None else []
    first = [row for row in rows if row.name == "tokenbox-llm"][:1]
    missing = [one for one in PYTHONS if not any(row.python.startswith(one) for row in rows)]
    text = "\n\n".join(
        [
            "# What an installation takes",
            "`python tools/installs.py --write`. Files without bytecode, as `uv pip install` leaves them.",
            "## Beside other libraries",
            table([*first, *peers], "library"),
            "## Base and each extra alone",
            table(rows, "what"),
            *([f"Not tried, because no such Python was found: {', '.join(missing)}."] if missing else []),
        ]
    )
    print(text)
    if given.write:
        RESULT.write_text(f"{text}\n", encoding="utf-8")
    return int(any(row.problem for row in (*rows, *peers)))


if __name__ == "__main__":
    sys.exit(main())
