"""What the gateway counts of itself, for Prometheus. Labels are the operator's words, never a client's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.gateway.refusals import Refusal
    from tokenbox.gateway.services import Attempt

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_OK = 200
Family = TypeVar("Family", Counter, Histogram)


class Metrics:
    """The figures of one process. ``version`` is tokenbox's."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}
        self._children: dict[tuple[object, ...], object] = {}
        self._requests = self._counter(
            "requests", "Requests, by how they ended.", "route", "upstream", "status", "mode"
        )
        self._refusals = self._counter(
            "refusals", "Requests refused by the gateway, by code.", "route", "code"
        )
        self._tokens = self._counter("tokens", "Tokens that upstreams reported.", "upstream", "kind")
        self._difference = self._counter(
            "prediction_difference_tokens", "Sum of |reported - predicted| input tokens.", "upstream", "exact"
        )
        self._mismatches = self._counter(
            "prediction_mismatches",
            "Answers whose reported input differs from the prediction.",
            "upstream",
            "exact",
        )
        self._reconciled = self._counter(
            "predictions_reconciled", "Answers that reported their input.", "upstream", "exact"
        )
        self._mistakes = Counter(
            "tokenbox_mistakes", "Requests that failed by a mistake in tokenbox.", registry=self.registry
        )
        self._seconds = Histogram(
            *("tokenbox_request_seconds", "From the head of the request to the last byte of the answer."),
            ["route", "upstream"],
            registry=self.registry,
            buckets=_SECONDS,
        )
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
        self._of(self._requests, route, upstream, str(outcome.status), mode).inc()
        self._of(self._seconds, route, upstream).observe(seconds)
        if refusal is not None:
            self._refusals.labels(route, refusal.code).inc()
        usage = outcome.usage
        if usage is None:
            return
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached_input", usage.cached_input_tokens),
        ):
            if tokens is not None:
                self._of(self._tokens, upstream, kind).inc(tokens)
        if usage.input_tokens is not None and verdict is not None:
            exact = "true" if verdict.counted.exact else "false"
            difference = abs(usage.input_tokens - verdict.counted.tokens)
            self._of(self._reconciled, upstream, exact).inc()
            if difference:
                self._of(self._mismatches, upstream, exact).inc()
                self._of(self._difference, upstream, exact).inc(difference)

    def mistake(self) -> None:
        self._mistakes.inc()

    def _of(self, metric: Family, *labels: str) -> Family:
        """What ``metric.labels`` gives, found in less time. There are as many as the operator has words."""
        known = self._children.get((metric, *labels))
        if known is None:
            known = self._children[metric, *labels] = metric.labels(*labels)
        return cast("Family", known)

    def page(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"tokenbox_{name}", about, labels, registry=self.registry)
