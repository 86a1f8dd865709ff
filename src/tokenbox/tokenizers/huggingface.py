"""Tokenizers in the ``tokenizer.json`` format, counted by the package ``tokenizers``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tokenbox.errors import TokenizerError, VocabularyError, needing
from tokenbox.tokenizers.bpe import CHUNK, not_tokens
from tokenbox.tokenizers.engines import is_failure
from tokenbox.tokenizers.patterns import GPT2, UNIVERSAL, Cutting, cutting
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity, json_digest
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    import tokenizers

# The parts of a tokenizer.json that decide the tokens of a text without special tokens around it.
_DECIDES: Final = ("added_tokens", "model", "normalizer", "pre_tokenizer")
_LONGEST_WORD: Final = 1_000  # characters of a word that WordPiece splits, in cubic time; models have 100
_MOST_STEPS: Final = 100  # of a normalizer or pre-tokenizer; known ones have ten
_LONGEST_PREFIX: Final = 1_000  # characters that a normalizer puts before a text
_MOST_NORMALIZED: Final = 256 * 1024 * 1024  # bytes of a text after normalization


def open_tokenizer_json(document: dict[str, Any], name: str, shown: str) -> JsonTokenizer:
    """Return the tokenizer of a parsed ``tokenizer.json``. ``shown``: the path, for errors."""
    if document["model"].get("dropout"):
        raise VocabularyError(f"{shown} has `dropout`: its counts are random. Set `model.dropout` to null.")
    longest = document["model"].get("max_input_chars_per_word", 0)
    if type(longest) is int and longest > _LONGEST_WORD:
        raise VocabularyError(
            f"{shown} splits words of {longest:,} characters, which takes too long; at most "
            f"{_LONGEST_WORD:,} are split. Fetch it again."
        )
    version = document.get("version")
    try:
        text, digest = json.dumps(document), json_digest(_deciding(document))
    except RecursionError:
        raise VocabularyError(
            f"{shown} is not a usable tokenizer: it is nested too deeply. Fetch it again."
        ) from None
    identity = TokenizerIdentity(name, version if isinstance(version, str) else "1", digest, exact=True)
    engine = build(text, shown)
    return JsonTokenizer(engine, identity, _cutting(document), growth=_growth(document, shown))


def build(text: str, shown: str) -> tokenizers.Tokenizer:
    """Return the engine of a ``tokenizer.json``, set to treat spellings of special tokens as text."""
    with needing(f"the vocabulary {shown}", "files"):
        from tokenizers import Tokenizer
    try:
        engine = Tokenizer.from_str(text)
        engine.no_truncation()
        engine.no_padding()
        engine.encode_special_tokens = True
    except BaseException as error:
        if not is_failure(error):
            raise
        raise VocabularyError(f"{shown} is not a usable tokenizer: {error}. Fetch it again.") from None
    return engine


class JsonTokenizer(BaseTokenizer):
    """A tokenizer that counts as ``tokenizers`` does, special spellings as text, none added around it.

    ``growth``: how many times as long normalization can make a text.
    """

    def __init__(
        self,
        engine: tokenizers.Tokenizer,
        identity: TokenizerIdentity,
        where: Cutting | None,
        *,
        growth: int = 1,
    ) -> None:
        self._engine = engine
        self._growth = growth
        self._identity = identity
        self._cutting = where
        if where is not None:
            self.cuts, self.cuts_proven = where.cuts, where.proven

    def count(self, text: str) -> int:
        return sum(len(self._encode(chunk)) for chunk in self._chunks(text))

    def encode(self, text: str) -> list[int]:
        return [token for chunk in self._chunks(text) for token in self._encode(chunk).ids]

    def decode(self, tokens: Sequence[int]) -> str:
        try:
            text: str = self._engine.decode(list(tokens), skip_special_tokens=False)
        except BaseException as error:
            if not is_failure(error):
                raise
            raise TokenizerError(not_tokens(self._identity.name)) from None
        return text

    def _chunks(self, text: str) -> Sequence[str]:
        size = len(utf8(text))
        if not size:
            return ()
        if self._growth > 1 and size * self._growth > _MOST_NORMALIZED:
            raise TokenizerError(
                f"{self._identity.name} cannot count this text: its normalizer can make {size:,} bytes "
                f"{self._growth:,} times as long, more than {_MOST_NORMALIZED:,}. Count it in parts."
            )
        if self._cutting is None or len(text) <= CHUNK:
            return (text,)
        return tuple(self._cutting.chunks(text, CHUNK))

    def _encode(self, chunk: str) -> tokenizers.Encoding:
        try:
            return self._engine.encode(chunk, add_special_tokens=False)
        except BaseException as error:
            if not is_failure(error):
                raise
            raise TokenizerError(f"{self._identity.name} cannot count this text: {error}") from None


def _deciding(document: dict[str, Any]) -> dict[str, Any]:
    """Return the parts that decide counts, with merges as pairs, not as ``"a b"``."""
    content = {key: document.get(key) for key in _DECIDES}
    model = dict(document["model"])
    if isinstance(model.get("merges"), list):
        model["merges"] = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    content["model"] = model
    return content


def _cutting(document: dict[str, Any]) -> Cutting | None:
    """Return the safe cuts: proven for a byte-level BPE that only splits, by a known pattern."""
    splits = _steps(document.get("pre_tokenizer"), "pretokenizers")
    if document["model"].get("type", "BPE") != "BPE" or not splits or splits[-1].get("type") != "ByteLevel":
        return None
    added = document.get("added_tokens") or []
    plain = (
        not _steps(document.get("normalizer"), "normalizers")
        # One that is not special is looked for in the text first, and may lie across a cut.
        and all(isinstance(token, dict) and token.get("special") for token in added)
        and splits[-1].get("add_prefix_space") is False
    )
    pattern = _pattern(splits)
    return cutting(pattern) if plain and pattern is not None else Cutting(UNIVERSAL, proven=False)


def _pattern(splits: list[dict[str, Any]]) -> str | None:
    """Return the pattern that splits texts, ByteLevel's own (GPT-2's) or a Split's; None if not just one."""
    level = splits[-1]
    if len(splits) == 1:
        return GPT2 if level.get("use_regex", True) else None
    if len(splits) > 2 or level.get("use_regex", True) or splits[0].get("type") != "Split":
        return None
    split = splits[0]
    # Both keep exactly the matches as pieces, for a pattern that matches everything.
    if (split.get("behavior"), bool(split.get("invert"))) not in {("Isolated", False), ("Removed", True)}:
        return None
    pattern = split.get("pattern")
    found = pattern.get("Regex") if isinstance(pattern, dict) else None
    return found if isinstance(found, str) else None


