"""Sends the command's spans and counters to an OpenTelemetry collector, if the environment names one."""

import logging
import os
from contextlib import suppress

logger = logging.getLogger("letters_source")

ENDPOINTS = {signal: f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_")}


def start_exporting() -> None:
    """Configure OpenTelemetry's SDK from its own variables, `OTEL_*`, unless the program has done so.

    Nothing happens without an endpoint of a collector or without the extra `otel`.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(map(os.environ.get, ENDPOINTS.values())):
        return
    # the endpoint may be set for all programs of a machine
    with suppress(ModuleNotFoundError):
        name_service()
        if is_wanted("TRACES"):
            export_spans()
        if is_wanted("METRICS"):
            export_counters()


def name_service() -> None:
    """Name the service `letters`, unless the environment names it."""
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "letters")


def is_wanted(signal: str) -> bool:
    """Return whether traces or metrics have an endpoint, and go there over HTTP."""
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
