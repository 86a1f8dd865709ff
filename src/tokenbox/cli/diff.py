"""``tokenbox diff``: compares two layouts."""

from __future__ import annotations

import tokenbox
from tokenbox.cli import terminal
from tokenbox.cli.layout import budgets_in
from tokenbox.cli.options import ALLOW_OUTSIDE, AS_JSON, EXIT_CODE, OWN_TOKENIZER, argument, option
from tokenbox.cli.outcome import Exit, UsageProblem
from tokenbox.cli.streams import read_syntax, write_record, write_text
from tokenbox.compose.diff import LayoutValues
from tokenbox.compose.diff import diff as compare
from tokenbox.compose.layout import Layout
from tokenbox.errors import LayoutError
from tokenbox.records import from_json
from tokenbox.render.lines import printable


def diff(
    documents: list[str] = argument(
        "LAYOUT...", "Two layout documents, or results saved by `layout --json`."
    ),
    budgets: str | None = option(
        "--budgets TOKENS,TOKENS", "Two budgets: for one document, or one for each."
    ),
    tokenizer: str | None = OWN_TOKENIZER,
    as_json: bool = AS_JSON,
    exit_code: bool = EXIT_CODE,
    allow_outside: bool = ALLOW_OUTSIDE,
) -> int:
    """Compare two layouts: their figures, their sections, and the first byte of the text that differs.

    Example: tokenbox diff prompt.toml --budgets 8000,2000
    """
    pairs = _pairs(documents, budgets)
    with terminal.progress("laying out"):
        sides = [_side(name, budget, tokenizer, allow_outside=allow_outside) for name, budget in pairs]
        changes = compare(*sides)
    if as_json:
        write_record("diff", changes.to_dict())
    else:
        labels = [f"{name}{'' if budget is None else f' in {budget:,} tokens'}" for name, budget in pairs]
        write_text(f"--- {printable(labels[0])}\n+++ {printable(labels[1])}\n{changes}\n")
    return Exit.DIFFERENT if exit_code and not changes.same else Exit.OK


def _pairs(documents: list[str], budgets: str | None) -> list[tuple[str, int | None]]:
    """Return the document and the budget of each side; None is the document's own budget."""
    if len(documents) > 2:
        raise UsageProblem(f"diff compares two layouts, not {len(documents)}.")
    sides = [documents[0], documents[-1]]
    if budgets is None:
        if len(documents) < 2:
            raise UsageProblem("name two layouts, or one document and two budgets: --budgets 8000,2000.")
        return [(name, None) for name in sides]
    sizes = budgets_in(budgets, "--budgets")
    if len(sizes) != 2:
        raise UsageProblem(f"--budgets takes two budgets, as in 8000,2000; not {len(sizes)}.")
    return list(zip(sides, sizes, strict=True))


def _side(
    name: str, budget: int | None, tokenizer: str | None, *, allow_outside: bool
) -> Layout | LayoutValues:
    """Return the values of a saved result, or the layout of a document."""
    saved = _saved(name)
    if saved is None:
        return tokenbox.documents.read_document(name, allow_outside=allow_outside).layout(
            budget=budget, tokenizer=tokenizer
        )
    if budget is not None or tokenizer is not None:
        option = "--tokenizer" if budget is None else "--budgets"
        raise UsageProblem(
            f"{name} is a saved result: it cannot be laid out again, so {option} does not apply."
        )
    if "error" in saved:
        raise LayoutError(
            f"{name} is a saved error, not a layout. Save the result of a layout that fits.", file=name
        )
    try:
        return LayoutValues.from_dict(saved)
    except LayoutError as error:
        raise LayoutError(f"{name} is {error.message}", file=name) from None


def _saved(name: str) -> dict[str, object] | None:
    """Return the result saved in a JSON file, or None if the file is a document."""
    if not name.lower().endswith(".json"):
        return None
    data = from_json(read_syntax(name))  # what is no JSON is read as a document, with its errors
    # --json writes one of these keys; a document has neither.
    return data if isinstance(data, dict) and ("schema" in data or "error" in data) else None
