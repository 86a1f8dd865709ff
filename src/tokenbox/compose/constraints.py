"""Validation of constraints between sections, and their conversion for the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tokenbox.compose.columns import needing_degrade
from tokenbox.content.group import Group
from tokenbox.engine import degrade
from tokenbox.engine.result import Policy
from tokenbox.errors import InvalidSection
from tokenbox.records import AsRecord

if TYPE_CHECKING:
    from tokenbox.content.section import Section

MAX_NESTED: Final = 64
"""The levels of groups. Each change of a section updates all groups that it is in."""


@dataclass(frozen=True, slots=True)
class SectionWarning(AsRecord):
    """A setting of a section that has no effect, or another than it seems to have."""

    section: str
    code: str
    message: str


def checked_groups(groups: object) -> tuple[Group, ...]:
    """Return the groups, inner groups before outer ones. Raises :class:`InvalidSection`."""
    if not isinstance(groups, Mapping):
        raise InvalidSection(f"groups is a mapping from names to bounds, not {type(groups).__name__}.")
    made = {name: Group.of(name, value) for name, value in groups.items()}
    depth: dict[str, int] = {}
    for name in made:
        chain = [name]
        while (parent := made[chain[-1]].parent) is not None:
            if parent not in made:
                raise InvalidSection(
                    f"group {chain[-1]!r}: there is no group {parent!r} for its parent.", id=name
                )
            if parent in chain:
                raise InvalidSection(
                    f"group {name!r} is inside itself: {' in '.join([*chain, parent])}.", id=name
                )
            if len(chain) == MAX_NESTED:
                raise InvalidSection(
                    f"group {name!r} is inside more than {MAX_NESTED - 1} others. "
                    f"Nest groups at most {MAX_NESTED} deep.",
                    id=name,
                )
            chain.append(parent)
        depth[name] = len(chain)
    return tuple(sorted(made.values(), key=lambda group: -depth[group.name]))


def check_policy(sections: Sequence[Section], groups: Sequence[Group], policy: Policy) -> None:
    """Raise :class:`InvalidSection` for a setting that the policy does not support, or an unknown name."""
    if policy is Policy.FACET:
        needs = needing_degrade(sections)
        if needs is not None:
            raise InvalidSection(
                f"section {needs.id!r}: {needs.needs_degrade} needs policy='degrade'; the policy is 'facet'.",
                id=needs.id,
                field=needs.needs_degrade,
            )
        if groups:
            raise InvalidSection("groups need policy='degrade'; the policy is 'facet'.", field="groups")
        return
    names = {group.name for group in groups}
    by_id = {section.id: section for section in sections}
    for section in sections:
        if section.group is not None and section.group not in names:
            raise InvalidSection(
                f"section {section.id!r}: there is no group {section.group!r}. Add it to groups.",
                id=section.id,
                field="group",
            )
        if section.with_ is None:
            continue
        partner = by_id.get(section.with_)
        if partner is None:
            raise InvalidSection(
                f"section {section.id!r}: there is no section {section.with_!r} for its `with`.",
                id=section.id,
                field="with",
            )
        if partner.critical != section.critical:
            critical, other = (partner, section) if partner.critical else (section, partner)
            raise InvalidSection(
                f"section {section.id!r} goes with {partner.id!r}, and only {critical.id!r} is critical. "
                f"Give {other.id!r} shrink 0 too, or {critical.id!r} a shrink above 0.",
                id=section.id,
                field="with",
            )


def engine_boxes(
    sections: Sequence[Section], groups: Sequence[Group], budget: int
) -> tuple[list[degrade.DegradeBox], list[degrade.GroupBounds]]:
    """Convert constraints for the engine: shares to tokens, names to numbers."""
    number = {group.name: g for g, group in enumerate(groups)}
    chains: dict[str | None, tuple[int, ...]] = {None: ()}
    for group in reversed(groups):  # a parent comes after its inner groups
        chains[group.name] = (number[group.name], *chains[group.parent])
    units = _units(sections)
    boxes = [
        degrade.DegradeBox(
            (*(groups[g].priority for g in reversed(chains[section.group])), section.priority),
            section.min,
            in_tokens(section.max, budget),
            section.grow,
            section.shrink,
            chains[section.group],
            unit,
        )
        for section, unit in zip(sections, units, strict=True)
    ]
    return boxes, [degrade.GroupBounds(group.min, in_tokens(group.max, budget)) for group in groups]


def in_tokens(bound: int | Fraction | None, budget: int) -> int | None:
    """Return an upper bound in tokens; a share of the budget is rounded down."""
    return int(bound * budget) if isinstance(bound, Fraction) else bound


def _units(sections: Sequence[Section]) -> list[int]:
    """Return for each section the first section of its unit, which is kept or dropped as a whole."""
    position = {section.id: i for i, section in enumerate(sections)}
    unit = list(range(len(sections)))

    def first(i: int) -> int:
        while unit[i] != i:
            unit[i] = i = unit[unit[i]]
        return i

    for i, section in enumerate(sections):
        if section.with_ is not None:
            one, other = sorted((first(i), first(position[section.with_])))
            unit[other] = one
    return [first(i) for i in range(len(sections))]


def warnings(
    sections: Sequence[Section], base_sizes: Sequence[int], kept_out: Mapping[int, tuple[str, int]]
) -> Iterator[SectionWarning]:
    """Yield the settings that have no effect, and each form that a ``min`` kept out.

    ``kept_out`` has the form and its size by the section's number.
    """
    for i, (section, base_size) in enumerate(zip(sections, base_sizes, strict=True)):
        for code, message in _ineffective(section, base_size):
            yield SectionWarning(section.id, code, f"section {section.id!r}: {message}")
        if i in kept_out:
            form, size = kept_out[i]
            message = f"its form {form} has {size:,} tokens, and min is {section.min:,}: it was not taken."
            yield SectionWarning(section.id, "form_below_min", f"section {section.id!r}: {message}")


def _ineffective(section: Section, size: int) -> Iterator[tuple[str, str]]:
    if section.critical:
        for name, value in (
            ("strategy", section.strategy),
            ("forms", section.forms),
            ("min", section.min),
            ("max", section.max),
        ):
            if value:
                yield f"critical_{name}", f"{name} has no effect: the section is critical (shrink 0)."
    elif section.min > size > 0:
        yield (
            "min_above_size",
            f"min is {section.min:,} and the content {size:,}: the section is kept whole or dropped.",
        )
    if section.extra and not section.grow:
        yield "extra_without_grow", "extra has no effect without a grow above 0."
