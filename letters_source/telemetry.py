"""Phases of a load: lines of the log, and spans and counters for OpenTelemetry where its SDK is configured.

OpenTelemetry is in use once its API is imported: by `start_exporting`, the user's program, or
`opentelemetry-instrument`.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

logger = logging.getLogger("letters_source")

NAME = "letters_source"
PHASES = logging.getLogger("letters_source.phases")
"""The log of phases, which a terminal shows as a line that is replaced."""
UNITS = {"rows": "{row}", "requests": "{request}", "retries": "{retry}"}
ENDPOINTS = {signal: f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_")}


def is_in_use() -> bool:
    """Return whether the program uses OpenTelemetry; importing its API would take 90 ms of every load."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def phase(words: str, name: str, level: int = logging.INFO) -> Iterator[None]:
    """Log the start of a phase, and trace it as a span."""
    PHASES.log(level, words)
    with span(name):
        yield


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """Run the block in a span of this name; an error sets its status and `error.type`, without a message."""
    if not is_in_use():
        yield
        return
    from opentelemetry import trace

    tracer = trace.get_tracer(NAME)
    # messages and tracebacks can quote a filter or a value
    with tracer.start_as_current_span(
        f"letters.{name}",
        attributes=named({**shared_attributes(), **attributes}),
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield
        except BaseException as error:
            current.set_status(trace.StatusCode.ERROR)
            current.set_attribute("error.type", type(error).__name__)
            raise


@contextmanager
def shared(**attributes: str) -> Iterator[None]:
    """Give the attributes to all spans and counters of the block."""
    if not is_in_use():
        yield
        return
    from opentelemetry import context

    # a value of the context, which stays in the process: baggage could be sent to the service
    token = context.attach(context.set_value(NAME, attributes))
    try:
        yield
    finally:
        context.detach(token)


def shared_attributes() -> dict[str, str]:
    """Return the attributes that `shared` gave."""
    from opentelemetry import context

    found: Any = context.get_value(NAME) or {}
    return dict(found)


def count(name: str, number: int, **attributes: str) -> None:
    """Add to a counter: rows, requests or retries."""
    if not is_in_use():
        return
    from opentelemetry import metrics

    counter = metrics.get_meter(NAME).create_counter(f"letters.{name}", UNITS[name])
    counter.add(number, named({**shared_attributes(), **attributes}))


@contextmanager
def counting(totals: Mapping[str, int], **attributes: str) -> Iterator[None]:
    """Add a client's totals to the counters of requests and retries when the block ends, also by an error."""
    try:
        yield
    finally:
        for name in ("requests", "retries"):
            count(name, totals[name], **attributes)


def named(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes with the names that OpenTelemetry gets."""
    return {f"letters.{name}": value for name, value in attributes.items()}


def start_exporting() -> None:
    """Configure OpenTelemetry's SDK from its own variables, `OTEL_*`, unless the program has done so.

    Nothing happens without an endpoint of a collector or without the extra `otel`.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(map(os.environ.get, ENDPOINTS.values())):
        return
    # the endpoint may be set for all programs of a machine
    with suppress(ModuleNotFoundError):
        if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            os.environ.setdefault("OTEL_SERVICE_NAME", "letters")
        if is_exported("TRACES"):
            export_spans()
        if is_exported("METRICS"):
            export_counters()


def is_exported(signal: str) -> bool:
    """Return whether traces or metrics are exported over HTTP to a configured endpoint."""
    if not (os.environ.get(ENDPOINTS[""]) or os.environ.get(ENDPOINTS[f"{signal}_"])):
        return False
    names = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(os.environ.get, names)), "http/protobuf")
    if protocol != "http/protobuf":
        logger.warning(
            "%s are not exported: OTLP over %s is not supported, only http/protobuf.", signal.capitalize(), protocol
        )
    return protocol == "http/protobuf" and os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp") == "otlp"


def export_spans() -> None:
    """Export spans, unless a provider is set."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)


def export_counters() -> None:
    """Export counters, unless a provider is set."""
    from opentelemetry import metrics
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    if not isinstance(metrics.get_meter_provider(), MeterProvider):
        metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())]))
