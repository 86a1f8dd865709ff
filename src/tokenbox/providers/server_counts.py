"""Counts that a server makes: of a text, and of a whole request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenbox.providers import anthropic_messages, openai_chat
from tokenbox.providers.counting import TokenCount
from tokenbox.providers.kinds import LLAMA_CPP_TEXT, ROWS, Dialect, Kind, number_or_length
from tokenbox.providers.memory import SESSION, EndpointMemory, Outcome
from tokenbox.providers.shapes import text_at
from tokenbox.providers.target import root_of

if TYPE_CHECKING:
    from tokenbox.providers.kinds import KindRow, RequestCounting
    from tokenbox.providers.request import ChatRequest
    from tokenbox.providers.server import Server

# By the field that has the text: two forms of one path are two capabilities.
_FIELDS = ("content", "prompt", "inputs")


def tokenize_supported(endpoint: str, memory: EndpointMemory = SESSION) -> bool | None:
    """Whether the server at ``endpoint`` counts texts; None as long as that is not known. Asks nothing.

    Raises :class:`InvalidTarget`.
    """
    known = [memory.supported(root_of(endpoint), _capability(field)) for field in _FIELDS]
    return True if True in known else False if False in known else None


def _capability(field: str) -> str:
    return f"tokenize {field}"


async def text_count(server: Server, text: str) -> TokenCount | None:
    """The count of ``text``, None if the server does not make it. Raises :class:`ProviderError`.

    A text is not worth finding out the kind for: as long as that is not known, the form is llama.cpp's.
    """
    kind = server.kind_as_known()
    shape = LLAMA_CPP_TEXT if kind is Kind.AUTO else ROWS[kind].text_counting
    if shape is None:
        return None
    body = {shape.text_field: text, "model": server.target.model, **shape.fixed}
    value = await server.ask(
        _capability(shape.text_field), shape.path, body, shape.read, refused=Outcome.UNSUPPORTED
    )
    return None if value is None else TokenCount(value, shape.exact, f"{server.target.root}{shape.path}")


async def request_count(server: Server, request: ChatRequest) -> TokenCount | None:
    """The count of a request as the server will template it, None if it does not make it.

    A refusal is taken to be about the request, so it is not remembered. Raises :class:`ProviderError`.
    """
    if server.memory.resting(server.target.root):
        return None  # not even to find out the kind
    row = ROWS[await server.kind()]
    for way in row.request_counting:
        value = await _number(server, way, _body(row, way, request))
        if value is not None:
            return TokenCount(value, way.exact, f"{server.target.root}{way.path}")
    return None


def _body(row: KindRow, way: RequestCounting, request: ChatRequest) -> dict[str, Any]:
    if row.dialect is Dialect.ANTHROPIC:
        return anthropic_messages.counted_body(request)
    return openai_chat.responses_input(request) if way.responses else openai_chat.body(request)


async def _number(server: Server, way: RequestCounting, body: object) -> int | None:
    what = f"count {way.path}"
    if way.prompt is None:
        return await server.ask(
            what,
            way.path,
            body,
            lambda answer: number_or_length(answer, way.tokens),
            refused=Outcome.NOT_THIS,
        )
    where = way.prompt
    prompt = await server.ask(
        what, way.path, body, lambda answer: text_at(answer, where) or None, refused=Outcome.NOT_THIS
    )
    if prompt is None:
        return None
    # As the server does with a templated prompt: it adds the token that begins one, if the model has it.
    shape = LLAMA_CPP_TEXT
    whole = {shape.text_field: prompt, "add_special": True, "parse_special": True}
    return await server.ask(
        _capability(shape.text_field), shape.path, whole, shape.read, refused=Outcome.UNSUPPORTED
    )
