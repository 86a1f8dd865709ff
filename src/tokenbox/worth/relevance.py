"""The worth of documents and pieces to a query: by words, names, paths, lines, and the kind of document.

    worth(piece) = prior(document) * (match(piece) + part of match(document) + bonus for what the query names)

A piece inherits part of its document's match, because a relevant piece is usually in a relevant file.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tokenbox.characters import lower
from tokenbox.worth.documents import DocumentRole
from tokenbox.worth.fixed import SCALE
from tokenbox.worth.lexical import FILE, PIECE, WINDOW, Lexical, Match, tokens
from tokenbox.worth.standing import Standing

if TYPE_CHECKING:
    from tokenbox.worth.documents import Document, PieceSpan
    from tokenbox.worth.query import Query
    from tokenbox.worth.recent import PastChange, RecentWork

# All weights are percentages.
# The share of its document's match that a piece inherits.
DOCUMENT = 50
# Bonuses for a symbol, path or line that the query names, in percent of the best match.
SYMBOL, ENCLOSING_SYMBOL = 8, 3
PLACE = 35
LINE = 300
# The bonus of a definition that the query names in a document that it names: a function of a traceback, whose
# line may be that of another version.
IN_PLACE = 100
# The bonus of a member that the query names with its type, module or file: ``Session.get``, ``store.Open``.
MEMBER = 50
# A document that mentions a symbol of the query gets the bonus of an enclosing one, unless more documents
# than this mention it.
_MENTIONS = 12
# The first piece of a document, with its imports, inherits this much more.
FIRST = 60
# A piece next to a match gets this share of the match.
NEIGHBOUR = 15
# A piece gets this share of the average match of the best documents in its folder.
FOLDER, _BEST_OF_FOLDER = 30, 5
# The document of highest standing gets this share of the best match, which decides if the query matches
# little.
STANDING = 25
# A document gets this share of the match of its test, and a test of the tested document's, if at most
# _NAMESAKES documents have the name.
OF_TEST, OF_TESTED, _NAMESAKES = 30, 25, 2
_TEST_NAME = re.compile(r"^[Tt]est_?|[_-]?(?:[Tt]ests?|[Ss]pec)$")
# A document whose path the query names has at least this prior.
NAMED_PRIOR = 60
# A query is about a document that is no source if the match is this percentage of that of the best source.
ABOUT = 110
# The document with the best history gets this share of the best match. The match of the busiest document
# is raised by RECENT.
HISTORY, RECENT = 40, 50
# The number of past changes that count, and the maximum number of files of such a change.
_MESSAGES, _MAX_PATHS = 100, 12
# The number of path components that count: the file name and the folders around it.
_PATH_COMPONENTS = 3


def history_scores(
    changes: Sequence[PastChange], query: Query, documents: Sequence[Document]
) -> dict[int, int]:
    """Score documents by history: the match of past commit messages, credited to the changed documents.

    ``changes``: the latest first.
    """
    lexical = Lexical(query)
    matches = [lexical.read(change.message) for change in changes]
    lexical.finish()
    usual = sum(len(change.message) for change in changes) // max(1, len(changes))
    scores = [
        (lexical.score(match, {}, {}, len(changes[number].message), usual, PIECE), number)
        for number, match in enumerate(matches)
        if match
    ]
    scores.sort(key=lambda one: (-one[0], one[1]))
    places = {document.path: i for i, document in enumerate(documents)}
    credit: dict[int, int] = {}
    for score, number in scores[:_MESSAGES]:
        paths = changes[number].paths
        for path in paths if len(paths) <= _MAX_PATHS else ():
            if (i := places.get(path)) is not None:
                credit[i] = max(credit.get(i, 0), score) + (score // 8 if i in credit else 0)
    return credit


class Relevance:
    """The worth of documents and of their pieces to a query.

    From the history: ``extra[i]`` is added to the match of document ``i``, and recent work raises it by up to
    half. With ``standing``, references by other documents count a little.
    """

    is_led = True

    def __init__(
        self,
        documents: Sequence[Document],
        query: Query,
        extra: Mapping[int, int] | None = None,
        recent: RecentWork | None = None,
        *,
        standing: bool = False,
    ) -> None:
        self._documents = documents
        self._query = query
        self._lexical = Lexical(query)
        self._scans: dict[int, Match] = {}
        bodies: list[Counter[int]] = []
        reading = self._read(bodies)
        known = Standing(documents, reading) if standing else None
        self._shares = [] if known is None else known.shares
        self._max_share = max(self._shares, default=0) or 1
        deque(reading, maxlen=0)
        self._lexical.finish()
        self._paths: dict[int, Counter[int]] = {}
        self._in_folders: dict[str, Counter[int]] = {}
        self._named_lines = self._named_documents()
        self._scores: dict[int, int] = {}
        self._mentions = [self._lexical.rare_symbol(body, _MENTIONS) for body in bodies]
        usual = sum(len(document.data) for document in documents) // max(1, len(documents))
        for i, (document, body) in enumerate(zip(documents, bodies, strict=True)):
            path = self._in_path(document.path)
            if body or path:
                self._paths[i] = path
                self._scores[i] = self._lexical.score(body, {}, path, len(document.data), usual, FILE)
        self._about = self._best_of_all()
        for i, score in self._test_scores().items():
            self._scores[i] = self._scores.get(i, 0) + score
        self._best = max([SCALE, *self._scores.values()])
        most = max((extra or {}).values(), default=0)
        for i, value in (extra or {}).items():
            self._scores[i] = self._scores.get(i, 0) + self._best * value * HISTORY // (100 * (most or 1))
        if recent is not None:
            for i, score in self._scores.items():
                self._scores[i] = score + score * RECENT * recent.document(i) // (100 * SCALE)
        self._folders = self._folder_scores()

    def _read(self, bodies: list[Counter[int]]) -> Iterator[set[bytes]]:
        """Yield the identifiers of each document, and append its words of the query to ``bodies``."""
        for document in self._documents:
            found = tokens(document.data)
            names = set(found)
            bodies.append(self._lexical.read_tokens(found, names, len(document.data)))
            yield names

    def document(self, i: int) -> int:
        """Return the worth of document ``i``: at least its prior, so that all documents are ordered."""
        score = self._scores.get(i, 0) + self._context_score(i)
        score += self._best * ENCLOSING_SYMBOL * self._mentions[i] // 100
        if i in self._named_lines:
            score += self._best * PLACE // 100
        return score * self._percent(i) // 100 + self._documents[i].percent

    def piece(self, i: int, span: PieceSpan) -> int:
        """Return the worth of a piece of document ``i``, ignoring its neighbours."""
        return self._piece_worth(i, span, self._piece_match(i, span))

    def _piece_match(self, i: int, span: PieceSpan) -> int:
        """Return the match of a piece by its words, names and path."""
        names: Counter[int] = Counter()
        for name, times in ((span.names, 2), (span.within, 1)):
            for word, often in self._lexical.in_names(name).items():
                names[word] += often * times
        body = self._scan(i).between(span.start, span.end)
        return self._lexical.score(body, names, self._paths.get(i, {}), span.end - span.start, WINDOW, PIECE)

    def _piece_worth(self, i: int, span: PieceSpan, match: int) -> int:
        """Return the worth of a piece from its match."""
        share = DOCUMENT if span.first else DOCUMENT * (100 + FIRST) // 100
        score = match + self._scores.get(i, 0) * share // 100 + self._context_score(i)
        score += self._best * (self._symbol_bonus(span) + self._member_bonus(i, span)) // 100
        lines = self._named_lines.get(i)
        if lines is not None:
            score += self._best * PLACE // 100
            if bisect_right(lines, span.first) < bisect_right(lines, span.last):
                score += self._best * LINE // 100
            if not self._query.symbols.keys().isdisjoint(span.names):
                score += self._best * IN_PLACE // 100
        return score * self._percent(i) // 100 + self._documents[i].percent

    def _symbol_bonus(self, span: PieceSpan) -> int:
        """Return the bonus of a piece that defines a symbol of the query, or is inside of one."""
        symbols = self._query.symbols
        own = max((symbols.get(name, 0) for name in span.names), default=0)
        around = max((symbols.get(name, 0) for name in span.within), default=0)
        return own * SYMBOL + around * ENCLOSING_SYMBOL

    def _member_bonus(self, i: int, span: PieceSpan) -> int:
        """Return the bonus of a piece that defines what the query names with its type or file."""
        named = [found for name in span.names if (found := self._query.members.get(name))]
        if not named:
            return 0
        module = self._documents[i].path.rpartition("/")[2].partition(".")[0]
        around = {lower(name) for name in (*span.within, *span.names, module)}
        return MEMBER if any(not around.isdisjoint(one) for one in named) else 0

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]]) -> list[int]:
        """Return the worth of each piece. Each is given with the number of its document.

        All pieces of a document are consecutive. A piece next to a match is worth more than alone.
        """
        matches = [self._piece_match(i, span) for i, span in pieces]
        worths = []
        for n, (i, span) in enumerate(pieces):
            beside = [m for m in (n - 1, n + 1) if 0 <= m < len(pieces) and pieces[m][0] == i]
            near = max((matches[m] for m in beside), default=0) * NEIGHBOUR // 100
            worths.append(self._piece_worth(i, span, matches[n] + near))
        return worths

    def _scan(self, i: int) -> Match:
        if i not in self._scans:
            self._scans[i] = self._lexical.scan(self._documents[i].data)
        return self._scans[i]

    def _context_score(self, i: int) -> int:
        """Return the score of document ``i`` from its folder and its standing."""
        score = self._folders.get(_folder(self._documents[i].path), 0) * FOLDER // 100
        if self._shares:
            score += self._best * STANDING * self._shares[i] // (100 * self._max_share)
        return score

    def _test_scores(self) -> dict[int, int]:
        """Score documents by the match of their tests, and tests by the tested documents, paired by name."""
        tested: dict[str, list[int]] = {}
        tests: list[tuple[int, str]] = []
        for i, document in enumerate(self._documents):
            name = document.path.rpartition("/")[2].partition(".")[0]
            bare = _TEST_NAME.sub("", name)
            if bare != name or "test" in lower(document.path):
                tests.append((i, lower(bare)))
            else:
                tested.setdefault(lower(name), []).append(i)
        found: dict[int, int] = {}
        for i, bare in tests:
            of = tested.get(bare, [])
            for j in of if len(of) <= _NAMESAKES else []:
                found[j] = max(found.get(j, 0), self._scores.get(i, 0) * OF_TEST // 100)
                found[i] = max(found.get(i, 0), self._scores.get(j, 0) * OF_TESTED // 100)
        return found

    def _folder_scores(self) -> dict[str, int]:
        """Return the average match of the best documents of each folder."""
        found: dict[str, list[int]] = {}
        for i, document in enumerate(self._documents):
            score = self._scores.get(i, 0) * document.percent // 100
            found.setdefault(_folder(document.path), []).append(score)
        best = {folder: sorted(scores)[-_BEST_OF_FOLDER:] for folder, scores in found.items()}
        return {folder: sum(scores) // len(scores) for folder, scores in best.items()}

    def _percent(self, i: int) -> int:
        document = self._documents[i]
        percent = max(document.percent, document.if_about) if i in self._about else document.percent
        return max(percent, NAMED_PRIOR) if i in self._named_lines else percent

    def _best_of_all(self) -> frozenset[int]:
        """Return the documents other than source that match better than the best source."""
        roles = [document.role for document in self._documents]
        best = max((score for i, score in self._scores.items() if roles[i] is DocumentRole.SOURCE), default=0)
        return frozenset(
            i
            for i, score in self._scores.items()
            if roles[i] is DocumentRole.OTHER and score * 100 >= max(1, best * ABOUT)
        )

    def _in_path(self, path: str) -> Counter[int]:
        """Count the words of the query in the name of a file and of the folders around it."""
        folder, _, name = path.rpartition("/")
        if folder not in self._in_folders:
            self._in_folders[folder] = self._lexical.in_names(folder.split("/")[1 - _PATH_COMPONENTS :])
        found = self._lexical.in_names([name])
        if around := self._in_folders[folder]:
            found.update(around)
        return found

    def _named_documents(self) -> dict[int, list[int]]:
        """Return the documents that the query names, with the lines of each, in order.

        The path in the query may be a suffix of a document's path. Or it may end with one, like the path of
        an installed copy; then only the document with the longest path matches, not every ``index.js``.
        """
        called: dict[str, list[tuple[int, str]]] = {}
        for i, document in enumerate(self._documents if self._query.places else ()):
            called.setdefault(document.path.rpartition("/")[2], []).append((i, f"/{document.path}"))
        found: dict[int, list[int]] = {}
        for place in self._query.places:
            ends = f"/{place.path}"
            paths = called.get(place.path.rpartition("/")[2], [])
            named = [i for i, path in paths if (path == ends if place.is_whole else path.endswith(ends))]
            if not named:
                within = [(len(path), i) for i, path in paths if ends.endswith(path)]
                named = [i for _, i in sorted(within)[-1:]]
            for i in named:
                found.setdefault(i, []).extend(place.lines)
        return {i: sorted(self._in_text(i, lines)) for i, lines in found.items()}

    def _in_text(self, i: int, lines: Sequence[int]) -> Sequence[int]:
        """Return where the lines of document ``i`` are in its text, or the next that was not removed."""
        left = self._documents[i].lines
        return lines if left is None else [bisect_left(left, line) + 1 for line in lines]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
