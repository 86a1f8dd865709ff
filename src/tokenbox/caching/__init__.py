"""Prompt caches of providers: the changes that break them, the breakpoints to set, and the savings.

    first_change(before, after)     the first difference of two requests, its place and its reason
    Watch                           the same, for the requests of a conversation
    plan(body, model=...)           breakpoints for Anthropic and OpenAI, only if they pay
    with_breakpoints(body, model)   the request with them, if it has none
    low_water(price)                how far to evict, decided by cost
    server_side(body)               the context that the provider itself clears or compacts

Everything is computed from the requests and the dated prices; nothing is sent.
"""

from tokenbox.caching.breaks import Break, PrefixChange
from tokenbox.caching.changes import Watch, first_change
from tokenbox.caching.plan import (
    CacheBreakpoint,
    CachePlan,
    InvalidCachePlan,
    low_water,
    plan,
    with_breakpoints,
)
from tokenbox.caching.rules import CacheProvider, CacheRules, rules_of
from tokenbox.caching.server_side import Applied, Edit, ServerSide, applied, server_side

__all__ = [
    "Applied",
    "Break",
    "CacheBreakpoint",
    "CachePlan",
    "CacheProvider",
    "CacheRules",
    "Edit",
    "InvalidCachePlan",
    "PrefixChange",
    "ServerSide",
    "Watch",
    "applied",
    "first_change",
    "low_water",
    "plan",
    "rules_of",
    "server_side",
    "with_breakpoints",
]
