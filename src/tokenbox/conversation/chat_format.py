"""Chat formats from a model's file, a model's name, or a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.conversation.published import OpenAIFormat, openai_format
from tokenbox.conversation.served import ServerFormat
from tokenbox.errors import UnsupportedOperation
from tokenbox.tokenizers.special import open_chat_vocabulary

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Callable

    from tokenbox.conversation.served import ServerCount
    from tokenbox.conversation.template_format import TemplateFormat


class ChatFormat:
    """Constructors of chat formats, which count complete requests."""

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        server: str | None = None,
        template: str | None = None,
        now: dt.datetime | Callable[[], dt.datetime] | None = None,
        **variables: Any,  # noqa: ANN401  # what a template asks for
    ) -> TemplateFormat:
        """Open a GGUF file, or a folder with ``tokenizer.json`` and ``tokenizer_config.json``.

        ``server``: ``"llama.cpp"`` (default for GGUF), whose server changes messages before it renders them,
        or ``"transformers"`` (default for a folder), which renders them as they are. ``template``: a template
        to use instead of the model's. ``now``: the time or a clock, for templates that print the date.
        ``variables``: further variables of the template, such as ``enable_thinking=False``.

        Raises ``VocabularyError``, or ``TemplateError`` for a template that does not parse.
        """
        from tokenbox.conversation.template_format import FORMATS  # noqa: PLC0415  # it takes 100 ms

        vocabulary = open_chat_vocabulary(path)
        source = vocabulary.template if template is None else template
        if source is None:
            raise UnsupportedOperation(f"{path} has no chat template. Give one: template=...")
        name = server or ("transformers" if Path(path).is_dir() else "llama.cpp")
        if name not in FORMATS:
            raise UnsupportedOperation(f"no server {name!r}. There are: {', '.join(FORMATS)}.")
        return FORMATS[name](vocabulary, source, now, variables)

    @staticmethod
    def openai(model: str) -> OpenAIFormat:
        """Return the published rules of an OpenAI chat model; an estimate if they are not published."""
        return openai_format(*OpenAIFormat.rules(model))

    @staticmethod
    def from_server(count: ServerCount, name: str, *, exact: bool = True) -> ServerFormat:
        """Return a format that asks a server with ``count(body)``, a chat completions body, once each."""
        return ServerFormat(count, name, exact=exact)
