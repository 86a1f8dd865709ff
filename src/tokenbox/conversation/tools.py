"""Tools as part of the budget: the cost of their schemas in every request, and ways to shorten them.

The schemas of tools are sent with every request and often cost more than the conversation. Nothing is
shortened automatically: call :func:`shorten_tools` once, at the start of a session, and send its result.
Names, types, required parameters and enumerated values are always kept.
"""

from __future__ import annotations

import json
import re
from collections import Counter as Tally
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tokenbox.compose.requests import Counts, RequestCounter, count_by
from tokenbox.content.items import read_items
from tokenbox.content.request import Request
from tokenbox.content.tool_objects import checked_tools
from tokenbox.conversation.counters import counter_of
from tokenbox.conversation.limits import overflow
from tokenbox.errors import InvalidBudget, shown
from tokenbox.integers import whole
from tokenbox.records import AsRecord, to_record

if TYPE_CHECKING:
    from tokenbox.content.message import ToolCall

    Tool = Mapping[str, Any]


class Shortening(StrEnum):
    """A way to shorten schemas, in the order of application."""

    SORT = "sort"
    """Sort tools by name, so that the same set always gives the same prompt."""
    NOTES = "notes"
    """Remove titles, examples and comments; no model needs them to call a tool."""
    SENTENCES = "sentences"
    """Keep only the first sentence of descriptions."""
    UNUSED = "unused"
    """Remove optional parameters that no call has used."""


ALL_SHORTENINGS: Final = tuple(Shortening)
_NOTES: Final = frozenset(("title", "examples", "example", "$schema", "$comment", "$id"))
_SENTENCE: Final = re.compile(r".*?[.!?](?=\s|$)|.+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCost(AsRecord):
    """The cost of one tool. ``tokens``: the tokens saved without it. ``calls``: how often it was called."""

    name: str
    tokens: int
    calls: int


@dataclass(frozen=True, slots=True)
class ToolCosts:
    """The cost of tools in every request. ``total`` includes the tokens that all tools share."""

    tools: tuple[ToolCost, ...]
    total: int
    exact: bool

    @property
    def never_called(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools if not tool.calls)

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "total exact tools never_called")


@dataclass(frozen=True, slots=True)
class ToolStep(AsRecord):
    """One applied shortening, with the tokens of all tools before and after it."""

    shortening: Shortening
    tools: tuple[str, ...]
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ShortenedTools:
    """Shortened tools to send in every request, and the record of the changes."""

    tools: list[dict[str, Any]]
    steps: tuple[ToolStep, ...]
    total: int
    exact: bool

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "total exact steps tools")


def tool_costs(
    tools: Sequence[object] | None, count: Counts | None = None, messages: Sequence[object] = ()
) -> ToolCosts:
    """Return the cost of each tool, the largest first. ``messages`` show which tools were called.

    ``count``: the counter, such as a model's name. Raises ``InvalidMessage`` or a ``TokenizerError``.
    """
    counter, calls = counter_of(count), Tally(call.name for call in _calls(messages))
    given = list(checked_tools(tools))
    whole_count, exact = _tokens(counter, given)
    costs = [
        ToolCost(name_of(tool), tokens, calls[name_of(tool)])
        for tool, tokens in zip(given, _saved(counter, given, whole_count), strict=True)
    ]
    ranked = sorted(costs, key=lambda cost: (-cost.tokens, cost.name))
    return ToolCosts(tuple(ranked), whole_count, exact)


def shorten_tools(
    tools: Sequence[object] | None,
    budget: int | None = None,
    count: Counts | None = None,
    *,
    messages: Sequence[object] = (),
    shortenings: Collection[str] = (Shortening.SORT, Shortening.NOTES, Shortening.SENTENCES),
) -> ShortenedTools:
    """Apply ``shortenings`` one after the other, until the tools fit ``budget`` tokens.

    Without a budget all are applied. ``sort`` is always applied if it is listed. ``unused`` needs
    ``messages``: parameters that their calls used are kept.

    Raises :class:`ContextCriticalOverflow` if the tools do not fit after all of them, ``InvalidBudget`` for
    an invalid shortening or budget, and ``InvalidMessage``.
    """
    if budget is not None and (whole(budget) is None or budget < 0):
        raise InvalidBudget(f"the budget of tools is a whole number of tokens, not {shown(budget)}.")
    try:
        asked = {Shortening(one) for one in shortenings}
    except (ValueError, TypeError):
        known = ", ".join(Shortening)
        raise InvalidBudget(f"shortenings are some of {known}, not {shown(shortenings)}.") from None
    counter = counter_of(count)
    made: list[dict[str, Any]] = [dict(tool) for tool in checked_tools(tools)]
    total, exact = _tokens(counter, made)
    used = _used(messages)
    steps = []
    for one in (known for known in ALL_SHORTENINGS if known in asked):
        if one is not Shortening.SORT and budget is not None and total <= budget:
            break
        changed = (
            sorted(made, key=name_of) if one is Shortening.SORT else [_shorter(t, one, used) for t in made]
        )
        after, exact = _tokens(counter, changed)
        if changed != made and (after < total or one is Shortening.SORT):
            touched = tuple(name_of(b) for a, b in zip(made, changed, strict=True) if a != b)
            steps.append(ToolStep(one, touched, total, after))
            made, total = changed, after
    if budget is not None and total > budget:
        named = [(f"tool {cost.name}", cost.tokens) for cost in tool_costs(made, count).tools]
        raise overflow(budget, total, named, estimate=not exact, what="tools", rest="markers of tools")
    return ShortenedTools(made, tuple(steps), total, exact)


