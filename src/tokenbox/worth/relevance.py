"""What the pieces of documents are worth to a query: by words, names, places, and the kind of document.

    worth(piece) = prior(document) * (match(piece) + part of match(document) + what the query names)

A piece inherits part of its document's match, because the right piece is most often in the right file.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from math import isqrt
from typing import TYPE_CHECKING

from tokenbox.characters import lower
from tokenbox.worth.fixed import SCALE
from tokenbox.worth.lexical import FILE, PIECE, WINDOW, Lexical, Match, identifiers
from tokenbox.worth.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tokenbox.worth.documents import Document, PieceSpan
    from tokenbox.worth.query import Query

# Percent of its document's match that a piece gets, and of the best match that what the query names gets.
DOCUMENT = 50
SYMBOL, ENCLOSING_SYMBOL = 8, 3
PLACE = 35
LINE = 300
# The first piece of a document, with what it imports, gets so much (percent) more of its document's match.
FIRST = 60
# The fewer pieces a document has, the more its match says of each: so much (percent), by the root of their
# number. What is next to a match is often needed with it.
SMALL, NEIGHBOUR = 30, 15
# What the best documents of its folder match on average is worth so much (percent) to a piece.
FOLDER, _BEST_OF_FOLDER = 30, 5
# Percent of the best match that the document of most standing gets: it decides where a query says little.
STANDING = 3
# Percent of the match of its test that a document gets, and a test of that of what it tests, where at most so
# many have its name.
OF_TEST, OF_TESTED, _NAMESAKES = 30, 25, 2
_TEST_NAME = re.compile(r"^[Tt]est_?|[_-]?(?:[Tt]ests?|[Ss]pec)$")
# A document whose path the query names has at least this prior.
NAMED_PRIOR = 60
# Percent of the best match that a document of which the history says most gets; and how much more (percent)
# the match of the document that was changed last is worth. After so many changes it is half of that.
HISTORY, LATELY, _HALF_LIFE = 40, 50, 20
# The messages of past changes that count, and how many files a change may have to say something of each.
_MESSAGES, _MOST_PATHS = 100, 12
# The folders of a path that count: the file, and those around it.
_STEPS = 3


def remembered(
    messages: Sequence[tuple[bytes, Sequence[str]]], query: Query, documents: Sequence[Document]
) -> dict[int, int]:
    """What past changes say of each document: how well their messages match, credited to what they changed.

    ``messages``: each with the paths that it changed, the latest first.
    """
    lexical = Lexical(query)
    matches = [lexical.read(identifiers(message), len(message)) for message, _ in messages]
    lexical.finish()
    usual = sum(len(message) for message, _ in messages) // max(1, len(messages))
    scores = [
        (lexical.score(match, {}, {}, len(messages[number][0]), usual, PIECE), number)
        for number, match in enumerate(matches)
        if match
    ]
    scores.sort(key=lambda one: (-one[0], one[1]))
    places = {document.path: i for i, document in enumerate(documents)}
    credit: dict[int, int] = {}
    for score, number in scores[:_MESSAGES]:
        paths = messages[number][1]
        for path in paths if len(paths) <= _MOST_PATHS else ():
            if (i := places.get(path)) is not None:
                credit[i] = max(credit.get(i, 0), score) + (score // 8 if i in credit else 0)
    return credit


def lately(messages: Sequence[tuple[bytes, Sequence[str]]], documents: Sequence[Document]) -> dict[int, int]:
    """How lately each document was changed: 100 for the last change, and less for those before it."""
    places = {document.path: i for i, document in enumerate(documents)}
    found: dict[int, int] = {}
    for number, (_, paths) in enumerate(messages):
        for path in paths:
            if path in places:
                found.setdefault(places[path], 100 * _HALF_LIFE // (_HALF_LIFE + number))
    return found


class Relevance:
    """The worth of documents and of their pieces.

    The history: ``extra[i]`` is added to the match of document ``i``, which counts up to half as much again
    by ``fresh[i]``. With ``standing`` it counts a little how many documents refer to what a document defines.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        query: Query,
        extra: Mapping[int, int] | None = None,
        fresh: Mapping[int, int] | None = None,
        *,
        standing: bool = False,
    ) -> None:
        self._documents = documents
        self._query = query
        self._lexical = Lexical(query)
        self._matches: dict[int, Match] = {}
        bodies: list[Counter[int]] = []
        reading = self._read(bodies)
        known = Standing(documents, reading) if standing else None
        self._standing = [] if known is None else known.shares
        self._most_standing = max(self._standing, default=0) or 1
        deque(reading, maxlen=0)
        self._lexical.finish()
        self._paths: dict[int, Counter[int]] = {}
        self._places = self._placed()
        self._scores: dict[int, int] = {}
        usual = sum(len(document.data) for document in documents) // max(1, len(documents))
        for i, (document, body) in enumerate(zip(documents, bodies, strict=True)):
            path = self._in_path(document.path)
            if body or path:
                self._paths[i] = path
                self._scores[i] = self._lexical.score(body, {}, path, len(document.data), usual, FILE)
        for i, score in self._of_tests().items():
            self._scores[i] = self._scores.get(i, 0) + score
        self._best = max([SCALE, *self._scores.values()])
        most = max((extra or {}).values(), default=0)
        for i, value in (extra or {}).items():
            self._scores[i] = self._scores.get(i, 0) + self._best * value * HISTORY // (100 * (most or 1))
        for i, percent in (fresh or {}).items():
            self._scores[i] = self._scores.get(i, 0) * (10_000 + LATELY * percent) // 10_000
        self._folders = self._of_folders()

    def _read(self, bodies: list[Counter[int]]) -> Iterator[Counter[bytes]]:
        """The identifiers of each document; the words of the query among them go to ``bodies``."""
        for document in self._documents:
            found = identifiers(document.data)
            bodies.append(self._lexical.read(found, len(document.data)))
            yield found

    def document(self, i: int) -> int:
        """What document ``i`` is worth: at least what its kind is, so that all have an order."""
        score = self._scores.get(i, 0) + self._around(i)
        if i in self._places:
            score += self._best * PLACE // 100
        return score * self._percent(i) // 100 + self._documents[i].percent

    def piece(self, i: int, span: PieceSpan) -> int:
        """What a piece of document ``i`` is worth, alone."""
        return self._weighed(i, span, self._matching(i, span), 1)

    def _matching(self, i: int, span: PieceSpan) -> int:
        """How well the words of a piece, its names and its path match."""
        names: Counter[int] = Counter()
        for name, times in ((span.names, 2), (span.within, 1)):
            for word, often in self._lexical.in_names(name).items():
                names[word] += often * times
        body = self._match(i).between(span.start, span.end)
        return self._lexical.score(body, names, self._paths.get(i, {}), span.end - span.start, WINDOW, PIECE)

    def _weighed(self, i: int, span: PieceSpan, match: int, pieces: int) -> int:
        """What a piece that matches so well is worth, in a document of so many pieces."""
        share = DOCUMENT if span.first else DOCUMENT * (100 + FIRST) // 100
        share += SMALL * 100 // isqrt(pieces * 10_000)
        score = match + self._scores.get(i, 0) * share // 100 + self._around(i)
        score += self._best * self._named(span) // 100
        lines = self._places.get(i)
        if lines is not None:
            score += self._best * PLACE // 100
            if any(span.first < line <= span.last for line in lines):
                score += self._best * LINE // 100
        return score * self._percent(i) // 100 + self._documents[i].percent

    def _named(self, span: PieceSpan) -> int:
        """What the symbols that the query names say of a piece that defines them, or is inside of them."""
        symbols = self._query.symbols
        own = max((symbols.get(name, 0) for name in span.names), default=0)
        around = max((symbols.get(name, 0) for name in span.within), default=0)
        return own * SYMBOL + around * ENCLOSING_SYMBOL

    def pieces(self, pieces: Sequence[tuple[int, PieceSpan]]) -> list[int]:
        """What each of these pieces is worth, given with the numbers of their documents.

        All pieces of a document follow each other. A piece next to one that matches is worth more than alone.
        """
        matches = [self._matching(i, span) for i, span in pieces]
        number = Counter(i for i, _ in pieces)
        worths = []
        for n, (i, span) in enumerate(pieces):
            beside = [m for m in (n - 1, n + 1) if 0 <= m < len(pieces) and pieces[m][0] == i]
            near = max((matches[m] for m in beside), default=0) * NEIGHBOUR // 100
            worths.append(self._weighed(i, span, matches[n] + near, number[i]))
        return worths

    def _match(self, i: int) -> Match:
        if i not in self._matches:
            self._matches[i] = self._lexical.scan(self._documents[i].data)
        return self._matches[i]

    def _around(self, i: int) -> int:
        """What the folder of document ``i`` and its standing say, whatever is in it."""
        score = self._folders.get(_folder(self._documents[i].path), 0) * FOLDER // 100
        if self._standing:
            score += self._best * STANDING * self._standing[i] // (100 * self._most_standing)
        return score

    def _of_tests(self) -> dict[int, int]:
        """What the match of a test says of the document that it tests, by their names; and the other way."""
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

    def _of_folders(self) -> dict[str, int]:
        """What the documents of each folder match, on average of the best."""
        found: dict[str, list[int]] = {}
        for i, document in enumerate(self._documents):
            score = self._scores.get(i, 0) * document.percent // 100
            found.setdefault(_folder(document.path), []).append(score)
        best = {folder: sorted(scores)[-_BEST_OF_FOLDER:] for folder, scores in found.items()}
        return {folder: sum(scores) // len(scores) for folder, scores in best.items()}

    def _percent(self, i: int) -> int:
        percent = self._documents[i].percent
        return max(percent, NAMED_PRIOR) if i in self._places else percent

    def _in_path(self, path: str) -> Counter[int]:
        return self._lexical.in_names(path.split("/")[-_STEPS:])

    def _placed(self) -> dict[int, tuple[int, ...]]:
        """The documents that the query names, with the lines of each.

        A path may be the end of a document's, or end with it, as that of an installed copy does; then the
        longest such document is meant: not every ``index.js`` in ``x/index.js``.
        """
        found: dict[int, tuple[int, ...]] = {}
        for place in self._query.places:
            ends = f"/{place.path}"
            named = [i for i, document in enumerate(self._documents) if f"/{document.path}".endswith(ends)]
            if not named:
                within = [
                    (len(d.path), i) for i, d in enumerate(self._documents) if ends.endswith(f"/{d.path}")
                ]
                named = [i for _, i in sorted(within)[-1:]]
            for i in named:
                found[i] = (*found.get(i, ()), *place.lines)
        return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
