"""``:set``: settings of this session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tokenbox.config.keys import key_of
from tokenbox.config.setting import Level, Origin, Setting, setting_text
from tokenbox.config.values import from_text
from tokenbox.shell.errors import BadArguments
from tokenbox.shell.room import summarizer
from tokenbox.shell.settings import PromptTemplate, ShellSettings

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

TABLES: Final = ("shell", "cost")


def names(session: Session) -> list[str]:
    return [setting.name for setting in session.config.settings() if setting.key[0] in TABLES]


def change(session: Session, arguments: str) -> None:
    """List the settings of the shell, or change one for this session. No file is changed."""
    name, _, text = arguments.partition(" ")
    if not arguments:
        rows = [(s.name, *_in_force(session, s)) for s in session.config.settings() if s.key[0] in TABLES]
        session.screen.table(("setting", "value", "from"), rows)
        return
    key = (*name.split("."),) if "." in name else ("shell", name)
    row = key_of(key) if key[0] in TABLES else None
    if row is None:
        raise BadArguments(f"there is no setting {name[:40]!r} to change here. :set lists them.")
    if not text.strip():
        session.screen.text(f"{'.'.join(key)} = {_in_force(session, session.config.setting(key))[0]}")
        return
    value = from_text(row, text.strip())
    if value is None:
        raise BadArguments(f"{'.'.join(key)} is {row.expected}, not {text.strip()[:40]!r}.")
    given = Setting(key, value, Origin(Level.FLAG, ":set"))
    changed = replace(session.config, layers=[{key: given}, *session.config.layers])
    settings, template = ShellSettings.of(changed), PromptTemplate(str(changed.value("shell.prompt")))
    session.config, session.settings, session.template = changed, settings, template
    conversation = session.context.conversation
    conversation.max_turns, conversation.low_water = settings.max_turns, settings.low_water
    session.context.base = settings.system
    conversation.summarize = summarizer(session) if settings.summarize else None
    if key == ("shell", "token_budget"):
        session.set_budget(settings.token_budget)
    if key == ("shell", "tools"):
        session.proposals_on = settings.tools
    session.record.settings_changed()
    session.screen.notice(f"[{'.'.join(key)} is {setting_text(value)} in this session]")


def _in_force(session: Session, setting: Setting) -> tuple[str, str]:
    """Return the value of a setting and its source: the budget may have been changed by other commands."""
    if setting.key == ("shell", "token_budget") and setting.value != session.wanted_budget:
        return setting_text(session.wanted_budget), "this session"
    return setting_text(setting.value), setting.source
