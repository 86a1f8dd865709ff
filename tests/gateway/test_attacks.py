"""In ``enforce`` nothing far over the window reaches an upstream, wherever in a request it is put."""

from __future__ import annotations

import base64
import http.client
import json
import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.attacks import (
    CHAT,
    COMPLETIONS,
    CONFIG,
    EMBEDDINGS,
    LONG,
    MESSAGES,
    RESPONSES,
    WINDOW,
    Server,
    mutations,
)
from tests.waiting import SECONDS
from tokenbox.catalog import Figure
from tokenbox.content.message import InvalidMessage
from tokenbox.gateway.admission import Counted, judge
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.local_counts import count_locally
from tokenbox.gateway.models import use_of
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import GatewaySettings, Mode, ModelSettings, RequestLimits
from tokenbox.models import Stated, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.running import Gateways, RunningGateway

SMALL = "[models.small]\nmax_ctx = 50\n"
KINDS = ("openai", "vllm", "anthropic", "ollama", "openai-compatible", "llama.cpp")


class Line:
    """A connection to a gateway, which is kept."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._line = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)

    def close(self) -> None:
        self._line.close()

    def ask(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        return self.send(path, json.dumps(body), **headers)

    def send(self, path: str, data: str, **headers: str) -> tuple[int, Any]:
        self._line.request("POST", path, data, {"content-type": "application/json", **headers})
        answer = self._line.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module", params=KINDS)
def attacked(request: pytest.FixtureRequest, shared_gateways: Gateways) -> Iterator[tuple[Server, Line]]:
    server = Server(request.param)
    config = CONFIG.format(port=server.port, kind=request.param, window=WINDOW) + SMALL
    line = Line(shared_gateways(config=config))
    yield server, line
    line.close()
    server.close()


@pytest.mark.slow
def test_a_long_text_at_every_path_of_every_shape_is_over_the_window() -> None:
    """Where nobody but this process counts."""
    limits, use = RequestLimits(), resolve("m", settings=Stated(context_window=Figure(WINDOW, "configured")))
    through = []
    for attack in islice(mutations(), 0, None, 16):
        try:
            call = read_call(PROTOCOLS[attack.path], json.dumps(attack.body).encode(), limits)
            counted = Counted(count_locally(call, use), "here", unseen=call.unseen())
        except (Refusal, InvalidMessage):
            continue
        if judge(call, counted, use, Mode.ENFORCE).fits and counted.unseen is None:
            through.append((attack.path, attack.where))
    assert through == []


def said(*parts: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


# Ten times the window without a long text: in numbers, brackets, usual keys and ids.
WORDLESS = {
    "digits": [int("7" * 4_000)] * 10,
    "decimals": [number / 7 for number in range(WINDOW * 2)],
    "empty lists": [[]] * (10 * WINDOW),
    "empty objects": [{}] * (10 * WINDOW),
    "empty texts": [""] * (10 * WINDOW),
    "usual keys": [{"properties": {"required": {"enum": {}}}}] * (3 * WINDOW),
    "ids": [{"id": f"{number:040x}"} for number in range(WINDOW)],
    "types": [{"type": f"a{number}"} for number in range(3 * WINDOW)],
    "emoji": "\U0001f996" * (6 * WINDOW),
    "no image": {"type": "image", "url": LONG, "data": LONG},
    "no file": {"type": "document", "source": {"type": "base64", "data": LONG}},
}


def _hidden(value: object) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return requests, by name, with the value where neither rules nor templates show it.

    Fields that cost nothing are counted only if they are large.
    """
    hi = {"role": "user", "content": "hi"}
    reasoning = {"type": "reasoning", "summary": [], "x": value}
    block = {"type": "thinking", "thinking": "so", "signature": "s", "x": value}
    function = {"name": "f", "parameters": {"type": "object", "properties": {}, "x": value}}
    return {
        "message": (CHAT, {"messages": [{**hi, "x": value}]}),
        "part": (CHAT, {"messages": said({"type": "text", "text": "hi", "x": value})}),
        "nested part": (CHAT, {"messages": said([value])}),
        "tool": (CHAT, {"messages": [hi], "tools": [{"type": "function", "function": function}]}),
        "metadata": (CHAT, {"messages": [hi], "metadata": {"a": [value] * 3}}),
        "item": (RESPONSES, {"input": [hi, reasoning]}),
        "block": (MESSAGES, {"messages": [hi, {"role": "assistant", "content": [block]}, hi]}),
        "field": (COMPLETIONS, {"prompt": "hi", "x": value}),
        "tokens": (COMPLETIONS, {"prompt": [1, 2], "stop": [value] * 3}),
    }


