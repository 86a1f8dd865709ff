"""The evidence of a call of the shell, and its replay.

A replay counts again with the local counter and asks the guard again. Counts of a server and earlier
evictions, which depend on the whole conversation, are taken as recorded and listed as not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tokenbox.compose.requests import By, Count, RequestCounter
from tokenbox.content.message import Message, check_messages
from tokenbox.content.request import Request, read_request
from tokenbox.errors import TokenboxError
from tokenbox.models import Counting, counters_for
from tokenbox.policy.guard import GuardLimits, Uncertain, Verdict, guard
from tokenbox.proof.bundle import DECISIONS
from tokenbox.proof.calls import Arguments, Recorded, evidence_of, recorded_decision
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.evidence import Budget, Evidence, EvidenceKind, Record, Sourced
from tokenbox.proof.of_messages import as_given, message_input, recorded_messages, tools_input
from tokenbox.proof.of_policy import budget_of, recorded_limits
from tokenbox.shell.models import bounded, bounded_count
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import FILE_PREFIX

if TYPE_CHECKING:
    from tokenbox.providers.counting import TokenCount
    from tokenbox.shell.session import Session


class ShellRequest(NamedTuple):
    """A request of the shell and the decision to send it.

    ``known``: the model's window is known. ``budget``: the shell's own, with its source. ``steps``: what was
    evicted and shortened since the last call.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    verdict: Verdict
    known: bool
    budget: Sourced
    identity: TokenizerIdentity
    steps: Sequence[Record]
    model: str | None


def of_call(
    session: Session,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    counted: TokenCount,
) -> Evidence:
    """Return evidence: messages and tools as inputs; count, verdict and steps as decisions."""
    context, models = session.context, session.models
    count = bounded_count(counted, messages, tools)
    counter = None if count.by is By.SERVER else models.local_counter()
    sent = ShellRequest(
        check_messages(messages),
        tools,
        models.verdict(count, context.budget),
        models.limits() is not None,
        Sourced(context.budget, session.config.source("shell.token_budget")),
        TokenizerIdentity(count.by.value, "", "", count.exact) if counter is None else counter.identity,
        [step.to_dict() for step in session.evictions],
        models.target.model,
    )
    return evidence_of(SHELL, {}, sent)


def _result(_: Arguments, sent: ShellRequest) -> dict[str, Any]:
    verdict = sent.verdict
    count, budget = verdict.count, cast("int", sent.budget.value)
    inputs = [message_input(one, f"messages[{number}]", None) for number, one in enumerate(sent.messages)]
    emitted = as_given({"messages": [one.to_dict() for one in sent.messages], "tools": list(sent.tools)})
    return {
        "arguments": {"budget": budget, "uncertain": verdict.uncertain.value},
        "budget": budget_of(verdict.limits) if sent.known else Budget(sent.budget),
        "tokenizer": sent.identity,
        "inputs": (*inputs, *([tools_input(sent.tools)] if sent.tools else [])),
        "decisions": (
            {
                "decision": "sent",
                "over": max(0, count.total - budget, verdict.over),
                "decided_on": verdict.tokens,
                "basis": verdict.basis.value,
                "count": count.to_dict(),
            },
            *sent.steps,
        ),
        "emitted": emitted,
        "digest": hashlib.sha256(emitted.encode()).hexdigest(),
        "figures": {"total": count.total, "exact": count.exact, "messages": len(sent.messages)},
        "model": sent.model,
    }


def decide_again(recorded: Recorded) -> ShellRequest:
    """Count the recorded request and ask the guard again."""
    messages, tools = recorded_messages(recorded)
    request = read_request(messages, tools=tools, strict=False)
    known = recorded.figure("context_window") is not None
    budget = recorded.arguments.get("budget")
    if type(budget) is not int or budget < 0:
        raise BundleInvalid("is not a number of tokens.", file="manifest.json", field="arguments.budget")
    count, identity = _counted(recorded, request)
    try:
        uncertain = Uncertain(str(recorded.arguments.get("uncertain")))
    except ValueError:
        raise BundleInvalid("is not a rule.", file="manifest.json", field="arguments.uncertain") from None
    limits = recorded_limits(recorded) if known else GuardLimits(budget)
    return ShellRequest(
        messages,
        tools or (),
        guard(count, limits, uncertain),
        known,
        Sourced(budget),
        identity,
        [record for record in recorded.contents.decisions if "action" in record],
        cast("str | None", recorded.predicate["model"]),
    )


def _counted(recorded: Recorded, request: Request) -> tuple[Count, TokenizerIdentity]:
    """Return the count and its counter. The count of a server is taken from the bundle."""
    before = _recorded_count(recorded)
    identity = TokenizerIdentity(**cast("dict[str, Any]", recorded.predicate["tokenizer"]))
    if not recorded.counts_here:
        return before, identity
    counter = recorded.counter or _counter(recorded, identity)
    if not hasattr(counter, "count_request"):
        counter = counters_for(str(recorded.predicate["model"]), Counting(named=counter)).counter
    found = counter.count_request(request)
    # The calibration may have known from the server's reports that this counter is not exact.
    exact = found.exact and before.exact
    return bounded(Count(found.total, exact, found.total, found.by), request), counter.identity


def _counter(recorded: Recorded, identity: TokenizerIdentity) -> RequestCounter:
    """Return the recorded counter, if it is known here. A bundle cannot make a replay open a file."""
    model = recorded.predicate["model"]
    for named in (None, identity.name):
        if named is not None and named.startswith(FILE_PREFIX):
            continue
        try:
            found = counters_for(str(model), Counting(named=named)).counter
        except TokenboxError:
            continue
        if found.identity == identity:
            return found
    raise ReplayImpossible(
        f"the tokenizer {identity.name[:100]!r} is not known here. Give it with --tokenizer.",
        tokenizer=identity.name[:100],
    )


def _recorded_count(recorded: Recorded) -> Count:
    first = recorded.contents.decisions[0] if recorded.contents.decisions else {}
    fields = cast("Mapping[str, Any]", first.get("count") if isinstance(first.get("count"), dict) else {})
    total, at_most = fields.get("total"), fields.get("at_most")
    if type(total) is not int or type(at_most) is not int or fields.get("by") not in set(By):
        raise BundleInvalid("is not a count.", file=DECISIONS, field="line 1.count")
    return Count(total, fields.get("exact") is True, at_most, By(fields["by"]))


def _uncompared(recorded: Recorded) -> frozenset[str]:
    """Return the fields that are not recomputed: earlier steps, and the count of a server."""
    steps = sum("action" in record for record in recorded.contents.decisions)
    found = {f"steps[{number}]" for number in range(1, steps + 1)}
    if not recorded.counts_here:
        found |= {"decisions[1].count", "tokenizer"}
    return frozenset(found)


SHELL = recorded_decision(
    "shell", EvidenceKind.WINDOW, decide_again, _result, ("budget", "uncertain"), _uncompared
)
