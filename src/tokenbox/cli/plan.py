"""``tokenbox plan``: plans which parts of a request fit within a model's limits."""

from __future__ import annotations

import tokenbox
from tokenbox.cli import request, terminal
from tokenbox.cli.options import AS_JSON, option
from tokenbox.cli.outcome import Exit, UsageProblem
from tokenbox.cli.proving import PROOF, PROOF_DIR, PROOF_TEXTS, proving
from tokenbox.cli.streams import STDIN, write_bytes, write_file, write_json
from tokenbox.ledger.totals import aligned
from tokenbox.policy import PackPlan
from tokenbox.render.lines import Line, Span, Style, printable

_STYLES = {
    "kept": Style.KEPT,
    "full": Style.KEPT,
    "expanded": Style.EXPANDED,
    "compressed": Style.COMPRESSED,
    "summary": Style.COMPRESSED,
    "reduced": Style.COMPRESSED,
    "truncated": Style.TRUNCATED,
    "placeholder": Style.TRUNCATED,
}


def plan(
    files: list[str] | None = request.FILES,
    model: str | None = request.MODEL,
    tokenizer: str | None = request.TOKENIZER,
    max_ctx: str | None = request.MAX_CTX,
    reserve_out: str | None = request.RESERVE_OUT,
    headroom: str | None = request.HEADROOM,
    strategy: str | None = request.STRATEGY,
    messages: str | None = request.MESSAGES,
    document: str | None = request.DOCUMENT,
    pack: str | None = request.PACK,
    as_json: bool = AS_JSON,
    output: str | None = option("--output -o FILE", "Write what fits to FILE; - prints it."),
    proof: bool | None = PROOF,
    proof_texts: bool | None = PROOF_TEXTS,
    proof_dir: str | None = PROOF_DIR,
) -> int:
    """Plan which parts of a request fit within a model's limits. Nothing is sent.

    Shows which chunks are kept, cut and dropped, and which summaries, of what size, would bring some back.

    Example: tokenbox plan --model gpt-4o -t o200k_base rules.md notes.md
    """
    with proving(proof=proof, texts=proof_texts, folder=proof_dir) as prover:
        if as_json and output == STDIN:
            raise UsageProblem("--json and -o - both go to standard output. Name a file for the text.")
        given = request.read(files or (), messages, document, pack)

        config = request.settings(max_ctx, reserve_out, headroom)
        with terminal.progress("planning"):
            found = tokenbox.ctx.pack(
                given.chunks,
                strategy=strategy,
                model=request.model_of(model, given, config),
                tokenizer=tokenizer,
                config=config,
                proof=prover,
            )
        if output is not None and output != STDIN:
            write_file(output, found.emitted)
        if output == STDIN:
            write_bytes(found.emitted)
        elif as_json:
            write_json(found.to_dict())
        else:
            terminal.show(_picture(found))
        return Exit.OK if prover is None else prover.status()


def _picture(found: PackPlan) -> list[Line]:
    """Return the budget, a line for each chunk, and the summaries that would help."""
    about = "" if found.exact else "~"
    limits = found.limits
    exact = "exact" if found.exact else "estimate"
    head = (
        f"{about}{found.total:,} of {found.budget:,} tokens: {limits.usable:,} usable of {limits.max_ctx:,}, "
        f"{limits.reserve_out:,} reserved; {found.strategy}, {found.tokenizer.name} ({exact})"
    )
    chunks = sorted((*found.packed, *found.dropped), key=lambda chunk: chunk.index)
    rows = [["chunk", "base", "size", "decision"]]
    rows += [
        [printable(one.id), f"{about}{one.base_size:,}", f"{about}{one.size:,}", one.decision.value]
        for one in chunks
    ]
    wide = max(len(name) for name, *_ in rows)
    heads, *table = [
        (f"{name:<{wide}}  {base}  {size}  ", last) for name, base, size, last in aligned(rows, 1)
    ]
    lines: list[Line] = [(Span(head, Style.STRONG),), (), (Span("".join(heads), Style.FAINT),)]
    lines += [(Span(left), Span(last, _STYLES.get(last, Style.DROPPED))) for left, last in table]
    if found.summary_ops:
        lines += [(), (Span("What a summary would bring back", Style.FAINT),)]
        lines += [(Span(f"- {printable(op.say(about))}"),) for op in found.summary_ops]
    return lines
