"""Every ``OTEL_RL_*`` environment variable of a recorded process: the one table, and its parsed values.

The fields of :class:`Settings` are the table. The parser and the table in ``docs/configuration.md`` come from it.
A leaf: it imports nothing else of otel_rl and prints nothing; who starts the process prints the complaints.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRACKERS = ("wandb", "mlflow", "tensorboard", "trackio")
#: Scope of a variable: all processes of a run must agree on its value.
RUN = "run"
#: Scope of a variable: each process reads its own value.
PROCESS = "process"

#: Variables of other parts, those by which processes of ours tell each other something, and those of the checkout.
_OTHERS = (
    *("OTEL_RL_COLLECTOR_", "OTEL_RL_STACK_", "OTEL_RL_CACHE_DIR", "OTEL_RL_LAUNCH", "OTEL_RL_PROCESS"),
    *("OTEL_RL_BENCHMARK_", "OTEL_RL_FAULTS_", "OTEL_RL_HEALTH_RESULTS", "OTEL_RL_STRAGGLERS_RESULTS"),
    "OTEL_RL_SEMANTIC_CONVENTIONS",
)
_PREFIX = "OTEL_RL_"
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURE_MODES = ("NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT", "TRUE", "FALSE")
#: Threshold of the similarity (``difflib``) from which on one name, without its prefix, may stand for another.
_SIMILAR_NAME = 0.6
#: Largest number of unread variables of which each has a line.
_MAXIMUM_UNREAD = 5

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_Number = TypeVar("_Number", int, float)
_UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9, "b": 1}


@dataclass(frozen=True)
class Variable:
    """One environment variable; ``accepted`` and ``meaning`` are prose for messages and the manual."""

    name: str
    meaning: str
    scope: str
    #: The default as the manual writes it; in parentheses where it is no value to set.
    default: str
    parse: Callable[[str], Any] = str
    accepted: str = "text"


class ServiceAddress(NamedTuple):
    """Requests that go to one service; None for any scheme or port, ``*`` in the host for anything."""

    name: str
    scheme: str | None
    host: str
    port: int | None
    path: str


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


def _positive_bytes(text: str) -> int:
    lowered = text.lower()
    unit, factor = next((one for one in _UNITS.items() if lowered.endswith(one[0])), ("", 1))
    number = int(float(lowered.removesuffix(unit)) * factor) if unit else int(lowered)
    if number <= 0:
        raise ValueError(text)
    return number


def _within(
    kind: type[_Number], lowest: float, highest: float = math.inf, *, or_off: bool = False
) -> Callable[[str], _Number]:
    """Return the parser of a number; with ``or_off`` of 0 and of words for it, too."""

    def parse(text: str) -> _Number:
        number = kind(0 if or_off and text.lower() in _FALSE else text)
        if not lowest <= number <= highest and not (or_off and number == 0):
            raise ValueError(text)
        return number

    return parse


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(host.rstrip(".").lower() for host in _listed(text))
    if any(set(host) & set("/@ *") for host in hosts):
        raise ValueError(text)
    return hosts


def _functions(text: str) -> tuple[str, ...]:
    functions = _listed(text)
    for function in functions:
        module, _, path = function.partition(":")
        if not all(name.isidentifier() for name in (*module.split("."), *path.split("."))):
            raise ValueError(text)
    return functions


def _services(text: str) -> tuple[ServiceAddress, ...]:
    return tuple(map(_service, _listed(text)))


def _service(entry: str) -> ServiceAddress:
    name, separator, address = (part.strip() for part in entry.partition("="))
    is_name = bool(name) and all(character.isalnum() or character in "._-" for character in name)
    if not separator or not is_name:
        raise ValueError(entry)
    return _address(name, address)


def _model_paths(text: str) -> tuple[ServiceAddress, ...]:
    return tuple(map(_model_path, _listed(text)))


def _model_path(entry: str) -> ServiceAddress:
    address = _address("", f"*{entry}" if entry.startswith("/") else entry, any_host=True)
    if not address.path:
        raise ValueError(entry)
    return address


def _address(name: str, address: str, *, any_host: bool = False) -> ServiceAddress:
    scheme, has_scheme, rest = address.partition("://") if "://" in address else ("", "", address)
    place, slash, path = rest.partition("/")
    # A colon in the brackets of an IPv6 address is no port's.
    host, colon, port = place.rpartition(":") if ":" in place.rpartition("]")[2] else (place, "", "")
    host = host.strip("[]").rstrip(".").lower()
    is_wrong = scheme not in (("http", "https") if has_scheme else ("",)) or (colon and not port.isdecimal())
    if is_wrong or not host or set(rest) & set(" @?#=") or "*" in path:
        raise ValueError(address)
    # Of all hosts, only those on one port.
    if not any_host and not host.strip("*.") and not port:
        raise ValueError(address)
    default = {"http": 80, "https": 443}.get(scheme)
    path = f"/{path}".rstrip("/") if slash else ""
    return ServiceAddress(name, scheme or None, host, int(port) if port else default, path)


def _state_key(text: str) -> str:
    return "" if text.lower() == "none" else text


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a pattern and a name; a name may hold a ``=``, since the last one separates."""
    labels = []
    for rule in _listed(text):
        pattern, separator, name = (part.strip() for part in rule.rpartition("="))
        stars = pattern.count("*"), name.count("*")
        if not separator or not pattern or not name or (name != "-" and stars not in ((0, 0), (1, 1))) or stars[0] > 1:
            raise ValueError(rule)
        labels.append((pattern, name))
    return tuple(labels)


