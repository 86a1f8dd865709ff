"""One server, as a target sees it: calls with the right headers, questions with answers remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from tokenbox.providers.detection import detect
from tokenbox.providers.errors import (
    AnswerTooLarge,
    ModelNotFound,
    ProviderError,
    ServerTimeout,
)
from tokenbox.providers.failures import failure
from tokenbox.providers.kinds import ROWS, Kind
from tokenbox.providers.memory import EndpointMemory, Outcome, Reply
from tokenbox.providers.transport import FIRST_REFUSAL, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.providers.target import Target
    from tokenbox.providers.transport import Answered, Transport

T = TypeVar("T")

# What a status says of the question; 200 is for the reader of the answer to say.
_UNSUPPORTED: Final = {404, 405, 501}
_NOT_NOW: Final = {408, 425, 429}
_TOO_LARGE: Final = 413


@dataclass(frozen=True, slots=True)
class Server:
    """A target, and the means to ask it."""

    target: Target
    transport: Transport
    memory: EndpointMemory

    async def kind(self) -> Kind:
        """The kind of server; for ``Kind.AUTO`` it is found out once per endpoint."""
        if self.target.kind is not Kind.AUTO:
            return self.target.kind

        async def question() -> Reply[Kind]:
            return await detect(self.target.root, lambda path: self.probe(Kind.OPENAI_COMPATIBLE, path))

        found = await self.memory.know(self.target.root, "kind", question)
        return Kind.OPENAI_COMPATIBLE if found is None else found

    def kind_as_known(self) -> Kind:
        """The kind, without asking; ``Kind.AUTO`` if it is not known."""
        if self.target.kind is not Kind.AUTO:
            return self.target.kind
        known = self.memory.fact(self.target.root, "kind")
        return known if isinstance(known, Kind) else Kind.AUTO

    def call(self, kind: Kind, path: str, body: object = None, seconds: float = 0.0) -> Call:
        """A call with the headers of that kind. Raises :class:`InvalidTarget`."""
        row = ROWS[kind]
        headers = dict(row.headers)
        if self.target.key is not None:
            name, scheme = row.key_header
            headers[name] = scheme + self.target.key.reveal()
        return Call(self.target.root, path, headers, self.target.bounds, body, seconds)

    async def probe(self, kind: Kind, path: str, body: object = None) -> Answered:
        """The answer to a small question, within the time for those. Raises :class:`ProviderError`."""
        return await self.transport.json(self.call(kind, path, body, self.target.bounds.probe_seconds))

    async def ask(
        self,
        what: str,
        path: str,
        body: object,
        read: Callable[[object], T | None],
        *,
        refused: Outcome,
    ) -> T | None:
        """What ``read`` finds in the answer, or None; under the rules of :class:`EndpointMemory`.

        ``refused`` is what a 4xx means that is none of the telling ones.
        """
        kind = self.kind_as_known()
        kind = Kind.OPENAI_COMPATIBLE if kind is Kind.AUTO else kind

        async def question() -> Reply[T]:
            try:
                answer = await self.probe(kind, path, body)
            except ServerTimeout:
                return Reply(Outcome.TIMED_OUT)
            except AnswerTooLarge:
                return Reply(Outcome.NOT_THIS)
            except ProviderError as error:
                if error.code == "invalid_request":
                    raise
                return Reply(Outcome.NOT_NOW if error.transient else Outcome.UNSUPPORTED)
            if answer.status >= FIRST_REFUSAL:
                return Reply(self._meaning(answer, path, refused))
            value = read(answer.body)
            return Reply(Outcome.UNSUPPORTED) if value is None else Reply(Outcome.ANSWERED, value)

        return await self.memory.ask(self.target.root, what, question)

    def _meaning(self, answer: Answered, path: str, refused: Outcome) -> Outcome:
        status = answer.status
        if status == _TOO_LARGE or isinstance(self.refusal(answer, path), ModelNotFound):
            return Outcome.NOT_THIS  # another text, or another model of this server, may do
        if status in _UNSUPPORTED:
            return Outcome.UNSUPPORTED
        return Outcome.NOT_NOW if status in _NOT_NOW or status >= 500 else refused  # noqa: PLR2004  # HTTP

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
