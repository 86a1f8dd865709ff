"""The API keys of the models: where they come from, which server may have them, and how texts hide them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tokenbox.config.trust import may_have_key, not_sent
from tokenbox.config.values import looks_secret
from tokenbox.errors import needing
from tokenbox.providers.target import MIN_HIDDEN, ApiKey
from tokenbox.shell.errors import KeyNotSent

if TYPE_CHECKING:
    from tokenbox.config import Config, Connection

KEYRING_SERVICE: Final = "tokenbox"
# Variables that look like keys by their name, such as GITHUB_TOKEN.
_KEY_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


class ModelKeys:
    """The API keys of the configured models, from the environment or the keyring only.

    Other variables that look like keys are hidden, too.
    """

    def __init__(self, config: Config, variables: Mapping[str, str]) -> None:
        self._config, self._variables = config, variables
        self._found: dict[tuple[str, str], ApiKey | None] = {}
        self._named = {config.value(("models", name, "key_env")) for name in config.names("models")}
        self._hidden: list[str] = []
        """The texts to hide, the longest first: one may begin with another."""
        self.learn(variables)

    def learn(self, variables: Mapping[str, str]) -> None:
        """Use the keys in these variables, and hide them. The path of a file with a key is not hidden."""
        self._variables, self._found = variables, {}
        for name, value in variables.items():
            is_key = _KEY_NAME.search(name) is not None and not _is_path(value)
            if is_key or name in self._named or looks_secret(value):
                self._hide(value)

    def of(self, connection: Connection) -> ApiKey | None:
        """Return the key of a model, or None if it needs none. Raises :class:`KeyNotSent`, ``InvalidTarget``.

        The settings of a folder, which others may have written, must not send a key to a server of their
        choice.
        """
        kind = "key_env" if connection.key_env else "keyring"
        name = connection.key_env or connection.keyring
        if name is None:
            return None
        setting = self._config.setting(("models", connection.name, "endpoint"))
        if not may_have_key(setting, name):
            host = urlsplit(connection.endpoint or "").hostname
            raise KeyNotSent(not_sent(setting, host, name), model=connection.name, host=host)
        return self._look_up(kind, name)

    def hidden_in(self, text: str) -> str:
        """Return ``text`` with every known key hidden."""
        for key in self._hidden:
            text = text.replace(key, "***")
        return text

    def unfinished(self, text: str) -> int:
        """Return the number of characters at the end of ``text`` that may be the beginning of a key."""
        longest = min(len(text), len(self._hidden[0])) if self._hidden else 0
        ends = (text[-size:] for size in range(longest, 0, -1))
        return next((len(end) for end in ends if any(key.startswith(end) for key in self._hidden)), 0)

    def without(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables without those that contain a key, and those that a setting names as one."""
        return {
            name: value
            for name, value in variables.items()
            if name not in self._named and self.hidden_in(value) == value
        }

    def _look_up(self, kind: str, name: str) -> ApiKey | None:
        if (kind, name) not in self._found:
            value = self._variables.get(name) if kind == "key_env" else _from_keyring(name)
            self._found[kind, name] = ApiKey(value) if value and value.strip() else None
            self._hide(value or "")
        return self._found[kind, name]

    def _hide(self, key: str) -> None:
        key = key.strip()
        if len(key) >= MIN_HIDDEN and key not in self._hidden:
            self._hidden.append(key)
            self._hidden.sort(key=len, reverse=True)


class KeyFilter:
    """Shows a streamed text with keys hidden. A server may repeat its key, split over several pieces."""

    def __init__(self, keys: ModelKeys, show: Callable[[str], object]) -> None:
        self._keys, self._show = keys, show
        self._held = ""

    def show(self, piece: str) -> None:
        text = self._keys.hidden_in(self._held + piece)
        ready = len(text) - self._keys.unfinished(text)
        self._held = text[ready:]
        if ready:
            self._show(text[:ready])

    def end(self) -> None:
        if self._held:
            self._show(self._held)
            self._held = ""


def _is_path(text: str) -> bool:
    """Return whether a text is a path: of an existing first folder, as a key may begin with a slash."""
    return text.startswith(("~", ".")) or (text[:1] == "/" and os.path.exists(f"/{text.split('/')[1]}"))


def _from_keyring(entry: str) -> str | None:
    with needing("reading keys from the keyring", "shell"):
        import keyring
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(KEYRING_SERVICE, entry)
    except KeyringError as error:
        raise KeyNotSent(
            f"the keyring cannot be read ({type(error).__name__}), so the key {entry} is unknown. "
            "Unlock it, or use key_env.",
            entry=entry,
        ) from None
