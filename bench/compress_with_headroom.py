"""Compress a tool result with headroom-ai: stdin to stdout, in its own environment.

Called as its documentation shows: ``compress(messages, model=...)``, with a question and a tool call.
"""

from __future__ import annotations

import sys

import headroom

CALL = {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": "{}"}}


def main() -> None:
    messages = [
        {"role": "user", "content": sys.argv[1]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": sys.stdin.read()},
    ]
    sys.stdout.write(headroom.compress(messages, model="gpt-4o").messages[-1]["content"])


if __name__ == "__main__":
    main()
