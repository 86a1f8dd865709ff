"""Secrets are redacted whole, reported without being told, and nothing else is touched."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import textwrap
import time
from contextlib import closing
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import quote, quote_plus

import pytest
import yaml
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tokenbox.folder import read, rules, secret_lines, secrets, survey
from tokenbox.folder.redacted import without_secrets
from tokenbox.folder.secret_lines import DETECTORS
from tokenbox.folder.secret_shapes import CONTEXTS, KEYS
from tokenbox.folder.secrets import Redacted, redact_all
from tokenbox.store.stored_counts import FILE_NAME, StoredCounts

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = {
    "GitHub Token": "ghp_" + "aB3dE6gH9j" * 3 + "kLmN12",
    "AWS Access Key": "AKIA" + "ABCDEFGH12345678",
    "Stripe Access Key": "sk_live_" + "abcdefgh12345678ijklmnop",
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "Slack Token": "xoxb-" + "123456789012-abcdefghij",
    "Anthropic API Key": "sk-ant-" + "api03-" + "Xy9_aB-3" * 11 + "AA",
    "OpenAI API Key": "sk-proj-" + "Ab3_dE-6" * 8,
    "Google API Key": "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "Hugging Face Token": "hf_" + "aB3dE6gH9j" * 3 + "kLmN",
}


def redact(content: bytes, path: str) -> Redacted:
    return redact_all([(content, path)])[0]


def with_mark(cleaned: bytes, mark: str) -> str:
    """Return a redacted text with ``mark`` in the place of each secret."""
    return re.sub(r"\[redacted: ?[^]]*\]", mark, cleaned.decode())


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items(), ids=list(SECRETS))
def test_no_part_of_a_token_is_left(kind: str, secret: str) -> None:
    content = f"x = 1\ntoken = '{secret}'  # é\ny = 2\n".encode()
    cleaned, notes = redact(content, "a.py")
    assert cleaned.decode() == f"x = 1\ntoken = '[redacted: {kind}]'  # é\ny = 2\n"
    assert [(note.path, note.line, note.detail) for note in notes] == [("a.py", 2, kind)]
    assert secret not in str(notes)


def test_fine_grained_tokens_of_github() -> None:
    token = "github_pat_" + "11ABCDEFG0" * 2 + "_" + "aB3dE6gH9j" * 5
    assert redact(f"x: {token}\n".encode(), "a.yml")[0] == b"x: [redacted:GitHub Token]\n"


def test_a_private_key_goes_whole_and_lines_stay() -> None:
    key = "\n".join(
        ["-----BEGIN RSA PRIVATE KEY-----", *["MIIEpAIBAAKCAQEA" * 4] * 3, "-----END RSA PRIVATE KEY-----"]
    )
    cleaned, notes = redact(f"a\n{key}\nb\n".encode(), "k.pem")
    assert b"MIIE" not in cleaned
    assert cleaned.count(b"\n") == f"a\n{key}\nb\n".count("\n")
    assert [(note.line, note.detail) for note in notes] == [(2, "Private Key")]


@pytest.mark.parametrize("sign", ["", "+", "-"])
@pytest.mark.parametrize("last", ["tAILtAIL", "tAILtA==", "tAIL" * 9])
def test_a_private_key_of_putty(sign: str, last: str) -> None:
    body = ["Private-Lines: 3", "AAABAQCx8kf93jd0" * 4, "2kd83jf74hg65dk2" * 4, last]
    lines = ["Public-Lines: 1", "AAAAB3NzaC1yc2EA" * 2, *body, "Private-MAC: 8f3b2a1c9d4e5f60"]
    text = "".join(f"{sign}{line}\n" for line in lines)
    cleaned, notes = redact(text.encode(), "key.ppk")
    shown = cleaned.decode().split("\n")
    assert [line.strip("+-") for line in shown] == [
        *lines[:3],
        "[redacted: Private Key]",
        "",
        "",
        lines[-1],
        "",
    ]
    assert [note.detail for note in notes] == ["Private Key"]


@pytest.mark.parametrize("sign", ["", " ", "+", "-"])
def test_what_a_diff_adds_or_removes_is_redacted_as_well(sign: str) -> None:
    """A private key that a commit removed was shown, and what stands alone in its line."""
    body = ["MIIEpAIBAAKCAQEA" * 4] * 3
    key = ["-----BEGIN RSA PRIVATE KEY-----", *body, "tAIL=", "-----END RSA PRIVATE KEY-----"]
    for lines in (key, key[:-1]):
        text = "@@ -1,5 +0,0 @@\n" + "".join(f"{sign}{line}\n" for line in lines)
        cleaned, notes = redact(text.encode(), "k.txt")
        assert b"MIIE" not in cleaned
        assert b"tAIL" not in cleaned
        assert cleaned.count(b"\n") == text.count("\n")
        assert [note.detail for note in notes] == ["Private Key"]
    for path, before, secret in (
        ("config/master.key", "", "0123456789abcdef" * 2),
        (".pypirc", "password = ", "hunter2aB3x9Q"),
    ):
        cleaned, _ = redact(f"@@ -1 +1 @@\n{sign}{before}{secret}\n".encode(), path)
        assert cleaned.endswith(f"\n{sign}{before}[redacted: Credentials]\n".encode())


def test_what_follows_the_beginning_of_a_private_key_stays() -> None:
    begins = "key?: string; // -----BEGIN RSA PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA...\n  next: string;\n}\n"
    assert redact(begins.encode(), "a.ts") == (begins.encode(), [])
    lines = "\n".join(["MIIEpAIBAAKCAQEA" * 4] * 3)
    cut = f"a = [\n-----BEGIN PRIVATE KEY-----\n{lines}\nabc=\n]\nb = [first, second, third, fourth, fifth]\n"
    remark = f"# -----BEGIN PRIVATE KEY-----\n# {'MIIEpAIBAAKCAQEA' * 4}\n# {'MIIEpAIBAAKCAQEA' * 4}\nx = 1\n"
    assert b"MIIE" not in redact(remark.encode(), "a.ini")[0]
    cleaned, _ = redact(cut.encode(), "a.txt")
    assert b"MIIE" not in cleaned
    assert b"abc=" not in cleaned
    assert cleaned.endswith(b"\n]\nb = [first, second, third, fourth, fifth]\n")


def test_code_with_a_private_key_stays_code() -> None:
    lines = [
        "-----BEGIN PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA" * 4,
        "MIIEpAIBAAKCAQE=",
        "-----END PRIVATE KEY-----",
    ]
    cleaned, notes = redact(_as_code(lines), "a.py")
    assert cleaned == _as_code([lines[0], "[redacted: Private Key]", "", lines[3]])
    assert [(note.line, note.detail) for note in notes] == [(2, "Private Key")]
    compile(cleaned, "a.py", "exec")


def _as_code(lines: list[str]) -> bytes:
    return "".join(["key = (\n", *(f'    "{line}\\n"\n' for line in lines), ")\n"]).encode()


def test_headers_of_a_private_key_stay() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    headers = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,E5A1F0", ""]
    key = "\n".join([begin, *headers, "MIIEpAIBAAKCAQEA" * 4, "ab==", end])
    cleaned, _ = redact(key.encode(), "key.pem")
    assert cleaned.decode().split("\n") == [begin, *headers, "[redacted: Private Key]", "", end]


@pytest.mark.parametrize(
    "code",
    [
        'pem = "-----BEGIN PRIVATE KEY-----\\n" + base64.b64encode(key.private_bytes).decode() + "-----END"',
        'begins = "-----BEGIN PRIVATE KEY-----"\nif text.startswith(begins):\n    x = "-----END"',
        '"-----BEGIN PRIVATE KEY-----\\n"\n"' + "X" * 64 + '\\n"\n"-----END PRIVATE KEY-----"',
    ],
)
def test_code_about_private_keys_is_left_as_it_is(code: str) -> None:
    assert redact(code.encode(), "a.py") == (code.encode(), [])


def test_passwords_by_their_names() -> None:
    cleaned, _ = redact(b'password = "s3cr3tPa55w0rd"\nurl = "https://bob:tr0ub4dor@host/"\n', "a.py")
    assert cleaned == (
        b'password = "[redacted: Named Secret]"\n'
        b'url = "https://bob:[redacted: Basic Auth Credentials]@host/"\n'
    )
    assert redact(b"DB_PASSWORD=swordfish\n", ".env")[0] == b"DB_PASSWORD=[redacted: Secret Keyword]\n"


@pytest.mark.parametrize(
    "line",
    [
        'key = "sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxx"  # yours',
        'key = "sk-proj-..."',
        ".task-proj-3 { color: red } /* risk-ant-hills-and-other-long-words-2 */",
        f"key = 'sb_publishable_{'aB3dE6gH9jK2' * 3}'",
        f'"integrity": "sha512-{"aB3dE6gH9jK2" * 7}=="',
        f"from a import get_{'ThirdPartyV2' * 3}",
        f"build-prod-{'long-name-of-a-machine-2-' * 2}",
        f"commit_{'9f2c81d7e04b6a35' * 2}",
        "msg_01" + "aB3dE6gH9jK2aB3dE6gH9jK",
        "at pk_75cf332a1132a4432d59ca6a792259: 049722178:rslE3yfwS4b9DR-F1ABH9kIjNCoBvythO4p",
        "password = getpass()",
        'password = "password"',
        'secret_name = "the name of it"',
        "sha256 = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'",
        'url = "https://user:password@host/"',
        "token = 'ghp_aB3dE6gH9jaB3dE6gH9jaB3dE6gH9jkLmN12'  # pragma: allowlist secret",
        "BEGIN RSA PRIVATE KEY",
        'const defaultPrivateKey = "id_ed25519"',
        'api_key_location = "env::OPENAI_API_KEY_1"',
        '"newPasswordPlaceholder": "At least 12 characters",',
        'API_KEY = "sk-xxxxxxxxxxxxxxxxxxxxxxxxxx1"',
        'url = "http://chuser:chpassword@localhost:8123/x"',
        'url = "postgresql://recall:recall@postgres:5432/recall"',
    ],
)
def test_what_is_no_secret_is_left_alone(line: str) -> None:
    assert redact(line.encode(), "a.py") == (line.encode(), [])


# The scanner's other detectors, and why we do not run them.
NOT_USED = {
    "Base64HighEntropyString": "every digest would be redacted",
    "HexHighEntropyString": "every digest would be redacted",
    "IPPublicDetector": "an address is not a secret",
    "PrivateKeyDetector": "finds the first line only; we find complete keys",
    "TwilioKeyDetector": "takes a genome for a key; our pattern wants hexadecimal digits",
    "TelegramBotTokenDetector": "takes any number before a colon; our pattern wants a word about bots",
}


def test_every_detector_of_the_scanner_is_known() -> None:
    kinds: dict[str, type] = get_mapping_from_secret_type_to_class()
    assert {kind.__name__ for kind in kinds.values()} == set(DETECTORS) | set(NOT_USED)


LINES = [*DETECTORS.values(), *(line for line, _ in (*KEYS.values(), *CONTEXTS.values()))]


@given(st.sampled_from(LINES).flatmap(lambda line: st.from_regex(re.compile(line, re.ASCII | re.IGNORECASE))))
@settings(max_examples=60)
def test_the_first_filter_lets_through_what_the_second_does(text: str) -> None:
    (line, *_) = [*(one for one in text.split("\n") if suspicious(secret_lines.second_filter(), one)), ""]
    assert not line or suspicious(secret_lines.first_filter(), line)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("shop login -p {}", "k3Vq9ZtR"),
        ("shop --username=bob -v -p {}", "k3Vq9ZtR1mXw"),
        ('Search( "{}")', "k3Vq9ZtR1mXw7LpD5nBs8Yc2Hf6Jg4Ta"),
        ('connect("shop-eu",  "{}")', "k3Vq9ZtR1mXw7LpD5nBs8Yc2Hf6Jg4Ta"),
        ('{{"d": "{}"}}', "k3V+q9/R1mXw7LpD5nBs8Yc2Hf6Jg4Tak3Vq9ZtR1mX"),
    ],
)
def test_the_filters_let_through_all_that_a_context_may_be(line: str, value: str) -> None:
    assert value.encode() not in redact(line.format(value).encode(), "a.sh")[0]


def suspicious(filters: tuple[re.Pattern[bytes], ...], line: str) -> bool:
    return any(pattern.search(line.encode()) for pattern in filters)


def test_what_has_no_secret_is_searched_once(tmp_path: Path) -> None:
    secret = f"x = '{SECRETS['GitHub Token']}'\n".encode() * 20
    contents = [secret, b"x = 1\n" * 99, b"x = 2\r\n" * 99, b"x = 3\n"]
    named = [(content, "a.py") for content in contents]
    expected = [redact(content, "a.py") for content in contents]
    with StoredCounts(tmp_path) as memory:
        assert without_secrets(named, memory) == expected
    with (
        StoredCounts(tmp_path) as memory,
        patch("tokenbox.folder.redacted.redact_all", side_effect=redact_all) as searched,
    ):
        assert without_secrets(named, memory) == expected
        assert searched.call_args.args[0] == [named[0], named[3]]  # the last is too small
        for one in ((contents[1] + b"\n", "a.py"), (contents[1], "b.py")):
            without_secrets([one], memory)
            assert searched.call_args.args[0] == [one]  # what is a secret depends on the name


def test_a_program_searches_once_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n" * 99, encoding="utf-8")
    for searched in (["a.py"], []):
        with (
            StoredCounts(tmp_path) as memory,
            patch("tokenbox.folder.redacted.redact_all", side_effect=redact_all) as search,
        ):
            tokenbox.pack(folder, 1_000, model="gpt-4o", cache=memory)
        given = [one for call in search.call_args_list for one in call.args[0]]
        assert [path for content, path in given if content] == searched


def test_many_files_are_searched_at_once_as_each_alone(tmp_path: Path) -> None:
    lines = [f"x = '{secret}'".encode() for secret in SECRETS.values()]
    key = b"-----BEGIN PRIVATE KEY-----\n" + b"QUJDRGFi8x/" * 9 + b"\n-----END PRIVATE KEY-----"
    named = [(line, f"{n}.py") for n, line in enumerate(lines)]
    named += [(b"", "empty.py"), (b"\n\n", "blank.py"), (key, "a.pem"), (b"A=1\nB=2", ".env")]
    named += [(b"x = 1\n" * 9, f"{n}.go") for n in range(300)]
    alone = [redact(*one) for one in named]
    assert (
        sum(content != one.content for (content, _), one in zip(named, alone, strict=True))
        > len(SECRETS) // 2
    )
    assert redact_all(named) == alone
    for content, path in named:
        (tmp_path / path).write_bytes(content)
    with patch("tokenbox.folder.secret_lines.first_filter", side_effect=secret_lines.first_filter) as search:
        files = read(survey([tmp_path])).files
    assert {file.path: file.data for file in files} == {
        path: one.content for (_, path), one in zip(named, alone, strict=True)
    }
    assert search.call_count == 2  # of all files, and of the log


def test_no_text_of_a_file_is_kept_for_its_secrets(tmp_path: Path) -> None:
    with StoredCounts(tmp_path) as memory:
        for line in (f"token = '{SECRETS['GitHub Token']}'\n", "text = 1\n"):
            without_secrets([(line.encode() * 30, "a.py")], memory)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert [value for (value,) in connection.execute("SELECT value FROM facts")] == [b""]


def test_each_version_that_is_installed_has_rules_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> bytes | None:
        rules.installed.cache_clear()
        return rules.digest_of_rules("secrets", (), ["detect-secrets"])

    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr("sys.path", [str(tmp_path / "packages.zip"), str(first), str(second)])
    try:
        assert digest() is None
        found = set()
        for folder in (
            first / "detect_secrets-1.9.0.dist-info",
            second / "detect_secrets-1.5.0.dist-info",
            first / "detect_secrets-1.10.0.dist-info",  # what an update that was stopped leaves
            second / "detect_secrets-1.5.1-py3.11.egg-info",
        ):
            folder.mkdir(parents=True)
            found.add(digest())
        assert len(found) == 4
        assert None not in found
    finally:
        rules.installed.cache_clear()


def test_other_rules_search_again(tmp_path: Path) -> None:
    content = b"x = 1\n" * 99
    with StoredCounts(tmp_path) as memory:
        without_secrets([(content, "a.py")], memory)
        for rules in (b"others", None):
            with (
                patch("tokenbox.folder.redacted._rules", return_value=rules),
                patch("tokenbox.folder.redacted.redact_all", side_effect=redact_all) as searched,
            ):
                assert without_secrets([(content, "a.py")], memory) == [(content, [])]
                assert searched.call_args.args[0] == [(content, "a.py")]


# Lines that the first look lets through: with a secret, and with everything but a secret.
NAMES = st.sampled_from(
    [
        *("password", "my_passwd", "PWD", "api_key", "apikeyed", "client_secret", "dbPass", "secret_2"),
        *("ibm_api_key", "iam-token", "cloud_pass", "aws_secret_access_key", "aws pw", "word"),
    ]
)
SIGNS = st.sampled_from(
    [
        *(
            " = ",
            "=",
            ":",
            ": ",
            " := ",
            " => ",
            "==",
            " !== ",
            "['x'] = ",
            "']: ",
            "[25] = ",
            "(",
            ".assign(",
        ),
        *(" ", " other ", "  @", "[] = @", '" is '),
    ]
)
VALUES = st.sampled_from(
    [
        *(
            "s3cr3tPa55w0rd",
            "hunter",
            "12345678",
            "9f86d081-884c-4d65-9a2f-eaa0c55ad015",
            "a1b2c3d4e5;",
            "`x9`x",
        ),
        *("aB3dE6gH9j" * 4, "aB3dE6gH9j" * 4 + "kLmN", "f()", "${PASSWORD_1}", "é1234567ü", ""),
        *(
            "https://bob:tr0ub4dor@host/",
            "://a:b:c@d",
            "AC" + "0a1b2c3d" * 4,
            "SG." + "a" * 22 + "." + "b" * 43,
        ),
        *(
            "glpat-" + "aB3dE6gH9j" * 2,
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.x",
            "AKIA" + "ABCDEFGH12345678",
        ),
        "M" + "a" * 23 + "." + "b" * 6 + "." + "c" * 27,
    ]
)
QUOTES = st.sampled_from(["", '"', "'", "`"])
ENDS = st.sampled_from(["", ";", ",", " == password", "' != my_secret", "  # 7", ' "or" 8;'])
FILES = st.sampled_from(["a.py", "a.yml", "a.go", "a.c", "a.cpp", "a.ini", ".env", "a.txt", "a.cls"])


@given(NAMES, SIGNS, QUOTES, VALUES, QUOTES, ENDS, FILES)
def test_the_second_look_hides_nothing_from_the_detectors(
    name: str, sign: str, opening: str, value: str, closing: str, end: str, path: str
) -> None:
    content = f"x\n{name}{sign}{opening}{value}{closing}{end}\n".encode()
    found = redact(content, path)
    with patch.object(secrets, "_needs", lambda: [(name, None) for name in DETECTORS]):
        assert redact(content, path) == found


HEX, WORD = "0123456789abcdef" * 4, "aB3dE6gH9jKlMnOpQrStUvWxYz012345678901234567890123456789"
SHAPES = {
    "npm": f"npm_{WORD[:36]}",
    "groq": f"gsk_{WORD[:52]}",
    "databricks": f"dapi{HEX[:32]}",
    "digitalocean": f"dop_v1_{HEX[:64]}",
    "vault": f"hvs.{WORD[:30]}",
    "shopify": f"shpat_{HEX[:32]}",
    "linear": f"lin_api_{WORD[:40]}",
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2,
    "terraform": f"{WORD[:14]}.atlasv1.{WORD + WORD[:20]}",
    "docker": f'"auth": "{WORD[:40]}"',
    "bearer": f"Authorization: Bearer {WORD[:40]}",
    "telegram": f"TELEGRAM_BOT = 123456789:{WORD[:35]}",
    "adafruit": f"aio_{WORD[:28]}",
    "airtable": f"pat{WORD[:14]}.{HEX[:64]}",
    "atlassian": f"ATATT3{WORD}{WORD}",
    "azure ad": f"{WORD[:3]}8Q~{WORD[:34]}",
    "azure storage": f"AccountKey={WORD}{WORD[:32]}==",
    "aws": "AKIA" + "ABCDEFGH12345678",
    "clojars": f"CLOJARS_{HEX[:60]}",
    "contentful": f"CFPAT-{WORD[:43]}",
    "digitalocean refresh": f"dor_v1_{HEX[:64]}",
    "discord": f"M{WORD[:23]}.{WORD[:6]}.{WORD[:27]}",
    "aws in a file of settings": f"aws_secret_access_key = {WORD[:40]}",
    "crates.io": f"cio{WORD[:32]}",
    "discord webhook": f"https://discord.com/api/webhooks/123456789012345678/{(WORD * 2)[:68]}",
    "jfrog": f"cmVmdGtuOjAx{WORD[:52]}",
    "kubernetes": f"    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0t{WORD * 2}",
    "sonar": f"squ_{HEX[:40]}",
    "teams webhook": "https://a.webhook.office.com/webhookb2/0a1b2c3d-0123-4567-89ab-0123456789ab"
    f"@0a1b2c3d-0123-4567-89ab-0123456789ab/IncomingWebhook/{HEX[:32]}/0a1b2c3d-0123-4567-89ab-0123456789ab",
    "docker hub": f"dckr_pat_{WORD[:27]}",
    "doppler": f"dp.pt.{WORD[:43]}",
    "dynatrace": f"dt0c01.{WORD[:24]}.{(WORD * 2)[:64]}",
    "easypost": f"EZAK{WORD[:54]}",
    "figma": f"figd_{WORD[:40]}",
    "fly": f"FlyV1 fm2_{WORD}{WORD}",
    "fly with a comma": f"FlyV1 fm2_{WORD[:6]},{WORD}{WORD}",
    "github": f"ghp_{WORD[:36]}",
    "github app": f"ghs_{WORD[:36]}",
    "github fine": f"github_pat_{WORD[:22]}_{WORD[:50]}",
    "gitlab": f"glpat-{WORD[:20]}",
    "google": f"AIza{WORD[:35]}",
    "google secret": f"GOCSPX-{WORD[:28]}",
    "google token": f"ya29.{WORD[:40]}",
    "grafana": f"glsa_{WORD[:32]}_{HEX[:8]}",
    "heroku": f"HRKU-{WORD[:36]}",
    "hugging face": f"hf_{WORD[:34]}",
    "infracost": f"ico-{WORD[:32]}",
    "langsmith": f"lsv2_pt_{HEX[:32]}_{HEX[:10]}",
    "mailchimp": f"{HEX[:32]}-us12",
    "mailgun": f"key-{HEX[:32]}",
    "netlify": f"nfp_{WORD[:40]}",
    "new relic": f"NRAK-{WORD[:27].upper()}",
    "notion": f"ntn_12345678901{WORD[:35]}",
    "nuget": f"oy2{WORD[:43].lower()}",
    "openai": f"sk-proj-{WORD[:48]}",
    "openrouter": f"sk-or-v1-{HEX[:64]}",
    "openshift": f"sha256~{WORD[:43]}",
    "perplexity": f"pplx-{WORD[:48]}",
    "planetscale": f"pscale_tkn_{WORD[:43]}",
    "postman": f"PMAK-{HEX[:24]}-{HEX[:34]}",
    "prefect": f"pnu_{WORD[:36]}",
    "pulumi": f"pul-{HEX[:40]}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{WORD}{WORD}",
    "readme": f"rdme_{(HEX * 2)[:70]}",
    "replicate": f"r8_{WORD[:37]}",
    "rubygems": f"rubygems_{HEX[:48]}",
    "sendgrid": f"SG.{WORD[:22]}.{WORD[:43]}",
    "sentry": f"sntrys_{WORD}{WORD}",
    "shippo": f"shippo_live_{HEX[:40]}",
    "slack": f"xoxb-123456789012-{WORD[:24]}",
    "slack client": f"xoxd-{WORD[:8]}%2B{WORD}",
    "slack app": f"xapp-1-A0{WORD[:9].upper()}-1234567890123-{HEX[:64]}",
    "square": f"sq0atp-{WORD[:22]}",
    "stripe": f"sk_live_{WORD[:24]}",
    "stripe webhook": f"whsec_{WORD[:32]}",
    "supabase": f"sbp_{HEX[:40]}",
    "twilio": f"SK{HEX[:32]}",
    "typeform": f"tfp_{(WORD * 2)[:59]}",
    "vault batch": f"hvb.{WORD[:40]}",
    "xai": f"xai-{(WORD * 2)[:80]}",
    "yandex": f"AQVN{WORD[:36]}",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_other_services(shape: str) -> None:
    text = f"x = 1\n{SHAPES[shape]}\n"
    content, notes = redact(text.encode(), "notes.txt")
    assert b"[redacted:" in content
    assert WORD[:30].encode() not in content
    assert HEX[:30].encode() not in content
    assert {note.line for note in notes} == {2}


def test_there_are_shapes_of_many_services() -> None:
    assert len(SHAPES) >= 60


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("12345678:" + "a" * 34 + "b\n", "notes.txt"),
        ("token := os.Getenv(passwordKey1)\npassword := get(secret2)\n", "a.go"),
        ("JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmnop'\n", "tests/test_jwt.py"),
        ("password = 's3cr3tPa55w0rd'\n", "tests/test_login.py"),
        ("url = 'http://darin:nothin@www.apple.com'\n", "Tests/URITests.swift"),
        ("url = 'https://jo%40email.com:a%20secret@example.com'\n", "_urls.py"),
        ("h = {'Authorization': 'Basic dXNlcm5hbWU6cGFzc3dvcmQ='}\n", "a.py"),
        (
            "SECRET_KEY = '192b9bdd22ab9ed4d12e236c78afcb9a393ec15f71'\n",
            "docs/config.rst",
        ),
    ],
)
def test_code_tests_and_manuals_are_left_alone(text: str, path: str) -> None:
    assert redact(text.encode(), path) == (text.encode(), [])


# Its issuer is https://auth.acme-corp.io.
OF_ACME = (
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJodHRwczovL2F1dGguYWNtZS1jb3JwLmlvIiwic3ViIjoiNDIifQ"
    ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

# Its claims are nested so deeply that no reader of JSON takes them.
DEEP = f"eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiAg{'W1tb' * 30_000}.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

UNISSUED = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("password = 'Zk3Qv9Lm2Xr7Tb5Wn8Hs'\n", "tests/test_login.py"),
        (f"API_KEY = '{WORD[:20]}'\n", "docs/config.rst"),
        ("dsn = 'postgres://app:k9Xw2-Vq7@db.acme-corp.io/prod'\n", "tests/conftest.py"),
        (f"JWT = '{OF_ACME}'\n", "tests/test_jwt.py"),
        (f"key = 'ghp_{WORD[:36]}'\n", "testdata/keys.txt"),
        ("key = 'sk-helicone-a1b2c3d-e4f5g6h-i7j8k9l-m1n2o3p'\n", "tests/test_helicone.py"),
    ],
)
def test_what_looks_real_is_redacted_in_tests_and_manuals_too(text: str, path: str) -> None:
    assert b"[redacted: " in redact(text.encode(), path)[0]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("dsn = 'postgres://app:k9Xw2-Vq7@localhost:5432/x'\n", "tests/conftest.py"),
        ("dsn = 'https://user:s3kr3t99@api.example.com/x'\n", "docs/use.rst"),
        ("password = 'MySecretPassword123'\n", "tests/test_login.py"),
        ("secret = 'c2VjcmV0LXZhbHVlLW9mLTEyMzQ1'\n", "tests/test_login.py"),
        ("secret_key = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'\n", "docs/keys.rst"),
        ('h.Set("Authorization", "Bearer sk-secret-1234567890")\n', "trace_test.go"),
        (f"h = {{'Authorization': 'Bearer {UNISSUED}'}}\n", "a.test.ts"),
        (f"h = {{'Authorization': 'Bearer {DEEP}'}}\n", "a.test.ts"),
    ],
)
def test_made_up_values_are_left_alone_in_tests_and_manuals(text: str, path: str) -> None:
    assert redact(text.encode(), path) == (text.encode(), [])


RANDOM = "q7Rk2Zt9Lw4Xc8Vb1Nm6Hg3Jd5Fs0Pa"
IN_CONTEXT = {
    ".netrc": "machine api.acme.io\n  login bob\n  password {}\n",
    "setup.sh": 'echo "machine api.acme.io login bob password {}" > ~/.netrc\n',
    "home/.pgpass": "db.acme.io:5432:prod:app:{}\n",
    "app/cache.py": 'URL = "redis://:{}@cache.acme.io:6379/0"\n',
    "app/blobs.py": 'u = "https://a.blob.core.windows.net/c?sv=2022-11-02&sig={}q7Rk2Zt9Lw%3D"\n',
    "deploy.sh": "export CLOUDFLARE_API_TOKEN={}\n",
    "README.md": "CLOUDFLARE_API_TOKEN={} wrangler deploy\n",
    "ci.yml": "  CLOUDFLARE_API_TOKEN: {}\n",
    "Dockerfile": "ENV DD_API_KEY={}\n",
    ".npmrc": "_authToken={}\n",
    "web/.npmrc": "//registry.npmjs.org/:_authToken={}\n",
    "call.sh": 'curl -H "X-Api-Key: {}" https://api.acme.io\n',
    "user.sh": "curl -u robot:{} https://api.acme.io\n",
    "pass.sh": "sshpass -p {} ssh deploy@host\n",
    "compose.yml": "  REDIS_URL: redis://:{}@cache:6379\n",
    "dump.sh": "mysql -u root -p{} prod\n",
    "psql.sh": "PGPASSWORD={} psql -h db\n",
    "app.ts": "const accessToken = '{}';\n",
    "app.rb": "auth_token: '{}'\n",
    "appsettings.json": '"Default": "Server=db;User Id=sa;Password={};"\n',
    "bus.json": '"sb": "Endpoint=sb://a.net/;SharedAccessKeyName=R;SharedAccessKey={}"\n',
    "hosts.ini": "web ansible_ssh_pass={}\n",
    "settings.xml": "<password>{}</password>\n",
    "nuget.config": '<add key="ClearTextPassword" value="{}" />\n',
    "aws/config.py": "aws_session_token = {0}{0}{0}{0}\n",
    "site/.htpasswd": "deploy:{}\n",
    "search.sh": "ALGOLIA_ADMIN_KEY={}\n",
    "ngrok.yml": "version: 2\nauthtoken: {0}_{0}\n",
    "tunnel.sh": "ngrok config add-authtoken {0}_{0}\n",
    "Web.config": '<add key="ApiSecret" value="{}" />\n',
    "web/.htpasswd": "bob:$apr1$x9Kd3m1Q$Tz8y{}\n",
    "web/htpasswd": "bob:{{SHA}}{}=\n",
    "traefik.yml": "- bob:$2y$05${}xWn5Lr0Hj4Vb7DcTz8yYq1\n",
    "compose.traefik.yml": "- bob:$$2y$$05$${}xWn5Lr0Hj4Vb7DcTz8yYq1\n",
}


@pytest.mark.parametrize("path", IN_CONTEXT)
def test_a_secret_is_known_by_what_stands_before_it(path: str) -> None:
    cleaned, notes = redact(IN_CONTEXT[path].format(RANDOM).encode(), path)
    assert RANDOM.encode() not in cleaned
    assert notes


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.sh", "export SNYK_TOKEN={}"),
        (".env", "CODECOV_TOKEN={}"),
        (".env", "RAILWAY_TOKEN={}"),
        ("ci.yml", "  HEROKU_API_KEY: '{}'"),
        ("codecov.yml", "  token: {}"),
        ("a.sh", "snyk auth {}"),
        ("a.sh", "bash <(curl -s https://codecov.io/bash) -t {}"),
    ],
)
def test_an_id_that_is_a_token_of_a_service(path: str, line: str) -> None:
    """Elsewhere a UUID is an id."""
    cleaned, _ = redact(line.format(UUID).encode(), path)
    assert with_mark(cleaned, "{}") == line


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("mysql -uroot -ph8Kd93mQ prod", "mysql -uroot -p{} prod"),
        ("mysqldump --user=root --password=h8Kd93mQ prod", "mysqldump --user=root --password={} prod"),
        ("sshpass -p 'h8Kd93mQ' ssh me@host", "sshpass -p '{}' ssh me@host"),
        ("mysql -ph8Kd93mQ prod", "mysql -p{} prod"),
        ("mysql -uroot -ph8Kd93mQ -h db -prod", "mysql -uroot -p{} -h db -prod"),
        ("curl -u me:h8Kd93mQ h.io -u x:K9d2", "curl -u me:{} h.io -u x:K9d2"),
        ("PGPASSWORD=h8Kd93mQ psql -h db", "PGPASSWORD={} psql -h db"),
        ("docker login -u me -p h8Kd93mQ r.io", "docker login -u me -p {} r.io"),
        ("redis-cli -h db -a 'h8Kd93mQ' ping", "redis-cli -h db -a '{}' ping"),
        ("mongosh -u root -p h8Kd93mQ", "mongosh -u root -p {}"),
        ("requirepass h8Kd93mQ", "requirepass {}"),
        ("bindpw h8Kd93mQ", "bindpw {}"),
        ('psk="h8Kd93mQ"', 'psk="{}"'),
        ('ConvertTo-SecureString "h8Kd93mQ" -AsPlainText', 'ConvertTo-SecureString "{}" -AsPlainText'),
        ('PGPASSWORD="$DB_PASSWORD1" psql', 'PGPASSWORD="$DB_PASSWORD1" psql'),
        ("docker run -p 8080:80a mongo -p 27017:27017", "docker run -p 8080:80a mongo -p 27017:27017"),
        ("mysql -uroot -pK9d prod-pK9d2", "mysql -uroot -pK9d prod-pK9d2"),
        ("mysqldump -pK9d2 prod-pK9d2x", "mysqldump -p{} prod-pK9d2x"),
        ("mysql -h db -P3306 -uroot", "mysql -h db -P3306 -uroot"),
        ("mysql -uroot -p$PASS", "mysql -uroot -p$PASS"),
        ("docker run --name mysql -p3306:3306 mysql:8", "docker run --name mysql -p3306:3306 mysql:8"),
        ("apt install mysql -y; mkdir -p lib/mysql8", "apt install mysql -y; mkdir -p lib/mysql8"),
        ("cp -p/etc/mysql8/my.cnf .", "cp -p/etc/mysql8/my.cnf ."),
    ],
)
def test_a_short_password_of_a_command(line: str, kept: str) -> None:
    cleaned, _ = redact(line.encode(), "a.sh")
    assert with_mark(cleaned, "{}") == kept


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (".htpasswd", "bob:${HASH}"),
        ("template.json", '"DependsOn": ["MyApiKey", "UsagePlan1A2B3C4D5E6F7081"],'),
        ("template.json", '"Fn::GetAtt": ["ApiKey", "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"]'),
        ("a.go", 'config.AccessKeyID = "AKIAIOSFODNN7EXAMPLE"'),
        ("t/mojo/agent.t", "$agent->get('https://sri:secr3t@mojolicious.org')"),
        ("web.config", '<add key="ClientSecretUri" value="https://v1.azure.net/x/h8Kd93mQ" />'),
        ("a.sh", "export API_TOKEN=your-token-goes-here-123456"),
        ("a.sh", "API_TOKEN=${VAULT_API_TOKEN_2024_PRODUCTION}"),
        ("a.py", 'CACHE_ACCESS_KEY = "user.sessions.v2.active"'),
        ("a.py", 'SESSION_TOKEN = "9f86d081-884c-4d65-9a2f-eaa0c55ad015"'),
        ("a.ts", "const accessToken = 'getAccessTokenFromStore2';"),
        ("a.yml", "  SECRET_KEY: vault:secret/data/app#key_number_one1"),
        ("a.sh", "curl -u user:$PASSWORD https://host"),
        ("a.py", "u = 'redis://:password@localhost'"),
        ("a.sh", "curl -u user:mypassword1 https://host"),
        ("a.pem", "EAAAAAAAAAAAAAAAAAAAAAAGIBCoDBAUwDgYDVR0PAQH/BAQDAgWgMB0GA1UdJQQW"),
        (".npmrc", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}"),
        ("tests/test_a.py", f'API_TOKEN = "{RANDOM}"'),
        ("ci.yml", "POSTGRES_URL: postgresql://postgres:postgres@localhost:5432/app"),
    ],
)
def test_a_name_or_reference_after_such_a_word_is_left_alone(path: str, line: str) -> None:
    assert redact(line.encode(), path) == (line.encode(), [])


@pytest.mark.parametrize(
    ("line", "path", "cleaned"),
    [
        (
            'e = create_engine("mssql+pyodbc://u:p1x@db.prod.acme.io", supports=False)  # p1x supplies\n',
            "a.py",
            'e = create_engine("mssql+pyodbc://u:SECRET@db.prod.acme.io", supports=False)  # p1x supplies\n',
        ),
        ("DB_PASSWORD=S4\nCLASS_S4=1\n", ".env", "DB_PASSWORD=SECRET\nCLASS_S4=1\n"),
        (
            "machine m1 login l1 password i1\n",
            ".netrc",
            "machine m1 login l1 password SECRET\n",
        ),
    ],
)
def test_a_short_value_is_replaced_where_it_is_the_secret(line: str, path: str, cleaned: str) -> None:
    """Its letters were replaced all over the line."""
    found, _ = redact(line.encode(), path)
    assert with_mark(found, "SECRET") == cleaned


@pytest.mark.parametrize("kind", ["AWS Access Key", "Anthropic API Key", "GitHub Token"])
@pytest.mark.parametrize("size", [700, 1_500, 5_000, 40_000])
def test_a_key_in_a_line_of_data_is_found(kind: str, size: int) -> None:
    """Service accounts, states of Terraform and the like are JSON of one line."""
    secret = SECRETS[kind]
    line = '{"a":"' + "x é " * size + f'","key":"{secret}","b":"' + "y " * size + '"}\n'
    cleaned, notes = redact(line.encode(), "state.json")
    assert secret.encode() not in cleaned
    assert len(notes) == 1
    assert with_mark(cleaned, secret) == line


@pytest.mark.parametrize("before", ["token:\\n", "a%3D", "b%0A", ""])
def test_a_key_after_an_escape_is_found(before: str) -> None:
    for secret in SECRETS.values():
        if secret.startswith(("sk-ant", "hf_", "AIza", "sk-proj")):
            assert secret.encode() not in redact(f's = "{before}{secret}"\n'.encode(), "a.py")[0]


def test_a_service_account_stays_json() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", *["MIIEvQIBADANBgkq" * 4] * 3, "-----END PRIVATE KEY-----", ""]
    account = json.dumps({"type": "service_account", "private_key": "\n".join(lines)})
    cleaned, _ = redact(account.encode(), "account.json")
    assert b"MIIE" not in cleaned
    key = json.loads(cleaned)["private_key"]
    assert key.startswith("-----BEGIN PRIVATE KEY-----\n[redacted: Private Key]")


RANDOM_HEX = "9f2c81d7" + "e04b6a35" + "c7d8f190" + "2ba46e53"
HEX, ALNUM = "0123456789abcdef" * 12, "aB3dE6gH9jK2" * 20
UUID = "0f1e2d3c-4b5a-4978-8a6b-5c4d3e2f1a0b"
MORE = [
    f"sk_{HEX[:48]}", f"sk-{HEX[:32]}", f"sk-{ALNUM[:48]}", f"sk-lf-{UUID}", f"nvapi-{ALNUM[:64]}",
    f"pcsk_{ALNUM[:6]}_{ALNUM[:62]}", f"csk-{HEX[:48]}", f"fw_{ALNUM[:24]}", f"tgp_v1_{ALNUM[:43]}",
    f"tvly-dev-{ALNUM[:32]}", f"fc-{HEX[:32]}", f"e2b_{HEX[:40]}", f"jina_{ALNUM[:60]}", f"pa-{ALNUM[:43]}",
    f"ABSK{ALNUM[:128]}", f"amzn.mws.{UUID}", f"LTAI5t{ALNUM[:18]}", f"AQ.Ab8{ALNUM[:50]}",
    f"1//0{ALNUM[:60]}", f"{HEX[:36]}NRAL", f"{ALNUM[:76]}AZDO4x2y",
    f"cfut_{ALNUM[:48]}", f"fm2_{ALNUM[:100]}", f"vcp_{ALNUM[:56]}", f"rnd_{ALNUM[:28]}", f"napi_{HEX[:64]}",
    f"sb_secret_{ALNUM[:31]}", f"glcbt-64_{ALNUM[:20]}", f"dckr_oat_{ALNUM[:32]}", f"ATCTT3{ALNUM[:180]}",
    f"ATBB{ALNUM[:32]}", f"bkua_{HEX[:40]}", f"dp.st.{ALNUM[:43]}", f"tskey-auth-{ALNUM[:12]}-{ALNUM[:30]}",
    f"phx_{ALNUM[:43]}", f"NRII-{ALNUM[:32]}", f"hcaik_{HEX[:58]}", f"sk_org_live_{ALNUM[:60]}",
    f"access-production-{UUID}", f"re_{ALNUM[:8]}_{ALNUM[:24]}", f"xkeysib-{HEX[:64]}-{ALNUM[:16]}",
    f"{HEX[:32]}-{HEX[:8]}-{HEX[:8]}", f"secret_{ALNUM[:43]}", f"pat-na1-{UUID}", f"EAA{ALNUM[:120]}",
    f"glffct-{ALNUM[:20]}", f"api_org_{'aBcDeFgHiJkLmNoPq' * 2}", f"ddp_{ALNUM[:36]}",
    f"AVNS_{'aBc-dEf' * 3}"[:24],
    f"waka_{UUID}", f"API-{'A1B2C3D4E5F6G' * 2}", f"sm_pat_{ALNUM[:16]}",
    f"p.eyJ1IjogIj{ALNUM[:90]}.{ALNUM[:43]}",
    f"pk_80537735_{'A1B2C3D4' * 4}", f"s-s4t2ud-{HEX[:64]}", f"fio-u-{ALNUM[:64]}", f"tk-us-{ALNUM[:48]}",
    f"pat.{ALNUM[:22]}.{HEX[:24]}.{ALNUM[:20]}", f"dnkey-{ALNUM[:26]}-{ALNUM[:52]}", f"p8e-{HEX[:32]}",
    f"key_{HEX[:64]}", f"cflt{ALNUM[:60]}", f"xoxe-1-{ALNUM[:146]}", f"secret-live-{ALNUM[:36]}",
    f"prod:happy-animal-123|{ALNUM[:60]}", f"sk_{ALNUM[:32]}.eu", f"eyJtaXJvLm9yaWdpbiI6{ALNUM[:40]}",
    f"FLWSECK-{HEX[:32]}-X", f"{ALNUM[:6]}_{ALNUM[:29]}_mmk", f"duffel_live_a_{ALNUM[:41]}",
    f"slk_{HEX[:64]}", f"dose{HEX[:32]}", f"xaat-{UUID}", f"RGAPI-{UUID}", f"test_{HEX[:35]}",
    f"0.{UUID}.{ALNUM[:30]}:{ALNUM[:22]}==", f"KEY{'A1B2C3D4' * 4}_{ALNUM[:22]}", f"md-{ALNUM[:22]}",
    f"CCDB1_{ALNUM[:22]}_{ALNUM[:40]}", f"os_v2_app_{'abc2def3' * 13}", f"as-{ALNUM[:22]}",
    f"PRD-{HEX[:12]}-{HEX[:8]}-{HEX[:4]}-{HEX[4:8]}-{HEX[8:12]}", f"lip_{ALNUM[:20]}",
    f"A3-A1B2C3-{'A1B2C3D4E5F'}-A1B2C-D3E4F-G5H6I",
    f"IST.eyJ{ALNUM[:120]}.{ALNUM[:90]}.{ALNUM[:80]}",
    f"t1.{ALNUM[:40]}.{ALNUM[:86]}", f"eyJrIjoi{ALNUM[:80]}", f"z_1dWlkIjoi{ALNUM[:60]}.{ALNUM[:43]}",
    f"bce-v3/ALTAK-{ALNUM[:21]}/{HEX[:40]}", f"AKLT{ALNUM[:44]}",
    f"perm:{ALNUM[:8]}.{ALNUM[:8]}.{ALNUM[:30]}",
    f"essu_{ALNUM[:60]}==", f"snyk_uat.{HEX[:8]}.{ALNUM[:80]}", f"sktsec_{ALNUM[:43]}_api",
    f"dbtc_{ALNUM[:44]}", f"figo_{ALNUM[:40]}", f"hf_oauth_{ALNUM[:40]}", f"pdus+_{ALNUM[:30]}",
    f"sc_a1b2c3d4.a1b2c.acc-a1b2c3d4e5.{ALNUM[:40]}", f"EZTK{ALNUM[:54]}", f"rzp_live_{ALNUM[:14]}",
    f"NF-{ALNUM[:32]}", f"sk-helicone-{'-'.join(['a1b2c3d'] * 4)}", f"ctx7sk-{UUID}",
    f"1234567890123456|{ALNUM[:27]}", f"{HEX[:32]}.{ALNUM[:16]}", f"{ALNUM[:6]}.{ALNUM[6:12]}:{ALNUM[:43]}",
    f"newservice_{ALNUM[:40]}", f"ns-v2-{ALNUM[:32]}", f"cal_live_{HEX[:32]}", f"mdb_sa_sk_{ALNUM[:36]}_-x1",
    f"sk-new-{UUID}", f"new_production_{UUID}", f"bb_live_{'aB-1_' * 6}", f"secret-token:new_{ALNUM[:40]}",
    f"ops_eyJ{'aB3/' * 60}", f"https://mainnet.infura.io/v3/{HEX[:32]}", f"https://eth.alchemy.com/v2/{ALNUM[:32]}",
]  # fmt: skip


@pytest.mark.parametrize("secret", MORE, ids=lambda secret: secret[:12])
def test_shapes_of_keys_of_services(secret: str) -> None:
    cleaned, notes = redact(f'client = Client("{secret}")\n'.encode(), "a.py")
    assert secret.encode() not in cleaned
    assert len(notes) == 1


BASE62, HEX_64 = "q7Rk2Zt9Lw4Xc8Vb1Nm6Hg3Jd5Fs0PaW4y8Q", "3f9a1c7be2d04586" * 4
UNKNOWN_BEFORE = [
    ("app.js", 'const token = "{}";', BASE62),
    ("app.js", "let apiToken = `{}`", BASE62),
    ("app.ts", '  private readonly token: string = "{}";', BASE62),
    ("app.ts", "token: process.env.TOKEN || '{}',", BASE62),
    ("app.py", 'token: str = "{}"', BASE62),
    ("app.py", 'creds = {"token": "{}"}', BASE62),
    ("app.py", 'key = os.getenv("API_TOKEN", "{}")', BASE62),
    ("app.py", 'cohere.Client("{}")', BASE62),
    ("App.java", 'private static final String TOKEN = "{}";', BASE62),
    ("App.java", 'static final String ENCRYPTION_KEY = "{}";', BASE62),
    ("app.kt", 'const val API_TOKEN: String = "{}"', BASE62),
    ("app.rs", 'const TOKEN: &str = "{}";', BASE62),
    ("app.go", 'const signingKey = "{}"', BASE62),
    ("ci.yml", "  token: {}", BASE62),
    ("gitlab.toml", 'token = "{}"', BASE62),
    ("rclone.conf", "pass = {}", BASE62),
    ("jwk.json", '{"kty": "OKP", "d": "{}q7Rk2Zt"}', BASE62),
    ("a.sh", "mytool login -u bob -p {}", BASE62[:16]),
    ("a.sh", "helm registry login r.io -u bob -p {}", BASE62[:16]),
    ("a.sh", "deploy --token {}", BASE62),
    ("a.sh", "deploy --client-secret={}", BASE62),
    ("a.sh", "gpg --batch --passphrase {} -c f", BASE62[:16]),
    ("a.sh", "openssl rsa -in k.pem -passin pass:{}", BASE62[:16]),
    ("a.sh", "keytool -genkey -storepass {} -keyalg RSA", BASE62[:16]),
    ("a.sh", "mysqladmin -u root password {}", BASE62[:16]),
    ("a.sh", "smbclient //srv/share -U bob%{}", BASE62[:16]),
    ("a.sh", "ldapsearch -D cn=admin -w {} -b dc=x", BASE62[:16]),
    ("a.sh", "sqlcmd -S db -U sa -P {} -Q x", BASE62[:16]),
    ("a.sh", "htpasswd -b .htpasswd bob {}", BASE62[:16]),
    ("a.sh", 'echo "root:{}" | chpasswd', BASE62[:16]),
    ("a.sh", "zip -P {} a.zip f", BASE62[:16]),
    ("a.bat", "net use Z: \\\\srv\\share /user:bob {}", BASE62[:16]),
    ("a.sh", 'curl "https://api.trello.com/1/b?key=x&token={}"', HEX_64),
    ("a.sh", 'curl "https://x.azurewebsites.net/api/f?code={}"', BASE62),
    ("a.sh", "Ocp-Apim-Subscription-Key: {}", HEX_64[:32]),
    ("a.sh", "X-Auth-Key: {}", HEX_64[:37]),
    ("a.sh", "Authorization: SSWS 00{}abcd", BASE62),
    ("a.sh", "Authorization: GenieKey {}", UUID),
    (".env", "PIN={}", "493817"),
    ("a.sh", "OKTA_API_TOKEN={}", f"00{BASE62[:20]}aBd-xYz{BASE62[:12]}"),
    ("a.html", "<!-- _gitlab_session={} -->", HEX_64[:32]),
    (".env", "BORG_PASSPHRASE={}", "correct9Horse7Battery"),
    (".env", "SMTP_CREDENTIALS={}", BASE62[:16]),
    (".env", "APP_KEY=base64:{}", BASE62),
    (".env", "CONSUL_HTTP_TOKEN={}", UUID),
    (".env", "FAL_KEY={}:" + HEX_64[:32], UUID),
    (".yarnrc.yml", 'npmAuthIdent: "bob:{}"', BASE62[:16]),
    ("settings-security.xml", "<master>{{}}</master>", BASE62),
    ("consul.hcl", 'encrypt = "{}q7Rk2Zt="', BASE62),
    ("bundle.yml", 'BUNDLE_GEMS__ACME__COM: "{}"', "3f9a1c7b:e2d04586"),
    ("a.py", '"host=db user=app password={} dbname=x"', BASE62[:16]),
    ("a.py", '"jdbc:oracle:thin:app/{}@//db:1521/x"', BASE62[:16]),
    ("shadow", "root:$6$q7Rk2Zt9${}:19000:0:99999:7:::", BASE62[:32] + "aB3." * 13 + "xY"),
    ("userlist.txt", '"app" "SCRAM-SHA-256$4096:aB3d${}=:aB3d="', BASE62),
    ("wg0.conf", "PresharedKey = {}q7Rk2Zt=", BASE62),
    ("vault.txt", "Unseal Key 1: {}", BASE62),
    ("secret.yml", ".dockerconfigjson: eyJhdXRocyI6{}==", BASE62),
    ("secret.yml", "token: ZXlKaGJHY2lPaUp{}", BASE62 * 2),
    ("a.sh", "curl https://api.telegram.org/bot7246943893:{}/x", BASE62[:35]),
    ("a.py", 'BOT = "7246943893:AA{}"', BASE62[:33]),
    ("a.txt", "ATTA{}3f9a1c7b", HEX_64),
    ("a.js", "init('sdk-{}')", UUID),
    ("a.js", "mollie('live_{}')", BASE62[:30]),
    ("a.sh", "https://hooks.slack.com/workflows/T01234567/A01234567/123456789012345678/{}", BASE62[:24]),
    ("a.txt", "signkey-prod-{}", HEX_64),
]


@pytest.mark.parametrize(("path", "line", "secret"), UNKNOWN_BEFORE)
def test_a_secret_in_code_in_a_command_or_in_settings(path: str, line: str, secret: str) -> None:
    cleaned, notes = redact(line.replace("{}", secret).encode(), path)
    assert secret.encode() not in cleaned
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("path", "line", "secret"),
    [
        ("a.py", 'aws_secret_access_key = "{}"', "+wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX4MP1KEz"),
        ("a.py", 'aws_secret_access_key = "{}"', "Jalr+++UtnFEMI/K7MDENG/bPxRfiCYEX4MP1KEz"),
        ("a.py", 'password = "{}"', "2024-01-01-S3cretKeyq9Zz"),
    ],
)
def test_what_stands_in_a_secret_changes_no_pattern(path: str, line: str, secret: str) -> None:
    content, notes = redact(line.format(secret).encode(), path)
    assert secret.encode() not in content
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.js", 'const token = "getAccessTokenFromStore"'),
        ("a.js", "const token = useContinuationTokenOf(request2)"),
        ("a.py", "token = tokens_by_name2.first_of_the_day()"),
        ("a.sh", "docker run -u 1000 -p 127.0.0.1:8080:80/tcp nginx"),
        ("a.sh", "ssh -l deploy2 -p 2222 host"),
        ("a.sh", "deploy --token $DEPLOY_TOKEN_2 --secret ${SECRET2}"),
        (
            "go.sum",
            "github.com/sethvargo/go-password v0.2.0/go.mod h1:Ym4Mr9JXLBycr02MFuVQ/0JHidNetSgbzutTr3zsYXE=",
        ),
        ("a.kt", 'const val BASE_64_CREDENTIALS = "dXNlcm5hbWU6cGFzc3dvcmQ="'),
        ("a.svg", "iVBORw0KGgoAAAANSUhEUgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ("a.svg", '<path id="a" d="M12.5 4l3-3z"/>'),
        ("genome.fa", "ACCATTTCCGACTATACAATGGAAAGGCTG"),
        ("a.md", "Authorization: Bearer eyJhbGciOiJI...M3A90LCkxxtX9oNP9KZO"),
        ("a.sh", "export CAPTCHA_SECRET=1x0000000000000000000000000000000AA"),
        ("user.json", '"PasswordLastUsed": "2016-09-08T21:47:36Z"'),
        ("a.py", "AVNS_MAX_CONNECTIONS_TOTAL = 3"),
        (".env", "REDIS_PASSWORD=null"),
        (".env", "SMTP_CREDENTIALS=None"),
    ],
)
def test_code_like_such_a_secret_is_left_alone(path: str, line: str) -> None:
    assert redact(line.encode(), path) == (line.encode(), [])


KUBERNETES = """kind: ConfigMap
data:
  greeting: aGVsbG8=
