"""A repository somewhere else, fetched by the user's own git into a folder that is deleted afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tokenbox.folder.difference import GitProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")


def is_url(path: str) -> bool:
    """Whether it names a repository somewhere else: ``https://...``, ``git@host:path``."""
    return _URL.fullmatch(path) is not None


@contextmanager
def cloned(url: str, *, whole: bool) -> Iterator[str]:
    """The folder of a clone of ``url``, deleted at the end. ``URL#REF`` names a branch or tag.

    ``whole``: with its history; else the latest commit only. The user's git decides who may read it, with the
    user's keys and settings; it asks nothing, runs no hook and fetches no submodule. Raises ``GitProblem``.
    """
    address, _, ref = url.partition("#")
    with tempfile.TemporaryDirectory(prefix="tokenbox-") as folder:
        target = os.path.join(folder, _name(address))  # noqa: PTH118
        command = ["git", "-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--no-recurse-submodules"]
        command += [] if whole else ["--depth=1", "--single-branch"]
        command += [f"--branch={ref}"] if ref else []
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            ended = subprocess.run(  # noqa: S603  # a fixed program, no shell, and nothing an option
                [*command, "--", address, target],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            raise GitProblem("git is not installed, and a remote repository needs it. Install it.") from None
        if ended.returncode:
            said = ended.stderr.decode("utf-8", "replace").strip()
            why = next((line for line in said.splitlines() if line.startswith("fatal: ")), said[:200])
            raise GitProblem(
                f"git cannot clone {_without_password(address)}: {_without_password(why)}. "
                f"Try it yourself: git clone {_without_password(address)}",
                git=_without_password(said[:2000]),
            )
        yield target


def _name(address: str) -> str:
    name = re.split(r"[/:]", address.rstrip("/"))[-1].removesuffix(".git")
    return name if re.fullmatch(r"[\w-][\w.-]*", name) else "repository"


def _without_password(address: str) -> str:
    return re.sub(r"(?<=//)[^/@\s]+@", "", address)
