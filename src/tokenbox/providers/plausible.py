"""Whether a server's count can be true: a server, or a proxy in front of it, may answer 0 for any request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.message import media_kind
from tokenbox.content.parts import texts_in
from tokenbox.content.request import INPUTS

if TYPE_CHECKING:
    from tokenbox.content.request import Api

LONGEST_TOKEN: Final = 128
"""The bytes of the longest token of any known vocabulary, a run of spaces."""
# The keys that lead to the texts of messages, parts, calls and results.
_TEXT_KEYS: Final = frozenset(("content", "text", "output", "tool_calls", "function", "arguments"))
# Templates leave out the thoughts of earlier answers, which end so.
_END_OF_THOUGHT: Final = "</think>"


def is_possible(api: Api, body: Mapping[str, Any], tokens: int) -> bool:
    """Whether so few tokens can hold what servers show their models: the prompts, or the chat's texts."""
    return sum(map(len, _shown_texts(api, body))) <= LONGEST_TOKEN * tokens


def _shown_texts(api: Api, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a model reads: instructions, messages without earlier thoughts, tools that it may call."""
    for text in _texts_without_media([body.get(INPUTS[api]), body.get("system"), body.get("instructions")]):
        yield text.rpartition(_END_OF_THOUGHT)[2]
    if body.get("tool_choice") != "none":
        yield from texts_in(body.get("tools"))


def _texts_without_media(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_without_media(item)
    elif isinstance(value, dict) and media_kind(kind := value.get("type")) is None and kind != "reasoning":
        for key in _TEXT_KEYS & value.keys():
            yield from _texts_without_media(value[key])
