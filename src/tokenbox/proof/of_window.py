"""The evidence of messages fitted into a budget, and of those that could not be."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tokenbox.content.message import Role
from tokenbox.conversation.record import ALGORITHM, as_json
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.proof.evidence import Evidence, Input, Kind
from tokenbox.proof.of_layout import critical_decisions, given_budget, outcome_of
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tokenbox.content.message import Message
    from tokenbox.conversation.record import Fitted
    from tokenbox.engine.window import Limits
    from tokenbox.errors import TokenboxError
    from tokenbox.proof.evidence import Budget, Record
    from tokenbox.tokenizers.protocol import TokenizerIdentity

TOOLS = "tools"


def of_window(
    fitted: Fitted, budget: Budget | None = None, source: str | None = None, template: str | None = None
) -> Evidence:
    """The evidence of messages that were fitted.

    ``budget`` says where the figures are from (default: it was given as it is); ``source``, where the
    messages are from; ``template`` is the digest of the chat template.
    """
    kept = [as_json(message.to_dict()) for n, message in enumerate(fitted.inputs) if n not in fitted.gone]
    return Evidence(
        kind=Kind.WINDOW,
        algorithm=ALGORITHM,
        options=_options(fitted.limits, fitted.pinned, fitted.tools_text),
        budget=budget or given_budget(fitted.budget),
        tokenizer=fitted.tokenizer,
        inputs=tuple(_inputs(fitted.inputs, fitted.sizes, fitted.pinned, fitted.tools_text, source)),
        decisions=tuple(_decisions(fitted)),
        emitted=f"[{','.join(kept)}]",
        digest=fitted.digest,
        figures={"total": fitted.total, "exact": fitted.exact},
        template=template,
    )


def of_window_error(
    error: TokenboxError,
    messages: Sequence[Message],
    limits: Limits,
    tokenizer: TokenizerIdentity,
    *,
    pinned: Collection[int] = (),
    tools_text: str | None = None,
    source: str | None = None,
    template: str | None = None,
) -> Evidence:
    """The evidence of messages that could not be fitted: refused if what must stay is too much."""
    critical = dict(error.critical) if isinstance(error, ContextCriticalOverflow) else {}
    sizes = [critical.get(_name(place, message)) for place, message in enumerate(messages)]
    return Evidence(
        kind=Kind.WINDOW,
        algorithm=ALGORITHM,
        options=_options(limits, pinned, tools_text),
        budget=given_budget(limits.budget),
        tokenizer=tokenizer,
        inputs=tuple(_inputs(messages, sizes, pinned, tools_text, source)),
        decisions=tuple(critical_decisions(critical)),
        outcome=outcome_of(error),
        template=template,
    )


def _options(limits: Limits, pinned: Collection[int], tools_text: str | None) -> Record:
    return {
        "max_turns": limits.max_turns,
        "low_water": limits.mark,
        "pinned": sorted(pinned),
        TOOLS: None if tools_text is None else hashlib.sha256(utf8(tools_text)).hexdigest(),
    }


def _name(place: int, message: Message) -> str:
    """As the error for what does not fit names it."""
    return f"messages[{place}] ({message.role.value})"


def _inputs(
    messages: Sequence[Message],
    sizes: Sequence[int | None],
    pinned: Collection[int],
    tools_text: str | None,
    source: str | None,
) -> Iterator[Input]:
    for place, (message, tokens) in enumerate(zip(messages, sizes, strict=True)):
        role, is_pinned = message.role.value, place in pinned
        fields = {"role": role, "pinned": is_pinned, "calls": len(message.tool_calls)}
        yield _input(_name(place, message), "message", as_json(message.to_dict()), tokens, source, fields)
    if tools_text is not None:
        yield _input(TOOLS, TOOLS, tools_text, None, source, {})


def _input(name: str, kind: str, text: str, tokens: int | None, source: str | None, fields: Record) -> Input:
    """Something that is JSON: its text has the digest, so the text is all that a replay needs."""
    data = utf8(text)
    return Input(name, kind, hashlib.sha256(data).hexdigest(), len(data), tokens, source, fields, (text,))


def _decisions(fitted: Fitted) -> Iterator[Record]:
    """What became of each exchange, and of what is in none; then the steps in their order."""
    for number, exchange in enumerate(fitted.exchanges, 1):
        yield {"id": f"exchange {number}", **exchange.to_dict()}
    for place, message in enumerate(fitted.inputs):
        if message.role in {Role.SYSTEM, Role.DEVELOPER}:
            size = fitted.sizes[place]
            yield {"id": _name(place, message), "decision": "kept", "base_size": size, "size": size}
    for step in fitted.steps:
        yield step.to_dict()
