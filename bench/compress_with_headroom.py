"""What headroom-ai makes of the result of a tool: text in, text out, in its own environment.

Asked as its documentation shows: ``compress(messages, model=...)``, here of a question and one call's result.
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
