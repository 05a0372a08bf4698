"""Writes runs as the pack writes them: real OpenTelemetry SDK, official OTLP JSON encoder, layout of the file store.

The names are typed out here on purpose: what the report reads must be what the conventions say, not what its own
constants happen to hold.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.json.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.json.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

SECOND = 1_000_000_000
PHASE_PARTS = (
    ("rl.sample", (("rl.generate", 0.62), ("rl.log_probs", 0.12)), 0.55),
    ("rl.reward", (), 0.09),
    ("rl.train", (("rl.forward", 0.3), ("rl.backward", 0.45), ("rl.optimizer", 0.15)), 0.28),
    ("rl.sync", (), 0.04),
)


class PinnedIds(RandomIdGenerator):
    """Random ids, except when a test pins the next ones."""

    def __init__(self) -> None:
        self.trace: int | None = None
        self.span: int | None = None

    def generate_trace_id(self) -> int:
        value, self.trace = self.trace, None
        return value or super().generate_trace_id()

    def generate_span_id(self) -> int:
        value, self.span = self.span, None
        return value or super().generate_span_id()


@dataclass
class ProcessWriter:
    """One process of a synthetic run."""

    folder: Path
    resource: dict[str, Any]
    started: int
    clean_exit: bool = True
    ended: int | None = None
    exit_reason: str | None = None
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)
    instrumentors: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Of libraries beside those that every process has.
    versions: dict[str, str] = field(default_factory=dict)
    #: Backward passes that no optimizer's step followed.
    passes: int = 0

    def __post_init__(self) -> None:
        resource = Resource(self.resource)
        self.ids = PinnedIds()
        self.spans = InMemorySpanExporter()
        self.logs = InMemoryLogRecordExporter()
        self.metric_reader = InMemoryMetricReader()
        provider = TracerProvider(resource=resource, id_generator=self.ids, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = provider.get_tracer("otel_rl.trl", "0.1.0")
        meters = MeterProvider([self.metric_reader], resource=resource, shutdown_on_exit=False)
        self.meter = meters.get_meter("otel_rl.trl", "0.1.0")
        loggers = LoggerProvider(resource, shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        self.logger = loggers.get_logger("otel_rl.trl", "0.1.0")

    def span(
        self,
        name: str,
        start: float,
        end: float,
        attributes: dict[str, Any] | None = None,
        parent: SpanContext | None = None,
        error: str | None = None,
        events: list[tuple[str, dict[str, Any]]] | None = None,
    ) -> SpanContext:
        """Emit a finished span; ``start`` and ``end`` in s after the start of the process."""
        context = trace.set_span_in_context(NonRecordingSpan(parent)) if parent else trace.Context()
        span = self.tracer.start_span(name, context, attributes=attributes, start_time=self.at(start))
        for event, values in events or []:
            span.add_event(event, values, timestamp=self.at(end))
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(self.at(end))
        return span.get_span_context()

    def event(
        self, name: str, at: float, body: Any = None, attributes: dict[str, Any] | None = None, severity: int = 9
    ) -> None:
        """Emit a log record with an event name."""
        self.logger.emit(
            LogRecord(
                timestamp=self.at(at),
                event_name=name,
                body=body,
                attributes=attributes,
                severity_number=SeverityNumber(severity),
                severity_text=SeverityNumber(severity).name,
            )
        )

    def at(self, seconds: float) -> int:
        """Wall clock in ns, ``seconds`` after the start of the process."""
        return self.started + int(seconds * SECOND)

    def write(self) -> Path:
        """Write one line per batch of spans and logs, one line of metrics, and the manifest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        spans = self.spans.get_finished_spans()
        self._spans("traces", [span for span in spans if span.status.status_code is not StatusCode.ERROR])
        self._spans("traces-errors", [span for span in spans if span.status.status_code is StatusCode.ERROR])
        self._lines("logs", [encode_logs(self.logs.get_finished_logs()).to_json()])
        data = self.metric_reader.get_metrics_data()
        self._lines("metrics", [encode_metrics(data).to_json()] if data else [])
        (self.folder / "manifest.json").write_text(json.dumps(self.manifest()))
        return self.folder

    def _spans(self, stream: str, spans: list[ReadableSpan]) -> None:
        batches = [spans[index : index + 100] for index in range(0, len(spans), 100)]
        if batches:
            self._lines(stream, [encode_spans(batch).to_json() for batch in batches])

    def _lines(self, signal: str, lines: list[str]) -> None:
        (self.folder / f"{signal}-0001.jsonl").write_text("".join(line + "\n" for line in lines))

    def manifest(self) -> dict[str, Any]:
        """The manifest that belongs to this process."""
        get = self.resource.get
        return {
            "format": "otel-rl/1",
            "versions": {
                "otel-rl": "0.1.0",
                "opentelemetry-sdk": "1.45.1",
                "torch": "2.13.0",
                "trl": "1.16.0",
                **self.versions,
            },
            "run_id": get("rl.run.id"),
            "attempt": get("rl.run.attempt"),
            "rank": get("rl.rank"),
            "local_rank": get("rl.local_rank"),
            "world_size": get("rl.world_size"),
            "role": get("rl.role"),
            "host": get("host.name"),
            "pid": get("process.pid"),
            "service_name": get("service.name"),
            "command": "train.py",
            "started_unix_nano": self.started,
            "monotonic_nano": 1,
            "ended_unix_nano": self.ended,
            "clean_exit": self.clean_exit,
            "exit_reason": self.exit_reason,
            "backward_passes_without_step": self.passes,
            "dropped": self.dropped,
            "instrumentors": self.instrumentors,
        }


