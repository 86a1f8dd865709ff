"""What a call sent and why, as evidence that a proof bundle is made of."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from tokenbox.proof.evidence import Budget, Evidence, EvidenceKind, Input, Sourced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tokenbox.engine.window import WindowStep
    from tokenbox.providers.counting import TokenCount
    from tokenbox.shell.session import Session

ALGORITHM = "window/1"


def of_call(
    session: Session,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    counted: TokenCount,
    steps: Sequence[WindowStep],
) -> Evidence:
    """The messages and tools of a request as inputs, the evictions before it as decisions."""
    conversation = session.context.conversation
    digest = None if not tools else hashlib.sha256(_json(list(tools))).hexdigest()
    sent = _json({"messages": list(messages), "tools": list(tools)})
    budget = session.config.source("shell.token_budget")
    return Evidence(
        kind=EvidenceKind.WINDOW,
        function="shell",
        algorithm=ALGORITHM,
        arguments={
            "max_turns": conversation.max_turns,
            "low_water": str(conversation.low_water),
            "tools": digest,
        },
        budget=Budget(Sourced(session.context.budget, budget)),
        tokenizer=session.context.identity,
        inputs=tuple(_input(session, number, message) for number, message in enumerate(messages)),
        decisions=tuple(step.to_dict() for step in steps),
        emitted=sent,
        digest=hashlib.sha256(sent).hexdigest(),
        figures={"total": counted.value, "budget": session.context.budget, "messages": len(messages)},
        model=session.models.target.model,
    )


def _input(session: Session, number: int, message: Mapping[str, Any]) -> Input:
    data = _json(message)
    text = str(message.get("content") or "")
    return Input(
        f"messages[{number}]",
        str(message["role"]),
        hashlib.sha256(data).hexdigest(),
        len(text.encode("utf-8", "surrogatepass")),
        session.models.count_text(text).value,
        texts=(data,),
    )


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
