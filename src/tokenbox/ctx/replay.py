"""Plans and enforcements decided again from a proof bundle, for ``tokenbox proof replay``.

Everything in a bundle may be forged: it is checked here as what a caller gives is.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final, cast

from tokenbox.content.message import Message
from tokenbox.conversation import ChatFormat
from tokenbox.ctx.evidence import (
    GUARD,
    guard_options,
    of_enforcement,
    of_enforcement_error,
    of_plan,
    of_plan_error,
)
from tokenbox.errors import TokenboxError
from tokenbox.override import allow_over_context
from tokenbox.policy import Limits, enforce, pack, read_chunks
from tokenbox.policy.enforcement import checked_mode
from tokenbox.policy.limits import tokens
from tokenbox.policy.packing import STRATEGY_NAMES
from tokenbox.proof import replay as proof_replay
from tokenbox.proof.bundle import INPUTS, MANIFEST
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.evidence import Kind
from tokenbox.proof.replay import missing_texts, recorded_blocks, recorded_sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.override import Override
    from tokenbox.policy import Request
    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Evidence, Record
    from tokenbox.proof.replay import Remake, Replay, Texts
    from tokenbox.tokenizers.protocol import Tokenizer

# One model of each way in which OpenAI's chats are counted.
_OPENAI: Final = ("gpt-4o", "gpt-4", "gpt-5")
_RATIO: Final = re.compile(r"[0-9]{1,1001}/[1-9][0-9]{0,1000}")


def replay(contents: Contents, texts: Texts, tokenizer: Tokenizer | None = None) -> Replay:
    """Decide again what a bundle of any kind says was decided; see :func:`tokenbox.proof.replay.replay`."""
    counter = recorded_format(contents) if tokenizer is None else tokenizer
    return proof_replay.replay(contents, texts, cast("Tokenizer | None", counter), REMAKES)


def recorded_format(contents: Contents) -> ChatFormat | None:
    """The published chat format that the bundle says has counted; None if it was another counter."""
    recorded = contents.manifest.predicate["tokenizer"]
    formats = map(ChatFormat.openai, _OPENAI)
    return next((one for one in formats if one.identity.to_dict() == recorded), None)


def remake_plan(contents: Contents, texts: Texts, tokenizer: Tokenizer) -> Evidence:
    """The evidence of planning the recorded chunks again. Raises ``ReplayImpossible``."""
    predicate = contents.manifest.predicate
    strategy = _strategy(contents)
    if strategy is None:
        raise _own_strategy(contents)
    request, limits = _request(contents, texts), _limits(contents)
    model = cast("str | None", predicate["model"])
    try:
        return of_plan(pack(request, limits, tokenizer, strategy, model))
    except TokenboxError as error:
        return of_plan_error(error, request, limits, tokenizer.identity, strategy, model)


def remake_enforcement(contents: Contents, texts: Texts, tokenizer: Tokenizer) -> Evidence:
    """The evidence of asking again whether the recorded request may be sent.

    Which larger models there were, and what was noted, depends on catalog and settings: they are taken as
    recorded. Raises ``ReplayImpossible``.
    """
    predicate, options = contents.manifest.predicate, _table(contents, "options")
    if predicate["algorithm"] != GUARD:
        raise ReplayImpossible(
            f"{str(predicate['algorithm'])[:40]!r} is not decided here. What a gateway decided is replayed "
            "by tokenbox.gateway.replaying.replay.",
            algorithm=str(predicate["algorithm"])[:40],
        )
    strategy, limits = _strategy(contents), _limits(contents)
    mode, asked = checked_mode(options.get("output_mode")), options.get("max_tokens_request")
    if asked is not None:
        tokens(asked, "max_tokens_request")
    request, override = _request(contents, texts), _override(contents)
    model = cast("str | None", predicate["model"])
    decisions = contents.decisions
    if strategy is None and any("remedy" in record for record in decisions):
        raise _own_strategy(contents)
    # Of a request that is let through nobody asks what a strategy would leave of it.
    name = str(options.get("strategy"))
    notes = next((_texts_in(record.get("notes")) for record in decisions if "notes" in record), ())
    try:
        verdict = enforce(
            request,
            limits,
            tokenizer,
            output_mode=mode,
            override=override,
            strategy=strategy,
            model=model,
            max_tokens_request=cast("int | None", asked),
            notes=notes,
            alternatives=lambda _: _models(decisions),
        )
    except TokenboxError as error:
        options = guard_options(request, mode, cast("int | None", asked), name)
        return of_enforcement_error(error, request, limits, tokenizer.identity, options, override, model)
    return of_enforcement(verdict, name)


REMAKES: Mapping[Kind, Remake] = {Kind.PLAN: remake_plan, Kind.ENFORCEMENT: remake_enforcement}


def _request(contents: Contents, texts: Texts) -> Request:
    """The recorded chunks. Raises ``ReplayImpossible`` where a text is missing."""
    separator = _table(contents, "options").get("separator")
    if not isinstance(separator, str):
        raise _broken("options.separator", "is no text.")
    kinds = {str(record["kind"]) for record in contents.inputs}
    if kinds <= {"section"}:
        return read_chunks(recorded_sections(contents, texts), separator)
    if kinds == {"block"}:
        return read_chunks(recorded_blocks(contents, texts), separator)
    if kinds <= {"message", "tools"}:
        return _messages(contents, texts, separator)
    raise BundleInvalid("are of no kind that goes together.", file=INPUTS)


def _messages(contents: Contents, texts: Texts, separator: str) -> Request:
    """Messages as they were given, and the schemas of their tools."""
    digests = {
        str(record["id"]): record["digest"]
        if record["kind"] == "tools"
        else cast("Record", record["fields"]).get("content")
        for record in contents.inputs
    }
    found = {name: texts.text(digest) for name, digest in digests.items()}
    gone = [name for name, text in found.items() if text is None]
    if gone or len(found) < len(contents.inputs):
        raise missing_texts(gone, "messages")
    parsed = {name: _json(name, cast("str", text)) for name, text in found.items()}
    tools = [parsed[str(record["id"])] for record in contents.inputs if record["kind"] == "tools"]
    messages = [
        Message.of(cast("Mapping[str, object]", parsed[str(record["id"])]))
        for record in contents.inputs
        if record["kind"] == "message"
    ]
    schemas = tools[0] if tools else []
    if not isinstance(schemas, list) or not all(isinstance(schema, dict) for schema in schemas):
        raise BundleInvalid("are no schemas of tools.", file=INPUTS, field="tools")
    return read_chunks(messages, separator, schemas)


def _json(name: str, text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise BundleInvalid("is no JSON.", file=INPUTS, field=name) from None
    return value


def _limits(contents: Contents) -> Limits:
    """The limits as recorded. Where the budget is smaller than the window leaves, the input had a limit."""
    budget = cast("Mapping[str, Mapping[str, object] | None]", contents.manifest.predicate["budget"])
    values = {name: None if part is None else part["value"] for name, part in budget.items()}
    headroom = values["headroom"]
    if isinstance(headroom, str) and _RATIO.fullmatch(headroom):
        headroom = Fraction(headroom)
    limits = Limits.of(values["context_window"], values["reserve_output"], headroom)
    most = _table(contents, "figures").get("max_input")
    if most is None and values["tokens"] != limits.window_room:
        most = values["tokens"]
    return Limits.of(limits.max_ctx, limits.reserve_out, limits.headroom, most)


def _override(contents: Contents) -> Override | None:
    given = contents.manifest.predicate["override"]
    if given is None:
        return None
    return allow_over_context(cast("str | None", cast("Record", given).get("reason")))


def _strategy(contents: Contents) -> str | None:
    """The strategy, if it is one of ours."""
    name = _table(contents, "options").get("strategy")
    return name if isinstance(name, str) and name in STRATEGY_NAMES else None


def _own_strategy(contents: Contents) -> ReplayImpossible:
    name = str(_table(contents, "options").get("strategy"))[:100]
    return ReplayImpossible(
        f"the strategy {name!r} is code of somebody's own, which is not run because a bundle says so.",
        strategy=name,
    )


def _models(decisions: object) -> tuple[str, ...]:
    """The larger models that were named."""
    for record in cast("list[Record]", decisions):
        remedy = record.get("remedy")
        if isinstance(remedy, dict) and remedy.get("change") == "larger_window":
            return _texts_in(remedy.get("models"))
    return ()


def _texts_in(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _table(contents: Contents, name: str) -> Record:
    return cast("Record", contents.manifest.predicate[name])


def _broken(field: str, what: str) -> BundleInvalid:
    return BundleInvalid(what, file=MANIFEST, field=f"predicate.{field}")
