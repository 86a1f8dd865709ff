"""Commands on models and their counters, and on the settings, which ``:set`` changes for this session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tokenbox.config.keys import key_of
from tokenbox.config.setting import Level, Origin, Setting, setting_text
from tokenbox.config.values import from_text
from tokenbox.errors import TokenizerError
from tokenbox.providers import tokenize_supported
from tokenbox.shell.errors import BadArguments
from tokenbox.shell.room import fit_window, summarizer
from tokenbox.shell.screen import in_tokens
from tokenbox.shell.settings import PromptTemplate, ShellSettings

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

_SUPPORTED = {True: "yes", False: "no; :tokenize probe asks again", None: "not known yet"}


def model(session: Session, arguments: str) -> None:
    """Show the model, or switch to another, whose tokenizer then counts."""
    models = session.models
    if arguments:
        models.use(arguments)
        session.record.settings_changed()
    if models.target.endpoint is None:
        session.screen.text("no model is chosen; :models lists those in your settings")
        return
    total = session.context.total(offered=True)
    served = "" if models.target.model == models.name else f", {models.target.model},"
    session.screen.text(
        f"{models.name}{served} at {models.target.root}; "
        f"the context is {in_tokens(total)}, counted by: {total.source}"
    )
    fit_window(session)


def models(session: Session, _: str) -> None:
    """List the models of the settings and of the current server. A * marks the current one."""
    current = session.models.target.model
    listed = [("*" if name == current else "", name) for name in session.models.listed()]
    rows = []
    for name in session.models.names:
        connection = session.config.connection(name)
        if connection is not None:
            mark = "*" if name == session.models.name else ""
            key = connection.key_env or (f"keyring {connection.keyring}" if connection.keyring else "")
            rows.append((mark, name, connection.model, connection.kind, connection.endpoint or "", key))
    if rows:
        session.screen.table(("", "name", "model", "kind", "endpoint", "key"), rows)
    else:
        session.screen.text("no models in your settings; add one as [models.NAME] with an endpoint")
    if listed:
        session.screen.text("")
        session.screen.table(("", f"served at {session.models.target.root}; :model takes one"), listed)


def tokenize(session: Session, arguments: str) -> None:
    """Show the counter of the current model and whether its server can count, or the tokens of a text."""
    if arguments == "probe":
        session.models.probe_again()
    elif arguments:
        show_tokens(session, arguments)
        return
    target = session.models.target
    probe = session.models.count_text("hello world")
    rows = [("model", session.models.name or "none"), ("endpoint", target.endpoint or "none")]
    allowed = "yes" if target.use_tokenize_endpoint else "no (tokenize.use_endpoint = false)"
    rows.append(("may be asked for counts", allowed))
    if target.endpoint is not None:
        rows.append(("counts texts at /tokenize", _SUPPORTED[tokenize_supported(target.endpoint)]))
    rows.append(("local tokenizer", target.tokenizer or f"none is set: {session.tokenizer.identity.name}"))
    rows.append(("'hello world' is", f"{in_tokens(probe)} ({probe.source})"))
    for counted, record in session.models.calibration.records().items():
        equal = f"{record.equal:,} of {record.compared:,} counts equal the server's"
        difference = f"; {record.difference}" if record.difference is not None else ""
        rows.append((f"compared, {counted.model}", equal + difference))
    session.screen.table(("counter", ""), rows)


def show_tokens(session: Session, text: str) -> None:
    """Show the tokens of a text in the model's local vocabulary, and the model's own count."""
    counted = session.models.count_text(text)
    tokenizer = session.tokenizer
    try:
        tokens = tokenizer.encode(text)
    except TokenizerError:
        session.screen.text(
            f"{counted} ({counted.source}); without its vocabulary, the tokens cannot be shown"
        )
        return
    shown = "".join(f"[{tokenizer.decode([token])}]" for token in tokens)
    name = tokenizer.identity.name
    local = "" if counted.source.endswith(name) else f"{len(tokens):,} by {name}, "
    session.screen.text(f"{shown}\n{local}{counted} ({counted.source})")


def config(session: Session, _: str) -> None:
    rows = [(s.name, setting_text(s.value), s.source) for s in session.config.settings()]
    session.screen.table(("setting", "value", "from"), rows)


TABLES: Final = ("shell", "cost")


def setting_names(session: Session) -> list[str]:
    return [setting.name for setting in session.config.settings() if setting.key[0] in TABLES]


def change(session: Session, arguments: str) -> None:
    """List the settings of the shell, or change one for this session. No file is changed."""
    name, _, text = arguments.partition(" ")
    if not arguments:
        rows = [(s.name, *_in_force(session, s)) for s in session.config.settings() if s.key[0] in TABLES]
        session.screen.table(("setting", "value", "from"), rows)
        return
    keys = [(table, name.removeprefix(f"{table}.")) for table in TABLES]
    key, row = next(((key, row) for key in keys if (row := key_of(key)) is not None), (keys[0], None))
    if row is None:
        raise BadArguments(f"there is no setting {name[:40]!r} to change here. :set lists them.")
    if not text.strip():
        session.screen.text(f"{'.'.join(key)} = {_in_force(session, session.config.setting(key))[0]}")
        return
    value = from_text(row, text.strip())
    if value is None:
        raise BadArguments(
            f"{'.'.join(key)} is {row.expected}, not {text.strip()[:40]!r}.{row.correction(text.strip())}"
        )
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
