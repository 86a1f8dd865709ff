"""Signatures, made here and checked by tools that nobody here wrote: in-toto's own and cryptography."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto.exceptions import SignatureVerificationError
from in_toto.models.metadata import Envelope as InTotoEnvelope
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from tests.proof.examples import EXAMPLES, files_of, layout_evidence
from tokenbox.proof.bundle import ENVELOPE, MANIFEST
from tokenbox.proof.errors import KeyInvalid, SignatureInvalid
from tokenbox.proof.signing import (
    CHECKPOINT_TYPE,
    STATEMENT_TYPE,
    check_signatures,
    new_key,
    payload_of,
    public_key,
    read_envelope,
    signed,
    signer_of,
    signers_in,
)
from tokenbox.proof.verify import MemoryFiles, verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.proof.signing import PublicKey, SigningKey


def key() -> tuple[SigningKey, PublicKey, bytes]:
    private, public = new_key()
    return signer_of(private, "key"), public_key(public, "key.pub"), public


ANNA, BERT = key(), key()
ORDER = 2**252 + 27742317777372353535851937790883648493  # of Ed25519


def signed_files(*signers: SigningKey, name: str = "layout") -> tuple[str, dict[str, bytes]]:
    bundle_id, files = files_of(EXAMPLES[name]())
    return bundle_id, {**files, ENVELOPE: signed(files[MANIFEST], STATEMENT_TYPE, signers)}


def problem(
    bundle_id: str, files: dict[str, bytes], keys: list[PublicKey] | None, threshold: int = 1
) -> SignatureInvalid:
    with pytest.raises(SignatureInvalid) as caught:
        verify(MemoryFiles(files), bundle_id, keys, threshold)
    return caught.value


@pytest.mark.parametrize("name", EXAMPLES)
def test_in_totos_tools_verify_it(name: str) -> None:
    _, files = signed_files(ANNA[0], BERT[0], name=name)
    record = json.loads(files[ENVELOPE])
    envelope = InTotoEnvelope.from_dict(json.loads(files[ENVELOPE]))
    for _, public, _pem in (ANNA, BERT):
        envelope.verify_signature({"keyid": public.keyid, **public.to_dict()})
    stranger = key()[1]
    with pytest.raises(SignatureVerificationError):
        envelope.verify_signature({"keyid": stranger.keyid, **stranger.to_dict()})
    statement = Statement.copy_from_pb(
        json_format.Parse(base64.b64decode(record["payload"]), statement_pb2.Statement())
    )
    statement.validate()
    assert statement.pb.predicate_type == "urn:tokenbox:predicate:proof:3"


def test_the_signature_is_plain_ed25519_over_the_pre_authentication_encoding() -> None:
    _, files = signed_files(ANNA[0])
    record = json.loads(files[ENVELOPE])
    kind, payload = record["payloadType"].encode(), base64.b64decode(record["payload"])
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    public: Any = load_pem_public_key(ANNA[2])
    signature = base64.b64decode(record["signatures"][0]["sig"])
    public.verify(signature, encoded)
    with pytest.raises(InvalidSignature):
        public.verify(signature, encoded + b" ")
    assert payload == files[MANIFEST]


def test_the_same_bundle_has_the_same_envelope() -> None:
    assert signed_files(ANNA[0], BERT[0]) == signed_files(BERT[0], ANNA[0])
    manifest = signed_files()[1][MANIFEST]
    one = signed(manifest, STATEMENT_TYPE, [ANNA[0]])
    assert signed(manifest, STATEMENT_TYPE, [BERT[0]], one) == signed_files(ANNA[0], BERT[0])[1][ENVELOPE]
    assert signed(manifest, STATEMENT_TYPE, [ANNA[0]], one) == one
    # A signature of something else is worth nothing here, and is not kept.
    other = signed(b"{}", STATEMENT_TYPE, [BERT[0]])
    assert signed(manifest, STATEMENT_TYPE, [ANNA[0]], other) == one


def test_who_has_signed() -> None:
    bundle_id, files = signed_files(ANNA[0])
    assert verify(MemoryFiles(files), bundle_id).id == bundle_id
    assert verify(MemoryFiles(files), bundle_id, [ANNA[1]]).id == bundle_id
    # A rotation: verifiers take both keys.
    assert verify(MemoryFiles(files), bundle_id, [BERT[1], ANNA[1]]).id == bundle_id
    assert "is signed by" in problem(bundle_id, files, [BERT[1]]).message
    assert "2 are needed" in problem(bundle_id, files, [BERT[1], ANNA[1]], 2).message
    both = signed_files(ANNA[0], BERT[0])[1]
    assert verify(MemoryFiles(both), bundle_id, [BERT[1], ANNA[1]], 2).id == bundle_id
    # One key twice is one key.
    assert problem(bundle_id, files, [ANNA[1], ANNA[1]], 2).field == "signatures"
    assert problem(bundle_id, files_of(layout_evidence())[1], [ANNA[1]]).file == ENVELOPE


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5o"])
def test_what_was_changed_after_signing_is_named(model: str) -> None:
    evidence = replace(layout_evidence(), model="gpt-4o")
    envelope = signed(files_of(evidence)[1][MANIFEST], STATEMENT_TYPE, [ANNA[0]])
    # Re-hashed, with a volatile.json of its own: only the envelope is of before.
    forged_id, forged = files_of(replace(evidence, model=model))
    for keys in (None, [ANNA[1]]):
        with pytest.raises(SignatureInvalid) as caught:
            verify(MemoryFiles({**forged, ENVELOPE: envelope}), forged_id, keys)
        error = caught.value
        assert (error.file, error.field) == (MANIFEST, "predicate.model")
        assert (error.expected, error.found) == ("gpt-4o", model)


def test_another_key_under_the_same_id() -> None:
    bundle_id, files = signed_files(BERT[0])
    record = json.loads(files[ENVELOPE])
    record["signatures"][0]["keyid"] = ANNA[1].keyid
    changed = {**files, ENVELOPE: spelled(record)}
    assert problem(bundle_id, changed, [ANNA[1]]).field == f"signatures[{ANNA[1].keyid[:12]}]"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"payload":"!","payloadType":"x","signatures":[]}',
        b'{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[1]}',
        b'{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":{}}',
        b'{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"!"}]}',
        b'{"payload":"e30=","payloadType":"text/plain","signatures":[]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_envelope(data: bytes) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        check_signatures(read_envelope(data, STATEMENT_TYPE), [ANNA[1]])
    assert caught.value.file == ENVELOPE
    bundle_id, files = files_of(layout_evidence())
    assert problem(bundle_id, {**files, ENVELOPE: data}, [ANNA[1]]).code == "signature_invalid"


def spelled(record: object) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def forged(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def write(data: bytes) -> bytes:
        record = json.loads(data)
        change(record)
        return spelled(record)

    return write


STRANGER = {"keyid": "c0ffee", "sig": "AAAA"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (forged(lambda record: record.update(note="approved by the board")), "note"),
        (forged(lambda record: record["signatures"][0].update(by="CEO")), "signatures[0]"),
        (forged(lambda record: record["signatures"].clear()), "signatures"),
        (
            forged(lambda record: record["signatures"].append({**STRANGER, "sig": "AAAB="})),
            "signatures[1].sig",
        ),
        (forged(lambda record: record["signatures"].append({**STRANGER, "keyid": 5})), "signatures[1]"),
        (forged(lambda record: record.update(payload=record["payload"] + "\n")), None),
        (lambda data: data.replace(b'{"payload"', b'{"payload":"AAAA","payload"', 1), None),
        (lambda data: data.replace(b'{"payload"', b'{ "payload"', 1), None),
        (lambda data: data + b"\n", None),
        (lambda data: b" " + data, None),
    ],
)
def test_nothing_unsigned_is_put_into_an_envelope(
    change: Callable[[bytes], bytes], field: str | None
) -> None:
    """Neither the id of the bundle nor a signature covers it, so it must not be there."""
    bundle_id, files = signed_files(ANNA[0])
    verify(MemoryFiles(files), bundle_id, [ANNA[1]])
    for keys in (None, [ANNA[1]]):
        error = problem(bundle_id, {**files, ENVELOPE: change(files[ENVELOPE])}, keys)
        assert (error.code, error.file, error.field) == ("signature_invalid", ENVELOPE, field)


def test_other_bits_of_the_same_signature() -> None:
    """The last digit of base64 has bits to spare, and a group order more gives another number."""
    bundle_id, files = signed_files(ANNA[0])
    record = json.loads(files[ENVELOPE])
    sig = record["signatures"][0]["sig"]
    raw = base64.b64decode(sig)
    larger = int.from_bytes(raw[32:], "little") + ORDER
    for other in (
        f"{sig[:-3]}{chr(ord(sig[-3]) + 1)}{sig[-2:]}",
        base64.b64encode(raw[:32] + larger.to_bytes(32, "little")).decode(),
    ):
        record["signatures"][0]["sig"] = other
        assert problem(bundle_id, {**files, ENVELOPE: spelled(record)}, [ANNA[1]]).code == "signature_invalid"


def test_who_signed_is_told_apart_from_who_is_said_to_have_signed() -> None:
    bundle_id, files = signed_files(ANNA[0])
    record = json.loads(files[ENVELOPE])
    record["signatures"] = sorted([*record["signatures"], STRANGER], key=lambda one: str(one["keyid"]))
    files[ENVELOPE] = spelled(record)
    verify(MemoryFiles(files), bundle_id, [ANNA[1]])
    assert signers_in(MemoryFiles(files), [ANNA[1]]) == ([ANNA[1].keyid], ["c0ffee"])
    assert signers_in(MemoryFiles(files)) == ([], sorted([ANNA[1].keyid, "c0ffee"]))


def test_a_checkpoint_is_no_statement() -> None:
    with pytest.raises(SignatureInvalid, match="payload of type"):
        payload_of(signed(b"{}", CHECKPOINT_TYPE, [ANNA[0]]), STATEMENT_TYPE)


@pytest.mark.parametrize("pem", [b"", b"x", new_key()[1], b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_private_key(pem: bytes) -> None:
    with pytest.raises(KeyInvalid, match=r"^x\.key is not"):
        signer_of(pem, "x.key")


def test_what_is_no_public_key() -> None:
    with pytest.raises(KeyInvalid, match=r"ends in \.pub"):
        public_key(new_key()[0], "x.key")
