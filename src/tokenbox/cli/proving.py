"""``--proof`` of the commands that decide something: a bundle of it, whatever comes of it."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli.outcome import Exit, report
from tokenbox.cli.streams import write_error
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.config import Config
    from tokenbox.proof import Evidence
    from tokenbox.proof.signing import PublicKey, SigningKey
    from tokenbox.proof.verify import BundleFiles
    from tokenbox.store.bundles import Bundles

Proof = Annotated[
    bool | None,
    typer.Option("--proof/--no-proof", help="Leave a proof bundle, of a refusal too; see `tokenbox proof`."),
]
ProofTexts = Annotated[
    bool | None,
    typer.Option(
        "--proof-texts/--no-proof-texts", help="The same with all texts in it, so that it replays offline."
    ),
]
ProofDir = Annotated[
    str | None,
    typer.Option("--proof-dir", metavar="DIR", help="Where proof goes, instead of .tokenbox/proof."),
]

Name = Annotated[
    str, typer.Argument(metavar="BUNDLE", help="An id or its beginning, a folder, or an exported file.")
]
Dir = Annotated[
    str | None, typer.Option("--dir", metavar="DIR", help="Where bundles are.  [default: .tokenbox/proof]")
]
_ID = re.compile("[0-9a-f]{1,64}")


class Prover:
    """What a command calls with evidence. That no proof could be written is said after its own result."""

    def __init__(self, *, texts: bool, folder: str | None, signers: Sequence[SigningKey] = ()) -> None:
        # Where the budget is from, once the command knows.
        self.budget_source: str | None = None
        self._texts = texts
        self._folder = folder
        self._signers = signers
        self._problem: TokenboxError | None = None

    def __call__(self, evidence: Evidence) -> None:
        from tokenbox.store.bundles import Bundles  # only with --proof

        if self.budget_source is not None:
            tokens = replace(evidence.budget.tokens, source=self.budget_source)
            evidence = replace(evidence, budget=replace(evidence.budget, tokens=tokens))
        try:
            folder = bundles_folder(self._folder)
            bundles = Bundles(folder, texts=self._texts, fsync=True, signers=self._signers)
            written = bundles.write(evidence)
        except TokenboxError as error:
            self._problem = error
        else:
            write_error(f"proof: {printable(str(written.path))}\n")

    def status(self) -> Exit:
        """Says what could not be written, and how the command ends for it."""
        return Exit.OK if self._problem is None else report(self._problem)


def bundles_folder(named: str | None) -> Path:
    """Where bundles are: the folder that was named, else that of the project, else that of this folder.

    A ``.tokenbox`` of its own in a folder of a project would hide the project's settings there.
    """
    from tokenbox.config import find_project
    from tokenbox.store.bundles import FOLDER

    if named is not None:
        return Path(named)
    project = find_project(Path())
    return Path(FOLDER if project is None else os.path.relpath(project.root / FOLDER))


def asks_for_proof(*, proof: bool | None, texts: bool | None, folder: str | None) -> bool:
    """Whether options ask for it: naming a folder, or asking for texts, does too."""
    return proof if proof is not None else texts is True or folder is not None


@contextmanager
def proving(*, proof: bool | None, texts: bool | None, folder: str | None) -> Iterator[Prover | None]:
    """What a command decides in here leaves proof, if options or else the settings ask for it.

    An error inside stays what the command ends with.
    """
    prover = None
    if proof is not False:
        from tokenbox.config import load

        settings = load()
        if asks_for_proof(proof=proof, texts=texts, folder=folder) or settings.value("proof.write") is True:
            with_texts = settings.value("proof.texts") is True if texts is None else texts
            prover = Prover(texts=with_texts, folder=folder, signers=signers_of(settings))
    try:
        yield prover
    except TokenboxError:
        if prover is not None:
            prover.status()
        raise


def store_in(folder: str | None) -> Bundles:
    from tokenbox.store.bundles import Bundles

    return Bundles(bundles_folder(folder))


def say_there_are_none(store: Bundles) -> None:
    write_error(
        f"There are no bundles in {printable(str(store.folder))} yet. Make one: tokenbox layout DOC --proof\n"
    )


def found(name: str, folder: str | None) -> tuple[BundleFiles, str]:
    """The bundle that was named, and the id it should have."""
    from tokenbox.store.bundles import BundleNotFound, open_bundle

    store = store_in(folder)
    if not _ID.fullmatch(name):
        if not Path(name).exists():
            raise BundleNotFound(
                f"{name[:200]} is neither the id of a bundle nor a folder or file.", start=name[:200]
            )
        return open_bundle(name)
    try:
        bundle_id = store.find(name)
    except BundleNotFound:
        if Path(name).exists():
            return open_bundle(name)
        raise
    return store.files(bundle_id), bundle_id


def signers_of(settings: Config) -> list[SigningKey]:
    """The key of the settings that signs proofs. Raises ``KeyInvalid`` and ``ConfigError``."""
    from tokenbox.config.trust import own_paths  # only with proof
    from tokenbox.store.key_files import read_signer

    return [read_signer(path) for path in own_paths(settings.setting("proof.sign_with"))]


def trusted_keys() -> list[PublicKey] | None:
    """The public keys of the settings: one of them must have signed. None if any bundle will do."""
    from tokenbox.config import load  # only for bundles that are read
    from tokenbox.config.trust import own_paths

    paths = own_paths(load().setting("proof.trusted"))
    if not paths:
        return None
    from tokenbox.store.key_files import read_public  # only with signatures

    return [read_public(path) for path in paths]
