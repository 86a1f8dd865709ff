"""``tokenbox tools``: shows the token cost of tool schemas, and shortens them."""

from __future__ import annotations

from typing import Any

from tokenbox.cli import terminal
from tokenbox.cli.options import AS_JSON, argument, flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import read_data, shown_name, write_error, write_json, write_record
from tokenbox.errors import plural


def tools(
    file: str = argument("FILE", "A request as JSON, or a list of tools; - is standard input."),
    model: str | None = option("--model -m NAME", "Overrides the model in the request."),
    shorten: bool = flag("--shorten", "Print shortened tools as JSON, to send from the first request on."),
    budget: int | None = option("--budget -b TOKENS", "With --shorten: the size to reach.", min=0),
    unused: bool = flag("--unused", "With --shorten: also drop optional parameters that no call used."),
    as_json: bool = AS_JSON,
) -> None:
    """Show the tokens that each tool adds to every request, and which tools were never called.

    --shorten sorts tools by name, drops titles and examples, and keeps the first sentence of each
    description. Names, types and required parameters stay.

    Example: tokenbox tools request.json --model gpt-4o
    """
    from tokenbox.conversation.tools import ALL_SHORTENINGS, Shortening, shorten_tools, tool_costs

    given, named, messages = _tools(file)
    counter = model or named
    if not shorten and (budget is not None or unused):
        raise UsageProblem("--budget and --unused need --shorten.")
    if shorten:
        allowed = [each for each in ALL_SHORTENINGS if unused or each is not Shortening.UNUSED]
        shortened = shorten_tools(given, budget, counter, messages=messages, shortenings=allowed)
        if as_json:
            write_record("tools.shortened", shortened.to_dict())
        else:
            write_json(shortened.tools)
        about = "" if shortened.exact else "~"
        for step in shortened.steps:
            write_error(
                f"{step.shortening.value}: {about}{step.before:,} -> {about}{plural(step.after, 'token')}\n"
            )
        return
    costs = tool_costs(given, counter, messages)
    if as_json:
        write_record("tools", costs.to_dict())
        return
    about = "" if costs.exact else "~"
    rows = [(tool.name, f"{about}{tool.tokens:,}", f"{tool.calls:,}") for tool in costs.tools]
    rows.append(("total", f"{about}{costs.total:,}", ""))
    terminal.show_table(("tool", "tokens", "calls"), rows)


def _tools(file: str) -> tuple[list[dict[str, Any]], str | None, list[Any]]:
    """Return the tools, the model's name, and the messages whose tool calls are counted."""
    name = shown_name(file)
    data = read_data(file)
    body = {"tools": data} if isinstance(data, list) else data
    given = body.get("tools") if isinstance(body, dict) else None
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise UsageProblem(f'{name} contains no tools. Give a request with "tools", or a list of tools.')
    if any("role" in tool for tool in given):
        raise UsageProblem(f'{name} contains chat messages. Give a request with "tools", or a list of tools.')
    model, messages = body.get("model"), body.get("messages") or body.get("input")
    return given, str(model) if model else None, messages if isinstance(messages, list) else []
