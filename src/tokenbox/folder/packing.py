"""Pack the files of a folder into a prompt within a token budget: the steps of docs/pack.md."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.compose.blocks import render_blocks
from tokenbox.compose.counting import Counter
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, DocumentBlock
from tokenbox.errors import ContextCriticalOverflow, NothingFits, TokenizerError, plural, raise_budget
from tokenbox.folder.candidates import PieceForm, numbered
from tokenbox.folder.choosing import UNUSED_SHARE, WITH_QUERY, WITHOUT_QUERY, Board
from tokenbox.folder.focus import in_focus
from tokenbox.folder.globs import last_match
from tokenbox.folder.introducing import introductions
from tokenbox.folder.listing import FileShown, Listing, file_tree, folders, folders_only
from tokenbox.folder.option_values import FileOrder
from tokenbox.folder.options import PackOptions
from tokenbox.folder.packed import PackedFile, PackedFolder
from tokenbox.folder.summaries import summary_of
from tokenbox.folder.weighing import weigh
from tokenbox.proof.errors import SinkInvalid
from tokenbox.render.registry import find_renderer
from tokenbox.render.templates import block_body
from tokenbox.tokenizers.registry import as_tokenizer
from tokenbox.tokenizers.utf8 import utf8
from tokenbox.worth.scorers import scorer_name

if TYPE_CHECKING:
    from tokenbox.compose.blocks import BlockLayout
    from tokenbox.content.blocks import Block, FileTreeBlock
    from tokenbox.engine.choice import Choice, Upgrade
    from tokenbox.folder.ahead import CountAhead
    from tokenbox.folder.focus import InFocus
    from tokenbox.folder.introducing import Introduction
    from tokenbox.folder.listing import Folder
    from tokenbox.folder.source import Source
    from tokenbox.proof.evidence import Sink
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer
    from tokenbox.worth.scorers import Worth

# Token limit of the tree: 1/50 of the budget, but at least 160 tokens; never more than a fifth of the budget.
_TREE_SHARE, _TREE_MIN, _TREE_MAX_SHARE = 50, 160, 5
# How many files are candidates, those of most worth first: up to this factor of the budget plus these tokens.
# It is more without a query, as outlines come first then. The factor grows by ``_CANDIDATE_GROWTH`` as long
# as too much of the budget is left. No file counts for more than ``_CANDIDATE_MAX``, so that a few large ones
# do not keep out the others, nor for less than ``_CANDIDATE_MIN``: the markup around one takes tokens.
_CANDIDATES_WITH_QUERY, _CANDIDATES_WITHOUT = (3, 40_000), (8, 100_000)
_CANDIDATE_GROWTH, _CANDIDATE_MIN, _CANDIDATE_MAX = 4, 80, 4_000
# A folder with more bytes than this for each token of the budget does not fit, unless it is mostly blanks: it
# is weighed before its tokens are known.
_MAX_BYTES_PER_TOKEN = 16
# How many files are counted at once.
_AT_ONCE = 256
# Tokens left over that do not justify another round.
_LEFTOVER = 24
_MAX_ROUNDS = 12
# The budget in place of none, for files of which only a part may be shown.
_HOLDS_ALL = 1 << 40


def pack_source(
    source: Source,
    tokenizer: str | Tokenizer | Callable[[str], int],
    budget: int | None = None,
    mode: str = "xml",
    *,
    options: PackOptions | None = None,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    ahead: CountAhead | None = None,
) -> PackedFolder:
    """Render the files of ``source`` in at most ``budget`` tokens; all of them in full if they fit.

    ``ahead`` may still be counting the texts, into ``cache``. Raises ``ContextCriticalOverflow`` if the
    changes, the instructions and the critical files alone do not fit, ``NothingFits`` if not even the tree
    fits, and ``FocusProblem`` if a focus is not in the pack.
    """
    options = options or PackOptions()
    SinkInvalid.check(proof)
    counter = Counter(as_tokenizer(tokenizer), cache)
    packer = _Packer(source, counter, budget, find_renderer(mode).name, options, cache, proof)
    packer.count(ahead)
    return packer.everything() or packer.chosen()


class _Draft(NamedTuple):
    """What a pack shows: the text of the tree, the text of each file (None: all of it), and its form."""

    tree: str
    texts: Mapping[int, str | None]
    forms: Mapping[int, FileShown]
    gap: int | None = None


@dataclass(slots=True)
class _Packer:
    """The arguments of ``pack_source``, checked, and what is known of the files.

    ``focus``: read at once, as a misspelt name is an error even if everything fits. ``texts``: the numbers of
    the files with a text. ``tokens`` and ``worths``: of these files. ``tree``: the block of all files.
    """

    source: Source
    counter: Counter
    budget: int | None
    mode: str
    options: PackOptions
    cache: CountCache | None
    proof: Sink | None
    focus: Sequence[InFocus] = field(init=False)
    texts: list[int] = field(init=False)
    tokens: dict[int, int] = field(default_factory=dict)
    worth: Worth | None = None
    worths: dict[int, int] = field(default_factory=dict)
    tree: FileTreeBlock = field(init=False)
    ranks: list[int] = field(init=False)
    best_forms: list[PieceForm] = field(init=False)

    def __post_init__(self) -> None:
        files = self.source.files
        self.focus = in_focus(files, self.options.focus, self.cache)
        self.texts = [i for i, file in enumerate(files) if file.text is not None]
        self.tree = file_tree({file.path: file.size for file in files})
        self.ranks = [int(Priority.NORMAL if file.asked is None else file.asked) for file in files]
        self.best_forms = self._allowed_forms()

    def count(self, ahead: CountAhead | None) -> None:
        """Count the texts. Files that cannot all fit are weighed while ``ahead`` counts."""
        files, budget = self.source.files, self.budget
        missing = self.texts
        if ahead is not None:
            ahead.submit()
            if budget is not None and self.source.size > _MAX_BYTES_PER_TOKEN * budget:
                self._weighed()
            ahead.wait()
            if ahead.tokenizer.identity == self.counter.tokenizer.identity:
                known = ((i, ahead.counts.get(files[i].data)) for i in self.texts)
                self.tokens = {i: count for i, count in known if count is not None}
                missing = [i for i in self.texts if i not in self.tokens]
        # In groups, as all texts at once would take as much memory again.
        for start in range(0, len(missing), _AT_ONCE):
            group = missing[start : start + _AT_ONCE]
            sizes = self.counter.count_all([files[i].data.decode() for i in group])
            self.tokens.update(zip(group, sizes, strict=True))

    def everything(self) -> PackedFolder | None:
        """Return all files in full, or None if that does not fit."""
        if self.budget is not None and sum(self.tokens.values()) > self.budget:
            return None
        if self.options.levels and min(self.best_forms) is not PieceForm.FULL:
            return None
        if self.options.order is FileOrder.WORTH:
            self._by_worth(self._weighed())
        room = None if self.budget is None else _tree_room(self.budget)
        tree = self._listing(self._folders(), room).text(None)
        texts: dict[int, str | None] = dict.fromkeys(self.texts)
        draft = _Draft(tree, texts, dict.fromkeys(self.texts, FileShown.FULL))
        rendering = self._render(draft)
        return None if rendering.over else self._packed(draft, rendering)

    def chosen(self) -> PackedFolder:
        """Return a pack of the pieces worth most, up to the budget."""
        budget = _HOLDS_ALL if self.budget is None else self.budget
        worth = self._weighed()
        order = self._by_worth(worth)
        kept = self._kept()
        free = budget - self._fixed(kept, budget)
        depths = WITH_QUERY if worth.is_led else WITHOUT_QUERY
        factor, more = _CANDIDATES_WITH_QUERY if worth.is_led else _CANDIDATES_WITHOUT
        correction = 0
        root = self._folders()
        introduced = [] if worth.is_led else self._introductions()
        board = Board(
            self.source.files,
            [self.tokens.get(i, 0) for i in range(len(self.source.files))],
            self.counter,
            self.mode,
            line_numbers=self.options.line_numbers,
            memory=self.cache,
        )
        candidates: list[int] | None = None
        upgrades: list[Upgrade] = []
        for _ in range(_MAX_ROUNDS):
            board.reset()
            room = min(_tree_room(budget), max(0, free - correction))
            listing = self._listing(root, room)
            content = free - correction - (room if listing.is_cut else listing.size)
            if candidates is None:
                candidates = self._candidates(order, budget * factor + more)
                board.add([*kept, *candidates, *(introduction.file for introduction in introduced)])
                upgrades = board.upgrades(worth, self.ranks, depths, self.best_forms)
            board.keep(kept)
            choice = board.run(upgrades, max(0, content), depths, introduced)
            if choice.left > budget // 50 + _LEFTOVER and len(candidates) < len(order):
                factor *= _CANDIDATE_GROWTH
                candidates = None
                continue
            draft = self._draft(board, listing, choice)
            if not (draft.tree or draft.texts or self.source.leading or self.source.trailing):
                return self._tree_alone(self._listing(root, max(0, free)), budget, free)
            rendering = self._render(draft)
            if rendering.over:
                # A correction by the excess alone would only use up the room left, and choose the same.
                correction += rendering.over + max(0, choice.left)
                continue
            unused = budget - rendering.total
            if listing.is_cut and unused * UNUSED_SHARE > budget:
                fuller = self._draft(board, self._listing(root, room + unused), choice)
                larger = self._render(fuller)
                if not larger.over:
                    draft, rendering = fuller, larger
            return self._packed(draft, rendering)
        name = self.counter.tokenizer.identity.name
        raise TokenizerError(f"the counter {name} is not consistent: a count must depend on the text only.")

    def _weighed(self) -> Worth:
        if self.worth is None:
            self.worth = weigh(self.source, self.options, self.focus, self.cache)
        return self.worth

    def _by_worth(self, worth: Worth) -> list[int]:
        self.worths = {i: worth.document(i) for i in self.texts}
        return sorted(self.texts, key=lambda i: (self.ranks[i], -self.worths[i], i))

    def _allowed_forms(self) -> list[PieceForm]:
        """Return the best form that the level rules allow for each file."""
        level_of = last_match([(rule.glob, rule.level) for rule in self.options.levels])
        levels = (level_of(file.path) for file in self.source.files)
        return [PieceForm.FULL if level is None else level for level in levels]

    def _candidates(self, order: Sequence[int], tokens: int) -> list[int]:
        found: list[int] = []
        for i in order:
            if tokens <= 0:
                break
            found.append(i)
            tokens -= min(max(self.tokens[i], _CANDIDATE_MIN), _CANDIDATE_MAX)
        return found

    def _introductions(self) -> list[Introduction]:
        if int(Priority.HIGH) in self.ranks:  # all of these files come first
            return []
        return [
            introduction
            for introduction in introductions(self.source.files)
            if self.best_forms[introduction.file] is PieceForm.FULL
        ]

    def _folders(self) -> Folder:
        worths = self.worths
        return folders(
            (file.path, self.tokens.get(i), worths.get(i, 0)) for i, file in enumerate(self.source.files)
        )

    def _listing(self, root: Folder, room: int | None) -> Listing:
        def counts(lines: Sequence[str]) -> list[int]:
            self.counter.count_small(lines)
            return [self.counter.small(line) for line in lines]

        return Listing(root, room, counts)

    def _kept(self) -> list[int]:
        """Return the files of priority critical, which are always shown in full."""
        return [
            i
            for i in self.texts
            if self.source.files[i].asked is Priority.CRITICAL and self.best_forms[i] is PieceForm.FULL
        ]

    def _fixed(self, kept: Sequence[int], budget: int) -> int:
        """Count the blocks of every pack, the critical files and the markup around all of it.

        Raises ``ContextCriticalOverflow`` if they exceed the budget.
        """
        markup, counter = find_renderer(self.mode), self.counter
        blocks = [*self.source.leading, *self.source.trailing, *(self._block(i, full=True) for i in kept)]
        sizes = [counter.small(markup.full(block).text + "\n\n") for block in blocks]
        frame = markup.summary(self.tree, "")
        outer = (f"{markup.start}\n", frame.before, f"{frame.after}\n\n", markup.end)
        total = sum(sizes) + sum(map(counter.small, outer))
        if total > budget and blocks:
            # The sum is an upper bound, because tokens may span the borders of blocks: count the real text.
            total = render_blocks(
                blocks, counter.tokenizer, None, self.mode, verbosity="full", cache=self.cache
            ).total
            if total <= budget:
                return total
            names = [block.title if isinstance(block, DocumentBlock) else block.path for block in blocks]
            raise ContextCriticalOverflow(
                fixed_load=total,
                budget=budget,
                critical=list(zip(names, sizes, strict=True)),
                smallest_change=raise_budget(budget, total),
                estimate=not counter.tokenizer.identity.exact,
                what="blocks",
            )
        return total

    def _draft(self, board: Board, listing: Listing, choice: Choice) -> _Draft:
        """Return what the board shows."""
        forms = {}
        texts = {}
        for i, candidate in board.shown.items():
            texts[i] = candidate.text()
            has_body = PieceForm.FULL in candidate.forms
            forms[i] = (
                FileShown.FULL if texts[i] is None else FileShown.FOCUSED if has_body else FileShown.OUTLINE
            )
        tree = listing.text({self.source.files[i].path: how for i, how in forms.items()})
        return _Draft(tree, texts, forms, choice.gap_permille)

    def _render(self, draft: _Draft, proof: Sink | None = None) -> BlockLayout:
        order = sorted(draft.texts)
        if self.options.order is FileOrder.WORTH:  # the best last, nearest to the question
            order.sort(key=lambda i: self.worths.get(i, 0))
        blocks: list[Block] = [replace(self.tree, summary=draft.tree)] if draft.tree else []
        blocks += self.source.leading
        texts = draft.texts
        blocks += [replace(self._block(i, full=texts[i] is None), summary=texts[i]) for i in order]
        blocks += self.source.trailing
        render = render_blocks if proof is None else self._proven(proof, draft.forms)
        return render(
            blocks,
            self.counter.tokenizer,
            self.budget,
            self.mode,
            verbosity="summary",
            cache=self.cache,
        )

    def _packed(self, draft: _Draft, rendering: BlockLayout) -> PackedFolder:
        """Return the pack of a draft that fits, rendered again if it needs a proof."""
        if self.proof is not None:
            rendering = self._render(draft, self.proof)
        forms, listed = draft.forms, FileShown.LISTED
        files = tuple(
            PackedFile(file.name, file.size, self.tokens.get(i), forms.get(i, listed), self.worths.get(i))
            for i, file in enumerate(self.source.files)
        )
        blocks, notes = rendering.inputs, self.source.notes
        return PackedFolder(rendering, files, self.options, draft.gap, blocks, notes)

    def _proven(self, proof: Sink, forms: Mapping[int, FileShown]) -> Callable[..., BlockLayout]:
        """Return ``render_blocks`` with proof; the evidence includes the options and each file's worth."""
        from tokenbox.proof.calls import proven  # a third of the start, and most need none
        from tokenbox.proof.of_blocks import CHOICE, RENDER_BLOCKS

        options, query = self.options, self.options.query
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
                "id": f"{CHOICE} {self.source.files[i].name}",
                "decision": forms.get(i, FileShown.LISTED).name.lower(),
                "base_size": self.tokens[i],
                "worth": None if i not in self.worths else str(self.worths[i]),
            }
            for i in self.texts
        ]
        return proven(
            RENDER_BLOCKS,
            lambda evidence: proof(replace(evidence, decisions=(*evidence.decisions, asked, *files))),
        )

    def _block(self, i: int, *, full: bool) -> CodeBlock | DocumentBlock:
        file = self.source.files[i]
        block = file.block()
        if full and self.options.line_numbers:
            return replace(block, content=numbered(file.data.decode(), file.line_numbers()).encode())
        return block

    def _tree_alone(self, listing: Listing, budget: int, free: int) -> PackedFolder:
        """Return as much of the tree as fits, for a budget in which no file fits.

        Raises ``NothingFits`` with a budget in which the smallest tree fits.
        """
        draft = _Draft(listing.text({}), {}, {})
        if draft.tree and not (rendering := self._render(draft)).over:
            return self._packed(draft, rendering)
        least = budget - free + listing.least
        raise NothingFits(
            f"nothing of these files fits into {plural(budget, 'token')}; a line of their tree fits into "
            f"{least:,}. Raise the budget to {least:,} or more.",
            budget=budget,
            minimum_budget=least,
            blocks=len(self.source.files),
        )


def _tree_room(budget: int) -> int:
    return min(max(_TREE_MIN, budget // _TREE_SHARE), budget // _TREE_MAX_SHARE)


def as_blocks(source: Source) -> tuple[Block, ...]:
    """Return the source as the blocks of a ``.bcp`` pack: with summaries, then annotations of priorities."""
    tree = file_tree({file.path: file.size for file in source.files})
    blocks: list[Block] = [_summarized(tree, folders_only(tree)), *source.leading]
    urgency = [Priority.HIGH, *[Priority.CRITICAL] * len(source.leading)]
    for file in source.files:
        if file.text is not None:
            block = file.block()
            blocks.append(_summarized(block, summary_of(block_body(block), file.kind.outline)))
            urgency.append(file.prior.priority if file.asked is None else file.asked)
    blocks += source.trailing
    urgency += [Priority.CRITICAL] * len(source.trailing)
    blocks += [
        AnnotationBlock.of_priority(index, priority)
        for index, priority in enumerate(urgency)
        if priority is not Priority.NORMAL
    ]
    return tuple(blocks)


def _summarized(block: Block | FileTreeBlock, summary: str | None) -> Block:
    return block if summary is None else replace(block, summary=summary)
