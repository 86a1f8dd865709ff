"""A lower bound of a request's tokens, assuming that the server shows every text to the model.

Published rules and chat templates define how known fields are shown. Text in any other field is counted as it
is, so that no text is sent uncounted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tokenbox.compose.remembered import COUNTS

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

# The types of media parts, and the keys of their payload.
_IMAGES: Final = frozenset(("image_url", "input_image", "image"))
_AUDIO: Final = frozenset(("input_audio", "audio"))
_FILES: Final = frozenset(("file", "input_file", "document"))
_MEDIA: Final = _IMAGES | _AUDIO | _FILES
_PAYLOAD: Final = frozenset(("url", "image_url", "data", "file_data", "file_url"))
# The base64 characters per token of a payload: of low-bitrate speech, and of a file with text.
_AUDIO_CHARACTERS: Final = 50
_FILE_CHARACTERS: Final = 5
# Keys that every request has; the rules for messages and tools count them.
_STRUCTURE: Final = frozenset(
    """
    messages tools role content type text tool_calls tool_call_id id name function arguments parameters
    properties description required enum items image_url url call_id input output input_schema
    json_schema schema
    """.split()  # noqa: SIM905  # names read best as words
)
_IDS: Final = frozenset(("id", "call_id", "tool_call_id", "tool_use_id", "type"))
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{0,40}")


def lower_bound(value: Mapping[str, object], tokenizer: Tokenizer) -> int:
    """Count the tokens of every string, key and number of a JSON object.

    It skips the data of images, whose length does not determine their cost, ids of up to 40 characters, and
    the keys that every request has.
    """
    texts: list[str] = []
    more = 0
    stack: list[tuple[object, str | None, str]] = [(value, None, "")]
    while stack:
        inner, kind, key = stack.pop()
        if isinstance(inner, dict):
            own = inner.get("type")
            kind = own if isinstance(own, str) and own in _MEDIA else kind
            kind = None if own == "text" and kind in _FILES and key == "source" else kind
            stack += [(one, kind, name) for name, one in inner.items()]
            texts += [name for name in inner if name not in _STRUCTURE]
        elif isinstance(inner, list | tuple):
            stack += [(one, kind, key) for one in inner]
        elif not isinstance(inner, str):
            more += 1
        elif kind is None or key not in _PAYLOAD or (kind in _FILES and _is_text(inner)):
            if key not in _IDS or not _ID.fullmatch(inner):
                texts.append(inner)
        elif kind not in _IMAGES:
            more += len(inner) // (_AUDIO_CHARACTERS if kind in _AUDIO else _FILE_CHARACTERS)
    return more + sum(COUNTS.each(tokenizer, [text for text in texts if text]))


def _is_text(data: str) -> bool:
    """Return whether the data is a ``data:`` URL of a text."""
    return data[:64].lower().startswith("data:text/")
