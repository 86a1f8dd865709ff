"""Small requests that would become large behind the gateway, and other ways around its figures.

Each was found by reading the gateway's source as an attacker, and reached an upstream.
"""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from tests import loops
from tests.gateway.attacks import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, WINDOW
from tokenbox.catalog import Figure
from tokenbox.compose.requests import By, Count
from tokenbox.conversation.calibration import Calibration
from tokenbox.gateway.admission import Counted, judge
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.counting import RequestCounting
from tokenbox.gateway.fields import check_query
from tokenbox.gateway.local_counts import count_locally
from tokenbox.gateway.protocols import MESSAGES as MESSAGES_API
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.protocols import RESPONSES as RESPONSES_API
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.relay import CallOutcome, Relay
from tokenbox.gateway.settings import (
    GatewaySettings,
    Mode,
    ModelSettings,
    RequestLimits,
    UpstreamSettings,
)
from tokenbox.gateway.taps import Tap
from tokenbox.gateway.upstream import Upstream
from tokenbox.ledger.usage import Usage
from tokenbox.models import Counting, Stated, resolve
from tokenbox.providers import anthropic_messages
from tokenbox.providers.events import gathered
from tokenbox.providers.kinds import UNKNOWN, find_kind
from tokenbox.providers.plausible import is_possible

if TYPE_CHECKING:
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.protocols import Protocol
    from tokenbox.models import ModelUse

HELLO = {"role": "user", "content": "hi"}
FULL_COUNT = frozenset(("messages", "input", "tools", "model", "chat_template", "chat_template_kwargs"))


def read(path: str = CHAT, /, **more: object) -> ApiCall:
    firsts = {COMPLETIONS: {"prompt": "hi"}, RESPONSES: {"input": "hi"}, EMBEDDINGS: {"input": "hi"}}
    first: dict[str, Any] = firsts.get(path, {"messages": [HELLO]})
    return read_call(
        PROTOCOLS[path],
        json.dumps({"model": "m", "max_tokens": 5, **first, **more}).encode(),
        RequestLimits(),
    )


def said(part: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [part]}]}


def sound(data: str) -> dict[str, Any]:
    return said({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}})


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def wav(samples_per_second: int) -> str:
    return encoded(b"RIFF" + bytes(4) + b"WAVE" + wav_form(samples_per_second) + bytes(400))


def wav_form(samples_per_second: int, form: int = 1) -> bytes:
    figures = form.to_bytes(2, "little") + (1).to_bytes(2, "little")
    figures += samples_per_second.to_bytes(4, "little") * 2 + (2).to_bytes(2, "little")
    return b"fmt " + (18).to_bytes(4, "little") + figures + (16).to_bytes(4, "little")


def tagged(sound_data: bytes, covers: int = 300) -> str:
    """A recording after an ID3 tag, whose length has seven bits in each byte."""
    size = bytes((covers >> shift) & 0x7F for shift in (21, 14, 7, 0))
    return encoded(b"ID3\x04\x00\x00" + size + bytes(covers) + sound_data)


def image(data: str, **more: str) -> dict[str, Any]:
    return said({"type": "image_url", "image_url": {"url": data, **more}})


MP4 = b"\0\0\0\x18ftypmp42" + bytes(400)
PDF = b"%PDF-1.7\n" + zlib.compress(b"word " * 100_000)
IMAGES = (
    *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\1\2\3\4WEBPVP8 ", b"BM\x36\0", b"II*\0"),
    *(b"MM\0*", b"\0\0\0\x1cftypavif", b"\0\0\0\x18ftypheic", b"\0\0\0\x18ftypmif1"),
)
TEXT = b"A plain text, which is counted as what it is. " * 5

