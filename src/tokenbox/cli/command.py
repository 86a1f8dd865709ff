"""A command whose help has the usual usage line and uncut descriptions."""

from __future__ import annotations

import re

from typer import Context
from typer.core import TyperCommand

_SENTENCE_END = re.compile(r"\.\s|\n\n")


class DocumentedCommand(TyperCommand):
    def collect_usage_pieces(self, ctx: Context) -> list[str]:  # type: ignore[override]  # typer exports one Context
        """Return the pieces of the usage line: ``FILE...``, where typer writes ``{FILE...}``."""
        return [re.sub(r"^\{(.*)\}$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence; typer cuts it at ``limit`` characters."""
        return " ".join(_SENTENCE_END.split(self.help or "")[0].rstrip(".").split()) + "."
