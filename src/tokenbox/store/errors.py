"""Every error of the store.

    StoreError                      store_error
    ├── StoreUnavailable            store_unavailable           not there, not reachable, or gone
    ├── StoreBusy                   store_busy                  others held it for too long
    ├── StoreFull                   store_full                  no room: nothing was written
    ├── StoreReadOnly               store_read_only
    ├── StoreDamaged                store_damaged               the file is not a sound database
    ├── NotAStore                   not_a_store                 a database, but of something else
    ├── StoreTooNew                 store_too_new               written by a newer tokenbox
    └── SessionError                session_error
        ├── InvalidSession          invalid_session             a name, a turn or a saved file that is none
        ├── UnknownSession          unknown_session
        ├── AmbiguousSession        ambiguous_session           what was given begins several names
        ├── DuplicateSession        duplicate_session
        └── SessionChanged          session_changed             another process went on with it

Each is a :class:`~tokenbox.errors.TokenboxError`. Whatever raises one has changed nothing.
"""

from __future__ import annotations

from tokenbox.errors import TokenboxError


class StoreError(TokenboxError):
    """What outlives a process cannot be read or written."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database is not there, cannot be reached, or went away."""

    code = "store_unavailable"


class StoreBusy(StoreError):
    """Other processes held the database for longer than we wait. To try again is safe."""

    code = "store_busy"


class StoreFull(StoreError):
    """There is no room left. Nothing was written."""

    code = "store_full"


class StoreReadOnly(StoreError):
    """The database may be read and not written."""

    code = "store_read_only"


class StoreDamaged(StoreError):
    """The file is not a database, or a damaged one. It was not touched."""

    code = "store_damaged"


class NotAStore(StoreError):
    """The file is the database of another program. It was not touched."""

    code = "not_a_store"


class StoreTooNew(StoreError):
    """A newer tokenbox has changed the schema. ``details``: ``version`` and ``known``."""

    code = "store_too_new"


class SessionError(StoreError):
    """A session cannot be used as asked."""

    code = "session_error"


class InvalidSession(SessionError):
    """A name, a turn or a saved session is none."""

    code = "invalid_session"


class UnknownSession(SessionError):
    """No session has that name or id, nor begins with it."""

    code = "unknown_session"


class AmbiguousSession(SessionError):
    """Several sessions begin with what was given. ``details["names"]`` are theirs."""

    code = "ambiguous_session"


class DuplicateSession(SessionError):
    """A session of that name is there already."""

    code = "duplicate_session"


class SessionChanged(SessionError):
    """Another process went on with the session. Open it again to see what it says now."""

    code = "session_changed"
