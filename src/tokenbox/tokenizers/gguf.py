"""The tokenizer in the header of a GGUF model file, counted as llama.cpp counts.

Only the needed parts of the header are read: 150,000 tokens take well under a second. Every length in the
file is checked against the remaining size of the file.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tokenbox.errors import VocabularyError
from tokenbox.tokenizers.huggingface import JsonTokenizer, build
from tokenbox.tokenizers.patterns import GPT2, LLAMA3, QWEN2, Cutting, cutting
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity, json_digest
from tokenbox.tokenizers.special import ChatVocabulary
from tokenbox.tokenizers.utf8 import utf8
from tokenbox.tokenizers.vocabularies import MAX_TOKENS

if TYPE_CHECKING:
    from pathlib import Path

_VERSIONS: Final = (2, 3)
_MAX_KEYS: Final = 65_536
_MAX_STRING: Final = 16 * 1024 * 1024  # the longest real strings are chat templates of about 50 KB
_MAX_NESTING: Final = 4
_STRING, _ARRAY = 8, 9
# Type numbers of the format's scalars: uint8 ... float64.
_SCALARS: Final[Mapping[int, struct.Struct]] = {
    number: struct.Struct("<" + letter)
    for number, letter in zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True)
}
_U32: Final = _SCALARS[4]
_U64: Final = _SCALARS[10]
_KEYS: Final = frozenset(
    """
    general.version tokenizer.ggml.model tokenizer.ggml.pre tokenizer.ggml.tokens tokenizer.ggml.merges
    tokenizer.ggml.token_type
    """.split()
)
_CHAT_KEYS: Final = _KEYS.union(
    """
    tokenizer.chat_template tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token
    tokenizer.ggml.bos_token_id tokenizer.ggml.eos_token_id
    """.split()
)
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
# Tokens that llama.cpp takes for control tokens whatever the file says, as they end an answer or fill in the
# middle (llama-vocab.cpp; tests/llama asks a server).
CONTROL_NAMES: Final = frozenset(
    """
    <|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|calls|> <|flush|> <|eom_id|> <end_of_turn>
    <turn|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> </s> <|fim_prefix|>
    <fim-prefix> <fim_prefix> <PRE> ▁<PRE> <|code_prefix|> <|prefix|> <｜fim▁begin｜> <|fim_suffix|>
    <fim-suffix> <fim_suffix> <SUF> ▁<SUF> <|code_suffix|> <|suffix|> <｜fim▁hole｜> <|fim_middle|>
    <fim-middle> <fim_middle> <MID> ▁<MID> <|code_middle|> <|middle|> <｜fim▁end｜> <|fim_pad|> <fim-pad>
    <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>
    <｜end▁of▁sentence｜> [e~[
    """.split()
)
# Those of gpt-oss that it always shows, and the tokens beside which <|end|> does not end an answer.
SHOWN_NAMES: Final = frozenset(("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"))
_END_ENDS_A_MESSAGE: Final = (frozenset(("<|return|>", "<|call|>")), frozenset(("<|calls|>", "<|flush|>")))


@dataclass(frozen=True, slots=True)
class _Splitting:
    """How llama.cpp splits text for a ``tokenizer.ggml.pre``.

    ``whole_first``: a piece that is a token itself is not built by merges.
    """

    patterns: tuple[str, ...]
    whole_first: bool = False


# llama.cpp has no case folding in its patterns, so 'ſ (U+017F) is not a contraction there.
_CONTRACTIONS: Final = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_FOLDED: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2: Final = _Splitting((GPT2,))
_DIGITS: Final = _Splitting((r"\p{N}", GPT2))
_LLAMA3: Final = _Splitting((LLAMA3.replace(_FOLDED, _CONTRACTIONS),), whole_first=True)
_LLAMA3_MERGED: Final = _Splitting(_LLAMA3.patterns)
_QWEN2: Final = _Splitting((QWEN2.replace(_FOLDED, _CONTRACTIONS),))

# The letters and digits of Unicode 16, as a class: symbols to llama.cpp, whose tables are older
# (unicode-data.cpp; tests/llama asks a server).
NEWER: Final = "".join(
    rf"\x{{{first}}}-\x{{{last or first}}}"
    for first, _, last in (
        run.partition("-")
        for run in """
        1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D6F-10D85 10EC2-10EC4 11380-11389 1138B 1138E
        11390-113B5 113B7 113D1 113D3 116D0-116E3 11BC0-11BE0 11BF0-11BF9 13460-143FA 16100-1611D 16130-16139
        16D40-16D6C 16D70-16D79 18CFF 1CCF0-1CCF9 1E5D0-1E5ED 1E5F0-1E5FA
        """.split()
    )
)
_CLASS: Final = re.compile(r"\[\^[^]]*\]|\\p\{[LN]\}")

_NAMES: Final[Mapping[_Splitting, str]] = {
    _GPT2: """
        gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert exaone4 mpt olmo
        jais trillion jina-v1-en jina-v2-code roberta-bpe granite-docling
    """,
    _DIGITS: "starcoder refact command-r smollm codeshell exaone minerva-7b",
    _LLAMA3: "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    _LLAMA3_MERGED: "dbrx smaug-bpe glm4 chatglm-bpe",
    _QWEN2: "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan",
}
SPLITTING: Final[Mapping[str, _Splitting]] = {
    name: splitting for splitting, names in _NAMES.items() for name in names.split()
}
"""The splitting by the names in llama.cpp's ``llama-vocab.cpp``. The equality of others is not shown."""


def open_gguf(file: Path, shown: str) -> BaseTokenizer:
    """Open the tokenizer of a GGUF file of the ``gpt2`` kind. ``shown``: the path, for errors.

    Raises :class:`VocabularyError` for every other kind, whose counts might not be exact.
    """
    return _tokenizer(_read_header(file, shown, _KEYS), file.stem, shown)


def open_gguf_chat(file: Path, shown: str) -> ChatVocabulary:
    """Open the tokenizer, chat template and special tokens of a GGUF file. Raises as :func:`open_gguf`."""
    header = _read_header(file, shown, _CHAT_KEYS)
    tokenizer = _tokenizer(header, file.stem, shown)
    tokens = _strings(header, "tokenizer.ggml.tokens", shown)
    types = _types(header, tokens, shown)

    def token(key: str) -> str:
        place = header.get(key)
        return tokens[place] if type(place) is int and 0 <= place < len(tokens) else ""

    # Llama 3 adds its begin token unless the file says otherwise (llama-vocab.cpp).
    begins = SPLITTING.get(str(header.get("tokenizer.ggml.pre"))) is _LLAMA3
    template = header.get("tokenizer.chat_template")
    return ChatVocabulary(
        tokenizer=tokenizer,
        special=tuple(
            t
            for t, kind in zip(tokens, types, strict=True)
            if kind in {_UNKNOWN, _CONTROL, _USER_DEFINED} and t
        ),
        template=template if isinstance(template, str) else None,
        bos=token("tokenizer.ggml.bos_token_id"),
        eos=token("tokenizer.ggml.eos_token_id"),
        add_bos=bool(header.get("tokenizer.ggml.add_bos_token", begins)),
        add_eos=bool(header.get("tokenizer.ggml.add_eos_token", False)),
        kind=f"gguf gpt2 {header.get('tokenizer.ggml.pre')}",
    )


def _tokenizer(header: Mapping[str, Any], name: str, shown: str) -> BaseTokenizer:
    model, pre = header.get("tokenizer.ggml.model"), header.get("tokenizer.ggml.pre")
    if model != "gpt2":
        raise VocabularyError(
            f"{shown} has a tokenizer of the kind {model!r}; from a GGUF only 'gpt2' can be counted exactly. "
            "Give the tokenizer.json or tokenizer.model of the same model."
        )
    splitting = SPLITTING.get(pre) if isinstance(pre, str) else None
    if splitting is None:
        raise VocabularyError(
            f"{shown} splits text by {pre!r} (tokenizer.ggml.pre), which cannot be counted exactly. "
            f"Supported: {', '.join(sorted(SPLITTING))}. Give the model's tokenizer.json instead."
        )
    tokens = _strings(header, "tokenizer.ggml.tokens", shown)
    merges = _merges(_strings(header, "tokenizer.ggml.merges", shown))
    types = _types(header, tokens, shown)
    user_defined = {
        token: place
        for place, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind == _USER_DEFINED and token
    }
    document = _document(tokens, merges, splitting, shown)
    digest = json_digest({"document": document, "user_defined": list(user_defined)})
    version = header.get("general.version")
    identity = TokenizerIdentity(name, version if isinstance(version, str) else "1", digest, exact=True)
    engine = build(json.dumps(document), shown)
    inner = JsonTokenizer(engine, identity, _cutting(splitting))
    if not user_defined:
        return inner
    return UserDefinedTokenizer(inner, user_defined)


class UserDefinedTokenizer(BaseTokenizer):
    """A tokenizer with user-defined tokens, which llama.cpp finds in every text, the longest first.

    ``between`` tokenizes the texts between them. Cuts are unproven: a token may contain one.
    """

    def __init__(self, inner: JsonTokenizer, user_defined: Mapping[str, int]) -> None:
        self.between = inner
        self._identity = inner.identity
        self.user_defined = frozenset(user_defined)
        self._tokens = sorted(user_defined.items(), key=lambda item: (-len(item[0].encode()), item[1]))
        self.cuts, self.cuts_proven = inner.cuts, False

    def count(self, text: str) -> int:
        utf8(text)
        return sum(1 if isinstance(part, int) else self.between.count(part) for part in self._parts(text))

    def encode(self, text: str) -> list[int]:
        utf8(text)
        tokens: list[int] = []
        for part in self._parts(text):
            tokens += [part] if isinstance(part, int) else self.between.encode(part)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return self.between.decode(tokens)

    def _parts(self, text: str) -> list[str | int]:
        """Return the text in parts, with the ids of user-defined tokens in their places."""
        parts: list[str | int] = [text]
        for spelling, token in self._tokens:
            if spelling in text:
                parts = [piece for part in parts for piece in _split(part, spelling, token)]
        return parts


def _split(part: str | int, spelling: str, token: int) -> Iterator[str | int]:
    if isinstance(part, int):
        yield part
        return
    for place, piece in enumerate(part.split(spelling)):
        if place:
            yield token
        if piece:
            yield piece


def _cutting(splitting: _Splitting) -> Cutting:
    """Return the cuts of the last pattern: neither its contractions nor digits split before affect them."""
    return cutting(splitting.patterns[-1].replace(_CONTRACTIONS, _FOLDED))


def _document(
    tokens: list[str], merges: list[tuple[str, str]], splitting: _Splitting, shown: str
) -> dict[str, Any]:
    """Return the same tokenizer as a ``tokenizer.json``."""
    vocabulary = {token: place for place, token in enumerate(tokens) if token}
    if len(vocabulary) != sum(map(bool, tokens)):
        raise VocabularyError(f"{shown} has a token twice. Fetch the file again.")
    lost = [letter for letter in byte_letters().values() if letter not in vocabulary]
    if lost:
        raise VocabularyError(f"{shown}: {len(lost)} of the 256 bytes have no token. Fetch the file again.")
    splits: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in map(_of_llama_cpp, splitting.patterns)
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, level]},
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": splitting.whole_first,
            "vocab": vocabulary,
            "merges": [list(pair) for pair in merges],
        },
    }


