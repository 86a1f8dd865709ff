"""What is sent to the upstream in place of the client's bytes: the same, and a word to report the usage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.upstream import Upstream

_OPEN = re.compile(rb"\s*\{(\s*\})?")
_INCLUDE = b'"stream_options":{"include_usage":true}'


class AskForUsage:
    """A stream of chat completions says its usage only if asked, and the ledger needs it."""

    def body_for(self, call: ApiCall, upstream: Upstream) -> tuple[bytes, bool]:
        """The body, and whether the event with the usage is ours alone, and not for the client."""
        if (
            not call.stream
            or not call.protocol.asks_for_usage
            or call.wants_usage
            or not upstream.settings.ask_usage
        ):
            return call.data, False
        options = call.body.get("stream_options")
        if options is not None:
            asked = (
                {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
            )
            return call.with_body({**call.body, "stream_options": asked}).data, True
        opened = _OPEN.match(call.data)
        if opened is None or opened.group(1) is not None:
            return call.data, False
        place = call.data.index(b"{") + 1
        return call.data[:place] + _INCLUDE + b"," + call.data[place:], True
