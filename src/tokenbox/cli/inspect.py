"""``tokenbox inspect``: one HTML page of what requests are made of."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.count import by_settings
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.streams import (
    STDIN,
    OutputFailed,
    json_bytes,
    read_bytes,
    write_bytes,
    write_error,
    write_file,
)
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from tokenbox.inspect import PageEntry
    from tokenbox.inspect.reading import InspectOptions

_LHAR, _LHAR_JSON = ".lhar", ".lhar.json"


def inspect(  # noqa: PLR0913, PLR0917  # one parameter per option
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="A layout document, a record of --json, a pack (.bcp or a folder), a proof bundle, chat "
            "messages, or a log of Claude Code, Codex, OpenAI, Anthropic or context-lens (LHAR).",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there: .html, or .lhar and .lhar.json for LHAR."
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on 127.0.0.1 until you press Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="For --serve; 0 takes any.")] = 0,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", "-b", metavar="TOKENS", help="Instead of the documents' own; for packs and chats."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", "-t", metavar="NAME", help="Instead of the files' own.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="The model that is asked.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="TEXT", help="What a folder is packed for.")
    ] = None,
    stops: Annotated[
        int | None,
        typer.Option(
            "--stops",
            metavar="N",
            min=0,
            help="At how many other budgets to lay out, for the view What if; by default as many as take a "
            "few seconds, 0 for none.",
        ),
    ] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let documents name files outside their folders.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record of the page as JSON.")] = False,
) -> int:
    """Write one HTML page that shows what requests are made of, and why.

    The page holds all it needs: it works offline, loads nothing and sends nothing.
    It has the texts of your files in it, so share it as you would share them.

    Example: tokenbox inspect prompt.toml -o prompt.html
    """
    with reporting(as_json=as_json):
        _check(files, output, as_json=as_json, open_it=open_it, serve=serve)
        from tokenbox.inspect import page, record_of  # on use: it knows everything
        from tokenbox.inspect.importers.lhar import written
        from tokenbox.inspect.reading import InspectOptions

        model, tokenizer = by_settings(model, tokenizer)
        asked = InspectOptions(budget, tokenizer, model, query, stops, allow_outside)
        with terminal.progress("reading and laying out", len(files)) as advance:
            entries: list[PageEntry] = []
            for name in files:
                entries += _entries(name, asked)
                advance()
        if as_json:
            write_bytes(json_bytes(record_of(entries)))
        elif output is not None and output.lower().endswith((_LHAR, _LHAR_JSON)):
            write_file(output, written(entries, wrapped=output.lower().endswith(_LHAR_JSON)))
        else:
            _deliver(page(entries).encode(), output, open_it=open_it, serve=serve, port=port)
    return Exit.OK


def _check(files: list[str], output: str | None, *, as_json: bool, open_it: bool, serve: bool) -> None:
    """Raise :class:`UsageProblem` for what does not go together."""
    if as_json and (output is not None or open_it or serve):
        raise UsageProblem("--json prints the record, and goes with neither -o, --open nor --serve.")
    if output is None and not (as_json or open_it or serve) and terminal.is_seen():
        raise UsageProblem("name the page to write, as in -o page.html, or use --open or --serve.")
    if files.count(STDIN):
        raise UsageProblem("inspect reads files, for their names say what they are. Name a file.")
    if output is not None and any(_same(output, name) for name in files):
        raise UsageProblem(f"-o {output} would overwrite what is inspected. Name another file.")


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


def _entries(name: str, asked: InspectOptions) -> list[PageEntry]:
    from tokenbox.inspect.reading import entries_in

    return entries_in(name, None if Path(name).is_dir() else read_bytes(name), asked)


def _deliver(page: bytes, output: str | None, *, open_it: bool, serve: bool, port: int) -> None:
    if output is not None:
        write_file(output, page)
    elif open_it and not serve:
        with tempfile.NamedTemporaryFile("wb", prefix="tokenbox-", suffix=".html", delete=False) as file:
            file.write(page)
        output = file.name
        write_error(f"page: {printable(output)}\n")
    if serve:
        _serve(page, port, open_it=open_it)
    elif open_it and output is not None:
        webbrowser.open(Path(output).resolve().as_uri())
    elif output is None:
        write_bytes(page)


def _serve(page: bytes, port: int, *, open_it: bool) -> None:
    from tokenbox.inspect.page import SCRIPT, STYLE, asset, policy
    from tokenbox.inspect.serve import serve

    def ready(address: str) -> None:
        write_error(f"serving {address} (Ctrl-C ends it)\n")
        if open_it:
            webbrowser.open(address)

    try:
        serve(page, policy(asset(SCRIPT), asset(STYLE)), port, ready)
    except OSError as error:
        raise OutputFailed(
            f"port {port} cannot be served: {error.strerror or error}. Use --port 0, which takes any.",
            port=port,
        ) from None
