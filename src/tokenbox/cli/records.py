"""The JSON Schemas of what commands print with ``--json``, built from one table in a short notation.

A note is a type of ``TYPES``, a list with the note of its items, or a table of fields. ``?`` after a type
means that the value may be null, after a field that it may be missing. ``*`` allows other fields. A later
version may add fields; those in a schema keep their meaning (docs/stability.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "any": {},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 0},
    "integer": {"type": "integer"},
    "object": {"type": "object"},
}
TOKENIZER: Final = {"name": "text", "version": "text", "fingerprint": "text", "exact": "flag"}
_COUNT: Final = {"total": "count", "exact": "flag", "at_most": "count", "by": "text"}
_LIMITS: Final = {
    **dict.fromkeys(("max_ctx", "reserve_out"), "count"),
    "headroom": "text",
    "max_input": "count?",
    "usable": "count",
    "input_limit": "integer",
    "sources": "object",
}
_CHUNK: Final = {
    "index": "count",
    "id": "text",
    "decision": "text",
    "base_size": "count",
    "size": "count",
    "why": ["text"],
}
_BLOCKS: Final = {
    "schema": "text",
    "budget": "count?",
    "total": "count",
    "over": "count",
    "mode": "text",
    "verbosity": "text",
    "soft": "flag",
    "pricing": "text",
    "tokenizer": TOKENIZER,
    "blocks": [
        {
            "index": "count",
            "type": "text",
            "description": "text",
            "priority": "text",
            "form": "text",
            "base_size": "count",
            "size": "count",
            "why": ["text"],
        }
    ],
    "merged": [{"priority": "text", "blocks": "count", "tokens": "count", "size": "count"}],
    "text": "text",
    "digest": "text",
}
_FIGURE: Final = {"value": "count", "source": "text", "date": "text?"}
_RATES: Final = dict.fromkeys(("input", "output", "cached_input", "cache_write"), "text?")
_SAID: Final = {**_RATES, "source": "text", "date": "text?"}
_KNOWN: Final = {"unknown_calls": "count", "estimated_calls": "count", "exact": "flag"}
_TOTALS: Final = {
    **dict.fromkeys(("calls", "unfinished_calls", "unpriced_calls"), "count"),
    **{
        f"{kind}_tokens": {"known": "count", **_KNOWN}
        for kind in ("input", "cached_input", "output", "reasoning")
    },
    "dollars": {"known": "text", **_KNOWN},
    "held_dollars": "text",
}
_SETTING: Final = {"key": "text", "value": "any", "from": "text", "name": "text?", "line": "count?"}
_OWNER: Final = {"kind": "text", "name": "text", "models": ["text"], "quotas": ["text"], "created": "text"}
_KEY: Final = {
    "id": "text",
    "name": "text",
    "user": "text?",
    "team": "text?",
    "models": ["text"],
    "modes": ["text"],
    "quotas": ["text"],
    "created": "text",
    "expires": "text?",
    "revoked": "text?",
}
_HEADER: Final = {"version": "text", "compressed": "flag"}
_STATE: Final = {"decision": "text", "base_size": "count", "size": "count", "form?": "text"}
_DIFFERENCE: Final = {"field": "text", "left?": "any", "right?": "any"}
_BUNDLE: Final = dict.fromkeys(("outcome", "budget", "figures", "tokenizer"), "object")
ERROR: Final = {"code": "text", "message": "text", "*": "any"}

RECORDS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "error/1": ("Why a command failed; the other fields of the error are its figures.", {"error": ERROR}),
    "count/1": (
        "tokenbox count",
        {
            "tokenizer": TOKENIZER,
            "files": [{"file": "text", "tokens?": "count", "count?": _COUNT, "error?": ERROR}],
            "counted": "count",
            "failed": "count",
            "total": "count",
        },
    ),
    "window/2": (
        "tokenbox fit",
        {
            "budget": "count?",
            "max_turns": "count?",
            "low_water": "count?",
            "steps_allowed": ["text"],
            "keep_results": "count",
            "total": "count",
            "exact": "flag",
            "at_most": "count",
            "counted_by": "text",
            "tokenizer": TOKENIZER,
            "exchanges": [
                {
                    "messages": ["count"],
                    "evicted": ["count"],
                    "shortened": ["count"],
                    "decision": "text",
                    "base_size": "count",
                    "size": "count",
                }
            ],
            "steps": [
                {"action": "text", "messages": ["count"], "before": "count", "after": "count", "why": "text"}
            ],
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
            "notes": [{"path": "text", "kind": "text", "message": "text", "line?": "count"}],
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
        {"breakpoints": [{"budget": "count", "section": "text", "before": "text?", "after": "text?"}]},
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
            "budget": "count",
            "total": "count",
            "exact": "flag",
            "tokenizer": TOKENIZER,
            "packed": [_CHUNK],
            "dropped": [_CHUNK],
            "summary_ops": [
                {"chunks": ["text"], "size": "count", "at_most": "count", "brings_back": ["text"]}
            ],
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
                "basis": "text",
                "uncertain": "text",
                "over": "integer",
                "binding": "text",
                "overridden": "flag",
                "notes": ["text"],
                **_LIMITS,
            },
            "plan": [{"change": "text", "say": "text", "*": "any"}],
            "override": "object?",
            "tokenizer": TOKENIZER,
        },
    ),
    "diff/1": (
        "tokenbox diff",
        {
            "same": "flag",
            "first_field": "text?",
            "values": [{"field": "text", "before": "any", "after": "any"}],
            "sections": [{"id": "text", "what": ["text"], "before?": _STATE, "after?": _STATE}],
            "text": "object?",
            "digest": "object?",
        },
    ),
    "check/1": (
        "tokenbox check",
        {
            "files": [
                {
                    "check": "text",
                    "file": "text",
                    "tokens": "count",
                    "exact": "flag",
                    "budget": "count?",
                    "before": "count?",
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
            "since": "text?",
            "until": "text?",
            "project": "text?",
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
                "provider": "text",
                "model": "text",
                "tokens": "count",
                "exact": "flag",
                "breakpoints": [{"place": "text", "tokens": "count", "seconds": "count", "why": "text"}],
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
            "tools": [{"name": "text", "tokens": "count", "calls": "count"}],
            "never_called": ["text"],
        },
    ),
    "tools.shortened/1": (
        "tokenbox tools --shorten",
        {
            "total": "count",
            "exact": "flag",
            "steps": [{"shortening": "text", "tools": ["text"], "before": "count", "after": "count"}],
            "tools": ["object"],
        },
    ),
    "doctor/1": (
        "tokenbox doctor",
        {
            "version": "text",
            "python": "text",
            "platform": "text",
            "where": "text",
            "extras": [
                {
                    "name": "text",
                    "what_for": "text",
                    "installed": "flag",
                    "missing": ["text"],
                    "remedy": "text?",
                }
            ],
            "models": [
                {
                    "model": "text",
                    "tokenizer": "text?",
                    "text_exact": "flag",
                    "chat_exact": "flag",
                    "counted_by": "text?",
                    "problem": "text?",
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
                    "id": "text",
                    "provider": "text",
                    **dict.fromkeys(
                        ("context_window?", "max_input_tokens?", "max_output_tokens?"), ("?", _FIGURE)
                    ),
                    "tokenizer": ("?", {"family": "text?", "source": "text"}),
                    "disagreements": [
                        {"limit": "text", "rule": "text", "chosen": _FIGURE, "others": [_FIGURE]}
                    ],
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
        {"tokenizers": [{"name": "text", "summary": "text", "identity": ("?", TOKENIZER)}]},
    ),
    "lenses/1": (
        "tokenbox lenses",
        {
            "lenses": [
                {
                    **dict.fromkeys(("name", "version", "takes", "description", "example"), "text"),
                    "builtin": "flag",
                }
            ]
        },
    ),
    "config/1": ("tokenbox config", {"project": "text?", "files": ["text"], "settings": [_SETTING]}),
    "setting/1": ("tokenbox config KEY, tokenbox config set", _SETTING),
    "config.keys/1": (
        "tokenbox config --keys",
        {"keys": [{"key": "text", "expected": "text", "default": "any", "variable": "text?", "doc": "text"}]},
    ),
    "gateway.status/1": ("tokenbox gateway status", {"status": "text", "*": "any"}),
    "gateway.check/1": (
        "tokenbox gateway check",
        {
            "listens": "text",
            "mode": "text",
            "keys": "flag",
            "upstreams": [{"name": "text", "url": "text", "models": ["text"], "key": "flag"}],
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
                    "type": "text",
                    "description": "text",
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
    "blocks/1": (
        "tokenbox lcp render",
        {name: note for name, note in _BLOCKS.items() if name != "schema"},
    ),
    "lcp.stats/1": (
        "tokenbox lcp stats",
        {
            "tokenizer": TOKENIZER,
            "pack_bytes": "count",
            "blocks": "count",
            "renderings": [{"form": "text", "bytes": "count", "tokens": "count", "of_markdown": "text"}],
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
                    **dict.fromkeys(("time?", "emitted?"), "text?"),
                    **dict.fromkeys(("kind?", "digest?"), "text"),
                    **{f"{name}?": note for name, note in _BUNDLE.items()},
                    **dict.fromkeys(("model?", "parent?"), "text?"),
                }
            ]
        },
    ),
    "proof.show/1": (
        "tokenbox proof show; the manifest is an in-toto statement",
        {
            "id": "text",
            "manifest": "object",
            "inputs": ["object"],
            "decisions": ["object"],
            "summaries": ["object"],
            "made": {"time": "text", "host": "text", "environment": "object"},
            "signed_by": ["text"],
            "signatures_not_checked": ["text"],
        },
    ),
    "proof.verify/1": (
        "tokenbox proof verify",
        {
            "bundles": [{"bundle": "text", "id?": "text", "ok": "flag", "error?": ERROR}],
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
            "shards?": {"replayed": "count", "all": "count"},
            "rows?": "count",
        },
    ),
    "proof.diff/1": ("tokenbox proof diff", {"same": "flag", "differences": [_DIFFERENCE]}),
    "proof.export/1": ("tokenbox proof export", {"id": "text", "file": "text", "bytes": "count"}),
    "proof.key/1": ("tokenbox proof keygen", {"key": "text", "public": "text", "id": "text"}),
    "proof.sign/1": ("tokenbox proof sign", {"id": "text", "signed_by": ["text"]}),
    "answer/1": (
        "tokenbox ask",
        {
            "model": "text",
            "answer": "text",
            "finish": "text?",
            "stopped": "flag",
            "prompt": {"tokens": "count?", "exact": "flag", "token_budget": "count?"},
            "input": "object?",
            "usage": "object?",
            "cost": "object?",
        },
    ),
    "inspect/1": (
        "tokenbox inspect, whose page reads it",
        {
            "version": "text",
            "texts": ["text"],
            "entries": [
                {
                    "title": "text",
                    "kind": "text",
                    "facts": [["text"]],
                    "notes": ["text"],
                    "separator": "text",
                    "limits": ["any"],
                    "verdict": ("?", {"ok": "flag", "title": "text", "lines": ["text"]}),
                    "items": ["object"],
                    "frames": ["object"],
                    "slider": (
                        "?",
                        {"low": "count", "high": "count", "every": "flag", "frames": ["object"]},
                    ),
                    "boundaries": "text?",
                }
            ],
        },
    ),
}
"""The command that prints a record, and the fields of the record, by the name of its schema."""


def schema_of(name: str, *, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a record, such as ``count/1``. ``strict`` allows no other fields.

    Raises KeyError.
    """
    about, fields = RECORDS[name]
    schema = _expanded({"schema": "text", **fields}, strict=strict)
    schema["properties"]["schema"] = {"const": f"tokenbox.{name}"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tokenbox:schema:{name.replace('/', ':')}",
        "title": f"tokenbox.{name}",
        "description": about,
        **schema,
    }


def _expanded(note: Any, *, strict: bool) -> dict[str, Any]:  # noqa: ANN401  # a note
    """Return the JSON Schema of a note."""
    if isinstance(note, tuple):
        return {"oneOf": [_expanded(note[1], strict=strict), {"type": "null"}]}
    if isinstance(note, list):
        return {"type": "array", "items": _expanded(note[0], strict=strict)}
    if isinstance(note, str):
        schema = dict(TYPES[note.removesuffix("?")])
        if note.endswith("?"):
            schema["type"] = [schema["type"], "null"]
        return schema
    fields = {name: inner for name, inner in note.items() if name != "*"}
    schema = {
        "type": "object",
        "required": [name for name in fields if not name.endswith("?")],
        "properties": {
            name.removesuffix("?"): _expanded(inner, strict=strict) for name, inner in fields.items()
        },
    }
    return {**schema, "additionalProperties": False} if strict and fields == note else schema
