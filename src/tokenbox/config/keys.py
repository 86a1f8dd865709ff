"""Every key there is. Reading files, variables and flags, help, docs and errors all go by this table.

A part of the system that has settings adds its rows here. ``*`` stands for a name that the user gives.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Its parts: models, gpt-5, max_ctx.
KeyName = tuple[str, ...]

ANY = "*"
ENVIRONMENT_PREFIX = "TOKENBOX_"
# Variables that are not keys: they say where files are.
OTHER_VARIABLES = frozenset(("TOKENBOX_USER_CONFIG", "TOKENBOX_CACHE_DIR"))


class Kind(Enum):
    """What a value is; ``values`` has a reader for each. The text is what an error says is expected."""

    TEXT = "text"
    TOKENS = "a whole number of tokens, 0 or more"
    WINDOW = "a whole number of tokens, 1 or more"
    COUNT = "a whole number, 1 or more"
    PORT = "a port, from 1 to 65535"
    BOOLEAN = "true or false"
    HEADROOM = 'an exact fraction from 0 up to but not 1, as in "0.05"'
    SHARE = 'an exact fraction above 0 and up to 1, as in "0.75", or "auto"'
    SECONDS = 'a number of seconds above 0, as in "2"'
    DOLLARS = 'an amount of dollars, 0 or more, as in "2.50"'
    CHOICE = "one of its choices"
    TEXTS = "a list of texts"
    CHOICES = "a list of its choices"
    DAY = "a day, as in 2026-11-21"
    ENDPOINT = "the address of a server, as in http://localhost:8080"
    VARIABLE = "the name of an environment variable, in capitals, as in OPENAI_API_KEY"
    TOKENIZER = "the name of a tokenizer, or the path of a vocabulary file"
    PATH = "the path of a file or folder"


@dataclass(frozen=True, slots=True)
class Key:
    """A row of the table. ``default`` is as a reader would give it.

    ``offered``: the group of entry points whose names are choices, too.
    """

    name: str
    kind: Kind
    doc: str
    default: object = None
    choices: tuple[str, ...] = ()
    offered: str = ""
    remembered: bool = False  # may stand in .tokenbox/state.json

    @property
    def parts(self) -> KeyName:
        return tuple(self.name.split("."))

    @property
    def variable(self) -> str | None:
        """The environment variable. Keys with a name of the user's have none."""
        if ANY in self.parts:
            return None
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")

    def takes(self, choice: object) -> bool:
        """Whether it is one of the choices."""
        if choice in self.choices or not self.offered:
            return choice in self.choices
        from importlib.metadata import entry_points  # noqa: PLC0415  # 20 ms, for a name that is not built in

        return any(point.name == choice for point in entry_points(group=self.offered))

    @property
    def expected(self) -> str:
        if self.kind is Kind.CHOICE:
            return f"one of {', '.join(self.choices)}"
        if self.kind is Kind.CHOICES:
            return f"a list of {', '.join(self.choices)}"
        return str(self.kind.value)


SERVER_KINDS = (
    *("auto", "llama.cpp", "vllm", "sglang", "tgi", "ollama", "lmstudio"),
    *("openai", "openai-responses", "anthropic", "openai-compatible"),
)
SERVED_BY = "What software serves it, also a kind that an installed package offers."
GATEWAY_MODES = ("observe", "enforce", "fit")
BASELINES = ("gpt-bpe", "llama3-bpe")

