"""The log: a JSON object per line, with figures and names, and never the content of a request."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.gateway.attempt import Attempt
    from tokenbox.gateway.refusals import Refusal


class LibraryLogHandler(logging.Handler):
    """A handler that writes the warnings of libraries to the log.

    Of an exception it writes only the class, because its text may quote a client.
    """

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = None if record.exc_info is None else record.exc_info[1]
        message = record.getMessage().strip().partition("\n")[0]
        kind = {} if error is None else {"error": type(error).__name__}
        self._log.write("warned", by=record.name, message=message, **kind)


class RequestLog:
    """A log that writes lines to ``out``.

    If ``out`` is None, nothing is logged. If ``requests`` is false, only requests are logged that were
    refused or whose answer broke.
    """

    def __init__(self, out: Callable[[str], object] | None, *, requests: bool = True) -> None:
        self._out = out
        self._requests = requests

    def write(self, event: str, **fields: object) -> None:
        if self._out is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "event": event, **fields}
        self._out(json.dumps(line, default=str, separators=(",", ":")) + "\n")

    def request(self, request: Attempt, refusal: Refusal | None, seconds: float) -> None:
        """Write the line of a request."""
        cause = request.outcome.cause if refusal is None else refusal.cause
        if self._out is None or not (self._requests or refusal or cause):
            return
        call, admission, usage = request.call, request.admission, request.outcome.usage
        self.write(
            "request",
            id=request.request_id,
            route=request.category,
            model=None if call is None else call.model[:200],
            stream=None if call is None else call.stream,
            upstream=None if request.upstream is None else request.upstream.name,
            key=None if request.grant is None else request.grant.key_id,
            overflow_of=request.overflow_of,
            status=request.outcome.status,
            refused=None if refusal is None else refusal.code,
            cause=cause,
            mode=None if admission is None else admission.mode.value,
            input_tokens=None if admission is None else admission.counted.tokens,
            exact=None if admission is None else admission.counted.exact,
            reserved=None if admission is None else admission.reserved,
            reported_input=None if usage is None else usage.input_tokens,
            reported_output=None if usage is None else usage.output_tokens,
            complete=request.outcome.complete,
            ms=round(seconds * 1000, 1),
        )
