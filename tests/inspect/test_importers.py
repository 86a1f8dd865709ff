"""Importers: what each reads of a log, and that no log does harm."""

from __future__ import annotations

import json
from datetime import date
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.conversation.test_low_water import steps_run
from tests.effort import examples
from tokenbox.catalog import price
from tokenbox.inspect import PageEntry, page
from tokenbox.inspect.importers import IMPORTERS, imported
from tokenbox.inspect.importers.lhar import written
from tokenbox.inspect.of_transcript import transcript_entry
from tokenbox.inspect.reading import InspectOptions, entries_in
from tokenbox.ledger.cost import cost_of
from tokenbox.providers.usage import usage_in

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = Path(__file__).with_name("samples")


def sample(name: str) -> PageEntry:
    (entry,) = entries_in(str(SAMPLES / name), (SAMPLES / name).read_bytes(), InspectOptions())
    return entry


def window(entry: PageEntry, number: int) -> list[tuple[str, str | None]]:
    """Kind and text of what a request sent, without what is beside the messages."""
    states = {state.item: state for frame in entry.frames[: number + 1] for state in frame.changes}
    return [
        (entry.items[i].kind, state.text) for i, state in sorted(states.items()) if state.decision == "sent"
    ]


def figures(entry: PageEntry) -> list[tuple[int | None, int | None, int | None, str | None]]:
    """Total, from the cache, answer and cost of each request."""
    found = []
    for frame in entry.frames:
        usage = frame.usage
        known = (None, None, None) if usage is None else (usage.cached, usage.output, usage.cost)
        found.append((frame.total, *known))
    return found


def test_claude_code_has_a_request_per_answer_and_none_of_other_agents() -> None:
    entry = sample("claude_code.jsonl")
    assert figures(entry) == [
        (14_209, 0, 96, "0.054717"),
        (14_972, 14_200, 150, "0.009396"),
        (15_180, 14_960, 40, "0.0059055"),
        (13_820, 0, 12, "0.05199"),
    ]
    assert [kind for kind, _ in window(entry, 2)] == [
        "user", "thinking", "assistant", "tool call", "tool", "tool call", "tool"
    ]  # fmt: skip
    assert [kind for kind, _ in window(entry, 3)] == ["user", "user"]  # compacted
    assert entry.frames[3].note == "compacted before this turn"
    assert not any("subagent" in (item.text or "") for item in entry.items)
    assert "\ud83d" in (entry.items[-1].text or "")
    page([entry]).encode()


def test_the_parts_of_a_logged_request_add_up_to_what_the_server_counted() -> None:
    for name in ("claude_code.jsonl", "codex.jsonl"):
        entry = sample(name)
        states: dict[int, int] = {}
        for frame in entry.frames:
            states |= {state.item: state.size or 0 for state in frame.changes}
            assert sum(states.values()) == frame.total
            assert (frame.exact, frame.parts_exact) == (True, False)


