"""Whether the library ``transformers`` tokenizes prompts with a folder's ``tokenizer.json`` as it is.

Some of its classes build the way to split texts themselves, a model's type may replace the class, and other
files may name more tokens. In doubt the answer is no, and counts are not exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_PLAIN: Final = frozenset((None, "PreTrainedTokenizerFast", "TokenizersBackend"))
"""The classes that load the file."""
_REPLACED: Final = ("hyperclovax", "min", "mis", "mixtral", "pixtral", "qwen", "siglip", "voxtral")
"""The types of models, by their first letters, for which the library takes another class than the file's."""
_QWEN: Final = frozenset(("Qwen2Tokenizer", "Qwen2TokenizerFast"))
_QWEN_TYPES: Final = ("qwen2", "qwen3", "qwen3_moe")
QWEN_PATTERN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN_PAD: Final = "<|endoftext|>"  # the class names it, whatever the files say
# Settings with which the library splits or reads texts in another way.
_OTHERWISE: Final = ("auto_map", "add_prefix_space", "fix_mistral_regex", "split_special_tokens")


def is_used_as_saved(
    document: Mapping[str, Any],
    settings: Mapping[str, Any],
    model: Mapping[str, Any] | None,
    special: Mapping[str, Any],
    more: Mapping[str, Any],
) -> bool:
    """Return True if the library is known to tokenize with ``document``, a ``tokenizer.json``, as it is.

    ``settings``: ``tokenizer_config.json``. ``model``: ``config.json``, or None. ``special`` and ``more``:
    ``special_tokens_map.json`` and ``added_tokens.json``; without these files, empty.
    """
    try:
        tokens = {token["content"]: token for token in document.get("added_tokens") or ()}
        named = [*_named(settings), *_named(special), *more]
        if _is_qwen(document, settings, model):
            named.append(_QWEN_PAD)
        elif not _is_plain(settings, model):
            return False
        others = {key: special[key] for key in ("bos_token", "eos_token") if key in special}
        same = all(_text(other) == _text(settings.get(key)) for key, other in others.items())
        return (
            same and not any(map(settings.get, _OTHERWISE)) and all(_is_known(one, tokens) for one in named)
        )
    except (AttributeError, KeyError, TypeError, ValueError):  # odd files
        return False


def _is_plain(settings: Mapping[str, Any], model: Mapping[str, Any] | None) -> bool:
    name, kind = settings.get("tokenizer_class"), str((model or {}).get("model_type"))
    return name in _PLAIN and (model is None or (name is not None and not kind.startswith(_REPLACED)))


def _is_qwen(
    document: Mapping[str, Any], settings: Mapping[str, Any], model: Mapping[str, Any] | None
) -> bool:
    """Return True for the class of Qwen, and a file that splits texts as it does."""
    if settings.get("tokenizer_class") not in _QWEN:
        return False
    pieces = document.get("pre_tokenizer") or {}
    split, letters = pieces["pretokenizers"] if pieces.get("type") == "Sequence" else ({}, {})
    rules = {key: value for key, value in document["model"].items() if key not in {"type", "vocab", "merges"}}
    return (
        (model is None or model.get("model_type") in _QWEN_TYPES)
        and "eos_token" in settings
        and (document.get("normalizer") or {}).get("type") == "NFC"
        and split.get("pattern") == {"Regex": QWEN_PATTERN}
        and (split.get("behavior"), split.get("invert")) == ("Isolated", False)
        and letters.get("type") == "ByteLevel"
        and not (letters.get("add_prefix_space") or letters.get("use_regex", True))
        and document["model"].get("type") == "BPE"
        and not any(rules.values())
    )


def _named(settings: Mapping[str, Any]) -> Iterator[Any]:
    """Yield all tokens that the settings name: their texts, or objects with ``content``."""
    for key, value in settings.items():
        if key == "added_tokens_decoder" or (key.endswith("special_tokens") and isinstance(value, dict)):
            yield from value.values()
        elif key.endswith("special_tokens") and isinstance(value, list):
            yield from value
        elif key.endswith("_token") and isinstance(value, str | dict):
            yield value


def _is_known(token: object, tokens: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True for a token of the file that is searched for in the same way."""
    known = tokens.get(_text(token) or "")
    if known is None or not isinstance(token, dict):
        return known is not None
    return all(bool(token.get(key)) == bool(known.get(key)) for key in token if key in _SEARCHED)


_SEARCHED: Final = frozenset(("lstrip", "rstrip", "single_word", "normalized"))


def _text(token: object) -> str | None:
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else None
