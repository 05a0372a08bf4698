"""The rooms of the pack: one list, for the test of the layers, the table in CONTRIBUTING and :mod:`.import_path`."""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    """A folder of the pack.

    Attributes:
        name: its name below ``otel_rl``.
        subject: what it holds, in one line of Markdown.
        is_recording: its modules may be imported with the first record, at any time until the process has ended.
    """

    name: str
    subject: str
    is_recording: bool = True


#: From the top to the bottom. A room imports from layers below its own only.
LAYERS: tuple[tuple[Room, ...], ...] = (
    (Room("cli", "arguments of `otel-rl`, and `doctor`", is_recording=False),),
    (
        Room("distro", "start-up: distro, configurator, bootstrap of children, loading of instrumentors"),
        Room("collector", "composition of collector configurations: parts, checks, running", is_recording=False),
        Room("live", "a run while it is written: `otel-rl live` and `otel-rl top`", is_recording=False),
    ),
    (
        Room("export", "one run for other programs: a trace for Perfetto, tables of CSV", is_recording=False),
        Room("dumps", "rollout dumps of trainers, imported as a run", is_recording=False),
    ),
    (
        Room("instrumentors", "one folder per instrumented library; no folder imports another", is_recording=False),
        Room("ending", "exit, forks, uncaught exceptions, the last line"),
        Room("sinks", "sinks of the program, which get each step while it runs, and the state of all of them"),
        Room("replay", "sends the files of a run to an OTLP destination later, with a ledger", is_recording=False),
        Room(
            "report",
            "the report: `subjects` has a folder for each subject, `core` what they share, `page` the HTML",
            is_recording=False,
        ),
    ),
    (
        Room("api", "the producer API: what `otel_rl` offers, and what it opens"),
        Room("services", "middleware of ASGI and WSGI for the HTTP services of a rollout"),
        Room("trackers", "experiment trackers that we write to: `mlflow`, and `write_back` to the program's own"),
        Room("console", "one line per step on standard error"),
    ),
    (
        Room("pipeline", "exporter selection, providers, processors, readers, the I/O threads"),
        Room("health", "rules over steps and curves, the same code live and offline"),
        Room("ranks", "ranks that are late (`stragglers`), hang (`watchdog`) or died (`postmortem`)"),
        Room("event_loops", "event loops that are late, and the code that blocks them"),
        Room(
            "inference",
            "one boundary for all model calls; `http` for engines and named services behind a plain HTTP client",
        ),
        Room("agents", "one boundary for all runs of agents, and the trajectories that they are"),
        Room("collectives", "collectives: counters, wait times, the record of each in the ring"),
        Room("weight_sync", "whether an engine serves the weights that the trainer has"),
        Room("runtime_metrics", "memory, control groups, garbage collection, compilation, GPUs"),
    ),
    (
        Room("training", "one boundary for all trainers: steps, phases, scalars, rewards, trajectories"),
        Room("tools", "one boundary for all tool calls"),
        Room("store", "the file store: `writer`, and `reader`"),
    ),
    (Room("telemetry", "the choke point: the only holders of a tracer, meter or logger"),),
    (Room("flight_recorder", "the ring of a process that outlives a kill: writer, reader, copies"),),
    (
        Room("process", "who this process is: launcher, child policy, identity, inherited context"),
        Room("semconv", "constants, generated from `instrumentation/registry`"),
    ),
    (Room("core", "leaves: settings, guard, import hooks, threads, clock, own CPU time"),),
)