@pytest.mark.parametrize(
    ("hourly", "rest", "cost", "exact"),
    [
        (0, 300, "0.006711", True),
        (300, 0, "0.007386", True),
        (9_999, 0, "0.006711", False),  # more than was written
        (None, None, "0.006711", False),
    ],
)
def test_what_is_cached_for_an_hour_costs_more(
    hourly: int | None, rest: int | None, cost: str, exact: bool
) -> None:
    usage = {
        "input_tokens": 12,
        "cache_read_input_tokens": 14_000,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": rest, "ephemeral_1h_input_tokens": hourly},
        "output_tokens": 90,
    }
    message = {"id": "m", "role": "assistant", "model": "claude-sonnet-4-5", "content": "Hi.", "usage": usage}
    record = {"type": "assistant", "uuid": "1", "timestamp": "2026-10-01T10:00:00Z", "message": message}
    (transcript,) = imported([{"type": "user", "sessionId": "s", "message": {"content": "Hi"}}, record]) or []
    turn = transcript_entry(transcript, "log").frames[0].usage
    assert turn is not None
    assert (turn.cost, turn.cost_exact) == (cost, exact)


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
LANGCHAIN = [
    {"lc": 1, "id": ["SystemMessage"], "kwargs": {"content": "Be brief.", "type": "system"}},
    {"lc": 1, "id": ["HumanMessage"], "kwargs": {"content": "Hello", "type": "human"}},
]
READ = {"input_tokens": 25, "output_tokens": 3, "input_token_details": {"cache_read": 20}}
ATTRIBUTES = {
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]',
    "gen_ai.usage.input_tokens": 25,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.usage.cache_read.input_tokens": 20,
}
OTLP = {
    "startTimeUnixNano": "1793491200000000000",
    "attributes": [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in ATTRIBUTES.items()
    ],
}
LLMETRY = {
    "gen_ai.response.model": "gpt-4o",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "Hello",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.usage.prompt_tokens": 25,
    "gen_ai.usage.completion_tokens": 3,
}
TRACES: dict[str, dict[str, Any]] = {
    "langsmith": {
        "run_type": "llm",
        "start_time": "2026-11-01T00:00:00",
        "inputs": {"messages": [LANGCHAIN]},
        "outputs": {"usage_metadata": READ},
        "extra": {"invocation_params": {"model": "gpt-4o"}},
    },
    "langsmith-openai": {
        "run_type": "llm",
        "inputs": {"messages": CHAT, "model": "gpt-4o"},
        "outputs": {"usage": {"prompt_tokens": 25, "completion_tokens": 3}},
    },
    "langfuse": {
        "id": "t",
        "observations": [
            {"type": "SPAN", "input": "x"},
            {
                "type": "GENERATION",
                "model": "gpt-4o",
                "startTime": "2026-11-01T00:00:00Z",
                "input": CHAT,
                "usage": {"input": 25, "output": 3},
            },
        ],
    },
    "otlp": {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a tool"}, OTLP]}]}]},
    "opentelemetry": {"name": "chat", "attributes": ATTRIBUTES},
    "openllmetry": {"name": "openai.chat", "attributes": LLMETRY},
    "openinference": {
        "attributes": {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-4o",
            "input.value": json.dumps({"messages": CHAT}),
            "llm.token_count.prompt": 25,
            "llm.token_count.completion": 3,
        }
    },
}


@pytest.mark.parametrize("tool", TRACES)
def test_traces_have_a_request_per_call_of_a_model(tool: str) -> None:
    (transcript,) = imported([TRACES[tool]]) or []
    (request,) = transcript.requests
    assert [(item.role, item.text) for item in request.added] == [("system", "Be brief."), ("user", "Hello")]
    assert request.model == "gpt-4o"
    assert request.usage is not None
    assert (request.usage.input_tokens, request.usage.output_tokens) == (25, 3)
    cached = 20 if tool in ("langsmith", "otlp", "opentelemetry") else None
    assert request.usage.cached_input_tokens == cached
    if tool in ("langsmith", "langfuse", "otlp"):
        assert (request.time or "").startswith("2026-11-01T00:00:00")
    page([transcript_entry(transcript, tool)]).encode()


def test_the_calls_of_a_trace_are_in_the_order_of_their_times() -> None:
    run = TRACES["langsmith"]
    later = {**run, "start_time": "2026-11-01T00:00:09", "inputs": {"messages": [[*LANGCHAIN, *LANGCHAIN]]}}
    (transcript,) = imported([later, run]) or []
    assert [(request.keep, len(request.added)) for request in transcript.requests] == [(0, 2), (2, 2)]


def test_a_file_of_another_agent_alone_is_its_conversation() -> None:
    lines = (SAMPLES / "claude_code.jsonl").read_text().splitlines()
    records = [{**json.loads(line), "isSidechain": True} for line in lines if '"message"' in line]
    (transcript,) = imported(records) or []
    assert len(transcript.requests) > 1
    assert transcript.notes == ()


def test_codex_has_a_request_per_count_and_knows_who_wrote_what() -> None:
    entry = sample("codex.jsonl")
    assert [total for total, *_ in figures(entry)] == [5_200, 5_510, 4_100]
    assert [kind for kind, _ in window(entry, 0)] == ["system", "user", "user"]
    assert [kind for kind, _ in window(entry, 1)] == [
        "system",
        "user",
        "user",
        "thinking",
        "tool call",
        "tool",
    ]
    assert [kind for kind, _ in window(entry, 2)] == ["system", "summary", "user"]
    assert entry.frames[0].budget == 272_000


def test_a_log_of_requests_shares_what_is_the_same_in_both() -> None:
    entry = sample("openai.jsonl")
    assert figures(entry)[0] == (78, 0, 12, "0.000315")
    assert [len(frame.changes) for frame in entry.frames] == [4, 3, 3]  # one is what is beside
    assert [kind for kind, _ in window(entry, 2)] == [
        "tools", "system", "user", "assistant", "user", "tool call", "tool"
    ]  # fmt: skip
    assert entry.notes == ("Lines left out because they are not requests: 1.",)


def claude_code_log(turns: int) -> list[dict[str, Any]]:
    return [
        {"type": kind, "sessionId": "s", "uuid": f"{kind} {turn}", "message": {"content": f"{kind} {turn}"}}
        for turn in range(turns)
        for kind in ("user", "assistant")
    ]


def codex_log(turns: int) -> list[dict[str, Any]]:
    found = []
    for turn in range(1, turns + 1):
        message = {"type": "message", "role": "user", "content": f"question {turn}"}
        count = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": turn}}}
        found.append({"type": "response_item", "payload": message})
        found.append({"type": "event_msg", "payload": count})
    return found


@pytest.mark.parametrize("log", [claude_code_log, codex_log])
def test_a_session_costs_as_much_as_it_is_long(log: Callable[[int], list[dict[str, Any]]]) -> None:
    def entry(turns: int) -> PageEntry:
        (transcript,) = imported(log(turns)) or []
        return transcript_entry(transcript, "log")

    assert len(entry(400).frames) == 400  # and the texts are counted
    short, long = (steps_run(lambda turns=turns: entry(turns)) for turns in (100, 400))
    assert long < 5 * short


def test_anthropics_usage_counts_the_cache_into_the_input() -> None:
    entry = sample("anthropic.json")
    assert figures(entry) == [(1_130, 1_100, 14, None)]  # no time, so no price of that day
    assert [kind for kind, _ in window(entry, 0)] == ["system", "user", "media"]


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, (10, 2, None)),
        ({"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}, (10, 2, 4)),
        ({"input_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}, (9, None, 5)),
        ({"input_tokens": "many", "output_tokens": -1}, (None, None, None)),
        ({"input_tokens": 10**30}, (None, None, None)),
        # DeepSeek's: what was read from its cache was unknown, and paid for in full.
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}, (9, 1, 8)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 5}, (9, 7, None)),
        ({"prompt_token_count": 9, "cached_content_token_count": 4}, (9, None, 4)),
        ({"inputTokens": 9, "outputTokens": 2, "cacheReadInputTokens": 5}, (14, 2, 5)),
    ],
)
def test_usage_of_every_api(stated: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    for one in (stated, SimpleNamespace(model_dump=lambda **_: stated)):  # of an SDK
        usage = usage_in(one)
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == expected


class Modality(StrEnum):
    """As in Gemini's SDK."""

    AUDIO = "AUDIO"


@pytest.mark.parametrize(
    ("details", "audio"),
    [
        ({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 80}]}, True),
        ({"candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}]}, True),
        ({"promptTokensDetails": [{"modality": Modality.AUDIO, "token_count": 80}]}, True),
        ({"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}]}, False),
        ({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 0}]}, False),
        ({"promptTokensDetails": "AUDIO"}, False),
    ],
)
def test_audio_of_gemini_is_not_priced_as_text(details: dict[str, Any], *, audio: bool) -> None:
    stated = {"promptTokenCount": 100, "candidatesTokenCount": 5}
    found = usage_in(stated | details)
    assert found is not None
    assert found.audio is audio
    assert cost_of(found, price("gemini-2.5-flash", date(2026, 11, 30))).priced is not audio


def test_lhar_without_bodies_shows_the_composition() -> None:
    entry = sample("session.lhar")
    assert [total for total, *_ in figures(entry)] == [14_120, 16_640]
    assert [(item.kind, item.base) for item in entry.items[1:4]] == [
        ("system", 4_200), ("tools", 9_800), ("user", 120)
    ]  # fmt: skip


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["claude_code.jsonl", "codex.jsonl", "openai.jsonl", "session.lhar"])
def test_lhar_is_written_and_read_back(name: str, wrapped: bool, tmp_path: Path) -> None:
    entry = sample(name)
    path = tmp_path / ("out.lhar.json" if wrapped else "out.lhar")
    path.write_bytes(written([entry], wrapped=wrapped))
    (again,) = entries_in(str(path), path.read_bytes(), InspectOptions())
    assert [frame.total for frame in again.frames] == [frame.total for frame in entry.frames]
    assert [total for total, *_ in figures(again)] == [total for total, *_ in figures(entry)]
    if name != "session.lhar":
        texts = [text for _, text in window(entry, 1) if text]
        safe = [text.encode("utf-8", "replace").decode() for text in texts]
        assert [text for _, text in window(again, 1) if text] == safe


