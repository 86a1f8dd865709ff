"""The errors of a batch and of its rows.

A :class:`BatchError` ends the run. A :class:`RowError` is the result of its row, and the run continues.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class BatchError(TokenboxError):
    """A run cannot start or continue."""

    code = "batch_error"


class InvalidPlan(BatchError):
    """An option has an invalid value, or options contradict each other."""

    code = "batch_invalid_plan"


class InvalidAddress(BatchError):
    """The input cannot be read, or the output cannot be written. ``details["address"]`` has its address."""

    code = "batch_address"


class RunDiffers(BatchError):
    """The output holds another run, with other options or another input. Nothing was changed."""

    code = "batch_run_differs"


class WorkersFailed(BatchError):
    """Worker processes end before doing any work."""

    code = "batch_workers_failed"


class RowsFailed(BatchError):
    """A row failed in a run with ``--fail-fast``. ``details["error"]`` is the error of that row."""

    code = "batch_rows_failed"


class RowError(TokenboxError):
    """A row cannot be compiled: it lacks a column, or is too large, for instance."""

    code = "row_invalid"


class RowUnreadable(RowError):
    """A line is not JSON, or not UTF-8."""

    code = "row_unreadable"


class RowTooLarge(RowError):
    """A row exceeds the size limit. ``details`` has ``bytes`` and ``limit``."""

    code = "row_too_large"


class RowKillsWorkers(RowError):
    """A row was skipped because every worker process that compiled it was killed."""

    code = "row_kills_workers"


class RowFailed(RowError):
    """A bug in tokenbox made one row fail; the others are compiled."""

    code = "row_internal_error"
