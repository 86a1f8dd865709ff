"""Chat formats from a model's file, a model's name, or a server, which is asked once for each request."""

from __future__ import annotations

import datetime as dt
import hashlib
import inspect
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenbox.catalog.names import checked_name
from tokenbox.compose.bound import Bound
from tokenbox.compose.requests import By, Count
from tokenbox.content.message import thaw
from tokenbox.conversation.pieces import CountsMessages
from tokenbox.conversation.published import OpenAIFormat, openai_format
from tokenbox.errors import UnsupportedOperation, shown
from tokenbox.integers import given_count
from tokenbox.tokenizers.files import open_chat_vocabulary
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import UNKNOWN, get
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.content.request import Request
    from tokenbox.conversation.template_format import TemplateFormat


AskServer = Callable[[dict[str, Any]], Any]
"""A function that asks a server for the count of a chat completions body; it may return an awaitable."""

MAX_CACHED: Final = 10_000


class ServerFormat(CountsMessages):
    """A counter that asks a server. For an async ``count``, use :meth:`acount_request`.

    ``exact``: the server counts as it bills. A request translated from another API's shape is not the one
    that will be sent, so its count is not exact.
    """

    def __init__(self, count: AskServer, name: str, *, exact: bool = True) -> None:
        utf8(name)  # the name of a server is text
        self._ask = count
        self._known: dict[str, int] = {}
        fingerprint = hashlib.sha256(f"server:{name}".encode()).hexdigest()
        self.identity = TokenizerIdentity(name, "unknown", fingerprint, exact)
        self._sizes = get(UNKNOWN)
        self._bound = Bound(None)

    def count_request(self, request: Request) -> Count:
        key, body = _body(request)
        if key not in self._known:
            answer = self._ask(body)
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise UnsupportedOperation("this server is asked asynchronously: await acount_request(...).")
            self._remember(key, answer)
        return self._count(request, self._known[key])

    async def acount_request(self, request: Request) -> Count:
        """As ``count_request``, awaiting the server's answer if necessary."""
        key, body = _body(request)
        if key not in self._known:
            answer = self._ask(body)
            self._remember(key, await answer if inspect.isawaitable(answer) else answer)
        return self._count(request, self._known[key])

    def item_size(self, item: Item) -> int:
        """Return an estimate of an item's tokens: the server counts only complete requests."""
        return sum(self._sizes.count_batch([message.counted_text for message in item.messages]))

    def _count(self, request: Request, total: int) -> Count:
        exact = self.identity.exact and request.verbatim
        at_most = total if exact else max(total, self._bound.request(request))
        return Count(total, exact, at_most, By.SERVER)

    def _remember(self, key: str, answer: object) -> None:
        number = given_count(answer, "the server")
        if len(self._known) >= MAX_CACHED:
            self._known.clear()
        self._known[key] = number


def _body(request: Request) -> tuple[str, dict[str, Any]]:
    """Return a cache key of the request, and the body that asks for its count."""
    body: dict[str, Any] = {}
    if request.prompts:
        prompts = [thaw(prompt) for prompt in request.prompts]
        body["prompt"] = prompts[0] if len(prompts) == 1 else prompts
    else:
        body["messages"] = [message.to_dict(declared=False) for message in request.messages]
    if request.tools:
        body["tools"] = [thaw(tool) for tool in request.tools]
    body.update(thaw(request.fields))
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(), body


class ChatFormat:
    """Constructors of chat formats, which count complete requests."""

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        server: str | None = None,
        template: str | None = None,
        now: dt.datetime | Callable[[], dt.datetime] | None = None,
        **variables: Any,  # what a template asks for
    ) -> TemplateFormat:
        """Open a GGUF file, or a folder with ``tokenizer.json`` and ``tokenizer_config.json``.

        ``server``: ``"llama.cpp"`` (default for GGUF), whose server changes messages before it renders them,
        or ``"transformers"`` (default for a folder), which renders them as they are. ``template``: a template
        to use instead of the model's. ``now``: the time or a clock, for templates that print the date.
        ``variables``: further variables of the template, such as ``enable_thinking=False``.

        Raises ``VocabularyError``, or ``TemplateError`` for a template that does not parse.
        """
        from tokenbox.conversation.template_format import FORMATS  # it takes 100 ms

        vocabulary = open_chat_vocabulary(path)
        source = vocabulary.template if template is None else template
        if source is None:
            raise UnsupportedOperation(f"{path} has no chat template. Give one: template=...")
        name = server or ("transformers" if Path(path).is_dir() else "llama.cpp")
        if name not in FORMATS:
            raise UnsupportedOperation(f"no server {name!r}. There are: {', '.join(FORMATS)}.")
        if not (now is None or callable(now) or isinstance(now, dt.datetime)):
            raise UnsupportedOperation(f"now is a datetime or a function that returns one, not {shown(now)}.")
        found = FORMATS[name](vocabulary, source, now, variables)
        again = {"server": server, "template": template, "now": now, **variables}
        found.opened_by = partial(ChatFormat.open, os.path.abspath(path), **again)
        return found

    @staticmethod
    def openai(model: str) -> OpenAIFormat:
        """Return the published rules of an OpenAI chat model; an estimate if they are not published."""
        return openai_format(checked_name(model))

    @staticmethod
    def from_server(count: AskServer, name: str, *, exact: bool = True) -> ServerFormat:
        """Return a format that asks a server with ``count(body)``, a chat completions body, once each."""
        if not callable(count):
            raise UnsupportedOperation(f"count is a function that asks a server, not {shown(count):.60}.")
        return ServerFormat(count, name, exact=exact)
