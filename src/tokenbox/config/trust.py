"""Restrictions on settings in a project's files, which another person may have written."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.setting import Level, Setting, setting_text
from tokenbox.files import is_inside
from tokenbox.named_code import allow, allow_entries, is_code

if TYPE_CHECKING:
    from tokenbox.config.keys import KeyName

# The hosts to which a project's settings may send a key: its own service, and this machine.
_HOSTS_OF_KEYS: Final = {"OPENAI_API_KEY": "api.openai.com", "ANTHROPIC_API_KEY": "api.anthropic.com"}


def may_have_key(address: Setting, where: str) -> bool:
    """Return whether the server at ``address`` may receive the key in ``where``, a variable or keyring entry.

    Addresses in flags, the environment or the user's own file always may; addresses in a project's files only
    if they are this machine, or the key's own service, encrypted.
    """
    if address.origin.level is not Level.PROJECT or _is_here(address.value):
        return True
    host = _HOSTS_OF_KEYS.get(where)
    return host is not None and _origin(address.value) in (("https", host, None), ("https", host, 443))


def not_sent(address: Setting, server: str | None, where: str) -> str:
    """Return why the key in ``where`` is not sent to a ``server``, with a command to trust ``address``."""
    return (
        f"the key {where} is not sent to {server}: that address comes from {address.source}, which others "
        "may have written. If you trust it: tokenbox config set --user "
        f"{shlex.quote(address.name)} {shlex.quote(setting_text(address.value))}"
    )


def _is_here(address: object) -> bool:
    return is_loopback(_origin(address)[1] or "")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host: a name or a bare address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _origin(address: object) -> tuple[str, str | None, int | None]:
    """Return the scheme, host and port of an address; empty parts, if it is not an address."""
    try:
        parts = urlsplit(str(address or ""))
        port = parts.port
    except ValueError:
        return "", None, None
    return parts.scheme, parts.hostname, port


Layer: TypeAlias = "Mapping[KeyName, Setting]"


def without_risks(layers: Sequence[Layer], root: Path | None) -> tuple[list[Layer], list[str]]:
    """Leave out what a project's files may not decide for a user; return the layers, and warnings of it.

    That is where the user's texts, notes and passwords go, what may be spent, and which commands run.
    """
    others = [layer for layer in layers if any(one.origin.level in _BY_OTHERS for one in layer.values())]
    own = [layer for layer in layers if layer not in others]
    kept: list[Layer] = []
    warnings = []
    for layer in layers:
        refused = {
            name: what
            for name, setting in layer.items()
            if setting.origin.level is Level.PROJECT and (what := _risk(setting, others, own, root))
        }
        kept.append({name: _stated(one, own) for name, one in layer.items() if name not in refused})
        warnings += [_refused(layer[name], what) for name, what in refused.items()]
    return kept, warnings


def _stated(setting: Setting, own: Sequence[Layer]) -> Setting:
    """Return addresses of the project as the user's, if the user's own settings have the same ones."""
    if setting.key[-1] not in {"endpoint", "url", "replicas"}:
        return setting
    found = (one[setting.key] for one in own if setting.key in one)
    return next((one for one in found if one.value == setting.value), setting)


def _risk(setting: Setting, others: Sequence[Layer], own: Sequence[Layer], root: Path | None) -> str | None:
    """Return what a project's file may not do with this setting; None if it may have it."""
    value = setting.value
    stated = next((one[setting.key].value for one in own if setting.key in one), None)
    what, is_risk = None, False
    match setting.key:
        case ("shell", "allow"):
            what, is_risk = "may not allow commands", bool(value)
        case ("store", "database"):
            is_risk = root is None or "://" in str(value) or not is_inside(str(value), root)
            what = "may only name a database in its own folder"
        case ("cost", "cap_at_dollars" | "cap_per_day"):
            is_risk = stated is not None and value > stated
            what = "may not raise what you spend"
        case ("cost", "unpriced"):
            what, is_risk = "may not let calls of unknown cost pass", value == "allow"
        case ("models", _, "endpoint"):
            is_risk = stated is not None and value != stated and not _is_here(value)
            what = "may not send requests for your own model elsewhere"
        case ("tokenize", "use_endpoint"):
            settings = (one for layer in others for one in layer.values())
            servers = [one for one in settings if (one.key[0], one.key[-1]) == ("models", "endpoint")]
            is_risk = value is True and not all(_is_here(server.value) for server in servers)
            what = "may not send what is counted to a server that it names"
    return what if is_risk else None


def own_paths(setting: Setting) -> list[Path]:
    """Return the files that a setting names; none if it is unset.

    Raises ``ConfigError`` if a project's file names them: its author would choose this user's keys.
    """
    if setting.origin.level in _BY_OTHERS:
        message = _refused(setting, "may not name keys. Remove it there")
        raise ConfigError(message, code=ConfigCode.BAD_VALUE, key=setting.name)
    value = setting.value
    given = value if isinstance(value, tuple) else () if value is None else (value,)
    return [Path(os.path.expanduser(path)) for path in given]  # never raises


def allow_code(layers: Sequence[Mapping[KeyName, Setting]], root: Path | None) -> list[str]:
    """Allow the code that the user's own settings name, and the code in ``code.allowed``.

    An entry is a ``module:function``, which any file may then name, or a project's folder: the code that the
    project's files name is allowed, and searched there. Entries in a project's own files are ignored; the
    returned warnings name them.
    """
    found = [layer[_ALLOWED] for layer in layers if _ALLOWED in layer]
    own = next((setting for setting in found if setting.origin.level not in _BY_OTHERS), None)
    entries = [] if own is None else own.value
    allow_entries(entries)
    folders = {os.path.realpath(os.path.expanduser(entry)) for entry in entries if not is_code(entry)}
    trusted = root is not None and os.path.realpath(root) in folders
    for layer in layers:
        for name, setting in layer.items():
            if name[-1] not in _NAMES_CODE and name[0] != "tokenizers":
                continue
            if setting.origin.level not in _BY_OTHERS:
                allow(setting.value)
            elif trusted:
                allow(setting.value, folder=str(root))
    return [
        _refused(setting, "may not allow code") for setting in found if setting.origin.level in _BY_OTHERS
    ]


_ALLOWED: Final = ("code", "allowed")
# Keys whose value may name code; and the sources that another person may have written.
_NAMES_CODE: Final = frozenset({"tokenizer", "strategy", "sections", "blocks", "messages"})
_BY_OTHERS: Final = frozenset({Level.PROJECT, Level.STATE})


def _refused(setting: Setting, what: str) -> str:
    return (
        f"{setting.name} is set in {setting.source}, and a project's file {what}. "
        f"Set it for yourself: tokenbox config set --user {setting.name} ..."
    )
