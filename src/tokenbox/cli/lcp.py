"""``tokenbox lcp``: reads, checks, renders and writes packs (``.bcp``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import tokenbox
from tokenbox.cli import streams, terminal
from tokenbox.cli.counter_options import DEFAULT_TOKENIZER
from tokenbox.cli.options import AS_JSON, OUTPUT, argument, flag, option
from tokenbox.cli.outcome import UsageProblem, group
from tokenbox.compose.blocks import BlockLayout, Verbosity, render_blocks
from tokenbox.content.block_kinds import AnnotationKind
from tokenbox.content.blocks import AnnotationBlock, Block, resolve_priorities
from tokenbox.errors import EmptyInput, plural
from tokenbox.folder.manifest import block_record, read_manifest
from tokenbox.lcp import BlockEvent, ContentStore, Event, Header, Pack
from tokenbox.lcp.encoder import encode_entries
from tokenbox.render.registry import renderer_names
from tokenbox.store.content_store import DirectoryStore
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.protocol import Tokenizer

PACK_FILE = argument("FILE", "A pack; - is standard input.")
STORE = option("--store DIR", "Folder of the contents that the pack refers to.")
TOKENIZER_NAME = option("--tokenizer -t NAME", "A tokenizer of `tokenbox tokenizers`.", DEFAULT_TOKENIZER)


def build_app() -> typer.Typer:
    commands = (inspect, validate, encode, decode, render, stats)
    return group("Read, check, render and write LCP/BCP packs.", {each.__name__: each for each in commands})


def inspect(
    file: str = PACK_FILE, tokenizer: str = TOKENIZER_NAME, store: str | None = STORE, as_json: bool = AS_JSON
) -> None:
    """List the blocks of a pack.

    `tokenbox pack . -o context.bcp` writes a pack.

    Example: tokenbox lcp inspect context.bcp
    """
    counter = registry.get(tokenizer)
    rows: list[dict[str, Any]] = []
    # Priorities come from annotations alone; a placeholder stands for any other block, to save memory.
    annotations: list[Block] = []
    placeholder = AnnotationBlock(0, AnnotationKind.TAG, b"")
    data = streams.read_bytes(file)
    # A pack that cannot be read is refused before any of it is counted.
    for _ in _events(data, store):
        pass
    events = _events(data, store)
    header = next(event.header for event in events if isinstance(event, tokenbox.lcp.HeaderEvent))
    for event in events:
        if isinstance(event, tokenbox.lcp.BlockEvent):
            rows.append(_row(event, counter))
            annotations.append(event.block if isinstance(event.block, AnnotationBlock) else placeholder)
    for row, priority in zip(rows, resolve_priorities(annotations), strict=True):
        row["priority"] = None if row["tokens"] is None else priority.display
    if as_json:
        streams.write_record("lcp.inspect", {"header": _header(header), "blocks": rows})
        return
    about = "" if counter.identity.exact else "~"
    shown = [
        [
            str(row["index"]),
            str(row["type"]),
            f"{row['bytes']:,}",
            "-" if row["tokens"] is None else f"{about}{row['tokens']:,}",
            str(row["priority"] or "-"),
            ",".join(row["flags"]) or "-",
            str(row["description"]),
        ]
        for row in rows
    ]
    heads = ("#", "type", "stored", "tokens", "priority", "flags", "what")
    terminal.show_table(heads, shown)


def validate(file: str = PACK_FILE, store: str | None = STORE, as_json: bool = AS_JSON) -> None:
    """Check that a pack can be read. Exit status 2 if not, with the error and its place.

    Example: tokenbox lcp validate context.bcp
    """
    events = _events(streams.read_bytes(file), store)
    header = next(event.header for event in events if isinstance(event, tokenbox.lcp.HeaderEvent))
    blocks = sum(event.blocks for event in events if isinstance(event, tokenbox.lcp.EndEvent))
    if as_json:
        streams.write_record("lcp.validate", {"valid": True, "header": _header(header), "blocks": blocks})
    else:
        streams.write_text(f"valid: {plural(blocks, 'block')}\n")


def encode(
    manifest: str = argument("MANIFEST", "A .json or .toml file; - is JSON on standard input."),
    store: str | None = STORE,
    output: str | None = OUTPUT,
) -> None:
    """Write a pack from a manifest.

    The shortest manifest.toml (`tokenbox lcp decode --json` prints the manifest of a pack):

    blocks = [{type = "conversation", role = "user", content = "Hi."}]

    Example: tokenbox lcp encode manifest.toml -o context.bcp
    """
    if output is None and terminal.is_seen():
        raise UsageProblem("a .bcp pack is not text for a terminal. Name a file with -o, or use a pipe.")

    folder = Path() if manifest == streams.STDIN else Path(manifest).parent
    read = read_manifest(streams.read_data(manifest), lambda name: streams.read_bytes(str(folder / name)))
    data = encode_entries(
        read.entries, _store(store), compression=read.compression, deduplicate=read.deduplicate
    )
    streams.deliver(data, output)


def decode(
    file: str = PACK_FILE,
    store: str | None = STORE,
    as_json: bool = flag("--json", "Print JSON, the only format."),
) -> None:
    """Print the blocks of a pack as a manifest for `tokenbox lcp encode`.

    Example: tokenbox lcp decode context.bcp --json
    """
    if not as_json:
        raise UsageProblem("decoded blocks are printed as JSON: add --json. For text: tokenbox lcp render.")

    pack = tokenbox.lcp.decode(streams.read_bytes(file), _store(store))
    record = {
        "header": _header(pack.header),
        "compression": "whole" if pack.header.compressed else "none",
        "blocks": [
            {**block_record(block), **({"compress": True} if frame.compressed else {})}
            for block, frame in zip(pack.blocks, pack.frames, strict=True)
        ],
    }
    streams.write_record("lcp.manifest", record)


def render(
    file: str = PACK_FILE,
    mode: str = option("--format -f NAME", "xml, markdown, minimal, ...", "xml"),
    budget: int | None = option("--budget -b TOKENS", "The token budget.", min=0),
    verbosity: Verbosity = option("--verbosity", "full and summary ignore the budget.", Verbosity.ADAPTIVE),
    types: str | None = option("--types A,B", "Render only blocks of these types."),
    soft: bool = flag("--soft", "Let critical blocks exceed the budget."),
    tokenizer: str = TOKENIZER_NAME,
    store: str | None = STORE,
    as_json: bool = flag("--json", "Print the record."),
    explain: bool = flag("--explain", "Show the decision on each block instead."),
    output: str | None = OUTPUT,
) -> None:
    """Render a pack as text for a model.

    Example: tokenbox lcp render context.bcp --budget 8000 --format markdown
    """
    if explain and (as_json or output is not None):
        raise UsageProblem("--explain shows the layout instead of the text. Leave out --json and -o.")
    result = _rendered(
        tokenbox.lcp.decode(streams.read_bytes(file), _store(store)),
        tokenizer,
        budget=budget,
        mode=mode,
        verbosity=verbosity,
        include_types=types and [_type(name.strip()) for name in types.split(",") if name.strip()],
        soft=soft,
    )
    if explain:
        streams.write_text(result.explain() + "\n")
    else:
        streams.deliver(streams.json_bytes(result.to_dict()) if as_json else result.text.encode(), output)
    if result.over:
        about = "" if result.tokenizer.exact else "~"
        streams.write_error(
            f"note: {about}{plural(result.over, 'token')} over the budget of {result.budget:,}\n"
        )


def stats(
    file: str = PACK_FILE, tokenizer: str = TOKENIZER_NAME, store: str | None = STORE, as_json: bool = AS_JSON
) -> None:
    """Compare the tokens and bytes of each rendering of a pack with Markdown.

    Example: tokenbox lcp stats context.bcp
    """
    data = streams.read_bytes(file)
    pack = tokenbox.lcp.decode(data, _store(store))
    results = {mode: _rendered(pack, tokenizer, mode=mode) for mode in renderer_names()}
    plain = results["markdown"]
    rows = [
        (mode, len(made.text.encode()), made.total, f"{made.total * 1000 // max(1, plain.total) / 10:.1f} %")
        for mode, made in results.items()
    ]
    if as_json:
        names = ("form", "bytes", "tokens", "of_markdown")
        record = {
            "tokenizer": plain.tokenizer.to_dict(),
            "pack_bytes": len(data),
            "blocks": len(pack.blocks),
            "renderings": [dict(zip(names, row, strict=True)) for row in rows],
        }
        streams.write_record("lcp.stats", record)
        return
    about = "" if plain.tokenizer.exact else "~"
    shown = [(mode, f"{size:,}", f"{about}{tokens:,}", share) for mode, size, tokens, share in rows]
    shown.append(("pack", f"{len(data):,}", "-", "-"))
    terminal.show_table(("form", "bytes", "tokens", "of Markdown"), shown)


def _store(store: str | None) -> ContentStore | None:
    return None if store is None else DirectoryStore(store)


def _header(header: Header) -> dict[str, object]:
    return {"version": f"1.{header.minor}", "compressed": header.compressed}


def _events(data: bytes, store: str | None) -> Iterator[Event]:
    decoder = tokenbox.lcp.Decoder(_store(store), limits=tokenbox.lcp.Limits(frame=None))
    yield from decoder.events(data)
    decoder.finish()


def _row(event: BlockEvent, counter: Tokenizer) -> dict[str, Any]:
    """Return a block as a row. An annotation has no tokens, because it is never rendered."""
    block, frame = event.block, event.frame
    try:
        result = render_blocks([block], counter, verbosity="summary").blocks[0]
    except EmptyInput:
        result = None
    flags = (
        ("summary", block.summary is not None),
        ("compressed", frame.compressed),
        ("reference", frame.reference),
    )
    return {
        "index": event.index,
        "type": block.type_name,
        "description": _description(block) if result is None else result.description,
        "bytes": frame.stored_size,
        "tokens": None if result is None else result.base_size,
        "priority": None,
        "flags": [name for name, on in flags if on],
    }


def _rendered(pack: Pack, tokenizer: str, **options: object) -> BlockLayout:
    with terminal.progress("laying out"):
        return render_blocks(pack.blocks, registry.get(tokenizer), **options)  # type: ignore[arg-type]


def _type(name: str) -> str | int:
    try:
        return int(name, 0)
    except ValueError:
        return name


def _description(block: object) -> str:
    target, kind = getattr(block, "target", None), getattr(block, "kind", None)
    return f"{getattr(kind, 'display', kind)} of block {target}"
