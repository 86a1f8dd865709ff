"""What was left out of a conversation comes back byte for byte, also after a SIGKILL."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.waiting import SECONDS
from tokenbox.store.content_store import DirectoryStore

if TYPE_CHECKING:
    from pathlib import Path

MANY = 1_000
AGENT = """
import sys
from tokenbox import Conversation
from tokenbox.store.content_store import DirectoryStore

store = DirectoryStore(sys.argv[1])
keep = lambda handle, text: store.put(bytes.fromhex(handle), text.encode())
chat = Conversation("Work.", "utf8-bytes", token_budget=200_000, keep=keep, handles=True, keep_results=0)
chat.user("Go on.")
told = set()
for number in range(10_000):
    call = {"id": str(number), "type": "function", "function": {"name": "read", "arguments": "{}"}}
    chat.add({"role": "assistant", "content": None, "tool_calls": [call]})
    chat.add({"role": "tool", "tool_call_id": str(number), "content": f"result {number} \\u00e4 " * 400})
    chat.enforce_budget()
    for handle in chat.left_out.keys() - told:
        told.add(handle)
        print(handle, flush=True)
"""


@pytest.mark.slow
def test_after_a_kill_every_result_that_was_left_out_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AGENT, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        handles = [child.stdout.readline().strip() for _ in range(MANY)]
        child.send_signal(signal.SIGKILL)
        child.wait(SECONDS)
    originals = {}
    for number in range(3 * MANY):
        text = f"result {number} ä " * 400
        originals[hashlib.sha256(text.encode()).hexdigest()] = text
    store = DirectoryStore(tmp_path / "store")
    found = [store.get(bytes.fromhex(handle)) for handle in handles]
    assert len(set(handles)) == MANY
    same = [body == originals[handle].encode() for handle, body in zip(handles, found, strict=True)]
    assert sum(same) == MANY
