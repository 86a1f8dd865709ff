"""The results of the policy: an estimate, a plan, an enforcement with its remedies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tokenbox.compose.blocks import BlockLayout
from tokenbox.compose.layout import Layout
from tokenbox.compose.messages import messages_of
from tokenbox.compose.requests import NO_BOUND, Count
from tokenbox.content.weight import weight_text
from tokenbox.conversation.record import Fitted
from tokenbox.policy.errors import PolicyError
from tokenbox.policy.guard import Basis, Binding, GuardLimits, Verdict, in_window
from tokenbox.policy.strategies import ChosenLayout
from tokenbox.records import AsRecord, to_record
from tokenbox.render.html import Pictured, in_words

if TYPE_CHECKING:
    from enum import StrEnum

    from tokenbox.content.items import Item
    from tokenbox.models import OutputMode
    from tokenbox.policy.chunks import Chunks
    from tokenbox.policy.override import Override
    from tokenbox.tokenizers.protocol import TokenizerIdentity

AnyLayout = Layout | BlockLayout | Fitted[Any] | ChosenLayout
SCHEMA_ESTIMATE = "tokenbox.estimate/2"
SCHEMA_PLAN = "tokenbox.plan/2"
SCHEMA_ENFORCEMENT = "tokenbox.enforcement/2"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The count of a request.

    ``count`` is that of everything that would be sent, with separators, markup or chat format. ``per_chunk``
    has the count of each chunk alone, so these do not add up to it.
    """

    count: Count
    per_chunk: tuple[int, ...]
    tokenizer: TokenizerIdentity
    model: str | None = None
    ids: tuple[str, ...] = ()

    @property
    def tokens_in(self) -> int:
        return self.count.total

    @property
    def exact(self) -> bool:
        return self.count.exact

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "schema model tokens_in exact at_most counted_by per_chunk tokenizer",
            schema=SCHEMA_ESTIMATE,
            at_most=self.count.at_most,
            counted_by=self.count.by.value,
            per_chunk=[
                {"id": name, "tokens": tokens} for name, tokens in zip(self.ids, self.per_chunk, strict=True)
            ],
        )


@dataclass(frozen=True, slots=True)
class ChunkPlan(AsRecord):
    """The decision about a chunk, in tokens: ``base_size`` is its own size, ``size`` what would be sent."""

    index: int
    id: str
    decision: StrEnum
    base_size: int
    size: int
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryOp(AsRecord):
    """A summary that the user could write. Nothing is summarized here.

    If the content of ``chunks`` (``size`` tokens) were summarized in at most ``at_most`` tokens, packing
    again would keep all of ``brings_back`` unchanged. If that is ``chunks`` itself, the summary is kept.
    """

    chunks: tuple[str, ...]
    size: int
    at_most: int
    brings_back: tuple[str, ...]

    def say(self, about: str = "") -> str:
        names = ", ".join(self.chunks)
        back = "its summary" if self.brings_back == self.chunks else ", ".join(self.brings_back)
        return (
            f"summarize {names} ({about}{self.size:,} tokens) to at most {self.at_most:,}: brings back {back}"
        )


