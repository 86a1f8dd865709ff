"""The data of a page and its JSON, ``tokenbox.inspect/1`` (docs/inspect.md).

An entry is one inspected object. It has items (sections, blocks, messages) and frames: the request at one
budget or turn. A frame lists only what changed since the frame before, so a thousand frames of a thousand
items stay small. Each text is written once; a cut text refers to ranges of the whole one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tokenbox.__about__ import __version__
from tokenbox.characters import common_prefix
from tokenbox.errors import TokenboxError, TokenizerError, UnsupportedOperation
from tokenbox.records import AsRecord, to_record

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer


# A longer text is shown without its tokens, which would make the page too large.
MAX_CHARACTERS: Final = 2_000_000
# The upper bound of the tokens that share one character.
_MAX_SHARED: Final = 8


def boundaries_of(text: str, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    """Return the length of each token in UTF-16 units, or None if the tokenizer estimates or cannot encode.

    If tokens share a character, the last one has its length and the others have 0.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        tokens = tokenizer.encode(text)
        return _lengths(text, tokens, tokenizer)
    except (UnsupportedOperation, TokenizerError):
        return None


def _lengths(text: str, tokens: list[int], tokenizer: Tokenizer) -> tuple[int, ...] | None:
    ascii_only = text.isascii()
    decoded: dict[int, str] = {}
    found: list[int] = []
    place, waiting = 0, list[int]()
    for token in tokens:
        waiting.append(token)
        if len(waiting) == 1:
            piece = decoded.get(token)
            if piece is None:
                piece = decoded[token] = tokenizer.decode([token])
        else:
            piece = tokenizer.decode(waiting)
        if text.startswith(piece, place):
            found += [0] * (len(waiting) - 1)
            found.append(len(piece) if ascii_only else utf16(piece))
            place += len(piece)
            waiting.clear()
        elif len(waiting) > _MAX_SHARED:
            return None  # a tokenizer that normalizes: its tokens are not those of the text
    return tuple(found) if place == len(text) and not waiting else None


SCHEMA: Final = "tokenbox.inspect/1"
# The limits of a page that a browser scrolls without effort.
MAX_ITEMS: Final = 50_000
MAX_BYTES: Final = 64 << 20
# The longest marker in a cut text. A text that differs from the whole by more is written out.
_MARKER: Final = 512

TextRef = int | list["int | list[int]"] | None
"""A text in JSON: its number, its pieces (a number, or number, start and end in UTF-16 units), or unknown."""


class PageTooLarge(TokenboxError, code="inspect_too_large"):
    """The content exceeds the limits of a page. ``details`` has the number and the limit."""


class NothingToInspect(TokenboxError, code="inspect_unknown_input"):
    """A page cannot show this file."""


