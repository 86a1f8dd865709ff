"""Find secrets in files with the detectors of detect-secrets, and replace them by their kind.

Only the detectors run, one line at a time: nothing is verified over the network, and nothing is imported that
a configuration names. Two filters come before them: linear-time patterns over the bytes select the lines that
may contain a secret, and stricter patterns over those lines reject most of them. So most files do not need
the detectors, whose import takes 0.2 s because they bring an HTTP client. Lines with
``pragma: allowlist secret`` are not redacted.

Not used: entropy, which takes every hash for a secret, and public addresses, which are not secrets.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

# Detector: a pattern that a line must match (ignoring case) for the detector to run. Kept simple, so that the
# automaton of all patterns stays small: 600 MB/s, against 25 MB/s with the full patterns of the detectors.
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
# Detector: a second pattern that a line must match, where the first one is common. It never excludes a secret
# that the detector finds and `_is_no_secret` accepts (tests/pack/test_secrets.py compares the results).
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
# For the keyword detector: a name, an assignment or comparison, and a digit in the value. The value is in
# quotes, before the name in a comparison, or (in the files named below) bare.
_KEYWORD_NEEDS = (
    r"(?:{name})(?:{after}[\"'`]|\w*(?:.assign)?\(\"|\S{{0,50}}\s*[\"'`](?=[^\"']*[\"'`];))"
    r"[^\"']*[0-9][^\"']*[\"'`]"
    r"|[\"'`][^\"']*[0-9][^\"']*[\"'`]\s*[!=]{{2,3}}\s*\w*(?:{name})"
)
_KEYWORD_NEEDS_BARE = r"(?:{name}){after}[\"'`]?[^\"']*[0-9]"
_BARE_VALUES = re.compile(r"\.(?:e?ya?ml|c(?:nf|onf|fg|f)|ini|properties|toml)$")
# In tests and manuals most passwords and signed tokens are fictitious, and redacting them would only hide
# content: there a password is a secret only if it looks random, and a token only if a real host issued it.
# The keys of services are redacted everywhere.
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|testdata|fixtures|docs?|[\w.]*tests)/|(?:^|/)test_[^/]*$"
    r"|[_.-](?:test|spec)\.[^/]*$|tests?\.(?:java|kt|cs|swift|php)$|\.rst$",
    re.IGNORECASE,
)
# Reserved hosts (RFC 2606, RFC 6761), and local ones.
_RESERVED_HOST = re.compile(
    r"(?:^|[@/.])(?:example|localhost|test|invalid|local|host|internal)(?:\.(?:com|org|net|io|dev))?\.?(?=[:/?#]|$)"
    r"|(?:^|[@/])(?:127|10|192\.168|172)\.[0-9.]+|\[::1\]",
    re.IGNORECASE,
)
_FICTITIOUS = re.compile(
    r"example|test|dummy|fake|sample|mock|change|placeholder|your|secret|passw|token|foo|bar|xxx|abcd|1234|0123",
    re.IGNORECASE,
)
# A value looks random if it has at least 16 characters of three kinds, and no run of 5 lower-case letters or
# at least 6 changes between letters and digits.
_MIN_RANDOM, _WORD_RUN, _RANDOM_CHANGES = 16, 5, 6
_DIGIT_CHANGE = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
NOT_USED = {
    "Base64HighEntropyString": "every digest would be redacted",
    "HexHighEntropyString": "every digest would be redacted",
    "IPPublicDetector": "an address is not a secret",
    "PrivateKeyDetector": "finds the first line only; complete keys are found here",
    "TelegramBotTokenDetector": "takes any number before a colon; the pattern below wants a word about bots",
}
# Secrets unknown to the detectors: a pattern that the line must match (ignoring case), and the secret's own.
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
    "AWS Secret Key": (
        r"aws_secret_access_key ?= ?[a-z0-9/+]{40}",
        (
            r"(?i:(?<=aws_secret_access_key=)|(?<=aws_secret_access_key = ))"
            r"(?=[A-Za-z/+]*[0-9])(?![A-Za-z0-9/+]*EXAMPLE)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
        ),
    ),
    "Authorization Header": (
        r"authorization.{1,6}(?:bearer|basic|token)\s+[\w.~+/=-]{20}",
        r"(?i:(?<=bearer )|(?<=basic )|(?<=token ))(?=[\w.~+/=-]*[0-9])[\w.~+/=-]{20,}",
    ),
    "Telegram Bot Token": (
        r"(?:telegram|bot).{0,40}[0-9]{8,10}:[a-z0-9_-]{35}",
        r"[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![\w-])",
    ),
}
# Tokens with a fixed prefix: the prefix and the secret part, as the services document them and as scanners
# such as gitleaks find them.
_PREFIXED = {
    "Adafruit Key": ("aio_", r"[a-zA-Z0-9]{28}"),
    "Airtable Token": ("pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    "Atlassian Token": ("ATATT3", r"[A-Za-z0-9_=-]{100,}"),
    "Azure AD Client Secret": ("", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    "Clojars Token": ("CLOJARS_", r"[a-z0-9]{60}"),
    "Base64 Private Key": (
        "LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURSBLRVk|BQUklWQVRFIEtFW|BFQyBQUklWQVRFIEtFW)",
        r"[A-Za-z0-9+/]{100,}={0,2}",
    ),
    "Contentful Token": ("CFPAT-", r"[A-Za-z0-9_-]{43}"),
    "crates.io Token": ("cio", r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    "Discord Webhook": (r"discord(?:app)?\.com/api/webhooks/", r"[0-9]{17,20}/[\w-]{60,}"),
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
    "JFrog Reference Token": ("cmVmdGtuOjAx", r"[A-Za-z0-9]{52}"),
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
    "Sonar Token": ("sq[apu]_", r"[a-f0-9]{40}"),
    "Square Token": ("(?:sq0atp-|EAAA)", r"(?=[\w-]*[0-9])[\w-]{22,60}"),
    "Stripe Webhook Secret": ("whsec_", r"(?=[\w]*[0-9])[A-Za-z0-9]{32,}"),
    "Supabase Token": ("sbp_", r"[a-f0-9]{40}"),
    "Teams Webhook": (
        r"webhook\.office\.com/webhookb2/",
        r"[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}",
    ),
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
_PRIVATE_KEY = re.compile(
    rb"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)([^-]{40,20000}?)(?=-----END|\Z|\n\s*\n)"
)
# Some detectors return only the beginning of a token, such as "ghp".
_REST = r"[A-Za-z0-9_+/=.~-]*"
# The minimum length of a password, apart from files of environment variables.
_MIN_VALUE = 8
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
_MAX_LINE = 4_000


class _Finding(NamedTuple):
    kind: str
    value: str


def redact(content: bytes, path: str) -> tuple[bytes, list[Note]]:
    """Replace each secret in ``content`` (UTF-8) by ``[redacted: KIND]``, and return a note for each."""
    notes: list[Note] = []
    if b"PRIVATE KEY" in content:
        content = _without_private_keys(content, path, notes)
    pieces: list[bytes] = []
    done = 0
    for start, end in _suspicious_lines(content):
        line = content[start:end].decode()
        if len(line) > _MAX_LINE or not _needs_detectors(line, path):
            continue
        redacted = line
        for finding in sorted(_secrets_in(line, path), key=lambda f: (-len(f.value), f)):
            redacted = re.sub(re.escape(finding.value) + _REST, f"[redacted: {finding.kind}]", redacted)
            number = content.count(b"\n", 0, start) + 1
            notes.append(Note(shown(path), NoteKind.SECRET, finding.kind, number))
        if redacted != line:
            pieces += (content[done:start], redacted.encode())
            done = end
    result = b"".join([*pieces, content[done:]]) if pieces else content
    return result, sorted(set(notes), key=lambda note: note.order)


def _without_private_keys(content: bytes, path: str, notes: list[Note]) -> bytes:
    """Replace the text between the first and the last line of each private key."""

    def replacement(match: re.Match[bytes]) -> bytes:
        line = content.count(b"\n", 0, match.start()) + 1
        notes.append(Note(shown(path), NoteKind.SECRET, "Private Key", line))
        # Keep the number of lines, so that the line numbers of further findings stay correct.
        return match[1] + b"[redacted: Private Key]" + b"\n" * match[2].count(b"\n")

    return _PRIVATE_KEY.sub(replacement, content)


def _suspicious_lines(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that may contain a secret."""
    end = -1
    for match in _line_filter().finditer(content):
        if match.start() < end:
            continue
        start = content.rfind(b"\n", 0, match.start()) + 1
        end = content.find(b"\n", match.start())
        end = len(content) if end < 0 else end
        yield start, end


