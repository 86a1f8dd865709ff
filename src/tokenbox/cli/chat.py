"""Reads a chat from a JSON file: a list of messages, or a whole request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import read_syntax, shown_name, write_error
from tokenbox.compose.requests import NO_BOUND, Count
from tokenbox.content.request import INPUT_KEYS, read_request
from tokenbox.records import from_json
from tokenbox.render.lines import printable

# The keys that identify an item of a request's input among other JSON.
_ITEM_KEYS = frozenset(("role", "type"))
# The fields of a request that hold a list of messages.
_LISTS = ("messages", "input")


@dataclass(frozen=True, slots=True)
class Chat:
    """A list of messages, or a whole request. ``key``: the field that has its list; None without one."""

    value: Any
    key: str | None

    @property
    def body(self) -> dict[str, Any]:
        return self.value if isinstance(self.value, dict) else {"messages": self.value}

    @property
    def messages(self) -> list[Any]:
        found: list[Any] = self.value if self.key is None else self.value[self.key]
        return found

    @property
    def model(self) -> str | None:
        named = self.body.get("model")
        return named if isinstance(named, str) else None

    def holding(self, messages: list[Any]) -> Any:  # noqa: ANN401  # JSON
        """Return the list or the request with other messages."""
        return messages if self.key is None else {**self.value, self.key: messages}


def read_chat(file: str, *, is_list: bool = False) -> Chat:
    """Read a chat; with ``is_list``, one whose messages are a list. Raises :class:`UsageProblem`."""
    text = read_syntax(file)
    value = from_json(text)
    body = value if isinstance(value, dict) else {}
    key = next((key for key in _LISTS if isinstance(body.get(key), list)), None)
    # What reads the messages refuses those that are none, and names them.
    if key is not None or isinstance(value, list) or (INPUT_KEYS & body.keys() and not is_list):
        return Chat(value, key)
    if Path(file).suffix in {".toml", ".yaml", ".yml"}:
        raise UsageProblem(f"{file} is not a chat. For a layout document: tokenbox layout {file}")
    problem = why_no_chat(text) if file.endswith((".json", ".jsonl")) else None
    raise UsageProblem(
        f"{shown_name(file)} {problem or 'has no chat messages.'} Give a JSON list of messages, "
        'or a request such as {"messages": [{"role": "user", "content": "hi"}]}.'
    )


def chat_in(text: str) -> Any:  # noqa: ANN401  # JSON
    """Return the messages or the request in a JSON text, or None for any other text."""
    text = text.removeprefix("\ufeff")  # some editors write a byte order mark
    if not text.lstrip().startswith(("[", "{")):
        return None
    value = from_json(text)
    if isinstance(value, dict):
        return value if INPUT_KEYS & value.keys() else None
    items = value if isinstance(value, list) else []
    return value if items and all(isinstance(i, dict) and _ITEM_KEYS & i.keys() for i in items) else None


def why_no_chat(text: str) -> str | None:
    """Return why a JSON file has no chat, as the end of a message; None if it has other JSON."""
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        if not text.strip():
            return "is empty."
        if error.msg == "Extra data":
            return (
                "has several JSON values, not one list. To make a list of them: jq -s . FILE; "
                "to process each by itself: tokenbox batch FILE -o out."
            )
        rules = "JSON has double quotes, no comments and no comma after the last item."
        return f"is not valid JSON in line {error.lineno}: {rules}"
    except ValueError:
        return "is JSON in which an integer has too many digits."
    except RecursionError:
        return "is JSON that is nested too deeply."
    return "is one message, not a list of messages." if isinstance(value, dict) and "role" in value else None


def note_unseen(file: str, count: Count, chat: object) -> None:
    """Say what only the server can count, if a chat refers to some input of that kind."""
    if count.at_most == NO_BOUND:
        from tokenbox.content.unseen import UNRENDERED, unseen_of

        unseen = printable(unseen_of(read_request(chat)) or UNRENDERED)
        write_error(f"note: {shown_name(file)}: {unseen}, which is not counted here.\n")
