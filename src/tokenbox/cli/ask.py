"""``tokenbox ask``: one question, one answer, for scripts and pipes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tokenbox.cli.outcome import Exit, UsageProblem, reporting
from tokenbox.cli.shell import BUDGET, ENDPOINT, MODEL, SYSTEM, configured, world
from tokenbox.cli.streams import STDIN, read_bytes, write_record


def ask(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="What to ask.")],
    model: Annotated[str | None, MODEL] = None,
    endpoint: Annotated[str | None, ENDPOINT] = None,
    budget: Annotated[int | None, BUDGET] = None,
    system: Annotated[str | None, SYSTEM] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Ask a model one question.

    What comes in a pipe is its context, cut to the token budget: of a text that is too long head and tail
    are kept, the middle is left out, and the model and you are told so. The answer goes to standard output.

    Example: git diff | tokenbox ask "Is there a bug in this?"
    """
    with reporting(as_json=as_json):
        from tokenbox.cli import screens  # on use
        from tokenbox.shell.asking import ask as asked
        from tokenbox.shell.build import ShellOptions, begin

        said = " ".join(question).strip()
        if not said:
            raise UsageProblem("the question is empty.")
        given = b"" if sys.stdin is None or sys.stdin.isatty() else read_bytes(STDIN)
        screen = screens.QuietScreen() if as_json else screens.PipeScreen()
        session = begin(
            screen,
            configured(model, budget, system),
            world(keep=True),
            ShellOptions(endpoint, must_answer=True),
        )
        try:
            result = asked(session, said, given)
        finally:
            session.close()
        if as_json:
            write_record("answer", result.to_dict())
        return Exit.INTERRUPTED if result.stopped else Exit.OK
