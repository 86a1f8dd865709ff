"""The counts of two hundred requests by every local counter, as a plain file, where a changed rule shows.

That the counts are right is shown elsewhere, beside real servers. Here no figure changes unseen.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.conftest import GOLDEN
from tokenbox.compose.bound import Bound
from tokenbox.compose.requests import NO_BOUND
from tokenbox.content.request import read_request
from tokenbox.counters import request_counter
from tokenbox.errors import TokenboxError
from tokenbox.policy.estimate import count_messages
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.compose.requests import RequestCounter
    from tokenbox.content.request import Request

REQUESTS: dict[str, Any] = json.loads((GOLDEN / "counts" / "requests.json").read_text(encoding="utf-8"))
COUNTERS = {
    "gpt-4o": request_counter("gpt-4o"),
    "gpt-4": request_counter("gpt-4"),
    "o1": request_counter("o1"),
    "o200k_base": request_counter(None, "o200k_base"),
    "without markers": request_counter(None, "o200k_base", markers=False),
    "utf8-bytes": request_counter(None, "utf8-bytes"),
    "chars4": request_counter(None, "chars4"),
    "no model": request_counter(None),
    "images of 100": request_counter("gpt-4o", media_tokens=100),
    "declared images": request_counter("gpt-4o", media_tokens="declared"),
}
BOUNDS = {"bound": Bound(registry.get("o200k_base")), "bound by bytes": Bound(None)}


def counted(counter: RequestCounter, request: Request) -> str:
    try:
        count = count_messages(request, counter)
    except TokenboxError as error:
        return error.code
    at_most = "no bound" if count.at_most == NO_BOUND else f"at most {count.at_most:,}"
    largest = "" if count.largest is None else f", largest {count.largest:,}"
    return f"{count} {count.by.value}, {at_most}{largest}"


def test_golden_counts(golden: Callable[[str, str], None]) -> None:
    assert len(REQUESTS) > 200
    lines = []
    for name, body in REQUESTS.items():
        request = read_request(body)
        lines += ["", name]
        lines += [f"  {called}: {counted(counter, request)}" for called, counter in COUNTERS.items()]
        lines += [f"  {called}: {bound.request(request):,}" for called, bound in BOUNDS.items()]
    golden("counts/counts.txt", "\n".join([*lines[1:], ""]))
