"""Prompt caches of providers: what breaks them, where their breakpoints belong, and what that saves.

    first_change(before, after)     where two requests part, in bytes and messages, and why
    Watch                           the same, for a conversation as it is sent
    plan(body, model=...)           breakpoints for Anthropic and OpenAI, only where they pay
    low_water(price)                how far to evict, decided in money
    server_side(body)               what the provider itself clears or compacts of a request

Everything is worked out from the requests and the dated prices: nothing is sent.
"""

from tokenbox.caching.changes import Break, PrefixChange, Watch, first_change
from tokenbox.caching.plan import CacheBreakpoint, CachePlan, InvalidCachePlan, low_water, plan
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
]
