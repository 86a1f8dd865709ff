"""Vocabularies of byte-level BPE: those known by name, the two in the package, and rank files.

A *rank file* (``.tiktoken``) has one line per token: base64, a space, the rank. The package has packed
files: ``TBV1``, a count, the lengths, then the tokens in rank order, compressed with xz.
"""

from __future__ import annotations

import binascii
import hashlib
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

from tokenbox.errors import VocabularyError
from tokenbox.tokenizers.patterns import CL100K, LLAMA3, O200K
from tokenbox.tokenizers.protocol import json_digest

Ranks = dict[bytes, int]

PUBLISHED_SHA256: Final[Mapping[str, str]] = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
"""SHA-256 (hex) of the rank files: ``expected_hash`` in tiktoken's ``openai_public.py``."""

PACKED_SHA256: Final[Mapping[str, str]] = {
    "cl100k_base": "8554515e1e199097f2f805437bff8925b7d14182f4e6377e0c21b16e7852cde9",
    "o200k_base": "c4782af96ceac31aaeb1b34a0ae5d8c67e1e64b86a66d75f75f5c69d24b65b5a",
}
"""SHA-256 (hex) of the packed files; the tests check that they unpack to the rank files above."""

# Upper bounds of any real vocabulary: the largest known has 262,144 tokens, the longest token 512 bytes.
MAX_TOKENS: Final = 4_000_000
MAX_TOKEN_BYTES: Final = 100_000
MAX_RANK: Final = 2**32 - 2

_DATA: Final = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class BpeSpec:
    """Everything but the ranks that decides the counts of a byte-pair tokenizer."""

    name: str
    version: str
    pattern: str
    special_tokens: Mapping[str, int] = field(default_factory=dict)


BASELINES: Final[Mapping[str, BpeSpec]] = {
    "o200k_base": BpeSpec("o200k_base", "1", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "cl100k_base": BpeSpec(
        "cl100k_base",
        "1",
        CL100K,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}
"""The vocabularies in the package, as specified in tiktoken's ``openai_public.py``."""

LLAMA3_SHA256: Final = "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"
"""SHA-256 (hex) of the rank file of Llama 3, ``tokenizer.model``."""

_LLAMA3_NAMED: Final = """
    <|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|>
    <|finetune_right_pad_id|> <|step_id|> <|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|>
    <|python_tag|> <|image|>
""".split()
_LLAMA3_SPECIALS: Final = (
    *_LLAMA3_NAMED,
    *(f"<|reserved_special_token_{n}|>" for n in range(2, 256 - len(_LLAMA3_NAMED) + 2)),
)
_LLAMA3_TOKENS: Final = 128_000

LLAMA3_SPEC: Final = BpeSpec(
    "llama3-bpe", "1", LLAMA3, {spelling: _LLAMA3_TOKENS + n for n, spelling in enumerate(_LLAMA3_SPECIALS)}
)
"""The vocabulary of Llama 3, as specified in the ``llama-models`` package on PyPI."""


def fingerprint(ranks_sha256: str, spec: BpeSpec) -> str:
    """Return the SHA-256 (hex) over the digest of the rank file, the pattern and the special tokens."""
    return json_digest(
        {"pattern": spec.pattern, "ranks": ranks_sha256, "special_tokens": dict(spec.special_tokens)}
    )


def load(name: str) -> Ranks:
    """Return the token ranks of a vocabulary in the package.

    Raises :class:`VocabularyError` if the data is missing, or not what was packed.
    """
    try:
        data = (_DATA / f"{name}.xz").read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {name} is missing from the package ({error.strerror}). Install tokenbox again."
        ) from None
    found, packed = hashlib.sha256(data).hexdigest(), PACKED_SHA256[name]
    if found != packed:
        raise VocabularyError(
            f"the vocabulary {name} in the package is damaged: SHA-256 {found} instead of {packed}. "
            "Install tokenbox again.",
            sha256=found,
            published=packed,
        )
    tokens = unpack(data)
    return dict(zip(tokens, range(len(tokens)), strict=True))


def unpack(data: bytes) -> list[bytes]:
    """Return the tokens of an intact packed vocabulary in rank order."""
    body = lzma.decompress(data)
    start = 8 + int.from_bytes(body[4:8], "little")
    return [body[a:b] for a, b in pairwise(accumulate(body[8:start], initial=start))]


def rank_file(tokens: Sequence[bytes]) -> bytes:
    """Return the rank file of tokens whose rank is their place, byte for byte as tiktoken writes it."""
    return b"".join([rank_line(token, rank) for rank, token in enumerate(tokens)])


def rank_line(token: bytes, rank: int) -> bytes:
    return b"%b %d\n" % (binascii.b2a_base64(token, newline=False), rank)


def read_rank_file(data: bytes, name: str) -> Ranks:
    """Parse a rank file into token ranks.

    Raises :class:`VocabularyError`, with the line number, for invalid base64, an invalid or duplicate rank,
    a duplicate token, or a byte without a token. Ranks may have gaps for special tokens.
    """
    ranks: Ranks = {}
    decode = binascii.a2b_base64
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            encoded, written = line.split()
            token = decode(encoded, strict_mode=True)
            rank = int(written) if written.isdigit() and len(written) <= 10 else -1
        except ValueError:
            raise VocabularyError(_bad_line(name, number, "is not `base64 rank`"), line=number) from None
        if not token or len(token) > MAX_TOKEN_BYTES or not 0 <= rank <= MAX_RANK:
            what = "has an empty token or a rank that is not a whole number"
            raise VocabularyError(_bad_line(name, number, what), line=number)
        if token in ranks:
            what = f"repeats the token of rank {ranks[token]}"
            raise VocabularyError(_bad_line(name, number, what), line=number)
        ranks[token] = rank
        if len(ranks) > MAX_TOKENS:
            raise VocabularyError(
                f"{name} has more than {MAX_TOKENS:,} tokens, more than any vocabulary. Check the file."
            )
    check_ranks(ranks, name)
    return ranks


def check_ranks(ranks: Mapping[bytes, int], name: str) -> None:
    """Raise :class:`VocabularyError` unless each rank is unique and every byte is a token."""
    if not ranks:
        raise VocabularyError(f"{name}: no tokens in it. Check that the file was fetched whole.")
    if len(set(ranks.values())) != len(ranks):
        raise VocabularyError(f"{name}: two tokens have the same rank. Fetch the file again.")
    lost = [byte for byte in range(256) if bytes((byte,)) not in ranks]
    if lost:
        raise VocabularyError(
            f"{name}: {len(lost)} of the 256 bytes have no token (the first is 0x{lost[0]:02x}): not every "
            "text can be counted. Check that the file was fetched whole.",
            missing_bytes=len(lost),
        )


def _bad_line(name: str, number: int, what: str) -> str:
    return f"{name}: line {number} {what}. This is not a whole .tiktoken rank file; fetch it again."
