"""Settings from flags, environment, files and defaults, each with its source.

    config = load(Path.cwd(), os.environ, {"policy.headroom": "0.1"})
    config.value("policy.headroom")     Decimal("0.1")
    config.source("policy.headroom")    "the flag --headroom"
    config.policy_for("gpt-5")          max_ctx, reserve_out, headroom, strategy, tokenizer

The order of precedence: flags, environment, remembered choices (``.tokenbox/state.json``), the project's
files (``.tokenbox/config.toml``, then ``[tool.tokenbox]`` in ``pyproject.toml``), the user's own file,
defaults. All keys are in :mod:`tokenbox.config.keys`.
"""

from typing import TYPE_CHECKING

from tokenbox.config.config import Config, Connection, ModelPolicy
from tokenbox.config.errors import ConfigError
from tokenbox.config.keys import KEYS, SettingKey
from tokenbox.config.loading import current, load, reload
from tokenbox.config.reading import find_project, user_file
from tokenbox.config.setting import Level, Origin, Setting
from tokenbox.config.state import forget, read_state, remember
from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    from tokenbox.config.writing import init, write_setting

__all__ = [
    "KEYS",
    "Config",
    "ConfigError",
    "Connection",
    "Level",
    "ModelPolicy",
    "Origin",
    "Setting",
    "SettingKey",
    "current",
    "find_project",
    "forget",
    "init",
    "load",
    "read_state",
    "reload",
    "remember",
    "user_file",
    "write_setting",
]

if not TYPE_CHECKING:
    __getattr__ = on_first_use(__name__, {"writing": "init write_setting"})  # a writer of TOML
