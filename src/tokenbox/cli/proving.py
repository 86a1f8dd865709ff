"""The options ``--proof``, ``--proof-texts`` and ``--proof-dir``, and access to proof bundles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import tokenbox
from tokenbox.cli.options import argument, option
from tokenbox.cli.outcome import Exit, report
from tokenbox.cli.streams import write_error
from tokenbox.errors import TokenboxError
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from tokenbox.config import Config
    from tokenbox.proof import Evidence
    from tokenbox.proof.signing import PublicKey, SigningKey
    from tokenbox.proof.verify import BundleFiles
    from tokenbox.store.bundles import Bundles

PROOF = option("--proof/--no-proof", "Write a proof bundle, of refusals too; see `tokenbox proof`.")
PROOF_TEXTS = option("--proof-texts/--no-proof-texts", "Write it with all texts, so that it replays offline.")
PROOF_DIR = option("--proof-dir DIR", "Write it to DIR instead of .tokenbox/proof.")

NAME = argument("BUNDLE", "An id or its beginning, a folder, or an exported file.")
DIR = option("--dir DIR", "The folder of bundles. Default: .tokenbox/proof.")
_ID = re.compile("[0-9a-f]{1,64}")


class Prover:
    """Writes proof bundles. A command calls it with evidence; ``status`` reports a bundle that failed."""

    def __init__(self, *, texts: bool, folder: str | None, signers: Sequence[SigningKey] = ()) -> None:
        self.budget_source: str | None = None
        """The origin of the budget, set by the command once it is known."""
        self._texts = texts
        self._folder = folder
        self._signers = signers
        self._problem: TokenboxError | None = None

    def __call__(self, evidence: Evidence) -> None:
        from tokenbox.store.bundles import Bundles

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
        """Report a bundle that could not be written, and return the exit status."""
        return Exit.OK if self._problem is None else report(self._problem)


def bundles_folder(named: str | None) -> Path:
    """Return the folder of bundles: the one that is named, else that of the project or the current folder.

    It is the project's, because a second ``.tokenbox`` inside a project would hide the project's settings.
    Raises ``ProofNotWritten`` for a link that leads out of the project.
    """
    from tokenbox.store.bundles import bundles_of

    if named is not None:
        return Path(named)
    project = tokenbox.config.find_project(Path())
    return bundles_of(Path("." if project is None else os.path.relpath(project.root)))


def asks_for_proof(*, proof: bool | None, texts: bool | None, folder: str | None) -> bool:
    """Return True if the options ask for proof; ``--proof-texts`` and ``--proof-dir`` do too."""
    return proof if proof is not None else texts is True or folder is not None


@contextmanager
def proving(*, proof: bool | None, texts: bool | None, folder: str | None) -> Iterator[Prover | None]:
    """Yield a prover if the options or else the settings ask for proof.

    An error inside remains the error of the command.
    """
    prover = None
    if proof is not False:
        settings = tokenbox.config.load()
        if asks_for_proof(proof=proof, texts=texts, folder=folder) or settings.value("proof.write"):
            with_texts = settings.value("proof.texts") if texts is None else texts
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


def report_no_bundles(store: Bundles) -> None:
    write_error(
        f"There are no bundles in {printable(str(store.folder))} yet. Make one: tokenbox layout DOC --proof\n"
    )


def find_bundle(name: str, folder: str | None) -> tuple[BundleFiles, str]:
    """Return the files of the bundle that is named, and the id it should have."""
    from tokenbox.store.bundle_files import open_bundle
    from tokenbox.store.bundles import BundleNotFound

    store = store_in(folder)
    if not _ID.fullmatch(name):
        if not Path(name).exists():
            raise BundleNotFound(
                f"{name[:200]} is not the id of a bundle, a folder or a file. "
                "List the bundles: tokenbox proof list",
                start=name[:200],
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
    """Return the signing keys of the settings. Raises ``KeyInvalid`` and ``ConfigError``."""
    from tokenbox.config.trust import own_paths
    from tokenbox.store.key_files import read_signer

    return [read_signer(path) for path in own_paths(settings.setting("proof.sign_with"))]


def trusted_keys() -> list[PublicKey] | None:
    """Return the trusted public keys of the settings; None if signatures are not required."""
    from tokenbox.config.trust import own_paths

    paths = own_paths(tokenbox.config.load().setting("proof.trusted"))
    if not paths:
        return None
    from tokenbox.store.key_files import read_public

    return [read_public(path) for path in paths]
