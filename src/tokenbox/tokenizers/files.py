"""Exact tokenizers from vocabulary files, and chat vocabularies. The format is detected from the content."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenbox.errors import MissingExtra, VocabularyError
from tokenbox.errors import shown as describe
from tokenbox.files import open_regular, read_at_most
from tokenbox.tokenizers import vocabularies
from tokenbox.tokenizers.as_saved import is_used_as_saved
from tokenbox.tokenizers.bpe import BpeTokenizer, from_ranks, ranks_digest
from tokenbox.tokenizers.gguf import open_gguf, open_gguf_chat
from tokenbox.tokenizers.huggingface import open_tokenizer_json
from tokenbox.tokenizers.patterns import NAMED
from tokenbox.tokenizers.sentencepiece import open_sentencepiece
from tokenbox.tokenizers.special import ChatVocabulary
from tokenbox.tokenizers.vocabularies import BASELINES, LLAMA3_SHA256, LLAMA3_SPEC, BpeSpec

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import BaseTokenizer, Engine
    from tokenbox.tokenizers.vocabularies import Ranks

# The largest known vocabulary, a tokenizer.json of 262,144 tokens, has 33 MB. Of a GGUF only the header is
# read.
_MAX_BYTES: Final = 256 * 1024 * 1024
_MAX_CONFIG: Final = 16 * 1024 * 1024  # of a chat template or tokenizer_config.json
_RANK_LINE: Final = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,10}\r?\n")
# The pattern and special tokens of known rank files, by SHA-256.
_KNOWN: Final[Mapping[str, BpeSpec]] = {
    LLAMA3_SHA256: LLAMA3_SPEC,
    **{digest: BASELINES[name] for name, digest in vocabularies.PUBLISHED_SHA256.items()},
}
_IN_FOLDER: Final = "tokenizer.json"
_FORMATS: Final = "a .tiktoken rank file, tokenizer.json, SentencePiece .model, tekken.json, GGUF"


def open_vocabulary(
    path: str | os.PathLike[str], *, pattern: str | None = None, engine: Engine = "auto"
) -> BaseTokenizer:
    """Open a vocabulary file, or that of a model's folder, its ``tokenizer.json``.

    The formats are ``.tiktoken``, ``tokenizer.json``, SentencePiece ``.model``, ``tekken.json`` and GGUF.

    ``pattern``: for a rank file that is not a published one, how text is split before merging: one of
    ``o200k_base``, ``cl100k_base``, ``llama3``, ``qwen2``, ``tekken``, ``gpt2``, or a regular expression.
    ``engine``: as for :class:`~tokenbox.tokenizers.bpe.BpeTokenizer`. Raises :class:`VocabularyError` for
    a file that cannot be used, :class:`MissingExtra` if its format needs a package that is not installed.
    """
    found = _opened(path, pattern, engine)
    found.opened_by = partial(open_vocabulary, os.path.abspath(path), pattern=pattern, engine=engine)
    return found


def _opened(path: str | os.PathLike[str], pattern: str | None, engine: Engine) -> BaseTokenizer:
    shown, file = str(path), _path(path)
    if os.path.isfile(file / _IN_FOLDER):
        shown, file = str(file / _IN_FOLDER), file / _IN_FOLDER
    head = _read(file, shown, 4)
    if pattern is not None and (head == b"GGUF" or head[:1] == b"{"):
        raise VocabularyError(f"{shown} has its own pattern. Leave `pattern` out.")
    if head == b"GGUF":
        return open_gguf(file, shown)
    data = _read(file, shown, _MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise VocabularyError(f"{shown} has more than {_MAX_BYTES:,} bytes, which no vocabulary has.")
    if data.lstrip()[:1] == b"{":
        return _open_json(data, file.stem, shown, engine)
    if _RANK_LINE.match(data) or file.suffix == ".tiktoken":
        return _open_ranks(data, file.stem, shown, pattern, engine)
    # A SentencePiece model is a protocol buffer whose first field is field 1, a piece.
    if data[:1] == b"\n" or file.suffix == ".model":
        if pattern is not None:
            raise VocabularyError(
                f"{shown} is a SentencePiece model, which has no pattern. Leave `pattern` out."
            )
        return open_sentencepiece(data, file.stem, shown)
    raise VocabularyError(f"{shown} is not a vocabulary in a supported format. Give {_FORMATS}.")


def llama3(path: str | os.PathLike[str] | None = None, engine: Engine = "auto") -> BpeTokenizer:
    """Return ``llama3-bpe``, from Llama 3's file ``tokenizer.model`` or from the package ``llama-models``.

    The vocabulary is under the Llama license, so it is not in this package.
    """
    shown = "llama_models/llama3/tokenizer.model" if path is None else str(path)
    file = _installed_llama3() if path is None else _path(path)
    tokenizer = BpeTokenizer(LLAMA3_SPEC, partial(_llama3_ranks, file, shown), LLAMA3_SHA256, engine)
    if path is not None:
        tokenizer.load()  # check a user's file now; the package's is read on the first count
    return tokenizer


def _llama3_ranks(file: Path, shown: str) -> Ranks:
    data = _read(file, shown, _MAX_BYTES + 1)
    if hashlib.sha256(data).hexdigest() != LLAMA3_SHA256:
        raise VocabularyError(
            f"{shown} is not the tokenizer of Llama 3: its SHA-256 should be {LLAMA3_SHA256}. Fetch it again."
        )
    return vocabularies.read_rank_file(data, shown)


def _installed_llama3() -> Path:
    from importlib.util import find_spec

    # Found without importing the package, which imports much more than this file.
    spec = find_spec("llama_models")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        file = Path(folder, "llama3", "tokenizer.model")
        if file.is_file():
            return file
    raise MissingExtra.of("llama3-bpe without a vocabulary file", "llama3")


def _path(given: object) -> Path:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise VocabularyError(f"a vocabulary is given by its path, not {describe(given)}.")
    return Path(given)


def _read(file: Path, shown: str, limit: int) -> bytes:
    """Read the first ``limit`` bytes of a regular file; a device or a pipe may have no end."""
    try:
        if file.is_dir():
            raise VocabularyError(f"{shown} is a directory. Give the vocabulary file itself.")
        with open_regular(file) as stream:
            return read_at_most(stream, limit)
    except FileNotFoundError:
        raise VocabularyError(f"{shown} does not exist. Check the path.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise VocabularyError(
            f"{shown} cannot be read: {reason}. Check the path and its permissions."
        ) from None


def _open_ranks(data: bytes, name: str, shown: str, pattern: str | None, engine: Engine) -> BpeTokenizer:
    ranks = vocabularies.read_rank_file(data, shown)
    known = _KNOWN.get(ranks_digest(ranks))
    if pattern is None:
        if known is None:
            raise VocabularyError(
                f"{shown} has ranks, but no pattern to split text by before merging. Set `pattern` to one of "
                f"{', '.join(NAMED)}, or to a regular expression."
            )
        spec = BpeSpec(name, known.version, known.pattern, known.special_tokens)
    else:
        text = NAMED.get(pattern, pattern)
        special = known.special_tokens if known is not None and known.pattern == text else {}
        spec = BpeSpec(name, "1", text, special)
    return from_ranks(ranks, spec, engine)


def _parsed(data: bytes, shown: str) -> Any:  # noqa: ANN401  # JSON
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise VocabularyError(f"{shown} is not UTF-8. Fetch it again.") from None
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"{shown} is not valid JSON: {error}. Fetch it again.") from None


def _open_json(data: bytes, name: str, shown: str, engine: Engine) -> BaseTokenizer:
    document = _parsed(data, shown)
    if isinstance(document.get("config"), dict) and isinstance(document.get("vocab"), list):
        return _open_tekken(document, name, shown, engine)
    if isinstance(document.get("model"), dict):
        return open_tokenizer_json(document, name, shown)
    raise VocabularyError(
        f"{shown} is JSON, but neither a tokenizer.json (`model`) nor a tekken.json (`vocab`)."
    )


def _open_tekken(document: dict[str, Any], name: str, shown: str, engine: Engine) -> BpeTokenizer:
    """Open Mistral's tekken.json. Special tokens have the first ids, so ranks are shifted by their number."""
    config = document["config"]
    try:
        pattern, version = config["pattern"], config.get("version", "1")
        size, specials = config["default_vocab_size"], config["default_num_special_tokens"]
        usable = isinstance(pattern, str) and isinstance(version, str) and type(size) is type(specials) is int
        if not usable or not 0 <= specials < size <= vocabularies.MAX_TOKENS:
            raise VocabularyError(f"{shown}: `config` has impossible values. Fetch the file again.")
        entries = document["vocab"][: size - specials]
        ranks = {
            base64.b64decode(entry["token_bytes"], validate=True): place + specials
            for place, entry in enumerate(entries)
            if entry["rank"] == place
        }
        special_tokens = {f"<SPECIAL_{place}>": place for place in range(specials)}
        for token in document.get("special_tokens") or ():
            special_tokens.pop(f"<SPECIAL_{token['rank']}>", None)
            special_tokens[token["token_str"]] = token["rank"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VocabularyError(f"{shown} is not a complete tekken.json: {error!r}. Fetch it again.") from None
    if len(ranks) != size - specials:
        raise VocabularyError(
            f"{shown} has {len(ranks):,} usable tokens, {size - specials:,} are announced. Fetch it again."
        )
    return from_ranks(ranks, BpeSpec(name, version, pattern, special_tokens), engine)


# Chat vocabularies


def open_chat_vocabulary(path: str | os.PathLike[str]) -> ChatVocabulary:
    """Open the vocabulary and chat template of a GGUF file, or of a folder with ``tokenizer.json``.

    A folder's template is its ``chat_template.jinja``, else the one in ``tokenizer_config.json``. Raises
    :class:`VocabularyError` for files that cannot be used.
    """
    place = _path(path)
    if not os.path.isdir(place):  # False for a name that is too long; Path.is_dir raises
        if _read(place, str(path), 4) != b"GGUF":
            raise VocabularyError(f"{path} is not a GGUF file. Give one, or the folder of a tokenizer.json.")
        return open_gguf_chat(place, str(path))
    file = place / _IN_FOLDER
    tokenizer = open_vocabulary(file)
    document, config = _json(file, _MAX_BYTES), _json_if_any(place / "tokenizer_config.json")
    added = _added_tokens(document, str(file))
    special, more = (_json_if_any(place / name) for name in ("special_tokens_map.json", "added_tokens.json"))
    model = _json(place / "config.json", _MAX_CONFIG) if (place / "config.json").is_file() else None
    return ChatVocabulary(
        tokenizer=tokenizer,
        special=tuple(added),
        template=_template(place, config),
        bos=_token((special | config).get("bos_token")),
        eos=_token((special | config).get("eos_token")),
        add_bos=bool(config.get("add_bos_token", False)),
        add_eos=bool(config.get("add_eos_token", False)),
        kind=_kind(document),
        later=tuple(token for token, is_normalized in added.items() if is_normalized),
        as_saved=is_used_as_saved(document, config, model, special, more),
    )


def _kind(document: dict[str, Any]) -> str:
    """Return a name for how a ``tokenizer.json`` splits texts: a digest of all but its tokens and merges."""
    model = document.get("model")
    rules = {key: document.get(key) for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")}
    rules["model"] = {
        key: value
        for key, value in (model.items() if isinstance(model, dict) else ())
        if key not in {"vocab", "merges"}
    }
    return "json " + hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


def _added_tokens(document: dict[str, Any], shown: str) -> dict[str, bool]:
    """Return the spellings that the package ``tokenizers`` searches for before it splits a text.

    True for those that it searches for in normalized text, after the others.
    """
    added = [token for token in document.get("added_tokens") or () if isinstance(token, dict)]
    trimming = [
        token for token in added if any(token.get(key) for key in ("lstrip", "rstrip", "single_word"))
    ]
    normalizer, splitter = str(document.get("normalizer")), str(document.get("pre_tokenizer"))
    late = [token for token in added if token.get("normalized") and normalizer != "None"]
    first_differs = (
        "Prepend" in normalizer or "Metaspace" in splitter or "'add_prefix_space': True" in splitter
    )
    obstacles = (
        (trimming, "some tokens absorb the blanks beside them"),
        (late, "some tokens are searched for in normalized text"),
        (first_differs, "the first word differs from the others"),
    )
    for applies, why in obstacles:
        if applies:
            raise VocabularyError(
                f"{shown} cannot count rendered prompts piece by piece: {why}. "
                "Let the server count, or give the model's GGUF."
            )
    return {str(token["content"]): bool(token.get("normalized")) for token in added if token.get("content")}


def _template(folder: Path, config: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return _read(file, str(file), _MAX_CONFIG).decode("utf-8")
        except UnicodeDecodeError:
            raise VocabularyError(f"{file} is not UTF-8. Fetch it again.") from None
    template = config.get("chat_template")
    if isinstance(template, list):  # several by name
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _token(value: object) -> str:
    """Return the text of a token in ``tokenizer_config.json``: a string, or an object with ``content``."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _json_if_any(file: Path) -> dict[str, Any]:
    return _json(file, _MAX_CONFIG) if file.is_file() else {}


def _json(file: Path, limit: int) -> dict[str, Any]:
    found = _parsed(_read(file, str(file), limit), str(file))
    return found if isinstance(found, dict) else {}
