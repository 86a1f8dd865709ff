"""Evidence: everything a proof bundle is made from, whatever was decided.

A layout, a plan and an enforcement differ in what they decide, not in what proves it. Each makes one
:class:`Evidence` of itself and gives it to whoever asked for proof: a :data:`Sink`. No text is copied or
hashed twice for it, and none gets into a bundle unless texts are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.errors import TokenboxError
    from tokenbox.tokenizers.protocol import TokenizerIdentity

Record = Mapping[str, object]
"""One JSON object: text, whole numbers within 2**53, true, false, null, lists and objects of those."""

Text = str | bytes | Callable[[], bytes]
"""A text as it is, or a function that makes its bytes: it is called only if the texts are to be kept."""


class EvidenceKind(StrEnum):
    """What was decided."""

    LAYOUT = "layout"
    BLOCKS = "blocks"
    WINDOW = "window"
    ESTIMATE = "estimate"
    PLAN = "plan"
    ENFORCEMENT = "enforcement"
    BATCH = "batch"


class EvidenceStatus(StrEnum):
    """How it ended."""

    OK = "ok"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value and where it is from: ``Sourced(8000, "--budget")``. An exact fraction is a decimal string.

    None is unknown, as everywhere.
    """

    value: int | str | None
    source: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {"value": self.value, "source": self.source}


@dataclass(frozen=True, slots=True)
class Budget:
    """The input budget in tokens, and the figures it follows from. None: unknown, or there is none."""

    tokens: Sourced = Sourced(None)
    context_window: Sourced = Sourced(None)
    output_reserve: Sourced = Sourced(None)
    headroom: Sourced = Sourced(None)
    max_input: Sourced = Sourced(None)

    def to_dict(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name).to_dict() for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that was given: a section, a block, a message, a chunk, the tools of a request.

    ``digest``: SHA-256 (hex) of everything in it that can change the result. ``size``: bytes of its texts.
    ``tokens``: what it counts alone, None where it was not counted. ``source``: where it is from, such as a
    file's name. ``fields``: what else it says, without its texts: those are named by their SHA-256.
    ``texts``: the texts themselves, kept only where a bundle is asked for with texts.
    """

    id: str
    kind: str
    digest: str
    size: int
    tokens: int | None
    source: str | None = None
    fields: Record = field(default_factory=dict)
    texts: tuple[Text, ...] = field(default=(), repr=False, compare=False)

    def to_dict(self) -> dict[str, object]:
        """The line of ``inputs.jsonl``."""
        return {
            "id": self.id,
            "kind": self.kind,
            "digest": self.digest,
            "bytes": self.size,
            "tokens": self.tokens,
            "from": self.source,
            "fields": dict(self.fields),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary that was made on the way, by a model or a function of the user's.

    It is an input: replay takes it as it was and never makes it again. ``of``: the ids of what it stands for.
    """

    of: tuple[str, ...]
    text: str = field(repr=False)
    tokens: int | None = None
    source: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The record in ``summaries/``; the text itself is only its digest."""
        data = utf8(self.text)
        return {
            "of": list(self.of),
            "digest": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "tokens": self.tokens,
            "from": self.source,
        }


@dataclass(frozen=True, slots=True)
class EvidenceOutcome:
    """How it ended; for a refusal or a failure with the error's code and figures."""

    status: EvidenceStatus = EvidenceStatus.OK
    code: str | None = None
    figures: Record = field(default_factory=dict)

    @classmethod
    def of(cls, error: TokenboxError, status: EvidenceStatus = EvidenceStatus.FAILED) -> EvidenceOutcome:
        """The outcome that ``error`` is. Its message and texts are left out: they may quote an input."""
        figures = {
            name: value
            for name, value in error.details.items()
            if value is None or isinstance(value, bool | int)
        }
        return cls(status, error.code, figures)

    def to_dict(self) -> dict[str, object]:
        return {"status": self.status.value, "code": self.code, "figures": dict(self.figures)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A call that decided something: the function and its arguments, and what came of it.

    ``function`` is the name under which a replay finds it, ``algorithm`` the version of its rules.
    ``arguments``: those that are neither inputs nor budget nor tokenizer. ``digest`` is the result's own:
    None for a refusal. ``figures``: its totals, in tokens. ``decisions``: what became of each input, then
    every step, as records. ``emitted``: what would be sent, as text, bytes, or pieces; None for a refusal.
    ``template``: SHA-256 of the chat template. ``override``: the explicit permission to go over the context,
    as given. ``parent``: the id of the bundle that this follows from.
    """

    kind: EvidenceKind
    function: str
    algorithm: str
    arguments: Record
    budget: Budget
    tokenizer: TokenizerIdentity
    inputs: tuple[Input, ...] = field(repr=False)
    decisions: tuple[Record, ...] = field(default=(), repr=False)
    outcome: EvidenceOutcome = field(default_factory=EvidenceOutcome)
    emitted: str | bytes | tuple[str, ...] | None = field(default=None, repr=False)
    digest: str | None = None
    figures: Record = field(default_factory=dict)
    summaries: tuple[Summary, ...] = field(default=(), repr=False)
    model: str | None = None
    template: str | None = None
    override: Record | None = None
    parent: str | None = None


Sink = Callable[[Evidence], object]
"""Where evidence goes: what ``proof=`` takes."""
