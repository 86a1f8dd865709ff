"""``tokenbox count``: counts the tokens of files, and of chats as requests to a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import tokenbox
from tokenbox import counters
from tokenbox.cli import terminal
from tokenbox.cli.chat import chat_in, note_unseen, why_no_chat
from tokenbox.cli.counter_options import ENGINE_OPTION, by_settings, named_tokenizer, note_misspelt
from tokenbox.cli.options import AS_JSON, argument, option
from tokenbox.cli.outcome import Exit, UsageProblem, report
from tokenbox.cli.streams import STDIN, read_text, shown_name, write_error, write_record
from tokenbox.compose.requests import Count, RequestCounter
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import printable
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.protocol import Engine, Tokenizer, TokenizerIdentity


@dataclass(frozen=True, slots=True)
class FileCount:
    """The count of a file, or why it failed. ``is_chat``: counted as the request that it contains."""

    file: str
    count: Count | None
    is_chat: bool = False
    error: TokenboxError | None = None

    def to_dict(self) -> dict[str, object]:
        if self.count is None:
            return {"file": self.file, "error": None if self.error is None else self.error.to_dict()}
        found: dict[str, object] = {"file": self.file, "tokens": self.count.total}
        return {**found, "count": self.count.to_dict()} if self.is_chat else found


def count(
    files: list[str] = argument("FILE...", "Files to count; - is standard input."),
    tokenizer: str | None = option(
        "--tokenizer -t NAME", "A tokenizer of `tokenbox tokenizers`, file:PATH, or a model."
    ),
    model: str | None = option("--model -m NAME", "Count for this model: its tokenizer and chat format."),
    engine: Engine = ENGINE_OPTION,
    as_json: bool = AS_JSON,
) -> int:
    """Count the tokens of files, or of chats.

    With --model, or with a model or a model's own files as the tokenizer, a JSON file of messages or of a
    request is counted as that request.
    A file that cannot be read is reported, the others are counted, and the exit status is 2.
    A ~ marks an estimate.

    Example: tokenbox count README.md src/*.py
    """
    if files.count(STDIN) > 1:
        raise UsageProblem("standard input can be read only once: give - only once.")
    model, given = by_settings(model, tokenizer)
    note_misspelt(model, given)
    counter = named_tokenizer(model, given, engine)
    are_counted = model is not None or counters.counts_requests(given)
    chat_format = cache(lambda: counters.chat_format(model, given))  # opened for the first chat
    with terminal.progress("counting", len(files)) as advance:
        counts = []
        for file in files:
            counts.append(_count_file(file, counter, are_counted, chat_format))
            advance()
    if as_json:
        write_record("count", _record(counts, counter.identity))
    else:
        _show(counts, counter.identity, model)
    for failed in counts:
        if failed.error is not None:
            report(failed.error)
    return Exit.BAD_INPUT if any(c.error is not None for c in counts) else Exit.OK


def _count_file(
    file: str, counter: Tokenizer, are_counted: bool, chat_format: Callable[[], RequestCounter | None]
) -> FileCount:
    """Count a file; its chat as a request, if chats ``are_counted`` and their format is known."""
    try:
        text = read_text(file)
        chat = (
            chat_in(text)
            if are_counted or (file.endswith(".json") and len(text) <= _LARGEST_HINTED)
            else None
        )
        if are_counted and chat is None and file.endswith((".json", ".jsonl")) and why_no_chat(text):
            write_error(f"note: {shown_name(file)} {why_no_chat(text)} It is counted as text.\n")
        if chat is None or chat_format() is None:
            if file.endswith(".json"):
                _note_chat(file, chat)
            return FileCount(file, counters.count_text(text, counters.text_counter(None, counter)))

        count = tokenbox.count(chat, tokenizer=chat_format())
        note_unseen(file, count, chat)
        return FileCount(file, count, is_chat=True)
    except TokenboxError as error:
        return FileCount(file, None, error=error)


def _note_chat(file: str, chat: Any) -> None:  # noqa: ANN401  # JSON
    """Say how to count a file as the chat that it contains."""
    if chat is None:
        return
    named = chat.get("model") if isinstance(chat, dict) else None
    model = printable(named[:80]) if isinstance(named, str) and named else "NAME"
    write_error(
        f"note: {shown_name(file)} is a chat, and counted as text. "
        f"To count it as a request: --model {model}\n"
    )


# The most characters of a JSON file that is parsed only to give a hint.
_LARGEST_HINTED = 5_000_000


def _record(counts: list[FileCount], identity: TokenizerIdentity) -> dict[str, object]:
    counted = [c.count.total for c in counts if c.count is not None]
    return {
        "tokenizer": identity.to_dict(),
        "files": [c.to_dict() for c in counts],
        "counted": len(counted),
        "failed": len(counts) - len(counted),
        "total": sum(counted),
    }


def _show(counts: list[FileCount], identity: TokenizerIdentity, model: str | None) -> None:
    """Show a line for each file and, for several files, the total."""
    rows = [(c.count.total, c.count.exact, c.file) for c in counts if c.count is not None]
    if len(counts) > 1:
        some = "" if len(rows) == len(counts) else f" ({len(rows)} of {len(counts)} files)"
        exact = all(exact for _, exact, _ in rows) and identity.exact
        rows.append((sum(total for total, _, _ in rows), exact, f"total{some}"))
    terminal.show_counts(rows, identity, _way_to_exact(model, identity))


def _way_to_exact(model: str | None, identity: TokenizerIdentity) -> str:
    """Return how the counts of a model without a vocabulary here become exact."""
    if model is None or identity.name != registry.UNKNOWN:
        return ""
    if needs_vocabulary(model, identity.name):
        return ". With the model's vocabulary it is exact: --tokenizer file:tokenizer.json"
    return f": {printable(model)} has no public vocabulary"


def needs_vocabulary(model: str, tokenizer: str | None) -> bool:
    """Return whether the model is counted without its vocabulary, and there is a public one."""
    if tokenizer != registry.UNKNOWN:
        return False
    family = tokenbox.catalog.tokenizer_family(model)
    return family is None or family.name is not None
