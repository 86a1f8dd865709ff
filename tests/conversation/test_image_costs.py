"""The costs of images, beside the figures that the providers publish, and on every surface alike."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tokenbox.cli import main
from tokenbox.content.image_size import Size, image_size
from tokenbox.content.request import read_request
from tokenbox.conversation.conversation import Conversation
from tokenbox.conversation.image_costs import MEDIA, image_cost, media_estimate
from tokenbox.counters import request_counter
from tokenbox.models import resolve

if TYPE_CHECKING:
    from pathlib import Path

SIDES = st.integers(1, 0x3FFF)
SIZES = st.builds(Size, SIDES, SIDES)


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png(size: Size) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", *size) + b"\x08\x02\0\0\0" + bytes(40)


def jpeg(size: Size, *segments: bytes) -> bytes:
    before = b"".join(b"\xff\xe1" + struct.pack(">H", len(one) + 2) + one for one in segments)
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, size.height, size.width) + bytes(10)
    return b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(10) + before + b"\xff\xff" + frame


def gif(size: Size) -> bytes:
    return b"GIF89a" + struct.pack("<HH", *size) + bytes(40)


def riff(kind: bytes, data: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + kind + bytes(4) + data + bytes(20)


def lossy(size: Size) -> bytes:
    return riff(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", size.width | 0x4000, size.height))


def lossless(size: Size) -> bytes:
    return riff(b"VP8L", b"\x2f" + struct.pack("<I", size.width - 1 | size.height - 1 << 14))


def extended(size: Size) -> bytes:
    sides = b"".join((side - 1).to_bytes(3, "little") for side in size)
    return riff(b"VP8X", bytes(4) + sides)


Encoder = Callable[[Size], bytes]
ENCODERS: tuple[Encoder, ...] = (png, jpeg, gif, lossy, lossless, extended)


@given(SIZES, st.sampled_from(ENCODERS), st.sampled_from(("", "data:image/png;base64,", "lines")))
def test_the_size_of_each_format_is_read(size: Size, encode: Encoder, head: str) -> None:
    text = in_base64(encode(size))
    if head == "lines":
        text = "\r\n".join(text[start : start + 20] for start in range(0, len(text), 20))
    else:
        text = head + text
    assert image_size(text) == size
    assert (
        image_size(text.replace("+", "-").replace("/", "_") if head != "data:image/png;base64," else text)
        == size
    )


def test_a_jpeg_has_its_size_after_megabytes_of_metadata() -> None:
    size = Size(4_032, 3_024)
    assert image_size(in_base64(jpeg(size, *[bytes(65_533)] * 40))) == size
    assert image_size(in_base64(jpeg(size, *[b""] * 1_100))) is None  # no camera writes so many segments
    table = b"\xff\xd8\xff\xc4\0\x04\0\0" + jpeg(size)[2:]  # a table is no frame
    assert image_size(in_base64(table)) == size
    assert image_size(in_base64(b"\xff\xd8\xff\xda" + bytes(40))) is None  # the scan began


HEADS = st.sampled_from([encode(Size(9, 9)) for encode in ENCODERS] + [b"", b"\xff\xd8", b"RIFF"])


@given(HEADS, st.integers(0, 60), st.binary(max_size=400))
def test_hostile_data_has_a_size_or_none(head: bytes, kept: int, rest: bytes) -> None:
    found = image_size(in_base64(head[:kept] + rest))
    assert found is None or min(found) > 0


@given(st.text(max_size=200))
def test_any_text_has_a_size_or_none(text: str) -> None:
    for payload in (text, f"data:{text}", f"data:image/png;base64,{text}", f"/9j/{text}"):
        found = image_size(payload)
        assert found is None or min(found) > 0


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "data:,",
        "https://example.com/a.png",
        "https://x," + in_base64(png(Size(1, 1))),  # an address is no data, whatever it contains
        in_base64(png(Size(0, 5))),
        in_base64(b"BM" + bytes(60)),
        in_base64(png(Size(5, 5)))[:20],
        in_base64(b"\xff\xd8" + b"\xff" * 3_000),
        in_base64(b"\xff\xd8" + b"\xff\xe0\0\0" * 3_000),
    ],
)
def test_without_a_size(payload: str) -> None:
    assert image_size(payload) is None


# The examples that OpenAI, Anthropic and Google publish, and what users report that the APIs billed.
PUBLISHED = [
    ("gpt-4o", 1_024, 1_024, "high", 765),
    ("gpt-4o", 2_048, 4_096, "high", 1_105),
    ("gpt-4o", 4_096, 8_192, "low", 85),
    ("gpt-4.1", 2_049, 513, "high", 1_445),  # billed: 1453 and 773, with 8 for the rest of the request
    ("gpt-4.1", 2_050, 513, "high", 765),
    ("gpt-6-astra", 1_024, 1_024, "high", 1_229),
    ("gpt-6-astra", 2_048, 2_048, "high", 3_000),
    ("gpt-6-astra", 4_096, 512, "high", 2_458),
    ("gpt-5-mini", 256, 256, "auto", 77),  # billed
    ("gpt-5-mini", 1_280, 720, "auto", 1_104),  # billed
    ("o4-mini", 1_800, 2_400, "high", -(-1_452 * 172 // 100)),
    ("claude-haiku-4-5", 200, 200, "", 64),
    ("claude-haiku-4-5", 1_092, 1_092, "", 1_521),
    ("claude-haiku-4-5", 1_920, 1_080, "", 1_560),
    ("claude-haiku-4-5", 2_000, 1_500, "", 1_564),
    ("claude-haiku-4-5", 3_840, 2_160, "", 1_560),
    ("claude-haiku-4-5", 1_075, 1_520, "", 33 * 47),
    ("claude-opus-5", 1_000, 1_000, "", 1_296),
    ("claude-opus-5", 1_920, 1_080, "", 2_691),
    ("claude-opus-5", 2_000, 1_500, "", 3_888),
    ("claude-opus-5", 3_840, 2_160, "", 4_784),
    ("gemini-2.5-flash", 384, 384, "", 258),
    ("gemini-2.5-flash", 960, 540, "", 6 * 258),
    ("gemini-3-pro-preview", 960, 540, "", 1_120),
]


@pytest.mark.parametrize(("model", "width", "height", "detail", "tokens"), PUBLISHED)
def test_published_examples(model: str, width: int, height: int, detail: str, tokens: int) -> None:
    rule = image_cost(model)
    assert rule is not None
    assert rule.of(Size(width, height), detail) == tokens


@pytest.mark.parametrize(
    ("model", "as_model"),
    [
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("ft:gpt-4o-mini-2024-07-18:org:name:id", "gpt-4o-mini"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-haiku-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-haiku-4-5"),
        ("anthropic/claude-opus-4.1", "claude-haiku-4-5"),
        ("claude-opus-4-20250514", "claude-haiku-4-5"),
        ("claude-opus-4-7-20260416", "claude-opus-5"),
        ("gemini/gemini-2.5-pro", "gemini-2.5-flash"),
    ],
)
def test_spellings_of_a_model(model: str, as_model: str) -> None:
    assert image_cost(model) == image_cost(as_model) is not None


@pytest.mark.parametrize(
    "model", [None, "llama-3.2-11b", "gpt-4", "gpt-4o-audio-preview", "gpt-5.3", "gemini-4-argon"]
)
def test_models_without_a_rule_keep_the_flat_figure(model: str | None) -> None:
    assert image_cost(model) is None
    assert media_estimate({"type": "image", "source": {"data": in_base64(png(Size(9, 9)))}}, None) == MEDIA


MODELS = sorted(
    {model for model, *_ in PUBLISHED} | {"gpt-4o-mini", "gpt-5.4", "gpt-5.5", "gpt-5.2", "gpt-5-nano"}
)


UNBOUNDED = ("gpt-5.5", "gpt-6-astra")
"""What these read is bounded only by what they refuse."""


@given(
    st.sampled_from(MODELS),
    st.integers(1, 2**31),
    st.integers(1, 2**31),
    st.sampled_from(("low", "high", "auto")),
)
def test_an_image_of_unknown_size_costs_the_most_or_as_much_as_a_large_one(
    model: str, width: int, height: int, detail: str
) -> None:
    rule = image_cost(model)
    assert rule is not None
    read = Size(min(width, 2_048), min(height, 2_048)) if model in UNBOUNDED else Size(width, height)
    assert 0 < rule.of(read, detail) <= rule.of(None, detail) <= 50_000


def shapes(data: str, detail: str) -> list[dict[str, Any]]:
    """One image in the shapes of three APIs. Anthropic's has no detail."""
    address = f"data:image/png;base64,{data}"
    found: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": address, "detail": detail}},
        {"type": "input_image", "image_url": address, "detail": detail},
    ]
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return found if detail == "low" else [*found, {"type": "image", "source": source}]


