"""Secrets in files, found by the detectors of detect-secrets and replaced by their kind.

Only the detectors run, one line at a time: nothing is verified over the network, and nothing is imported that
a configuration names. A first pass over the bytes, by linear-time patterns, says which lines can hold a
secret at all; the rest is never looked at again. A second look at those lines, still without the detectors,
says which have more than the right words: most files have none, and the detectors, which take 0.2 s to import
because they bring an HTTP client along, are not needed. A line that says ``pragma: allowlist secret`` is left
alone.

Not used: entropy (it takes every hash for a secret, and a pack with all its hashes redacted is of no use) and
public addresses, which are not secrets.
"""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from detect_secrets.plugins.base import BasePlugin

# Detector: what a line must have, in any case, for the detector to be asked. Kept simple, so that the
# automaton of all of them stays small: 600 MB/s, against 25 MB/s with what the detectors look for in full.
# tests/pack/test_secrets.py fails if a new version has a detector that is neither here nor in NOT_USED.
DETECTORS = {
    "ArtifactoryDetector": r"akc[a-z0-9]{10}",
    "AWSKeyDetector": r"a3t[a-z0-9]|abia|acca|akia|asia|aws",
    "AzureStorageKeyDetector": r"accountkey=",
    "BasicAuthDetector": r"://[^\s:/@]+:[^\s@]",
    "CloudantDetector": r"cloudant",
    "DiscordBotTokenDetector": r"\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}",
    "GitHubTokenDetector": r"gh[pousr]_",
    "GitLabTokenDetector": r"gl[a-z]{2,5}-|gr1348941",
    "IbmCloudIamDetector": r"ibm|iam[_-]?api|cloud[_-]?api",
    "IbmCosHmacDetector": r"secret[-_]?(?:access)?[-_]?key",
    "JwtTokenDetector": r"eyj",
    "MailchimpDetector": r"-us[0-9]",
    "NpmDetector": r":_authtoken=",
    "OpenAIDetector": r"t3blbkfj",
    "PypiTokenDetector": r"pypi-age",
    "SendGridDetector": r"sg\.",
    "SlackDetector": r"xox[abposr]-|hooks\.slack\.com",
    "SoftlayerDetector": r"softlayer",
    "SquareOAuthDetector": r"sq0csp-",
    "StripeDetector": r"[rs]k_live_",
    "TwilioKeyDetector": r"(?:ac|sk)[a-z0-9]{32}",
    "KeywordDetector": (
        r"(?:api|auth|service|account|db|database|priv|private|client)_?key|(?:db|database|key)_?pass|"
        r"passw(?:or)?d|pwd|secret|contrase"
    ),
}
# Detector: what a line must have as well, where the words above are common. It never asks for more than the
# detector and `_is_none` together do (tests/pack/test_secrets.py compares them without it).
_AFTER_NAME = r"\w*[\]'\"]{0,2}(?:\[[0-9]*\])?\s*(?::=|=>|[!=]{1,3}|:)\s*@?"
_NEEDS = {
    "AWSKeyDetector": r"(?:a3t[a-z0-9]|abia|acca|akia|asia)[0-9a-z]{16}|aws.*['\"][0-9a-z/+]{40}['\"]",
    "BasicAuthDetector": r"://[^\s:/@]+:[^\s:/@]+@",
    "DiscordBotTokenDetector": r"[mno][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}",
    "GitLabTokenDetector": r"gl[a-z]{2,5}-[\w-]{20}|gr1348941[\w-]{20}",
    "IbmCloudIamDetector": r"(?:key|pwd|pass|token).*[\w-]{44}",
    "JwtTokenDetector": r"eyj[\w=-]+\.[\w=-]",
    "SendGridDetector": r"sg\.[\w-]{22}\.[\w-]{43}",
    "TwilioKeyDetector": r"(?-i:AC|SK)(?-i:[a-z0-9]{32})",
}
# Of the keyword detector: a name, what gives it a value, and a digit in the value; the value in quotes,
# before the name in a comparison, or (in the files named below) bare.
_KEYWORD_NEEDS = (
    r"(?:{name})(?:{after}[\"'`]|\w*(?:.assign)?\(\"|\S{{0,50}}\s*[\"'`](?=[^\"']*[\"'`];))"
    r"[^\"']*[0-9][^\"']*[\"'`]"
    r"|[\"'`][^\"']*[0-9][^\"']*[\"'`]\s*[!=]{{2,3}}\s*\w*(?:{name})"
)
_KEYWORD_NEEDS_BARE = r"(?:{name}){after}[\"'`]?[^\"']*[0-9]"
_BARE_VALUES = re.compile(r"\.(?:e?ya?ml|c(?:nf|onf|fg|f)|ini|properties|toml)$")
# In tests and manuals most passwords and signed tokens are made up, and to redact them would only break what
# a model reads: there a password is a secret only if it looks random, and a token only if a host that is
# somebody's issued it.
# The keys of services are redacted there as everywhere.
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|testdata|fixtures|docs?|[\w.]*tests)/|(?:^|/)test_[^/]*$"
    r"|[_.-](?:test|spec)\.[^/]*$|tests?\.(?:java|kt|cs|swift|php)$|\.rst$",
    re.IGNORECASE,
)
# Hosts that are nobody's (RFC 2606, RFC 6761), and this machine.
_NO_HOST = re.compile(
    r"(?:^|[@/.])(?:example|localhost|test|invalid|local|host|internal)(?:\.(?:com|org|net|io|dev))?\.?(?=[:/?#]|$)"
    r"|(?:^|[@/])(?:127|10|192\.168|172)\.[0-9.]+|\[::1\]",
    re.IGNORECASE,
)
_MADE_UP = re.compile(
    r"example|test|dummy|fake|sample|mock|change|placeholder|your|secret|passw|token|foo|bar|xxx|abcd|1234|0123",
    re.IGNORECASE,
)
# A value looks random if it has so many characters of three kinds, and no run of small letters like a word,
# or so many changes between letters and digits.
_LEAST_RANDOM, _WORD_RUN, _RANDOM_CHANGES = 16, 5, 6
_DIGIT_CHANGE = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
NOT_USED = {
    "Base64HighEntropyString": "every digest would be redacted",
    "HexHighEntropyString": "every digest would be redacted",
    "IPPublicDetector": "an address is not a secret",
    "PrivateKeyDetector": "finds the first line only; a whole key is found here",
    "TelegramBotTokenDetector": "takes any number before a colon; the form below wants a word about bots",
}
# What the detectors do not know, and who packs files for a model is likely to have: what a line must have in
# any case, and the secret itself.
KEYS = {
    "Anthropic API Key": (r"sk-ant-", r"sk-ant-[a-z0-9]{2,12}-(?=[\w-]*[0-9])[\w-]{20,}"),
    "OpenAI API Key": (r"sk-(?:proj|svcacct|admin)-", r"sk-(?:proj|svcacct|admin)-(?=[\w-]*[0-9])[\w-]{20,}"),
    "Google API Key": (r"aiza[0-9a-z_-]{35}", r"AIza[\w-]{35}"),
    "Hugging Face Token": (r"hf_[a-z0-9]{30}", r"hf_[A-Za-z0-9]{30,}"),
    "GitHub Token": (r"github_pat_", r"github_pat_[A-Za-z0-9_]{22,}"),
    "NPM Token": (r"npm_[a-z0-9]{36}", r"npm_[A-Za-z0-9]{36}"),
    "Groq API Key": (r"gsk_[a-z0-9]{40}", r"gsk_[A-Za-z0-9]{40,}"),
    "Databricks Token": (r"dapi[0-9a-f]{32}", r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    "DigitalOcean Token": (r"do[opr]_v1_[a-f0-9]{64}", r"do[opr]_v1_[a-f0-9]{64}"),
    "Vault Token": (r"hv[sbr]\.[a-z0-9_-]{24}", r"hv[sbr]\.(?=[\w-]*[0-9])[\w-]{24,}"),
    "Shopify Token": (r"shp(?:at|ca|pa|ss)_[a-f0-9]{32}", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    "Linear API Key": (r"lin_(?:api|oauth)_[a-z0-9]{40}", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    "age Secret Key": (r"age-secret-key-1[0-9a-z]{58}", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    "Terraform Token": (r"\.atlasv1\.[a-z0-9_=-]{60}", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"),
    "Docker Auth": (r"\"auth\":\s*\"[a-z0-9+/]{20}", r"(?<=\"auth\": \")[A-Za-z0-9+/]{20,}={0,2}(?=\")"),
    "Authorization Header": (
        r"authorization.{1,6}(?:bearer|basic|token)\s+[\w.~+/=-]{20}",
        r"(?i:(?<=bearer )|(?<=basic )|(?<=token ))(?=[\w.~+/=-]*[0-9])[\w.~+/=-]{20,}",
    ),
    "Telegram Bot Token": (
        r"(?:telegram|bot).{0,40}[0-9]{8,10}:[a-z0-9_-]{35}",
        r"[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![\w-])",
    ),
}
# Tokens that begin with a sign of their own: the sign, and the part that is secret. The forms are those
# that the services document, and that scanners such as gitleaks look for.
_PREFIXED = {
    "Adafruit Key": ("aio_", r"[a-zA-Z0-9]{28}"),
    "Airtable Token": ("pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    "Atlassian Token": ("ATATT3", r"[A-Za-z0-9_=-]{100,}"),
    "Azure AD Client Secret": ("", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    "Clojars Token": ("CLOJARS_", r"[a-z0-9]{60}"),
    "Contentful Token": ("CFPAT-", r"[A-Za-z0-9_-]{43}"),
    "Docker Hub Token": ("dckr_pat_", r"[A-Za-z0-9_-]{27,}"),
    "Doppler Token": (r"dp\.pt\.", r"[a-zA-Z0-9]{43}"),
    "Dynatrace Token": (r"dt0c01\.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    "EasyPost Key": ("EZAK", r"[a-zA-Z0-9]{54}"),
    "Figma Token": ("figd_", r"[A-Za-z0-9_-]{38,}"),
    "Flutterwave Key": ("FLWSECK_TEST-", r"[a-h0-9]{32}"),
    "Fly.io Token": ("FlyV1 fm2_", r"[A-Za-z0-9+/=,_-]{80,}"),
    "Google OAuth Secret": ("GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    "Google OAuth Token": (r"ya29\.", r"(?=[\w-]*[0-9])[A-Za-z0-9_-]{30,}"),
    "Grafana Token": ("gl(?:sa|c)_", r"[A-Za-z0-9+/]{32,}(?:_[a-f0-9]{8}|={0,2})"),
    "Heroku Key": ("HRKU-", r"[A-Za-z0-9_-]{36,}"),
    "Infracost Token": ("ico-", r"[a-zA-Z0-9]{32}"),
    "LangSmith Key": ("lsv2_(?:pt|sk)_", r"[a-f0-9]{32}_[a-f0-9]{10}"),
    "Mailgun Key": ("key-", r"[a-f0-9]{32}"),
    "Mapbox Token": (r"sk\.eyJ", r"[A-Za-z0-9_-]{50,}\.[A-Za-z0-9_-]{20,}"),
    "Netlify Token": ("nfp_", r"[A-Za-z0-9]{36,}"),
    "New Relic Key": ("NRAK-", r"[A-Z0-9]{27}"),
    "Notion Token": ("ntn_", r"[0-9]{11}[A-Za-z0-9]{35}"),
    "NuGet Key": ("oy2", r"[a-z0-9]{43}"),
    "OpenRouter Key": ("sk-or-v1-", r"[a-f0-9]{64}"),
    "OpenShift Token": ("sha256~", r"[A-Za-z0-9_-]{43}"),
    "PayPal Token": (r"access_token\$production\$", r"[a-z0-9]{16}\$[a-f0-9]{32}"),
    "Perplexity Key": ("pplx-", r"[A-Za-z0-9]{48}"),
    "PlanetScale Token": (r"pscale_(?:tkn|pw|oauth)_", r"[A-Za-z0-9_.=-]{32,64}"),
    "Postman Key": ("PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    "Prefect Token": ("pnu_", r"[a-zA-Z0-9]{36}"),
    "Pulumi Token": ("pul-", r"[a-f0-9]{40}"),
    "ReadMe Token": ("rdme_", r"[a-z0-9]{70}"),
    "Replicate Token": ("r8_", r"[A-Za-z0-9]{37}"),
    "RubyGems Token": ("rubygems_", r"[a-f0-9]{48}"),
    "Sentry Token": ("sntry[su]_", r"[A-Za-z0-9+/=_]{60,}"),
    "Shippo Token": (r"shippo_(?:live|test)_", r"[a-f0-9]{40}"),
    "Slack App Token": (r"xapp-[0-9]-", r"[A-Z0-9]+-[0-9]+-[a-z0-9]{32,}"),
    "Square Token": ("(?:sq0atp-|EAAA)", r"(?=[\w-]*[0-9])[\w-]{22,60}"),
    "Stripe Webhook Secret": ("whsec_", r"(?=[\w]*[0-9])[A-Za-z0-9]{32,}"),
    "Supabase Token": ("sbp_", r"[a-f0-9]{40}"),
    "Typeform Token": ("tfp_", r"[A-Za-z0-9_.=-]{59}"),
    "xAI Key": ("xai-", r"[A-Za-z0-9]{80}"),
    "Yandex Key": ("AQVN", r"[A-Za-z0-9_-]{35,38}"),
}
KEYS |= {
    kind: (prefix + r"[a-z0-9_.$=+/-]{20}" if prefix else r"[0-9]q~[\w~.-]{31}", prefix + value)
    for kind, (prefix, value) in _PREFIXED.items()
}
_KEYS = {kind: re.compile(rf"(?<!\w){value}", re.ASCII) for kind, (_, value) in KEYS.items()}
_ANY_KEY = re.compile("|".join(key.pattern for key in _KEYS.values()), re.ASCII)
_PRIVATE_KEY = "Private Key"
_KEY = re.compile(
    rb"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)([^-]{40,20000}?)(?=-----END|\Z|\n\s*\n)"
)
_KEY_START = b"PRIVATE KEY"
# Some detectors return the beginning of a token only, such as its "ghp".
_REST = r"[A-Za-z0-9_+/=.~-]*"
# A name that a secret would have, with a value that is none: short, or without a digit.
_LEAST_VALUE = 8
_PLACEHOLDERS = frozenset(
    {
        "password",
        "passwd",
        "pass",
        "pwd",
        "pw",
        "secret",
        "token",
        "changeme",
        "user",
        "username",
        "xxx",
        "guest",
    }
)
# Longer lines are data or minified, and some detectors take more than linear time.
_LONGEST_LINE = 4_000


class _Finding(NamedTuple):
    kind: str
    value: str


def redact(content: bytes, path: str) -> tuple[bytes, list[Note]]:
    """``content`` (UTF-8) with each secret replaced by ``[redacted: KIND]``, and a note for each."""
    notes: list[Note] = []
    if _KEY_START in content:
        content = _without_keys(content, path, notes)
    pieces: list[bytes] = []
    done = 0
    for start, end in _suspicious_lines(content):
        line = content[start:end].decode()
        if len(line) > _LONGEST_LINE or not _may_hold_one(line, path):
            continue
        redacted = line
        for finding in sorted(_secrets_in(line, path), key=lambda f: (-len(f.value), f)):
            redacted = re.sub(re.escape(finding.value) + _REST, f"[redacted: {finding.kind}]", redacted)
            number = content.count(b"\n", 0, start) + 1
            notes.append(Note(shown(path), NoteKind.SECRET, finding.kind, number))
        if redacted != line:
            pieces += (content[done:start], redacted.encode())
            done = end
    return (b"".join([*pieces, content[done:]]) if pieces else content), sorted(
        set(notes), key=lambda note: note.order
    )


def _without_keys(content: bytes, path: str, notes: list[Note]) -> bytes:
    """The content without what is between the first and the last line of a private key."""

    def replaced(match: re.Match[bytes]) -> bytes:
        line = content.count(b"\n", 0, match.start()) + 1
        notes.append(Note(shown(path), NoteKind.SECRET, _PRIVATE_KEY, line))
        # As many lines as before, so that the lines of further findings are the file's own.
        return match[1] + b"[redacted: Private Key]" + b"\n" * match[2].count(b"\n")

    return _KEY.sub(replaced, content)


def _suspicious_lines(content: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines are that may hold a secret."""
    end = -1
    for match in _gate().finditer(content):
        if match.start() < end:
            continue
        start = content.rfind(b"\n", 0, match.start()) + 1
        end = content.find(b"\n", match.start())
        end = len(content) if end < 0 else end
        yield start, end


def _may_hold_one(line: str, path: str) -> bool:
    """Whether the detectors have to be asked at all."""
    if _ANY_KEY.search(line) is not None:
        return True
    bare = _BARE_VALUES.search(path) is not None
    return any(
        asks.search(line) is not None and (needs is None or needs.search(line) is not None)
        for asks, needs in _looks(bare, _is_environment(path))
    )


@cache
def _looks(bare: bool, environment: bool) -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...]:  # noqa: FBT001
    """For each detector, what it asks for and what it needs as well."""
    name = DETECTORS["KeywordDetector"]
    keyword = _KEYWORD_NEEDS + ("|" + _KEYWORD_NEEDS_BARE if bare else "")
    needs = {**_NEEDS, "KeywordDetector": keyword.format(name=name, after=_AFTER_NAME)}
    if environment:  # where any value of a password is one
        del needs["KeywordDetector"]
    return tuple(
        (re.compile(asks, re.IGNORECASE), re.compile(needs[who], re.IGNORECASE) if who in needs else None)
        for who, asks in DETECTORS.items()
    )


@cache
def _gate() -> re.Pattern[bytes]:
    import re2  # noqa: PLC0415  # loads in no time, but only packing needs it

    options = re2.Options()
    options.case_sensitive = False
    asks = [*DETECTORS.values(), *(ask for ask, _ in KEYS.values())]
    pattern: re.Pattern[bytes] = re2.compile("|".join(asks).encode(), options)
    return pattern


def _secrets_in(line: str, path: str) -> Iterator[_Finding]:
    from detect_secrets.filters.allowlist import is_line_allowlisted  # noqa: PLC0415
    from detect_secrets.util.code_snippet import get_code_snippet  # noqa: PLC0415

    if is_line_allowlisted(path, line, get_code_snippet([line], 1)):
        return
    for kind, key in _KEYS.items():
        for match in key.finditer(line):
            if kind != "Authorization Header" or not _is_made_up(match[0]):
                yield _Finding(kind, match[0])
    in_test = _TEST.search(path) is not None
    for plugin, asks in _detectors():
        if asks.search(line) is None:
            continue
        real = _REAL_IN_TESTS.get(type(plugin).__name__) if in_test else None
        for value in set(_found_by(plugin, line, path)):
            if value and not _is_none(value, line, path, plugin) and (real is None or real(value, line)):
                yield _Finding(plugin.secret_type, value)


@cache
def _detectors() -> tuple[tuple[BasePlugin, re.Pattern[str]], ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class  # noqa: PLC0415

    classes: Mapping[str, Any] = get_mapping_from_secret_type_to_class()  # typed as types of nothing
    known = {cls.__name__: cls for cls in classes.values()}
    return tuple(
        (known[name](), re.compile(asks, re.IGNORECASE)) for name, asks in DETECTORS.items() if name in known
    )


def _found_by(plugin: BasePlugin, line: str, path: str) -> Iterator[str]:
    from detect_secrets.plugins.keyword import (  # noqa: PLC0415
        CONFIG_DENYLIST_REGEX_TO_GROUP,
        REGEX_BY_FILETYPE,
        KeywordDetector,
    )
    from detect_secrets.util.filetype import determine_file_type  # noqa: PLC0415

    if not isinstance(plugin, KeywordDetector):
        yield from plugin.analyze_string(line)
        return
    # Code has its secrets in quotes; what is bare is code.
    of_type = None if path.endswith(".go") else REGEX_BY_FILETYPE.get(determine_file_type(path))
    yield from plugin.analyze_string(
        line, CONFIG_DENYLIST_REGEX_TO_GROUP if _is_environment(path) else of_type
    )


def _is_environment(path: str) -> bool:
    """Whether it is a file of settings such as ``.env``, where passwords are what it is for."""
    name = path.rpartition("/")[2]
    return name.startswith(".env") or name.endswith(".env")


def _is_made_up(credentials: str) -> bool:
    """Whether they are ``user:password`` in base64, with a password that says it is none."""
    try:
        _, colon, password = base64.b64decode(credentials, validate=True).decode("ascii").partition(":")
    except ValueError:
        return False
    return bool(colon) and (password.lower() in _PLACEHOLDERS or not any(c.isdigit() for c in password))


def _looks_random(value: str, _line: str) -> bool:
    """Whether a password of a test or a manual is likely to be somebody's."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return (
        len(value) >= _LEAST_RANDOM
        and all(any(map(kind, value)) for kind in kinds)
        and _MADE_UP.search(value) is None
        and not _is_text_in_base64(value)
        and (
            re.search(rf"[a-z]{{{_WORD_RUN}}}", value) is None
            or len(_DIGIT_CHANGE.findall(value)) >= _RANDOM_CHANGES
        )
    )


def _is_text_in_base64(value: str) -> bool:
    try:
        return base64.b64decode(value, validate=True).decode("ascii").isprintable()
    except ValueError:
        return False


def _is_for_a_real_host(password: str, line: str) -> bool:
    """Whether credentials in a URL are for a host that is somebody's, with a password that is no word."""
    at = line.find(f":{password}@")
    host = re.split(r"[\s\"'`<>/?#]", line[at + len(password) + 1 :], maxsplit=1)[0]
    return (
        len(password) >= _LEAST_VALUE
        and not password.isalpha()
        and any(c.isdigit() for c in password)
        and any(c.isalpha() for c in password)
        and _MADE_UP.search(password) is None
        and "." in host
        and _NO_HOST.search(host) is None
    )


def _has_a_real_issuer(token: str, _line: str) -> bool:
    """Whether a signed token says that it was issued by a host that is somebody's."""
    body = token.split(".")[1] if token.count(".") > 1 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError:
        return False
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    if not isinstance(issuer, str):
        return False
    host = issuer.removeprefix("https://")
    return issuer == "supabase" or (host != issuer and "." in host and _NO_HOST.search(host) is None)


# Detector: whether what it finds in a test or a manual is real.
_REAL_IN_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "JwtTokenDetector": _has_a_real_issuer,
    "KeywordDetector": _looks_random,
    "BasicAuthDetector": _is_for_a_real_host,
}


def _is_none(value: str, line: str, path: str, plugin: BasePlugin) -> bool:
    """Whether it only looks like a secret."""
    from detect_secrets.filters import heuristic  # noqa: PLC0415

    tests: tuple[Callable[[str], bool], ...] = (
        heuristic.is_templated_secret,
        heuristic.is_prefixed_with_dollar_sign,
        heuristic.is_not_alphanumeric_string,
    )
    words = re.split(r"[^a-z0-9]+", unquote(value).lower())
    if not _PLACEHOLDERS.isdisjoint(words) or any(test(value) for test in tests):
        return True
    if type(plugin).__name__ != "KeywordDetector" or _is_environment(path):
        return False
    return (
        len(value) < _LEAST_VALUE
        or not any(c.isdigit() for c in value)
        or heuristic.is_sequential_string(value)
        or heuristic.is_potential_uuid(value)
        or heuristic.is_indirect_reference(line)
        or heuristic.is_likely_id_string(value, line, plugin)
    )
