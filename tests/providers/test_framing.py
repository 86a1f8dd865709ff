"""Streams are cut into the same messages, however the bytes arrive."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.providers.errors import AnswerTooLarge
from tokenbox.providers.framing import Frames, Framing, JsonLines, ServerSentEvents, StreamMessage


def fed(framing: Framing, pieces: list[bytes]) -> list[StreamMessage]:
    return [message for piece in pieces for message in framing.feed(piece)] + framing.close()


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"data: a\n\ndata:b\n\n", [("", "a"), ("", "b")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [("", "a"), ("", "b"), ("", "c")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"data: one\ndata:  two\ndata\n\n", [("", "one\n two\n")]),
        (b": ping\n\nevent: x\ndata: a\nid: 3\nretry: 5\n\n", [("x", "a")]),
        (b"event: lost\n\ndata: a\n\n", [("", "a")]),
        (b"data: [DONE]\n", [("", "[DONE]")]),
        (b"data: torn", [("", "torn")]),
        (b'error: {"code": 500}\n\n', [("error", '{"code": 500}')]),
        ("data: né\U0001f600\n\n".encode(), [("", "né\U0001f600")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"data: a\x00b\n\n", [("", "a\x00b")]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_server_sent_events(stream: bytes, messages: list[tuple[str, str]]) -> None:
    expected = [StreamMessage(*message) for message in messages]
    assert fed(ServerSentEvents(1_000), [stream]) == expected
    assert fed(ServerSentEvents(1_000), [stream[i : i + 1] for i in range(len(stream))]) == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_frame_has_all_bytes_of_its_end_wherever_a_piece_ends(end: bytes) -> None:
    whole = [b"data: a" + end + end, b": ping" + end + end, b"data: b" + end + b"data: c" + end + end]
    stream = b"".join(whole)
    for place in range(len(stream) + 1):
        frames = Frames()
        found = [one for piece in (stream[:place], stream[place:]) for one in frames.feed(piece)]
        assert [*found, *filter(None, [frames.rest()])] == whole, place


@pytest.mark.parametrize("start", [b"data: ", b"event: x\r\ndata: "])
def test_a_long_message_in_small_pieces_takes_no_longer_than_its_bytes(start: bytes) -> None:
    """It took minutes: each piece was added to a copy of those before it."""
    frames, begun = Frames(), time.process_time()
    whole = start + b"x" * (12 << 20) + b"\r\n\r\n"
    found = [one for place in range(0, len(whole), 256) for one in frames.feed(whole[place : place + 256])]
    assert found == [whole]
    assert time.process_time() - begun < 10


lines = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)


@given(
    st.lists(st.lists(lines, min_size=1, max_size=3), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(1, 7), min_size=1),
)
def test_any_chunking_of_events_gives_the_same(events: list[list[str]], end: str, sizes: list[int]) -> None:
    stream = "".join("".join(f"data: {line}{end}" for line in event) + end for event in events).encode()
    assert fed(ServerSentEvents(10_000), pieces_of(stream, sizes)) == [
        StreamMessage("", "\n".join(e)) for e in events
    ]


@given(st.binary(max_size=60), st.lists(st.integers(1, 9), min_size=1))
def test_any_bytes_in_any_pieces(stream: bytes, sizes: list[int]) -> None:
    for framing in (ServerSentEvents, JsonLines):
        assert fed(framing(1_000), pieces_of(stream, sizes)) == fed(framing(1_000), [stream])


@given(
    st.lists(st.dictionaries(lines, lines, max_size=3), max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_json_lines(values: list[dict[str, str]], end: str, sizes: list[int]) -> None:
    stream = "".join(json.dumps(value, ensure_ascii=False) + end for value in values).encode(
        "utf-8", "replace"
    )
    read = [json.loads(message.data) for message in fed(JsonLines(10_000), pieces_of(stream, sizes))]
    assert read == json.loads(json.dumps(values).encode("utf-8", "replace"))


def pieces_of(stream: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at, turn = [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        pieces.append(stream[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


@pytest.mark.parametrize(
    ("framing", "piece"),
    [
        (ServerSentEvents(100), b"data: " + b"x" * 50),
        (ServerSentEvents(100), b"data: x\n" * 20),
        (JsonLines(100), b"x" * 50),
    ],
)
def test_an_endless_message_is_not_gathered(framing: Framing, piece: bytes) -> None:
    with pytest.raises(AnswerTooLarge) as raised:
        fed(framing, [piece] * 10)
    assert raised.value.details["limit"] == 100
