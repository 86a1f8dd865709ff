"""What is published of models' limits, read from files that come with packages.

``ctxlen`` has litellm's rows and models.dev's; ``data/genai_windows.json`` has the context windows of
``genai-prices``, taken from it by ``tools/catalog_windows.py``: importing that package takes half a second.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.catalog.figures import Figure, Limits
from tokenbox.catalog.names import first_party, provider_of
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The layout of ctxlen's _data.json that is understood here.
FORMAT = 1


class CatalogError(TokenboxError):
    """The data of an installed package cannot be used."""

    code = "catalog_invalid"


class Row(NamedTuple):
    """A line of ctxlen's data. ``filled``: models.dev's alone, for litellm has no such model."""

    provider: str | None
    max_input: int | None
    max_output: int | None
    window: int | None
    filled: bool


@dataclass(frozen=True, slots=True)
class Published:
    """All rows by id. ``lower`` finds an id however it is capitalized."""

    version: str | None
    rows: Mapping[str, Row]
    lower: Mapping[str, str]

    @property
    def date(self) -> str | None:
        """The day of the data, which ctxlen's version begins with."""
        found = re.match(r"(\d{4})\.(\d{1,2})\.(\d{1,2})(\.|$)", self.version or "")
        return None if found is None else f"{found[1]}-{found[2]:0>2}-{found[3]:0>2}"

    def key(self, model: str) -> str | None:
        """The id as the data has it."""
        return model if model in self.rows else self.lower.get(model.lower())

    def limits(self, key: str) -> Limits:
        """What the row of that id says."""
        row = self.rows[key]
        via = f"via ctxlen {self.version or '(version unknown)'}"
        models_dev = f"models.dev {via}"
        litellm = models_dev if row.filled else f"litellm {via}"
        return Limits(
            _figure(row.window, models_dev, self.date),
            _figure(row.max_input, litellm, self.date),
            _figure(row.max_output, litellm, self.date),
        )


def _figure(value: int | None, source: str, date: str | None) -> Figure | None:
    return None if value is None else Figure(value, source, date)


@cache
def published() -> Published:
    """The rows of ctxlen. Read once, in some 20 ms. Raises :class:`CatalogError`."""
    try:
        text = files("ctxlen").joinpath("_data.json").read_text("utf-8")
    except (ModuleNotFoundError, OSError):
        raise CatalogError(
            "the package ctxlen is not installed as it should be. Run: pip install ctxlen"
        ) from None
    data = json.loads(text)
    if data.get("format") != FORMAT:
        raise CatalogError(
            f"ctxlen's data has format {data.get('format')}, this version of tokenbox reads {FORMAT}. "
            "Upgrade tokenbox, or install an older ctxlen."
        )
    rows = {key: Row(_maker(key), None, None, None, filled=True) for key in _genai_windows()[2]}
    rows |= {key: _row(row, filled=True) for key, row in data["fills"].items()}
    rows |= {key: _row(row, filled=False) for key, row in data["rows"].items()}
    return Published(_installed("ctxlen"), rows, {key.lower(): key for key in rows})


def _row(values: list[object], *, filled: bool) -> Row:
    provider, *numbers = values
    max_input, max_output, window = (n if isinstance(n, int) and n > 0 else None for n in numbers)
    served_by = provider_of(provider if isinstance(provider, str) else None)
    return Row(served_by, max_input, max_output, window, filled)


def _maker(key: str) -> str | None:
    provider, slash, _ = key.partition("/")
    return provider if slash else first_party(key)


def _installed(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # slow

    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _genai_windows() -> tuple[str, str | None, Mapping[str, int | None]]:
    data = json.loads(files("tokenbox.catalog").joinpath("data/genai_windows.json").read_text("utf-8"))
    return data["version"], data["date"], data["windows"]


# What the sources have wrong or not at all: (id, limits). One more source, so the smallest still counts.
_OPENAI_CODEX = Figure(272_000, "OpenAI's model page: 400,000 less 128,000 of output", "2025-11-13")
_OWN = {
    name: Limits(max_input_tokens=_OPENAI_CODEX)
    for name in ("gpt-5.1-codex", "gpt-5.1-codex-mini", "gpt-5.1-codex-max")
}


def own_limits(key: str) -> Limits | None:
    """What this package itself knows of the id."""
    return _OWN.get(key)


def genai_edition() -> tuple[str, str | None]:
    """The version of genai-prices that is installed, and its day where that is known."""
    known, date, _ = _genai_windows()
    installed = _installed("genai-prices") or "(not installed)"
    return installed, date if installed == known else None


def genai_limits(key: str) -> Limits | None:
    """The context window that genai-prices has for the id."""
    version, date, windows = _genai_windows()
    value = windows.get(key)
    return None if value is None else Limits(Figure(value, f"genai-prices {version}", date))


def is_first_party(key: str) -> bool:
    """Whether the row is of the model's maker and not of who serves it too."""
    provider, slash, name = key.partition("/")
    if not slash:
        served_by = published().rows[key].provider
        maker = first_party(key)
        return maker is not None and (served_by == maker or (maker, served_by) == ("gemini", "vertex_ai"))
    return "/" not in name and provider == first_party(name)
