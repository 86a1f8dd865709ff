"""Compare the counts of llama.cpp's chat templates with those of a real server; write the table of proofs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.llama import model as models  # noqa: E402  # from the folder above
from tests.llama.corpus import EQUAL, OUTCOMES, compare, more_templates, templates  # noqa: E402
from tests.llama.shapes import SHAPES  # noqa: E402
from tests.llama.vocabularies import proven_kinds  # noqa: E402
from tokenbox.content.request import read_request  # noqa: E402
from tokenbox.conversation.chat_format import ChatFormat  # noqa: E402
from tokenbox.conversation.llama.prompt import RULES  # noqa: E402
from tokenbox.conversation.llama.verified import TABLE, digest  # noqa: E402
from tokenbox.errors import TokenboxError  # noqa: E402

SOME = 5
RENDERER = Path(__file__).with_name("render_with_transformers.py")
PYTHON = Path(__file__).with_name(".venv-transformers") / "bin" / "python"


def rendered(sources: dict[str, str], folder: Path) -> dict[str, Any]:
    """Compare plain chats with the library ``transformers``; return the templates whose counts all agree."""
    model = models.write(folder, models.TURNS)
    command = [PYTHON, RENDERER, model.folder]
    proven, notes, compared = {}, [], 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as library:
        assert library.stdin is not None
        assert library.stdout is not None
        version = json.loads(library.stdout.readline())
        for name, source in sources.items():
            chat = ChatFormat.open(model.folder, template=source)
            equal = different = 0
            for shape, body in SHAPES.items():
                read = read_request(body, strict=False)
                if not chat.covers(read):  # type: ignore[attr-defined]  # the format of a folder
                    continue
                try:
                    ours: int | None = chat.count_request(read).total
                except TokenboxError:
                    ours = None
                print(json.dumps({"template": source, "messages": body["messages"]}), file=library.stdin)
                library.stdin.flush()
                theirs = json.loads(library.stdout.readline())
                same = ours is None if isinstance(theirs, str) else ours == theirs
                equal, different = equal + (same and ours is not None), different + (not same)
                if not same:
                    notes.append(f"{name}: {shape}: {ours}, transformers {theirs}")
            compared += equal + different
            if equal and not different:
                proven[digest(source)] = name
        library.stdin.close()
    return {"version": version, "templates": proven, "notes": notes, "compared": compared}


def distinct(sources: dict[str, str]) -> dict[str, str]:
    """Return the sources without repeated ones, each under its first name."""
    names: dict[str, str] = {}
    for name, source in sources.items():
        names.setdefault(digest(source), name)
    return {name: sources[name] for name in names.values()}


def run(*, quick: bool) -> dict[str, Any]:
    cache = ROOT / ".pytest_cache"
    sources = distinct(templates(cache) | more_templates(cache))
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
        library = rendered(chosen, Path(folder) / "rendered")
        kinds = [] if quick else sorted(proven_kinds(Path(folder)))
    if not quick:
        proofs = {
            "rules": RULES,
            "templates": {row["digest"]: row["name"] for row in rows if row["proven"]},
            "vocabularies": kinds,
            "transformers": {"version": library["version"], "templates": library["templates"]},
        }
        TABLE.write_text(json.dumps(proofs, indent=1) + "\n", encoding="utf-8")
    return {"rows": rows, "rules": RULES, "vocabularies": kinds, "shapes": len(SHAPES)} | {
        "transformers": library
    }


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
    library = results["transformers"]
    about = (
        f"Plain chats by the library transformers {library['version']}: {library['compared']:,} requests, "
        f"{len(library['notes'])} different; {len(library['templates'])} templates are proven."
    )
    lines += ["", about]
    lines += [f"* {note}" for note in library["notes"]]
    notes = [f"* {row['name']}: {note}" for row in rows for note in row["notes"]]
    if notes:
        lines += ["", "## Where they differ", "", *notes]
    return "\n".join(lines) + "\n"
