"""Signatures: a DSSE envelope with Ed25519 over the manifest of a bundle, which is an in-toto Statement.

Rule 1: the payload of a bundle's envelope is ``manifest.json``, byte for byte. If a changed bundle is hashed
again, the envelope still has the original statement, so that the changed field can be named.
Rule 2: an envelope may have several signatures. A verifier chooses the accepted keys and the threshold, which
is all that key rotation needs.

Keys are PEM: PKCS #8 for the private key, SubjectPublicKeyInfo for the public key. Key ids are those of
securesystemslib and in-toto.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.errors import needing
from tokenbox.proof.bundle import ENVELOPE
from tokenbox.proof.errors import KeyInvalid, SignatureInvalid

if TYPE_CHECKING:
    from typing import TypeAlias

    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]

    from tokenbox.proof.verify import BundleFiles

    SigningKey: TypeAlias = CryptoSigner
    PublicKey: TypeAlias = SSlibKey

STATEMENT_TYPE: Final = "application/vnd.in-toto+json"
CHECKPOINT_TYPE: Final = "application/vnd.tokenbox.log.checkpoint+json"
# The size limit of envelopes: a manifest in base64, and about 200 bytes per signature.
MAX_ENVELOPE: Final = 4 << 20


_ENVELOPE_KEYS = {"payload", "payloadType", "signatures"}
_SIGNATURE_KEYS = {"keyid", "sig"}


def new_key() -> tuple[bytes, bytes]:
    """Generate an Ed25519 key pair, and return the private and the public key as PEM."""
    signing = _signing()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return signing.CryptoSigner(key).private_bytes, public


def signer_of(pem: bytes, name: str) -> SigningKey:
    """Parse the private key in ``pem``. Raises :class:`KeyInvalid`."""
    signing = _signing()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise KeyInvalid.of(name, f"is not a private key in PEM: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyInvalid.of(name, "is not an Ed25519 key")
    return cast("SigningKey", signing.CryptoSigner(key))


def public_key(pem: bytes, name: str) -> PublicKey:
    """Parse the public key in ``pem``. Raises :class:`KeyInvalid`."""
    signing = _signing()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, TypeError) as error:
        if b"PRIVATE" in pem:
            raise KeyInvalid.of(name, "is a private key. Use the file that ends in .pub") from None
        raise KeyInvalid.of(name, f"is not a public key in PEM: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyInvalid.of(name, "is not an Ed25519 key")
    return cast("PublicKey", signing.SSlibKey.from_crypto(key))


def signed(payload: bytes, kind: str, signers: Sequence[SigningKey], before: bytes | None = None) -> bytes:
    """Return the envelope of ``payload``, with the signatures in ``before`` and one of each signer."""
    from securesystemslib.dsse import Envelope  # only with signatures

    envelope = Envelope(payload, kind, {})
    if before is not None:
        earlier = read_envelope(before, kind)
        if earlier.payload == payload:
            envelope = earlier
    for signer in signers:
        envelope.sign(signer)
    record = envelope.to_dict()
    record["signatures"] = sorted(record["signatures"], key=lambda signature: signature["keyid"])
    return _encoded(record) + b"\n"


def _encoded(record: object) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def payload_of(data: bytes, kind: str, file: str = ENVELOPE) -> bytes:
    """Return the payload of an envelope, without verifying signatures. Raises :class:`SignatureInvalid`."""
    try:
        record: Any = json.loads(data)
        found, payload = record["payloadType"], base64.b64decode(record["payload"], validate=True)
        if not isinstance(record["signatures"], list):
            raise TypeError("signatures")  # noqa: TRY301  # converted below
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SignatureInvalid(f"is not a DSSE envelope: {error!r:.200}.", file=file) from None
    if found != kind:
        message = f"signs a payload of type {found!r:.100}, not {kind!r}."
        raise SignatureInvalid(message, file=file, field="payloadType")
    _check_encoding(data, record, file)
    return payload


def _check_encoding(data: bytes, record: dict[str, Any], file: str) -> None:
    """Check that an envelope is encoded as tokenbox writes it, so that nothing unsigned can be added.

    No id and no signature covers other content of an envelope.
    """
    for key in record.keys() - _ENVELOPE_KEYS:
        raise SignatureInvalid("is an unknown key of an envelope.", file=file, field=key[:100])
    if not record["signatures"]:
        raise SignatureInvalid("has no signature.", file=file, field="signatures")
    for number, signature in enumerate(record["signatures"]):
        plain = isinstance(signature, dict) and signature.keys() == _SIGNATURE_KEYS
        if not (plain and all(isinstance(value, str) for value in signature.values())):
            message = "must be a signature with exactly a keyid and a sig."
            raise SignatureInvalid(message, file=file, field=f"signatures[{number}]")
    texts = [("payload", record["payload"])]
    texts += [(f"signatures[{i}].sig", signature["sig"]) for i, signature in enumerate(record["signatures"])]
    for field, text in texts:
        if not _is_base64(text):
            raise SignatureInvalid("is not valid base64.", file=file, field=field)
    if data.removesuffix(b"\n") != _encoded(record):
        raise SignatureInvalid(
            "is not encoded as tokenbox writes an envelope. Remove it, and sign again: tokenbox proof sign.",
            file=file,
        )


def _is_base64(text: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False


def signers_in(files: BundleFiles, keys: Sequence[PublicKey] = ()) -> tuple[list[str], list[str]]:
    """Return the ids of the keys that signed a bundle: those of ``keys``, and those not verified.

    Raises :class:`SignatureInvalid` for an invalid signature of ``keys``.
    """
    if ENVELOPE not in files.names():
        return [], []
    envelope = read_envelope(files.read(ENVELOPE, MAX_ENVELOPE), STATEMENT_TYPE)
    checked = check_signatures(envelope, keys, threshold=0)
    return checked, sorted(envelope.signatures.keys() - set(checked))


def read_envelope(data: bytes, kind: str, file: str = ENVELOPE) -> Envelope:
    """Parse the envelope in ``data``. Raises :class:`SignatureInvalid`."""
    payload_of(data, kind, file)
    _signing()
    from securesystemslib.dsse import Envelope

    try:
        return Envelope.from_dict(json.loads(data))
    except ValueError as error:  # two signatures of one key
        raise SignatureInvalid(f"is not a DSSE envelope: {error!r:.200}.", file=file) from None


def check_signatures(
    envelope: Envelope, keys: Sequence[PublicKey], threshold: int = 1, file: str = ENVELOPE
) -> list[str]:
    """Return the ids of the keys that signed. Raises :class:`SignatureInvalid` if under ``threshold``."""
    from securesystemslib.exceptions import UnverifiedSignatureError

    pae, verified = envelope.pae(), []
    for key in keys:
        signature = envelope.signatures.get(key.keyid)
        if signature is None:
            continue
        try:
            key.verify_signature(signature, pae)
        except UnverifiedSignatureError:
            raise SignatureInvalid(
                f"has an invalid signature of the key {key.keyid[:12]}: the payload or the signature was "
                "changed after signing.",
                file=file,
                field=f"signatures[{key.keyid[:12]}]",
            ) from None
        verified.append(key.keyid)
    if len(set(verified)) < threshold:
        others = ", ".join(sorted(name[:12] for name in envelope.signatures)) or "nobody"
        wanted = ", ".join(key.keyid[:12] for key in keys)
        raise SignatureInvalid(
            f"has {len(set(verified))} signatures of the given keys ({wanted}), and {threshold} are needed. "
            f"It is signed by {others}.",
            file=file,
            field="signatures",
        )
    return verified


def _signing() -> Any:  # noqa: ANN401  # a module
    with needing("signing", "sign"):
        import cryptography  # noqa: F401  # securesystemslib imports it only later
        from securesystemslib import signer
    return signer
