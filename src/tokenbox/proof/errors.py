"""The errors of proofs.

    TokenboxError
    └── ProofError             proof_error
        ├── ProofTooLarge      proof_too_large        a bundle would exceed the size limit
        ├── BundleInvalid      bundle_invalid         a bundle does not match its id
        ├── SignatureInvalid   signature_invalid      a signature is missing or invalid
        ├── SinkInvalid        sink_invalid           ``proof=`` is no function
        ├── KeyInvalid         key_invalid            a key cannot be read, or others may read it
        ├── LogInvalid         log_invalid            the log of a store was cut, reordered or forked
        ├── ReplayImpossible   replay_impossible      a text or the tokenizer is missing
        ├── BundleNotFound     bundle_not_found       no bundle has the id, or the prefix is ambiguous
        └── ProofNotWritten    proof_not_written      the disk is full, or the folder is read-only ...

The last two are in ``tokenbox.store.bundles``.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError, shown


class ProofError(TokenboxError, code="proof_error"):
    """The base class of proof errors."""


class ProofTooLarge(ProofError, code="proof_too_large"):
    """A bundle would exceed the size that is read."""


class BundleInvalid(ProofError, code="bundle_invalid"):
    """A bundle is damaged or invalid.

    ``file`` and ``field``: the first place that differs; ``expected`` and ``found``: the values, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        field: str | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        place = file if field is None else f"{file}: {field}"
        super().__init__(f"{place} {message}", file=file, field=field, expected=expected, found=found)
        self.file, self.field, self.expected, self.found = file, field, expected, found


class SignatureInvalid(BundleInvalid, code="signature_invalid"):
    """A bundle or a checkpoint has no valid signature of the given keys."""


class LogInvalid(BundleInvalid, code="log_invalid"):
    """The log of a store does not match its signed checkpoints or its bundles."""


class SinkInvalid(ProofError, code="sink_invalid"):
    """The value of ``proof=`` is neither a function nor None."""

    @classmethod
    def check(cls, proof: object) -> None:
        """Raise unless evidence can be passed to ``proof``: before the work, whose result would be lost."""
        if proof is not None and not callable(proof):
            raise cls(
                f"proof is a function, not {shown(proof)}. To write bundles to a folder, give "
                'Bundles("FOLDER") of tokenbox.store.bundles.'
            )


class KeyInvalid(ProofError, code="key_invalid"):
    """A key cannot be read, has another type, or is readable by other users."""

    @classmethod
    def of(cls, name: str, what: str) -> KeyInvalid:
        return cls(f"{name} {what}.", file=name)


class ReplayImpossible(ProofError, code="replay_impossible"):
    """A bundle cannot be replayed because a text or the tokenizer is missing."""
