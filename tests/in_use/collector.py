"""An OpenTelemetry collector on loopback, which keeps what it receives by OTLP over HTTP."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

MESSAGES: dict[str, Any] = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


@dataclass(frozen=True)
class Span:
    """A span: its name, the name of its parent, its attributes, and whether it failed."""

    name: str
    parent: str
    attributes: dict[str, str]
    failed: bool


@dataclass
class Collector:
    """The exported messages by path, decoded and as bytes."""

    messages: dict[str, list[Any]] = field(default_factory=lambda: {path: [] for path in MESSAGES})
    bodies: list[bytes] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        """The address of the collector, as OTEL_EXPORTER_OTLP_ENDPOINT names it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def services(self) -> set[str]:
        """The names of the services that exported."""
        resources = [
            *(group.resource for each in self.messages["/v1/traces"] for group in each.resource_spans),
            *(group.resource for each in self.messages["/v1/metrics"] for group in each.resource_metrics),
        ]
        return {attributes_of(resource)["service.name"] for resource in resources}

    @property
    def spans(self) -> list[Span]:
        """The spans, in the order of their start."""
        groups = [group for each in self.messages["/v1/traces"] for group in each.resource_spans]
        found = [span for group in groups for scope in group.scope_spans for span in scope.spans]
        names = {span.span_id: span.name for span in found}
        return [
            Span(
                span.name,
                names.get(span.parent_span_id, ""),
                attributes_of(span),
                span.status.code == Status.STATUS_CODE_ERROR,
            )
            for span in sorted(found, key=lambda span: span.start_time_unix_nano)
        ]

    @property
    def counters(self) -> dict[tuple[str, str], int]:
        """The last value of each counter, by its name and the listing."""
        return {(name, attributes["letters.listing"]): value for name, attributes, value in self.points}

    @property
    def points(self) -> list[tuple[str, dict[str, str], int]]:
        """All values of counters: name, attributes, and value."""
        groups = [group for each in self.messages["/v1/metrics"] for group in each.resource_metrics]
        metrics = [metric for group in groups for scope in group.scope_metrics for metric in scope.metrics]
        return [
            (metric.name, attributes_of(point), point.as_int) for metric in metrics for point in metric.sum.data_points
        ]


def attributes_of(message: Any) -> dict[str, str]:
    """The attributes of a message."""
    return {each.key: each.value.string_value for each in message.attributes}


@contextmanager
def serve_collector() -> Iterator[Collector]:
    """A collector that listens while the block runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        """Keeps what is posted."""

        def do_POST(self) -> None:
            """Decode a message and answer that it was taken."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.bodies.append(body)
            collector.messages[self.path].append(MESSAGES[self.path].FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_port
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
