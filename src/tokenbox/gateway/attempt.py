"""One request to an upstream, and the decision about it, as the parts of the gateway share them."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tokenbox.gateway.relay import CallOutcome

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.gateway.admission import Admission
    from tokenbox.gateway.authentication import Grant
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.protocols import Protocol
    from tokenbox.gateway.refusals import Refusal
    from tokenbox.gateway.settings import Fit
    from tokenbox.gateway.upstream import Upstream


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


@dataclass(frozen=True, slots=True)
class ProofDecision:
    """The decision about a request, for its proof.

    ``original`` is the request as it came and ``count`` its count; ``sent`` is what goes to the upstream.
    ``fit`` and ``low_water`` are the policy of the mode ``fit``, and ``fit_record`` tells what it did.
    ``tried`` has the count of each body that was tried on the way, by its SHA-256. ``heeded`` are the fields
    that the upstream heeds as output limits, if a quota had the gateway set one.
    """

    original: ApiCall
    count: Count
    sent: ApiCall | None
    admission: Admission
    fit: Sequence[Fit]
    low_water: LowWater
    fit_record: Mapping[str, object] | None
    tried: Mapping[str, Count]
    refusal: Refusal | None
    heeded: tuple[str, ...] = ()
