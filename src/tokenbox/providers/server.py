"""Ask one server for its kind, counts and limits of a model, and cache what it supports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from tokenbox.catalog import Figure, ModelInfo, ModelLimits
from tokenbox.catalog import model as catalog_model
from tokenbox.providers.errors import (
    AnswerTooLarge,
    InvalidRequest,
    InvalidTarget,
    ModelNotFound,
    ProviderError,
    ServerTimeout,
)
from tokenbox.providers.failures import failure
from tokenbox.providers.kinds import AUTO, UNKNOWN, ServerKind, all_kinds, find_kind
from tokenbox.providers.kinds.kind import FIGURES, RequestCount, Sign
from tokenbox.providers.memory import EndpointMemory, ProbeOutcome, ProbeReply
from tokenbox.providers.shapes import text_at
from tokenbox.providers.transport import FIRST_REFUSAL, Answered, HttpCall, Transport
from tokenbox.records import to_record

if TYPE_CHECKING:
    from tokenbox.content.request import Api
    from tokenbox.providers.target import Target

T = TypeVar("T")

# HTTP statuses by their meaning for a question.
_MISSING_ROUTE: Final = {404, 405, 501}
_NOT_NOW: Final = {408, 425, 429}
_NO_KEY: Final = {401, 403}
# A missing model, and a text that is too large. Any other refusal would recur for the next text.
_SPECIFIC_TO_TEXT: Final = {404, 413}
_OK: Final = 200
_SERVER_ERROR: Final = 500


class Ask(Protocol):
    """Asks a server for a figure: a path, a body, and a function that reads the figure from the answer."""

    def __call__(
        self, path: str, body: object, read: Callable[[object], T | None]
    ) -> Awaitable[ProbeReply[T]]: ...


class Get(Protocol):
    """Gets the answer of a server at a path; to a ``body`` that is posted, if there is one.

    Raises :class:`ProviderError`.
    """

    def __call__(self, path: str, body: object = None) -> Awaitable[Answered]: ...


@dataclass(frozen=True, slots=True)
class ServerCount:
    """A count by a server, and the path that made it."""

    tokens: int
    way: RequestCount


async def count_request(
    ask: Ask, kind: ServerKind, api: Api, body: Mapping[str, Any], *, translated: bool = True
) -> ProbeReply[ServerCount]:
    """Count a request of ``api`` by the first of the kind's paths that the server supports.

    ``translated``: also by paths that count the request of another API.
    """
    for way in kind.counts.get(api, ()):
        if way.is_translated and not translated:
            continue
        try:
            asked = way.body(body)
        except InvalidRequest:  # what the other API has no form for
            return ProbeReply(ProbeOutcome.NOT_THIS)
        found = await ask(way.path, asked, way.read)
        if found.outcome is ProbeOutcome.ANSWERED and way.then is not None:
            prompt = {"prompt": found.value, "model": body.get("model")}
            found = await ask(way.then.path, way.then.body(prompt), way.then.read)
        if found.value is not None:
            return ProbeReply(ProbeOutcome.ANSWERED, ServerCount(found.value, way))
        if found.outcome is not ProbeOutcome.UNSUPPORTED:
            return ProbeReply(found.outcome)
    return ProbeReply(ProbeOutcome.UNSUPPORTED)


def outcome_of(status: int, body: object) -> ProbeOutcome:
    """Return the meaning of a refusal for the question.

    A missing model is not a missing route: the server may support the question for another model.
    """
    if status in _MISSING_ROUTE:
        error = failure(status, body, place="", hide=str)
        return ProbeOutcome.NOT_THIS if isinstance(error, ModelNotFound) else ProbeOutcome.UNSUPPORTED
    return ProbeOutcome.NOT_NOW if status in _NOT_NOW or status >= _SERVER_ERROR else ProbeOutcome.NOT_THIS


@dataclass(frozen=True, slots=True)
class Server:
    """A target, with the transport to ask it and the memory of its answers."""

    target: Target
    transport: Transport
    memory: EndpointMemory

    async def kind(self) -> ServerKind:
        """Return the kind of server; ``auto`` is detected once per endpoint.

        Raises :class:`InvalidTarget` for an unknown kind.
        """
        if self.target.kind != AUTO:
            return find_kind(self.target.kind)

        async def question() -> ProbeReply[ServerKind]:
            return await detect(self.target.root, partial(self.probe, find_kind(UNKNOWN)))

        found = await self.memory.know(self.target.root, "kind", question)
        return find_kind(UNKNOWN) if found is None else found

    def kind_as_known(self) -> ServerKind | None:
        """Return the kind without a request; None if it is not known yet."""
        if self.target.kind != AUTO:
            return find_kind(self.target.kind)
        known = self.memory.fact(self.target.root, "kind")
        return known if isinstance(known, ServerKind) else None

    def call(self, kind: ServerKind, path: str, body: object = None, seconds: float = 0.0) -> HttpCall:
        """Return a call with the headers of that kind. Raises :class:`InvalidTarget`."""
        headers = dict(kind.headers)
        if self.target.key is not None:
            name, scheme = kind.key_header
            headers[name] = scheme + self.target.key.reveal()
        return HttpCall(self.target.root, path, headers, self.target.bounds, body, seconds)

    async def probe(self, kind: ServerKind, path: str, body: object = None) -> Answered:
        """Ask a small question within the time limit for probes. Raises :class:`ProviderError`."""
        return await self.transport.json(self.call(kind, path, body, self.target.bounds.probe_seconds))

    async def ask(
        self, path: str, body: object, read: Callable[[object], T | None], *, what: str | None = None
    ) -> ProbeReply[T]:
        """Ask a question by the rules of :class:`EndpointMemory`, and return the value that ``read`` finds.

        ``what``: the name of the capability, if a path has several. Raises only :class:`InvalidRequest`.
        """
        kind = self.kind_as_known() or find_kind(UNKNOWN)

        async def question() -> ProbeReply[T]:
            try:
                answer = await self.probe(kind, path, body)
            except ServerTimeout:
                return ProbeReply(ProbeOutcome.TIMED_OUT)
            except AnswerTooLarge:
                return ProbeReply(ProbeOutcome.NOT_THIS)
            except ProviderError as error:
                if error.code == "invalid_request":
                    raise
                return ProbeReply(ProbeOutcome.NOT_NOW if error.transient else ProbeOutcome.UNSUPPORTED)
            if answer.status >= FIRST_REFUSAL:
                outcome = outcome_of(answer.status, answer.body)
                is_general = what is not None and answer.status not in _SPECIFIC_TO_TEXT
                if outcome is ProbeOutcome.NOT_THIS and is_general:
                    return ProbeReply(ProbeOutcome.UNSUPPORTED)
                return ProbeReply(outcome)
            value = read(answer.body)
            outcome = ProbeOutcome.UNSUPPORTED if value is None else ProbeOutcome.ANSWERED
            return ProbeReply(outcome, value)

        return await self.memory.ask(self.target.root, path if what is None else what, question)

    def check(self, answer: Answered, path: str, window: int | None = None) -> None:
        """Raise :class:`ProviderError` for a refusal, and for an error in an answer of another status."""
        if answer.status >= FIRST_REFUSAL:
            raise self.error(answer.status, answer.body, path, answer.headers, window)
        if error_inside(answer.body):
            raise self.error(None, answer.body, path, window=window)

    def error(
        self,
        status: int | None,
        body: object,
        path: str,
        headers: Mapping[str, str] | None = None,
        window: int | None = None,
    ) -> ProviderError:
        """Return the error of :func:`failure`, with the key hidden in the server's text."""
        return failure(
            status,
            body,
            place=self.target.root + path,
            hide=self.target.hide,
            headers=headers,
            window=window,
        )