def _needs_detectors(line: str, path: str) -> bool:
    """Return whether the line passes the second filter."""
    if _ANY_KEY.search(line) is not None:
        return True
    bare = _BARE_VALUES.search(path) is not None
    return any(
        first.search(line) is not None and (second is None or second.search(line) is not None)
        for first, second in _filters(bare=bare, environment=_is_environment(path))
    )


@cache
def _filters(*, bare: bool, environment: bool) -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...]:
    """Return the first and second pattern of each detector."""
    keyword = _KEYWORD_NEEDS + ("|" + _KEYWORD_NEEDS_BARE if bare else "")
    needs = {
        **_NEEDS,
        "KeywordDetector": keyword.format(name=DETECTORS["KeywordDetector"], after=_AFTER_NAME),
    }
    if environment:  # any value of a password is a secret there
        del needs["KeywordDetector"]
    return tuple(
        (
            re.compile(first, re.IGNORECASE),
            re.compile(needs[detector], re.IGNORECASE) if detector in needs else None,
        )
        for detector, first in DETECTORS.items()
    )


@cache
def _line_filter() -> re.Pattern[bytes]:
    import re2  # only packing needs it

    options = re2.Options()
    options.case_sensitive = False
    patterns = [*DETECTORS.values(), *(line for line, _ in KEYS.values())]
    pattern: re.Pattern[bytes] = re2.compile("|".join(patterns).encode(), options)
    return pattern


