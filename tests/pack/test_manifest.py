"""The JSON form of a ``.bcp`` pack: what is written can be read again, and an error names its place."""

from __future__ import annotations

import json

import pytest

from tokenbox.content.block_kinds import EntryKind, FormatHint, Lang
from tokenbox.content.blocks import (
    Block,
    CodeBlock,
    DiffBlock,
    DocumentBlock,
    FileTreeBlock,
    Hunk,
    LineRange,
    TreeEntry,
)
from tokenbox.folder.manifest import ManifestProblem, block_record, read_manifest
from tokenbox.lcp.frames import MAX_TREE_DEPTH


def nested(depth: int) -> FileTreeBlock:
    entry = TreeEntry("leaf", size=3)
    for _ in range(depth - 1):
        entry = TreeEntry("folder", EntryKind.DIRECTORY, children=(entry,))
    return FileTreeBlock(".", (entry,))


@pytest.mark.parametrize(
    "block",
    [
        CodeBlock(Lang.PYTHON, "a.py", b"x = 1\n", LineRange(3, 3)),
        DocumentBlock("notes", b"\xff\x00", FormatHint.PLAIN, summary=""),
        DiffBlock("a.py", (Hunk(1, 2, b"+\xff\n"), Hunk(0, 0, b""))),
        nested(MAX_TREE_DEPTH),  # the codec takes it, and this was one level too deep
    ],
)
def test_a_block_is_read_as_it_was_written(block: Block) -> None:
    record = json.loads(json.dumps(block_record(block)))
    assert [entry.block for entry in read_manifest({"blocks": [record]}, lambda _: b"").entries] == [block]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (
            {"type": "diff", "path": "a", "hunks": [{"old_start": 1}]},
            "hunks[0].new_start: is missing: a hunk",
        ),
        ({"type": "code", "lang": "python", "content": "x"}, ".path: is missing: a code block requires it."),
        (
            {"type": "file_tree", "root_path": ".", "entries": [{"nam": "a"}]},
            "entries[0]: has an unknown key 'nam'",
        ),
        (block_record(nested(MAX_TREE_DEPTH + 1)), "is more than 128 levels deep."),
    ],
)
def test_an_error_names_its_place(record: dict[str, object], error: str) -> None:
    with pytest.raises(ManifestProblem) as raised:
        read_manifest({"blocks": [record]}, lambda _: b"")
    assert error in str(raised.value)
