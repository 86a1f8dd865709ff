"""Whether a value that looks like a secret may be one, or is made up: a placeholder, a word, an example."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase, digits
from urllib.parse import unquote

import re2

# The minimum length of a password, apart from files of environment variables.
MIN_VALUE = 8
# The minimum length of one in an address of a local server: ``http://a:b@host/`` is an example.
_MIN_LOCAL = 4
_PLACEHOLDERS = frozenset(
    "password passwd pass pwd pw secret token changeme user username xxx guest postgres".split()
)
# What settings say in place of a value.
_NO_VALUES = frozenset("null none nil undefined true false".split())
# Reserved hosts (RFC 2606, RFC 6761), and local ones.
_RESERVED_HOST = re.compile(
    r"(?:^|[@/.])(?:example|localhost|test|invalid|local|host|internal)(?:\.(?:com|org|net|io|dev))?\.?(?=[:/?#]|$)"
    r"|(?:^|[@/])(?:127|10|192\.168|172)\.[0-9.]+|\[::1\]",
    re.IGNORECASE,
)
_FICTITIOUS = re2.compile(
    r"(?i)example|test|dummy|fake|sample|mock|change|placeholder|your|secret|passw|token|foo|bar|xxx|abcd|abcabc|1234|0123"
)
# A value looks random if it has at least 16 characters of three kinds, and no run of 5 lower-case letters or
# at least 6 changes between letters and digits.
_MIN_RANDOM, _WORD_RUN, _RANDOM_CHANGES = 16, 5, 6
# A name in code has fewer changes between letters and digits.
_CHANGES_OF_A_SECRET = 5
# A word beside a placeholder is a secret if it is as long as this, and has as many such changes.
_MIN_RANDOM_WORD = 16
# Twenty characters with nine changes of their kind are no words, and neither are three words in one a name.
_KINDS = bytes.maketrans(
    (ascii_uppercase + ascii_lowercase + digits).encode(), b"A" * 26 + b"a" * 26 + b"0" * 10
)
# The changes between letters and digits, and those of lower and upper case with them.
_OF_DIGITS = (b"a0", b"A0", b"0a", b"0A")
_OF_KINDS = (*_OF_DIGITS, b"aA", b"Aa")
_CHANGES_IN_TWENTY = 9
# The pairs of letters in words and names, by their first letter: of random letters a third are such pairs.
_PAIRS_OF_WORDS = frozenset(
    letters[0] + second
    for letters in (
        "abcdgilmnprstuvy baeilosu cacehiklorstu dadeiorsu eacdefglmnprstvwx faefilorsu geinors haeio "
        "iabcdefglmnoprstvz keis ladeilostuy maeiopsu nacdefgiknostuv oabcdfgklmnoprstuvw paeiloprstu qu "
        "racdegikmnorstuy sacehilopstuy tacehiloprstuy uabceilmnprst vaei waeio xpt yp ze"
    ).split()
    for second in letters[1:]
)
_MIN_PAIRS = 14
# What is no value but its place: a file, a class. Python would try all ways to divide each name.
_NAME_OF_ELSE = re2.compile(
    r"[\w./~-]+\.(?:asc|cer|cfg|conf|crt|csv|der|enc|env|exe|go|gpg|html?|ini|jar|java|jks|jsonl?|js|keystore"
    r"|gif|ico|jpe?g|log|md|p12|pdf|pem|pfx|php|png|properties|pub|py|rb|rs|sh|so|svg|tar|tf|ts|ttf|txt|webp|woff2?|xml|ya?ml|zip)"
    r"|(?:[A-Za-z_]{0,30}[a-z]{4}\w{0,30}\.){1,9}[A-Za-z]{0,30}[a-z]{4}[A-Za-z]{0,30}"
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^@\s]*")
_ALGORITHM = re.compile(
    r"(?:a|hs|rs|es|ps|sha|shake|aes|rsa|dsa|ecdsa|ecdh|eddsa|ed|ec|pbes|pbkdf|hmac|cbc|gcm|ctr|kw|oaep|scram|md|p|x)?"
    r"[0-9]{0,5}(?:cbc|gcm|gcmkw|kw)?",
    re.IGNORECASE,
)
_PASSPHRASE = re.compile(r"(?=.*[a-z][A-Z].*[a-z][A-Z])[A-Za-z!@#%^&*+~-]{12,}")
# The name of a key that everybody may know, that is encrypted or finds data, or of a token for the next page.
# The password of a key is a secret, and so is its private half.
_PUBLIC_KEY = re.compile(
    rb"(?i)(?:(?<!re)public|publishable|(?<![a-z])(?:pub|gpg|pgp)_)(?!\w*(?:secret|private))\w*key|(?:encrypted|wrapped)_?key"
    rb"|(?:cache|primary|foreign|partition|sort|row|object|idempotency|lookup|group|range|index|site|issue|repository"
    rb"|identifier|websocket|recv|root(?=[_-]keys))[_-]?keys?\W*\Z|(?:page|next|continuation|cursor|sync)[_-]?token\W*\Z"
)
_LONG_WORD = re.compile(r"[a-z]{5}|[A-Z]{6}")
# What stands in place of a secret, and the beginning of an encrypted one.
_BLANKED = re.compile(
    r"[xX]{6}|\*{4}|0{12}|\.\.\.|\A(.)\1{5,}\Z"
    r"|\A(?i:(?:change|replace)[-_ ]?(?:me|this|it)\b|to[-_ ]be[-_ ]|your[-_ ])|\AENC[\[(]|EXAMPLE"
)
# A value of several words, a path or a call is a name; a version or a UUID is an id.
_REFERENCE = re.compile(
    r"(?:[A-Za-z][a-z]{2}|[A-Z]{3})[./_-](?:[A-Za-z][a-z]{2}|[A-Z]{3})|\.[a-z]+[._]|::|^\d+\.\d+|^v\d|^\d{4}-\d\d|%[A-Za-z_]+%|\.\.\."
)
# Data in base64 for URLs has such words by chance, and a digit begins or ends at least at each fifth letter.
_REFERENCE_CHANGE = 5
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_fictitious_login(credentials: str, *, in_test: bool) -> bool:
    """Return whether it is ``user:password`` in base64, with a placeholder or word as the password.

    Also if a part of it is left out, and in a test if it is a token that nobody issued.
    """
    if is_blanked(credentials):
        return True
    if in_test and credentials.startswith("eyJ"):
        return not has_a_real_issuer(credentials, "")
    if in_test and _FICTITIOUS.search(credentials) is not None:
        return True
    try:
        _, colon, password = base64.b64decode(credentials, validate=True).decode("ascii").partition(":")
    except ValueError:
        return False
    return bool(colon) and (password.lower() in _PLACEHOLDERS or not any(c.isdigit() for c in password))


def looks_random(value: str, _line: str) -> bool:
    """Return whether a password in a test or a manual may be real."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return (
        len(value) >= _MIN_RANDOM
        and all(any(map(kind, value)) for kind in kinds)
        and _FICTITIOUS.search(value) is None
        and not _is_text_in_base64(value)
        and (
            re.search(rf"[a-z]{{{_WORD_RUN}}}", value) is None
            or _changes(value, _OF_DIGITS) >= _RANDOM_CHANGES
        )
    )


