"""An upper bound of a request's tokens that a server's own count never exceeds.

Every string of the request, in any field, is counted with the tokenizer, or by its UTF-8 bytes if the
tokenizer is unknown. A string that a server may show as JSON or as a Python literal is counted in its escaped
form. Allowances are added for the server's own text: markers, a template's sentences, the punctuation around
fields, images. They exceed what any of the 70 chat templates in llama.cpp adds
(tests/conversation/test_bound.py has the measurement).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from tokenbox.characters import normalize
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import By, Count
from tokenbox.content.message import MAX_DEPTH, Frozen, Message, Object, PartKind, media_kind
from tokenbox.content.parts import media_in
from tokenbox.content.payloads import text_of_address
from tokenbox.content.request import Request, texts_and_ids
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

PER_REQUEST: Final = 2_048
"""The template's own system prompt, the date, and the tokens that prime the reply."""
PUBLISHED: Final = {"o200k_base": 256, "cl100k_base": 256}
"""The same for vocabularies that imply the server: OpenAI publishes 3, the template of gpt-oss has 93."""
PER_TOOLS: Final = 2_048
"""A template's instructions for tool calls or for a response format."""
SHOWN: Final = 2
"""The number of times a template shows a tool: some show its description, and then its whole schema."""
PER_MESSAGE: Final = 32
"""The markers around a message."""
PER_CALL: Final = 64
"""The markers around a tool call, and around its result."""
PER_FIELD: Final = 12
"""The punctuation, indentation and type names around a value of a JSON object."""
PER_MEDIA: Final = 50_000
"""An image, file, recording or video. The highest published cost is 48,169 (gpt-4o-mini, 8 tiles)."""

UNENDING: Final = 1 << 40
"""What a schema grows by that names itself: more tokens than any model takes."""

# The method of tokenizers that estimate. The first two include a margin of 15 %.
_ESTIMATES: Final = {"two-vocabularies": By.MARGIN, "heuristic": By.MARGIN, "chars4": By.CHARS4}
# Keys of an image or a file whose values are data or a URL. A model never reads an image's data as text; it
# may read a file's: the data as it is, or the text in its address.
_PAYLOAD: Final = frozenset(("source", "data", "url", "image_url", "file", "file_data", "input_audio"))
# Keys of a message that may contain images and files.
_CONTENTS: Final = frozenset(("content", "output"))
# The keys of a schema with others that it refers to by name.
_DEFINITIONS: Final = frozenset(("$defs", "definitions"))
# Characters that some JSON encoder escapes: quotes, backslashes, control and HTML characters, non-ASCII.
_ESCAPABLE: Final = re.compile(r"""[^ !#$%()*+,\-./0-9:;=?@A-Z\[\]^_`a-z{|}~]""")
_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})


class Bound:
    """Upper bounds by one tokenizer; without an exact tokenizer, by bytes."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer if tokenizer is not None and tokenizer.identity.exact else None
        name = None if self._tokenizer is None else self._tokenizer.identity.name
        self._is_published = name in PUBLISHED
        self._per_request = PUBLISHED.get(name or "", PER_REQUEST)

    def request(self, request: Request) -> int:
        """Return the bound of a whole request."""
        messages = sum(map(self.message, request.messages))
        prompts = sum(self.prompt(prompt) for prompt in request.prompts)
        return self.frame(request) + messages + prompts

    def frame(self, request: Request) -> int:
        """Return the bound of everything except messages and prompts."""
        if not (request.tools or request.fields or request.raw):
            return self._per_request
        has_form = bool(request.tools or request.fields)
        read_from = _messages_by_place(request) if request.raw else {}
        items = zip(request.raw_places, request.raw, strict=True)
        raw = sum(self.beside(item, read_from.get(place, ())) for place, item in items)
        tools = SHOWN * sum(self.value(tool) + self._inlined(tool) for tool in request.tools)
        fields = self.value(request.fields) + self._inlined(request.fields)
        return self._per_request + PER_TOOLS * has_form + raw + tools + fields

    def _inlined(self, schema: Frozen) -> int:
        """Return the bound of what a schema grows by if each reference becomes the definition that it names.

        LiteLLM does that for some servers: twenty definitions that name the next one twice are a million.
        """
        named = {} if self._is_published else _definitions(schema)
        if not named:
            return 0
        sizes: dict[str, int] = {}

        def size(name: str, depth: int = 0) -> int:
            if name not in sizes and name in named:
                sizes[name] = UNENDING  # until it is known: a definition may name itself
                inner = (size(one, depth + 1) for one in _references(named[name]))
                grown = sum(inner) + self.value(named[name]) if depth < MAX_DEPTH else UNENDING
                sizes[name] = min(UNENDING, grown)
            return sizes.get(name, 0)

        return min(UNENDING, sum(map(size, _references(schema))))

    def message(self, message: Message) -> int:
        content = message.content
        # A template may show a result as JSON.
        if len(message.source) == 2 and isinstance(content, str) and message.role not in Message.RESULT_ROLES:
            return PER_MESSAGE + sum(self.plain([message.role.value, content]))
        calls = len(message.tool_calls) + (message.role in Message.RESULT_ROLES)
        return PER_MESSAGE + PER_CALL * calls + self.value(message.source, media=True)

    def beside(self, raw: Frozen, messages: Sequence[Message]) -> int:
        """Return the bound of what a converted item may cost beyond the messages that were read from it.

        A server shows each text of the item once: where the item has it, or where the messages have it. Their
        bound has the texts that they contain word for word, so only what an escaped form adds is counted
        here, and so it is with images. Everything else is counted in both forms: the keys, and the texts that
        were joined or became the arguments of a call.
        """
        texts, allowance = _texts_and_allowance(raw, media=True)
        there = Counter(text for message in messages for text in _shown_as_they_are(message))
        again = list((Counter(texts) & there).elements())
        media = media_in(raw) - sum(media_in(message.source) for message in messages)
        return allowance + PER_MEDIA * max(0, media) + sum(self.escaped(texts)) - sum(self.plain(again))

    def prompt(self, prompt: str | tuple[int | str, ...]) -> int:
        texts, ids = texts_and_ids(prompt)
        return PER_MESSAGE + ids + sum(self.plain(texts))

    def value(self, value: Frozen, *, media: bool = False) -> int:
        """Return the bound of a JSON value in any notation: its strings, keys and numbers.

        ``media``: its contents may include images and files, which are not text.
        """
        texts, allowance = _texts_and_allowance(value, media=media)
        return allowance + PER_MEDIA * (media_in(value) if media else 0) + sum(self.escaped(texts))

    def escaped(self, texts: Sequence[str]) -> list[int]:
        """Return for each text the larger of its count and its count as a JSON string."""
        counts = self.plain(texts)
        places = [place for place, text in enumerate(texts) if _ESCAPABLE.search(text)]
        dumped = self.plain([json.dumps(texts[place])[1:-1].translate(_HTML) for place in places])
        for place, count in zip(places, dumped, strict=True):
            counts[place] = max(counts[place], count)
        return counts

    def plain(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        if self._tokenizer is not None:
            return COUNTS.each(self._tokenizer, texts)
        return [_max_bytes(text) for text in texts]


def count_of_text(text: str, total: int, tokenizer: Tokenizer) -> Count:
    """Return the count of a text that has ``total`` tokens. An estimate is bounded by its bytes."""
    identity = tokenizer.identity
    if identity.exact:
        return Count(total, exact=True, at_most=total, by=By.TEXT)
    at_most = max(total, Bound(None).prompt(text))
    return Count(total, exact=False, at_most=at_most, by=_ESTIMATES.get(identity.name, By.TEXT))


def _max_bytes(text: str) -> int:
    """Return the largest number of bytes of the text, with or without Unicode normalization.

    What is composed (NFC, NFKC) has no more bytes than what is decomposed.
    """
    if text.isascii():
        return len(text)
    return max(len(utf8(text)), len(utf8(normalize("NFD", text))), len(utf8(normalize("NFKD", text))))


def _messages_by_place(request: Request) -> Mapping[int | None, Sequence[Message]]:
    """Return the messages that were read from each of the caller's items."""
    found: dict[int | None, list[Message]] = defaultdict(list)
    for place, message in zip(request.places, request.messages, strict=False):
        found[place].append(message)
    return found


