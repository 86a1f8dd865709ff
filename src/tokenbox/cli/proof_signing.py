"""``tokenbox proof keygen``, ``sign``, ``verify``, ``checkpoint`` and ``inclusion``: keys and the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli import terminal
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.proving import Dir, Name, found, say_there_are_none, store_in, trusted_keys
from tokenbox.cli.streams import (
    json_bytes,
    read_bytes,
    write_bytes,
    write_error,
    write_file,
    write_record,
    write_text,
)
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.proof.errors import BundleInvalid
    from tokenbox.proof.signing import PublicKey
    from tokenbox.store.bundle_log import Inclusion
    from tokenbox.store.bundles import Bundles

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write there.")]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="FILE.pub", help="A public key; may be repeated."),
]
Threshold = Annotated[
    int, typer.Option("--signatures", metavar="N", min=1, help="How many of the keys must have signed.")
]


def keygen(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the private key goes.")],
    as_json: AsJson = False,
) -> int:
    """Make an Ed25519 key: FILE, which only you may read, and FILE.pub, which verifies.

    No file is overwritten. To rotate, make another key, and verify with this one as --retired.

    Example: tokenbox proof keygen ~/.config/tokenbox/proof.key
    """
    with reporting(as_json=as_json):
        from tokenbox.store.key_files import PUBLIC, write_key  # only with signatures

        key = write_key(Path(file).expanduser())
        if as_json:
            write_record("proof.key", {"key": file, "public": f"{file}{PUBLIC}", "id": key.keyid})
        else:
            write_text(f"{printable(file)}: the private key\n{printable(file)}{PUBLIC}: the public key\n")
            write_text(f"key id: {key.keyid}\n")
    return Exit.OK


def sign(
    bundle: Name,
    key: Annotated[list[str], typer.Option("--key", metavar="FILE", help="A private key; may be repeated.")],
    folder: Dir = None,
    as_json: AsJson = False,
) -> int:
    """Sign a bundle that verifies: a DSSE envelope over its manifest, beside it as envelope.json.

    Signatures of other keys stay. To sign every bundle: tokenbox config set --user proof.sign_with FILE

    Example: tokenbox proof sign 3fa9 --key proof.key
    """
    with reporting(as_json=as_json):
        from tokenbox.proof.verify import verify as verified
        from tokenbox.store.bundles import sign_bundle
        from tokenbox.store.key_files import read_signer

        if Path(bundle).is_file():
            raise UsageProblem("an archive is not signed. Sign the bundle in its store, then export it.")
        signers = [read_signer(Path(name)) for name in key]
        files, bundle_id = found(bundle, folder)
        manifest = verified(files, bundle_id)
        place = Path(bundle) if Path(bundle).is_dir() else store_in(folder).folder / manifest.id
        sign_bundle(place, signers)
        ids = [signer.public_key.keyid for signer in signers]
        if as_json:
            write_record("proof.sign", {"id": manifest.id, "signed_by": ids})
        else:
            write_text(f"{manifest.id}: signed by {', '.join(name[:12] for name in ids)}\n")
    return Exit.OK


def verify(  # noqa: PLR0913, PLR0917  # one parameter per option
    bundles: Annotated[
        list[str] | None,
        typer.Argument(metavar="BUNDLE...", help="Ids, folders or exported files; all, if none is given."),
    ] = None,
    key: Keys = None,
    threshold: Threshold = 1,
    retired: Annotated[
        list[str] | None,
        typer.Option(
            "--retired", metavar="FILE", help="A public key that --key replaced; it counts up to then."
        ),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Check the log of the store too: nothing deleted, cut or forked.")
    ] = False,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint", metavar="FILE", help="A checkpoint that you kept, which the log extends."
        ),
    ] = None,
    inclusion: Annotated[
        str | None,
        typer.Option("--inclusion", metavar="FILE", help="Check that the bundle was in a signed log."),
    ] = None,
    folder: Dir = None,
    as_json: AsJson = False,
) -> int:
    """Check every byte of bundles against their ids, and their signatures; needs no network.

    Without --key, the keys are those of the setting proof.trusted; without those, no signature is checked.
    The first field that differs is named, and the exit status is 1.

    Example: tokenbox proof verify --log --key proof.key.pub
    """
    with reporting(as_json=as_json):
        from tokenbox.proof.errors import BundleInvalid
        from tokenbox.proof.verify import verify as verified

        keys, store = _public_keys(key), store_in(folder)
        older = _public_keys(retired) if retired else None
        if older and (keys is None or not log):
            raise UsageProblem("--retired needs --key and --log: the log says what was signed before.")
        names = bundles or store.ids()
        if not names:
            say_there_are_none(store)
        shown = None if inclusion is None else _inclusion(inclusion, bundles, keys)
        wrong, records = 0, []
        before = _before(store, keys, threshold) if older else frozenset[str]()
        with terminal.progress("verifying", len(names)) as advance:
            for name in names:
                try:
                    files, bundle_id = found(name, folder)
                    taken = [*(keys or ()), *(older or ())] if bundle_id in before else keys
                    manifest = verified(files, bundle_id, taken, threshold)
                    if shown is not None and inclusion is not None:
                        shown.check(manifest.id, keys or (), threshold, inclusion)
                    records.append({"bundle": name, "id": manifest.id, "ok": True})
                    said = "ok" if name == manifest.id else f"ok, {manifest.id}"
                except BundleInvalid as error:
                    wrong += 1
                    records.append({"bundle": name, "ok": False, "error": error.to_dict()})
                    said = error.message
                if not as_json:
                    write_text(f"{printable(name)}: {printable(said)}\n")
                advance()
        asked = log or checkpoint is not None
        problems = _log_problems(folder, keys, threshold, checkpoint or (), older or ()) if asked else []
        if as_json:
            said_of_log = {"log": [error.to_dict() for error in problems]} if asked else {}
            write_record("proof.verify", {"bundles": records, "wrong": wrong, **said_of_log})
        elif asked:
            entries = store.log.size()
            lines = [error.message for error in problems] or [f"log: ok, {entries:,} entries"]
            write_text("".join(f"{printable(line)}\n" for line in lines))
        if wrong:
            write_error(f"{wrong:,} of {len(names):,} bundles are not what their ids say.\n")
    return Exit.DIFFERENT if wrong or problems else Exit.OK


def checkpoint(output: Output = None, folder: Dir = None) -> int:
    """Print the last signed checkpoint of the log. Keep it elsewhere: it finds a log that was cut.

    Example: tokenbox proof checkpoint -o checkpoint.json
    """
    with reporting():
        from tokenbox.proof.errors import LogInvalid

        latest = max(store_in(folder).log.checkpoints(), key=lambda one: one[0].size, default=None)
        if latest is None:
            raise LogInvalid(
                "has no checkpoint: set proof.sign_with, and write a bundle.", file="log/checkpoints"
            )
        _deliver(latest[1], output)
    return Exit.OK


def inclusion(bundle: Name, output: Output = None, folder: Dir = None) -> int:
    """Print the proof that a bundle is in the log: 20 hashes for a million bundles, and no other bundle.

    `tokenbox proof verify BUNDLE --inclusion FILE --key FILE.pub` checks it without the log.

    Example: tokenbox proof inclusion 3fa9 -o inclusion.json
    """
    with reporting():
        store = store_in(folder)
        _deliver(json_bytes(store.log.inclusion(store.find(bundle)).to_dict()), output)
    return Exit.OK


def _deliver(data: bytes, output: str | None) -> None:
    if output is None:
        write_bytes(data)
    else:
        write_file(output, data)


def _public_keys(given: Sequence[str] | None) -> list[PublicKey] | None:
    if not given:
        return trusted_keys()
    from tokenbox.store.key_files import read_public  # only with signatures

    return [read_public(Path(name)) for name in given]


def _inclusion(file: str, bundles: Sequence[str] | None, keys: object) -> Inclusion:
    from tokenbox.store import bundle_log

    if bundles is None or len(bundles) != 1 or keys is None:
        raise UsageProblem("--inclusion is about one bundle, and needs --key.")
    try:
        record = json.loads(read_bytes(file))
    except (ValueError, RecursionError):
        record = None
    return bundle_log.Inclusion.of(record, file)


def _log_problems(
    folder: str | None,
    keys: Sequence[PublicKey] | None,
    threshold: int,
    kept: Sequence[str],
    retired: Sequence[PublicKey],
) -> list[BundleInvalid]:
    from tokenbox.store.bundle_log import verify_log

    store = store_in(folder)
    elsewhere = [(name, read_bytes(name)) for name in kept]
    return list(verify_log(store.log, store.ids, keys, threshold, elsewhere, retired))


def _before(store: Bundles, keys: Sequence[PublicKey] | None, threshold: int) -> frozenset[str]:
    """The bundles that retired keys may have signed; none where the log cannot be read, which is told."""
    from tokenbox.proof.errors import LogInvalid
    from tokenbox.store.bundle_log import entered_before

    try:
        return entered_before(store.log, keys or (), threshold)
    except LogInvalid:
        return frozenset()
