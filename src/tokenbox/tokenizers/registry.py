"""Tokenizers by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, get_args

from tokenbox import named_code
from tokenbox.errors import InvalidTokenizer, TokenboxError, TokenizerError, UnknownTokenizer, shown
from tokenbox.tokenizers import estimates, utf8
from tokenbox.tokenizers.bpe import baseline
from tokenbox.tokenizers.files import llama3, open_vocabulary
from tokenbox.tokenizers.guarded import CallableTokenizer, with_identity
from tokenbox.tokenizers.huggingface import open_tokenizer_json
from tokenbox.tokenizers.protocol import BaseTokenizer, Engine, Tokenizer, TokenizerIdentity

FILE_PREFIX = "file:"
ENTRY_POINTS = "tokenbox.tokenizers"
UNKNOWN = "two-vocabularies"
"""The tokenizer for models whose own is unknown."""

# A summary of each tokenizer, in the order of the listing.
_SUMMARIES = {
    "o200k_base": "GPT-4o and later; in the package",
    "cl100k_base": "GPT-4 and GPT-3.5; in the package",
    "gpt-bpe": "the one of the two above that the model has; without a model, the first",
    "llama3-bpe": "Llama 3; vocabulary from the extra llama3",
    UNKNOWN: "the larger of the first two and 15 %; where the model's is unknown",
    "utf8-bytes": "one token per UTF-8 byte",
    "facet-units": "UTF-8 bytes after NFC and LF normalization; the same for every provider",
    "chars4": "UTF-8 bytes // 4",
    "heuristic": "UTF-8 bytes / 4 and 15 % headroom, rounded up (nrv ADR 007)",
    "code-aware": "UTF-8 bytes // 3 for indented text, else // 4 (SPEC_08)",
}

# How the names of vocabulary files end.
_VOCABULARY_FILES = (".json", ".model", ".tiktoken", ".gguf")
_DEFAULT_VOCABULARY = {"gpt-bpe": "o200k_base"}
"""The vocabulary of a family with several, if no model decides."""

_lock = threading.Lock()
_built: dict[tuple[str, str], Tokenizer] = {}
_imported: dict[str, Tokenizer] = {}


@dataclass(frozen=True, slots=True)
class TokenizerEntry:
    """A tokenizer that :func:`get` knows. ``identity`` is None if it needs an extra that is not installed."""

    name: str
    summary: str
    identity: TokenizerIdentity | None


def get(name: str, engine: Engine = "auto") -> Tokenizer:
    """Return the tokenizer of that name; the same object each time. Nothing is loaded before the first count.

    ``file:PATH`` opens a vocabulary file (``.tiktoken``, ``tokenizer.json``, SentencePiece ``.model``,
    ``tekken.json``, GGUF). ``engine`` is for the byte-pair vocabularies: ``tiktoken``, ``fast`` (fastokens,
    the extra ``fast``), or ``auto``, which switches to fastokens once it is worth loading.

    ``module:function`` is your own function from a text to its count, or an object with ``count()``; so is
    the name of an entry point in ``tokenbox.tokenizers``. A ``module:function`` must be allowed with
    :func:`tokenbox.named_code.allow` first.

    Raises :class:`UnknownTokenizer`, :class:`VocabularyError` for a file, :class:`InvalidTokenizer` for code
    that cannot be imported, :class:`CodeNotAllowed`, or ``MissingExtra``.
    """
    if not isinstance(name, str):
        raise TokenizerError(f"a tokenizer's name is text, not {type(name).__name__}.")
    if engine not in get_args(Engine):
        raise TokenizerError(f"no engine {shown(engine)}. Choose one of: {', '.join(get_args(Engine))}.")
    if name.startswith(FILE_PREFIX):
        return open_vocabulary(name.removeprefix(FILE_PREFIX), engine=engine)
    if name not in _SUMMARIES:
        imported = _import(name)
        if imported is not None:
            return imported
        if name.endswith(_VOCABULARY_FILES):
            hint = f"For a vocabulary file, write {FILE_PREFIX}{shown(name)[1:-1]}."
            raise UnknownTokenizer(f"no tokenizer is called {shown(name)}. {hint}", name=name)
        hint = named_code.meant(name, _SUMMARIES)
        raise UnknownTokenizer(
            f"no tokenizer is called {shown(name)}. {hint} A vocabulary file is named as {FILE_PREFIX}PATH, "
            "a function of yours as module:function.",
            name=name,
        )
    name = _DEFAULT_VOCABULARY.get(name, name)
    with _lock:
        if (name, engine) not in _built:
            _built[name, engine] = built = _build(name, engine)
            built.opened_by = partial(get, name, engine)
        return _built[name, engine]


def _import(name: str) -> Tokenizer | None:
    """Import a user's tokenizer by name; None if no tokenizer has that name."""
    if name in _imported:
        return _imported[name]
    found = named_code.load(
        name, ENTRY_POINTS, lambda why: InvalidTokenizer(f"the tokenizer {why}", name=name)
    )
    if found is None:
        return None
    named = callable(found) and not isinstance(found, Tokenizer)
    try:
        made = CallableTokenizer(found, name) if named else as_tokenizer(found)  # type: ignore[arg-type]  # it checks
    except TokenizerError as error:
        raise InvalidTokenizer(f"{name} is not a tokenizer: {error.message}", name=name) from error
    return _imported.setdefault(name, made)


