"""``tokenbox proof``: bundles listed, shown, verified, replayed, compared and exported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tokenbox.cli import proof_signing, terminal
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.proving import Dir, Name, found, say_there_are_none, store_in, trusted_keys
from tokenbox.cli.streams import write_bytes, write_file, write_record, write_text
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Record
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.verify import BundleFiles
    from tokenbox.store.bundles import Listed

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SHOWN_ID = 12


def build_app() -> typer.Typer:
    """The commands."""
    app = typer.Typer(
        help="List, show, verify, replay, compare, export and sign proof bundles.",
        rich_markup_mode="markdown" if sys.stdout.isatty() else None,
        no_args_is_help=True,
    )
    for name, command in (
        ("list", list_bundles),
        ("show", show),
        ("verify", proof_signing.verify),
        ("replay", replay),
        ("diff", diff),
        ("export", export),
        ("keygen", proof_signing.keygen),
        ("sign", proof_signing.sign),
        ("inclusion", proof_signing.inclusion),
        ("checkpoint", proof_signing.checkpoint),
    ):
        app.command(name)(command)
    return app


def list_bundles(folder: Dir = None, as_json: AsJson = False) -> int:
    """List the bundles, the latest first.

    Example: tokenbox proof list
    """
    with reporting(as_json=as_json):
        store = store_in(folder)
        found = store.listed(trusted_keys())
        if not found:
            say_there_are_none(store)
        if as_json:
            write_record("proof.list", {"bundles": [_listed_record(bundle) for bundle in found]})
        elif found:
            heads = ("bundle", "made", "what", "outcome", "tokens", "tokenizer")
            terminal.show(terminal.table(heads, [_row(bundle) for bundle in found]))
    return Exit.OK


def show(bundle: Name, folder: Dir = None, as_json: AsJson = False) -> int:
    """Show what a bundle says, after verifying it.

    Example: tokenbox proof show 3fa9
    """
    with reporting(as_json=as_json):
        from tokenbox.proof.bundle import VOLATILE
        from tokenbox.proof.manifest import read_volatile
        from tokenbox.proof.signing import signers_in
        from tokenbox.proof.verify import MAX_VOLATILE

        files, contents = _opened(bundle, folder)
        made = read_volatile(files.read(VOLATILE, MAX_VOLATILE))
        signed_by, not_checked = signers_in(files, trusted_keys() or ())
        if as_json:
            record = {
                "id": contents.manifest.id,
                "manifest": contents.manifest.record,
                "inputs": list(contents.inputs),
                "decisions": list(contents.decisions),
                "summaries": list(contents.summaries),
                "made": {name: made[name] for name in ("time", "host", "environment")},
                "signed_by": signed_by,
                "signatures_not_checked": not_checked,
            }
            write_record("proof.show", record)
        else:
            write_text(
                "".join(f"{printable(line)}\n" for line in _page(contents, made, signed_by, not_checked))
            )
    return Exit.OK


def replay(
    bundle: Name,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="The texts again: a file, document, pack or folder; may be repeated.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", metavar="NAME", help="Instead of the one that the bundle names."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, metavar="ROWS", help="Of a batch: about so many rows, not all."),
    ] = None,
    folder: Dir = None,
    as_json: AsJson = False,
) -> int:
    """Call the recorded function again with the recorded arguments, and compare every field.

    The texts are those in the bundle, and those given with --from, each known by its digest.
    What is recorded and follows from nothing is listed as not compared: a signature vouches for it.
    If a field differs, the exit status is 1.

    Example: tokenbox proof replay 3fa9 --from prompt.toml
    """
    with reporting(as_json=as_json):
        from tokenbox.cli.replaying import replayed, texts_of
        from tokenbox.proof.evidence import EvidenceKind

        files, contents = _opened(bundle, folder)
        if contents.manifest.kind is EvidenceKind.BATCH:
            return _replay_batch(contents, given or [], sample, as_json=as_json)
        if sample is not None:
            raise UsageProblem("--sample is for the bundle of a batch; any other is replayed whole.")
        with terminal.progress("replaying"):
            texts = texts_of(files, contents.manifest, given or [])
            again = replayed(contents, texts, tokenizer)
        found = again.differences
        if as_json:
            record = {
                "id": contents.manifest.id,
                "same": again.same,
                "differences": [difference.to_dict() for difference in found],
                "uncompared": list(again.uncompared),
            }
            write_record("proof.replay", record)
        else:
            lines = [str(difference) for difference in found] or ["the same"]
            lines.append(f"not compared: {', '.join(again.uncompared)}")
            write_text("".join(f"{printable(line)}\n" for line in lines))
    return Exit.DIFFERENT if found else Exit.OK


def _replay_batch(contents: Contents, given: Sequence[str], sample: int | None, *, as_json: bool) -> Exit:
    """Shards of a batch are compiled again from its input, which is given with --from."""
    from tokenbox.batch.evidence import replay_run  # only for batches

    if len(given) != 1:
        raise UsageProblem("a batch is replayed from its input: --from INPUT, once.")
    with terminal.progress("shards replayed") as advance:
        again = replay_run(contents, given[0], sample, done=advance)
    if as_json:
        record = {
            "id": contents.manifest.id,
            "same": again.same,
            "differences": [difference.to_dict() for difference in again.differences],
            "shards": {"replayed": again.shards, "all": again.of},
            "rows": again.rows,
            "uncompared": list(again.uncompared),
        }
        write_record("proof.replay", record)
    else:
        lines = [str(difference) for difference in again.differences] or ["the same"]
        lines.append(f"replayed: {again.rows:,} rows in {again.shards:,} of {again.of:,} shards")
        lines.append(f"not compared: {', '.join(again.uncompared)}")
        write_text("".join(f"{printable(line)}\n" for line in lines))
    return Exit.OK if again.same else Exit.DIFFERENT


def diff(
    left: Name,
    right: Name,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if there is a difference.")
    ] = False,
    folder: Dir = None,
    as_json: AsJson = False,
) -> int:
    """Show what differs between two bundles, field by field.

    Example: tokenbox proof diff 3fa9 81c0
    """
    with reporting(as_json=as_json):
        from tokenbox.proof.contents import differences

        found = differences(_opened(left, folder)[1], _opened(right, folder)[1])
        if as_json:
            record = {"same": not found, "differences": [difference.to_dict() for difference in found]}
            write_record("proof.diff", record)
        elif found:
            write_text("".join(f"{printable(str(difference))}\n" for difference in found))
        else:
            write_text("no difference\n")
    return Exit.DIFFERENT if exit_code and found else Exit.OK


def export(
    bundle: Name,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, all at once or not at all."),
    ] = None,
    folder: Dir = None,
    as_json: AsJson = False,
) -> int:
    """Write a bundle as one file: a tar archive, the same bytes each time.

    `tokenbox proof verify FILE` takes it, and so does any tar program.

    Example: tokenbox proof export 3fa9 -o proof.tar
    """
    with reporting(as_json=as_json):
        from tokenbox.proof.archive import archived, entries

        if output is None and (as_json or terminal.is_seen()):
            raise UsageProblem("an archive is not text. Name a file with -o, or use a pipe.")
        files, bundle_id = found(bundle, folder)
        manifest = _verified(files, bundle_id)
        data = b"".join(archived(manifest.id, entries(files)))
        if output is None:
            write_bytes(data)
        else:
            write_file(output, data)
            if as_json:
                write_record("proof.export", {"id": manifest.id, "file": output, "bytes": len(data)})
    return Exit.OK


def _verified(files: BundleFiles, bundle_id: str) -> Manifest:
    from tokenbox.proof.verify import verify as verified

    return verified(files, bundle_id, trusted_keys())


def _opened(name: str, folder: str | None) -> tuple[BundleFiles, Contents]:
    from tokenbox.proof.contents import read_contents

    files, bundle_id = found(name, folder)
    return files, read_contents(files, _verified(files, bundle_id))


def _row(bundle: Listed) -> list[str]:
    if bundle.manifest is None or bundle.time is None:
        said = "damaged" if bundle.problem is None else bundle.problem.message
        return [bundle.id[:SHOWN_ID], "-", "-", f"damaged: {said}", "-", "-"]
    predicate = bundle.manifest.predicate
    tokenizer = cast("Record", predicate["tokenizer"])
    return [
        bundle.id[:SHOWN_ID],
        bundle.time[:19].replace("T", " "),
        bundle.manifest.kind.value,
        str(cast("Record", predicate["outcome"])["status"]),
        _tokens(predicate),
        str(tokenizer["name"]),
    ]


def _tokens(predicate: Record) -> str:
    """What was emitted of the budget."""
    about = "" if cast("Record", predicate["tokenizer"])["exact"] else "~"
    budget = cast("Record", cast("Record", predicate["budget"])["tokens"])["value"]
    figures = cast("Record", predicate["figures"])
    total = figures.get("total", figures.get("tokens_in"))
    said = "-" if total is None else f"{about}{total}"
    return said if budget is None else f"{said} of {budget}"


def _listed_record(bundle: Listed) -> dict[str, object]:
    if bundle.manifest is None:
        error = None if bundle.problem is None else bundle.problem.to_dict()
        return {"id": bundle.id, "ok": False, "error": error}
    names = ("kind", "outcome", "budget", "figures", "tokenizer", "model", "parent", "digest")
    predicate = bundle.manifest.predicate
    return {
        "id": bundle.id,
        "ok": True,
        "time": bundle.time,
        "emitted": bundle.manifest.emitted,
        **{name: predicate[name] for name in names},
    }


def _page(
    contents: Contents, made: Record, signed_by: Sequence[str], not_checked: Sequence[str]
) -> Iterator[str]:
    """The bundle for a person."""
    manifest, predicate = contents.manifest, contents.manifest.predicate
    engine, outcome = cast("Record", predicate["engine"]), cast("Record", predicate["outcome"])
    tokenizer = cast("Record", predicate["tokenizer"])
    exact = "exact" if tokenizer["exact"] else "an estimate"
    environment = cast("Record", made["environment"])
    figures = _pairs(cast("Record", outcome["figures"]))
    code = "" if outcome["code"] is None else f": {outcome['code']},{figures}"
    yield f"bundle     {manifest.id}"
    yield f"made       {made['time']} on {made['host']}, {environment.get('python', '?')}"
    if signed_by:
        yield f"signed     by {', '.join(name[:SHOWN_ID] for name in signed_by)}"
    if not_checked:
        names = ", ".join(name[:SHOWN_ID] for name in not_checked)
        yield f"unchecked  signature of {names}: tokenbox proof verify --key FILE.pub checks it"
    yield f"what       {manifest.kind.value}, {predicate['algorithm']}, {engine['name']} {engine['version']}"
    yield f"outcome    {outcome['status']}{code}"
    for name, part in cast("Record", predicate["budget"]).items():
        figure = cast("Record", part)
        if figure["value"] is not None:
            source = "" if figure["source"] is None else f" ({figure['source']})"
            yield f"{'budget' if name == 'tokens' else name:<10} {figure['value']}{source}"
    yield f"total      {_tokens(predicate)}"
    fingerprint = str(tokenizer["fingerprint"])[:SHOWN_ID]
    yield f"tokenizer  {tokenizer['name']} {tokenizer['version']}, {exact}, {fingerprint}"
    for name in ("model", "template", "override", "parent", "digest"):
        if predicate[name] is not None:
            value = predicate[name]
            yield f"{name:<10} {_pairs(value)[1:] if isinstance(value, dict) else value}"
    yield f"emitted    {manifest.emitted or 'nothing'}"
    yield from _records(contents.inputs, contents.decisions)


def _records(inputs: Sequence[Record], decisions: Sequence[Record]) -> Iterator[str]:
    outcomes = {
        str(record.get("id", number)): record
        for number, record in enumerate(decisions, 1)
        if "action" not in record
    }
    yield ""
    for record in inputs:
        tokens = "?" if record["tokens"] is None else record["tokens"]
        decided = outcomes.pop(str(record["id"]), None)
        became = "" if decided is None else f" -> {decided.get('decision')} {decided.get('size')}"
        source = "" if record["from"] is None else f"  {record['from']}"
        yield f"{record['id']}: {record['kind']}, {tokens} tokens, {record['bytes']} bytes{became}{source}"
    for name, record in outcomes.items():
        yield f"{name}:{_pairs({k: v for k, v in record.items() if k != 'id'})}"
    steps = [record for record in decisions if "action" in record]
    if steps:
        yield ""
    for number, step in enumerate(steps, 1):
        yield f"{number}. {step['action']} {step.get('id')}: {step.get('why')}"


def _pairs(record: Record) -> str:
    """``name value`` for each field, after a space."""
    from tokenbox.proof.manifest import leaves

    return "".join(f" {name} {value}," for name, value in leaves(record)).rstrip(",")
