"""The cached answers of servers about their models: a file in the user's cache folder, with dates.

A server is asked only on request (nrv ADR 007, 4). Its answer then applies to every command and process of
this user, after the settings and before published figures, until it is asked again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenbox.catalog import Figure, Limit, ModelLimits
from tokenbox.files import OWN, cache_folder, replace, turn

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "servers.json"
LOCK: Final = "servers.lock"
VERSION: Final = 1
# The maximum number of answers; the oldest are removed.
_MAX_ANSWERS: Final = 1_000

Answers = dict[str, dict[str, Any]]

_read: tuple[Path, int, Answers] | None = None
# The answers to this process, also if the file cannot be written.
_own: dict[str, ModelLimits] = {}


def keep_answer(endpoint: str, model: str, limits: ModelLimits) -> bool:
    """Save a server's answer. Return False if the file cannot be written, for this process only."""
    folder = cache_folder()
    _own[_key(endpoint, model)] = limits
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with turn(folder / LOCK):
            answers = {**_answers(folder / FILE)}
            answers.pop(_key(endpoint, model), None)
            stated = ((limit.value, limits.figure(limit)) for limit in Limit)
            answers[_key(endpoint, model)] = {name: one.to_dict() for name, one in stated if one is not None}
            kept = dict(list(answers.items())[-_MAX_ANSWERS:])
            content = json.dumps({"version": VERSION, "answers": kept}, indent=1, ensure_ascii=False)
            replace(folder / FILE, content.encode(), new=OWN)
    except OSError:
        return False
    return True


def kept_answer(endpoint: str, model: str) -> ModelLimits:
    """Return the server's last answer; without figures if it was never asked."""
    key = _key(endpoint, model)
    if key in _own:
        return _own[key]
    found = _answers(cache_folder() / FILE).get(key)
    if not isinstance(found, dict):
        return ModelLimits()
    figures = {limit.value: _figure(found.get(limit.value)) for limit in Limit}
    return ModelLimits(**figures)


def _answers(path: Path) -> Answers:
    """Return the answers in the file; none from an invalid one. It is read again when it changes."""
    global _read  # noqa: PLW0603  # the file as last read
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


def _figure(value: object) -> Figure | None:
    if not isinstance(value, dict):
        return None
    tokens, source, date = (value.get(name) for name in ("value", "source", "date"))
    if type(tokens) is not int or tokens < 1 or not isinstance(source, str):
        return None
    return Figure(tokens, source, date if isinstance(date, str) else None)