AMPLIFIED: list[tuple[str, dict[str, Any]]] = [
    # A tensor that torch expands: one number for a hundred thousand vectors.
    (COMPLETIONS, {"prompt": [], "prompt_embeds": encoded(bytes(900))}),
    (COMPLETIONS, {"prompt_embeds": [encoded(bytes(900))]}),
    (CHAT, said({"type": "image_embeds", "image_embeds": encoded(bytes(900))})),
    (CHAT, said({"type": "audio_embeds", "audio_embeds": encoded(bytes(900))})),
    (CHAT, {"multi_modal_data": {"image": "x"}}),
    # An image that is scaled up, a video of which more is read.
    (CHAT, {"mm_processor_kwargs": {"min_pixels": 50_000_000}}),
    (CHAT, {"media_io_kwargs": {"video": {"num_frames": 100_000}}}),
    # A template that repeats a word, and a template's variable that is shown for each message.
    (CHAT, {"chat_template": "{% for i in range(100000) %}word {% endfor %}"}),
    (
        CHAT,
        {"messages": [HELLO] * 200, "chat_template_kwargs": {"eos_token": "word " * 20}},
    ),
    (CHAT, {"messages": [HELLO] * 20, "chat_template_kwargs": {"eos_token": int("7" * 1_000)}}),
    (CHAT, {"messages": [HELLO] * 200, "chat_template_kwargs": {"eos_token": {"word " * 20: 1}}}),
    # Stored state: a session of SGLang, a recording by its id, items that are only an id.
    (CHAT, {"session_params": {"id": "s1"}}),
    (CHAT, {"messages": [HELLO, {"role": "assistant", "audio": {"id": "audio_1"}}, HELLO]}),
    (RESPONSES, {"input": [{"id": "msg_1"}]}),
    (RESPONSES, {"input": [{"id": "msg_1", "type": None}]}),
    (RESPONSES, {"input": [{"id": "msg_1", "type": None, "role": None}]}),
    (
        RESPONSES,
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x"}]}]},
    ),
    # A name that adds a search, or a stored prompt (OpenRouter); fields that do (DashScope, Venice).
    (CHAT, {"model": "openai/gpt-4o:online"}),
    (CHAT, {"model": "m", "models": ["openai/gpt-4o:Online"]}),
    (CHAT, {"model": "@preset/long"}),
    (CHAT, {"enable_search": True}),
    (CHAT, {"venice_parameters": {"enable_web_search": "on"}}),
    # A PDF that says it is a text: servers look at how a file begins.
    (
        CHAT,
        said({"type": "file", "file": {"file_data": f"data:text/plain;base64,{encoded(PDF)}"}}),
    ),
    (CHAT, said({"type": "file", "file": {"file_data": f"data:text/plain,{'%25PDF-1.7 ' * 20}"}})),
    (CHAT, said({"type": "file", "file": {"file_data": "data:text/plain,%25PDF-1.7" + "a" * 90}})),
    # Parts that servers recognize by their keys, whatever their type says or if they have none (vLLM).
    (CHAT, said({"video_url": {"url": "https://example.org/a.mp4"}})),
    (CHAT, said({"image_url": {"url": "https://example.org/a.png"}})),
    (CHAT, said({"image_url": "https://example.org/a.png", "type": None})),
    (CHAT, said({"type": "text", "text": "hi", "uuid": "u", "video_url": "https://example.org/a.mp4"})),
    (
        CHAT,
        said({"type": "image_url", "image_url": None, "uuid": "u", "audio_url": {"url": "https://a.org/a"}}),
    ),
    (CHAT, said({"image_embeds": encoded(bytes(900))})),
    (CHAT, {"messages": [HELLO, {"role": "user", "content": "hi", "images": ["https://example.org/a.png"]}]}),
    # Parts of other servers' types, which name what is fetched (Mistral, DashScope, Assistants, Gemini).
    (CHAT, said({"type": "document_url", "document_url": "https://example.org/a.pdf"})),
    (CHAT, said({"type": "video", "video": ["https://example.org/1.jpg"]})),
    (CHAT, said({"type": "audio", "audio": "https://example.org/a.flac"})),
    (CHAT, said({"type": "image_file", "image_file": {"file_id": "file-1"}})),
    (CHAT, said({"type": "media", "fileData": {"fileUri": "gs://a/b"}})),
    (CHAT, said({"file_data": {"mime_type": "application/pdf", "file_uri": "gs://a/b"}})),
    (CHAT, said({"type": "file", "file_uri": "gs://a/b"})),
    # Tools without a type that the server runs (Gemini's, through LiteLLM).
    (CHAT, {"tools": [{"googleSearch": {}}]}),
    (CHAT, {"tools": [{"google_search": {}, "type": None}]}),
    (CHAT, {"tools": [{"urlContext": {}}]}),
    (CHAT, {"tools": [{"type": "", "web_search": {}}]}),
    # Recordings whose length does not follow from their size.
    (
        CHAT,
        sound(encoded(b"fLaC" + bytes(99))),
    ),
    (
        CHAT,
        sound(encoded(b"OggS" + bytes(99))),
    ),
    (CHAT, sound(wav(1))),
    (CHAT, sound(encoded(b"RIFF" + bytes(4) + b"WAVE" + wav_form(16_000, form=17) + bytes(400)))),
    (CHAT, sound(encoded(b"RIFF" + bytes(4) + b"WAVEJUNK" + bytes(400)))),
    (CHAT, sound(tagged(b"fLaC" + bytes(99)))),
    (CHAT, sound(tagged(b"\xff\xf1\x50\x80" + bytes(99)))),  # AAC
    (CHAT, sound(tagged(b"\xff\xfb\xf0\x00" + bytes(99)))),  # a bit rate that there is not
    (CHAT, sound(tagged(b""))),
    (CHAT, said({"type": "audio_url", "audio_url": None, "uuid": "u"})),
    # What proxies fetch in place of an image, by the type they are told or by how the address ends.
    (CHAT, image("https://example.org/a", format="video/mp4")),
    (CHAT, image("https://example.org/a", format="application/pdf")),
    (CHAT, image("https://example.org/a.MP4?x=1")),
    (CHAT, image("https://e.org/a.pdf")),
    # Tools that only look like the client's.
    (CHAT, {"tools": [{"type": "browser_search"}]}),
    (CHAT, {"tools": [{"type": "computer_of_tomorrow"}]}),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "f"}, "googleSearch": {}}]}),
    (CHAT, {"tools": [{"type": "custom", "custom": {"name": "f"}, "urlContext": {}}]}),
    # A search by its defaults.
    (CHAT, {"web_search_options": {}}),
    (CHAT, {"search_parameters": {}}),
    (CHAT, {"search_parameters": {"mode": "auto"}}),
    (CHAT, {"features": {"web_search": True}}),
    # Texts that are addresses of files on the server.
    (CHAT, {"messages": [{"role": "system", "content": "fileid://file-fe-1"}, HELLO]}),
    (CHAT, {"messages": [{"role": "system", "content": "\u0066ileid://a,fileid://b"}, HELLO]}),
    (EMBEDDINGS, {"input": "gs://bucket/a.mp4"}),
    (EMBEDDINGS, {"input": ["a", "files/abc"]}),
    # Messages that vLLM reads in place of the prompts.
    (
        EMBEDDINGS,
        {"input": "a", **said({"type": "video_url", "video_url": {"url": "https://example.org/a"}})},
    ),
    (
        EMBEDDINGS,
        {"input": "a", **said({"type": "image_url", "image_url": {"url": "https://example.org/a"}})},
    ),
    # Templates and texts per message of other servers.
    (CHAT, {"instruction_template_str": "{% for i in range(100000) %}word {% endfor %}"}),
    (CHAT, {"chat_template_str": "{{ 'word ' * 100000 }}"}),
    (CHAT, {"messages": [HELLO] * 600, "assistant_continue_message": {"content": "word " * 20}}),
    (CHAT, {"messages": [HELLO] * 600, "roles": {"user": {"pre_message": "word " * 20}}}),
    (CHAT, {"chatId": "c"}),
    (CHAT, {"files": [{"type": "collection", "id": "c"}]}),
    (CHAT, {"character": "Someone"}),
    # A template among the variables of the template, which replaces it (vLLM, Transformers).
    (CHAT, {"chat_template_kwargs": {"chat_template": "{% for i in range(100000) %}word {% endfor %}"}}),
    (CHAT, {"chat_template_kwargs": {"Chat_Template": "{{ 'word ' * 100000 }}"}}),
    # Addresses that are short enough to be no data.
    (CHAT, sound("https://example.org/a.flac")),
    (CHAT, sound("gs://a/b")),
    (CHAT, said({"type": "file", "file": {"file_data": "https://example.org/a.pdf"}})),
    (CHAT, said({"type": "document", "source": {"type": "base64", "data": " s3://a/b"}})),
    (CHAT, image("gs://a/b.mp4")),
    (CHAT, said({"type": "audio_url", "audio_url": "https://example.org/a.flac"})),
    (CHAT, said({"type": "audio_url", "audio_url": f"data:audio/flac;base64,{encoded(bytes(99))}"})),
    (CHAT, said({"type": "audio_url", "audio_url": None, "uuid": ""})),
    # Containers that hold more than images, and a recording with two forms.
    (CHAT, image(f"data:image/webp;base64,{wav(16_000)}")),
    (CHAT, image(f"data:image/avif;base64,{encoded(MP4)}")),
    (CHAT, sound(encoded(b"RIFF" + bytes(4) + b"WAVE" + wav_form(16_000) * 2 + bytes(400)))),
    (CHAT, sound(encoded(b"RIFF" + bytes(4) + b"WAVE" + wav_form(16_000) + wav_form(16_000, 17) + bytes(9)))),
    # The second of two keys, and a PDF among texts.
    (CHAT, said({"type": "file", "file": {"file_data": "data:text/plain,hi", "data": encoded(PDF)}})),
    *(
        (MESSAGES, said({"type": "document", "source": {"type": "text", **more}}))
        for more in (
            {"media_type": "application/pdf", "data": encoded(PDF)},
            {"media_type": "text/plain", "data": encoded(PDF)},
            {"media_type": 7, "data": encoded(PDF)},
        )
    ),
    # How LiteLLM tells what is behind an address.
    *(
        (CHAT, image(f"https://example.org/{end}"))
        for end in ("a?x=.mp4", "a#.mp4", "a.3gpp", "a.M4V ", "a.mpegps", "a.mp%34", "a.mp4#x")
    ),
    (CHAT, image(" https://example.org/a.mp4")),
    (CHAT, {"force_search_enhancement": True}),
]


