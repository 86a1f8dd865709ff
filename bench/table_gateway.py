"""The table of the gateway suite: each target, what was measured, met or not."""

from __future__ import annotations

from statistics import median
from typing import Any

CONNECTIONS = 16
OURS = ("tokenbox", "tokenbox, fast")
BARE = "bare aiohttp"
PEER = "LiteLLM"
KEYS = "tokenbox, keys and quotas"
WORKERS = "tokenbox, 2 workers"
# Stores of the quotas that are measured if the environment variable is set, and their settings.
QUOTA_STORES = {
    "PostgreSQL": ("TOKENBOX_TEST_POSTGRES", "database"),
    "Redis": ("TOKENBOX_TEST_REDIS", "redis"),
}
# The body and connections for which keys, workers and quota stores are measured.
VARIANTS_AT = ("cold", CONNECTIONS)
TARGETS = {
    "added ms": 0.4,
    "of LiteLLM's": 1 / 15,
    "per second": 3_000,
    "per second with keys": 2_300,
    "of it with keys": 0.75,
    "two workers": 1.2,
    "times LiteLLM's": 30,
    "stream": 0.8,
    "long": 1.5,
    "memory": 150,
    "start": 1.0,
}
BUSY = (
    " **Other programs used the processors meanwhile**: compare the columns of this run with each other, "
    "and no figure with another run's."
)


