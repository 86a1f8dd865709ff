"""One server: what kind it is, what it counts, what it says of a model; answers are remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from tokenbox.providers.errors import (
    AnswerTooLarge,
    ModelNotFound,
    ProviderError,
    ServerTimeout,
)
from tokenbox.providers.failures import failure
from tokenbox.providers.kinds import AUTO, UNKNOWN, ServerKind, all_kinds, find_kind
from tokenbox.providers.memory import EndpointMemory, ProbeOutcome, ProbeReply
from tokenbox.providers.shapes import text_at
from tokenbox.providers.transport import FIRST_REFUSAL, Answered, HttpCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tokenbox.content.request import Api
    from tokenbox.providers.kinds.kind import RequestCount
    from tokenbox.providers.target import Target
    from tokenbox.providers.transport import Transport

T = TypeVar("T")

# What a status says of a question; 200 is for the reader of the answer to say.
_MISSING_ROUTE: Final = {404, 405, 501}
_NOT_NOW: Final = {408, 425, 429}
_NO_KEY: Final = {401, 403}
_OK: Final = 200
_SERVER_ERROR: Final = 500


class Ask(Protocol):
    """Asks a server for a figure: a path, a body, and where the figure is in the answer."""

    def __call__(
        self, path: str, body: object, read: Callable[[object], T | None]
    ) -> Awaitable[ProbeReply[T]]: ...


@dataclass(frozen=True, slots=True)
class ServerCount:
    """A count that a server made: of the tokens, by what path of its kind."""

    tokens: int
    way: RequestCount


async def count_request(
    ask: Ask, kind: ServerKind, api: Api, body: Mapping[str, Any], *, translated: bool = True
) -> ProbeReply[ServerCount]:
    """The count of a request of ``api``, by the first of the kind's paths that the server has.

    ``translated``: also by the count of another API. UNSUPPORTED only if it has none of them.
    """
    last: ProbeReply[ServerCount] = ProbeReply(ProbeOutcome.UNSUPPORTED)
    for way in kind.counts.get(api, ()):
        if way.is_translated and not translated:
            continue
        found = await ask(way.path, way.body(body), way.read)
        if found.outcome is ProbeOutcome.ANSWERED and way.then is not None:
            prompt = {"prompt": found.value, "model": body.get("model")}
            found = await ask(way.then.path, way.then.body(prompt), way.then.read)
        if found.value is not None:
            return ProbeReply(ProbeOutcome.ANSWERED, ServerCount(found.value, way))
        if found.outcome is not ProbeOutcome.UNSUPPORTED:
            return ProbeReply(found.outcome)
    return last


def outcome_of(status: int, body: object) -> ProbeOutcome:
    """What a refusal means for the question.

    A missing model is not a missing route: another model of this server may do.
    """
    if status in _MISSING_ROUTE:
        error = failure(status, body, place="", hide=str)
        return ProbeOutcome.NOT_THIS if isinstance(error, ModelNotFound) else ProbeOutcome.UNSUPPORTED
    return ProbeOutcome.NOT_NOW if status in _NOT_NOW or status >= _SERVER_ERROR else ProbeOutcome.NOT_THIS


@dataclass(frozen=True, slots=True)
class Server:
    """A target, and the means to ask it."""

    target: Target
    transport: Transport
    memory: EndpointMemory

    async def kind(self) -> ServerKind:
        """The kind of server; for ``auto`` it is found out once per endpoint.

        Raises :class:`InvalidTarget` for a kind that there is not.
        """
        if self.target.kind != AUTO:
            return find_kind(self.target.kind)

        async def question() -> ProbeReply[ServerKind]:
            return await detect(self.target.root, lambda path: self.probe(find_kind(UNKNOWN), path))

        found = await self.memory.know(self.target.root, "kind", question)
        return find_kind(UNKNOWN) if found is None else found

    def kind_as_known(self) -> ServerKind | None:
        """The kind, without asking; None if it is not known."""
        if self.target.kind != AUTO:
            return find_kind(self.target.kind)
        known = self.memory.fact(self.target.root, "kind")
        return known if isinstance(known, ServerKind) else None

    def call(self, kind: ServerKind, path: str, body: object = None, seconds: float = 0.0) -> HttpCall:
        """A call with the headers of that kind. Raises :class:`InvalidTarget`."""
        headers = dict(kind.headers)
        if self.target.key is not None:
            name, scheme = kind.key_header
            headers[name] = scheme + self.target.key.reveal()
        return HttpCall(self.target.root, path, headers, self.target.bounds, body, seconds)

    async def probe(self, kind: ServerKind, path: str, body: object = None) -> Answered:
        """The answer to a small question, within the time for those. Raises :class:`ProviderError`."""
        return await self.transport.json(self.call(kind, path, body, self.target.bounds.probe_seconds))

    async def ask(
        self, path: str, body: object, read: Callable[[object], T | None], *, what: str | None = None
    ) -> ProbeReply[T]:
        """What ``read`` finds in the answer, under the rules of :class:`EndpointMemory`.

        ``what`` names the capability, where a path has several. Raises only :class:`InvalidRequest`.
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
                if (
                    outcome is ProbeOutcome.NOT_THIS
                    and what is not None
                    and answer.status not in _OF_THIS_TEXT
                ):
                    return ProbeReply(ProbeOutcome.UNSUPPORTED)
                return ProbeReply(outcome)
            value = read(answer.body)
            return (
                ProbeReply(ProbeOutcome.UNSUPPORTED)
                if value is None
                else ProbeReply(ProbeOutcome.ANSWERED, value)
            )

        return await self.memory.ask(self.target.root, path if what is None else what, question)

    def refusal(self, answer: Answered, path: str, window: int | None = None) -> ProviderError:
        """The error that a refusal is."""
        return self.error(answer.status, answer.body, path, answer.headers, window)

    def error(
        self,
        status: int | None,
        body: object,
        path: str,
        headers: Mapping[str, str] | None = None,
        window: int | None = None,
    ) -> ProviderError:
        """See :func:`failure`; the key is hidden in whatever the server says."""
        return failure(
            status,
            body,
            place=self.target.root + path,
            hide=self.target.hide,
            headers=headers,
            window=window,
        )


