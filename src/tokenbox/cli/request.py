"""What estimate, plan and enforce are asked about: chunks from files, and what holds for the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import STDIN, read_bytes, read_text
from tokenbox.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.config import Config
    from tokenbox.policy import Chunks

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Texts, one chunk each, named by their files; - is standard input."),
]
Model = Annotated[
    str | None, typer.Option("--model", "-m", metavar="MODEL", help="Default: `model` of the settings.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", "-t", metavar="NAME", help="The tokenizer that counts, instead of the model's own."
    ),
]
Messages = Annotated[
    str | None,
    typer.Option("--messages", metavar="FILE", help="Chat messages as JSON, or a request that has them."),
]
Document = Annotated[
    str | None, typer.Option("--document", "-d", metavar="DOC", help="The sections of a layout document.")
]
Pack = Annotated[str | None, typer.Option("--lcp", metavar="FILE", help="The blocks of a pack (LCP).")]
MaxCtx = Annotated[
    str | None, typer.Option("--max-ctx", metavar="TOKENS", help="Instead of the model's own window.")
]
ReserveOut = Annotated[
    str | None, typer.Option("--reserve-out", metavar="TOKENS", help="Kept free for the answer.")
]
Headroom = Annotated[
    str | None,
    typer.Option("--headroom", metavar="FRACTION", help="Of the window, kept free for safety: 0.05."),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="NAME", help="box, ladder, window, an entry point, or module:function of yours."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Read:
    """The chunks, and what a whole request says beside its messages."""

    chunks: Chunks
    model: str | None = None
    max_tokens: object = None


@dataclass(frozen=True, slots=True)
class Given:
    """What to ask about, as options name it."""

    files: Sequence[str]
    messages: str | None = None
    document: str | None = None
    pack: str | None = None

    def read(self) -> Read:
        """The chunks. Raises :class:`UsageProblem` where there is not just one kind of them."""
        from tokenbox.policy import read_chunks

        asked = {
            "FILE": bool(self.files),
            "--messages": self.messages is not None,
            "--document": self.document is not None,
            "--lcp": self.pack is not None,
        }
        named = [option for option, is_given in asked.items() if is_given]
        if len(named) > 1:
            raise UsageProblem(f"{named[0]} and {named[1]} do not go together. Give one of them.")
        if not named:
            raise UsageProblem(f"name what to look at: {', '.join(asked)}; - is standard input.")
        if self.files.count(STDIN) > 1:
            raise UsageProblem("standard input can be read only once: give - only once.")
        if self.messages is not None:
            return _read_messages(self.messages)
        if self.pack is not None:
            from tokenbox.lcp import decode

            return Read(read_chunks(decode(read_bytes(self.pack)).blocks))
        if self.document is not None:
            from tokenbox.documents import read_document

            document = read_document(self.document)
            return Read(read_chunks(document.sections, document.separator))
        from tokenbox.content.section import Section

        texts = _texts(list(dict.fromkeys(self.files)))
        return Read(read_chunks([Section(name, text, shrink=1) for name, text in texts]))


def settings(
    max_ctx: str | None, reserve_out: str | None, headroom: str | None, strategy: str | None
) -> Config:
    """The settings of the folder, with what the flags say before them."""
    from tokenbox.config import load

    return load(
        flags={
            "policy.max_ctx": max_ctx,
            "policy.reserve_out": reserve_out,
            "policy.headroom": headroom,
            "policy.strategy": strategy,
        }
    )


def model_of(model: str | None, read: Read, config: Config) -> str | None:
    """The model of the option, else of the request, else of the settings."""
    if model is not None or read.model is not None:
        return read.model if model is None else model
    found = config.value("model")
    return None if found is None else str(found)


def needed_model(model: str | None, read: Read, config: Config) -> str:
    """As :func:`model_of`; a model is required."""
    found = model_of(model, read, config)
    if found is None:
        raise UsageProblem("name a model: --model gpt-4o, or once for all: tokenbox config set model gpt-4o")
    return found


def whole(text: str | None, option: str, otherwise: object) -> Any:  # noqa: ANN401  # checked where it is used
    """The number that an option says; without it, what is said otherwise."""
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 17):  # noqa: PLR2004  # RFC 8785
        raise UsageProblem(f"{option} is a whole number of tokens, not {text[:60]!r}.")
    return int(text)


def _texts(names: Sequence[str]) -> list[tuple[str, str]]:
    return [("standard input" if name == STDIN else name, read_text(name)) for name in names]


def _read_messages(name: str) -> Read:
    """A JSON file of messages: a list of them, or a request as a server takes it."""
    from tokenbox.policy import read_chunks

    shown = "standard input" if name == STDIN else name
    try:
        data: Any = json.loads(read_text(name))
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise DocumentError(f"this is not valid JSON: {error}", file=shown, code="document_syntax") from None
    asked: dict[str, Any] = data if isinstance(data, dict) else {"messages": data}
    messages, tools, model = asked.get("messages"), asked.get("tools") or [], asked.get("model")
    if not isinstance(messages, list) or not isinstance(tools, list):
        raise DocumentError(
            'there are no messages: give a list, or a request such as {"messages": [...]}.',
            file=shown,
            code="document_missing_key",
        )
    max_tokens = next((asked[key] for key in _MAX_TOKENS if asked.get(key) is not None), None)
    return Read(read_chunks(messages, tools=tools), model if isinstance(model, str) else None, max_tokens)


# How requests say how long the answer may be, the first that does.
_MAX_TOKENS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