def _of_llama_cpp(pattern: str) -> str:
    """Return the pattern with newer letters and digits in none of the classes of letters and digits."""
    return _CLASS.sub(
        lambda found: f"[{found[0]}{NEWER}]" if found[0][0] == "[" else f"[{found[0]}&&[^{NEWER}]]", pattern
    )


def byte_letters() -> dict[int, str]:
    """Return the letters for bytes in a byte-level vocabulary: printable Latin-1, then U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + n) for n, byte in enumerate(others)}


def _merges(written: list[str]) -> list[tuple[str, str]]:
    """Return the pairs, in order; the first of duplicates counts, as in llama.cpp."""
    pairs: dict[tuple[str, str], None] = {}
    for merge in written:
        place = merge.find(" ", 1)
        if place > 0:
            pairs.setdefault((merge[:place], merge[place + 1 :]))
    return list(pairs)


def _strings(header: Mapping[str, Any], key: str, shown: str) -> list[str]:
    values = header.get(key)
    if not isinstance(values, list) or not values or not all(isinstance(value, bytes) for value in values):
        raise VocabularyError(
            f"{shown} has no {key}. Give a GGUF file with its tokenizer, or tokenizer.json."
        )
    try:
        return [value.decode("utf-8") for value in values]
    except UnicodeDecodeError:
        raise VocabularyError(f"{shown}: {key} is not UTF-8. Fetch the file again.") from None


def _types(header: Mapping[str, Any], tokens: Sequence[str], shown: str) -> list[int]:
    """Return the types of the tokens as llama.cpp takes them."""
    types = header.get("tokenizer.ggml.token_type", [_NORMAL] * len(tokens))
    is_list = isinstance(types, list) and all(type(kind) is int for kind in types)
    if not is_list or len(types) < len(tokens):
        raise VocabularyError(
            f"{shown}: tokenizer.ggml.token_type does not fit the tokens. Fetch the file again."
        )
    forced = dict.fromkeys(CONTROL_NAMES, _CONTROL) | dict.fromkeys(SHOWN_NAMES, _USER_DEFINED)
    if any(marks.issubset(tokens) for marks in _END_ENDS_A_MESSAGE):
        forced["<|end|>"] = _USER_DEFINED
    pairs = zip(tokens, types[: len(tokens)], strict=True)
    return [forced.get(token, kind) for token, kind in pairs]


def _read_header(file: Path, shown: str, keys: Collection[str]) -> dict[str, Any]:
    """Return the values of ``keys`` in the header. Strings in arrays stay bytes."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(4)
            return _Header(stream, size, shown).read(keys)
    except OSError as error:
        raise VocabularyError(f"{shown} cannot be read: {error.strerror}.") from None


