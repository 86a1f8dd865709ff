"""The published limits of models, by id, from the vendored table ``data/models.json``.

The table has the rows of litellm and models.dev from ctxlen, and the context windows of genai-prices.
``tools/refresh_catalog.py`` generates it; nothing is fetched at run time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from tokenbox.catalog.figures import Figure, ModelLimits
from tokenbox.catalog.names import first_party
from tokenbox.errors import TokenboxError

# The supported format version of the tables.
FORMAT = 1


class CatalogError(TokenboxError, code="catalog_invalid"):
    """A table of the catalog cannot be read."""


class PublishedModel(NamedTuple):
    """A row of the table. ``filled``: it comes only from models.dev, because litellm lacks the model."""

    provider: str | None
    max_input: int | None
    max_output: int | None
    window: int | None
    filled: int
    genai_window: int | None


class Edition(NamedTuple):
    """A version of a source, and the day of its data, if known."""

    source: str
    date: str | None

    def figure(self, value: int | None) -> Figure | None:
        return None if value is None else Figure(value, self.source, self.date)


@dataclass(frozen=True)
class Published:
    """All rows of the table by id."""

    raw: Mapping[str, list[Any]]
    aliases: Mapping[str, str]
    litellm: Edition
    models_dev: Edition
    genai: Edition

    @cached_property
    def _lower(self) -> Mapping[str, str]:
        return {key.lower(): key for key in self.raw}

    def key(self, model: str) -> str | None:
        """Return the id as in the table, ignoring case."""
        if model in self.raw:
            return model
        low = model.lower()
        return self.aliases.get(low) or self._lower.get(low)

    def row(self, key: str) -> PublishedModel:
        return PublishedModel(*self.raw[key])

    def limits(self, key: str) -> list[ModelLimits]:
        """Return the limits of each source for an id."""
        row = self.row(key)
        source = self.models_dev if row.filled else self.litellm
        found = [
            ModelLimits(
                self.models_dev.figure(row.window),
                source.figure(row.max_input),
                source.figure(row.max_output),
            ),
            ModelLimits(self.genai.figure(row.genai_window)),
        ]
        if key in _OWN:
            found.append(_OWN[key])
        return [limits for limits in found if limits != ModelLimits()]


@cache
def published() -> Published:
    """Read the table, once (5 ms). Raises :class:`CatalogError`."""
    data = read_table("models.json")
    ctxlen, genai = data["ctxlen"], data["genai-prices"]
    via = f"via ctxlen {ctxlen['version']}"
    return Published(
        data["rows"],
        data["aliases"],
        Edition(f"litellm {via}", ctxlen["date"]),
        Edition(f"models.dev {via}", ctxlen["date"]),
        Edition(f"genai-prices {genai['version']}", genai["date"]),
    )


def read_table(name: str) -> Mapping[str, Any]:
    """Read a table of this package. Raises :class:`CatalogError`."""
    try:
        data = json.loads(files("tokenbox.catalog").joinpath("data", name).read_text("utf-8"))
    except (OSError, ValueError):
        raise CatalogError(f"the catalog table {name} cannot be read. Reinstall tokenbox.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CatalogError(f"the catalog table {name} has an unsupported version. Reinstall tokenbox.")
    return data


# Corrections of the sources. They count as one more source, so the smallest figure still applies.
_OPENAI_CODEX = Figure(272_000, "OpenAI's model page: 400,000 less 128,000 of output", "2025-11-13")
_OWN = {
    name: ModelLimits(max_input_tokens=_OPENAI_CODEX)
    for name in ("gpt-5.1-codex", "gpt-5.1-codex-mini", "gpt-5.1-codex-max")
}


def is_first_party(key: str) -> bool:
    """Return whether the row is of the model's maker, not of another provider."""
    provider, slash, name = key.partition("/")
    if not slash:
        served_by = published().raw[key][0]
        maker = first_party(key)
        return maker is not None and (served_by == maker or (maker, served_by) == ("gemini", "vertex_ai"))
    return "/" not in name and provider == first_party(name)