---
apiVersion: v1
kind: Secret
metadata:
  name: frontend
data:
  user: YWRtaW4=
  "tls.key": 'c2VjcmV0LWtleQ=='
  helm: {{ .Values.password | b64enc }}
type: Opaque
stringData:
  user: carol
  "quoted": 'as it is'
  from: ${PASSWORD}
  file: |
    color: blue
---
kind: Service
"""


@pytest.mark.parametrize("sign", ["", "+", "-", " "])
def test_data_of_a_secret_of_kubernetes_is_redacted(sign: str) -> None:
    manifest = "".join(f"{sign}{line}" for line in KUBERNETES.splitlines(keepends=True))
    cleaned, notes = redact(manifest.encode(), "deploy/app.yaml")
    wanted = manifest
    for value in ("YWRtaW4=", "c2VjcmV0LWtleQ==", "carol", "as it is", "blue"):
        wanted = wanted.replace(value, "*")
    assert with_mark(cleaned, "*") == wanted
    assert [note.line for note in notes] == [10, 11, 15, 16, 19]
    assert {note.detail for note in notes} == {"Kubernetes Secret"}
    assert redact(manifest.encode(), "tests/app.yaml") == (manifest.encode(), [])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("deploy/app.yaml", "- name: API_TOKEN\n  value: {}\n"),
        ("deploy/app.yaml", '- name: "DB_PASSWORD"\n  value: "{}"\n'),
        ("ecs/task.json", '{{"name": "API_KEY", "value": "{}"}}'),
        ("infra/main.tf", 'variable "db_password" {{\n  type    = string\n  default = "{}"\n}}\n'),
        ("ios/Info.plist", "<key>APISecret</key>\n\t<string>{}</string>\n"),
    ],
)
def test_a_value_below_its_name_is_redacted(path: str, text: str) -> None:
    secret = RANDOM_HEX[:20]
    cleaned, notes = redact(text.format(secret).encode(), path)
    assert with_mark(cleaned, "*") == text.format("*")
    assert [note.detail for note in notes] == ["Named Value"]
    for made_up in ("string", "max-tokens", "changeme1", "examplepass1"):
        assert redact(text.format(made_up).encode(), path)[0] == text.format(made_up).encode()
    assert redact(text.format(secret).encode(), f"tests/{path}")[1] == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (".env", "LOGDNA_KEY={hex}"),
        ("deploy.sh", 'export COHERE_KEY="{mixed}"'),
        ("ci.yml", "  DEPLOY_KEY: {mixed}"),
        (".env", "APP_SALT={hex}"),
        ("Dockerfile", "ENV DB_PASSWORD {hex}"),
        ("Dockerfile", "ENV GPG_PASSPHRASE {hex}"),
        ("a.fish", "set -x GITLAB_TOKEN {hex}"),
        ("docker.json", '{{"auths":{{"ghcr.io":{{"auth":"{mixed}"}}}}}}'),
        ("server.xml", '<Connector keystorePass="{mixed}" />'),
        ("app.py", "app.secret_key = b'{hex}'"),
        ("app.swift", 'let apiSecret: String = "{mixed}"'),
        ("app.rs", 'const CLIENT_SECRET: &\'static str = "{mixed}";'),
        ("app.ts", "const apiKey: string | null = '{hex}'"),
        ("app.py", 'password: str = b"{hex}"'),
        (".s3cfg", "secret_key = {hex}"),
        ("appsettings.json", '"Default": "Server=db;User Id=app;Password={words};"'),
        ("config/database.yml", "  password: {words}"),
        ("application.properties", "spring.datasource.password={words}"),
        ("my.cnf", "password={words}"),
        ("settings.xml", "<password>{words}</password>"),
        ("run.sh", "PGPASSWORD={words} psql"),
        ("redis.conf", "requirepass {words}"),
    ],
)
def test_a_key_of_any_name_and_a_password_of_words(path: str, line: str) -> None:
    values = {
        "hex": RANDOM_HEX,
        "mixed": "x" + "Zk9qTrr7wLmvVb3Nc8JsRf2Y" * 2,
        "words": "Correct" + "HorseBattery",
    }
    text = line.format(**values)
    cleaned, _ = redact(text.encode(), path)
    assert not [value for value in values.values() if value.encode() in cleaned]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("release.sh", 'GPG_KEY="CFB4C2166397D0D2"'),
        ("app.env", f"NEXT_PUBLIC_STRIPE_KEY={RANDOM_HEX}"),
        ("schema.py", 'SORT_KEY = "user_name_of_20_letters"'),
        ("openapi.yml", "  password: StringField"),
        ("messages.properties", "password=Password"),
        ("a.rb", 'password: "CorrectHorseBattery"'),
        ("a.xml", "<password>PasswordEncoderFactory</password>"),
    ],
)
def test_a_public_key_and_a_name_are_no_secrets(path: str, line: str) -> None:
    assert redact(line.encode(), path) == (line.encode(), [])


@pytest.mark.parametrize(
    "name", ["PGP_PASSWORD", "GPG_PASS", "PGP_SECRET", "GPG_PRIVATE_KEY", "REPUBLIC_API_KEY"]
)
def test_only_a_public_key_itself_is_no_secret(name: str) -> None:
    for value in (RANDOM_HEX, f"{RANDOM_HEX[:16]}PUBLIC"):
        assert value.encode() not in redact(f"export {name}={value}".encode(), "run.sh")[0]


def test_a_short_key_below_its_name_is_no_secret() -> None:
    for name, value in (("color_token", "#1a2b3c4d"), ("sort_key", "2024Q1A1"), ("hot_key", "ctrl+f12")):
        text = f'{{"name": "{name}", "value": "{value}"}}'.encode()
        assert redact(text, "app.json") == (text, [])
    for name in ("client_secret", "db_password"):
        assert redact(f'{{"name": "{name}", "value": "{RANDOM_HEX[:10]}"}}'.encode(), "app.json")[1]


def test_a_public_key_below_its_name_is_no_secret() -> None:
    for name in ("SSH_PUBLIC_KEY", "STRIPE_PUBLISHABLE_KEY", "gpg_key"):
        text = f"- name: {name}\n  value: {RANDOM_HEX}\n".encode()
        assert redact(text, "deploy/app.yaml") == (text, [])


def test_values_in_a_value_of_a_manifest_go_with_it() -> None:
    manifest = """\
