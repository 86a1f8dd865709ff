"""What can be wrong with proof.

    TokenboxError
    └── ProofError             proof_error
        ├── ProofTooLarge      proof_too_large        what was decided does not go into a bundle
        ├── BundleInvalid      bundle_invalid         a bundle is not what its id says
        ├── SignatureInvalid   signature_invalid      a signature is missing, or does not fit
        ├── KeyInvalid         key_invalid            a key cannot be read, or others may read it
        ├── LogInvalid         log_invalid            the log of a store was cut, reordered or forked
        ├── ReplayImpossible   replay_impossible      a text or the tokenizer is missing
        ├── BundleNotFound     bundle_not_found       no bundle has that id, or several begin so
        └── ProofNotWritten    proof_not_written      the disk is full, the folder may not be changed ...

The last two are raised where bundles are kept, in ``tokenbox.store.bundles``.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class ProofError(TokenboxError):
    """Something is wrong with a proof."""

    code = "proof_error"


class ProofTooLarge(ProofError):
    """A bundle would have a file that nobody reads."""

    code = "proof_too_large"


class BundleInvalid(ProofError):
    """A bundle is damaged, or is none.

    ``file`` and ``field`` are the first place that differs; ``expected`` and ``found`` say how, where known.
    """

    code = "bundle_invalid"

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


class SignatureInvalid(BundleInvalid):
    """A bundle or a checkpoint has no signature of the keys that were given, or one that does not fit."""

    code = "signature_invalid"


class LogInvalid(BundleInvalid):
    """The log of a store is not the one that its checkpoints signed, or not that of its bundles."""

    code = "log_invalid"


class KeyInvalid(ProofError):
    """A key cannot be read, is of another kind, or is readable for others."""

    code = "key_invalid"

    @classmethod
    def of(cls, name: str, what: str) -> KeyInvalid:
        return cls(f"{name} {what}.", file=name)


class ReplayImpossible(ProofError):
    """A bundle cannot be replayed here: a text is missing, or the tokenizer."""

    code = "replay_impossible"
