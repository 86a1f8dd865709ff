"""``tokenbox tokenizers``: which there are."""

from __future__ import annotations

from typing import Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.outcome import Exit, reporting
from tokenbox.cli.streams import write_record

# Enough of a fingerprint to tell two apart by eye; --json has all of it.
SHOWN_DIGITS = 12


def tokenizers(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """List the tokenizers. Loads no vocabulary.

    Example: tokenbox tokenizers
    """
    with reporting(as_json=as_json):
        from tokenbox.tokenizers import registry

        entries = registry.available()
        if as_json:
            records = [
                {
                    "name": entry.name,
                    "summary": entry.summary,
                    "identity": None if entry.identity is None else entry.identity.to_dict(),
                }
                for entry in entries
            ]
            write_record("tokenizers", {"tokenizers": records})
            return Exit.OK
        rows = []
        for entry in entries:
            found = entry.identity
            facts = (
                ("-", "absent", "-")
                if found is None
                else (found.version, "exact" if found.exact else "estimate", found.fingerprint[:SHOWN_DIGITS])
            )
            rows.append((entry.name, *facts, entry.summary))
        rows.append(
            (
                "file:PATH",
                "-",
                "exact",
                "-",
                "a vocabulary file: .tiktoken, tokenizer.json, .model, tekken.json, .gguf",
            )
        )
        terminal.show(terminal.table(("name", "version", "kind", "fingerprint", "what it is"), rows))
    return Exit.OK
