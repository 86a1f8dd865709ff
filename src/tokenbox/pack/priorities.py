"""How urgent a file is: by default, by the project, by the caller. The last rule that matches decides."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import Priority
from tokenbox.errors import TokenboxError
from tokenbox.pack.globs import Glob, files_in

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

# Written as in .gitignore. Everything else is normal; docs/pack.md has the same table.
DEFAULT_PRIORITIES: tuple[tuple[Priority, tuple[str, ...]], ...] = (
    (
        Priority.HIGH,
        (
            *("README*", "AGENTS.md", "CLAUDE.md", "CONTRIBUTING*", "ARCHITECTURE*"),
            *(
                "pyproject.toml",
                "package.json",
                "Cargo.toml",
                "go.mod",
                "pom.xml",
                "build.gradle*",
                "Gemfile",
            ),
            *("/Makefile", "/Dockerfile", "/setup.py"),
            *("__main__.py", "main.*", "manage.py", "wsgi.py", "asgi.py", "/app.*", "/src/app.*", "lib.rs"),
            *("/index.*", "/src/index.*", "/server.*", "/src/server.*"),
        ),
    ),
    (
        Priority.LOW,
        (
            *("tests/", "test/", "__tests__/", "spec/", "e2e/", "testing/"),
            *("test_*.py", "*_test.*", "*.test.*", "*.spec.*", "conftest.py", "*Test.java"),
            *("examples/", "example/", "samples/", "benchmarks/", "bench/"),
            *("CHANGELOG*", "HISTORY*", "CHANGES*", "CODE_OF_CONDUCT*"),
        ),
    ),
    (
        Priority.BACKGROUND,
        (
            *("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "AUTHORS*"),
            *("fixtures/", "__snapshots__/", "snapshots/", "testdata/", "golden/", "cassettes/"),
            *("*.csv", "*.tsv", "*.jsonl", "*.svg", "*.ipynb", "*.log", "*.po", "*.pot", "*.snap"),
        ),
    ),
)


class PriorityProblem(TokenboxError):
    """A rule that gives files a priority has no sense."""

    code = "priority_invalid"


@dataclass(frozen=True, slots=True)
class PriorityRule:
    """Files that match ``glob`` (as in .gitignore, relative to the packed folder) have ``priority``."""

    glob: str
    priority: Priority

    @classmethod
    def of(cls, glob: str, name: str, source: str) -> PriorityRule:
        """The rule as written in ``source``. Raises :class:`PriorityProblem`."""
        known = {priority.display: priority for priority in Priority}
        if name not in known:
            raise PriorityProblem(
                f"{source}: {name[:60]!r} is no priority. Use one of {', '.join(known)}.",
                glob=glob,
                name=name,
            )
        if Glob.of(glob) is None or glob.startswith("!"):
            raise PriorityProblem(
                f"{source}: {glob[:200]!r} is no pattern of files. Use one as in .gitignore.", glob=glob
            )
        return cls(glob, known[name])


def parse_rule(text: str, source: str = "--priority") -> PriorityRule:
    """The rule in ``GLOB=CLASS``. Raises :class:`PriorityProblem`."""
    glob, equals, name = text.rpartition("=")
    if not equals:
        raise PriorityProblem(
            f"{source} takes GLOB=CLASS, as in 'src/**=high'; not {text[:60]!r}.", rule=text
        )
    return PriorityRule.of(glob, name.strip().lower(), source)


class Priorities:
    """The priority of each file."""

    def __init__(self, rules: Sequence[PriorityRule] = ()) -> None:
        self._defaults = [(priority, _spec(globs)) for priority, globs in DEFAULT_PRIORITIES]
        self._rules = [(rule.priority, _spec([rule.glob])) for rule in reversed(rules)]

    def asked(self, path: str) -> Priority | None:
        """What the rules that were given say."""
        name = os.fsencode(path)
        return next((priority for priority, spec in self._rules if spec.fullmatch(name)), None)

    def default(self, path: str) -> Priority:
        """What the table above says; of several classes the least urgent."""
        name = os.fsencode(path)
        matching = [priority for priority, spec in self._defaults if spec.fullmatch(name)]
        return max(matching, default=Priority.NORMAL)


def _spec(globs: Sequence[str]) -> re.Pattern[bytes]:
    return files_in(glob for line in globs if (glob := Glob.of(line)) is not None)