@pytest.mark.parametrize("place", _hidden(None))
@pytest.mark.parametrize("form", WORDLESS)
@pytest.mark.parametrize("model", ["m", "gpt-4o"])
@pytest.mark.slow
def test_what_is_not_a_text_is_counted_too(model: str, form: str, place: str) -> None:
    limits, use = (
        RequestLimits(),
        resolve(model, settings=Stated(context_window=Figure(WINDOW, "configured"))),
    )
    path, body = _hidden(WORDLESS[form])[place]
    call = read_call(PROTOCOLS[path], json.dumps({"model": model, **body}).encode(), limits)
    counted = Counted(count_locally(call, use), "here")
    assert not judge(call, counted, use, Mode.ENFORCE).fits


# Each kind of upstream gets one in so many of them, and other kinds get others.
EVERY = 91


@pytest.mark.slow
def test_a_long_text_anywhere_reaches_no_upstream(attacked: tuple[Server, Line]) -> None:
    server, line = attacked
    through: dict[tuple[str, tuple[str | int, ...]], None] = {}
    tried = 0
    for attack in islice(mutations(), KINDS.index(server.kind), None, EVERY):
        tried += 1
        before = len(server.ran)
        status, answer = line.ask(attack.path, attack.body)
        if len(server.ran) > before:
            through[attack.path, attack.where] = None
        assert status < 500 or answer["error"]["code" if "code" in answer["error"] else "type"] in (
            "count_unavailable",
            "overloaded_error",
        ), (attack.where, answer)
    assert tried > 100
    assert not through, f"{len(through)} of {tried}: " + "\n".join(map(str, through))


def long_chat(**more: object) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": LONG}], **more}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, long_chat()),
        (CHAT, long_chat(model="misspelt")),
        (CHAT, long_chat(stream=True)),
        (CHAT, long_chat(truncation="auto", truncate_prompt_tokens=10)),
        (CHAT, {**long_chat(), "max_tokens": -1}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": ["hi"] * 32 + [LONG]}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": [1] * (10 * WINDOW)}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": [[1, 2], [1] * (10 * WINDOW)]}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": [1, LONG]}),
        (EMBEDDINGS, {"model": "m", "input": ["hi"] * 100 + [LONG]}),
        (EMBEDDINGS, {"model": "m", "input": LONG, "prompt": "hi"}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": "hi", "input": LONG}),
        (CHAT, {**long_chat(messages=[{"role": "user", "content": "hi"}]), "user": LONG}),
        (CHAT, {**long_chat(messages=[{"role": "user", "content": "hi"}]), "metadata": {"a": [LONG]}}),
        (CHAT, {**long_chat(messages=[{"role": "user", "content": "hi"}]), "stop": ["word"] * 5_000}),
        (CHAT, {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}] * 5_000}),
        (CHAT, {"model": "m", "max_tokens": 10 * WINDOW, "messages": [{"role": "user", "content": "hi"}]}),
        (
            CHAT,
            long_chat(messages=[{"role": "user", "content": [{"type": "text", "text": LONG, "tokens": 0}]}]),
        ),
    ],
)
def test_known_ways_around(attacked: tuple[Server, Line], path: str, body: dict[str, Any]) -> None:
    server, line = attacked
    before = len(server.ran)
    status, answer = line.ask(path, body)
    assert (status, len(server.ran)) in ((400, before), (503, before)), answer