def _trackers(text: str) -> tuple[str, ...]:
    names = tuple(map(str.lower, _listed(text)))
    if not set(names) <= set(TRACKERS):
        raise ValueError(text)
    return names


def _one_of(*choices: str) -> dict[str, Any]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return {"parse": parse, "accepted": ", ".join(choices)}


def _file_or_off(text: str) -> str:
    """Return the absolute path: the program may change its directory before the file is read."""
    if text.lower() in _FALSE:
        return "off"
    try:
        return os.path.abspath(text)  # noqa: PTH100 - pathlib is not loaded yet
    except OSError:  # the directory of the process has been deleted
        return text


_BOOLEAN: dict[str, Any] = {"parse": _boolean, "accepted": "true or false"}
_BYTES: dict[str, Any] = {"parse": _positive_bytes, "accepted": "a number of bytes such as 67108864 or 64MiB"}
_FUNCTIONS: dict[str, Any] = {
    "parse": _functions,
    "accepted": "module:function, module:Class.method or module:Class, separated by commas",
}
_COUNT: dict[str, Any] = {"parse": _within(int, 0), "accepted": "a whole number from 0"}


def _setting(value: Any, name: str, meaning: str, *, scope: str = RUN, shown: str = "", **parsing: Any) -> Any:
    """Return a field of :class:`Settings` with default ``value`` and its :class:`Variable`."""
    default = shown or (str(value).lower() if isinstance(value, bool) else str(value))
    return field(default=value, metadata={"variable": Variable(name, meaning, scope, default, **parsing)})


