"""Plans decided again from a proof bundle, for ``tokenbox proof replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tokenbox.ctx.evidence import of_plan, of_plan_error
from tokenbox.errors import TokenboxError
from tokenbox.policy import Limits, pack, read_chunks
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.evidence import Kind
from tokenbox.proof.replay import recorded_sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Evidence
    from tokenbox.proof.replay import Remake, Texts
    from tokenbox.tokenizers.protocol import Tokenizer

_STRATEGIES = ("box",)


def remake_plan(contents: Contents, texts: Texts, tokenizer: Tokenizer) -> Evidence:
    """The evidence of planning the recorded sections again.

    Raises ``ReplayImpossible`` for blocks, messages and strategies of the user's own.
    """
    predicate = contents.manifest.predicate
    options = cast("Mapping[str, object]", predicate["options"])
    strategy, separator = str(options.get("strategy")), options.get("separator")
    kinds = {str(record["kind"]) for record in contents.inputs}
    if strategy not in _STRATEGIES or kinds != {"section"} or not isinstance(separator, str):
        raise ReplayImpossible(
            f"a plan of {', '.join(sorted(kinds))[:60] or 'nothing'} by {strategy[:60]!r} is not replayed; "
            "plans of sections by 'box' are.",
            strategy=strategy[:60],
        )
    sections = recorded_sections(contents, texts)
    limits = _limits(cast("Mapping[str, Mapping[str, object] | None]", predicate["budget"]))
    model = cast("str | None", predicate["model"])
    request = read_chunks(sections, separator)
    try:
        return of_plan(pack(request, limits, tokenizer, strategy, model))
    except TokenboxError as error:
        return of_plan_error(error, request, limits, tokenizer.identity, strategy, model)


def _limits(budget: Mapping[str, Mapping[str, object] | None]) -> Limits:
    """The limits as recorded. Where the budget is smaller than the window leaves, the input had a limit."""
    values = {name: None if part is None else part["value"] for name, part in budget.items()}
    limits = Limits.of(values["context_window"], values["reserve_output"], values["headroom"])
    tokens = values["tokens"]
    if tokens == limits.window_room:
        return limits
    return Limits.of(limits.max_ctx, limits.reserve_out, limits.headroom, tokens)


REMAKES: Mapping[Kind, Remake] = {Kind.PLAN: remake_plan}
