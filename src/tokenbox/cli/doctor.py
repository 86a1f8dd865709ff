"""``tokenbox doctor``: shows the installed extras and how exactly each model is counted."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import tokenbox
from tokenbox import counters
from tokenbox.__about__ import DISTRIBUTION, __version__
from tokenbox.cli import terminal
from tokenbox.cli.count import needs_vocabulary
from tokenbox.cli.counter_options import by_settings
from tokenbox.cli.options import AS_JSON, argument
from tokenbox.cli.outcome import Exit
from tokenbox.cli.streams import write_record
from tokenbox.errors import TokenboxError
from tokenbox.records import to_record
from tokenbox.tokenizers.ownership import key_of_model

# The purpose of each extra.
EXTRAS = {
    "batch": "tokenbox batch on Parquet, compressed files and remote storage",
    "bcp": ".bcp packs with compression or references",
    "fast": "counts 4 to 20 times faster",
    "files": "tokenizer.json, SentencePiece and tekken.json files",
    "gateway": "tokenbox serve",
    "html": "the lens html_to_text",
    "llama3": "the vocabulary of Llama 3",
    "mcp": "tool servers in the shell, tokenbox as a tool server",
    "notebook": "the slider in notebooks",
    "otel": "traces of the gateway",
    "outline": "the lens outline: signatures of source code",
    "ray": "tokenbox batch on a Ray cluster",
    "shell": "the shell, and clients of LLM servers",
    "sign": "signed proofs",
}
TRIAL = [{"role": "user", "content": "Hello"}]
_NAME = re.compile(r"[\w.-]+")
# A model of each family.
MODELS = ("gpt-5", "gpt-4o", "gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro", "llama-3.1-8b-instruct")


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra. ``missing``: its packages that are not installed."""

    name: str
    what_for: str
    missing: tuple[str, ...]

    @property
    def remedy(self) -> str | None:
        return f"pip install '{DISTRIBUTION}[{self.name}]'" if self.missing else None

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "name what_for installed missing remedy", installed=not self.missing)


@dataclass(frozen=True, slots=True)
class ModelCounting:
    """How this installation counts for a model: a text, and a chat as a request."""

    model: str
    tokenizer: str | None
    text_exact: bool
    chat_exact: bool
    by: str | None
    problem: str | None = None

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "model tokenizer text_exact chat_exact counted_by problem", counted_by=self.by)


def doctor(
    models: list[str] | None = argument(
        "MODEL...", "The models to check. Default: yours and one of each family.", None
    ),
    as_json: bool = AS_JSON,
) -> int:
    """Show the installed extras, and which models are counted exactly.

    It contacts no server and changes nothing. The exit status is 2 if the settings cannot be read.

    Example: tokenbox doctor gpt-4o
    """
    problem: TokenboxError | None = None
    own: tuple[str, ...] = ()
    try:
        own = tuple(tokenbox.config.load(Path.cwd()).names("models"))
    except TokenboxError as error:
        problem = error
    counted = [_counted(model) for model in (models or dict.fromkeys((*own, *MODELS)))]
    extras = list(installed_extras())
    if as_json:
        record = {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "where": str(Path(sys.modules["tokenbox"].__file__ or "").parent),
            "extras": [extra.to_dict() for extra in extras],
            "models": [each.to_dict() for each in counted],
            "settings": None if problem is None else problem.to_dict(),
        }
        write_record("doctor", record)
    else:
        _show(extras, counted, problem)
    return Exit.OK if problem is None else Exit.BAD_INPUT


def installed_extras() -> Iterator[Extra]:
    """Yield every extra, with its packages that are missing from this installation."""
    for name, what_for in EXTRAS.items():
        yield Extra(name, what_for, tuple(each for each in _packages(name) if not _is_installed(each)))


def _packages(extra: str) -> Iterator[str]:
    """Yield the packages of an extra, from the metadata of this installation."""
    try:
        required = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # run from a source tree
        required = []
    for each in required:
        requirement, _, marker = each.partition(";")
        if f"extra == '{extra}'" in marker.replace('"', "'") and "sys_platform" not in marker:
            yield _NAME.match(requirement.strip())[0]  # type: ignore[index]  # a requirement begins with a name


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _counted(model: str) -> ModelCounting:
    try:
        known, tokenizer = by_settings(model, None, ask=False)
        identity = counters.text_counter(known, tokenizer).identity
        chat = tokenbox.count(TRIAL, known, tokenizer=tokenizer)
    except TokenboxError as error:
        return ModelCounting(model, None, text_exact=False, chat_exact=False, by=None, problem=error.message)
    return ModelCounting(model, identity.name, identity.exact, chat.exact, chat.by.value)


def _show(extras: list[Extra], counted: list[ModelCounting], problem: TokenboxError | None) -> None:
    lines = [
        f"tokenbox {__version__} on Python {platform.python_version()}, {platform.platform()}",
        "settings: " + ("ok" if problem is None else f"{problem.message} ({problem.code})"),
    ]
    terminal.show_lines([*lines, ""])
    kinds = {True: "exact", False: "estimate"}
    rows = [
        (
            each.model,
            each.tokenizer or "-",
            kinds[each.text_exact],
            kinds[each.chat_exact],
            each.by or "-",
        )
        for each in counted
    ]
    terminal.show_table(("model", "tokenizer", "text", "chat", "counted by"), rows)
    estimated = next((each.model for each in counted if needs_vocabulary(each.model, each.tokenizer)), None)
    if estimated is not None:
        key = key_of_model(estimated, "tokenizer")
        terminal.show_lines(["", f"To count by a model's own files: tokenbox config set {key} file:PATH"])
    terminal.show_lines([""])
    installed = [(each.name, "-" if each.missing else "yes", each.what_for) for each in extras]
    terminal.show_table(("extra", "installed", "what it is for"), installed)
    if missing := [each.name for each in extras if each.missing]:
        terminal.show_lines(["", f"To add some: pip install '{DISTRIBUTION}[{','.join(missing[:2])}]'"])