def error_inside(body: object) -> bool:
    """Return whether a body is an error, independent of its status."""
    if not isinstance(body, dict):
        return False
    return body.get("error") is not None or "error" in (body.get("object"), body.get("type"))


async def detect(root: str, get: Get) -> ProbeReply[ServerKind]:
    """Detect the kind of the server at ``root`` by the signs of kinds.

    Known hosts need no request. Otherwise ``/v1/models`` may name the owner of its models; if not, the paths
    of the kinds' own APIs are tried. A server without any sign is OpenAI-compatible. If a question fails for
    now, the outcome is not ANSWERED; it is NOT_THIS if the server tells nothing without a key.
    """
    host = urlsplit(root).hostname or ""
    unknown = find_kind(UNKNOWN)
    named = _by_sign(lambda sign: sign.host == host)
    if named is not None:
        return ProbeReply(ProbeOutcome.ANSWERED, named)
    try:
        return await _detect_by_answers(get)
    except ServerTimeout:
        return ProbeReply(ProbeOutcome.TIMED_OUT, unknown)
    except ProviderError as error:
        return ProbeReply(ProbeOutcome.NOT_NOW if error.transient else ProbeOutcome.ANSWERED, unknown)


async def _detect_by_answers(get: Get) -> ProbeReply[ServerKind]:
    """Return the kind by the server's answers; the unknown kind, and why, if it does not answer."""
    unknown = find_kind(UNKNOWN)
    models = await get("/v1/models")
    if models.status in _NO_KEY:
        return ProbeReply(ProbeOutcome.NOT_THIS, unknown)
    if models.status in _NOT_NOW or (models.status >= _SERVER_ERROR and models.status not in _MISSING_ROUTE):
        return ProbeReply(ProbeOutcome.NOT_NOW, unknown)
    server = models.headers.get("server", "").lower()
    owner = text_at(models.body, "data.0.owned_by")
    shown = _by_sign(lambda sign: sign.server == server and bool(server)) or _by_sign(
        lambda sign: sign.owner == owner and bool(owner)
    )
    if shown is not None:
        return ProbeReply(ProbeOutcome.ANSWERED, shown)
    answers: dict[str, Answered] = {}
    for kind in all_kinds():
        for sign in kind.signs:
            if sign.path is None:
                continue
            if sign.path not in answers:
                answers[sign.path] = await get(sign.path)
            found = answers[sign.path]
            if found.status == _OK and sign.shows(found.body):
                return ProbeReply(ProbeOutcome.ANSWERED, kind)
    return ProbeReply(ProbeOutcome.ANSWERED, unknown)


