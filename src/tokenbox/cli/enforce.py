"""``tokenbox enforce``: decides whether a request may be sent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tokenbox
from tokenbox.cli import request, terminal
from tokenbox.cli.options import AS_JSON, option
from tokenbox.cli.outcome import Exit, UsageProblem
from tokenbox.cli.proving import PROOF, PROOF_DIR, PROOF_TEXTS, proving
from tokenbox.cli.streams import STDIN, write_json
from tokenbox.models import OutputMode
from tokenbox.policy import Enforcement
from tokenbox.policy.records import CutChunks, LargerWindow, LowerMaxTokens, Remedy
from tokenbox.render.lines import Line, Span, Style, printable


def enforce(
    files: list[str] | None = request.FILES,
    model: str | None = request.MODEL,
    tokenizer: str | None = request.TOKENIZER,
    max_tokens: str | None = option("--max-tokens TOKENS", "The output limit that the request sets."),
    max_ctx: str | None = request.MAX_CTX,
    reserve_out: str | None = request.RESERVE_OUT,
    headroom: str | None = request.HEADROOM,
    strategy: str | None = request.STRATEGY,
    output_mode: OutputMode = option(
        "--output-mode", "json reserves more output by default.", OutputMode.TEXT
    ),
    messages: str | None = request.MESSAGES,
    document: str | None = request.DOCUMENT,
    pack: str | None = request.PACK,
    allow: str | None = option(
        "--allow-over-context REASON", "Allow a request that is over, and record why."
    ),
    as_json: bool = AS_JSON,
    proof: bool | None = PROOF,
    proof_texts: bool | None = PROOF_TEXTS,
    proof_dir: str | None = PROOF_DIR,
) -> int:
    """Check whether a request may be sent to a model. Exit status 0 if it may, 4 if it is refused.

    It is refused if its tokens plus the output reserve exceed the context window less the headroom.
    A refusal lists the smallest changes with which the request would pass.

    Example: tokenbox enforce --model gpt-4o -t o200k_base rules.md notes.md
    """
    with proving(proof=proof, texts=proof_texts, folder=proof_dir) as prover:
        if max_tokens is not None and reserve_out is not None:
            raise UsageProblem("--max-tokens and --reserve-out mean the same. Give one of them.")
        given = request.read(files or (), messages, document, pack)
        # --reserve-out overrides the limit in the request.
        own_limit = None if reserve_out is not None else given.max_tokens

        config = request.settings(max_ctx, reserve_out, headroom)
        with terminal.progress("counting"):
            found = tokenbox.ctx.enforce(
                request.needed_model(model, given, config),
                given.chunks,
                output_mode.value,
                request.tokens_in(max_tokens, "--max-tokens", own_limit),
                None if allow is None else tokenbox.override.allow_over_context(allow),
                tokenizer=tokenizer,
                strategy=strategy,
                config=config,
                proof=prover,
            )
        if as_json:
            write_json(found.to_dict())
        else:
            options = {
                "--model": found.model,
                "--tokenizer": tokenizer,
                "--max-tokens": max_tokens,
                "--reserve-out": reserve_out,
                "--max-ctx": max_ctx,
                "--headroom": headroom,
                "--strategy": strategy,
                "--output-mode": None if output_mode is OutputMode.TEXT else output_mode.value,
                "--messages": messages,
                "--document": document,
                "--lcp": pack,
            }
            terminal.show(_picture(found, CommandLine(options, files or ())))
        status = Exit.OK if prover is None else prover.status()
    return status if found.ok else Exit.REFUSED


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line that was run, from which remedies are built."""

    options: Mapping[str, str | None]
    files: Sequence[str]

    def with_remedy(self, remedy: Remedy, found: Enforcement) -> str | None:
        """Return the command that applies the remedy, or None: a command cannot read standard input again."""
        if STDIN in (*self.files, *self.options.values()):
            return None
        match remedy:
            case LowerMaxTokens():
                return self._line("enforce", {"--max-tokens": str(remedy.max_tokens), "--reserve-out": None})
            case CutChunks() if remedy.plan.strategy == found.strategy and remedy is found.plan[-2]:
                reserve = str(found.limits.reserve_out)
                changed = {"--max-tokens": None, "--output-mode": None, "--reserve-out": reserve}
                return f"{self._line('plan', changed)} -o -"
            case LargerWindow(models=(first, *_)):
                return self._line("enforce", {"--model": first})
        return None

    def _line(self, command: str, changed: Mapping[str, str | None]) -> str:
        words = ["tokenbox", command]
        for name, value in {**self.options, **changed}.items():
            words += [] if value is None else [name, value]
        return shlex.join([*words, *self.files])


def _picture(found: Enforcement, asked: CommandLine) -> list[Line]:
    """Return the verdict with its figures, then each remedy with its command."""
    verdict = ("ok", Style.EXPANDED) if found.ok else ("refused", Style.DROPPED)
    lines: list[Line] = [(Span(verdict[0], verdict[1]), Span(f": {found.why.say}"))]
    lines += [(Span(f"note: {printable(note)}", Style.FAINT),) for note in found.why.notes]
    if found.plan:
        effect = "makes the override unnecessary" if found.ok else "lets it pass"
        lines.append((Span(f"any one of these {effect}:", Style.FAINT),))
    for remedy in found.plan:
        lines.append((Span(f"- {printable(remedy.say)}"),))
        command = asked.with_remedy(remedy, found)
        if command is not None:
            lines.append((Span(f"  {printable(command)}", Style.FAINT),))
    return lines
