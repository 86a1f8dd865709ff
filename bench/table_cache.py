"""The table of the suite `cache`: tokens processed again, and the mean context."""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any

from table_layout import HEAD, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    Curve = Sequence[tuple[float, float]]

POINTS = "| | processed | mean context | over budget | parted calls | |\n|---|---|---|---|---|---|"
SPREAD = (
    "| session | eagerness | mean context | again, auto | plain | ratio: all | by session, least to most | "
    "knowing the future |\n|---|---|---|---|---|---|---|---|"
)
MIX = "| eagerness | mean context | again, auto | plain | ratio |\n|---|---|---|---|---|"


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    points = results["points"]
    ours = [one for one in points if one["ours"]]
    peers = [one for one in points if not one["ours"]]
    rows = [*beyond(ours, peers), *targets(ours, peers), *hard(ours), *confirmed(results), *beats(results)]
    rows += masking(results["agents"])
    lost = [f"* {row.what}: {row.ours} {row.ratio}, target {row.target}" for row in rows if row.met is False]
    here, session = results["machine"], results["session"]
    quick = " A quick run: a short session, few seeds." if results["quick"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        "# Kind to prompt caches",
        (
            f"`make bench`, {results['when']}.{quick} {here['processor']}, {here['cpus']} processors, "
            f"{here['system']}. Nothing here depends on the speed of the machine. {versions}.\n\n"
            f"A session of {session['turns']} turns (seed {session['seed']}, "
            f"{session['messages']:,} messages), {session['requests']} requests under "
            f"{results['budget']:,} prompt tokens. *Processed*: the prompt tokens that a server with one "
            "cached prompt has to process, all after the beginning that a prompt has in common with the one "
            f"before; the session itself is {session['new']:,} tokens. *Mean context*: of all "
            "requests. Both are counted on the tokens themselves, and confirmed by a real llama.cpp server."
        ),
        f"**{sum(row.met is True for row in rows)} met, {len(lost)} lost.**",
        *(["Lost:\n\n" + "\n".join(lost)] if lost else []),
        f"## Targets\n\n{HEAD}\n" + "\n".join(row.line() for row in rows),
        f"## The plane\n\n{POINTS}\n" + "\n".join(map(_point, sorted(points, key=_by_context))),
        _agents(results["agents"]),
        _money(points, results["prices"]),
        _spread(results["spread"]),
        _mix(results["spread"]),
    ]
    return "\n\n".join(parts) + "\n"


def beyond(ours: Sequence[dict[str, Any]], peers: Sequence[dict[str, Any]]) -> list[Row]:
    """Compare with each peer at its mean context; one that is over the budget is shown without a verdict."""
    curve = [(one["context"], one["processed"]) for one in ours]
    rows = []
    for peer in peers:
        at = least_at(curve, peer["context"])
        valid = not peer["over"] and not peer["orphans"]
        shown = "more than we can" if at is None else f"{at:,.0f}"
        rows.append(
            Row(
                f"processed at the mean context of {peer['name']}, {peer['context']:,.0f}",
                "<= its" if valid else "over the budget, or calls parted",
                shown,
                f"{peer['processed']:,}",
                "" if at is None else f"{at / peer['processed']:.2f}x",
                (at is not None and at <= peer["processed"]) if valid else None,
            )
        )
    return rows


def targets(ours: Sequence[dict[str, Any]], peers: Sequence[dict[str, Any]]) -> list[Row]:
    rows = []
    named = {one["name"]: one for one in (*ours, *peers)}
    for mine in ("low water 0.75", "auto"):
        for name, most in (
            ("LangChain trim_messages", 0.3),
            ("LiteLLM trim_messages, exact counter", 0.2),
        ):
            a, b = named[mine], named[name]
            ratio, share = a["processed"] / b["processed"], a["context"] / b["context"]
            rows.append(
                Row(
                    f"{mine}: processed, beside {name}",
                    f"<= {most}x",
                    f"{a['processed']:,}",
                    f"{b['processed']:,}",
                    f"{ratio:.3f}x",
                    ratio <= most,
                )
            )
            rows.append(
                Row(
                    f"{mine}: mean context, beside {name}",
                    ">= 0.8x",
                    f"{a['context']:,.0f}",
                    f"{b['context']:,.0f}",
                    f"{share:.3f}x",
                    share >= 0.8,
                )
            )
    return rows


