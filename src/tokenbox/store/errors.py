"""The errors of the store.

    StoreError                      store_error
    ├── StoreUnavailable            store_unavailable           missing or unreachable
    ├── StoreBusy                   store_busy                  locked by others for too long
    ├── StoreFull                   store_full                  no space left
    ├── StoreReadOnly               store_read_only
    ├── StoreDamaged                store_damaged               not a database, or damaged
    ├── NotAStore                   not_a_store                 the database of another program
    ├── StoreTooNew                 store_too_new               written by a newer tokenbox
    └── SessionError                session_error
        ├── InvalidSession          invalid_session             an invalid name, turn or saved session
        ├── UnknownSession          unknown_session
        ├── AmbiguousSession        ambiguous_session           the beginning of several names
        ├── DuplicateSession        duplicate_session
        └── SessionChanged          session_changed             another process wrote to it

Each is a :class:`~tokenbox.errors.TokenboxError`. A method that raises one has changed nothing.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class StoreError(TokenboxError):
    """The store cannot be read or written."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database is missing, cannot be reached, or its connection was lost."""

    code = "store_unavailable"


class StoreBusy(StoreError):
    """Other processes locked the database for too long. A retry is safe."""

    code = "store_busy"


class StoreFull(StoreError):
    """There is no space left. Nothing was written."""

    code = "store_full"


class StoreReadOnly(StoreError):
    """The database may only be read."""

    code = "store_read_only"


class StoreDamaged(StoreError):
    """The file is not a database, or is damaged. It was not changed."""

    code = "store_damaged"


class NotAStore(StoreError):
    """The file is the database of another program. It was not changed."""

    code = "not_a_store"


class StoreTooNew(StoreError):
    """A newer tokenbox has changed the schema. ``details``: ``version`` and ``known``."""

    code = "store_too_new"


class SessionError(StoreError):
    """A session cannot be used as asked."""

    code = "session_error"


class InvalidSession(SessionError):
    """The name of a session, a turn or a saved session is not valid."""

    code = "invalid_session"


class UnknownSession(SessionError):
    """No session has that name or id, nor begins with it."""

    code = "unknown_session"


class AmbiguousSession(SessionError):
    """Several sessions have names that begin with the given text. ``details["names"]`` lists them."""

    code = "ambiguous_session"


class DuplicateSession(SessionError):
    """A session of that name exists already."""

    code = "duplicate_session"


class SessionChanged(SessionError):
    """Another process wrote to the session. Open it again to read its current turns."""

    code = "session_changed"
