"""``tokenbox lenses``: which compression strategies there are."""

from __future__ import annotations

from typing import Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.outcome import Exit, reporting
from tokenbox.cli.streams import write_record


def lenses(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """List the lenses: the compression strategies.

    A section's strategy is one or several of them, such as "squeeze |> head(40)".

    Example: tokenbox lenses
    """
    with reporting(as_json=as_json):
        from tokenbox.content.lenses import describe

        found = describe()
        if as_json:
            write_record("lenses", {"lenses": [lens.to_dict() for lens in found]})
        else:
            rows = [(lens.example or lens.name, lens.version, lens.description) for lens in found]
            terminal.show(terminal.table(("lens", "version", "what it does"), rows))
    return Exit.OK
