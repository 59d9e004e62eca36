"""What does an OpenTelemetry collector receive about a load?"""

import re
from collections.abc import Iterator

import pytest
from collector import Collector, serve_collector
from terminals import COMMAND, Outcome, run_command, run_process
from worlds import ACCESS, REFRESH, World

from programmable_emulator import Reply, When

WITHOUT = "import sys; sys.modules[sys.argv.pop(1)] = None; from letters_source.cli.process import main; main()"
OWN = """
import sys
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))

from letters_source import make_pipeline, run

run(make_pipeline())
print(sorted({span.name for span in spans.get_finished_spans()}))
[scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
print(sorted(metric.name for metric in scope.metrics))
"""
UNUSED = """
import sys
from letters_source import make_pipeline, run

run(make_pipeline())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
PHASES = {"preflight", "read", "listing", "normalize", "write", "verify", "publish"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with serve_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        yield collector


def test_a_collector_gets_a_span_for_each_phase(world: World, collector: Collector) -> None:
    """A load exports a span for each phase within its own, with dataset, destination and the service name letters."""
    assert run_process(COMMAND, "load", "--quiet", "--publish", "copy.duckdb") == Outcome(0, "", "")
    shared = {"letters.dataset": "letters_data", "letters.destination": "duckdb"}
    assert [(span.name, span.parent) for span in collector.spans] == [
        ("letters.load", ""),
        ("letters.preflight", "letters.load"),
        ("letters.read", "letters.load"),
        ("letters.listing", "letters.read"),
        ("letters.listing", "letters.read"),
        ("letters.normalize", "letters.load"),
        ("letters.write", "letters.load"),
        ("letters.verify", "letters.load"),
        ("letters.publish", "letters.load"),
    ]
    listings = [span.attributes for span in collector.spans if span.name == "letters.listing"]
    assert listings == [{**shared, "letters.listing": "templates"}, {**shared, "letters.listing": "contacts"}]
    assert all(span.attributes == shared for span in collector.spans if span.name != "letters.listing")
    assert not any(span.failed for span in collector.spans)
    assert collector.services == {"letters"}


def test_a_collector_gets_counters(world: World, collector: Collector) -> None:
    """A load exports the rows, requests and retries of each listing, as its audit has them."""
    world.emulator.canned.once(When("contacts", 2), Reply(503))
    assert run_command("load", "--quiet", "--page-size", "10").code == 0
    [requests] = [row["requests"] for row in world.tables()["listing_audit"] if row["listing"] == "contacts"]
    assert collector.counters == {
        ("letters.rows", "templates"): 7,
        ("letters.rows", "contacts"): 45,
        ("letters.requests", "templates"): 1,
        ("letters.requests", "contacts"): requests,
        ("letters.retries", "templates"): 0,
        ("letters.retries", "contacts"): 1,
    }
    assert all(
        (attributes["letters.dataset"], attributes["letters.destination"]) == ("letters_data", "duckdb")
        for _, attributes, _ in collector.points
    )


def test_a_failed_load_is_an_error_of_its_spans(world: World, collector: Collector) -> None:
    """A failed load marks its spans as errors and counts requests but no rows; no token and no query is exported."""
    world.emulator.access_token = "another"
    assert run_command("load", "--quiet", "--tag", "canary-tag", "--only", "contacts").code == 3
    failed = {span.name: span.attributes["error.type"] for span in collector.spans if span.failed}
    assert failed["letters.load"] == failed["letters.listing"] == "NotAuthorized"
    assert {span.name for span in collector.spans if not span.failed} == {"letters.preflight"}
    assert collector.counters == {("letters.requests", "contacts"): 1, ("letters.retries", "contacts"): 0}
    assert not any(secret.encode() in body for secret in (ACCESS, REFRESH, "canary-tag") for body in collector.bodies)


@pytest.mark.parametrize(("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")])
def test_what_is_not_configured_is_not_exported(
    world: World, collector: Collector, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Without an endpoint, or with the SDK disabled by its own variable, a load exports nothing."""
    monkeypatch.setenv(name, value)
    assert run_command("load", "--quiet") == Outcome(0, "", "")
    assert collector.bodies == []


def test_signals_are_chosen_one_by_one(world: World, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's own variables turn off traces alone, and give the service another name."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=nightly")
    assert run_command("load", "--quiet") == Outcome(0, "", "")
    assert (collector.spans, collector.services) == ([], {"nightly"})


def test_another_protocol_is_a_warning(world: World, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol other than HTTP is a warning for each signal, and nothing is exported."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    warnings = "".join(
        f"WARNING {signal} are not exported: OTLP over grpc is not supported, only http/protobuf.\n"
        for signal in ("Traces", "Metrics")
    )
    assert run_command("load", "--quiet") == Outcome(0, "", warnings)
    assert collector.bodies == []


@pytest.mark.parametrize("module", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"])
def test_without_the_extra_nothing_is_exported(world: World, collector: Collector, module: str) -> None:
    """Without the SDK or its exporter, a load with an endpoint in the environment neither exports nor prints."""
    assert run_command(module, "load", "--quiet", code=WITHOUT) == Outcome(0, "", "")
    assert collector.spans == []


def test_a_program_s_own_sdk_gets_the_same(world: World) -> None:
    """A program that configures the SDK itself gets the same spans and counters."""
    done = run_command(code=OWN)
    phases = sorted(f"letters.{name}" for name in {*PHASES, "load"} - {"publish"})
    assert done == Outcome(0, f"{phases}\n['letters.requests', 'letters.retries', 'letters.rows']\n", done.err)


def test_without_an_sdk_nothing_is_imported(world: World) -> None:
    """A load in a program without the SDK does not import OpenTelemetry."""
    assert run_command(code=UNUSED).out == "[]\n"


def test_a_collector_that_is_gone_fails_no_load(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that does not answer does not change the exit code; stderr says that the export failed."""
    with serve_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    done = run_command("load", "--quiet")
    assert (done.code, done.out, world.is_exact()) == (0, "", True)
    lines = [re.sub(r" (metrics|spans) .*", "", line) for line in done.err.splitlines()]
    assert lines[-1] == "Failed to export"