@dataclass(frozen=True)
class PackPlan(Pictured):
    """The plan of what would be sent of the chunks, and what would not. Nothing was sent.

    ``packed`` and ``dropped`` contain every chunk once, in the order given. ``layout`` is the record of the
    strategy's engine, whose ``text`` or ``messages`` would be sent; ``total <= budget``. The budget is what
    the limits leave for the input, or less if the count is an estimate and the guard passes only less.
    """

    packed: tuple[ChunkPlan, ...]
    dropped: tuple[ChunkPlan, ...]
    summary_ops: tuple[SummaryOp, ...]
    layout: AnyLayout = field(repr=False)
    request: Chunks = field(repr=False)
    limits: GuardLimits
    strategy: str
    count: Count
    budget: int
    model: str | None = None

    @property
    def total(self) -> int:
        return self.layout.total

    @property
    def exact(self) -> bool:
        return self.count.exact

    @property
    def text(self) -> str:
        """The text that would be sent; for messages, their JSON."""
        made = self.layout
        if isinstance(made, Fitted):
            return emitted(made.shown.values())
        if isinstance(made, BlockLayout) or made.count is None:
            return made.text
        return _as_json(self.messages)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages that would be sent. Raises :class:`PolicyError` for a plan of texts or blocks."""
        made = self.layout
        if isinstance(made, Fitted):
            return [sent for item in made.shown.values() for sent in item.sent()]
        if isinstance(made, BlockLayout) or made.count is None:
            raise PolicyError("this plan is of texts or blocks: it has a text, and no messages.")
        if not isinstance(made, ChosenLayout):
            return made.messages()
        sections = self.request.sections
        return messages_of([sections[i] for i in made.order], [made.texts[i] or "" for i in made.order])

    @property
    def emitted(self) -> bytes:
        """The bytes that would be sent, as in a proof."""
        return self.text.encode()

    @property
    def tokenizer(self) -> TokenizerIdentity:
        return self.layout.tokenizer

    def __repr__(self) -> str:
        decisions = [chunk.decision.value for chunk in (*self.packed, *self.dropped)]
        by = self.tokenizer.name if self.model is None else self.model
        return in_words("PackPlan", self.total, self.budget, by, decisions, exact=self.exact)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "schema model strategy limits budget total exact tokenizer packed dropped summary_ops layout",
            schema=SCHEMA_PLAN,
        )


@dataclass(frozen=True, slots=True)
class Why:
    """The figures of an enforcement. ``notes`` are facts that did not decide."""

    verdict: Verdict
    overridden: bool = False
    notes: tuple[str, ...] = ()

    @property
    def tokens_in(self) -> int:
        return self.verdict.count.total

    @property
    def exact(self) -> bool:
        return self.verdict.count.exact

    @property
    def limits(self) -> GuardLimits:
        return self.verdict.limits

    @property
    def binding(self) -> Binding:
        return self.verdict.binding

    @property
    def over(self) -> int:
        """By how many tokens the input exceeds its limit; 0 or less if it fits."""
        return self.verdict.over

    @property
    def say(self) -> str:
        """All figures in one sentence."""
        about = "" if self.exact else "~"
        limits, verdict = self.limits, self.verdict
        added = {Basis.MARGIN: ", with its margin", Basis.AT_MOST: ", at most"}.get(verdict.basis)
        total = f"{about}{in_window(verdict.count):,} tokens of input"
        allowed = "; allowed by an override" if self.overridden else ""
        if verdict.tokens == NO_BOUND:
            closed = f"nothing uncertain passes while policy.uncertain is {verdict.uncertain}"
            return f"{total}, and input that only the server can count: {closed}{allowed}"
        if added is not None and verdict.tokens != in_window(verdict.count):
            total += f" ({about}{verdict.tokens:,}{added})"
        if self.binding is Binding.MAX_INPUT_TOKENS:
            rule = f"{total}, of at most {limits.max_input:,}"
        else:
            percent = weight_text(limits.headroom * 100)
            margin = f" ({limits.max_ctx:,} - {percent} % headroom)" if limits.headroom else ""
            rule = (
                f"{total} + {limits.reserve_out:,} reserved for the answer "
                f"= {about}{verdict.tokens + limits.reserve_out:,}, of {limits.usable:,}{margin}"
            )
        free = f"{about}{self.over:,} too many" if self.over > 0 else f"{about}{-self.over:,} free"
        return f"{rule}: {free}{allowed}"

    def __str__(self) -> str:
        return self.say

    def to_dict(self) -> dict[str, object]:
        verdict = self.verdict
        return (
            to_record(
                self,
                "say tokens_in exact at_most counted_by decided_on basis uncertain "
                "over binding overridden notes",
                at_most=verdict.count.at_most,
                counted_by=verdict.count.by.value,
                decided_on=verdict.tokens,
                basis=verdict.basis.value,
                uncertain=verdict.uncertain.value,
            )
            | self.limits.to_dict()
        )


@dataclass(frozen=True, slots=True)
class LowerMaxTokens:
    """Request at most ``max_tokens`` of output. One more would be refused, or exceeds the model's limit."""

    max_tokens: int
    asked: int

    @property
    def say(self) -> str:
        return f"lower max_tokens from {self.asked:,} to {self.max_tokens:,}"

    def to_dict(self) -> dict[str, object]:
        return {"change": "lower_max_tokens", "to": self.max_tokens, "from": self.asked, "say": self.say}


