"""Queue and cache of the engines, as their own metrics report them, asked by the process that leads the run.

Every 15 s there is a round over at most eight engines: ``/metrics`` of vLLM and SGLang, ``/engine_metrics`` of SGLang's
router. A round may take 20 ms of CPU; engines that it does not reach come first in the next one.
"""

from __future__ import annotations

import math
import socket
import time
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from otel_rl.core import instrumentor_status, settings
from otel_rl.core.threads import PeriodicThread, uninstrumented
from otel_rl.inference import engine_targets
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, metrics
from otel_rl.telemetry import Scope, drops, lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.semconv.definitions import MetricDefinition

scope = Scope("engine_metrics")
INTERVAL = 15.0
MOST_ENGINES = 8
#: CPU time of a round, time until an engine has answered, both in s, and the longest answer in bytes.
_CPU, _TIMEOUT, _LONGEST = 0.02, 2.0, 4 << 20
#: Rounds after which an engine is asked again that did not answer as one.
_REST = 20
_PATHS = ("/metrics", "/engine_metrics")
_STATUS = "engine_metrics"
#: Schedulers of one engine or router.
_MOST_SCHEDULERS = 512
_WITHOUT = "the server has no metrics; start SGLang with --enable-metrics, or set OTEL_RL_ENGINE_METRICS=0"


class _NoSuchPageError(ValueError):
    """The server knows no such path."""


class _Gauge(NamedTuple):
    """A gauge, its names in vLLM and SGLang, and whether the shards of a replica add up."""

    metric: MetricDefinition
    names: tuple[str, str]
    adds_up: bool


_GAUGES = (
    _Gauge(metrics.RL_ENGINE_REQUESTS_RUNNING, ("vllm?num_requests_running", "sglang?num_running_reqs"), True),
    _Gauge(metrics.RL_ENGINE_REQUESTS_WAITING, ("vllm?num_requests_waiting", "sglang?num_queue_reqs"), True),
    _Gauge(metrics.RL_ENGINE_KV_CACHE_USAGE, ("vllm?kv_cache_usage_perc", "sglang?token_usage"), False),
)
#: A router writes ``vllm_x`` for ``vllm:x``.
_SEPARATORS = ":_"

_Replica = tuple[str, int]


class _Engines:
    """What the engines answered in the last round."""

    def __init__(self) -> None:
        #: Metric -> replica -> value.
        self.values: dict[str, dict[_Replica, float]] = {}
        self.asked = 0.0
        #: Engine -> path that it answers, or how many rounds it rests.
        self._paths: dict[str, str] = {}
        self._rests: dict[str, int] = {}
        #: Engine -> what was wrong with its last answer.
        self._problems: dict[str, str] = {}
        #: Engine that comes first in the next round.
        self._next = ""
        self.thread = PeriodicThread("otel-rl-engines", 0.0, self.round)

    def round(self) -> float:
        """Ask all engines; return the seconds until the next round."""
        values: dict[str, dict[_Replica, float]] = {}
        began = time.thread_time()
        with uninstrumented():
            chosen = self._chosen()
            for number, engine in enumerate(chosen):
                if number and time.thread_time() - began > _CPU:
                    drops.count("metrics", "engine_scrape", len(chosen) - number)
                    self._next = engine
                    break
                self._ask(engine, values)
        self.values, self.asked = values, time.monotonic()
        reasons = [f"http://{engine}{_PATHS[0]}: {problem}" for engine, problem in self._problems.items()]
        # SGLang has none by default: that is no fault of anybody's.
        is_fault = any(problem != _WITHOUT for problem in self._problems.values())
        state = instrumentor_status.DEGRADED if is_fault else instrumentor_status.SKIPPED
        instrumentor_status.report(_STATUS, state if reasons else instrumentor_status.ACTIVE, "; ".join(reasons))
        return INTERVAL

    def _chosen(self) -> list[str]:
        """Return the engines of this round: of more than eight others each time, without those that rest."""
        known = engine_targets.known()
        self._rests = {engine: left - 1 for engine, left in self._rests.items() if left > 1}
        self._problems = {engine: said for engine, said in self._problems.items() if engine in known}
        first = known.index(self._next) if self._next in known else 0
        awake = [engine for engine in [*known[first:], *known[:first]] if engine not in self._rests]
        self._next = awake[MOST_ENGINES] if len(awake) > MOST_ENGINES else ""
        return awake[:MOST_ENGINES]

    def _ask(self, engine: str, values: dict[str, dict[_Replica, float]]) -> None:
        problem = ""
        for path in (self._paths[engine],) if engine in self._paths else _PATHS:
            try:
                text = fetch(engine, path)
            except _NoSuchPageError:
                problem = problem or _WITHOUT
                continue
            except (OSError, ValueError) as error:
                problem = str(error) or type(error).__name__
                continue
            found = dict(_read(engine, text))
            if found:
                self._paths[engine] = path
                for name, of_replicas in found.items():
                    values.setdefault(name, {}).update(of_replicas)
                self._problems.pop(engine, None)
                return
            problem = "no metrics of vLLM or SGLang (which needs --enable-metrics)"
        if problem != _WITHOUT:
            drops.count("metrics", "engine_scrape")
        self._paths.pop(engine, None)
        self._rests[engine] = _REST
        self._problems[engine] = problem


