"""What a bundle says, read whole; and what two of them say differently, field by field."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tokenbox.proof.bundle import DECISIONS, INPUTS, SUMMARIES
from tokenbox.proof.manifest import leaves, read_records, read_summary, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.proof.evidence import Record
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.verify import BundleFiles

# The digests of the files follow from what is in them, and that is compared.
_DERIVED = frozenset({"files"})
_MAX_SUMMARY = 1 << 20
_MAX_RECORDS = 256 << 20


class _Absent:
    """The value of a field that is not there."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a bundle that has been verified."""

    manifest: Manifest
    inputs: Sequence[Record]
    decisions: Sequence[Record]
    summaries: Sequence[Record]


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field, such as ``inputs[notes].tokens``, and its two values; ABSENT where it is not there."""

    field: str
    left: object
    right: object

    def to_dict(self) -> dict[str, object]:
        """Without ``left`` or ``right`` where the field is not there."""
        sides = (("left", self.left), ("right", self.right))
        return {"field": self.field, **{name: value for name, value in sides if value is not ABSENT}}

    def __str__(self) -> str:
        return f"{self.field}: {shown(self.left)} -> {shown(self.right)}"


def read_contents(files: BundleFiles, manifest: Manifest) -> Contents:
    """What the files say. Raises ``BundleInvalid`` for lines that are not records."""
    records = {name: read_records(files.read(name, _MAX_RECORDS), name) for name in (INPUTS, DECISIONS)}
    summaries = []
    if manifest.tree(SUMMARIES) is not None:
        names = sorted(name for name in files.names() if name.startswith(SUMMARIES))
        summaries = [read_summary(files.read(name, _MAX_SUMMARY), name) for name in names]
    return Contents(manifest, records[INPUTS], records[DECISIONS], summaries)


def differences(left: Contents, right: Contents) -> list[FieldDifference]:
    """The fields that differ, in their order."""
    before, after = dict(fields_of(left)), dict(fields_of(right))
    names = [*before, *(name for name in after if name not in before)]
    pairs = ((name, before.get(name, ABSENT), after.get(name, ABSENT)) for name in names)
    return [FieldDifference(*pair) for pair in pairs if _differ(pair[1], pair[2])]


def _differ(one: object, other: object) -> bool:
    return one.__class__ is not other.__class__ or one != other


def fields_of(contents: Contents) -> Iterator[tuple[str, object]]:
    """Every field with its value. Records are named by their ids, so that one more moves no other."""
    yield "emitted", contents.manifest.emitted
    for name, value in contents.manifest.predicate.items():
        if name not in _DERIVED:
            yield from leaves(value, name)
    yield from _named("inputs", contents.inputs)
    outcomes = [record for record in contents.decisions if "action" not in record]
    yield from _named("decisions", outcomes)
    steps = (record for record in contents.decisions if "action" in record)
    for number, step in enumerate(steps, 1):
        yield from leaves(step, f"steps[{number}]")
    for summary in contents.summaries:
        of = ", ".join(map(str, cast("list[object]", summary["of"])))
        yield from leaves(summary, f"summaries[{of}]")


def _named(group: str, records: Sequence[Record]) -> Iterator[tuple[str, object]]:
    seen = Counter[str]()
    for number, record in enumerate(records, 1):
        # A decision about the whole has no id.
        name = str(record.get("id", number))
        seen[name] += 1
        label = name if seen[name] == 1 else f"{name} #{seen[name]}"
        rest = {key: value for key, value in record.items() if key != "id"}
        yield from leaves(rest, f"{group}[{label}]")