def _secrets_in(line: str, path: str) -> Iterator[_Finding]:
    from detect_secrets.filters.allowlist import is_line_allowlisted
    from detect_secrets.util.code_snippet import get_code_snippet

    if is_line_allowlisted(path, line, get_code_snippet([line], 1)):
        return
    for kind, key in _KEYS.items():
        for match in key.finditer(line):
            if kind != "Authorization Header" or not _is_fictitious_login(match[0]):
                yield _Finding(kind, match[0])
    in_test = _TEST.search(path) is not None
    for plugin, first in _detectors():
        if first.search(line) is None:
            continue
        is_real = _REAL_IN_TESTS.get(type(plugin).__name__) if in_test else None
        for value in set(_found_by(plugin, line, path)):
            if not value or _is_no_secret(value, line, path, plugin):
                continue
            if is_real is None or is_real(value, line):
                yield _Finding(plugin.secret_type, value)


@cache
def _detectors() -> tuple[tuple[BasePlugin, re.Pattern[str]], ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: Mapping[str, Any] = get_mapping_from_secret_type_to_class()  # its annotation is too narrow
    known = {cls.__name__: cls for cls in classes.values()}
    return tuple(
        (known[name](), re.compile(first, re.IGNORECASE))
        for name, first in DETECTORS.items()
        if name in known
    )


def _found_by(plugin: BasePlugin, line: str, path: str) -> Iterator[str]:
    from detect_secrets.plugins.keyword import (
        CONFIG_DENYLIST_REGEX_TO_GROUP,
        REGEX_BY_FILETYPE,
        KeywordDetector,
    )
    from detect_secrets.util.filetype import determine_file_type

    if not isinstance(plugin, KeywordDetector):
        yield from plugin.analyze_string(line)
        return
    # In code a secret is in quotes; a bare value is code.
    of_type = None if path.endswith(".go") else REGEX_BY_FILETYPE.get(determine_file_type(path))
    yield from plugin.analyze_string(
        line, CONFIG_DENYLIST_REGEX_TO_GROUP if _is_environment(path) else of_type
    )


def _is_environment(path: str) -> bool:
    """Return whether it is a file of environment variables such as ``.env``."""
    name = path.rpartition("/")[2]
    return name.startswith(".env") or name.endswith(".env")


def _is_fictitious_login(credentials: str) -> bool:
    """Return whether it is ``user:password`` in base64, with a placeholder or word as the password."""
    try:
        _, colon, password = base64.b64decode(credentials, validate=True).decode("ascii").partition(":")
    except ValueError:
        return False
    return bool(colon) and (password.lower() in _PLACEHOLDERS or not any(c.isdigit() for c in password))


def _looks_random(value: str, _line: str) -> bool:
    """Return whether a password in a test or a manual may be real."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return (
        len(value) >= _MIN_RANDOM
        and all(any(map(kind, value)) for kind in kinds)
        and _FICTITIOUS.search(value) is None
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
    """Return whether credentials in a URL are for a real host, with a password that may be real."""
    at = line.find(f":{password}@")
    host = re.split(r"[\s\"'`<>/?#]", line[at + len(password) + 1 :], maxsplit=1)[0]
    return (
        len(password) >= _MIN_VALUE
        and any(c.isdigit() for c in password)
        and any(c.isalpha() for c in password)
        and _FICTITIOUS.search(password) is None
        and "." in host
        and _RESERVED_HOST.search(host) is None
    )


def _has_a_real_issuer(token: str, _line: str) -> bool:
    """Return whether a signed token names a real host as its issuer."""
    body = token.split(".")[1] if token.count(".") > 1 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError:
        return False
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    if not isinstance(issuer, str):
        return False
    host = issuer.removeprefix("https://")
    return issuer == "supabase" or (host != issuer and "." in host and _RESERVED_HOST.search(host) is None)


# Detector: whether its finding in a test or a manual may be real.
_REAL_IN_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "JwtTokenDetector": _has_a_real_issuer,
    "KeywordDetector": _looks_random,
    "BasicAuthDetector": _is_for_a_real_host,
}


def _is_no_secret(value: str, line: str, path: str, plugin: BasePlugin) -> bool:
    """Return whether a finding is a placeholder, a template, a reference or an id."""
    from detect_secrets.filters import heuristic

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
        len(value) < _MIN_VALUE
        or not any(c.isdigit() for c in value)
        or heuristic.is_sequential_string(value)
        or heuristic.is_potential_uuid(value)
        or heuristic.is_indirect_reference(line)
        or heuristic.is_likely_id_string(value, line, plugin)
    )