def hard(ours: Sequence[dict[str, Any]]) -> list[Row]:
    over, parted = sum(one["over"] for one in ours), sum(one["orphans"] for one in ours)
    return [
        Row("requests over the budget, all our settings", "0", str(over), "", "", over == 0),
        Row("calls parted from results, all our settings", "0", str(parted), "", "", parted == 0),
    ]


def masking(agents: Sequence[dict[str, Any]]) -> list[Row]:
    """Compare the tokens processed per decision kept: masking beside the eviction of whole rounds."""
    rows = []
    for before, after in zip(agents[:2], agents[2:], strict=True):
        ours, theirs = (one["processed"] / max(1, one["decisions"]) for one in (after, before))
        rows.append(
            Row(
                f"{after['name']}: processed per decision kept, beside whole rounds",
                "<= 0.5x",
                f"{ours:,.0f}",
                f"{theirs:,.0f}",
                f"{ours / theirs:.2f}x",
                ours <= theirs / 2,
            )
        )
    return rows


def _agents(agents: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"| {one['name']} | {one['processed']:,} | {one['context']:,.0f} | {one['decisions']} | "
        f"{one['processed'] / max(1, one['decisions']):,.0f} |"
        for one in agents
    ]
    return (
        "## An agent of 60 rounds\n\nUnder 8,000 tokens. *Decisions*: those that its last request still has. "
        "It can have 59: the agent makes the 60th in its answer.\n\n"
        "| | processed | mean context | decisions | processed per decision |\n|---|---|---|---|---|\n"
        + "\n".join(lines)
    )


def _money(points: Sequence[dict[str, Any]], prices: dict[str, dict[str, str | None]]) -> str:
    """Return the cost of the session's input at providers that cache the common prefix."""
    lines = []
    for one in sorted(points, key=_by_context):
        if one["over"] or one["orphans"]:
            continue
        sent = round(one["context"] * one["requests"])
        cells = []
        for price in prices.values():
            full, cached = Decimal(price["input"] or 0), Decimal(price["cached_input"] or 0)
            written = Decimal(price["cache_write"] or full)
            cost = (one["processed"] * written + (sent - one["processed"]) * cached) / 1_000_000
            cells.append(f"${cost:.3f} (${sent * full / 1_000_000:.3f})")
        name = f"**{one['name']}**" if one["ours"] else one["name"]
        lines.append(f"| {name} | {one['context']:,.0f} | " + " | ".join(cells) + " |")
    dates = ", ".join(f"{model} of {price['date']}" for model, price in prices.items())
    return (
        "## In money\n\nThe input of the session, where the provider keeps the beginning a prompt has in "
        "common with the one before (in brackets: where it keeps nothing). Writing costs what the price list "
        "says, else the price of input; that the cache begins at 1,024 tokens and counts in blocks is left "
        f"out. Prices: {dates}.\n\n| | mean context | "
        + " | ".join(prices)
        + " |\n"
        + "|---" * (len(prices) + 2)
        + "|\n"
        + "\n".join(lines)
    )


def confirmed(results: dict[str, Any]) -> list[Row]:
    """Compare the simulation with ``timings.prompt_n`` of the server."""
    named = {one["name"]: one for one in results["points"]}
    rows = []
    for one in results["server"]:
        simulated, measured = named[one["name"]]["processed"], one["processed"]
        rows.append(
            Row(
                f"on the llama.cpp server, {one['name']}: prompt_n; totals that differ from ours",
                "as said, within 0.1%; 0",
                f"{measured:,}; {one['wrong_totals']}",
                f"{simulated:,}",
                f"{measured / simulated:.4f}x",
                abs(measured - simulated) <= simulated / 1000 and not one["wrong_totals"],
            )
        )
    return rows


def beats(results: dict[str, Any]) -> list[Row]:
    """Compare ``auto`` with the fixed marks, at the same mean context."""
    rows = []
    for kind, one in results["spread"]["kinds"].items():
        auto, plain, *_ = against(one, "1")
        rows.append(
            Row(
                f"{kind}, {len(one['new'])} sessions: processed again by auto, and by plain at its context",
                "< 1x",
                f"{auto:,.0f}",
                f"{plain:,.0f}",
                f"{auto / plain:.3f}x",
                auto < plain,
            )
        )
    auto, plain, _ = mixed(results["spread"], "1")
    what = "all kinds at budgets from 4,000 to 32,000, one setting for all"
    rows.append(Row(what, "< 1x", f"{auto:,.0f}", f"{plain:,.0f}", f"{auto / plain:.3f}x", auto < plain))
    return rows


