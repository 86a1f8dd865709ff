"""The named values of a pack's options. The command line imports only these to print its help."""

from __future__ import annotations

from enum import StrEnum


class FileOrder(StrEnum):
    """The order of the files in a pack."""

    PATH = "path"
    WORTH = "worth"


class Purpose(StrEnum):
    """The purpose of a pack: the name of a preset."""

    REVIEW = "review"
    QUESTION = "question"
    HANDOVER = "handover"


class Strip(StrEnum):
    """A kind of content to remove from files."""

    COMMENTS = "comments"
    BASE64 = "base64"
    OUTPUTS = "outputs"
