"""Blocks as values, and the priorities that annotations give them."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tokenbox.content import blocks as blocks_module
from tokenbox.content.block_kinds import AnnotationKind, BlockType, Lang, MediaType, Priority
from tokenbox.content.blocks import (
    AnnotationBlock,
    Block,
    CodeBlock,
    ExtensionBlock,
    Hunk,
    ImageBlock,
    LineRange,
    UnknownBlock,
    resolve_priorities,
)

CODE = CodeBlock(Lang.PYTHON, "a.py", b"x = 1", LineRange(3, 4))


def note(target: int, value: bytes, kind: AnnotationKind = AnnotationKind.PRIORITY) -> AnnotationBlock:
    return AnnotationBlock(target, kind, value)


# Values


def test_blocks_are_frozen_hashable_and_without_a_dict() -> None:
    value: Any = CODE
    with pytest.raises(FrozenInstanceError):
        value.path = "b.py"
    assert not hasattr(CODE, "__dict__")
    assert {CODE: 1}[copy.deepcopy(CODE)] == 1


def test_each_type_has_its_number_and_name() -> None:
    classes = [value for value in vars(blocks_module).values() if inspect.isclass(value)]
    blocks = [cls for cls in classes if issubclass(cls, Block) and cls.type is not None]
    assert len(blocks) == len(BlockType)
    assert {cls.type for cls in blocks} == set(BlockType)
    assert (CODE.type_id, CODE.type_name) == (1, "code")
    assert (ExtensionBlock("n", "k", b"").type_id, UnknownBlock(0x42, b"").type_id) == (0xFE, 0x42)
    assert UnknownBlock(0x42, b"").type_name == "unknown"


def test_text_is_none_where_the_bytes_are_not_utf8() -> None:
    assert (CODE.text, CODE.lossy_text) == ("x = 1", "x = 1")
    for block in (UnknownBlock(0x42, b"a\xff"), note(0, b"a\xff")):
        assert (block.text, block.lossy_text) == (None, "a\ufffd")
    assert Hunk(1, 1, b"a\xff").lossy_text == "a\ufffd"
    assert ImageBlock(MediaType.SVG, "alt", b"data:x").text == "data:x"


def test_a_code_block_has_both_ends_of_its_lines_or_none() -> None:
    assert (CODE.line_start, CODE.line_end) == (3, 4)
    whole = CodeBlock(Lang.PYTHON, "a.py", b"")
    assert (whole.line_start, whole.line_end) == (None, None)


def test_a_language_without_a_name_keeps_its_number() -> None:
    unnamed = Lang(0x42)
    assert (unnamed.value, unnamed.display) == (0x42, "text")
    assert Lang(0x42) is unnamed
    assert pickle.loads(pickle.dumps(unnamed)) is unnamed
    assert unnamed not in list(Lang)
    assert Lang.UNKNOWN.display == "text"
    assert Lang.TYPESCRIPT.display == "typescript"


@pytest.mark.parametrize("number", [-1, 256, "rust"])
def test_what_is_no_byte_is_no_language(number: Any) -> None:  # noqa: ANN401  # wrong on purpose
    with pytest.raises(ValueError, match="is not a valid Lang"):
        Lang(number)


# Priorities (lcp-wire 4.4)


def test_the_most_urgent_priority_sorts_first() -> None:
    assert [
        item.display
        for item in sorted(
            [Priority.LOW, Priority.BACKGROUND, Priority.CRITICAL, Priority.NORMAL, Priority.HIGH]
        )
    ] == [
        "critical",
        "high",
        "normal",
        "low",
        "background",
    ]


def test_the_default_is_normal_and_annotations_have_one_too() -> None:
    assert resolve_priorities([CODE, note(9, b"\x01")]) == [Priority.NORMAL, Priority.NORMAL]
    assert resolve_priorities([]) == []


def test_targets_are_forward_or_backward_and_count_annotations() -> None:
    blocks = [note(2, b"\x01"), CODE, CODE, note(1, b"\x05"), note(3, b"\x02")]
    assert resolve_priorities(blocks) == [
        Priority.NORMAL,
        Priority.BACKGROUND,
        Priority.CRITICAL,
        Priority.HIGH,
        Priority.NORMAL,
    ]


def test_the_last_annotation_of_a_target_wins() -> None:
    assert resolve_priorities([CODE, note(0, b"\x01"), note(0, b"\x04")])[0] is Priority.LOW


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x06", b"\xff\x01"])
def test_a_bad_value_says_nothing_not_even_as_the_last(value: bytes) -> None:
    assert resolve_priorities([CODE, note(0, b"\x02"), note(0, value)])[0] is Priority.HIGH


def test_bytes_after_the_first_are_ignored() -> None:
    assert resolve_priorities([CODE, note(0, b"\x05\x01")])[0] is Priority.BACKGROUND


@pytest.mark.parametrize("target", [2, 2**32 - 1])
def test_a_target_out_of_range_is_ignored(target: int) -> None:
    assert set(resolve_priorities([CODE, note(target, b"\x01")])) == {Priority.NORMAL}


@pytest.mark.parametrize("kind", [AnnotationKind.SUMMARY, AnnotationKind.TAG])
def test_other_kinds_of_annotations_set_no_priority(kind: AnnotationKind) -> None:
    assert resolve_priorities([CODE, note(0, b"\x01", kind)])[0] is Priority.NORMAL
