"""A folder becomes a text for a model, in at most a budget of tokens: the steps of docs/pack.md."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.compose.blocks import render_blocks
from tokenbox.compose.counting import Counter
from tokenbox.content.block_kinds import FormatHint, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, DiffBlock, DocumentBlock
from tokenbox.errors import ContextCriticalOverflow, EmptyInput, TokenboxError, TokenizerError
from tokenbox.folder.choosing import WITH_QUERY, WITHOUT_QUERY, Board, PieceForm, numbered
from tokenbox.folder.globs import Glob
from tokenbox.folder.listing import FileShown, Listing, file_tree, folders, folders_only
from tokenbox.folder.priorities import matcher
from tokenbox.folder.summaries import summary_of
from tokenbox.folder.weighing import weigh
from tokenbox.render.registry import find_renderer
from tokenbox.render.templates import block_body
from tokenbox.tokenizers.registry import as_tokenizer
from tokenbox.tokenizers.utf8 import utf8
from tokenbox.worth.scorers import scorer_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.compose.blocks import BlockLayout
    from tokenbox.content.blocks import Block, FileTreeBlock
    from tokenbox.engine.choice import Choice
    from tokenbox.folder.source import Source
    from tokenbox.proof.evidence import Sink
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer
    from tokenbox.worth.scorers import Scorer, Worth

SCHEMA = "tokenbox.folder/1"
# The tree takes at most this part of the budget, or this many tokens where that is less; and never more
# than a fifth.
_TREE_PART, _TREE_LEAST, _TREE_MOST = 40, 200, 5
# Candidates are the files worth most, up to this many times the budget, and twice as many again while there
# is room.
_CANDIDATES, _MORE_CANDIDATES, _WIDER = 8, 40_000, 4
# Without a query outlines come first, which count a fraction of their files.
_OUTLINED = 25
# Fewer tokens than these are not worth another round.
_CRUMBS = 24
_TRIES = 12


class LevelProblem(TokenboxError):
    """A rule that limits how files are shown has no sense."""

    code = "level_invalid"


class SplitProblem(TokenboxError):
    """A part of a pack cannot be as small as was asked."""

    code = "split_too_small"


@dataclass(frozen=True, slots=True)
class LevelRule:
    """Files that match ``glob`` are shown at most so."""

    glob: str
    level: PieceForm

    @classmethod
    def parse(cls, text: str) -> LevelRule:
        """The rule in ``GLOB=LEVEL``. Raises :class:`LevelProblem`."""
        glob, _, name = text.rpartition("=")
        if name not in LEVELS or Glob.of(glob) is None:
            raise LevelProblem(
                f"--level takes GLOB=LEVEL with one of {', '.join(LEVELS)}, as in 'docs/**=listed'; "
                f"not {text[:60]!r}.",
                rule=text,
            )
        return cls(glob, LEVELS[name])


LEVELS = {"full": PieceForm.FULL, "outline": PieceForm.OUTLINE, "listed": PieceForm.NOTHING}


class FileOrder(StrEnum):
    """The order of the files in a pack."""

    PATH = "path"
    WORTH = "worth"


@dataclass(frozen=True, slots=True)
class PackOptions:
    """What a pack is asked for. ``instructions`` are shown after the files, and count.

    ``focus``: paths, or ``PATH:SYMBOL``, that the rest is to be near. ``history``: past changes count, by
    git. ``levels``: how much of the files that a pattern matches is shown at most. ``line_numbers``: before
    each line of a file. ``scorer``: says what pieces are worth, in place of the words of the query: a
    function, the name of an entry point, or ``module:function`` (``worth.scorers``).
    """

    query: str | None = None
    order: FileOrder = FileOrder.PATH
    instructions: str | None = None
    focus: tuple[str, ...] = ()
    history: bool = False
    levels: tuple[LevelRule, ...] = ()
    line_numbers: bool = False
    scorer: Scorer | str | None = None

    def asks(self, source: Source) -> bool:
        """Whether anything says what the pack is for."""
        return self.query is not None or bool(self.focus or source.changes or self.scorer)


@dataclass(frozen=True, slots=True)
class PackedFile:
    """What became of a file. ``tokens``: of its content; None for what is not text.

    ``worth``: None if it was not asked for.
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
        }


