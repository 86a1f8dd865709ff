"""The gateway's metrics for Prometheus. Labels come from the operator's settings, never from a client."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as PrometheusMetric

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


class Metric(Collector):
    """The figures of a metric, by labels. Adding to one of prometheus_client takes ten times as long.

    There is no lock: only the event loop adds. ``figures`` is the number of figures of a series.
    """

    family: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]

    def __init__(self, name: str, about: str, *labels: str, figures: int = 1) -> None:
        self._name, self._about, self._labels, self._figures = name, about, labels, figures
        self._series: dict[tuple[str, ...], list[float]] = {}

    def of(self, labels: tuple[str, ...]) -> list[float]:
        """Return the figures of a series, to be changed."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = [0] * self._figures
        return found

    def rows(self) -> list[Row]:
        return [*self._series.items()]

    def merge(self, rows: Sequence[Row]) -> None:
        """Add the figures of another process."""
        for labels, more in rows:
            figures = self.of(tuple(labels))
            figures[:] = map(self.merged, figures, more)

    def merged(self, one: float, other: float) -> float:
        return one + other

    def sample(self, figures: Sequence[float]) -> Sequence[Any]:
        """Return the figures as prometheus_client takes them."""
        return figures

    def collect(self) -> Iterator[PrometheusMetric]:
        family: Any = self.family(f"tokenbox_{self._name}", self._about, labels=self._labels)
        for labels, figures in self._series.items():
            family.add_metric(labels, *self.sample(figures))
        yield family


class CounterMetric(Metric):
    """Counters."""

    family = CounterMetricFamily

    def __init__(self, name: str, about: str, *labels: str) -> None:
        super().__init__(name, about, *labels)
        if not labels:
            self.of(())

    def add(self, amount: float, *labels: str) -> None:
        self.of(labels)[0] += amount


class HistogramMetric(Metric):
    """Histograms of seconds: a count per bucket of ``bounds``, one for what is above, the sum."""

    family = HistogramMetricFamily

    def __init__(self, name: str, about: str, *labels: str, bounds: Sequence[float]) -> None:
        super().__init__(name, about, *labels, figures=len(bounds) + 2)
        self._bounds = bounds

    def add(self, seconds: float, *labels: str) -> None:
        counts = self.of(labels)
        counts[bisect_left(self._bounds, seconds)] += 1
        counts[-1] += seconds

    def sample(self, figures: Sequence[float]) -> Sequence[Any]:
        ends = [*map(str, map(float, self._bounds)), "+Inf"]
        return list(zip(ends, map(float, accumulate(figures[:-1])), strict=True)), figures[-1]


class GaugeMetric(Metric):
    """Gauges, each read when it is asked for.

    ``shared``: every worker sees the same value, so that values of workers are not added up.
    """

    family = GaugeMetricFamily

    def __init__(self, name: str, about: str, *labels: str, shared: bool = False) -> None:
        super().__init__(name, about, *labels)
        self.values: Gauges = dict
        self._shared = shared

    def rows(self) -> list[Row]:
        return [(labels, (value,)) for labels, value in self.values().items()]

    def merged(self, one: float, other: float) -> float:
        return max(one, other) if self._shared else one + other


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
        self._all: dict[str, Metric] = {**self._counters, **self._histograms, **self._gauges}
        self.gauge("build_info", lambda: {(version,): 1})

    def count(self, name: str, amount: float, *labels: str) -> None:
        """Add to one of the counters."""
        self._counters[name].add(amount, *labels)

    def gauge(self, name: str, values: Gauges) -> None:
        """Set the function that reads one of ``GAUGES``."""
        self._gauges[name].values = values

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
