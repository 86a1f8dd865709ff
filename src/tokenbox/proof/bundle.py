"""A bundle: evidence as files of canonical bytes, and the id that covers all of them.

    manifest.json      an in-toto v1 Statement; its SHA-256 is the id of the bundle
    inputs.jsonl       what was given, a line each: digests, sizes, where from
    decisions.jsonl    what became of each, then every step
    summaries/         what was summarized on the way, a record each
    texts/             only if asked for: every text, so that the bundle replays offline
    envelope.json      only if signed: a DSSE envelope with the manifest and its signatures
    volatile.json      when, where and on what it was made; not in the id, checked by a digest of its own

The manifest has the digests of all others but the last two, so the id covers them. A file in ``summaries/``
and ``texts/`` is named by the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.__about__ import __version__
from tokenbox.proof.canonical import canonical
from tokenbox.proof.errors import ProofTooLarge
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tokenbox.proof.evidence import Evidence, Record, Text

SCHEMA = "tokenbox.proof/3"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:tokenbox:predicate:proof:3"

MANIFEST, INPUTS, DECISIONS, VOLATILE = "manifest.json", "inputs.jsonl", "decisions.jsonl", "volatile.json"
ENVELOPE = "envelope.json"
SUMMARIES, TEXTS = "summaries/", "texts/"
EMITTED = "emitted"

# No manifest that is written comes near it; of a larger one nothing is read.
MAX_MANIFEST = 1 << 20
# Up to so many lines, volatile.json has a check sum of each line, to name one that differs.
MAX_LINE_SUMS = 10_000


@dataclass(frozen=True, slots=True)
class Volatile:
    """What is true of the making and not of what was made. ``time``: RFC 3339, in UTC."""

    time: str
    host: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files of a bundle by name, in the order they are written; without ``volatile.json``."""

    id: str
    manifest: Record
    files: Mapping[str, bytes]

    def volatile(self, made: Volatile) -> bytes:
        """The bytes of ``volatile.json``.

        ``digest`` is the SHA-256 of the file as it is with that value empty. A second copy of the manifest
        and a check sum per line are there so that damage elsewhere can be named.
        """
        record = {
            "bundle": self.id,
            "digest": "",
            "environment": dict(made.environment),
            "host": made.host,
            "lines": {name: _line_sums(self.files[name]) for name in (INPUTS, DECISIONS)},
            "manifest": self.manifest,
            "time": made.time,
        }
        data = canonical(record)
        place = len(volatile_start(self.id))
        return data[:place] + hashlib.sha256(data).hexdigest().encode() + data[place:]


def build(evidence: Evidence, *, texts: bool = False) -> Bundle:
    """The bundle of ``evidence``: the same bytes and the same id for the same evidence, always.

    ``texts``: put the texts in, which makes it another bundle of another id. Raises ``NotCanonical`` for
    records that have no canonical JSON, and :class:`ProofTooLarge`.
    """
    inputs = _lines(item.to_dict() for item in evidence.inputs)
    decisions = _lines(evidence.decisions)
    summaries = _tree(canonical(summary.to_dict()) for summary in evidence.summaries)
    kept = _tree(_kept(evidence)) if texts else None
    manifest = _statement(
        evidence,
        {
            INPUTS: file_record(inputs),
            DECISIONS: file_record(decisions),
            SUMMARIES: tree_record(summaries) if summaries else None,
            TEXTS: None if kept is None else tree_record(kept),
        },
    )
    data = canonical(manifest)
    if len(data) > MAX_MANIFEST:
        raise ProofTooLarge(
            f"the manifest of this proof would have {len(data):,} bytes; at most {MAX_MANIFEST:,} are read. "
            "Put what is listed into the decisions.",
            bytes=len(data),
            limit=MAX_MANIFEST,
        )
    files = {MANIFEST: data, INPUTS: inputs, DECISIONS: decisions}
    files |= {f"{SUMMARIES}{name}.json": item for name, item in summaries.items()}
    files |= {f"{TEXTS}{name}": item for name, item in (kept or {}).items()}
    return Bundle(hashlib.sha256(data).hexdigest(), manifest, files)


def file_record(data: bytes) -> dict[str, object]:
    """What the manifest says of a file."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def tree_record(files: Mapping[str, bytes]) -> dict[str, object]:
    """What the manifest says of a folder whose files are named by their digests."""
    return {
        "files": len(files),
        "bytes": sum(map(len, files.values())),
        "sha256": tree_digest(files),
    }


def tree_digest(names: Iterable[str]) -> str:
    """SHA-256 (hex) over the sorted names, a line each: as each is the digest of a file, it covers all."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def volatile_start(bundle_id: str) -> bytes:
    """How ``volatile.json`` begins, up to the digits of its digest."""
    return f'{{"bundle":"{bundle_id}","digest":"'.encode()


def _statement(evidence: Evidence, files: Record) -> dict[str, object]:
    return {
        "_type": STATEMENT,
        "subject": [_subject(evidence, files)],
        "predicateType": PREDICATE,
        "predicate": {
            "schema": SCHEMA,
            "engine": {"name": "tokenbox", "version": __version__},
            "kind": evidence.kind.value,
            "outcome": evidence.outcome.to_dict(),
            "function": evidence.function,
            "algorithm": evidence.algorithm,
            "arguments": dict(evidence.arguments),
            "budget": evidence.budget.to_dict(),
            "tokenizer": evidence.tokenizer.to_dict(),
            "template": evidence.template,
            "model": evidence.model,
            "override": None if evidence.override is None else dict(evidence.override),
            "parent": evidence.parent,
            "digest": evidence.digest,
            "figures": dict(evidence.figures),
            "files": dict(files),
        },
    }


def _subject(evidence: Evidence, files: Record) -> dict[str, object]:
    """What the statement is about: the emitted bytes; of a refusal, which has none, the inputs."""
    if evidence.emitted is None:
        record = files[INPUTS]
        assert isinstance(record, dict)  # noqa: S101  # as file_record made it
        return {"name": INPUTS, "digest": {"sha256": record["sha256"]}}
    digest = hashlib.sha256()
    for piece in _pieces(evidence.emitted):
        digest.update(_bytes(piece))
    return {"name": EMITTED, "digest": {"sha256": digest.hexdigest()}}


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join([canonical(record) + b"\n" for record in records])


def _tree(items: Iterable[bytes]) -> dict[str, bytes]:
    """By digest, in the order of the names."""
    return dict(sorted((hashlib.sha256(item).hexdigest(), item) for item in items))


def _kept(evidence: Evidence) -> Iterator[bytes]:
    for item in evidence.inputs:
        yield from map(_bytes, item.texts)
    for summary in evidence.summaries:
        yield utf8(summary.text)
    if evidence.emitted is not None:
        yield b"".join(map(_bytes, _pieces(evidence.emitted)))


def _pieces(emitted: str | bytes | tuple[str, ...]) -> tuple[str | bytes, ...]:
    return emitted if isinstance(emitted, tuple) else (emitted,)


def _bytes(text: Text) -> bytes:
    if isinstance(text, str):
        return utf8(text)
    return text if isinstance(text, bytes) else text()


def line_sum(line: bytes) -> str:
    """A check sum that tells which line was damaged; that one was, a digest tells."""
    return f"{zlib.crc32(line):08x}"


def _line_sums(data: bytes) -> str:
    lines = data.splitlines() if data.count(b"\n") <= MAX_LINE_SUMS else []
    return "".join(map(line_sum, lines))
