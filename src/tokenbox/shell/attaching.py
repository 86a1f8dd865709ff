"""Files and folders attached to a question, by ``@path`` in its text or by ``:file``.

Texts are packed by :func:`tokenbox.pack` within a budget, with the question as the query: whole if they fit,
else the parts relevant to the question. An image is sent as an image.
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.errors import NothingFits, plural
from tokenbox.files import open_regular
from tokenbox.shell.errors import NoSuchItem
from tokenbox.shell.outputs import OutputOffer

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

_MENTION: Final = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_PUNCTUATION: Final = ".,;:!?)]}'"
MAX_IMAGE: Final = 5 * 1024 * 1024
# The first bytes of images. File names are not trusted.
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_WEBP: Final = (b"RIFF", b"WEBP", 12)


@dataclass(frozen=True, slots=True)
class Attached:
    """The attachments of a question: texts as offers, and images as parts of the message."""

    offers: tuple[OutputOffer, ...] = ()
    images: tuple[dict[str, Any], ...] = ()


def mentioned(text: str, session: Session) -> list[str]:
    """Return the existing paths behind an ``@``. A word such as @someone is text."""
    found = []
    for quoted, bare in _MENTION.findall(text):
        names = [quoted] if quoted else [bare, bare.rstrip(_PUNCTUATION)]
        path = next((name for name in names if name and os.path.exists(session.place.path(name))), None)
        if path is not None and path not in found:
            found.append(path)
    return found


def attach(session: Session, names: list[str], query: str | None) -> Attached:
    """Read the paths, within half of the budget. Raises :class:`NoSuchItem` and what ``pack`` raises."""
    images, texts = [], []
    for name in names:
        path = session.place.path(name)
        if not os.path.exists(path):
            raise NoSuchItem(f"{name} does not exist, or cannot be read.", file=name)
        image = _image(path)
        if image is None:
            texts.append((name, path))
        else:
            images.append(image)
    return Attached((_packed(session, texts, query),) if texts else (), tuple(images))


def _packed(session: Session, texts: list[tuple[str, str]], query: str | None) -> OutputOffer:
    from tokenbox.api import pack  # slow to import, and rarely needed

    budget = max(1, session.attach_budget)
    names = ", ".join(f"@{name}" for name, _ in texts)
    try:
        packed = pack([path for _, path in texts], budget, query, tokenizer=session.tokenizer)
    except NothingFits:
        raise NothingFits(
            f"{names} cannot be attached in {plural(budget, 'token')}: half of the budget of "
            f"{session.context.budget:,}, less what is on offer. Raise :budget, or take back an output with "
            ":drop last.",
            budget=budget,
        ) from None
    text = session.models.keys.hidden_in(packed.text)
    size = session.tokenizer.count(text)
    left_out = any(file.tokens is not None and file.shown.name != "FULL" for file in packed.files)
    return OutputOffer(names, f"{names}:\n{text}", size + left_out, size)


def _image(path: str) -> dict[str, Any] | None:
    """Return an image as a part of a message, or None for another file. Raises :class:`NoSuchItem`."""
    if not os.path.isfile(path):
        return None
    try:
        with open_regular(path) as opened:
            head = opened.read(_WEBP[2])
            kind = next((kind for magic, kind in _IMAGES if head.startswith(magic)), None)
            if head[:4] == _WEBP[0] and head[8:] == _WEBP[1]:
                kind = "image/webp"
            if kind is None:
                return None
            data = head + opened.read(MAX_IMAGE)
    except OSError as error:
        raise NoSuchItem(f"{path} cannot be read: {error.strerror or error}.", file=path) from None
    if len(data) > MAX_IMAGE:
        raise NoSuchItem(
            f"{path} is larger than {MAX_IMAGE:,} bytes, the limit for images. Make it smaller.", file=path
        )
    encoded = base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{encoded}"}}
