"""Whether the data of a part is what the part says it is, so that its cost is bounded.

An image costs no more than :data:`tokenbox.compose.bound.PER_MEDIA`, whatever its size in bytes. A recording
costs tokens by its seconds: only of WAV and MP3 is it known how many bytes a second takes at least. A text is
read as it is. Anything else may be larger than it looks.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# The first bytes of PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and HEIC. Recordings are RIFF too, and videos ftyp.
_IMAGE: Final = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|BM|II\*\0|MM\0\*|....ftyp(?:avif|hei[cx]|mif1)",
    re.DOTALL,
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=\s-]*")
# An address in place of data, which a server would fetch.
_ADDRESS: Final = re.compile(r"\s*(?!data:)[a-z][a-z0-9+.-]*:\S", re.IGNORECASE)
# The path of an address, without what servers do not read in one.
_PATH: Final = re.compile(r"https?://[^/?#]*([^?#]*)", re.IGNORECASE)
_UNREAD: Final = re.compile(r"[\t\r\n]")
_QUOTED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_LONGEST_ADDRESS: Final = 4_096
# How the addresses of what proxies fetch in place of an image end (LiteLLM, for Gemini).
_NO_IMAGES: Final = tuple(
    ".pdf .mp4 .m4v .mov .qt .mpg .mpeg .mpe .mpegps .webm .mkv .avi .flv .wmv .3gp .3gpp .3g2 .ts .ogv .mp3 "
    ".mpga .wav .m4a .aac .ogg .oga .opus .flac .aiff .txt .csv .md .json .xml .html .htm .rtf .doc .docx "
    ".odt .xls .xlsx .ppt .pptx".split()
)
# The keys by which a part names the type of its data.
_TYPES: Final = ("format", "media_type", "mime_type", "mimeType")
# The keys of data: of the APIs, and of LangChain's blocks.
_DATA: Final = ("data", "base64")
# A payload this short costs next to nothing, whatever it is.
_TINY: Final = 64
# The characters of a recording in which its sound begins: WAV and MP3 may have tags and covers before it.
_HEAD: Final = 4_000_000
# The least samples per second of a recording: a server resamples it, so that fewer cost more tokens per byte.
_MIN_SAMPLES: Final = 8_000
# The numbers of WAV's forms with a byte or more per sample: PCM, floats, A-law, mu-law; and of the form that
# names another one.
_WAV_FORMS: Final = (1, 3, 6, 7)
_WAV_EXTENSIBLE: Final = 0xFFFE
_MAX_BEFORE_PDF: Final = 1_024
_PDF_IN_BASE64: Final = "JVBERi"
_TEXT_TYPES: Final = ("data:text/", "data:application/json", "data:application/xml")


def is_image_part(part: Mapping[str, Any]) -> bool:
    """Whether the addresses and data of an image part of any API are those of images."""
    inner = _holders(part)
    types = (holder.get(key) for holder in (part, *inner) for key in _TYPES)
    if any(isinstance(one, str) and "/" in one and not one.lower().startswith("image/") for one in types):
        return False
    return all(map(_is_image, image_payloads(part)))


def image_payloads(part: Mapping[str, Any]) -> Iterator[object]:
    """Yield the addresses and data of an image part of any API."""
    inner = _holders(part)
    for holder in (part, *inner):
        for key in ("url", *_DATA, "image_url", "image"):
            value = holder.get(key)
            if value is not None and not any(value is nested for nested in inner):
                yield value


def _holders(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [part[key] for key in ("image_url", "source", "image") if isinstance(part.get(key), dict)]


def _is_image(payload: object) -> bool:
    if not isinstance(payload, str):
        return False
    if payload[:8].lower().startswith(("http://", "https://")):
        return len(payload) <= _LONGEST_ADDRESS and not any(
            address.rstrip().endswith(_NO_IMAGES) for address in (_path_of(payload), payload.lower())
        )
    if _ADDRESS.match(payload) is not None:
        return False
    if len(payload) <= _TINY:
        return True
    head, comma, _ = payload[:128].partition(",")
    if comma and not head.lower().startswith("data:image/"):
        return False
    start = len(head) + 1 if comma else 0
    return _starts_as_image(payload[start : start + 16]) and _BASE64.fullmatch(payload, start) is not None


def _starts_as_image(head: str) -> bool:
    """Whether it is the beginning of an image, from 16 characters of base64."""
    try:
        return _IMAGE.match(base64.b64decode(head)) is not None
    except (binascii.Error, ValueError):
        return False


def _path_of(address: str) -> str:
    path = _PATH.match(_UNREAD.sub("", address))
    return "" if path is None else _unquoted(path[1]).decode("latin-1").lower()


def _unquoted(text: str) -> bytes:
    return _QUOTED.sub(
        lambda quoted: bytes.fromhex(quoted[1].decode()), text.encode("utf-8", "surrogatepass")
    )


def is_recording(holder: Mapping[str, Any]) -> bool:
    """Whether its data is WAV or MP3, which have a least size per second. Others take no room for silence."""
    return all(_is_recording(holder.get(key)) for key in _DATA)


def _is_recording(data: object) -> bool:
    if isinstance(data, str) and _ADDRESS.match(data) is not None:
        return False
    if not isinstance(data, str) or len(data) <= _TINY:
        return True
    try:
        head = base64.b64decode(data[: min(_HEAD, len(data) // 4 * 4)])
    except (binascii.Error, ValueError):
        return False
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return _is_wav(head)
    return _is_mp3(head)


def _is_wav(data: bytes) -> bool:
    """Whether its samples take a byte or more each, and at least 8,000 of them a second."""
    place = 12
    has_form = False
    while place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        if name == b"data":
            return has_form
        if name == b"fmt ":
            if has_form:  # servers differ in which of two they take
                return False
            form, samples = _little(data, place + 8, 2), _little(data, place + 12, 4)
            if form == _WAV_EXTENSIBLE:
                form = _little(data, place + 32, 2)
            if form not in _WAV_FORMS or samples < _MIN_SAMPLES:
                return False
            has_form = True
        place += 8 + size + size % 2
    return has_form


def _little(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "little")


def _is_mp3(data: bytes) -> bool:
    """Whether an MPEG frame of a stated bit rate follows the tags, if there are any."""
    place = 0
    while data[place : place + 3] == b"ID3" and place + 10 <= len(data):
        size = 0
        for byte in data[place + 6 : place + 10]:  # seven bits in each byte
            size = size << 7 | byte & 0x7F
        place += 10 + size
    frame = data[place : place + 3]
    if len(frame) < 3:
        return False
    is_frame = frame[0] == 0xFF and frame[1] & 0xE0 == 0xE0
    has_layer = frame[1] & 0x06 != 0  # AAC has none
    return is_frame and has_layer and 0 < frame[2] >> 4 < 15


def has_binary_file(holder: Mapping[str, Any]) -> bool:
    """Whether the object holds a file's data that is not a text."""
    for key in ("file_data", *_DATA):
        data = holder.get(key)
        if not isinstance(data, str) or _is_text_source(holder, data):
            continue
        if _ADDRESS.match(data) is not None or (len(data) > _TINY and not _is_text_address(data)):
            return True
    return False


def _is_text_source(holder: Mapping[str, Any], data: str) -> bool:
    """Whether it holds a text as it is (Anthropic), and neither its type nor its data names a PDF."""
    kind = holder.get("media_type", "text/plain")
    is_text = holder.get("type") == "text" and isinstance(kind, str) and kind.lower().startswith("text/")
    return is_text and not data.startswith(_PDF_IN_BASE64)


def _is_text_address(data: str) -> bool:
    """Whether it is the address of a text, and not of a PDF: servers look at what a file begins with."""
    text = text_of_address(data)
    return text is not None and "%PDF-" not in text[:_MAX_BEFORE_PDF] and "\0" not in text


def text_of_address(data: str) -> str | None:
    """Return the text in a ``data:`` address; None if it has none, or is another address."""
    head, _, payload = data.partition(",")
    head = head.lower()
    if not head.startswith(_TEXT_TYPES):
        return None
    try:
        raw = base64.b64decode(payload, validate=True) if ";base64" in head else _unquoted(payload)
        return raw.decode()
    except (binascii.Error, ValueError):
        return None