def against(one: dict[str, Any], eagerness: str) -> tuple[float, float, float, list[float], float]:
    """Return means over sessions: again by auto, by plain there, the context; ratios; the optimum."""
    auto = one["auto"][eagerness]
    again, context = mean(a for a, _ in auto), mean(c for _, c in auto)
    plain = at(_means(one["plain"]), context)
    ratios = [
        auto[i][0] / at([(some[i][1], some[i][0]) for some in one["plain"]], auto[i][1])
        for i in range(len(auto))
    ]
    return again, plain, context, sorted(ratios), at(_means(one["best"]), context)


def mixed(spread: dict[str, Any], eagerness: str) -> tuple[float, float, float]:
    """Return means per request over all cells: again by auto, by plain with one mark; the context."""
    cells = spread["mix"]
    requests = sum(sum(cell["requests"]) for cell in cells)

    def pooled(choose: Any) -> tuple[float, float]:  # noqa: ANN401  # a function of a cell
        pairs = [
            (again, context * n)
            for cell in cells
            for (again, context), n in zip(choose(cell), cell["requests"], strict=True)
        ]
        return sum(c for _, c in pairs) / requests, sum(a for a, _ in pairs) / requests

    context, again = pooled(lambda cell: cell["auto"][eagerness])
    marks = range(len(cells[0]["plain"]))
    return again, at([pooled(lambda cell, i=i: cell["plain"][i]) for i in marks], context), context


def _means(settings: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    return [(mean(c for _, c in some), mean(a for a, _ in some)) for some in settings]


def at(curve: Curve, context: float) -> float:
    """Interpolate the tokens processed at this context."""
    points = sorted(curve)
    place = min(max(bisect_left(points, (context, 0.0)), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[place - 1], points[place]
    return y0 if x1 == x0 else y0 + (y1 - y0) * (context - x0) / (x1 - x0)


def least_at(curve: Curve, context: float) -> float | None:
    """Return our minimum of tokens processed at this context or a larger one."""
    points = sorted(curve)
    here = [processed for seen, processed in points if seen >= context]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 < context <= x1:
            here.append(y0 + (y1 - y0) * (context - x0) / (x1 - x0))
    return min(here, default=None)


def _by_context(one: dict[str, Any]) -> float:
    return float(one["context"])


def _point(one: dict[str, Any]) -> str:
    name = f"**{one['name']}**" if one["ours"] else one["name"]
    return (
        f"| {name} | {one['processed']:,} | {one['context']:,.0f} | {one['over']} of {one['requests']}, "
        f"at most {one['most']:,} | {one['orphans']} | |"
    )


def _spread(spread: dict[str, Any]) -> str:
    lines = []
    for kind, one in spread["kinds"].items():
        for eagerness in one["auto"]:
            again, plain, context, ratios, best = against(one, eagerness)
            means = f"{context:,.0f} | {again:,.0f} | {plain:,.0f} | {again / plain:.3f}x"
            least_to_most = f"{ratios[0]:.3f}x to {ratios[-1]:.3f}x"
            lines.append(f"| {kind} | {eagerness} | {means} | {least_to_most} | {best / plain:.3f}x |")
    seeds = spread["seeds"]
    return (
        f"## auto beside the plain curve\n\nSessions of seeds {seeds[0]} to {seeds[-1]}, means. *Again*: "
        "processed beyond what is new. *Plain*: a fixed low-water mark, at the same mean context. *Knowing "
        "the future*: the least that any cuts at exchanges could reach at that context, by dynamic "
        "programming over the whole "
        f"session, which no policy can know.\n\n{SPREAD}\n" + "\n".join(lines)
    )


def _mix(spread: dict[str, Any]) -> str:
    lines = []
    for eagerness in spread["mix"][0]["auto"]:
        again, plain, context = mixed(spread, eagerness)
        means = f"{context:,.0f} | {again:,.0f} | {plain:,.0f} | {again / plain:.3f}x"
        lines.append(f"| {eagerness} | {means} |")
    return (
        "## One setting for all\n\nThree sessions of each kind at budgets of 4,000, 8,000, 16,000 and "
        "32,000, pooled, per request: auto beside the one fixed mark that has the same mean context.\n\n"
        f"{MIX}\n" + "\n".join(lines)
    )
