"""Replay a bundle: call the recorded function again, and compare every field of the outcome.

The texts come from the bundle, if it contains them, or from the caller; they are identified by their digests.
Everything in a bundle is validated before use. A bundle cannot make a replay open a file or call a function
other than those in FUNCTIONS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.conversation.counters import counter_of
from tokenbox.conversation.image_costs import RULES
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.published import openai_formats
from tokenbox.errors import CodeNotAllowed, InvalidTokenizer, TokenboxError, UnknownTokenizer, shown
from tokenbox.proof.bundle import MANIFEST, TEXTS, build
from tokenbox.proof.calls import CODE, MESSAGES, Recorded, broken, proven
from tokenbox.proof.contents import (
    decisions_of,
    differences,
    fields_of,
    inputs_of,
    read_contents,
    summaries_of,
)
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.manifest import read_manifest
from tokenbox.proof.of_blocks import CHOICE, RENDER_BLOCKS
from tokenbox.proof.of_messages import FIT
from tokenbox.proof.of_policy import ENFORCE, ESTIMATE, PLAN
from tokenbox.proof.of_sections import LAYOUT
from tokenbox.proof.verify import MemoryFiles
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.registry import FILE_PREFIX, get

if TYPE_CHECKING:
    from tokenbox.proof.calls import RecordedFunction, Texts
    from tokenbox.proof.contents import Contents, FieldDifference
    from tokenbox.proof.evidence import Evidence, Record
    from tokenbox.tokenizers.protocol import Tokenizer

FUNCTIONS: Final[Mapping[str, RecordedFunction[..., Any]]] = {
    function.name: function for function in (LAYOUT, RENDER_BLOCKS, FIT, ESTIMATE, PLAN, ENFORCE)
}
# Fields that a replay cannot derive: only a signature attests them.
_UNDERIVED: Final = frozenset({"engine", "template", "model", "override", "parent"})
_SOURCE: Final = re.compile(r"budget\.\w+\.source")
_INPUT: Final = re.compile(r"inputs\[.*\]", re.DOTALL)
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Replay:
    """The differences between a bundle (``left``) and its replay (``right``).

    ``uncompared``: the recorded fields that a replay cannot derive, such as the name of the model.
    ``reason``: a sentence on what explains the differences, such as an older rule; None without any.
    """

    differences: tuple[FieldDifference, ...]
    uncompared: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def same(self) -> bool:
        return not self.differences


def replay(
    contents: Contents,
    texts: Texts,
    counter: Any = None,  # noqa: ANN401  # a tokenizer or a chat format, validated by the call
    functions: Mapping[str, RecordedFunction[..., Any]] = FUNCTIONS,
) -> Replay:
    """Call the recorded function again with the recorded arguments.

    ``counter``: replaces the one that the bundle names, such as one of your own. Raises
    :class:`ReplayImpossible` if a text, the tokenizer or the function is missing, and ``BundleInvalid``.
    """
    recorded = Recorded(contents, texts, counter)
    name = str(recorded.predicate["function"])
    function = functions.get(name)
    if function is None:
        raise ReplayImpossible(f"the function {name[:100]!r} cannot be replayed here.", function=name[:100])
    taken = set(function.taken(recorded))
    arguments = recorded_arguments(function, recorded)
    if function.counter is not None and _is_estimate_here(recorded, _named_counter(recorded)):
        taken.add("tokenizer.exact")
    return compared(contents, _called(function, arguments), frozenset(taken))


def compared(contents: Contents, evidence: Evidence, taken: frozenset[str] = frozenset()) -> Replay:
    """Compare a bundle with new evidence. ``taken``: fields that the call took from the bundle."""
    bundle = build(evidence, texts=contents.manifest.files[TEXTS] is not None)
    again = read_contents(MemoryFiles(bundle.files), read_manifest(bundle.files[MANIFEST], bundle.id))
    is_underived = _underived(contents, again, taken)
    uncompared = [
        _without_index(name)
        for name, value in fields_of(contents)
        if value is not None and is_underived(name)
    ]
    found = tuple(one for one in differences(contents, again) if not is_underived(one.field))
    return Replay(found, tuple(dict.fromkeys(uncompared)), _reason(contents, again) if found else None)


def _without_index(field: str) -> str:
    """Return one name for the same field of many records."""
    if field.startswith("inputs["):
        return _INPUT.sub("inputs[]", field)
    return f"decisions[{CHOICE}]" if field.startswith(f"decisions[{CHOICE}") else _INDEX.sub("[]", field)


def _underived(contents: Contents, again: Contents, taken: frozenset[str]) -> Callable[[str], bool]:
    """Return a function that tells whether the call does not determine a field.

    Such fields include arguments that are functions, and budget figures that the call does not receive.
    """
    predicate, now = contents.manifest.predicate, again.manifest.predicate
    arguments = cast("Record", predicate["arguments"])
    code = {
        f"arguments.{name}" for name, value in arguments.items() if isinstance(value, dict) and CODE in value
    }
    budget = cast("Mapping[str, Record]", now["budget"])
    figures = {f"budget.{name}.value" for name, part in budget.items() if part["value"] is None} - {
        "budget.tokens.value"
    }
    sources = {
        f"{label}.from" for side in (contents, again) for label, _ in (*inputs_of(side), *summaries_of(side))
    }
    models = {f"{label}.remedy.models" for side in (contents, again) for label, _ in decisions_of(side)}
    underived = taken | figures | code | sources | models

    def is_underived(field: str) -> bool:
        above = {field[: end.start()] for end in re.finditer(r"[.\[]", field)}
        return (
            field in underived
            or not underived.isdisjoint(above)
            or field.partition(".")[0] in _UNDERIVED
            or _SOURCE.fullmatch(field) is not None
        )

    return is_underived


def recorded_arguments(function: RecordedFunction[..., Any], recorded: Recorded) -> dict[str, Any]:
    """Return the recorded arguments, including those in other parts of the bundle and the counter.

    Raises :class:`ReplayImpossible` and ``BundleInvalid``.
    """
    names = function.parameters()
    found = {name: value for name, value in recorded.arguments.items() if name in names}
    wrong = recorded.arguments.keys() - names - function.also_names
    if wrong:
        raise broken(f"arguments.{min(wrong)[:100]}", f"is not an argument of {function.name}.")
    found |= function.read(recorded)
    for name, value in found.items():
        if isinstance(value, dict) and CODE in value:
            raise ReplayImpossible(
                f"the argument {name} is a function of the caller, {str(value[CODE])[:100]!r}, which a "
                "replay does not run.",
                argument=name,
            )
    if function.counter is not None:
        found[function.counter] = _recorded_counter(recorded)
    return found


def _called(function: RecordedFunction[..., Any], arguments: Mapping[str, Any]) -> Evidence:
    found: list[Evidence] = []
    try:
        proven(function, found.append)(**arguments)
    except (ReplayImpossible, BundleInvalid):
        raise
    except TokenboxError:
        pass  # its evidence is in ``found``
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise broken("arguments", f"are invalid for {function.name}: {str(error)[:200]}.") from None
    if not found:
        raise broken("arguments", f"are invalid for {function.name}.")
    return found[0]


def _recorded_counter(recorded: Recorded) -> Any:  # noqa: ANN401  # a tokenizer or a chat format
    """Return the counter as the call received it: maybe as an estimate, or for messages."""
    counter = _named_counter(recorded)
    if _is_estimate_here(recorded, counter):
        counter = as_estimate(counter)
    return counter_of(counter) if recorded.arguments.get(MESSAGES) is True else counter


def _named_counter(recorded: Recorded) -> Any:  # noqa: ANN401  # a tokenizer or a chat format
    """Return the caller's counter, else the tokenizer or the published chat format that the bundle names."""
    if recorded.counter:
        return recorded.counter
    identity = cast("Record", recorded.predicate["tokenizer"])
    for chat_format in openai_formats():
        if chat_format.identity.to_dict() == identity:
            return chat_format
    tokenizer = recorded_tokenizer(str(identity["name"]))
    is_estimate = tokenizer.identity.exact and identity["exact"] is False
    as_counted = as_estimate(tokenizer) if is_estimate else tokenizer
    for rule in RULES:
        markers = MarkersFormat(as_counted, image_cost=rule)
        if markers.identity.to_dict() == identity:
            return markers
    return tokenizer


