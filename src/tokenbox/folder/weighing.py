"""What the files of a folder and their pieces are worth to what the pack is for (docs/pack.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.folder.cutting import names_in
from tokenbox.folder.history import past_changes
from tokenbox.folder.pieces import shape
from tokenbox.worth.documents import Document, DocumentRole
from tokenbox.worth.query import NamedPath, read_query
from tokenbox.worth.references import nearby
from tokenbox.worth.relevance import Relevance, lately, remembered
from tokenbox.worth.scorers import Scored, scorer_of
from tokenbox.worth.standing import Standing

if TYPE_CHECKING:
    from tokenbox.folder.packing import PackOptions
    from tokenbox.folder.source import File, Source
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.scorers import Worth


class FocusProblem(TokenboxError):
    """What is to be in focus is not in the pack."""

    code = "focus_not_found"


def weigh(source: Source, options: PackOptions, memory: CountCache | None = None) -> Worth:
    """The worth of each file and piece. ``memory`` may know the names that files define.

    Raises :class:`FocusProblem` and ``ScorerProblem``.
    """
    asks = options.asks(source)
    roles = [_role(file) for file in source.files]
    read = [
        i
        for i, file in enumerate(source.files)
        if file.text is not None and roles[i] is not DocumentRole.OTHER
    ]
    names = dict(zip(read, names_in([source.files[i].text or b"" for i in read], memory), strict=True))
    documents = [
        Document(
            file.name,
            file.text or b"",
            file.prior.percent if asks else file.prior.alone,
            roles[i],
            names.get(i),
        )
        for i, file in enumerate(source.files)
    ]
    if not asks:
        return Standing(documents)
    query = read_query(options.query or "")
    if options.focus or source.changes:
        query = nearby(query, documents, *_near(source, options.focus))
    past = past_changes(source.root) if options.history else []
    extra, fresh = remembered(past, query, documents), lately(past, documents)
    worth = Relevance(documents, query, extra, fresh, standing=True)
    if options.scorer is None:
        return worth
    return Scored(worth, scorer_of(options.scorer), options.query or "", documents)


def _near(source: Source, focus: tuple[str, ...]) -> tuple[list[bytes], list[NamedPath]]:
    """The texts that are in focus or were changed, and where they are."""
    texts: list[bytes] = []
    places: list[NamedPath] = []
    for named in focus:
        path, _, symbol = named.partition(":")
        found = [file for file in source.files if file.name == path or file.name.endswith(f"/{path}")]
        if not found:
            raise FocusProblem(f"--focus {named}: there is no file {path!r} in the pack.", path=path)
        for file in found[:1]:
            text, lines = (file.text or b"", ()) if not symbol else _part_of(file, symbol)
            texts.append(text)
            places.append(NamedPath(file.name, lines))
    for change in source.changes:
        touched: list[int] = []
        for hunk in change.hunks:
            changed = [line[1:] for line in hunk.lines.split(b"\n") if line[:1] in {b"+", b"-", b"@"}]
            texts.append(b"\n".join(changed))
            touched += list(range(hunk.new_start, hunk.new_start + hunk.lines.count(b"\n")))
        places.append(NamedPath(change.path, tuple(touched)))
    return texts, places


def _part_of(file: File, symbol: str) -> tuple[bytes, tuple[int, ...]]:
    """The pieces of a file that define ``symbol``, and their lines. Raises :class:`FocusProblem`."""
    data = file.text or b""
    pieces = [p for p in shape(data, file.kind.outline).pieces if symbol in p.names or symbol in p.within]
    if not pieces:
        raise FocusProblem(f"--focus {file.name}:{symbol}: the file defines no {symbol!r}.", path=file.name)
    lines = tuple(line for piece in pieces for line in range(piece.first + 1, piece.last + 1))
    return b"".join(data[piece.start : piece.end] for piece in pieces), lines


def _role(file: File) -> DocumentRole:
    return {"source": DocumentRole.SOURCE, "test": DocumentRole.TEST}.get(file.prior.name, DocumentRole.OTHER)
