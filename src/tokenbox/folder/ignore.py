"""Which files are left out: ``.gitignore`` by git's rules, ``.tokenboxignore`` written the same way.

The nearest folder's rules decide first, and in one folder ``.tokenboxignore`` goes before ``.gitignore``. As
with git, a file cannot be taken back in if a folder above it is left out. Unlike git, whether git tracks a
file plays no part, nor do the rules of the user's own configuration: the same files give the same pack on
every machine.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.folder.globs import Glob

if TYPE_CHECKING:
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


class IgnoreRules:
    """The rules that hold in one folder: its own, then those of the folders above.

    Paths are relative to the root of the walk. ``folder`` ("" or with a slash at its end) is where the rules
    are, below the root; for rules above the root, ``way`` leads from there to the root.
    """

    __slots__ = ("_folder", "_outer", "_patterns", "_way")

    def __init__(
        self, lines: Iterable[str], outer: IgnoreRules | None = None, *, folder: str = "", way: str = ""
    ) -> None:
        self._folder = folder
        self._way = way
        self._outer = outer
        self._patterns = _patterns(lines)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether ``path``, in this folder, is left out."""
        name = f"{path}/" if is_folder else path
        return next((said for said in self._said(name) if said is not None), False)

    def without_those_against(self, folder: str) -> IgnoreRules:
        """These rules without the files of rules that leave out ``folder`` ("" is the root) itself."""
        outer = None if self._outer is None else self._outer.without_those_against(folder)
        against = self.say(f"{folder}/" if folder else "")
        kept = IgnoreRules((), outer, folder=self._folder, way=self._way)
        kept._patterns = () if against else self._patterns
        return kept

    def _said(self, name: str) -> Iterator[bool | None]:
        yield self.say(name)
        if self._outer is not None:
            yield from self._outer._said(name)  # noqa: SLF001  # of the same class

    def say(self, name: str) -> bool | None:
        """What these rules alone say; None if nothing."""
        asked = os.fsencode(self._way + name[len(self._folder) :])
        if not asked or not self._patterns:
            return None
        path, is_folder = asked.removesuffix(b"/"), asked.endswith(b"/")
        return next((p.ignores for p in self._patterns if p.matches(path, is_folder=is_folder)), None)

    def inside(self, folder: str, absolute: str, names: Iterable[str]) -> IgnoreRules:
        """The rules in ``folder``, whose entries are ``names``."""
        present = set(names)
        lines = [line for name in RULE_FILES if name in present for line in read_rules(absolute, name)]
        return IgnoreRules(lines, self, folder=folder) if lines else self

    def above(self, absolute: str, way: str) -> IgnoreRules:
        """The rules of the folder ``absolute`` above the root, which hold before these."""
        lines = [line for name in RULE_FILES for line in read_rules(absolute, name)]
        return IgnoreRules(lines, self, way=way) if lines else self


def read_rules(folder: str, name: str) -> list[str]:
    """The lines of a file of rules; none if it cannot be read. As in git, links are not followed."""
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
    return text.removeprefix("\ufeff").split("\n")


class _Pattern(NamedTuple):
    """One line of rules. ``expression`` matches a path, or its last step, whole."""

    ignores: bool
    folders_only: bool
    name_only: bool
    expression: re.Pattern[bytes]

    def matches(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether the line is about ``path`` itself, not only about a folder above it."""
        if self.folders_only and not is_folder:
            return False
        asked = path.rpartition(b"/")[2] if self.name_only else path
        return self.expression.fullmatch(asked) is not None


def _patterns(lines: Iterable[str]) -> tuple[_Pattern, ...]:
    """The lines as patterns, last first."""
    globs = [glob for line in lines if (glob := Glob.of(line)) is not None]
    return tuple(
        _Pattern(not glob.negative, glob.folders_only, glob.name_only, re.compile(glob.source, re.DOTALL))
        for glob in reversed(globs)
    )
