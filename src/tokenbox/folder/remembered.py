"""Find out once what takes longer than reading a file: a cache keeps it by the digest of the content."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from types import ModuleType

    from tokenbox.tokenizers.cache import CountCache

T = TypeVar("T")
# Less is stored as it is, after this mark, as zlib takes longer for its tables than to cut a small file.
_MIN_COMPRESSED, _PLAIN = 2_000, b"\0"
_CHECKSUM = 4  # bytes


def remembered(
    contents: Sequence[tuple[bytes, T]],
    memory: CountCache | None,
    key_of: Callable[[bytes, T], bytes | None],
    find: Callable[[bytes, T], Any],
) -> list[Any]:
    """Return what is found in each content, or from the cache what JSON makes of it.

    Each content has with it what else the result depends on. Without a key it is not cached.
    """
    if memory is None:
        return [find(*content) for content in contents]
    keys = [key_of(*content) for content in contents]
    known = memory.recall([key for key in keys if key is not None])
    found: list[Any] = []
    new: dict[bytes, bytes] = {}
    for key, content in zip(keys, contents, strict=True):
        cached = _read(known[key]) if key is not None and key in known else None
        found.append(find(*content) if cached is None else cached)
        if key is not None and cached is None:
            new[key] = _written(found[-1])
    memory.remember(new)
    return found


def source_of(own: str, modules: Iterable[ModuleType]) -> bytes:
    """Return the source of a module, ``own``, and of others, whose rules decide what is found."""
    files = [own, *(str(module.__file__) for module in modules)]
    return b"".join(Path(file).read_bytes() for file in files)


def _written(found: object) -> bytes:
    data = json.dumps(found, separators=(",", ":")).encode()
    return _PLAIN + _checked(data) if len(data) < _MIN_COMPRESSED else zlib.compress(data, 1)


def _read(stored: bytes) -> Any:  # noqa: ANN401  # JSON
    """Return what was written; None if it is damaged."""
    if stored.startswith(_PLAIN):
        checked = stored[len(_PLAIN) :]
        data = checked[_CHECKSUM:]
        return json.loads(data) if checked == _checked(data) else None
    try:
        return json.loads(zlib.decompress(stored))  # which has a checksum of its own
    except zlib.error:
        return None


def _checked(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECKSUM) + data
