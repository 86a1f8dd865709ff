"""A lower bound of a request's tokens, assuming that the server shows every text to the model.

Published rules and chat templates define how known fields are shown. Text in any other field is counted as it
is, so that no text is sent uncounted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.compose.remembered import COUNTS
from tokenbox.content.message import Frozen, Object
from tokenbox.tokenizers.guarded import is_callers_own
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

BYTES_PER_TOKEN: Final = 8
"""The most bytes per token where the vocabulary may not be the server's. Each vocabulary has tokens for runs
of characters, such as 80 spaces or 32 dashes, that others lack; languages and code have about 4 bytes per
token. A caller's own counter is not corrected: its unit may be a word."""

# The types of media parts, the lists that have such parts, and the keys that lead to their payload.
_IMAGES: Final = frozenset(("image_url", "input_image", "image"))
_AUDIO: Final = frozenset(("input_audio", "audio_url", "audio"))
_FILES: Final = frozenset(("file", "input_file", "document"))
_MEDIA: Final = _IMAGES | _AUDIO | _FILES
_CONTENTS: Final = frozenset(("content", "output"))
_PAYLOAD: Final = frozenset(("url", "image_url", "data", "file_data", "file_url"))
_HOLDERS: Final = _PAYLOAD | _MEDIA | {"source"}
# The base64 characters per token of a payload: of low-bitrate speech, and of a file with text.
_AUDIO_CHARACTERS: Final = 50
_FILE_CHARACTERS: Final = 5
# Keys that every request has; the rules for messages and tools count them.
_STRUCTURE: Final = frozenset(
    """
    messages tools role content type text tool_calls tool_call_id id name function arguments parameters
    properties description required enum items image_url url call_id input output input_schema
    json_schema schema
    """.split()
)
_IDS: Final = frozenset(("id", "call_id", "tool_call_id", "tool_use_id", "type"))
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{0,40}")
# Characters of a number that may be the id of a token; and those per token of longer numbers, and of ids.
_SHORT_NUMBER: Final = 6
_DIGITS: Final = 3
_ID_CHARACTERS: Final = 2
# What is skipped is counted above this, and above this multiple of the rest, which no real request reaches.
_FREE: Final = 200
_FREE_MULTIPLE: Final = 2


def counts_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """Return the count of each text, of at least :data:`BYTES_PER_TOKEN` where that applies."""
    counts = COUNTS.each(tokenizer, texts)
    if tokenizer.identity.exact or is_callers_own(tokenizer):
        return counts
    return [max(count, len(utf8(text)) // BYTES_PER_TOKEN) for text, count in zip(texts, counts, strict=True)]


def payload_tokens(value: object) -> int:
    """Estimate the tokens of the recordings and files in a JSON value by the length of their data."""
    tokens = 0
    stack: list[tuple[object, str | None]] = [(value, None)]
    while stack:
        inner, kind = stack.pop()
        if isinstance(inner, dict):
            own = inner.get("type")
            kind = own if isinstance(own, str) and own in _MEDIA else kind
            stack += [(one, kind) for one in inner.values()]
        elif isinstance(inner, list):
            stack += [(one, kind) for one in inner]
        elif isinstance(inner, str) and kind is not None and kind not in _IMAGES:
            tokens += _size(inner, kind)
    return tokens


def _size(data: str, kind: str) -> int:
    """Return the estimated tokens of the data of a recording or a file."""
    return len(data) // (_AUDIO_CHARACTERS if kind in _AUDIO else _FILE_CHARACTERS)


def lower_bound(value: Mapping[str, object] | Frozen, tokenizer: Tokenizer) -> int:
    """Count the tokens of every string, key and number of a JSON object, frozen or not.

    It skips the data of images, whose length does not determine their cost. It also skips ids of up to 40
    characters, keys of null, which an SDK's ``model_dump`` has for all that an answer lacks, the keys that
    every request has, and brackets, unless the object has more of them than of anything else.
    """
    texts: list[str] = []
    empty: list[str] = []  # keys of null
    more = skipped = 0
    stack: list[tuple[object, str | None, str]] = [(value, None, "")]
    while stack:
        inner, kind, key = stack.pop()
        if isinstance(inner, str):
            if kind is not None and key in _PAYLOAD and not (kind in _FILES and _is_text(inner)):
                more += 0 if kind in _IMAGES else _size(inner, kind)
            elif key in _IDS and _ID.fullmatch(inner):
                skipped += 1 + len(inner) // _ID_CHARACTERS
            elif inner:
                texts.append(inner)
            else:
                skipped += 1
            continue
        if isinstance(inner, Object):
            inner = dict(inner)
        if isinstance(inner, dict):
            own = inner.get("type")
            kind = own if isinstance(own, str) and own in _MEDIA and key in _CONTENTS else kind
            kind = None if own == "text" and kind in _FILES and key == "source" else kind
            shown = [pair for pair in inner.items() if pair[1] is not None]
            stack += [(one, kind if name in _HOLDERS else None, name) for name, one in shown]
            names = [name for name in inner if name not in _STRUCTURE]
            free = {name for name in names if inner[name] is None and _ID.fullmatch(name)}
            texts += [name for name in names if name not in free]
            empty += free
            skipped += 1 + len(inner)
        elif isinstance(inner, list | tuple):
            stack += [(one, kind, key) for one in inner]
            skipped += 1
        else:
            more += 1 + _long_number(inner)
    counted = more + sum(counts_of(tokenizer, [text for text in texts if text]))
    skipped += sum(counts_of(tokenizer, [name for name in empty if name]))
    return counted + max(0, skipped - _FREE - _FREE_MULTIPLE * counted)


def _long_number(value: object) -> int:
    """Return the tokens of a number beyond the first: none, unless it is longer than the id of a token."""
    size = len(repr(value))
    return 0 if size <= _SHORT_NUMBER else size // _DIGITS


def _is_text(data: str) -> bool:
    """Return whether the data is a ``data:`` URL of a text."""
    return data[:64].lower().startswith("data:text/")
