"""What the gateway takes from settings, and what it does not let a folder decide."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.proof.examples import layout_evidence
from tokenbox.compose.requests import By, Count
from tokenbox.config import ConfigError
from tokenbox.config.keys import parse_key
from tokenbox.config.writing import write_setting
from tokenbox.gateway.admission import Counted, judge, refusal_of
from tokenbox.gateway.application import application
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.configured import settings_from
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.services import bundles_of
from tokenbox.gateway.settings import Mode, RequestLimits
from tokenbox.models import resolve_figures
from tokenbox.proof.errors import KeyInvalid
from tokenbox.proof.verify import verify
from tokenbox.store.bundles import ProofNotWritten
from tokenbox.store.key_files import read_public, write_key

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.gateway.settings import GatewaySettings

ELSEWHERE = '[upstreams.x]\nurl = "https://llm.example.org"\nkey_env = "OPENAI_API_KEY"\n'


def write(file: Path, text: str) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return str(file.parent)


def test_a_folder_does_not_send_a_key_to_a_server_of_its_choice(tmp_path: Path) -> None:
    key = "sk-" + "k" * 24
    write(tmp_path / ".tokenbox" / "config.toml", ELSEWHERE)
    with pytest.raises(ConfigError) as refused:
        settings_from(str(tmp_path), {}, env={"OPENAI_API_KEY": key})
    assert "llm.example.org" in refused.value.message
    assert key not in str(refused.value)


def test_the_commands_of_the_errors_let_a_key_be_sent_to_all_addresses(tmp_path: Path) -> None:
    text = (
        ELSEWHERE.replace("[upstreams.x]", '[upstreams."a.b c"]') + 'replicas = ["https://b.example", "{}"]\n'
    )
    write(tmp_path / ".tokenbox" / "config.toml", text.format("https://c.example"))
    env = {"OPENAI_API_KEY": "sk-one", "TOKENBOX_USER_CONFIG": str(tmp_path / "own.toml")}
    for host in ("llm.example.org", "b.example"):
        with pytest.raises(ConfigError, match=f"not sent to https://{host}") as refused:
            settings_from(str(tmp_path), {}, env=env)
        *_, key, value = shlex.split(refused.value.message)
        write_setting(tmp_path / "own.toml", key, value)
    assert settings_from(str(tmp_path), {}, env=env).upstreams[0].key == "sk-one"
    write(tmp_path / ".tokenbox" / "config.toml", text.format("https://evil.example"))
    with pytest.raises(ConfigError, match=r"not sent to https://b\.example"):
        settings_from(str(tmp_path), {}, env=env)


@pytest.mark.parametrize(
    ("key", "problem"),
    [(None, "not set"), (" ", "is empty"), ("sk-ä" * 9, "ASCII"), ("sk-a\nb" * 9, "ASCII")],
)
def test_a_key_that_no_header_can_have_is_found_before_the_start(
    tmp_path: Path, key: str | None, problem: str
) -> None:
    write(tmp_path / ".tokenbox" / "config.toml", ELSEWHERE.replace("llm.example.org", "api.openai.com"))
    env = {} if key is None else {"OPENAI_API_KEY": key}
    with pytest.raises(
        ConfigError, match=rf"upstreams\.x\.key_env names OPENAI_API_KEY.*{problem}"
    ) as refused:
        settings_from(str(tmp_path), {}, env=env)
    assert "sk-" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://api.openai.com", "http://127.0.0.1:9000", "http://localhost:9000"])
def test_its_own_service_and_this_machine_may_have_it(tmp_path: Path, url: str) -> None:
    write(tmp_path / ".tokenbox" / "config.toml", ELSEWHERE.replace("https://llm.example.org", url))
    settings = settings_from(str(tmp_path), {}, env={"OPENAI_API_KEY": "sk-one"})
    assert settings.upstreams[0].key == "sk-one"
    assert "sk-one" not in repr(settings)


def test_the_user_may_send_it_anywhere(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    write(own, ELSEWHERE)
    env = {"OPENAI_API_KEY": "sk-one", "TOKENBOX_USER_CONFIG": str(own)}
    (tmp_path / "folder").mkdir()
    assert settings_from(str(tmp_path / "folder"), {}, env=env).upstreams[0].key == "sk-one"


def test_a_folder_does_not_choose_a_key_of_the_operator_that_it_knows(tmp_path: Path) -> None:
    file = tmp_path / ".tokenbox" / "config.toml"
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TOKENBOX_ADMIN_KEY": "a" * 24}
    write(file, '[gateway]\nadmin_key_env = "PATH"\n')
    with pytest.raises(ConfigError, match="TOKENBOX_ADMIN_KEY"):
        settings_from(str(tmp_path), {}, env=env)
    write(file, '[gateway]\nadmin_key_env = "TOKENBOX_ADMIN_KEY"\n')
    assert settings_from(str(tmp_path), {}, env=env).admin_key == "a" * 24
    own = tmp_path / "own.toml"
    write(own, '[gateway]\nadmin_key_env = "MINE"\n')
    file.unlink()
    mine = {"MINE": "b" * 24, "TOKENBOX_USER_CONFIG": str(own)}
    assert settings_from(str(tmp_path), {}, env=mine).admin_key == "b" * 24


@pytest.mark.parametrize("file", [".tokenbox/config.toml", "pyproject.toml"])
@pytest.mark.parametrize(
    ("key", "value", "option"),
    [
        ("gateway.database", "postgresql://evil.example/x", "--database postgresql://evil.example/x"),
        ("gateway.database", "keys-that-i-know.db", "--database "),
        ("gateway.redis", "redis://evil.example", "--redis redis://evil.example"),
        ("store.database", "keys-that-i-know.db", "TOKENBOX_GATEWAY_DATABASE"),
    ],
)
def test_a_folder_does_not_choose_where_keys_and_quotas_are_kept(
    tmp_path: Path, file: str, key: str, value: str, option: str
) -> None:
    """Its author could bring a database with a key, or a Redis that forgets what was used."""
    table = "[tool.tokenbox]\n" if file == "pyproject.toml" else ""
    write(tmp_path / file, f"{table}{key} = '{value}'\n")
    with pytest.raises(ConfigError, match=rf"{key} is set in {file}:") as refused:
        settings_from(str(tmp_path), {}, env={})
    assert option in refused.value.message
    own = {"gateway.database": "postgresql://mine/x", "gateway.redis": "redis://mine"}
    found = settings_from(str(tmp_path), own, env={})
    assert (found.database, found.redis) == (own["gateway.database"], own["gateway.redis"])
    write(tmp_path / "own.toml", "gateway.database = 'postgresql://mine/x'\n")
    env = {"TOKENBOX_USER_CONFIG": str(tmp_path / "own.toml")}
    if key == "store.database":
        assert settings_from(str(tmp_path), {}, env=env).database == "postgresql://mine/x"


def test_a_folder_does_not_open_this_machine_to_a_page_of_its_author(tmp_path: Path) -> None:
    """Without keys, a page that may ask spends the user's keys of upstreams."""
    site = "https://evil.example"
    write(tmp_path / ".tokenbox" / "config.toml", f'[gateway]\ncors_origins = ["{site}"]\n')
    with pytest.raises(ConfigError, match=f"TOKENBOX_GATEWAY_CORS_ORIGINS={site}"):
        settings_from(str(tmp_path), {}, env={})
    assert settings_from(str(tmp_path), {"gateway.keys": "true"}, env={}).cors_origins == (site,)
    mine = {"TOKENBOX_GATEWAY_CORS_ORIGINS": "https://mine.example,https://other.example"}
    found = settings_from(str(tmp_path), {}, env=mine).cors_origins
    assert found == ("https://mine.example", "https://other.example")


