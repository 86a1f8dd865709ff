"""Tokens per folder and file, as a disk-usage view shows bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.compose.counting import Counter
from tokenbox.folder.listing import branches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.folder import Source
    from tokenbox.folder.listing import Branch
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One line of the view."""

    name: str
    depth: int
    tokens: int
    is_folder: bool


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """A file or folder; ``tokens`` is the sum of the counts of the contents in it, without markup."""

    name: str
    tokens: int
    inside: tuple[DiskUsage, ...] | None

    def rows(self, depth: int = 0) -> Iterator[UsageRow]:
        """This and what is in it, the largest first."""
        yield UsageRow(self.name, depth, self.tokens, self.inside is not None)
        for part in self.inside or ():
            yield from part.rows(depth + 1)

    def to_dict(self) -> dict[str, object]:
        record: dict[str, object] = {"name": self.name, "tokens": self.tokens}
        return (
            record if self.inside is None else {**record, "inside": [part.to_dict() for part in self.inside]}
        )


def usage_of(source: Source, counter: Tokenizer, counts: CountCache) -> DiskUsage:
    """The tokens of the packed folder. A file that is only named in the tree counts none."""
    texts = [(file.name, file.text.decode()) for file in source.files if file.text is not None]
    sizes = Counter(counter, counts).count_all([text for _, text in texts])
    counted = dict(zip((name for name, _ in texts), sizes, strict=True))
    return _usage(".", branches({file.name: counted.get(file.name, 0) for file in source.files}))


def _usage(name: str, branch: Branch | int) -> DiskUsage:
    if isinstance(branch, int):
        return DiskUsage(name, branch, None)
    parts = [_usage(inner, below) for inner, below in branch.items()]
    parts.sort(key=lambda part: -part.tokens)  # stable: equals stay in the order of their names
    return DiskUsage(name, sum(part.tokens for part in parts), tuple(parts))
