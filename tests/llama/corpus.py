"""The chat templates in llama.cpp's sources, and what a real server counts with them.

The sources come with the source distribution of the package that has the server (xllamacpp, MIT). They are
fetched once through pip, under the hash in requirements/dev.txt, and kept in .pytest_cache. Their templates
belong to the models' makers, so none of them is in this repository.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
import tarfile
import tempfile
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
LOCK: Final = ROOT / "requirements" / "dev.txt"
PACKAGE: Final = "xllamacpp"


class NotFetched(Exception):  # a state
    """The source distribution could not be had."""


def templates(cache: Path) -> dict[str, str]:
    """The sources of all templates by their names: llama.cpp's, and the four of our own fixture.

    Raises :class:`NotFetched`.
    """
    requirement = _requirement()
    kept = cache / f"templates-{requirement.split()[0].partition('==')[2]}.json"
    if not kept.exists():
        found = _fetch(requirement)
        cache.mkdir(parents=True, exist_ok=True)
        making = kept.with_suffix(".making")
        making.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        making.replace(kept)
    fetched: dict[str, str] = json.loads(kept.read_text(encoding="utf-8"))
    return fetched | {f"tokenbox: {name}": source for name, source in models.TEMPLATES.items()}


def _requirement() -> str:
    """The locked version with its hashes."""
    lock = LOCK.read_text(encoding="utf-8")
    match = re.search(rf"^{PACKAGE}==.*?(?=^\S)", lock + "\n.", re.MULTILINE | re.DOTALL)
    assert match is not None
    return re.sub(r"^\s*#.*$", "", match[0], flags=re.MULTILINE).strip()


def _fetch(requirement: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "requirement.txt"
        asked.write_text(requirement + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--no-binary", PACKAGE, "--dest", folder, "--requirement", str(asked)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(folder).glob("*.tar.gz"))
        if done.returncode or not archives:
            raise NotFetched(f"pip could not fetch {PACKAGE}'s source distribution: {done.stderr[-500:]}")
        return dict(_in_archive(archives[0]))


def _in_archive(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                stream = opened.extractfile(member)
                assert stream is not None
                yield Path(member.name).stem, stream.read().decode("utf-8")


@dataclass
class Compared:
    """The requests of one template: how often ours and the server's count went together, and where not."""

    name: str
    digest: str
    outcomes: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        """Whether all that is marked exact is the server's figure, and nothing is refused that it counts."""
        return not (self.outcomes["wrong, exact"] or self.outcomes["refused"])


EQUAL, ESTIMATED = "equal, exact", "equal, inexact"
OUTCOMES: Final = (
    EQUAL, ESTIMATED, "wrong, inexact", "wrong, exact", "refused", "both refuse", "counted alone",
    "bound passed",
)  # fmt: skip


def compare(
    name: str, source: str, folder: Path, shapes: Mapping[str, dict[str, Any]] = SHAPES, *, trust: bool = True
) -> Compared:
    """Start a server with the template and let it count every request.

    ``trust``: mark as exact what would be, were the template in the table of proofs already.
    """
    model = models.write(folder, source)
    server = serve(model, 65_536, 1)
    try:
        chat = open_format(model, trust=trust)
        compared = Compared(name, digest(source))
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
    return chat  # type: ignore[return-value]  # of a GGUF


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
        ours, why = chat.count_request(read_request(body)), ""
    except TokenboxError as error:
        ours, why = None, error.message
    if ours is None:
        return ("both refuse", "") if counted is None else ("refused", why)
    if counted is None:
        return "counted alone", ""  # what may not be sent is counted on the way there
    if counted > ours.at_most:
        return "bound passed", f"{ours} at most {ours.at_most}, server {counted}"
    exact = "exact" if ours.exact else "inexact"
    if counted == ours.total:
        return f"equal, {exact}", ""
    return f"wrong, {exact}", f"{ours}, server {counted}"