kind: Secret
stringData:
  one: '[{"name":"API_KEY","value":"%s"},"rest of it"]'
  two: "with \\"quotes\\""
  three: 'it''s'  # a comment
"""
    cleaned, notes = redact((manifest % RANDOM_HEX).encode(), "deploy/app.yaml")
    wanted = "kind: Secret\nstringData:\n  one: '*'\n  two: \"*\"\n  three: '*'  # a comment\n"
    assert with_mark(cleaned, "*") == wanted
    assert [note.line for note in notes] == [3, 4, 5]


def test_a_static_key_of_openvpn_goes_whole() -> None:
    begin, end = (f"-----{word} OpenVPN Static key V1-----" for word in ("BEGIN", "END"))
    cleaned, _ = redact("\n".join([begin, HEX_64[:32], HEX_64[:32], end]).encode(), "a.ovpn")
    assert HEX_64[:32].encode() not in cleaned


def test_data_that_contains_the_letters_of_a_key_is_none() -> None:
    for text in (
        "d09GMgABAAAAAAKIAZ4T7ZB2XLMNPRSWVAAQ",
        "GATTACAKIAQ4T7ZB2XLMNPRSWVGATTACA",
        "cache_key-" + HEX[:32],
    ):
        for data in (text, "Zk9+" * 600 + text + "Qm3/" * 600):  # a line of data is not looked at as a whole
            line = f'font = "{data}"\n'.encode()
            assert redact(line, "a.py") == (line, [])


def test_nothing_is_left_of_a_secret_that_contains_another() -> None:
    inner = SECRETS["GitHub Token"]
    cleaned, notes = redact(f'password = "kR7wq2/{inner}"\n'.encode(), "a.py")
    assert cleaned == b'password = "[redacted: Named Secret]"\n'
    assert [note.detail for note in notes] == ["Named Secret"]


def test_a_line_is_long_by_its_characters() -> None:
    """A password after a word is not looked for in lines of data; one of 3,000 letters is not such a line."""
    line = 'greeting = "' + "漢" * 3_000 + '"; password = "kR7wq2Lm9x"\n'
    assert b"kR7wq2Lm9x" not in redact(line.encode(), "a.py")[0]


@pytest.mark.parametrize("line", [f'password := "{ALNUM[:16]}"', f'apiKey := "{HEX[:32]}"'])
def test_a_value_after_a_short_assignment(line: str) -> None:
    cleaned, notes = redact(f"{line}\n".encode(), "a.go")
    assert cleaned.startswith(line[: line.index('"') + 1].encode() + b"[redacted: ")
    assert notes


@pytest.mark.parametrize(
    ("path", "before"), [(".env", "DB_PASSWORD="), ("a.py", "password = '"), ("a.go", 'password := "')]
)
def test_a_password_with_the_sign_of_an_assignment(path: str, before: str) -> None:
    """A note said that it was redacted, but it was shown."""
    end = before[-1].strip("=")
    cleaned, _ = redact(f"{before}abC9:=dEf123xyz9{end}\n".encode(), path)
    assert with_mark(cleaned, "SECRET") == f"{before}SECRET{end}\n"


def test_the_name_of_an_advisory_is_no_token() -> None:
    """In 22 lines of a client for GitHub it was redacted as a token of Slack."""
    line = b'url: "https://api.github.com/advisories/GHSA-xoxo-1234-xoxo"\n'
    assert redact(line, "a.go") == (line, [])


def test_the_form_of_a_key_is_no_key() -> None:
    line = b"# A3-XXXXXX-XXXXXXXXXXX-XXXXX-XXXXX-XXXXX\n"
    assert redact(line, "a.go") == (line, [])


@pytest.mark.parametrize(("path", "is_found"), [("app/hub.ex", True), ("test/hub_test.exs", False)])
def test_what_looks_like_a_key_of_any_service_may_be_an_id_in_a_test(path: str, is_found: bool) -> None:
    line = f'id: "personal-hub-{BASE62}"'.encode()
    assert bool(redact(line, path)[1]) is is_found


@pytest.mark.parametrize(
    "content",
    [
        b"sk-" * 30_000,
        b"secret_" * 30_000,
        (b'integrity = "sha512-' + b"aB3d" * 21 + b'"\n') * 10_000,
        (b"ab_" + b"aB3d" * 24 + b"+\n") * 10_000,
    ],
    ids=["words of keys", "names", "a lock file", "nearly keys"],
)
def test_what_only_resembles_keys_takes_no_endless_time(content: bytes) -> None:
    """They took up to 4 s: lines were searched for each kind of key, and words as far as the line's end."""
    redact(b"sk_", "a.py")
    started = time.process_time()
    assert redact(content, "a.py") == (content, [])
    assert time.process_time() - started < 1


