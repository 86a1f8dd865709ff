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

from tokenbox.errors import TokenboxError


class LcpError(TokenboxError):
    """A pack cannot be read or written. ``offset`` and ``block`` are None if they do not apply."""

    code = "lcp_error"

    def __init__(self, message: str, *, offset: int | None = None, **details: object) -> None:
        self.offset = offset
        self.block: int | None = None
        self.expanded_body = False
        self._problem = message
        self._given_details = details
        super().__init__(message)
        self._update()

    def located(self, block: int, base: int | None) -> None:
        """Set the block, and the start of its body in the pack (None: the body was expanded)."""
        self.block = block
        if base is None:
            self.expanded_body = True
        else:
            self.offset = base + (self.offset or 0)
        self._update()

    def _update(self) -> None:
        place = [] if self.block is None else [f"block {self.block}"]
        if self.offset is not None:
            place.append(f"byte {self.offset:,}" + (" of its expanded body" if self.expanded_body else ""))
        self.message = f"{', '.join(place)}: {self._problem}" if place else self._problem
        self.args = (self.message,)
        self.details = {
            **self._given_details,
            "offset": self.offset,
            "block": self.block,
            "expanded_body": self.expanded_body,
        }


class WireError(LcpError):
    """The bytes are not a pack."""

    code = "lcp_wire"


class UnexpectedEof(WireError):
    """The bytes end too early, at ``offset``."""

    code = "lcp_unexpected_eof"

    def __init__(self, offset: int, missing: str) -> None:
        super().__init__(f"the bytes end in {missing}. The pack is cut off or damaged.", offset=offset)


class VarintTooLong(WireError):
    """A varint has more than 10 bytes."""

    code = "lcp_varint_too_long"

    def __init__(self, offset: int) -> None:
        super().__init__("a number has more than 10 bytes. The pack is damaged.", offset=offset)


class InvalidMagic(WireError):
    """The first four bytes are not those of a pack. ``found``: these bytes as a little-endian number."""

    code = "lcp_invalid_magic"

    def __init__(self, found: bytes) -> None:
        self.found = int.from_bytes(found, "little")
        super().__init__(
            f"starts with {found!r}, not with b'BCP\\x00' (or the older b'LCP\\x00'). This is not a pack.",
            offset=0,
            found=self.found,
        )


class UnsupportedVersion(WireError):
    """The major version is not 1."""

    code = "lcp_unsupported_version"

    def __init__(self, major: int, minor: int) -> None:
        self.major, self.minor = major, minor
        super().__init__(
            f"the pack has version {major}.{minor}; only 1.x can be read. Write it again as 1.0.",
            offset=4,
            major=major,
            minor=minor,
        )


class ReservedNonZero(WireError):
    """A reserved byte is not 0."""

    code = "lcp_reserved_non_zero"

    def __init__(self, offset: int, value: int) -> None:
        self.value = value
        super().__init__(f"the reserved byte is {value}, not 0.", offset=offset, value=value)


class InvalidBlockType(WireError):
    """A block type is above 255."""

    code = "lcp_invalid_block_type"

    def __init__(self, offset: int, raw: int) -> None:
        self.raw = raw
        super().__init__(f"block type {raw:,} is above 255. The pack is damaged.", offset=offset, raw=raw)


class FieldError(LcpError):
    """The body of a block is not valid for its type."""

    code = "lcp_field"


class MissingRequiredField(FieldError):
    """A required field is missing. ``offset``: the end of the body or nested part."""

    code = "lcp_missing_required_field"

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        super().__init__(f"the required field {name!r} is missing.", offset=offset, name=name)


class UnknownFieldWireType(FieldError):
    """A field is neither a number, bytes nor nested, so its end is unknown."""

    code = "lcp_unknown_field_wire_type"

    def __init__(self, value: int, offset: int) -> None:
        self.value = value
        super().__init__(f"wire type {value:,} is not 0, 1 or 2.", offset=offset, value=value)


class InvalidEnumValue(FieldError):
    """A number is not a value of its enumeration."""

    code = "lcp_invalid_enum_value"

    def __init__(self, enum: str, value: int, offset: int) -> None:
        self.enum, self.value = enum, value
        super().__init__(f"{enum} has no value {value:,}.", offset=offset, enum=enum, value=value)


class DecodeError(LcpError):
    """The frames are valid, but the pack is not."""

    code = "lcp_decode"


