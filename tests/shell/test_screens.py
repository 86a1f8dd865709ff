"""A whole session as a person sees it, on terminals of 60, 80 and 200 columns.

If a change is right: make golden, and read what git shows.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pexpect  # type: ignore[import-untyped]
import pytest
from aiohttp import web

from tests.providers.fake import chunk, serving, sse
from tests.shell.cells import Cells
from tests.waiting import SECONDS
from tokenbox import count
from tokenbox.__about__ import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.providers.fake import FakeServer

pytestmark = pytest.mark.slow  # a real process on a pseudo-terminal
TRANSCRIPTS: Final = Path(__file__).parent / "transcripts"
ANSWER: Final = '''# How a cache works

A **prompt cache** keeps the *beginning* that two requests have in common, so that the server does not read \
it again. See `cache_control`, **never** `2*3*4`.

| setting | default | what it does and why a person would ever want to change it in practice |
|---|---:|:---|
| low_water | 1 | the fraction of the budget to go down to |
| keep_results | 3 | the newest results, which are masked last of all, after everything else has left |

1. First send the request.
2. Then the server looks the beginning up:
   - an exact match of the bytes, and of everything that stands before them in the same prompt
   - at least 1,024 tokens

```python
def low_water(budget: int, share: Fraction) -> int:
    """Return the tokens to keep: a line that is longer than the terminal has columns to show it."""
    return budget * share.numerator // share.denominator
```

> A quote: never over the budget.

Done, with ünïcode, 日本語のテキスト and 🎉.
'''
NOTES: Final = '''"""Notes about the cache."""


def minutes_to_live() -> int:
    """Return how long a cached beginning lives."""
    return 5
'''
LONG: Final = "please consider " * 60
# The line editor turns bracketed pastes on, writes the prompt, and shows the cursor.
PROMPT: Final = r"\x1b\[\?2004h.*?gpt-4o ~?[\d,]+/[\d,]+>.*?\x1b\[\?25h"
# What is typed, and what is waited for before the next.
LINES: Final = (
    ("explain with markdown", PROMPT),
    (":context", PROMPT),
    (":cost detail", PROMPT),
    (":set", PROMPT),
    (":models", PROMPT),
    (":model", PROMPT),
    (":tokenize hello wörld", PROMPT),
    ("how long does it live? @notes.py", PROMPT),
    (":retry", PROMPT),
    (":undo", PROMPT),
    (":file notes.py", PROMPT),
    (":drop last", PROMPT),
    ("!printf 'one\\ntwo\\n'", PROMPT),
    ("what is that?", PROMPT),
    (":edit say it shorter", PROMPT),
    (":context", PROMPT),
    (":copy", PROMPT),
    (":copy code", PROMPT),
    (":export talk.md", PROMPT),
    (":export talk.md", PROMPT),
    ("please be busy", PROMPT),
    ("is there a quota?", PROMPT),
    ("now break off", PROMPT),
    (":compact", r"\[N\]o: "),
    ("y", PROMPT),
    (":budget 100", PROMPT),
    (LONG, "to cancel: "),
    ("", PROMPT),
    (LONG, "to cancel: "),
    ("c", PROMPT),
    (LONG, "to cancel: "),
    ("r", PROMPT),
    (":expand", PROMPT),
    (":nonsens", PROMPT),
    (":help", PROMPT),
)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server that answers by what is asked, and counts as the model's own would."""
    busy = [True]

    async def chat(request: web.Request) -> object:
        body = await request.json()
        question = str(body["messages"][-1]["content"])
        if "busy" in question and busy:
            busy.clear()
            return web.json_response(
                {"error": {"message": "loading"}}, status=503, headers={"retry-after": "1"}
            )
        if "quota" in question:
            refused = {"error": {"message": "used up"}}
            return web.json_response(refused, status=429, headers={"retry-after": "3600"})
        text = ANSWER if "markdown" in question else f"You said {len(question)} characters."
        if "Summarize" in str(body["messages"][0]["content"]):
            text = "They spoke about **caches**; one lives for 5 minutes."
        used = count(body["messages"], model="gpt-4o").total
        pieces = [chunk(text[at : at + 7]) for at in range(0, len(text), 7)]
        events = sse(*pieces, chunk(finish="stop", usage={"prompt_tokens": used, "completion_tokens": 9}))
        if "break off" not in question:
            return web.Response(body=events, content_type="text/event-stream")
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sse(chunk("Half an ans"))[: -len(b"data: [DONE]\n\n")])
        await asyncio.sleep(0.2)
        assert request.transport is not None
        request.transport.abort()
        return response

    listed = {"data": [{"id": "gpt-4o"}, {"id": "a-model-with-a-name-that-is-very-long-indeed-2026-11"}]}
    with serving({"/v1/models": listed, "/v1/chat/completions": chat}) as served:
        yield served


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_session_on_a_terminal(
    columns: int, server: FakeServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "notes.py").write_text(NOTES)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "SHELL": "/bin/sh",
        "TOKENBOX_POLICY_RESERVE_OUT": "500",
    }
    child = pexpect.spawn(
        sys.executable,
        ["-m", "tokenbox", "shell", "talk", "--endpoint", server.url, "--budget", "3000"],
        env=environment,
        cwd=str(tmp_path),
        dimensions=(50, columns),
        timeout=SECONDS,
        encoding="utf-8",
    )
    shown = Cells(columns)
    child.logfile_read = shown
    child.expect(PROMPT)
    for typed, then in LINES:
        child.send(f"{typed}\r")
        child.expect(then)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, shown.held) == (0, "")
    text = shown.text().replace(server.url, "http://127.0.0.1:00000").replace(__version__, "0.0.0")
    assert max(map(len, text.splitlines())) <= columns
    assert re.search(r"Traceback|\x1b", text) is None
    recorded = TRANSCRIPTS / f"at_{columns}_columns.txt"
    if request.config.getoption("--update-golden"):
        recorded.parent.mkdir(exist_ok=True)
        recorded.write_text(text, encoding="utf-8")
    assert text == recorded.read_text(encoding="utf-8")
