"""Which files are left out: ``.gitignore`` by git's rules, ``.tokenboxignore`` written the same way.

The nearest folder's rules decide first, and in one folder ``.tokenboxignore`` goes before ``.gitignore``. As
with git, a file cannot be taken back in if a folder above it is left out. Unlike git, whether git tracks a
file plays no part, nor do the rules of the user's own configuration: the same files give the same pack on
every machine.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

RULE_FILES = (".gitignore", ".tokenboxignore")
# Never looked into, whatever any rule says.
NEVER = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
# What no project means by its content. A rule such as !node_modules/ takes it back in.
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
)
# Far more than any rules take; a file that is named like rules and never ends is none.
_MAX_BYTES = 1 << 20
# The group of the library's expressions that matches where a folder ends and what is inside begins.
_INSIDE = "ps_d"


class Rules:
    """The rules that hold in one folder: its own, then those of the folders above.

    Paths are relative to the root of the walk. ``folder`` ("" or with a slash at its end) is where the rules
    are, below the root; for rules above the root, ``way`` leads from there to the root.
    """

    __slots__ = ("_folder", "_outer", "_patterns", "_way")

    def __init__(
        self, lines: Iterable[str], outer: Rules | None = None, *, folder: str = "", way: str = ""
    ) -> None:
        self._folder = folder
        self._way = way
        self._outer = outer
        self._patterns = _patterns(lines)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether ``path``, in this folder, is left out."""
        name = f"{path}/" if is_folder else path
        return next((said for said in self._said(name) if said is not None), False)

    def without_those_against(self, folder: str) -> Rules:
        """These rules without the files of rules that leave out ``folder`` ("" is the root) itself."""
        outer = None if self._outer is None else self._outer.without_those_against(folder)
        against = self.say(f"{folder}/" if folder else "")
        kept = Rules((), outer, folder=self._folder, way=self._way)
        kept._patterns = () if against else self._patterns
        return kept

    def _said(self, name: str) -> Iterator[bool | None]:
        yield self.say(name)
        if self._outer is not None:
            yield from self._outer._said(name)  # noqa: SLF001  # of the same class

    def say(self, name: str) -> bool | None:
        """What these rules alone say; None if nothing."""
        asked = self._way + name[len(self._folder) :]
        return next((p.ignores for p in self._patterns if p.matches(asked)), None) if asked else None

    def inside(self, folder: str, absolute: str, names: Iterable[str]) -> Rules:
        """The rules in ``folder``, whose entries are ``names``."""
        present = set(names)
        lines = [line for name in RULE_FILES if name in present for line in read_rules(absolute, name)]
        return Rules(lines, self, folder=folder) if lines else self

    def above(self, absolute: str, way: str) -> Rules:
        """The rules of the folder ``absolute`` above the root, which hold before these."""
        lines = [line for name in RULE_FILES for line in read_rules(absolute, name)]
        return Rules(lines, self, way=way) if lines else self


def read_rules(folder: str, name: str) -> list[str]:
    """The lines of a file of rules; none if it is no readable regular file. As git, no link is followed."""
    try:
        handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # noqa: PTH118
    except OSError:
        return []
    with open(handle, "rb") as file:  # noqa: PTH123  # a handle has no path
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            text = os.fsdecode(file.read(_MAX_BYTES))
        except OSError:
            return []
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


class _Pattern(NamedTuple):
    """One line of rules.

    The library's expressions match what is inside a folder too. A walk asks about the folder first, and what
    is said of it is not said again of what is inside: ``!folder/`` takes in no file.
    """

    ignores: bool
    folders_only: bool
    expression: re.Pattern[str]

    def matches(self, path: str) -> bool:
        """Whether the line is about ``path`` itself; that of a folder ends in a slash."""
        if self.folders_only and not path.endswith("/"):
            return False
        asked = path if self.folders_only else path.removesuffix("/")
        match = self.expression.search(asked)
        if match is None:
            return False
        if not self.expression.pattern.startswith("^"):  # * and */, which any name matches
            return True
        inside = match.start(_INSIDE) if _INSIDE in self.expression.groupindex else -1
        return inside < 0 or inside == len(asked) - 1


def _patterns(lines: Iterable[str]) -> tuple[_Pattern, ...]:
    """The lines as patterns, last first; without those that are none (git passes over them, too)."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  # only packing needs it

    patterns = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found = GitIgnoreSpec.from_lines([line], backend="simple").patterns
        except ValueError:
            continue
        patterns += [
            _Pattern(p.include, line.rstrip(" ").endswith("/"), p.regex)
            for p in found
            if p.include is not None and p.regex is not None
        ]
    return tuple(reversed(patterns))
