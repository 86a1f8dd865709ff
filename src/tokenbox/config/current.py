"""The settings that hold where a call names none: those of the current folder, read once."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from tokenbox.config.loading import load

if TYPE_CHECKING:
    from tokenbox.config.config import Config

    # The folder, our environment variables, and when each file was last changed.
    Key = tuple[str, tuple[tuple[str, str], ...]]

_PREFIX = "TOKENBOX_"
_lock = threading.Lock()
_kept: dict[Key, tuple[Config, tuple[int | None, ...]]] = {}


def current() -> Config:
    """The settings of the current folder. Read again when one of their files or our environment changes.

    A file that was not there before is seen after :func:`reload`.
    """
    key = os.getcwd(), tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(_PREFIX)))  # noqa: PTH109
    with _lock:
        kept = _kept.get(key)
        if kept is not None and kept[1] == _changed(kept[0].files):
            return kept[0]
    config = load()
    with _lock:
        _kept[key] = config, _changed(config.files)
    return config


def reload() -> None:
    """Forget the settings; the next call reads them again."""
    with _lock:
        _kept.clear()


def _changed(files: tuple[str, ...]) -> tuple[int | None, ...]:
    return tuple(_mtime(file) for file in files)


def _mtime(file: str) -> int | None:
    try:
        return os.stat(file).st_mtime_ns  # noqa: PTH116  # before every request
    except OSError:
        return None