@dataclass(frozen=True, slots=True)
class PageForm:
    """A form of an item: its name, and its text and size if they are known."""

    name: str
    text: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class PageItem:
    """A section, block or message. ``base``: the tokens of its whole text. None is unknown."""

    id: str
    kind: str
    text: str | None = field(repr=False)
    base: int | None
    digest: str | None = None
    critical: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    forms: tuple[PageForm, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class PageState:
    """The state of an item in a frame. ``text``: the part that is sent; None if it is unknown.

    ``expand``: the handle that restores the rest, if there is one.
    """

    item: int
    decision: str
    size: int | None
    text: str | None = field(repr=False)
    form: str | None = None
    expand: str | None = None


@dataclass(frozen=True, slots=True)
class PageStep:
    """A step: its items, its action and the reason. ``text``: the item's text after it, if known.

    ``before`` and ``after`` are tokens of the whole request if ``whole``, else of the item.
    """

    items: tuple[int, ...]
    action: str
    why: str
    before: int
    after: int
    whole: bool = False
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PageUsage(AsRecord):
    """The usage of a turn as reported by the server. ``cost``: in dollars, as text."""

    input: int | None = None
    cached: int | None = None
    written: int | None = None
    output: int | None = None
    cost: str | None = None
    cost_exact: bool = False


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The request at one budget or turn. ``changes``: the states that differ from the frame before.

    ``exact`` describes the total, ``parts_exact`` the sizes of the items if that differs. ``fixed``: tokens
    that are never cut. ``error``: why there is no request at this budget. ``prompt``: the whole text, if it
    is not the texts of the states joined by the separator. ``time``: as logged.
    """

    budget: int | None
    total: int | None
    exact: bool
    changes: tuple[PageState, ...] = field(repr=False)
    fixed: int | None = None
    steps: tuple[PageStep, ...] = field(default=(), repr=False)
    label: str = ""
    usage: PageUsage | None = None
    note: str | None = None
    error: str | None = None
    prompt: str | None = field(default=None, repr=False)
    parts_exact: bool | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class PageSlider:
    """Layouts at other budgets. ``every``: they cover every budget from ``low`` to ``high``."""

    low: int
    high: int
    every: bool
    frames: tuple[PageFrame, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PageVerdict(AsRecord):
    """A decision on a request, its reasons and its remedies."""

    ok: bool
    title: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of_request(cls, ok: bool, lines: Iterable[str]) -> PageVerdict:  # noqa: FBT001  # its first field
        return cls(ok, "This request may be sent." if ok else "This request is refused.", tuple(lines))


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One inspected object. ``limits``: the context window and the deductions before the budget, in order.

    ``boundaries``: the lengths of the tokens of the first frame's prompt, in UTF-16 units.
    """

    title: str
    kind: str
    items: tuple[PageItem, ...] = field(repr=False)
    frames: tuple[PageFrame, ...] = field(repr=False)
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    separator: str = ""
    limits: tuple[tuple[str, int], ...] = ()
    verdict: PageVerdict | None = None
    slider: PageSlider | None = None
    boundaries: tuple[int, ...] | None = field(default=None, repr=False)


def record_of(entries: Sequence[PageEntry]) -> dict[str, object]:
    """Return the record of a page as JSON-compatible data. Raises :class:`PageTooLarge`."""
    check_items(sum(len(entry.items) for entry in entries))
    texts = _Texts()
    written = [_entry(entry, texts) for entry in entries]
    return {"schema": SCHEMA, "version": __version__, "texts": texts.found, "entries": written}


def limits_shown(window: int, reserve: int, headroom: int, over: int = 0) -> tuple[tuple[str, int], ...]:
    """Return the context window and the deductions that leave the input limit, in order.

    ``over``: the tokens that the window would leave beyond the maximum input.
    """
    found = [("context window", window)]
    if headroom:
        found.append(("headroom", headroom))
    found.append(("reserved for the answer", reserve))
    if over:
        found.append(("over the maximum input", over))
    return tuple(found)


def check_items(number: int) -> None:
    """Raise :class:`PageTooLarge` for more items than a page can show."""
    if number > MAX_ITEMS:
        raise PageTooLarge(
            f"there are {number:,} sections or messages; a page shows at most {MAX_ITEMS:,}. "
            "Inspect a part of them, or read the record: tokenbox layout DOC --json.",
            items=number,
            limit=MAX_ITEMS,
        )


class _Texts:
    """The texts of a page, each stored once and referred to by its number."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._numbers: dict[str, int] = {}
        self._bytes = 0

    def ref(self, text: str | None) -> int | None:
        if text is None:
            return None
        number = self._numbers.get(text)
        if number is None:
            self._bytes += len(text)
            if self._bytes > MAX_BYTES:
                raise PageTooLarge(
                    f"the texts have more than {MAX_BYTES:,} characters, the limit of a page. "
                    "Inspect a part of them.",
                    limit=MAX_BYTES,
                )
            number = self._numbers[text] = len(self.found)
            self.found.append(text)
        return number

    def cut(self, text: str | None, whole: str | None) -> TextRef:
        """Refer to ``text`` by ranges of ``whole``, if it is a cut of it."""
        if text is None or whole is None or text == whole or text in self._numbers or not text:
            return self.ref(text)
        head = common_prefix(text, whole)
        tail = common_prefix(text[head:][::-1], whole[head:][::-1])
        if len(text) - head - tail > min(_MARKER, len(text) // 2):
            return self.ref(text)
        number = self.ref(whole)
        assert number is not None  # noqa: S101  # whole is a text
        pieces: list[int | list[int]] = []
        if head:
            pieces.append([number, 0, utf16(whole[:head])])
        if (marker := text[head : len(text) - tail]) and (marked := self.ref(marker)) is not None:
            pieces.append(marked)
        if tail:
            end = utf16(whole)
            pieces.append([number, end - utf16(whole[len(whole) - tail :]), end])
        return pieces


def utf16(text: str) -> int:
    """Return the length of a text in UTF-16 units, as browsers count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _entry(entry: PageEntry, texts: _Texts) -> dict[str, object]:
    def written(frames: Iterable[PageFrame]) -> list[dict[str, object]]:
        return [_frame(frame, entry.items, texts) for frame in frames]

    slider = entry.slider
    return to_record(
        entry,
        "title kind facts notes separator limits verdict items frames slider boundaries",
        items=[_item(item, texts) for item in entry.items],
        frames=written(entry.frames),
        slider=slider and to_record(slider, "low high every frames", frames=written(slider.frames)),
        boundaries=None if entry.boundaries is None else packed_lengths(entry.boundaries),
    )


def _item(item: PageItem, texts: _Texts) -> dict[str, object]:
    return to_record(
        item,
        "id kind text base digest critical fields forms",
        text=texts.ref(item.text),
        forms=[[form.name, texts.cut(form.text, item.text), form.size] for form in item.forms],
    )


def _frame(frame: PageFrame, items: Sequence[PageItem], texts: _Texts) -> dict[str, object]:
    changes = [_state(state, items, texts) for state in frame.changes]
    found = to_record(frame, "label budget total exact fixed changes", changes=changes)
    if frame.steps:
        found["steps"] = [
            to_record(
                step,
                "items action why before after whole text",
                text=texts.cut(step.text, items[step.items[0]].text) if step.items else None,
            )
            for step in frame.steps
        ]
    optional = to_record(frame, "usage note error prompt parts_exact time", prompt=texts.ref(frame.prompt))
    return found | {name: value for name, value in optional.items() if value is not None}


def _state(state: PageState, items: Sequence[PageItem], texts: _Texts) -> list[object]:
    """Return ``[item, decision, size, text, form, expand]`` without trailing unknown values."""
    whole = items[state.item].text
    found = [state.item, state.decision, state.size, texts.cut(state.text, whole), state.form, state.expand]
    while found[-1] is None:
        found.pop()
    return found


# A character per token: its length after "#", and "~" for each 80 before that.
_FIRST, _LONG = ord("#"), 80


def packed_lengths(lengths: Iterable[int]) -> str:
    """Encode the lengths as one short text."""
    return "".join("~" * (length // _LONG) + chr(_FIRST + length % _LONG) for length in lengths)


# Characters that could end the script element, and those that UTF-8 cannot encode.
_UNSAFE: Final = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def safe_json(data: object) -> str:
    """Return ``data`` as JSON for an HTML ``script`` element. No character in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def with_hidden(entry: PageEntry, files: Sequence[PageItem], shown: Sequence[str]) -> PageEntry:
    """Return the entry of a pack with the files that are not in its text, and how each is ``shown``."""
    check_items(len(entry.items) + len(files))
    states = [PageState(i, "omitted", 0, "", form=form) for i, form in enumerate(shown, len(entry.items))]
    (frame,) = entry.frames
    frame = replace(frame, changes=(*frame.changes, *states))
    return replace(entry, kind="pack", items=(*entry.items, *files), frames=(frame,))


def differing(before: Sequence[PageState], after: Sequence[PageState]) -> tuple[PageState, ...]:
    """Return the states of ``after`` that differ from ``before``; both have a state for every item."""
    if not before:
        return tuple(after)
    return tuple(new for old, new in zip(before, after, strict=True) if old != new)
