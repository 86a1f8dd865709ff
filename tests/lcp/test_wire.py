"""The facts of lcp-wire sections 1 to 4, one test each, on packs written by hand."""

from __future__ import annotations

import pytest

from tests.lcp.wire import CODE, END, HEADER, frame, nested, number, pack, run, varint
from tokenbox.content.block_kinds import EntryKind, Lang, TurnRole
from tokenbox.content.blocks import (
    Block,
    CodeBlock,
    ConversationBlock,
    DiffBlock,
    FileTreeBlock,
    Hunk,
    LineRange,
    TreeEntry,
    UnknownBlock,
)
from tokenbox.lcp import LcpError, decode
from tokenbox.lcp.errors import (
    InvalidBlockType,
    InvalidEnumValue,
    InvalidHeader,
    InvalidMagic,
    MissingEndSentinel,
    MissingRequiredField,
    ReservedNonZero,
    TrailingData,
    UnexpectedEof,
    UnknownFieldWireType,
    UnsupportedVersion,
    VarintTooLong,
)
from tokenbox.lcp.frames import read_varint, write_varint


def only_block(*frames: bytes) -> Block:
    (block,) = decode(pack(*frames)).blocks
    return block


def failure(data: bytes) -> LcpError:
    with pytest.raises(LcpError) as caught:
        decode(data)
    return caught.value


def body_failure(type_id: int, body: bytes) -> LcpError:
    return failure(pack(frame(type_id, body)))


# 1.1 Varint


@pytest.mark.parametrize(
    ("value", "form"),
    [(0, "00"), (127, "7F"), (128, "80 01"), (300, "AC 02"), (16_383, "FF 7F"), (16_384, "80 80 01")],
)
def test_varint_samples(value: int, form: str) -> None:
    data = bytes.fromhex(form)
    assert write_varint(value) == data
    assert read_varint(data, 0, len(data)) == (value, len(data))


def test_varint_of_the_largest_number_has_ten_bytes() -> None:
    data = write_varint(2**64 - 1)
    assert len(data) == 10
    assert read_varint(data, 0, 10) == (2**64 - 1, 10)


def test_varint_padded_form_is_accepted() -> None:
    assert read_varint(b"\x81\x00", 0, 2) == (1, 2)


def test_varint_tenth_byte_keeps_its_lowest_bit_only() -> None:
    assert read_varint(b"\x80" * 9 + b"\x7f", 0, 10) == (2**63, 10)


def test_varint_with_an_eleventh_byte_is_too_long() -> None:
    with pytest.raises(VarintTooLong):
        read_varint(b"\x80" * 10 + b"\x00", 0, 11)


@pytest.mark.parametrize("length", [0, 1, 9, 10])
def test_varint_cut_off_is_unexpected_eof_at_the_bytes_available(length: int) -> None:
    with pytest.raises(UnexpectedEof) as caught:
        read_varint(b"\x80" * length, 0, length)
    assert caught.value.offset == length


# 1.2 Header


@pytest.mark.parametrize("length", range(8))
def test_header_cut_off(length: int) -> None:
    error = failure(b"XXXXXXXX"[:length])
    assert isinstance(error, InvalidHeader)
    assert isinstance(error.cause, UnexpectedEof)
    assert error.cause.offset == length


def test_header_checks_magic_before_major_before_reserved() -> None:
    def cause(data: bytes) -> Exception:
        error = failure(data)
        assert isinstance(error, InvalidHeader)
        return error.cause

    magic = cause(b"XCP\0\x02\0\0\x09")
    assert isinstance(magic, InvalidMagic)
    assert magic.found == int.from_bytes(b"XCP\0", "little")
    version = cause(b"BCP\0\x02\x03\0\x09")
    assert isinstance(version, UnsupportedVersion)
    assert (version.major, version.minor) == (2, 3)
    older = cause(b"BCP\0\0\x03\0\x09")
    assert isinstance(older, UnsupportedVersion)
    assert (older.major, older.minor) == (0, 3)
    reserved = cause(b"BCP\0\x01\0\0\x09")
    assert isinstance(reserved, ReservedNonZero)
    assert (reserved.offset, reserved.value) == (7, 9)


