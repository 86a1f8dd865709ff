"""How a command declares its options, the options that several commands share, and the form of its help.

A command is a function whose parameters are its options, so that typer finds their types. Each is declared
in the notation of a manual page, as in ``budget: int | None = option("--budget -b TOKENS", "The budget.")``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer
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


# These return Any, because each is the default of a parameter of any type.
def option(
    usage: str,
    about: str,
    default: object = None,
    *,
    min: int | None = None,  # as in typer
    max: int | None = None,
    parser: Callable[[str], Any] | None = None,
    autocompletion: Callable[[str], list[str]] | None = None,
) -> Any:  # noqa: ANN401  # stands for a value of its option
    """Return an option: its names, then the placeholder of its value, if it has one. ``...``: required."""
    names = usage.split()
    placeholder = None if names[-1].startswith("-") else names.pop()
    return typer.Option(
        default,
        *names,
        metavar=placeholder,
        help=about,
        min=min,
        max=max,
        parser=parser,
        autocompletion=autocompletion,
    )


def flag(usage: str, about: str) -> Any:  # noqa: ANN401  # stands for a value of its option
    """Return an option that is off unless it is given."""
    return option(usage, about, default=False)


def argument(placeholder: str, about: str, default: object = ..., *, show_default: bool = True) -> Any:  # noqa: ANN401  # stands for a value of its option
    return typer.Argument(default, metavar=placeholder, help=about, show_default=show_default)


AS_JSON = flag("--json", "Print JSON.")
OUTPUT = option("--output -o FILE", "Write the result to FILE, all of it or nothing.")
MODEL = option("--model -m NAME", "The model that receives the request.")
TOKENIZER = option("--tokenizer -t NAME", "A tokenizer of `tokenbox tokenizers`.")
OWN_TOKENIZER = option("--tokenizer -t NAME", "Overrides the tokenizer that the input names.")
ALLOW_OUTSIDE = flag("--allow-outside", "Allow the input to name files outside its folder.")
EXIT_CODE = flag("--exit-code", "Exit with status 1 if there is a difference.")
RECLAIM = flag("--reclaim", "After cutting, restore what fits into the space left.")