# What the schema of context-lens requires of an entry, and of what is in it.
REQUIRED = {
    "": "type id trace_id span_id parent_span_id timestamp sequence source gen_ai usage_ext http timings "
    "transfer context_lens raw",
    "source": "tool tool_version agent_role collector collector_version",
    "gen_ai": "system request response usage",
    "usage_ext": "cache_read_tokens cache_write_tokens cost_usd",
    "http": "method url status_code api_format stream request_headers response_headers",
    "transfer": "request_bytes response_bytes compressed",
    "context_lens": "window_size utilization system_tokens tools_tokens messages_tokens composition growth "
    "security",
    "raw": "request_body response_body",
}


def test_written_lhar_has_the_fields_that_its_schema_requires() -> None:
    lines = written([sample("openai.jsonl")], wrapped=False)
    first, *entries = [json.loads(line) for line in lines.splitlines()]
    assert first.keys() == {"type", "trace_id", "started_at", "tool", "model"}
    assert len(entries) == 3
    for entry in entries:
        for place, names in REQUIRED.items():
            assert (entry[place] if place else entry).keys() == set(names.split()), place
        lens = entry["context_lens"]
        assert sum(part["tokens"] for part in lens["composition"]) == (
            lens["system_tokens"] + lens["tools_tokens"] + lens["messages_tokens"]
        )


