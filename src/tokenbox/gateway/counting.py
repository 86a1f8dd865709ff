"""Count a request as its upstream will.

A model's own files, which the operator named, count locally. Else the upstream's endpoint is asked, if its
kind has one. Else the model's counter estimates. If an upstream that counts does not answer, the count is
marked as an estimate with its reason, and the guard decides on the upper bound.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from tokenbox.compose.bound import PER_MEDIA, Bound
from tokenbox.compose.lower_bound import lower_bound, payload_tokens
from tokenbox.compose.requests import NO_BOUND, By, Count
from tokenbox.content.parts import media_in, texts_in
from tokenbox.content.request import FREE_CHARACTERS, characters_in, costly, costly_fields
from tokenbox.conversation.calibration import Calibration, CountedFor
from tokenbox.conversation.image_costs import MEDIA, image_cost, media_estimate
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admission import Counted
from tokenbox.gateway.calls import ApiCall, parse_body
from tokenbox.gateway.local_counts import at_least_its_texts, count_locally, request_of, text_tokenizer
from tokenbox.gateway.refusals import Refusal
from tokenbox.providers.memory import ProbeOutcome
from tokenbox.providers.plausible import LONGEST_TOKEN, is_possible
from tokenbox.providers.server import ServerCount, count_request
from tokenbox.providers.shapes import at

if TYPE_CHECKING:
    from tokenbox.gateway.settings import RequestLimits
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.models import ModelUse
    from tokenbox.providers.kinds.kind import RequestCount, ServerKind
    from tokenbox.tokenizers.protocol import Tokenizer

T = TypeVar("T")

# One thread per processor: more would only take more memory.
_COUNTERS = ThreadPoolExecutor(max(2, os.cpu_count() or 2), thread_name_prefix="tokenbox-count")

# Bytes of a body that is counted in the event loop; larger ones are counted in a thread.
INLINE = 32_768
# Concurrent counts at an upstream for one request of several prompts.
BATCH = 32
# Fields that a server's count of the whole body covers. Large texts in other fields may be read by a server
# of an unknown kind.
_COVERED = frozenset(
    """
    messages input instructions system tools tool_choice functions thinking response_format json_schema
    text chat_template_kwargs reasoning output_config
    """.split()
)
_OK = 200
_ADDRESS_IN_TEXT = re.compile(r"\]\((?:https?:|data:)", re.IGNORECASE)
_MISSING = {
    ProbeOutcome.NOT_NOW: "it is not available",
    ProbeOutcome.TIMED_OUT: "it did not answer in time",
    ProbeOutcome.NOT_THIS: "it refuses to count this request",
}


class RequestCounting:
    """Counts requests. ``calibration`` compares counts with the usage that upstreams report."""

    def __init__(self, limits: RequestLimits, calibration: Calibration) -> None:
        self._limits = limits
        self.calibration = calibration
        # Tokenizers that are loaded. Loading takes seconds, so it never runs in the event loop.
        self._loaded: set[int] = set()
        self._loading: dict[int, Future[None]] = {}

    async def load(self, tokenizer: Tokenizer) -> None:
        """Load the tokenizer in a thread, once. Raises ``TokenboxError``."""
        key = id(tokenizer)
        if key in self._loaded:
            return
        loading = self._loading.get(key)
        if loading is None or loading.done():
            loading = self._loading[key] = Future()
            loading.set_running_or_notify_cancel()  # one request that leaves does not cancel it for all
            # The end of the process does not wait for a daemon, as it does for the threads of a pool.
            Thread(target=_load_into, args=(loading, tokenizer), name="tokenbox-load", daemon=True).start()
        await asyncio.wrap_future(loading)
        self._loaded.add(key)

    async def count(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted:
        """Count the request. Raises :class:`Refusal` if it cannot be counted at all."""
        try:
            found, way = await _CallCounting(self, call, upstream, use).count()
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message) from None
        counted = await parse_body(call.data, lambda: _with_images_in_text(call, upstream, found))
        unseen = await parse_body(call.data, lambda: _unseen(call, way))
        if unseen is None:
            return counted
        count = replace(counted.count, exact=False, at_most=NO_BOUND)
        return replace(counted, count=count, unseen=unseen)

    async def parts(self, call: ApiCall, use: ModelUse) -> tuple[int, ...]:
        """Return the approximate size of each message or prompt alone."""
        tokenizer, rule = text_tokenizer(use), image_cost(use.model)

        def size(part: object) -> int:
            if _are_ids(part):
                return len(part)
            if isinstance(part, dict) and (media := media_estimate(part, rule)):  # its data is no text
                return media + lower_bound(part, tokenizer)
            return tokenizer.count("\n".join(texts_in(part)))

        return await self.run_bounded(tokenizer, len(call.data), lambda: tuple(map(size, call.parts)))

    async def tokens_of(self, call: ApiCall, upstream: Upstream, use: ModelUse, counted: Counted) -> Any:  # noqa: ANN401  # JSON
        """Return the tokens of a text or a chat; None if they are unknown or differ from the count in number.

        Raises ``TokenboxError`` for a text that cannot be tokenized, such as a lone surrogate.
        """
        text, tokenizer = call.input, text_tokenizer(use)
        if isinstance(text, str) and counted.identity is not None and tokenizer.identity.exact:
            found: object = await asyncio.to_thread(tokenizer.encode, text)
        else:
            found = await _upstream_tokens(call, upstream)
        return found if isinstance(found, list) and len(found) == counted.tokens else None

    def reported(self, upstream: Upstream, call: ApiCall, counted: Counted, tokens: int | None) -> str | None:
        """Compare a count with the reported usage. Returns the first difference, in words, else None."""
        if counted.count.largest is not None:
            return None  # servers report the usage of several prompts differently
        difference = self.calibration.compare(_key(call, upstream, counted), counted.count, tokens)
        return None if difference is None else str(difference)

    async def run_bounded(self, tokenizer: Tokenizer, size: int, work: Callable[[], T]) -> T:
        """Return ``work()``, in a thread and bounded in time unless it is quick."""
        try:
            if size <= INLINE and id(tokenizer) in self._loaded:
                return work()
            await self.load(tokenizer)  # before the deadline, which bounds what a client sends
            async with asyncio.timeout(self._limits.count_seconds):
                return await asyncio.get_running_loop().run_in_executor(_COUNTERS, work)
        except TimeoutError:
            raise Refusal(
                400,
                "count_timeout",
                f"Counting took more than {self._limits.count_seconds:g} seconds. Send less at once.",
            ) from None
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message) from None


@dataclass(frozen=True, slots=True)
class _CallCounting:
    """Counts one request, as its upstream will."""

    counting: RequestCounting
    call: ApiCall
    upstream: Upstream
    use: ModelUse

    async def count(self) -> tuple[Counted, RequestCount | None]:
        """Return the count, and the server's way of counting if a server counted."""
        call, upstream, use = self.call, self.upstream, self.use
        if _is_ids_only(call):
            return await self._of_ids(), None
        if upstream.is_silent and not use.exact:
            missing = f"the upstream {upstream.name!r} does not answer, so whether it counts is unknown"
            return await self._bounded(missing), None
        if use.exact or upstream.kind is None or call.protocol.api not in upstream.kind.counts:
            return await self._calibrated(await self._here()), None
        found = await self._by_upstream(upstream.kind)
        if found is ProbeOutcome.UNSUPPORTED:
            return await self._calibrated(await self._here()), None
        if isinstance(found, ProbeOutcome):
            missing = f"the upstream {upstream.name!r} counts for {call.model[:100]!r}, and {_MISSING[found]}"
        else:
            counted, way = found
            # Few tokens can hold all of a small request, or what a model reads of it.
            is_small = len(call.data) <= LONGEST_TOKEN * counted.tokens
            if is_small or is_possible(call.protocol.api, call.body, counted.tokens):
                return await self._calibrated(counted), way
            missing = f"the upstream {upstream.name!r} counts {counted.tokens} tokens, too few for its text"
        return await self._bounded(missing), None

    # In this process.

    async def _here(self) -> Counted:
        """Count in this process, in a thread if the request is large."""
        count = await self._run(lambda: count_locally(self.call, self.use))
        identity = self.use.counter.identity
        return Counted(count, identity.name, identity)

    async def _bounded(self, missing: str) -> Counted:
        """Count locally in place of a server that did not. The upper bound decides then."""
        local = await self._here()
        bound = await self._upper_bound(local.count.total)
        return replace(local, count=replace(local.count, exact=False, at_most=bound), missing=missing)

    async def _of_ids(self) -> Counted:
        """Count a request of token ids: the ids, and the other fields if they may cost tokens."""
        sizes = [len(prompt) for prompt in self.call.prompts]
        largest = max(sizes) if len(sizes) > 1 else None
        rest = {key: value for key, value in self.call.body.items() if key != self.call.protocol.input_key}
        if costly(rest):
            return await self._here()
        counted = Count(sum(sizes), exact=True, at_most=sum(sizes), by=By.TEXT, largest=largest)
        return Counted(counted, "the request's own tokens", self.use.counter.identity)

    async def _upper_bound(self, total: int) -> int:
        """Return the upper bound of any count: by bytes, unless the vocabulary is known to be the model's."""
        bound = Bound(self.use.tokenizer if self.use.exact else None)
        return max(total, await self._run(lambda: bound.request(request_of(self.call))))

    async def _calibrated(self, counted: Counted) -> Counted:
        """Mark the count as an estimate if an earlier count of its kind differed from the reported usage."""
        count, calibration = counted.count, self.counting.calibration
        if not count.exact or calibration.is_clean:
            return counted
        key = _key(self.call, self.upstream, counted)
        if calibration.trusts(key):
            return counted
        count = calibration.checked(key, count, bound=await self._upper_bound(count.total))
        if counted.identity is not None:  # counted here, by rules that are not the server's
            estimate = count
            count = await self._run(lambda: at_least_its_texts(estimate, self.call, self.use))
        return replace(counted, count=count)

    async def _run(self, work: Callable[[], T]) -> T:
        return await self.counting.run_bounded(text_tokenizer(self.use), len(self.call.data), work)

    # By the upstream.

    async def _by_upstream(self, kind: ServerKind) -> tuple[Counted, RequestCount] | ProbeOutcome:
        """Ask the upstream for its count: of each prompt alone. Returns the reason if it does not count.

        Prompts of token ids are not sent.
        """
        call = self.call
        bodies, sizes = [call.body], []
        if call.protocol.takes_prompts:
            texts = [prompt for prompt in call.prompts if isinstance(prompt, str)]
            sizes = [len(prompt) for prompt in call.prompts if _are_ids(prompt)]
            if not texts or len(texts) + len(sizes) < len(call.prompts):
                return ProbeOutcome.UNSUPPORTED
            bodies = [{"prompt": text, "model": call.model} for text in texts]
        ask, api = self.upstream.prober(call.model, call.client_auth), call.protocol.api
        found: ServerCount | None = None
        for start in range(0, len(bodies), BATCH):
            asked = [
                count_request(ask, kind, api, one, translated=False) for one in bodies[start : start + BATCH]
            ]
            # Most requests ask for one count, often of a server that is known to count none: without a task.
            for reply in [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked):
                if reply.value is None:
                    return reply.outcome
                found = reply.value
                sizes.append(found.tokens)
        assert found is not None  # noqa: S101  # there is a body
        return await self._with_uncovered(found.way, sizes)

    async def _with_uncovered(self, way: RequestCount, sizes: Sequence[int]) -> tuple[Counted, RequestCount]:
        """Add to a server's figure what it does not cover."""
        extra, extra_at_most = await self._run(lambda: self._uncovered(way))
        total = sum(sizes) + extra
        exact = not extra and way.exact
        if exact:
            at_most = total
        elif way.exact:
            at_most = sum(sizes) + extra_at_most
        else:
            at_most = await self._upper_bound(total)
        largest = max(sizes) + extra if len(sizes) > 1 else None
        count = Count(total, exact, at_most, By.SERVER, largest)
        return Counted(count, f"{self.upstream.name}:{way.path}"), way

    def _uncovered(self, way: RequestCount) -> tuple[int, int]:
        """Return the tokens that a server's count lacks, estimated and at most: fields, images and files."""
        call = self.call
        extra = at_most = 0
        covered = _covered_fields(call, way)
        rest = {key: value for key, value in call.body.items() if key not in covered}
        is_free = way.is_whole and characters_in(list(rest.values())) <= FREE_CHARACTERS
        if not is_free and (fields := costly_fields(rest)):
            extra = at_most = Bound(self.use.tokenizer).value(fields)
        if way.has_media or call.protocol.takes_prompts or not _may_have_media(call):
            return extra, at_most
        payload, media = payload_tokens(call.input), media_estimate(call.input, image_cost(self.use.model))
        return extra + media + payload, at_most + max(media, media_in(call.input) * PER_MEDIA) + payload


