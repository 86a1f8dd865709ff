"""How much a kind of file is worth beside source code, in percent: a prior, multiplied by what is asked for.

Mild where what a task needs may well be (tests), strong where it hardly ever is (lock files). The first
rule that matches decides. Patterns are as in .gitignore, but for case; docs/pack.md has the same table.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tokenbox.content.block_kinds import Priority
from tokenbox.folder.generated import is_generated, is_lock, is_vendored
from tokenbox.folder.priorities import matcher


@dataclass(frozen=True, slots=True)
class Prior:
    """A kind of file. ``percent``: with a query; ``alone``: without one."""

    name: str
    percent: int
    alone: int
    globs: tuple[str, ...] = ()

    @property
    def priority(self) -> Priority:
        """The class that a block of a ``.bcp`` pack has."""
        return _CLASSES.get(self.name, Priority.BACKGROUND)


# What is a changelog or a license is a page, and not a module such as history.ts or security.py.
_PAGES = frozenset({"changelog", "legal"})
_PAGE = re.compile(
    rb"[^a-z.]+(?:\..*)?|[^.]*|.*\.(?:md|markdown|mdx|txt|text|rst|adoc|org|html?|rdoc|textile|pod|pot?)"
)
_CLASSES = {
    "source": Priority.NORMAL,
    "readme": Priority.HIGH,
    "manifest": Priority.HIGH,
    "test": Priority.LOW,
    "docs": Priority.LOW,
    "example": Priority.LOW,
    "settings": Priority.LOW,
}
SOURCE = Prior("source", 100, 100)
LOCK = Prior("lock file", 1, 1)
GENERATED = Prior("generated", 8, 4)
VENDORED = Prior("vendored", 25, 6)
PRIORS = (
    Prior(
        "vendored",
        25,
        6,
        (
            "deps/",
            "external/",
            "externals/",
            "extern/",
            "3rdparty/",
            "third-party/",
            "thirdparty/",
            "subprojects/",
        ),
    ),
    Prior(
        "generated",
        8,
        3,
        ("docs/**/*.html", "docs/**/*.js", "docs/**/*.css", "docs/**/*.json", "*.docset/", "site-packages/"),
    ),
    Prior(
        "changelog",
        5,
        3,
        (
            "CHANGELOG*",
            "HISTORY*",
            "CHANGES*",
            "NEWS*",
            "ChangeLog*",
            "RELEASE*",
            "changelog/",
            "changelogs/",
            "CHANGES/",
            ".changeset/",
            "*.po",
            "*.pot",
        ),
    ),
    Prior(
        "legal",
        3,
        2,
        (
            "LICENSE*",
            "LICENCE*",
            "COPYING*",
            "NOTICE*",
            "AUTHORS*",
            "CODE_OF_CONDUCT*",
            "CONTRIBUTORS*",
            "SECURITY*",
            "CODEOWNERS",
        ),
    ),
    Prior(
        "data",
        6,
        2,
        (
            "fixtures/",
            "__snapshots__/",
            "testdata/",
            "test-data/",
            "golden/",
            "cassettes/",
            "*.csv",
            "*.tsv",
            "*.jsonl",
            "*.svg",
            "*.log",
            "*.snap",
            "*.map",
            "*.min.js",
            "*.min.css",
            "*.docset/",
        ),
    ),
    Prior(
        "automation",
        6,
        3,
        (
            ".github/",
            ".circleci/",
            ".gitlab*",
            ".travis.yml",
            "azure-pipelines*",
            ".buildkite/",
            "appveyor*",
            "Jenkinsfile",
            ".azure/",
            ".vscode/",
            ".idea/",
            ".devcontainer/",
        ),
    ),
    Prior(
        "settings of tools",
        8,
        3,
        (
            ".*",
            ".*/",
            "tox.ini",
            "setup.cfg",
            "*.editorconfig",
            "codecov.yml",
            "renovate.json",
            "*.eslintrc*",
            "mypy.ini",
            "ruff.toml",
        ),
    ),
    Prior("readme", 35, 45, ("README*", "AGENTS.md", "CLAUDE.md", "ARCHITECTURE*")),
    Prior(
        "manifest",
        30,
        35,
        (
            "pyproject.toml",
            "package.json",
            "Cargo.toml",
            "go.mod",
            "pom.xml",
            "build.gradle*",
            "Gemfile",
            "*.gemspec",
            "composer.json",
            "*.csproj",
            "Package.swift",
            "setup.py",
            "Makefile",
            "CMakeLists.txt",
            "Dockerfile",
        ),
    ),
    Prior(
        "test",
        80,
        30,
        (
            "tests/",
            "test/",
            "__tests__/",
            "spec/",
            "specs/",
            "e2e/",
            "testing/",
            "Tests/",
            "*.Tests/",
            "*UnitTests/",
            "*IntegrationTests/",
            "*FunctionalTests/",
            "*_test/",
            "*_tests/",
            "/t/",
            "*-test/",
            "*-tests/",
            "test_*.py",
            "*_test.*",
            "*-test.*",
            "*.test.*",
            "*.spec.*",
            "*_spec.rb",
            "conftest.py",
            "*Test.java",
            "*Tests.java",
            "*Test.kt",
            "*Tests.cs",
            "*Tests.swift",
            "*Test.php",
            "jvmTest/",
            "commonTest/",
            "androidTest/",
            "features/**/*.feature",
            "features/step_definitions/",
            "features/support/",
        ),
    ),
    Prior(
        "example",
        45,
        15,
        (
            "examples/",
            "example/",
            "samples/",
            "sample/",
            "demo/",
            "demos/",
            "benchmarks/",
            "benchmark/",
            "bench/",
            "benches/",
            "playground/",
            "sandbox/",
            "website/",
            "www/",
            "site/",
        ),
    ),
    Prior(
        "docs",
        30,
        20,
        (
            "docs/",
            "doc/",
            "documentation/",
            "*.md",
            "*.mdx",
            "*.rst",
            "*.txt",
            "*.adoc",
            "*.org",
            "*.1",
            "man/",
        ),
    ),
    Prior("data", 25, 8, ("*.json", "*.yaml", "*.yml", "*.xml", "*.ipynb", "*.html", "*.htm", "*.lock")),
    Prior(
        "settings",
        40,
        15,
        (
            *("*.toml", "*.ini", "*.cfg", "*.conf", "*.config", "*.properties", "*.gradle", "*.cmake"),
            *(
                "*.sln",
                "*.slnx",
                "*.props",
                "*.targets",
                "*.globalconfig",
                "*.ruleset",
                "*.plist",
                "*.pbxproj",
            ),
            *("*.bat", "*.cmd"),
        ),
    ),
)


class Priors:
    """The prior of each file."""

    def __init__(self) -> None:
        self._rules = [(prior, *_matchers(prior.globs)) for prior in PRIORS]

    def of(self, path: str, content: bytes) -> Prior:
        """By name, by where it is, by a mark at its top such as ``@generated``."""
        if is_lock(path):
            return LOCK
        if is_vendored(path):
            return VENDORED
        if is_generated(path, content):
            return GENERATED
        whole = os.fsencode(path.lower())
        name = whole.rpartition(b"/")[2]
        page = _PAGE.fullmatch(os.fsencode(path).rpartition(b"/")[2]) is not None
        return next(
            (
                prior
                for prior, names, paths in self._rules
                if (page or prior.name not in _PAGES) and (names.fullmatch(name) or paths.fullmatch(whole))
            ),
            SOURCE,
        )


def _matchers(globs: tuple[str, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What the name of a file must match, or its path: ``*.json`` is not about what is in ``x.json/``."""
    lowered = [glob.lower() for glob in globs]
    return matcher([glob for glob in lowered if "/" not in glob]), matcher(
        [glob for glob in lowered if "/" in glob]
    )
