"""Other programs over the same files: the output of each for a budget, truncated if it is over the budget.

They are defined in ``bench/packers.py``; ``bench/setup pack`` installs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import packers

from tests.compose.independent import encoding

if TYPE_CHECKING:
    from peers_of_selection import Selector

    from tokenbox.folder import Source
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

PEERS = ("repomix", "repomix --compress", "aider map", "redcon")
LIMIT = 300  # seconds
_WHOLE: dict[tuple[str, int, int, str], str] = {}


def outputs(name: str) -> Selector:
    """Return a selector that runs the program. redcon gets the query; the others do not take one."""

    def selected(
        source: Source, query: str | None, budget: int, counter: Tokenizer, cache: CountCache
    ) -> str:
        program = packers.BY_NAME[name]
        # repomix writes the same output for any budget.
        asked = None if name.startswith("repomix") else budget
        key = name, id(source), asked or 0, query or ""
        if key not in _WHOLE:
            _WHOLE.clear()
            _WHOLE[key] = _written(program, source, query, asked)
        return _cut(_WHOLE[key], budget)

    return selected


def _written(program: packers.Program, source: Source, query: str | None, budget: int | None) -> str:
    with tempfile.TemporaryDirectory(prefix="tokenbox-peer-") as name:
        home = Path(name)
        corpus = home / "corpus"
        for file in source.files:
            if file.text is not None:
                path = corpus / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.text)
        for arguments in (["init", "-q"], ["add", "-A", "-f"], packers.COMMIT) if program.needs_git else ():
            subprocess.run(["git", *arguments], cwd=corpus, check=True, capture_output=True)
        if program.name == "redcon":
            program = replace(program, arguments=lambda *given: _with_query(packers.redcon(*given), query))
        output = home / "out"
        environment = {**os.environ, "HOME": name, **packers.OFFLINE}
        done = subprocess.run(
            program.command(corpus, output, budget),
            cwd=corpus,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        data = done.stdout if program.writes_stdout else output.read_bytes()
        text = program.result(data).decode("utf-8", "replace")
    # aider draws a bar before each line of code.
    return "\n".join(line.removeprefix("\u2502") for line in text.splitlines())


def _with_query(arguments: list[str], query: str | None) -> list[str]:
    return [(query or packers.TASK) if one == packers.TASK else one for one in arguments]


def _cut(text: str, budget: int) -> str:
    """Return the longest beginning of the text that fits the budget."""
    judge = encoding("o200k_base")
    tokens = judge.encode_ordinary(text)
    size = budget
    while len(tokens) > budget:
        text = judge.decode(tokens[:size], errors="ignore")
        tokens, size = judge.encode_ordinary(text), size - 1
    return text
