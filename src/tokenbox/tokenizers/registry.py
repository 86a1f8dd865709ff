"""Tokenizers by name."""

from __future__ import annotations

import difflib
import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, get_args

from tokenbox import named_code
from tokenbox.errors import InvalidTokenizer, TokenboxError, TokenizerError, UnknownTokenizer
from tokenbox.integers import whole
from tokenbox.tokenizers.protocol import BaseTokenizer, Tokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

Engine = Literal["auto", "tiktoken", "fast"]

FILE_PREFIX = "file:"
UNKNOWN = "two-vocabularies"
"""The tokenizer of a model whose own is unknown."""
_MOST_SHOWN = 60

# What each name is, for people. The order is the order of the listing.
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

_FIRST = {"gpt-bpe": "o200k_base"}
"""A family of several vocabularies by the one that counts where no model says which."""

_lock = threading.Lock()
_made: dict[tuple[str, str], Tokenizer] = {}


@dataclass(frozen=True, slots=True)
class TokenizerEntry:
    """A tokenizer that :func:`get` knows. ``identity`` is None where that needs an extra not installed."""

    name: str
    summary: str
    identity: TokenizerIdentity | None


def get(name: str, engine: Engine = "auto") -> Tokenizer:
    """The tokenizer of that name; the same object each time. Nothing is loaded before the first count.

    ``file:PATH`` opens a vocabulary file (``.tiktoken``, ``tokenizer.json``, SentencePiece ``.model``,
    ``tekken.json``, GGUF). ``engine`` is for the byte-pair vocabularies: ``tiktoken``, ``fast`` (fastokens,
    the extra ``fast``), or ``auto``, which changes to the fast one once it is worth its loading.

    ``module:function`` is a function from a text to its count, or an object with ``count()``, of your own,
    once :func:`tokenbox.named_code.allow` was called with that name; and so is the name of an entry point of
    ``tokenbox.tokenizers``.

    Raises :class:`UnknownTokenizer`, :class:`VocabularyError` for a file, :class:`InvalidTokenizer` for what
    cannot be imported, :class:`CodeNotAllowed`, or ``MissingExtra``.
    """
    if not isinstance(name, str):
        raise TokenizerError(f"a tokenizer's name is text, not {type(name).__name__}.")
    if engine not in get_args(Engine):
        raise TokenizerError(f"no engine {engine!r}. There are: {', '.join(get_args(Engine))}.")
    if name.startswith(FILE_PREFIX):
        from tokenbox.tokenizers.files import open_vocabulary  # noqa: PLC0415  # on use

        return open_vocabulary(name.removeprefix(FILE_PREFIX), engine=engine)
    if name not in _SUMMARIES:
        own = _own(name)
        if own is not None:
            return own
        near = difflib.get_close_matches(name, _SUMMARIES, 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(_SUMMARIES)}."
        raise UnknownTokenizer(
            f"no tokenizer is called {name!r}. {hint} A vocabulary file is named as {FILE_PREFIX}PATH, "
            "a function of yours as module:function.",
            name=name,
        )
    name = _FIRST.get(name, name)
    with _lock:
        if (name, engine) not in _made:
            _made[name, engine] = _make(name, engine)
        return _made[name, engine]


def _own(name: str) -> Tokenizer | None:
    """A user's tokenizer by name; None if no tokenizer has that name."""
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


ENTRY_POINTS = "tokenbox.tokenizers"
_imported: dict[str, Tokenizer] = {}


def available() -> list[TokenizerEntry]:
    """Every name that :func:`get` knows. Loads no vocabulary."""
    entries = []
    for name, summary in _SUMMARIES.items():
        try:
            identity = get(name).identity
        except TokenboxError:
            identity = None
        entries.append(TokenizerEntry(name, summary, identity))
    return entries


def is_builtin(value: object) -> bool:
    """Whether ``value`` is a name of the listing."""
    return isinstance(value, str) and value in _SUMMARIES


