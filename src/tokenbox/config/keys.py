"""The table of all setting keys, used for files, variables, flags, help, docs and errors.

Each part of the system with settings adds its rows here. ``*`` stands for a user's name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache

from tokenbox.errors import toml_key
from tokenbox.integers import digits, meant_figure
from tokenbox.named_code import entry_points_of

# The parts of a key: models, gpt-5, max_ctx.
KeyName = tuple[str, ...]

ANY = "*"
MAX_TOKENS = 10**12
ENVIRONMENT_PREFIX = "TOKENBOX_"
# Variables that are not keys, but paths of files.
OTHER_VARIABLES = frozenset(
    "TOKENBOX_USER_CONFIG TOKENBOX_CACHE_DIR TOKENBOX_ADMIN_KEY TOKENBOX_MCP_TOKEN".split()
)


class ValueKind(Enum):
    """The type of a value, as error messages describe it. ``values`` has a reader for each."""

    TEXT = "text"
    TOKENS = "a whole number of tokens, 0 or more"
    WINDOW = "a whole number of tokens, 1 or more"
    COUNT = "a whole number, 1 or more"
    PORT = "a port, from 1 to 65535"
    BOOLEAN = "true or false"
    HEADROOM = 'an exact fraction, 0 or more and below 1, as in "0.05"'
    SHARE = 'an exact fraction, above 0 and at most 1, as in "0.75", or "auto"'
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
    DATABASE = "the path of a file, or the address of a database, as in postgresql://user@host/name"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """A row of the table. ``default``: as a reader returns it.

    ``offered``: the group of entry points whose names are further choices. ``remembered``: whether the value
    may be in .tokenbox/state.json.
    """

    name: str
    kind: ValueKind
    doc: str
    default: object = None
    choices: tuple[str, ...] = ()
    offered: str = ""
    remembered: bool = False
    option: str | None = None
    """The option of the command line, if it is not named after the last part of ``name``."""

    @property
    def parts(self) -> KeyName:
        return tuple(self.name.split("."))

    @property
    def flag(self) -> str:
        """The option of the command line that sets it, where a command has one."""
        return self.option or f"--{self.parts[-1].replace('_', '-')}"

    @property
    def variable(self) -> str | None:
        """The environment variable; None for keys with a user's name."""
        if ANY in self.parts:
            return None
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")

    def takes(self, choice: object) -> bool:
        """Return whether it is one of the choices."""
        return choice in self.choices or (bool(self.offered) and choice in entry_points_of(self.offered))

    @property
    def expected(self) -> str:
        if self.kind is ValueKind.CHOICE:
            return f"one of {', '.join(self.choices)}"
        if self.kind is ValueKind.CHOICES:
            return f"a list of {', '.join(self.choices)}"
        return str(self.kind.value)

    def correction(self, value: object) -> str:
        """Return the end of a message: how to write ``value``, such as ``8k`` or ``5%``."""
        if self.kind in (ValueKind.TOKENS, ValueKind.WINDOW, ValueKind.COUNT):
            number = digits(value) if isinstance(value, str) else value
            too_large = isinstance(number, int) and number > MAX_TOKENS
            return f" The largest is {MAX_TOKENS:,}." if too_large else meant_figure(value)
        pattern, written = _MEANT.get(self.kind, ("(?!)", str))
        meant = re.fullmatch(pattern, str(value).strip().lower())
        return "" if meant is None else f" Write {written(meant)}."


# What people write for a value, and how to write it.
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_MEANT: Mapping[ValueKind, tuple[str, Callable[[re.Match[str]], object]]] = {
    ValueKind.HEADROOM: (f"{_NUMBER} ?%", lambda meant: Decimal(meant[1]) / 100),
    ValueKind.SECONDS: (
        f"{_NUMBER} ?(ms|s|sec|seconds?)",
        lambda meant: Decimal(meant[1]) / (1000 if meant[2] == "ms" else 1),
    ),
    ValueKind.DOLLARS: (rf"\$? ?{_NUMBER} ?(?:\$|usd|dollars?)?", lambda meant: meant[1]),
    ValueKind.BOOLEAN: ("(true|yes|on|1)|false|no|off|0", lambda meant: "true" if meant[1] else "false"),
    ValueKind.PORT: (r"([1-9]\d{0,3}|[1-5]\d{4})", lambda meant: meant[1]),
}

SERVER_KINDS = tuple(
    "auto llama.cpp vllm sglang tgi ollama lmstudio openai openai-responses anthropic "
    "openai-compatible".split()
)
SERVED_BY = "The software of the server; an installed package may offer more kinds."
GATEWAY_MODES = ("observe", "enforce", "fit")
BASELINES = ("gpt-bpe", "llama3-bpe")

