"""Models, who counts for them, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.config.setting import shown
from tokenbox.providers import tokenize_supported
from tokenbox.shell import turn
from tokenbox.shell.errors import BadArguments
from tokenbox.shell.screen import figure

if TYPE_CHECKING:
    from tokenbox.shell.session import Session

_SUPPORTED = {True: "yes", False: "no", None: "not known yet"}


def model(session: Session, arguments: str) -> None:
    """Show the model, or talk to another from now on; its tokenizer counts at once."""
    models = session.models
    if arguments:
        models.use(arguments)
        session.record.settings_changed()
    if models.target.endpoint is None:
        session.screen.text("there is no model to talk to; :models lists those in your settings")
        return
    total = session.context.total(offered=True)
    session.screen.text(
        f"{models.name}: {models.target.model} at {models.target.root}; "
        f"the context is {figure(total)} tokens ({total.source})"
    )
    turn.fit_window(session)


def models(session: Session, arguments: str) -> None:
    """The models in the settings; the current one has a *."""
    if arguments:
        raise BadArguments(":models takes nothing.")
    rows = []
    for name in session.models.names:
        connection = session.config.connection(name)
        if connection is not None:
            here = "*" if name == session.models.name else ""
            key = connection.key_env or (f"keyring {connection.keyring}" if connection.keyring else "")
            rows.append((here, name, connection.model, connection.kind, connection.endpoint or "", key))
    if rows:
        session.screen.table(("", "name", "model", "kind", "endpoint", "key"), rows)
    else:
        session.screen.text("no models in your settings; write them as [models.NAME] with an endpoint")


def tokenize(session: Session, arguments: str) -> None:
    """Who counts for the current model, and whether its server can."""
    if arguments:
        raise BadArguments(":tokenize takes nothing.")
    target = session.models.target
    probe = session.models.count_text("hello world")
    rows = [("model", session.models.name or "none"), ("endpoint", target.endpoint or "none")]
    asked = "yes" if target.use_tokenize_endpoint else "no (tokenize.use_endpoint = false)"
    rows.append(("may be asked for counts", asked))
    if target.endpoint is not None:
        supported = tokenize_supported(target.endpoint)
        rows.append(("counts texts at /tokenize", _SUPPORTED[supported]))
    rows.append(("local tokenizer", target.tokenizer or "none: characters / 4"))
    rows.append(("'hello world' is", f"{figure(probe)} tokens ({probe.source})"))
    session.screen.table(("who counts", ""), rows)


def config(session: Session, arguments: str) -> None:
    """Every setting in force and where it comes from. A key is only ever the name of its variable."""
    if arguments:
        raise BadArguments(":config takes nothing.")
    rows = [(s.name, shown(s.value), s.source) for s in session.config.settings()]
    session.screen.table(("setting", "value", "from"), rows)