# A log is anybody's: whatever stands in it, a page comes of it or a message.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "message",
                        "content",
                        "role",
                        "usage",
                        "id",
                        "payload",
                        "info",
                        "text",
                        "tools",
                    ),
                    *("input_tokens", "cache_read_input_tokens", "model", "timestamp", "output", "request"),
                    *(
                        "messages",
                        "input",
                        "system",
                        "tool_calls",
                        "function",
                        "arguments",
                        "summary",
                        "name",
                    ),
                    *("gen_ai", "raw", "request_body", "context_lens", "composition", "tokens", "category"),
                    *("spans", "scopeSpans", "attributes", "key", "value", "kwargs", "parts", "args"),
                    *("gen_ai.input.messages", "gen_ai.prompt.0.role", "input.value", "startTimeUnixNano"),
                    *("invocation_params", "input_token_details", "cache_read", "startTime"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
KINDS = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "entry",
        "session",
        "session_meta",
        "response_item",
        "event_msg",
        "compacted",
        "turn_context",
        "token_count",
        "message",
        "function_call",
        "reasoning",
        "GENERATION",
    ]
)
RECORDS = st.lists(
    st.dictionaries(
        st.sampled_from(
            [
                "message",
                "payload",
                "usage",
                "gen_ai",
                "raw",
                "context_lens",
                "messages",
                "request",
                "response",
                "lhar",
                "sessionId",
                "uuid",
                "timestamp",
                *("inputs", "outputs", "extra", "input", "observations", "runs", "spans", "resourceSpans"),
                *("attributes", "start_time", "startTime", "startTimeUnixNano"),
            ]
        ),
        JSON,
        max_size=5,
    ).flatmap(lambda record: KINDS.map(lambda kind: {"type": kind, "run_type": "llm", **record})),
    max_size=6,
)


@settings(max_examples=examples(100))
@given(RECORDS, st.integers(0, len(IMPORTERS)))
def test_no_log_ends_in_a_traceback(records: list[dict[str, Any]], forced: int) -> None:
    transcripts = imported(records) if forced == len(IMPORTERS) else IMPORTERS[forced].read(records)
    for transcript in transcripts or []:
        try:
            entry = transcript_entry(transcript, "log")
        except tokenbox.TokenboxError:
            continue
        page([entry]).encode()
        written([entry], wrapped=True)
