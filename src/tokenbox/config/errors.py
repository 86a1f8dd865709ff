"""The errors of settings, with file, line and key.

TokenboxError
└── ConfigError            config_invalid, and the narrower codes of :class:`ConfigCode`
"""

from __future__ import annotations

from enum import StrEnum

from tokenbox.errors import TokenboxError


class ConfigCode(StrEnum):
    """The narrower codes of a :class:`ConfigError`. Stable: programs may branch on them."""

    SYNTAX = "config_syntax"  # not TOML, a key twice, nested too deeply
    UNREADABLE = "config_unreadable"  # no file, too large, not UTF-8, no permission
    UNKNOWN_KEY = "config_unknown_key"
    WRONG_TYPE = "config_wrong_type"
    BAD_VALUE = "config_bad_value"
    SECRET = "config_secret"  # noqa: S105  # a secret key in a file
    AMBIGUOUS = "config_ambiguous"  # contradicting entries for one model
    EXISTS = "config_exists"
    NOT_WRITTEN = "config_not_written"


class ConfigError(TokenboxError, code="config_invalid"):
    """A setting is invalid. ``details``: ``file``, ``line`` (from 1) and ``key``; None if unknown."""

    def __init__(
        self,
        message: str,
        *,
        code: ConfigCode,
        where: str | None = None,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
        **details: object,
    ) -> None:
        if where is None and file is not None:
            where = file if line is None else f"{file}:{line}"
        super().__init__(
            f"{where}: {message}" if where else message, file=file, line=line, key=key, **details
        )
        self.code = code.value  # type: ignore[misc]  # narrower than the class's own
