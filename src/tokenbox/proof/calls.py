"""Recorded calls: the name of a function, its arguments as data, and its result or error.

:func:`proven` calls a function and makes the evidence of its result or error. A replay reads the arguments
from a bundle and calls :func:`proven` again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast

from tokenbox.compose.blocks import block_digest
from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.conversation.counters import counter_of
from tokenbox.conversation.low_water import AutoLowWater
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.lcp import LcpError, decode
from tokenbox.lcp.frames import MAGIC
from tokenbox.named_code import name_of
from tokenbox.policy.override import Override
from tokenbox.proof.bundle import INPUTS, MANIFEST, TEXTS
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible, SinkInvalid
from tokenbox.proof.evidence import (
    Budget,
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    EvidenceStatus,
    Input,
    Sourced,
)

if TYPE_CHECKING:
    from tokenbox.content.blocks import Block
    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Record, Sink
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.verify import BundleFiles
    from tokenbox.tokenizers.protocol import TokenizerIdentity


MAX_TEXTS: Final = 1 << 30
"""The largest total of a bundle's texts in bytes, which are all held in memory."""
# The recorded argument of a layout that counted messages with a vocabulary.
MESSAGES: Final = "messages"
_MAX_SHOWN = 3
_RATIO = re.compile("[0-9]{1,1001}/[1-9][0-9]{0,1000}")