def _with_images_in_text(call: ApiCall, upstream: Upstream, counted: Counted) -> Counted:
    """Add the images that such a server finds in texts, at their addresses: ``![...](https:...)``.

    There are no more of them than of their beginnings, nor than of addresses. To match them whole would take
    a time quadratic in a text of beginnings.
    """
    if upstream.kind is None or not upstream.kind.fetches_images_in_text or b"![" not in call.data:
        return counted
    images = sum(min(text.count("!["), len(_ADDRESS_IN_TEXT.findall(text))) for text in texts_in(call.input))
    if not images:
        return counted
    count = counted.count
    total, at_most = count.total + images * MEDIA, count.at_most + images * PER_MEDIA
    return replace(counted, count=replace(count, total=total, exact=False, at_most=at_most))


def _covered_fields(call: ApiCall, way: RequestCount) -> frozenset[str]:
    """Return the fields of a request that a server's count covers."""
    if call.protocol.takes_prompts:
        return frozenset((call.protocol.input_key, "model"))
    return _COVERED | {"model"} if way.is_whole else frozenset(way.body(call.body))


def _unseen(call: ApiCall, way: RequestCount | None) -> str | None:
    """Return the input that was not counted, in words; None if everything was."""
    if way is None:
        return call.unseen()
    covered = _covered_fields(call, way)
    if way.is_whole:  # such a server counts what it will render
        covered |= {"chat_template"}
    return call.unseen(covered, media=way.has_media)


