"""Pack tiktoken's rank files into ``src/tokenbox/tokenizers/data``.

    python tools/build_vocabularies.py [LITELLM_WHEEL]

The rank files come out of the ``litellm`` wheel, which carries tiktoken's own files under names that
are hashes; each is recognised by the SHA-256 tiktoken publishes for it. Without an argument the wheel
is fetched by pip. The result is the same bytes for the same files: building again changes nothing.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tokenbox.tokenizers.vocabularies import PUBLISHED_SHA256, pack, read_rank_file

DATA = Path(__file__).resolve().parent.parent / "src" / "tokenbox" / "tokenizers" / "data"
RANK_FILES = "litellm/litellm_core_utils/tokenizers/"


def fetch_wheel(folder: Path) -> Path:
    """The newest ``litellm`` wheel, as pip finds it."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--quiet",
        "--dest",
        str(folder),
        "litellm",
    ]
    subprocess.run(command, check=True)  # noqa: S603  # our own interpreter, fixed arguments
    return next(folder.glob("litellm-*.whl"))


def rank_files(wheel: Path) -> dict[str, bytes]:
    """The rank files in a wheel that we publish, by the name of their vocabulary."""
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
    """Whether the installed tiktoken names the same hashes in its source as our constants."""
    import tiktoken_ext.openai_public  # noqa: PLC0415

    source = Path(tiktoken_ext.openai_public.__file__).read_text(encoding="utf-8")
    return all(
        f'{name}.tiktoken",\n        expected_hash="{digest}"' in source
        for name, digest in PUBLISHED_SHA256.items()
    )


def build(wheel: Path) -> None:
    found = rank_files(wheel)
    if missing := sorted(PUBLISHED_SHA256.keys() - found.keys()):
        sys.exit(f"{wheel.name} does not hold {', '.join(missing)}. Give another version of litellm.")
    if not published_hashes_agree():
        sys.exit("the installed tiktoken publishes other hashes than vocabularies.py. Compare the two first.")
    for name, data in sorted(found.items()):
        target = DATA / f"{name}.xz"
        target.write_bytes(pack(read_rank_file(data, name)))
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
