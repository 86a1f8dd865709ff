"""The clipboard, by the program that the system has for it."""

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
    """Put a text on the clipboard. Raises :class:`UsageProblem` where no program can."""
    failed = []
    for program in PROGRAMS:
        found = shutil.which(program[0])
        if found is None:
            continue
        ended = subprocess.run(  # noqa: S603  # one of the above
            [found, *program[1:]],
            input=text,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if ended.returncode == 0:
            return
        failed.append(f"{program[0]}: {ended.stderr.decode('utf-8', 'replace').strip()[:200]}")
    names = ", ".join(program[0] for program in PROGRAMS)
    why = "; ".join(failed) or f"there is no {names}"
    raise UsageProblem(f"nothing can reach the clipboard: {why}. Leave out --copy and use a pipe.")