@pytest.mark.parametrize("place", range(len("fileid:")))
def test_an_address_with_an_escaped_character_is_seen(place: int) -> None:
    text = "fileid://a"
    escaped = f"{text[:place]}\\u{ord(text[place]):04x}{text[place + 1 :]}"
    data = b'{"model": "m", "messages": [{"role": "user", "content": "%b"}]}' % escaped.encode()
    call = read_call(PROTOCOLS[CHAT], data, RequestLimits())
    assert call.unseen() == "the text 'fileid://a' is the address of a file that the server reads"


@pytest.mark.parametrize(("path", "body"), AMPLIFIED)
def test_what_would_become_larger_behind_the_gateway_is_not_counted_as_what_it_is(
    path: str, body: dict[str, Any]
) -> None:
    assert read(path, **body).unseen() is not None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "high"}}),
        (CHAT, {"messages": [HELLO] * 2_000, "chat_template_kwargs": {"enable_thinking": False}}),
        (CHAT, {"chat_template_kwargs": {"model_identity": "You are a helpful assistant of Acme."}}),
        (CHAT, {"enable_search": False, "mm_processor_kwargs": None, "chat_template": None}),
        (CHAT, said({"type": "file", "file": {"file_data": f"data:text/plain;base64,{encoded(TEXT)}"}})),
        (CHAT, sound(wav(16_000))),
        (CHAT, said({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}, "uuid": "u"})),
        (CHAT, {"tools": [{"function": {"name": "f"}}]}),
        # What a tool is called with and what it has found are texts, whatever their keys.
        (
            MESSAGES,
            {
                "messages": [
                    HELLO,
                    {
                        "role": "assistant",
                        "content": [
                            {
                                "type": "tool_use",
                                "id": "c",
                                "name": "f",
                                "input": {"video_url": "u", "type": "file"},
                            }
                        ],
                    },
                ]
            },
        ),
        (
            CHAT,
            said(
                {
                    "type": "text",
                    "text": "hi",
                    "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}],
                }
            ),
        ),
        (
            MESSAGES,
            said(
                {
                    "type": "search_result",
                    "source": "https://a.org",
                    "title": "t",
                    "content": [{"type": "text", "text": "x"}],
                }
            ),
        ),
        (
            CHAT,
            said(
                {
                    "type": "input_audio",
                    "input_audio": {"data": tagged(b"\xff\xfb\x90\x00" + bytes(99)), "format": "mp3"},
                }
            ),
        ),
        (CHAT, sound(encoded(b"\xff\xf3\x40\xc4" + bytes(99)))),
        (
            CHAT,
            sound(
                encoded(b"RIFF" + bytes(4) + b"WAVEJUNK\x04\0\0\0abcd" + wav_form(16_000) + bytes(400)),
            ),
        ),
        (CHAT, image("https://example.org/a.pdf.png", format="image/png")),
        (CHAT, image("https://example.org/a?name=report.pdf&as=png")),
        *((CHAT, image(f"data:image/x;base64,{encoded(start + bytes(99))}")) for start in IMAGES),
        (CHAT, image(f"DATA:image/png;base64,{encoded(IMAGES[0] + bytes(99))}")),
        (CHAT, image("AAAA")),
        (CHAT, {"chat_template_kwargs": {"chat_template": None}}),
        (
            MESSAGES,
            said({"type": "document", "source": {"type": "text", "data": "Note: https://a.org " * 9}}),
        ),
        (CHAT, {"tools": [{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}]}),
        (CHAT, {"tools": [{"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"}]}),
        (CHAT, {"search_parameters": {"mode": "off"}, "features": {"web_search": False}, "files": []}),
        (CHAT, {"messages": [{"role": "user", "content": "What does fileid://file-1 mean?"}]}),
        (CHAT, {"messages": [HELLO] * 600, "roles": {"user": {"pre_message": "u: "}}}),
        (EMBEDDINGS, {"input": "a", "messages": [HELLO]}),
        (EMBEDDINGS, {"input": ["files/utils.py", "files/a and what it does", "gs:// is a scheme"]}),
        (
            CHAT,
            said({"type": "file", "file": {"file_data": f"data:text/csv;base64,{encoded(TEXT)}"}}),
        ),
        (
            CHAT,
            said({"type": "file", "file": {"file_data": f"data:application/json;base64,{encoded(TEXT)}"}}),
        ),
        (RESPONSES, {"input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": "hi"}]}),
        (
            RESPONSES,
            {"input": [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "abc"}]},
        ),
    ],
)
def test_what_stays_as_large_as_it_is_passes(path: str, body: dict[str, Any]) -> None:
    assert read(path, **body).unseen() is None


