"""The input of estimate, plan and enforce: chunks from files, and the settings of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tokenbox
from tokenbox.cli import streams
from tokenbox.cli.chat import read_chat
from tokenbox.cli.options import argument, option
from tokenbox.cli.outcome import UsageProblem, only_one
from tokenbox.config import Config
from tokenbox.integers import digits, meant_figure
from tokenbox.policy import Chunks

FILES = argument("FILE...", "Text files, one chunk each; - is standard input.", None)
MODEL = option("--model -m NAME", "Default: the setting `model`.")
TOKENIZER = option("--tokenizer -t NAME", "Overrides the model's tokenizer.")
MESSAGES = option("--messages FILE", "Chat messages as JSON, or a whole request.")
DOCUMENT = option("--document -d DOC", "The sections of a layout document; with roles they are messages.")
PACK = option("--lcp FILE", "The blocks of a pack (LCP).")
MAX_CTX = option("--max-ctx TOKENS", "Overrides the model's context window.")
RESERVE_OUT = option("--reserve-out TOKENS", "Tokens to keep free for the answer.")
HEADROOM = option("--headroom FRACTION", "Share of the window to keep free, such as 0.05.")
STRATEGY = option("--strategy NAME", "box, ladder, window, worth, an entry point or your module:function.")


@dataclass(frozen=True, slots=True)
class Read:
    chunks: Chunks
    model: str | None = None
    max_tokens: object = None


def read(
    files: Sequence[str], messages: str | None = None, document: str | None = None, pack: str | None = None
) -> Read:
    """Read the chunks. Raises :class:`UsageProblem` unless exactly one kind of input is named."""
    inputs = {
        "FILE": bool(files),
        "--messages": messages is not None,
        "--document": document is not None,
        "--lcp": pack is not None,
    }
    if only_one(inputs) is None:
        raise UsageProblem(f"name an input: {', '.join(inputs)}; - is standard input.")
    if files.count(streams.STDIN) > 1:
        raise UsageProblem("standard input can be read only once: give - only once.")
    if messages is not None:
        return _read_messages(messages)
    if pack is not None:
        return Read(tokenbox.policy.read_chunks(tokenbox.lcp.decode(streams.read_bytes(pack)).blocks))
    if document is not None:
        found = tokenbox.documents.read_document(document)
        return Read(tokenbox.policy.read_chunks(found.sections, found.separator))
    names = list(dict.fromkeys(files))
    if len(names) < len(files):
        streams.write_error("note: a file that is named twice is sent once.\n")
    sections = [
        tokenbox.Section(streams.shown_name(name), streams.read_text(name), shrink=1) for name in names
    ]
    return Read(tokenbox.policy.read_chunks(sections))


def settings(
    max_ctx: str | None = None, reserve_out: str | None = None, headroom: str | None = None
) -> Config:
    """Load the settings of the folder, overridden by the flags, and warn of what is not understood."""
    flags = {"policy.max_ctx": max_ctx, "policy.reserve_out": reserve_out, "policy.headroom": headroom}
    found = tokenbox.config.load(flags=flags)
    streams.write_warnings(found.problems)
    return found


def model_of(model: str | None, read: Read, config: Config) -> str | None:
    """Return the model of the option, else of the request, else of the settings."""
    if model is not None or read.model is not None:
        return read.model if model is None else model
    found: str | None = config.value("model")
    return found


def needed_model(model: str | None, read: Read, config: Config) -> str:
    """Return :func:`model_of`. Raises :class:`UsageProblem` if no model is named."""
    found = model_of(model, read, config)
    if found is None:
        raise UsageProblem("name a model: --model gpt-4o, or as a default: tokenbox config set model gpt-4o")
    return found


def tokens_in(text: str | None, option: str, default: object) -> Any:  # noqa: ANN401  # checked where it is used
    """Return the number of tokens in the value of an option, or ``default`` without the option."""
    if text is None:
        return default
    tokens = digits(text)
    if tokens is None:
        raise UsageProblem(f"{option} is a whole number of tokens, not {text[:60]!r}.{meant_figure(text)}")
    return tokens


def _read_messages(name: str) -> Read:
    chat = read_chat(name)
    limits = [chat.body[key] for key in _MAX_TOKENS if chat.body.get(key) is not None]
    wrong = [limit for limit in limits if type(limit) is not int or limit < 0]
    # A wrong limit is handed on, so that it is refused.
    max_tokens = wrong[0] if wrong else max(limits, default=None)
    return Read(tokenbox.policy.read_chunks(chat.body), chat.model, max_tokens)


# The fields of a request that limit the output. Servers differ in which they obey, so the largest counts.
_MAX_TOKENS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
