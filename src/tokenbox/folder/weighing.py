"""Score the files of a folder and their pieces by their relevance to the query (docs/pack.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.folder.cutting import names_in
from tokenbox.folder.history import past_changes
from tokenbox.folder.pieces import shape
from tokenbox.worth.documents import Document, DocumentRole
from tokenbox.worth.query import NamedPath, read_query
from tokenbox.worth.recent import RecentWork
from tokenbox.worth.references import with_references
from tokenbox.worth.relevance import Relevance, history_scores
from tokenbox.worth.scorers import Scored, scorer_of
from tokenbox.worth.standing import Standing

if TYPE_CHECKING:
    from tokenbox.folder.options import PackOptions
    from tokenbox.folder.source import File, Source
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.scorers import Worth


class FocusProblem(TokenboxError, code="focus_not_found"):
    """A ``--focus`` names a file or symbol that is not in the pack."""


def weigh(source: Source, options: PackOptions, memory: CountCache | None = None) -> Worth:
    """Return the worth of each file and piece. ``memory`` caches the names that files define.

    Raises :class:`FocusProblem` and ``ScorerProblem``.
    """
    has_goal = options.asks(source)
    roles = [_role(file) for file in source.files]
    code = [
        i
        for i, file in enumerate(source.files)
        if file.text is not None and roles[i] is not DocumentRole.OTHER
    ]
    contents = [(source.files[i].data, source.files[i].kind.outline) for i in code]
    names = dict(zip(code, names_in(contents, memory), strict=True))
    documents = [
        Document(
            file.name,
            file.data,
            file.prior.percent if has_goal else file.prior.alone,
            roles[i],
            names.get(i),
        )
        for i, file in enumerate(source.files)
    ]
    past = past_changes(source.root, lines=not has_goal) if options.history else []
    recent = RecentWork(past, documents) if past else None
    if not has_goal:
        return Standing(documents, recent=recent)
    query = read_query(options.query or "")
    if options.focus or source.changes:
        query = with_references(query, documents, *_near(source, options.focus))
    extra = history_scores(past, query, documents)
    worth = Relevance(documents, query, extra, recent, standing=True)
    if options.scorer is None:
        return worth
    return Scored(worth, scorer_of(options.scorer), options.query or "", documents)


def in_focus(source: Source, focus: tuple[str, ...]) -> tuple[list[bytes], list[NamedPath]]:
    """Return the texts in focus and their places. Raises :class:`FocusProblem` if one is missing."""
    texts: list[bytes] = []
    places: list[NamedPath] = []
    for named in focus:
        path, _, symbol = named.partition(":")
        found = (file for file in source.files if file.name == path or file.name.endswith(f"/{path}"))
        file = next(found, None)
        if file is None:
            raise FocusProblem(f"--focus {named}: there is no file {path!r} in the pack.", path=path)
        text, lines = _part_of(file, symbol) if symbol else (file.data, ())
        texts.append(text)
        places.append(NamedPath(file.name, lines))
    return texts, places


def _near(source: Source, focus: tuple[str, ...]) -> tuple[list[bytes], list[NamedPath]]:
    """Return the texts that are in focus or were changed, and their places."""
    texts, places = in_focus(source, focus)
    for change in source.changes:
        touched: list[int] = []
        for hunk in change.hunks:
            changed = [line[1:] for line in hunk.lines.split(b"\n") if line[:1] in {b"+", b"-", b"@"}]
            texts.append(b"\n".join(changed))
            touched += list(range(hunk.new_start, hunk.new_start + hunk.lines.count(b"\n")))
        places.append(NamedPath(change.path, tuple(touched)))
    return texts, places


def _part_of(file: File, symbol: str) -> tuple[bytes, tuple[int, ...]]:
    """Return the pieces of a file that define ``symbol``, and their lines. Raises :class:`FocusProblem`."""
    pieces = [
        piece
        for piece in shape(file.data, file.kind.outline).pieces
        if symbol in piece.names or symbol in piece.within
    ]
    if not pieces:
        raise FocusProblem(f"--focus {file.name}:{symbol}: the file defines no {symbol!r}.", path=file.name)
    lines = tuple(line for piece in pieces for line in range(piece.first + 1, piece.last + 1))
    return b"".join(file.data[piece.start : piece.end] for piece in pieces), lines


def _role(file: File) -> DocumentRole:
    return {"source": DocumentRole.SOURCE, "test": DocumentRole.TEST}.get(file.prior.name, DocumentRole.OTHER)