def test_an_application_of_another_server_asks_for_keys_and_may_have_the_sites_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / ".tokenbox" / "config.toml", '[gateway]\ncors_origins = ["https://a.example"]\n')
    monkeypatch.setenv("TOKENBOX_GATEWAY_DATABASE", str(tmp_path / "keys.db"))
    monkeypatch.setenv("TOKENBOX_GATEWAY_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TOKENBOX_USER_CONFIG", "")
    taken: list[GatewaySettings] = []
    monkeypatch.setattr("tokenbox.gateway.application.Stores.open", taken.append)
    monkeypatch.setattr("tokenbox.gateway.application.gateway_of", lambda *_: (None, None))
    application(str(tmp_path))
    assert [(one.keys_required, one.cors_origins) for one in taken] == [(True, ("https://a.example",))]


def test_proofs_do_not_follow_a_link_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    write(folder / ".tokenbox" / "config.toml", "[proof]\nwrite = true\n")
    assert settings_from(str(folder), {}, env={}).proof == str(folder / ".tokenbox" / "proof")
    (tmp_path / "elsewhere").mkdir()
    (folder / ".tokenbox" / "proof").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProofNotWritten):
        settings_from(str(folder), {}, env={})


def test_what_is_not_understood_is_said(tmp_path: Path) -> None:
    write(tmp_path / ".tokenbox" / "state.json", '{"values": {"no.such.key": 1}}')
    said: list[str] = []
    settings_from(str(tmp_path), {}, env={"TOKENBOX_ADMIN_KEY": "a" * 24}, warn=said.extend)
    assert ["no.such.key" in one for one in said] == [True]


def test_the_users_key_signs_what_the_gateway_proves(tmp_path: Path) -> None:
    write_key(tmp_path / "key")
    env = {"TOKENBOX_PROOF_WRITE": "true", "TOKENBOX_PROOF_SIGN_WITH": str(tmp_path / "key")}
    bundles = bundles_of(settings_from(str(tmp_path), {}, env=env))
    assert bundles is not None
    written = bundles.write(layout_evidence())
    assert verify(bundles.files(written.id), written.id, [read_public(tmp_path / "key.pub")]).id == written.id
    assert bundles_of(settings_from(str(tmp_path), {}, env={})) is None
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(KeyInvalid, match="chmod 600"):
        bundles_of(settings_from(str(tmp_path), {}, env=env))


def test_two_upstreams_of_a_command_have_names_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"two upstreams are called a: http://127\.0\.0\.1:1 and http://127\.0\.0\.1:2"
    ):
        settings_from(str(tmp_path), {}, ["a=http://127.0.0.1:1", "a=http://127.0.0.1:2"], env={})


@pytest.mark.parametrize("model", ["any", "gpt-5.1", 'org/own\'s "x"', "a#1", "\U0001f600"])
def test_a_model_without_a_window_gets_one_by_the_command_of_its_refusal(tmp_path: Path, model: str) -> None:
    call = read_call(
        CHAT,
        json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode(),
        RequestLimits(),
    )
    counted = Counted(Count(1, exact=True, at_most=1, by=By.SERVER), "it")
    refusal = refusal_of(call, judge(call, counted, resolve_figures("(private)"), Mode.ENFORCE))
    assert refusal.code == "context_window_unknown"
    program, *command = shlex.split(refusal.message.partition("Run: ")[2])
    assert (program, command[:2], command[3]) == ("tokenbox", ["config", "set"], "8192")
    assert parse_key(command[2]) == ("models", model, "max_ctx")
    write(tmp_path / ".tokenbox" / "config.toml", f"{command[2]} = 8192\n")
    assert settings_from(str(tmp_path), {}, env={}).models[model].max_ctx == 8192
