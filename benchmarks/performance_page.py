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
_TABLE = re.compile(r"<!--table:(\w+)-->\n.*?<!--end-->", re.DOTALL)


class Row(NamedTuple):
    """One line of a table: a figure of a result file in each column, and how it is written."""

    meaning: str
    file: str
    figures: tuple[str, ...]
    digits: int = 2
    #: What the figure is multiplied by and shown in.
    factor: float = 1
    unit: str = ""


class Table(NamedTuple):
    """A table of figures; ``columns`` names what is measured side by side."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


#: Meaning, digits, factor and unit of a line.
Form = tuple[str, int, float, str]


def _simple(file: str, *lines: tuple[str, str, int, float, str]) -> Table:
    """Return a table of one column; each of ``lines`` begins with the figure."""
    return Table(("measured",), tuple(Row(meaning, file, (figure,), *form) for figure, meaning, *form in lines))


def _side_by_side(file: str, columns: dict[str, str], lines: dict[str, Form]) -> Table:
    """Return a table of a column per measurement; ``lines`` maps the form of a figure's name to how it is written."""
    rows = (
        Row(meaning, file, tuple(figure.format(key) for key in columns), digits, factor, unit)
        for figure, (meaning, digits, factor, unit) in lines.items()
    )
    return Table(tuple(columns.values()), tuple(rows))