(
    TEXT, TOKENS, WINDOW, COUNT, PORT, BOOLEAN, HEADROOM, SHARE, SECONDS, DOLLARS,
    CHOICE, TEXTS, CHOICES, DAY, ENDPOINT, VARIABLE, TOKENIZER, PATH, DATABASE,
) = ValueKind  # fmt: skip

KEYS: tuple[SettingKey, ...] = (
    SettingKey("model", TEXT, "The default model: an id, or a NAME of [models.NAME].", remembered=True),
    # Limits of requests, for every model or (in [models.NAME]) for one.
    SettingKey(
        "policy.max_ctx", WINDOW, "The most tokens of input and output together. Default: the model's window."
    ),
    SettingKey("policy.reserve_out", TOKENS, "Tokens kept free for the answer."),
    SettingKey("policy.headroom", HEADROOM, "Share of the window kept free for safety.", Decimal(0)),
    SettingKey("policy.strategy", TEXT, "The strategy: box, ladder, window, worth, or one of yours.", "box"),
    SettingKey("policy.strategies.sections", TEXT, "The same for texts and sections only."),
    SettingKey("policy.strategies.blocks", TEXT, "The same for blocks only."),
    SettingKey("policy.strategies.messages", TEXT, "The same for chats only."),
    SettingKey(
        "policy.uncertain",
        CHOICE,
        "What decides on an estimate that fits by its total, not by its bound.",
        "margin",
        ("margin", "bound", "allow"),
    ),
    # Models: their servers, and their own limits.
    SettingKey("models.*.model", TEXT, "The model's id at its server. Default: NAME."),
    SettingKey("models.*.endpoint", ENDPOINT, "The address of the server."),
    SettingKey("models.*.kind", CHOICE, SERVED_BY, "auto", SERVER_KINDS, offered="tokenbox.providers"),
    SettingKey("models.*.key_env", VARIABLE, "The environment variable that has the key."),
    SettingKey("models.*.keyring", TEXT, "The name of the key in the system's keyring."),
    SettingKey("models.*.max_ctx", WINDOW, "As policy.max_ctx, for this model.", remembered=True),
    SettingKey("models.*.reserve_out", TOKENS, "As policy.reserve_out, for this model.", remembered=True),
    SettingKey("models.*.headroom", HEADROOM, "As policy.headroom, for this model."),
    SettingKey("models.*.strategy", TEXT, "As policy.strategy, for this model.", remembered=True),
    SettingKey("models.*.tokenizer", TOKENIZER, "The tokenizer that this model counts with."),
    SettingKey("models.*.alias_of", TEXT, "The gateway sends requests for this name to that model."),
    SettingKey(
        "models.*.overflow", TEXTS, "Larger models that take what does not fit this one, in turn.", ()
    ),
    SettingKey("models.*.mode", CHOICE, "As gateway.mode, for this model.", None, GATEWAY_MODES),
    # Tokenizers.
    SettingKey("tokenizers.baselines", CHOICES, "Tokenizers of the package to enable.", (), BASELINES),
    SettingKey(
        "tokenizers.heuristic",
        BOOLEAN,
        "Estimate without a tokenizer: bytes / 4 plus 15 %.",
        default=False,
    ),
    SettingKey("tokenizers.*", TOKENIZER, "The tokenizer of a family, such as llama4-bpe."),
    SettingKey("tokenize.use_endpoint", BOOLEAN, "Let the model's server count.", default=False),
    SettingKey("tokenize.timeout", SECONDS, "Seconds to wait for its count.", Decimal(2)),
    SettingKey(
        "code.allowed",
        TEXTS,
        "Code that files may name: module:function, or a project's folder for all that it names.",
        (),
    ),
    # The shell.
    SettingKey("shell.max_turns", COUNT, "Most exchanges that are kept.", 40),
    SettingKey("shell.token_budget", TOKENS, "Most tokens of the conversation.", 4096, option="--budget"),
    SettingKey("shell.low_water", SHARE, "Evict down to this share of the budget.", "auto"),
    SettingKey(
        "shell.cache_marks", BOOLEAN, "Place cache breakpoints in requests to Claude models.", default=True
    ),
    SettingKey("shell.summarize", BOOLEAN, "Let the model summarize evicted messages.", default=False),
    SettingKey("shell.output_tokens", TOKENS, "Most tokens of a command's output; 0 offers nothing.", 1000),
    SettingKey("shell.system", TEXT, "The system prompt."),
    SettingKey("shell.project", BOOLEAN, "Begin with the project's instructions.", default=False),
    SettingKey("shell.tools", BOOLEAN, "Let the model propose commands, which you approve.", default=False),
    SettingKey("shell.allow", TEXTS, "Commands that run without asking.", ()),
    SettingKey(
        "shell.prompt",
        TEXT,
        "The prompt: {model}, {ctx_used}, {ctx_budget}, {cost}.",
        "{model} {ctx_used}/{ctx_budget}> ",
    ),
    SettingKey("cost.cap_at_dollars", DOLLARS, "Refuse to send once a session has cost this much."),
    SettingKey(
        "cost.cap_per_day", DOLLARS, "Refuse to send once all calls of a day (UTC) have cost this much."
    ),
    SettingKey("cost.unpriced", CHOICE, "A call of unknown cost under a cap.", "refuse", ("refuse", "allow")),
    SettingKey(
        "store.database",
        DATABASE,
        "Where sessions and calls are kept: a file, or postgresql://user@host/name.",
    ),
    # Corrections of the catalog.
    SettingKey("catalog.*.context_window", WINDOW, "Tokens of input and output together."),
    SettingKey("catalog.*.max_input_tokens", WINDOW, "Most tokens of input."),
    SettingKey("catalog.*.max_output_tokens", WINDOW, "Most tokens of an answer."),
    SettingKey("catalog.*.price_input", DOLLARS, "Dollars per million tokens of input."),
    SettingKey("catalog.*.price_output", DOLLARS, "Dollars per million tokens of output."),
    SettingKey("catalog.*.price_cached_input", DOLLARS, "Dollars per million tokens read from the cache."),
    SettingKey("catalog.*.price_cache_write", DOLLARS, "Dollars per million tokens written to the cache."),
    SettingKey("catalog.*.price_cache_write_1h", DOLLARS, "The same for tokens that are cached for an hour."),
    SettingKey("catalog.*.date", DAY, "The day from which these figures hold."),
    # The gateway: tokenbox serve.
    SettingKey("gateway.host", TEXT, "Address to listen on; other than loopback needs keys.", "127.0.0.1"),
    SettingKey("gateway.port", PORT, "Port to listen on.", 8640),
    SettingKey("gateway.workers", COUNT, "Processes that share the port.", 1),
    SettingKey("gateway.admin_host", TEXT, "Address of the operator's listener.", "127.0.0.1"),
    SettingKey(
        "gateway.admin_port", PORT, "Port of the operator's listener; /metrics and /readyz move there."
    ),
    SettingKey("gateway.admin_key_env", VARIABLE, "Environment variable with the key for /admin there."),
    SettingKey("gateway.mode", CHOICE, "For requests that do not fit.", "enforce", GATEWAY_MODES),
    SettingKey("gateway.low_water", SHARE, "Mode fit: evict down to this share of the budget.", Decimal(1)),
    SettingKey(
        "gateway.fit",
        CHOICES,
        "Mode fit: the steps, in turn, until the request fits.",
        ("evict",),
        ("evict", "truncate", "compact"),
    ),
    SettingKey("gateway.summary_model", TEXT, "The model that summarizes for compact; else the request's."),
    SettingKey("gateway.keys", BOOLEAN, "Require a gateway key from every client.", None),
    SettingKey("gateway.cors_origins", TEXTS, "Sites whose pages may send, as https://example.org.", ()),
    SettingKey("gateway.database", DATABASE, "Keys and ledger: a file, or postgresql://host/name."),
    SettingKey("gateway.redis", TEXT, "Quotas shared by replicas: redis://host."),
    SettingKey("gateway.state", PATH, "Folder of records that are not in the database yet."),
    SettingKey(
        "gateway.when_away",
        CHOICE,
        "Quotas while their store is away.",
        "closed",
        ("closed", "open"),
    ),
    SettingKey("gateway.body_bytes", COUNT, "Largest body of a request, in bytes.", 32 << 20),
    SettingKey("gateway.bodies_bytes", COUNT, "Bytes of all bodies in progress.", 256 << 20),
    SettingKey("gateway.drain_seconds", SECONDS, "Seconds to answer on after a signal to stop."),
    SettingKey("gateway.head_seconds", SECONDS, "Seconds for the head of a request.", Decimal(20)),
    SettingKey("gateway.body_seconds", SECONDS, "Seconds for its body.", Decimal(60)),
    SettingKey("gateway.send_seconds", SECONDS, "Seconds that a client may read nothing.", Decimal(60)),
    SettingKey("gateway.idle_seconds", SECONDS, "Seconds that an upstream may be silent.", Decimal(300)),
    SettingKey("gateway.total_seconds", SECONDS, "Seconds that an answer may take in all.", Decimal(3600)),
    SettingKey("routes.*.mode", CHOICE, "The mode of a route: chat, completions, ...", None, GATEWAY_MODES),
    SettingKey("upstreams.*.url", ENDPOINT, "The address of the server."),
    SettingKey("upstreams.*.kind", CHOICE, SERVED_BY, "auto", SERVER_KINDS, offered="tokenbox.providers"),
    SettingKey("upstreams.*.replicas", TEXTS, "Addresses of more servers with the same models.", ()),
    SettingKey("upstreams.*.models", TEXTS, "Patterns of its models; else those that it lists.", ()),
    SettingKey("upstreams.*.key_env", VARIABLE, "The environment variable that has its key."),
    SettingKey("upstreams.*.concurrency", COUNT, "Most requests at a time.", 64),
    SettingKey("upstreams.*.queue", TOKENS, "Most requests that wait for a place.", 256),
    SettingKey("upstreams.*.queue_seconds", SECONDS, "Seconds that one waits.", Decimal(30)),
    SettingKey("upstreams.*.ask_usage", BOOLEAN, "Request the usage of each stream.", default=True),
    SettingKey(
        "upstreams.*.cache_marks",
        BOOLEAN,
        "Place cache breakpoints in requests to Claude models.",
        default=False,
    ),
    # `tokenbox check`: budgets of prompt files.
    SettingKey("check.*.files", TEXTS, "Patterns of files in the project's folder.", ()),
    SettingKey("check.*.budget", TOKENS, "Most tokens of each file."),
    SettingKey("check.*.growth", HEADROOM, "The most that each may grow since the base revision."),
    SettingKey("check.*.model", TEXT, "The model that counts; a chat counts as a request."),
    SettingKey("check.*.tokenizer", TOKENIZER, "The tokenizer that counts if no model is named."),
    SettingKey("proof.write", BOOLEAN, "Write a proof of every decision, as --proof does.", default=False),
    SettingKey("proof.texts", BOOLEAN, "Write it with the texts, as --proof-texts does.", default=False),
    SettingKey("proof.sign_with", PATH, "The private key that signs proofs: `tokenbox proof keygen`."),
    SettingKey(
        "proof.trusted", TEXTS, "Public keys; `tokenbox proof verify` requires a signature by one.", ()
    ),
)