@dataclass(frozen=True, slots=True)
class PackedFolder:
    """A pack.

    ``rendering`` has the text and its exact count; ``gap_permille``: how far the choice may be from the best.
    """

    rendering: BlockLayout
    files: tuple[PackedFile, ...]
    options: PackOptions
    gap_permille: int | None = None
    blocks: tuple[Block, ...] = ()
    """What was rendered, each block as it is shown."""

    @property
    def text(self) -> str:
        return self.rendering.text

    @property
    def total(self) -> int:
        return self.rendering.total

    def explain(self) -> str:
        """A line per file: how it is shown, its tokens, what it is worth beside the best."""
        best = max((file.worth or 0 for file in self.files), default=0) or 1
        lines = []
        for file in sorted(self.files, key=lambda one: (-(one.worth or 0), one.path)):
            tokens = "binary" if file.tokens is None else f"{file.tokens:,}"
            worth = "" if file.worth is None else f"{file.worth * 1000 // best / 10:5.1f} %"
            lines.append(f"{file.shown.name.lower():<8} {tokens:>9}  {worth:>7}  {file.path}")
        if self.gap_permille is not None:
            lines.append(
                f"At most {self.gap_permille / 10:.1f} % below the best choice there is, by these worths."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "query": self.options.query,
            "order": self.options.order.value,
            "scorer": None if self.options.scorer is None else scorer_name(self.options.scorer),
            "gap_permille": self.gap_permille,
            "files": [file.to_dict() for file in self.files],
            "rendering": self.rendering.to_dict(),
        }


def pack_source(
    source: Source,
    tokenizer: str | Tokenizer | Callable[[str], int],
    budget: int | None = None,
    mode: str = "xml",
    *,
    options: PackOptions | None = None,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    worth: Worth | None = None,
) -> PackedFolder:
    """The files of ``source`` in at most ``budget`` tokens; all of them in full if they fit.

    ``worth``: what :func:`~tokenbox.folder.weighing.weigh` said already. Raises ``ContextCriticalOverflow``
    if the changes, the instructions and the critical files alone do not fit, and ``EmptyInput`` if not even
    the tree does.
    """
    packer = _Packer(
        source,
        Counter(as_tokenizer(tokenizer), cache),
        budget,
        find_renderer(mode).name,
        options or PackOptions(),
        cache,
        proof,
        worth,
    )
    return packer.everything() or packer.chosen()


def split(
    pack: PackedFolder,
    tokenizer: str | Tokenizer | Callable[[str], int],
    limit: int,
    mode: str = "xml",
    *,
    cache: CountCache | None = None,
) -> list[BlockLayout]:
    """The pack in parts of at most ``limit`` tokens each, cut between files.

    Raises :class:`SplitProblem` where one file alone has more.
    """

    def rendered(blocks: Sequence[Block]) -> BlockLayout:
        return render_blocks(blocks, tokenizer, None, mode, verbosity="summary", cache=cache)

    parts: list[BlockLayout] = []
    waiting = [(block, rendered([block]).total) for block in pack.blocks]
    while waiting:
        if waiting[0][1] > limit:
            block, size = waiting[0]
            name = getattr(block, "path", None) or getattr(block, "title", None) or "the tree"
            raise SplitProblem(
                f"{name} alone has {size:,} tokens, {size - limit:,} over the {limit:,} of a part. "
                f"Use --split {size}.",
                size=size,
                limit=limit,
            )
        number = 1
        while number < len(waiting) and sum(size for _, size in waiting[: number + 1]) <= limit:
            number += 1
        part = rendered([block for block, _ in waiting[:number]])
        while part.total > limit:
            number -= 1
            part = rendered([block for block, _ in waiting[:number]])
        parts.append(part)
        waiting = waiting[number:]
    return parts


