"""Which of several places decides: for every set of them, every key, and the policy of a model."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tokenbox.config import KEYS, Level, current, forget, load, loading, reload, remember
from tokenbox.config.errors import ConfigError
from tokenbox.config.keys import ANY, ValueKind, key_text

if TYPE_CHECKING:
    from tokenbox.config import SettingKey


class Place(NamedTuple):
    """A place where a value may stand, and what a value from there is called."""

    level: Level
    source: str


PLACES = {
    "flag": Place(Level.FLAG, "the flag --model"),
    "environment": Place(Level.ENVIRONMENT, "the environment, TOKENBOX_MODEL"),
    "state": Place(Level.STATE, ".tokenbox/state.json"),
    "config": Place(Level.PROJECT, ".tokenbox/config.toml:2"),
    "pyproject": Place(Level.PROJECT, "pyproject.toml:3"),
    "user": Place(Level.USER, "user.toml:1"),
}
ALL_SUBSETS = [chosen for size in range(len(PLACES) + 1) for chosen in itertools.combinations(PLACES, size)]


@pytest.mark.parametrize("chosen", ALL_SUBSETS, ids="+".join)
def test_the_first_place_that_says_it_decides(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    said = dict.fromkeys(chosen, True)
    (tmp_path / ".tokenbox").mkdir()
    if "config" in said:
        (tmp_path / ".tokenbox" / "config.toml").write_text('# mine\nmodel = "config"\n')
    if "pyproject" in said:
        (tmp_path / "pyproject.toml").write_text('[tool.tokenbox]\n\nmodel = "pyproject"\n')
    if "user" in said:
        (tmp_path / "user.toml").write_text('model = "user"\n')
    if "state" in said:
        remember(tmp_path, "model", "state")
    env = {"TOKENBOX_USER_CONFIG": str(tmp_path / "user.toml")}
    if "environment" in said:
        env["TOKENBOX_MODEL"] = "environment"
    found = load(tmp_path, env, {"model": "flag" if "flag" in said else None}).setting("model")
    if not chosen:
        assert (found.value, found.origin.level, found.source) == (None, Level.DEFAULT, "default")
    else:
        level, source = PLACES[chosen[0]]
        assert (found.value, found.origin.level) == (chosen[0], level)
        assert found.source.removeprefix(f"{tmp_path}/") == source


# One good value for each kind, as TOML, as text, and as it is read.
GOOD: dict[ValueKind, tuple[str, str, object]] = {
    ValueKind.TEXT: ('"some text"', "some text", "some text"),
    ValueKind.TOKENS: ("1_000", "1_000", 1000),
    ValueKind.WINDOW: ("128000", "128000", 128_000),
    ValueKind.COUNT: ("3", "3", 3),
    ValueKind.PORT: ("65535", "65_535", 65535),
    ValueKind.BOOLEAN: ("true", "yes", True),
    ValueKind.HEADROOM: ("0.1", "0.1", Decimal("0.1")),
    ValueKind.SHARE: ('"0.75"', "0.75", Decimal("0.75")),
    ValueKind.SECONDS: ("0.5", ".5", Decimal("0.5")),
    ValueKind.DOLLARS: ('"2.50"', "2.50", Decimal("2.50")),
    ValueKind.TEXTS: ('["ls", "git status"]', "ls, git status", ("ls", "git status")),
    ValueKind.DAY: ("2026-11-21", "2026-11-21", "2026-11-21"),
    ValueKind.ENDPOINT: (
        '"http://localhost:8080/v1"',
        "http://localhost:8080/v1",
        "http://localhost:8080/v1",
    ),
    ValueKind.VARIABLE: ('"OPENAI_API_KEY"', "OPENAI_API_KEY", "OPENAI_API_KEY"),
    ValueKind.TOKENIZER: ('"o200k_base"', "o200k_base", "o200k_base"),
    ValueKind.PATH: ('"some/where"', "some/where", "some/where"),
    ValueKind.DATABASE: ('"postgresql://host/name"', "postgresql://host/name", "postgresql://host/name"),
}


@pytest.mark.parametrize("row", KEYS, ids=lambda row: row.name)
def test_every_key_is_read_from_everywhere(tmp_path: Path, row: SettingKey) -> None:
    toml: str
    text: str
    value: object
    if row.kind is ValueKind.CHOICE:
        toml, text, value = f'"{row.choices[0]}"', row.choices[0], row.choices[0]
    elif row.kind is ValueKind.CHOICES:
        toml, text, value = f'["{row.choices[0]}"]', row.choices[0], (row.choices[0],)
    else:
        toml, text, value = GOOD[row.kind]
    name = tuple("a.b c" if part == ANY else part for part in row.parts)
    (tmp_path / ".tokenbox").mkdir()
    # A project's file allows no commands and names no server (tests/config/test_hostile.py): the user's does.
    is_own = row.name == "shell.allow" or row.kind is ValueKind.DATABASE
    file = tmp_path / ("user.toml" if is_own else ".tokenbox/config.toml")
    file.write_text(f"{key_text(name)} = {toml}\n")
    alone = {"TOKENBOX_USER_CONFIG": str(file) if file.name == "user.toml" else ""}
    found = load(tmp_path, alone).setting(name)
    assert found.value == value
    assert found.source.endswith(f"{file.relative_to(tmp_path)}:1")
    assert type(found.value) is type(value)  # never a float
    flag = load(tmp_path, alone, {key_text(name): text}).setting(name)
    assert (flag.value, flag.origin.level) == (value, Level.FLAG)
    if row.variable is not None:
        variable = load(tmp_path, {**alone, row.variable: text}).setting(name)
        assert (variable.value, variable.origin.level) == (value, Level.ENVIRONMENT)
        assert load(tmp_path, {**alone, row.variable: ""}).setting(name).value == value
    assert [setting.value for setting in load(tmp_path, alone).settings() if setting.key == name] == [value]


def test_a_share_may_be_left_to_what_pays_best(tmp_path: Path) -> None:
    alone = {"TOKENBOX_USER_CONFIG": ""}
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "config.toml").write_text('[shell]\nlow_water = "auto"\n')
    found = load(tmp_path, {**alone, "TOKENBOX_GATEWAY_LOW_WATER": " auto "})
    assert found.value("shell.low_water") == found.value("gateway.low_water") == "auto"
    for wrong in ("automatic", "AUTO", "0", "1.01"):
        with pytest.raises(ConfigError, match='or "auto"'):
            load(tmp_path, alone, {"gateway.low_water": wrong}).value("gateway.low_water")


def test_every_key_has_a_doc_line_and_a_default_that_it_would_take() -> None:
    from tokenbox.config.values import from_toml

    assert len({key.name for key in KEYS}) == len(KEYS)
    for key in KEYS:
        assert key.doc.endswith("."), key
        assert key.default is None or from_toml(key, key.default) == key.default, key


def test_every_key_is_described() -> None:
    described = (Path(__file__).parents[2] / "docs" / "config.md").read_text(encoding="utf-8")
    assert [key.name for key in KEYS if key.parts[-1] not in described and key.parts[-1] != ANY] == []


def test_the_nearest_folder_counts_and_nothing_is_merged_from_above(tmp_path: Path) -> None:
    inner = tmp_path / "inner" / "deeper"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.tokenbox]\nmodel = "outer"\n[tool.tokenbox.policy]\nmax_ctx = 5\n'
    )
    alone = {"TOKENBOX_USER_CONFIG": ""}
    assert load(inner, alone).value("model") == "outer"
    (tmp_path / "inner" / "pyproject.toml").write_text(
        '[project]\nname = "tokenbox-user"\n'
    )  # no table of ours
    assert load(inner, alone).value("model") == "outer"
    (tmp_path / "inner" / ".tokenbox").mkdir()
    found = load(inner, alone)
    assert (found.root, found.value("model"), found.value("policy.max_ctx")) == (
        tmp_path / "inner",
        None,
        None,
    )


def test_what_pack_says_in_pyproject_is_left_to_pack(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.tokenbox]\nmodel = "m"\n[tool.tokenbox.pack]\nignore = ["docs/"]\n'
        '[tool.tokenbox.pack.priority]\n"src/**" = "high"\n'
    )
    found = load(tmp_path, {"TOKENBOX_USER_CONFIG": ""})
    assert [setting.name for setting in found.settings() if setting.origin.level is Level.PROJECT] == [
        "model"
    ]


def test_a_path_is_relative_to_the_project_and_one_of_the_user_to_the_users_file(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    (project / ".tokenbox").mkdir(parents=True)
    (project / "deep").mkdir()
    user.mkdir()
    (project / ".tokenbox" / "config.toml").write_text(
        '[tokenizers]\na = "v/a.json"\nb = "file:b"\nc = "o200k_base"\n'
    )
    (user / "config.toml").write_text('[tokenizers]\nd = "d.model"\ne = "/abs/e.gguf"\n')
    found = load(project / "deep", {"TOKENBOX_USER_CONFIG": str(user / "config.toml")})
    assert found.tokenizer_names() == {
        "a": f"file:{project}/v/a.json",
        "b": f"file:{project}/b",
        "c": "o200k_base",
        "d": f"file:{user}/d.model",
        "e": "file:/abs/e.gguf",
    }


class Policy(NamedTuple):
    """Where ``headroom`` is stated, and what holds for the model ``gpt-5``, called ``mine``."""

    about: str
    flag: str | None
    environment: str | None
    project: str
    user: str
    expected: tuple[str, str]


POLICIES = [
    Policy("nothing", None, None, "", "", ("0", "default")),
    Policy("for all", None, None, "[policy]\nheadroom = 0.1", "", ("0.1", "config.toml:2")),
    Policy(
        "the model's own first",
        *(None, None),
        "[policy]\nheadroom = 0.1\n[models.gpt-5]\nheadroom = 0.2",
        "",
        ("0.2", "config.toml:4"),
    ),
    Policy(
        "by the id at the server",
        *(None, None),
        '[models.mine]\nmodel = "gpt-5"\nheadroom = 0.3',
        "",
        ("0.3", "config.toml:3"),
    ),
    Policy(
        "the project before the user",
        *(None, None),
        "[policy]\nheadroom = 0.1",
        "[models.gpt-5]\nheadroom = 0.4",
        ("0.1", "config.toml:2"),
    ),
    Policy("the user", None, None, "", "[models.gpt-5]\nheadroom = 0.4", ("0.4", "user.toml:2")),
    Policy(
        "a variable before files",
        None,
        "0.5",
        "[models.gpt-5]\nheadroom = 0.2",
        "",
        ("0.5", "POLICY_HEADROOM"),
    ),
    Policy("a flag first", "0.6", "0.5", "[models.gpt-5]\nheadroom = 0.2", "", ("0.6", "--headroom")),
]


@pytest.mark.parametrize("case", POLICIES, ids=lambda case: case.about)
def test_the_policy_of_a_model(tmp_path: Path, case: Policy) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "config.toml").write_text(case.project)
    (tmp_path / "user.toml").write_text(case.user)
    env = {
        "TOKENBOX_USER_CONFIG": str(tmp_path / "user.toml"),
        "TOKENBOX_POLICY_HEADROOM": case.environment or "",
    }
    policy = load(tmp_path, env, {"policy.headroom": case.flag}).policy_for("gpt-5")
    value, source = case.expected
    assert policy.headroom == Decimal(value)
    assert policy.sources["headroom"].endswith(source)
    assert set(policy.sources) == {"max_ctx", "reserve_out", "headroom", "strategy", "tokenizer"}


def test_choices_per_model_are_remembered(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    (tmp_path / ".tokenbox" / "config.toml").write_text("[models.gpt-5]\nmax_ctx = 50\nreserve_out = 5\n")
    remember(tmp_path, "models.gpt-5.max_ctx", "100_000")
    remember(tmp_path, "models.gpt-5.strategy", "window")
    found = load(tmp_path, {}).policy_for("gpt-5")
    assert (found.max_ctx, found.reserve_out, found.strategy) == (100_000, 5, "window")
    assert found.sources["max_ctx"] == ".tokenbox/state.json"
    stated = load(tmp_path, {}).stated("gpt-5")
    assert stated.context_window is not None
    assert stated.context_window.value == 100_000
    forget(tmp_path, "models.gpt-5.max_ctx")
    assert load(tmp_path, {}).policy_for("gpt-5").max_ctx == 50
    for key, value in (("policy.headroom", "0.1"), ("models.gpt-5.max_ctx", "many"), ("nothing", "1")):
        with pytest.raises(ConfigError):
            remember(tmp_path, key, value)
    with pytest.raises(ConfigError, match="nothing is remembered"):
        forget(tmp_path, "models.gpt-5.max_ctx")


def test_what_stands_in_the_state_and_is_not_understood_is_said(tmp_path: Path) -> None:
    (tmp_path / ".tokenbox").mkdir()
    values = {"model": "gpt-5", "policy.headroom": "0.5", "no.such.key": 1, "models.gpt-5.max_ctx": -4}
    (tmp_path / ".tokenbox" / "state.json").write_text(json.dumps({"version": 1, "values": values}))
    found = load(tmp_path, {})
    assert found.value("model") == "gpt-5"
    assert found.value("policy.headroom") == 0
    assert len(found.problems) == 3
    assert all(
        "not understood" in problem and "tokenbox config forget" in problem for problem in found.problems
    )


def test_a_process_that_works_in_many_folders_keeps_the_settings_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reload()
    for number in range(2 * loading._MAX_KEPT + 1):  # noqa: SLF001  # nobody else sees it
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        assert current() is current()
    assert len(loading._kept) <= loading._MAX_KEPT  # noqa: SLF001
    reload()
