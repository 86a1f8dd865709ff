"""The errors of the pack codec (lcp-wire section 7, and our own limits).

    LcpError                        lcp_error
    ├── WireError                   lcp_wire                    the bytes are not a pack
    │   ├── UnexpectedEof           lcp_unexpected_eof          truncated, or a reference is not 32 bytes
    │   ├── VarintTooLong           lcp_varint_too_long
    │   ├── InvalidMagic            lcp_invalid_magic
    │   ├── UnsupportedVersion      lcp_unsupported_version
    │   ├── ReservedNonZero         lcp_reserved_non_zero
    │   └── InvalidBlockType        lcp_invalid_block_type
    ├── FieldError                  lcp_field                   a body is not valid for its type
    │   ├── MissingRequiredField    lcp_missing_required_field
    │   ├── UnknownFieldWireType    lcp_unknown_field_wire_type
    │   └── InvalidEnumValue        lcp_invalid_enum_value
    ├── DecodeError                 lcp_decode                  valid frames, but the pack is not
    │   ├── InvalidHeader           lcp_invalid_header          wraps the wire error
    │   ├── MissingEndSentinel      lcp_missing_end_sentinel
    │   ├── TrailingData            lcp_trailing_data
    │   ├── DecompressFailed        lcp_decompress_failed
    │   ├── UnresolvedReference     lcp_unresolved_reference
    │   └── DigestMismatch          lcp_digest_mismatch         ours: the store returned another body
    ├── LimitError                  lcp_limit                   a limit of the decoder, see Limits
    │   ├── DecompressionBomb       lcp_decompression_bomb
    │   ├── FrameTooLarge           lcp_frame_too_large         ours
    │   ├── TreeTooDeep             lcp_tree_too_deep           ours; when writing too
    │   └── TooManyElements         lcp_too_many_elements       ours
    ├── EncodeError                 lcp_encode
    │   ├── EmptyPayload            lcp_empty_payload
    │   ├── BlockTooLarge           lcp_block_too_large
    │   ├── NoBlockTarget           lcp_no_block_target
    │   └── UnencodableValue        lcp_unencodable_value       ours: a value cannot be encoded
    └── MissingContentStore         lcp_missing_content_store   reading or writing references without a store

``offset``: the position in bytes from the start of the pack; ``block``: the index of the block, from 0. In a
pack compressed as a whole, offsets count the header and the expanded bytes after it. In a body that was
compressed or a reference, they count from the start of that body, and ``expanded_body`` is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from typing import Self


class LcpError(TokenboxError, code="lcp_error"):
    """A pack cannot be read or written. ``offset`` and ``block`` are its place; None if it has none."""

    # The message of a class, with its figures, which are attributes and details; bytes in hexadecimal.
    says: ClassVar[str] = ""

    def __init__(self, message: str | None = None, *, offset: int | None = None, **figures: Any) -> None:
        self.offset = offset
        self.block: int | None = None
        self.expanded_body = False
        vars(self).update(figures)
        self._figures = {n: v.hex() if isinstance(v, bytes) else v for n, v in figures.items()}
        self._problem = self.says.format(**self._figures) if message is None else message
        super().__init__(self._problem)
        self._update()

    def located(self, block: int, base: int | None) -> Self:
        """Set the block, and the start of its body in the pack (None: the body was expanded). Return self."""
        self.block = block
        if base is None:
            self.expanded_body = True
        else:
            self.offset = base + (self.offset or 0)
        self._update()
        return self

    def _update(self) -> None:
        place = [] if self.block is None else [f"block {self.block}"]
        if self.offset is not None:
            place.append(f"byte {self.offset:,}" + (" of its expanded body" if self.expanded_body else ""))
        self.message = f"{', '.join(place)}: {self._problem}" if place else self._problem
        self.args = (self.message,)
        self.details = {
            **self._figures,
            "offset": self.offset,
            "block": self.block,
            "expanded_body": self.expanded_body,
        }


class WireError(LcpError, code="lcp_wire"):
    """The bytes are not a pack."""


class UnexpectedEof(WireError, code="lcp_unexpected_eof"):
    """The bytes end too early, at ``offset``."""

    def __init__(self, offset: int, missing: str) -> None:
        super().__init__(f"the bytes end in {missing}. The pack is cut off or damaged.", offset=offset)


class VarintTooLong(WireError, code="lcp_varint_too_long"):
    """A varint has more than 10 bytes."""

    says = "a number has more than 10 bytes. The pack is damaged."


class InvalidMagic(WireError, code="lcp_invalid_magic"):
    """The first four bytes are not those of a pack. ``found``: these bytes as a little-endian number."""

    def __init__(self, found: bytes) -> None:
        self.found = int.from_bytes(found, "little")
        super().__init__(
            f"starts with {found!r}, not with b'BCP\\x00' (or the older b'LCP\\x00'). This is not a pack. "
            "Write one: tokenbox pack . --format bcp -o context.bcp",
            offset=0,
            found=self.found,
        )


class UnsupportedVersion(WireError, code="lcp_unsupported_version"):
    """The major version is not 1."""

    says = "the pack has version {major}.{minor}; only 1.x can be read. Write it again as 1.0."
    major: int
    minor: int


class ReservedNonZero(WireError, code="lcp_reserved_non_zero"):
    """A reserved byte is not 0."""

    says = "the reserved byte is {value}, not 0."
    value: int


class InvalidBlockType(WireError, code="lcp_invalid_block_type"):
    """A block type is above 255."""

    says = "block type {raw:,} is above 255. The pack is damaged."
    raw: int


class FieldError(LcpError, code="lcp_field"):
    """The body of a block is not valid for its type."""


class MissingRequiredField(FieldError, code="lcp_missing_required_field"):
    """A required field is missing. ``offset``: the end of the body or nested part."""

    says = "the required field {name!r} is missing."
    name: str


class UnknownFieldWireType(FieldError, code="lcp_unknown_field_wire_type"):
    """A field is neither a number, bytes nor nested, so its end is unknown."""

    says = "wire type {value:,} is not 0, 1 or 2."
    value: int


class InvalidEnumValue(FieldError, code="lcp_invalid_enum_value"):
    """A number is not a value of its enumeration."""

    says = "{enum} has no value {value:,}."
    enum: str
    value: int


class DecodeError(LcpError, code="lcp_decode"):
    """The frames are valid, but the pack is not."""


class InvalidHeader(DecodeError, code="lcp_invalid_header"):
    """The header is invalid. ``cause``: the wire error."""

    def __init__(self, cause: WireError) -> None:
        super().__init__(f"header: {cause._problem}", offset=cause.offset, cause=cause.code)  # noqa: SLF001  # same module
        self.cause = cause


class MissingEndSentinel(DecodeError, code="lcp_missing_end_sentinel"):
    """The bytes end after a block, without END."""

    says = "the pack ends without its END mark: it is probably truncated."


class TrailingData(DecodeError, code="lcp_trailing_data"):
    """There are bytes after END. ``extra``: their number."""

    says = "{extra:,} bytes follow the END mark. Remove them to read the pack."
    extra: int


class DecompressFailed(DecodeError, code="lcp_decompress_failed"):
    """The zstd data is damaged, empty or truncated."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the zstd data cannot be expanded: {why}.")


