"""A setup hook for Ray's workers: one text kills the process that compiles it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowCompiler

if TYPE_CHECKING:
    from tokenbox.batch.tally import RowResult

DEADLY = "\0 this text ends its process"


def arm() -> None:
    before = RowCompiler.compile_row

    def compile_row(self: RowCompiler, row: Any) -> RowResult:  # noqa: ANN401  # the signature of the method
        if isinstance(row, dict) and row.get("text") == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(self, row)

    RowCompiler.compile_row = compile_row  # type: ignore[method-assign]