def process(run: Path, rank: int | None, *, world_size: int | None = 2, started: int, **identity: Any) -> ProcessWriter:
    """A process of the run in folder ``run``."""
    instance = hashlib.sha256(f"{run}{rank}{identity}".encode()).hexdigest()[:32]
    resource: dict[str, Any] = {
        "service.name": "grpo_two_ranks",
        "service.instance.id": instance,
        "host.name": "node-a",
        "process.pid": 4000 + (rank or 0),
        "rl.run.id": run.name,
        "rl.run.attempt": "0.0.0",
        "rl.system.name": "trl",
        "rl.algorithm": "grpo",
        "rl.role": "trainer",
        "rl.launcher": "torchrun",
    }
    if rank is not None:
        resource |= {"rl.rank": rank, "rl.local_rank": rank, "rl.world_size": world_size, "rl.node.rank": 0}
    resource |= {key.replace("__", "."): value for key, value in identity.items()}
    who = f"rank{rank}" if rank is not None else f"pid{resource['process.pid']}"
    return ProcessWriter(run / f"{resource['host.name']}-{who}-{instance[:8]}", resource, started)


@dataclass
class GrpoRun:
    """A GRPO run of ``steps`` iterations on ``ranks`` ranks; rank 1 is the slower one."""

    data_dir: Path
    run_id: str = "grpo-7f3a"
    ranks: int = 2
    steps: int = 20
    world_size: int = 2
    step_seconds: float = 2.4
    tool_name: str = "calculator"
    error: bool = True
    seed: int = 1
    started: int | None = None

    def write(self) -> Path:
        """Write everything; the folder of the run."""
        self.random = random.Random(self.seed)  # noqa: S311
        folder = self.data_dir / self.run_id
        length = int((self.steps * self.step_seconds + 8) * SECOND)
        started = self.started or time.time_ns() - length
        self.durations = [self.step_seconds * self.random.uniform(0.85, 1.2) for _ in range(self.steps)]
        if self.steps > 12:
            self.durations[12] *= 1.9
        for rank in range(self.ranks):
            writer = process(folder, rank, world_size=self.world_size, started=started)
            writer.ended = started + length
            writer.instrumentors = {
                "otel_rl_trl": {"state": "active", "reason": ""},
                "otel_rl_openai": {"state": "skipped", "reason": "openai is not installed"},
            }
            if rank == 0:
                writer.dropped = {"traces": {"queue_full": 12}}
            self._run(writer, rank)
            writer.write()
        return folder

    def _run(self, writer: ProcessWriter, rank: int) -> None:
        instruments = _Instruments(writer, rank)
        at = 5.0
        for iteration in range(1, self.steps + 1):
            duration = self.durations[iteration - 1]
            self._step(writer, rank, iteration, at, duration, instruments)
            if rank == 0:
                writer.event(
                    "rl.step",
                    at + duration,
                    body=self._scalars(iteration),
                    attributes={"rl.loop.iteration": iteration, "rl.step.first": iteration, "rl.step.last": iteration},
                )
            at += duration
        if self.error and rank == self.ranks - 1:
            writer.event(
                "rl.process.exception",
                at,
                attributes={
                    "exception.type": "torch.OutOfMemoryError",
                    "exception.message": "out of memory while saving <the> checkpoint",
                    "exception.stacktrace": 'Traceback (most recent call last):\n  File "train.py", line 9\nOutOfMem',
                    "rl.rank": rank,
                    "rl.loop.iteration": self.steps,
                },
                severity=21,
            )
            writer.clean_exit, writer.exit_reason = False, "uncaught exception"
        if rank == 0:
            end = at + 1
            writer.span("rl.run", 0.0, end, {"rl.run.id": self.run_id, "rl.run.attempt": "0.0.0"})

    def _step(
        self, writer: ProcessWriter, rank: int, iteration: int, at: float, duration: float, instruments: _Instruments
    ) -> None:
        digest = hashlib.sha256(f"{self.run_id}{iteration}".encode()).digest()
        trace_id, root_id = int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")
        root = SpanContext(trace_id, root_id, is_remote=True, trace_flags=TraceFlags(1))
        own = duration * (0.97 if rank == self.ranks - 1 else 0.8)
        wait = max(duration - own, 0.0)
        calls, moved = 14, 14 * 262_144
        rank_id = writer.ids.generate_span_id()
        rank_context = SpanContext(trace_id, rank_id, is_remote=False, trace_flags=TraceFlags(1))
        cursor = at
        for name, children, share in PHASE_PARTS:
            length = duration * share
            self._phase(writer, name, children, cursor, length, iteration, rank_context)
            cursor += length
        writer.ids.span = rank_id
        writer.span(
            "rl.rank.step",
            at,
            at + duration,
            {
                "rl.loop.iteration": iteration,
                "rl.rank": rank,
                "torch.distributed.calls": calls,
                "torch.distributed.bytes": moved,
                "torch.distributed.host_time": wait + 0.02,
                "torch.distributed.wait_time": wait,
            },
            parent=root,
            events=[
                (
                    "torch.distributed.collective",
                    {
                        "torch.distributed.operation": "all_reduce",
                        "torch.distributed.group.name": "default_pg",
                        "torch.distributed.group.size": 2,
                        "torch.distributed.duration": wait * 0.7 + 0.001,
                        "torch.distributed.message.size": 262_144,
                    },
                )
            ],
        )
        if rank == 0:
            writer.ids.trace, writer.ids.span = trace_id, root_id
            writer.span(
                "rl.loop",
                at,
                at + duration,
                {"rl.loop.iteration": iteration, "rl.run.id": self.run_id, "rl.run.attempt": "0.0.0"},
            )
        instruments.step(iteration, duration, calls, moved, wait, self._scalars(iteration), self.random)

    def _phase(
        self,
        writer: ProcessWriter,
        name: str,
        children: tuple[tuple[str, float], ...],
        start: float,
        length: float,
        iteration: int,
        parent: SpanContext,
    ) -> None:
        phase_id = writer.ids.generate_span_id()
        context = SpanContext(parent.trace_id, phase_id, is_remote=False, trace_flags=TraceFlags(1))
        cursor = start
        for child, share in children:
            writer.span(child, cursor, cursor + length * share, _phase_attributes(child, iteration), context)
            cursor += length * share
        if name == "rl.sample" and iteration % 4 == 0:
            failed = iteration % 8 == 0
            writer.span(
                f"execute_tool {self.tool_name}",
                start,
                start + length * 0.3,
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": self.tool_name},
                context,
                error="ValueError" if failed else None,
            )
        if name == "rl.reward":
            attributes = {**_phase_attributes(name, iteration), "rl.reward.name": "len_reward"}
            writer.span("rl.reward", start, start + length * 0.8, attributes, context)
        writer.ids.span = phase_id
        writer.span(name, start, start + length, _phase_attributes(name, iteration), parent)

    def _scalars(self, iteration: int) -> dict[str, float]:
        progress = iteration / self.steps
        wave = math.sin(iteration * 1.7) * 0.03
        return {
            "loss": 0.02 - 0.015 * progress + wave * 0.1,
            "grad_norm": 0.9 - 0.3 * progress + wave,
            "learning_rate": 1e-6 * (1 - progress),
            "reward": 0.1 + 0.7 * progress + wave,
            "reward_std": 0.31 - 0.2 * progress,
            "rewards/len_reward/mean": 0.05 + 0.4 * progress,
            "rewards/format_reward/mean": 0.05 + 0.3 * progress,
            "kl": 0.002 + 0.02 * progress + abs(wave) * 0.1,
            "entropy": 2.4 - 1.8 * progress + wave,
            "completions/mean_length": 180 + 60 * progress + wave * 100,
            "completions/max_length": 256.0,
            "completions/clipped_ratio": 0.05 * progress,
            "frac_reward_zero_std": 0.1 * progress,
            "epoch": progress,
        }