def _shown_as_they_are(message: Message) -> Iterator[str]:
    """Yield texts that every bound of the message has: its contents, its reasoning, its calls' arguments."""
    if isinstance(message.content, str):
        yield message.content
    elif message.content is not None:
        yield from (part.text for part in message.content)
    yield message.reasoning
    yield from (call.arguments for call in message.tool_calls)


def _texts_and_allowance(value: Frozen, *, media: bool) -> tuple[list[str], int]:
    """Return the strings and keys of a JSON value, and the allowance for the rest, without its media."""
    texts: list[str] = []
    allowance = 0
    for leaf in _leaves(value, media=media):
        if isinstance(leaf, str):
            texts.append(leaf)
        else:
            allowance += leaf
    return texts, allowance


def _leaves(
    value: Frozen, *, media: bool, in_content: bool = False, kind: PartKind | None = None
) -> Iterator[str | int]:
    """Yield the strings and keys of a value, and allowances for numbers, punctuation and payloads.

    ``kind``: of the image or file that the value is in.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Object):
        kind = media_kind(dict(value).get("type")) or kind if in_content else kind
        for key, inner in value:
            yield PER_FIELD
            yield key
            if kind is not None and key in _PAYLOAD and isinstance(inner, str):
                shown = () if kind is PartKind.IMAGE else (inner, text_of_address(inner) or "")
                yield max(map(_max_bytes, shown), default=0)
            else:
                within = kind if key in _PAYLOAD else None
                in_it = media and key in _CONTENTS
                yield from _leaves(inner, media=media, in_content=in_it, kind=within)
    elif isinstance(value, tuple):
        for inner in value:
            yield PER_FIELD
            yield from _leaves(inner, media=media, in_content=in_content, kind=kind)
    else:
        yield _digits(value)


def _fields(value: Frozen) -> Iterator[tuple[str, Frozen]]:
    """Yield the pairs of all objects in a value."""
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, Object):
            yield from inner
            stack += [held for _, held in inner if isinstance(held, tuple)]
        elif isinstance(inner, tuple):
            stack += inner


def _definitions(schema: Frozen) -> dict[str, tuple[Frozen, ...]]:
    """Return all definitions by their names. Each level of a schema may have its own."""
    held = [inner for key, inner in _fields(schema) if key in _DEFINITIONS and isinstance(inner, Object)]
    found: dict[str, list[Frozen]] = {}
    for name, definition in (pair for inner in held for pair in inner):
        found.setdefault(name, []).append(definition)
    return {name: tuple(definitions) for name, definitions in found.items()}


def _references(schema: Frozen) -> list[str]:
    """Return the names of the definitions that it refers to."""
    found = [inner for key, inner in _fields(schema) if key == "$ref"]
    return [reference.rpartition("/")[2] for reference in found if isinstance(reference, str)]


def _digits(value: float | None) -> int:
    """Return the number of characters: each is at most a token. A float may be shown without an exponent."""
    if isinstance(value, float) and isfinite(value):
        return max(len(repr(value)), len(f"{value:f}"))
    return len(repr(value))
