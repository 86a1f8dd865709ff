"""The table of verified templates, vocabularies and rules.

``python bench/run.py templates`` writes it. A template is verified for llama.cpp if every request of its
corpus had the server's own count, and for ``transformers`` if each plain request was rendered as the library
does.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from tokenbox.conversation.llama.prompt import RULES
from tokenbox.conversation.llama.syntax import normalized

TABLE: Final = Path(__file__).with_name("verified.json")


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def digest(source: str) -> str:
    """Return the digest of a template as llama.cpp reads it."""
    return hashlib.sha256(normalized(source).encode()).hexdigest()


def is_verified(server: str, source: str, vocabulary: str) -> bool:
    """Return True if counts with this template and kind of vocabulary are verified for the server.

    With a ``tokenizer.json``, ``transformers`` and tokenbox tokenize with the same package, so the template
    alone decides.
    """
    table = _table()
    if server == "transformers":
        return vocabulary.startswith("json ") and digest(source) in table["transformers"]["templates"]
    return is_verified_vocabulary(vocabulary) and digest(source) in table["templates"]


def is_verified_vocabulary(vocabulary: str) -> bool:
    """Return True if llama.cpp splits texts with this kind of vocabulary as tokenbox does.

    No ``tokenizer.json`` is: the package ``tokenizers`` knows letters of Unicode 16, and llama.cpp does not.
    """
    table = _table()
    return table["rules"] == RULES and vocabulary in table["vocabularies"]
