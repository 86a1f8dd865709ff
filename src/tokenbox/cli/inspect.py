"""``tokenbox inspect``: writes one HTML page that shows what requests contain."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import tokenbox
from tokenbox.cli import streams, terminal
from tokenbox.cli.counter_options import by_settings
from tokenbox.cli.options import ALLOW_OUTSIDE, MODEL, OWN_TOKENIZER, argument, flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from tokenbox.inspect import PageEntry

_LHAR, _LHAR_JSON = ".lhar", ".lhar.json"


def inspect(
    files: list[str] = argument(
        "FILE...",
        "A layout document, a record of --json, a pack (.bcp or a folder), a proof bundle, chat "
        "messages, or a log of Claude Code, Codex, OpenAI, Anthropic or context-lens (LHAR).",
    ),
    output: str | None = option(
        "--output -o FILE", "Write to FILE: .html, or .lhar and .lhar.json for LHAR."
    ),
    open_it: bool = flag("--open", "Open the page in your browser."),
    serve: bool = flag("--serve", "Serve the page on 127.0.0.1 until you press Ctrl-C."),
    port: int = option("--port PORT", "Port of --serve; 0 takes any free port.", 0, min=0, max=65535),
    budget: int | None = option(
        "--budget -b TOKENS", "Budget of packs and chats; overrides that of documents."
    ),
    tokenizer: str | None = OWN_TOKENIZER,
    model: str | None = MODEL,
    query: str | None = option("--query -q TEXT", "The query for which to pack a folder."),
    stops: int | None = option(
        "--stops N",
        "Number of other budgets to lay out for the view What if. Default: as many as take a few seconds.",
        min=0,
    ),
    allow_outside: bool = ALLOW_OUTSIDE,
    as_json: bool = flag("--json", "Print the record of the page as JSON."),
) -> None:
    """Write one HTML page that shows what requests contain, and why.

    The page works offline: it loads nothing and sends nothing.
    It contains the texts of your files, so share it as you would share them.

    Example: tokenbox inspect prompt.toml --budget 8000 -o prompt.html
    """
    _check(files, output, as_json=as_json, open_it=open_it, serve=serve)
    from tokenbox.inspect.importers.lhar import written
    from tokenbox.inspect.reading import InspectOptions, entries_in

    model, counter = by_settings(model, tokenizer)
    options = InspectOptions(budget, counter, model, query, stops, allow_outside)
    with terminal.progress("reading and laying out", len(files)) as advance:
        entries: list[PageEntry] = []
        for name in files:
            data = None if Path(name).is_dir() else streams.read_bytes(name)
            entries += entries_in(name, data, options)
            advance()
    if as_json:
        streams.write_json(tokenbox.inspect.record_of(entries))
    elif output is not None and output.lower().endswith((_LHAR, _LHAR_JSON)):
        streams.write_file(output, written(entries, wrapped=output.lower().endswith(_LHAR_JSON)))
    else:
        _deliver(tokenbox.inspect.page(entries).encode(), output, open_it=open_it, serve=serve, port=port)


def _check(files: list[str], output: str | None, *, as_json: bool, open_it: bool, serve: bool) -> None:
    if as_json and (output is not None or open_it or serve):
        raise UsageProblem("--json prints the record: not with -o, --open or --serve.")
    if output is None and not (as_json or open_it or serve) and terminal.is_seen():
        raise UsageProblem("name the page to write, as in -o page.html, or use --open or --serve.")
    if files.count(streams.STDIN):
        raise UsageProblem("inspect tells formats apart by file names, so it cannot read -. Name a file.")
    if output is not None and any(streams.same_file(output, name) for name in files):
        raise UsageProblem(f"-o {output} would overwrite an input. Name another file.")


def _deliver(page: bytes, output: str | None, *, open_it: bool, serve: bool, port: int) -> None:
    if output is not None:
        streams.write_file(output, page)
    elif open_it and not serve:
        with tempfile.NamedTemporaryFile("wb", prefix="tokenbox-", suffix=".html", delete=False) as file:
            file.write(page)
        output = file.name
        streams.write_error(f"page: {printable(output)}\n")
    if serve:
        _serve(page, port, open_it=open_it)
    elif open_it and output is not None:
        webbrowser.open(Path(output).resolve().as_uri())
    elif output is None:
        streams.write_bytes(page)


def _serve(page: bytes, port: int, *, open_it: bool) -> None:
    from tokenbox.inspect.page import SCRIPT, STYLE, asset, policy
    from tokenbox.inspect.serve import serve

    def ready(address: str) -> None:
        streams.write_error(f"serving {address} (press Ctrl-C to stop)\n")
        if open_it:
            webbrowser.open(address)

    try:
        serve(page, policy(asset(SCRIPT), asset(STYLE)), port, ready)
    except OSError as error:
        raise streams.OutputFailed(
            f"port {port} cannot be used: {error.strerror or error}. For any free port: --port 0.",
            port=port,
        ) from None
