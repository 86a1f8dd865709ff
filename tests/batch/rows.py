"""Reproducible rows for the tests: texts, chats, blocks, documents, and invalid rows."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

WORDS = [
    "the", "budget", "is", "hard", "中文", "naïve", "🙂", "context", "window", "tokens", "of", "a",
    "model\nreturn",
    "total", "/", "len(items)\n\nWhat", "was", "decided?", "nothing", "`code`", "{json:", "1}", "ünïcode",
    "tail",
]  # fmt: skip


def words(text: str) -> int:
    """Count words: a tokenizer that a run can name."""
    return len(text.split())


def mixed(count: int, seed: int = 1) -> list[Any]:
    """Return rows of every kind that ``auto`` knows; one in eleven is invalid."""
    chance = random.Random(seed)
    return [_row(number, chance) for number in range(count)]


def text(chance: random.Random, most: int = 120) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))


def _row(number: int, chance: random.Random) -> object:
    kind = chance.randrange(11)
    row: dict[str, Any] = {"id": number, "limit": chance.randint(20, 90)}
    match kind:
        case 0 | 1 | 2:
            row["text"] = text(chance)
        case 3 | 4:
            row["messages"] = [{"role": "system", "content": "Be brief."}] + [
                {"role": role, "content": text(chance, 40)}
                for _ in range(chance.randint(1, 4))
                for role in ("user", "assistant")
            ]
            row["messages"].append({"role": "user", "content": "Go on."})
        case 5 | 6:
            row["blocks"] = [
                {"type": "document", "format_hint": "plain", "title": f"{n}", "content": text(chance, 60)}
                for n in range(chance.randint(1, 3))
            ]
        case 7:
            row["chunks"] = [text(chance, 30) for _ in range(chance.randint(1, 6))]
        case 8 | 9:
            row["sections"] = [
                {"id": "rules", "content": "Answer in English."},
                {"id": "notes", "content": text(chance), "shrink": 1, "min": chance.randint(0, 5)},
                {"id": "log", "content": text(chance), "shrink": 2, "keep": "tail"},
            ]
        case _:
            return chance.choice(
                [
                    {"id": number},
                    {"id": number, "text": "lone \ud800 surrogate", "limit": 5},
                    {"id": number, "text": 17, "limit": 5},
                    {"id": number, "text": "a", "limit": "many"},
                    {"id": number, "messages": [{"role": "nobody", "content": []}], "limit": 50},
                    {"id": number, "blocks": [{"type": "nothing"}], "limit": 50},
                    {"id": number, "sections": [{"id": "a", "content": "b", "colour": 1}], "limit": 50},
                    {"id": number, "sections": [{"id": "a", "content": text(chance)}], "limit": 1},
                    [number],
                    "not an object",
                ]
            )
    return row


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_bytes("".join(f"{json.dumps(row)}\n" for row in rows).encode())
    return path


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
