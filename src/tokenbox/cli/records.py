"""The JSON Schemas of what commands print with ``--json``, built from one table in a short notation.

A note is a type of ``TYPES``, a list with the note of its items, or a table of fields, in which blanks
separate names with the same note. After a type, ``?`` means that the value may be null; after a field,
that the field may be missing. ``*`` allows other fields. A later version may add fields; those in a schema
keep their meaning (docs/stability.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "any": {},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 0},
    "integer": {"type": "integer"},
    "object": {"type": "object"},
}
TOKENIZER: Final = {"name version fingerprint": "text", "exact": "flag"}
_COUNT: Final = {"total": "count", "exact": "flag", "at_most": "count", "by": "text"}
_LIMITS: Final = {
    "max_ctx reserve_out": "count",
    "headroom": "text",
    "max_input": "count?",
    "usable": "count",
    "input_limit": "integer",
    "sources": "object",
}
_CHUNK: Final = {"index": "count", "id decision": "text", "base_size size": "count", "why": ["text"]}
_BLOCKS: Final = {
    "schema": "text",
    "budget": "count?",
    "total over": "count",
    "mode verbosity": "text",
    "soft": "flag",
    "pricing": "text",
    "tokenizer": TOKENIZER,
    "blocks": [
        {
            "index": "count",
            "type description priority form": "text",
            "base_size size": "count",
            "why": ["text"],
        }
    ],
    "merged": [{"priority": "text", "blocks tokens size": "count"}],
    "text digest": "text",
}
_FIGURE: Final = {"value": "count", "source": "text", "date": "text?"}
_RATES: Final = {"input output cached_input cache_write": "text?"}
_SAID: Final = {**_RATES, "source": "text", "date": "text?"}
_KNOWN: Final = {"unknown_calls estimated_calls": "count", "exact": "flag"}
_TOTALS: Final = {
    "calls unfinished_calls unpriced_calls": "count",
    **{
        f"{kind}_tokens": {"known": "count", **_KNOWN}
        for kind in ("input", "cached_input", "output", "reasoning")
    },
    "dollars": {"known": "text", **_KNOWN},
    "held_dollars": "text",
}
_SETTING: Final = {"key": "text", "value": "any", "from": "text", "name": "text?", "line": "count?"}
_OWNER: Final = {"kind name": "text", "models quotas": ["text"], "created": "text"}
_KEY: Final = {
    "id name": "text",
    "user team": "text?",
    "models modes quotas": ["text"],
    "created": "text",
    "expires revoked": "text?",
}
_HEADER: Final = {"version": "text", "compressed": "flag"}
_STATE: Final = {"decision": "text", "base_size size": "count", "form?": "text"}
_DIFFERENCE: Final = {"field": "text", "left? right?": "any"}
ERROR: Final = {"code message": "text", "*": "any"}

RECORDS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "error/1": ("Why a command failed; the other fields of the error are its figures.", {"error": ERROR}),
    "count/1": (
        "tokenbox count",
        {
            "tokenizer": TOKENIZER,
            "files": [{"file": "text", "tokens?": "count", "count?": _COUNT, "error?": ERROR}],
            "counted failed total": "count",
        },
    ),
    "window/4": (
        "tokenbox fit",
        {
            "budget max_turns low_water": "count?",
            "steps_allowed": ["text"],
            "keep_results total": "count",
            "exact": "flag",
            "at_most": "count",
            "counted_by": "text",
            "tokenizer": TOKENIZER,
            "exchanges": [
                {"messages evicted shortened": ["count"], "decision": "text", "base_size size": "count"}
            ],
            "steps": [{"action": "text", "messages": ["count"], "before after": "count", "why": "text"}],
            "digest": "text",
            "count": _COUNT,
        },
    ),
    "folder/1": (
        "tokenbox pack --format json",
        {
            "query": "text?",
            "order": "text",
            "scorer": "text?",
            "gap_permille": "count?",
            "files": [{"path": "text", "bytes": "count", "tokens": "count?", "shown": "text", "*": "any"}],
            "rendering": _BLOCKS,
            "notes": [{"path kind message": "text", "line?": "count"}],
        },
    ),
    "tree/1": (
        "tokenbox pack --tree --format json; what is inside a folder looks the same",
        {"name": "text", "tokens": "count", "inside?": ["object"]},
    ),
    "whatif/1": (
        "tokenbox layout --whatif A,B,...: for each budget a record of tokenbox.layout/1, or an error",
        {"layouts": ["object"]},
    ),
    "breakpoints/1": (
        "tokenbox layout --whatif A..B: the budgets at which a section changes",
        {"breakpoints": [{"budget": "count", "section": "text", "before after": "text?"}]},
    ),
    "estimate/2": (
        "tokenbox estimate",
        {
            "model": "text?",
            "tokens_in": "count",
            "exact": "flag",
            "at_most": "count",
            "counted_by": "text",
            "per_chunk": [{"id": "text", "tokens": "count"}],
            "tokenizer": TOKENIZER,
        },
    ),
    "plan/2": (
        "tokenbox plan; its layout is the record of the strategy's engine",
        {
            "model": "text?",
            "strategy": "text",
            "limits": _LIMITS,
            "budget total": "count",
            "exact": "flag",
            "tokenizer": TOKENIZER,
            "packed dropped": [_CHUNK],
            "summary_ops": [{"chunks": ["text"], "size at_most": "count", "brings_back": ["text"]}],
            "layout": "object",
        },
    ),
    "enforcement/2": (
        "tokenbox enforce",
        {
            "ok": "flag",
            "model": "text?",
            "output_mode": "text",
            "max_tokens_request": "count?",
            "why": {
                "say": "text",
                "tokens_in": "count",
                "exact": "flag",
                "at_most": "count",
                "counted_by": "text",
                "decided_on": "count",
                "basis uncertain": "text",
                "over": "integer",
                "binding": "text",
                "overridden": "flag",
                "notes": ["text"],
                **_LIMITS,
            },
            "plan": [{"change say": "text", "*": "any"}],
            "override": "object?",
            "tokenizer": TOKENIZER,
        },
    ),
    "diff/1": (
        "tokenbox diff",
        {
            "same": "flag",
            "first_field": "text?",
            "values": [{"field": "text", "before after": "any"}],
            "sections": [{"id": "text", "what": ["text"], "before? after?": _STATE}],
            "text digest": "object?",
        },
    ),
    "check/1": (
        "tokenbox check",
        {
            "files": [
                {
                    "check file": "text",
                    "tokens": "count",
                    "exact": "flag",
                    "budget before": "count?",
                    "change": "integer?",
                    "outcome": "text",
                }
            ],
            "wrong": "count",
        },
    ),
    "cost/1": (
        "tokenbox cost; each row also has what --by names",
        {
            "database": "text",
            "since until project": "text?",
            "by": ["text"],
            "rows": [{**_TOTALS, "*": "any"}],
            "total": _TOTALS,
        },
    ),
    "cache/1": (
        "tokenbox cache: a change for each request after the first, null where the cache holds",
        {
            "changes": ["object?"],
            "plan": {
                "provider model": "text",
                "tokens": "count",
                "exact": "flag",
                "breakpoints": [{"place": "text", "tokens seconds": "count", "why": "text"}],
                "fields": "object",
                "saves": "text?",
                "notes": ["text"],
            },
        },
    ),
    "tools/1": (
        "tokenbox tools",
        {
            "total": "count",
            "exact": "flag",
            "tools": [{"name": "text", "tokens calls": "count"}],
            "never_called": ["text"],
        },
    ),
    "tools.shortened/1": (
        "tokenbox tools --shorten",
        {
            "total": "count",
            "exact": "flag",
            "steps": [{"shortening": "text", "tools": ["text"], "before after": "count"}],
            "tools": ["object"],
        },
    ),
    "doctor/1": (
        "tokenbox doctor",
        {
            "version python platform where": "text",
            "extras": [
                {"name what_for": "text", "installed": "flag", "missing": ["text"], "remedy": "text?"}
            ],
            "models": [
                {
                    "model": "text",
                    "tokenizer": "text?",
                    "text_exact chat_exact": "flag",
                    "counted_by problem": "text?",
                }
            ],
            "settings": "object?",
        },
    ),
    "models/1": (
        "tokenbox models; prices are in dollars for 1,000,000 tokens, as text",
        {
            "models": [
                {
                    "id provider": "text",
                    "context_window? max_input_tokens? max_output_tokens?": ("?", _FIGURE),
                    "tokenizer": ("?", {"family": "text?", "source": "text"}),
                    "disagreements": [{"limit rule": "text", "chosen": _FIGURE, "others": [_FIGURE]}],
                    "price": (
                        "?",
                        {
                            "currency": "text",
                            "per_tokens": "count",
                            **_SAID,
                            "tiers": [{"above_input_tokens": "count", **_RATES}],
                            "note": "text?",
                            "others": [_SAID],
                        },
                    ),
                }
            ]
        },
    ),
    "tokenizers/1": (
        "tokenbox tokenizers; without an identity, its vocabulary is not here",
        {"tokenizers": [{"name summary": "text", "identity": ("?", TOKENIZER)}]},
    ),
    "lenses/1": (
        "tokenbox lenses",
        {"lenses": [{"name version takes description example": "text", "builtin": "flag"}]},
    ),
    "config/1": ("tokenbox config", {"project": "text?", "files": ["text"], "settings": [_SETTING]}),
    "setting/1": ("tokenbox config KEY, tokenbox config set", _SETTING),
    "config.keys/1": (
        "tokenbox config --keys",
        {"keys": [{"key expected": "text", "default": "any", "variable": "text?", "doc": "text"}]},
    ),
    "gateway.status/1": ("tokenbox gateway status", {"status": "text", "*": "any"}),
    "gateway.check/1": (
        "tokenbox gateway check",
        {
            "listens mode": "text",
            "keys": "flag",
            "upstreams": [{"name url": "text", "models": ["text"], "key": "flag"}],
        },
    ),
    "gateway.owner/1": ("tokenbox gateway users set, teams set", _OWNER),
    "gateway.users/1": ("tokenbox gateway users list", {"users": [_OWNER]}),
    "gateway.teams/1": ("tokenbox gateway teams list", {"teams": [_OWNER]}),
    "gateway.removed/1": ("tokenbox gateway users remove, teams remove", {"removed": "text"}),
    "gateway.key/1": (
        "tokenbox gateway keys create, revoke; the key itself only once",
        {**_KEY, "key?": "text"},
    ),
    "gateway.keys/1": ("tokenbox gateway keys list", {"keys": [_KEY]}),
    "lcp.inspect/1": (
        "tokenbox lcp inspect",
        {
            "header": _HEADER,
            "blocks": [
                {
                    "index": "count",
                    "type description": "text",
                    "bytes": "count",
                    "tokens": "count?",
                    "priority": "text?",
                    "flags": ["text"],
                }
            ],
        },
    ),
    "lcp.validate/1": ("tokenbox lcp validate", {"valid": "flag", "header": _HEADER, "blocks": "count"}),
    "lcp.manifest/1": (
        "tokenbox lcp decode, which tokenbox lcp encode reads; blocks by type as in docs/pack.md",
        {"header": _HEADER, "compression": "text", "blocks": [{"type": "text", "*": "any"}]},
    ),
    "blocks/1": ("tokenbox lcp render", {name: note for name, note in _BLOCKS.items() if name != "schema"}),
    "lcp.stats/1": (
        "tokenbox lcp stats",
        {
            "tokenizer": TOKENIZER,
            "pack_bytes blocks": "count",
            "renderings": [{"form": "text", "bytes tokens": "count", "of_markdown": "text"}],
        },
    ),
    "proof.list/1": (
        "tokenbox proof list: only id, ok and error of a bundle that cannot be read",
        {
            "bundles": [
                {
                    "id": "text",
                    "ok": "flag",
                    "error?": ("?", ERROR),
                    "time? emitted?": "text?",
                    "kind? digest?": "text",
                    "outcome? budget? figures? tokenizer?": "object",
                    "model? parent?": "text?",
                }
            ]
        },
    ),
    "proof.show/1": (
        "tokenbox proof show; the manifest is an in-toto statement",
        {
            "id": "text",
            "manifest": "object",
            "inputs decisions summaries": ["object"],
            "made": {"time host": "text", "environment": "object"},
            "signed_by signatures_not_checked": ["text"],
        },
    ),
    "proof.verify/1": (
        "tokenbox proof verify",
        {
            "bundles": [{"bundle id?": "text", "ok": "flag", "error?": ERROR}],
            "wrong": "count",
            "log?": [ERROR],
        },
    ),
    "proof.replay/1": (
        "tokenbox proof replay; shards and rows are of a batch",
        {
            "id": "text",
            "same": "flag",
            "differences": [_DIFFERENCE],
            "uncompared?": ["text"],
            "shards?": {"replayed all": "count"},
            "rows?": "count",
        },
    ),
    "proof.diff/1": ("tokenbox proof diff", {"same": "flag", "differences": [_DIFFERENCE]}),
    "proof.export/1": ("tokenbox proof export", {"id file": "text", "bytes": "count"}),
    "proof.key/1": ("tokenbox proof keygen", {"key public id": "text"}),
    "proof.sign/1": ("tokenbox proof sign", {"id": "text", "signed_by": ["text"]}),
    "answer/1": (
        "tokenbox ask",
        {
            "model answer": "text",
            "finish": "text?",
            "stopped": "flag",
            "prompt": {"tokens": "count?", "exact": "flag", "token_budget": "count?"},
            "input usage cost": "object?",
        },
    ),
    "inspect/1": (
        "tokenbox inspect, whose page reads it",
        {
            "version": "text",
            "texts": ["text"],
            "entries": [
                {
                    "title kind": "text",
                    "facts": [["text"]],
                    "notes": ["text"],
                    "separator": "text",
                    "limits": ["any"],
                    "verdict": ("?", {"ok": "flag", "title": "text", "lines": ["text"]}),
                    "items frames": ["object"],
                    "slider": ("?", {"low high": "count", "every": "flag", "frames": ["object"]}),
                    "boundaries": "text?",
                }
            ],
        },
    ),
}
"""The command that prints a record, and the fields of the record, by the name of its schema."""
