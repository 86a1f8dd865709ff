"""Priorities that the project or the caller gives to files. Without a rule a file is ``normal``."""

from __future__ import annotations

from dataclasses import dataclass

from tokenbox.content.block_kinds import Priority
from tokenbox.errors import TokenboxError
from tokenbox.folder.globs import is_for_files


class PriorityProblem(TokenboxError, code="priority_invalid"):
    """A priority rule is invalid."""


@dataclass(frozen=True, slots=True)
class PriorityRule:
    """The priority of the files that match ``glob`` (as in .gitignore, relative to the packed folder)."""

    glob: str
    priority: Priority

    @classmethod
    def of(cls, glob: str, name: str, source: str) -> PriorityRule:
        """Return the rule as written in ``source``. Raises :class:`PriorityProblem`."""
        known = {priority.display: priority for priority in Priority}
        if name not in known:
            raise PriorityProblem(
                f"{source}: {name[:60]!r} is not a priority. Use one of {', '.join(known)}.",
                glob=glob,
                name=name,
            )
        if not is_for_files(glob):
            raise PriorityProblem(
                f"{source}: {glob[:200]!r} is not a file pattern. Use one as in .gitignore.", glob=glob
            )
        return cls(glob, known[name])


def parse_rule(text: str, source: str = "--priority") -> PriorityRule:
    """Parse ``GLOB=CLASS``. Raises :class:`PriorityProblem`."""
    glob, equals, name = text.rpartition("=")
    if not equals:
        raise PriorityProblem(
            f"{source} takes GLOB=CLASS, as in 'src/**=high'; not {text[:60]!r}.", rule=text
        )
    return PriorityRule.of(glob, name.strip().lower(), source)
