"""Replace the data of private keys, so that code, comments and settings around it stay what they are."""

from __future__ import annotations

import re
from string import ascii_letters, digits

# A private key as far as its last line, or, if that is missing, as in a file of PuTTY, as far as it is in
# base64. The lines that a diff removes begin with a dash. Its words may be encoded for a URL, or in base64.
_IN_BASE64 = (b"UFJJVkFURSBLRVk", b"BSSVZBVEUgS0VZ", b"QUklWQVRFIEtFW")
_PRIVATE_KEY = (
    rb"(-{4,5} ?BEGIN(?: |%20|\+)"
    rb"(?:(?:[A-Z0-9 +]|%20){0,40}PRIVATE(?: |%20|\+)KEY(?: BLOCK)?|OpenVPN Static key V[0-9]) ?-{4,5}"
    rb"|Private-Lines: [0-9]{1,4}(?=\s)|LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,40}?(?:"
    + b"|".join(_IN_BASE64)
    + rb"))"
    rb"((?:[^-]|-(?!----)){40,20000}?(?=-{4,6} ?END)"
    rb"|(?:(?:\s|\\[nr]|[\"',.+#>|*]|(?<=\n)-){0,20}[A-Za-z0-9+/=]{20,20000}){1,500}"
    rb"(?:(?:\s|\\[nr]){1,4}-?[A-Za-z0-9+/]{0,19}(?:={1,2}|(?=\s{1,2}[ +-]?Private-MAC)))?)"
)
MARKS = (
    b"PRIVATE KEY",
    b"PRIVATE%20KEY",
    b"PRIVATE+KEY",
    b"Private-Lines: ",
    b"OpenVPN Static key",
    *_IN_BASE64,
)
# Data of a key, not a row of x; without it the text is code that reads or writes keys.
_KEY_DATA = re.compile(
    rb"(?<!\\)(?!(.)\1{19})(?:(?=[A-Za-z+/=]{0,20}[0-9])[A-Za-z0-9+/=]{20}|[A-Za-z+/=]{32})"
)
# What stands in the place of a key: escapes, headers (RFC 1421), and marks of comments and code, which stay
# like punctuation, or data. In one line all words are data but a call; in several a long one, or one alone.
_KEPT = rb"\\[nrt]|&#\w{2,3};|<[a-z]{1,4} ?/?>|\b[A-Z][\w-]+: [^\n\\\"']*|^[ \t]*[/+]+"
_ALPHABET = (ascii_letters + digits + "+/=").encode()
_DATA = rb"[A-Za-z0-9+/=]"
_ANY_DATA = rb"[+/=]*[A-Za-z0-9]" + _DATA + rb"*"
_PIECE_OF_LINE = re.compile(rb"(?m)(" + _KEPT + rb")|" + _ANY_DATA + rb"(?![\w.]*\()")
_PIECE_OF_LINES = re.compile(
    rb"(?m)((?:^[ \t]*(?:[/#*>|+-]+[ \t]*)?|[\"'`;]|"
    + _KEPT
    + rb"))(?:"
    + _ANY_DATA
    + rb"(?=[ \t]*(?:\r?$|[\"'`\\<&]|\Z)))?|(?=[A-Za-z=]*[0-9+/])"
    + _DATA
    + rb"{24,}(?![\w.(])|(?<=[ \t])"
    + _ANY_DATA
    + rb"(?=[ \t]*\Z)"
)


def redact(content: bytes, mark: bytes) -> tuple[bytes, list[int]]:
    """Put ``mark`` between the first and the last line of each private key, and return where the keys begin.

    Line ends, quotes and other punctuation stay, so that code around it is still code.
    """
    starts: list[int] = []

    def replacement(match: re.Match[bytes]) -> bytes:
        data = _KEY_DATA.search(match[2])
        if data is None:
            return match[0]
        starts.append(match.start())
        pieces = _PIECE_OF_LINES if b"\n" in match[2] else _PIECE_OF_LINE
        parts = match[2][: data.start()], match[2][data.end() :].lstrip(_ALPHABET)
        before, after = (pieces.sub(lambda piece: piece[1] or b"", part) for part in parts)
        return b"".join((match[1], before, mark, after))

    return re.sub(_PRIVATE_KEY, replacement, content), starts
