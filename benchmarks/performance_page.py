"""Write the tables of docs/performance.md from the files in benchmarks/results.

    python benchmarks/performance_page.py [--check]

With `--check` nothing is written, and the exit status is 1 when the page differs from the results. `run.py` writes the
page after each measurement. A table stands between two comments; all text around it is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
_TABLE = re.compile(r"<!-- table (\w+): benchmarks/performance_page.py -->\n.*?<!-- end of the table -->", re.DOTALL)


class Row(NamedTuple):
    """One line of a table: a figure of a result file and how it is written."""

    meaning: str
    file: str
    figure: str
    digits: int = 2
    #: What the figure is multiplied by and shown in.
    factor: float = 1
    unit: str = ""


def _grpo_step_cpu() -> tuple[Row, ...]:
    rows = []
    for rank, what in ((0, "rank 0, which logs and opens the step"), (1, "rank 1")):
        rows += [
            Row(
                f"our CPU time per GRPO step, {what}", "grpo_step_cpu", f"rank {rank}: own CPU per step, ms", unit=" ms"
            ),
            Row(
                "of it on the trainer's thread",
                "grpo_step_cpu",
                f"rank {rank}: on the trainer's thread, ms",
                unit=" ms",
            ),
            Row("of it on threads of ours", "grpo_step_cpu", f"rank {rank}: on threads of ours, ms", unit=" ms"),
            Row(
                "share of the step's CPU time",
                "grpo_step_cpu",
                f"rank {rank}: share of the step's CPU time",
                2,
                100,
                " %",
            ),
            Row(
                "the same with the cost of reading the clock",
                "grpo_step_cpu",
                f"rank {rank}: own CPU with the cost of the clock, ms",
                unit=" ms",
            ),
            Row("entries into our code per step", "grpo_step_cpu", f"rank {rank}: entries per step", 0),
            Row("entries that are not timed", "grpo_step_cpu", f"rank {rank}: entries that are not timed", 0),
            Row("CPU time of such a step", "grpo_step_cpu", f"rank {rank}: CPU seconds per step", unit=" s"),
        ]
    return (
        *rows,
        Row("CPU time of a step with us / without", "grpo_step", "GRPO step with / without, CPU time", 3),
        Row("CPU time of a step without us", "grpo_step", "CPU seconds per step without", unit=" s"),
    )


def _soak(load: str) -> tuple[Row, ...]:
    one = load.removesuffix("s")
    return (
        Row("resident memory", "soak", f"{load}: rss_bytes per {one}", 2, unit=f" bytes per {one}"),
        Row("what noise could hide", "soak", f"{load}: rss_bytes per {one} that noise could hide", 2, unit=" bytes"),
        Row("objects", "soak", f"{load}: objects per {one}", 5, unit=f" per {one}"),
        Row("what noise could hide", "soak", f"{load}: objects per {one} that noise could hide", 5),
        Row("open descriptors more than in the first half", "soak", f"{load}: descriptors more in the last half", 0),
        Row("threads more than in the first half", "soak", f"{load}: threads more in the last half", 0),
        Row("dearer at the end", "soak", f"{load}: share by which one became dearer", 1, 100, " %"),
        Row("bytes in the store, at most", "soak", f"{load}: bytes in the store", 1, 2**-20, " MiB"),
        Row("resident memory at the end", "soak", f"{load}: MiB at the end", 0, unit=" MiB"),
        Row(
            "CPU time on the program's thread",
            "soak",
            f"{load}: CPU microseconds per {one}, program's thread",
            0,
            unit=" µs",
        ),
    )


def _watchdog() -> tuple[Row, ...]:
    return (
        *(
            Row(f"{how}: {meaning}", "watchdog", f"{how}: {key}", digits, factor, unit)
            for how in ("training", "standing still")
            for key, meaning, digits, factor, unit in (
                ("us per wake-up", "CPU time per wake-up", 0, 1, " µs"),
                ("wake-ups per second", "wake-ups per second", 2, 1, ""),
                ("share of a core", "share of a core", 3, 100, " %"),
            )
        ),
        Row("memory, its modules included", "watchdog", "KiB of Python memory", 0, unit=" KiB"),
    )


def _exit() -> tuple[Row, ...]:
    return tuple(
        Row(f"{sender}, {collector}, {protocol}", "exit_with_dead_collector", f"seconds_{key}", 1, unit=" s")
        for key, sender, collector, protocol in (
            ("ours_refused_http", "ours", "nobody listens", "HTTP"),
            ("ours_refused_grpc", "ours", "nobody listens", "gRPC"),
            ("ours_mute_http", "ours", "no answer", "HTTP"),
            ("ours_mute_grpc", "ours", "no answer", "gRPC"),
            ("official_refused_http", "official distro", "nobody listens", "HTTP"),
        )
    )


def _throughput() -> tuple[Row, ...]:
    return tuple(
        Row(meaning, "collector_throughput", f"{key}_spans_per_second", 0)
        for key, meaning in (
            ("plain", "plain"),
            ("gateway", "gateway"),
            ("gateway_no_free_text", "gateway, no free text"),
            ("gateway_cold_cache", "gateway, cold cache: every text is new"),
            (
                "gateway_worst_case",
                "gateway, worst case: every text is new, 80 % dense with secret words, 20 % with a secret",
            ),
            ("agent", "agent"),
            ("agent_no_free_text", "agent, no free text"),
            ("agent_cold_cache", "agent, cold cache"),
            ("agent_worst_case", "agent, worst case"),
        )
    )


def _engine_spans() -> tuple[Row, ...]:
    return tuple(
        Row(f"{engine}: {meaning}", "engine_spans", f"{engine}: {key}", digits, factor, unit)
        for engine in ("server", "LLM.generate", "AsyncLLM.generate", "AsyncLLM.generate, vLLM's own")
        for key, meaning, digits, factor, unit in (
            ("share of spans in their rollout", "spans of the engine in the rollout that asked", 1, 100, " %"),
            ("requests", "requests", 0, 1, ""),
        )
    )


def _calls() -> tuple[Row, ...]:
    file = "openai_chat_call"
    rows = []
    for sink in ("SDK only", "file store"):
        rows += [
            Row(f"{sink}: {meaning}, ours / official", file, f"{sink}: {shape}, ours / official")
            for shape, meaning in (
                ("chat", "chat call"),
                ("async_chat", "asynchronous chat call"),
                ("agent_turn", "turn of an agent"),
                ("stream", "streamed call of 22 chunks"),
                ("chunk", "one more chunk"),
                ("async_chunk", "one more chunk, asynchronous"),
            )
        ]
        rows += [
            Row(f"{sink}: added to a chat call, {whose}", file, f"{sink}: chat, added by {whose}, us", 0, unit=" µs")
            for whose in ("ours", "official")
        ]
    return (
        *rows,
        Row("executed bytecodes of a chat call, ours / official", file, "chat, bytecodes, ours / official"),
        *(
            Row(f"of ours, {owner}", file, f"chat, bytecodes, share of {owner}", 0, 100, " %")
            for owner in ("own code", "OpenTelemetry", "client")
        ),
        Row("executed bytecodes of one more chunk, ours / official", file, "chunk, bytecodes, ours / official"),
    )


def _start() -> tuple[Row, ...]:
    return tuple(
        Row(f"{role}: {meaning}", "collector_start", f"{role}_{key}", digits, unit=unit)
        for role in ("local", "agent", "gateway")
        for key, meaning, digits, unit in (
            ("seconds_to_healthy", "healthy after", 2, " s"),
            ("cpu_seconds_to_healthy", "CPU time of that", 2, " s"),
            ("idle_mebibytes", "resident memory, idle for 5 s", 0, " MiB"),
            ("config_seconds", "`otel-rl collector config`", 2, " s"),
            ("config_cpu_seconds", "CPU time of that", 2, " s"),
        )
    )


TABLES: dict[str, tuple[Row, ...]] = {
    "collectives": (
        Row("launch / exported span", "collective_event", "launch event / exported span", 3),
        Row("launch and wait / exported span", "collective_event", "launch and wait / exported span", 3),
        Row("launch / span without its export", "collective_event", "launch event / span without export", 3),
        Row("launch", "collective_event", "launch event, ns", 0, unit=" ns"),
        Row("launch and wait", "collective_event", "launch and wait, ns", 0, unit=" ns"),
        Row(
            "with the ring: launch / exported span", "collective_event", "launch event with the ring / exported span", 3
        ),
        Row(
            "with the ring: launch and wait / exported span",
            "collective_event",
            "launch and wait with the ring / exported span",
            3,
        ),
        Row("with the ring: launch", "collective_event", "launch event with the ring, ns", 0, unit=" ns"),
        Row("with the ring: launch and wait", "collective_event", "launch and wait with the ring, ns", 0, unit=" ns"),
    ),
    "collective_steps": (
        *(
            Row(f"step {step}, {way}", "collective_step", f"{step}, {way}, counted CPU", 4)
            for step in ("all_reduce", "ddp", "fsdp")
            for way in ("python", "auto", "all")
        ),
        *(
            Row(f"one of {source}'s, all", "collective_step", f"{source} collective, added by all, us", 0, unit=" µs")
            for source in ("python", "reducer", "functional")
        ),
    ),
    "watchdog": _watchdog(),
    "event_loops": (
        Row("F1 of blocks found and named, asyncio", "event_loop_blocks", "asyncio: F1"),
        Row("F1 of blocks found and named, uvloop", "event_loop_blocks", "uvloop: F1"),
        Row("loop that waits: share of a core", "event_loop_blocks", "idle loop: share of a core", 2, 100, " %"),
        Row("loop at work: share of a core", "event_loop_blocks", "at work loop: share of a core", 2, 100, " %"),
    ),
    "health": tuple(
        Row(f"{how} run: CPU time per step", "health_step", f"{how}: us of CPU per step", 0, unit=" µs")
        for how in ("healthy", "sick")
    ),
    "start": (
        Row(
            "child of ours / child of the official distro with openai and langchain",
            "process_start",
            "child_to_official_with_genai",
            3,
        ),
        Row(
            "added time / that of the official distro without instrumentors",
            "process_start",
            "added_time_to_official_bare",
        ),
        Row("child outside the `launchers` policy / plain Python", "process_start", "outside_policy_to_plain"),
        Row("plain Python", "process_start", "median_ms_plain", 0, unit=" ms"),
        Row("child of ours", "process_start", "median_ms_ours", 0, unit=" ms"),
    ),
    "exit": _exit(),
    "calls": _calls(),
    "engines": (
        Row(
            "CPU time added to a request to an engine",
            "http_engine_call",
            "engine: us of CPU added to a request",
            0,
            unit=" µs",
        ),
        Row(
            "CPU time added to another request",
            "http_engine_call",
            "other: us of CPU added to a request",
            0,
            unit=" µs",
        ),
        Row(
            "share of a call of `LLM.generate` with 256 requests", "engine_generate", "share of the call", 2, 100, " %"
        ),
        Row("our CPU time in that call", "engine_generate", "own CPU per call, ms", 1, unit=" ms"),
        Row("of it on the program's thread", "engine_generate", "on the program's thread, ms", 1, unit=" ms"),
        Row("duration of that call", "engine_generate", "seconds per call", 2, unit=" s"),
        Row("tokens in it", "engine_generate", "tokens per call", 0),
        *_engine_spans(),
    ),
    "rollouts": (
        Row("rollouts that are open at once", "concurrent_rollouts", "rollouts open at once", 0),
        Row("spans that were delivered", "concurrent_rollouts", "share of spans that were delivered", 2, 100, " %"),
        Row("of them below the rollout that they belong to", "concurrent_rollouts", "spans below their rollout", 0),
        Row("below another", "concurrent_rollouts", "spans with another parent", 0),
        Row("objects more per rollout", "concurrent_rollouts", "objects more per rollout", 5),
        Row("CPU time added per rollout", "concurrent_rollouts", "CPU added per rollout, us", 0, unit=" µs"),
        Row("CPU time per rollout without us", "concurrent_rollouts", "CPU per rollout without, us", 0, unit=" µs"),
    ),
    "files": (
        Row("CPU time per span, on our thread", "file_store", "cpu_microseconds_per_span", 0, unit=" µs"),
        Row("bytes per span of five attributes", "file_store", "bytes_per_span", 0),
    ),
    "grpo": _grpo_step_cpu(),
    "grpo_parts": (),
    "elastic_first": (),
    "soak_steps": _soak("steps"),
    "soak_calls": _soak("calls"),
    "soak_requests": _soak("requests"),
    "elastic": tuple(
        Row(f"{meaning}, {mode}", "elastic_restart", f"{key}_{mode}", digits, unit=unit)
        for key, meaning, digits, unit in (
            ("runs", "jobs", 0, ""),
            ("recovered", "went on after a restart", 0, ""),
            ("hangs", "hung in `init_process_group`", 0, ""),
            ("median_seconds_to_recover", "median time until the job went on", 0, " s"),
        )
        for mode in ("plain", "instrumented")
    ),
    "collector_cpu": (
        Row("gateway without redaction / plain", "collector_throughput", "gateway_without_redaction_to_plain"),
        Row(
            "gateway without redaction / plain with zstd",
            "collector_throughput",
            "gateway_without_redaction_to_plain_zstd",
        ),
        Row("gateway / plain", "collector_throughput", "gateway_to_plain"),
        Row("agent / plain", "collector_throughput", "agent_to_plain"),
    ),
    "collector_throughput": _throughput(),
    "collector_start": _start(),
}


def _figures(file: str) -> dict[str, Any]:
    path = RESULTS / f"{file}.json"
    return json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}


def _line(row: Row) -> str:
    figure = _figures(row.file).get(row.figure)
    if figure is None:
        return f"| {row.meaning} | not measured | | |"

    def number(value: float) -> str:
        return f"{value * row.factor:,.{row.digits}f}"

    value, limit, spread = number(figure["value"]) + row.unit, "", ""
    if "lower_95" in figure:
        spread = f"{number(figure['lower_95'])} to {number(figure['upper_95'])}"
    elif "longest" in figure or "judged" in figure:
        spread = f"longest {number(figure.get('longest', figure.get('judged')))}"
    if "limit" in figure:
        limit = number(figure["limit"]) + row.unit
        judged = figure.get("judged")
        if judged is not None and judged == figure.get("upper_95"):
            limit += ", upper bound"
        elif judged is not None and judged == figure.get("lower_95"):
            limit += ", lower bound"
    elif "at_least" in figure:
        limit = f"at least {number(figure['at_least'])}"
    if not figure.get("within_limit", True):
        value = f"**{value}**"
    return f"| {row.meaning} | {value} | {spread} | {limit} |"


def _grpo_parts() -> str:
    """Where the time on the trainer's thread goes: the replaced functions of rank 0, the dearest first."""
    path = RESULTS / "grpo_step_cpu.json"
    ranks = json.loads(path.read_text(encoding="utf-8"))["samples"] if path.exists() else [{"by_function": {}}]
    lines = ["| replaced function | entries per step | ms per step |", "|---|---|---|"]
    for function, part in ranks[0]["by_function"].items():
        # pybind's own module and class names are no names anybody knows.
        short = ".".join(re.sub(r"^.*_distributed_c10d.*\.", "torch.distributed.", function).rsplit(".", 2)[-2:])
        lines.append(f"| `{short}` | {part['entries_per_step']:g} | {part['ms_per_step']:.2f} |")
    return "\n".join(lines)