def is_random(value: str) -> bool:
    """Return whether a value after a word for secrets may be one: letters and digits, and no words."""
    changes = _changes(value, _OF_DIGITS)
    is_mixed = changes > 0 and _changes(value, _OF_KINDS) * 20 >= len(value) * _CHANGES_IN_TWENTY
    has_no_words = _LONG_WORD.search(value) is None or changes >= _RANDOM_CHANGES
    without_ids = _UUID.sub("", value)
    return (
        _FICTITIOUS.search(value) is None
        and (is_mixed or (has_no_words and changes * 10 >= min(len(value), 60)) or has_random_letters(value))
        and (_REFERENCE.search(value) is None or changes * _REFERENCE_CHANGE > len(value))
        and (without_ids == value or any(map(str.isdigit, without_ids)))
        and not is_name_of_else(value)
        and not is_fictitious_login(value, in_test=False)
    )


def _changes(value: str, pairs: tuple[bytes, ...]) -> int:
    """Return how often the kind of character changes by one of the ``pairs``."""
    kinds = value.encode("ascii", "replace").translate(_KINDS)
    return sum(map(kinds.count, pairs))


def has_random_letters(value: str) -> bool:
    """Return whether the letters of a value are at random: at most half of their pairs are those of words."""
    pairs, of_words = _pairs_of_letters(value)
    return pairs >= _MIN_PAIRS and of_words * 2 <= pairs


