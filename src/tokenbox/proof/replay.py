"""Replaying a bundle: the recorded function is called again, and every field of the outcome is compared.

The texts come from the bundle, if it was made with texts, or are given again; each is known by its digest, so
it does not matter where it was found. Whatever a bundle says is checked before it is used, and no function is
called and no file opened because a bundle names it: FUNCTIONS are all that there are.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.conversation import ChatFormat
from tokenbox.errors import CodeNotAllowed, InvalidTokenizer, TokenboxError, UnknownTokenizer
from tokenbox.proof.bundle import MANIFEST, build
from tokenbox.proof.calls import CODE, proven
from tokenbox.proof.contents import differences, fields_of, read_contents
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.manifest import read_manifest
from tokenbox.proof.of_blocks import CHOICE, RENDER_BLOCKS
from tokenbox.proof.of_messages import FIT
from tokenbox.proof.of_policy import ENFORCE, ESTIMATE, PLAN
from tokenbox.proof.of_sections import LAYOUT
from tokenbox.proof.recorded import Recorded, broken
from tokenbox.proof.verify import MemoryFiles
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.registry import FILE_PREFIX, get

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.conversation.published import OpenAIFormat
    from tokenbox.proof.calls import RecordedFunction
    from tokenbox.proof.contents import Contents, FieldDifference
    from tokenbox.proof.evidence import Evidence, Record
    from tokenbox.proof.recorded import Texts
    from tokenbox.tokenizers.protocol import Tokenizer

FUNCTIONS: Final[Mapping[str, RecordedFunction[..., Any]]] = {
    function.name: function for function in (LAYOUT, RENDER_BLOCKS, FIT, ESTIMATE, PLAN, ENFORCE)
}
# One model of each way in which OpenAI's chats are counted.
_OPENAI: Final = ("gpt-4o", "gpt-4", "gpt-5")
# What is said of a call and does not follow from it: only a signature vouches for it.
_SAID: Final = frozenset({"engine", "template", "model", "override", "parent"})
_SAID_OF: Final = re.compile(
    r"budget\.\w+\.source|(inputs|summaries)\[.*\]\.from|decisions\[.*\]\.remedy\.models(\[\d+\])?", re.DOTALL
)
_NUMBER: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Replay:
    """What came out otherwise: nothing, if the bundle holds. ``left`` is recorded, ``right`` came out now.

    ``uncompared``: the fields that are recorded and follow from nothing, such as the name of the model.
    """

    differences: tuple[FieldDifference, ...]
    uncompared: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not self.differences


def replay(
    contents: Contents,
    texts: Texts,
    counter: Any = None,  # noqa: ANN401  # a tokenizer or a chat format; what is called checks it
    functions: Mapping[str, RecordedFunction[..., Any]] = FUNCTIONS,
) -> Replay:
    """Call again what the bundle says was called, with the arguments that it has.

    ``counter``: in place of the one that the bundle names, such as one of your own. Raises
    :class:`ReplayImpossible` where a text, the tokenizer or the function is missing, and ``BundleInvalid``.
    """
    recorded = Recorded(contents, texts, counter)
    name = str(recorded.predicate["function"])
    function = functions.get(name)
    if function is None:
        raise ReplayImpossible(f"no function {name[:100]!r} is replayed here.", function=name[:100])
    arguments = _arguments(function, recorded)
    taken = frozenset(function.taken(recorded))
    if function.counter is not None:
        counting = counter or _recorded_counter(recorded)
        arguments[function.counter] = _as_exact_as_recorded(recorded, counting)
        if arguments[function.counter] is not counting:
            taken |= {"tokenizer.exact"}
    return compared(contents, _called(function, arguments), taken)


def compared(contents: Contents, evidence: Evidence, taken: frozenset[str] = frozenset()) -> Replay:
    """What a bundle says beside what a call gave. ``taken``: fields that the call took from the bundle."""
    bundle = build(evidence)
    again = read_contents(MemoryFiles(bundle.files), read_manifest(bundle.files[MANIFEST], bundle.id))
    said = _said(contents, again, taken)
    return Replay(
        tuple(one for one in differences(contents, again) if not said(one.field)),
        tuple(
            dict.fromkeys(
                _collapsed(name) for name, value in fields_of(contents) if value is not None and said(name)
            )
        ),
    )


def _collapsed(field: str) -> str:
    """One name for the same field of many records."""
    if field.startswith("inputs["):
        return "inputs[].from"
    return f"decisions[{CHOICE}]" if field.startswith(f"decisions[{CHOICE}") else _NUMBER.sub("[]", field)


def _said(contents: Contents, again: Contents, taken: frozenset[str]) -> Callable[[str], bool]:
    """Whether a field does not follow from the call. Neither does an argument that is code of the caller,
    nor a figure of the budget that the function is not given.
    """  # noqa: D205  # one sentence
    predicate, now = contents.manifest.predicate, again.manifest.predicate
    arguments = cast("Record", predicate["arguments"])
    code = {
        f"arguments.{name}" for name, value in arguments.items() if isinstance(value, dict) and CODE in value
    }
    budget = cast("Mapping[str, Record]", now["budget"])
    figures = {f"budget.{name}.value" for name, part in budget.items() if part["value"] is None} - {
        "budget.tokens.value"
    }

    single = taken | figures | code

    def said(field: str) -> bool:
        place = field.removesuffix(f".{CODE}")
        above = {place[: at.start()] for at in re.finditer(r"\.", place)}
        is_taken = place in single or not single.isdisjoint(above)
        return field.partition(".")[0] in _SAID or is_taken or _SAID_OF.fullmatch(field) is not None

    return said


def _arguments(function: RecordedFunction[..., Any], recorded: Recorded) -> dict[str, Any]:
    """The recorded arguments, and those that are elsewhere in the bundle."""
    names = function.parameters()
    found = {name: value for name, value in recorded.arguments.items() if name in names}
    wrong = recorded.arguments.keys() - names - function.also_names
    if wrong:
        raise broken(f"arguments.{min(wrong)[:100]}", f"is not an argument of {function.name}.")
    found |= function.read(recorded)
    for name, value in found.items():
        if isinstance(value, dict) and CODE in value:
            raise ReplayImpossible(
                f"the argument {name} is code of its caller, {str(value[CODE])[:100]!r}, which is not run "
                "because a bundle says so.",
                argument=name,
            )
    return found


def _called(function: RecordedFunction[..., Any], arguments: Mapping[str, Any]) -> Evidence:
    found: list[Evidence] = []
    try:
        proven(function, found.append)(**arguments)
    except (ReplayImpossible, BundleInvalid):
        raise
    except TokenboxError:
        pass  # it is what was found
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise broken("arguments", f"are not those of {function.name}: {str(error)[:200]}.") from None
    if not found:
        raise broken("arguments", f"are not those of {function.name}.")
    return found[0]


def _recorded_counter(recorded: Recorded) -> Tokenizer | OpenAIFormat:
    """The tokenizer or the published chat format that the bundle names."""
    identity = cast("Record", recorded.predicate["tokenizer"])
    for one in map(ChatFormat.openai, _OPENAI):
        if one.identity.to_dict() == identity:
            return one
    name = str(identity["name"])
    with suppress(UnknownTokenizer, InvalidTokenizer, CodeNotAllowed):
        if not name.startswith(FILE_PREFIX):
            return get(name)
    raise ReplayImpossible(
        f"the tokenizer that counted is not known here: {name[:100]!r}. Give it with --tokenizer.",
        tokenizer=name[:100],
    )


def _as_exact_as_recorded(recorded: Recorded, counter: Any) -> Any:  # noqa: ANN401  # as it is given
    """The tokenizer, an estimate where it was one: right for other models, not for the one in question."""
    identity = cast("Record", recorded.predicate["tokenizer"])
    same = counter.identity.fingerprint == identity["fingerprint"]
    estimate = same and identity["exact"] is False and counter.identity.exact
    return as_estimate(counter) if estimate else counter
