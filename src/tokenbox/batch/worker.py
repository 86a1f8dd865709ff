"""The program of a worker process: it reads jobs from stdin, and writes marks and records to stdout."""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import BatchError
from tokenbox.batch.work import compile_shard
from tokenbox.errors import TokenboxError
from tokenbox.named_code import allow

if TYPE_CHECKING:
    from typing import BinaryIO


def main() -> None:
    """Serve until stdin ends, or until the reader of stdout is gone."""
    jobs = sys.stdin.buffer
    # Other code may print, which must not get between the pickles.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    allow(*pickle.load(jobs))  # noqa: S301  # from the process that started this one
    plan, expected = pickle.load(jobs)  # noqa: S301  # from the process that started this one
    compiler = RowCompiler(plan, expected)
    while True:
        try:
            job = pickle.load(jobs)  # noqa: S301  # from the process that started this one
        except EOFError:
            return
        try:
            for event in compile_shard(job, plan, compiler):
                _send(event, out)
        except BrokenPipeError:
            return
        except TokenboxError as error:
            _send(error, out)
        except Exception as error:  # noqa: BLE001  # a bug must not look like a killed worker
            _send(BatchError(f"{type(error).__name__}: {error}. This is a bug in tokenbox."), out)


def _send(value: Any, out: BinaryIO) -> None:  # noqa: ANN401  # an event or an error
    pickle.dump(value, out)
    out.flush()
