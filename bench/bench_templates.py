"""What the chat templates of llama.cpp's sources count, here and on a real server: the table of proofs."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.llama.corpus import EQUAL, OUTCOMES, compare, templates  # noqa: E402  # from the folder above
from tests.llama.shapes import SHAPES  # noqa: E402
from tests.llama.vocabularies import proven_kinds  # noqa: E402
from tokenbox.conversation.llama.prompt import RULES  # noqa: E402
from tokenbox.conversation.llama.verified import TABLE  # noqa: E402

SOME = 5


def run(*, quick: bool) -> dict[str, Any]:
    sources = templates(ROOT / ".pytest_cache")
    chosen = dict(list(sources.items())[:: len(sources) // SOME]) if quick else sources
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for place, (name, source) in enumerate(chosen.items()):
            compared = compare(name, source, Path(folder) / str(place))
            rows.append(
                {
                    "name": name,
                    "digest": compared.digest,
                    "outcomes": dict(compared.outcomes),
                    "notes": compared.notes,
                    "proven": compared.proven,
                }
            )
        kinds = [] if quick else sorted(proven_kinds(Path(folder)))
    if not quick:
        proofs = {
            "rules": RULES,
            "templates": {row["digest"]: row["name"] for row in rows if row["proven"]},
            "vocabularies": kinds,
        }
        TABLE.write_text(json.dumps(proofs, indent=1) + "\n", encoding="utf-8")
    return {"rows": rows, "rules": RULES, "vocabularies": kinds, "shapes": len(SHAPES)}


def table(results: dict[str, Any]) -> str:
    rows = results["rows"]
    total = {outcome: sum(row["outcomes"].get(outcome, 0) for row in rows) for outcome in OUTCOMES}
    taken = sum(total.values()) - total["both refuse"] - total["counted alone"]
    about = (
        f"{len(rows)} templates x {results['shapes']} requests ({sum(total.values()):,}); rules: "
        f"{results['rules']}. The server counts with `/v1/chat/completions/input_tokens`, tokenbox with the "
        "same GGUF and no server. Written by `python bench/run.py templates`."
    )
    found = (
        f"Of {taken:,} requests that the server takes, {total[EQUAL]:,} ({total[EQUAL] / taken:.1%}) are "
        f"equal and exact, {total['equal, inexact']:,} equal and marked `~`, {total['wrong, inexact']:,} "
        f"different and marked `~`, {total['wrong, exact']:,} different and marked exact, "
        f"{total['refused']:,} refused here; {total['bound passed']:,} passed `at_most`. "
        f"{total['both refuse']:,} are refused by both, {total['counted alone']:,} by the server alone."
    )
    lines = [
        "# Chat templates, beside a real llama.cpp server",
        "",
        about,
        "",
        found,
        "",
        "| template | " + " | ".join(OUTCOMES) + " |",
        "|---" * (len(OUTCOMES) + 1) + "|",
    ]
    lines += [
        f"| {row['name']} | "
        + " | ".join(str(row["outcomes"].get(outcome, "") or "") for outcome in OUTCOMES)
        + " |"
        for row in rows
    ]
    if results["vocabularies"]:
        kinds = ", ".join(f"`{kind}`" for kind in results["vocabularies"])
        lines += ["", f"Ways of cutting texts that were compared with the server's own `/tokenize`: {kinds}."]
    notes = [f"* {row['name']}: {note}" for row in rows for note in row["notes"]]
    if notes:
        lines += ["", "## Where they differ", "", *notes]
    return "\n".join(lines) + "\n"