KEYS: tuple[Key, ...] = (
    Key(
        "model",
        Kind.TEXT,
        "The model where none is named: an id, or a NAME of [models.NAME].",
        remembered=True,
    ),
    # What may be sent: for every model, or in [models.NAME] for one.
    Key("policy.max_ctx", Kind.WINDOW, "Most tokens of input and output together; else the model's window."),
    Key("policy.reserve_out", Kind.TOKENS, "Tokens kept free for the answer."),
    Key("policy.headroom", Kind.HEADROOM, "Share of the window kept free for safety.", Decimal(0)),
    Key("policy.strategy", Kind.TEXT, "How to pack: box, ladder, window, worth, or one of yours.", "box"),
    Key("policy.strategies.sections", Kind.TEXT, "The same for texts and sections only."),
    Key("policy.strategies.blocks", Kind.TEXT, "The same for blocks only."),
    Key("policy.strategies.messages", Kind.TEXT, "The same for chats only."),
    Key(
        "policy.uncertain",
        Kind.CHOICE,
        "What decides on an estimate that fits, where its bound does not.",
        "margin",
        ("margin", "bound", "allow"),
    ),
    # A model: where it runs, and what is particular to it.
    Key("models.*.model", Kind.TEXT, "The model's id at its server; else NAME."),
    Key("models.*.endpoint", Kind.ENDPOINT, "The address of the server."),
    Key("models.*.kind", Kind.CHOICE, SERVED_BY, "auto", SERVER_KINDS, offered="tokenbox.providers"),
    Key("models.*.key_env", Kind.VARIABLE, "The environment variable that has the key."),
    Key("models.*.keyring", Kind.TEXT, "The name of the key in the system's keyring."),
    Key("models.*.max_ctx", Kind.WINDOW, "As policy.max_ctx, for this model.", remembered=True),
    Key("models.*.reserve_out", Kind.TOKENS, "As policy.reserve_out, for this model.", remembered=True),
    Key("models.*.headroom", Kind.HEADROOM, "As policy.headroom, for this model."),
    Key("models.*.strategy", Kind.TEXT, "As policy.strategy, for this model.", remembered=True),
    Key("models.*.tokenizer", Kind.TOKENIZER, "The tokenizer that this model counts with."),
    Key("models.*.alias_of", Kind.TEXT, "The gateway sends requests for this name to that model."),
    Key("models.*.overflow", Kind.TEXTS, "Larger models that take what does not fit this one, in turn.", ()),
    Key("models.*.mode", Kind.CHOICE, "As gateway.mode, for this model.", None, GATEWAY_MODES),
    # Tokenizers.
    Key("tokenizers.baselines", Kind.CHOICES, "Tokenizers of the package in use.", (), BASELINES),
    Key("tokenizers.heuristic", Kind.BOOLEAN, "Estimate where no tokenizer is known: chars / 4.", False),  # noqa: FBT003
    Key("tokenizers.*", Kind.TOKENIZER, "The tokenizer of a family, such as llama4-bpe."),
    Key("tokenize.use_endpoint", Kind.BOOLEAN, "Let the model's server count.", False),  # noqa: FBT003
    Key("tokenize.timeout", Kind.SECONDS, "How long to wait for its count.", Decimal(2)),
    Key(
        "code.allowed",
        Kind.TEXTS,
        "Code that files may name: module:function, or a project's folder for all that it names.",
        (),
    ),
    # The shell.
    Key("shell.max_turns", Kind.COUNT, "Most exchanges that are kept.", 40),
    Key("shell.token_budget", Kind.TOKENS, "Most tokens of the conversation.", 4096),
    Key("shell.low_water", Kind.SHARE, "Evict down to this share of the budget.", "auto"),
    Key("shell.summarize", Kind.BOOLEAN, "Have the model sum up what is evicted.", False),  # noqa: FBT003
    Key("shell.output_tokens", Kind.TOKENS, "Most tokens of a command's output; 0 offers none.", 1000),
    Key("shell.system", Kind.TEXT, "The system prompt."),
    Key("shell.project", Kind.BOOLEAN, "Begin with the project's instructions.", False),  # noqa: FBT003
    Key("shell.tools", Kind.BOOLEAN, "Let the model propose commands, which you approve.", False),  # noqa: FBT003
    Key("shell.allow", Kind.TEXTS, "Commands that run without asking.", ()),
    Key(
        "shell.prompt",
        Kind.TEXT,
        "The prompt: {model}, {ctx_used}, {ctx_budget}, {cost}.",
        "{model} {ctx_used}/{ctx_budget}> ",
    ),
    Key("cost.cap_at_dollars", Kind.DOLLARS, "Refuse to send once a session has cost this much."),
    Key(
        "cost.cap_per_day", Kind.DOLLARS, "Refuse to send once all calls of a day (UTC) have cost this much."
    ),
    Key(
        "cost.unpriced",
        Kind.CHOICE,
        "What becomes of a call under the cap if its cost is not known.",
        "refuse",
        ("refuse", "allow"),
    ),
    Key(
        "store.database",
        Kind.TEXT,
        "Where sessions and calls are kept: a file, or postgresql://user@host/name.",
    ),
    # Corrections of the catalog.
    Key("catalog.*.context_window", Kind.WINDOW, "Tokens the model holds, input and output."),
    Key("catalog.*.max_input_tokens", Kind.WINDOW, "Tokens of input it takes."),
    Key("catalog.*.max_output_tokens", Kind.WINDOW, "Tokens it gives."),
    Key("catalog.*.price_input", Kind.DOLLARS, "Dollars per million tokens of input."),
    Key("catalog.*.price_output", Kind.DOLLARS, "Dollars per million tokens of output."),
    Key("catalog.*.price_cached_input", Kind.DOLLARS, "Dollars per million tokens read from the cache."),
    Key("catalog.*.price_cache_write", Kind.DOLLARS, "Dollars per million tokens written to the cache."),
    Key("catalog.*.date", Kind.DAY, "The day from which these figures hold."),
    # The gateway: tokenbox serve.
    Key("gateway.host", Kind.TEXT, "Address to listen on; other than loopback needs keys.", "127.0.0.1"),
    Key("gateway.port", Kind.PORT, "Port to listen on.", 8640),
    Key("gateway.workers", Kind.COUNT, "Processes that share the port.", 1),
    Key("gateway.admin_host", Kind.TEXT, "Address of the operator's listener.", "127.0.0.1"),
    Key("gateway.admin_port", Kind.PORT, "Port of the operator's listener; /metrics and /readyz move there."),
    Key("gateway.admin_key_env", Kind.VARIABLE, "Environment variable with the key for /admin there."),
    Key("gateway.mode", Kind.CHOICE, "What becomes of requests that do not fit.", "enforce", GATEWAY_MODES),
    Key("gateway.low_water", Kind.SHARE, "Mode fit: evict down to this share of the budget.", Decimal(1)),
    Key(
        "gateway.fit",
        Kind.CHOICES,
        "Mode fit: what is done in turn until it fits.",
        ("evict",),
        ("evict", "truncate", "compact"),
    ),
    Key("gateway.summary_model", Kind.TEXT, "The model that sums up for compact; else the request's own."),
    Key("gateway.keys", Kind.BOOLEAN, "Ask every client for a gateway key.", None),
    Key("gateway.cors_origins", Kind.TEXTS, "Sites whose pages may ask, as https://example.org.", ()),
    Key("gateway.database", Kind.TEXT, "Keys and ledger: a file, or postgresql://host/name."),
    Key("gateway.redis", Kind.TEXT, "Quotas shared by replicas: redis://host."),
    Key("gateway.state", Kind.PATH, "Folder of what is not in the database yet."),
    Key("gateway.when_away", Kind.CHOICE, "Quotas whose store is away.", "closed", ("closed", "open")),
    Key("gateway.body_bytes", Kind.COUNT, "Largest body of a request, in bytes.", 32 << 20),
    Key("gateway.bodies_bytes", Kind.COUNT, "Bytes of all bodies under way.", 256 << 20),
    Key("gateway.drain_seconds", Kind.SECONDS, "How long it still answers after a signal to stop."),
    Key("gateway.head_seconds", Kind.SECONDS, "How long the head of a request may take.", Decimal(20)),
    Key("gateway.body_seconds", Kind.SECONDS, "How long its body may take.", Decimal(60)),
    Key("gateway.send_seconds", Kind.SECONDS, "How long a client may read nothing.", Decimal(60)),
    Key("gateway.idle_seconds", Kind.SECONDS, "How long an upstream may be silent.", Decimal(300)),
    Key("gateway.total_seconds", Kind.SECONDS, "How long an answer may take in all.", Decimal(3600)),
    Key("routes.*.mode", Kind.CHOICE, "The mode of a route: chat, completions, ...", None, GATEWAY_MODES),
    Key("upstreams.*.url", Kind.ENDPOINT, "The address of the server."),
    Key("upstreams.*.kind", Kind.CHOICE, SERVED_BY, "auto", SERVER_KINDS, offered="tokenbox.providers"),
    Key("upstreams.*.replicas", Kind.TEXTS, "Addresses of more servers with the same models.", ()),
    Key("upstreams.*.models", Kind.TEXTS, "Patterns of the models it serves; else what it lists.", ()),
    Key("upstreams.*.key_env", Kind.VARIABLE, "The environment variable that has its key."),
    Key("upstreams.*.concurrency", Kind.COUNT, "Most requests at a time.", 64),
    Key("upstreams.*.queue", Kind.TOKENS, "Most requests that wait for a place.", 256),
    Key("upstreams.*.queue_seconds", Kind.SECONDS, "How long one waits.", Decimal(30)),
    Key("upstreams.*.ask_usage", Kind.BOOLEAN, "Ask for the usage of streams.", default=True),
    # `tokenbox check`: what prompt files may cost.
    Key("check.*.files", Kind.TEXTS, "Patterns of files, from the project's folder.", ()),
    Key("check.*.budget", Kind.TOKENS, "Most tokens of each."),
    Key("check.*.growth", Kind.HEADROOM, "How much more than at the base revision each may have."),
    Key("check.*.model", Kind.TEXT, "The model that counts: chats as the requests that they are."),
    Key("check.*.tokenizer", Kind.TOKENIZER, "The tokenizer that counts, where no model is named."),
    Key("proof.write", Kind.BOOLEAN, "Leave proof of every decision, as --proof does.", False),  # noqa: FBT003
    Key("proof.texts", Kind.BOOLEAN, "With the texts, to replay it offline: as --proof-texts.", False),  # noqa: FBT003
    Key("proof.sign_with", Kind.PATH, "The private key that signs proofs: `tokenbox proof keygen`."),
    Key("proof.trusted", Kind.TEXTS, "Public keys; `tokenbox proof verify` wants a signature of one.", ()),
)

