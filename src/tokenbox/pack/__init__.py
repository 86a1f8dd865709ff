"""A directory or a diff becomes blocks.

``survey`` finds the files, ``collect`` reads them and makes the blocks. What both leave out or change is in
the notes. The result depends on the paths and contents of the files, not on the file system, the clock, the
environment or the working directory.
"""

from tokenbox.pack.ahead import CountAhead
from tokenbox.pack.notes import Note, NoteKind
from tokenbox.pack.packing import Collection, PackedFile, Survey, collect, survey
from tokenbox.pack.priorities import PriorityRule, parse_rule
from tokenbox.pack.walk import PathProblem

__all__ = [
    "Collection",
    "CountAhead",
    "Note",
    "NoteKind",
    "PackedFile",
    "PathProblem",
    "PriorityRule",
    "Survey",
    "collect",
    "parse_rule",
    "survey",
]
