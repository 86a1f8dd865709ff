"""Spans of requests by OpenTelemetry's conventions for generative AI, without any content.

The standard variables of OpenTelemetry configure them: without ``OTEL_EXPORTER_OTLP_ENDPOINT`` or
``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` there are no spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tokenbox.errors import needing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from tokenbox.gateway.asgi import Headers
    from tokenbox.gateway.attempt import Attempt
    from tokenbox.gateway.refusals import Refusal

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FIRST_ERROR = 400
# gen_ai.operation.name by the gateway's category; all others are "chat".
_OPERATIONS = {"completions": "text_completion", "embeddings": "embeddings"}


class NoTraces:
    """No spans. A client's own traceparent is forwarded unchanged."""

    def begin(self, parent: str | None) -> None:
        pass

    def passed_on(self, span: object, headers: Headers) -> Headers:
        return headers

    def request(self, attempt: Attempt, refusal: Refusal | None) -> None:
        pass

    def close(self) -> None:
        pass


class Traces:
    """Spans of ``provider``."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # an extra
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("tokenbox.gateway")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, parent: str | None) -> Span:
        """Begin the span of a request. ``parent`` is the client's W3C traceparent."""
        from opentelemetry.trace import SpanKind  # an extra

        context = None if parent is None else self._propagator.extract({"traceparent": parent})
        return self._tracer.start_span("chat", context=context, kind=SpanKind.CLIENT)

    def passed_on(self, span: Any, headers: Headers) -> Headers:  # noqa: ANN401  # of a package that is an extra
        """Return the headers for the upstream, with the span as the parent of its spans."""
        from opentelemetry.trace import set_span_in_context  # an extra

        injected: dict[str, str] = {}
        self._propagator.inject(injected, set_span_in_context(span))
        own = [(name.encode(), value.encode("latin-1")) for name, value in injected.items()]
        return [*(header for header in headers if header[0] != b"traceparent"), *own]

    def request(self, attempt: Attempt, refusal: Refusal | None) -> None:
        from opentelemetry.trace import Status, StatusCode  # an extra

        span: Span = attempt.span or self.begin(attempt.parent)  # type: ignore[assignment]  # made by begin
        attributes = attributes_of(attempt, refusal)
        model = attributes.get("gen_ai.request.model")
        operation = str(attributes["gen_ai.operation.name"])
        span.update_name(f"{operation} {model}" if model else operation)
        span.set_attributes(attributes)
        if "error.type" in attributes:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        self._provider.shutdown()


def attributes_of(attempt: Attempt, refusal: Refusal | None) -> dict[str, str | int | bool]:
    """Return the attributes of a span, without those that are unknown."""
    call, admission, upstream, outcome = attempt.call, attempt.admission, attempt.upstream, attempt.outcome
    usage = outcome.usage
    address = None if upstream is None else urlsplit(upstream.settings.url)
    kind = None if upstream is None else upstream.kind
    error = None
    if refusal is not None:
        error = refusal.code
    elif outcome.status >= _FIRST_ERROR or not outcome.complete:
        error = str(outcome.status)
    found = {
        "gen_ai.operation.name": _OPERATIONS.get(attempt.category, "chat"),
        "gen_ai.provider.name": None if kind is None else kind.name,
        "gen_ai.request.model": None if call is None else call.model,
        "gen_ai.request.max_tokens": None if call is None else call.max_output,
        "gen_ai.request.choice.count": None if call is None or call.choices == 1 else call.choices,
        "gen_ai.usage.input_tokens": None if usage is None else usage.input_tokens,
        "gen_ai.usage.output_tokens": None if usage is None else usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": None if usage is None else usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": None if usage is None else usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": None if usage is None else usage.reasoning_tokens,
        "server.address": None if address is None else address.hostname,
        "server.port": None if address is None else address.port,
        "http.response.status_code": outcome.status or None,
        "error.type": error,
        "tokenbox.request_id": attempt.request_id,
        "tokenbox.overflow_of": attempt.overflow_of,
        "tokenbox.route": attempt.category,
        "tokenbox.mode": None if admission is None else admission.mode.value,
        "tokenbox.input_tokens": None if admission is None else admission.counted.tokens,
        "tokenbox.exact": None if admission is None else admission.counted.exact,
        "tokenbox.reserved": None if admission is None else admission.reserved,
    }
    return {name: value for name, value in found.items() if value is not None}


def asks_for_traces(env: Mapping[str, str]) -> bool:
    """Whether the environment enables spans. Raises :class:`MissingExtra` if the packages are missing."""
    asked = any(env.get(name) for name in _ENDPOINTS)
    disabled = env.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not asked or disabled or env.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    with needing("spans for OpenTelemetry", "otel"):
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401  # whether it is there
    return True


def traces_from(env: Mapping[str, str]) -> Traces | NoTraces:
    """Return the spans that the environment configures. Raises :class:`MissingExtra`."""
    if not asks_for_traces(env):
        return NoTraces()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if "OTEL_SERVICE_NAME" in env else {"service.name": "tokenbox"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)
