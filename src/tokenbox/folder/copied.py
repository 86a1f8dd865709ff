"""Find the repositories of others that were copied into a folder, such as ``lib/Catch2/``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

# Settings of a CI, which work only at the top of a repository, and what is before them.
_CI = re.compile(
    r"(.+/)(?:\.github/workflows/[^/]+|\.circleci/[^/]+|\.travis\.yml|\.?appveyor\.yml|\.gitlab-ci\.yml)",
    re.DOTALL,
)
_LICENSE = re.compile(r"(?:mit-)?(?:licen[cs]e|copying)(?:\.(?:md|txt|rst))?", re.IGNORECASE)
_WORD = re.compile(rb"[A-Za-z]+")


def copied_repositories(files: Iterable[tuple[str, bytes]]) -> tuple[str, ...]:
    """Return the folders, each with a slash at its end, that have a CI and a license of their own.

    ``files``: paths and texts. A part of the project that is also published alone has its license, but for
    the years.
    """
    with_ci: set[str] = set()
    licenses: dict[str, set[tuple[bytes, ...]]] = defaultdict(set)
    for path, text in files:
        if (ci := _CI.fullmatch(path)) is not None:
            with_ci.add(ci[1])
        folder, slash, name = path.rpartition("/")
        if _LICENSE.fullmatch(name) is not None:
            licenses[folder + slash].add(tuple(_WORD.findall(text)))
    own = licenses[""]
    others = [folder for folder in with_ci if licenses[folder] and own.isdisjoint(licenses[folder])]
    return tuple(others) if own else ()