def test_a_server_that_renders_the_template_counts_it() -> None:
    body = {"chat_template": "{{ messages }}", "chat_template_kwargs": {"eos_token": "word " * 9_000}}
    assert read(CHAT, **body).unseen(FULL_COUNT) is None
    assert read(CHAT, **body).unseen(FULL_COUNT - {"chat_template"}) is not None
    assert read(CHAT, prompt_embeds="x", **body).unseen(FULL_COUNT) is not None


RUNS = (" " * 80, "\n" * 16, "-" * 64, "=" * 64, "\u2500" * 16, "\t" * 16)


@pytest.mark.parametrize("model", ["m", "gpt-4", "gpt-4o", "text-embedding-3-small"])
@pytest.mark.parametrize("run", RUNS)
def test_runs_that_two_vocabularies_have_tokens_for_count_by_their_bytes(run: str, model: str) -> None:
    """A third vocabulary may have no token for them, and at worst one for each byte.

    A server that is not OpenAI's may have a third one, whatever the model is called.
    """
    text = run * (10 * WINDOW * 8 // len(run.encode()))
    call = read(model=model, messages=[{"role": "user", "content": text}])
    window = Stated(context_window=Figure(WINDOW, "configured"))
    use = resolve(model, settings=window, counting=Counting(at_openai=False))
    counted = loops.run(counted_at(UNKNOWN, call, use))
    assert counted.count.total * 8 >= len(text.encode())
    assert not judge(call, counted, use, Mode.ENFORCE).fits


async def counted_at(kind: str, call: ApiCall, use: ModelUse) -> Counted:
    limits = RequestLimits()
    upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9"), limits)
    upstream.kind = find_kind(kind)
    try:
        return await RequestCounting(limits, Calibration()).count(call, upstream, use)
    finally:
        upstream.close()


def test_at_openai_the_published_vocabulary_counts_runs() -> None:
    call = read(model="gpt-4o", messages=[{"role": "user", "content": " " * 80_000}])
    use = resolve("gpt-4o")
    assert loops.run(counted_at("openai", call, use)).tokens < 2_000


@pytest.mark.parametrize("character", "<>&")
def test_tools_and_calls_count_as_an_encoder_in_go_writes_them(character: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": character * 24_000}}
    asked = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps(character * 999)},
    }
    use = resolve("m", settings=Stated(context_window=Figure(WINDOW, "configured")))
    assert count_locally(read(tools=[tool]), use).total > 48_000
    call = {"role": "assistant", "content": None, "tool_calls": [asked]}
    assert count_locally(read(messages=[HELLO, call]), use).total > 1_900


