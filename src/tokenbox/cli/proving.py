"""``--proof`` of the commands that decide something: a bundle of it, whatever comes of it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli.outcome import Exit, report
from tokenbox.cli.streams import write_error
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.proof import Evidence

Proof = Annotated[
    bool, typer.Option("--proof", help="Leave a proof bundle, of a refusal too; see `tokenbox proof`.")
]
ProofTexts = Annotated[
    bool, typer.Option("--proof-texts", help="The same with all texts in it, so that it replays offline.")
]
ProofDir = Annotated[
    str | None,
    typer.Option("--proof-dir", metavar="DIR", help="Where proof goes, instead of .tokenbox/proof."),
]


class Prover:
    """What a command calls with evidence. That no proof could be written is said after its own result."""

    def __init__(self, *, texts: bool, folder: str | None) -> None:
        # Where the budget is from, once the command knows.
        self.budget_source: str | None = None
        self._texts = texts
        self._folder = folder
        self._problem: TokenboxError | None = None

    def __call__(self, evidence: Evidence) -> None:
        from tokenbox.store.bundles import FOLDER, Bundles  # noqa: PLC0415  # only with --proof

        if self.budget_source is not None:
            tokens = replace(evidence.budget.tokens, source=self.budget_source)
            evidence = replace(evidence, budget=replace(evidence.budget, tokens=tokens))
        folder = FOLDER if self._folder is None else self._folder
        try:
            written = Bundles(folder, texts=self._texts, fsync=True).write(evidence)
        except TokenboxError as error:
            self._problem = error
        else:
            write_error(f"proof: {printable(str(written.path))}\n")

    def status(self) -> Exit:
        """Says what could not be written, and how the command ends for it."""
        return Exit.OK if self._problem is None else report(self._problem)


@contextmanager
def proving(*, proof: bool, texts: bool, folder: str | None) -> Iterator[Prover | None]:
    """What a command decides in here leaves proof, if that was asked for.

    To ask for texts or to name a folder is to ask for proof. An error inside stays what the command ends
    with.
    """
    prover = Prover(texts=texts, folder=folder) if proof or texts or folder is not None else None
    try:
        yield prover
    except TokenboxError:
        if prover is not None:
            prover.status()
        raise
