"""``tokenbox layout``: a layout document compiled into its budget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.choices import Choices, Format, budgets_in
from tokenbox.cli.outcome import Exit, reporting
from tokenbox.cli.proving import Proof, ProofDir, ProofTexts, asks_for_proof, proving
from tokenbox.cli.streams import STDIN, json_bytes, read_text, write_bytes, write_file
from tokenbox.errors import ContextCriticalOverflow

if TYPE_CHECKING:
    from tokenbox.cli.proving import Prover
    from tokenbox.documents import LayoutDocument


def layout(  # noqa: PLR0913, PLR0917  # one parameter per option
    document: Annotated[
        str | None,
        typer.Argument(metavar="DOC", help="A layout document: .toml, .yaml or .json; - is standard input."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", "-b", metavar="TOKENS", help="Instead of the document's own.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", "-t", metavar="NAME", help="Instead of the document's own.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record: text, sizes, decisions, digest.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show a picture instead of the text.")] = False,
    whatif: Annotated[
        str | None,
        typer.Option("--whatif", metavar="TOKENS,...", help="Compare budgets, such as 1000,2000,4000."),
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Print chat messages as JSON, by role.")
    ] = False,
    reclaim: Annotated[
        bool, typer.Option("--reclaim", help="After cutting, give back what then fits again.")
    ] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Read a JSON document per line, answer each with a line.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="DIR", help="Folder of the files that a document on standard input names."
        ),
    ] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let the document name files outside its folder.")
    ] = False,
    text_format: Annotated[
        Format | None, typer.Option("--format", help="Of a document on standard input.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there instead, all at once or not at all."
        ),
    ] = None,
    proof: Proof = None,
    proof_texts: ProofTexts = None,
    proof_dir: ProofDir = None,
) -> int:
    """Compile a layout document into its budget.

    Prints the text exactly as a model would be told: nothing added, no newline changed.
    With --explain and -o the text goes to the file and the picture is shown.

    Example: tokenbox layout prompt.toml --budget 8000 --explain
    """
    choices = Choices(
        document=document,
        budget=budget,
        tokenizer=tokenizer,
        as_json=as_json,
        explain=explain,
        whatif=whatif,
        messages=messages,
        reclaim=reclaim,
        jsonl=jsonl,
        base=base,
        allow_outside=allow_outside,
        text_format=text_format,
        output=output,
        proof=asks_for_proof(proof=proof, texts=proof_texts, folder=proof_dir),
    )
    with (
        reporting(as_json=as_json),
        proving(proof=proof, texts=proof_texts, folder=proof_dir) as prover,
    ):
        choices.check()
        status = Exit.OK
        if prover is not None:
            prover.budget_source = "the document" if budget is None else "--budget"
        if jsonl:
            from tokenbox.cli.jsonl import answer_lines  # noqa: PLC0415

            status = answer_lines(choices, prover)
        elif choices.whatif is not None:
            _compare(choices, budgets_in(choices.whatif))
        else:
            _lay_out(choices, prover)
        return status if prover is None else status or prover.status()


def _lay_out(choices: Choices, prover: Prover | None) -> None:
    """The result to standard output or the file; with ``--explain``, the picture to standard output."""
    with terminal.progress("laying out"):
        result = _read(choices).layout(budget=choices.budget, tokenizer=choices.tokenizer, proof=prover)
        if choices.messages:
            data = json_bytes(result.messages())
        elif choices.as_json:
            data = json_bytes(result.to_dict())
        else:
            data = result.text.encode()
    if choices.output is not None or not choices.explain:
        _deliver(data, choices)
    if choices.explain:
        from tokenbox.render.explain import picture  # noqa: PLC0415

        terminal.show(picture(result, terminal.width(), terminal.charset()))


def _compare(choices: Choices, budgets: list[int]) -> None:
    """One column per budget. That a budget is too small is an answer, not a failure."""
    with terminal.progress("laying out"):
        document = _read(choices)
        results = document.whatif(budgets, tokenizer=choices.tokenizer)
    if choices.as_json:
        failed = ContextCriticalOverflow
        _deliver(
            json_bytes([{"error": r.to_dict()} if isinstance(r, failed) else r.to_dict() for r in results]),
            choices,
        )
        return
    from tokenbox.render.lines import plain  # noqa: PLC0415
    from tokenbox.render.whatif import Column, whatif_lines  # noqa: PLC0415

    columns = [Column(budget, result) for budget, result in zip(budgets, results, strict=True)]
    lines = whatif_lines(document.sections, columns, terminal.width(), terminal.charset())
    if choices.output is None:
        terminal.show(lines)
    else:
        _deliver(plain(lines).encode(), choices)


def _read(choices: Choices) -> LayoutDocument:
    from tokenbox.documents import parse_text, read_document  # noqa: PLC0415  # reads YAML, knows all sections

    name = choices.document or STDIN
    if name != STDIN:
        document = read_document(name, allow_outside=choices.allow_outside)
    else:
        document = parse_text(
            read_text(STDIN),
            f".{choices.text_format}",
            base=choices.base or ".",
            name="standard input",
            allow_outside=choices.allow_outside,
        )
    return replace(document, reclaim=True) if choices.reclaim else document


def _deliver(data: bytes, choices: Choices) -> None:
    if choices.output in (None, STDIN):
        write_bytes(data)
    else:
        write_file(str(choices.output), data)
