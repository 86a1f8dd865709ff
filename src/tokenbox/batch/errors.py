"""What can be wrong with a batch as a whole, and with one row of it.

A :class:`BatchError` ends the run. A :class:`RowError` is the result of its row, and the run goes on.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class BatchError(TokenboxError):
    """A run cannot begin or go on."""

    code = "batch_error"


class InvalidPlan(BatchError):
    """Options that do not go together, or a value that is not valid."""

    code = "batch_invalid_plan"


class InvalidAddress(BatchError):
    """The input cannot be read, or the output cannot be written. ``details["address"]`` says where."""

    code = "batch_address"


class RunDiffers(BatchError):
    """The output holds another run: of other options, or of another input. Nothing was changed."""

    code = "batch_run_differs"


class WorkersFailed(BatchError):
    """Worker processes end before they do any work."""

    code = "batch_workers_failed"


class RowsFailed(BatchError):
    """``--fail-fast``: a row failed, so the run ended. ``details["error"]`` is the error of that row."""

    code = "batch_rows_failed"


class RowError(TokenboxError):
    """A row that cannot be compiled for a reason of its own: it lacks a column, it is too large ..."""

    code = "row_invalid"


class RowUnreadable(RowError):
    """A line that is not JSON, or not UTF-8."""

    code = "row_unreadable"


class RowTooLarge(RowError):
    """A row with more bytes than a row may have. ``details`` has ``bytes`` and ``limit``."""

    code = "row_too_large"


class RowKillsWorkers(RowError):
    """A row was set aside: every worker process that compiled it was killed."""

    code = "row_kills_workers"


class RowFailed(RowError):
    """A bug met in one row; the others are compiled."""

    code = "row_internal_error"
