"""What a request counts, as its upstream will count it.

A model's own files, which the operator named, count here. Else the upstream's own count is asked for, where
its kind has one. Else the model's counter estimates. If an upstream that counts does not answer, the count is
an estimate that says so, and a guard goes by its bound.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox.compose.bound import PER_MEDIA, Bound
from tokenbox.compose.least import least_of
from tokenbox.compose.requests import By, Count
from tokenbox.content.library_objects import texts_in
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import FREE_CHARACTERS, characters_in, costly, costly_fields, read_request
from tokenbox.conversation.calibration import CountedFor
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.pieces import MEDIA
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import Counted
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.unseen import has_marks, unseen_input
from tokenbox.integers import MAX_INTEGER
from tokenbox.providers.memory import ProbeOutcome
from tokenbox.providers.server import count_request
from tokenbox.providers.shapes import at
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.content.request import Request
    from tokenbox.conversation.calibration import Calibration
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.settings import RequestLimits
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.models import ModelUse
    from tokenbox.providers.kinds.kind import RequestCount
    from tokenbox.providers.memory import ProbeReply
    from tokenbox.providers.server import ServerCount
    from tokenbox.tokenizers.protocol import Tokenizer

Answer = TypeVar("Answer")

# No more threads than can count at once: each has memory of its own.
_COUNTERS = ThreadPoolExecutor(max(2, os.cpu_count() or 2), thread_name_prefix="tokenbox-count")

# Bytes of a body that are counted at once without holding up other requests; more are counted in a thread.
INLINE = 32_768
# Questions to an upstream at a time, for one request of several prompts.
BATCH = 32
# What a server's count of the whole body covers; a large text elsewhere may be read by a server nobody knows.
_IN_WHOLE = frozenset(
    (
        *("messages", "input", "instructions", "system", "tools", "tool_choice", "functions", "thinking"),
        *("response_format", "json_schema", "text", "chat_template_kwargs", "reasoning", "output_config"),
    )
)
_OK = 200
_MISSING = {
    ProbeOutcome.NOT_NOW: "it is not available just now",
    ProbeOutcome.TIMED_OUT: "it did not answer in time",
    ProbeOutcome.NOT_THIS: "it refuses to count this request",
}


class RequestCounting:
    """Counts requests. ``calibration``: what answers reported of earlier counts."""

    def __init__(self, limits: RequestLimits, calibration: Calibration) -> None:
        self._limits = limits
        self._calibration = calibration
        # Tokenizers that have loaded all they need. Loading takes seconds, so it is never done in the loop.
        self._loaded: set[int] = set()

    async def count(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted:
        """The count of the whole. Raises :class:`Refusal` for what cannot be counted at all."""
        try:
            counted, way = await self._count(call, upstream, use)
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message) from None
        unseen = _unseen(call, way)
        if unseen is None:
            return counted
        count = replace(counted.count, exact=False, at_most=MAX_INTEGER)
        return replace(counted, count=count, unseen=unseen)

    async def _count(
        self, call: ApiCall, upstream: Upstream, use: ModelUse
    ) -> tuple[Counted, RequestCount | None]:
        """The count, and the server's way by which it was made, if it was."""
        kind = upstream.kind
        if _is_ids_only(call):
            return await self._ids(call, upstream, use), None
        if use.exact or kind is None or call.protocol.api not in kind.counts:
            return await self._checked(call, upstream, use, await self._here(call, upstream, use)), None
        there = await self._there(call, upstream, use)
        if not isinstance(there, ProbeOutcome):
            counted, way = there
            return await self._checked(call, upstream, use, counted), way
        here = await self._here(call, upstream, use)
        if there is ProbeOutcome.UNSUPPORTED:
            return await self._checked(call, upstream, use, here), None
        missing = f"the upstream {upstream.name!r} counts for {call.model[:100]!r}, and {_MISSING[there]}"
        bounded = await self._bounded(call, use, here.count.total)
        return replace(here, count=replace(here.count, exact=False, at_most=bounded), missing=missing), None

    async def parts(self, call: ApiCall, use: ModelUse) -> tuple[int, ...]:
        """About what each message or prompt is alone."""
        tokenizer = texts_of(use)

        def sizes() -> tuple[int, ...]:
            texts = ["\n".join(texts_in(part)) for part in call.parts]
            ids = [len(part) if _are_ids(part) else 0 for part in call.parts]
            return tuple(map(sum, zip(tokenizer.count_batch(texts), ids, strict=True)))

        return await self._in_time(tokenizer, len(call.data), sizes)

    async def tokens_of(self, call: ApiCall, upstream: Upstream, use: ModelUse, counted: Counted) -> Any:  # noqa: ANN401  # JSON
        """Which tokens a text or a chat is: as many as were counted; None where nobody can say which.

        Raises ``TokenboxError`` for a text that has none, such as half a character.
        """
        text, tokenizer = call.input, texts_of(use)
        if isinstance(text, str) and counted.identity is not None and tokenizer.identity.exact:
            found: object = await asyncio.to_thread(tokenizer.encode, text)
        else:
            found = await _said(call, upstream)
        return found if isinstance(found, list) and len(found) == counted.tokens else None

    def reported(self, upstream: Upstream, call: ApiCall, counted: Counted, tokens: int | None) -> str | None:
        """Compare a count with what the upstream reported. The first difference, in words; else None."""
        if counted.count.largest is not None:
            return None  # servers differ in what they report of several prompts
        key = _key(call, upstream, counted)
        difference = self._calibration.compare(key, counted.count, tokens)
        return None if difference is None else str(difference)

    # Here.

    async def _here(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted:
        """Counted in this process; a long text in a thread, where it holds nobody up."""
        counter = use.counter
        count = await self._in_time(texts_of(use), len(call.data), lambda: count_here(call, use))
        is_own = use.exact or (upstream.kind is not None and upstream.kind.name == "openai")
        if count.exact and not is_own:
            # Of a server that nobody knows, neither the format nor the vocabulary is proven.
            count = replace(count, exact=False, at_most=await self._bounded(call, use, count.total))
        return Counted(count, counter.identity.name, counter.identity)

    async def _bounded(self, call: ApiCall, use: ModelUse, total: int) -> int:
        """What it counts at most, whoever counts: by bytes, unless the model's vocabulary is its own."""
        bound = Bound(use.tokenizer if use.exact else None)
        size = len(call.data)
        return max(total, await self._in_time(texts_of(use), size, lambda: bound.request(_request(call))))

    async def _ids(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted:
        """Tokens, which nobody has to count."""
        sizes = [len(prompt) for prompt in call.prompts]
        largest = max(sizes) if len(sizes) > 1 else None
        counted = Count(sum(sizes), exact=True, at_most=sum(sizes), by=By.TEXT, largest=largest)
        rest = {key: value for key, value in call.body.items() if key != call.protocol.input_key}
        if not costly(rest):
            return Counted(counted, "the request's own tokens", use.counter.identity)
        return await self._here(call, upstream, use)

    # There.

    async def _there(
        self, call: ApiCall, upstream: Upstream, use: ModelUse
    ) -> tuple[Counted, RequestCount] | ProbeOutcome:
        """The upstream's own count; else why there is none."""
        if call.protocol.takes_prompts:
            return await self._prompts_there(call, upstream, use)
        reply = await self._asked(call, upstream, call.body)
        if reply.value is None:
            return reply.outcome
        return await self._completed(call, upstream, use, reply.value, [reply.value.tokens])

    async def _prompts_there(
        self, call: ApiCall, upstream: Upstream, use: ModelUse
    ) -> tuple[Counted, RequestCount] | ProbeOutcome:
        """Each prompt alone, in batches; tokens are counted as they are."""
        prompts = call.prompts
        texts = [prompt for prompt in prompts if isinstance(prompt, str)]
        if not texts or not all(isinstance(prompt, str) or _are_ids(prompt) for prompt in prompts):
            return ProbeOutcome.UNSUPPORTED
        sizes = [len(prompt) for prompt in prompts if not isinstance(prompt, str)]
        way = None
        for start in range(0, len(texts), BATCH):
            bodies = [{"prompt": text, "model": call.model} for text in texts[start : start + BATCH]]
            replies = await asyncio.gather(*(self._asked(call, upstream, body) for body in bodies))
            for reply in replies:
                if reply.value is None:
                    return reply.outcome
                way = reply.value
                sizes.append(reply.value.tokens)
        assert way is not None  # noqa: S101  # there is a text
        return await self._completed(call, upstream, use, way, sizes)

    async def _asked(
        self, call: ApiCall, upstream: Upstream, body: dict[str, Any]
    ) -> ProbeReply[ServerCount]:
        assert upstream.kind is not None  # noqa: S101  # looked at before
        ask = upstream.asks(call.client_auth)
        return await count_request(ask, upstream.kind, call.protocol.api, body, translated=False)

    async def _completed(
        self, call: ApiCall, upstream: Upstream, use: ModelUse, found: ServerCount, sizes: Sequence[int]
    ) -> tuple[Counted, RequestCount]:
        """A server's figure, and what of the request is not in it."""
        source, total = f"{upstream.name}:{found.way.path}", sum(sizes)
        extra, more = self._uncovered(call, use, found)
        largest = max(sizes) + extra if len(sizes) > 1 else None
        if not extra and found.way.exact:
            count = Count(total, exact=True, at_most=total, by=By.SERVER, largest=largest)
            return Counted(count, source), found.way
        at_most = total + more
        if not found.way.exact:
            at_most = await self._bounded(call, use, total + extra)
        count = Count(total + extra, exact=False, at_most=at_most, by=By.SERVER, largest=largest)
        return Counted(count, source), found.way

    @staticmethod
    def _uncovered(call: ApiCall, use: ModelUse, found: ServerCount) -> tuple[int, int]:
        """The tokens of what the server's count leaves out, at best and at most: fields, images and files."""
        extra = more = 0
        sent = _sent(call, found.way)
        rest = {key: value for key, value in call.body.items() if key not in sent}
        if found.way.is_whole and characters_in(list(rest.values())) <= FREE_CHARACTERS:
            return 0, 0
        if fields := costly_fields(rest):
            extra = more = Bound(use.tokenizer).value(fields)
        if found.way.is_whole or found.way.has_media or call.protocol.takes_prompts:
            return extra, more
        if has_marks(call):
            media = sum(len(message.media) for message in _request(call).messages)
            extra, more = extra + media * MEDIA, more + media * PER_MEDIA
        return extra, more

    async def _checked(self, call: ApiCall, upstream: Upstream, use: ModelUse, counted: Counted) -> Counted:
        """Without ``exact``, once a count of the same kind was not what the server reported."""
        count = counted.count
        if (
            not count.exact
            or self._calibration.is_clean
            or self._calibration.trusts(key := _key(call, upstream, counted))
        ):
            return counted
        bound = await self._bounded(call, use, count.total)
        return replace(counted, count=self._calibration.checked(key, count, bound=bound))

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


def _sent(call: ApiCall, way: RequestCount) -> frozenset[str]:
    """The fields of a request that a server's count has."""
    if call.protocol.takes_prompts:
        return frozenset((call.protocol.input_key, "model"))
    return _IN_WHOLE | {"model"} if way.is_whole else frozenset(way.body(call.body))


def _unseen(call: ApiCall, way: RequestCount | None) -> str | None:
    """The input that no count has, in words; None if there is none."""
    if way is None:
        return unseen_input(call)
    return unseen_input(call, _sent(call, way), media=way.is_whole or way.has_media)


def _request(call: ApiCall) -> Request:
    """The request in the one shape. Raises :class:`InvalidMessage`."""
    return read_request(call.body, api=call.protocol.api, strict=False)


def count_here(call: ApiCall, use: ModelUse) -> Count:
    """The count of this process. Where it is not exact, no text of the request counts less than itself."""
    count = _counted(call, use)
    if count.exact:
        return count
    least = least_of(costly(call.body), texts_of(use))
    total, largest = max(count.total, least), count.largest
    if largest is not None and total > count.total:
        largest += total - count.total
    return replace(count, total=total, at_most=max(count.at_most, total), largest=largest)


def _counted(call: ApiCall, use: ModelUse) -> Count:
    request = _request(call)
    try:
        return use.counter.count_request(request)
    except InvalidMessage:
        raise
    except TokenboxError:  # a template may refuse what the server takes
        return MarkersFormat(texts_of(use)).count_request(request)


def texts_of(use: ModelUse) -> Tokenizer:
    """What cuts texts into tokens."""
    return get("two-vocabularies") if use.tokenizer is None else use.tokenizer


def _key(call: ApiCall, upstream: Upstream, counted: Counted) -> CountedFor:
    who = counted.source if counted.identity is None else counted.identity.fingerprint
    return CountedFor(who, call.model, upstream.settings.url)


def _load(tokenizer: Tokenizer) -> None:
    """Whatever the tokenizer would load while it counts."""
    load_fast = getattr(tokenizer, "load_fast", None)
    if load_fast is None:
        tokenizer.count("x")
    else:
        load_fast()


def _are_ids(prompt: object) -> bool:
    return isinstance(prompt, list) and all(type(item) is int for item in prompt)


def _is_ids_only(call: ApiCall) -> bool:
    """Whether the client sends tokens, which nobody has to count."""
    return call.protocol.takes_prompts and all(map(_are_ids, call.prompts))


async def _said(call: ApiCall, upstream: Upstream) -> object:
    """The tokens by the kind's path that says them, maybe of the prompt that another renders first."""
    ways = () if upstream.kind is None else upstream.kind.counts.get(call.protocol.api, ())
    way = next((way for way in ways if way.ids or (way.then is not None and way.then.ids)), None)
    if way is None:
        return None
    status, answer = await upstream.ask(way.path, way.body(call.body), call.client_auth)
    if status == _OK and (then := way.then) is not None:
        body = then.body({"prompt": way.read(answer), "model": call.model})
        way = then
        status, answer = await upstream.ask(way.path, body, call.client_auth)
    return at(answer, str(way.ids)) if status == _OK else None
