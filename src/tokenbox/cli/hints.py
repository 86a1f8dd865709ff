"""Turns a usage error into a plain message and a command line that works.

The tables map the words of other tools to our commands and options.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenbox.cli.listing import COMMANDS
from tokenbox.integers import written_figure

COMMAND_MEANT: Final[Mapping[str, str]] = {
    "token": "count",
    "tokens": "count",
    "tokenize": "count",
    "wc": "count",
    "trim": "fit",
    "truncate": "fit",
    "shorten": "fit",
    "compact": "fit",
    "evict": "fit",
    "bundle": "pack",
    "repo": "pack",
    "repomix": "pack",
    "concat": "pack",
    "compile": "layout",
    "build": "layout",
    "render": "layout",
    "whatif": "layout",
    "guard": "enforce",
    "gate": "enforce",
    "allow": "enforce",
    "chat": "shell",
    "repl": "shell",
    "talk": "shell",
    "proxy": "serve",
    "server": "serve",
    "start": "serve",
    "run": "serve",
    "up": "serve",
    "price": "cost",
    "usage": "cost",
    "spend": "cost",
    "ledger": "cost",
    "set": "config set",
    "settings": "config",
    "info": "doctor",
    "status": "doctor",
    "env": "doctor",
    "about": "doctor",
    "debug": "doctor",
    "version": "--version",
    "list": "tokenizers",
    "encodings": "tokenizers",
    "model": "models",
    "prices": "models",
    "verify": "proof verify",
    "replay": "proof replay",
    "test": "check",
    "lint": "check",
    "ci": "check",
    "setup": "init",
    "new": "init",
    "discover": "models --discover",
}
"""Commands of other tools, and words that people try, with our command for them."""

OPTION_MEANT: Final[Mapping[str, Sequence[str]]] = {
    "--max-tokens": ("--budget", "--max-ctx"),
    "--max_tokens": ("--budget", "--max-ctx"),
    "--token-budget": ("--budget",),
    "--tokens": ("--budget",),
    "--token-limit": ("--budget", "--max-ctx"),
    "--limit": ("--budget",),
    "--max": ("--budget",),
    "--size": ("--budget",),
    "--window": ("--max-ctx", "--budget"),
    "--context": ("--max-ctx", "--budget"),
    "--context-window": ("--max-ctx",),
    "--max-context": ("--max-ctx",),
    "--reserve": ("--reserve-out",),
    "--max-output-tokens": ("--reserve-out",),
    "--encoding": ("--tokenizer",),
    "--encoder": ("--tokenizer",),
    "--vocab": ("--tokenizer",),
    "--url": ("--upstream", "--endpoint"),
    "--server": ("--upstream", "--endpoint"),
    "--base-url": ("--upstream", "--endpoint"),
    "--api-base": ("--upstream", "--endpoint"),
    "--backend": ("--upstream", "--endpoint"),
    "--target": ("--upstream", "--endpoint"),
    "--out": ("--output",),
    "--output-file": ("--output",),
    "--file": ("--output",),
    "--style": ("--format",),
    "--type": ("--format",),
    "--markdown": ("--format markdown",),
    "--xml": ("--format xml",),
    "--prompt": ("--query", "--system"),
    "--question": ("--query",),
    "--issue": ("--query-file",),
    "--ignore": ("--exclude",),
    "--verbose": ("--explain",),
    "--why": ("--explain",),
    "--dry-run": ("--check", "--explain"),
    "--budget": ("--max-ctx",),
    "--html": ("--output page.html",),
    "--what-if": ("--whatif",),
    "--json": ("--format json",),
    "--listen": ("--port",),
    "--bind": ("--host",),
    "--address": ("--host",),
}
"""Options of other tools with ours, the likeliest first. One is offered only if the command has it."""

OPTION_EXPLAINED: Final[Mapping[tuple[str, str], str]] = {
    ("pack", "--compress"): (
        "tokenbox pack has no option --compress: with a --budget it shows outlines of files that do not fit."
    ),
    ("count", "--text"): "tokenbox count has no option --text: it reads files and standard input.",
    ("models", "--prices"): "tokenbox models has no option --prices: it shows the prices without one.",
}
"""Options that are not needed, with the reason."""

_NO_COMMAND = re.compile(r"No such command '(?P<word>[^']*)'\.")
_NO_OPTION = re.compile(r"No such option: (?P<word>\S+)")
_NOT_A_NUMBER = re.compile(r"'(?P<word>[^']*)' is not a valid int(?:eger)?(?: range)?\.?")
_NOT_A_CHOICE = re.compile(r"'(?P<word>[^']*)' is not one of ")
_POSSIBLE = re.compile(r"\(Possible options: (?P<names>[^)]*)\)")
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<word>[^ )]+)")
_NEEDS_VALUE = re.compile(r"Option '(?P<word>[^']*)' requires an argument\.")
_MISSING = re.compile(r"Missing (?:argument|option|parameter):? '(?P<word>[^']*)'\.?")
_CHOICE_MEANT: Final = {
    "md": "markdown",
    "txt": "minimal",
    "text": "minimal",
    "plain": "minimal",
    "lcp": "bcp",
}
_SCHEMES = ("http://", "https://")
_VALUES: Final[Mapping[str, str]] = {
    "--model": "gpt-4o",
    "--budget": "8000",
    "--tokenizer": "o200k_base",
    "--query": "'Why does login fail?'",
    "--upstream": "http://127.0.0.1:8080",
    "--endpoint": "http://127.0.0.1:8080",
    "--output": "out.txt",
    "-o": "out.txt",
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "count": "tokenbox count README.md",
    "fit": "tokenbox fit chat.json --budget 8000",
    "ask": "tokenbox ask 'What is a token?' --endpoint http://127.0.0.1:8080",
    "diff": "tokenbox diff old.json new.json",
    "inspect": "tokenbox inspect prompt.toml --open",
    "batch": "tokenbox batch rows.jsonl -o out --task count",
    "proof": "tokenbox proof list",
    "cache": "tokenbox cache requests.jsonl",
    "tools": "tokenbox tools request.json",
}


_MISTAKEN_FOR_COMMANDS: Final[Sequence[tuple[Callable[[str], bool], str, Sequence[str]]]] = (
    (lambda word: word.startswith(_SCHEMES), "an address", ("serve", "--upstream")),
    (lambda word: Path(word).is_dir(), "a folder", ("pack",)),
    (lambda word: Path(word).exists(), "a file", ("count",)),
)


@dataclass(frozen=True, slots=True)
class Known:
    """The options of the command, and the commands of a group."""

    options: Collection[str]
    commands: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Wrong:
    """A usage error: its message, the word at fault, and all arguments."""

    message: str
    word: str
    arguments: Sequence[str]
    known: Known


Hint = tuple[str, str | None]
"""The message, and a command line to try instead, if one is likely."""


def improved(message: str, arguments: Sequence[str], known: Known) -> Hint:
    """Return a usage error in plain words, and ``arguments`` corrected, if a correction is likely."""
    for pattern, explain in _RULES:
        if (found := pattern.search(message)) is not None:
            return explain(Wrong(message, found["word"], arguments, known))
    return message, None


def _command(wrong: Wrong) -> Hint:
    word, rest = wrong.word, wrong.arguments[1:]
    if wrong.arguments[0] == "gateway" and COMMAND_MEANT.get(word) == "serve":
        return f"tokenbox gateway has no command '{word}'.", "tokenbox serve --upstream http://127.0.0.1:8080"
    if wrong.arguments[0] != word:
        path = " ".join(["tokenbox", *wrong.arguments[: wrong.arguments.index(word)]])
        return f"{path} has no command '{word}'. There are {', '.join(wrong.known.commands)}.", None
    if word in COMMAND_MEANT:
        return f"there is no command '{word}'.", _line([*COMMAND_MEANT[word].split(), *rest])
    for matches, kind, meant in _MISTAKEN_FOR_COMMANDS:
        if matches(word):
            return f"{word} is {kind}, not a command.", _line([*meant, word, *rest])
    return wrong.message.replace("No such command", "there is no command"), None


def _option(wrong: Wrong) -> Hint:
    name = wrong.word.partition("=")[0]
    command = wrong.arguments[0]
    if command.startswith("-"):
        return _before_the_command(wrong)
    if (command, name) in OPTION_EXPLAINED:
        example = "printf 'some text' | tokenbox count -" if name == "--text" else None
        return OPTION_EXPLAINED[command, name], example
    meant = next((o for o in OPTION_MEANT.get(name, ()) if o.split()[0] in wrong.known.options), None)
    if meant is None and command == "count" and "--budget" in OPTION_MEANT.get(name, (name,)):
        return "tokenbox count has no budget: it counts all of a text.", _EXAMPLES["fit"]
    if meant is None:
        near = _POSSIBLE.search(wrong.message)
        hint = "" if near is None else f" Did you mean {near['names']}?"
        return f"tokenbox {command} has no option {name}.{hint}", None
    changed: list[str] = []
    for argument in wrong.arguments:
        option, equals, value = argument.partition("=")
        if option != name:
            changed.append(argument)
            continue
        changed += meant.split()
        if equals:
            changed.append(value)
    if meant == "--budget":
        at = changed.index(meant) + 1
        changed[at : at + 1] = [str(written_figure(figure) or figure) for figure in changed[at : at + 1]]
    return f"tokenbox {command} has no option {name}.", _line(changed)


def _before_the_command(wrong: Wrong) -> Hint:
    """Move options behind the command."""
    message = f"tokenbox has no option {wrong.word}."
    if wrong.word in ("-v", "-V"):
        return message, "tokenbox --version"
    at = next((i for i, argument in enumerate(wrong.arguments) if argument in COMMANDS), None)
    if at is None:
        return message, None
    moved = _line([*wrong.arguments[at:], *wrong.arguments[:at]])
    return f"{message} The options of a command come after its name.", moved


def _number(wrong: Wrong) -> Hint:
    message = _NOT_A_NUMBER.sub(f"'{wrong.word}' is not a whole number.", wrong.message)
    tokens = written_figure(wrong.word)
    if tokens is None:
        return message, None
    corrected = [
        argument.removesuffix(wrong.word) + str(tokens)
        if argument.rpartition("=")[2] == wrong.word
        else argument
        for argument in wrong.arguments
    ]
    return f"{message} Write {tokens}.", _line(corrected)


def _extra(wrong: Wrong) -> Hint:
    message = f"tokenbox {wrong.arguments[0]} does not take the argument '{wrong.word}'."
    option = next((o for o in ("--upstream", "--endpoint") if o in wrong.known.options), None)
    if "--budget" in wrong.known.options and written_figure(wrong.word) is not None:
        figure = str(written_figure(wrong.word))
        moved = [each for each in wrong.arguments if each != wrong.word]
        return message, _line([*moved, "--budget", figure])
    if option is None or not wrong.word.startswith(_SCHEMES):
        return message, _line(wrong.arguments[:1]) if len(wrong.arguments) == 2 else None  # noqa: PLR2004
    at = wrong.arguments.index(wrong.word)
    return message, _line([*wrong.arguments[:at], option, *wrong.arguments[at:]])


def _choice(wrong: Wrong) -> Hint:
    near = difflib.get_close_matches(wrong.word, re.findall("'([^']+)'", wrong.message), 2, 0.6)
    meant = _CHOICE_MEANT.get(wrong.word) or (near[1] if len(near) > 1 else None)
    if meant is None or f"'{meant}'" not in wrong.message or wrong.word not in wrong.arguments:
        return wrong.message, None
    return wrong.message, _line([meant if each == wrong.word else each for each in wrong.arguments])


def _value(wrong: Wrong) -> Hint:
    example = _VALUES.get(wrong.word)
    return f"{wrong.word} needs a value.", None if example is None else f"{_line(wrong.arguments)} {example}"


def _missing(wrong: Wrong) -> Hint:
    return f"{wrong.word.removesuffix('...')} is missing.", _EXAMPLES.get(wrong.arguments[0])


def _line(arguments: Sequence[str]) -> str:
    return f"tokenbox {shlex.join(arguments)}"


_RULES: Final = (
    (_NO_COMMAND, _command),
    (_NO_OPTION, _option),
    (_NOT_A_NUMBER, _number),
    (_NOT_A_CHOICE, _choice),
    (_EXTRA, _extra),
    (_NEEDS_VALUE, _value),
    (_MISSING, _missing),
)