TABLES: dict[str, Table] = {
    "collectives": Table(
        ("without the ring", "with the ring"),
        tuple(
            Row(meaning, "collective_event", tuple(figure.format(ring) for ring in ("", " with the ring")), *form)
            for figure, meaning, *form in (
                ("launch event{} / exported span", "launch / exported span", 3, 1, ""),
                ("launch event{}, ns", "launch", 0, 1, " ns"),
                ("launch and wait{}, ns", "launch and wait", 0, 1, " ns"),
            )
        ),
    ),
    "collective_steps": _side_by_side(
        "collective_step",
        {"python": "`python`", "auto": "`auto`", "all": "`all`"},
        {
            f"{step}, {{}}, counted CPU": (meaning, 4, 1, "")
            for step, meaning in (("all_reduce", "one all-reduce"), ("ddp", "DDP"), ("fsdp", "FSDP2"))
        },
    ),
    "collective_sources": _side_by_side(
        "collective_step",
        {"python": "Python", "reducer": "reducer", "functional": "functional"},
        {"{} collective, added by all, us": ("added by `all`", 0, 1, " µs")},
    ),
    "nccl_timing": _simple(
        "nccl_timing",
        ("4 KiB, bare, us", "launch of an all-reduce of 4 KiB", 1, 1, " µs"),
        ("4 KiB, timed, us", "timed", 1, 1, " µs"),
        ("64 MiB, bare, us", "launch of one of 64 MiB", 1, 1, " µs"),
        ("64 MiB, timed, us", "timed", 1, 1, " µs"),
        ("step, ratio", "step of eight matrix products and all-reduces, timed / not", 3, 1, ""),
        ("2000 entries, dump, ms", "dump of 2000 entries, the default", 0, 1, " ms"),
        ("2000 entries, read, ms", "reading it", 0, 1, " ms"),
    ),
    "watchdog": _side_by_side(
        "hang_watchdog",
        {"training": "training", "standing still": "standing still"},
        {
            "{}: share of a core": ("share of a core", 3, 100, " %"),
            "KiB of Python memory": ("memory with its modules", 0, 1, " KiB"),
        },
    ),
    "engines": _simple(
        "engine_metrics",
        ("share of a core", "share of a core", 3, 100, " %"),
        ("milliseconds of CPU of the longest round", "longest round", 1, 1, " ms of CPU"),
    ),
    "event_loops": _simple(
        "event_loop_blocks",
        ("asyncio: F1", "F1, asyncio", 2, 1, ""),
        ("uvloop: F1", "F1, uvloop", 2, 1, ""),
        ("idle loop: share of a core", "share of a core, idle loop", 2, 100, " %"),
        ("at work loop: share of a core", "share of a core, busy loop", 2, 100, " %"),
    ),
    "health": _simple(
        "health_step",
        ("healthy: us of CPU per step", "healthy run", 0, 1, " µs"),
        ("sick: us of CPU per step", "sick run", 0, 1, " µs"),
    ),
    "guessed_steps": _simple(
        "guessed_step",
        ("us of CPU per step, warm", "guessed step, warm", 0, 1, " µs"),
        ("us of CPU added to a step of a small model", "added to a step of a small model", 0, 1, " µs"),
    ),
    "trackers": _simple(
        "tracker_call",
        ("one call: us", "one call with 30 values", 0, 1, " µs"),
        ("30 calls: us", "30 calls with a value each", 0, 1, " µs"),
    ),
    "hot_hooks": _side_by_side(
        "hot_hooks",
        {"step of CartPole": "step of CartPole", "small save in memory": "save of a small tensor in memory"},
        {"{}: ratio": ("with us / without", 2, 1, ""), "{}: added us": ("added", 1, 1, " µs")},
    ),
    "agents": _simple(
        "agent_step",
        (
            "beside its companion, added / one of our spans",
            "beside a companion's span, added / one of our spans",
            2,
            1,
            "",
        ),
        ("alone / one of our spans", "alone / one of our spans", 2, 1, ""),
        ("MiB that 50,000 more runs add", "memory that 50,000 more runs add", 1, 1, " MiB"),
    ),
    "start": _simple(
        "process_start",
        ("child_to_official_with_genai", "ours / official distro with openai and langchain", 3, 1, ""),
        ("added_time_to_official_bare", "added time / official distro without instrumentors", 2, 1, ""),
        ("outside_policy_to_plain", "child outside the `launchers` policy / plain Python", 2, 1, ""),
        ("median_ms_plain", "plain Python", 0, 1, " ms"),
        ("median_ms_ours", "ours", 0, 1, " ms"),
    ),
    "exit": _simple(
        "exit_with_dead_collector",
        ("seconds_ours_refused_http", "ours, nobody listens, HTTP", 1, 1, " s"),
        ("seconds_ours_refused_grpc", "ours, nobody listens, gRPC", 1, 1, " s"),
        ("seconds_ours_mute_http", "ours, no answer, HTTP", 1, 1, " s"),
        ("seconds_ours_mute_grpc", "ours, no answer, gRPC", 1, 1, " s"),
        ("seconds_official_refused_http", "official distro, nobody listens, HTTP", 1, 1, " s"),
    ),
    "calls": _simple(
        "openai_chat_call",
        ("chat, ours / official", "chat call, ours / official", 2, 1, ""),
        ("async_chat, ours / official", "asynchronous chat call", 2, 1, ""),
        ("agent_turn, ours / official", "turn of an agent", 2, 1, ""),
        ("chunk, ours / official", "one more chunk", 2, 1, ""),
        ("async_chunk, ours / official", "one more asynchronous chunk", 2, 1, ""),
        ("chat, added by ours, us", "added to a chat call, ours", 0, 1, " µs"),
        ("chat, added by official, us", "added to a chat call, official", 0, 1, " µs"),
    ),
    "anthropic_call": _simple(
        "anthropic_messages_call",
        ("call, ours / native", "call, ours / the client's own span", 2, 1, ""),
        ("event, ours / native", "one more event of a stream", 2, 1, ""),
        ("call, added by ours, us", "added to a call, ours", 0, 1, " µs"),
        ("call, added by native, us", "added to a call, the client's own span", 0, 1, " µs"),
    ),
    "bedrock_call": _simple(
        "bedrock_converse_call",
        ("call, ours / official", "call, ours / official", 2, 1, ""),
        ("call, added by ours, us", "added to a call, ours", 0, 1, " µs"),
        ("call, added by official, us", "added to a call, official", 0, 1, " µs"),
    ),
    "engine_call": _simple(
        "engine_generate",
        ("share of the call", "share of the call", 2, 100, " %"),
        ("own CPU per call, ms", "our CPU time", 1, 1, " ms"),
        ("seconds per call", "duration", 2, 1, " s"),
        ("tokens per call", "tokens", 0, 1, ""),
    ),
    "rollouts": _simple(
        "concurrent_rollouts",
        ("rollouts open at once", "rollouts open at once", 0, 1, ""),
        ("share of spans that were delivered", "spans delivered", 2, 100, " %"),
        ("spans below their rollout", "spans below their rollout", 0, 1, ""),
        ("spans with another parent", "spans below another", 0, 1, ""),
        ("objects more per rollout", "objects more per rollout", 5, 1, ""),
        ("CPU added per rollout, us", "CPU time added per rollout", 0, 1, " µs"),
        ("CPU per rollout without, us", "CPU time per rollout without us", 0, 1, " µs"),
    ),
    "volume": _simple(
        "rollout_volume",
        ("share of rollouts with a row", "rollouts with a row", 2, 100, " %"),
        ("share of failed rollouts with spans", "failed rollouts with spans", 2, 100, " %"),
        ("rollouts with spans, per step", "rollouts with spans, per step", 0, 1, ""),
        ("spans without their rollout", "spans without their rollout", 0, 1, ""),
        ("1,000 rows before compression, KiB", "1,000 rows before compression", 0, 1, " KiB"),
        ("1,000 rows in the store, KiB", "1,000 rows in the store", 1, 1, " KiB"),
        ("steps of 8,192 rows that the default store holds", "such steps that the default store holds", 0, 1, ""),
        ("memory that later steps add, MiB", "memory that later steps add", 1, 1, " MiB"),
    ),
    "grpo": _side_by_side(
        "grpo_step_cpu",
        {"rank 0": "rank 0, which logs", "rank 1": "rank 1"},
        {
            "{}: own CPU per step, ms": ("our CPU time", 2, 1, " ms"),
            "{}: on the trainer's thread, ms": ("on the trainer's thread", 2, 1, " ms"),
            "{}: on threads of ours, ms": ("on our threads", 2, 1, " ms"),
            "{}: share of the step's CPU time": ("share of the step's CPU time", 2, 100, " %"),
            "{}: own estimate / measured": ("our own estimate / measured", 2, 1, ""),
            "{}: entries that are not timed": ("entries into our code that are not timed", 0, 1, ""),
            "{}: CPU seconds per step": ("CPU time of the step", 2, 1, " s"),
        },
    ),
    "soak": Table(
        ("steps", "calls", "requests"),
        tuple(
            Row(
                meaning,
                "soak",
                tuple(f"{load}: {figure.format(load.removesuffix('s'))}" for load in ("steps", "calls", "requests")),
                *form,
            )
            for figure, meaning, *form in (
                ("rss_bytes per {}", "resident memory, bytes", 2, 1, ""),
                ("rss_bytes per {} that noise could hide", "hidden by noise, bytes", 2, 1, ""),
                ("objects per {}", "objects", 5, 1, ""),
                ("objects per {} that noise could hide", "hidden by noise, objects", 5, 1, ""),
                ("descriptors more in the last half", "more descriptors", 0, 1, ""),
                ("threads more in the last half", "more threads", 0, 1, ""),
                ("share by which one became dearer", "dearer at the end", 1, 100, " %"),
                ("bytes in the store", "store", 1, 2**-20, " MiB"),
                ("MiB at the end", "memory at the end", 0, 1, " MiB"),
                ("CPU microseconds per {}, program's thread", "CPU time, program's thread", 0, 1, " µs"),
            )
        ),
    ),
    "collector_cpu": _simple(
        "collector_throughput",
        ("gateway_without_redaction_to_plain", "gateway without redaction / plain", 2, 1, ""),
    ),
    "collector_throughput": _side_by_side(
        "collector_throughput",
        {"plain": "plain", "gateway": "gateway", "agent": "agent"},
        {
            "{}_spans_per_second": ("this corpus", 0, 1, ""),
            "{}_no_free_text_spans_per_second": ("no free text", 0, 1, ""),
            "{}_cold_cache_spans_per_second": ("cold cache", 0, 1, ""),
            "{}_worst_case_spans_per_second": ("worst case", 0, 1, ""),
        },
    ),
    "collector_fan_out": _side_by_side(
        "collector_fan_out",
        {"opik": "filtered", "jaeger": "all spans", "phoenix": "filtered, dead"},
        {
            "{}_expected": ("spans that have to come", 0, 1, ""),
            "{}_received": ("received", 0, 1, ""),
            "{}_dropped_and_counted": ("dropped and counted", 0, 1, ""),
            "{}_missing_and_not_counted": ("missing, and not counted", 0, 1, ""),
            "{}_duplicates": ("twice", 0, 1, ""),
            "{}_not_for_it": ("of those that the filter withholds", 0, 1, ""),
        },
    ),
    "collector_start": _side_by_side(
        "collector_start",
        {"local": "local", "agent": "agent", "gateway": "gateway"},
        {
            "{}_seconds_to_healthy": ("healthy after", 2, 1, " s"),
            "{}_idle_mebibytes": ("resident memory, idle", 0, 1, " MiB"),
            "{}_config_seconds": ("`otel-rl collector config`", 2, 1, " s"),
        },
    ),
}


