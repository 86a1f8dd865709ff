"""``tokenbox tokenizers``: lists the tokenizers."""

from __future__ import annotations

from tokenbox.cli import terminal
from tokenbox.cli.options import AS_JSON
from tokenbox.cli.streams import write_record
from tokenbox.records import to_record
from tokenbox.tokenizers import registry

SHOWN_DIGITS = 12
"""Digits of a fingerprint in the table; --json has all of it."""


def tokenizers(as_json: bool = AS_JSON) -> None:
    """List the tokenizers. Loads no vocabulary.

    Example: tokenbox tokenizers
    """
    entries = [*registry.available(), *registry.of_packages()]
    if as_json:
        records = [to_record(entry, "name summary identity") for entry in entries]
        write_record("tokenizers", {"tokenizers": records})
        return
    rows = []
    for entry in entries:
        identity = entry.identity
        if identity is None:
            rows.append((entry.name, "-", "absent", "-", entry.summary))
            continue
        kind = "exact" if identity.exact else "estimate"
        fingerprint = identity.fingerprint[:SHOWN_DIGITS]
        rows.append((entry.name, identity.version, kind, fingerprint, entry.summary))
    files = "a vocabulary file: .tiktoken, tokenizer.json, .model, tekken.json, .gguf"
    rows.append(("file:PATH", "-", "exact", "-", files))
    terminal.show_table(("name", "version", "kind", "fingerprint", "what it is"), rows)