def _growth(document: dict[str, Any], shown: str) -> int:
    """Return how many times as long the normalizer of a usable document can make a text.

    Raises :class:`VocabularyError` for steps that no tokenizer of a model has.
    """
    growth, prefix = 1, 0
    for key, inner in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        steps = _steps(document.get(key), inner)
        if len(steps) > _MOST_STEPS:
            raise VocabularyError(
                f"{shown}: its {key} has {len(steps):,} steps; at most {_MOST_STEPS} are taken. "
                "Fetch it again."
            )
        for step in steps:
            if step.get("type") == "Replace":
                old, new = step["pattern"].get("String", ""), len(step["content"].encode())
                # A regular expression may match a byte, or nothing between two bytes.
                growth *= max(1, -(-new // len(old.encode())) if old else new + 1)
            elif step.get("type") == "Prepend":
                prefix += len(step["prepend"])
    if prefix > _LONGEST_PREFIX:
        raise VocabularyError(
            f"{shown}: its normalizer puts {prefix:,} characters before each text; at most "
            f"{_LONGEST_PREFIX:,} are taken. Fetch it again."
        )
    return growth


def _steps(value: Any, key: str) -> list[dict[str, Any]]:  # noqa: ANN401  # a part of a JSON document
    """Return the steps of a normalizer or pre-tokenizer: itself, or those of its sequences."""
    found, waiting = [], [value]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict) and step.get("type") == "Sequence":
            inner = step.get(key)
            waiting += reversed(inner) if isinstance(inner, list) else ()
        elif isinstance(step, dict):
            found.append(step)
    return found
