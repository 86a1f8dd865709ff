"""The table of the soak."""

from __future__ import annotations

import os
import platform
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from soaking.audit import COLUMNS, Arrival, Charged, Ending, Ledger, Row, charged, compare
from soaking.memory import MORE_FILES, MORE_TASKS, PEAK_MB, RISE_MB, Memory
from soaking.request_mix import KEYS
from soaking.words import WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from soak import Soak
    from soaking.fleet import Gateway

PACKAGES = (
    "tokenbox-llm",
    "uvicorn",
    "uvloop",
    "httptools",
    "orjson",
    "psycopg",
    "sqlalchemy",
    "redis",
    "aiohttp",
)
# Runs with fewer samples are not shown; of problems, only the first.
MIN_SAMPLES, SHOWN = 8, 8


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    wanted: str
    found: str
    is_met: bool

    @classmethod
    def none(cls, what: str, found: int) -> Check:
        return cls(what, "0", f"{found:,}", found == 0)

    @classmethod
    def at_most(cls, what: str, most: int, why: str, found: int) -> Check:
        return cls(what, f"at most {most:,}, {why}", f"{found:,}", found <= most)


@dataclass(frozen=True, slots=True)
class Findings:
    """All results. ``load``: of the machine, before and after."""

    soak: Soak
    arrivals: list[Arrival]
    ledger: Ledger
    charges: list[Charged]
    unsettled: int
    memory: list[Memory]
    load: tuple[float, float]

    @classmethod
    def of(cls, soak: Soak, lines: Sequence[dict[str, Any]], load: tuple[float, float]) -> Findings:
        arrivals = [Arrival(**line) for line in lines]
        found = soak.database.rows(f"SELECT {', '.join(COLUMNS)} FROM tokenbox_calls")
        names = {key_id: name for name, key_id in soak.keys.ids.items()}
        levels = {name: soak.quota_store.of(soak.keys.ids[name]) for name in KEYS}
        memory = [
            Memory.of(f"gateway {gateway.number}" + (f", life {n}" if len(gateway.runs) > 1 else ""), life)
            for gateway in soak.gateways
            for n, life in enumerate(gateway.runs, 1)
            if len(life.samples) > MIN_SAMPLES
        ]
        return cls(
            soak=soak,
            arrivals=arrivals,
            ledger=compare(soak.finished, arrivals, [Row(*row) for row in found], names),
            charges=charged(soak.finished, arrivals, levels, soak.killed_at),
            unsettled=len(soak.quota_store.unsettled(list(soak.keys.ids.values()))),
            memory=memory,
            load=load,
        )

    @property
    def checks(self) -> Iterator[Check]:
        yield from self._of_answers()
        yield from self._of_ledger()
        yield from self._of_quotas()
        yield from self._of_gateways()

    def _of_answers(self) -> Iterator[Check]:
        came = [arrival.number for arrival in self.arrivals if arrival.api != "summarize"]
        finished = self.soak.finished.values()
        unsent = {one.number for one in finished if one.ending in (Ending.WHOLE, Ending.BROKEN)} - set(came)
        over = [one for one in self.arrivals if one.tokens + one.reserved > WINDOW and one.model == "soak"]
        estimated = self.ledger.estimated
        yield Check.none("requests without an answer, or with another than has to come", len(self.soak.wrong))
        yield Check.none("requests answered with 200 that never came to the upstream", len(unsent))
        yield Check.none("requests sent to the upstream twice", len(came) - len(set(came)))
        yield Check.at_most(
            "requests over the window that came to the upstream", estimated, "as were estimated", len(over)
        )

    def _of_ledger(self) -> Iterator[Check]:
        ledger = self.ledger
        yield Check.none("calls of the upstream that the ledger has not", len(ledger.lost))
        yield Check.none("calls that it has twice", len(ledger.twice))
        yield Check.none("calls that it has and nobody sent", len(ledger.invented))
        yield Check.none(
            f"calls of {ledger.checked:,} of which it says something else than client and upstream",
            len(ledger.different),
        )
        yield Check.at_most(
            "calls that have no end in it", self.cut, "as a killed gateway had under way", ledger.unfinished
        )
        yield Check.none("files left in the spools", sum(one.files_waiting for one in self.soak.gateways))
        yield Check.none(
            "files of the spools that cannot be read", sum(one.bad_files for one in self.soak.gateways)
        )

    def _of_quotas(self) -> Iterator[Check]:
        for one in self.charges:
            windows = f" in {one.windows} windows" if one.windows > 1 else ""
            over = f"; over: {one.over[0]}" if one.over else ""
            yield Check(
                f"charged to a quota of {one.quota}, in {one.unit}",
                f"{one.least:,} to {one.most:,}, no window over",
                f"{one.found:,}{windows}{over}",
                one.is_right,
            )
        yield Check.at_most(
            "reservations never settled", self.cut, "as a killed gateway had under way", self.unsettled
        )
        yield Check.none("requests under a quota served while Redis was away", len(self.soak.served))

    def _of_gateways(self) -> Iterator[Check]:
        gateways = self.soak.gateways
        yield Check.none(
            "mistakes of tokenbox, by its own metric", sum(one.run.at_rest.mistakes for one in gateways)
        )
        yield Check.none("tracebacks in the logs", sum(map(tracebacks, gateways)))
        for one in self.memory:
            if one.is_judged:
                yield Check(
                    f"memory of {one.name}, over its last half",
                    f"rises by {RISE_MB:g} MB at most, peak {PEAK_MB:g} MB at most above the second quarter",
                    f"{one.rise:+.1f} MB, {one.peak - one.warm:+.1f} MB",
                    one.is_stable,
                )
        for one in self.memory:
            if one.ended_well:
                yield Check(
                    f"tasks and open files of {one.name}, at rest after the load",
                    f"{one.tasks[0]} to {one.tasks[0] + MORE_TASKS}, "
                    f"{one.files[0]} to {one.files[0] + MORE_FILES}",
                    f"{one.tasks[1]}, {one.files[2]}",
                    one.is_at_rest,
                )

    @property
    def cut(self) -> int:
        """The number of calls that a killed gateway had in flight, with those for summaries."""
        cut = [request for request in self.soak.finished.values() if request.may_be_unfinished]
        return len(cut) + sum(request.kind == "made to fit" for request in cut)


