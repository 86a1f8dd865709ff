"""``tokenbox ask``: one question and its answer, for scripts and pipes."""

from __future__ import annotations

import sys

from tokenbox.cli.options import AS_JSON, argument
from tokenbox.cli.outcome import Exit, UsageProblem
from tokenbox.cli.shell import BUDGET, ENDPOINT, MODEL, SYSTEM, configured, environment
from tokenbox.cli.streams import STDIN, read_bytes, write_record


def ask(
    question: list[str] = argument("QUESTION...", "The question."),
    model: str | None = MODEL,
    endpoint: str | None = ENDPOINT,
    budget: int | None = BUDGET,
    system: str | None = SYSTEM,
    as_json: bool = AS_JSON,
) -> int:
    """Ask a model one question.

    Standard input becomes the context of the question, cut to the token budget: of a text that is too long,
    the beginning and the end are kept, and a note tells the model and you that the middle was left out.

    Example: git diff | tokenbox ask "Is there a bug in this?"
    """
    from tokenbox.cli import screens
    from tokenbox.shell.asking import ask as ask_model
    from tokenbox.shell.build import ShellOptions, begin

    text = " ".join(question).strip()
    if not text:
        raise UsageProblem("the question is empty.")
    piped = b"" if sys.stdin is None or sys.stdin.isatty() else read_bytes(STDIN)
    screen = screens.QuietScreen() if as_json else screens.PipeScreen()
    config = configured(model, budget, system)
    session = begin(
        screen,
        config,
        environment(config, keep=True),
        ShellOptions(endpoint, must_answer=True),
    )
    try:
        result = ask_model(session, text, piped)
    finally:
        session.close()
    if as_json:
        write_record("answer", result.to_dict())
    return Exit.INTERRUPTED if result.stopped else Exit.OK
