"""A bundle: evidence as files of canonical bytes, and the id that covers them.

    manifest.json      an in-toto v1 Statement; its SHA-256 is the id of the bundle
    inputs.jsonl       a line per input: its digest, size and source
    decisions.jsonl    a line per decision on an input, then a line per step
    summaries/         a record per summary made during the call
    texts/             optional: all texts, so that the bundle can be replayed offline
    envelope.json      only if signed: a DSSE envelope with the manifest and its signatures
    volatile.json      the time, host and environment; not covered by the id, but by its own digest

The manifest has the digests of all files except the last two. A file in ``summaries/`` or ``texts/`` is named
by the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.__about__ import __version__
from tokenbox.content.canonical import canonical
from tokenbox.proof.errors import ProofTooLarge
from tokenbox.records import to_record
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.proof.evidence import Evidence, Record, Text

SCHEMA = "tokenbox.proof/3"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:tokenbox:predicate:proof:3"

MANIFEST, INPUTS, DECISIONS, VOLATILE = "manifest.json", "inputs.jsonl", "decisions.jsonl", "volatile.json"
ENVELOPE = "envelope.json"
SUMMARIES, TEXTS = "summaries/", "texts/"
EMITTED = "emitted"

# The size limit of manifests, far above any that is written.
MAX_MANIFEST = 1 << 20
# The maximum number of lines per file with a checksum in volatile.json, which locates a damaged line.
MAX_LINE_SUMS = 10_000


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files of a bundle by name, in the order of writing, without ``volatile.json``."""

    id: str
    manifest: Record
    files: Mapping[str, bytes]

    def volatile(self, time: str, host: str, environment: Mapping[str, str]) -> bytes:
        """Return the bytes of ``volatile.json``, of a bundle made then and there. ``time``: RFC 3339, in UTC.

        ``digest`` is the SHA-256 of the file with an empty digest. A copy of the manifest and a checksum per
        line locate damage in the other files.
        """
        record = {
            "bundle": self.id,
            "digest": "",
            "environment": dict(environment),
            "host": host,
            "lines": {name: _line_sums(self.files[name]) for name in (INPUTS, DECISIONS)},
            "manifest": self.manifest,
            "time": time,
        }
        data = canonical(record)
        place = len(volatile_start(self.id))
        return data[:place] + hashlib.sha256(data).hexdigest().encode() + data[place:]


def build(evidence: Evidence, *, texts: bool = False) -> Bundle:
    """Return the bundle of ``evidence``. Equal evidence gives equal bytes and the same id.

    ``texts``: include the texts, which changes the id. Raises ``NotCanonical`` for records without canonical
    JSON, and :class:`ProofTooLarge`.
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
            f"the manifest of this proof would have {len(data):,} bytes, over the limit of "
            f"{MAX_MANIFEST:,}. Move long lists into the decisions.",
            bytes=len(data),
            limit=MAX_MANIFEST,
        )
    files = {MANIFEST: data, INPUTS: inputs, DECISIONS: decisions}
    files |= {f"{SUMMARIES}{name}.json": item for name, item in summaries.items()}
    files |= {f"{TEXTS}{name}": item for name, item in (kept or {}).items()}
    return Bundle(hashlib.sha256(data).hexdigest(), manifest, files)


def file_record(data: bytes) -> dict[str, object]:
    """Return the manifest's record of a file."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def tree_record(files: Mapping[str, bytes]) -> dict[str, object]:
    """Return the manifest's record of a folder whose files are named by their digests."""
    return {
        "files": len(files),
        "bytes": sum(map(len, files.values())),
        "sha256": tree_digest(files),
    }


def tree_digest(names: Iterable[str]) -> str:
    """Return the SHA-256 (hex) over the sorted names. As they are digests, it covers the files."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def volatile_start(bundle_id: str) -> bytes:
    """Return the beginning of ``volatile.json``, up to the value of its digest."""
    return f'{{"bundle":"{bundle_id}","digest":"'.encode()


def _statement(evidence: Evidence, files: Record) -> dict[str, object]:
    return {
        "_type": STATEMENT,
        "subject": [_subject(evidence, files)],
        "predicateType": PREDICATE,
        "predicate": to_record(
            evidence,
            "schema engine kind outcome function algorithm arguments budget tokenizer template model "
            "override parent digest figures files",
            schema=SCHEMA,
            engine={"name": "tokenbox", "version": __version__},
            files=dict(files),
        ),
    }


def _subject(evidence: Evidence, files: Record) -> dict[str, object]:
    """Return the subject of the statement: the emitted bytes, or the inputs of a refusal."""
    if evidence.emitted is None:
        record = files[INPUTS]
        assert isinstance(record, dict)  # noqa: S101  # from ``file_record``
        return {"name": INPUTS, "digest": {"sha256": record["sha256"]}}
    digest = hashlib.sha256()
    for piece in _pieces(evidence.emitted):
        digest.update(_bytes(piece))
    return {"name": EMITTED, "digest": {"sha256": digest.hexdigest()}}


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join([canonical(record) + b"\n" for record in records])


def _tree(items: Iterable[bytes]) -> dict[str, bytes]:
    """Return the items by their digests, in the order of the digests."""
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
    """Return the checksum that locates a damaged line. The digest of the file detects the damage."""
    return f"{zlib.crc32(line):08x}"


def _line_sums(data: bytes) -> str:
    lines = data.splitlines() if data.count(b"\n") <= MAX_LINE_SUMS else []
    return "".join(map(line_sum, lines))
