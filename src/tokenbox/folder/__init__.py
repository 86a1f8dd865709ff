"""A folder becomes a text for a model that fits a budget (docs/pack.md).

``survey`` finds the files, ``read`` reads them, ``pack_source`` chooses and renders. What is left out or
changed is in the notes. The result depends on the paths and contents of the files, the query and the
options; not on the file system, the clock, the environment or the working directory.
"""

from tokenbox.folder.ahead import CountAhead
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.packing import (
    FileOrder,
    LevelRule,
    PackedFile,
    PackedFolder,
    PackOptions,
    as_blocks,
    pack_source,
    split,
)
from tokenbox.folder.presets import PackSettings, Purpose, settled, strips
from tokenbox.folder.priorities import PriorityRule, parse_rule
from tokenbox.folder.project import ProjectSettings
from tokenbox.folder.remote import cloned, is_url
from tokenbox.folder.source import File, Source, Survey, read, survey
from tokenbox.folder.stripping import Strip
from tokenbox.folder.walk import PathProblem
from tokenbox.folder.weighing import weigh

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
    "cloned",
    "is_url",
    "pack_source",
    "parse_rule",
    "read",
    "settled",
    "split",
    "strips",
    "survey",
    "weigh",
]
