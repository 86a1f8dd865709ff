"""Why a replay differs from its bundle: another rule, lens, tokenizer or release made the bundle.

The number of a rule is raised if the same inputs may have another outcome than before (docs/stability.md). So
if all versions are the same, the recorded outcome does not follow from the recorded inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tokenbox.errors import shown

if TYPE_CHECKING:
    from tokenbox.proof.contents import Contents

_NUMBERED: Final = re.compile(r"([\w.-]{1,100})[@/]([0-9]{1,9})")


def reason(bundle: Contents, again: Contents) -> str:
    """Return a sentence on what made the bundle, if that can explain the differences of its replay."""
    theirs, ours = _numbers(bundle), _numbers(again)
    others = [
        (name, number, ours[name]) for name, number in theirs.items() if ours.get(name, number) != number
    ]
    if others:
        age = "an older" if any(number < here for _, number, here in others) else "a newer"
        names = ", ".join(f"version {number:,} of {name} (here {here:,})" for name, number, here in others)
        return f"The bundle was made by {age} rule: {names}. {_what_repeats(bundle, again)}"
    before, now = bundle.manifest.predicate, again.manifest.predicate
    made_by, here = before["tokenizer"], now["tokenizer"]
    if made_by != here:
        counters = [f"{shown(one['name'])} {one['version']:.100}".rstrip() for one in (made_by, here)]
        other = "another version or kind of it" if counters[0] == counters[1] else counters[1]
        return f"The bundle was made with the tokenizer {counters[0]}, and the replay counted with {other}."
    if before["engine"] != now["engine"]:
        return f"The bundle was made by another release. {_what_repeats(bundle, again)}"
    return (
        "The bundle names the same rules, tokenizer and release as this replay: its record does not follow "
        "from its inputs, or an unreleased build made it."
    )


def _what_repeats(bundle: Contents, again: Contents) -> str:
    engine, here = (one.manifest.predicate["engine"] for one in (bundle, again))
    release = f"{engine['name']:.100} {engine['version']:.100}"
    if engine == here:
        return f"Only the build of {release} that made it repeats its decision."
    return f"To repeat its decision, replay it with {release}."


def _numbers(contents: Contents) -> dict[str, int]:
    """Return the version of each rule and lens that a bundle names."""
    texts = [str(contents.manifest.predicate["algorithm"]), *_lenses(contents)]
    found = [match for text in texts for match in _NUMBERED.finditer(text)]
    return {match[1]: int(match[2]) for match in found}


def _lenses(contents: Contents) -> Iterator[str]:
    for record in contents.inputs:
        fields = record["fields"]
        forms = fields.get("forms")
        for one in (fields, *(forms if isinstance(forms, list) else ())):
            if isinstance(one, dict) and isinstance(one.get("lenses"), str):
                yield one["lenses"]