def _by_sign(matches: Callable[[Sign], bool]) -> ServerKind | None:
    return next((kind for kind in all_kinds() if any(map(matches, kind.signs))), None)


# The limits of a model.


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The limits of a model on a server. An unknown figure is None, never 0.

    ``kind``: the name of the kind of server. ``context_window``: the limit of one request, per slot, as the
    model is loaded. ``trained_window``: the limit of the model itself. ``discovered``: the server's own
    figures, without the catalog's. ``complete``: False if a question failed for now and will be repeated.
    """

    kind: str
    model: str
    context_window: Figure | None = None
    max_input_tokens: Figure | None = None
    max_output_tokens: Figure | None = None
    trained_window: Figure | None = None
    slots: int | None = None
    discovered: ModelLimits = field(default_factory=ModelLimits)
    complete: bool = True

    def to_dict(self) -> dict[str, object]:
        limits = "context_window max_input_tokens max_output_tokens trained_window"
        return to_record(self, f"kind model {limits} slots complete")


async def discover(model: str, kind: ServerKind, get: Get) -> ProbeReply[Capabilities]:
    """Ask a server for the figures of a model. The outcome is NOT_NOW if a question failed for now."""
    found: dict[str, Any] = {}
    complete = True
    for question in kind.questions:
        path = question.path(model)
        try:
            answer = await get(path, None if question.body is None else question.body(model))
        except ProviderError as error:
            complete = complete and not error.transient
            continue
        if answer.status == _OK:
            figures = question.read(answer.body, model)
            found = {name: figure for name, figure in figures.items() if figure is not None} | found
        else:  # a missing model may be installed later
            complete = complete and outcome_of(answer.status, answer.body) is ProbeOutcome.UNSUPPORTED
    if wrong := found.keys() - FIGURES:
        raise InvalidTarget(
            f"the kind of server {kind.name!r} has a figure {min(wrong)!r}; the figures are "
            f"{', '.join(FIGURES)}. Update its package."
        )
    trained, slots = found.pop("trained_window", None), found.pop("slots", None)
    known = Capabilities(
        kind.name,
        model,
        trained_window=trained,
        slots=slots,
        discovered=ModelLimits(**found),
        complete=complete,
    )
    return ProbeReply(ProbeOutcome.ANSWERED if complete else ProbeOutcome.NOT_NOW, known)


def settled(known: Capabilities, target: Target) -> Capabilities:
    """Return the figures by precedence: the user's, else the server's, else the catalog's."""
    model, found = target.model, known.discovered
    stated = None if target.context_window is None else Figure(target.context_window, "configured")
    limits: ModelLimits | ModelInfo | None
    if find_kind(known.kind).in_catalog:
        limits = catalog_model(model, configured={model: ModelLimits(stated)}, discovered={model: found})
    else:
        limits = found if stated is None else replace(found, context_window=stated)
    if limits is None:
        return known
    return replace(
        known,
        context_window=limits.context_window,
        max_input_tokens=limits.max_input_tokens,
        max_output_tokens=limits.max_output_tokens,
    )
