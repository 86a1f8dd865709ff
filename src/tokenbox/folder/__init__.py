"""Pack a folder into a prompt within a token budget (docs/pack.md).

``survey`` finds the files, ``read`` reads them, ``pack_source`` chooses and renders. Notes report every file
that is left out or changed. The result depends on the paths and contents of the files, the query and the
options; not on the file system, the clock, the environment or the working directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    from tokenbox.folder.ahead import CountAhead
    from tokenbox.folder.generated import as_text
    from tokenbox.folder.git import cloned, is_url
    from tokenbox.folder.notes import Note, NoteKind
    from tokenbox.folder.option_values import FileOrder, Purpose, Strip
    from tokenbox.folder.options import LevelRule, PackOptions, PackSettings, file_order, settled, strips
    from tokenbox.folder.packed import PackedFile, PackedFolder, split
    from tokenbox.folder.packing import as_blocks, pack_source
    from tokenbox.folder.priorities import PriorityRule, parse_rule
    from tokenbox.folder.project import ProjectSettings
    from tokenbox.folder.source import File, Source, Survey, read, survey
    from tokenbox.folder.walk import PathProblem

__all__ = [
    "CountAhead",
    "File",
    "FileOrder",
    "LevelRule",
    "Note",
    "NoteKind",
    "PackOptions",
    "PackSettings",
    "PackedFile",
    "PackedFolder",
    "PathProblem",
    "PriorityRule",
    "ProjectSettings",
    "Purpose",
    "Source",
    "Strip",
    "Survey",
    "as_blocks",
    "as_text",
    "cloned",
    "file_order",
    "is_url",
    "pack_source",
    "parse_rule",
    "read",
    "settled",
    "split",
    "strips",
    "survey",
]

# The help of a command does not load the packer.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    __getattr__ = on_first_use(
        __name__,
        {
            "ahead": "CountAhead",
            "generated": "as_text",
            "git": "cloned is_url",
            "notes": "Note NoteKind",
            "option_values": "FileOrder Purpose Strip",
            "options": "LevelRule PackOptions PackSettings file_order settled strips",
            "packed": "PackedFile PackedFolder split",
            "packing": "as_blocks pack_source",
            "priorities": "PriorityRule parse_rule",
            "project": "ProjectSettings",
            "source": "File Source Survey read survey",
            "walk": "PathProblem",
        },
    )
