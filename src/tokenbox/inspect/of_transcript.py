"""The entry of a session that another tool logged."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from tokenbox import api, catalog, counters
from tokenbox.compose.remembered import COUNTS
from tokenbox.errors import TokenboxError
from tokenbox.inspect.of_layout import tokenizer_facts
from tokenbox.inspect.of_messages import opening
from tokenbox.inspect.record import (
    NothingToInspect,
    PageEntry,
    PageFrame,
    PageItem,
    PageState,
    PageUsage,
    check_items,
)
from tokenbox.ledger.cost import Cost, cost_of, money_text
from tokenbox.models import resolve_figures

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count, Counts
    from tokenbox.inspect.importers.transcript import LoggedItem, LoggedRequest, Transcript
    from tokenbox.ledger.usage import Usage
    from tokenbox.tokenizers.protocol import Tokenizer

BESIDE = "beside the messages"


def transcript_entry(
    transcript: Transcript,
    title: str,
    *,
    model: str | None = None,
    tokenizer: Counts | None = None,
    budget: int | None = None,
) -> PageEntry:
    """Return the entry of a session, with a frame for each request.

    The total of a request is the server's own figure if the log has it, else that of ``tokenbox.count`` if
    the log has the whole request. The sizes of its parts are estimates for ``model``, the model of the log,
    or ``tokenizer``. What the server counted beyond the parts is one separate item. Raises
    :class:`NothingToInspect` for a session without requests.
    """
    requests = transcript.requests
    if not requests:
        raise NothingToInspect(f"{title} contains no request that was sent.", file=title)
    logged = [item for request in requests for item in request.added]
    check_items(len(logged) + 1)
    models = list(dict.fromkeys(request.model for request in requests if request.model))
    counter = _counter(model or (models[-1] if models else None), tokenizer)
    counted = iter(COUNTS.each(counter, [_countable(item.text) for item in logged if item.text is not None]))
    sizes = [item.tokens if item.text is None else next(counted) for item in logged]
    items = [PageItem(BESIDE, "beside", None, None)]
    items += [
        _item(number, item, size) for number, (item, size) in enumerate(zip(logged, sizes, strict=True))
    ]
    windows = {name: _window(name) for name in models} if budget is None else {}
    frames, window, placed, in_parts = list[PageFrame](), list[int](), 0, 0
    for number, request in enumerate(requests):
        gone = window[request.keep :]
        added = list(range(placed + 1, placed + 1 + len(request.added)))
        placed += len(request.added)
        window[request.keep :] = added
        in_parts += sum(items[i].base or 0 for i in added) - sum(items[i].base or 0 for i in gone)
        shown = [(i, items[i]) for i in added]
        whole = _count(request, model, tokenizer)
        limit = budget if budget is not None else request.window or windows.get(request.model or "")
        frames.append(_frame(request, number, in_parts, gone, shown, limit, whole))
    return PageEntry(
        title,
        "transcript",
        tuple(items),
        tuple(frames),
        facts=(
            ("From", transcript.source),
            *((("Session", transcript.session),) if transcript.session else ()),
            ("Model", ", ".join(models) or "unknown"),
            *tokenizer_facts(counter.identity),
        ),
        notes=_notes(transcript),
        separator="\n\n",
    )


def _notes(transcript: Transcript) -> tuple[str, ...]:
    notes = [*transcript.notes]
    if transcript.missing:
        notes.append(
            f"{transcript.source} does not log the whole request: system prompt and tools are in "
            f"“{BESIDE}”, whose size is what the server counted beyond the messages."
        )
    return tuple(notes)


def _counter(model: str | None, tokenizer: Counts | None) -> Tokenizer:
    """Return the tokenizer of the parts; for an unknown model, the larger count of two vocabularies."""
    try:
        return counters.text_counter(model, tokenizer)
    except TokenboxError:
        if tokenizer is not None:
            raise
        return counters.text_counter(None, None)


def _countable(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _item(number: int, item: LoggedItem, size: int | None) -> PageItem:
    about = item.name if item.name is not None else opening(item.text or "")
    fields = () if item.name is None else (("name", item.name),)
    return PageItem(f"{number + 1} {about}".rstrip(), item.role, item.text, size, fields=fields)


def _frame(
    request: LoggedRequest,
    number: int,
    in_parts: int,
    gone: list[int],
    added: list[tuple[int, PageItem]],
    budget: int | None,
    counted: Count | None,
) -> PageFrame:
    usage = request.usage
    reported = None if usage is None else usage.input_tokens
    estimate = in_parts if counted is None else counted.total
    total = estimate if reported is None else reported
    states = [PageState(0, "beside" if total > in_parts else "absent", max(0, total - in_parts), None)]
    states += [PageState(i, "evicted", 0, "") for i in gone]
    states += [PageState(i, "sent", item.base, item.text) for i, item in added]
    return PageFrame(
        budget,
        total,
        reported is not None or (counted is not None and counted.exact),
        tuple(states),
        label=f"{number + 1}",
        usage=_usage(request),
        note=request.note,
        parts_exact=False,
        time=request.time,
    )


def _count(request: LoggedRequest, model: str | None, tokenizer: Counts | None) -> Count | None:
    """Count a request for which the server reported no figure; None if it cannot be counted."""
    if request.body is None or (request.usage is not None and request.usage.input_tokens is not None):
        return None
    try:
        return api.count(request.body, model or request.model, tokenizer=tokenizer)
    except TokenboxError:
        return None


def _window(model: str) -> int | None:
    try:
        return resolve_figures(model).context_window
    except TokenboxError:
        return None


def _usage(request: LoggedRequest) -> PageUsage | None:
    usage = request.usage
    if usage is None:
        return None
    cost = _cost(request, usage)
    dollars = None if cost is None else cost.dollars
    return PageUsage(
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        None if dollars is None else money_text(dollars),
        cost_exact=cost is not None and cost.exact,
    )


def _cost(request: LoggedRequest, usage: Usage) -> Cost | None:
    """Return the cost at the prices of the day; None without a model, a day or a catalog."""
    if request.model is None:
        return None
    try:
        price = catalog.price(request.model, date.fromisoformat((request.time or "")[:10]))
    except (TokenboxError, ValueError):  # such as a time without a day
        return None
    return cost_of(usage, price)
