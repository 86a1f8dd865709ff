"""The errors of a batch and of its rows.

A :class:`BatchError` ends the run. A :class:`RowError` is the result of its row, and the run continues.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class BatchError(TokenboxError, code="batch_error"):
    """A run cannot start or continue."""


class InvalidPlan(BatchError, code="batch_invalid_plan"):
    """An option has an invalid value, or options contradict each other."""


class InvalidAddress(BatchError, code="batch_address"):
    """The input cannot be read, or the output cannot be written. ``details["address"]`` has its address."""


class RunDiffers(BatchError, code="batch_run_differs"):
    """The output holds another run, with other options or another input. Nothing was changed."""


class WorkersFailed(BatchError, code="batch_workers_failed"):
    """Worker processes end before doing any work."""


class RowsFailed(BatchError, code="batch_rows_failed"):
    """A row failed in a run with ``--fail-fast``. ``details["error"]`` is the error of that row."""


class RowError(TokenboxError, code="row_invalid"):
    """A row cannot be compiled: it lacks a column, or is too large, for instance."""


class RowUnreadable(RowError, code="row_unreadable"):
    """A line is not JSON, or not UTF-8."""


class RowTooLarge(RowError, code="row_too_large"):
    """A row exceeds the size limit. ``details`` has ``bytes`` and ``limit``."""


class RowKillsWorkers(RowError, code="row_kills_workers"):
    """A row was skipped because every worker process that compiled it was killed."""


class RowFailed(RowError, code="row_internal_error"):
    """A bug in tokenbox made one row fail; the others are compiled."""