@dataclass(frozen=True, slots=True)
class CutChunks:
    """Send what ``plan`` has packed. Cutting less would be refused."""

    plan: PackPlan = field(repr=False)

    @property
    def cuts(self) -> tuple[ChunkPlan, ...]:
        """The chunks that are not sent as they were given, in order."""
        changed = [chunk for chunk in self.plan.packed if chunk.decision.value not in ("kept", "full")]
        return tuple(sorted((*changed, *self.plan.dropped), key=lambda chunk: chunk.index))

    @property
    def say(self) -> str:
        about = "" if self.plan.exact else "~"
        dropped = {chunk.index for chunk in self.plan.dropped}
        parts = [
            f"drop {cut.id} ({about}{cut.base_size:,})"
            if cut.index in dropped
            else f"cut {cut.id} from {about}{cut.base_size:,} to {about}{cut.size:,}"
            for cut in self.cuts
        ]
        shown = ", ".join(parts[:SHOWN])
        more = f" and {len(parts) - SHOWN:,} more" if len(parts) > SHOWN else ""
        return f"{shown}{more}: {about}{self.plan.total:,} tokens of input"

    def to_dict(self) -> dict[str, object]:
        return {
            "change": "cut_chunks",
            "strategy": self.plan.strategy,
            "cuts": [cut.to_dict() for cut in self.cuts],
            "tokens_in": self.plan.total,
            "say": self.say,
        }


@dataclass(frozen=True, slots=True)
class LargerWindow:
    """Use a model with a window of at least ``max_ctx`` tokens. One less would be refused.

    ``models`` are known models that are counted alike and let the request pass, the smallest first.
    """

    max_ctx: int
    max_input: int | None
    models: tuple[str, ...] = ()

    @property
    def say(self) -> str:
        least = f"a window of at least {self.max_ctx:,} tokens"
        if self.max_input is not None:
            least += f" that takes {self.max_input:,} of input"
        return f"use a model with {least}" + (f": {', '.join(self.models)}" if self.models else "")

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "change max_ctx max_input models say", change="larger_window")


Remedy = LowerMaxTokens | CutChunks | LargerWindow
# Cuts that are named in the sentence; the record has all of them.
SHOWN = 3


@dataclass(frozen=True)
class Enforcement(Pictured):
    """The decision whether a request may be sent. ``why`` has the figures in either case.

    ``plan`` has the smallest changes, each sufficient alone; it is empty if it passes. A request with an
    override is ``ok`` although it is over, and has a ``plan``, too.
    """

    ok: bool
    why: Why
    plan: tuple[Remedy, ...]
    tokenizer: TokenizerIdentity
    output_mode: OutputMode
    override: Override | None = None
    model: str | None = None
    max_tokens_request: int | None = None
    request: Chunks | None = field(default=None, repr=False, compare=False)
    strategy: str | None = None

    @property
    def tokens_in(self) -> int:
        return self.why.tokens_in

    @property
    def exact(self) -> bool:
        return self.why.exact

    @property
    def limits(self) -> GuardLimits:
        return self.why.limits

    def __repr__(self) -> str:
        return f"<Enforcement: {'may be sent' if self.ok else 'refused'}; {self.why.say}>"

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "schema ok model output_mode max_tokens_request why plan override tokenizer",
            schema=SCHEMA_ENFORCEMENT,
        )


def emitted(items: Iterable[Item]) -> str:
    """Return the messages that would be sent, as JSON."""
    return _as_json([message for item in items for message in item.sent(declared=False)])


def _as_json(messages: Sequence[object]) -> str:
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
