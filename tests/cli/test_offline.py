"""No command reaches for the network unless it is one that talks to a server: an audit hook watches each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tokenbox
from tests.waiting import SECONDS
from tokenbox.cli.listing import COMMANDS

# Those that are there to talk to somebody.
ONLINE = {"shell", "serve", "mcp", "ask", "gateway"}
PROMPT = """
budget = 60
tokenizer = "utf8-bytes"
[[sections]]
id = "rules"
content = "Answer in English."
[[sections]]
id = "notes"
shrink = 1
content = "one two three four five six"
"""
CHAT = '[{"role": "user", "content": "What is it?"}]'
SETTINGS = (
    '[check.all]\nfiles = ["*.md"]\nbudget = 900\ntokenizer = "utf8-bytes"\n[models.m]\nmax_ctx = 900\n'
)
FILES = {
    "p.toml": PROMPT,
    "chat.json": CHAT,
    "request.json": f'{{"model": "gpt-4o", "messages": {CHAT}}}',
    "a.md": "# A\n\nsome words\n",
    "rows.jsonl": '{"id": 1, "text": "one two"}\n',
    "tools.json": '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]',
    ".tokenbox/config.toml": SETTINGS,
}
RUNS = """
count a.md
count -m gpt-4o chat.json
fit chat.json -m gpt-4o -b 500
pack a.md -t utf8-bytes --format bcp -o a.bcp
pack . -b 400 -t utf8-bytes -q words
layout p.toml --proof --proof-texts
layout p.toml --whatif 50,60
enforce -m m -t utf8-bytes a.md
estimate -m m -t utf8-bytes a.md
plan -m m -t utf8-bytes a.md
batch rows.jsonl -o out.jsonl --task count
diff p.toml p.toml
inspect p.toml -o page.html
check
cost
cache request.json
tools tools.json
doctor
models gpt-4o
tokenizers
lenses
schema
init --force
config
lcp validate a.bcp
lcp render a.bcp
proof keygen key
config set --user proof.sign_with key
layout p.toml --proof -b 55
proof list
proof show ID
proof replay ID
proof sign ID --key key
proof verify --key key.pub
proof verify --log
proof export ID -o x.tar
proof verify x.tar
proof diff ID x.tar
proof checkpoint -o checkpoint.json
proof inclusion ID -o inclusion.json
"""
PROGRAM = """
import os, shlex, sys
REACHING = tuple(f"socket.{name}" for name in ("connect", "bind", "getaddrinfo", "gethostby", "sendto"))
def watch(event, arguments):
    if event.startswith((*REACHING, "urllib.")):
        seen.append((line, event, arguments))
        raise OSError("this test has no network")
seen, line, bad = [], "", []
sys.addaudithook(watch)
from tokenbox.cli import main
for line in sys.stdin.read().strip().splitlines():
    bundles = [name for name in os.listdir(".tokenbox/proof") if len(name) == 64] if "ID" in line else []
    status = main([part if part != "ID" else bundles[0] for part in shlex.split(line)])
    sys.stdout.flush()
    if status:
        bad.append((line, status))
print(seen, bad, file=sys.stderr)
sys.exit(bool(seen or bad))
"""


@pytest.mark.slow
def test_offline_commands_reach_for_no_network(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    package = Path(tokenbox.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=RUNS,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_command_that_talks_to_nobody_is_watched() -> None:
    assert {line.split()[0] for line in RUNS.strip().splitlines()} == COMMANDS.keys() - ONLINE