def tracebacks(gateway: Gateway) -> int:
    return sum(path.read_text(errors="replace").count("Traceback") for path in gateway.folder.glob("log*"))


def table(findings: Findings) -> str:
    checks = [
        f"| {one.what} | {one.wanted} | {one.found} | {'yes' if one.is_met else '**NO**'} |"
        for one in findings.checks
    ]
    lines = ["# Soak", "", *about(findings), "| what | wanted | found | met |", "|---|---|---|---|", *checks]
    return "\n".join([*lines, "", *memory(findings), "", *wrong(findings)])


def about(findings: Findings) -> Iterator[str]:
    """Yield the paragraphs above the table."""
    soak = findings.soak
    answered = [request for request in soak.finished.values() if not request.ending.is_open]
    fates = Counter(request.ending.value for request in soak.finished.values())
    statuses = Counter(f"{request.status} {request.code or 'OK'}" for request in answered)
    seconds, kind = soak.slowest
    yield where_and_when(findings)
    yield ""
    yield (
        f"{len(soak.finished):,} requests, {len(findings.arrivals):,} calls of the upstream, of which "
        f"{findings.ledger.estimated:,} were estimated. What was asked: {shares(soak.mix.made)}."
    )
    yield ""
    yield f"What clients saw: {shares(fates)}. Their answers: {shares(statuses)}."
    yield ""
    yield f"Faults of the upstream: {shares(soak.mix.faults)}."
    yield ""
    yield (
        f"Faults around the gateways: {shares(soak.events)}. The one that was killed had "
        f"{soak.in_flight_when_killed} requests and left {soak.found_by_successor} files to its successor."
    )
    yield ""
    yield (
        f"The slowest answer took {seconds:.1f} s ({kind}). {soak.given_up} clients that read nothing were "
        f"given up. The load was held back {soak.held_back:,} times, because too much was under way."
    )
    yield ""


def where_and_when(findings: Findings) -> str:
    soak, options, (before, after) = findings.soak, findings.soak.options, findings.load
    servers = f"PostgreSQL {soak.database.version}, Redis {soak.quota_store.version}"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {options.minutes:g} minutes at {options.rate:g} requests per second, "
        f"{len(soak.gateways)} gateways, {os.cpu_count()} CPUs, load {before:.1f} before, {after:.1f} after. "
        f"Python {platform.python_version()}, {servers}, {versions}."
    )


def memory(findings: Findings) -> Iterator[str]:
    """Yield the table of memory, a row per process of a gateway."""
    names = (
        "gateway",
        "seconds",
        "requests",
        "at start",
        "second quarter",
        "last quarter",
        "peak of the last half",
    )
    yield (
        "| "
        + " | ".join([*names, "rise", "per 100,000 requests", "open files: before, most, at rest"])
        + " |"
    )
    yield "|---" * (len(names) + 3) + "|"
    for one in findings.memory:
        sizes = " | ".join(f"{mb:.0f} MB" for mb in (one.start, one.warm, one.last, one.peak))
        slope = "-" if one.slope is None else f"{one.slope:+.0f} MB"
        if not one.is_judged:
            slope += " (not judged)"
        files = ", ".join(map(str, one.files if one.ended_well else one.files[:2]))
        yield (
            f"| {one.name} | {one.seconds:.0f} | {one.requests:,} | {sizes} | {one.rise:+.1f} MB | {slope} "
            f"| {files} |"
        )


def wrong(findings: Findings) -> Iterator[str]:
    """Yield descriptions of the first problems."""
    soak, ledger = findings.soak, findings.ledger
    found = [*soak.wrong, *soak.served, *ledger.lost, *ledger.twice, *ledger.invented, *ledger.different]
    yield from (f"* {text}" for text in found[:SHOWN])
    if len(found) > SHOWN:
        yield f"* and {len(found) - SHOWN} more"
    if found:
        yield ""


def shares(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.most_common())
