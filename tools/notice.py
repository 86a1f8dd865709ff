"""List in NOTICE the packages whose license is not permissive, from the metadata of the installed packages.

    python tools/notice.py            rewrite that part of NOTICE
    python tools/notice.py --check    fail if NOTICE differs from the metadata
    python tools/notice.py --list     print every package that tokenbox installs, with its license

The packages are those of tokenbox with all extras, and those of its tests and checks. A package is listed if
its license is not in ``PERMISSIVE`` or its metadata state no license. ``STATED_ELSEWHERE`` has licenses that
packages state in other places.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import Distribution

ROOT = Path(__file__).resolve().parents[1]
NOTICE = ROOT / "NOTICE"
HEAD = "tokenbox contains none of the packages that it uses; pip installs them."

PERMISSIVE = re.compile(
    r"(MIT|MIT-0|MIT-CMU|BSD|0BSD|BSD-[123]-Clause|Apache|Apache-2\.0|ISC|ISCL|PSF|PSF-2\.0|Python-2\.0|HPND|Zlib|"
    r"Unlicense|CC0-1\.0|CNRI-Python|WTFPL)",
    re.IGNORECASE,
)
# Names in metadata and their SPDX identifiers.
NAMES = {
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "BSD License": "BSD",
    "3-Clause BSD License": "BSD",
    "BSD 3-Clause": "BSD",
    "ISC License (ISCL)": "ISC",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Packages without a license in their metadata: from their license files, or llama-models' repository.
STATED_ELSEWHERE = {
    "fastokens": "Apache-2.0",
    "llama-models": "Llama 3 to 4 Community License Agreements",
}


def license_of(package: Distribution) -> str:
    """Return the SPDX expression of the metadata, or else their classifiers or free text."""
    metadata = package.metadata
    if expressions := metadata.get_all("License-Expression"):
        return str(expressions[0])
    if known := STATED_ELSEWHERE.get(canonicalize_name(metadata["Name"])):
        return known
    classifiers = [
        each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier") or [] if "License" in each
    ]
    classifiers = [each for each in classifiers if each != "OSI Approved"]
    if classifiers:
        return " OR ".join(NAMES.get(each, each) for each in classifiers)
    stated = (metadata.get_all("License") or [""])[0].strip().partition("\n")[0]
    return NAMES.get(stated, stated) or "not stated"


def is_permissive(license_name: str) -> bool:
    """Return True if one alternative (OR) of an SPDX expression has only permissive licenses (AND)."""
    while (inner := re.search(r"\(([^()]*)\)", license_name)) is not None:
        license_name = license_name.replace(inner[0], "MIT" if is_permissive(inner[1]) else "restricted")
    return any(
        all(PERMISSIVE.fullmatch(part.partition(" WITH ")[0]) for part in alternative.split(" AND "))
        for alternative in license_name.split(" OR ")
    )


def installed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """Return the installed packages of these requirements and of their dependencies, by name."""
    found: dict[str, Distribution] = {}
    seen: set[str] = set()
    waiting = [(Requirement(each), "") for each in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name == "tokenbox-llm" or f"{name}{sorted(requirement.extras)}" in seen:
            continue
        seen.add(f"{name}{sorted(requirement.extras)}")
        try:
            package = found[name] = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed. Run: make check") from None
        for needed in package.requires or ():
            waiting += [(Requirement(needed), each) for each in ("", *requirement.extras)]
    return found


def required(path: Path) -> list[str]:
    """Return the requirements of a requirements file."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def restricted(packages: dict[str, Distribution]) -> list[str]:
    """Return a line for each package whose license is not permissive."""
    names = {name: license_of(package) for name, package in sorted(packages.items())}
    return [f"  {name:<20} {stated}" for name, stated in names.items() if not is_permissive(stated)]


def notice(text: str) -> str:
    """Return the expected NOTICE: the part written by hand, then the lists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    used = installed([*project["dependencies"], *(each for extra in extras for each in extra)])
    tested = installed(required(ROOT / "requirements" / "dev.in"))
    only_tested = {name: package for name, package in tested.items() if name not in used}
    lines = [
        text.partition(HEAD)[0].rstrip(),
        "",
        HEAD,
        "Most of them have permissive licenses (MIT, BSD, Apache-2.0 and the like).",
        "These do not, of all that pip installs with tokenbox and its extras:",
        "",
        *restricted(used),
        "",
        "The tests and checks also use:",
        "",
        *restricted(only_tested),
    ]
    return "\n".join(lines) + "\n"


def all_licenses() -> str:
    """Return a page with every package of the base installation and of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = installed(project["dependencies"])
    extras = {
        name: installed(needed) for name, needed in project["optional-dependencies"].items() if name != "all"
    }
    rows = [(name, "base", package) for name, package in sorted(base.items())]
    names = sorted({name for packages in extras.values() for name in packages}.difference(base))
    for name in names:
        needed_by = [extra for extra, packages in extras.items() if name in packages]
        rows.append((name, ", ".join(needed_by), extras[needed_by[0]][name]))
    lines = [
        "# Licenses of the packages that tokenbox installs",
        "",
        "`python tools/notice.py --list`, from the metadata of the packages. tokenbox is Apache-2.0.",
        "",
        "| package | version | installed by | license |",
        "|---|---|---|---|",
    ]
    lines += [f"| {name} | {package.version} | {by} | {license_of(package)} |" for name, by, package in rows]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if "--list" in arguments:
        print(all_licenses(), end="")
        return 0
    text = NOTICE.read_text(encoding="utf-8")
    wanted = notice(text)
    if "--check" not in arguments:
        NOTICE.write_text(wanted, encoding="utf-8")
        return 0
    if text == wanted:
        return 0
    print(
        "NOTICE differs from the licenses of the installed packages. Run: python tools/notice.py",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
