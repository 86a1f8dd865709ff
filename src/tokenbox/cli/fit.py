"""``tokenbox fit``: fits the messages of a chat into a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tokenbox
from tokenbox.cli import streams, terminal
from tokenbox.cli.chat import Chat, note_unseen, read_chat
from tokenbox.cli.counter_options import by_settings, note_misspelt
from tokenbox.cli.options import argument, flag, option
from tokenbox.cli.outcome import Exit, UsageProblem, only_one
from tokenbox.cli.proving import PROOF, PROOF_DIR, PROOF_TEXTS, Prover, proving
from tokenbox.compose.requests import Count
from tokenbox.conversation.record import Fitted
from tokenbox.engine.steps import ALL_STEPS, KEEP_RESULTS
from tokenbox.errors import ContextCriticalOverflow

# The fields of a request that hold a system prompt beside its messages.
_SYSTEM = ("system", "instructions")


@dataclass(frozen=True, slots=True)
class FitCommand:
    """Fit a chat into a token budget, counted as its model counts it.

    The system prompt, the last question and tool results that the model has not read yet are kept. Old tool
    results are masked first, then cut; then the oldest rounds and exchanges are removed.
    Prints the messages, or the whole request, in the form of the input.

    Example: tokenbox fit chat.json --model gpt-4o --budget 8000
    """

    file: str = argument("FILE", "Chat messages or a whole request, as JSON; - is standard input.")
    budget: int | None = option(
        "--budget -b TOKENS", "For the whole request. Default: the model's input limit."
    )
    model: str | None = option(
        "--model -m NAME", "Count in this model's chat format. Default: the request's."
    )
    tokenizer: str | None = option("--tokenizer -t NAME", "Overrides the model's tokenizer.")
    query: str | None = option("--query TEXT", "Prefer messages that match; `last` is the last user message.")
    max_turns: int | None = option("--max-turns N", "Keep at most N exchanges.")
    low_water: str = option(
        "--low-water SHARE", "Once over the budget, reduce to this share of it, such as 0.7, or auto.", "1"
    )
    steps: str = option("--steps NAME,...", "The steps that are allowed.", ",".join(sorted(ALL_STEPS)))
    keep_results: int = option("--keep-results N", "Mask the newest N tool results last.", KEEP_RESULTS)
    as_json: bool = flag("--json", "Print the record instead: sizes, decisions, steps, digest.")
    explain: bool = flag("--explain", "Print what was removed and why, instead of the messages.")
    output: str | None = option("--output -o FILE", "Write the messages to FILE.")
    proof: bool | None = PROOF
    proof_texts: bool | None = PROOF_TEXTS
    proof_dir: str | None = PROOF_DIR

    def run(self) -> int:
        with proving(proof=self.proof, texts=self.proof_texts, folder=self.proof_dir) as prover:
            only_one({"--json": self.as_json, "--explain": self.explain})
            chat = read_chat(self.file, is_list=True)
            with terminal.progress("fitting"):
                fitted, count = _fitted(chat, self, prover)
            shown = chat.holding(_without_head(fitted, len(chat.messages)))
            note_unseen(self.file, count, shown)
            if self.output is not None:
                streams.write_file(self.output, streams.json_bytes(shown))
            if self.as_json:
                streams.write_json({**fitted.to_dict(), "count": count.to_dict()})
            elif self.explain:
                streams.write_text(f"{fitted.explain()}\n")
            else:
                if self.output is None:
                    streams.write_json(shown)
                _report(fitted, count)
            return Exit.OK if prover is None else prover.status()


fit = FitCommand


def _fitted(chat: Chat, options: FitCommand, prover: Prover | None) -> tuple[Fitted[Any], Count]:
    """Return the messages that fit, and the count of the request with them, which is within the budget."""
    model = options.model or chat.model
    budget = _budget_of(model) if options.budget is None else options.budget
    model, tokenizer = by_settings(model, options.tokenizer)
    note_misspelt(model, tokenizer)
    body = {} if chat.key is None else chat.value
    system = [{"role": "system", "content": body[key]} for key in _SYSTEM if body.get(key)]
    beside = {key: value for key, value in body.items() if key not in {chat.key, "tools", *_SYSTEM}}

    def fitted_into(tokens: int, proof: Prover | None = None) -> Fitted[Any]:
        return tokenbox.fit(
            [*system, *chat.messages],
            tokens,
            tokenizer,
            model=model,
            tools=body.get("tools"),
            fields=beside,
            max_turns=options.max_turns,
            low_water=options.low_water,
            steps=tuple(options.steps.split(",")),
            keep_results=options.keep_results,
            query=options.query,
            proof=proof,
            source="the command line",
        )

    left = budget
    while True:
        try:
            fitted = fitted_into(left)
        except ContextCriticalOverflow:
            if model is None and tokenizer is None:
                streams.write_error(
                    "note: without --model NAME, the frame of the request is a high estimate.\n"
                )
            raise
        kept = _without_head(fitted, len(chat.messages))
        count = tokenbox.count(chat.holding(kept), model, tokenizer=tokenizer)
        if count.total <= budget:
            return (fitted if prover is None else fitted_into(left, prover)), count
        left -= count.total - budget  # a system prompt beside the messages may cost more than one among them


def _without_head(fitted: Fitted[Any], given: int) -> list[Any]:
    """Return the messages without the system prompt, which the request has in a field of its own."""
    head = len(fitted.inputs) - given
    return fitted.messages[head:]


def _budget_of(model: str | None) -> int:
    """Return the input limit of a model by the settings: its window less the output reserve and headroom."""
    if model is None:
        raise UsageProblem(
            "no model is named, so its limit is unknown. Name it: --model gpt-4o, or give --budget 8000"
        )

    return tokenbox.ctx.limits_of(model).input_limit


def _report(fitted: Fitted[Any], count: Count) -> None:
    """Report on standard error how many messages were kept, shortened and removed."""
    removed, shortened = len(fitted.gone), len(fitted.shortened)
    streams.write_error(
        f"{count} of {fitted.budget:,} tokens: {len(fitted.messages)} of {len(fitted.inputs)} messages kept"
        f"{f', {shortened} shortened' if shortened else ''}{f', {removed} left out' if removed else ''}. "
        "--explain shows why.\n"
    )