class InvalidHeader(DecodeError):
    """The header is invalid. ``cause``: the wire error."""

    code = "lcp_invalid_header"

    def __init__(self, cause: WireError) -> None:
        self.cause = cause
        super().__init__(f"header: {cause._problem}", offset=cause.offset, cause=cause.code)  # noqa: SLF001  # same module


class MissingEndSentinel(DecodeError):
    """The bytes end after a block, without END."""

    code = "lcp_missing_end_sentinel"

    def __init__(self, offset: int) -> None:
        super().__init__("the pack ends without its END mark: it is probably truncated.", offset=offset)


class TrailingData(DecodeError):
    """There are bytes after END. ``extra``: their number."""

    code = "lcp_trailing_data"

    def __init__(self, extra: int, offset: int) -> None:
        self.extra = extra
        super().__init__(
            f"{extra:,} bytes follow the END mark. Remove them to read the pack.", offset=offset, extra=extra
        )


class DecompressFailed(DecodeError):
    """The zstd data is damaged, empty or truncated."""

    code = "lcp_decompress_failed"

    def __init__(self, why: str) -> None:
        super().__init__(f"the zstd data cannot be expanded: {why}.")


class UnresolvedReference(DecodeError):
    """The content store does not contain the digest."""

    code = "lcp_unresolved_reference"

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        super().__init__(
            f"the content store has nothing for the digest {digest.hex()}. "
            "Use the store that the pack was written with.",
            digest=digest.hex(),
        )


class DigestMismatch(DecodeError):
    """The content store returned a body with another digest."""

    code = "lcp_digest_mismatch"

    def __init__(self, digest: bytes, found: bytes) -> None:
        self.digest, self.found = digest, found
        super().__init__(
            f"for the digest {digest.hex()} the content store returned content with the digest "
            f"{found.hex()}. The store is damaged.",
            digest=digest.hex(),
            found=found.hex(),
        )


class LimitError(LcpError):
    """The pack exceeds a limit of the decoder; see ``Limits``."""

    code = "lcp_limit"


class DecompressionBomb(LimitError):
    """The data expands to more than ``limit`` bytes. ``actual``: the bytes when decoding stopped."""

    code = "lcp_decompression_bomb"

    def __init__(self, actual: int, limit: int) -> None:
        self.actual, self.limit = actual, limit
        super().__init__(
            f"expands to {actual:,} bytes or more, the limit is {limit:,}.",
            actual=actual,
            limit=limit,
        )


class FrameTooLarge(LimitError):
    """A block announces more than ``limit`` bytes."""

    code = "lcp_frame_too_large"

    def __init__(self, size: int, limit: int, offset: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"a block announces {size:,} bytes, the limit is {limit:,}. "
            "For a trusted pack, raise Limits.frame.",
            offset=offset,
            size=size,
            limit=limit,
        )


class TreeTooDeep(LimitError):
    """Folders are nested deeper than ``limit``."""

    code = "lcp_tree_too_deep"

    def __init__(self, limit: int, offset: int | None = None) -> None:
        self.limit = limit
        super().__init__(f"a file tree is nested deeper than {limit} levels.", offset=offset, limit=limit)


class TooManyElements(LimitError):
    """The pack has more than ``limit`` blocks, tree entries and hunks in all."""

    code = "lcp_too_many_elements"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"the pack has more than {limit:,} blocks, tree entries and hunks. "
            "For a trusted pack, raise Limits.elements.",
            limit=limit,
        )


class EncodeError(LcpError):
    """A pack cannot be written."""

    code = "lcp_encode"


class EmptyPayload(EncodeError):
    """There are no blocks to write."""

    code = "lcp_empty_payload"

    def __init__(self) -> None:
        super().__init__("there is no block to write. Add one first.")


class BlockTooLarge(EncodeError):
    """A body exceeds 16 MiB."""

    code = "lcp_block_too_large"

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"the body has {size:,} bytes, the limit is {limit:,}. Split the content into several blocks.",
            size=size,
            limit=limit,
        )


class NoBlockTarget(EncodeError):
    """A ``with_...`` method was called before a block was added."""

    code = "lcp_no_block_target"

    def __init__(self, method: str) -> None:
        self.method = method
        super().__init__(f"{method}() applies to the block added last. Add a block first.", method=method)


class UnencodableValue(EncodeError):
    """A field has a value that cannot be encoded."""

    code = "lcp_unencodable_value"

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        super().__init__(f"{field} {why}.", field=field)


class MissingContentStore(LcpError):
    """A reference cannot be read or written without a content store."""

    code = "lcp_missing_content_store"

    def __init__(self, doing: str) -> None:
        super().__init__(f"{doing} needs a content store. Pass one as store=.")
