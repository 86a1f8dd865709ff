"""Score the files of a folder and their pieces by their relevance to the query (docs/pack.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.folder.cutting import cut_all, names_in
from tokenbox.folder.git import past_changes
from tokenbox.worth.documents import Document, DocumentRole
from tokenbox.worth.query import NamedPath, read_query
from tokenbox.worth.recent import RecentWork
from tokenbox.worth.references import with_references
from tokenbox.worth.relevance import Relevance, history_scores
from tokenbox.worth.scorers import Scored, scorer_of
from tokenbox.worth.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.folder.focus import InFocus
    from tokenbox.folder.options import PackOptions
    from tokenbox.folder.source import Source
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.scorers import Worth


_ROLES = {
    "source": DocumentRole.SOURCE,
    "migration": DocumentRole.SOURCE,
    "test": DocumentRole.TEST,
}


def weigh(
    source: Source, options: PackOptions, focus: Sequence[InFocus] = (), memory: CountCache | None = None
) -> Worth:
    """Return the worth of each file and piece. ``memory`` caches the names that files define.

    ``focus``: what the options' own focus names. Raises ``ScorerProblem``.
    """
    has_goal = options.asks(source)
    roles = [_ROLES.get(file.prior.name, DocumentRole.OTHER) for file in source.files]
    code = [
        i
        for i, file in enumerate(source.files)
        if file.text is not None and roles[i] is not DocumentRole.OTHER
    ]
    contents = [(source.files[i].data, source.files[i].kind.outline) for i in code]
    names = dict(zip(code, names_in(contents, memory), strict=True))
    query = read_query(options.query or "")
    percents = {
        prior: prior.with_query(query) if has_goal else prior.alone
        for prior in {file.prior for file in source.files}
    }
    documents = [
        Document(
            file.name,
            file.data,
            percents[file.prior],
            roles[i],
            names.get(i),
            file.prior.if_about,
            file.lines,
        )
        for i, file in enumerate(source.files)
    ]
    past = past_changes(source.root, lines=not has_goal) if options.history else []
    recent = RecentWork(past, documents) if past else None
    if not has_goal:
        return Standing(documents, recent=recent)
    if focus or source.changes:
        query = with_references(query, documents, *_near(source, focus, memory))
    extra = history_scores(past, query, documents)
    worth = Relevance(documents, query, extra, recent, standing=True)
    if options.scorer is None:
        return worth
    return Scored(worth, scorer_of(options.scorer), options.query or "", documents)


def _near(
    source: Source, focus: Sequence[InFocus], memory: CountCache | None
) -> tuple[list[bytes], list[NamedPath]]:
    """Return the texts in focus, the changes with the pieces around them, and the places of all."""
    texts, places = [one.text for one in focus], [one.place for one in focus]
    files = {file.name: file for file in source.files}
    for change in source.changes:
        touched: set[int] = set()
        for hunk in change.hunks:
            changed = [line[1:] for line in hunk.lines.split(b"\n") if line[:1] in {b"+", b"-", b"@"}]
            texts.append(b"\n".join(changed))
            touched |= set(range(hunk.new_start, hunk.new_start + hunk.lines.count(b"\n")))
        file = files.get(change.path)
        if file is not None and file.text is not None:
            pieces = cut_all([(file.data, file.kind.outline)], memory)[0].pieces
            texts += [
                file.data[piece.start : piece.end]
                for piece in pieces
                if not touched.isdisjoint(range(piece.first + 1, piece.last + 1))
            ]
        places.append(NamedPath(change.path, tuple(sorted(touched)), is_whole=file is not None))
    return texts, places
