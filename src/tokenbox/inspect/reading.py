"""Recognizes a file (document, record, pack, bundle, chat or log) and builds its entries."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenbox import api, counters
from tokenbox.documents import read_document
from tokenbox.errors import TokenboxError, shown
from tokenbox.inspect import importers
from tokenbox.inspect.of_layout import blocks_entry, blocks_frame, layout_entry, pack_entry
from tokenbox.inspect.of_messages import fitted_entry, fitted_frame, request_entry
from tokenbox.inspect.of_saved import SCHEMAS, saved_entry
from tokenbox.inspect.of_transcript import transcript_entry
from tokenbox.inspect.record import NothingToInspect, PageEntry, PageFrame, PageSlider, check_items
from tokenbox.inspect.slider import slider_of
from tokenbox.lcp import decode
from tokenbox.lcp.frames import MAGIC
from tokenbox.proof.calls import Texts
from tokenbox.proof.contents import read_contents
from tokenbox.proof.verify import verify
from tokenbox.records import from_json
from tokenbox.store.bundle_files import open_bundle

if TYPE_CHECKING:
    from tokenbox.compose.requests import Counts
    from tokenbox.tokenizers.protocol import Tokenizer

DEFAULT_TOKENIZER: Final = "o200k_base"
_DOCUMENTS: Final = (".toml", ".yaml", ".yml")
_LINES: Final = (".jsonl", ".ndjson", ".lhar")
_NO_JSON: Final = object()
# Fields of a logged request that a request to be sent does not have.
_ANSWERED: Final = frozenset({"usage", "response", "response_body"})
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The options that override what the files say. ``stops``: the number of other budgets to try."""

    budget: int | None = None
    tokenizer: Counts | None = None
    model: str | None = None
    query: str | None = None
    stops: int | None = None
    allow_outside: bool = False


def entries_in(name: str, data: bytes | None, asked: InspectOptions) -> list[PageEntry]:
    """Return the entries of the file or folder ``name``. ``data``: the bytes of a file; None for a folder.

    Raises :class:`NothingToInspect` for an unknown format, and what reading it raises.
    """
    path = Path(name)
    if data is None:
        return [_bundle(path) if (path / MANIFEST).is_file() else _folder(path, asked)]
    suffix = path.suffix.lower()
    if suffix in _DOCUMENTS:
        check_items(data.count(b"[[sections]]"))  # before parsing, which would take long
        return [_document(path, asked)]
    if suffix == ".tar":
        return [_bundle(path)]

    if data.startswith(MAGIC):
        return [_pack(data, path.name, asked)]
    return _json(path, data, asked)


def _json(path: Path, data: bytes, asked: InspectOptions) -> list[PageEntry]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _nothing(path.name) from None
    value = _NO_JSON if path.suffix.lower() in _LINES else from_json(text, _NO_JSON)
    if value is _NO_JSON:
        records = _lines(text)
        if not records:
            raise _no_json(path) if path.suffix.lower() == ".json" else _nothing(path.name)
        return _log(records, path.name, asked)
    if isinstance(value, dict):
        known = _own_record(value, path, asked)
        if known is not None:
            return [known]
    if _is_chat(value):
        return [_chat(value, path.name, asked)]
    records = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    return _log(records, path.name, asked)


def _own_record(value: dict[str, Any], path: Path, asked: InspectOptions) -> PageEntry | None:
    """Return the entry of a document or of a record of this library; None for anything else."""
    if "sections" in value and "schema" not in value:
        check_items(len(value["sections"]) if isinstance(value["sections"], list) else 0)
        return _document(path, asked)
    saved = saved_entry(value, path.name)
    schema = value.get("schema")
    if saved is None and isinstance(schema, str) and schema.startswith("tokenbox."):
        raise NothingToInspect(
            f"{path.name} has the schema {shown(schema)}, and a page shows {', '.join(SCHEMAS)}. "
            "If another release wrote it, write it again with this one.",
            file=path.name,
        )
    return saved


def _lines(text: str) -> list[dict[str, Any]]:
    """Return the objects in the lines. Other lines, such as an incomplete last one, are skipped."""
    found = []
    for line in text.split("\n"):
        value = from_json(line) if line.strip() else None
        if isinstance(value, dict):
            found.append(value)
    return found


def _log(records: list[dict[str, Any]], name: str, asked: InspectOptions) -> list[PageEntry]:
    try:
        transcripts = importers.imported(records)
    except RecursionError:
        raise NothingToInspect(f"{name} is nested too deeply to be read.", file=name) from None
    if transcripts is None:
        raise _nothing(name)
    found = [transcript for transcript in transcripts if transcript.requests]
    if not found:
        raise NothingToInspect(f"{name} contains no request that was sent.", file=name)
    return [
        transcript_entry(
            transcript,
            name if len(found) == 1 else f"{name}: {transcript.session}",
            model=asked.model,
            tokenizer=asked.tokenizer,
            budget=asked.budget,
        )
        for transcript in found
    ]