# A text that is too large, or a model that is not there. Whatever else is refused of one text is refused of
# the next.
_OF_THIS_TEXT: Final = {404, 413}


async def detect(root: str, get: Callable[[str], Awaitable[Answered]]) -> ProbeReply[ServerKind]:
    """The kind of the server at ``root``, by the signs that kinds have. ``get`` asks for a path.

    Hosts that are known by name are not asked. Then ``/v1/models`` says who owns the models it lists; where
    it does not, the servers with an API of their own are asked for it. Whatever shows none of that is
    OpenAI-compatible, as nearly everything is. Where a question could not be asked, so it is for now, and
    the outcome is not ANSWERED.
    """
    host = urlsplit(root).hostname or ""
    unknown = find_kind(UNKNOWN)
    named = _by_sign(lambda sign: sign.host == host)
    if named is not None:
        return ProbeReply(ProbeOutcome.ANSWERED, named)
    try:
        kind = await _asked(get)
    except ServerTimeout:
        return ProbeReply(ProbeOutcome.TIMED_OUT, unknown)
    except ProviderError as error:
        return ProbeReply(ProbeOutcome.NOT_NOW if error.transient else ProbeOutcome.ANSWERED, unknown)
    return (
        ProbeReply(ProbeOutcome.NOT_NOW, unknown) if kind is None else ProbeReply(ProbeOutcome.ANSWERED, kind)
    )


async def _asked(get: Callable[[str], Awaitable[Answered]]) -> ServerKind | None:
    """The kind by what the server answers; None if it will not say now."""
    models = await get("/v1/models")
    if models.status in _NOT_NOW | _NO_KEY or (
        models.status >= _SERVER_ERROR and models.status not in _MISSING_ROUTE
    ):
        return None
    server = models.headers.get("server", "").lower()
    owner = text_at(models.body, "data.0.owned_by")
    shown = _by_sign(lambda sign: sign.server == server and bool(server)) or _by_sign(
        lambda sign: sign.owner == owner and bool(owner)
    )
    if shown is not None:
        return shown
    answers: dict[str, Answered] = {}
    for kind in all_kinds():
        for sign in kind.signs:
            if sign.path is None:
                continue
            if sign.path not in answers:
                answers[sign.path] = await get(sign.path)
            found = answers[sign.path]
            if found.status == _OK and sign.shows(found.body):
                return kind
    return find_kind(UNKNOWN)


def _by_sign(is_it: Callable[[Any], bool]) -> ServerKind | None:
    return next((kind for kind in all_kinds() if any(map(is_it, kind.signs))), None)
