"""Ask the upstream to report the usage of a stream: chat completions report it only on request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.gateway.calls import ApiCall

_OPENING_BRACE = re.compile(rb"\s*\{(\s*\})?")
_INCLUDE_USAGE = b'"stream_options":{"include_usage":true}'


def with_usage(call: ApiCall) -> tuple[bytes, bool]:
    """Return the body to send, and whether the client must not see the event with the usage."""
    if not call.stream or not call.protocol.asks_for_usage or call.wants_usage:
        return call.data, False
    options = call.body.get("stream_options")
    if options is not None:
        asked = {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
        return call.with_body({**call.body, "stream_options": asked}).data, True
    opened = _OPENING_BRACE.match(call.data)
    if opened is None or opened.group(1) is not None:
        return call.data, False
    place = call.data.index(b"{") + 1
    return call.data[:place] + _INCLUDE_USAGE + b"," + call.data[place:], True