@pytest.mark.parametrize("unit", ["sk-", "sk-proj-", "xoxd-%", "sk-1x-"])
def test_the_beginnings_of_keys_are_read_once(unit: str) -> None:
    """At each of them the rest of the line was read to find a digit: 5.7 s for 1 MB of ``sk-``."""
    content = (unit * (400_000 // len(unit))).encode()
    redact(b"sk_", "a.py")
    started = time.process_time()
    assert redact(content, "a.py") == (content, [])
    assert time.process_time() - started < 1


NAMED = [
    ("App.cs", 'public string ApiKey {{ get; set; }} = "{}";'),
    ("app.h", '#define VENDOR_API_KEY "{}"'),
    ("app.xml", "<apiKey>{}</apiKey>"),
    ("res/values/strings.xml", '<string name="vendor_api_key">{}</string>'),
    ("a.py", 'u = "https://api.acme.io/v1?api_key={}&x=1"'),
    ("build.gradle", 'buildConfigField "String", "API_KEY", "\\"{}\\""'),
    ("a.bat", 'setx VENDOR_API_KEY "{}"'),
    ("CMakeLists.txt", 'set(VENDOR_TOKEN "{}")'),
    ("a.ipynb", '    "API_TOKEN = \\"{}\\"\\n",'),
    ("a.sh", 'gh secret set DEPLOY_TOKEN --body "{}"'),
    ("notes.md", "The vendor access key is {}"),
    ("notes.md", "api key: `{}`"),
    ("a.sql", "INSERT INTO settings VALUES ('api_token', '{}');"),
    ("a.http", "X-Vendor-Access-Token: {}"),
    ("application.properties", "vendor.api.key={}"),
    ("Makefile", "VENDOR_TOKEN := {}"),
    ("a.sh", "tool --vendor-api-key {} run"),
    ("a.py", "Client(vendor_api_key='{}', x=1)"),
    ("a.js", "const k = process.env.VENDOR_KEY || '{}';"),
    ("a.sh", "git clone https://{}@git.acme.io/a/b.git"),
    ("a.yml", "vendor_token: {}"),
    ("a.r", 'api_token <- "{}"'),
    ("A.java", 'client.setApiKey("{}");'),
    ("php.ini", "mysqli.default_pw = {}"),
    ("a.sh", "aws configure set aws_secret_access_key {}"),
    ("auth.json", '{{"github-oauth":{{"github.com":"{}"}}}}'),
]


@pytest.mark.parametrize(("path", "line"), NAMED)
@pytest.mark.parametrize(
    "secret",
    [
        RANDOM_HEX,
        "b0x3u-k9lib-ohp_rgl4-7zkq2w8v5n1m",  # words by chance
        "q7rk2zt9lw4xc8vb1nm6hg3jd5fs0paw",
    ],
)
def test_a_named_secret_in_any_language(path: str, line: str, secret: str) -> None:
    cleaned, notes = redact(line.format(secret).encode(), path)
    assert with_mark(cleaned, "*") == line.format("*")
    assert len(notes) == 1


@pytest.mark.parametrize("name", ["HUBSPOT_API_KEY", "clientSecret", "access_token"])
def test_a_uuid_after_the_name_of_a_key_of_a_service_is_one(name: str) -> None:
    for line in (f'{name} = "{{}}"', f'x.set("{name}", "{{}}")', f"{name}: {{}}"):
        assert UUID.encode() not in redact(line.format(UUID.upper()).encode(), "a.py")[0]
        assert UUID.encode() not in redact(line.format(UUID).encode(), "a.py")[0]


@pytest.mark.parametrize(
    "secret",
    [
        "A3-A1B2C3-D4E5F6-G7H8J-K9L1M-N2P3Q-R4S5T",
        f"LTAI{ALNUM[:20]}",
        "FLWSECK_TEST-" + HEX[:12],
        f"glcbt-zZ_{ALNUM[:20]}",
        f"pat.{ALNUM[:22]}.{ALNUM[:24]}.{ALNUM[:20]}",
        "SK" + HEX[:32].upper(),
        f"AKCp{ALNUM[:69]}",
        f"4b1d{ALNUM[:38]}",
        f"fo1_{ALNUM[:43]}",
        f"rk_prod_{ALNUM[:24]}",
        f"sgp_{HEX[:40].upper()}",
        f"duffel_test_{ALNUM[:43]}",
        "SUA" + "QB7C2D" * 9 + "E",
        f"s.{'aB3dE6gH9jK2' * 2}",
    ],
)
def test_other_forms_of_keys(secret: str) -> None:
    cleaned, notes = redact(f"client = Client('{secret}')\n".encode(), "a.py")
    assert secret.encode() not in cleaned
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("genome.fa", "ATAACacagtagtagcatactgctaagaaagacagatggagaaaatatgg"),
        ("genome.fa", "ACTTTACacacacacacacacacacacacacacacacacacac"),
        ("setup.sql", "set password_encryption = 'scram-sha-256';"),
        ("policies.json", '"GetPasswordData": "ec2:GetPasswordData",'),
        ("api.ts", "const gs: jose.GenerateSecretAlgorithm = 'A128CBC-HS256'"),
        ("jwe.js", f"encrypted_key: '{BASE62}',"),
        ("Url.kt", "* | `http://a%20b:c%20d@host/`       | `c%20d`"),
        ("src/jvmTest/resources/urls.txt", "http://a:b@www.example.com  s:http u:a pass:b"),
        ("accounts.conf", "nkey: UAQB7C2DQB7C2DQB7C2DQB7C2DQB7C2DQB7C2DQB7C2DQB7C2DQB7C2D"),
        ("jwk.js", f"n: 'unH59k4-QfEJC-zm7Uihx_{BASE62}'"),
    ],
)
def test_what_real_repositories_contain_is_left_alone(path: str, text: str) -> None:
    assert redact(text.encode(), path) == (text.encode(), [])


