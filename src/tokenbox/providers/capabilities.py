"""The limits of a model on a server: context window, maximum input and output, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tokenbox.catalog import Figure, ModelLimits
from tokenbox.catalog import model as catalog_model
from tokenbox.providers.errors import ModelNotFound, ProviderError
from tokenbox.providers.kinds import find_kind
from tokenbox.providers.memory import ProbeOutcome, ProbeReply
from tokenbox.records import to_record

if TYPE_CHECKING:
    from tokenbox.providers.kinds import ServerKind
    from tokenbox.providers.server import Server
    from tokenbox.providers.target import Target

_UNSUPPORTED: Final = {404, 405, 501}
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The limits of a model on a server. An unknown figure is None, never 0.

    ``kind``: the name of the kind of server. ``context_window``: the limit of one request, per slot, as the
    model is loaded. ``trained_window``: the limit of the model itself. ``discovered``: the server's own
    figures, without the catalog's. ``complete``: False if a question failed for now and will be repeated.
    """

    kind: str
    model: str
    context_window: Figure | None = None
    max_input_tokens: Figure | None = None
    max_output_tokens: Figure | None = None
    trained_window: Figure | None = None
    slots: int | None = None
    discovered: ModelLimits = field(default_factory=ModelLimits)
    complete: bool = True

    def to_dict(self) -> dict[str, object]:
        limits = "context_window max_input_tokens max_output_tokens trained_window"
        return to_record(self, f"kind model {limits} slots complete")


async def discover(server: Server, kind: ServerKind) -> ProbeReply[Capabilities]:
    """Ask the server for its figures. The outcome is NOT_NOW if a question failed for now."""
    model = server.target.model
    found: dict[str, Any] = {}
    complete = True
    for question in kind.questions:
        path = question.path(model)
        try:
            answer = await server.probe(kind, path, None if question.body is None else question.body(model))
        except ProviderError as error:
            complete = complete and not error.transient
            continue
        if answer.status == _OK:
            figures = question.read(answer.body, model)
            found = {name: figure for name, figure in figures.items() if figure is not None} | found
        else:
            # A missing model may be installed later.
            missing = isinstance(server.refusal(answer, path), ModelNotFound)
            complete = complete and answer.status in _UNSUPPORTED and not missing
    trained, slots = found.pop("trained_window", None), found.pop("slots", None)
    known = Capabilities(
        kind.name,
        model,
        trained_window=trained,
        slots=slots,
        discovered=ModelLimits(**found),
        complete=complete,
    )
    return ProbeReply(ProbeOutcome.ANSWERED if complete else ProbeOutcome.NOT_NOW, known)


def settled(known: Capabilities, target: Target) -> Capabilities:
    """Return the figures by precedence: the user's, else the server's, else the catalog's."""
    model, discovered = target.model, known.discovered
    stated = None if target.context_window is None else Figure(target.context_window, "configured")
    if not find_kind(known.kind).in_catalog:
        return replace(
            known,
            context_window=discovered.context_window if stated is None else stated,
            max_input_tokens=discovered.max_input_tokens,
            max_output_tokens=discovered.max_output_tokens,
        )
    info = catalog_model(model, configured={model: ModelLimits(stated)}, discovered={model: discovered})
    if info is None:
        return known
    return replace(
        known,
        context_window=info.context_window,
        max_input_tokens=info.max_input_tokens,
        max_output_tokens=info.max_output_tokens,
    )
