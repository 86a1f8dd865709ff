"""A parsed layout document, with its layout methods; and the published schemas (JSON Schema)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tokenbox.compose.breakpoints import breakpoints
from tokenbox.compose.layout import SEPARATOR, LayoutOptions
from tokenbox.compose.sections import lay_out_all, layout, layout_counter
from tokenbox.counters import section_counter
from tokenbox.documents.source import DocumentCode
from tokenbox.engine.result import Policy
from tokenbox.errors import DocumentError, TokenboxError
from tokenbox.proof.proven import with_proof

if TYPE_CHECKING:
    from tokenbox.compose.breakpoints import Breakpoint
    from tokenbox.compose.layout import Layout
    from tokenbox.compose.requests import Counts, RequestCounter
    from tokenbox.content.group import Group
    from tokenbox.content.section import Section
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.proof import Sink
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

TOKENIZER = "o200k_base"


@dataclass(frozen=True, slots=True)
class LayoutDocument:
    """Sections and the options of their layout. ``budget`` is None if the caller must give it.

    ``name``: the file, as errors show it.
    """

    sections: tuple[Section, ...]
    budget: int | None = None
    tokenizer: str = TOKENIZER
    separator: str = SEPARATOR
    policy: Policy = Policy.FACET
    groups: tuple[Group, ...] = ()
    reclaim: bool = False
    name: str | None = None

    @property
    def grouped(self) -> dict[str, Group]:
        """The groups by name."""
        return {group.name: group for group in self.groups}

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "separator": self.separator,
            "policy": self.policy,
            "groups": self.grouped,
            "reclaim": self.reclaim,
        }

    def layout(
        self,
        budget: int | None = None,
        tokenizer: Counts | None = None,
        *,
        cache: CountCache | None = None,
        proof: Sink | None = None,
    ) -> Layout:
        """Lay out the document. ``budget`` and ``tokenizer`` override its own.

        ``proof`` receives the evidence, with this document as the source of the sections.

        Raises :class:`DocumentError` if there is no budget, and the errors of ``tokenbox.layout``.
        """
        budget = self.budget if budget is None else budget
        if budget is None:
            raise DocumentError(
                "the document has no budget, and none was given. "
                "Give one in tokens: --budget 8000, in Python budget=8000, or budget in the document.",
                file=self.name,
                path="budget",
                code=DocumentCode.MISSING_KEY.value,
            )
        made = with_proof(layout, proof, source=self.name)
        return made(self.sections, budget, self._counter(tokenizer), **self._options, cache=cache)

    def whatif(
        self,
        budgets: Iterable[int],
        tokenizer: Counts | None = None,
        *,
        cache: CountCache | None = None,
    ) -> list[Layout | ContextCriticalOverflow]:
        """Return a layout per budget, counting each text once. The document's own budget is ignored."""
        counter = layout_counter(self.sections, self._counter(tokenizer), cache)
        return lay_out_all(self.sections, LayoutOptions.of(self.sections, **self._options), counter, budgets)

    def breakpoints(
        self,
        low: int,
        high: int,
        tokenizer: Counts | None = None,
    ) -> list[Breakpoint]:
        """Return the budgets from ``low`` to ``high`` at which a section's decision or form changes."""
        counter = layout_counter(self.sections, self._counter(tokenizer))
        options = LayoutOptions.of(self.sections, **self._options)
        return breakpoints(self.sections, options, counter, low, high)

    def _counter(self, given: Counts | None) -> Tokenizer | RequestCounter:
        """Return the given counter, else the document's: of messages if it names a chat format.

        Raises :class:`DocumentError` with the code of the cause if the document's cannot be used.
        """
        if given is not None:
            return section_counter(self.sections, None, given)
        try:
            return section_counter(self.sections, None, self.tokenizer)
        except TokenboxError as error:
            raise DocumentError(error.message, file=self.name, path="tokenizer", code=error.code) from None


def layout_schema() -> dict[str, Any]:
    """Return the schema of a layout document, for all three formats."""
    return _schema("layout.schema.json")


def result_schema() -> dict[str, Any]:
    """Return the schema of a layout's JSON: the record, or ``{"error": {...}}``."""
    return _schema("result.schema.json")


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return schema
