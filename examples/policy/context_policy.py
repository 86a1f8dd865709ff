"""The context policy of this repository: python context_policy.py [--plan].

The rules of a prompt always stay. The newest of its notes, which are named by date, come first. A prompt that
does not fit is refused: its author decides what to leave out, and ``--plan`` shows what this policy would.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import house_tokenizer

from tokenbox import Section, TokenboxError, ctx, tokenizers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tokenbox.ctx import Candidate

MODEL = "house-7b"
PROMPTS = Path(__file__).parent / "prompts"
WRONG, REFUSED = 2, 4


def newest_first(candidates: Sequence[Candidate], budget: int, _: Callable[[str], int]) -> Iterator[int]:
    """Keep critical chunks, then the newest notes that fit; yield their indices in declared order."""
    left = budget - sum(one.tokens for one in candidates if one.critical)
    chosen = {one.index for one in candidates if one.critical}
    for one in sorted(candidates, key=lambda one: one.id, reverse=True):
        if not one.critical and one.tokens <= left:
            left -= one.tokens
            chosen.add(one.index)
    yield from sorted(chosen)


def sections_of(folder: Path) -> list[Section]:
    """Return the sections of a prompt: its rules, which are critical, and its notes."""
    return [
        Section(file.stem, file.read_text(encoding="utf-8"), shrink=0 if file.stem == "rules" else 1)
        for file in sorted(folder.glob("*.md"), key=lambda file: (file.stem != "rules", file.stem))
    ]


def check(folder: Path) -> bool:
    """Print whether the prompt fits, why not, and the remedies; return True if it does."""
    verdict = ctx.enforce(MODEL, sections_of(folder), strategy=newest_first)
    print(f"{folder.name}: {'ok' if verdict.ok else 'refused'}: {verdict.why}")
    for remedy in verdict.plan:
        print(f"  - {remedy.say}")
    return verdict.ok


def show_plan(folder: Path) -> None:
    """Print what this policy would leave out, and what summaries would save."""
    sections = sections_of(folder)
    plan = ctx.pack(sections, strategy=newest_first, model=MODEL)
    print(f"{folder.name}: {plan.total} of {plan.budget} tokens")
    for chunk in plan.dropped:
        print(f"  leaves out {chunk.id} ({chunk.base_size})")
    for op in ctx.pack(sections, strategy="box", model=MODEL).summary_ops:
        print(f"  or {op.say()}")


def main(arguments: list[str]) -> int:
    tokenizers.register(
        house_tokenizer.FAMILY, house_tokenizer.count, version=house_tokenizer.VERSION, exact=True
    )
    folders = sorted(path for path in PROMPTS.iterdir() if path.is_dir())
    try:
        if "--plan" in arguments:
            for folder in folders:
                show_plan(folder)
            return 0
        verdicts = [check(folder) for folder in folders]
    except TokenboxError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    return 0 if all(verdicts) else REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
