"""Evidence of every kind, each made by its own function, and the replay."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import tokenbox
from tests.batch.rows import mixed, write_jsonl
from tests.ctx.test_replay import BLOCKS, MESSAGES, SECTIONS, TOOLS
from tests.proof.examples import EXAMPLES
from tests.proof.examples import evidence_of as call_evidence
from tokenbox import batch
from tokenbox.batch.evidence import FUNCTION as BATCH
from tokenbox.batch.evidence import replay_run
from tokenbox.cli.replaying import replayed
from tokenbox.compose.requests import By, Count
from tokenbox.content.message import check_messages
from tokenbox.content.request import read_request
from tokenbox.gateway.evidence import GATEWAY, decide_again
from tokenbox.models import Counting, counters_for
from tokenbox.policy import GuardLimits, read_chunks
from tokenbox.policy.guard import Uncertain, guard
from tokenbox.policy.override import allow_over_context
from tokenbox.proof.bundle import TEXTS
from tokenbox.proof.calls import Recorded, Texts, evidence_of
from tokenbox.proof.contents import Contents, read_contents
from tokenbox.proof.evidence import Sourced
from tokenbox.proof.manifest import Manifest
from tokenbox.proof.of_messages import FIT
from tokenbox.proof.of_policy import ENFORCE, ESTIMATE, PLAN
from tokenbox.proof.verify import verify
from tokenbox.shell.evidence import SHELL, ShellRequest
from tokenbox.shell.models import bounded
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.policy.override import Override
    from tokenbox.proof.evidence import Evidence
    from tokenbox.proof.replay import Replay
    from tokenbox.proof.verify import BundleFiles

SERVER = TokenizerIdentity("stub:/tokenize", "", "", exact=True)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def gateway_evidence(mode: str, exchanges: int, *, by_server: bool = False) -> Evidence:
    """Return the evidence of a gateway's decision, with a window of 400 tokens."""
    chat = [{"role": "system", "content": "Be brief."}]
    for number in range(exchanges):
        chat.append({"role": "user", "content": f"question {number} {'word ' * 12}"})
        chat.append({"role": "assistant", "content": f"answer {number}"})
    chat.append({"role": "user", "content": "the last question é"})
    data = json.dumps({"model": "house", "messages": chat, "max_tokens": 10}, indent=1).encode()
    digest = hashlib.sha256(data).hexdigest()
    identity = SERVER if by_server else get("utf8-bytes").identity
    predicate = {
        "arguments": {"route": "chat", "mode": mode, "reserve_out": None, "limited": None}
        | {"fit": ["truncate", "evict"], "eagerness": None, "low_water": "0.75"},
        "tokenizer": identity.to_dict(),
    }
    figures: dict[str, Any] = {
        "decision": "",
        "counted_by": identity.name,
        "context_window": 400,
        "headroom": "0.05",
        "uncertain": "margin",
        "sources": {"context_window": "the settings"},
    }
    total = len(data) // 4
    counted = {"counted": digest, **Count(total, exact=True, at_most=total, by=By.SERVER).to_dict()}
    contents = Contents(
        Manifest("", {"predicate": predicate}),
        [{"id": "request", "digest": digest}],
        [figures, counted] if by_server else [figures],
        [],
    )
    return evidence_of(GATEWAY, {}, decide_again(Recorded(contents, Texts([data]))))


def shell_evidence(*, by_server: bool = False, window: int | None = 9_000, budget: int = 500) -> Evidence:
    """Return the evidence of a shell's request after an eviction."""
    messages = check_messages(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the weather? é"}]
    )
    counter = counters_for("house", Counting(named="utf8-bytes")).counter
    request = read_request(messages, tools=[TOOL])
    count = bounded(counter.count_request(request), request)
    limits = GuardLimits(budget)
    if window is not None:
        limits = GuardLimits.of(window, 100, "0.05", None, {"max_ctx": "the server"})
    if by_server:
        count = Count(77, exact=True, at_most=77, by=By.SERVER)
    step = {"action": "evict", "messages": [1, 2], "before": 600, "after": 60, "why": "100 over 500 tokens"}
    sent = ShellRequest(
        messages,
        [TOOL],
        guard(count, limits, Uncertain.MARGIN if window is not None else Uncertain.ALLOW),
        window is not None,
        Sourced(budget, "default"),
        SERVER if by_server else counter.identity,
        [step],
        "house",
    )
    return evidence_of(SHELL, {}, sent)


@cache
def batch_input() -> str:
    """Write the input of the batch, once per process; return its path."""
    folder = Path(tempfile.mkdtemp(prefix="tokenbox-batch-"))
    return str(write_jsonl(folder / "rows.jsonl", mixed(12)))


