"""Evidence: the content of a proof bundle, the same for layouts, plans, enforcements and the rest.

Each recorded call makes one :class:`Evidence` and passes it to a :data:`Sink`. Texts are neither copied nor
hashed twice, and a bundle contains them only on request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tokenbox.records import AsRecord
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.errors import TokenboxError
    from tokenbox.tokenizers.protocol import TokenizerIdentity

Record = Mapping[str, Any]
"""A JSON object of text, integers within 2**53, true, false, null, lists and objects."""

Text = str | bytes | Callable[[], bytes]
"""A text, or a function that returns its bytes, which is called only if the bundle contains texts."""


class EvidenceKind(StrEnum):
    """The kind of a decision."""

    LAYOUT = "layout"
    BLOCKS = "blocks"
    WINDOW = "window"
    ESTIMATE = "estimate"
    PLAN = "plan"
    ENFORCEMENT = "enforcement"
    BATCH = "batch"


class EvidenceStatus(StrEnum):
    """The status of a call."""

    OK = "ok"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Sourced(AsRecord):
    """A value and its source: ``Sourced(8000, "--budget")``. A fraction is an exact decimal string.

    None is unknown.
    """

    value: int | str | None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Budget(AsRecord):
    """The input budget in tokens, and the figures that determine it. None: unknown or not set."""

    tokens: Sourced = Sourced(None)
    context_window: Sourced = Sourced(None)
    output_reserve: Sourced = Sourced(None)
    headroom: Sourced = Sourced(None)
    max_input: Sourced = Sourced(None)


@dataclass(frozen=True, slots=True)
class Input:
    """An input: a section, a block, a message, a chunk, or the tools of a request.

    ``digest``: SHA-256 (hex) of everything in it that can change the result. ``size``: bytes of its texts.
    ``tokens``: of the input alone; None if not counted. ``source``: such as the name of a file. ``fields``:
    its other fields, with the SHA-256 of texts. ``texts``: the texts, for bundles that contain them.
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
        """Return the line of ``inputs.jsonl``."""
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
    """A summary made during the call by a model or a user's function. ``of``: the ids of its inputs.

    A replay uses the recorded summary and never makes it again.
    """

    of: tuple[str, ...]
    text: str = field(repr=False)
    tokens: int | None = None
    source: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the record in ``summaries/``, with the digest of the text."""
        data = utf8(self.text)
        return {
            "of": list(self.of),
            "digest": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "tokens": self.tokens,
            "from": self.source,
        }


@dataclass(frozen=True, slots=True)
class EvidenceOutcome(AsRecord):
    """The outcome of a call; a refusal or failure has the code and figures of the error."""

    status: EvidenceStatus = EvidenceStatus.OK
    code: str | None = None
    figures: Record = field(default_factory=dict)

    @classmethod
    def of(cls, error: TokenboxError, status: EvidenceStatus = EvidenceStatus.FAILED) -> EvidenceOutcome:
        """Return the outcome for ``error``, without its message and texts, which may quote an input."""
        figures = {
            name: value
            for name, value in error.details.items()
            if value is None or isinstance(value, bool | int)
        }
        return cls(status, error.code, figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A recorded call: the function, its arguments and its outcome.

    ``function``: the name by which a replay finds it; ``algorithm``: the version of its rules. ``arguments``:
    those other than inputs, budget and tokenizer. ``digest``: of the result; None for a refusal. ``figures``:
    totals in tokens. ``decisions``: a record for each input, then for each step. ``emitted``: the output as
    text, bytes or pieces; None for a refusal. ``template``: SHA-256 of the chat template. ``override``: the
    permission to exceed the context window. ``parent``: the id of the preceding bundle.
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
"""A function that receives evidence: the type of ``proof=``."""