def test_data_of_a_long_line_does_not_begin_where_it_is_cut() -> None:
    """A part of a line in base64 began with the letters of a key."""
    data = "Zk9+" * 500 + "aws" + "Qm3/" * 49 + "x/EAA" + "b4Bc" * 30
    for shift in range(12):
        line = f'font = "{"a" * shift}{data}"\n'.encode()
        assert redact(line, "a.py") == (line, [])


def _pem(begin: str = "-----BEGIN RSA PRIVATE KEY-----") -> str:
    lines = ["q7Rk2Zt9Lw4Xc8Vb1Nm6Hg3Jd5Fs0Pa/" * 2] * 5
    return "\n".join([begin, *lines, "q7Rk2Zt9Lw==", begin.replace("BEGIN", "END"), ""])


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", ""])
def test_a_private_key_in_base64_goes_whole(kind: str) -> None:
    encoded = base64.b64encode(_pem(f"-----BEGIN {kind}PRIVATE KEY-----").encode()).decode()
    wrapped = "".join(f"    {line}\n" for line in textwrap.wrap(encoded, 76))
    for text in (f"key: {encoded}\nnext: 1\n", f"key: |\n{wrapped}next: 1\n"):
        cleaned, notes = redact(text.encode(), "a.yml")
        assert not re.search(rb"[A-Za-z0-9+/]{60}", cleaned)
        assert cleaned.endswith(b"next: 1\n")
        assert len(notes) == 1


