"""The options of ``tokenbox layout``, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import STDIN


class Format(StrEnum):
    """What a document on standard input is written in."""

    TOML = "toml"
    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Choices:
    """What was asked for."""

    document: str | None
    budget: int | None
    tokenizer: str | None
    as_json: bool
    explain: bool
    whatif: str | None
    messages: bool
    reclaim: bool
    jsonl: bool
    base: str | None
    allow_outside: bool
    text_format: Format | None
    output: str | None
    proof: bool

    def check(self) -> None:
        """Raise :class:`UsageProblem` for what does not go together; nothing is silently left out."""
        given = {option for option, is_given in self._given().items() if is_given}
        for one, others in _EXCLUDES.items():
            clash = [other for other in others if one in given and other in given]
            if clash:
                raise UsageProblem(f"{one} and {clash[0]} do not go together. Give one of them.")
        if self.explain and (self.as_json or self.messages) and self.output is None:
            raise UsageProblem(
                "--explain and JSON both go to standard output. With -o FILE the JSON goes there."
            )
        if self.explain and self.output == STDIN:
            raise UsageProblem("--explain and -o - both go to standard output. Name a file for the text.")
        self._check_document()
        if self.base is not None and not Path(self.base).is_dir():
            raise UsageProblem(f"--base {self.base}: there is no such folder.")
        if self.output is not None and self.document is not None and _same_file(self.output, self.document):
            raise UsageProblem(f"-o {self.output} would overwrite the document itself. Name another file.")

    def _check_document(self) -> None:
        if self.jsonl:
            return
        if self.document is None:
            raise UsageProblem("name a layout document, or - for standard input, or use --jsonl.")
        if self.document == STDIN and self.text_format is None:
            raise UsageProblem("a document on standard input needs --format toml, yaml or json.")
        if self.document != STDIN and (self.text_format is not None or self.base is not None):
            option = "--base" if self.text_format is None else "--format"
            raise UsageProblem(f"{option} is for standard input; a file has its own folder and suffix.")

    def _given(self) -> dict[str, bool]:
        return {
            "DOC": self.document is not None,
            "--budget": self.budget is not None,
            "--explain": self.explain,
            "--json": self.as_json,
            "--whatif": self.whatif is not None,
            "--messages": self.messages,
            "--jsonl": self.jsonl,
            "--format": self.text_format is not None,
            "--output": self.output is not None,
            "--proof": self.proof,
        }


_EXCLUDES = {
    "--jsonl": ("DOC", "--explain", "--whatif", "--messages", "--format", "--output"),
    "--whatif": ("--budget", "--explain", "--messages", "--proof"),
    "--messages": ("--json",),
}


def budgets_in(text: str, option: str = "--whatif") -> list[int]:
    """The budgets in ``1000,2000,4000``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):  # noqa: PLR2004
        raise UsageProblem(
            f"{option} takes whole numbers of tokens, as in 1000,2000,4000; not {text[:60]!r}."
        )
    return [int(part) for part in parts]


def _same_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False