class _Packer:
    def __init__(  # the arguments of ``pack_source``, checked
        self,
        source: Source,
        counter: Counter,
        budget: int | None,
        mode: str,
        options: PackOptions,
        cache: CountCache | None,
        proof: Sink | None,
        worth: Worth | None,
    ) -> None:
        self._worth = worth
        self._source = source
        self._counter = counter
        self._budget = budget
        self._mode = mode
        self._options = options
        self._cache = cache
        self._proof = proof
        self._texts = [i for i, file in enumerate(source.files) if file.text is not None]
        sizes = counter.count_all([(source.files[i].text or b"").decode() for i in self._texts])
        self._tokens = dict(zip(self._texts, sizes, strict=True))
        self._tree = file_tree({file.path: file.size for file in source.files})
        self._worths: dict[int, int] = {}

    # The steps.

    def everything(self) -> PackedFolder | None:
        """All files in full, if that fits."""
        if self._budget is not None and sum(self._tokens.values()) > self._budget:
            return None
        if self._options.levels and min(self._most()) is not PieceForm.FULL:
            return None
        shown = dict.fromkeys(self._texts, FileShown.FULL)
        room = None if self._budget is None else _tree_room(self._budget)
        tree = self._listing(room, {}).text(None)
        pack = self._rendered(
            tree, dict.fromkeys(self._texts), shown, None, self._proof if self._budget is None else None
        )
        if self._budget is None:
            return pack
        if pack.rendering.over:
            return None
        return (
            self._rendered(tree, dict.fromkeys(self._texts), shown, None, self._proof)
            if self._proof
            else pack
        )

    def chosen(self) -> PackedFolder:
        """What is worth most, up to the budget."""
        assert self._budget is not None  # noqa: S101  # without one everything fits
        worth = self._worth or weigh(self._source, self._options, self._cache)
        order = self._by_worth(worth)
        kept = self._kept()
        free = self._budget - self._fixed(kept)
        correction, wide = 0, _CANDIDATES if self._asks else _OUTLINED
        board = Board(
            self._source.files,
            [self._tokens.get(i, 0) for i in range(len(self._source.files))],
            self._counter,
            self._mode,
            line_numbers=self._options.line_numbers,
            memory=self._cache,
        )
        for _ in range(_TRIES):
            board.reset()
            room = min(_tree_room(self._budget), max(0, free - correction))
            listing = self._listing(room, self._worths)
            content = free - correction - (room if listing.is_cut else listing.size)
            candidates = self._candidates(order, self._budget * wide + _MORE_CANDIDATES)
            board.add([*kept, *candidates])
            board.keep(kept)
            depths = WITH_QUERY if self._asks else WITHOUT_QUERY
            upgrades = board.upgrades(worth, self._ranks(), depths, self._most())
            choice = board.run(upgrades, max(0, content), depths)
            if choice.left > self._budget // 50 + _CRUMBS and len(candidates) < len(order):
                wide *= _WIDER
                continue
            pack = self._shown(board, listing, choice, None)
            if pack is None:
                return self._tree_alone(free, board.least)
            if pack.rendering.over:
                # The room that was left was not the difference: without it another choice is made.
                correction += pack.rendering.over + max(0, choice.left)
                continue
            if self._proof is not None:
                pack = self._shown(board, listing, choice, self._proof) or pack
            return pack
        name = self._counter.tokenizer.identity.name
        raise TokenizerError(f"the counter {name} is not consistent: a count must depend on the text only.")

    # What they need.

    @property
    def _asks(self) -> bool:
        return self._options.asks(self._source)

    def _by_worth(self, worth: Worth) -> list[int]:
        ranks = self._ranks()
        self._worths = {i: worth.document(i) for i in self._texts}
        return sorted(self._texts, key=lambda i: (ranks[i], -self._worths[i], i))

    def _ranks(self) -> list[int]:
        return [int(Priority.NORMAL if file.asked is None else file.asked) for file in self._source.files]

    def _most(self) -> list[PieceForm]:
        """The best form that each file may have."""
        rules = [(matcher([rule.glob]), rule.level) for rule in reversed(self._options.levels)]
        found = []
        for file in self._source.files:
            name = os.fsencode(file.path)
            found.append(next((level for spec, level in rules if spec.fullmatch(name)), PieceForm.FULL))
        return found

    def _candidates(self, order: Sequence[int], tokens: int) -> list[int]:
        found: list[int] = []
        for i in order:
            if tokens <= 0:
                break
            found.append(i)
            tokens -= self._tokens[i]
        return found

    def _listing(self, room: int | None, worths: Mapping[int, int]) -> Listing:
        entries = [
            (file.path, self._tokens.get(i), worths.get(i, 0)) for i, file in enumerate(self._source.files)
        ]

        def counts(lines: Sequence[str]) -> list[int]:
            self._counter.count_small(lines)
            return [self._counter.small(line) for line in lines]

        return Listing(folders(entries), room, counts)

    def _always(self) -> list[CodeBlock | DocumentBlock | DiffBlock]:
        """The blocks that are there in any case: commits, changes, and last of all the instructions."""
        return [*self._commits(), *self._source.changes, *self._instructions()]

    def _commits(self) -> list[CodeBlock | DocumentBlock | DiffBlock]:
        log = self._source.log
        return [DocumentBlock("git log", log.encode(), FormatHint.PLAIN)] if log else []

    def _instructions(self) -> list[CodeBlock | DocumentBlock | DiffBlock]:
        text = self._options.instructions
        return [] if text is None else [DocumentBlock("instructions", text.encode(), FormatHint.PLAIN)]

    def _kept(self) -> list[int]:
        """The files of class critical, which are shown in full."""
        most = self._most()
        return [
            i
            for i in self._texts
            if self._source.files[i].asked is Priority.CRITICAL and most[i] is PieceForm.FULL
        ]

    def _fixed(self, kept: Sequence[int]) -> int:
        """What counts that is there in any case, with the markup around it all.

        Raises ``ContextCriticalOverflow``.
        """
        assert self._budget is not None  # noqa: S101  # see ``chosen``
        markup, counter = find_renderer(self._mode), self._counter
        blocks = [*self._always(), *(self._block(i, full=True) for i in kept)]
        sizes = [counter.small(markup.full(block).text + "\n\n") for block in blocks]
        total = sum(sizes) + self._frame()
        if total > self._budget and blocks:
            # Where blocks meet, a few tokens may be fewer: what is emitted decides.
            total = render_blocks(
                blocks, counter.tokenizer, None, self._mode, verbosity="full", cache=self._cache
            ).total
            if total <= self._budget:
                return total
            names = [block.title if isinstance(block, DocumentBlock) else block.path for block in blocks]
            raise ContextCriticalOverflow(
                fixed_load=total,
                budget=self._budget,
                critical=list(zip(names, sizes, strict=True)),
                smallest_change={
                    "change": "raise_budget",
                    "by": total - self._budget,
                    "minimum_budget": total,
                    "say": f"raise the budget by {total - self._budget:,} to {total:,}",
                },
                estimate=not counter.tokenizer.identity.exact,
                what="blocks",
            )
        return total

    def _frame(self) -> int:
        """What the markup around the whole and the tree counts."""
        markup = find_renderer(self._mode)
        framed = markup.summary(self._tree, "")
        return sum(
            map(self._counter.small, (f"{markup.start}\n", framed.before, f"{framed.after}\n\n", markup.end))
        )

    def _shown(
        self, board: Board, listing: Listing, choice: Choice, proof: Sink | None
    ) -> PackedFolder | None:
        forms = {}
        texts = {}
        for i in board.shown:
            texts[i] = board.text(i)
            has_body = PieceForm.FULL in board.candidate(i).forms
            forms[i] = (
                FileShown.FULL if texts[i] is None else FileShown.FOCUSED if has_body else FileShown.OUTLINE
            )
        tree = listing.text({self._source.files[i].path: how for i, how in forms.items()})
        if not tree and not texts and not self._always():
            return None
        return self._rendered(tree, texts, forms, choice.gap_permille, proof)

    def _rendered(
        self,
        tree: str,
        texts: Mapping[int, str | None],
        forms: Mapping[int, FileShown],
        gap: int | None,
        proof: Sink | None,
    ) -> PackedFolder:
        order = sorted(texts, key=self._place)
        blocks: list[Block] = [replace(self._tree, summary=tree)] if tree else []
        blocks += [*self._commits(), *self._source.changes]
        blocks += [replace(self._block(i, full=texts[i] is None), summary=texts[i]) for i in order]
        blocks += self._instructions()
        render = render_blocks if proof is None else self._proven(proof, forms)
        rendering = render(
            blocks,
            self._counter.tokenizer,
            self._budget,
            self._mode,
            verbosity="summary",
            cache=self._cache,
        )
        files = tuple(
            PackedFile(
                file.name, file.size, self._tokens.get(i), forms.get(i, FileShown.LISTED), self._worths.get(i)
            )
            for i, file in enumerate(self._source.files)
        )
        return PackedFolder(rendering, files, self._options, gap, tuple(blocks))

    def _proven(self, proof: Sink, forms: Mapping[int, FileShown]) -> Callable[..., BlockLayout]:
        """``render_blocks`` with proof, which says as well what was asked for and what each file is worth."""
        from tokenbox.proof.calls import proven  # noqa: PLC0415  # a third of the start, and most need none
        from tokenbox.proof.of_blocks import CHOICE, RENDER_BLOCKS  # noqa: PLC0415

        options, query = self._options, self._options.query
        asked = {
            "id": CHOICE,
            "query": None if query is None else hashlib.sha256(utf8(query)).hexdigest(),
            "focus": list(options.focus),
            "history": options.history,
            "order": options.order.value,
            "scorer": None if options.scorer is None else scorer_name(options.scorer),
        }
        files = [
            {
                "id": f"{CHOICE} {self._source.files[i].name}",
                "decision": forms.get(i, FileShown.LISTED).name.lower(),
                "base_size": self._tokens[i],
                "worth": None if i not in self._worths else str(self._worths[i]),
            }
            for i in self._texts
        ]
        return proven(
            RENDER_BLOCKS,
            lambda evidence: proof(replace(evidence, decisions=(*evidence.decisions, asked, *files))),
        )

    def _block(self, i: int, *, full: bool) -> CodeBlock | DocumentBlock:
        file = self._source.files[i]
        block = file.block()
        if full and self._options.line_numbers:
            return replace(block, content=numbered((file.text or b"").decode(), 1).encode())
        return block

    def _place(self, i: int) -> tuple[int, int]:
        return (self._worths.get(i, 0) if self._options.order is FileOrder.WORTH else 0), i

    def _tree_alone(self, free: int, smallest: int | None) -> PackedFolder:
        """As much of the tree as fits, where nothing else does. Raises ``EmptyInput`` with what it takes.

        ``smallest``: what the smallest file counts.
        """
        assert self._budget is not None  # noqa: S101  # see ``chosen``
        listing = self._listing(max(0, free), self._worths)
        tree = listing.text({})
        if tree and not self._rendered(tree, {}, {}, None, None).rendering.over:
            return self._rendered(tree, {}, {}, None, self._proof)
        sizes = [listing.least] if smallest is None else [listing.least, smallest]
        least = self._budget - free + min(sizes)
        raise EmptyInput(
            f"the smallest pack of these files takes {least:,} tokens, and the budget is {self._budget:,}. "
            f"Use --budget {least}.",
            budget=self._budget,
            minimum_budget=least,
            blocks=len(self._source.files),
        )


def _tree_room(budget: int) -> int:
    return min(max(_TREE_LEAST, budget // _TREE_PART), budget // _TREE_MOST)


def as_blocks(source: Source) -> tuple[Block, ...]:
    """The source as the blocks of a ``.bcp`` pack: with summaries, then annotations of priorities."""
    tree = file_tree({file.path: file.size for file in source.files})
    blocks: list[Block] = [_summarized(tree, folders_only(tree)), *source.changes]
    urgency = [Priority.HIGH, *[Priority.CRITICAL] * len(source.changes)]
    for file in source.files:
        if file.text is not None:
            block = file.block()
            blocks.append(_summarized(block, summary_of(block_body(block), file.kind.outline)))
            urgency.append(file.prior.priority if file.asked is None else file.asked)
    blocks += [
        AnnotationBlock.of_priority(index, priority)
        for index, priority in enumerate(urgency)
        if priority is not Priority.NORMAL
    ]
    return tuple(blocks)


def _summarized(block: Block | FileTreeBlock, summary: str | None) -> Block:
    return block if summary is None else replace(block, summary=summary)