LONG = "word " * 40_000


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"type": "function", "function": {"name": "f", "description": LONG}}]},
        {"messages": [{"role": "system", "content": LONG}, HELLO]},
        {"messages": [HELLO, {"role": "assistant", "content": LONG}, HELLO]},
        {"messages": [HELLO, {"role": "tool", "tool_call_id": "c", "content": LONG}]},
        said({"type": "tool_result", "content": [{"type": "text", "text": LONG}]}),
    ],
)
def test_a_count_that_is_too_small_for_any_of_the_texts_is_not_believed(body: dict[str, Any]) -> None:
    call = read(**body)
    assert not is_possible(call.protocol.api, call.body, 30)
    assert is_possible(call.protocol.api, call.body, 40_000)


def test_a_small_count_is_believed_where_servers_leave_texts_out() -> None:
    thought = f"<think>{LONG}</think>\n\nYes."
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 90_000}"}}
    tool = {"type": "function", "function": {"name": "f", "description": LONG}}
    for body in (
        {"messages": [HELLO, {"role": "assistant", "content": thought}, HELLO]},
        {"messages": [HELLO, {"role": "assistant", "content": "Yes.", "reasoning_content": LONG}, HELLO]},
        said(picture),
        {"tools": [tool], "tool_choice": "none"},
    ):
        call = read(**body)
        assert is_possible(call.protocol.api, call.body, 30)


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        ({}, "a tool without a type and a name"),
        ({"googleSearch": {}}, "of the type 'googleSearch'"),
        ({"type": "mcp"}, "of the type 'mcp'"),
    ],
)
def test_a_tool_of_the_server_is_named(tool: dict[str, Any], named: str) -> None:
    assert named in str(read(tools=[tool]).unseen())


@pytest.mark.parametrize("more", [{"model": "gpt-4o,dear"}, {"models": ["gpt-4o,dear"]}, {"model": {}}])
def test_a_name_is_of_one_model(more: dict[str, Any]) -> None:
    """LiteLLM's proxy asks each of them, and a pattern such as gpt-* would match them all."""
    with pytest.raises(Refusal, match=r"a name|names of models"):
        read(**more)


def test_a_budget_for_reasoning_beside_the_answer_is_reserved_too() -> None:
    assert read(max_tokens=900, thinking_budget=9_000).max_output == 9_900
    assert read(thinking_budget=9_000, max_tokens=None).max_output is None
    assert read(max_tokens=900, enable_thinking=True).is_endless
    assert read(max_tokens=900, enable_thinking=True).max_output == 900
    assert read(max_tokens=900, thinking_budget=-1).is_endless
    assert not read(max_tokens=900, enable_thinking=True, thinking_budget=9_000).is_endless
    assert read(max_tokens=900, enable_thinking=True, thinking_budget=9_000).max_output == 9_900
    assert read(max_tokens=900, enable_thinking=False).max_output == 900