def _pairs_of_letters(value: str) -> tuple[int, int]:
    """Return how many pairs of letters a value has, and how many of them are those of words."""
    pairs = [pair for pair in map("".join, pairwise(value.lower())) if pair.isalpha()]
    return len(pairs), sum(map(_PAIRS_OF_WORDS.__contains__, pairs))


def is_name_of_else(value: str) -> bool:
    """Return whether it is a file, an address, a class or an algorithm, such as ``A128CBC-HS256``."""
    return (
        is_address(value)
        or _NAME_OF_ELSE.fullmatch(value) is not None
        or all(map(_ALGORITHM.fullmatch, re.split(r"[-+_/@]", value)))
    )


def is_address(value: str) -> bool:
    return _ADDRESS.fullmatch(value) is not None


def is_placeholder(value: str) -> bool:
    words = re.split(r"[^a-z0-9]+", unquote(value).lower())
    return (
        (not _PLACEHOLDERS.isdisjoint(words) and not any(map(_is_random_word, words)))
        or value.lower() in _NO_VALUES
        or value.startswith(("$", "<", "{", "%"))
        or is_blanked(value)
    )


def is_blanked(value: str) -> bool:
    """Return whether a part of it is left out, or it is what stands before a secret is known."""
    return _BLANKED.search(value) is not None


def _is_random_word(word: str) -> bool:
    return len(word) >= _MIN_RANDOM_WORD and _changes(word, _OF_DIGITS) >= _RANDOM_CHANGES


def _is_text_in_base64(value: str) -> bool:
    try:
        return base64.b64decode(value, validate=True).decode("ascii").isprintable()
    except ValueError:
        return False


def is_for_a_real_host(password: str, line: str) -> bool:
    """Return whether credentials in a URL are for a real host, with a password that may be real."""
    _, host = _user_and_host(password, line)
    return may_be_password(password) and "." in host and _RESERVED_HOST.search(host) is None


def is_for_a_local_server(password: str, line: str) -> bool:
    """Return whether credentials in a URL are those of an example for a server of one's own."""
    user, host = _user_and_host(password, line)
    plain = unquote(password)
    is_made_up = password == user or len(plain) < _MIN_LOCAL or _FICTITIOUS.search(password) is not None
    is_local = "." not in host or _RESERVED_HOST.search(host) is not None
    return is_made_up and is_local and not any(c.isdigit() for c in plain)


def _user_and_host(password: str, line: str) -> tuple[str, str]:
    """Return what stands around a password in a URL."""
    before, _, after = line.partition(f":{password}@")
    return before.rpartition("://")[2], re.split(r"[\s\"'`<>/?#]", after, maxsplit=1)[0]


def may_be_password(value: str, least: int = MIN_VALUE) -> bool:
    return (
        len(value) >= least
        and any(c.isdigit() for c in value)
        and any(c.isalpha() for c in value)
        and _FICTITIOUS.search(value) is None
    )


def is_passphrase(value: str) -> bool:
    """Return whether a password without a digit may be real, such as three words in one."""
    return _PASSPHRASE.fullmatch(value) is not None and _FICTITIOUS.search(value) is None


def is_identifier(value: str) -> bool:
    """Return whether it may be a name in code, such as ``Opaque3dBatchSetKey``: few digits among words."""
    pairs, of_words = _pairs_of_letters(value)
    has_few_digits = _changes(value, _OF_DIGITS) < _CHANGES_OF_A_SECRET
    return value.isidentifier() and has_few_digits and of_words * 2 >= pairs


def is_public_key(name: bytes) -> bool:
    """Return whether the text before a value names a key that everybody may know."""
    return _PUBLIC_KEY.search(name) is not None


def has_a_real_issuer(token: str, _line: str) -> bool:
    """Return whether a signed token names a real host as its issuer."""
    body = token.split(".")[1] if token.count(".") > 1 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, RecursionError):
        return False
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    if not isinstance(issuer, str):
        return False
    host = issuer.removeprefix("https://")
    return issuer == "supabase" or (host != issuer and "." in host and _RESERVED_HOST.search(host) is None)
