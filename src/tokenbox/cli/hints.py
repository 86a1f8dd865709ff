"""Turns a usage error into a plain message and a command line that works.

The tables map the words of other tools to our commands and options.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tokenbox.cli.listing import COMMANDS
from tokenbox.integers import written_figure

_COMMANDS: Final = {
    "count": "token tokens tokenize wc encode",
    "fit": "trim truncate shorten compact evict",
    "pack": "bundle repo repomix concat",
    "layout": "compile build render whatif",
    "enforce": "guard gate allow",
    "shell": "chat repl talk",
    "ask": "prompt query complete",
    "serve": "proxy server start run up",
    "cost": "price usage spend ledger",
    "config set": "set",
    "config": "settings",
    "gateway keys": "keys",
    "doctor": "info status env about debug",
    "--version": "version",
    "tokenizers": "list encodings",
    "models": "model prices",
    "models --live": "discover",
    "proof verify": "verify",
    "proof replay": "replay",
    "check": "test lint ci",
    "init": "setup new",
}
"""Our commands, with those of other tools and words that people try for them."""

COMMAND_MEANT: Final = {word: command for command, words in _COMMANDS.items() for word in words.split()}

_OPTIONS: Final[Sequence[tuple[Sequence[str], str]]] = (
    (("--budget", "--max-ctx"), "--max-tokens --max_tokens --token-limit"),
    (("--budget",), "--token-budget --tokens --map-tokens --limit --max --size"),
    (("--max-ctx", "--budget"), "--window --context --num-ctx --ctx-size"),
    (("--max-ctx",), "--context-window --max-context --budget"),
    (("--reserve-out",), "--reserve --reserve-output --max-output-tokens"),
    (("--tokenizer",), "--encoding --encoder --token-count-encoding --vocab"),
    (("--upstream", "--endpoint"), "--url --server --base-url --api-base --backend --target"),
    (("--output",), "--out --output-file --file"),
    (("--format",), "--style --output-format --type"),
    (("--format markdown",), "--markdown"),
    (("--format xml",), "--xml"),
    (("--format json",), "--json"),
    (("--query", "--system"), "--prompt"),
    (("--query",), "--question"),
    (("--query-file",), "--issue"),
    (("--exclude",), "--ignore --exclude-pattern"),
    (("--include",), "--include-pattern"),
    (("--strip comments",), "--remove-comments"),
    (("--strip base64",), "--truncate-base64"),
    (("--line-numbers",), "--output-show-line-numbers"),
    (("--tree",), "--token-count-tree"),
    (("--diff",), "--include-diffs"),
    (("--log 20",), "--include-logs"),
    (("--split",), "--split-output"),
    (("--instructions",), "--instruction-file-path"),
    (("--copy",), "--clipboard"),
    (("--explain",), "--verbose --why"),
    (("--check", "--explain"), "--dry-run"),
    (("--output page.html",), "--html"),
    (("--whatif",), "--what-if"),
    (("--port",), "--listen"),
    (("--host",), "--bind --address"),
    (("--content",), "--column"),
    (("--since",), "--last"),
)
"""Our options, the likeliest first, with those of other tools. One is offered only if the command has it."""

OPTION_MEANT: Final = {word: meant for meant, words in _OPTIONS for word in words.split()}

OPTION_EXPLAINED: Final[Mapping[tuple[str, str], tuple[str, str | None]]] = {
    ("pack", "--compress"): ("with a --budget it shows outlines of files that do not fit", None),
    ("pack", "--remote"): (
        "give the address in place of a folder",
        "tokenbox pack https://github.com/owner/name",
    ),
    ("pack", "--path"): ("give the folder without an option", "tokenbox pack ."),
    ("pack", "--template"): ("choose one of its formats", "tokenbox pack . --format markdown"),
    ("pack", "--no-gitignore"): ("rules such as !dist/ in .tokenboxignore bring files back", None),
    ("count", "--text"): ("it reads files and standard input", "printf 'some text' | tokenbox count -"),
    **dict.fromkeys(
        (("count", "-f"), ("count", "--file")),
        ("give the files without an option", "tokenbox count README.md"),
    ),
    **dict.fromkeys(
        (("count", "-o"), ("count", "--output"), ("count", "--out")),
        ("it prints to standard output", "tokenbox count README.md > counts.txt"),
    ),
    ("fit", "--system"): ("the system prompt is the first message of the chat, of the role system", None),
    ("fit", "--format"): ("it prints the messages as JSON", None),
    ("models", "--search"): ("give the part of a name without an option", "tokenbox models gpt-5"),
    ("models", "--prices"): ("it shows the prices without one", None),
    **dict.fromkeys(
        (("fit", "--reserve-output"), ("fit", "--max-output-tokens")),
        ("the output reserve is a setting", "tokenbox config set policy.reserve_out 1000"),
    ),
    ("check", "--budget"): ("budgets are settings", "tokenbox config set check.prompts.budget 8000"),
    ("serve", "--config"): ("it reads .tokenbox/config.toml and your user file", "tokenbox init"),
    ("serve", "--model"): ("a request names its model", "tokenbox serve --upstream http://127.0.0.1:8080"),
    ("config", "--list"): ("it shows all settings without one", "tokenbox config"),
}
"""By command and option: why the command does not have the option, and a command line that works."""

OPTION_OF: Final[Mapping[str, str]] = {
    "-m": "ask",
    "--model": "ask",
    "--message": "ask",
    "--prompt": "ask",
    "--map-tokens": "pack",
    "--style": "pack",
    "--include": "pack",
    "--config": "config",
}
"""Options that other tools take without a command, with our command for the purpose."""

_CHOICE_MEANT: Final = {
    **dict.fromkeys(("txt", "text", "plain"), "minimal"),
    "md": "markdown",
    "lcp": "bcp",
}
_SIMILAR = 0.75
"""How alike an option must be to be suggested: --reserve is not taken for --server."""
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
    "pack": "tokenbox pack . --budget 8000",
    "inspect": "tokenbox inspect prompt.toml --open",
    "batch": "tokenbox batch rows.jsonl -o out --task count",
    "proof": "tokenbox proof list",
    "proof sign": "tokenbox proof sign BUNDLE --key proof.key",
    "cache": "tokenbox cache requests.jsonl",
    "tools": "tokenbox tools request.json",
    "gateway keys create": "tokenbox gateway keys create build-server",
}


_MISTAKEN_FOR_COMMANDS: Final[Sequence[tuple[Callable[[str], bool], str, Sequence[str]]]] = (
    (lambda word: word.startswith(_SCHEMES), "an address", ("serve", "--upstream")),
    (os.path.isdir, "a folder", ("pack",)),
    (os.path.exists, "a file", ("count",)),
)


def _time(word: str) -> str | None:
    return word if re.fullmatch(r"today|\d+[dwh]|\d{4}-\d{2}-\d{2}", word) else None


def _address(word: str) -> str | None:
    return word if word.startswith(_SCHEMES) else None


_VALUE_WITHOUT_OPTION: Final[Sequence[tuple[str, Callable[[str], str | None]]]] = (
    ("--budget", lambda word: None if (figure := written_figure(word)) is None else str(figure)),
    ("--upstream", _address),
    ("--endpoint", _address),
    ("--root", lambda word: word if os.path.isdir(word) else None),
    ("--since", _time),
)
"""Options, and what a value of each looks like when it is given without the option."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A usage error: its message, what a rule ``found`` in it, and the word at fault.

    With all arguments, and the options and commands that the command or group knows.
    """

    message: str
    found: re.Match[str]
    word: str
    arguments: Sequence[str]
    options: Collection[str]
    commands: Sequence[str]


Hint = tuple[str, str | None]
"""The message, and a command line to try instead, if one is likely."""


def improved(
    message: str, arguments: Sequence[str], options: Collection[str], commands: Sequence[str] = ()
) -> Hint:
    """Return a usage error in plain words, and ``arguments`` corrected, if a correction is likely."""
    for pattern, explain in _RULES.items():
        if (found := re.search(pattern, message)) is not None:
            # typer shows a word as Python writes it, such as 'a\\\\b'.
            word = next((each for each in arguments if repr(each)[1:-1] == found["word"]), found["word"])
            return explain(Wrong(message, found, word, arguments, options, commands))
    return message, None


def _command(wrong: Wrong) -> Hint:
    word, rest = wrong.word, wrong.arguments[1:]
    if wrong.arguments[0] == "gateway" and COMMAND_MEANT.get(word) == "serve":
        return f"tokenbox gateway has no command '{word}'.", "tokenbox serve --upstream http://127.0.0.1:8080"
    if wrong.arguments[0] != word:
        path = " ".join(["tokenbox", *wrong.arguments[: wrong.arguments.index(word)]])
        return f"{path} has no command '{word}'. There are {', '.join(wrong.commands)}.", None
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
        reason, example = OPTION_EXPLAINED[command, name]
        return f"tokenbox {command} has no option {name}: {reason}.", example
    likely = OPTION_MEANT.get(name, ())
    meant = next((option for option in likely if option.split()[0] in wrong.options), None)
    if meant is None and command == "count" and "--budget" in (name, *likely):
        return "tokenbox count has no budget: it counts all of a text.", _EXAMPLES["fit"]
    if meant is None:
        known = [option for option in wrong.options if option.startswith("-")]  # not the names of arguments
        near = difflib.get_close_matches(name, known, 2, _SIMILAR)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
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
        figures = changed[at : at + 1] or [_VALUES[meant]]
        changed[at : at + 1] = [str(written_figure(figure) or figure) for figure in figures]
    return f"tokenbox {command} has no option {name}.", _line(changed)


def _before_the_command(wrong: Wrong) -> Hint:
    message = f"tokenbox has no option {wrong.word}."
    if wrong.word in ("-v", "-V"):
        return message, "tokenbox --version"
    if wrong.word in OPTION_OF and not any(argument in COMMANDS for argument in wrong.arguments):
        command = OPTION_OF[wrong.word]
        return message, _EXAMPLES.get(command, f"tokenbox {command}")
    at = next((i for i, argument in enumerate(wrong.arguments) if argument in COMMANDS), None)
    if at is None:
        return message, None
    moved = _line([*wrong.arguments[at:], *wrong.arguments[:at]])
    return f"{message} The options of a command come after its name.", moved


def _number(wrong: Wrong) -> Hint:
    message = wrong.message.replace(wrong.found[0], f"'{wrong.word}' is not a whole number.")
    tokens = written_figure(wrong.word)
    if tokens is None:
        return (f"{message} A budget is in tokens, as in 8000." if "'--budget'" in message else message), None
    corrected = [
        argument.removesuffix(wrong.word) + str(tokens)
        if argument.rpartition("=")[2] == wrong.word
        else argument
        for argument in wrong.arguments
    ]
    return f"{message} Write {tokens}.", _line(corrected)


def _range(wrong: Wrong) -> Hint:
    low, other = wrong.found["low"], wrong.found["other"]
    meant = f"{other} or more" if low is None else f"from {low} to {other}"
    allowed = f"{wrong.word} is not allowed. Give a number {meant}."
    return wrong.message.replace(wrong.found[0], allowed), None


def _extra(wrong: Wrong) -> Hint:
    message = f"tokenbox {wrong.arguments[0]} does not take the argument '{wrong.word}'."
    for option, value_of in _VALUE_WITHOUT_OPTION:
        value = value_of(wrong.word) if option in wrong.options else None
        if value is not None:
            others = [each for each in wrong.arguments if each != wrong.word]
            return message, _line([*others, option, value])
    return message, _line(wrong.arguments[:1]) if len(wrong.arguments) == 2 else None


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
    words = list(wrong.arguments)
    named = (" ".join(words[:length]) for length in range(len(words), 0, -1))
    example = next((_EXAMPLES[name] for name in named if name in _EXAMPLES), None)
    return f"{wrong.word.removesuffix('...')} is missing.", example


def _line(arguments: Sequence[str]) -> str:
    return f"tokenbox {shlex.join(arguments)}"


_RULES: Final[Mapping[str, Callable[[Wrong], Hint]]] = {
    r"No such command '(?P<word>[^']*)'\.": _command,
    r"No such option: (?P<word>\S+)": _option,
    r"'(?P<word>[^']*)' is not a valid int(?:eger)?(?: range)?\.?": _number,
    r"(?P<word>\S+) is not in the range (?P<low>\d+)?(?:<=x|x>=)(?:<=)?(?P<other>\d+)\.": _range,
    r"'(?P<word>[^']*)' is not one of ": _choice,
    r"Got unexpected extra arguments?(?:\(s\))? \((?P<word>[^ )]+)": _extra,
    r"Option '(?P<word>[^']*)' requires an argument\.": _value,
    r"Missing (?:argument|option|parameter):? '(?P<word>[^']*)'\.?": _missing,
}
"""How to explain a message of typer, by a pattern of its text."""