def test_header_with_the_older_magic_is_read() -> None:
    assert decode(b"LCP\0" + HEADER[4:] + END).header.magic == b"LCP\0"


def test_header_accepts_any_minor_version_and_reserved_flags() -> None:
    header = decode(b"BCP\0\x01\x63\xfe\0" + END).header
    assert (header.minor, header.flags, header.compressed) == (0x63, 0xFE, False)


# 1.3 to 1.5 Frames, types, END


def test_header_and_end_alone_are_an_empty_list() -> None:
    assert decode(HEADER + END).blocks == ()


@pytest.mark.parametrize("type_id", [0x00, 0x0B, 0x42, 0xFD])
def test_unknown_types_keep_their_raw_body(type_id: int) -> None:
    assert only_block(frame(type_id, b"hello")) == UnknownBlock(type_id, b"hello")


def test_an_unknown_block_loses_its_summary_before_its_body_is_kept() -> None:
    assert only_block(frame(0x42, b"\x02hihello", 1)) == UnknownBlock(0x42, b"hello", summary="hi")


@pytest.mark.parametrize("raw", [256, 511, 2**63])
def test_a_type_above_255_is_invalid(raw: int) -> None:
    error = failure(HEADER + frame(raw, b""))
    assert isinstance(error, InvalidBlockType)
    assert (error.raw, error.offset) == (raw, 8)


def test_reserved_block_flags_are_accepted() -> None:
    pack_read = decode(pack(frame(1, CODE, 0xF8)))
    assert pack_read.frames[0].flags == 0xF8


@pytest.mark.parametrize("end", [varint(255, padding=1), varint(255, padding=8)])
def test_end_is_recognised_in_padded_forms(end: bytes) -> None:
    assert decode(HEADER + end + b"\0\0").blocks == ()


def test_flags_and_length_of_end_are_ignored_and_its_body_is_trailing_data() -> None:
    error = failure(HEADER + b"\xff\x01\x77\x05hello")
    assert isinstance(error, TrailingData)
    assert error.extra == 5


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_end_cut_off_is_unexpected_eof(cut: int) -> None:
    error = failure(HEADER + END[:cut])
    assert isinstance(error, UnexpectedEof)
    assert error.offset == 8 + cut


def test_missing_end() -> None:
    error = failure(HEADER + frame(1, CODE))
    assert isinstance(error, MissingEndSentinel)
    assert error.offset == 8 + 3 + len(CODE)


@pytest.mark.parametrize("cut", [1, 4, 10])
def test_frame_cut_off_is_unexpected_eof(cut: int) -> None:
    assert isinstance(failure((HEADER + frame(1, CODE))[:-cut]), UnexpectedEof)


# 1.6 Fields


def test_fields_in_any_order() -> None:
    assert only_block(frame(1, run(3, b"fn") + run(2, b"a.rs") + number(1, 1))) == CodeBlock(
        Lang.RUST, "a.rs", b"fn"
    )


def test_unknown_fields_are_skipped_by_their_wire_type() -> None:
    body = number(99, 2**40) + run(98, b"??") + nested(2**40, b"\xff\xff\xff") + CODE
    assert only_block(frame(1, body)) == CodeBlock(Lang.RUST, "a.rs", b"fn")


def test_a_known_field_is_read_as_its_type_whatever_its_wire_type() -> None:
    body = number(1, 1, wire_type=2) + run(2, b"a.rs", wire_type=0) + run(3, b"fn", wire_type=2)
    assert only_block(frame(1, body)) == CodeBlock(Lang.RUST, "a.rs", b"fn")


