"""CPU of a collector per span: shipped gateway and agent against plain OTLP in, OTLP out of the same binary.

    python benchmarks/collector_throughput.py [--output FILE] [--rounds N] [--only NAME ...]

All arrangements run at the same time on one processor each (GOMAXPROCS=1) and take turns, so that each round compares
neighbours in time. A turn sends the committed corpus (benchmarks/corpora/collector) over and over and counts the CPU
seconds of the collector's process until it is quiet again, so that queues, decisions and exports are in the figure.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from collector_arrangements import ARRANGEMENTS, HERE, environment, files
from collector_corpus import VARIANTS, Corpus
from collector_load import send
from collector_process import Collector, binary
from figures import bootstrap, finish, ratio_of_medians

SECONDS_OF_A_TURN = 1.5
WARM_UP_SPANS = 4_000
_QUIET_WINDOW, _QUIET_CPU = 0.5, 0.03
_SETTLE_SECONDS = 3.0
"""Longer than the sampler and the queues hold anything back in the arrangements measured here."""


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=ARRANGEMENTS, default=list(ARRANGEMENTS))
    return parser.parse_known_args()[0]


class Measured:
    """One arrangement under measurement: its process, its corpus and what its turns came to."""

    def __init__(self, name: str, collector: Collector, sink: Collector, corpus: Corpus) -> None:
        self.name = name
        self.collector = collector
        self._sink = sink
        self._corpus = corpus
        self._spans_of_a_turn = WARM_UP_SPANS
        self.turns: list[dict[str, float]] = []

    def warm_up(self) -> None:
        """Fill the caches, and find how many spans keep the process busy for a turn."""
        for _ in range(2):
            per_span = self._turn(self._spans_of_a_turn)["microseconds_per_span"] / 1e6
            self._spans_of_a_turn = int(SECONDS_OF_A_TURN / per_span)

    def take_turn(self) -> None:
        """Measure once."""
        self.turns.append(self._turn(self._spans_of_a_turn))

    def _turn(self, spans: int) -> dict[str, float]:
        arrived = self._sink.metric("otelcol_receiver_accepted_spans")
        before, begin = self.collector.cpu_seconds(), time.perf_counter()
        sent = send(self._corpus, self.collector.http_port, spans)
        seconds = time.perf_counter() - begin
        self._wait_until_quiet()
        cpu = self.collector.cpu_seconds() - before
        arrived = self._sink.metric("otelcol_receiver_accepted_spans") - arrived
        return {
            "spans": sent.spans,
            "microseconds_per_span": cpu / sent.spans * 1e6,
            "busy_share_while_sending": cpu / seconds,
            "refusals": sent.refusals,
            "arrived_share": arrived / sent.spans,
        }

    def _wait_until_quiet(self) -> None:
        time.sleep(_SETTLE_SECONDS)
        quiet = 0
        while quiet < 2:
            before = self.collector.cpu_seconds()
            time.sleep(_QUIET_WINDOW)
            quiet = quiet + 1 if self.collector.cpu_seconds() - before <= _QUIET_CPU else 0


def run(chosen: argparse.Namespace, folder: Path, corpora: dict[str, Corpus]) -> dict[str, list[dict[str, float]]]:
    """Start everything, take turns, and return the turns by arrangement."""
    program = binary()
    with ExitStack() as stack:
        sink = stack.enter_context(Collector(program, [HERE / "sink.yaml"], folder / "sink", {"GOMAXPROCS": "1"}))
        measured = []
        for name in chosen.only:
            arrangement = ARRANGEMENTS[name]
            configurations = files(arrangement, folder / name)
            variables = environment(sink.grpc_port)
            collector = stack.enter_context(Collector(program, configurations, folder / name, variables))
            measured.append(Measured(name, collector, sink, corpora[arrangement.variant]))
        for each in measured:
            each.warm_up()
        for number in range(chosen.rounds):
            # Forwards and backwards in turn: what drifts with time falls on both sides of a ratio.
            for each in measured if number % 2 == 0 else reversed(measured):
                each.take_turn()
            print(f"round {number + 1} of {chosen.rounds}", file=sys.stderr, flush=True)
        return {each.name: each.turns for each in measured}


def _spans_per_second(turns: list[dict[str, float]]) -> dict[str, float]:
    return bootstrap(turns, lambda drawn: 1e6 / statistics.median(turn["microseconds_per_span"] for turn in drawn))


def figures(turns: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Spans per second of CPU, and one ratio to the plain collector; those with a promise carry its bound."""
    bounds = {"gateway": 10_000, "agent": 10_000, "agent_no_free_text": 30_000}
    found: dict[str, dict[str, Any]] = {}
    for name, each in turns.items():
        found[f"{name}_spans_per_second"] = _spans_per_second(each)
        if name in bounds:
            found[f"{name}_spans_per_second"]["at_least"] = bounds[name]
    if {"gateway_without_redaction", "plain"} <= turns.keys():
        sides = zip(turns["gateway_without_redaction"], turns["plain"], strict=True)
        ratio = ratio_of_medians([(a["microseconds_per_span"], b["microseconds_per_span"]) for a, b in sides])
        found["gateway_without_redaction_to_plain"] = {**ratio, "limit": 3.5}
    return found


def check_arrivals(turns: dict[str, list[dict[str, float]]]) -> None:
    """Everything that does not sample has to deliver every span: a figure for lost spans is none."""
    for name, each in turns.items():
        shares = [turn["arrived_share"] for turn in each]
        if not name.startswith("gateway") and (min(shares) < 1 or max(shares) > 1):
            raise SystemExit(f"{name} delivered between {min(shares):.4f} and {max(shares):.4f} of what it accepted")


def main() -> int:
    """Measure, print, and compare with the limits."""
    chosen = options()
    corpora = {name: Corpus(name) for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        turns = run(chosen, Path(folder), corpora)
    check_arrivals(turns)
    samples = {"turns": turns, "corpus": {name: corpus.describe() for name, corpus in corpora.items()}}
    return finish("collector_throughput", figures(turns), samples, (__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
