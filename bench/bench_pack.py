"""The standard library packed for a model: tokenbox beside programs that also turn a folder into a prompt."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import packers
import table_pack
from bench_layout import machine, say
from workers import ENVIRONMENTS, rank_files

REPEATS = 5
LIMIT = 120.0  # seconds for one run
BUDGETS = (50_000, 5_000)
# What takes seconds need not be run as often: at most this long per row, but twice at least.
PATIENCE = 12.0

table = table_pack.table


def run(*, quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "programs": {},
        "cells": [],
        "quick": quick,
    }
    with tempfile.TemporaryDirectory(prefix="tokenbox-bench-") as name:
        bench = _Bench(Path(name), results)
        results["input"] = bench.corpus()
        for program in packers.PROGRAMS:
            results["programs"][program.name] = program.version()
        bench.measure(quick=quick)
    results["load"] = list(os.getloadavg())
    return results


class _Bench:
    """A folder with the corpus, and for each program a copy of its own and a home that begins empty."""

    def __init__(self, folder: Path, results: dict[str, Any]) -> None:
        self.folder = folder
        self.results = results
        self.tokens: dict[str, int] = {}

    def corpus(self) -> dict[str, Any]:
        """The standard library of this Python without its tests and without what is compiled."""
        source = Path(sysconfig.get_path("stdlib"))

        def left_out(folder: str, names: list[str]) -> list[str]:
            return [
                name
                for name in names
                if name in ("__pycache__", "site-packages", "dist-packages", "lib-dynload")
                or (name == "test" and Path(folder) == source)
                or name.startswith("config-")
                or name.endswith((".so", ".a", ".pyc", ".whl"))
                or Path(folder, name).is_symlink()
            ]

        shutil.copytree(source, self.folder / "corpus", ignore=left_out)
        files = sorted(path for path in (self.folder / "corpus").rglob("*") if path.is_file())
        digest = hashlib.sha256()
        for path in files:
            digest.update(path.read_bytes())
        size = sum(path.stat().st_size for path in files)
        return {"files": len(files), "bytes": size, "sha256": digest.hexdigest()}

    def measure(self, *, quick: bool) -> None:
        """Every program in turn, one repeat each, so that a slow minute hits all alike."""
        cells = [
            {"program": program.name, "budget": budget, "cache": cache, "seconds": [], "memory": []}
            for budget in (None, *BUDGETS)
            for program in packers.PROGRAMS
            for cache in ("cold", "warm")
            if program.takes(budget)
            and (cache == "cold" or (program.caches and (budget is None or program.name == "tokenbox")))
        ]
        self.results["cells"] = cells
        small = self.folder / "small"
        small.mkdir()
        (small / "a.py").write_text("x = 1\n", encoding="utf-8")
        self._once(packers.BY_NAME["tokenbox"], small, None)  # compiles its modules, as installing does
        for repeat in range(2 if quick else REPEATS):
            for cell in cells:
                spent = sum(cell["seconds"])
                if "problem" in cell or (repeat > 1 and spent > PATIENCE):
                    continue
                self._run(cell, packers.BY_NAME[cell["program"]], first=repeat == 0)
        for cell in cells:
            shown = " ".join(f"{seconds:.2f}" for seconds in cell["seconds"])
            into = cell["budget"] or "in full"
            say(f"{cell['program']:20} {into:>8} {cell['cache']} {shown} s {cell.get('problem', '')}")
        for program in packers.PROGRAMS:
            if program.name in ("tokenbox", "repomix"):
                self.results["programs"][program.name]["memory_of_nothing"] = self._once(
                    program, small, None
                )["memory"]

    def _run(self, cell: dict[str, Any], program: packers.Program, *, first: bool) -> None:
        home = self.folder / "homes" / program.name
        if cell["cache"] == "cold":
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(self.folder / "corpus", home / "corpus")
            if program.needs_git:
                for arguments in (["init", "-q"], ["add", "-A"], packers.COMMIT):
                    subprocess.run(["git", *arguments], cwd=home / "corpus", check=True, capture_output=True)
        elif first:
            self._once(program, home / "corpus", cell["budget"])  # what fills its cache
        try:
            given = self._once(program, home / "corpus", cell["budget"])
        except packers.Failed as error:
            cell["problem"] = str(error)[:200]
            return
        cell["seconds"].append(given["seconds"])
        cell["memory"].append(given["memory"])
        if first:
            cell["status"] = given["status"]
            cell["bytes"] = len(given["output"])
            cell["tokens"] = self._count(given["output"])
            cell["said"] = program.said(given["messages"])

    def _once(self, program: packers.Program, corpus: Path, budget: int | None) -> dict[str, Any]:
        """One run: seconds, peak memory in bytes, what it wrote."""
        home = corpus.parent
        for part in ("cache", "tmp"):
            (home / part).mkdir(parents=True, exist_ok=True)
        output = corpus / "codefetch" / "out.md" if program.name == "codefetch" else home / "out"
        output.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "TOKENBOX_CACHE_DIR": str(home / "cache"),
            "TMPDIR": str(home / "tmp"),
            "TIKTOKEN_CACHE_DIR": str(rank_files()),
            **packers.OFFLINE,
            # As where they are installed: what is written in Python is compiled once, not at every start.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
        }
        with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
            start = time.perf_counter()
            process = subprocess.Popen(
                program.command(corpus, output, budget),
                cwd=corpus,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            status, usage = _ended(process, LIMIT)
            seconds = time.perf_counter() - start
        messages = (home / "stderr").read_text(errors="replace") + (
            "" if program.writes_stdout else (home / "stdout").read_text(errors="replace")
        )
        written = home / "stdout" if program.writes_stdout else output
        if status is None:
            raise packers.Failed(f"over {LIMIT:.0f} s")
        if not written.is_file() or not written.stat().st_size:
            raise packers.Failed(f"exit status {status}, and nothing written: {messages.strip()[-150:]}")
        return {
            "seconds": seconds,
            "memory": usage,
            "status": status,
            "output": program.result(written.read_bytes()),
            "messages": messages,
        }

    def _count(self, output: bytes) -> int:
        """o200k tokens by tiktoken with its own ranks, in another process: nothing of tokenbox's."""
        digest = hashlib.sha256(output).hexdigest()
        if digest not in self.tokens:
            done = subprocess.run(
                [ENVIRONMENTS["peers"] / "bin" / "python", "-c", packers.COUNT],
                input=output,
                capture_output=True,
                env={**os.environ, "TIKTOKEN_CACHE_DIR": str(rank_files())},
                check=True,
            )
            self.tokens[digest] = int(done.stdout)
        return self.tokens[digest]


def _ended(process: subprocess.Popen[bytes], limit: float) -> tuple[int | None, int]:
    """The exit status, None if it had to be ended, and the peak memory in bytes of the process."""
    deadline = time.monotonic() + limit
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            unit = 1 if sys.platform == "darwin" else 1024
            return process.returncode, usage.ru_maxrss * unit
        if time.monotonic() > deadline:
            os.killpg(process.pid, 9)
            process.wait()
            return None, 0
        time.sleep(0.005)