def recorded_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer that a bundle names: no bundle can make this open a file or import code.

    Raises :class:`ReplayImpossible` if it is unknown here.
    """
    with suppress(UnknownTokenizer, InvalidTokenizer, CodeNotAllowed):
        if not name.startswith(FILE_PREFIX):
            return get(name)
    raise ReplayImpossible(
        f"the recorded tokenizer {name[:100]!r} is unknown here. Name it with --tokenizer.",
        tokenizer=name[:100],
    )


def _is_estimate_here(recorded: Recorded, counter: Any) -> bool:  # noqa: ANN401  # as given
    """Return whether the bundle used this exact tokenizer as an estimate for another model."""
    identity = cast("Record", recorded.predicate["tokenizer"])
    same = counter.identity.fingerprint == identity["fingerprint"]
    return same and identity["exact"] is False and bool(counter.identity.exact)


# Why a replay differs: another rule, lens, tokenizer or release made the bundle.
# The number of a rule is raised if the same inputs may have another outcome than before (docs/stability.md).
# So if all versions are the same, the recorded outcome does not follow from the recorded inputs.
_NUMBERED: Final = re.compile(r"([\w.-]{1,100})[@/]([0-9]{1,9})")


def _reason(bundle: Contents, again: Contents) -> str:
    """Return a sentence on what made the bundle, if that can explain the differences of its replay."""
    theirs, ours = _numbers(bundle), _numbers(again)
    others = [
        (name, number, ours[name]) for name, number in theirs.items() if ours.get(name, number) != number
    ]
    if others:
        age = "an older" if any(number < here for _, number, here in others) else "a newer"
        names = ", ".join(f"version {number:,} of {name} (here {here:,})" for name, number, here in others)
        return f"The bundle was made by {age} rule: {names}. {_what_repeats(bundle, again)}"
    before, now = bundle.manifest.predicate, again.manifest.predicate
    made_by, here = before["tokenizer"], now["tokenizer"]
    if made_by != here:
        counters = [f"{shown(one['name'])} {one['version']:.100}".rstrip() for one in (made_by, here)]
        other = "another version or kind of it" if counters[0] == counters[1] else counters[1]
        return f"The bundle was made with the tokenizer {counters[0]}, and the replay counted with {other}."
    if before["engine"] != now["engine"]:
        return f"The bundle was made by another release. {_what_repeats(bundle, again)}"
    return (
        "The bundle names the same rules, tokenizer and release as this replay: its record does not follow "
        "from its inputs, or an unreleased build made it."
    )


def _what_repeats(bundle: Contents, again: Contents) -> str:
    engine, here = (one.manifest.predicate["engine"] for one in (bundle, again))
    release = f"{engine['name']:.100} {engine['version']:.100}"
    if engine == here:
        return f"Only the build of {release} that made it repeats its decision."
    return f"To repeat its decision, replay it with {release}."


def _numbers(contents: Contents) -> dict[str, int]:
    """Return the version of each rule and lens that a bundle names."""
    texts = [str(contents.manifest.predicate["algorithm"]), *_lenses(contents)]
    found = [match for text in texts for match in _NUMBERED.finditer(text)]
    return {match[1]: int(match[2]) for match in found}


def _lenses(contents: Contents) -> Iterator[str]:
    for record in contents.inputs:
        fields = record["fields"]
        forms = fields.get("forms")
        for one in (fields, *(forms if isinstance(forms, list) else ())):
            if isinstance(one, dict) and isinstance(one.get("lenses"), str):
                yield one["lenses"]
