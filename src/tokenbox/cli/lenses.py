"""``tokenbox lenses``: lists the compression strategies."""

from __future__ import annotations

from tokenbox.cli import terminal
from tokenbox.cli.options import AS_JSON
from tokenbox.cli.streams import write_record
from tokenbox.content.lenses import describe


def lenses(as_json: bool = AS_JSON) -> None:
    """List the lenses: the compression strategies.

    The strategy of a section is one lens or a pipeline of them, such as "squeeze |> head(40)".

    Example: tokenbox lenses
    """
    found = describe()
    if as_json:
        write_record("lenses", {"lenses": [lens.to_dict() for lens in found]})
    else:
        rows = [(lens.example or lens.name, lens.version, lens.description) for lens in found]
        terminal.show_table(("lens", "version", "what it does"), rows)
