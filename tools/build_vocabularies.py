"""Pack tiktoken's rank files into ``src/tokenbox/tokenizers/data``.

    python tools/build_vocabularies.py [LITELLM_WHEEL]

The rank files come from the ``litellm`` wheel, which contains tiktoken's own files under hashed names;
each is recognised by the SHA-256 that tiktoken publishes for it. Without an argument, pip downloads the
wheel. The output is deterministic: the same rank files give the same bytes.
"""

from __future__ import annotations

import hashlib
import lzma
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import tiktoken_ext.openai_public

from tokenbox.tokenizers.vocabularies import PUBLISHED_SHA256, Ranks, read_rank_file, unpack

DATA = Path(__file__).resolve().parent.parent / "src" / "tokenbox" / "tokenizers" / "data"
RANK_FILES = "litellm/litellm_core_utils/tokenizers/"


def fetch_wheel(folder: Path) -> Path:
    """Download the newest ``litellm`` wheel with pip and return its path."""
    download = ["download", "--no-deps", "--quiet", "--dest", str(folder), "litellm"]
    subprocess.run([sys.executable, "-m", "pip", *download], check=True)  # noqa: S603  # our own interpreter
    return next(folder.glob("litellm-*.whl"))


def rank_files(wheel: Path) -> dict[str, bytes]:
    """Return the rank files of the wheel that we publish, by vocabulary name."""
    names = {digest: name for name, digest in PUBLISHED_SHA256.items()}
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.startswith(RANK_FILES):
                data = archive.read(entry)
                name = names.get(hashlib.sha256(data).hexdigest())
                if name is not None:
                    found[name] = data
    return found


def published_hashes_agree() -> bool:
    """Return True if the source of the installed tiktoken contains the hashes of ``PUBLISHED_SHA256``."""
    source = Path(tiktoken_ext.openai_public.__file__).read_text(encoding="utf-8")
    return all(
        f'{name}.tiktoken",\n        expected_hash="{digest}"' in source
        for name, digest in PUBLISHED_SHA256.items()
    )


def packed(ranks: Ranks, name: str) -> bytes:
    """Return the packed file of a vocabulary with ranks 0, 1, 2, ... whose tokens have 1 to 255 bytes."""
    tokens = sorted(ranks, key=ranks.__getitem__)
    body = b"".join((b"TBV1", len(tokens).to_bytes(4, "little"), bytes(map(len, tokens)), *tokens))
    data = lzma.compress(body, preset=9 | lzma.PRESET_EXTREME)
    if dict(zip(unpack(data), range(len(tokens)), strict=True)) != ranks:
        sys.exit(f"{name} has gaps between its ranks, which a packed file cannot hold.")
    return data


def build(wheel: Path) -> None:
    found = rank_files(wheel)
    if missing := sorted(PUBLISHED_SHA256.keys() - found.keys()):
        sys.exit(f"{wheel.name} does not contain {', '.join(missing)}. Pass another version of litellm.")
    if not published_hashes_agree():
        sys.exit(
            "the installed tiktoken publishes different hashes than vocabularies.py: compare the two first"
        )
    for name, data in sorted(found.items()):
        target = DATA / f"{name}.xz"
        target.write_bytes(packed(read_rank_file(data, name), name))
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        sys.stdout.write(f"{target.name}: {target.stat().st_size:,} bytes, PACKED_SHA256 {digest}\n")


def main(arguments: list[str]) -> None:
    if arguments:
        build(Path(arguments[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        build(fetch_wheel(Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