@dataclass(frozen=True)
class Settings:
    """The parsed variables."""

    run_id: str | None = _setting(
        None,
        "OTEL_RL_RUN_ID",
        "run id; made from the launcher's job and step, or at random, unless set: identity.md",
        shown="(made)",
    )
    data_directory: str = _setting(
        "otel-rl",
        "OTEL_RL_DATA_DIR",
        "file store, used while neither exporter nor endpoint is configured, and for what no destination took",
        shown="./otel-rl",
        accepted="a path",
    )
    quiet: bool = _setting(
        False,
        "OTEL_RL_QUIET",
        "true: no last line and no findings after `otel-rl report`, except what could not be delivered",
        scope=PROCESS,
        **_BOOLEAN,
    )
    console: bool = _setting(
        False,
        "OTEL_RL_CONSOLE",
        "true: a line per step on standard error, at most one a second, see trainers.md",
        **_BOOLEAN,
    )
    children: str = _setting(
        "launchers",
        "OTEL_RL_CHILDREN",
        "Python children that record; launchers: ranks of torchrun, accelerate, deepspeed, Slurm, MPI, Lightning or "
        "the program itself; workers of Ray, multiprocessing, joblib; notebook kernels",
        **_one_of("launchers", "all", "none"),
    )
    file_max_bytes: int = _setting(
        16 << 20,
        "OTEL_RL_FILE_MAX_BYTES",
        "size of a store file before it is compressed and the next one begins",
        scope=PROCESS,
        shown="16MiB",
        **_BYTES,
    )
    data_max_bytes: int = _setting(
        1 << 30,
        "OTEL_RL_DATA_MAX_BYTES",
        "store size per process, as compressed; the oldest files are removed, see delivery.md",
        scope=PROCESS,
        shown="1GiB",
        **_BYTES,
    )
    exit_timeout: float = _setting(
        1.5,
        "OTEL_RL_EXIT_TIMEOUT",
        "most seconds of the final delivery; importing an exporter may add twice that",
        scope=PROCESS,
        parse=_within(float, 0, 3600),
        accepted="a number of seconds from 0 to 3600",
    )
    collectives: str = _setting(
        "auto",
        "OTEL_RL_COLLECTIVES",
        "collectives that are counted, see collectives.md",
        scope=PROCESS,
        **_one_of("auto", "all", "off", "python"),
    )
    slowest: int = _setting(
        5, "OTEL_RL_SLOWEST", "slowest collectives and tool calls kept per step", scope=PROCESS, **_COUNT
    )
    nccl_timing: str = _setting(
        "off",
        "OTEL_RL_NCCL_TIMING",
        "on: PyTorch times each collective of NCCL, by which the report names who came last, see stragglers.md",
        **_one_of("off", "on"),
    )
    ring: str = _setting(
        "on",
        "OTEL_RL_RING",
        "off: no flight recorder, see postmortem.md",
        scope=PROCESS,
        **_one_of("on", "off"),
    )
    ring_directory: str = _setting(
        "/dev/shm",  # noqa: S108 - memory of the node; the file is made for its owner only
        "OTEL_RL_RING_DIR",
        "directory of the flight recorder's rings, 564 KiB per process; in memory, as writing to disk can block the "
        "program",
        scope=PROCESS,
        accepted="a path",
    )
    hang_seconds: float = _setting(
        60.0,
        "OTEL_RL_HANG_SECONDS",
        "shortest time without progress that is reported as a hang, see watchdog.md; off or 0: no watchdog",
        scope=PROCESS,
        shown="60",
        parse=_within(float, 0, 86400, or_off=True),
        accepted="off, or a number of seconds from 0 to 86400",
    )
    event_loop_seconds: float = _setting(
        0.2,
        "OTEL_RL_EVENT_LOOP_SECONDS",
        "shortest block of an event loop that is reported, see event-loop.md; off or 0: not watched",
        scope=PROCESS,
        # Looking for shorter ones would cost more than they do.
        parse=_within(float, 0.02, 3600, or_off=True),
        accepted="off, or a number of seconds from 0.02 to 3600",
    )
    health_rules: str | None = _setting(
        None,
        "OTEL_RL_HEALTH_RULES",
        "file that overrides thresholds or switches rules off, see health.md; off: no health rules",
        shown="(the defaults)",
        parse=_file_or_off,
        accepted="a path, or off",
    )
    engine_metrics: bool = _setting(
        True,
        "OTEL_RL_ENGINE_METRICS",
        "ask inference engines at private addresses for queue and cache every 15 s: engine-metrics.md",
        **_BOOLEAN,
    )
    engine_targets: str | None = _setting(
        None,
        "OTEL_RL_ENGINE_TARGETS",
        "folder for files with the addresses of engines, in the form of Prometheus' file_sd: engine-metrics.md",
        shown="(beside the run's files)",
        scope=PROCESS,
        accepted="a path",
    )
    sync_check: str = _setting(
        "off",
        "OTEL_RL_SYNC_CHECK",
        "compare an in-process engine's weights with the trainer's before it generates, by log-probabilities of a "
        "fixed prompt or checksums of all parameters: weight-sync.md",
        **_one_of("off", "logprobs", "checksums", "all"),
    )
    whole_steps: int = _setting(
        100,
        "OTEL_RL_WHOLE_STEPS",
        "every n-th iteration asks the collector to keep all its rollouts; 0: none",
        **_COUNT,
    )
    content_length: int = _setting(
        8192,
        "OTEL_RL_CONTENT_LENGTH",
        "most characters of an attribute with captured content, see content.md",
        scope=PROCESS,
        # Below, JSON of messages has no room for their texts; above, they would take the room of everything else.
        parse=_within(int, 256, 65_536),
        accepted="a whole number from 256 to 65536",
    )
    rollout_spans: int = _setting(
        256,
        "OTEL_RL_ROLLOUT_SPANS",
        "rollouts of a step, or of a minute outside of steps, whose spans a process sends; beyond, those that failed, "
        "are suspect or slowest: trajectories.md",
        scope=PROCESS,
        **_COUNT,
    )
    propagate: str = _setting(
        "on",
        "OTEL_RL_PROPAGATE",
        "off: no trace context or baggage on requests, threads and processes",
        scope=PROCESS,
        **_one_of("on", "off"),
    )
    propagate_to: tuple[str, ...] | None = _setting(
        None,
        "OTEL_RL_PROPAGATE_TO",
        "more hosts that get `rl.*` baggage, beside loopback, private addresses and cluster names; `.example.com` "
        "matches all names with that ending",
        scope=PROCESS,
        shown="(none)",
        parse=_hosts,
        accepted="names of hosts, without scheme and port, separated by commas",
    )
    services: tuple[ServiceAddress, ...] | None = _setting(
        None,
        "OTEL_RL_SERVICES",
        "HTTP services of a rollout, such as a reward server, whose requests have a span and carry trace context: "
        "`reward=http://127.0.0.1:9000`, see services.md",
        scope=PROCESS,
        shown="(none)",
        parse=_services,
        accepted="name=http://host:port/path or name=host:port, `*` in a host for anything, separated by commas; "
        "no user, query or fragment",
    )
    model_paths: tuple[ServiceAddress, ...] | None = _setting(
        None,
        "OTEL_RL_MODEL_PATHS",
        "ends of paths of further model calls over HTTP, on any host or on those named: `/my/complete` or "
        "`http://10.0.0.*:9000/ask`, see engines-over-http.md",
        scope=PROCESS,
        shown="(none)",
        parse=_model_paths,
        accepted="/path or http://host:port/path, `*` in a host for anything, separated by commas",
    )
    redact: str | None = _setting(
        None,
        "OTEL_RL_REDACT",
        "function that redacts captured content, exceptions and log lines before they are recorded, see content.md",
        shown="(none)",
        accepted="module:function",
    )
    arguments: str = _setting(
        "on",
        "OTEL_RL_ARGUMENTS",
        "off: the program's arguments and settings are not recorded; on: without what looks secret, see content.md",
        **_one_of("on", "off"),
    )
    rollout_functions: tuple[str, ...] | None = _setting(
        None,
        "OTEL_RL_ROLLOUT_FUNCTIONS",
        "functions of which each call is a rollout, e.g. my_pkg.loop:Agent.run, see trajectories.md",
        shown="(none)",
        **_FUNCTIONS,
    )
    reward_functions: tuple[str, ...] | None = _setting(
        None,
        "OTEL_RL_REWARD_FUNCTIONS",
        "functions that return a score, e.g. my_pkg.rewards:correct, see trajectories.md",
        shown="(none)",
        **_FUNCTIONS,
    )
    judge_models: tuple[str, ...] | None = _setting(
        None,
        "OTEL_RL_JUDGE_MODELS",
        "models whose calls judge and are no turns of a rollout, by the names that the client asks for; `*` stands for "
        "anything, see trajectories.md",
        shown="(none)",
        parse=_listed,
        accepted="names of models, separated by commas",
    )
    graph_reward: str = _setting(
        "reward",
        "OTEL_RL_GRAPH_REWARD",
        "key of a LangGraph state that holds the score of a trajectory when its run ends; none: there is no such key, "
        "see trajectories.md",
        parse=_state_key,
        accepted="a key of the state, or none",
    )
    labels: tuple[tuple[str, str], ...] | None = _setting(
        None,
        "OTEL_RL_LABELS",
        "names of logged values: `train/loss=loss` renames one, `my/*=eval/*` all that begin so, `debug/*=-` hides "
        "them; see trainers.md",
        shown="(none)",
        parse=_labels,
        accepted="key=name, prefix*=name* or key=- to hide it, separated by commas; one * at most",
    )
    evaluated_samples: int = _setting(
        5,
        "OTEL_RL_EVALUATED_SAMPLES",
        "samples of a trainer's batch whose scores become events, at most 5, see trajectories.md",
        scope=PROCESS,
        **_COUNT,
    )
    role: str | None = _setting(
        None,
        "OTEL_RL_ROLE",
        "role of the process: trainer, rollout, engine, tool or driver",
        scope=PROCESS,
        shown="(found)",
    )
    algorithm: str | None = _setting(None, "OTEL_RL_ALGORITHM", "algorithm of the run, e.g. grpo", shown="(found)")
    mlflow: bool = _setting(
        False,
        "OTEL_RL_MLFLOW",
        "true: values, parameters and traces also to the MLflow server of MLFLOW_TRACKING_URI, see mlflow.md",
        **_BOOLEAN,
    )
    write_back: tuple[str, ...] | None = _setting(
        None,
        "OTEL_RL_WRITE_BACK",
        "trackers of the program that get figures of each step under `otel_rl/`, see trainers.md",
        scope=PROCESS,
        shown="(none)",
        parse=_trackers,
        accepted=f"{', '.join(TRACKERS)}; several separated by commas",
    )
    status_file: str | None = _setting(
        None,
        "OTEL_RL_STATUS_FILE",
        "file for the state of every instrumentor at exit, as JSON",
        scope=PROCESS,
        shown="(none)",
        accepted="a path",
    )
    raise_internal_errors: bool = _setting(
        False,
        "OTEL_RL_RAISE_INTERNAL_ERRORS",
        "true: raise errors of otel-rl itself; for its own tests",
        scope=PROCESS,
        **_BOOLEAN,
    )


