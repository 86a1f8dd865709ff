"""Settings and blocks for the tests of ctx."""

from __future__ import annotations

from tokenbox.content.block_kinds import FormatHint
from tokenbox.content.blocks import DocumentBlock

SETTINGS = """
[tokenizers]
baselines = ["gpt-bpe"]

[models.tiny]
max_ctx = 100
reserve_out = 20
headroom = "0.05"
tokenizer = "utf8-bytes"

[models.small]
max_ctx = 120
reserve_out = 20
tokenizer = "utf8-bytes"
"""


def document(name: str, text: str) -> DocumentBlock:
    return DocumentBlock(name, text.encode(), FormatHint.MARKDOWN)