@given(st.sampled_from([*MODELS, "llama-3.2-11b"]), SIZES, st.sampled_from(("low", "auto")))
def test_surfaces_and_shapes_agree(model: str, size: Size, detail: str) -> None:
    rule = image_cost(model)
    for part in shapes(in_base64(png(size)), detail):
        expected = MEDIA if rule is None else rule.of(size, detail)
        message = {"role": "user", "content": [part]}
        count = tokenbox.count([message], model)
        assert count == tokenbox.count([message], model, media_tokens=expected)
        assert not count.exact
        free = tokenbox.count([message], model, media_tokens=0)
        assert count.at_most == max(free.at_most, count.total)
        body = {"model": model, "messages": [message]}
        use = resolve(model)  # of the gateway and the shell
        assert use.counter.count_request(read_request(body)) == count
        conversation = Conversation(count=request_counter(model))
        conversation.add(message)
        assert conversation.request_count() == count
        priced = [
            tokenbox.count([message], model, markers=False, media_tokens=one) for one in (None, expected)
        ]
        assert priced[0] == priced[1]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": ["low"]}},
        {"type": "image_generation_call", "id": "i", "result": "QQ=="},
    ],
)
def test_parts_without_a_size_cost_what_an_unknown_size_costs(part: dict[str, Any]) -> None:
    for model in MODELS:
        rule = image_cost(model)
        assert rule is not None
        assert media_estimate(part, rule) == max(rule.of(None, "auto"), MEDIA if "source" in part else 0)