@pytest.mark.parametrize(
    "text",
    [
        _pem("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"),
        "key=" + quote(_pem()),
        "key=" + quote_plus(_pem()),
        "RWRTY0Iy" + "q7Rk2Zt9" * 24 + "==",
        "xprv" + ("q7Rk2Zt9Lw4Xc8Vb1Nm6Hg3Jd5Fsj" * 4)[:107],
        '{"kty": "RSA", "p": "' + "q7Rk2Zt9-w4Xc8Vb_Nm6Hg3Jd5Fs0Pa" * 2 + '"}',
        '{"kty": "oct", "k": "' + "q7Rk2Zt9-w4Xc8Vb_Nm6Hg3Jd5Fs0Pa" * 2 + '"}',
        "<RSAKeyValue><D>" + "q7Rk2Zt9+w4Xc8Vb/Nm6Hg3Jd5Fs0Pa" * 2 + "=</D></RSAKeyValue>",
    ],
)
def test_other_forms_of_private_keys(text: str) -> None:
    cleaned, notes = redact(text.encode(), "a.txt")
    assert b"q7Rk2Zt9" not in cleaned
    assert len(notes) == 1


KEY_LINES = [
    "-----BEGIN RSA PRIVATE KEY-----",
    *["q7Rk2Zt9Lw4Xc8Vb1Nm6Hg3Jd5Fs0Pa/" * 2] * 3,
    "onlyLetters",
    "q7Rk2ZtLw==",
    "-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize(
    ("first", "line", "last"),
    [
        ("k = '{}\\n' +\n", "  '{}\\n' +\n", "  '{}'\n"),
        ('sb.append("{}\\n");\n', 'sb.append("{}\\n");\n', 'sb.append("{}");\n'),
        ('k = "{}" & vbCrLf & _\n', '  "{}" & vbCrLf & _\n', '  "{}"\n'),
        ("k = ['{}',\n", "  '{}',\n", "  '{}'].join(x)\n"),
        ("/// {}\n", "/// {}\n", "/// {}\n"),
        ("  // {}\r\n", "  // {}\r\n", "  // {}\r\n"),
        (" * {}\n", " * {}\n", " * {}\n"),
        ('{{"key": "{}\\n', "{}\\n", '{}\\n"}}'),
        ("<key>{}&#10;", "{}&#10;", "{}</key>"),
        ('k = "{}\\n" + ', '"{}\\n" + ', '"{}"'),
        ('k = """{}\\\n', "{}\\\n", '{}"""'),
    ],
)
def test_code_and_comments_around_a_private_key_stay(first: str, line: str, last: str) -> None:
    """The signs that join strings, the marks of comments and the names of functions were taken for data."""

    def written(begin: str, *data: str) -> str:
        return "".join([first.format(begin), *(line.format(one) for one in data[:-1]), last.format(data[-1])])

    cleaned, notes = redact(written(*KEY_LINES).encode(), "a.txt")
    assert cleaned.decode() == written(KEY_LINES[0], "[redacted: Private Key]", "", "", "", "", KEY_LINES[-1])
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.t", "stream[256..319] = EAAAE1629F4D0B2ABE666FE1183E9A99"),
        ("a.yml", 'auth_keycloak_url: "http://localhost:8080"'),
        ("a.go", 'PKCS12SecretKey = "keystore.p12"'),
        ("a.py", '"CLIENT_SECRET_GENERATOR_CLASS": "oauth2_provider.generators.ClientSecretGenerator",'),
        ("a.ts", "const cbc = await jose.generateSecret('A128CBC-HS256')"),
        ("a.json", '"github_password": "ENC[AES256_GCM,data:wtyRyrcYh1AaoA==,iv:lJKpAdaRjC4jAl+w,type:str]"'),
        (
            "a.json",
            '"ignore_this_key": "https://gist.acme.io/eb4612d295f613ee44bada6e30e2a856/raw/29edbda41bcb"',
        ),
        ("a.md", '"hydra.openid.id-token:public:9a458aa3-65a0-4982-835f-343eec45183c" and'),
        ("a.json", "https://api.acme.io/x?page_token=eyJvZmZzZXQiOiI1MCIsInYiOjJ9"),
        ("a.py", 'idempotency_key="KG5LxwFBepaKHyUD"'),
        ("ci.yml", "  root-keys: 7541f32a4ccca4f97aea3b22f5e593ba2c0267546016b992dfadcd2fe944e55d"),
        (".env", "SSO_CLIENT_SECRET=AAAAAAAAAAAAAAAAAAAAAAAA"),
        (".env", 'JWT_SECRET="CHANGE-THIS! VERY IMPORTANT!"'),
        (".env", "KEYCLOAK_SECRET_URL=http://localhost:8080"),
        ("a.yml", "gitlab_api_token: glpat-XXXXXXXXXXXXXXXXXXXX"),
        ("a.py", '"https://hooks.slack.com/services/TXX/BYY/ZZZ"'),
        ("a.json", '"singleTeamBotToken": "xoxb-12345-12345-abcabc",'),
        ("a.R", 'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"'),
        ("a.rs", "    pub batch_set_key: Opaque3dBatchSetKey,"),
        ("a.h", "__m512i const data_key    = _mm512_xor_si512     (data_vec, key_vec);"),
        ("a.xcscmblueprint", '"PrimaryRemoteRepositoryKey" : "D2AD29AE1B693121D0EDBB4855C96B75ECBB0D86",'),
        ("a.f90", "  call r8_legendre_2_polynomial_value_and_derivative ( n )"),
        ("a.js", 'fetch("https://maker.ifttt.com/trigger/door/with/key/my-secret-key-goes-here")'),
        ("a.html", f'<td id="diff-{HEX[3:67]}HL1"'),
        ("a.rb", '"assetToken": "Purple62/v4/08/0a/04/080a0430-c2cc-2577-f491-9e0a09c58ffe/mzl.jpg",'),
        ("a.mk", "gpg --recv-key 1EB2638FF56C0C53"),
        ("a.vtc", '-hdr "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="'),
        ("text", "cityeventscrappingrueflutterflowest1-us1-plenitravel"),
        ("a.fa", " AKCVIMRLEPSTWQHGDNFYAKCVIM"),
        ("a.ipynb", '"image/png": "' + "x9Fk2+" * 40 + "sk" + "aB3dE6gH9jK2" * 14 + '+x"'),
    ],
)
def test_what_other_repositories_contain_is_left_alone(path: str, line: str) -> None:
    assert redact(line.encode(), path) == (line.encode(), [])


