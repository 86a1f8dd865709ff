"""Ignore rules: ``.gitignore`` with git's semantics, and ``.tokenboxignore`` in the same syntax.

The rules of the nearest folder decide first, and in one folder ``.tokenboxignore`` goes before
``.gitignore``. As with git, a file cannot be re-included if a folder above it is ignored. Unlike git, tracked
files are ignored too and the user's global rules do not apply: the same files give the same pack on every
machine.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from typing import NamedTuple

from tokenbox.folder.globs import Glob

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
        self._folder = folder
        self._way = way
        self._outer = outer
        self._patterns = _patterns(lines)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether ``path``, in this folder, is ignored."""
        name = f"{path}/" if is_folder else path
        rules: IgnoreRules | None = self
        while rules is not None:
            decision = rules._decide(name)  # noqa: SLF001  # of the same class
            if decision is not None:
                return decision
            rules = rules._outer  # noqa: SLF001  # of the same class
        return False

    def for_named(self, folder: str) -> IgnoreRules:
        """Return these rules without the rule files that ignore ``folder`` ("" is the root) itself."""
        outer = None if self._outer is None else self._outer.for_named(folder)
        kept = IgnoreRules((), outer, folder=self._folder, way=self._way)
        kept._patterns = () if self._decide(f"{folder}/" if folder else "") else self._patterns
        return kept

    def _decide(self, name: str) -> bool | None:
        """Return the decision of these rules alone; None if no pattern matches."""
        inside = os.fsencode(self._way + name[len(self._folder) :])
        if not inside or not self._patterns:
            return None
        path, is_folder = inside.removesuffix(b"/"), inside.endswith(b"/")
        return next((p.ignores for p in self._patterns if p.matches(path, is_folder=is_folder)), None)

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
        handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    with open(handle, "rb") as file:  # a handle has no path
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            text = os.fsdecode(file.read(_MAX_BYTES))
        except OSError:
            return []
    return text.removeprefix("\ufeff").split("\n")


class _Pattern(NamedTuple):
    """A line of rules. ``expression`` matches the full path, or its last step if ``name_only``."""

    ignores: bool
    folders_only: bool
    name_only: bool
    expression: re.Pattern[bytes]

    def matches(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether the line matches ``path`` itself, not only a folder above it."""
        if self.folders_only and not is_folder:
            return False
        subject = path.rpartition(b"/")[2] if self.name_only else path
        return self.expression.fullmatch(subject) is not None


def _patterns(lines: Iterable[str]) -> tuple[_Pattern, ...]:
    """Parse the lines into patterns, the last line first."""
    globs = [glob for line in lines if (glob := Glob.of(line)) is not None]
    return tuple(
        _Pattern(not glob.negative, glob.folders_only, glob.name_only, re.compile(glob.source, re.DOTALL))
        for glob in reversed(globs)
    )
