"""``tokenbox check``: checks prompt files and chats against their declared budgets and growth limits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import tokenbox
from tokenbox.cli import terminal
from tokenbox.cli.chat import chat_in
from tokenbox.cli.counter_options import DEFAULT_TOKENIZER, by_settings, note_misspelt
from tokenbox.cli.options import AS_JSON, argument, flag, option
from tokenbox.cli.outcome import Exit, only_one
from tokenbox.cli.streams import read_text, write_error, write_record, write_text
from tokenbox.compose.requests import Count
from tokenbox.config import Config
from tokenbox.content.message import InvalidMessage, UndeclaredCost
from tokenbox.errors import TokenboxError, plural, shown, toml_key
from tokenbox.folder.git import GitProblem, git_renames, run_git
from tokenbox.policy.guard import needed
from tokenbox.records import to_record
from tokenbox.render.lines import printable

# The errors of a chat that no server would take, or whose count nobody knows.
_UNCOUNTABLE = (InvalidMessage, UndeclaredCost)


class NoBudgets(TokenboxError, code="no_budgets"):
    """No check is declared, or one has no limit, or its pattern matches no file."""


class CheckOutcome(StrEnum):
    OK = "ok"
    OVER = "over budget"
    GREW = "grew too much"


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """One ``[check.NAME]`` of the settings: files, and the budget and relative growth allowed for each."""

    name: str
    files: tuple[str, ...]
    budget: int | None
    growth: Decimal | None
    model: str | None
    tokenizer: str | None

    def key(self, part: str) -> str:
        """Return the name of a setting of this check."""
        return toml_key(("check", self.name, part))


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked file. ``before``: its tokens at the base revision; None without a base, or for a new file.

    A file that git finds renamed is compared with the one of its old name.
    """

    group: CheckGroup
    file: str
    count: Count
    before: int | None

    @property
    def over(self) -> int:
        """The tokens over the budget; an inexact count includes its safety margin."""
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
        return to_record(
            self,
            "check file tokens exact budget before change outcome",
            check=self.group.name,
            tokens=self.count.total,
            exact=self.count.exact,
            budget=self.group.budget,
        )

    def row(self) -> list[str]:
        about = "" if self.count.exact else "~"
        return [
            self.file,
            str(self.count),
            "-" if self.group.budget is None else f"{self.group.budget:,}",
            "-" if self.change is None else f"{about}{self.change:+,}",
            self.outcome.value,
        ]


def check(
    names: list[str] | None = argument("NAME...", "The checks to run. Default: all.", None),
    base: str | None = option("--base REV", "Compare with this git revision."),
    markdown: bool = flag("--markdown", "Print a Markdown table, for a comment on a pull request."),
    as_json: bool = AS_JSON,
) -> int:
    """Check the token budgets that the project declares for its prompts and chats.

    In .tokenbox/config.toml: [check.prompts] with files = ["prompts/*.md"], budget = 2000,
    model = "gpt-4o" and growth = "0.1" (at most 10 % more than at --base).
    The exit status is 3 if a file is over its budget or grew too much.

    Example: tokenbox check --base origin/main
    """
    only_one({"--markdown": markdown, "--json": as_json})
    settings = tokenbox.config.load()
    root = Path() if settings.root is None else settings.root
    groups = _groups(settings, names)
    renamed = {} if base is None else _renamed(root, base)
    checked = [file for group in groups for file in _checked(group, root, base, renamed)]
    wrong = [file for file in checked if file.outcome is not CheckOutcome.OK]
    if as_json:
        write_record("check", {"files": [file.to_dict() for file in checked], "wrong": len(wrong)})
    elif markdown:
        write_text("".join(_markdown(checked)))
    else:
        heads = ("file", "tokens", "budget", "change", "outcome")
        terminal.show_table(heads, [file.row() for file in checked])
    for file in wrong:
        write_error(f"{printable(file.file)}: {_remedy(file)}\n")
    return Exit.DOES_NOT_FIT if wrong else Exit.OK


def _groups(settings: Config, names: Sequence[str] | None) -> list[CheckGroup]:
    declared = settings.names("check")
    unknown = [name for name in names or () if name not in declared]
    if unknown or not declared:
        known = f"Declared checks: {', '.join(declared)}." if declared else "No check is declared."
        problem = f"no check is called {unknown[0]!r}. " if unknown else ""
        raise NoBudgets(
            f"{problem}{known} Declare one: tokenbox config set check.prompts.files 'prompts/*.md'",
            checks=declared,
        )
    return [_group(settings, name) for name in dict.fromkeys(names or declared)]


def _group(settings: Config, name: str) -> CheckGroup:
    values: Any = {part.name: settings.value(("check", name, part.name)) for part in fields(CheckGroup)[1:]}
    group = CheckGroup(name, **values)
    if group.budget is None and group.growth is None:
        raise NoBudgets(
            f"{toml_key(('check', name))} has no budget and no growth, so it checks nothing. "
            f"Set one: tokenbox config set {shlex.quote(group.key('budget'))} 2000",
            check=name,
        )
    return group