@pytest.mark.parametrize("says", [0, 1, 30])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"max_tokens": 5, "messages": [{"role": "user", "content": LONG}]}),
        (MESSAGES, {"max_tokens": 5, "messages": said({"type": "text", "text": LONG})}),
        (RESPONSES, {"max_output_tokens": 5, "input": LONG}),
        (COMPLETIONS, {"max_tokens": 5, "prompt": LONG}),
        (EMBEDDINGS, {"input": [LONG, LONG]}),
    ],
)
def test_a_count_that_no_vocabulary_can_reach_is_not_believed(
    attacked: tuple[Server, Line], path: str, body: dict[str, Any], says: int
) -> None:
    server, line = attacked
    before = len(server.ran)
    server.says = says
    try:
        status, answer = line.ask(path, {"model": "m", **body})
    finally:
        server.says = None
    assert (status, len(server.ran)) in ((400, before), (503, before)), answer


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo" + "A" * 100}}
PDF = base64.b64encode(b"%PDF-1.7\n" + zlib.compress(LONG.encode())).decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RESPONSES, {"input": "hi", "previous_response_id": "resp_1"}),
        (RESPONSES, {"input": "hi", "conversation": {"id": "conv_1"}}),
        (RESPONSES, {"input": "hi", "prompt": {"id": "pmpt_1", "variables": {"a": "b"}}}),
        (RESPONSES, {"prompt": {"id": "pmpt_1"}}),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}),
        (RESPONSES, {"input": said({"type": "input_file", "file_id": "file-1"})}),
        (RESPONSES, {"input": said({"type": "input_file", "file_url": "https://example.org/a.pdf"})}),
        (CHAT, {"messages": said({"type": "file", "file": {"file_id": "file-1"}})}),
        (
            CHAT,
            {"messages": said({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}})},
        ),
        (CHAT, {"messages": said({"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}})}),
        (CHAT, {"messages": said({"type": "audio_url", "audio_url": {"url": "https://example.org/a.mp3"}})}),
        (CHAT, {"messages": said({"type": "image_url", "image_url": {"url": "word" * 2_000}})}),
        (CHAT, {"messages": said({"type": "image_url", "image_url": {"url": f"data:text/plain,{LONG}"}})}),
        (CHAT, {"messages": [{"role": "user", "content": "hi"}], "thread_id": "thread_1"}),
        (CHAT, {"messages": [{"role": "user", "content": "hi"}], "preset": "long"}),
        (MESSAGES, {"messages": said({"type": "container_upload", "file_id": "file_1"})}),
        (MESSAGES, {"messages": said({"type": "document", "source": {"type": "file", "file_id": "file_1"}})}),
        (
            MESSAGES,
            {"messages": said({"type": "document", "source": {"type": "url", "url": "https://a.org/a"}})},
        ),
    ],
)
def test_input_that_a_request_only_names_is_refused_where_nobody_counts_it(
    attacked: tuple[Server, Line], path: str, body: dict[str, Any]
) -> None:
    server, line = attacked
    before = len(server.ran)
    limit = "max_output_tokens" if path == RESPONSES else "max_tokens"
    status, answer = line.ask(path, {"model": "m", limit: 5, **body})
    counts = {("openai", RESPONSES), ("anthropic", MESSAGES), ("llama.cpp", path)}
    kept = {"prompt", "thread_id", "preset"}
    if server.kind == "llama.cpp":  # it keeps none of these, and refuses them
        kept |= {"previous_response_id", "conversation"}
    is_counted = (server.kind, path) in counts and not kept & body.keys()
    if is_counted and "word" not in json.dumps(body):
        assert status == 200, answer  # the server's own count has it
    else:
        assert (status, len(server.ran)) == (400, before), answer


def test_a_refusal_says_how_much_is_known_of_input_that_is_partly_unknown(
    attacked: tuple[Server, Line],
) -> None:
    """And not the bound, which there is none of."""
    server, line = attacked
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    stored = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    over = [{"type": "text", "text": LONG}, image, stored]
    status, answer = line.ask(MESSAGES, {"model": "m", "max_tokens": 5, "messages": said(*over)})
    figure = answer["tokenbox"]["deficit"] + WINDOW - 5
    assert (status, answer["error"]["message"]) == (
        400,
        f"prompt is too long: {figure} tokens > {WINDOW} maximum",
    )
    if server.kind not in ("anthropic", "llama.cpp"):  # they count this path, so that nothing is unknown
        assert figure == answer["tokenbox"]["input_tokens"]


def test_an_image_is_an_image_however_its_keys_are_written(attacked: tuple[Server, Line]) -> None:
    """Each is charged for, as images are."""
    server, line = attacked
    text = json.dumps(
        {"model": "m", "max_tokens": 5, "messages": said({"type": "text", "text": "hi"}, IMAGE)}
    )
    found = []
    for data in (text, text.replace("image", "\\u0069mage")):
        status, answer = line.send(CHAT, data)
        found.append((status, answer["tokenbox"]["input_tokens"]))
    assert found[0] == found[1]
    assert found[0][1] > WINDOW or server.kind == "llama.cpp"


@pytest.mark.parametrize(
    "content_type",
    [
        *(
            "application/json; charset=utf-7",
            "application/json;charset=UTF-16",
            'text/plain; charset="latin-1"',
        ),
        *("application/json; charset=utf-8; charset=utf-7", "application/json; charset*=utf-8''utf-7"),
    ],
)
def test_other_character_sets_are_refused(attacked: tuple[Server, Line], content_type: str) -> None:
    server, line = attacked
    before = len(server.ran)
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    assert line.ask(CHAT, body, **{"content-type": content_type})[0] == 415
    assert len(server.ran) == before
    assert line.ask(CHAT, body, **{"content-type": "application/json; charset=UTF-8"})[0] == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        *(("model=dear", 400), ("Messages=a", 400), ("prompt[]=a", 400), ("%6dax_tokens=99999", 400)),
        *((f"x={'a' * 3_000}", 414), ("beta=true", 200), ("api-version=2026-01-01", 200)),
    ],
)
def test_a_query_holds_nothing_of_a_body(attacked: tuple[Server, Line], query: str, status: int) -> None:
    server, line = attacked
    before = len(server.ran)
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    assert line.ask(f"{CHAT}?{query}", body)[0] == status
    assert len(server.ran) - before == (status == 200)


