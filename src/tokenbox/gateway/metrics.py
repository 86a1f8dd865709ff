"""The gateway's metrics for Prometheus. Labels come from the operator's settings, never from a client."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from tokenbox.gateway.attempt import Attempt
    from tokenbox.gateway.refusals import Refusal

# Upper bounds of the buckets of histograms, in seconds.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# The gateway's own overhead is far below a millisecond.
OVERHEAD = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30)

# A series of a metric in one process: its labels and its figures. A snapshot is JSON data.
Row = tuple[Sequence[str], Sequence[float]]
Snapshot = Mapping[str, Sequence[Row]]
# Returns the present values of a gauge, by labels.
Gauges = Callable[[], Mapping[tuple[str, ...], float]]


class CounterMetric:
    """Counters by labels. Adding to one of prometheus_client takes ten times as long.

    There is no lock: only the event loop adds.
    """

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name, self._about, self._labels = name, about, labels
        self._sums: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, amount: float, *labels: str) -> None:
        self._sums[labels] = self._sums.get(labels, 0) + amount

    def rows(self) -> list[Row]:
        return [(labels, (value,)) for labels, value in self._sums.items()]

    def merge(self, rows: Sequence[Row]) -> None:
        for labels, (value,) in rows:
            self.add(value, *labels)

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(f"tokenbox_{self.name}", self._about, labels=self._labels)
        for labels, value in self._sums.items():
            family.add_metric(labels, value)
        yield family


class HistogramMetric:
    """Histograms of seconds, by labels: a count per bucket of ``bounds``, one for what is above, the sum."""

    def __init__(self, name: str, about: str, *labels: str, bounds: Sequence[float]) -> None:
        self.name, self._about, self._labels, self._bounds = name, about, labels, bounds
        self._counts: dict[tuple[str, ...], list[float]] = {}  # the sum of seconds is last

    def add(self, seconds: float, *labels: str) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 2)
        counts[bisect_left(self._bounds, seconds)] += 1
        counts[-1] += seconds

    def rows(self) -> list[Row]:
        return [(labels, counts) for labels, counts in self._counts.items()]

    def merge(self, rows: Sequence[Row]) -> None:
        for labels, more in rows:
            counts = self._counts.setdefault(tuple(labels), [0] * len(more))
            self._counts[tuple(labels)] = [one + other for one, other in zip(counts, more, strict=True)]

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(f"tokenbox_{self.name}", self._about, labels=self._labels)
        ends = [*map(str, map(float, self._bounds)), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(ends, map(float, accumulate(counts[:-1])), strict=True))
            family.add_metric(labels, buckets, counts[-1])
        yield family


class GaugeMetric:
    """Gauges, by labels, each read when it is asked for.

    ``shared``: every worker sees the same value, so that values of workers are not added up.
    """

    def __init__(self, name: str, about: str, *labels: str, shared: bool = False) -> None:
        self.name, self._about, self._labels, self._shared = name, about, labels, shared
        self._values: Gauges = dict
        self._others: dict[tuple[str, ...], float] = {}

    def set(self, values: Gauges) -> None:
        self._values = values

    def rows(self) -> list[Row]:
        return [(labels, (value,)) for labels, value in self._values().items()]

    def merge(self, rows: Sequence[Row]) -> None:
        for names, (value,) in rows:
            labels = tuple(names)
            before = self._others.get(labels, 0)
            self._others[labels] = max(before, value) if self._shared else before + value

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(f"tokenbox_{self.name}", self._about, labels=self._labels)
        for labels, value in self._others.items():
            family.add_metric(labels, value)
        yield family


# The metrics: what each tells, and its labels.
_Metrics = Mapping[str, tuple[str, tuple[str, ...]]]
_COUNTERS: _Metrics = {
    "requests": ("Requests, by their outcome.", ("route", "upstream", "status", "mode")),
    "refusals": ("Requests refused by the gateway, by code.", ("route", "code")),
    "tokens": ("Tokens that upstreams reported.", ("upstream", "kind")),
    "prediction_difference_tokens": ("Sum of |reported - predicted| input tokens.", ("upstream", "exact")),
    "prediction_mismatches": (
        "Answers whose reported input differs from the prediction.",
        ("upstream", "exact"),
    ),
    "predictions_reconciled": ("Answers that reported their input.", ("upstream", "exact")),
    "admitted_on_estimate": (
        "Requests sent on an estimated count, by who counted and the basis of the decision.",
        ("upstream", "by", "basis"),
    ),
    "exact_counts_that_differed": (
        "Models whose exact count was not what the upstream reported: they are estimates from then on.",
        ("upstream",),
    ),
    "mistakes": ("Requests that failed by a defect in tokenbox.", ()),
}
_ROUTE = ("route", "upstream")
_HISTOGRAMS: Mapping[str, tuple[str, Sequence[float]]] = {  # the bounds; the labels are _ROUTE
    "request_seconds": ("From the head of a request to the end of its answer.", SECONDS),
    "time_to_first_token_seconds": ("From the head of a request to the first byte sent.", SECONDS),
    "overhead_seconds": ("The gateway's own time: from the head of a request until it is sent on.", OVERHEAD),
}
GAUGES: _Metrics = {
    "upstream_running": ("Requests at an upstream.", ("upstream",)),
    "upstream_waiting": ("Requests that wait for a slot.", ("upstream",)),
    "spool_files_waiting": ("Files not drained into the store.", ()),
    "bodies_bytes": ("Bytes of bodies of requests in progress.", ()),
    "tasks": ("Tasks of the event loop.", ()),
    "build_info": ("The version, as a label.", ("version",)),
}
_SHARED = ("spool_files_waiting", "build_info")


class Metrics:
    """The metrics of one process. ``version`` is tokenbox's."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._counters = {
            name: CounterMetric(name, about, *labels) for name, (about, labels) in _COUNTERS.items()
        }
        self._histograms = {
            name: HistogramMetric(name, about, *_ROUTE, bounds=bounds)
            for name, (about, bounds) in _HISTOGRAMS.items()
        }
        self._gauges = {
            name: GaugeMetric(name, about, *labels, shared=name in _SHARED)
            for name, (about, labels) in GAUGES.items()
        }
        self._all: dict[str, CounterMetric | HistogramMetric | GaugeMetric] = {
            **self._counters,
            **self._histograms,
            **self._gauges,
        }
        self.gauge("build_info", lambda: {(version,): 1})

    def count(self, name: str, amount: float, *labels: str) -> None:
        """Add to one of the counters."""
        self._counters[name].add(amount, *labels)

    def gauge(self, name: str, values: Gauges) -> None:
        """Set the function that reads one of ``GAUGES``."""
        self._gauges[name].set(values)

    def observe(self, request: Attempt, refusal: Refusal | None, seconds: float) -> None:
        route, outcome, admission = request.category, request.outcome, request.admission
        upstream = "" if request.upstream is None else request.upstream.name
        mode = "" if admission is None else admission.mode
        self.count("requests", 1, route, upstream, str(outcome.status), mode)
        self._histograms["request_seconds"].add(seconds, route, upstream)
        for name, moment in (
            ("time_to_first_token_seconds", outcome.first_byte),
            ("overhead_seconds", outcome.sent),
        ):
            if moment is not None:
                self._histograms[name].add(moment - request.started_at, route, upstream)
        if refusal is not None:
            self.count("refusals", 1, route, refusal.code)
        usage = outcome.usage
        if usage is None:
            return
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached_input", usage.cached_input_tokens),
        ):
            if tokens is not None:
                self.count("tokens", tokens, upstream, kind)
        if usage.input_tokens is not None and admission is not None:
            exact = "true" if admission.counted.exact else "false"
            difference = abs(usage.input_tokens - admission.counted.tokens)
            self.count("predictions_reconciled", 1, upstream, exact)
            if difference:
                self.count("prediction_mismatches", 1, upstream, exact)
                self.count("prediction_difference_tokens", difference, upstream, exact)

    def snapshot(self) -> Snapshot:
        """Return all figures of this process, as JSON data."""
        return {name: metric.rows() for name, metric in self._all.items()}

    def page(self, others: Iterable[Snapshot] = ()) -> bytes:
        """Return the page for Prometheus: the sums of this process and of ``others``, the other workers."""
        total = Metrics(self._version)
        for snapshot in (self.snapshot(), *others):
            for name, rows in snapshot.items():
                if name in total._all:  # a worker of another version may have more
                    total._all[name].merge(rows)
        registry = CollectorRegistry()
        for metric in total._all.values():
            registry.register(metric)
        return generate_latest(registry)
