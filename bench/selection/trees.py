"""The files of a commit, from a clone, without a work tree."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from tokenbox.folder.generated import as_text
from tokenbox.folder.languages import kind_of
from tokenbox.folder.names import order, shown
from tokenbox.folder.priors import prior_of
from tokenbox.folder.source import File, Source, with_others

MAX_BYTES = 2_000_000
_BLOBS: dict[bytes, bytes] = {}


@lru_cache(maxsize=4)
def files_of(clone: Path, commit: str) -> dict[str, bytes]:
    """Return the content of all regular files of a commit, by path."""
    git = ["git", "--git-dir", str(clone)]
    listing = subprocess.run([*git, "ls-tree", "-r", "-z", commit], capture_output=True, check=True).stdout
    entries = []
    for entry in filter(None, listing.split(b"\0")):
        meta, path = entry.split(b"\t", 1)
        mode, kind, name = meta.split()
        if kind == b"blob" and mode != b"120000":
            entries.append((path.decode("utf-8", "surrogateescape"), name))
    missing = [name for _, name in entries if name not in _BLOBS]
    if missing:
        wanted = b"\n".join(missing) + b"\n"
        data = subprocess.run(
            [*git, "cat-file", "--batch"], input=wanted, capture_output=True, check=True
        ).stdout
        at = 0
        for name in missing:
            end = data.index(b"\n", at)
            if data[at:end].endswith(b" missing"):  # a partial clone may lack large blobs
                _BLOBS[name], at = b"", end + 1
                continue
            size = int(data[at:end].split()[2])
            _BLOBS[name] = data[end + 1 : end + 1 + size]
            at = end + 2 + size
    return {path: _BLOBS[name] for path, name in entries}


@lru_cache(maxsize=1)
def history_of(clone: Path, commit: str) -> str:
    """Return a new folder whose git history ends at ``commit``; it shares the clone's objects."""
    root = Path(tempfile.mkdtemp(prefix="tokenbox-history-"))
    atexit.register(shutil.rmtree, root)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".git/objects/info/alternates").write_text(f"{clone.resolve() / 'objects'}\n")
    (root / ".git/HEAD").write_text(f"{commit}\n")
    return str(root)


_KNOWN: dict[tuple[str, int], File] = {}


def source_of(files: dict[str, bytes], root: str = ".") -> Source:
    """Return the files as ``tokenbox.folder.read`` returns them, without the search for secrets.

    ``root`` is the folder with their git history.
    """
    found = []
    for path in sorted(files, key=order):
        key = path, id(files[path])
        if key not in _KNOWN:
            data = files[path]
            text = as_text(data) if len(data) <= MAX_BYTES else None
            content = None if text is None else text[0]
            known = content or b""
            _KNOWN[key] = File(
                path, shown(path), len(data), content, kind_of(path, known), prior_of(path, known)
            )
        found.append(_KNOWN[key])
    return Source(root, tuple(with_others(found)), (), ())
