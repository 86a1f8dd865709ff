"""Layouts with optional proof, for ``tokenbox.layout`` and for documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from tokenbox.compose import sections as compose_sections
from tokenbox.compose.constraints import checked_groups
from tokenbox.compose.layout import SEPARATOR
from tokenbox.compose.requests import RequestCounter
from tokenbox.engine.result import Policy
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from tokenbox.compose.layout import Layout
    from tokenbox.compose.sections import Groups
    from tokenbox.content.section import Section
    from tokenbox.proof.evidence import Sink
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

T = TypeVar("T")


def layout(  # noqa: PLR0913  # the options of `compose_sections.layout`, and proof
    sections: Iterable[Section | Mapping[str, object]],
    budget: int,
    tokenizer: str | Tokenizer | RequestCounter | Callable[[str], int],
    separator: str = SEPARATOR,
    *,
    policy: Policy | str = Policy.FACET,
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    source: str | None = None,
) -> Layout:
    """Lay out ``sections`` within ``budget`` tokens (FACET Token Box Model; docs/layout.md has the rules).

    ``sections``: :class:`Section` objects, or mappings with the same fields. ``tokenizer``: a name such as
    ``"o200k_base"``, a tokenizer object, or any function from text to a count. ``separator`` is put between
    non-empty sections. ``policy``: ``"facet"``, the letter of the model, drops sections that cannot be kept;
    ``"degrade"`` first gives every section a smaller form, then cuts each down to its ``min``, then drops.
    ``groups``: settings that sections share, by name (:class:`Group`, or mappings). ``reclaim`` restores,
    after cutting, what then fits again (``degrade`` always does). ``cache`` keeps counts between layouts
    (default: one per process). ``proof`` receives the ``Evidence`` of the layout, refusal or failure
    (docs/proof.md), with ``source`` as the source of the sections.

    Raises :class:`ContextCriticalOverflow` if the critical sections alone do not fit,
    :class:`InvalidSection` and :class:`InvalidBudget` for invalid input, a ``TokenizerError`` for text that
    cannot be counted, and the errors of ``proof``.
    """
    if proof is None:
        return compose_sections.layout(
            sections,
            budget,
            tokenizer,
            separator,
            policy=policy,
            groups=groups,
            reclaim=reclaim,
            cache=cache,
        )
    from tokenbox.proof.calls import proven  # a layout without proof loads no more
    from tokenbox.proof.of_sections import LAYOUT

    return proven(LAYOUT, proof, source=source)(
        compose_sections.checked_sections(sections),
        budget,
        tokenizer if isinstance(tokenizer, RequestCounter) else as_tokenizer(tokenizer),
        separator,
        policy=policy,
        groups=None if groups is None else {group.name: group.to_dict() for group in checked_groups(groups)},
        reclaim=reclaim,
        cache=cache,
    )
