"""Read the contents of a bundle, and compare two bundles field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tokenbox.errors import shown
from tokenbox.proof.bundle import DECISIONS, INPUTS, SUMMARIES, TEXTS
from tokenbox.proof.manifest import bracketed, leaves, read_records, read_summary

if TYPE_CHECKING:
    from tokenbox.proof.evidence import Record
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.verify import BundleFiles

# The digests of the files: their contents are compared instead.
_DERIVED = frozenset({"files"})
_MAX_SUMMARY = 1 << 20
_MAX_RECORDS = 256 << 20


class _Absent:
    """The value of a missing field."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a verified bundle."""

    manifest: Manifest
    inputs: Sequence[Record]
    decisions: Sequence[Record]
    summaries: Sequence[Record]


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field, such as ``inputs[notes].tokens``, and its two values, or ABSENT."""

    field: str
    left: object
    right: object

    def to_dict(self) -> dict[str, object]:
        """Return the difference as JSON, without ``left`` or ``right`` if the field is absent there."""
        sides = (("left", self.left), ("right", self.right))
        return {"field": self.field, **{name: value for name, value in sides if value is not ABSENT}}

    def __str__(self) -> str:
        return f"{self.field}: {shown(self.left)} -> {shown(self.right)}"


def read_contents(files: BundleFiles, manifest: Manifest) -> Contents:
    """Parse the files of a bundle. Raises ``BundleInvalid`` for invalid records."""
    records = {name: read_records(files.read(name, _MAX_RECORDS), name) for name in (INPUTS, DECISIONS)}
    summaries = []
    if manifest.files[SUMMARIES] is not None:
        names = sorted(name for name in files.names() if name.startswith(SUMMARIES))
        summaries = [read_summary(files.read(name, _MAX_SUMMARY), name) for name in names]
    return Contents(manifest, records[INPUTS], records[DECISIONS], summaries)


def differences(left: Contents, right: Contents) -> list[FieldDifference]:
    """Return the fields that differ, in order, then the groups whose records have another order."""
    before, after = dict(fields_of(left)), dict(fields_of(right))
    found = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if old.__class__ is not new.__class__ or old != new:
            found.append(FieldDifference(name, old, new))
    for group, records in (("inputs", inputs_of), ("decisions", decisions_of)):
        orders = [[label for label, _ in records(side)] for side in (left, right)]
        both = set(orders[0]).intersection(orders[1])
        pairs = zip(*([label for label in order if label in both] for order in orders), strict=True)
        moved = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if moved is not None:
            found.append(FieldDifference(f"order of {group}", *moved))
    return found


def fields_of(contents: Contents) -> Iterator[tuple[str, object]]:
    """Yield each field with its value. Records are named by id, so that an added one renames no other."""
    yield "emitted", contents.manifest.emitted
    for name, value in contents.manifest.predicate.items():
        if name not in _DERIVED:
            yield from leaves(value, name)
    texts = contents.manifest.files[TEXTS]
    if texts is not None:
        yield "texts", texts["sha256"]
    for label, record in (*inputs_of(contents), *decisions_of(contents), *summaries_of(contents)):
        yield from leaves(record, label)


def inputs_of(contents: Contents) -> Iterator[tuple[str, Record]]:
    """Yield each input, and a label that no other has, such as ``inputs[notes]``."""
    return _labelled("inputs", contents.inputs)


def decisions_of(contents: Contents) -> Iterator[tuple[str, Record]]:
    """Yield each decision and step with its label: ``decisions[notes]``, ``steps[1]``."""
    outcomes = _labelled("decisions", [record for record in contents.decisions if "action" not in record])
    steps = 0
    for record in contents.decisions:
        if "action" in record:
            steps += 1
            yield f"steps[{steps}]", record
        else:
            yield next(outcomes)


def summaries_of(contents: Contents) -> Iterator[tuple[str, Record]]:
    """Yield each summary with its label, such as ``summaries[a, b]``."""
    names = [", ".join(map(str, cast("list[object]", summary["of"]))) for summary in contents.summaries]
    for label, summary in zip(_labels(names), contents.summaries, strict=True):
        yield f"summaries[{label}]", summary


def _labelled(group: str, records: Sequence[Record]) -> Iterator[tuple[str, Record]]:
    """Yield each record with a label, and without the id that is in it."""
    # A decision on the request has no id.
    names = [str(record.get("id", number)) for number, record in enumerate(records, 1)]
    for number, (name, label, record) in enumerate(zip(names, _labels(names), records, strict=True), 1):
        in_label = name != str(number)
        yield (
            f"{group}[{label}]",
            {key: value for key, value in record.items() if key != "id" or not in_label},
        )


def _labels(names: Iterable[str]) -> Iterator[str]:
    """Yield a label for each name that no other has: the name, and for its copies a number too."""
    used, copies = set[str](), Counter[str]()
    for name in names:
        label = bracketed(name)
        while label in used:
            copies[name] += 1
            label = f"{bracketed(name)} #{copies[name] + 1}"
        used.add(label)
        yield label