class Texts:
    """Texts and blocks by digest, from any source."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self._texts: dict[str, bytes] = {}
        self._blocks: dict[str, Block] = {}
        self._packs: list[bytes] = []
        for text in texts:
            self.add(text)

    @classmethod
    def of_bundle(cls, files: BundleFiles, manifest: Manifest) -> Texts:
        """Return the texts in a verified bundle. Raises :class:`ReplayImpossible` if they are too large."""
        tree = manifest.files[TEXTS]
        size = 0 if tree is None else tree["bytes"]
        if size > MAX_TEXTS:
            raise ReplayImpossible(
                f"the texts in the bundle have {size:,} bytes; at most {MAX_TEXTS:,} are read.",
                bytes=size,
                limit=MAX_TEXTS,
            )
        names = [name for name in files.names() if name.startswith(TEXTS)]
        return cls(files.read(name, MAX_TEXTS) for name in names)

    def add(self, text: bytes) -> None:
        """Add a text. If it is a pack (``.bcp``), its blocks are added when a block is requested."""
        self._texts[hashlib.sha256(text).hexdigest()] = text
        if text.startswith(MAGIC):
            self._packs.append(text)

    def add_blocks(self, blocks: Iterable[Block]) -> None:
        self._blocks |= {block_digest(block): block for block in blocks}

    def text(self, digest: object) -> str | None:
        data = self._texts.get(digest) if isinstance(digest, str) else None
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    def block(self, digest: object) -> Block | None:
        for pack in self._packs:
            with suppress(LcpError):  # a text that only begins like a pack
                self.add_blocks(decode(pack).blocks)
        self._packs = []
        return self._blocks.get(digest) if isinstance(digest, str) else None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A verified bundle and its texts. Its content may be forged, so that callers must validate it.

    ``counter``: replaces the one that the bundle names; None if not given.
    """

    contents: Contents
    texts: Texts
    counter: Any = None

    @property
    def predicate(self) -> Record:
        return self.contents.manifest.predicate

    @property
    def arguments(self) -> Record:
        return cast("Record", self.predicate["arguments"])

    @property
    def inputs(self) -> Sequence[Record]:
        return self.contents.inputs

    @property
    def counts_here(self) -> bool:
        """Whether the counter runs locally, not on a server."""
        return self.counter is not None or bool(cast("Record", self.predicate["tokenizer"])["fingerprint"])

    def figure(self, name: str) -> Any:  # noqa: ANN401  # a number, a ratio as text, or None
        """Return a figure of the budget; None if unknown."""
        return self.budget(name)["value"]

    def budget(self, name: str) -> Record:
        """Return a figure of the budget, ``value``, with its ``source``."""
        return cast("dict[str, Record]", self.predicate["budget"])[name]

    def texts_of(self, wanted: Sequence[tuple[str, object]], what: str) -> list[str]:
        """Return the texts by names and digests. Raises :class:`ReplayImpossible` if some are missing."""
        found = [self.texts.text(digest) for _, digest in wanted]
        missing = [name for (name, _), text in zip(wanted, found, strict=True) if text is None]
        if missing:
            raise missing_texts(list(dict.fromkeys(missing)), what)
        return cast("list[str]", found)

    def json(self, text: str, name: str) -> Any:  # noqa: ANN401  # JSON
        """Parse a text as JSON. Raises :class:`BundleInvalid`."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BundleInvalid("is not JSON.", file=INPUTS, field=name) from None


def missing_texts(names: list[str], what: str) -> ReplayImpossible:
    """Return the error for texts that were not found."""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ReplayImpossible(
        f"{what} are missing: {', '.join(names[:_MAX_SHOWN])}{more}. The bundle does not contain them; name "
        "their files with --from, or make bundles with --proof-texts.",
        missing=names,
    )


def ratio(value: object) -> Any:  # noqa: ANN401  # the caller validates other values
    """Parse a ratio such as ``1/3``; return anything else unchanged."""
    return Fraction(value) if isinstance(value, str) and _RATIO.fullmatch(value) else value


def broken(field: str, what: str) -> BundleInvalid:
    """Return the error for an invalid field of the predicate."""
    return BundleInvalid(what, file=MANIFEST, field=f"predicate.{field}")


P = ParamSpec("P")
T = TypeVar("T")
Arguments = Mapping[str, Any]
# The key of an argument that is a function. The record has its name; no replay calls it.
CODE = "code"


def _counter_identity(arguments: Arguments) -> TokenizerIdentity:
    return counter_of(next(arguments[name] for name in _COUNTERS if name in arguments)).identity


_COUNTERS = ("tokenizer", "count", "counter")


@dataclass(frozen=True, slots=True)
class RecordedFunction(Generic[P, T]):
    """A function whose calls are recorded, with the mapping of its arguments and result to a bundle.

    ``apart``: the arguments that ``inputs``, ``budget`` and ``tokenizer`` record; all others are recorded
    unchanged. ``result``: returns the fields of :class:`Evidence` for a result. ``read``: returns the
    arguments ``apart`` from a bundle, and replacements for arguments that are functions. ``also``: returns
    more arguments to record, named ``also_names``. ``undecided``: errors of invalid input, which decide
    nothing and leave no proof. ``critical``: returns the critical inputs of an overflow and their sizes.
    ``taken``: returns the fields, each with all below it, that a replay takes from the bundle.
    """

    name: str
    kind: EvidenceKind
    algorithm: str
    call: Callable[P, T]
    apart: frozenset[str]
    inputs: Callable[[Arguments, Any], Iterable[Input]]
    result: Callable[[Arguments, Any], Mapping[str, Any]]
    read: Callable[[Recorded], dict[str, Any]]
    budget: Callable[[Arguments], Budget] = lambda given: Budget(Sourced(given["budget"], "given"))
    tokenizer: Callable[[Arguments], TokenizerIdentity] = _counter_identity
    critical: Callable[[Arguments, ContextCriticalOverflow], Iterable[tuple[str, int]]] = lambda _, error: (
        error.critical
    )
    also: Callable[[Arguments], Mapping[str, object]] = lambda _: {}
    also_names: frozenset[str] = frozenset()
    undecided: tuple[type[TokenboxError], ...] = ()
    taken: Callable[[Recorded], AbstractSet[str]] = lambda _: frozenset()

    def parameters(self) -> AbstractSet[str]:
        """Return the names of the arguments that are recorded unchanged."""
        return inspect.signature(self.call).parameters.keys() - self.apart

    @property
    def counter(self) -> str | None:
        """The name of the argument that is a counter."""
        names = inspect.signature(self.call).parameters
        return next((name for name in _COUNTERS if name in names), None)


def recorded_decision(
    name: str,
    kind: EvidenceKind,
    decide: Callable[[Recorded], T],
    result: Callable[[Arguments, T], Mapping[str, Any]],
    arguments: Iterable[str],
    taken: Callable[[Recorded], AbstractSet[str]],
) -> RecordedFunction[[Recorded], T]:
    """Return the function for a decision made in several steps, which ``decide`` repeats from a bundle.

    ``result`` returns every field of the evidence; ``arguments`` are the names of those that it records.
    """

    def in_result(*_: object) -> Any:  # noqa: ANN401  # a value of any field, which ``result`` replaces
        return ()

    return RecordedFunction(
        name=name,
        kind=kind,
        algorithm=f"{name}/1",
        call=decide,
        apart=frozenset({"recorded"}),
        inputs=in_result,
        result=result,
        read=lambda recorded: {"recorded": recorded},
        budget=in_result,
        tokenizer=in_result,
        also_names=frozenset(arguments),
        undecided=(ReplayImpossible, BundleInvalid),
        taken=taken,
    )


def proven(
    function: RecordedFunction[P, T],
    proof: Sink,
    *,
    source: str | None = None,
) -> Callable[P, T]:
    """Wrap the function so that it calls ``proof`` with the evidence of its result or error.

    ``source``: the default source of inputs. An error of the function is raised after ``proof`` was called.
    Errors of ``proof`` are raised.
    """
    SinkInvalid.check(proof)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = inspect.signature(function.call).bind(*args, **kwargs)
        bound.apply_defaults()
        evidence = partial(evidence_of, function, bound.arguments, source=source)
        try:
            result = function.call(*args, **kwargs)
        except function.undecided:
            raise
        except TokenboxError as error:
            try:
                proof(evidence(error))
            except Exception as problem:  # noqa: BLE001  # any error of the sink must not hide this one
                error.add_note(f"There is no proof of this: {problem}")
            raise
        proof(evidence(result))
        return result

    return call


def evidence_of(
    function: RecordedFunction[..., Any],
    arguments: Arguments,
    outcome: Any,  # noqa: ANN401  # the function's result, or its error
    *,
    source: str | None = None,
) -> Evidence:
    """Return the evidence of a call that returned or raised ``outcome``."""
    error = outcome if isinstance(outcome, TokenboxError) else None
    override = arguments.get("override")
    inputs = tuple(function.inputs(arguments, None if error is not None else outcome))
    if source is not None:
        inputs = tuple(replace(item, source=item.source or source) for item in inputs)
    names = function.parameters()
    recorded = {name: plain(value) for name, value in arguments.items() if name in names}
    fields: dict[str, Any] = {
        "kind": function.kind,
        "function": function.name,
        "algorithm": function.algorithm,
        "arguments": {**recorded, **function.also(arguments)},
        "budget": function.budget(arguments),
        "tokenizer": function.tokenizer(arguments),
        "inputs": inputs,
        "model": arguments.get("model"),
        "template": getattr(arguments.get(function.counter or ""), "template_digest", None),
        "override": override.to_dict() if isinstance(override, Override) else None,
    }
    if error is None:
        fields |= function.result(arguments, outcome)
    else:
        critical = function.critical(arguments, error) if isinstance(error, ContextCriticalOverflow) else ()
        fields["decisions"] = tuple(
            {"id": name, "decision": "critical", "size": size} for name, size in critical
        )
        fields["outcome"] = outcome_of(error)
    return Evidence(**fields)


def outcome_of(error: TokenboxError) -> EvidenceOutcome:
    """Return the outcome of an error: refused (with the smallest sufficient change) or failed."""
    if not isinstance(error, ContextCriticalOverflow):
        return EvidenceOutcome.of(error)
    refused = EvidenceOutcome.of(error, EvidenceStatus.REFUSED)
    change = {name: value for name, value in error.smallest_change.items() if name != "say"}
    return EvidenceOutcome(refused.status, refused.code, {**refused.figures, "smallest_change": change})


def plain(value: object) -> object:  # noqa: PLR0911  # a table of types
    """Return an argument as JSON: a fraction as an exact decimal or ratio, a function as its name."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | str() | int():
            return value
        case float() | Decimal() | Fraction():
            return weight_text(exact_weight(value))
        case AutoLowWater():
            return {"eagerness": weight_text(value.eagerness)}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case AbstractSet():
            return sorted(map(plain, value), key=lambda item: (str(type(item)), item))
        case Iterable():
            return list(map(plain, value))
    return {CODE: name_of(value)}
