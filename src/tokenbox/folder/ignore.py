"""Ignore rules: ``.gitignore`` with git's semantics, and ``.tokenboxignore`` in the same syntax.

The rules of the nearest folder decide first, and in one folder ``.tokenboxignore`` goes before
``.gitignore``. As with git, a file cannot be re-included if a folder above it is ignored. Unlike git, tracked
files are ignored too and the user's global rules do not apply: the same files give the same pack on every
machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from tokenbox.files import open_regular
from tokenbox.folder.globs import Glob, matching

RULE_FILES = (".gitignore", ".tokenboxignore")
# The folders of version control, which no rule can include.
NEVER = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
# Files that are not a project's own content. A rule such as !node_modules/ includes them again.
DEFAULT_RULES = (
    "node_modules/",
    "__pycache__/",
    "*.py[cod]",
    ".venv/",
    ".tox/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".DS_Store",
    "Thumbs.db",
    "*.swp",
    "**/.tokenbox/proof/",
    "**/.tokenbox/state.json",
)
# The bytes of the patterns in one set: the time of a match may grow with them.
_TOGETHER = 1 << 16
# The number of look-ups for the ends of a path. Of patterns of more lengths, the others are expressions.
_MAX_LENGTHS = 256
# The limit of a rule file, in case something endless has its name.
_MAX_BYTES = 1 << 20


class IgnoreRules:
    """The rules that apply in one folder: its own, then those of the folders above.

    Paths are relative to the root of the walk. ``folder`` ("" or with a slash at its end) is the folder of
    the rules below the root; for rules above the root, ``way`` is the path from there to the root.
    """

    __slots__ = ("_folder", "_outer", "_patterns", "_way")

    def __init__(
        self, lines: Iterable[str], outer: IgnoreRules | None = None, *, folder: str = "", way: str = ""
    ) -> None:
        self._folder = len(os.fsencode(folder))
        self._way = os.fsencode(way)
        self._outer = outer
        globs = [glob for line in lines if (glob := Glob.of(line)) is not None]
        self._patterns = _Patterns(globs) if globs else None

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether ``path``, in this folder, is ignored."""
        whole = os.fsencode(path)
        rules: IgnoreRules | None = self
        while rules is not None:
            decision = rules._decide(whole, is_folder=is_folder)  # noqa: SLF001  # of the same class
            if decision is not None:
                return decision
            rules = rules._outer  # noqa: SLF001  # of the same class
        return False

    def for_named(self, folder: str) -> IgnoreRules:
        """Return these rules without the rule files that ignore ``folder`` ("" is the root) itself."""
        outer = None if self._outer is None else self._outer.for_named(folder)
        kept = copy(self)
        kept._outer = outer  # noqa: SLF001  # of the same class
        if self._decide(os.fsencode(folder), is_folder=True):
            kept._patterns = None  # noqa: SLF001  # of the same class
        return kept

    def _decide(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Return the decision of these rules alone; None if no pattern matches."""
        if self._patterns is None:
            return None
        inside = (self._way + path[self._folder :]).removesuffix(b"/")
        return self._patterns.decide(inside, is_folder=is_folder) if inside else None

    def inside(self, folder: str, absolute: str, names: Iterable[str]) -> IgnoreRules:
        """Return the rules for ``folder``, whose entries are ``names``."""
        present = set(names)
        lines = [line for name in RULE_FILES if name in present for line in _read_rules(absolute, name)]
        return IgnoreRules(lines, self, folder=folder) if lines else self

    def above(self, absolute: str, way: str) -> IgnoreRules:
        """Return these rules preceded by those of the folder ``absolute`` above the root."""
        lines = [line for name in RULE_FILES for line in _read_rules(absolute, name)]
        return IgnoreRules(lines, self, way=way) if lines else self


def _read_rules(folder: str, name: str) -> list[str]:
    """Return the lines of a rule file; none if it cannot be read. As in git, links are not followed."""
    try:
        with open_regular(os.path.join(folder, name), links=False) as file:
            text = os.fsdecode(file.read(_MAX_BYTES))
    except OSError:
        return []
    return text.removeprefix("\ufeff").split("\n")


class _Union(NamedTuple):
    """Patterns by the numbers of their lines: those that match one text only, and those with wildcards.

    ``starred``: the patterns with no wildcards but stars, each with what is between its stars, by what is
    before and after them, by the lengths of these. The others are in ``sets``, each with its lines' numbers.
    """

    texts: Mapping[bytes, int]
    starred: Mapping[tuple[int, int], Mapping[bytes, list[tuple[int, Sequence[bytes]]]]]
    sets: Sequence[tuple[Sequence[int], Callable[[bytes], list[int]]]]

    @classmethod
    def of(cls, globs: Mapping[int, Glob]) -> _Union:
        texts: dict[bytes, int] = {}
        starred: dict[tuple[int, int], dict[bytes, list[tuple[int, Sequence[bytes]]]]] = {}
        wild: list[tuple[list[int], list[bytes]]] = []
        size = _TOGETHER
        for line, glob in globs.items():
            if glob.only is not None:
                texts.setdefault(glob.only, line)
                if glob.parts is None:
                    continue
            if glob.parts is not None:
                before, *between, after = glob.parts
                lengths = len(before), len(after)
                if lengths in starred or len(starred) < _MAX_LENGTHS:
                    starred.setdefault(lengths, {}).setdefault(before + after, []).append((line, between))
                    continue
            if size >= _TOGETHER:
                wild.append(([], []))
                size = 0
            lines, sources = wild[-1]
            lines.append(line)
            sources.append(glob.source)
            size += len(glob.source)
        return cls(texts, starred, [(lines, matching(sources)) for lines, sources in wild])

    def first(self, subject: bytes) -> int | None:
        """Return the number of the first line that matches; None if none does."""
        line = self.texts.get(subject)
        size = len(subject)
        for (before, after), patterns in self.starred.items():
            if before + after <= size:
                for other, between in patterns.get(subject[:before] + subject[size - after :], ()):
                    if line is not None and line < other:
                        break
                    if not between or _has_in_order(subject, between, before, size - after):
                        line = other
                        break
        for numbers, matched in self.sets:
            if found := matched(subject):
                other = numbers[found[0]]
                return other if line is None else min(line, other)
        return line


def _has_in_order(subject: bytes, parts: Iterable[bytes], start: int, end: int) -> bool:
    """Return whether the parts follow each other from ``start`` to ``end``."""
    for part in parts:
        at = subject.find(part, start, end)
        if at < 0:
            return False
        start = at + len(part)
    return True


class _Patterns:
    """The patterns of a rule file, each compiled once.

    ``unions``: by whether they match the last step of a path only, and whether they match folders only.
    """

    __slots__ = ("_ignores", "_unions")

    def __init__(self, of_lines: Sequence[Glob]) -> None:
        kinds: dict[tuple[bool, bool], dict[int, Glob]] = {}
        for n, glob in enumerate(reversed(of_lines)):  # the last line first: it decides
            kinds.setdefault((glob.name_only, glob.folders_only), {})[n] = glob
        self._ignores = [not glob.negative for glob in reversed(of_lines)]
        self._unions = [(*kind, _Union.of(globs)) for kind, globs in kinds.items()]

    def decide(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Return whether ``path`` itself is ignored, not only a folder above it; None if no line matches."""
        name = path.rpartition(b"/")[2]
        best = None
        for name_only, folders_only, union in self._unions:
            if is_folder or not folders_only:
                line = union.first(name if name_only else path)
                best = line if best is None or (line is not None and line < best) else best
        return None if best is None else self._ignores[best]
