"""Images, files and recordings are counted wherever they are in a request, whoever counts its texts."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.gateway.attacks import CHAT, CONFIG, EMBEDDINGS, MESSAGES, RESPONSES, Server
from tests.gateway.test_attacks import Line
from tokenbox.catalog import Figure
from tokenbox.compose.bound import PER_MEDIA
from tokenbox.content.parts import media_in
from tokenbox.conversation.image_costs import MEDIA
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.local_counts import count_locally
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.settings import RequestLimits
from tokenbox.models import Stated, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.running import Gateways

MANY = 60
WINDOW = 40_000
HI = {"role": "user", "content": "hi"}
URL = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
BLOCK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
DOCUMENT = {"type": "document", "source": {"type": "content", "content": [BLOCK] * MANY}}
DRAWN = {"type": "image_generation_call", "id": "i", "result": "iVBORw0KGgo="}


def said(*parts: object, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": [*parts], **more}


def answered(content: list[Any]) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": content}
    return [HI, {"role": "assistant", "content": [call]}, said(result)]


IMAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "parts": (CHAT, {"messages": [said(*[URL] * MANY)]}),
    "in a message of an unknown shape": (CHAT, {"messages": [said({"type": "new"}, *[URL] * MANY)]}),
    "a document": (MESSAGES, {"messages": [said(DOCUMENT)]}),
    "a result": (MESSAGES, {"messages": answered([BLOCK] * MANY)}),
    "a result of an unknown shape": (MESSAGES, {"messages": answered([{"type": "new"}, *[BLOCK] * MANY])}),
    "a document in a result": (MESSAGES, {"messages": answered([DOCUMENT])}),
    "drawn before": (RESPONSES, {"input": [HI, *[DRAWN] * MANY]}),
}


@pytest.mark.parametrize("place", IMAGES)
def test_each_image_is_counted_wherever_it_stands(place: str) -> None:
    path, body = IMAGES[place]
    call = read_call(PROTOCOLS[path], json.dumps({"model": "m", **body}).encode(), RequestLimits())
    for model, each in (("m", MEDIA), ("gpt-4o", 1_445)):  # without its size, the most that an image costs
        use = resolve(model, settings=Stated(context_window=Figure(WINDOW, "configured")))
        count = count_locally(call, use)
        assert MANY * each <= count.total < (MANY + 3) * each
        assert count.at_most >= MANY * PER_MEDIA
        assert not count.exact


def test_what_a_tool_is_called_with_is_no_image() -> None:
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": [BLOCK] * MANY}}
    assert media_in({"role": "assistant", "content": [call]}) == 0
    assert (
        media_in([DOCUMENT, URL, {"type": "document", "source": {"type": "text", "data": "d"}}]) == MANY + 2
    )


# Where a server counts the text.


class Rendering(Server):
    """An older llama.cpp: it renders a chat, with a marker for each image, and has no count of a request."""

    def __init__(self) -> None:
        super().__init__("rendering")

    def add_counts(self, app: web.Application) -> None:
        app.router.add_post("/apply-template", self._rendered)
        app.router.add_post("/tokenize", self._tokens)

    async def _rendered(self, request: web.Request) -> web.Response:
        return web.json_response({"prompt": "hi " + "<image>" * media_in((await request.json())["messages"])})


@pytest.fixture(scope="module", params=["vllm", "llama.cpp", "tgi", "openai-compatible"])
def counted(request: pytest.FixtureRequest, shared_gateways: Gateways) -> Iterator[tuple[Server, Line]]:
    server = Rendering() if request.param == "llama.cpp" else Server(request.param)
    config = CONFIG.format(port=server.port, kind=request.param, window=WINDOW)
    config += '[models.m]\ntokenizer = "utf8-bytes"\n'  # no vocabulary is loaded
    line = Line(shared_gateways(config=config))
    yield server, line
    line.close()
    server.close()


def wav(seconds: int) -> str:
    """Silence of so many seconds, at the least rate that is read: 8,000 bytes a second."""
    figures = b"\x01\0\x01\0" + (8_000).to_bytes(4, "little") * 2 + b"\x01\0\x08\0"
    head = b"RIFF\0\0\0\0WAVEfmt " + (16).to_bytes(4, "little") + figures
    return base64.b64encode(head + b"data\0\0\0\0" + bytes(8_000 * seconds)).decode()


def sound(seconds: int) -> dict[str, Any]:
    return said({"type": "input_audio", "input_audio": {"data": wav(seconds), "format": "wav"}})


def test_a_server_that_counts_only_text_leaves_the_rest_to_the_gateway(counted: tuple[Server, Line]) -> None:
    server, line = counted
    before = len(server.ran)
    for message in (said(*[URL] * MANY), sound(200)):
        status, answer = line.ask(CHAT, {"model": "m", "max_tokens": 5, "messages": [message]})
        assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert len(server.ran) == before
    for message in (said(URL), sound(5)):
        status, answer = line.ask(CHAT, {"model": "m", "max_tokens": 5, "messages": [message]})
        assert (status, answer["tokenbox"]["exact"]) == (200, False)
        assert answer["tokenbox"]["input_tokens"] >= MEDIA


def test_images_that_a_server_finds_in_a_text_are_counted(counted: tuple[Server, Line]) -> None:
    server, line = counted
    before = len(server.ran)
    for text in ("![a](https://example.org/a.png) " * MANY, "![a![b!](HTTPS://example.org/a.png) " * MANY):
        status, answer = line.ask(
            CHAT, {"model": "m", "max_tokens": 5, "messages": [{**HI, "content": text}]}
        )
        if server.kind == "tgi":
            assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
            assert len(server.ran) == before
        else:
            assert status == 200


def test_links_and_beginnings_of_images_are_no_images(counted: tuple[Server, Line]) -> None:
    _, line = counted
    for text in ("[a](https://example.org/a) " * MANY, "![" * 9_000):
        status, answer = line.ask(
            CHAT, {"model": "m", "max_tokens": 5, "messages": [{**HI, "content": text}]}
        )
        assert status == 200, answer


def test_messages_beside_prompts_are_text_only(counted: tuple[Server, Line]) -> None:
    _, line = counted
    body = {"model": "m", "input": "hi"}
    assert line.ask(EMBEDDINGS, {**body, "messages": [HI]})[0] == 200
    assert line.ask(EMBEDDINGS, {**body, "messages": [said(URL)]})[0] == 400
