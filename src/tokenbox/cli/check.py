"""``tokenbox check``: declared budgets of prompt files and chats, and what grew since another revision."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenbox.cli import terminal
from tokenbox.cli.count import by_settings, chat_in
from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.streams import read_text, write_error, write_record, write_text
from tokenbox.errors import TokenboxError
from tokenbox.policy.guard import needed
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.compose.requests import Count
    from tokenbox.config import Config

_GIT_SECONDS = 60


class NoBudgets(TokenboxError):
    """No setting says which files to check, or a pattern matches none."""

    code = "no_budgets"


class CheckOutcome(StrEnum):
    """What is wrong with a file, if anything is."""

    OK = "ok"
    OVER = "over budget"
    GREW = "grew too much"


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """What ``[check.NAME]`` declares: files, how many tokens each may have, and how much it may grow."""

    name: str
    files: tuple[str, ...]
    budget: int | None
    growth: Decimal | None
    model: str | None
    tokenizer: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """One file. ``before``: its count at the base revision; None without one, or for a new file."""

    group: CheckGroup
    file: str
    count: Count
    before: int | None

    @property
    def over(self) -> int:
        """By how many tokens it is over its budget; what is not exact counts with its margin."""
        return 0 if self.group.budget is None else max(0, needed(self.count)[0] - self.group.budget)

    @property
    def outcome(self) -> CheckOutcome:
        if self.over:
            return CheckOutcome.OVER
        growth = self.group.growth
        if growth is not None and self.before is not None and self.count.total > self.before * (1 + growth):
            return CheckOutcome.GREW
        return CheckOutcome.OK

    @property
    def change(self) -> int | None:
        return None if self.before is None else self.count.total - self.before

    def to_dict(self) -> dict[str, object]:
        return {
            "check": self.group.name,
            "file": self.file,
            "tokens": self.count.total,
            "exact": self.count.exact,
            "budget": self.group.budget,
            "before": self.before,
            "change": self.change,
            "outcome": self.outcome.value,
        }

    def row(self) -> list[str]:
        about = "" if self.count.exact else "~"
        return [
            self.file,
            f"{about}{self.count.total:,}",
            "-" if self.group.budget is None else f"{self.group.budget:,}",
            "-" if self.change is None else f"{about}{self.change:+,}",
            self.outcome.value,
        ]


def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="The checks to run; all, if none is given.")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="REV", help="Compare with this revision, as git names it.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table, as a comment on a pull request.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Check the token budgets that the project declares for its prompts and chats.

    In .tokenbox/config.toml: [check.prompts] with files = ["prompts/*.md"], budget = 2000,
    model = "gpt-4o" and growth = "0.1" (at most 10 % more than at --base).
    The exit status is 3 if a file is over its budget or grew too much.

    Example: tokenbox check --base origin/main
    """
    with reporting(as_json=as_json):
        if markdown and as_json:
            raise UsageProblem("--markdown and --json are two forms of one table. Choose one.")
        from tokenbox.config import load  # the help needs no settings

        settings = load()
        root = Path() if settings.root is None else settings.root
        checked = [one for group in _groups(settings, names) for one in _checked(group, root, base)]
        wrong = [one for one in checked if one.outcome is not CheckOutcome.OK]
        if as_json:
            write_record("check", {"files": [one.to_dict() for one in checked], "wrong": len(wrong)})
        elif markdown:
            write_text("".join(_markdown(checked)))
        else:
            heads = ("file", "tokens", "budget", "change", "outcome")
            terminal.show(terminal.table(heads, [[printable(cell) for cell in one.row()] for one in checked]))
        for one in wrong:
            write_error(f"{printable(one.file)}: {_remedy(one)}\n")
    return Exit.DOES_NOT_FIT if wrong else Exit.OK


