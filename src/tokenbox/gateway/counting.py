"""What a request counts, as its upstream will count it.

In this order: a template and tokenizer that the operator named, here; the upstream's own count, where it has
one; the published rules of OpenAI's models, here; characters / 4. The last two are estimates and say so.
"""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tokenbox.compose.counting import Counter
from tokenbox.content.message import InvalidMessage, UndeclaredCost
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import Counted
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.shapes import as_chat, media_in, texts_of
from tokenbox.providers.kinds import ROWS, Kind
from tokenbox.providers.shapes import at, count_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.settings import Limits
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

Answer = TypeVar("Answer")

# No more threads than can count at once: each has memory of its own.
_COUNTERS = ThreadPoolExecutor(max(2, os.cpu_count() or 2), thread_name_prefix="tokenbox-count")

# Bytes of a body that are counted at once without holding up other requests; more are counted in a thread.
INLINE = 32_768
# What an image, a file or a recording counts where nobody says it: an estimate, and said to be one.
MEDIA = 1_000


class Format(Protocol):
    """Counts a chat request whole, here."""

    def exact_for(
        self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> bool: ...

    def count_messages(
        self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> int: ...

    @property
    def identity(self) -> TokenizerIdentity: ...


@dataclass(frozen=True, slots=True)
class Local:
    """How a model is counted here.

    ``format`` None: only plain texts can be. ``certain``: goes before the upstream's own count, because the
    operator named it.
    """

    tokenizer: Tokenizer
    format: Format | None
    name: str
    certain: bool

    @property
    def identity(self) -> TokenizerIdentity:
        """Of what counts: the format, where there is one."""
        return self.tokenizer.identity if self.format is None else self.format.identity


@dataclass(frozen=True, slots=True)
class Way:
    """How a server counts: the path, what to send, where the number is."""

    path: str
    body: Callable[[Call], dict[str, Any]]
    read: Callable[[object], int | None]
    exact: bool = True


def _whole(call: Call) -> dict[str, Any]:
    return {key: value for key, value in call.body.items() if key not in ("stream", "stream_options")}


def _only(*names: str) -> Callable[[Call], dict[str, Any]]:
    return lambda call: {name: call.body[name] for name in names if name in call.body}


def _input_tokens(answer: object) -> int | None:
    return count_at(answer, "input_tokens")


def _count(answer: object) -> int | None:
    return count_at(answer, "count")


def _tokens(answer: object) -> int | None:
    found = at(answer, "tokens")
    return len(found) if isinstance(found, list) else None


def _prompt(field: str, **fixed: object) -> Callable[[Call], dict[str, Any]]:
    return lambda call: {field: call.input, "model": call.model, **fixed}


_TEMPLATED = (
    "model",
    "messages",
    "tools",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
)
_ANTHROPIC = ("model", "messages", "system", "tools", "tool_choice", "thinking")
_RESPONSES = (
    *("model", "input", "instructions", "tools", "tool_choice", "previous_response_id", "conversation"),
    *("reasoning", "text", "truncation", "parallel_tool_calls"),
)

WAYS: Mapping[tuple[Kind, str], Way] = {
    (Kind.LLAMA_CPP, "chat"): Way("/v1/chat/completions/input_tokens", _whole, _input_tokens),
    (Kind.LLAMA_CPP, "responses"): Way("/v1/responses/input_tokens", _whole, _input_tokens),
    (Kind.LLAMA_CPP, "messages"): Way("/v1/messages/count_tokens", _whole, _input_tokens),
    (Kind.LLAMA_CPP, "completions"): Way(
        "/tokenize", _prompt("content", add_special=True, parse_special=True), _tokens
    ),
    (Kind.LLAMA_CPP, "embeddings"): Way(
        "/tokenize", _prompt("content", add_special=True, parse_special=True), _tokens
    ),
    (Kind.VLLM, "chat"): Way("/tokenize", _only(*_TEMPLATED), _count),
    (Kind.VLLM, "messages"): Way("/v1/messages/count_tokens", _only(*_ANTHROPIC), _input_tokens),
    (Kind.VLLM, "completions"): Way("/tokenize", _prompt("prompt"), _count),
    (Kind.VLLM, "embeddings"): Way("/tokenize", _prompt("prompt"), _count),
    (Kind.SGLANG, "chat"): Way("/tokenize", _only(*_TEMPLATED), _count),
    (Kind.SGLANG, "completions"): Way("/tokenize", _prompt("prompt"), _count),
    (Kind.TGI, "chat"): Way(
        "/chat_tokenize",
        _only(*_TEMPLATED),
        lambda answer: len(a) if isinstance(a := at(answer, "tokenize_response"), list) else None,
    ),
    # "The token count should be considered an estimate", says Anthropic's documentation of it.
    (Kind.ANTHROPIC, "messages"): Way(
        "/v1/messages/count_tokens", _only(*_ANTHROPIC), _input_tokens, exact=False
    ),
    (Kind.OPENAI, "responses"): Way("/v1/responses/input_tokens", _only(*_RESPONSES), _input_tokens),
}
# Questions to an upstream for one request: of more prompts or messages, sizes are counted here.
ASKED_AT_ONCE = 32
# Statuses that say that a server has no such count.
_UNSUPPORTED = frozenset({404, 405, 501})
_OK = 200


class RequestCounting:
    """Counts requests. ``local`` gives what this process can count a model with."""

    def __init__(self, local: Callable[[Upstream, str], Local], limits: Limits) -> None:
        self._local = local
        self._limits = limits
        self._unsupported: set[tuple[str, str]] = set()
        # Tokenizers that have loaded all they need. Loading takes seconds, so it is never done in the loop.
        self._loaded: set[int] = set()

    async def count(self, call: Call, upstream: Upstream) -> Counted:
        """The count of the whole. Raises :class:`Refusal` for what cannot be counted at all."""
        local = self._local(upstream, call.model)
        if local.certain:
            return await self._here(call, local)
        counted = await self._there(call, upstream)
        return await self._here(call, local) if counted is None else counted

    async def with_parts(self, call: Call, upstream: Upstream, counted: Counted) -> Counted:
        """``counted`` with the size of each item alone, counted here."""
        if counted.parts is not None:
            return counted
        texts = ["\n".join(texts_of(item)) for item in call.parts]
        if counted.identity is None and (sizes := await self._texts_there(texts, call, upstream)):
            return replace(counted, parts=sizes, parts_exact=True)
        tokenizer = self._local(upstream, call.model).tokenizer
        size = sum(map(len, texts))
        parts = await self._in_time(tokenizer, size, lambda: tuple(tokenizer.count_batch(texts)))
        return replace(counted, parts=parts, parts_exact=tokenizer.identity.exact)

    async def _texts_there(self, texts: list[str], call: Call, upstream: Upstream) -> tuple[int, ...] | None:
        """The upstream's counts of a few texts; None where it has none, or cannot be asked now."""
        way = ROWS[upstream.kind].text_counting if upstream.kind is not Kind.AUTO else None
        if way is None or not way.exact or len(texts) > ASKED_AT_ONCE:
            return None
        bodies = [{way.text_field: text, "model": call.model, **way.fixed} for text in texts]
        answers = await asyncio.gather(*(upstream.ask(way.path, body, call.client_auth) for body in bodies))
        sizes = [way.read(answer) for status, answer in answers if status == _OK]
        known = tuple(size for size in sizes if size is not None)
        return known if len(known) == len(texts) else None

    async def _here(self, call: Call, local: Local) -> Counted:
        """Counted in this process; a long text in a thread, where it holds nobody up."""
        size = len(call.data)
        if call.protocol.takes_prompts:
            tokenizer, prompts = local.tokenizer, call.prompts
            sizes = await self._in_time(
                tokenizer, size, lambda: [_prompt_tokens(prompt, tokenizer) for prompt in prompts]
            )
            exact = tokenizer.identity.exact or all(map(_are_tokens, prompts))
            return replace(_of_prompts(sizes, local.name, exact=exact), identity=local.identity)
        tokens, exact = await self._in_time(local.tokenizer, size, lambda: self._count_here(call, local))
        return Counted(tokens, exact, local.name, identity=local.identity)

    @staticmethod
    def _count_here(call: Call, local: Local) -> tuple[int, bool]:
        messages, tools, whole = as_chat(call)
        if local.format is not None:
            try:
                counted = local.format.count_messages(messages, tools)
                return counted, whole and local.format.exact_for(messages, tools)
            except (UndeclaredCost, InvalidMessage):
                pass  # an image of which nobody says what it costs, a shape that only the upstream knows
        texts = [text for message in messages for text in texts_of(message)]
        if tools:
            texts.append(json.dumps(tools, ensure_ascii=False))
        media = MEDIA * sum(map(media_in, messages))
        # Four tokens around each message and three to prime the answer, as OpenAI's cookbook has it.
        return sum(Counter(local.tokenizer).count_all(texts)) + media + 4 * len(messages) + 3, False

    async def _there(self, call: Call, upstream: Upstream) -> Counted | None:
        """The upstream's own count; None where it has none or cannot be asked now."""
        way = WAYS.get((upstream.kind, call.protocol.name))
        if way is None or (upstream.name, way.path) in self._unsupported:
            return None
        source = f"{upstream.name}:{way.path}"
        if not call.protocol.takes_prompts:
            tokens = await self._asked(way, call, upstream)
            return None if tokens is None else Counted(tokens, way.exact, source)
        prompts = call.prompts
        if len(prompts) > ASKED_AT_ONCE or all(map(_are_tokens, prompts)):
            return None
        alone = [replace(call, body={**call.body, call.protocol.input_key: prompt}) for prompt in prompts]
        sizes = await asyncio.gather(*(self._prompt_there(way, one, upstream) for one in alone))
        known = [size for size in sizes if size is not None]
        return _of_prompts(known, source, exact=way.exact) if len(known) == len(sizes) else None

    async def _prompt_there(self, way: Way, call: Call, upstream: Upstream) -> int | None:
        """One prompt of a call."""
        if _are_tokens(call.input):
            return len(call.input)
        return await self._asked(way, call, upstream) if isinstance(call.input, str) else None

    async def _asked(self, way: Way, call: Call, upstream: Upstream) -> int | None:
        status, answer = await upstream.ask(way.path, way.body(call), call.client_auth)
        if status in _UNSUPPORTED:
            self._unsupported.add((upstream.name, way.path))
        # Whatever else it refuses, it refuses in its own words once that is sent.
        return way.read(answer) if status == _OK else None

    async def _in_time(self, tokenizer: Tokenizer, size: int, work: Callable[[], Answer]) -> Answer:
        try:
            if size <= INLINE and id(tokenizer) in self._loaded:
                return work()
            async with asyncio.timeout(self._limits.count_seconds):
                loop = asyncio.get_running_loop()
                if id(tokenizer) not in self._loaded:
                    await loop.run_in_executor(_COUNTERS, _load, tokenizer)
                    self._loaded.add(id(tokenizer))
                return await loop.run_in_executor(_COUNTERS, work)
        except TimeoutError:
            raise Refusal(
                400,
                "count_timeout",
                f"Counting took more than {self._limits.count_seconds:g} seconds. Send less at once.",
            ) from None
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message) from None


def _load(tokenizer: Tokenizer) -> None:
    """Whatever the tokenizer would load while it counts."""
    load_fast = getattr(tokenizer, "load_fast", None)
    if load_fast is None:
        tokenizer.count("x")
    else:
        load_fast()


def _prompt_tokens(prompt: object, tokenizer: Tokenizer) -> int:
    """Of one prompt: a text, tokens, or, with llama.cpp, both in one list."""
    if isinstance(prompt, str):
        return tokenizer.count(prompt)
    if isinstance(prompt, list) and all(type(item) is int or isinstance(item, str) for item in prompt):
        return sum(1 if type(item) is int else tokenizer.count(str(item)) for item in prompt)
    raise Refusal(400, "invalid_request", "The input is a text, tokens, or a list of those.")


def _are_tokens(prompt: object) -> bool:
    return isinstance(prompt, list) and all(type(item) is int for item in prompt)


def _of_prompts(sizes: Sequence[int], source: str, *, exact: bool) -> Counted:
    """What they count together, and the largest: each has the window for itself."""
    return Counted(sum(sizes), exact, source, largest=max(sizes) if len(sizes) > 1 else None)
