"""``tokenbox proof keygen``, ``sign``, ``verify``, ``checkpoint`` and ``inclusion``: keys and the log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.cli import terminal
from tokenbox.cli.options import AS_JSON, OUTPUT, argument, flag, option
from tokenbox.cli.outcome import Exit, UsageProblem
from tokenbox.cli.proving import DIR, NAME, find_bundle, report_no_bundles, store_in, trusted_keys
from tokenbox.cli.streams import deliver, json_bytes, read_bytes, write_error, write_record, write_text
from tokenbox.errors import plural
from tokenbox.proof.errors import BundleInvalid, LogInvalid
from tokenbox.proof.verify import verify as verified
from tokenbox.records import from_json
from tokenbox.render.lines import printable
from tokenbox.store.bundle_files import FolderFiles
from tokenbox.store.bundle_log import Inclusion, entered_before, verify_log
from tokenbox.store.bundles import Bundles, sign_bundle
from tokenbox.store.key_files import PUBLIC, read_public, read_signer, write_key

if TYPE_CHECKING:
    from tokenbox.proof.signing import PublicKey

KEYS = option("--key FILE.pub", "A public key; may be repeated.")
THRESHOLD = option("--signatures N", "The number of keys that must have signed.", 1, min=1)


def keygen(
    file: str = argument("FILE", "The file of the private key."),
    as_json: bool = AS_JSON,
) -> None:
    """Make an Ed25519 key: FILE, readable only by you, and FILE.pub.

    No file is overwritten. To rotate keys, make another one, and verify with the old one as --retired.

    Example: tokenbox proof keygen ~/.config/tokenbox/proof.key
    """
    key = write_key(Path(os.path.expanduser(file)))
    if as_json:
        write_record("proof.key", {"key": file, "public": f"{file}{PUBLIC}", "id": key.keyid})
    else:
        write_text(f"{printable(file)}: the private key\n{printable(file)}{PUBLIC}: the public key\n")
        write_text(f"key id: {key.keyid}\n")


def sign(
    bundle: str = NAME,
    key: list[str] = option("--key FILE", "A private key; may be repeated.", ...),
    folder: str | None = DIR,
    as_json: bool = AS_JSON,
) -> None:
    """Verify and sign a bundle: envelope.json is a DSSE envelope over its manifest.

    Signatures of other keys are kept. To sign every bundle: tokenbox config set --user proof.sign_with FILE

    Example: tokenbox proof sign 3fa9 --key proof.key
    """
    signers = [read_signer(Path(name)) for name in key]
    files, bundle_id = find_bundle(bundle, folder)
    if not isinstance(files, FolderFiles):
        raise UsageProblem("an archive cannot be signed. Sign the bundle in its store, then export it.")
    manifest = verified(files, bundle_id)
    sign_bundle(Path(files.path), signers)
    ids = [signer.public_key.keyid for signer in signers]
    if as_json:
        write_record("proof.sign", {"id": manifest.id, "signed_by": ids})
    else:
        write_text(f"{manifest.id}: signed by {', '.join(name[:12] for name in ids)}\n")


def verify(
    bundles: list[str] | None = argument(
        "BUNDLE...", "Ids, folders or exported files. Default: all bundles.", None
    ),
    key: list[str] | None = KEYS,
    threshold: int = THRESHOLD,
    retired: list[str] | None = option(
        "--retired FILE", "An old public key, valid for bundles before --key took over."
    ),
    log: bool = flag("--log", "Also check that the log of the store was not deleted, cut or forked."),
    checkpoint: list[str] | None = option("--checkpoint FILE", "Check that the log extends this checkpoint."),
    inclusion: str | None = option("--inclusion FILE", "Check a proof that the bundle is in a signed log."),
    folder: str | None = DIR,
    as_json: bool = AS_JSON,
) -> int:
    """Check every byte of bundles against their ids, and check their signatures, offline.

    The default of --key is the setting proof.trusted; if neither is given, no signature is checked. A bundle
    that fails is reported with the first field that differs, and the exit status is 1.

    Example: tokenbox proof verify --log --key proof.key.pub
    """
    keys, store = _public_keys(key), store_in(folder)
    older = [read_public(Path(name)) for name in retired or ()]
    if older and (keys is None or not log):
        raise UsageProblem("--retired needs --key and --log: the log shows what was signed before.")
    names = bundles or store.ids()
    if not names:
        report_no_bundles(store)
    trust = _Trust(keys, older, _signed_before(store, keys, threshold) if older else frozenset(), threshold)
    proof = None if inclusion is None else _inclusion(inclusion, bundles, keys)
    records = []
    with terminal.progress("verifying", len(names)) as advance:
        for name in names:
            record, result = _checked(name, folder, trust, proof, inclusion or "")
            records.append(record)
            if not as_json:
                result = result.removeprefix(f"{name}: ")  # of an archive, whose errors name it
                write_text(f"{printable(name)}: {printable(result)}\n")
            advance()
    wrong = sum(not record["ok"] for record in records)
    found: dict[str, object] = {"bundles": records, "wrong": wrong}
    problems: list[BundleInvalid] = []
    if log or checkpoint is not None:
        kept = [(name, read_bytes(name)) for name in checkpoint or ()]
        problems += verify_log(store.log, store.ids, keys, threshold, kept, older)
        unentered = None if problems else store.log.unentered()
        found |= {"log": [error.to_dict() for error in problems], "unentered": unentered}
        if not as_json:
            write_text("".join(f"{printable(line)}\n" for line in _log_lines(store, problems, unentered)))
    if as_json:
        write_record("proof.verify", found)
    if wrong:
        write_error(f"Invalid bundles: {wrong:,} of {len(names):,}.\n")
    return Exit.DIFFERENT if wrong or problems else Exit.OK


@dataclass(frozen=True, slots=True)
class _Trust:
    """``threshold`` of the keys must have signed a bundle. Without keys no signature is checked.

    Those in ``retired`` count for the bundles ``before`` the present keys.
    """

    keys: list[PublicKey] | None
    retired: list[PublicKey]
    before: frozenset[str]
    threshold: int

    def of(self, bundle_id: str) -> list[PublicKey] | None:
        return [*(self.keys or ()), *self.retired] if bundle_id in self.before else self.keys


def _signed_before(store: Bundles, keys: Sequence[PublicKey] | None, threshold: int) -> frozenset[str]:
    """Return the bundles that retired keys may have signed."""
    with suppress(LogInvalid):  # which --log reports
        return entered_before(store.log, keys or (), threshold)
    return frozenset()


def _checked(
    name: str, folder: str | None, trust: _Trust, proof: Inclusion | None, proof_name: str
) -> tuple[dict[str, object], str]:
    """Verify a bundle, and that it is in the log of ``proof``. Return its record, and its result in words."""
    try:
        files, bundle_id = find_bundle(name, folder)
        manifest = verified(files, bundle_id, trust.of(bundle_id), trust.threshold)
        if proof is not None:
            proof.check(manifest.id, trust.keys or (), trust.threshold, proof_name)
    except BundleInvalid as error:
        return {"bundle": name, "ok": False, "error": error.to_dict()}, error.message
    record: dict[str, object] = {"bundle": name, "id": manifest.id, "ok": True}
    return record, "ok" if name == manifest.id else f"ok, {manifest.id}"


def checkpoint(output: str | None = OUTPUT, folder: str | None = DIR) -> None:
    """Print the last signed checkpoint of the log. A copy kept elsewhere reveals a log that was cut.

    Example: tokenbox proof checkpoint -o checkpoint.json
    """
    latest = max(store_in(folder).log.checkpoints(), key=lambda one: one[0].size, default=None)
    if latest is None:
        raise LogInvalid(
            "has no checkpoint: set proof.sign_with, and write a bundle.", file="log/checkpoints"
        )
    deliver(latest[1], output)


def inclusion(bundle: str = NAME, output: str | None = OUTPUT, folder: str | None = DIR) -> None:
    """Print a proof that a bundle is in the log; it reveals no other bundle.

    `tokenbox proof verify BUNDLE --inclusion FILE --key FILE.pub` checks it without the log. It has 20 hashes
    for a log of a million bundles.

    Example: tokenbox proof inclusion 3fa9 -o inclusion.json
    """
    store = store_in(folder)
    deliver(json_bytes(store.log.inclusion(store.find(bundle)).to_dict()), output)


def _public_keys(given: Sequence[str] | None) -> list[PublicKey] | None:
    if not given:
        return trusted_keys()
    return [read_public(Path(name)) for name in given]


def _inclusion(file: str, bundles: Sequence[str] | None, keys: object) -> Inclusion:
    if bundles is None or len(bundles) != 1 or keys is None:
        raise UsageProblem("--inclusion needs exactly one bundle and --key.")
    return Inclusion.of(from_json(read_bytes(file)), file)


def _log_lines(store: Bundles, problems: Sequence[BundleInvalid], unentered: str | None) -> Iterator[str]:
    yield from (error.message for error in problems)
    if not problems:
        yield f"log: ok, {plural(store.log.size(), 'entry', 'entries')}"
    if unentered is not None:
        yield (
            f"log: {unentered[:12]} is not in it yet: it is being written, or its writer was killed. "
            "The next writer enters it."
        )
