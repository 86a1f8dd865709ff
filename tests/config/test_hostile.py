"""Bad settings end in one message with file, line and key; never in a traceback, a wait or a lost file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import LOAD_DEPENDENT, examples
from tokenbox.cli import main
from tokenbox.config import Config, ConfigError, forget, init, load, read_state, remember, write_setting
from tokenbox.config.errors import ConfigCode
from tokenbox.config.setting import Level, Origin, Setting
from tokenbox.config.trust import may_have_key, own_paths

if TYPE_CHECKING:
    from collections.abc import Callable

ALONE = {"TOKENBOX_USER_CONFIG": ""}


def loaded(folder: Path, text: str | bytes) -> Config:
    (folder / ".tokenbox").mkdir(exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    (folder / ".tokenbox" / "config.toml").write_bytes(data)
    return load(folder, ALONE)


class Bad(NamedTuple):
    """A file that is refused: with which code, at which line, saying what."""

    text: str | bytes
    code: ConfigCode
    line: int | None
    says: str


BAD = [
    Bad('\nmodle = "x"', ConfigCode.UNKNOWN_KEY, 2, "no key modle. Did you mean model?"),
    Bad("[policy]\nheadrom = 1", ConfigCode.UNKNOWN_KEY, 2, "Did you mean policy.headroom?"),
    Bad("[polcy]\nheadroom = 1", ConfigCode.UNKNOWN_KEY, 1, "Did you mean policy?"),
    Bad("[models.x]\nkeyenv = 'A'", ConfigCode.UNKNOWN_KEY, 2, "Did you mean models.x.key_env?"),
    Bad("[models.gpt-5.1]\nmax_ctx = 3", ConfigCode.UNKNOWN_KEY, 1, '[models."gpt-5.1"]'),
    Bad("[catalog.gpt-5.1-mini]\ndate = 2026-01-01", ConfigCode.UNKNOWN_KEY, 1, '[catalog."gpt-5.1-mini"]'),
    Bad("[pack]\nignore = []", ConfigCode.UNKNOWN_KEY, 1, "[tool.tokenbox.pack] in pyproject.toml"),
    Bad(
        "[policy]\nmax_ctx = '5'",
        ConfigCode.WRONG_TYPE,
        2,
        'policy.max_ctx must be a whole number of tokens, 1 or more, not "5"',
    ),
    Bad("[policy]\nmax_ctx = true", ConfigCode.WRONG_TYPE, 2, "not true"),
    Bad("[policy]\nmax_ctx = 0", ConfigCode.BAD_VALUE, 2, "not 0"),
    Bad("[policy]\nmax_ctx = 1.5", ConfigCode.BAD_VALUE, 2, "not 1.5"),
    Bad(
        "[policy]\nmax_ctx = -9999999999999999999999", ConfigCode.BAD_VALUE, 2, "not -9999999999999999999999"
    ),
    Bad(f"[policy]\nmax_ctx = 0x{'f' * 9999}", ConfigCode.BAD_VALUE, 2, "39,996 bits"),
    Bad(f"[policy]\nmax_ctx = {'9' * 9999}", ConfigCode.SYNTAX, None, "too many digits"),
    Bad("policy.headroom = nan", ConfigCode.BAD_VALUE, 1, "not NaN"),
    Bad("policy.headroom = -inf", ConfigCode.BAD_VALUE, 1, "not -Infinity"),
    Bad("policy.headroom = 1", ConfigCode.BAD_VALUE, 1, "not 1"),
    Bad("policy.headroom = 1e999999999", ConfigCode.BAD_VALUE, 1, "not 1E+999999999"),
    Bad("policy.headroom = '5 %'", ConfigCode.WRONG_TYPE, 1, 'as in "0.05", not "5 %"'),
    Bad("policy.headroom = '٠.١'", ConfigCode.WRONG_TYPE, 1, "must be an exact fraction"),
    Bad("policy.headroom = '10%'", ConfigCode.WRONG_TYPE, 1, "Write 0.1."),
    Bad("tokenize.timeout = '1500 ms'", ConfigCode.WRONG_TYPE, 1, "Write 1.5."),
    Bad("cost.cap_at_dollars = '$5.50'", ConfigCode.WRONG_TYPE, 1, "Write 5.50."),
    Bad("shell.tools = 'on'", ConfigCode.WRONG_TYPE, 1, "Write true."),
    Bad("shell.tools = 0", ConfigCode.BAD_VALUE, 1, "Write false."),
    Bad("gateway.port = '8080'", ConfigCode.WRONG_TYPE, 1, "Write 8080."),
    Bad("gateway.port = 99999", ConfigCode.BAD_VALUE, 1, "from 1 to 65535, not 99999."),
    Bad("[model.x]\nendpoint = 'http://h'", ConfigCode.WRONG_TYPE, 1, "Did you mean [models.NAME]?"),
    Bad("[tool.tokenbox.policy]\nmax_ctx = 5", ConfigCode.UNKNOWN_KEY, 1, "as in [policy]"),
    Bad('"policy.max_ctx" = 5', ConfigCode.UNKNOWN_KEY, 1, "Write policy.max_ctx without quotes."),
    Bad("policy = 3", ConfigCode.WRONG_TYPE, 1, "policy must be a table, [policy]"),
    Bad("models.x = 3", ConfigCode.WRONG_TYPE, 1, "models.x must be a table"),
    Bad("tokenizers.x.y = 3", ConfigCode.WRONG_TYPE, 1, "tokenizers.x must be the name of a tokenizer"),
    Bad("[[models]]\nkind = 'vllm'", ConfigCode.WRONG_TYPE, 1, "models must be a table"),
    Bad("[models.x]\nkind = 'olama'", ConfigCode.BAD_VALUE, 2, "ollama"),
    Bad("[models.x]\nendpoint = 'localhost:8080'", ConfigCode.BAD_VALUE, 2, "as in http://localhost:8080"),
    Bad("shell.allow = [1]", ConfigCode.BAD_VALUE, 1, "a list of texts"),
    Bad("catalog.x.date = 'today'", ConfigCode.BAD_VALUE, 1, "a day"),
    Bad("catalog.x.price_input = 1e-31", ConfigCode.BAD_VALUE, 1, "an amount of dollars"),
    Bad("catalog.x.price_input = 1e31", ConfigCode.BAD_VALUE, 1, "an amount of dollars"),
    Bad("model = ''", ConfigCode.BAD_VALUE, 1, "must be text"),
    Bad('model = "\\u0000"', ConfigCode.BAD_VALUE, 1, "must be text"),
    Bad("model = 1\nmodel = 2", ConfigCode.SYNTAX, 2, "a second time"),
    Bad("a = [[[", ConfigCode.SYNTAX, 1, "not valid TOML"),
    Bad("a = " + "[" * 5000, ConfigCode.SYNTAX, None, "nested"),
    Bad(".".join("a" * 5000) + " = 1", ConfigCode.SYNTAX, 1, "levels deep"),
    Bad(b'model = "\xff"', ConfigCode.UNREADABLE, None, "not UTF-8"),
    Bad('model = "x"'.encode("utf-16"), ConfigCode.UNREADABLE, None, "not UTF-8"),
    Bad(b"#" * (1 << 20) + b"#", ConfigCode.UNREADABLE, None, "1,048,576"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.text[:30]!r}")
def test_what_is_wrong_is_named(tmp_path: Path, bad: Bad) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, bad.text)
    error = caught.value
    assert (error.code, error.details["line"]) == (bad.code.value, bad.line)
    place = ".tokenbox/config.toml" if bad.line is None else f".tokenbox/config.toml:{bad.line}"
    assert error.message.startswith(f"{place}: ")
    assert bad.says in error.message
    assert len(error.message) < 700


SECRETS = [
    "models.x.key = '{}'",
    "models.x.api-key = '{}'",
    "models.x.key_env = '{}'",
    "models.x.keyring = '{}'",
    "models.x.endpoint = 'https://me:{}@host/v1'",
    "models.x.endpoint = 'https://host/v1?api_key={}'",
    "api_key = '{}'",
    "store.database = 'postgresql://me:{}@host/name'",
    "store.database = 'postgresql://host/name?password={}'",
    "model = '{}'",
    "shell.allow = ['ls', '{}']",
    "gateway_token = '{}'",
]
KEY = "sk-proj-abcdefghijklmnop0123456789"


@pytest.mark.parametrize("line", SECRETS)
def test_a_key_in_a_file_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, line.format(KEY))
    said = json.dumps(caught.value.to_dict()) + repr(caught.value)
    assert caught.value.code == ConfigCode.SECRET.value
    assert "abcdefghijklmnop" not in said
    assert ("PGPASSWORD" if "postgresql" in line else "key_env") in said


@pytest.mark.parametrize("text", ["abcdefabcdef0123", "hunter2", KEY])
def test_a_key_where_its_variable_should_be_named_is_never_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"models.x.key_env = '{text}'")
    assert text not in str(caught.value.to_dict())
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "elsewhere", ALONE, {"models.x.key_env": text})
    assert text not in str(caught.value.to_dict())


@pytest.mark.parametrize(
    ("variable", "text"),
    [("TOKENBOX_MODEL", KEY), ("TOKENBOX_POLICY_HEADROOM", "2"), ("TOKENBOX_TOKENIZE_TIMEOUT", "soon")],
)
def test_a_bad_variable_is_named(tmp_path: Path, variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        load(tmp_path, {**ALONE, variable: text})


def test_a_variable_that_is_no_setting_is_told_of_and_stops_nothing(tmp_path: Path) -> None:
    found = load(tmp_path, {**ALONE, "TOKENBOX_MODLE": KEY, "TOKENBOX_MODEL": "m"})
    assert found.value("model") == "m"
    assert found.problems == (
        "the environment has TOKENBOX_MODLE, which is not a setting. Did you mean TOKENBOX_MODEL?",
    )


def outcome(load_it: Callable[[], Config]) -> Config | ConfigError:
    try:
        return load_it()
    except ConfigError as error:
        return error


@settings(
    suppress_health_check=[*LOAD_DEPENDENT, HealthCheck.function_scoped_fixture], max_examples=examples(150)
)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_settings_or_a_clear_error(tmp_path: Path, data: bytes) -> None:
    found = outcome(lambda: loaded(tmp_path, data))
    if isinstance(found, ConfigError):
        assert found.message.startswith(".tokenbox/config.toml")
    else:
        assert found.settings()


values = st.recursive(
    st.integers() | st.booleans() | st.decimals() | st.text(max_size=20) | st.dates(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[*LOAD_DEPENDENT, HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(
        ["policy.headroom", "policy.max_ctx", "model", "shell.allow", "tokenize.timeout", "x.y", ""]
    ),
    values,
)
def test_any_flag_is_a_setting_or_a_clear_error(tmp_path: Path, key: str, value: object) -> None:
    found = outcome(lambda: load(tmp_path, ALONE, {key: value}))
    if isinstance(found, ConfigError):
        assert found.message
    else:
        assert not isinstance(found.value(key), float)


@pytest.mark.parametrize("name", [".tokenbox/config.toml", "pyproject.toml"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / ".tokenbox").mkdir()
    os.mkfifo(tmp_path / name)
    if name == "pyproject.toml":
        assert load(tmp_path, ALONE).value("model") is None
    else:
        with pytest.raises(ConfigError, match="pipe"):
            load(tmp_path, ALONE)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_lock_that_is_no_file_is_not_waited_for_or_followed(tmp_path: Path, kind: str) -> None:
    (tmp_path / ".tokenbox").mkdir()
    lock = tmp_path / ".tokenbox" / "state.lock"
    if kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be remembered"):
        remember(tmp_path, "model", "m")
    assert not (tmp_path / "elsewhere").exists()


def test_the_home_of_nobody_is_the_name_of_a_folder(tmp_path: Path) -> None:
    own = load(tmp_path, ALONE | {"TOKENBOX_CODE_ALLOWED": "~nobody-of-this-name/x"})
    assert own.problems == ()
    own = load(tmp_path, ALONE | {"TOKENBOX_PROOF_TRUSTED": "~nobody-of-this-name/key"})
    assert own_paths(own.setting("proof.trusted")) == [Path("~nobody-of-this-name/key")]


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "config.toml").symlink_to("config.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, ALONE)


def test_a_broken_pyproject_that_is_not_ours_is_none_of_our_business(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other\n# tokenbox\n")
    assert load(tmp_path, ALONE).value("model") is None
    (tmp_path / "pyproject.toml").write_text("[tool.tokenbox]\nmodel = \n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml:2"):
        load(tmp_path, ALONE)


def test_two_entries_for_a_model_that_do_not_agree(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[models.a]\nmodel = "m"\nmax_ctx = 1\n[models.b]\nmodel = "m"\nmax_ctx = 2\n')
    assert found.policy_for("a").max_ctx == 1
    with pytest.raises(
        ConfigError, match=r"models\.a\.max_ctx .* is 1, models\.b\.max_ctx .* is 2"
    ) as caught:
        found.policy_for("m")
    assert caught.value.code == ConfigCode.AMBIGUOUS.value


# What a project's files may not decide for a user.

USERS = """
[cost]
cap_at_dollars = "2"
[shell]
allow = ["git status"]
[models.gpt]
endpoint = "https://mine.example/v1"
"""


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("cost.cap_at_dollars = '9999'", "cost.cap_at_dollars", Decimal(2)),
        ("cost.cap_at_dollars = '1'", "cost.cap_at_dollars", Decimal(1)),
        ("cost.cap_per_day = '1'", "cost.cap_per_day", Decimal(1)),
        ("cost.unpriced = 'allow'", "cost.unpriced", "refuse"),
        ("shell.allow = ['rm']", "shell.allow", ("git status",)),
        ("models.gpt.endpoint = 'https://evil.example/v1'", "models.gpt.endpoint", "https://mine.example/v1"),
        ("models.gpt.endpoint = 'http://localhost:1/v1'", "models.gpt.endpoint", "http://localhost:1/v1"),
        ("models.new.endpoint = 'https://new.example/v1'", "models.new.endpoint", "https://new.example/v1"),
        ("store.database = 'postgresql://evil.example/x'", "store.database", None),
        ("store.database = '/somewhere/else.db'", "store.database", None),
        ("store.database = '../else.db'", "store.database", None),
        ("store.database = '~/else.db'", "store.database", None),
        (
            "store.database = '~nobody-of-this-name/own.db'",
            "store.database",
            Path("~nobody-of-this-name/own.db"),
        ),
        ("store.database = 'own.db'", "store.database", Path("own.db")),
        ("tokenize.use_endpoint = true", "tokenize.use_endpoint", True),
        (
            "tokenize.use_endpoint = true\nmodels.new.endpoint = 'https://evil.example/v1'",
            "tokenize.use_endpoint",
            False,
        ),
        (
            "tokenize.use_endpoint = true\nmodels.new.endpoint = 'http://127.0.0.1:8080'",
            "tokenize.use_endpoint",
            True,
        ),
    ],
)
@pytest.mark.parametrize("file", [".tokenbox/config.toml", "pyproject.toml"])
def test_a_project_does_not_decide_for_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, key: str, value: object
) -> None:
    monkeypatch.chdir(tmp_path)  # where an address is like the path of a file in the project
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / file).write_text(("[tool.tokenbox]\n" if file == "pyproject.toml" else "") + text + "\n")
    (tmp_path / "user.toml").write_text(USERS)
    config = load(tmp_path, {"TOKENBOX_USER_CONFIG": str(tmp_path / "user.toml")})
    expected = str(tmp_path / value) if isinstance(value, Path) else value  # from the project's folder
    assert config.value(key) == expected
    stated = text.partition(" = ")[2].partition("\n")[0].strip("'[]").removeprefix("'")
    counts = stated in {str(value), str(value).lower()}
    assert [key in problem for problem in config.problems] == ([] if counts else [True])


def test_both_files_of_a_project_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "config.toml").write_text("tokenize.use_endpoint = true\n")
    server = "[tool.tokenbox.models.m]\nendpoint = 'https://evil.example/v1'\n"
    (tmp_path / "pyproject.toml").write_text(server)
    assert load(tmp_path, ALONE).value("tokenize.use_endpoint") is False


@pytest.mark.parametrize(
    ("endpoint", "may"),
    [
        ("https://api.openai.com/v1", True),
        ("https://api.openai.com:443/v1", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com:8443/v1", False),
        ("https://evil.example/v1", False),
        ("http://127.0.0.1:9/v1", True),
        ("http://127.0.0.2:9/v1", True),
        ("http://[::1]:9/v1", True),
        ("http://localhost:9/v1", True),
        ("http://localhost.evil.example/v1", False),
        ("http://127.0.0.1.evil.example/v1", False),
        ("http://localhost@evil.example/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://api.openai.com:99999/v1", False),
        ("http://[::1/v1", False),
    ],
)
def test_a_key_goes_encrypted_to_its_own_service(endpoint: str, *, may: bool) -> None:
    address = Setting(("models", "m", "endpoint"), endpoint, Origin(Level.PROJECT, "config.toml"))
    assert may_have_key(address, "OPENAI_API_KEY") is may


def test_a_key_goes_to_an_address_that_the_user_states_too(tmp_path: Path) -> None:
    """The error of a key that is not sent tells to state it: `tokenbox config set --user`."""
    (tmp_path / ".tokenbox").mkdir()
    text = "models.m.endpoint = 'https://a.example'\nupstreams.u.url = 'https://a.example'\n"
    for file, stated in (
        ("alone.toml", ""),
        ("other.toml", text.replace("a.ex", "b.ex")),
        ("same.toml", text),
    ):
        (tmp_path / ".tokenbox" / "config.toml").write_text(text)
        (tmp_path / file).write_text(stated)
        config = load(tmp_path, {"TOKENBOX_USER_CONFIG": str(tmp_path / file)})
        model, upstream = config.setting("models.m.endpoint"), config.setting("upstreams.u.url")
        is_same = file == "same.toml"
        assert may_have_key(upstream, "KEY") is is_same
        assert may_have_key(model, "KEY") is (
            is_same or file == "other.toml"
        )  # the other one is the user's own
        assert model.value == ("https://b.example" if file == "other.toml" else "https://a.example")
        assert upstream.value == "https://a.example"


# State.


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"values": 3}',
        "\xff",
        "[" * 100_000,
        '{"values": {"model": "old"}, "version": 2}',
        '{"values": {}, "max_ctx": 9}',
        '{"values": {"model": 7}}',
    ],
)
def test_a_state_that_cannot_be_used_is_told_of_and_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "state.json").write_bytes(content.encode("latin-1"))
    found = load(tmp_path, ALONE)
    assert found.value("model") is None
    (problem,) = found.problems
    assert "state.json" in problem
    assert ("tokenbox config forget model" in problem) == content.endswith("7}}")
    remember(tmp_path, "model", "new")
    assert load(tmp_path, ALONE).value("model") == "new"
    assert load(tmp_path, ALONE).problems == ()


def test_a_state_with_half_a_character_can_be_written_again(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "state.json").write_text('{"version": 1, "values": {"\\ud800": 2}}')
    remember(tmp_path, "model", "héllo")
    assert read_state(tmp_path).values == {"\ud800": 2, "model": "héllo"}
    assert len(load(tmp_path, ALONE).problems) == 1


def test_a_choice_is_remembered_until_it_is_forgotten(tmp_path: Path) -> None:
    remember(tmp_path, "model", "héllo")
    assert read_state(tmp_path).values == {"model": "héllo"}
    assert load(tmp_path, ALONE).source("model") == ".tokenbox/state.json"
    forget(tmp_path, "model")
    assert load(tmp_path, ALONE).value("model") is None
    for key, value in [("policy.headroom", "0.1"), ("nonsense", 1), ("model", 7)]:
        with pytest.raises(ConfigError, match=r"cannot be remembered|must be"):
            remember(tmp_path, key, value)


WRITERS = 5
WRITE = """
import sys
from pathlib import Path
from tokenbox.config import state
root, who = Path(sys.argv[1]), sys.argv[2]
for n in range(20):
    state._change(root, {who: n, f"{who}-{n}": n})
