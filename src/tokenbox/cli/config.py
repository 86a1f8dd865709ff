"""``tokenbox config`` and ``tokenbox init``: show and change settings, and write a first settings file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import tokenbox
from tokenbox.cli import terminal
from tokenbox.cli.options import AS_JSON, argument, flag
from tokenbox.cli.outcome import UsageProblem, only_one
from tokenbox.cli.streams import same_file, write_error, write_record, write_text, write_warnings
from tokenbox.config import Config
from tokenbox.config.reading import FILE, own_folder, user_file
from tokenbox.config.setting import plain, setting_text
from tokenbox.config.state import FILE as STATE_FILE
from tokenbox.records import to_record
from tokenbox.render.lines import printable

_READ_WORDS = ("get", "show", "list", "read", "print")  # not needed: the key alone reads it
# What to do in place of commands that tokenbox config does not have.
_INSTEAD = {
    "list": "to list all settings: tokenbox config",
    "edit": "to change settings, edit .tokenbox/config.toml, or set one: tokenbox config set KEY VALUE",
    **dict.fromkeys(
        ("unset", "remove", "delete"), "to undo a setting: delete its line in .tokenbox/config.toml"
    ),
}


def config(
    words: list[str] | None = argument(
        "[KEY | set KEY VALUE | forget KEY]",
        "KEY prints a value, set changes it, forget undoes set --remember.",
        None,
    ),
    keys: bool = flag("--keys", "List all keys."),
    user: bool = flag("--user", "Set it in your user file, for all projects."),
    remember: bool = flag("--remember", "Set it in .tokenbox/state.json, your own state in this project."),
    as_json: bool = AS_JSON,
) -> None:
    """Show all settings with their sources, show one, or set one.

    Sources in order of precedence: command-line flags, TOKENBOX_... environment variables,
    .tokenbox/state.json, .tokenbox/config.toml, [tool.tokenbox] in pyproject.toml, the user file.

    Example: tokenbox config set policy.headroom 0.05
    """
    if keys:
        _show_keys(words, as_json=as_json)
        return
    only_one({"--user": user, "--remember": remember})
    if words and words[0] == "set":
        _set(words[1:], user=user, remembered=remember, as_json=as_json)
        return
    if words and words[0] == "forget":
        _forget(words[1:])
        return
    if words and (meant := _INSTEAD.get(words[0])) is not None:
        raise UsageProblem(meant)
    if words and len(words) > 1:
        key = words[1] if words[0] in _READ_WORDS else "KEY"
        setting = "KEY VALUE" if key != "KEY" else shlex.join(words)
        raise UsageProblem(f"to read a key: tokenbox config {key}; to set one: tokenbox config set {setting}")
    found = tokenbox.config.load(os.curdir)
    write_warnings(found.problems)
    if words:
        _show_one(found, words[0], as_json=as_json)
    else:
        _show_all(found, as_json=as_json)


def _show_one(found: Config, key: str, *, as_json: bool) -> None:
    setting = found.setting(key)
    if as_json:
        write_record("setting", setting.to_dict())
        return
    write_text(f"{printable(setting_text(setting.value))}\n")
    write_error(f"from: {printable(setting.source)}\n")


def _show_all(found: Config, *, as_json: bool) -> None:
    settings = found.settings()
    if as_json:
        record = {
            "project": None if found.root is None else str(found.root),
            "files": list(found.files),
            "settings": [setting.to_dict() for setting in settings],
        }
        write_record("config", record)
        return
    rows = [(setting.name, setting_text(setting.value), setting.source) for setting in settings]
    terminal.show_table(("key", "value", "from"), rows)
    if found.root is None:
        write_error("This folder is in no project. Make one: tokenbox init\n")


def _show_keys(words: list[str] | None, *, as_json: bool) -> None:
    if words:
        raise UsageProblem("--keys lists all keys and takes no arguments.")
    if as_json:
        names = "key expected default variable doc"
        records = [
            to_record(key, names, key=key.name, default=plain(key.default)) for key in tokenbox.config.KEYS
        ]
        write_record("config.keys", {"keys": records})
        return
    rows = [
        (key.name, setting_text(key.default), key.variable or "-", key.doc) for key in tokenbox.config.KEYS
    ]
    terminal.show_table(("key", "default", "variable", "what it is"), rows)


def _forget(words: list[str]) -> None:
    if len(words) != 1:
        raise UsageProblem("name one key: tokenbox config forget model")
    project = tokenbox.config.find_project(Path.cwd())
    tokenbox.config.forget(Path.cwd() if project is None else project.root, words[0])
    write_error(f"forgotten: {printable(words[0])}\n")


def _set(words: list[str], *, user: bool, remembered: bool, as_json: bool) -> None:
    if len(words) != 2:  # a key and its value
        raise UsageProblem("name a key and its value: tokenbox config set policy.headroom 0.05")
    key, value = words
    here = Path.cwd()
    project = tokenbox.config.find_project(here)
    root = here if project is None else project.root
    file = user_file(os.environ) if user else own_folder(root) / FILE
    if file is None:
        raise UsageProblem("TOKENBOX_USER_CONFIG turns the user file off. Unset it.")
    if remembered:
        tokenbox.config.remember(root, key, value)
        file = own_folder(root) / STATE_FILE
    else:
        # A link of the user's own leads to the file that is meant; one of a project may lead anywhere.
        tokenbox.config.write_setting(Path(os.path.realpath(file)) if user else file, key, value)
    loaded = tokenbox.config.load(here)
    setting = loaded.setting(key)
    if as_json:
        write_record("setting", setting.to_dict())
    else:
        write_error(f"set in {printable(str(file) if user else os.path.relpath(file, here))}\n")
    write_warnings(loaded.problems)  # such as what a project's file may not decide
    if not as_json and setting.origin.name is not None and not same_file(file, here / setting.origin.name):
        write_error(f"note: {printable(setting.source)} overrides it.\n")


def init(
    force: bool = flag("--force", "Replace an existing file."),
) -> None:
    """Write .tokenbox/config.toml, with comments, and a .gitignore next to it.

    Example: tokenbox init
    """
    for file in tokenbox.config.init(Path(), force=force):
        write_text(f"{file}\n")