@pytest.mark.parametrize("field", [1, 2, 99])
def test_other_wire_types_are_refused_on_known_and_unknown_fields(field: int) -> None:
    error = body_failure(1, number(field, 1, wire_type=3))
    assert isinstance(error, UnknownFieldWireType)
    assert error.value == 3


def test_of_a_repeated_singular_field_the_last_wins() -> None:
    assert only_block(frame(1, CODE + run(2, b"b.rs"))) == CodeBlock(Lang.RUST, "b.rs", b"fn")


def test_repeated_nested_fields_are_one_element_each_in_order() -> None:
    def hunk(at: int) -> bytes:
        return nested(2, number(1, at), number(2, at), run(3, b"+x\n"))

    assert only_block(frame(7, hunk(2) + run(1, b"a") + hunk(1))) == DiffBlock(
        "a", (Hunk(2, 2, b"+x\n"), Hunk(1, 1, b"+x\n"))
    )


REQUIRED = {
    0x01: [("lang", number(1, 1)), ("path", run(2, b"p")), ("content", run(3, b""))],
    0x02: [("role", number(1, 1)), ("content", run(2, b""))],
    0x03: [("root_path", run(1, b""))],
    0x04: [("tool_name", run(1, b"t")), ("status", number(2, 1)), ("content", run(3, b""))],
    0x05: [("title", run(1, b"t")), ("content", run(2, b"")), ("format_hint", number(3, 1))],
    0x06: [("format", number(1, 1)), ("content", run(3, b""))],
    0x07: [("path", run(1, b"p"))],
    0x08: [("target_block_id", number(1, 0)), ("kind", number(2, 1)), ("value", run(3, b""))],
    0x09: [("vector_id", run(1, b"")), ("source_hash", run(2, b"")), ("model", run(3, b""))],
    0x0A: [("media_type", number(1, 1)), ("alt_text", run(2, b"")), ("data", run(3, b""))],
    0xFE: [("namespace", run(1, b"")), ("type_name", run(2, b"")), ("content", run(3, b""))],
}


@pytest.mark.parametrize(
    ("type_id", "left_out"), [(type_id, name) for type_id, fields in REQUIRED.items() for name, _ in fields]
)
def test_each_required_field_is_required(type_id: int, left_out: str) -> None:
    fields = REQUIRED[type_id]
    error = body_failure(type_id, b"".join(form for name, form in fields if name != left_out))
    assert isinstance(error, MissingRequiredField)
    assert error.name == left_out


@pytest.mark.parametrize("type_id", REQUIRED)
def test_required_fields_suffice_and_zero_lengths_are_present(type_id: int) -> None:
    assert only_block(frame(type_id, b"".join(form for _, form in REQUIRED[type_id]))).type_id == type_id


ENUMS = [(0x02, 1), (0x04, 2), (0x05, 3), (0x06, 1), (0x08, 2), (0x0A, 1)]


def enum_body(type_id: int, field: int, value: int) -> bytes:
    forms = [form for _, form in REQUIRED[type_id] if form[0] != field]
    return b"".join(forms) + number(field, value)


@pytest.mark.parametrize(("type_id", "field"), ENUMS)
def test_enum_values_are_reduced_modulo_256_then_looked_up(type_id: int, field: int) -> None:
    assert only_block(frame(type_id, enum_body(type_id, field, 256 + 1))) == only_block(
        frame(type_id, enum_body(type_id, field, 1))
    )
    error = body_failure(type_id, enum_body(type_id, field, 256 + 99))
    assert isinstance(error, InvalidEnumValue)
    assert error.value == 99


def test_an_unknown_language_keeps_its_number_and_is_displayed_as_text() -> None:
    block = only_block(frame(1, CODE + number(1, 0x342)))
    assert isinstance(block, CodeBlock)
    assert (block.lang, block.lang.display) == (0x42, "text")


