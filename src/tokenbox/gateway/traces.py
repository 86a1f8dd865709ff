"""Spans of requests by OpenTelemetry's conventions for generative AI: figures and names, and no content.

Where they go is said by the environment, as for every program that speaks OpenTelemetry: without
``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from tokenbox.gateway.asgi import Headers
    from tokenbox.gateway.refusals import Refusal
    from tokenbox.gateway.services import Attempt

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FIRST_ERROR = 400
# gen_ai.operation.name and gen_ai.provider.name, as the conventions have them; else our own words.
_OPERATIONS = {"completions": "text_completion", "embeddings": "embeddings"}
_PROVIDERS = {"openai": "openai", "anthropic": "anthropic"}


class Tracing(Protocol):
    """Spans of requests."""

    def begin(self, parent: str | None) -> Any:  # noqa: ANN401  # the span, of a package that is an extra
        """The span of a request that has come; ``parent`` is the W3C traceparent that its client sent."""
        ...

    def passed_on(self, span: Any, headers: Headers) -> Headers:  # noqa: ANN401
        """The headers for the upstream, whose spans are below this one."""
        ...

    def request(self, attempt: Attempt, refusal: Refusal | None) -> None:
        """The request is over."""
        ...

    def close(self) -> None: ...


class NoTraces:
    """No spans: a client's own traceparent goes on as it came."""

    def begin(self, parent: str | None) -> None:
        pass

    def passed_on(self, span: None, headers: Headers) -> Headers:
        return headers

    def request(self, attempt: Attempt, refusal: Refusal | None) -> None:
        pass

    def close(self) -> None:
        pass


class Traces:
    """Spans in ``provider``."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  # an extra
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("tokenbox.gateway")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, parent: str | None) -> Span:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415  # an extra

        context = None if parent is None else self._propagator.extract({"traceparent": parent})
        return self._tracer.start_span("chat", context=context, kind=SpanKind.CLIENT)

    def passed_on(self, span: Span, headers: Headers) -> Headers:
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415  # an extra

        named: dict[str, str] = {}
        self._propagator.inject(named, set_span_in_context(span))
        ours = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
        return [*(header for header in headers if header[0] != b"traceparent"), *ours]

    def request(self, attempt: Attempt, refusal: Refusal | None) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415  # an extra

        span: Span = attempt.span or self.begin(attempt.parent)  # type: ignore[assignment]  # ours
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
    """The attributes of a span: what is not known is left out."""
    call, verdict, upstream, outcome = attempt.call, attempt.verdict, attempt.upstream, attempt.outcome
    usage = outcome.usage
    address = None if upstream is None else urlsplit(upstream.settings.url)
    kind = "" if upstream is None or upstream.kind is None else upstream.kind.name
    error = None
    if refusal is not None:
        error = refusal.code
    elif outcome.status >= _FIRST_ERROR or not outcome.complete:
        error = str(outcome.status)
    found = {
        "gen_ai.operation.name": _OPERATIONS.get(attempt.category, "chat"),
        "gen_ai.provider.name": _PROVIDERS.get(kind, kind or None),
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
        "tokenbox.mode": None if verdict is None else verdict.mode.value,
        "tokenbox.input_tokens": None if verdict is None else verdict.counted.tokens,
        "tokenbox.exact": None if verdict is None else verdict.counted.exact,
        "tokenbox.reserved": None if verdict is None else verdict.reserved,
    }
    return {name: value for name, value in found.items() if value is not None}


def asks_for_traces(env: Mapping[str, str]) -> bool:
    """Whether the environment asks for spans. Raises :class:`MissingExtra` if the packages are missing."""
    asked = any(env.get(name) for name in _ENDPOINTS)
    disabled = env.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not asked or disabled or env.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: PLC0415  # an extra
        import opentelemetry.sdk.trace  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtra.of("spans for OpenTelemetry", "otel") from None
    return True


def traces_from(env: Mapping[str, str]) -> Tracing:
    """The spans that the environment asks for. Raises :class:`MissingExtra`."""
    if not asks_for_traces(env):
        return NoTraces()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    named = {} if "OTEL_SERVICE_NAME" in env else {"service.name": "tokenbox"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)
