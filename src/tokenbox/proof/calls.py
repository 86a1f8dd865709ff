"""A recorded call: a function by name, its arguments as data, and what came of it.

Recording and replaying are one step. :func:`proven` calls a function and makes the evidence of what it
returned or raised. A replay reads the arguments back from a bundle and calls :func:`proven` again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.conversation.counters import counter_of
from tokenbox.conversation.low_water import AutoLowWater
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.policy.override import Override
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
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
    from tokenbox.proof.evidence import Sink
    from tokenbox.proof.recorded import Recorded
    from tokenbox.tokenizers.protocol import TokenizerIdentity

P = ParamSpec("P")
T = TypeVar("T")
Arguments = Mapping[str, Any]
CODE = "code"
"""The key of an argument that is a function. A record has its name; no replay calls it."""


def given_budget(arguments: Arguments) -> Budget:
    """A budget that was given as it is."""
    return Budget(Sourced(arguments["budget"], "given"))


def counted_by(arguments: Arguments) -> TokenizerIdentity:
    """The identity of what counts."""
    return counter_of(next(arguments[name] for name in _COUNTERS if name in arguments)).identity


def nothing(_: Arguments) -> Mapping[str, object]:
    return {}


def critical_sizes(_: Arguments, error: ContextCriticalOverflow) -> Iterable[tuple[str, int]]:
    return error.critical


_COUNTERS = ("tokenizer", "count", "counter")


@dataclass(frozen=True, slots=True)
class RecordedFunction(Generic[P, T]):
    """A function whose calls are recorded, and how a bundle has its arguments and its result.

    ``apart``: the arguments that ``inputs``, ``budget`` and ``tokenizer`` record; all others are recorded as
    they are. ``result``: the fields of :class:`Evidence` that a result is. ``read``: the arguments ``apart``
    from a bundle, and those in place of a function that was given. ``also``: what else of an argument that is
    ``apart`` is recorded among them. ``undecided``: errors that say that the question
    was wrong; nothing was decided, so they leave no proof. ``critical``: what an overflow names. ``taken``:
    the fields that a replay takes as they are recorded, each with what is below it.
    """

    name: str
    kind: EvidenceKind
    algorithm: str
    call: Callable[P, T]
    apart: frozenset[str]
    inputs: Callable[[Arguments, Any], Iterable[Input]]
    result: Callable[[Arguments, Any], Mapping[str, Any]]
    read: Callable[[Recorded], dict[str, Any]]
    budget: Callable[[Arguments], Budget] = given_budget
    tokenizer: Callable[[Arguments], TokenizerIdentity] = counted_by
    critical: Callable[[Arguments, ContextCriticalOverflow], Iterable[tuple[str, int]]] = critical_sizes
    also: Callable[[Arguments], Mapping[str, object]] = nothing
    also_names: frozenset[str] = frozenset()
    undecided: tuple[type[TokenboxError], ...] = ()
    taken: Callable[[Recorded], AbstractSet[str]] = lambda _: frozenset()

    def parameters(self) -> AbstractSet[str]:
        """The names of the arguments that are recorded as they are."""
        return inspect.signature(self.call).parameters.keys() - self.apart

    @property
    def counter(self) -> str | None:
        """The name of the argument that counts."""
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
    """A decision that was made in steps and not by one call: ``decide`` makes it again, from a bundle.

    ``result`` has every field of the evidence; ``arguments`` are the names of those that it records.
    """

    def in_result(*_: object) -> Any:  # noqa: ANN401  # whatever the field is
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
    proof: Sink | None,
    *,
    source: str | None = None,
    model: str | None = None,
    template: str | None = None,
) -> Callable[P, T]:
    """The function, which then calls ``proof`` with the evidence of what it returns or raises.

    ``source``: where the inputs are from, where they do not say so themselves. An error of the function is
    raised after its evidence was given away. Raises whatever ``proof`` raises.
    """
    if proof is None:
        return function.call

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = inspect.signature(function.call).bind(*args, **kwargs)
        bound.apply_defaults()

        def evidence(outcome: object) -> Evidence:
            return evidence_of(
                function, bound.arguments, outcome, source=source, model=model, template=template
            )

        try:
            result = function.call(*args, **kwargs)
        except function.undecided:
            raise
        except TokenboxError as error:
            try:
                proof(evidence(error))
            except Exception as problem:  # noqa: BLE001  # a sink is anybody's function; the error comes first
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
    model: str | None = None,
    template: str | None = None,
) -> Evidence:
    """The evidence of a call that returned or raised ``outcome``."""
    error = outcome if isinstance(outcome, TokenboxError) else None
    override = arguments.get("override")
    inputs = tuple(function.inputs(arguments, None if error is not None else outcome))
    fields: dict[str, Any] = {
        "kind": function.kind,
        "function": function.name,
        "algorithm": function.algorithm,
        "arguments": {**_recorded(arguments, function.parameters()), **function.also(arguments)},
        "budget": function.budget(arguments),
        "tokenizer": function.tokenizer(arguments),
        "inputs": inputs
        if source is None
        else tuple(replace(item, source=item.source or source) for item in inputs),
        "model": arguments.get("model", model),
        "template": template,
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
    """Refused with the smallest change that would make it fit, or failed."""
    if not isinstance(error, ContextCriticalOverflow):
        return EvidenceOutcome.of(error)
    refused = EvidenceOutcome.of(error, EvidenceStatus.REFUSED)
    change = {name: value for name, value in error.smallest_change.items() if name != "say"}
    return EvidenceOutcome(refused.status, refused.code, {**refused.figures, "smallest_change": change})


def _recorded(arguments: Arguments, names: AbstractSet[str]) -> dict[str, object]:
    return {name: plain(value) for name, value in arguments.items() if name in names}


def plain(value: object) -> object:  # noqa: PLR0911  # a table of types
    """An argument as data: a fraction as an exact decimal or ratio, a function as its name."""
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


def name_of(code: object) -> str:
    """``module:name`` of a function, or of the class of an object that is called."""
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{getattr(named, '__module__', '?')}:{getattr(named, '__qualname__', '?')}"