def entry(*fields: bytes) -> bytes:
    return pack(frame(3, run(1, b"r") + nested(2, *fields)))


def test_the_kind_of_a_file_entry_is_not_reduced() -> None:
    error = failure(entry(run(1, b"a"), number(2, 256)))
    assert isinstance(error, InvalidEnumValue)
    assert error.value == 256


def test_the_size_of_a_file_entry_is_zero_if_absent() -> None:
    assert decode(entry(run(1, b"a"), number(2, 0))).blocks == (
        FileTreeBlock("r", (TreeEntry("a", EntryKind.FILE, 0),)),
    )


def test_file_entries_nest() -> None:
    data = entry(run(1, b"d"), number(2, 1), nested(4, run(1, b"f"), number(2, 0), number(3, 2**64 - 1)))
    assert decode(data).blocks == (
        FileTreeBlock(
            "r",
            (TreeEntry("d", EntryKind.DIRECTORY, 0, (TreeEntry("f", EntryKind.FILE, 2**64 - 1),)),),
        ),
    )


def test_32_bit_numbers_are_reduced_modulo_two_to_the_32() -> None:
    block = only_block(frame(1, CODE + number(4, 2**32 + 3) + number(5, 2**33 + 4)))
    assert isinstance(block, CodeBlock)
    assert block.lines == LineRange(3, 4)


@pytest.mark.parametrize("field", [4, 5])
def test_a_line_range_needs_both_ends(field: int) -> None:
    block = only_block(frame(1, CODE + number(field, 3)))
    assert isinstance(block, CodeBlock)
    assert block.lines is None


def test_string_fields_are_lossy_and_contents_are_not_touched() -> None:
    assert only_block(frame(2, number(1, 2) + run(2, b"\xff") + run(3, b"a\xffb"))) == ConversationBlock(
        TurnRole.USER, b"\xff", "a\ufffdb"
    )


@pytest.mark.parametrize("body", [varint(1), varint(1) + varint(1), run(3, b"fn")[:-1], b"\x01\x00"])
def test_a_field_past_the_end_is_unexpected_eof(body: bytes) -> None:
    error = body_failure(1, body)
    assert isinstance(error, UnexpectedEof)
    assert (error.block, error.offset) == (0, 8 + 3 + len(body))


def test_a_nested_field_cannot_reach_past_what_encloses_it() -> None:
    data = pack(frame(3, nested(2, varint(1) + varint(1) + varint(3) + b"ab") + run(1, b"root")))
    assert isinstance(failure(data), UnexpectedEof)


# 4.1 Summary


def test_a_summary_is_a_prefix_and_lossy() -> None:
    assert only_block(frame(1, b"\x03a\xffb" + CODE, 1)) == CodeBlock(
        Lang.RUST, "a.rs", b"fn", summary="a\ufffdb"
    )


def test_an_empty_summary_is_a_summary() -> None:
    assert only_block(frame(1, b"\0" + CODE, 1)).summary == ""
    assert only_block(frame(1, CODE)).summary is None


@pytest.mark.parametrize("body", [b"", b"\x80", b"\x03hi", b"\x05hi"])
def test_a_summary_past_the_body_is_unexpected_eof(body: bytes) -> None:
    assert isinstance(failure(pack(frame(1, body, 1))), UnexpectedEof)


def test_the_first_error_aborts_with_the_index_of_its_block() -> None:
    error = failure(pack(frame(1, CODE), frame(2, b""), frame(1, b"")))
    assert isinstance(error, MissingRequiredField)
    assert (error.block, error.name) == (1, "role")


def test_a_frame_says_where_and_how_large_it_is() -> None:
    frames = decode(pack(frame(0x42, b"hello"), frame(0xFE, run(1, b"") + run(2, b"") + run(3, b"")))).frames
    assert [(item.offset, item.stored_size, item.body_size) for item in frames] == [(8, 5, 5), (16, 9, 9)]