@pytest.mark.parametrize("key", ["Video_Url", "IMAGE_URL", "Audio", "Inline_Data", "Video_Embeds"])
def test_a_key_of_media_in_other_case_is_refused(key: str) -> None:
    """LocalAI, which is in Go, takes it for the known one."""
    with pytest.raises(Refusal, match="is spelled"):
        read(**said({"type": "text", "text": "hi", key: {"url": "https://example.org/a"}}))


@pytest.mark.parametrize(
    "key",
    ["Search_Parameters", "Enable_Search", "Extra_Body", "MaxTokens", "Thread_Id", "FALLBACKS", "Images"],
)
def test_a_field_that_servers_in_go_would_take_for_a_known_one_is_refused(key: str) -> None:
    with pytest.raises(Refusal, match="is spelled"):
        read(**{key: {}})


@pytest.mark.parametrize("key", ["providerOptions", "provider_options"])
def test_models_that_a_proxys_options_name_are_checked(key: str) -> None:
    assert read(**{key: {"gateway": {"models": ["dear"], "order": ["x"]}}}).models == ("m", "dear")
    with pytest.raises(Refusal, match="list of names"):
        read(**{key: {"gateway": {"models": "dear"}}})


def test_models_are_named_where_they_are_checked() -> None:
    with pytest.raises(Refusal, match=r"orq\.fallbacks says who answers"):
        read(orq={"fallbacks": [{"model": "dear"}]})
    label = {"provider": {"allow_fallbacks": True}, "disable_fallbacks": True, "cost_center": "c"}
    assert read(MESSAGES, fallback_credit_token="t", **label).models == ("m",)


def test_a_limit_cannot_be_dropped_on_the_way() -> None:
    with pytest.raises(Refusal, match="operator"):
        read(additional_drop_params=["max_tokens"])


@pytest.mark.parametrize("part", [{"type": [7], "tools": []}, {"type": {"a": 1}, "tool": {}}])
def test_a_type_that_is_no_text_is_no_fault(part: dict[str, Any]) -> None:
    assert read(RESPONSES, input=[part]).unseen() is None
    assert read(CHAT, **said(part)).unseen() is None


@pytest.mark.parametrize("key", ["maxTokens", "maxOutputTokens", "max_length", "max_gen_len", "maxNewTokens"])
def test_output_limits_of_other_spellings_are_reserved(key: str) -> None:
    assert read(**{key: 9_000}).max_output == 9_000


@pytest.mark.parametrize(
    "more",
    [
        {"maximum_tokens": 9_000},
        {"tokens_to_generate": 9_000},
        {"generationConfig": {"max_output_tokens": 9_000}},
        {"inferenceConfig": {"maxTokens": 9_000}},
        {"additionalModelRequestFields": {"max_tokens": 9_000}},
        {"providerOptions": {"x": [{"maxOutputTokens": 9_000}]}},
    ],
    ids=str,
)
def test_a_field_that_is_named_like_an_output_limit_is_reserved(more: dict[str, Any]) -> None:
    assert read(**more).max_output == 9_000


@pytest.mark.parametrize(
    "more",
    [
        {"max_input_tokens": 9_000, "max_prompt_tokens": 9_000, "max_tool_calls": 9_000},
        {"metadata": {"max_tokens": 9_000}, "tools": [{"name": "f", "input_schema": {"max_length": 9_000}}]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"maxLength": 9_000}}}},
        {"provider": {"max_price": {"prompt": 1}}, "max_context_tokens": 9_000},
        {"nvext": {"guided_json": {"properties": {"max_tokens": {"type": "integer"}}}}},
    ],
    ids=str,
)
def test_other_limits_are_no_output_limits(more: dict[str, Any]) -> None:
    assert read(**more).max_output == 5


def test_a_request_without_an_answer_has_no_output_limit() -> None:
    call = read(EMBEDDINGS, max_tokens={"a": 1})
    count = Counted(Count(2, exact=True, at_most=2, by=By.SERVER), "it")
    assert judge(call, count, resolve("m"), Mode.ENFORCE).reserved == 0


@pytest.mark.parametrize("key", ["numResults", "candidateCount", "num_completions"])
def test_answers_by_other_names_are_reserved(key: str) -> None:
    assert read(**{key: 7}).choices == 7


@pytest.mark.parametrize(
    "more",
    [
        {"providerOptions": {"openai": {"serviceTier": "priority"}}},
        {"provider_options": {"anthropic": {"speed": "fast"}}},
        {"serviceTier": "priority"},
    ],
    ids=str,
)
def test_a_dearer_tier_is_refused_wherever_it_is_named(more: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="price that is not known"):
        read(**more)
    assert read(audio={"speed": 1.5}, providerOptions={"openai": {"serviceTier": "flex"}}).models == ("m",)


