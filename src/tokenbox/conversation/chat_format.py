"""The chat formats by what there is: a model's file, a model's name, a server."""

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
    """Counts requests whole. Made by :meth:`open`, :meth:`openai` or :meth:`from_server`."""

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        server: str | None = None,
        template: str | None = None,
        now: dt.datetime | Callable[[], dt.datetime] | None = None,
        **variables: Any,  # noqa: ANN401  # what a template asks for
    ) -> TemplateFormat:
        """The format of a GGUF file, or of a folder with ``tokenizer.json`` and ``tokenizer_config.json``.

        ``server``: ``"llama.cpp"`` (default for GGUF), whose server changes messages before it renders them,
        or ``"transformers"`` (default for a folder), which renders them as they are. ``template`` is one to
        use instead of the model's. ``now``: the time or a clock, for templates that print the date.
        ``variables``: what else the template is given, such as ``enable_thinking=False``.

        Raises ``VocabularyError``, or ``TemplateError`` for a template that does not parse.
        """
        from tokenbox.conversation.template_format import FORMATS  # noqa: PLC0415  # 100 ms, where one counts

        vocabulary = open_chat_vocabulary(path)
        source = vocabulary.template if template is None else template
        if source is None:
            raise UnsupportedOperation(f"{path} has no chat template. Give one: template=...")
        how = server or ("transformers" if Path(path).is_dir() else "llama.cpp")
        if how not in FORMATS:
            raise UnsupportedOperation(f"no server {how!r}. There are: {', '.join(FORMATS)}.")
        return FORMATS[how](vocabulary, source, now, variables)

    @staticmethod
    def openai(model: str) -> OpenAIFormat:
        """The published rules of OpenAI's chat models; an estimate where they are not published."""
        return openai_format(*OpenAIFormat.rules(model))

    @staticmethod
    def from_server(count: ServerCount, name: str, *, exact: bool = True) -> ServerFormat:
        """What a server answers to ``count(body)``, a body of chat completions; each is asked once."""
        return ServerFormat(count, name, exact=exact)
