"""A pack: its text, how it shows each file, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.compose.blocks import render_blocks
from tokenbox.errors import TokenboxError
from tokenbox.render.html import Pictured, in_words
from tokenbox.worth.scorers import scorer_name

if TYPE_CHECKING:
    from tokenbox.compose.blocks import BlockLayout
    from tokenbox.content.blocks import Block
    from tokenbox.folder.listing import FileShown
    from tokenbox.folder.notes import Note
    from tokenbox.folder.options import PackOptions
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

SCHEMA = "tokenbox.folder/1"


class SplitProblem(TokenboxError, code="split_too_small"):
    """One file of a pack is larger than the limit of a part."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file and how the pack shows it.

    ``tokens`` of its content are None for a binary file, ``worth`` is None if it was not computed.
    """

    path: str
    size: int
    tokens: int | None
    shown: FileShown
    worth: int | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "bytes": self.size,
            "tokens": self.tokens,
            "shown": self.shown.name.lower(),
            "worth": self.worth,
        }


@dataclass(frozen=True, slots=True)
class PackedFolder(Pictured):
    """A pack.

    ``rendering`` has the text and its exact count. ``gap_permille``: an upper bound on the distance between
    the choice and the best one, in thousandths. ``blocks``: the rendered blocks, each as it is shown.
    ``notes``: what was left out or changed when the files were read, such as a secret.
    """

    rendering: BlockLayout
    files: tuple[PackedFile, ...]
    options: PackOptions
    gap_permille: int | None = None
    blocks: tuple[Block, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def text(self) -> str:
        return self.rendering.text

    @property
    def total(self) -> int:
        return self.rendering.total

    def explain(self) -> str:
        """Return a line per file: how it is shown, its tokens, its worth in percent of the best file's."""
        best = max((file.worth or 0 for file in self.files), default=0) or 1
        lines = []
        for file in sorted(self.files, key=lambda file: (-(file.worth or 0), file.path)):
            tokens = "binary" if file.tokens is None else f"{file.tokens:,}"
            worth = "" if file.worth is None else f"{file.worth * 1000 // best / 10:5.1f} %"
            lines.append(f"{file.shown.name.lower():<8} {tokens:>9}  {worth:>7}  {file.path}")
        if self.gap_permille is not None:
            lines.append(
                f"At most {self.gap_permille / 10:.1f} % below the best choice there is, by these worths."
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        shown, by = [file.shown.name.lower() for file in self.files], self.rendering.tokenizer
        return in_words("PackedFolder", self.total, self.rendering.budget, by.name, shown, exact=by.exact)

    def to_dict(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "query": self.options.query,
            "order": self.options.order.value,
            "scorer": None if self.options.scorer is None else scorer_name(self.options.scorer),
            "gap_permille": self.gap_permille,
            "files": [file.to_dict() for file in self.files],
            "rendering": self.rendering.to_dict(),
            "notes": [note.to_dict() for note in self.notes],
        }


def split(
    pack: PackedFolder,
    tokenizer: str | Tokenizer | Callable[[str], int],
    limit: int,
    mode: str = "xml",
    *,
    cache: CountCache | None = None,
) -> list[BlockLayout]:
    """Split the pack between files into parts of at most ``limit`` tokens each.

    Raises :class:`SplitProblem` if one file alone is larger.
    """

    def rendered(blocks: Sequence[Block]) -> BlockLayout:
        return render_blocks(blocks, tokenizer, None, mode, verbosity="summary", cache=cache)

    parts: list[BlockLayout] = []
    pending = [(block, rendered([block]).total) for block in pack.blocks]
    while pending:
        block, size = pending[0]
        if size > limit:
            name = getattr(block, "path", None) or getattr(block, "title", None) or "the tree"
            raise SplitProblem(
                f"{name} alone has {size:,} tokens, {size - limit:,} over the {limit:,} of a part. "
                f"Raise the limit of a part to {size}.",
                size=size,
                limit=limit,
            )
        number = 1
        while number < len(pending) and sum(size for _, size in pending[: number + 1]) <= limit:
            number += 1
        part = rendered([block for block, _ in pending[:number]])
        while part.total > limit:
            number -= 1
            part = rendered([block for block, _ in pending[:number]])
        parts.append(part)
        pending = pending[number:]
    return parts
