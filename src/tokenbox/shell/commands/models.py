"""Models, who counts for them, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.config.setting import shown
from tokenbox.errors import TokenizerError
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
    """The models in the settings, and those that the current server lists; the current one has a *."""
    if arguments:
        raise BadArguments(":models takes nothing.")
    current = session.models.target.model
    listed = [("*" if name == current else "", name) for name in session.models.listed()]
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
    if listed:
        session.screen.text("")
        session.screen.table(("", f"served at {session.models.target.root}; :model takes one"), listed)


def tokenize(session: Session, arguments: str) -> None:
    """What counts for the current model, and whether its server can; or the tokens of a text, one by one."""
    if arguments == "probe":
        session.models.probe_again()
    elif arguments:
        show_tokens(session, arguments)
        return
    target = session.models.target
    probe = session.models.count_text("hello world")
    rows = [("model", session.models.name or "none"), ("endpoint", target.endpoint or "none")]
    asked = "yes" if target.use_tokenize_endpoint else "no (tokenize.use_endpoint = false)"
    rows.append(("may be asked for counts", asked))
    if target.endpoint is not None:
        supported = tokenize_supported(target.endpoint)
        said = _SUPPORTED[supported] + ("; :tokenize probe asks again" if supported is False else "")
        rows.append(("counts texts at /tokenize", said))
    rows.append(("local tokenizer", target.tokenizer or "none: characters / 4"))
    rows.append(("'hello world' is", f"{figure(probe)} tokens ({probe.source})"))
    for counted, record in session.models.calibration.records().items():
        same = f"{record.equal:,} of {record.compared:,} counts were the server's own"
        wrong = f"; {record.difference}" if record.difference is not None else ""
        rows.append((f"compared, {counted.model}", same + wrong))
    session.screen.table(("who counts", ""), rows)


def show_tokens(session: Session, text: str) -> None:
    """The tokens of a text by the local vocabulary of the model, with what the model counts."""
    counted = session.models.count_text(text)
    tokenizer = session.tokenizer
    try:
        tokens = tokenizer.encode(text)
    except TokenizerError:
        session.screen.text(
            f"{figure(counted)} ({counted.source}); its vocabulary is not here to show the tokens"
        )
        return
    shown = "".join(f"[{tokenizer.decode([token])}]" for token in tokens)
    session.screen.text(
        f"{shown}\n{len(tokens):,} by {tokenizer.identity.name}, {figure(counted)} ({counted.source})"
    )


def config(session: Session, arguments: str) -> None:
    """Every setting in force and where it comes from. A key is only ever the name of its variable."""
    if arguments:
        raise BadArguments(":config takes nothing.")
    rows = [(s.name, shown(s.value), s.source) for s in session.config.settings()]
    session.screen.table(("setting", "value", "from"), rows)
