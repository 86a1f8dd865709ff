"""The shared part of the adapters, which only convert messages: fitting, guarding, and reading the usage.

``budget`` is for the whole request with its tools. The default is the input limit of the model: its context
window less the output reserve.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, TypeVar

from tokenbox import api
from tokenbox.catalog.figures import Figure
from tokenbox.compose.requests import Count
from tokenbox.errors import TokenboxError
from tokenbox.integers import token_budget
from tokenbox.models import resolve_figures
from tokenbox.models.resolve import Stated
from tokenbox.policy.guard import GuardLimits, Verdict, guard

_MAX_ATTEMPTS = 4
# The options of `tokenbox.fit` that `tokenbox.count` has, too.
_COUNTING = ("tokenizer", "media_tokens", "markers")
# The fields of OpenAI's and Anthropic's requests that limit the output.
_RESERVES = ("max_completion_tokens", "max_output_tokens", "max_tokens")


Report = Callable[[int | None], None]
T = TypeVar("T")


class OverWindow(TokenboxError, code="over_window"):
    """A request does not fit and was not sent. ``verdict`` has the figures."""

    def __init__(self, verdict: Verdict) -> None:
        limit = verdict.limits.input_limit
        super().__init__(
            f"the request has {verdict.count} tokens, {verdict.over:,} over its limit of {limit:,}. "
            "It was not sent. Remove messages, or fit them with fit=True.",
            **verdict.to_dict(),
        )
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class Fitting:
    """The budget and the model. ``options`` are those of :func:`tokenbox.fit`."""

    budget: int | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def fit(
        self,
        messages: Sequence[Any],
        *,
        head: Sequence[Any] = (),
        tools: Sequence[Mapping[str, Any]] = (),
        model: str | None = None,
        beside: int = 0,
    ) -> list[Any]:
        """Return the messages that fit together with ``head``, which is always kept, as the caller's objects.

        ``model``: the default for this request. ``beside``: tokens of the request outside the messages.
        Raises what :func:`tokenbox.fit` raises, and ``UnknownWindow`` without a budget if the model's window
        is unknown.
        """
        named = self.model or model
        if self.budget is None:
            budget = GuardLimits.of_model(resolve_figures(named)).input_limit
        else:
            budget = token_budget(self.budget)
        given = [*head, *messages]
        room = max(0, budget - beside)
        fitted = api.fit(given, room, model=named, tools=list(tools) or None, **self.options)
        return fitted.messages[len(head) :]


@dataclass(frozen=True, slots=True)
class Called:
    """An answered call: the predicted count, and the input tokens that the server reports."""

    model: str
    predicted: Count
    used: int | None

    @property
    def difference(self) -> int | None:
        """The reported tokens less the predicted ones; None if the server reports none."""
        return None if self.used is None else self.used - self.predicted.total


@dataclass(frozen=True, slots=True)
class Guarding:
    """Counts each request of a client, guards or fits it, and reads its usage.

    ``on_call`` is called after each answered call.
    """

    fitting: Fitting
    fit: bool = False
    on_call: Callable[[Called], object] | None = None

    def checked(
        self, request: Mapping[str, Any], key: str, head: Sequence[Any] = ()
    ) -> tuple[dict[str, Any], Count]:
        """Return the request to send, and its count. ``key``: its field of messages. ``head``: before them.

        Raises :class:`OverWindow`, or what :meth:`Fitting.fit` raises.
        """
        sent = {name: value for name, value in request.items() if _is_given(value)}
        count = self._count(sent)
        limits = self._limits(sent)
        verdict = guard(count, limits)
        if verdict.ok:
            return dict(request), count
        if not self.fit or not isinstance(sent.get(key), list):
            raise OverWindow(verdict)
        room = limits.input_limit
        for _ in range(_MAX_ATTEMPTS):  # the guard adds a margin to an estimate
            within = replace(self.fitting, budget=room)
            messages = within.fit(
                sent[key], head=head, tools=sent.get("tools") or (), model=sent.get("model")
            )
            count = self._count({**sent, key: messages})
            verdict = guard(count, limits)
            if verdict.ok:
                return {**request, key: messages}, count
            room = min(room, count.total) - verdict.over
        raise OverWindow(verdict)

    def answered(self, request: Mapping[str, Any], count: Count, used: int | None) -> None:
        if self.on_call is not None:
            self.on_call(Called(str(request.get("model")), count, used))

    def kept_by(self, client: T, guarded: Callable[..., T]) -> T:
        """Return the client, whose own copies (``with_options``) are guarded alike."""
        copied, fitting = client.copy, self.fitting  # type: ignore[attr-defined]  # of both SDKs

        def copy(**changes: Any) -> T:
            return guarded(
                copied(**changes),
                fitting.budget,
                model=fitting.model,
                fit=self.fit,
                on_call=self.on_call,
                **fitting.options,
            )

        client.copy = client.with_options = copy  # type: ignore[attr-defined]
        return client

    def _count(self, request: Mapping[str, Any]) -> Count:
        options = {name: self.fitting.options[name] for name in _COUNTING if name in self.fitting.options}
        return api.count(request, self.fitting.model, **options)

    def _limits(self, request: Mapping[str, Any]) -> GuardLimits:
        if self.fitting.budget is not None:
            return GuardLimits.of(self.fitting.budget)
        reserves = [request[name] for name in _RESERVES if isinstance(request.get(name), int)]
        stated = Stated(output_reserve=Figure(reserves[0], "the request")) if reserves else Stated()
        return GuardLimits.of_model(resolve_figures(self.fitting.model or request.get("model"), call=stated))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of a client. ``key``: the field with the messages. ``head``: the messages before them.

    ``used``: returns the input tokens in an answer or an event, or None.
    """

    path: str
    key: str
    head: Callable[[Mapping[str, Any]], Sequence[Any]]
    used: Callable[[Any], int | None]

    def guard(self, resource: Any, guarding: Guarding, *, is_async: bool) -> None:
        """Let the methods of ``resource`` (``create``, ``parse``, ``stream``) send only requests that fit."""
        post = resource._post  # noqa: SLF001  # the same in both SDKs; every method sends with it

        def checked(options: dict[str, Any]) -> tuple[dict[str, Any], Report]:
            further = dict(options.get("options") or {})
            body = {**options["body"], **(further.pop("extra_json", None) or {})}
            sent, count = guarding.checked(body, self.key, self.head(body))
            return {**options, "body": sent, "options": further}, partial(guarding.answered, sent, count)

        @wraps(post)
        def guarded(path: str, **options: Any) -> Any:
            if path.partition("?")[0] != self.path:
                return post(path, **options)
            sent, report = checked(options)
            return self._observed(post(path, **sent), report)

        @wraps(post)
        async def guarded_async(path: str, **options: Any) -> Any:
            if path.partition("?")[0] != self.path:
                return await post(path, **options)
            sent, report = checked(options)
            return self._observed(await post(path, **sent), report)

        resource._post = guarded_async if is_async else guarded  # noqa: SLF001  # as above

    def _observed(self, answer: Any, report: Report) -> Any:
        """Report the usage of an answer, or that of a stream at its end. Return the answer itself."""
        events = getattr(answer, "_iterator", None)
        if events is None:
            report(self.used(answer))
        elif hasattr(events, "__anext__"):
            answer._iterator = self._tapped_async(events, report)  # noqa: SLF001  # the same in both SDKs
        else:
            answer._iterator = self._tapped(events, report)  # noqa: SLF001  # the same in both SDKs
        return answer

    def _tapped(self, events: Iterator[Any], report: Report) -> Iterator[Any]:
        found = None
        for event in events:
            used = self.used(event)
            found = found if used is None else used
            yield event
        report(found)

    async def _tapped_async(self, events: AsyncIterator[Any], report: Report) -> AsyncIterator[Any]:
        found = None
        async for event in events:
            used = self.used(event)
            found = found if used is None else used
            yield event
        report(found)


def function_schema(name: str, description: str | None, parameters: object) -> dict[str, Any]:
    """Return a tool as OpenAI's chat API takes it."""
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def _is_given(value: object) -> bool:
    """Return True if a client sends the value; the SDKs mark omitted arguments with objects of their own."""
    return value is not None and type(value).__name__ not in {"NotGiven", "Omit"}