@pytest.mark.parametrize(
    ("path", "line", "secret"),
    [
        ("a.py", 'url = "https://acme.io/x?api_key={}&page=2"', "oVpRegoBEbt6OzeL"),
        ("a.js", "// token={}", "uMUauJ3J7lJkvRbt"),
        ("a.go", 'req.Header.Set("Cookie", "auth_token={}; path=/")', "kmMglVzwQR6HvvxK07ZI"),
        ("a.ex", '"api_key: {}"', "oqMxFIPekasVVF73XRd4"),
        ("a.py", "    app_key: {}", "j4JyCYfefWHhgFgiZUqRm63AXHNZQyPGBfJtAzmN"),  # in a docstring
        ("a.py", "x = 'https://acme.io/{}'", "ghp_q7RkbZtcLwdXceVbfNmgHghJd5FsiPaBcDe1/user"),
        ("a.py", 'PAGERDUTY_ROUTING_KEY = "{}"', "R2d1f0e9c8b7a6f5e4d3c2b1a0f9e8d7"),
        (".env", "HOOK_SECRET={}", f"https://hooks.acme.io/{ALNUM[:32]}"),
        ("a.py", 'db_password = "{}"', "summer.winter84"),
    ],
)
def test_a_secret_like_a_name_or_a_word_is_found(path: str, line: str, secret: str) -> None:
    """In strings and comments of code, beside words of addresses, and among dots."""
    cleaned, notes = redact(line.format(secret).encode(), path)
    assert with_mark(cleaned, secret) == line.format(secret)
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.properties", "spring.datasource.password=${{DB_PASSWORD:{}}}"),
        ("a.yml", "password: {}  # of the database"),
        ("a.ini", "password = {} ; of the database"),
    ],
)
def test_what_stands_behind_a_bare_password_stays(path: str, line: str) -> None:
    """A brace went with it, and with a comment it was shown."""
    cleaned, notes = redact(line.format("db-57xsl").encode(), path)
    assert with_mark(cleaned, "*") == line.format("*")
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        (
            "url: mysql://root:x9Kd3m1Q@db:3306/x",
            "url: mysql://root:[redacted:Basic Auth Credentials]@db:3306/x",
        ),
        ("- --api-token=x9Kd3m1Qr7Tb5Wn8", "- --api-token=[redacted:Named Secret]"),
        ("run: deploy --token x9Kd3m1Qr7Tb5Wn8", "run: deploy --token [redacted:Named Secret]"),
        (f"auth: Bearer {SECRETS['GitHub Token']}", "auth: Bearer [redacted:GitHub Token]"),
        ("password: x9Kd3m1Qr7Tb5Wn8", "password: [redacted:Named Secret]"),
        ('password: "x9Kd3m1Qr7Tb5Wn8"', 'password: "[redacted:Named Secret]"'),
    ],
)
def test_a_mark_is_no_name_of_yaml(line: str, cleaned: str) -> None:
    assert redact(line.encode(), "a.yml")[0].decode() == cleaned
    assert yaml.safe_load(cleaned)