def batch_evidence() -> Evidence:
    found: list[Evidence] = []
    out = Path(tempfile.mkdtemp(prefix="tokenbox-batch-"), "out.jsonl")
    batch.run(batch_input(), out, proof=found.append, task="auto", budget="limit", shard_size=1_000)
    (evidence,) = found
    return evidence


def pack_evidence() -> Evidence:
    """Return the evidence of a pack with a query."""
    folder = Path(tempfile.mkdtemp(prefix="tokenbox-pack-"))
    for name in ("red", "blue", "green"):
        (folder / f"{name}.py").write_text(f"def {name}():\n    return '{name}'\n" * 40)
    found: list[Evidence] = []
    tokenbox.pack(folder, 300, "blue is wrong", tokenizer="utf8-bytes", proof=found.append)
    return found[-1]


def replayed_files(files: BundleFiles, bundle_id: str) -> Replay:
    """Replay a bundle with texts as ``tokenbox proof replay`` does."""
    contents = read_contents(files, verify(files, bundle_id))
    if contents.manifest.predicate["function"] == BATCH:
        return replay_run(contents, batch_input())
    texts = Texts(files.read(name, 1 << 20) for name in files.names() if name.startswith(TEXTS))
    return replayed(contents, texts, None)


BYTES = get("utf8-bytes")


def message_object(given: dict[str, Any]) -> object:
    """Return an object that its library sends in another form: no count of it is proven."""
    made = type("Message", (), {"type": "human", "content": given["content"], "__module__": "langchain.test"})
    return made()


def plan(chunks: list[Any] | dict[str, Any], tools: list[Any] | None = None, window: int = 300) -> Evidence:
    limits = GuardLimits.of(window, 20, "0.05", 270, {"max_ctx": "flag"})
    return call_evidence(PLAN, read_chunks(chunks, tools=tools), limits, BYTES, None, "gpt-4o")


# Items of the Responses API, a message of Anthropic's, and an object of a library.
ITEMS: list[Any] = [
    {"type": "message", "role": "user", "content": "How warm is it in Brest?"},
    {"type": "function_call", "call_id": "c1", "name": "warmth", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "14 degrees, some wind from the west. " * 4},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "14", "signature": "s"}]},
    message_object({"role": "user", "content": "And now?"}),
]


def whole_request_plan(window: int) -> Evidence:
    form = {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}}
    return plan({"instructions": "You know the sea.", "input": ITEMS, "text": form}, window=window)


def enforcement(window: int, override: Override | None = None) -> Evidence:
    limits = GuardLimits.of(window, 20, "0.05")
    return call_evidence(
        ENFORCE,
        read_chunks(list(SECTIONS)),
        limits,
        BYTES,
        model="gpt-4o",
        override=override,
        max_tokens_request=20,
    )


KINDS: dict[str, Callable[[], Evidence]] = {
    **EXAMPLES,
    "window": lambda: call_evidence(FIT, MESSAGES, 100, "utf8-bytes", tools=TOOLS, low_water="0.5"),
    "estimate": lambda: call_evidence(
        ESTIMATE, read_chunks(cast("list[Any]", MESSAGES), tools=TOOLS), BYTES, "gpt-4o"
    ),
    "plan of sections": lambda: plan(SECTIONS),
    "plan of blocks": lambda: plan(BLOCKS),
    "plan of messages": lambda: plan(MESSAGES, TOOLS, 400),
    "plan of a whole request": lambda: whole_request_plan(900),
    "plan of a whole request, cut": lambda: whole_request_plan(540),
    "window of other shapes": lambda: call_evidence(FIT, ITEMS, 200, "utf8-bytes", fields={"top_k": 3}),
    "plan that was refused": lambda: plan(SECTIONS, window=60),
    "denied": lambda: enforcement(300),
    "allowed": lambda: enforcement(9_000),
    "overridden": lambda: enforcement(300, allow_over_context("we asked")),
    "gateway, admitted": lambda: gateway_evidence("enforce", 1),
    "gateway, refused": lambda: gateway_evidence("enforce", 9),
    "gateway, made to fit": lambda: gateway_evidence("fit", 9),
    "gateway, counted by a server": lambda: gateway_evidence("enforce", 1, by_server=True),
    "shell": shell_evidence,
    "shell, window unknown": lambda: shell_evidence(window=None),
    "shell, counted by a server": lambda: shell_evidence(by_server=True),
    "batch": batch_evidence,
    "pack": pack_evidence,
}


def slug(kind: str) -> str:
    """Return the kind as a file name."""
    return kind.replace(", ", "-").replace(" ", "-")