class UnresolvedReference(DecodeError, code="lcp_unresolved_reference"):
    """The content store does not contain the digest."""

    says = (
        "the content store has no content with the digest {digest}. Use the store the pack was written with."
    )
    digest: bytes


class DigestMismatch(DecodeError, code="lcp_digest_mismatch"):
    """The content store returned a body with another digest."""

    says = (
        "for the digest {digest} the content store returned content with the digest {found}. "
        "The store is damaged."
    )
    digest: bytes
    found: bytes


class LimitError(LcpError, code="lcp_limit"):
    """The pack exceeds a limit of the decoder; see ``Limits``."""


class DecompressionBomb(LimitError, code="lcp_decompression_bomb"):
    """The data expands to more than ``limit`` bytes. ``actual``: the bytes when decoding stopped."""

    says = "expands to {actual:,} bytes or more, the limit is {limit:,}."
    actual: int
    limit: int


class FrameTooLarge(LimitError, code="lcp_frame_too_large"):
    """A block announces more than ``limit`` bytes."""

    says = "a block announces {size:,} bytes, the limit is {limit:,}. For a trusted pack, raise Limits.frame."
    size: int
    limit: int


class TreeTooDeep(LimitError, code="lcp_tree_too_deep"):
    """Folders are nested deeper than ``limit``."""

    says = "a file tree is nested deeper than {limit} levels."
    limit: int


class TooManyElements(LimitError, code="lcp_too_many_elements"):
    """The pack has more than ``limit`` blocks, tree entries and hunks in all."""

    says = (
        "the pack has more than {limit:,} blocks, tree entries and hunks. "
        "For a trusted pack, raise Limits.elements."
    )
    limit: int


class EncodeError(LcpError, code="lcp_encode"):
    """A pack cannot be written."""


class EmptyPayload(EncodeError, code="lcp_empty_payload"):
    """There are no blocks to write."""

    says = "there is no block to write. Add one first."


class BlockTooLarge(EncodeError, code="lcp_block_too_large"):
    """A body exceeds 16 MiB."""

    says = "the body has {size:,} bytes, the limit is {limit:,}. Split the content into several blocks."
    size: int
    limit: int


class NoBlockTarget(EncodeError, code="lcp_no_block_target"):
    """A ``with_...`` method was called before a block was added."""

    says = "{method}() applies to the block added last. Add a block first."
    method: str


class UnencodableValue(EncodeError, code="lcp_unencodable_value"):
    """A field has a value that cannot be encoded."""

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        super().__init__(f"{field} {why}.", field=field)


class MissingContentStore(LcpError, code="lcp_missing_content_store"):
    """A reference cannot be read or written without a content store."""

    def __init__(self, doing: str) -> None:
        super().__init__(f"{doing} needs a content store. Pass one as store=.")