def test_a_document_of_images_costs_what_they_cost() -> None:
    image = shapes(in_base64(png(Size(1_000, 1_000))), "auto")[-1]
    document = {"type": "document", "source": {"type": "content", "content": [image, image]}}
    assert media_estimate(document, image_cost("claude-opus-5")) == 2 * 1_296
    assert media_estimate({"type": "document", "source": {"data": "x"}}, image_cost("claude-opus-5")) == MEDIA


@pytest.mark.parametrize("model", ["gpt-4o-mini", "claude-opus-5", "llama-3.2-11b"])
def test_the_command_line_agrees(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = shapes(in_base64(png(Size(1_920, 1_080))), "auto")[0]
    messages = [{"role": "user", "content": [part]}]
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"model": model, "messages": messages}))
    assert main(["count", str(request), "--model", model]) == 0
    assert capsys.readouterr().out.split()[0] == f"~{tokenbox.count(messages, model).total}"


@pytest.mark.parametrize(
    "model", ["gpt-4o-mini", "gpt-6-astra", "o1", "claude-haiku-4-5", "gemini-2.5-flash", "llama-3"]
)
def test_a_proof_of_images_is_repeated(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = shapes(in_base64(png(Size(1_920, 1_080))), "auto")[0]
    request = tmp_path / "request.json"
    request.write_text(json.dumps([{"role": "user", "content": [part]}]))
    folder = tmp_path / "proof"
    options = ["--model", model, "--budget", "60000", "--proof-texts", "--proof-dir", str(folder)]
    assert main(["fit", str(request), *options]) == 0
    (bundle,) = (one for one in folder.iterdir() if len(one.name) == 64)
    assert main(["proof", "replay", str(bundle)]) == 0
    assert "the same" in capsys.readouterr().out


def test_models_of_different_rules_count_by_different_identities() -> None:
    """A proof by another rule, or by none, is not repeated with this one."""
    counters = [request_counter(name) for name in ("gpt-4o", "gpt-4o-mini", "claude-opus-5")]
    counters.append(request_counter("claude-haiku-4-5"))
    counters.append(request_counter(None))
    assert len({counter.identity.fingerprint for counter in counters}) == len(counters)
    assert counters[0].identity.version == "4"