def _phase_attributes(name: str, iteration: int) -> dict[str, Any]:
    return {"rl.phase": name.removeprefix("rl."), "rl.loop.iteration": iteration}


class _Instruments:
    """The metrics that a rank of the run records."""

    def __init__(self, writer: ProcessWriter, rank: int) -> None:
        meter = writer.meter
        self.rank = rank
        collective = {"torch.distributed.operation": "all_reduce"}
        self.group = {**collective, "torch.distributed.group.name": "default_pg", "torch.distributed.group.size": 2}
        self.calls = meter.create_counter("torch.distributed.collective.calls", "{call}")
        self.moved = meter.create_counter("torch.distributed.collective.io", "By")
        self.host = meter.create_counter("torch.distributed.collective.host_time", "s")
        self.wait = meter.create_counter("torch.distributed.collective.wait_time", "s")
        self.steps = meter.create_counter("rl.train.steps", "{step}")
        self.tokens = meter.create_counter("rl.train.tokens", "{token}")
        self.samples = meter.create_counter("rl.sample.samples", "{sample}")
        self.score = meter.create_histogram(
            "rl.reward.score", "1", explicit_bucket_boundaries_advisory=[0.0, 0.25, 0.5, 0.75, 1.0]
        )
        self.tool = meter.create_histogram(
            "gen_ai.execute_tool.duration", "s", explicit_bucket_boundaries_advisory=[0.01, 0.1, 0.5, 1.0]
        )
        meter.create_gauge("torch.distributed.clock.offset", "s").set(0.0002 * rank)
        meter.create_counter("rl.telemetry.dropped", "{item}").add(
            3, {"rl.telemetry.signal": "metrics", "rl.telemetry.drop.reason": "non_finite"}
        )

    def step(
        self,
        iteration: int,
        duration: float,
        calls: int,
        moved: int,
        wait: float,
        scalars: dict[str, float],
        numbers: random.Random,
    ) -> None:
        """One step's worth of everything."""
        self.calls.add(calls, self.group)
        self.moved.add(moved, self.group)
        self.host.add(wait + 0.02, self.group)
        self.wait.add(wait, self.group)
        if self.rank == 0:
            self.steps.add(1)
            self.tokens.add(4096)
            self.samples.add(8)
        for _ in range(8):
            score = min(1.0, max(0.0, numbers.gauss(scalars["reward"], 0.2)))
            self.score.record(score, {"rl.reward.name": "len_reward"})
            self.score.record(score * 0.5, {"rl.reward.name": "format_reward"})
        for _ in range(3):
            self.tool.record(numbers.uniform(0.02, 0.2), {"gen_ai.tool.name": "calculator"})