"""

FOREVER = """
import sys
from pathlib import Path
from tokenbox.config import remember
for n in range(10**9):
    remember(Path(sys.argv[1]), "model", f"m{n}" * 1000)
    if n == 3:
        print("at work", flush=True)
"""


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), f"w{n}"]) for n in range(WRITERS)
    ]
    while any(writer.poll() is None for writer in writers):
        assert read_state(tmp_path).problems == ()  # never half of a file
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    values = read_state(tmp_path).values
    assert values == {
        **{f"w{n}": 19 for n in range(WRITERS)},
        **{f"w{n}-{i}": i for n in range(WRITERS) for i in range(20)},
    }
    left = {path.name for path in (tmp_path / ".tokenbox").iterdir()}
    assert left == {"state.json", "state.lock"}


def test_a_writer_that_is_killed_leaves_a_whole_state_and_no_lock(tmp_path: Path) -> None:
    remember(tmp_path, "model", "before")
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", FOREVER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()  # it is at work
            writer.kill()
        state = read_state(tmp_path)
        assert state.problems == ()
        assert str(state.values["model"]).startswith("m")
        remember(tmp_path, "model", "mine")  # nobody holds the lock any more
        assert read_state(tmp_path).values == {"model": "mine"}


def test_a_state_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox" / "state.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be remembered") as caught:
        remember(tmp_path, "model", "m")
    assert caught.value.code == ConfigCode.NOT_WRITTEN.value


@pytest.mark.parametrize("command", ["init --force", "config set model m", "config set --remember model m"])
def test_a_file_in_place_of_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tokenbox").write_text("a file where the folder should be")
    assert main(command.split()) == 2
    assert ".tokenbox is not a folder. Rename or remove it. (config_not_written)" in capsys.readouterr().err


def test_the_file_that_cannot_be_replaced_is_named_and_not_its_draft(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox" / "config.toml").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"/config\.toml cannot be written: Is a directory\."):
        init(tmp_path, force=True)


# Writing settings.


def test_init_writes_what_can_be_read_and_overwrites_only_if_told(tmp_path: Path) -> None:
    assert [path.name for path in init(tmp_path)] == ["config.toml", ".gitignore"]
    file = tmp_path / ".tokenbox" / "config.toml"
    template = file.read_text()
    assert load(tmp_path, ALONE).layers[-1] == {}
    # Every line that is commented out is a good one.
    bare = "\n".join(
        line.removeprefix("# ")
        if line.startswith(("# [", "# ")) and (" = " in line or line.startswith("# ["))
        else line
        for line in template.splitlines()
    )
    file.write_text(bare)
    found = load(tmp_path, ALONE)
    assert len(found.layers[-1]) > 10
    with pytest.raises(ConfigError, match="--force"):
        init(tmp_path)
    assert file.read_text() == bare
    assert [path.name for path in init(tmp_path, force=True)] == ["config.toml"]
    assert file.read_text() == template


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "model", "m", 'model = "m"\n'),
        ("", "policy.headroom", "0.10", '[policy]\nheadroom = "0.10"\n'),
        ("# mine\n[policy] # p\nmax_ctx = 5\n", "policy.max_ctx", "6", "# mine\n[policy] # p\nmax_ctx = 6\n"),
        ("[policy]\nmax_ctx = 5", "policy.headroom", "0", '[policy]\nmax_ctx = 5\nheadroom = "0"\n'),
        ("[policy]\nmax_ctx = 5\n", "model", "m", 'model = "m"\n\n[policy]\nmax_ctx = 5\n'),
        (
            "[tokenizers]\nbaselines = [\n  'gpt-bpe', # x\n]\nheuristic = true\n",
            "tokenizers.baselines",
            "gpt-bpe,llama3-bpe",
            '[tokenizers]\nbaselines = ["gpt-bpe", "llama3-bpe"]\nheuristic = true\n',
        ),
        ("[shell]\n", 'models."a.b".max_ctx', "7", '[shell]\n\n[models."a.b"]\nmax_ctx = 7\n'),
        ("policy.max_ctx = 5\r\n", "policy.max_ctx", "6", "policy.max_ctx = 6\n"),
        (
            "policy = {max_ctx = 5, headroom = 0.1}\n",
            "policy.max_ctx",
            "6",
            "policy = {max_ctx = 6, headroom = 0.1}\n",
        ),
        (
            "[policy]  # p\nmax_ctx = 5  # five\n# end\n\n[shell]\nprompt = 'x'\n",
            "policy.max_ctx",
            "6",
            "[policy]  # p\nmax_ctx = 6  # five\n# end\n\n[shell]\nprompt = 'x'\n",
        ),
    ],
)
def test_a_setting_is_written_where_it_belongs(
    tmp_path: Path, before: str, key: str, value: str, after: str
) -> None:
    loaded(tmp_path, before)
    file = tmp_path / ".tokenbox" / "config.toml"
    write_setting(file, key, value)
    assert file.read_text() == after
    assert str(load(tmp_path, ALONE).value(key)) in (value, "('gpt-bpe', 'llama3-bpe')")


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


@settings(
    suppress_health_check=[*LOAD_DEPENDENT, HealthCheck.function_scoped_fixture], max_examples=examples(60)
)
@given(
    st.lists(
        st.tuples(st.sampled_from(["model", "shell.prompt", "models.x.model", 'models."é ]".model']), texts)
    )
)
def test_what_is_written_is_what_is_read(tmp_path: Path, writes: list[tuple[str, str]]) -> None:
    loaded(tmp_path, "# a comment\n[policy]\nheadroom = 0.1\n")
    for key, text in writes:
        write_setting(tmp_path / ".tokenbox" / "config.toml", key, text)
    found = load(tmp_path, ALONE)
    assert {key: found.value(key) for key in dict(writes)} == dict(writes)
    assert found.source("policy.headroom").startswith(".tokenbox/config.toml:")


@pytest.mark.parametrize("command", ["init --force", "config set model m", "config set --remember model m"])
def test_a_link_as_the_projects_folder_does_not_choose_which_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (other / "config.toml").write_text("model = 'mine'\n")
    (project / ".tokenbox").symlink_to(other)
    monkeypatch.chdir(project)
    assert main(command.split()) == 2
    assert "link that leads out of the project" in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["config.toml"]
    assert (other / "config.toml").read_text() == "model = 'mine'\n"


@pytest.mark.parametrize(("key", "value"), [("models.x.key_env", KEY), ("model", KEY), ("models.x.key", "x")])
def test_a_key_is_not_written(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write_setting(tmp_path / ".tokenbox" / "config.toml", key, value)
    assert KEY not in str(caught.value.to_dict())
    assert not (tmp_path / ".tokenbox" / "config.toml").exists()


def test_a_config_that_is_wrong_is_not_made_worse(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    file = tmp_path / ".tokenbox" / "config.toml"
    file.write_text("model = [\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        write_setting(tmp_path / ".tokenbox" / "config.toml", "model", "m")
    assert file.read_text() == "model = [\n"


def test_a_star_is_a_name_only_where_it_is_a_pattern(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[models."*"]\nmax_ctx = 5')
    assert found.value(("models", "*", "max_ctx")) == 5
    with pytest.raises(ConfigError, match=r"there is no key catalog\.\"\*\"\.price_input"):
        loaded(tmp_path, '[catalog."*"]\nprice_input = 5')
    with pytest.raises(ConfigError, match=r"Did you mean models\.NAME\.max_ctx\?"):
        found.value("models.gpt.max_ctx.x")


def test_a_projects_file_names_no_keys(tmp_path: Path) -> None:
    found = loaded(tmp_path, "[proof]\nsign_with = 'key'\n")
    with pytest.raises(ConfigError, match=r"config set --user proof\.sign_with"):
        own_paths(found.setting("proof.sign_with"))
    own = load(tmp_path, ALONE | {"TOKENBOX_PROOF_SIGN_WITH": "~/key"})
    assert own_paths(own.setting("proof.sign_with")) == [Path("~/key").expanduser()]
    assert own_paths(own.setting("proof.trusted")) == []


def test_a_file_of_a_project_is_the_same_from_each_of_its_folders(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox/config.toml").write_text("store.database = 'own.db'\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "own.db").symlink_to(tmp_path.parent / "elsewhere.db")  # a link that the project brings
    config = load(inner, {"TOKENBOX_USER_CONFIG": ""})
    assert config.value("store.database") == str(tmp_path / "own.db")
