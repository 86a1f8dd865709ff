"""The tools: what a model is told of each, and what each does with the public calls.

A tool is one function and one row of ``TOOLS``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenbox import api, folder
from tokenbox.compose.selection import Chunk
from tokenbox.conversation.record import UnknownHandle
from tokenbox.mcp.answers import AT, DEFAULT_TOKENS, NOTE_ROOM, answered, as_json
from tokenbox.mcp.arguments import CHUNKS, MESSAGES, TEXT, TEXTS, WHOLE, Argument, InvalidArguments
from tokenbox.mcp.job import JobCounts
from tokenbox.mcp.roots import OutsideRoots
from tokenbox.mcp.shelf import Kept, Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.compose.selection import Selection
    from tokenbox.mcp.job import CallProgress
    from tokenbox.mcp.roots import Roots
    from tokenbox.proof.signing import PublicKey
    from tokenbox.tokenizers.protocol import Tokenizer

# Notes of the reading that stand in an answer; `explain` has all.
_NOTES: Final = 3
_NOTE_LENGTH: Final = 160
_HOW: Final = {"FULL": "full", "FOCUSED": "in_part", "OUTLINE": "outline", "LISTED": "not_shown"}


@dataclass(frozen=True, slots=True)
class Desk:
    """What all calls of a server share. ``model`` counts where a call names none.

    ``keys``: one of them must have signed a bundle; None checks no signature.
    """

    model: str | None = None
    max_tokens: int = DEFAULT_TOKENS
    keys: Sequence[PublicKey] | None = None
    shelf: Shelf = field(default_factory=Shelf)

    def counter(self, arguments: Mapping[str, Any]) -> Tokenizer:
        """What counts texts, by the call or by the server. Raises a ``TokenizerError``."""
        return api.text_counter(arguments.get("model", self.model), None)

    def limit(self, arguments: Mapping[str, Any]) -> int:
        """The most tokens that the answer may have."""
        limit: int = arguments.get("max_tokens", self.max_tokens)
        return limit


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One call: its checked arguments, what it may read, and how far it is."""

    desk: Desk
    arguments: Mapping[str, Any]
    roots: Roots
    job: CallProgress

    def allow(self, kept: Kept) -> None:
        """Raise ``OutsideRoots`` for what was read in a folder that may not be read any more."""
        if kept.folders and not any(map(self.roots.holds, kept.folders)):
            raise OutsideRoots("this was read in a folder that is no longer inside the roots.")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``reads``: files of the client take part, so its roots are asked for."""

    about: str
    arguments: tuple[Argument, ...]
    run: Callable[[ToolRun], list[str]]
    reads: bool = False


def pack(call: ToolRun) -> list[str]:
    """Files within a budget; what is not shown stays behind the handle."""
    arguments, job = call.arguments, call.job
    path = call.roots.resolve(arguments["path"])
    surveyed = folder.survey([path], within=call.roots.above(path))
    if not all(map(call.roots.holds, surveyed.named)):
        raise OutsideRoots("the path changed while it was read.")
    job.begin(2 * len(surveyed.found.files))
    source = folder.read(
        surveyed,
        include=arguments.get("include", ()),
        exclude=arguments.get("exclude", ()),
        advance=job.advance,
    )
    counter, limit = call.desk.counter(arguments), call.desk.limit(arguments)
    budget = arguments.get("budget", _room(limit))
    options = folder.PackOptions(arguments.get("query"), focus=tuple(arguments.get("focus", ())))
    packed = folder.pack_source(source, counter, budget, options=options, cache=JobCounts(job))
    forms = Counter(_HOW[file.shown.name] for file in packed.files)
    note = {
        "tokens": packed.total,
        "exact": counter.identity.exact,
        "budget": budget,
        "files": {how: forms[how] for how in _HOW.values() if forms[how]},
    }
    notes = [str(one) for one in source.notes]
    if notes:
        note["notes"] = [one[:_NOTE_LENGTH] for one in notes[:_NOTES]]
    if len(notes) > _NOTES:
        note["more_notes"] = len(notes) - _NOTES
    kept = Kept(
        packed.text,
        {file.name: file.text for file in source.files if file.text is not None},
        "\n".join([packed.explain(), *(f"note: {one}" for one in notes)]),
        (path,),
    )
    return answered(kept, note, limit, counter, call.desk.shelf)


def count(call: ToolRun) -> list[str]:
    """The tokens of a text or of messages."""
    arguments = call.arguments
    if ("text" in arguments) == ("messages" in arguments):
        raise InvalidArguments("give text or messages: one of them.")
    what = arguments["text"] if "text" in arguments else arguments["messages"]
    return [as_json(api.count(what, arguments.get("model", call.desk.model)).to_dict())]


def select(call: ToolRun) -> list[str]:
    """The chunks worth most; the others stay behind the handle."""
    arguments = call.arguments
    counter, limit = call.desk.counter(arguments), call.desk.limit(arguments)
    chunks = [Chunk.of(value, number) for number, value in enumerate(arguments["chunks"])]
    budget = arguments.get("budget", _room(limit))
    selection = api.select(
        chunks, budget, arguments.get("query"), tokenizer=counter, cache=JobCounts(call.job)
    )
    parts = {chunk.id or str(number): chunk.text.encode() for number, chunk in enumerate(chunks)}
    reasons = Counter(one.reason.value.replace(" ", "_") for one in selection.chunks)
    note = {"tokens": selection.total, "exact": selection.exact, "budget": budget, "chunks": dict(reasons)}
    kept = Kept(selection.text, parts, _selection_lines(selection))
    return answered(kept, note, limit, counter, call.desk.shelf)


def explain(call: ToolRun) -> list[str]:
    """How each file or chunk of an answer is shown, and why."""
    kept = _kept(call)[0]
    if not kept.about:
        raise UnknownHandle(
            f"{call.arguments['handle'][:80]} is not a pack or selection, so there is nothing to explain."
        )
    return _whole(call, Kept(kept.about, folders=kept.folders))


def expand(call: ToolRun) -> list[str]:
    """What an answer left out, byte for byte."""
    kept, start = _kept(call)
    name = call.arguments.get("name")
    if name is None:
        return _whole(call, kept, start)
    part = kept.parts.get(name)
    if part is None:
        known = [one for one in kept.parts if one.endswith(f"/{name}")]
        if len(known) != 1:
            raise UnknownHandle(
                f"{call.arguments['handle'][:80]} has no {name[:200]!r}. "
                + ("Names stand in its file tree." if kept.parts else "It has no parts."),
            )
        part = kept.parts[known[0]]
    return _whole(call, Kept(part.decode(), folders=kept.folders))


def verify(call: ToolRun) -> list[str]:
    """Whether every byte of a proof bundle is right."""
    from tokenbox.proof.errors import BundleInvalid  # noqa: PLC0415  # only with proofs
    from tokenbox.proof.signing import signers_in  # noqa: PLC0415
    from tokenbox.proof.verify import verify as verified  # noqa: PLC0415
    from tokenbox.store.bundles import open_bundle  # noqa: PLC0415

    path = call.roots.resolve(call.arguments["path"])
    try:
        files, bundle_id = open_bundle(path)
        manifest = verified(files, bundle_id, call.desk.keys)
        signed_by, not_checked = signers_in(files, call.desk.keys or ())
    except BundleInvalid as error:
        return [as_json({"ok": False, "code": error.code, "message": error.message[:1000]})]
    signatures = {"signed_by": signed_by, "not_checked": not_checked}
    return [as_json({"ok": True, "id": manifest.id, **signatures})]


def _room(limit: int) -> int:
    """What a text may have where no budget is given: an answer that has its note too."""
    return max(limit - NOTE_ROOM, (limit + 1) // 2)


def _kept(call: ToolRun) -> tuple[Kept, int]:
    """What is behind the handle of the call, and the character where it starts."""
    handle, _, start = call.arguments["handle"].partition(AT)
    kept = call.desk.shelf.get(handle)
    call.allow(kept)
    if start and not (start.isascii() and start.isdigit() and int(start[:12]) <= len(kept.text)):
        raise UnknownHandle(f"{call.arguments['handle']!r:.80} does not end in a place of the text.")
    return kept, int(start[:12]) if start else 0


def _whole(call: ToolRun, kept: Kept, start: int = 0) -> list[str]:
    """A text without figures."""
    return answered(
        kept,
        {"characters": len(kept.text)},
        call.desk.limit(call.arguments),
        call.desk.counter(call.arguments),
        call.desk.shelf,
        start=start,
    )


def _selection_lines(selection: Selection) -> str:
    """A line per chunk: its name, what became of it, its tokens and its worth beside the best."""
    best = max((one.worth for one in selection.chunks), default=0) or 1
    lines = []
    for one in sorted(selection.chunks, key=lambda chunk: (-chunk.worth, chunk.index)):
        form = "-" if one.form is None else "full" if one.form == 0 else f"form {one.form}"
        copy = "" if one.copy_of is None else f" of {one.copy_of}"
        share = one.worth * 1000 // best / 10
        shown = f"{one.reason.value + copy:<10} {form:<7} {one.size:>8,} {share:>6.1f} %"
        lines.append(f"{shown}  {one.id or one.index}")
    return "\n".join(lines)


_MODEL: Final = Argument("model", TEXT, "Whose tokenizer counts")
_MOST: Final = Argument("max_tokens", WHOLE)
_BUDGET: Final = Argument("budget", WHOLE, "Most tokens of the text")
_QUERY: Final = Argument("query", TEXT, "The task, question or traceback")
_HANDLE: Final = Argument("handle", TEXT, required=True)

TOOLS: Final[Mapping[str, Tool]] = {
    "pack": Tool(
        "Read a file or folder as one text that never exceeds a token budget: the file tree, then the parts "
        "of files that the query needs, exactly counted, secrets redacted. Prefer it to reading many files.",
        (
            Argument("path", TEXT, "In a root; . is the root", required=True),
            _BUDGET,
            _QUERY,
            Argument("focus", TEXTS, "PATH or PATH:SYMBOL; what is near it comes first"),
            Argument("include", TEXTS, "Globs of the only files"),
            Argument("exclude", TEXTS, "Globs"),
            _MODEL,
            _MOST,
        ),
        pack,
        reads=True,
    ),
    "count": Tool(
        "Tokens of a text or of chat messages for a model; exact says whether that is proven.",
        (Argument("text", TEXT), Argument("messages", MESSAGES), _MODEL),
        count,
    ),
    "select": Tool(
        "Choose the chunks (passages, results, memories) worth most to a query within a token budget, "
        "without copies.",
        (
            Argument("chunks", CHUNKS, "Strings, or {text,id,title,summary,score,priority}", required=True),
            _BUDGET,
            _QUERY,
            _MODEL,
            _MOST,
        ),
        select,
    ),
    "explain": Tool(
        "Why each file or chunk of a pack or selection is shown, cut or left out.",
        (_HANDLE, _MODEL, _MOST),
        explain,
        reads=True,
    ),
    "expand": Tool(
        "What an answer left out, byte for byte: the rest behind a handle, or a whole file or chunk by name.",
        (_HANDLE, Argument("name", TEXT, "A file of the pack, or a chunk's id"), _MODEL, _MOST),
        expand,
        reads=True,
    ),
    "verify": Tool(
        "Check every byte of a tokenbox proof bundle (folder or tar) against its id.",
        (Argument("path", TEXT, required=True),),
        verify,
        reads=True,
    ),
}