# Tables that are not read here, and where they may stand.
ELSEWHERE: Mapping[str, str] = {"pack": "pyproject.toml"}


@cache
def _by_parts() -> Mapping[KeyName, Key]:
    return {key.parts: key for key in KEYS}


def key_of(name: KeyName) -> Key | None:
    """The row of a key: the one of just that name, or one with a name of the user's in it."""
    rows = _by_parts()
    if name in rows:
        # A name of the user's may be "*" only where it is a pattern.
        return rows[name] if ANY not in name or name[0] == "models" else None
    if len(name) > 1 and (row := rows.get((name[0], ANY, *name[2:]))) is not None:
        return row
    return None


@cache
def by_variable() -> Mapping[str, Key]:
    return {key.variable: key for key in KEYS if key.variable is not None}


@cache
def tables() -> frozenset[KeyName]:
    """The names of all tables: ``("models",)``, ``("models", "*")``."""
    return frozenset(key.parts[:end] for key in KEYS for end in range(1, len(key.parts)))


def is_table(name: KeyName) -> bool:
    known = tables()
    return name in known or (len(name) > 1 and (name[0], ANY, *name[2:]) in known)


def names_near(name: KeyName) -> list[str]:
    """What may stand where ``name`` does: the keys and tables of its table."""
    outer = name[:-1]
    inside = set()
    for row in KEYS:
        parts = row.parts
        fits = len(parts) > len(outer) and all(a in (b, ANY) for a, b in zip(parts, outer, strict=False))
        if fits and parts[len(outer)] != ANY:
            inside.add(parts[len(outer)])
    return sorted(inside | (set(ELSEWHERE) if not outer else set()))


_BARE = re.compile(r"[A-Za-z0-9_-]{1,80}")


def key_text(name: KeyName) -> str:
    """The key as TOML writes it: ``models."gpt-5.1".max_ctx``."""
    return ".".join(part if _BARE.fullmatch(part) else _quoted(part) for part in name)


def _quoted(part: str) -> str:
    shortened = part if len(part) <= 80 else f"{part[:80]}..."  # noqa: PLR2004  # as _BARE
    escaped = shortened.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04X}", escaped) + '"'


def parse_key(text: str) -> KeyName | None:
    """The key that ``text`` names, as TOML writes keys. None: it is not a key at all."""
    try:
        found: object = tomllib.loads(f"{text}=0") if "\n" not in text and "#" not in text else None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return None
    name = []
    while isinstance(found, dict) and len(found) == 1:
        ((part, found),) = found.items()
        name.append(part)
    return tuple(name) if name and found == 0 else None
