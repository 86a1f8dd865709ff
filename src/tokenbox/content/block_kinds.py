"""The enumerations of blocks. Values are the numbers of the LCP/BCP wire format."""

from __future__ import annotations

from enum import IntEnum


class _Named(IntEnum):
    @property
    def display(self) -> str:
        """The printed name, such as ``typescript`` or ``background``."""
        return self.name.lower()


class BlockType(_Named):
    """The known block types. Any other number up to 255 is an unknown block."""

    CODE = 0x01
    CONVERSATION = 0x02
    FILE_TREE = 0x03
    TOOL_RESULT = 0x04
    DOCUMENT = 0x05
    STRUCTURED_DATA = 0x06
    DIFF = 0x07
    ANNOTATION = 0x08
    EMBEDDING_REF = 0x09
    IMAGE = 0x0A
    EXTENSION = 0xFE


class Lang(_Named):
    """The language of a code block. ``Lang(0x42)`` accepts any number (0..255), with or without a name."""

    RUST = 0x01
    TYPESCRIPT = 0x02
    JAVASCRIPT = 0x03
    PYTHON = 0x04
    GO = 0x05
    JAVA = 0x06
    C = 0x07
    CPP = 0x08
    RUBY = 0x09
    SHELL = 0x0A
    SQL = 0x0B
    HTML = 0x0C
    CSS = 0x0D
    JSON = 0x0E
    YAML = 0x0F
    TOML = 0x10
    MARKDOWN = 0x11
    UNKNOWN = 0xFF

    @classmethod
    def _missing_(cls, value: object) -> Lang | None:
        if not isinstance(value, int) or not 0 <= value <= Lang.UNKNOWN:
            return None
        unnamed = int.__new__(cls, value)
        unnamed._name_ = f"UNNAMED_{value:02X}"
        unnamed._value_ = value
        # The same number must be the same object, as for a named member.
        cls._value2member_map_.setdefault(value, unnamed)
        return unnamed

    def __reduce_ex__(self, _: object) -> tuple[type[Lang], tuple[int]]:
        # By number: Python 3.11.2 pickles the name, by which an unnamed language is not found.
        return Lang, (self._value_,)

    @property
    def display(self) -> str:
        """The printed name; ``text`` for a language without a name."""
        return super().display if self.name in Lang.__members__ and self is not Lang.UNKNOWN else "text"


class TurnRole(_Named):
    """The speaker of a conversation turn."""

    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    TOOL = 4


class ToolStatus(_Named):
    """The outcome of a tool call."""

    OK = 1
    ERROR = 2
    TIMEOUT = 3


class Priority(_Named):
    """The priority of a block. ``sorted`` puts the most urgent first."""

    CRITICAL = 1
    HIGH = 2
    NORMAL = 3
    LOW = 4
    BACKGROUND = 5


class FormatHint(_Named):
    """The markup of a document's text."""

    MARKDOWN = 1
    PLAIN = 2
    HTML = 3


class DataFormat(_Named):
    """The format of structured data."""

    JSON = 1
    YAML = 2
    TOML = 3
    CSV = 4


class AnnotationKind(_Named):
    """The meaning of an annotation for its target."""

    PRIORITY = 1
    SUMMARY = 2
    TAG = 3


class MediaType(_Named):
    """The format of an image."""

    PNG = 1
    JPEG = 2
    GIF = 3
    SVG = 4
    WEBP = 5


class EntryKind(_Named):
    """The kind of an entry in a file tree."""

    FILE = 0
    DIRECTORY = 1
