"""A program that uses OpenTelemetry itself: its providers, samplers and log records."""

from __future__ import annotations

import sys

from process_support import BOOTSTRAP, INSTRUMENT, ONE_SPAN, Programs, closed_port

OWN_SDK = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, ConsoleSpanExporter
own = TracerProvider()
own.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"exported {span.name}\\n")))
trace.set_tracer_provider(own)
"""
FAILING_EXPORTER = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider() if {own} else trace.get_tracer_provider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter("http://127.0.0.1:{port}", timeout=0.1)))
provider.get_tracer("mine").start_span("of the program").end()
provider.force_flush(5000)
"""


def others(text: str) -> list[str]:
    """Lines that are not ours."""
    return [line for line in text.splitlines() if not line.startswith("otel-rl: ")]


def test_refused_provider_of_the_program_is_warned_about(programs: Programs) -> None:
    done = programs.instrumented(OWN_SDK + "print(trace.get_tracer_provider() is own)\n" + ONE_SPAN)

    assert (done.code, done.out) == (0, "False\n")
    assert others(done.err) == ["Overriding of current TracerProvider is not allowed"]
    assert programs.store.span_names() == ["work"]


def test_provider_that_the_program_keeps_for_itself_works_as_without_us(programs: Programs) -> None:
    text = OWN_SDK.replace("trace.set_tracer_provider(own)", "own.get_tracer('mine').start_span('x').end()")

    plain, instrumented = programs.plain(text), programs.instrumented(text)

    assert (instrumented.code, instrumented.out, instrumented.err) == (0, plain.out, plain.err)
    assert plain.out == "exported x\n"


def test_provider_set_before_us_is_kept_and_one_line_says_where_spans_go(programs: Programs) -> None:
    programs.write("own/sitecustomize.py", OWN_SDK)
    text = ONE_SPAN + "print(type(trace.get_tracer_provider().id_generator).__module__)"
    done = programs.run(
        INSTRUMENT,
        "env",
        f"PYTHONPATH={BOOTSTRAP}:{programs.directory / 'own'}",
        sys.executable,
        programs.write("program.py", text),
    )

    assert (done.code, done.out) == (0, "exported work\nopentelemetry.sdk.trace.id_generator\n")
    assert others(done.err) == []
    (line,) = [line for line in done.err.splitlines() if "recorded" not in line and "no span" not in line]
    assert line.startswith("otel-rl: traces go to the provider that the program has set")


def test_loggers_below_opentelemetry_are_the_programs_as_without_us(programs: Programs) -> None:
    text = (
        "import logging, sys\n"
        "logging.getLogger('opentelemetry').warning('first')\n"
        "logging.basicConfig(stream=sys.stdout, format='%(name)s %(levelname)s %(message)s', level=logging.INFO)\n"
        "for name in ('opentelemetry', 'opentelemetry.mine', 'opentelemetry.trace', 'opentelemetry_mine'):\n"
        "    logging.getLogger(name).warning('of the program')\n"
        "    logging.getLogger(name).debug('not shown')\n"
        "logging.getLogger('opentelemetry').propagate = True\n"
        "logging.getLogger('opentelemetry').info('once')\n"
    )

    plain, instrumented = programs.plain(text), programs.instrumented(text)

    assert (instrumented.code, instrumented.out, others(instrumented.err)) == (0, plain.out, plain.err.splitlines())
    assert plain.err == "first\n"


def test_exporter_of_the_program_that_fails_says_so_and_ours_does_not(programs: Programs) -> None:
    for own in (True, False):
        text = "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider\n"
        text += FAILING_EXPORTER.format(own=own, port=closed_port())
        done = programs.instrumented(text, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}")

        assert done.code == 0
        assert any("xport" in line for line in others(done.err)), done.err
        assert done.err.count("otel-rl: ") == (not own)


def test_sdk_logs_nothing_about_a_program_that_has_none(programs: Programs) -> None:
    text = (
        "from opentelemetry import metrics, trace\n"
        "trace.get_tracer('program').start_span('x', attributes={'key': object()}).end()\n"
        "metrics.get_meter('program').create_counter('c').add(-1)\n"
    )

    plain, instrumented = programs.plain(text), programs.instrumented(text)

    assert (instrumented.code, instrumented.out, others(instrumented.err)) == (0, plain.out, plain.err.splitlines())


def test_sampler_of_the_user_decides(programs: Programs) -> None:
    programs.instrumented(ONE_SPAN, OTEL_TRACES_SAMPLER="always_off")

    assert programs.store.spans() == []
