"""``tokenbox cache``: shows what breaks a prompt cache between requests, and where breakpoints pay."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenbox
from tokenbox.cli import clock
from tokenbox.cli.options import AS_JSON, argument, flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import (
    read_syntax,
    shown_name,
    syntax_problem,
    write_json,
    write_record,
    write_text,
)
from tokenbox.records import from_json

if TYPE_CHECKING:
    from tokenbox.caching import PrefixChange


def cache(
    files: list[str] = argument(
        "FILE...", "Requests in the order of sending, as JSON or JSON lines; - is standard input."
    ),
    model: str | None = option("--model -m NAME", "Overrides the model in the requests."),
    requests: int = option(
        "--requests N", "How many more requests will share the last one's prefix.", 10, min=0
    ),
    every: int = option("--every SECONDS", "The time between those requests.", 60, min=0),
    marked: bool = flag("--marked", "Print only the last request with its breakpoints."),
    as_json: bool = AS_JSON,
) -> None:
    """Show what breaks a prompt cache between requests, and where breakpoints pay.

    For each request after the first: the first byte that changed, why, and how to fix it. For the last one:
    the breakpoints and fields to set, by the provider's rules and today's prices. Nothing is sent.

    Example: tokenbox cache first.json second.json --model claude-sonnet-4-5
    """
    from tokenbox.caching.plan import tokenizer_for

    bodies = [body for file in files for body in _requests(file)]
    if not bodies:
        raise UsageProblem("the input contains no request.")
    named = model or str(bodies[-1].get("model", ""))
    tokenizer = tokenizer_for(named)
    changes = [tokenbox.caching.first_change(a, b, tokenizer) for a, b in pairwise(bodies)]
    settings = tokenbox.config.load(Path.cwd(), os.environ, {})
    paid = (
        tokenbox.catalog.price(named, clock.now().date(), configured=settings.catalog_prices())
        if named
        else None
    )
    before = bodies[-2] if len(bodies) > 1 else None
    made = tokenbox.caching.plan(
        bodies[-1], model=named, requests=requests, seconds=every, price=paid, before=before
    )
    if marked:
        write_json(made.body)
    elif as_json:
        found = [None if change is None else change.to_dict() for change in changes]
        write_record("cache", {"changes": found, "plan": made.to_dict()})
    else:
        lines = [_line(number, change) for number, change in enumerate(changes, 2)]
        write_text("\n".join([*lines, made.explain()]) + "\n")


def _line(number: int, change: PrefixChange | None) -> str:
    if change is None:
        return f"request {number}: extends the previous request; the whole prefix can be read from the cache"
    return f"request {number}: {change}"


def _requests(file: str) -> list[dict[str, Any]]:
    """Return the requests in a file: one as JSON, a list of them, JSON lines, or the messages of one."""
    text = read_syntax(file)
    found = from_json(text)
    if found is None:
        try:
            found = [json.loads(line) for line in text.split("\n") if line.strip()]
        except (ValueError, RecursionError) as error:
            problem = syntax_problem(error)
            raise UsageProblem(
                f"{shown_name(file)} is neither JSON nor JSON lines: {problem}. "
                'Give requests as they were sent, such as {"model": "gpt-4o", "messages": [...]}.'
            ) from None
    if isinstance(found, list) and found and all(isinstance(item, dict) and "role" in item for item in found):
        return [{"messages": found}]
    bodies = found if isinstance(found, list) else [found]
    for number, body in enumerate(bodies):
        if not isinstance(body, dict):
            raise UsageProblem(
                f"{shown_name(file)}: request {number + 1} is not a JSON object. A request is as it is sent: "
                '{"model": "...", "messages": [...]}.'
            )
    return bodies