def _groups(settings: Config, names: Sequence[str] | None) -> list[CheckGroup]:
    declared = settings.names("check")
    unknown = [name for name in names or () if name not in declared]
    if unknown or not declared:
        known = f"There are: {', '.join(declared)}." if declared else "No check is declared."
        what = f"no check is called {unknown[0]!r}. " if unknown else ""
        raise NoBudgets(
            f"{what}{known} Declare one: tokenbox config set check.prompts.files 'prompts/*.md'",
            checks=declared,
        )
    return [_group(settings, name) for name in names or declared]


def _group(settings: Config, name: str) -> CheckGroup:
    def value(part: str) -> Any:  # noqa: ANN401  # as the table of keys says
        return settings.value(("check", name, part))

    return CheckGroup(
        name, value("files"), value("budget"), value("growth"), value("model"), value("tokenizer")
    )


def _checked(group: CheckGroup, root: Path, base: str | None) -> Iterator[Checked]:
    paths = sorted({path for pattern in group.files for path in root.glob(pattern) if path.is_file()})
    if not paths:
        patterns = ", ".join(group.files) or "nothing"
        raise NoBudgets(f"check.{group.name}.files is {patterns}, which matches no file.", check=group.name)
    for path in paths:
        name = path.relative_to(root).as_posix()
        before = None if base is None else _at(root, base, name)
        counted = None if before is None else _count(before, group).total
        yield Checked(group, name, _count(read_text(str(path)), group), counted)


def _count(text: str, group: CheckGroup) -> Count:
    """A chat as the request that it is, where a model is named; anything else as a text."""
    from tokenbox import api  # on use

    chat = None if group.model is None else chat_in(text)
    model, tokenizer = by_settings(group.model, group.tokenizer or (None if group.model else "o200k_base"))
    return api.count(text if chat is None else chat, model, tokenizer=tokenizer)


def _at(root: Path, base: str, name: str) -> str | None:
    """A file as it was at a revision; None if it was not there. Raises ``GitProblem``."""
    shown = _git(root, "show", "--end-of-options", f"{base}:./{name}")
    if shown.returncode == 0:
        return shown.stdout.decode(errors="replace")
    from tokenbox.folder.difference import GitProblem  # only with --base

    if _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}").returncode:
        raise GitProblem(
            f"git does not know the revision {base!r} here. Fetch it: git fetch origin {base}", base=base
        )
    return None


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    from tokenbox.folder.difference import GitProblem  # only with --base

    try:
        return subprocess.run(  # noqa: S603  # a list, and git takes what follows as a revision
            ["git", *arguments],  # noqa: S607  # the user's git
            cwd=root,
            capture_output=True,
            check=False,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitProblem(f"git cannot be run: {error}.") from None


def _remedy(one: Checked) -> str:
    about = "" if one.count.exact else "~"
    if one.over:
        return (
            f"{about}{one.count.total:,} tokens, {about}{one.over:,} over its budget. Shorten it, or: "
            f"tokenbox config set check.{one.group.name}.budget {needed(one.count)[0]}"
        )
    return (
        f"{about}{one.count.total:,} tokens, {one.change:+,} since the base, and at most "
        f"{Decimal(100) * (one.group.growth or 0):f} % are allowed (check.{one.group.name}.growth)."
    )


def _markdown(checked: Sequence[Checked]) -> Iterator[str]:
    """What changed or is wrong; of the rest the number."""
    shown = [one for one in checked if one.change or one.outcome is not CheckOutcome.OK or one.before is None]
    wrong = sum(one.outcome is not CheckOutcome.OK for one in checked)
    yield f"**tokenbox check**: {len(checked):,} files, {wrong or 'none'} over\n"
    if shown:
        yield "\n| file | tokens | budget | change | outcome |\n|---|---:|---:|---:|---|\n"
    for one in shown:
        cells = [cell.replace("|", "\\|") for cell in one.row()]
        yield f"| {' | '.join(printable(cell) for cell in cells)} |\n"