def _checked(
    group: CheckGroup, root: Path, base: str | None, renamed: Mapping[str, str]
) -> Iterator[Checked]:
    if not group.files:
        raise NoBudgets(f"{group.key('files')} is nothing, which matches no file.", check=group.name)
    if group.budget is None and base is None:
        write_error(f"note: {printable(group.key('growth'))} is checked only with --base REV.\n")
    note_misspelt(*by_settings(group.model, group.tokenizer))
    for path in sorted({path for pattern in group.files for path in _matching(group, root, pattern)}):
        name = path.relative_to(root).as_posix()
        base_text = None if base is None else _text_at(root, base, renamed.get(name, name))
        before = None if base_text is None else _count_before(base_text, group)
        try:
            count = _count(read_text(str(path)), group)
        except _UNCOUNTABLE as error:
            raise type(error)(f"{name}: {error.message}", **error.details) from None
        yield Checked(group, name, count, before)


def _matching(group: CheckGroup, root: Path, pattern: str) -> list[Path]:
    try:
        if ".." in Path(pattern).parts:  # git has no earlier version to compare with
            raise ValueError("it leads out of it")  # noqa: TRY301  # as one that glob refuses
        found = [path for path in root.glob(pattern) if path.is_file()]
    except (ValueError, NotImplementedError, OSError) as error:
        raise NoBudgets(
            f"{group.key('files')} has {shown(pattern)}, which is not a pattern of files below the "
            f"project's folder: {error}. Write one such as prompts/**/*.md",
            check=group.name,
        ) from None
    if not found:  # a prompt that was moved is checked no more
        raise NoBudgets(
            f"{group.key('files')} has {printable(pattern)}, which matches no file.", check=group.name
        )
    return found


def _count_before(text: str, group: CheckGroup) -> int | None:
    """Count a file of the base; None if it was a chat that cannot be counted, so that one can be mended."""
    try:
        return _count(text, group).total
    except _UNCOUNTABLE:
        return None


def _count(text: str, group: CheckGroup) -> Count:
    """Count a chat as a request if a model is named, and anything else as a text."""
    chat = None if group.model is None else chat_in(text)
    default = DEFAULT_TOKENIZER if group.model is None else None
    model, tokenizer = by_settings(group.model, group.tokenizer or default)
    return tokenbox.count(text if chat is None else chat, model, tokenizer=tokenizer)


def _text_at(root: Path, base: str, name: str) -> str | None:
    """Return a file as it was at a revision, or None if it did not exist. Raises ``GitProblem``."""
    found = _git(root, "show", "--end-of-options", f"{base}:./{name}")
    if found is not None:
        return found.decode(errors="replace")
    if _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}") is not None:
        return None
    if _git(root, "rev-parse", "--git-dir") is None:
        raise GitProblem(f"this is not a git repository, so it has no {base!r}. Leave out --base.", base=base)
    if base == "HEAD" and not _git(root, "rev-list", "--all", "--max-count=1"):
        return None  # before the first commit
    fetch = (
        "--unshallow" if re.search("[~^]", base) else f"origin {shlex.quote(base.removeprefix('origin/'))}"
    )
    raise GitProblem(
        f"git does not know the revision {base!r} here. Fetch it: git fetch {fetch}",
        base=base,
    )


def _renamed(root: Path, base: str) -> dict[str, str]:
    """Return the old name of each renamed file; none of a revision that git does not know."""
    with suppress(GitProblem):
        return git_renames(str(root), base)
    return {}


def _git(root: Path, *arguments: str) -> bytes | None:
    """Return the output of git, or None if it failed. Raises ``GitProblem`` if it cannot be run."""
    try:
        return run_git(arguments, str(root))
    except GitProblem as error:
        if "git" in error.details:  # what it said
            return None
        raise


def _remedy(file: Checked) -> str:
    about = "" if file.count.exact else "~"
    if file.over:
        enough = needed(file.count)[0]
        margin = "" if file.count.exact else f" ({enough:,} with the safety margin of an estimate)"
        return (
            f"{about}{plural(file.count.total, 'token')}{margin}, {file.over:,} over its budget. "
            f"Shorten it, or: tokenbox config set {shlex.quote(file.group.key('budget'))} {enough}"
        )
    return (
        f"{about}{plural(file.count.total, 'token')}, {file.change:+,} since the base, and at most "
        f"{Decimal(100) * (file.group.growth or 0):f} % are allowed ({file.group.key('growth')})."
    )


def _markdown(checked: Sequence[Checked]) -> Iterator[str]:
    """Yield a summary, and a table of the files that are new, changed or over a limit."""
    wrong = [file for file in checked if file.outcome is not CheckOutcome.OK]
    shown = [file for file in checked if file in wrong or file.change or file.before is None]
    files = plural(len(checked), "file")
    yield f"**tokenbox check**: {files}, {len(wrong) or 'none'} over\n"
    if shown:
        yield "\n| file | tokens | budget | change | outcome |\n|---|---:|---:|---:|---|\n"
    for file in shown:
        name, *cells = (printable(cell).replace("|", "\\|") for cell in file.row())
        yield f"| {' | '.join((_code(name), *cells))} |\n"


def _code(text: str) -> str:
    """Return the text as a code span of Markdown: a file's name mentions nobody and links to nothing."""
    from tokenbox.render.markdown import fence_for  # only with --markdown

    fence = fence_for(text, 1)
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
