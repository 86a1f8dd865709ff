"""The messages of a request that a gateway recorded: as they were given and as they were sent, with sizes.

The bundle has the counts of whole requests only, so the sizes of messages are counted here. What the count of
the gateway has beyond them (tools, fields, the frame of the messages) is one separate part.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenbox import counters
from tokenbox.content.items import Item
from tokenbox.content.request import read_request
from tokenbox.conversation.pieces import open_session
from tokenbox.errors import TokenboxError
from tokenbox.inspect.importers.transcript import as_text
from tokenbox.inspect.of_messages import FRAME, beside, opening, text_of
from tokenbox.inspect.record import PageItem, PageState, check_items
from tokenbox.records import from_json
from tokenbox.tokenizers.registry import FILE_PREFIX

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.proof.calls import Recorded
    from tokenbox.proof.evidence import Record

# The kind of the input that is the body. The others are its items, by their positions: messages[3].
BODY: Final = "request"
_PLACE: Final = re.compile(r"(\w+)\[(\d+)\]")


class GatewayItems(NamedTuple):
    """The items of a page, the states of each, and the body that was given.

    ``sent``: None for a refusal, and if the items were sent as they were given. ``first``: the position of
    the first given item; before it are the part beside the messages, and what the gateway added.
    """

    items: tuple[PageItem, ...]
    given: tuple[PageState, ...]
    sent: tuple[PageState, ...] | None
    first: int
    body: str | None


@dataclass(frozen=True, slots=True)
class _BodyItem:
    """An item of a body: its value, its text, and its tokens; None if they cannot be counted."""

    value: object
    text: str
    tokens: int | None


def gateway_items(
    recorded: Recorded,
    inputs: Sequence[Record],
    evicted: Collection[int],
    cut: Collection[int],
    totals: tuple[int | None, int | None],
) -> GatewayItems | None:
    """Return the items of a bundle with the texts of its bodies, or None for any other bundle.

    ``evicted`` and ``cut``: the numbers of the given items that were not sent, or only in part. ``totals``:
    the tokens of the request as received and as sent.
    """
    keys = {place[1] for record in inputs if (place := _PLACE.fullmatch(str(record["id"])))}
    digest = next((record["digest"] for record in recorded.inputs if record["kind"] == BODY), None)
    if digest is None or len(keys) != 1:
        return None
    counter = _counter(recorded)
    (key,) = keys
    body = recorded.texts.text(digest)
    given = _body_items(body, key, counter)
    if len(given) != len(inputs):
        return None
    sent = _body_items(recorded.texts.text(recorded.contents.manifest.emitted), key, counter)
    left = [number for number in range(len(given)) if number not in evicted]
    is_changed = len(sent) >= len(left) > 0 and [one.value for one in sent] != [one.value for one in given]
    added = sent[: len(sent) - len(left)] if is_changed else []
    first = 1 + len(added)
    items = [
        PageItem(FRAME, "beside", None, None),
        *(PageItem(opening(one.text), "added by the gateway", one.text, None) for one in added),
        *(_page_item(record, one) for record, one in zip(inputs, given, strict=True)),
    ]
    check_items(len(items))
    word = "kept" if sent else "given"
    states = [PageState(i, word, one.tokens, one.text) for i, one in enumerate(given, first)]
    whole = (beside(totals[0], states), *(PageState(i, "absent", 0, "") for i in range(1, first)), *states)
    if not is_changed:
        return GatewayItems(tuple(items), whole, None, first, body)
    states = [PageState(i, "added", one.tokens, one.text) for i, one in enumerate(added, 1)]
    now = dict(zip(left, sent[len(added) :], strict=True))
    for number, one in enumerate(given):
        shown = now.get(number)
        if shown is None:
            states.append(PageState(first + number, "evicted", 0, ""))
        else:
            decision = "kept" if shown.value == one.value else "cut" if number in cut else "changed"
            states.append(PageState(first + number, decision, shown.tokens, shown.text))
    return GatewayItems(tuple(items), whole, (beside(totals[1], states), *states), first, body)


def _page_item(record: Record, item: _BodyItem) -> PageItem:
    name = f"{record['id']} {opening(item.text)}".rstrip()
    return PageItem(name, str(record["kind"]), item.text, item.tokens, str(record["digest"]))


def _counter(recorded: Recorded) -> RequestCounter:
    """Return the counter of the bundle's tokenizer; without it, the larger count of two vocabularies."""
    identity: Any = recorded.predicate["tokenizer"]
    name = str(identity["name"])
    with suppress(TokenboxError):
        if not name.startswith(FILE_PREFIX):  # no file is opened because a bundle names it
            return counters.request_counter(None, name)
    return counters.request_counter(None)


def _body_items(text: str | None, key: str, counter: RequestCounter) -> list[_BodyItem]:
    """Return the items of a body; none without its text."""
    body = from_json(text or "{}")
    value = body.get(key) if isinstance(body, dict) else None
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts, sizes = _counted(body, len(values), counter) if values else ({}, {})
    return [
        _BodyItem(one, texts.get(number) or as_text(one), sizes.get(number))
        for number, one in enumerate(values)
    ]


def _counted(
    body: Mapping[str, Any], count: int, counter: RequestCounter
) -> tuple[dict[int, str], dict[int, int]]:
    """Return the text and the tokens of each item; both empty if the body cannot be read."""
    try:
        request = read_request(body, strict=False)
        session = open_session(counter)
        texts: dict[int, str] = {}
        sizes = dict.fromkeys(range(count), 0) if request.messages else {}
        for message, place in zip(request.messages, request.places, strict=True):
            if place is not None:
                item = Item((message,))
                texts[place] = "\n".join(filter(None, (texts.get(place), text_of(item))))
                sizes[place] += session.cost(item)
    except (TokenboxError, KeyError):
        return {}, {}
    else:
        return texts, sizes
