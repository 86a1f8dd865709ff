"""A stream is passed on byte for byte, and read, however it is cut into pieces."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokenbox.gateway.protocols import CHAT, MESSAGES, RESPONSES, Protocol
from tokenbox.gateway.taps import Tap
from tokenbox.ledger.usage import Usage
from tokenbox.providers.framing import frame

NOTE = b'{"mode":"enforce"}'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
FRAMES = (
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"b\\n\\n"}}],"usage":null}\n\n',
    b'data: {"choices":[{"delta":{"content":"\\"usage\\": {"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"\\"error\\""}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"c"}}]}\r\n\r\n',
    b": a comment\n\n",
    b": a comment\r\n\r\n",
    b'event: x\ndata: {"choices":[]}\n\n',
    USAGE,
)
END = b"data: [DONE]\n\n"


def relayed(
    stream: bytes, cuts: list[int], *, hide_usage: bool, protocol: Protocol = CHAT
) -> tuple[bytes, Tap]:
    tap = Tap(protocol, NOTE, hide_usage=hide_usage)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    return b"".join([*map(tap.feed, pieces), tap.end()]), tap


@given(
    frames=st.lists(st.sampled_from(FRAMES), max_size=12),
    cuts=st.lists(st.integers(min_value=0), max_size=12),
    hide_usage=st.booleans(),
)
@example(frames=[FRAMES[0], FRAMES[4], FRAMES[0]], cuts=[], hide_usage=False)
@example(frames=[FRAMES[4], USAGE], cuts=[len(FRAMES[4]) - 1], hide_usage=True)
def test_any_pieces_give_the_same_stream(frames: list[bytes], cuts: list[int], *, hide_usage: bool) -> None:
    stream = b"".join([*frames, END])
    out, tap = relayed(stream, cuts, hide_usage=hide_usage)
    shown = b"".join(frame for frame in frames if frame != USAGE or not hide_usage) + END
    noted = out.replace(b'"tokenbox":' + NOTE + b",", b"", 1)
    assert noted == shown
    first = next((frame for frame in frames if b"data: {" in frame), END)
    assert (b'"tokenbox"' in out) == (first != END and not (hide_usage and first == USAGE))
    assert tap.usage == (Usage.reported(7, 3) if USAGE in frames else None)
    assert tap.whole
    assert not tap.is_garbled
    assert tap.events == len([frame for frame in frames if not frame.startswith(b":")]) + 1


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 2])
def test_nothing_is_passed_on_from_a_cut_event(before: int, after: int) -> None:
    whole = FRAMES[0] * before
    out, tap = relayed(whole + b'data: {"choices":[{"delta\n\n' + FRAMES[0] * after, [], hide_usage=False)
    assert tap.is_garbled
    assert out.count(b"data:") == before


@pytest.mark.parametrize("cuts", [[], [40]])
@pytest.mark.parametrize(
    ("protocol", "text", "last"),
    [
        (CHAT, {"choices": [{"delta": {"content": "that is [DONE] now"}}]}, "[DONE]"),
        (
            MESSAGES,
            {"type": "content_block_delta", "delta": {"text": "message_stop"}},
            {"type": "message_stop"},
        ),
        (
            RESPONSES,
            {"type": "response.output_text.delta", "delta": "response.completed"},
            {"type": "response.completed", "response": {}},
        ),
    ],
    ids=["chat", "messages", "responses"],
)
def test_only_an_event_ends_a_stream(protocol: Protocol, text: Any, last: Any, cuts: list[int]) -> None:  # noqa: ANN401  # JSON
    """A stream that breaks off after a text with the name of that event is incomplete."""

    def whole(*events: object) -> bool:
        stream = b"".join(
            frame(event.encode() if isinstance(event, str) else json.dumps(event).encode())
            for event in events
        )
        return relayed(stream, cuts, hide_usage=False, protocol=protocol)[1].whole

    assert not whole(text, text)
    assert whole(text, last)
    assert whole(text, last, {"type": "ping"})


def chunk(index: int, finish: str | None) -> bytes:
    text = {"content": 'it says "finish_reason": "stop"'}
    choice = {"index": index, "delta": text, "finish_reason": finish}
    return frame(json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize("cuts", [[], [40], [150, 260]])
@pytest.mark.parametrize(
    ("choices", "chunks", "whole"),
    [
        (1, [(0, None), (0, "stop")], True),
        (1, [(0, None), (0, "length"), (0, None)], True),
        (1, [(0, None), (0, None)], False),
        (1, [(0, "")], False),
        (1, [], False),
        (2, [(0, None), (1, None), (1, "stop"), (0, "tool_calls")], True),
        (2, [(0, None), (0, "stop")], False),
        (2, [(0, "stop"), (0, "stop")], False),
    ],
)
def test_a_stream_whose_choices_are_finished_is_whole_without_a_last_event(
    choices: int, chunks: list[tuple[int, str | None]], cuts: list[int], *, whole: bool
) -> None:
    """Its usage counts only then: a client that leaves before the end does not lower what it is charged."""
    stream = b"".join(chunk(*one) for one in chunks) + USAGE
    tap = Tap(CHAT, NOTE, hide_usage=False, choices=choices)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    for start, end in pairwise(places):
        tap.feed(stream[start:end])
    before = tap.whole, tap.reported
    tap.end()
    known = Usage(7, None)
    assert before == (False, known)
    assert (tap.whole, tap.reported) == ((True, Usage.reported(7, 3)) if whole else (False, known))


@pytest.mark.parametrize(
    "delta",
    [
        {"output_tokens": 7},
        {"output_tokens": 7, "input_tokens": 10},
        {"output_tokens": 7, "input_tokens": 0},
        {"output_tokens": 7, "input_tokens": 10, "cache_read_input_tokens": None},
        {"output_tokens": 7, "input_tokens": 10, "cache_read_input_tokens": 5_000},
    ],
    ids=str,
)
def test_the_last_event_forgets_no_cached_input(delta: dict[str, object]) -> None:
    start = {"input_tokens": 10, "cache_read_input_tokens": 5_000, "output_tokens": 1}
    events = (
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "usage": delta},
    )
    stream = b"".join(frame(json.dumps(event).encode()) for event in (*events, {"type": "message_stop"}))
    found = relayed(stream, [], hide_usage=False, protocol=MESSAGES)[1].reported
    assert found == Usage(5_010, 7, 5_000)


@pytest.mark.parametrize(
    ("last", "hour"),
    [
        ({}, 30),
        ({"cache_creation_input_tokens": 40, "cache_creation": None}, 30),
        ({"cache_creation_input_tokens": 90}, None),  # how much of the rest is kept for an hour is unknown
        ({"cache_creation_input_tokens": 90, "cache_creation": {"ephemeral_1h_input_tokens": 80}}, 80),
    ],
)
def test_what_is_kept_for_an_hour_is_known_at_the_end_of_a_stream(
    last: dict[str, object], hour: int | None
) -> None:
    kept = {"ephemeral_1h_input_tokens": 30, "ephemeral_5m_input_tokens": 10}
    start = {"input_tokens": 5, "cache_creation_input_tokens": 40, "cache_creation": kept, "output_tokens": 1}
    tap = Tap(MESSAGES, NOTE, hide_usage=False)
    for event in (
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "usage": {"output_tokens": 9, **last}},
        {"type": "message_stop"},
    ):
        tap.feed(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    assert tap.reported is not None
    assert (tap.reported.output_tokens, tap.reported.cache_write_1h_tokens) == (9, hour)


def test_the_output_that_a_stream_has_at_its_beginning_is_not_that_at_its_end() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
    stream = b"".join(frame(json.dumps(event).encode()) for event in (start, {"type": "message_stop"}))
    _, tap = relayed(stream, [], hide_usage=False, protocol=MESSAGES)
    assert (tap.whole, tap.reported) == (True, Usage(5, None))


def test_an_error_among_plain_events_is_seen() -> None:
    error = {"error": {"message": "x"}}
    stream = FRAMES[0] * 3 + b"data: " + json.dumps(error).encode() + b"\n\n" + FRAMES[0]
    out, tap = relayed(stream, [], hide_usage=False)
    assert tap.error == error
    assert tap.whole, "the client has been told"
    assert out.replace(b'"tokenbox":' + NOTE + b",", b"") == stream


@pytest.mark.parametrize("event", [b'event: error\ndata: {"message":"x"}\n\n', b"event:error\ndata: x\n\n"])
def test_an_event_named_error_is_one_without_an_error_in_its_data(event: bytes) -> None:
    tap = Tap(CHAT, b"{}", hide_usage=False)
    text = b'data: {"choices":[{"delta":{"content":"event: error, \\nevent: error\\n"}}]}\n\n'
    tap.feed(FRAMES[0] + text)
    assert tap.error is None
    tap.feed(text + event + text + b"data: [DONE]\n\n")
    assert tap.error is not None


def test_a_response_that_failed_is_an_error_with_its_usage() -> None:
    usage = {"input_tokens": 7, "output_tokens": 3}
    failed = {"type": "response.failed", "response": {"error": {"message": "x"}, "usage": usage}}
    _, tap = relayed(frame(json.dumps(failed).encode()), [], hide_usage=False, protocol=RESPONSES)
    assert (tap.error is not None, tap.whole, tap.reported) == (True, True, Usage.reported(7, 3))


def test_a_usage_that_is_nested_deeply_breaks_no_stream() -> None:
    deep = b'data: {"usage":' + b'{"a":' * 1_000 + b"1" + b"}" * 1_000 + b"}\n\n"
    out, tap = relayed(deep + deep + USAGE + END, [], hide_usage=False)
    assert out.endswith(END)
    assert tap.usage == Usage.reported(7, 3)


def test_the_mark_of_utf_8_before_a_stream_hides_nothing() -> None:
    """Its first event has the usage here; the gateway's key goes into the next one that has a place."""
    out, tap = relayed(b"\xef\xbb\xbf" + USAGE + END, [1, 5], hide_usage=False)
    assert out == b"\xef\xbb\xbf" + USAGE + END
    assert (tap.usage, tap.whole) == (Usage.reported(7, 3), True)