# Tables that other code reads, and their file.
ELSEWHERE: Mapping[str, str] = {"pack": "pyproject.toml"}


@cache
def _by_parts() -> Mapping[KeyName, SettingKey]:
    return {key.parts: key for key in KEYS}


def key_of(name: KeyName) -> SettingKey | None:
    """Return the row of a key, which may contain a user's name."""
    rows = _by_parts()
    if name in rows:
        # Only [models.*] may be named "*", as a pattern.
        return rows[name] if ANY not in name or name[0] == "models" else None
    if len(name) > 1 and (row := rows.get((name[0], ANY, *name[2:]))) is not None:
        return row
    return None


@cache
def by_variable() -> Mapping[str, SettingKey]:
    return {key.variable: key for key in KEYS if key.variable is not None}


@cache
def tables() -> frozenset[KeyName]:
    """Return the names of all tables: ``("models",)``, ``("models", "*")``."""
    return frozenset(key.parts[:end] for key in KEYS for end in range(1, len(key.parts)))


def is_table(name: KeyName) -> bool:
    known = tables()
    return name in known or (len(name) > 1 and (name[0], ANY, *name[2:]) in known)


def names_near(name: KeyName) -> list[str]:
    """Return the keys and tables that the table of ``name`` may have."""
    outer = name[:-1]
    inside = set()
    for row in KEYS:
        parts = row.parts
        fits = len(parts) > len(outer) and all(a in (b, ANY) for a, b in zip(parts, outer, strict=False))
        if fits and parts[len(outer)] != ANY:
            inside.add(parts[len(outer)])
    return sorted(inside | (set(ELSEWHERE) if not outer else set()))


_SHOWN = 80


def key_text(name: KeyName) -> str:
    """Return the key as in TOML, for a message: a name of more than 80 characters is shortened."""
    return toml_key(part if len(part) <= _SHOWN else f"{part[:_SHOWN]}..." for part in name)


_PARSED = "the value of a parsed key"


def parse_key(text: str) -> KeyName | None:
    """Parse a key as in TOML; None if it is invalid."""
    try:  # a key may have a value and a # before this one, which is then a comment
        found: object = None if "\n" in text else tomllib.loads(f"{text}={_PARSED!r}")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return None
    name = []
    while isinstance(found, dict) and len(found) == 1:
        ((part, found),) = found.items()
        name.append(part)
    return tuple(name) if name and found == _PARSED else None