def keys_with(store: str) -> str:
    """Return the name of the server whose quotas are in that store."""
    return f"{KEYS} in {store}"


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    added = {
        (kind, name): figure(results, kind, 1, name, "p50_ms") - figure(results, kind, 1, "stub", "p50_ms")
        for kind in ("cold", "conversation")
        for name in names(results)
    }
    lines = [
        "| what | target | tokenbox | tokenbox, fast | bare aiohttp | LiteLLM |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("cold", "conversation"):
        of_peer = added.get((kind, PEER))
        lines.append(
            row(
                f"added p50, 1 connection, {kind}",
                f"{TARGETS['added ms']} ms",
                {
                    name: (f"{added[kind, name]:.2f} ms", added[kind, name] <= TARGETS["added ms"])
                    for name in OURS
                },
                f"{added[kind, BARE]:.2f} ms",
                None if of_peer is None else f"{of_peer:.2f} ms",
            )
        )
        if of_peer is not None:
            shares = {name: of_peer / added[kind, name] for name in OURS}
            most = 1 / TARGETS["of LiteLLM's"]
            cells = {name: (f"1/{share:.0f}", share >= most) for name, share in shares.items()}
            lines.append(row(f"... of LiteLLM's, {kind}", f"1/{most:.0f}", cells, "-", "1"))
    for kind in ("cold", "conversation"):
        rates = {name: figure(results, kind, CONNECTIONS, name, "per_second") for name in names(results)}
        cells = {name: (f"{rates[name]:,.0f}/s", rates[name] >= TARGETS["per second"]) for name in OURS}
        peer = rates.get(PEER)
        lines.append(
            row(
                f"requests/s, {CONNECTIONS} connections, {kind}",
                f"{TARGETS['per second']:,}/s",
                cells,
                f"{rates[BARE]:,.0f}/s",
                None if peer is None else f"{peer:,.0f}/s",
            )
        )
        if peer is not None:
            times = {name: rates[name] / peer for name in OURS}
            cells = {
                name: (f"{value:.0f}x", value >= TARGETS["times LiteLLM's"]) for name, value in times.items()
            }
            target = TARGETS["times LiteLLM's"]
            lines.append(row(f"... of LiteLLM's, {kind}", f"{target}x", cells, "-", "1x"))
        spent = {name: figure(results, kind, CONNECTIONS, name, "processor_ms") for name in names(results)}
        cells = {name: (f"{spent[name]:.2f} ms", None) for name in OURS}
        peer_spent = f"{spent[PEER]:.2f} ms" if PEER in spent else None
        lines.append(
            row(
                f"... processor time each, {kind}",
                "reported",
                cells,
                f"{spent[BARE]:.2f} ms",
                peer_spent,
            )
        )
    lines += variants(results)
    calling = results["calling"]
    cells = dict.fromkeys(OURS, (f"{calling['tokenbox']:.3f} ms", None))
    lines.append(
        row("... of it, the call of the upstream", "reported", cells, f"{calling['aiohttp']:.3f} ms", "-")
    )
    for connections in (1, CONNECTIONS):
        rates = {
            name: figure(results, "stream", connections, name, "events_per_second") for name in names(results)
        }
        bare = rates[BARE]
        cells = {
            name: (
                f"{rates[name]:,.0f}/s, {rates[name] / bare:.2f}x",
                rates[name] / bare >= TARGETS["stream"],
            )
            for name in OURS
        }
        peer_rate = f"{rates[PEER]:,.0f}/s" if PEER in rates else None
        what = f"stream, events/s, {connections} connection{'s' if connections > 1 else ''}"
        lines.append(row(what, f"{TARGETS['stream']}x bare", cells, f"{bare:,.0f}/s", peer_rate))
    cells = {}
    for name in OURS:
        took = figure(results, "long", 1, name, "p50_ms")
        ratio = took / results["count"][name]["ms"]
        cells[name] = (f"{took:.1f} ms, {ratio:.2f}x", ratio <= TARGETS["long"])
    bare_long = f"{figure(results, 'long', 1, BARE, 'p50_ms'):.1f} ms"
    lines.append(row("100,000 tokens, of one plain count", f"{TARGETS['long']}x", cells, bare_long, None))
    for when in ("at start", "after the load"):
        found = results["memory"][when]
        is_met = {"tokenbox": found["tokenbox"] < TARGETS["memory"], "tokenbox, fast": None}
        cells = {name: (f"{found[name]:.0f} MB", is_met[name]) for name in OURS}
        peer_memory = f"{found[PEER]:.0f} MB" if PEER in found else None
        wanted = f"{TARGETS['memory']} MB without fast"
        lines.append(row(f"resident memory, {when}", wanted, cells, f"{found[BARE]:.0f} MB", peer_memory))
    starts = results["start"]
    cells = {name: (f"{starts[name]:.2f} s", starts[name] < TARGETS["start"]) for name in OURS}
    peer_start = f"{starts[PEER]:.1f} s" if PEER in starts else None
    lines.append(
        row(
            "start to the first answer",
            f"{TARGETS['start']:.0f} s",
            cells,
            f"{starts[BARE]:.2f} s",
            peer_start,
        )
    )
    return "\n".join(["# The gateway", "", about(results), "", *lines, ""])


def about(results: dict[str, Any]) -> str:
    """Return when, where and how the figures were measured."""
    before, after = results["load"]
    text = (
        f"{results['when']}, Python {results['python']}, {results['cpus']} CPUs; load {before[0]:.1f}, "
        f"{after[0]:.1f} after{' (a quick run)' if results['quick'] else ''}. "
        + ", ".join(f"{name} {version}" for name, version in results["versions"].items())
        + ". One worker each, in turn, medians; one stub behind all, exact counts (o200k, OpenAI's "
        "rules) and `enforce` in tokenbox; LiteLLM with its defaults, which count nothing. 700 words in "
        "each body, of one book: `cold`, no message of which came before; `conversation`, ten messages, "
        "eight as before."
    )
    if before[0] > results["cpus"]:
        text += BUSY
    return text


def variants(results: dict[str, Any]) -> list[str]:
    """Return the rows of the servers that are measured only at ``VARIANTS_AT``."""
    plain = figure(results, *VARIANTS_AT, OURS[0], "per_second")
    keyed, both = (figure(results, *VARIANTS_AT, name, "per_second") for name in (KEYS, WORKERS))
    most, share, times = (
        TARGETS[name] for name in ("per second with keys", "of it with keys", "two workers")
    )
    found = (
        ("with keys and quotas", f"{most:,}/s", f"{keyed:,.0f}/s", keyed >= most),
        ("... of those without", f"{share}x", f"{keyed / plain:.2f}x", keyed / plain >= share),
        *(
            (f"... in {name}", "reported", f"{there:,.0f}/s, {there / plain:.2f}x", None)
            for name in QUOTA_STORES
            if has_server(results, keys_with(name))
            for there in (figure(results, *VARIANTS_AT, keys_with(name), "per_second"),)
        ),
        ("with 2 workers", f"{times}x", f"{both:,.0f}/s, {both / plain:.2f}x", both / plain >= times),
    )
    return [
        row(
            f"requests/s, {CONNECTIONS} connections, cold, {what}",
            target,
            {"": (text, met), " ": ("-", None)},
            "-",
            "-",
        )
        for what, target, text, met in found
    ]


def row(
    what: str,
    target: str,
    cells: dict[str, tuple[str, bool | None]],
    bare: str,
    peer: str | None,
) -> str:
    shown = [text + {True: "", False: " **NO**", None: ""}[met] for text, met in cells.values()]
    return (
        f"| {what} | {target} | {' | '.join(shown)} | {bare} | {'not measured' if peer is None else peer} |"
    )


def names(results: dict[str, Any]) -> list[str]:
    return [BARE, *OURS, *([PEER] if has_server(results, PEER) else [])]


def has_server(results: dict[str, Any], name: str) -> bool:
    return any(row["server"] == name for row in results["rows"])


def figure(results: dict[str, Any], kind: str, connections: int, server: str, name: str) -> float:
    """Return the median of a figure over the rounds."""
    wanted = (kind, connections, server)
    found = next(r for r in results["rows"] if (r["kind"], r["connections"], r["server"]) == wanted)
    return float(median(one[name] for one in found["rounds"]))