def _may_have_media(call: ApiCall) -> bool:
    """Whether its messages may have images, files or references.

    Each of these parts has a ``type``, and the key may be written with escapes.
    """
    data = call.data
    return b'type"' in data or b"\\u" in data


def _key(call: ApiCall, upstream: Upstream, counted: Counted) -> CountedFor:
    counter = counted.source if counted.identity is None else counted.identity.fingerprint
    return CountedFor(counter, call.model, upstream.settings.url)


def _load_into(loading: Future[None], tokenizer: Tokenizer) -> None:
    try:
        _load(tokenizer)
    except BaseException as error:  # noqa: BLE001  # raised where it is waited for
        loading.set_exception(error)
    else:
        loading.set_result(None)


def _load(tokenizer: Tokenizer) -> None:
    """Load what the tokenizer would load while it counts."""
    load = getattr(tokenizer, "load_fast", None) or partial(tokenizer.count, "x")
    load()


def _are_ids(prompt: object) -> TypeGuard[list[int]]:
    return isinstance(prompt, list) and all(type(item) is int for item in prompt)


def _is_ids_only(call: ApiCall) -> bool:
    """Whether all prompts are token ids."""
    return call.protocol.takes_prompts and all(map(_are_ids, call.prompts))


async def _upstream_tokens(call: ApiCall, upstream: Upstream) -> object:
    """Ask the upstream for the tokens, of the text or of the prompt that it renders from a chat."""
    ways = () if upstream.kind is None else upstream.kind.counts.get(call.protocol.api, ())
    way = next((way for way in ways if way.ids or (way.then is not None and way.then.ids)), None)
    if way is None:
        return None
    status, answer = await upstream.json(way.path, way.body(call.body), call.client_auth)
    if status == _OK and (then := way.then) is not None:
        body = then.body({"prompt": way.read(answer), "model": call.model})
        way = then
        status, answer = await upstream.json(way.path, body, call.client_auth)
    return at(answer, str(way.ids)) if status == _OK else None
