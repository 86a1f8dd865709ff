"""What servers said of their models: kept in one file of the user's cache folder, each answer with its day.

A server is asked only when a caller says so (nrv ADR 007, 4). Its answer then holds for every command and
process of this user, after the settings and before what is published, until it is asked again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from tokenbox.catalog import Figure, Limit, ModelLimits
from tokenbox.files import OWN, replace, turn

FILE: Final = "servers.json"
LOCK: Final = "servers.lock"
VERSION: Final = 1
CACHE_VARIABLE: Final = "TOKENBOX_CACHE_DIR"
# Answers that are kept; the oldest go first.
MOST: Final = 1_000

Answers = dict[str, dict[str, Any]]

_read: tuple[Path, int, Answers] | None = None
# What was said to this process, also where the file cannot be written.
_said: dict[str, ModelLimits] = {}


def keep_answer(endpoint: str, model: str, said: ModelLimits) -> bool:
    """Keep what a server said. False where it cannot be written: then it holds in no other process."""
    folder = _folder()
    _said[_key(endpoint, model)] = said
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with turn(folder / LOCK):
            answers = {**_answers(folder / FILE)}
            answers.pop(_key(endpoint, model), None)
            answers[_key(endpoint, model)] = _plain(said)
            kept = dict(list(answers.items())[-MOST:])
            content = json.dumps({"version": VERSION, "answers": kept}, indent=1, ensure_ascii=False)
            replace(folder / FILE, content.encode(), new=OWN)
    except OSError:
        return False
    return True


def kept_answer(endpoint: str, model: str) -> ModelLimits:
    """What the server said last; nothing where it was never asked."""
    key = _key(endpoint, model)
    if key in _said:
        return _said[key]
    found = _answers(_folder() / FILE).get(key)
    if not isinstance(found, dict):
        return ModelLimits()
    figures = {limit.value: _figure(found.get(limit.value)) for limit in Limit}
    return ModelLimits(**figures)


def forget_answers() -> None:
    """Forget what servers said."""
    global _read  # noqa: PLW0603  # what was read of a file that has not changed
    _read = None
    _said.clear()
    (_folder() / FILE).unlink(missing_ok=True)


def _folder() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    from platformdirs import user_cache_path  # noqa: PLC0415  # only on use

    return user_cache_path("tokenbox", appauthor=False)


def _answers(path: Path) -> Answers:
    """The answers in the file; none of a file that is not ours. Read again when it changes."""
    global _read  # noqa: PLW0603
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return {}
    if _read is not None and _read[:2] == (path, changed):
        return _read[2]
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    known = isinstance(content, dict) and content.get("version") == VERSION
    answers = content.get("answers") if known else None
    found = answers if isinstance(answers, dict) else {}
    _read = path, changed, found
    return found


def _key(endpoint: str, model: str) -> str:
    return f"{endpoint} {model}"


def _plain(said: ModelLimits) -> dict[str, Any]:
    return {limit.value: figure.to_dict() for limit in Limit if (figure := said.figure(limit)) is not None}


def _figure(value: object) -> Figure | None:
    if not isinstance(value, dict):
        return None
    tokens, source, date = (value.get(name) for name in ("value", "source", "date"))
    if type(tokens) is not int or tokens < 1 or not isinstance(source, str):
        return None
    return Figure(tokens, source, date if isinstance(date, str) else None)
