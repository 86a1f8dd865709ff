"""The table of what is proven: templates, ways of vocabularies and rules, compared with what really renders.

``python bench/run.py templates`` writes it. A template is proven for llama.cpp if every request of its corpus
counted what the server counted, and for ``transformers`` if each plain one was rendered as the library does.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from tokenbox.conversation.llama.prompt import RULES

TABLE: Final = Path(__file__).with_name("verified.json")


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def digest(source: str) -> str:
    """The digest of a template as llama.cpp reads it: ends of lines are one character, a last one is cut."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256((text[:-1] if source.endswith("\n") else text).encode()).hexdigest()


def is_verified(server: str, source: str, vocabulary: str) -> bool:
    """Whether counts with this template and a vocabulary of this kind are proven for that server.

    The library ``transformers`` and tokenbox cut texts with the same package where there is a
    ``tokenizer.json``, so there the template alone decides.
    """
    table = _table()
    if server == "transformers":
        return vocabulary.startswith("json ") and digest(source) in table["transformers"]["templates"]
    known = table["rules"] == RULES and vocabulary in table["vocabularies"]
    return known and digest(source) in table["templates"]
