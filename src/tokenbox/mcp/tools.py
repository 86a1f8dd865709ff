"""The tools. A tool is one function over the public API and one row of ``TOOLS``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenbox import api, counters, folder
from tokenbox.compose.selection import Chunk, Selection
from tokenbox.conversation.record import UnknownHandle
from tokenbox.integers import digits
from tokenbox.mcp.answers import AT, DEFAULT_TOKENS, NOTE_ROOM, AnswerStore, StoredAnswer, answered, as_json
from tokenbox.mcp.calls import (
    CHUNKS,
    MESSAGES,
    TEXT,
    TEXTS,
    WHOLE,
    Argument,
    CallCounts,
    CallProgress,
    InvalidArguments,
)
from tokenbox.mcp.roots import OutsideRoots, Roots
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.signing import signers_in
from tokenbox.proof.verify import verify as verified
from tokenbox.store.bundle_files import open_bundle

if TYPE_CHECKING:
    from tokenbox.proof.signing import PublicKey
    from tokenbox.tokenizers.protocol import Tokenizer

# Notes about skipped files in an answer; `explain` has all.
_NOTES: Final = 3
_NOTE_LENGTH: Final = 160
_FORMS: Final = {"FULL": "full", "FOCUSED": "in_part", "OUTLINE": "outline", "LISTED": "not_shown"}


@dataclass(frozen=True, slots=True)
class SharedState:
    """The state that all calls of a server share. ``model``: the default of a call.

    ``keys``: one of them must have signed a bundle; None checks no signature.
    """

    model: str | None = None
    max_tokens: int = DEFAULT_TOKENS
    keys: Sequence[PublicKey] | None = None
    answers: AnswerStore = field(default_factory=AnswerStore)

    def counter(self, arguments: Mapping[str, Any]) -> Tokenizer:
        """Return the tokenizer of the call, else of the server. Raises ``TokenizerError``."""
        return counters.text_counter(arguments.get("model", self.model), None)

    def limit(self, arguments: Mapping[str, Any]) -> int:
        limit: int = arguments.get("max_tokens", self.max_tokens)
        return limit


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call: its validated arguments, the files it may read, and its progress."""

    state: SharedState
    arguments: Mapping[str, Any]
    roots: Roots
    progress: CallProgress

    def allow(self, kept: StoredAnswer) -> None:
        """Raise ``OutsideRoots`` if the text was read in a folder that is no longer allowed."""
        if kept.folders and not any(map(self.roots.holds, kept.folders)):
            raise OutsideRoots("this was read in a folder that is no longer inside the roots.")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``reads``: it depends on files, so the client is asked for its roots."""

    about: str
    arguments: tuple[Argument, ...]
    run: Callable[[ToolRun], list[str]]
    reads: bool = False


def pack(call: ToolRun) -> list[str]:
    arguments, progress = call.arguments, call.progress
    path = call.roots.resolve(arguments["path"])
    surveyed = folder.survey([path], within=call.roots.above(path))
    if not all(map(call.roots.holds, surveyed.named)):
        raise OutsideRoots("the path changed while it was read.")
    progress.begin(2 * len(surveyed.found.files))
    source = folder.read(
        surveyed,
        folder.PackSettings(
            include=tuple(arguments.get("include", ())), exclude=tuple(arguments.get("exclude", ()))
        ),
        advance=progress.advance,
    )
    counter, limit = call.state.counter(arguments), call.state.limit(arguments)
    budget = arguments.get("budget", _room(limit))
    options = folder.PackOptions(arguments.get("query"), focus=tuple(arguments.get("focus", ())))
    packed = folder.pack_source(source, counter, budget, options=options, cache=CallCounts(progress))
    forms = Counter(_FORMS[file.shown.name] for file in packed.files)
    note = {
        "tokens": packed.total,
        "exact": counter.identity.exact,
        "budget": budget,
        "files": {form: forms[form] for form in _FORMS.values() if forms[form]},
    }
    notes = [str(one) for one in source.notes]
    if notes:
        note["notes"] = [one[:_NOTE_LENGTH] for one in notes[:_NOTES]]
    if len(notes) > _NOTES:
        note["more_notes"] = len(notes) - _NOTES
    kept = StoredAnswer(
        packed.text,
        {file.name: file.text for file in source.files if file.text is not None},
        "\n".join([packed.explain(), *(f"note: {one}" for one in notes)]),
        (path,),
    )
    return answered(kept, note, limit, counter, call.state.answers)


def count(call: ToolRun) -> list[str]:
    arguments = call.arguments
    if ("text" in arguments) == ("messages" in arguments):
        raise InvalidArguments("give either text or messages.")
    given = arguments["text"] if "text" in arguments else arguments["messages"]
    return [as_json(api.count(given, arguments.get("model", call.state.model)).to_dict())]


def select(call: ToolRun) -> list[str]:
    arguments = call.arguments
    counter, limit = call.state.counter(arguments), call.state.limit(arguments)
    chunks = [Chunk.of(value, number) for number, value in enumerate(arguments["chunks"])]
    budget = arguments.get("budget", _room(limit))
    selection = api.select(
        chunks, budget, arguments.get("query"), tokenizer=counter, cache=CallCounts(call.progress)
    )
    parts = {chunk.id or str(number): chunk.text.encode() for number, chunk in enumerate(chunks)}
    reasons = Counter(one.reason.value.replace(" ", "_") for one in selection.chunks)
    note = {"tokens": selection.total, "exact": selection.exact, "budget": budget, "chunks": dict(reasons)}
    kept = StoredAnswer(selection.text, parts, _selection_lines(selection))
    return answered(kept, note, limit, counter, call.state.answers)


def explain(call: ToolRun) -> list[str]:
    kept = _kept(call)[0]
    if not kept.about:
        raise UnknownHandle(
            f"{call.arguments['handle'][:80]} is not a pack or selection, so there is nothing to explain."
        )
    return _whole(call, StoredAnswer(kept.about, folders=kept.folders))


def expand(call: ToolRun) -> list[str]:
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
                + ("The names are in its file tree." if kept.parts else "It has no parts."),
            )
        part = kept.parts[known[0]]
    return _whole(call, StoredAnswer(part.decode(), folders=kept.folders))


def verify(call: ToolRun) -> list[str]:
    path = call.roots.resolve(call.arguments["path"])
    try:
        files, bundle_id = open_bundle(path)
        manifest = verified(files, bundle_id, call.state.keys)
        signed_by, not_checked = signers_in(files, call.state.keys or ())
    except BundleInvalid as error:
        return [as_json({"ok": False, "code": error.code, "message": error.message[:1000]})]
    signatures = {"signed_by": signed_by, "not_checked": not_checked}
    return [as_json({"ok": True, "id": manifest.id, **signatures})]


def _room(limit: int) -> int:
    """Return the default budget of a text, which leaves room for the note of the answer."""
    return max(limit - NOTE_ROOM, (limit + 1) // 2)


def _kept(call: ToolRun) -> tuple[StoredAnswer, int]:
    """Return the text behind the handle of the call, and the character at which it starts."""
    handle, _, after = call.arguments["handle"].partition(AT)
    kept = call.state.answers.get(handle)
    call.allow(kept)
    start = digits(after or "0")
    if start is None or start > len(kept.text):
        raise UnknownHandle(f"{call.arguments['handle']!r:.80} does not end in a position of the text.")
    return kept, start


def _whole(call: ToolRun, kept: StoredAnswer, start: int = 0) -> list[str]:
    return answered(
        kept,
        {"characters": len(kept.text)},
        call.state.limit(call.arguments),
        call.state.counter(call.arguments),
        call.state.answers,
        start=start,
    )


def _selection_lines(selection: Selection) -> str:
    """Return a line per chunk: decision, form, tokens, worth relative to the best, and name."""
    best = max((one.worth for one in selection.chunks), default=0) or 1
    lines = []
    for one in sorted(selection.chunks, key=lambda chunk: (-chunk.worth, chunk.index)):
        form = "-" if one.form is None else "full" if one.form == 0 else f"form {one.form}"
        copy = "" if one.copy_of is None else f" of {one.copy_of}"
        share = one.worth * 1000 // best / 10
        shown = f"{one.reason.value + copy:<10} {form:<7} {one.size:>8,} {share:>6.1f} %"
        lines.append(f"{shown}  {one.id or one.index}")
    return "\n".join(lines)


_MODEL: Final = Argument("model", TEXT, "Count with its tokenizer")
_MAX_TOKENS: Final = Argument("max_tokens", WHOLE)
_BUDGET: Final = Argument("budget", WHOLE, "Maximum tokens of the text")
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
            Argument("focus", TEXTS, "PATH, PATH:SYMBOL or PATH:FIRST-LAST; prefer it and related code"),
            Argument("include", TEXTS, "Globs; only these files"),
            Argument("exclude", TEXTS, "Globs; skip these files"),
            _MODEL,
            _MAX_TOKENS,
        ),
        pack,
        reads=True,
    ),
    "count": Tool(
        "Count the tokens of a text or of chat messages for a model; exact is false for an estimate.",
        (Argument("text", TEXT), Argument("messages", MESSAGES), _MODEL),
        count,
    ),
    "select": Tool(
        "Select the chunks (passages, results, memories) most relevant to a query within a token budget, "
        "without duplicates.",
        (
            Argument("chunks", CHUNKS, "Strings, or {text,id,title,summary,score,priority}", required=True),
            _BUDGET,
            _QUERY,
            _MODEL,
            _MAX_TOKENS,
        ),
        select,
    ),
    "explain": Tool(
        "Explain why each file or chunk of a pack or selection is shown, cut or left out.",
        (_HANDLE, _MODEL, _MAX_TOKENS),
        explain,
        reads=True,
    ),
    "expand": Tool(
        "Get what an answer left out, byte for byte: the rest behind a handle, or a file or chunk by name.",
        (_HANDLE, Argument("name", TEXT, "A file of the pack, or a chunk's id"), _MODEL, _MAX_TOKENS),
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