class CallableTokenizer(BaseTokenizer):
    """Any function from a text to its count.

    Nothing is known of it, so it is an estimate unless it is declared exact.
    """

    cacheable = False

    def __init__(
        self, function: Callable[[str], int], name: str | None = None, *, exact: bool = False
    ) -> None:
        self.function = function
        label = name or getattr(function, "__qualname__", None) or type(function).__qualname__
        # What a function does cannot be fingerprinted; its name is what a record can say of it.
        fingerprint = hashlib.sha256(f"callable:{label}".encode()).hexdigest()
        self._identity = TokenizerIdentity(label, "unknown", fingerprint, exact)

    @property
    def identity(self) -> TokenizerIdentity:
        return self._identity

    def count(self, text: str) -> int:
        return self.count_batch([text])[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        name = self._identity.name
        try:
            counts = list(map(self.function, texts))
        except TokenizerError:
            raise
        except Exception as error:
            raise TokenizerError(f"the counter {name} failed: {type(error).__name__}: {error}") from error
        if set(map(type, counts)) - {int} or min(counts, default=0) < 0:
            return [self._whole(count) for count in counts]
        return counts

    def _whole(self, count: object) -> int:
        number = whole(count)
        if number is None or number < 0:
            raise TokenizerError(
                f"the counter {self._identity.name} gave {_shown(count)}; a count is an integer, 0 or more."
            )
        return number


def _shown(value: object) -> str:
    """A value for a message: in full where that is short, else its type."""
    words = repr(value)
    return words if len(words) <= _MOST_SHOWN else f"a value of type {type(value).__name__}"


def as_tokenizer(value: str | Tokenizer | Callable[[str], int]) -> Tokenizer:
    """A tokenizer from its name, from itself, or from a counting function.

    A tiktoken ``Encoding``, a ``tokenizers.Tokenizer`` and a tokenizer of ``transformers`` count as they do.
    """
    if isinstance(value, str):
        return get(value)
    if isinstance(value, BaseTokenizer | FunctionType):  # common, and known without a look at every method
        return value if isinstance(value, BaseTokenizer) else CallableTokenizer(value)
    if isinstance(value, Tokenizer):
        return value
    of_library = _of_library(value)
    if of_library is not None:
        return of_library
    if callable(value):
        return CallableTokenizer(value)
    count = getattr(value, "count", None)
    if callable(count) and not isinstance(value, Sequence):  # a list has a count too
        return CallableTokenizer(count, name=type(value).__qualname__)
    raise TokenizerError(
        f"a tokenizer is a name, an object with count(), or a function, not {type(value).__name__}."
    )


# The sizes of the vocabularies that are in the package, special tokens among them.
_TIKTOKEN_SIZES = {"o200k_base": 200_019, "cl100k_base": 100_277}


def _of_library(value: Any) -> Tokenizer | None:  # noqa: ANN401  # any object; seen by what it can do
    """The tokenizer in an object of another library; None if it is none that is known."""
    if callable(getattr(value, "encode_ordinary", None)):  # tiktoken
        name = str(getattr(value, "name", "encoding"))
        if _TIKTOKEN_SIZES.get(name) == getattr(value, "n_vocab", None):
            return get(name)
        return CallableTokenizer(lambda text: len(value.encode_ordinary(text)), name=name, exact=True)
    name = str(getattr(value, "name_or_path", "") or "tokenizer.json")
    backend = getattr(value, "backend_tokenizer", value)
    if callable(getattr(backend, "to_str", None)):  # tokenizers, and the fast ones of transformers
        from tokenbox.tokenizers.huggingface import open_tokenizer_json  # noqa: PLC0415

        return open_tokenizer_json(json.loads(backend.to_str()), name, name)
    if callable(getattr(value, "convert_tokens_to_ids", None)):  # the slow ones of transformers
        return CallableTokenizer(
            lambda text: len(value.encode(text, add_special_tokens=False)), name=name, exact=True
        )
    return None


def _make(name: str, engine: Engine) -> Tokenizer:
    """Import only what this tokenizer needs."""
    if name in ("o200k_base", "cl100k_base"):
        from tokenbox.tokenizers.bpe import baseline  # noqa: PLC0415

        return baseline(name, engine)
    if name == "llama3-bpe":
        from tokenbox.tokenizers.files import llama3  # noqa: PLC0415

        return llama3(engine=engine)
    if name in ("utf8-bytes", "facet-units"):
        from tokenbox.tokenizers import utf8  # noqa: PLC0415

        return utf8.Utf8Bytes() if name == "utf8-bytes" else utf8.FacetUnits()
    from tokenbox.tokenizers import estimates  # noqa: PLC0415

    if name == UNKNOWN:
        from tokenbox.tokenizers.bpe import baseline  # noqa: PLC0415

        return estimates.Larger(name, baseline("o200k_base", engine), baseline("cl100k_base", engine))
    return {
        "chars4": estimates.Chars4,
        "heuristic": estimates.Heuristic,
        "code-aware": estimates.CodeAware,
    }[name]()
