"""Take the context windows of genai-prices into src/tokenbox/catalog/data/genai_windows.json.

    python tools/catalog_windows.py --date 2026-11-10     write, with the day this version was published
    python tools/catalog_windows.py --check               say whether the file is what this version gives

Only makers' own models are taken: those are asked for, and their windows are where sources disagree.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

from genai_prices.data import providers

from tokenbox.catalog.names import FIRST_PARTIES, first_party
from tokenbox.catalog.published import is_first_party, published

FILE = Path(__file__).parents[1] / "src" / "tokenbox" / "catalog" / "data" / "genai_windows.json"
THEIRS = {"gemini": "google", "xai": "x-ai", "moonshot": "moonshotai", "meta_llama": "meta"}


# Whose models have ids without a provider.
UNQUALIFIED = ("openai", "anthropic", "gemini")


def windows() -> dict[str, int | None]:
    """The context window by ctxlen's id, and by our own for what ctxlen does not have (any more)."""
    by_id = {provider.id: provider for provider in providers}
    found: dict[str, int | None] = {}
    for maker in sorted({maker for _, maker in FIRST_PARTIES}):
        name = THEIRS.get(maker, maker)
        for offered in by_id[name].models if name in by_id else ():
            key = offered.id if maker in UNQUALIFIED else f"{maker}/{offered.id}"
            if first_party(offered.id) == maker:
                found[key] = offered.context_window
    for key in published().rows:
        if not is_first_party(key):
            continue
        name = key.rpartition("/")[2]
        maker = first_party(name) or ""
        provider = by_id.get(THEIRS.get(maker, maker))
        model = None if provider is None else provider.find_model(name.lower())
        if model is not None and model.context_window is not None:
            found[key] = model.context_window
    return dict(sorted(found.items()))


def written(date: str | None) -> str:
    content = {"version": version("genai-prices"), "date": date, "windows": windows()}
    return json.dumps(content, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--date", help="the day this version of genai-prices was published")
    options = parser.parse_args()
    if not options.check:
        FILE.write_text(written(options.date), encoding="utf-8")
        return 0
    text = FILE.read_text(encoding="utf-8")
    if text == written(json.loads(text)["date"]):
        return 0
    print(
        f"{FILE} is not what genai-prices {version('genai-prices')} gives. Run this without --check.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
