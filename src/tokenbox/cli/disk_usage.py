"""``tokenbox pack --tree``: tokens per folder and file, as a disk-usage view shows bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenbox.cli import terminal
from tokenbox.compose.counting import Counter
from tokenbox.folder import Source
from tokenbox.folder.listing import Branch, branches
from tokenbox.render.lines import Line, Span, Style
from tokenbox.tokenizers.cache import CountCache
from tokenbox.tokenizers.protocol import Tokenizer

_BAR_WIDTH = 20


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """A file (``inside`` is None) or a folder. ``tokens`` is the sum over its contents, without markup."""

    name: str
    tokens: int
    inside: tuple[DiskUsage, ...] | None

    def walk(self, depth: int = 0) -> Iterator[tuple[int, DiskUsage]]:
        """Yield this and everything inside with its depth, the largest first."""
        yield depth, self
        for part in self.inside or ():
            yield from part.walk(depth + 1)

    def to_dict(self) -> dict[str, object]:
        record: dict[str, object] = {"name": self.name, "tokens": self.tokens}
        return (
            record if self.inside is None else {**record, "inside": [part.to_dict() for part in self.inside]}
        )


def usage_of(source: Source, counter: Tokenizer, counts: CountCache) -> DiskUsage:
    """Count the files of a folder. A file without a text counts 0."""
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


def show_usage(usage: DiskUsage, *, exact: bool) -> None:
    """Show the tree with its tokens; a terminal also shows a bar for each row."""
    rows = list(usage.walk())
    figures = [terminal.figure(row.tokens, exact=exact) for _, row in rows]
    size = max(map(len, figures))
    lines: list[Line] = []
    for (depth, row), figure in zip(rows, figures, strict=True):
        is_folder = row.inside is not None
        spans = [Span(f"{figure:>{size}}  ", Style.KEPT)]
        if terminal.is_seen():
            cells = -(-row.tokens * _BAR_WIDTH // max(1, usage.tokens))
            bar = terminal.charset().bars[Style.KEPT] * cells
            spans.append(Span(f"{bar:<{_BAR_WIDTH}}  ", Style.COMPRESSED if is_folder else Style.FAINT))
        name = f"{'  ' * depth}{row.name}{'/' if is_folder else ''}"
        lines.append([*spans, Span(name, Style.STRONG if is_folder else Style.PLAIN)])
    terminal.show(lines)