class _Header:
    """A reader of the header that never reads more bytes than the file has left."""

    def __init__(self, stream: BinaryIO, size: int, shown: str) -> None:
        self._stream = stream
        self._left = size - 4
        self._shown = shown

    def read(self, wanted: Collection[str]) -> dict[str, Any]:
        version = self._scalar(_U32)
        if version not in _VERSIONS:
            raise VocabularyError(
                f"{self._shown} is GGUF version {version}; 2 and 3 can be read, in little-endian order. "
                "Convert the model again."
            )
        self._scalar(_U64)  # the number of tensors
        keys = self._scalar(_U64)
        if keys > _MAX_KEYS:
            raise self._damaged(f"{keys:,} keys")
        values: dict[str, Any] = {}
        for _ in range(keys):
            key = self._string().decode("utf-8", "replace")
            value = self._value(self._scalar(_U32), keep=key in wanted)
            if key in wanted:
                values[key] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return values

    def _value(self, kind: int, *, keep: bool, depth: int = 0) -> Any:  # noqa: ANN401  # as the file says
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            return self._scalar(scalar)
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY or depth >= _MAX_NESTING:
            raise self._damaged(f"a value of type {kind}")
        inner = self._scalar(_U32)
        count = self._scalar(_U64)
        scalar = _SCALARS.get(inner)
        if scalar is not None:
            if not keep:
                self._skip(count * scalar.size)
                return None
            if count > MAX_TOKENS:
                raise self._damaged(f"an array of {count:,}")
            return list(struct.unpack(f"<{count}{scalar.format[1:]}", self._bytes(count * scalar.size)))
        # Each item takes at least the 8 bytes of its length, so a larger count is wrong.
        if count > min(MAX_TOKENS, self._left // 8):
            raise self._damaged(f"an array of {count:,}")
        items = (self._value(inner, keep=keep, depth=depth + 1) for _ in range(count))
        if keep:
            return list(items)
        for _ in items:
            pass
        return None

    def _string(self) -> bytes:
        size = self._scalar(_U64)
        if size > _MAX_STRING:
            raise self._damaged(f"a string of {size:,} bytes")
        return self._bytes(size)

    def _scalar(self, form: struct.Struct) -> Any:  # noqa: ANN401  # a number or a truth value
        return form.unpack(self._bytes(form.size))[0]

    def _bytes(self, size: int) -> bytes:
        self._take(size)
        data = self._stream.read(size)
        if len(data) != size:
            raise self._damaged("the end too early")
        return data

    def _skip(self, size: int) -> None:
        self._take(size)
        self._stream.seek(size, 1)

    def _take(self, size: int) -> None:
        if size > self._left:
            raise self._damaged(f"{size:,} bytes announced, {self._left:,} left")
        self._left -= size

    def _damaged(self, what: str) -> VocabularyError:
        return VocabularyError(
            f"{self._shown} is not a complete GGUF file: {what} in its header. Fetch it again."
        )