def write_agent_run(data_dir: Path, run_id: str = "agent-11d0", rollouts: int = 12) -> Path:
    """A run of rollouts with LLM calls, tools and rewards, without any training step."""
    folder = data_dir / run_id
    numbers = random.Random(3)  # noqa: S311
    started = time.time_ns() - 90 * SECOND
    writer = process(
        folder, None, started=started, service__name="agent_rollout", rl__role="rollout", rl__system__name="langgraph"
    )
    writer.ended = started + 80 * SECOND
    duration = writer.meter.create_histogram("gen_ai.client.operation.duration", "s")
    tokens = writer.meter.create_histogram("gen_ai.client.token.usage", "{token}")
    at = 2.0
    for index in range(rollouts):
        length = numbers.uniform(2.5, 6.0)
        _rollout(writer, index, at, length, numbers)
        model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny-qwen", "gen_ai.provider.name": "openai"}
        for _ in range(2):
            duration.record(length * 0.35, model)
            tokens.record(numbers.randint(100, 400), {**model, "gen_ai.token.type": "input"})
            tokens.record(numbers.randint(10, 60), {**model, "gen_ai.token.type": "output"})
        at += length
    writer.write()
    return folder


def _rollout(writer: ProcessWriter, index: int, at: float, length: float, numbers: random.Random) -> None:
    trace_id, root_id = writer.ids.generate_trace_id(), writer.ids.generate_span_id()
    root = SpanContext(trace_id, root_id, is_remote=False, trace_flags=TraceFlags(1))
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny-qwen", "gen_ai.provider.name": "openai"}
    usage = {"gen_ai.usage.input_tokens": 210, "gen_ai.usage.output_tokens": 34}
    failed = index == 5
    agent = writer.span(
        "invoke_agent solver",
        at,
        at + length * 0.95,
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "solver"},
        root,
    )
    writer.span("chat tiny-qwen", at, at + length * 0.35, {**model, **usage}, agent)
    writer.span(
        "execute_tool search",
        at + length * 0.36,
        at + length * numbers.uniform(0.4, 0.6),
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.type": "function"},
        agent,
        error="TimeoutError" if failed else None,
    )
    writer.span("chat tiny-qwen", at + length * 0.61, at + length * 0.95, {**model, **usage}, agent)
    writer.event(
        "gen_ai.evaluation.result",
        at + length,
        attributes={"gen_ai.evaluation.name": "exact_match", "gen_ai.evaluation.score.value": float(index % 3 == 0)},
    )
    writer.ids.trace, writer.ids.span = trace_id, root_id
    identity = {"rl.rollout.id": f"rollout-{index}", "rl.group.id": f"group-{index // 4}", "rl.sample.id": f"s{index}"}
    writer.span("rl.rollout", at, at + length, identity, error="TimeoutError" if failed else None)
