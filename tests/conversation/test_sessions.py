"""The running count of a conversation is the count of what it holds."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tokenbox import counters
from tokenbox.content.items import read_items
from tokenbox.content.request import Request
from tokenbox.conversation.pieces import open_session

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
PICTURE = {"role": "user", "content": [{"type": "text", "text": "and there?"}, IMAGE]}
CALL = {"id": "c1", "type": "function", "function": {"name": "warmth", "arguments": "{}"}}
# Exact alone, exact only before others, and estimates: a conversation of them has all marks.
SPOKEN = (
    {"role": "user", "content": "How warm is it?"},
    {"role": "assistant", "content": "14 degrees"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    PICTURE,
    {"type": "reasoning", "encrypted_content": "gAAAAAB" * 9},
)
spoken = st.lists(st.sampled_from(SPOKEN), max_size=4)


@given(head=spoken, kept=spoken, others=spoken, model=st.sampled_from(["gpt-4o", "llama-3.1-8b"]))
@example(head=list(SPOKEN[:2]), kept=[], others=[], model="gpt-4o")  # the model is to go on with its answer
def test_a_session_forgets_what_has_left(
    head: list[dict[str, Any]], kept: list[dict[str, Any]], others: list[dict[str, Any]], model: str
) -> None:
    """Its count and mark are those of the items that it holds, as one request."""
    counter = counters.request_counter(model)
    session = open_session(counter)
    before, items, leaving, (estimate,) = map(read_items, (head, kept, others, [PICTURE]))
    session.frame(before)
    for number, item in enumerate(leaving):  # some leave, and others are replaced
        session.add(number, item)
    for number, item in enumerate(items, len(leaving)):
        session.add(number, estimate)
        session.replace(number, item)
    expected = counter.count_request(Request.of_read([*before, *items]))
    assert session.total_with(dict.fromkeys(range(len(leaving)))) == expected.total
    session.remove(range(len(leaving)))
    assert session.count() == expected
