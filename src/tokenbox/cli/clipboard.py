"""The clipboard, through the program that the system provides."""

from __future__ import annotations

import shutil
import subprocess

from tokenbox.cli.outcome import UsageProblem

PROGRAMS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("clip.exe",),
)


def copy(text: bytes) -> None:
    """Copy a text to the clipboard. Raises :class:`UsageProblem` if no program can."""
    failures = []
    for program in PROGRAMS:
        found = shutil.which(program[0])
        if found is None:
            continue
        ended = subprocess.run(  # noqa: S603  # one of PROGRAMS
            [found, *program[1:]],
            input=text,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if ended.returncode == 0:
            return
        failures.append(f"{program[0]}: {ended.stderr.decode('utf-8', 'replace').strip()[:200]}")
    names = ", ".join(program[0] for program in PROGRAMS)
    why = "; ".join(failures) or f"none of {names} is installed"
    raise UsageProblem(f"the clipboard cannot be used: {why}. Leave out --copy and use a pipe.")
