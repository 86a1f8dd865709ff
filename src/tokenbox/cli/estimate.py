"""``tokenbox estimate``: what a request counts for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.cli import request, terminal
from tokenbox.cli.outcome import Exit, reporting
from tokenbox.cli.streams import json_bytes, write_bytes, write_text
from tokenbox.render.lines import Span, Style, printable

if TYPE_CHECKING:
    from tokenbox.policy import Estimate
    from tokenbox.render.lines import Line


def estimate(
    files: request.Files = None,
    model: request.Model = None,
    tokenizer: request.Tokenizer = None,
    messages: request.Messages = None,
    document: request.Document = None,
    pack: request.Pack = None,
    as_json: request.AsJson = False,
) -> int:
    """Count what would be sent to a model: each chunk alone, and the whole.

    The whole is what counts: with separators, markup or chat format, so the chunks do not add up to it.
    The figures of an estimate have a ~.

    Example: tokenbox estimate --model gpt-4o -t o200k_base rules.md notes.md
    """
    with reporting(as_json=as_json):
        given = request.Given(files or (), messages, document, pack).read()
        from tokenbox import ctx

        config = request.settings(None, None, None, None)
        with terminal.progress("counting"):
            found = ctx.estimate(
                request.model_of(model, given, config), given.chunks, tokenizer=tokenizer, config=config
            )
        if as_json:
            write_bytes(json_bytes(found.to_dict()))
        else:
            _show(found)
    return Exit.OK


def _show(found: Estimate) -> None:
    """One line per chunk, the whole last. In a pipe the figures are bare, for other programs."""
    seen = terminal.is_seen()
    about = "" if found.exact else "~"
    rows = [*zip(found.per_chunk, found.ids, strict=True), (found.tokens_in, "the whole")]
    figures = [f"{about}{tokens:,}" if seen else f"{about}{tokens}" for tokens, _ in rows]
    size = max(map(len, figures))
    if not seen:
        write_text(
            "".join(
                f"{figure:>{size}}  {printable(name)}\n"
                for figure, (_, name) in zip(figures, rows, strict=True)
            )
        )
        return
    lines: list[Line] = [
        (Span(f"{figure:>{size}}", Style.KEPT), Span(f"  {printable(name)}"))
        for figure, (_, name) in zip(figures, rows, strict=True)
    ]
    kind = "exact" if found.exact else "estimate"
    lines.append((Span(f"tokens of {found.tokenizer.name} ({kind})", Style.FAINT),))
    terminal.show(lines)
