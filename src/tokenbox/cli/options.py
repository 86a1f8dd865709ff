"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the result to FILE, all of it or nothing."),
]
Model = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="The model that receives the request.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option("--tokenizer", "-t", metavar="NAME", help="A tokenizer of `tokenbox tokenizers`."),
]
OwnTokenizer = Annotated[
    str | None,
    typer.Option("--tokenizer", "-t", metavar="NAME", help="Overrides the tokenizer that the input names."),
]
AllowOutside = Annotated[
    bool, typer.Option("--allow-outside", help="Allow the input to name files outside its folder.")
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit with status 1 if there is a difference.")]
Reclaim = Annotated[
    bool, typer.Option("--reclaim", help="After cutting, restore what fits into the space left.")
]
