"""Requests that smuggle a text larger than the window, and upstreams that would accept them.

:func:`mutations` puts a long text at every path of every request shape: in place of each value, and under
each additional key of each object, known or not.
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.loops import EndingLoop
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOW = 500
LONG = "word " * (10 * WINDOW)
MARK = "word word word"
CONFIG = """
[upstreams.it]
url = "http://127.0.0.1:{port}"
kind = "{kind}"
[policy]
max_ctx = {window}
"""

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
COMPLETIONS, EMBEDDINGS = "/v1/completions", "/v1/embeddings"
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Bonn"], "description": "d"}}}
_FUNCTION = {"name": "look", "description": "looks", "parameters": _SCHEMA, "strict": True}
_TOOL = {"type": "function", "function": _FUNCTION}
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Bonn"}'}}
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
_FORM = {"type": "json_schema", "json_schema": {"name": "f", "schema": _SCHEMA, "description": "d"}}

_HELLO = {"role": "user", "content": "hi", "name": "bob"}
_SUNNY = {"type": "text", "text": "sunny"}
_INPUT_TEXT = {"type": "input_text", "text": "sunny"}
_TEXT = {"type": "text", "media_type": "text/plain", "data": "d"}
_DOCUMENT = {"type": "document", "source": _TEXT, "title": "t", "context": "c"}

SHAPES: dict[str, list[dict[str, Any]]] = {
    CHAT: [
        {"messages": [{"role": "system", "content": "Be brief."}, _HELLO]},
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [_CALL], "reasoning_content": "so"},
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            ],
            "tools": [_TOOL],
            "tool_choice": {"type": "function", "function": {"name": "look"}},
            "response_format": _FORM,
        },
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, _IMAGE]}]},
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "function_call": {"name": "look", "arguments": "{}"}},
                {"role": "function", "name": "look", "content": "sunny"},
            ],
            "functions": [_FUNCTION],
            "function_call": "auto",
        },
        {
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well,"}],
            "stop": ["x"],
            "prediction": {"type": "content", "content": "text"},
            "chat_template_kwargs": {"enable_thinking": False},
            "metadata": {"a": "b"},
        },
        {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": [{"type": "refusal", "refusal": "no"}],
                    "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "x"}}],
                    "reasoning_details": [{"type": "reasoning.text", "text": "so"}],
                    "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]},
            ],
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "sql",
                        "description": "d",
                        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
                    },
                }
            ],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_TOOL]}},
            "structured_outputs": {"grammar": "x", "choice": ["a"]},
            "documents": [{"title": "t", "text": "x"}],
            "verbosity": "low",
        },
    ],
    MESSAGES: [
        {"system": "Be brief.", "messages": [{"role": "user", "content": "hi"}]},
        {
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hi"},
                        _DOCUMENT,
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "so", "signature": "s"},
                        {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Bonn"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [_SUNNY]}],
                },
            ],
            "tools": [{"name": "look", "description": "looks", "input_schema": _SCHEMA}],
            "tool_choice": {"type": "auto"},
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "search_result",
                            "source": "https://a.example",
                            "title": "t",
                            "content": [_SUNNY],
                            "citations": {"enabled": True},
                        },
                        {"type": "document", "source": {"type": "content", "content": [_SUNNY]}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "redacted_thinking", "data": "d"},
                        {"type": "mcp_tool_use", "id": "c1", "name": "f", "server_name": "s", "input": {}},
                        {"type": "mcp_tool_result", "tool_use_id": "c1", "content": [_SUNNY]},
                        {
                            "type": "server_tool_use",
                            "id": "c2",
                            "name": "web_search",
                            "input": {"query": "q"},
                        },
                        {
                            "type": "web_search_tool_result",
                            "tool_use_id": "c2",
                            "content": [
                                {
                                    "type": "web_search_result",
                                    "url": "u",
                                    "title": "t",
                                    "encrypted_content": "e",
                                }
                            ],
                        },
                    ],
                },
                {"role": "user", "content": "hi"},
            ],
            "output_config": {"effort": "low", "format": _FORM},
            "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        },
    ],
    RESPONSES: [
        {"instructions": "Be brief.", "input": "hi"},
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            ],
            "tools": [{"type": "function", **_FUNCTION}],
            "text": {"format": {"type": "json_schema", "name": "f", "schema": _SCHEMA}},
            "prompt": {"id": "p", "variables": {"a": "b"}},
        },
        {
            "input": [
                {"type": "message", "role": "developer", "content": "Be brief."},
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "m",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}],
                },
                {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "x"},
                {
                    "type": "custom_tool_call_output",
                    "call_id": "c1",
                    "output": [{**_SUNNY, "type": "input_text"}],
                },
                {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
                {
                    "type": "shell_call_output",
                    "call_id": "c2",
                    "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
                },
                {
                    "type": "apply_patch_call",
                    "call_id": "c3",
                    "operation": {"type": "delete_file", "path": "p"},
                },
                {"type": "apply_patch_call_output", "call_id": "c3", "status": "failed", "output": "x"},
                {
                    "type": "mcp_call",
                    "id": "i",
                    "name": "f",
                    "server_label": "s",
                    "arguments": "{}",
                    "output": "x",
                },
            ],
            "tools": [
                {"type": "custom", "name": "sql", "description": "d", "format": {"type": "text"}},
                {"type": "apply_patch"},
            ],
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
        },
    ],
    COMPLETIONS: [{"prompt": [1, 2, 3]}, {"prompt": "hi"}, {"prompt": ["hi", "you"], "suffix": "end"}],
    EMBEDDINGS: [{"input": "hi"}, {"input": ["hi", "you"]}],
}

# Keys that some server reads, and an unknown one.
KEYS = (
    "name", "content", "text", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call",
    "tool_plan", "thinking", "prefix", "citations", "context", "title", "description", "examples",
    "documents", "suffix", "system", "instructions", "chat_template", "template", "grammar", "json_schema",
    "guided_json", "structured_outputs", "input_extra", "tools", "functions", "messages", "prompt", "input",
    "response_format", "raw", "images", "x_unknown", "input_prefix", "input_suffix", "guided_choice",
    "guided_regex", "prompt_embeds", "mm_processor_kwargs", "custom_tools", "date_string", "lora",
    "output_config", "custom", "definition", "stdout", "encrypted_content",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attack:
    """A request, and the path of its long text. Its body is built when read: most attacks are skipped."""

    path: str
    where: tuple[str | int, ...]
    base: dict[str, Any]
    value: object

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = _with(self.base, self.where, self.value)
        return body


def mutations(limit: str = "max_tokens") -> Iterator[Attack]:
    """Yield every attack. ``limit`` is the key of the output limit."""
    for path, shapes in SHAPES.items():
        for shape in shapes:
            base = {"model": "m", **({} if path == EMBEDDINGS else {limit: 5}), **shape}
            for where in _places(base):
                for value in (LONG, [LONG], {"a": {"b": LONG}}):
                    yield Attack(path, where, base, value)


def _places(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401
    """Yield the paths of all values, and of all additional keys of objects."""
    if where:
        yield where
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*where, key))
        for key in KEYS:
            if key not in value:
                yield (*where, key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, (*where, number))


def _with(inner: Any, where: tuple[str | int, ...], value: object) -> Any:  # noqa: ANN401
    """Return a copy with the value at its path."""
    if not where:
        return value
    step, *rest = where
    changed = inner.copy()
    changed[step] = _with(inner[step] if rest else None, tuple(rest), value)
    return changed


class Server:
    """An upstream of one kind: it has the counting endpoints of that kind and records the requests to run.

    ``says``: the count that it returns for everything; None counts.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.ran: list[dict[str, Any]] = []
        self.says: int | None = None
        self.loop = EndingLoop()
        app = web.Application(client_max_size=1 << 30)
        for path in SHAPES:
            app.router.add_post(path, self._run)
        self.add_counts(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self.loop).result(SECONDS)

    def add_counts(self, app: web.Application) -> None:
        """Add the counting endpoints."""
        kind = self.kind
        if kind == "llama.cpp":
            for path in (CHAT, RESPONSES):
                app.router.add_post(f"{path}/input_tokens", self._count("input_tokens"))
            app.router.add_post(f"{MESSAGES}/count_tokens", self._count("input_tokens"))
            app.router.add_post("/tokenize", self._tokens)
        elif kind == "vllm":
            app.router.add_post("/tokenize", self._count("count"))
            app.router.add_post("/v1/messages/count_tokens", self._count("input_tokens"))
        elif kind == "anthropic":
            app.router.add_post("/v1/messages/count_tokens", self._count("input_tokens"))
        elif kind == "openai":
            app.router.add_post("/v1/responses/input_tokens", self._count("input_tokens"))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self.loop).result(SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS)
        self.loop.close()

    async def _start(self) -> int:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return int(self._runner.addresses[0][1])

    async def _run(self, request: web.Request) -> web.Response:
        self.ran.append(await request.json())
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "input_tokens": 1, "output_tokens": 1}
        return web.json_response({"id": "x", "choices": [], "usage": usage})

    def _count(self, name: str) -> Any:  # noqa: ANN401  # a handler
        async def count(request: web.Request) -> web.Response:
            """Count the fields that such a server shows its model, at four characters per token."""
            body = await request.json()
            shown = {key: value for key, value in body.items() if key in _SHOWN}
            return web.json_response({name: len(json.dumps(shown)) // 4 if self.says is None else self.says})

        return count

    async def _tokens(self, request: web.Request) -> web.Response:
        content = (await request.json())["content"]
        size = len(content) // 4 + 1 if self.says is None else self.says
        return web.json_response({"tokens": [1] * size})


# The fields that servers show their models; they ignore unknown ones.
_SHOWN = frozenset(
    (
        *("prompt", "messages", "input", "instructions", "system", "tools", "tool_choice", "functions"),
        *("response_format", "text", "chat_template", "chat_template_kwargs", "thinking", "reasoning"),
        "json_schema",  # a grammar to llama.cpp, which costs no tokens: counted here all the same
        # Anthropic reads them when it counts, and refuses unknown keys in them.
        *("output_config", "context_management"),
    )
)