def available() -> list[TokenizerEntry]:
    """Return the tokenizers of this package. Loads no vocabulary."""
    return _entries(_SUMMARIES)


def of_packages() -> list[TokenizerEntry]:
    """Return the tokenizers of installed packages: the entry points of ``tokenbox.tokenizers``."""
    points = named_code.entry_points_of(ENTRY_POINTS)
    return _entries(
        {name: f"installed: {points[name].value}" for name in sorted(points.keys() - _SUMMARIES.keys())}
    )


def _entries(summaries: Mapping[str, str]) -> list[TokenizerEntry]:
    entries = []
    for name, summary in summaries.items():
        try:
            identity = get(name).identity
        except TokenboxError:
            identity = None
        entries.append(TokenizerEntry(name, summary, identity))
    return entries


def is_builtin(value: object) -> bool:
    """Return True if ``value`` is the name of a tokenizer in the package."""
    return isinstance(value, str) and value in _SUMMARIES


def as_tokenizer(value: str | Tokenizer | Callable[[str], int]) -> Tokenizer:
    """Return a tokenizer from its name, a tokenizer, or a counting function.

    Also accepts a tiktoken ``Encoding``, a ``tokenizers.Tokenizer`` and a tokenizer of ``transformers``.
    """
    # The usual types come first: to check the methods of the protocol takes longer.
    if isinstance(value, str | FunctionType):
        return get(value) if isinstance(value, str) else CallableTokenizer(value)
    if isinstance(value, BaseTokenizer) and type(value).__module__.startswith("tokenbox."):
        return value
    identity = getattr(value, "identity", None)
    if isinstance(identity, TokenizerIdentity) and isinstance(value, Tokenizer):
        return with_identity(value, identity)
    if (foreign := _from_library(value)) is not None:
        return foreign
    if callable(value):
        return CallableTokenizer(value)
    count = getattr(value, "count", None)
    if callable(count) and not isinstance(value, Sequence):  # a list has a count too
        return CallableTokenizer(count, name=type(value).__qualname__)
    raise TokenizerError(
        f"a tokenizer is a name, an object with count(), or a function, not {type(value).__name__}."
    )


# The sizes of the vocabularies in the package, including special tokens.
_TIKTOKEN_SIZES = {"o200k_base": 200_019, "cl100k_base": 100_277}
_PROBE = "Don't  STOP: 1234567 camelCase a_b naïve 数据\n\n  (x==y)!!\t 'LL\r\n ... end"


def _from_library(value: Any) -> Tokenizer | None:  # noqa: ANN401  # any object; recognized by its methods
    """Return the tokenizer for an object of a known library; None for any other object."""
    if callable(getattr(value, "encode_ordinary", None)):  # tiktoken
        name = str(getattr(value, "name", "encoding"))
        size = getattr(value, "n_vocab", None)
        if size is not None and _TIKTOKEN_SIZES.get(name) == size:
            ours = get(name)  # if it splits texts alike, too
            if len(value.encode_ordinary(_PROBE)) == ours.count(_PROBE):
                return ours
        return CallableTokenizer(lambda text: len(value.encode_ordinary(text)), name=name, exact=True)
    name = str(getattr(value, "name_or_path", "") or "tokenizer.json")
    backend = getattr(value, "backend_tokenizer", value)
    if callable(getattr(backend, "to_str", None)):  # tokenizers, and fast tokenizers of transformers
        return open_tokenizer_json(json.loads(backend.to_str()), name, name)
    if callable(getattr(value, "convert_tokens_to_ids", None)):  # slow tokenizers of transformers
        return CallableTokenizer(
            lambda text: len(value.encode(text, add_special_tokens=False)), name=name, exact=True
        )
    return None


def _build(name: str, engine: Engine) -> BaseTokenizer:
    """Build a tokenizer of the package."""
    if name in ("o200k_base", "cl100k_base"):
        return baseline(name, engine)
    if name == "llama3-bpe":
        return llama3(engine=engine)
    if name in ("utf8-bytes", "facet-units"):
        return utf8.Utf8Bytes() if name == "utf8-bytes" else utf8.FacetUnits()
    if name == UNKNOWN:
        return estimates.Larger(name, baseline("o200k_base", engine), baseline("cl100k_base", engine))
    return {
        "chars4": estimates.Chars4,
        "heuristic": estimates.Heuristic,
        "code-aware": estimates.CodeAware,
    }[name]()
