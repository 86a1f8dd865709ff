"""``tokenbox proof``: lists, shows, verifies, replays, compares and exports bundles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from tokenbox.cli import proof_signing, terminal
from tokenbox.cli.options import AS_JSON, EXIT_CODE, OUTPUT, OWN_TOKENIZER, option
from tokenbox.cli.outcome import Exit, UsageProblem, group
from tokenbox.cli.proving import DIR, NAME, find_bundle, report_no_bundles, store_in, trusted_keys
from tokenbox.cli.streams import deliver, write_record, write_text
from tokenbox.proof.archive import archived, entries
from tokenbox.proof.bundle import VOLATILE
from tokenbox.proof.contents import Contents, differences, read_contents
from tokenbox.proof.evidence import EvidenceKind, Record
from tokenbox.proof.manifest import Manifest, leaves, read_volatile
from tokenbox.proof.signing import signers_in
from tokenbox.proof.verify import MAX_VOLATILE, BundleFiles
from tokenbox.proof.verify import verify as verified
from tokenbox.render.lines import printable
from tokenbox.store.bundles import Listed

if TYPE_CHECKING:
    from tokenbox.proof.replay import Replay

_NAMES_SHOWN = 12
SHOWN_ID = 12
"""Digits of an id that are shown; they identify a bundle or a key."""


def build_app() -> typer.Typer:
    return group(
        "List, show, verify, replay, compare, export and sign proof bundles.",
        {
            "list": list_bundles,
            "show": show,
            "verify": proof_signing.verify,
            "replay": replay,
            "diff": diff,
            "export": export,
            "keygen": proof_signing.keygen,
            "sign": proof_signing.sign,
            "inclusion": proof_signing.inclusion,
            "checkpoint": proof_signing.checkpoint,
        },
    )


def list_bundles(folder: str | None = DIR, as_json: bool = AS_JSON) -> None:
    """List the bundles, the latest first.

    Example: tokenbox proof list
    """
    store = store_in(folder)
    bundles = store.listed(trusted_keys())
    if not bundles:
        report_no_bundles(store)
    if as_json:
        write_record("proof.list", {"bundles": [_listed_record(bundle) for bundle in bundles]})
    elif bundles:
        heads = ("bundle", "made", "what", "outcome", "tokens", "tokenizer")
        terminal.show_table(heads, [_row(bundle) for bundle in bundles])


def show(bundle: str = NAME, folder: str | None = DIR, as_json: bool = AS_JSON) -> None:
    """Verify a bundle and show its contents.

    Example: tokenbox proof show 3fa9
    """
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
        _write_lines(_page(contents, made, signed_by, not_checked))


def replay(
    bundle: str = NAME,
    given: list[str] | None = option(
        "--from PATH", "The original texts: a file, document, pack or folder; may be repeated."
    ),
    tokenizer: str | None = OWN_TOKENIZER,
    sample: int | None = option("--sample ROWS", "Replay about this many rows of a batch.", min=1),
    folder: str | None = DIR,
    as_json: bool = AS_JSON,
) -> int:
    """Call the recorded function with the recorded arguments again, and compare every field.

    The texts come from the bundle and from --from, and are identified by their digests. Fields that cannot be
    recomputed are listed as not compared; only a signature vouches for them.
    The exit status is 1 if a field differs.

    Example: tokenbox proof replay 3fa9 --from prompt.toml
    """
    from tokenbox.cli.replaying import replayed, texts_of

    files, contents = _opened(bundle, folder)
    if contents.manifest.kind is EvidenceKind.BATCH:
        return _replay_batch(contents, given or [], sample, as_json=as_json)
    if sample is not None:
        raise UsageProblem("--sample is only for the bundle of a batch.")
    with terminal.progress("replaying"):
        texts = texts_of(files, contents.manifest, given or [])
        replay = replayed(contents, texts, tokenizer)
    return _show_replay(contents, replay, as_json=as_json)


def _replay_batch(contents: Contents, given: Sequence[str], sample: int | None, *, as_json: bool) -> Exit:
    """Compile shards of a batch again from its input, which ``--from`` names."""
    from tokenbox.batch.evidence import replay_run

    if len(given) != 1:
        raise UsageProblem("a batch is replayed from its input: --from INPUT, once.")
    with terminal.progress("shards replayed") as advance:
        replay = replay_run(contents, given[0], sample, done=advance)
    facts = {"shards": {"replayed": replay.shards, "all": replay.of}, "rows": replay.rows}
    line = f"replayed: {replay.rows:,} rows in {replay.shards:,} of {replay.of:,} shards"
    return _show_replay(contents, replay, facts, line, as_json=as_json)


def _show_replay(
    contents: Contents,
    replay: Replay,
    facts: Mapping[str, object] | None = None,
    line: str | None = None,
    *,
    as_json: bool,
) -> Exit:
    """Show the differences and the fields that were not compared, with the facts of a batch."""
    if as_json:
        record = {
            "id": contents.manifest.id,
            "same": replay.same,
            "reason": replay.reason,
            "differences": [difference.to_dict() for difference in replay.differences],
            **(facts or {}),
            "uncompared": list(replay.uncompared),
        }
        write_record("proof.replay", record)
    else:
        lines = ["the same" if replay.reason is None else replay.reason, *map(str, replay.differences)]
        lines += [] if line is None else [line]
        _write_lines([*lines, f"not compared: {_first_names(replay.uncompared)}"])
    return Exit.OK if replay.same else Exit.DIFFERENT


def _first_names(names: Sequence[str]) -> str:
    """Return the names as a list; of very many the first, and the number of the others."""
    more = len(names) - _NAMES_SHOWN
    rest = f", and {more:,} more (--json lists them)" if more > 0 else ""
    return ", ".join(names[:_NAMES_SHOWN]) + rest


def diff(
    left: str = NAME,
    right: str = NAME,
    exit_code: bool = EXIT_CODE,
    folder: str | None = DIR,
    as_json: bool = AS_JSON,
) -> int:
    """Compare two bundles, field by field.

    Example: tokenbox proof diff 3fa9 81c0
    """
    found = differences(_opened(left, folder)[1], _opened(right, folder)[1])
    if as_json:
        record = {"same": not found, "differences": [difference.to_dict() for difference in found]}
        write_record("proof.diff", record)
    else:
        _write_lines([str(difference) for difference in found] or ["no difference"])
    return Exit.DIFFERENT if exit_code and found else Exit.OK


def export(
    bundle: str = NAME, output: str | None = OUTPUT, folder: str | None = DIR, as_json: bool = AS_JSON
) -> None:
    """Write a bundle as a tar archive; every export has the same bytes.

    `tokenbox proof verify FILE` checks the archive.

    Example: tokenbox proof export 3fa9 -o proof.tar
    """
    if output is None and (as_json or terminal.is_seen()):
        raise UsageProblem("an archive is not text. Name a file with -o, or use a pipe.")
    files, bundle_id = find_bundle(bundle, folder)
    manifest = _verified(files, bundle_id)
    data = b"".join(archived(manifest.id, entries(files)))
    deliver(data, output)
    if as_json:
        write_record("proof.export", {"id": manifest.id, "file": output, "bytes": len(data)})


def _verified(files: BundleFiles, bundle_id: str) -> Manifest:
    return verified(files, bundle_id, trusted_keys())


def _opened(name: str, folder: str | None) -> tuple[BundleFiles, Contents]:
    files, bundle_id = find_bundle(name, folder)
    return files, read_contents(files, _verified(files, bundle_id))


def _write_lines(lines: Iterable[str]) -> None:
    write_text("".join(f"{printable(line)}\n" for line in lines))


def _row(bundle: Listed) -> list[str]:
    if bundle.manifest is None or bundle.time is None:
        problem = "damaged" if bundle.problem is None else f"damaged: {bundle.problem.message}"
        return [bundle.id[:SHOWN_ID], "-", "-", problem, "-", "-"]
    predicate = bundle.manifest.predicate
    tokenizer = predicate["tokenizer"]
    return [
        bundle.id[:SHOWN_ID],
        bundle.time[:19].replace("T", " "),
        bundle.manifest.kind.value,
        str(predicate["outcome"]["status"]),
        _tokens(predicate),
        str(tokenizer["name"]),
    ]


def _tokens(predicate: Record) -> str:
    """Return the total and the budget, as in ``120 of 200``."""
    budget = predicate["budget"]["tokens"]["value"]
    figures = predicate["figures"]
    about = "" if figures.get("exact", predicate["tokenizer"]["exact"]) else "~"
    total = figures.get("total", figures.get("tokens_in"))
    shown = "-" if total is None else f"{about}{total}"
    return shown if budget is None else f"{shown} of {budget}"


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
    manifest, predicate = contents.manifest, contents.manifest.predicate
    engine, outcome = predicate["engine"], predicate["outcome"]
    tokenizer = predicate["tokenizer"]
    exact = "exact" if tokenizer["exact"] else "an estimate"
    environment = made["environment"]
    figures = _pairs(outcome["figures"])
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
    for name, figure in predicate["budget"].items():
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
    """Return `` name value`` for each field, separated by commas."""
    return "".join(f" {name} {value}," for name, value in leaves(record)).rstrip(",")