#: Field of :class:`Settings` -> its variable, in the order of the manual.
VARIABLES: dict[str, Variable] = {setting.name: setting.metadata["variable"] for setting in fields(Settings)}


def load(environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Parse ``environ``; the second value has one sentence for each value that was replaced by its default."""
    values: dict[str, Any] = {}
    complaints = []
    for name, variable in VARIABLES.items():
        text = environ.get(variable.name, "").strip()
        if not text:
            continue
        try:
            values[name] = variable.parse(text)
        except (ValueError, OverflowError):
            complaints.append(
                f'otel-rl: {variable.name}="{text}" is not valid (accepted: {variable.accepted});'
                f" using {variable.default}"
            )
    return Settings(**values), complaints + _capture_mode(environ) + _misspelt(environ)


def _capture_mode(environ: Mapping[str, str]) -> list[str]:
    """Return a complaint about a wrong value of OpenTelemetry's variable for content, or nothing.

    The value itself is read again at each model call. Nothing is printed there.
    """
    text = environ.get(_CAPTURE, "").strip()
    if not text or text.upper() in _CAPTURE_MODES:
        return []
    return [f'otel-rl: {_CAPTURE}="{text}" is not valid (accepted: {", ".join(_CAPTURE_MODES)}); recording no content']


def _misspelt(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that nothing reads, with the name in the table that may be meant.

    Others are left alone: the collector, the stack and the launchers have variables with this prefix too.
    """
    known = {variable.name for variable in VARIABLES.values()}
    set_here = [name for name in environ if name.startswith(_PREFIX) and not name.startswith(_OTHERS)]
    unknown = sorted(set(set_here) - known)
    return [
        f"otel-rl: {name} is set, but nothing reads it; {_advice(name, known)}" for name in unknown[:_MAXIMUM_UNREAD]
    ] + ([f"otel-rl: nothing reads {len(unknown) - _MAXIMUM_UNREAD} more"] if len(unknown) > _MAXIMUM_UNREAD else [])


def _advice(name: str, known: set[str]) -> str:
    import difflib  # noqa: PLC0415 - milliseconds, and every process reads its settings

    endings = [variable.removeprefix(_PREFIX) for variable in known]
    near = difflib.get_close_matches(name.removeprefix(_PREFIX), endings, 1, _SIMILAR_NAME)
    return f"did you mean {_PREFIX}{near[0]}?" if near else "docs/configuration.md lists what is read"


_current: Settings | None = None
_complaints: list[str] = []


def current() -> Settings:
    """Return the settings of this process, parsed at the first call."""
    global _current, _complaints
    if _current is None:
        _current, _complaints = load(os.environ)
    return _current


def take_complaints() -> list[str]:
    """Return the complaints about the settings of this process, each once."""
    global _complaints
    current()
    taken, _complaints = _complaints, []
    return taken


def reset() -> None:
    """Parse the environment again at the next :func:`current`."""
    global _current, _complaints
    _current, _complaints = None, []