@pytest.mark.parametrize(
    "key",
    [
        *("organization", "vertex_credentials", "aws_bedrock_runtime_endpoint", "kv_transfer_params"),
        *("tensorzero::extra_body", "tensorzero::credentials", "context_window_fallback_dict", "headers"),
        *(
            "aws_region_name",
            "vertex_project",
            "input_cost_per_token",
            "lora_path",
            "adapters",
            "draft_model",
        ),
        # A client cannot have a proxy run a request again, or pretend that its model failed.
        *("num_retries", "max_retries", "retry_policy", "retry", "numRetries", "mock_testing_fallbacks"),
        *("default_fallbacks", "fallback_models", "litellm_credential_name", "client_secret"),
        *("provider_specific_header", "auto_router_config", "router", "aws_external_id", "azure"),
        *("model_info", "specific_deployment", "outputCostPerSecond"),
    ],
)
def test_a_request_does_not_say_who_pays_or_where_it_runs(key: str) -> None:
    with pytest.raises(Refusal, match="operator"):
        read(**{key: "x"})


@pytest.mark.parametrize(
    "query",
    [
        *(b"a=1;model=dear", b"%20model=dear", b"messages.0.content=x", b"custom_llm_provider=x"),
        *(b"extra_body=x", b"thread_id=x", b"Attachments=x", b"search_parameters=x", b"cachedcontent=x"),
        *(b"max_new_tokens=9", b"candidate_count=9", b"speed=fast", b"content_policy_fallbacks=dear"),
        *(b"key=AIza", b"api-key=x", b"api_key=x", b"access_token=x", b"subscription-key=x"),
        *(b"numRetries=3", b"num_retries=3"),
        *(b"max_tokens%00=9", b"mo%E2%80%8Bdel=dear", b"key%00x=AIza"),
    ],
)
def test_a_query_holds_nothing_of_a_body_in_any_notation(query: bytes) -> None:
    with pytest.raises(Refusal):
        check_query(query)


def test_a_window_holds_by_every_name_that_a_server_takes_for_the_model() -> None:
    small, large = ModelSettings(max_ctx=50), ModelSettings(max_ctx=60)
    settings = GatewaySettings((), models={"small": small, "mine:latest": large})
    for name in (
        *("small", "Small:latest", "library/small", "registry.ollama.ai/library/small:latest"),
        *("https://registry.ollama.ai/library/small", "http://registry.ollama.ai/library/SMALL:latest"),
    ):
        assert settings.own_model(name) is small, name
    for name in ("mine", "mine:latest", "library/mine"):
        assert settings.own_model(name) is large, name
    for name in ("small:7b", "other/small", "smaller"):
        assert settings.own_model(name).max_ctx is None, name


def forwarded(headers: dict[bytes, bytes], key: str | None) -> dict[bytes, bytes]:
    async def made() -> dict[bytes, bytes]:
        upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", key=key), RequestLimits())
        return dict(upstream.forwarded(headers, ()))

    return asyncio.run(made())


def test_a_word_that_serves_as_the_key_stays_in_answers() -> None:
    """People give a server without keys any word, and it may be a name in each answer."""
    data = b'{"choices": [{"index": 0, "text": "ollama runs sk-0123456789"}]}'
    for key in ("x", "EMPTY", "ollama", "choices"):
        assert (
            Upstream(UpstreamSettings("it", "http://127.0.0.1:9", key=key), RequestLimits()).withheld(data)
            == data
        )
    secret = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", key="sk-0123456789"), RequestLimits())
    assert b"0123" not in secret.withheld(data)


def test_headers_that_reroute_do_not_travel_with_the_operators_key() -> None:
    routing = {
        b"x-portkey-custom-host": b"http://evil.example",
        b"helicone-target-url": b"http://evil.example",
        b"cf-aig-authorization": b"x",
        b"x-litellm-tags": b"other",
        b"openai_organization": b"org-other",
        b"anthropic-workspace-id": b"wrkspc_other",
        b"anthropic-user-profile-id": b"profile_other",
        b"x-goog-user-project": b"other",
        b"x-hf-bill-to": b"other",
        b"x-pass-anthropic-beta": b"x",
        b"x-amzn-bedrock-service-tier": b"priority",
        b"x-vertex-ai-llm-shared-request-type": b"priority",
    }
    assert not routing.keys() & forwarded(routing, "sk-own").keys()
    assert forwarded({b"x-litellm-tags": b"mine", b"session_id": b"1"}, None).keys() >= {
        b"x-litellm-tags",
        b"session_id",
    }


def test_headers_that_change_path_method_or_body_do_not_travel_at_all() -> None:
    headers = {
        b"x-http-method-override": b"DELETE",
        b"x-original-url": b"/admin",
        b"x-rewrite-url": b"/admin",
        b"content_type": b"text/plain",
        b"content_length": b"1",
        b"transfer_encoding": b"chunked",
        b"x_api_key": b"x",
        b"x_tokenbox_mode": b"observe",
        b"x-envoy-max-retries": b"100",
        b"x-envoy-hedge-on-per-try-timeout": b"true",
        b"l5d-dst-override": b"other:80",
    }
    assert not headers.keys() & forwarded(headers, None).keys()


