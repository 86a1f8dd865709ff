"""The default settings of calls: those of the current folder, cached."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from tokenbox.config.loading import load

if TYPE_CHECKING:
    from tokenbox.config.config import Config

    # The folder and our environment variables.
    Key = tuple[str, tuple[tuple[str, str], ...]]

_PREFIX = "TOKENBOX_"
_lock = threading.Lock()
_kept: dict[Key, tuple[Config, tuple[int | None, ...]]] = {}


def current() -> Config:
    """Return the settings of the current folder. Changes of their files or the environment are detected.

    A new file is detected only after :func:`reload`.
    """
    key = os.getcwd(), tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(_PREFIX)))
    with _lock:
        kept = _kept.get(key)
        if kept is not None and kept[1] == _changed(kept[0].files):
            return kept[0]
    config = load()
    with _lock:
        _kept[key] = config, _changed(config.files)
    return config


def reload() -> None:
    """Clear the cache; the next call reads the settings again."""
    with _lock:
        _kept.clear()


def _changed(files: tuple[str, ...]) -> tuple[int | None, ...]:
    return tuple(_mtime(file) for file in files)


def _mtime(file: str) -> int | None:
    try:
        return os.stat(file).st_mtime_ns  # before every request
    except OSError:
        return None
