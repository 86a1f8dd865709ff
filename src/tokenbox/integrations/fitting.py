"""The shared part of the adapters, which only convert messages: fitting, guarding, and reading the usage.

``budget`` is for the whole request with its tools. The default is the input limit of the model: its context
window less the output reserve.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar
from urllib.parse import urlsplit

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
# The fields of OpenAI's and Anthropic's requests that limit the output. Servers differ in which they heed.
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


class NotGuarded(TokenboxError, code="not_guarded"):
    """A guarded client was asked to send requests that cannot be counted before. It sent nothing."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} sends requests that cannot be counted here, so nothing was sent. "
            "Use the client that you gave to guarded()."
        )


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
        tools: Iterable[object] = (),
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
        self, request: Mapping[str, Any], key: str | None, head: Sequence[Any] = ()
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
        if not self.fit or key is None or not isinstance(sent.get(key), list):
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
            if room < 0:  # what is beside the messages does not fit
                break
        raise OverWindow(verdict)

    def answered(self, request: Mapping[str, Any], count: Count, used: int | None) -> None:
        if self.on_call is not None:
            self.on_call(Called(str(request.get("model")), count, used))

    def guard(self, client: T, endpoints: Mapping[str, Endpoint | None], guarded: Callable[..., T]) -> T:
        """Let the client send only requests that fit, and its own copies (``with_options``) too. Return it.

        Every method of both SDKs sends with ``client.request``. ``endpoints`` are by the ends of their paths,
        None for those whose requests cannot be counted, which are refused.
        """
        given: Any = client
        send, copied = given.request, given.copy

        @wraps(send)
        def request(cast_to: Any, options: Any, **more: Any) -> Any:
            sent, observed = self._checked(options, endpoints)
            return observed(send(cast_to, sent, **more))

        @wraps(send)
        async def request_async(cast_to: Any, options: Any, **more: Any) -> Any:
            sent, observed = self._checked(options, endpoints)
            return observed(await send(cast_to, sent, **more))

        def copy(**changes: Any) -> T:
            return guarded(
                copied(**changes),
                self.fitting.budget,
                model=self.fitting.model,
                fit=self.fit,
                on_call=self.on_call,
                **self.fitting.options,
            )

        given.request = request_async if iscoroutinefunction(send) else request
        given.copy = given.with_options = copy
        return client

    def _checked(
        self, options: Any, endpoints: Mapping[str, Endpoint | None]
    ) -> tuple[Any, Callable[[Any], Any]]:
        """Return the options of a request to send, and a function that reads the usage of its answer.

        Raises :class:`OverWindow`, :class:`NotGuarded`, or what :meth:`Fitting.fit` raises.
        """
        path = "/" + urlsplit(str(options.url)).path.strip("/")
        end = next((end for end in endpoints if path.endswith(f"/{end}")), None)
        if end is None or options.method.lower() != "post":
            return options, lambda answer: answer
        endpoint, body = endpoints[end], options.json_data
        if endpoint is None or not isinstance(body, Mapping):
            raise NotGuarded(f"POST {path}")
        given = {**body, **(options.extra_json or {})}
        # An iterator would be empty after it was counted.
        whole = {name: list(value) if isinstance(value, Iterator) else value for name, value in given.items()}
        sent, count = self.checked(whole, endpoint.key, endpoint.head(whole))
        options = shallow_copy(options)
        options.json_data, options.extra_json = sent, None
        return options, partial(endpoint.observed, report=partial(self.answered, sent, count))

    def _count(self, request: Mapping[str, Any]) -> Count:
        options = {name: self.fitting.options[name] for name in _COUNTING if name in self.fitting.options}
        return api.count(request, self.fitting.model, **options)

    def _limits(self, request: Mapping[str, Any]) -> GuardLimits:
        if self.fitting.budget is not None:
            return GuardLimits.of(self.fitting.budget)
        reserves = [request[name] for name in _RESERVES if isinstance(request.get(name), int)]
        stated = Stated(output_reserve=Figure(max(reserves), "the request")) if reserves else Stated()
        return GuardLimits.of_model(resolve_figures(self.fitting.model or request.get("model"), call=stated))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of a client.

    ``used`` returns the input tokens in an answer or an event, or None. ``key`` is the field of the messages,
    and ``system`` that of a system prompt beside them; None if requests have no such field.
    """

    used: Callable[[Any], int | None]
    key: str | None = None
    system: str | None = None

    def head(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the system prompt of a request as messages."""
        text = None if self.system is None else request.get(self.system)
        return [{"role": "system", "content": text}] if isinstance(text, str | list) else []

    def observed(self, answer: Any, report: Report) -> Any:
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


def refuse(resource: Any, method: str, what: str) -> None:
    """Let a method of a client's resource, if it has it, raise :class:`NotGuarded`."""

    def refused(*_: Any, **__: Any) -> Any:
        raise NotGuarded(what)

    if hasattr(resource, method):
        setattr(resource, method, refused)


def _is_given(value: object) -> bool:
    """Return True if a client sends the value; the SDKs mark omitted arguments with objects of their own."""
    return value is not None and type(value).__name__ not in {"NotGiven", "Omit"}