def test_the_usage_of_a_stream_that_did_not_end_is_not_final() -> None:
    """A server may report zeros first, and a client may leave after that."""
    zeros = {"type": "response.created", "response": {"usage": {"input_tokens": 0, "output_tokens": 0}}}
    end = {"type": "response.completed", "response": {"usage": {"input_tokens": 70, "output_tokens": 9}}}
    tap = Tap(RESPONSES_API, b"null", hide_usage=False)
    tap.feed(b"event: response.created\ndata: " + json.dumps(zeros).encode() + b"\n\n")
    assert tap.reported is None
    tap.feed(b"event: response.completed\ndata: " + json.dumps(end).encode() + b"\n\n")
    assert tap.reported is not None
    assert (tap.reported.input_tokens, tap.reported.output_tokens) == (70, 9)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)
def test_an_input_of_0_tokens_is_unknown(protocol: Protocol) -> None:
    """Ollama reports it for a prompt in its cache: the quota keeps what was reserved."""
    (first, *others), output = protocol.usage_keys.input, protocol.usage_keys.output
    found = protocol.usage_in({"usage": {first: 0, output: 7}})
    assert found == Usage(None, 7)
    if others:  # all of the input was in the cache
        found = protocol.usage_in({"usage": {first: 0, others[0]: 30, output: 7}})
        assert found == Usage(30, 7, 30)


def test_each_run_of_a_model_is_paid_for() -> None:
    """Anthropic leaves a compaction, and a model that declined, out of the other figures."""
    runs = [
        {"type": "compaction", "input_tokens": 180, "cache_read_input_tokens": 20, "output_tokens": 30},
        {"type": "message", "input_tokens": 23, "cache_read_input_tokens": 0, "output_tokens": 10},
    ]
    usage = {"input_tokens": 23, "output_tokens": 10, "iterations": runs}
    found = MESSAGES_API.usage_in({"usage": usage})
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens) == (223, 40, 20)
    for broken in ([], "x", None, [1], [{"input_tokens": "1"}]):
        found = MESSAGES_API.usage_in({"usage": {**usage, "iterations": broken}})
        assert found is not None
        assert (found.input_tokens, found.output_tokens) == (23, 10), broken


def test_what_each_run_keeps_for_an_hour_is_paid_for() -> None:
    def run(written: int, hour: int | None) -> dict[str, Any]:
        kept = {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": written - (hour or 0)}
        return {
            "input_tokens": 1,
            "output_tokens": 1,
            "cache_creation_input_tokens": written,
            "cache_creation": None if hour is None else kept,
        }

    for runs, written, hour in (
        ([run(100, 60), run(50, 50)], 150, 110),
        ([run(100, None), run(50, 50)], 150, None),  # of how many, the first does not say
    ):
        found = MESSAGES_API.usage_in({"usage": {**run(50, 50), "iterations": runs}})
        assert found is not None
        assert (found.cache_write_tokens, found.cache_write_1h_tokens) == (written, hour)


def test_client_and_gateway_read_the_same_usage() -> None:
    stated = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}  # DeepSeek's
    assert PROTOCOLS[CHAT].usage_in({"usage": stated}) == Usage(9, 2, 4)
    runs = [{"input_tokens": 5, "output_tokens": 2}, {"input_tokens": 3, "output_tokens": 1}]
    answer = {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1, "iterations": runs}}
    assert MESSAGES_API.usage_in(answer) == gathered(anthropic_messages.events(answer)).usage == Usage(8, 3)


class Failed:
    """An upstream's answer with an error."""

    raw_headers = ((b"content-type", b"application/json"),)

    def __init__(self, status: int) -> None:
        self.status = status

    def header(self, name: bytes) -> bytes | None:
        return dict(self.raw_headers).get(name)

    async def read(self, limit: int) -> bytes:
        return b'{"error":{"message":"x"}}'[:limit]


@pytest.mark.parametrize(
    ("status", "used_nothing"),
    [(400, True), (429, True), (503, True), (500, False), (502, False), (504, False)],
)
def test_a_request_that_may_have_run_is_charged(status: int, *, used_nothing: bool) -> None:
    """A proxy in front of a slow model answers 504, and the model runs on."""

    async def outcome() -> CallOutcome:
        upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9"), RequestLimits())
        found = CallOutcome()

        async def send(message: object) -> None:
            assert message

        relay = Relay(
            call=read(),
            upstream=upstream,
            answer=Failed(status),  # type: ignore[arg-type]  # what an error needs of it
            send=send,
            request_id="r",
            headers=[],
            note=b"null",
            started=b"",
            hide_usage=False,
            outcome=found,
        )
        await relay.run()
        return found

    assert asyncio.run(outcome()).used_nothing is used_nothing


def test_vectors_among_the_parts_of_messages_are_found_at_any_depth() -> None:
    inner = {"type": "tool_result", "content": [{"type": "image_embeds", "image_embeds": "x"}]}
    assert read(MESSAGES, **said(inner)).unseen() is not None
