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


class StoreError(TokenboxError, code="store_error"):
    """The store cannot be read or written."""


class StoreUnavailable(StoreError, code="store_unavailable"):
    """The database is missing, cannot be reached, or its connection was lost."""


class StoreBusy(StoreError, code="store_busy"):
    """Other processes locked the database for too long. A retry is safe."""


class StoreFull(StoreError, code="store_full"):
    """There is no space left. Nothing was written."""


class StoreReadOnly(StoreError, code="store_read_only"):
    """The database may only be read."""


class StoreDamaged(StoreError, code="store_damaged"):
    """The file is not a database, or is damaged. It was not changed."""


class NotAStore(StoreError, code="not_a_store"):
    """The file is the database of another program. It was not changed."""


class StoreTooNew(StoreError, code="store_too_new"):
    """A newer tokenbox has changed the schema. ``details``: ``version`` and ``known``."""


class SessionError(StoreError, code="session_error"):
    """A session cannot be used as asked."""


class InvalidSession(SessionError, code="invalid_session"):
    """The name of a session, a turn or a saved session is not valid."""


class UnknownSession(SessionError, code="unknown_session"):
    """No session has that name or id, nor begins with it."""


class AmbiguousSession(SessionError, code="ambiguous_session"):
    """Several sessions have names that begin with the given text. ``details["names"]`` lists them."""


class DuplicateSession(SessionError, code="duplicate_session"):
    """A session of that name exists already."""


class SessionChanged(SessionError, code="session_changed"):
    """Another process wrote to the session. Open it again to read its current turns."""