@pytest.mark.parametrize(
    "value", ["vzihlaquknriqlht", "kutrotccbdmdsqz0qje5twysiwbxdmuq", "6Ph62VBBJOccmtTPZbubiPzdrhipZXtg"]
)
def test_letters_at_random_are_a_secret(value: str) -> None:
    for path, line in (("a.py", 'password = "{}"'), ("a.js", "const secret = '{}'")):
        assert value.encode() not in redact(line.format(value).encode(), path)[0]


@pytest.mark.parametrize(
    "value", ["internationalization", "applicationcontextfactory", "xmlhttprequestbuilder"]
)
def test_words_in_one_are_no_secret(value: str) -> None:
    line = f'password = "{value}"'.encode()
    assert redact(line, "a.py") == (line, [])


@pytest.mark.parametrize(
    "secret",
    [
        f"da2-{HEX[:26]}", f"odt_{ALNUM[:32]}", f"shltm_{ALNUM[:40]}", f"ion_{HEX[:42]}", f"NRAA-{HEX[:27]}",
        f"NRIQ-{ALNUM[:32]}", f"pypi-AgEIcHlwaS5vcmc{ALNUM[:52]}", f"00Dq7Rk2Zt9Lw4X!{ALNUM[:96]}",
        f"hawk.{ALNUM[:20]}.{ALNUM[:20]}", f"eyJ0eXAiOiAiVENWMiJ9.{ALNUM[:36]}.{ALNUM[:48]}",
        f"BBFF-{ALNUM[:30]}", f"VF.DM.{HEX[:24]}.{ALNUM[:16]}", f"1000.{HEX[:32]}.{HEX[:32]}",
        f"sl.{ALNUM[:136]}", f"dp.pt.{ALNUM[:40]}", f"access-sandbox-{UUID}",
        f"https://hooks.zapier.com/hooks/catch/1234567/{ALNUM[:7].lower()}/",
        f"https://maker.ifttt.com/trigger/door/with/key/{ALNUM[:22]}",
        f"https://outlook.office.com/webhook/{UUID}@{UUID}/IncomingWebhook/{HEX[:32]}/{UUID}",
    ],
    ids=lambda secret: secret[:12],
)  # fmt: skip
def test_further_shapes_of_services(secret: str) -> None:
    cleaned, notes = redact(f'client = Client("{secret}")\n'.encode(), "a.py")
    assert secret[-20:].encode() not in cleaned
    assert len(notes) == 1


def test_detectors_take_linear_time() -> None:
    """Google-re2 searches all but what has only bounded repetitions: a name and 3,900 spaces took minutes."""
    for detector in secrets.detectors().values():
        for pattern in getattr(detector, "denylist", ()):
            if isinstance(pattern, re.Pattern):
                assert re.search(r"(?<!\\)[*+]|\{[0-9]*,\}", pattern.pattern) is None, pattern.pattern
    assert not isinstance(secrets.linear(re.compile("key *= +")), re.Pattern)
    assert isinstance(secrets.linear(re.compile(r"key(?!\w)")), re.Pattern)


@pytest.mark.parametrize("before", ["", "x ", "x = '", "['"])
@pytest.mark.parametrize("after", ["", "'", "' x"])
def test_detectors_find_on_google_re2_what_they_do_in_python(before: str, after: str) -> None:
    found = 0
    mapping: dict[str, type] = get_mapping_from_secret_type_to_class()  # its annotation is too narrow
    classes = {cls.__name__: cls for cls in mapping.values()}
    for name in DETECTORS:
        for pattern in getattr(classes[name], "denylist", ()):
            for value in ("0a" * 24, "0a" * 22, "0a" * 32, "abcd" * 6, "0" * 36):
                for key in ("cl_key", "softlayer_key", "ibm-iam-key", "cos_secret_access_key"):
                    line = f"{before}{key} = '{value}{after}{key}={value}"
                    both = [one.findall(line) for one in (pattern, secrets.linear(pattern))]
                    assert both[0] == both[1]
                    found += len(both[0])
    assert found


# Each took seconds, or did not end: a line of names, names before spaces, spaces before and after a comment.
HOSTILE = [
    *("pwd=", "password=", "secret_", "api_key: ", 'token="', 'pwd="', 'secret"', "pwd=secret_api_key: "),
    *("eyJ", "sk-T3BlbkFJ", "//:_authToken", "aws'", "token:", "secret_ pwd"),
]
SPACED = [
    *("secret_key{} '", "ibm_key{}" + "0a" * 25, "cloudant_key{}'", "softlayer_key{}'"),
    *('password = "x1y2z3w4a"{}=', 'password = "x1y2z3w4a" #{}', "password: x1y2z3w4a{}y"),
    "password = '" + "abcdefghijklmnopqrst." * 9 + "!1'{}",
]


@pytest.mark.parametrize("path", ["a.py", "a.yml", ".env"])
def test_no_line_takes_endless_time(path: str) -> None:
    """The promise of SECURITY.md, for lines just short enough to be searched for words."""
    for unit in HOSTILE:
        redact((unit * (3_900 // len(unit))).encode(), path)
    for line in SPACED:
        redact(line.format(" " * 3_900).encode(), path)


@pytest.mark.parametrize("unit", ["eyJ", "sk_", "ACDEFGHIKLMNPQRSTVWY", "eyJa.eyJb."])
def test_a_long_line_is_searched_once_for_each_part(unit: str) -> None:
    """Each match was looked at, and the rest of a word was read for each of them: 2 to 4 s for 1 MB."""
    content = (unit * (400_000 // len(unit))).encode()
    redact(b"sk_", "a.py")
    started = time.process_time()
    assert redact(content, "a.py") == (content, [])
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "words",
    [
        "Jelszó megváltoztatása",
        "Zmień hasło użytkownika",
        "Benutzerpasswortänderung",
        "Unohdettusalasanalomake",
    ],
)
def test_words_of_other_languages_are_no_letters_at_random(words: str) -> None:
    line = f'  "change-password": "{words}",\n'.encode()
    assert redact(line, "locales/x.json") == (line, [])


@pytest.mark.parametrize("groups", [10, 200, 800])
@pytest.mark.parametrize("around", ["", "let x = 1; " * 500])
def test_a_signed_token_with_many_claims_is_found(groups: int, around: str) -> None:
    claims = json.dumps({"sub": "x", "groups": [f"group-{number}" for number in range(groups)]})
    parts = ('{"alg":"RS256","typ":"JWT"}', claims, "\x7f\x01" * 128)
    token = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    cleaned, notes = redact(f'{around}token = "{token}";{around}'.encode(), "a.js")
    assert cleaned.decode() == f'{around}token = "[redacted: JSON Web Token]";{around}'
    assert len(notes) == 1


def test_a_secret_behind_data_of_a_long_line_is_found() -> None:
    secret = SECRETS["Anthropic API Key"]
    line = f'{{"image": "{"aB3d" * 2_000}", "key": "{secret}", "x": "{"aB3d" * 2_000}"}}'
    assert with_mark(redact(line.encode(), "a.json")[0], secret) == line
