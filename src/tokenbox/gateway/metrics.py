"""What the gateway counts of itself, for Prometheus. Labels are the operator's words, never a client's."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from tokenbox.gateway.refusals import Refusal
    from tokenbox.gateway.services import Attempt

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Sums:
    """A figure that grows, by labels. Prometheus' own counters take ten times as long to add to.

    Only the event loop adds, so there is no lock.
    """

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._sums: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, amount: float, *labels: str) -> None:
        self._sums[labels] = self._sums.get(labels, 0) + amount

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(f"tokenbox_{self._name}", self._about, labels=self._labels)
        for labels, value in self._sums.items():
            family.add_metric(labels, value)
        yield family


class Seconds:
    """How long something took, by labels: how often in each of ``_SECONDS``, and in all."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, seconds: float, *labels: str) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(_SECONDS) + 1)
        counts[bisect_left(_SECONDS, seconds)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(f"tokenbox_{self._name}", self._about, labels=self._labels)
        ends = [*map(str, map(float, _SECONDS)), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(ends, map(float, accumulate(counts)), strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family


class Metrics:
    """The figures of one process. ``version`` is tokenbox's."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}
        self._requests = self._sums(
            "requests", "Requests, by how they ended.", "route", "upstream", "status", "mode"
        )
        self._refusals = self._sums("refusals", "Requests refused by the gateway, by code.", "route", "code")
        self._tokens = self._sums("tokens", "Tokens that upstreams reported.", "upstream", "kind")
        self._difference = self._sums(
            "prediction_difference_tokens", "Sum of |reported - predicted| input tokens.", "upstream", "exact"
        )
        self._mismatches = self._sums(
            "prediction_mismatches",
            "Answers whose reported input differs from the prediction.",
            "upstream",
            "exact",
        )
        self._reconciled = self._sums(
            "predictions_reconciled", "Answers that reported their input.", "upstream", "exact"
        )
        self._estimated = self._sums(
            "admitted_on_estimate",
            "Requests sent though their count was an estimate, by who counted and what decided.",
            *("upstream", "by", "basis"),
        )
        self._miscounted = self._sums(
            "exact_counts_that_differed",
            "Models whose exact count was not what the upstream reported: they are estimates from then on.",
            "upstream",
        )
        self._mistakes = self._sums("mistakes", "Requests that failed by a mistake in tokenbox.")
        self._seconds = Seconds(
            *("request_seconds", "From the head of the request to the last byte of the answer."),
            *("route", "upstream"),
        )
        self.registry.register(self._seconds)
        info = Gauge("tokenbox_build_info", "The version, as a label.", ["version"], registry=self.registry)
        info.labels(version).set(1)

    def gauge(self, name: str, about: str, value: Callable[[], float], **labels: str) -> None:
        """A figure that is looked up when it is asked for."""
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = Gauge(
                f"tokenbox_{name}", about, sorted(labels), registry=self.registry
            )
        (gauge.labels(**labels) if labels else gauge).set_function(value)

    def observe(self, request: Attempt, refusal: Refusal | None, seconds: float) -> None:
        route, outcome, verdict = request.category, request.outcome, request.verdict
        upstream = "" if request.upstream is None else request.upstream.name
        mode = "" if verdict is None else verdict.mode.value
        self._requests.add(1, route, upstream, str(outcome.status), mode)
        self._seconds.add(seconds, route, upstream)
        if refusal is not None:
            self._refusals.add(1, route, refusal.code)
        usage = outcome.usage
        if usage is None:
            return
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached_input", usage.cached_input_tokens),
        ):
            if tokens is not None:
                self._tokens.add(tokens, upstream, kind)
        if usage.input_tokens is not None and verdict is not None:
            exact = "true" if verdict.counted.exact else "false"
            difference = abs(usage.input_tokens - verdict.counted.tokens)
            self._reconciled.add(1, upstream, exact)
            if difference:
                self._mismatches.add(1, upstream, exact)
                self._difference.add(difference, upstream, exact)

    def estimated(self, upstream: str, by: str, basis: str) -> None:
        self._estimated.add(1, upstream, by, basis)

    def miscounted(self, upstream: str) -> None:
        self._miscounted.add(1, upstream)

    def mistake(self) -> None:
        self._mistakes.add(1)

    def page(self) -> bytes:
        return generate_latest(self.registry)

    def _sums(self, name: str, about: str, *labels: str) -> Sums:
        sums = Sums(name, about, *labels)
        self.registry.register(sums)
        return sums
