"""Pack a folder with contextcram, a text file per item: ``contextcram_files.py FOLDER OUTPUT BUDGET``."""

from __future__ import annotations

import sys
from pathlib import Path

import tiktoken
from contextcram import Packer
from contextcram.tokenizers import CallableTokenizer


def main(folder: str, output: str, budget: str) -> None:
    encoding = tiktoken.get_encoding("o200k_base")
    packer = Packer(
        budget=int(budget), tokenizer=CallableTokenizer(lambda text: len(encoding.encode_ordinary(text)))
    )
    for path in sorted(Path(folder).rglob("*")):
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        packer.add(text, name=str(path.relative_to(folder)), strategy="truncate")
    Path(output).write_text(packer.fit().text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
