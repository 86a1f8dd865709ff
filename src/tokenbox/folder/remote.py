"""Clone a remote repository with the user's git into a temporary folder."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tokenbox.folder.difference import GitProblem

_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")


def is_url(path: str) -> bool:
    """Return whether it is the address of a remote repository: ``https://...``, ``git@host:path``."""
    return _URL.fullmatch(path) is not None


@contextmanager
def cloned(url: str, *, whole: bool) -> Iterator[str]:
    """Yield the folder of a clone of ``url``, deleted at the end. ``URL#REF`` names a branch or tag.

    ``whole``: with its history; otherwise only the latest commit. Git uses the user's keys and settings; it
    does not prompt, run hooks or fetch submodules. Raises ``GitProblem``.
    """
    address, _, ref = url.partition("#")
    with tempfile.TemporaryDirectory(prefix="tokenbox-") as folder:
        target = os.path.join(folder, _name(address))
        command = ["git", "-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--no-recurse-submodules"]
        command += [] if whole else ["--depth=1", "--single-branch"]
        command += [f"--branch={ref}"] if ref else []
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            ended = subprocess.run(  # noqa: S603  # a fixed program, no shell, and the address is no option
                [*command, "--", address, target],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            raise GitProblem("git is not installed, and a remote repository needs it. Install it.") from None
        if ended.returncode:
            message = _without_password(ended.stderr.decode("utf-8", "replace").strip())
            reason = next(
                (line for line in message.splitlines() if line.startswith("fatal: ")), message[:200]
            )
            address = _without_password(address)
            raise GitProblem(
                f"git cannot clone {address}: {reason.rstrip('.')}. Try it yourself: git clone {address}",
                git=message[:2000],
            )
        yield target


def _name(address: str) -> str:
    name = re.split(r"[/:]", address.rstrip("/"))[-1].removesuffix(".git")
    return name if re.fullmatch(r"[\w-][\w.-]*", name) else "repository"


def _without_password(address: str) -> str:
    return re.sub(r"(?<=//)[^/\s]+@", "", address)  # a password may contain an @
