"""Files and folders that a question brings with it: ``@path`` in what is said, or ``:file``.

A text goes through :func:`tokenbox.pack` within a budget, with the question as its query: whole where that
fits, else what the question needs of it. An image is sent as an image.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenbox.shell.errors import NoSuchItem
from tokenbox.shell.offers import OutputOffer

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

_MENTION: Final = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_AFTER: Final = ".,;:!?)]}'"
MAX_IMAGE: Final = 5 * 1024 * 1024
# How the bytes of images begin; a name alone is not believed.
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_WEBP: Final = (b"RIFF", b"WEBP", 12)


@dataclass(frozen=True, slots=True)
class Attached:
    """What a question brings: texts as offers, and images as parts of the message."""

    offers: tuple[OutputOffer, ...] = ()
    images: tuple[dict[str, Any], ...] = ()


def mentioned(text: str, session: Session) -> list[str]:
    """The paths behind an ``@`` that are there. What is not a path, such as @someone, is text."""
    found = []
    for quoted, bare in _MENTION.findall(text):
        names = [quoted] if quoted else [bare, bare.rstrip(_AFTER)]
        path = next((name for name in names if name and _is_there(session.place.path(name))), None)
        if path is not None and path not in found:
            found.append(path)
    return found


def attach(session: Session, names: list[str], query: str | None) -> Attached:
    """Read the paths, within half of the budget. Raises :class:`NoSuchItem` and what ``pack`` raises."""
    images, texts = [], []
    for name in names:
        path = session.place.path(name)
        if not _is_there(path):
            raise NoSuchItem(f"{name} is not there, or cannot be read.", file=name)
        image = _image(path)
        if image is None:
            texts.append((name, path))
        else:
            images.append(image)
    return Attached((_packed(session, texts, query),) if texts else (), tuple(images))


def _packed(session: Session, texts: list[tuple[str, str]], query: str | None) -> OutputOffer:
    from tokenbox.api import pack  # noqa: PLC0415  # on use: it reads folders

    budget = max(1, session.attach_budget)
    names = ", ".join(f"@{name}" for name, _ in texts)
    tokenizer, hide = session.tokenizer, session.models.keys.hidden_in
    made = pack([path for _, path in texts], budget, query, tokenizer=tokenizer)
    text = hide(made.text)
    whole = tokenizer.count(text)
    left_out = any(file.tokens is not None and file.shown.name != "FULL" for file in made.files)
    return OutputOffer(names, f"{names}:\n{text}", whole + left_out, whole)


def _image(path: str) -> dict[str, Any] | None:
    """An image as a part of a message; None for what is none. Raises :class:`NoSuchItem` for a huge one."""
    file = Path(path)
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        head = opened.read(_WEBP[2])
        kind = next((kind for begins, kind in _IMAGES if head.startswith(begins)), None)
        if head[:4] == _WEBP[0] and head[8:] == _WEBP[1]:
            kind = "image/webp"
        if kind is None:
            return None
        data = head + opened.read(MAX_IMAGE)
    if len(data) > MAX_IMAGE:
        raise NoSuchItem(
            f"{path} is larger than {MAX_IMAGE:,} bytes, so it is not sent as an image.", file=path
        )
    coded = base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{coded}"}}


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
