"""The gateway's metrics for Prometheus. Labels come from the operator's settings, never from a client."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest
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


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric tells, and its labels.

    ``bounds``: of the buckets of a histogram. Its figures are a count per bucket, one for what is above, the
    sum. ``shared``: every worker sees the same value, so that values of workers are not added up.
    """

    family: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]
    about: str
    labels: tuple[str, ...] = ()
    bounds: Sequence[float] = ()
    shared: bool = False

    @property
    def is_gauge(self) -> bool:
        return self.family is GaugeMetricFamily

    @property
    def size(self) -> int:
        """The number of figures of a series."""
        return len(self.bounds) + 2 if self.bounds else 1

    def sample(self, figures: Sequence[float]) -> Sequence[Any]:
        """Return the figures as prometheus_client takes them."""
        if not self.bounds:
            return figures
        ends = [*map(str, map(float, self.bounds)), "+Inf"]
        return list(zip(ends, map(float, accumulate(figures[:-1])), strict=True)), figures[-1]


_COUNTER, _GAUGE, _HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
_ROUTE = ("route", "upstream")
METRICS: Mapping[str, Metric] = {
    "requests": Metric(_COUNTER, "Requests, by their outcome.", ("route", "upstream", "status", "mode")),
    "refusals": Metric(_COUNTER, "Requests refused by the gateway, by code.", ("route", "code")),
    "tokens": Metric(_COUNTER, "Tokens that upstreams reported.", ("upstream", "kind")),
    "prediction_difference_tokens": Metric(
        _COUNTER, "Sum of |reported - predicted| input tokens.", ("upstream", "exact")
    ),
    "prediction_mismatches": Metric(
        _COUNTER, "Answers whose reported input differs from the prediction.", ("upstream", "exact")
    ),
    "predictions_reconciled": Metric(_COUNTER, "Answers that reported their input.", ("upstream", "exact")),
    "admitted_on_estimate": Metric(
        _COUNTER,
        "Requests sent on an estimated count, by who counted and the basis of the decision.",
        ("upstream", "by", "basis"),
    ),
    "exact_counts_that_differed": Metric(
        _COUNTER,
        "Models whose exact count was not what the upstream reported: they are estimates from then on.",
        ("upstream",),
    ),
    "mistakes": Metric(_COUNTER, "Requests that failed by a defect in tokenbox."),
    "request_seconds": Metric(
        _HISTOGRAM, "From the head of a request to the end of its answer.", _ROUTE, SECONDS
    ),
    "time_to_first_token_seconds": Metric(
        _HISTOGRAM, "From the head of a request to the first byte sent.", _ROUTE, SECONDS
    ),
    "overhead_seconds": Metric(
        _HISTOGRAM,
        "The gateway's own time: from the head of a request until it is sent on.",
        _ROUTE,
        OVERHEAD,
    ),
    "upstream_running": Metric(_GAUGE, "Requests at an upstream.", ("upstream",)),
    "upstream_waiting": Metric(_GAUGE, "Requests that wait for a slot.", ("upstream",)),
    "spool_files_waiting": Metric(_GAUGE, "Files not drained into the store.", shared=True),
    "bodies_bytes": Metric(_GAUGE, "Bytes of bodies of requests in progress."),
    "tasks": Metric(_GAUGE, "Tasks of the event loop."),
    "build_info": Metric(_GAUGE, "The version, as a label.", ("version",), shared=True),
}


class Metrics(Collector):
    """The metrics of one process: their figures by labels. ``version`` is tokenbox's.

    Adding to one of prometheus_client takes ten times as long. There is no lock: only the event loop adds.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._series: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in METRICS}
        self._gauges: dict[str, Gauges] = {"build_info": lambda: {(version,): 1}}
        self.count("mistakes", 0)

    def count(self, name: str, amount: float, *labels: str) -> None:
        """Add to a counter."""
        self._figures(name, labels)[0] += amount

    def gauge(self, name: str, values: Gauges) -> None:
        """Set the function that reads a gauge."""
        self._gauges[name] = values

    def _time(self, name: str, seconds: float, *labels: str) -> None:
        figures = self._figures(name, labels)
        figures[bisect_left(METRICS[name].bounds, seconds)] += 1
        figures[-1] += seconds

    def _figures(self, name: str, labels: tuple[str, ...]) -> list[float]:
        """Return the figures of a series, to be changed."""
        series = self._series[name]
        found = series.get(labels)
        if found is None:
            found = series[labels] = [0] * METRICS[name].size
        return found

    def observe(self, request: Attempt, refusal: Refusal | None, seconds: float) -> None:
        route, outcome, admission = request.category, request.outcome, request.admission
        upstream = "" if request.upstream is None else request.upstream.name
        mode = "" if admission is None else admission.mode
        self.count("requests", 1, route, upstream, str(outcome.status), mode)
        self._time("request_seconds", seconds, route, upstream)
        for name, moment in (
            ("time_to_first_token_seconds", outcome.first_byte),
            ("overhead_seconds", outcome.sent),
        ):
            if moment is not None:
                self._time(name, moment - request.started_at, route, upstream)
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
        counted = {name: [*series.items()] for name, series in self._series.items()}
        gauges = {
            name: [(labels, (value,)) for labels, value in values().items()]
            for name, values in self._gauges.items()
        }
        return {**counted, **gauges}

    def page(self, others: Iterable[Snapshot] = ()) -> bytes:
        """Return the page for Prometheus: the sums of this process and of ``others``, the other workers."""
        total = Metrics(self._version)
        for snapshot in (self.snapshot(), *others):
            for name in METRICS.keys() & snapshot:  # a worker of another version may have more
                merged = max if METRICS[name].shared else add
                for labels, more in snapshot[name]:
                    figures = total._figures(name, tuple(labels))
                    figures[:] = map(merged, figures, more)
        return generate_latest(total)

    def collect(self) -> Iterator[PrometheusMetric]:
        for name, metric in METRICS.items():
            family: Any = metric.family(f"tokenbox_{name}", metric.about, labels=metric.labels)
            for labels, figures in self._series[name].items():
                family.add_metric(labels, *metric.sample(figures))
            yield family