def _figures(file: str) -> dict[str, Any]:
    path = RESULTS / f"{file}.json"
    return json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}


def _cell(row: Row, figure: dict[str, Any]) -> str:
    """Return one figure with its interval and its limit, as `value [lower, upper] ≤ limit`."""

    def number(value: float) -> str:
        return f"{value * row.factor:,.{row.digits}f}"

    value, judged = number(figure["value"]) + row.unit, figure.get("judged")
    text = value if figure.get("within_limit", True) else f"**{value}**"
    if "lower_95" in figure:
        text += f" [{number(figure['lower_95'])}, {number(figure['upper_95'])}]"
    elif "longest" in figure or judged is not None:
        text += f" (longest {number(figure.get('longest', judged))})"
    if "limit" in figure:
        bound = next(
            (name for name in ("upper", "lower") if judged is not None and judged == figure.get(f"{name}_95")), ""
        )
        text += f", {bound} ≤ {number(figure['limit'])}" if bound else f" ≤ {number(figure['limit'])}"
    elif "at_least" in figure:
        text += f" ≥ {number(figure['at_least'])}"
    return text


def _line(row: Row) -> str:
    figures = _figures(row.file)
    if not any(name in figures for name in row.figures):
        return f"| {row.meaning} | not measured |{' |' * (len(row.figures) - 1)}"
    cells = [_cell(row, figures[name]) if name in figures else "" for name in row.figures]
    return f"| {row.meaning} | {' | '.join(cells)} |"


def _table(name: str) -> str:
    table = TABLES[name]
    header = f"| figure | {' | '.join(table.columns)} |"
    return "\n".join([header, f"|{'---|' * (len(table.columns) + 1)}", *map(_line, table.rows)])


def with_tables(page: str) -> str:
    """Return `page` with every table as the results give it."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        begin = f"<!--table:{name}-->"
        return f"{begin}\n\n{_table(name)}\n\n<!--end-->"

    return _TABLE.sub(replace, page)


def main(arguments: list[str] | None = None) -> int:
    """Write or compare the page and return the exit status."""
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