def name_of(tool: Tool) -> str:
    """Return the name of a tool in the shape of any API."""
    function = tool.get("function")
    inner = function if isinstance(function, Mapping) else tool
    return str(inner.get("name") or inner.get("type") or "")


def _tokens(counter: RequestCounter, tools: Sequence[Tool] | None) -> tuple[int, bool]:
    """Return the tokens that tools add to a request with one short message, and whether they are exact."""
    hello = read_items([{"role": "user", "content": "hi"}])
    with_tools = count_by(counter, Request.of_items(hello, list(tools or ()) or None))
    bare = count_by(counter, Request.of_items(hello))
    return with_tools.total - bare.total, with_tools.exact and bare.exact


def _saved(counter: RequestCounter, tools: list[Tool], total: int) -> list[int]:
    """Return the tokens saved without each of the tools, which are ``total`` together.

    If the first tool, and each other one beside it, add up to ``total``, a tool costs the same beside any
    others. Else the others are counted without each, in time that grows with the square of their number.
    """

    def cost(*some: Tool) -> int:
        return _tokens(counter, some)[0]

    if len(tools) > 2:  # else the others are one tool at most
        first, second, *_ = tools
        alone = cost(first)
        saved = [cost(first, tool) - alone for tool in tools[1:]]
        if alone + sum(saved) == total:
            return [cost(second, first) - cost(second), *saved]
    others = (tools[:place] + tools[place + 1 :] for place in range(len(tools)))
    return [total - cost(*left) for left in others]


def _calls(messages: Sequence[object]) -> list[ToolCall]:
    items = read_items(messages)
    return [call for item in items for message in item.messages for call in message.tool_calls]


def _used(messages: Sequence[object]) -> dict[str, set[str]]:
    """Return the parameters used by calls, by the names of tools."""
    found: dict[str, set[str]] = {}
    for call in _calls(messages):
        try:
            arguments = json.loads(call.arguments)
        except (ValueError, RecursionError):
            arguments = {}
        keys = arguments if isinstance(arguments, Mapping) else ()
        found.setdefault(call.name, set()).update(map(str, keys))
    return found


def _shorter(tool: Tool, how: Shortening, used: Mapping[str, set[str]]) -> dict[str, Any]:
    if isinstance(tool.get("function"), Mapping):
        return {**tool, "function": _shorter({"name": name_of(tool), **tool["function"]}, how, used)}
    made = dict(tool)
    key = "input_schema" if "input_schema" in made else "parameters"
    schema = made.get(key)
    if how is Shortening.SENTENCES and isinstance(made.get("description"), str):
        made["description"] = first_sentence(made["description"])
    if isinstance(schema, Mapping):
        calls = used.get(name_of(tool))
        made[key] = (
            _without_unused(schema, calls or set()) if how is Shortening.UNUSED else _schema(schema, how)
        )
    return made


def first_sentence(text: str) -> str:
    found = _SENTENCE.match(" ".join(text.split()))
    return "" if found is None else found[0]


def _schema(schema: Mapping[str, Any], how: Shortening, *, names: bool = False) -> dict[str, Any]:
    """Shorten a schema recursively. ``names``: its keys are names of parameters, which are all kept."""
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if how is Shortening.NOTES and not names and key in _NOTES:
            continue
        if how is Shortening.SENTENCES and not names and key == "description" and isinstance(value, str):
            made[key] = first_sentence(value)
        elif isinstance(value, Mapping) and key not in _VALUES:
            made[key] = _schema(value, how, names=not names and key in _NAMED)
        elif isinstance(value, list) and key in _LISTED and not names:
            made[key] = [_schema(one, how) if isinstance(one, Mapping) else one for one in value]
        else:
            made[key] = value
    return made


_NAMED: Final = frozenset(("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"))
_LISTED: Final = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_VALUES: Final = frozenset(("default", "const", "enum"))


def _without_unused(schema: Mapping[str, Any], used: Collection[str]) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return dict(schema)
    needed = required if isinstance(required, Sequence) else ()  # of any values: a server wrote them
    kept = {name: value for name, value in properties.items() if name in used or name in needed}
    return {**schema, "properties": kept}