def fetch(engine: str, path: str) -> bytes:
    """Return the metrics of an engine, from a line break on.

    Over a socket of our own: no proxy, no redirect, and one deadline for all of the answer.

    Raises:
        OSError: no answer in time.
        ValueError: one with another status than 200, which a redirect is, or that is too long.
    """
    deadline = time.monotonic() + _TIMEOUT
    host, _, port = engine.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT / 2) as connection:
        # HTTP/1.0: the end of the connection is that of the answer.
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {engine}\r\nAccept: text/plain\r\n\r\n".encode())
        answer = bytearray()
        while part := connection.recv(65_536):
            answer += part
            if len(answer) > _LONGEST:
                raise ValueError(f"more than {_LONGEST >> 20} MiB")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ValueError(f"not complete after {_TIMEOUT:g} s")
            connection.settimeout(left)
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status == [b"404"]:
        raise _NoSuchPageError
    if status != [b"200"]:
        raise ValueError(f"status {status[0].decode(errors='replace')[:3]}" if status else "no answer of HTTP")
    return b"\n" + body


def _read(engine: str, text: bytes) -> Iterator[tuple[str, dict[_Replica, float]]]:
    for gauge in _GAUGES:
        # Ranks of one scheduler repeat what it says; several share a replica with data parallelism.
        schedulers: dict[tuple[_Replica, str], float] = {}
        for name in (name.replace("?", separator) for name in gauge.names for separator in _SEPARATORS):
            for labels, value in _samples(text, name.encode()):
                replica = _replica(labels.get("worker_addr") or engine)
                if replica is not None and len(schedulers) < _MOST_SCHEDULERS:
                    key = replica, labels.get("dp_rank") or labels.get("engine", "")
                    schedulers[key] = max(value, schedulers.get(key, 0.0))
        found: dict[_Replica, list[float]] = defaultdict(list)
        for (replica, _), value in schedulers.items():
            found[replica].append(value)
        if found:
            together = sum if gauge.adds_up else max
            yield gauge.metric.name, {replica: float(together(values)) for replica, values in found.items()}


def _samples(text: bytes, name: bytes) -> Iterator[tuple[dict[str, str], float]]:
    """Yield labels and value of each sample of a metric; a search per sample, since most lines are of others."""
    at = text.find(b"\n" + name)
    while at >= 0:
        end = text.find(b"\n", at + 1)
        line = text[at + 1 + len(name) : end if end >= 0 else len(text)]
        at = text.find(b"\n" + name, at + 1)
        if line[:1] not in (b"{", b" "):
            # A metric whose name goes on.
            continue
        labels, _, value = line.rpartition(b"} ") if line[:1] == b"{" else (b"", b"", line)
        with suppress(ValueError, IndexError):
            number = float(value.split()[0])
            if 0 <= number < math.inf:
                yield _labels(labels[1:].decode()), number


def _labels(text: str) -> dict[str, str]:
    """Return the labels that are read here; none of their values has a quote."""
    found = {}
    for name in ("worker_addr", "dp_rank", "engine"):
        # A label's name may end with that of another one.
        _, has_it, rest = f",{text}".partition(f',{name}="')
        if has_it:
            found[name] = rest.partition('"')[0]
    return found


def _replica(address: str) -> _Replica | None:
    with suppress(ValueError):
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    return None


_engines = _Engines()


def register() -> None:
    """Observe the engines that this process, or another one of the run, will have met, unless they are not wanted."""
    if settings.current().engine_metrics:
        for gauge in _GAUGES:
            scope.observe(gauge.metric, partial(_values, gauge.metric.name))


def _values(name: str) -> Iterator[tuple[float, Mapping[str, object]]]:
    if not process_identity.current().leads:
        return
    if engine_targets.may_know_any():
        # The thread looks for engines: the SDK holds a lock here.
        _engines.thread.start()
    # What an engine said that answers no more is no value of now.
    if time.monotonic() - _engines.asked < 2 * INTERVAL:
        for (address, port), value in _engines.values.get(name, {}).items():
            yield value, {attributes.SERVER_ADDRESS: address, attributes.SERVER_PORT: port}


def _after_fork_in_child() -> None:
    global _engines
    _engines = _Engines()


def _end() -> None:
    _engines.thread.end()


lifecycle.before_shutdown(_end)
lifecycle.after_fork_in_child(_after_fork_in_child)