def _no_json(path: Path) -> NothingToInspect:
    return NothingToInspect(
        f"{path.name} is not valid JSON. To see the place: python -m json.tool {shlex.quote(str(path))}",
        file=path.name,
    )


def _nothing(name: str) -> NothingToInspect:
    kinds = ", ".join(importers.names())
    return NothingToInspect(
        f"a page cannot show {name}. It shows a layout document, a JSON record of layout, pack, lcp render, "
        "plan, enforce, estimate, fit or batch, a pack (.bcp or a folder), a proof bundle, chat messages, "
        f"{kinds}.",
        file=name,
    )


def _document(path: Path, asked: InspectOptions) -> PageEntry:
    document = read_document(path, allow_outside=asked.allow_outside)
    check_items(len(document.sections))
    counter = None
    if asked.model is not None or asked.tokenizer is not None:
        counter = counters.section_counter(document.sections, asked.model, asked.tokenizer)
    made = document.layout(budget=asked.budget, tokenizer=counter)
    return layout_entry(made, path.name, stops=asked.stops)


def _pack(data: bytes, name: str, asked: InspectOptions) -> PageEntry:
    blocks = decode(data).blocks
    check_items(len(blocks))
    counter = _counter(asked)
    made = api.render_blocks(blocks, counter, asked.budget)
    whole = made if made.budget is None else api.render_blocks(blocks, counter)
    slider = _slider(
        lambda budget: blocks_frame(api.render_blocks(blocks, counter, budget)),
        asked,
        whole.total,
        len(made.blocks),
        len(whole.text),
    )
    return blocks_entry(made, name, counter, slider, kind="pack")


def _folder(path: Path, asked: InspectOptions) -> PageEntry:
    counter = _counter(asked)
    packed = api.pack(path, asked.budget, asked.query, tokenizer=counter)
    return pack_entry(packed, path.name or str(path), counter)


def _counter(asked: InspectOptions) -> Tokenizer:
    default = DEFAULT_TOKENIZER if asked.model is None else None
    return counters.text_counter(asked.model, asked.tokenizer or default)


def _is_chat(value: object) -> bool:
    if isinstance(value, dict) and value.keys() & _ANSWERED:
        return False
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list) or not (messages or isinstance(value, dict)):
        return False  # an empty list may be a list of anything
    return all(isinstance(one, dict) and "role" in one for one in messages)


def _chat(value: Any, name: str, asked: InspectOptions) -> PageEntry:  # noqa: ANN401  # JSON
    """Return messages fitted into the budget of the options, or, without one, the request as it is."""
    if asked.budget is None:
        return request_entry(value, name, model=asked.model, tokenizer=asked.tokenizer)
    body: dict[str, Any] = value if isinstance(value, dict) else {"messages": value}
    messages, tools, model = body["messages"], body.get("tools"), asked.model
    check_items(len(messages))
    if model is None and isinstance(body.get("model"), str):
        model = body["model"]

    def fitted(budget: int | None) -> Any:  # noqa: ANN401  # Fitted of whatever they are
        return api.fit(messages, budget, asked.tokenizer, model=model, tools=tools, handles=True)

    made = fitted(asked.budget)
    whole = fitted(None)
    slider = _slider(
        lambda budget: fitted_frame(fitted(budget)),
        asked,
        whole.total,
        len(messages),
        sum(len(item.text) for item in whole.inputs),
    )
    return fitted_entry(made, name, slider)


def _slider(
    at: Callable[[int], PageFrame], asked: InspectOptions, whole: int, items: int, characters: int
) -> PageSlider | None:
    """Return the slider up to the size of the whole. A budget that fails has an error as its frame."""

    def outcome(tokens: int) -> PageFrame:
        try:
            return at(tokens)
        except TokenboxError as error:
            return PageFrame(tokens, None, exact=True, changes=(), error=error.message)

    return slider_of(
        outcome,
        low=0,
        high=max(whole, asked.budget or 0),
        own=whole if asked.budget is None else asked.budget,
        items=items,
        characters=characters,
        stops=asked.stops,
    )


def _bundle(path: Path) -> PageEntry:
    from tokenbox.inspect.of_proof import proof_entry  # slow to import

    files, bundle_id = open_bundle(path)
    manifest = verify(files, bundle_id)
    return proof_entry(read_contents(files, manifest), Texts.of_bundle(files, manifest), path.name)
