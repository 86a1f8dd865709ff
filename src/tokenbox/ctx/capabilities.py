"""The known limits of models: those of the settings, their servers and the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenbox import catalog
from tokenbox.config import current
from tokenbox.errors import NoTokenizer, shown
from tokenbox.models import (
    Stated,
    resolve_figures,
)
from tokenbox.policy import (
    InvalidPolicy,
)
from tokenbox.records import to_record

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from tokenbox.compose.requests import RequestCounter
    from tokenbox.config import Config
    from tokenbox.tokenizers.protocol import Tokenizer

    Counting = str | Tokenizer | RequestCounter | Callable[[str], int]
    Tools = Sequence[Mapping[str, object]]
    Headroom = str | Decimal | Fraction | int | float


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The known limits and tokenizer of a model. None is unknown, and never 0.

    ``tokenizer_name``: the tokenizer from the settings, else the model's family. ``sources``: the source of
    each field. ``configured``: the model is in the settings.
    """

    id: str
    context_window: int | None
    max_input_tokens: int | None
    max_output_tokens: int | None
    tokenizer_name: str | None
    sources: Mapping[str, str] = field(default_factory=dict)
    configured: bool = False

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self, "id context_window max_input_tokens max_output_tokens tokenizer_name configured sources"
        )


def capabilities(query: str = "", *, config: Config | None = None) -> list[ModelCapabilities]:
    """List models and their limits: those of the settings first, then matches of ``query`` in the catalog.

    An empty query lists all models of the catalog under their makers' names. Raises ``InvalidPolicy`` for a
    query that is not text.
    """
    if not isinstance(query, str):
        raise InvalidPolicy(f"a query is a model's name, or words of it, not {shown(query)}.", field="query")
    settings = current() if config is None else config
    wanted = query.strip().lower()
    own = [name for name in settings.names("models") if wanted in name.lower()]
    known = catalog.find(query, configured=settings.catalog_limits(), makers_only=not wanted)
    return [_capabilities(name, settings) for name in dict.fromkeys((*own, *(info.id for info in known)))]


def _capabilities(name: str, config: Config) -> ModelCapabilities:
    """Return the capabilities of a model, by its id or a NAME of ``[models.NAME]``."""
    policy = config.policy_for(name)
    settings = Stated(context_window=config.stated(name).context_window)
    figures = resolve_figures(
        policy.model, settings=settings, server=config.server_said(name), corrections=config.catalog_limits()
    )
    sources = {_TOKENS[name]: source for name, source in figures.sources.items() if name in _TOKENS}
    tokenizer = policy.tokenizer
    if tokenizer is not None:
        sources["tokenizer_name"] = policy.sources["tokenizer"]
    elif figures.family is not None:
        tokenizer, sources["tokenizer_name"] = figures.family.name, figures.family.source
    return ModelCapabilities(
        name,
        figures.context_window,
        figures.max_input,
        figures.max_output,
        tokenizer,
        sources,
        name in config.names("models"),
    )


_TOKENS = {
    "context_window": "context_window",
    "max_input": "max_input_tokens",
    "max_output": "max_output_tokens",
}


def model_name(model: object) -> str | None:
    """Return the name of a model, or None. Raises ``NoTokenizer`` for anything else."""
    if model is None or (isinstance(model, str) and model.strip()):
        return model
    raise NoTokenizer(f"a model is a name such as 'gpt-4o', not {shown(model)}.", remedies=[])
