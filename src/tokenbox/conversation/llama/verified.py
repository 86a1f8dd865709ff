"""The table of what is proven: templates, ways of vocabularies and the rules, compared with a real server.

``python bench/templates.py`` writes it: a template is in it if every request of its corpus counted what the
server of llama.cpp counted.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Final

from tokenbox.conversation.llama.prompt import RULES

TABLE: Final = Path(__file__).with_name("verified.json")


@cache
def _table() -> tuple[str, frozenset[str], frozenset[str]]:
    found = json.loads(TABLE.read_text(encoding="utf-8"))
    return found["rules"], frozenset(found["templates"]), frozenset(found["vocabularies"])


def digest(source: str) -> str:
    """The digest of a template as llama.cpp reads it: ends of lines are one character, a last one is cut."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256((text[:-1] if source.endswith("\n") else text).encode()).hexdigest()


def is_verified(source: str, vocabulary: str) -> bool:
    """Whether counts with this template and a vocabulary of this kind are proven."""
    rules, templates, vocabularies = _table()
    return rules == RULES and digest(source) in templates and vocabulary in vocabularies