@pytest.mark.parametrize(
    "name",
    [
        *("small", "Small", "SMALL", "models/small", "x/y/small", "small@q4_k_m", "ollama/small:free"),
        *("small-2024-08-06", "small-20240806", "small-0613", "small-latest"),
    ],
)
def test_a_models_window_holds_however_its_name_is_written(attacked: tuple[Server, Line], name: str) -> None:
    server, line = attacked
    before = len(server.ran)
    status, answer = line.ask(
        CHAT, {**long_chat(model=name), "messages": said({"type": "text", "text": "word " * 60})}
    )
    assert (status, len(server.ran)) == (400, before), answer


def test_a_variant_has_at_most_the_window_of_its_model() -> None:
    own = {"tiny": ModelSettings(max_ctx=4_000), "llama3:8b": ModelSettings(max_ctx=8_000)}
    settings = GatewaySettings((), models=own, default_model=ModelSettings(max_ctx=90_000))
    caps = {name: settings.window_cap(name) for name in ("x/Tiny@q4", "llama3:70b", "tinyx", "a/llama3:8b")}
    assert caps == {"x/Tiny@q4": 4_000, "llama3:70b": 90_000, "tinyx": 90_000, "a/llama3:8b": 8_000}
    # A larger figure for the model does not raise that of the variant.
    use = use_of(
        "gpt-4-0613", ModelSettings(), ModelSettings(), None, 128_000, is_public=True, at_openai=True
    )
    assert use.context_window == 8_192


def test_nothing_but_the_listed_paths_reaches_an_upstream(attacked: tuple[Server, Line]) -> None:
    server, line = attacked
    before = len(server.ran)
    for path in (
        *("/api/chat", "/api/generate", "/completion", "/completions", "/infill", "/apply-template"),
        *(
            "/v1/messages/batches",
            "/v1/batches",
            "/v1/files",
            "/v1/threads",
            "/v1/conversations",
            "/v1/rerank",
        ),
        *(
            "/v1/responses/resp_1/cancel",
            "/v1/audio/speech",
            "/generate",
            "/v1/score",
            "/v1/chat/completions/",
        ),
        *(
            "//v1/chat/completions",
            "/V1/chat/completions",
            "/v1/./chat/completions",
        ),
    ):
        assert line.ask(path, long_chat(prompt=LONG))[0] == 404, path
    assert len(server.ran) == before


def test_a_missing_model_does_not_switch_counting_off(attacked: tuple[Server, Line]) -> None:
    """The count of what is served stays exact, where it was."""
    _, line = attacked
    small = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    path = "/v1/chat/completions/input_tokens"
    _, before = line.ask(path, small)
    line.ask(CHAT, {**small, "model": "misspelt"})
    _, after = line.ask(path, small)
    assert before == after