def _elastic_first() -> str:
    """Outcomes of the first restart, by what of ours is on."""
    figures = _figures("elastic_first_restart")
    outcomes = ("recovered", "refused", "hung", "unknown")
    lines = ["| job | went on | refused | hung | not known in time |", "|---|---|---|---|---|"]
    for arm in [name.removeprefix("hung_") for name in figures if name.startswith("hung_")]:
        cells = [str(figures[f"{outcome}_{arm}"]["value"]) for outcome in outcomes]
        lines.append(f"| {arm.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _table(name: str) -> str:
    if name == "grpo_parts":
        return _grpo_parts()
    if name == "elastic_first":
        return _elastic_first()
    rows = TABLES[name]
    lines = ["| figure | measured | 95 % interval | limit |", "|---|---|---|---|", *map(_line, rows)]
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """`page` with every table as the results give it."""

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        begin = f"<!-- table {name}: benchmarks/performance_page.py -->"
        return f"{begin}\n\n{_table(name)}\n\n<!-- end of the table -->"

    return _TABLE.sub(replace, page)


def main(arguments: list[str] | None = None) -> int:
    """Write or compare; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is not up to date")
    check = parser.parse_args(arguments).check
    page = PAGE.read_text(encoding="utf-8")
    current = with_tables(page)
    if page == current:
        return 0
    if check:
        print(
            "docs/performance.md differs from benchmarks/results; run benchmarks/performance_page.py", file=sys.stderr
        )
        return 1
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
