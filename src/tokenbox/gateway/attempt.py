"""One request to an upstream, and the decision about it, as the parts of the gateway share them."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tokenbox.gateway.admission import with_output_limit
from tokenbox.gateway.fitting import CallFitting
from tokenbox.gateway.relay import CallOutcome
from tokenbox.gateway.settings import Mode

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.gateway.admission import Admission, Counted
    from tokenbox.gateway.authentication import Grant
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.fitting import ModelSummary
    from tokenbox.gateway.protocols import Protocol
    from tokenbox.gateway.refusals import Refusal
    from tokenbox.gateway.settings import Fit
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.tokenizers.protocol import Tokenizer


def new_key() -> str:
    """Return a random id of 32 hexadecimal digits: unique, and no secret."""
    return f"{random.getrandbits(128):032x}"  # Python seeds it again in each worker


@dataclass(slots=True, eq=False)
class Attempt:
    """A request as metrics, log, quotas and ledger see it: a client's, or one of the gateway's own.

    ``key`` identifies its records, because a client may send the same ``request_id`` twice. ``started_at`` is
    in seconds of the monotonic clock. ``fit_record`` tells what the mode ``fit`` did, ``overflow_of`` which
    model the request was too large for. ``parent`` is the client's W3C traceparent. ``line`` is the
    recorder's entry from before the request was sent.
    """

    protocol: Protocol
    category: str
    request_id: str
    key: str = field(default_factory=new_key)
    parent: str | None = None
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_at: float = field(default_factory=time.monotonic)
    call: ApiCall | None = None
    grant: Grant | None = None
    upstream: Upstream | None = None
    admission: Admission | None = None
    outcome: CallOutcome = field(default_factory=CallOutcome)
    was_sent: bool = False
    fit_record: dict[str, object] | None = None
    overflow_of: str | None = None
    span: object = None
    line: bytes = b""


@dataclass(slots=True)
class RequestDecision:
    """The decision about a counted request, step by step. A proof records it, and a replay makes it again.

    ``original`` is the request as it came and ``count`` its count; ``call`` is what goes to the upstream,
    with its ``admission``. ``fit`` and ``low_water`` are the policy of the mode ``fit``, and ``fit_record``
    tells what it did. ``tried`` has the count of each body that was tried on the way, by its SHA-256.
    ``heeded`` are the fields that the upstream heeds as output limits, if a quota had the gateway set one.
    """

    original: ApiCall
    admission: Admission
    fit: Sequence[Fit]
    low_water: LowWater
    call: ApiCall = field(init=False)
    count: Count = field(init=False)
    fit_record: dict[str, object] | None = None
    tried: dict[str, Count] = field(default_factory=dict)
    refusal: Refusal | None = None
    heeded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.call, self.count = self.original, self.admission.counted.count

    @property
    def may_be_sent(self) -> bool:
        return self.admission.mode is Mode.OBSERVE or self.admission.fits

    async def make_fit(
        self,
        tokenizer: Tokenizer,
        count: Callable[[ApiCall], Awaitable[Counted]],
        summarize: Callable[[str, int, ApiCall], Awaitable[ModelSummary | None]],
    ) -> bool:
        """Make the request fit, in the mode ``fit``; False if it does not. Raises :class:`Refusal`.

        The arguments are those of :class:`CallFitting`.
        """
        admission = self.admission
        if admission.mode is not Mode.FIT or admission.is_missing_count or admission.is_unseen:
            return False
        fitting = CallFitting(admission, tokenizer, count, summarize, self.tried, self.fit, self.low_water)
        fitted = await fitting.fit(self.call)
        if fitted is None:
            return False
        self.call, self.admission, self.fit_record = fitted.call, fitted.admission, fitted.record
        return True

    def limit_output(self, heeded: tuple[str, ...]) -> None:
        """Set an output limit in the fields that the upstream heeds; without any, do nothing."""
        self.heeded = heeded
        if heeded:
            self.call, self.admission = with_output_limit(self.call, self.admission, heeded)
