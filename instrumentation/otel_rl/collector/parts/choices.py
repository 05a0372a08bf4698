"""Tables of the roles, sinks and options that can be chosen, and their valid combinations.

Adding a sink is a file ``collector-config/sinks/NAME.yaml`` and a line in :data:`SINKS`; adding an option is a file
``collector-config/overlays/NAME.yaml`` and a line in :data:`OPTIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import gateways, sink_urls
from otel_rl.collector.parts.files import ConfigurationPart, folder, shipped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

LOCAL, AGENT, GATEWAY = "local", "agent", "gateway"
MAXIMUM_GATEWAYS = 256
"""Traces are spread over that many buckets: the last two hexadecimal digits of their id."""

ROLES = {
    LOCAL: "on the machine of the job: receives, redacts, writes files",
    AGENT: "one per node: receives, redacts, queues on disk, ships to the gateways",
    GATEWAY: "receives from the agents, makes span metrics, samples, writes to the sinks",
}


@dataclass(frozen=True)
class Choice:
    """A sink or an option.

    Attributes:
        brief: what it gives.
        roles: the roles that it fits.
        conflicts: other choices that it cannot be combined with, each with the reason.
        reason: why it fits these roles only.
        needs: role -> option that has to be chosen too, and why.
        brings: role -> option whose parts it brings along.
        takes_traces_only: a sink that has no place for metrics and logs; a gateway needs another one.
        shared: files below ``sinks/shared`` that a sink brings along; several sinks bring one of them once.
    """

    brief: str
    roles: tuple[str, ...]
    reason: str = ""
    conflicts: Mapping[str, str] | None = None
    needs: Mapping[str, tuple[str, str]] | None = None
    brings: Mapping[str, str] | None = None
    takes_traces_only: bool = False
    shared: tuple[str, ...] = ()


_GENERATED = {AGENT: gateways.parts, GATEWAY: gateways.gateway_parts}
"""Role -> function that generates its parts for ``--gateways N``."""

_SHIPS = "an agent ships everything to its gateways; give the sink to the gateway"

_LLM_SPANS = ("llm_spans",)


def _product(brief: str, shared: tuple[str, ...] = _LLM_SPANS, *, takes_traces_only: bool = True) -> Choice:
    return Choice(brief, (LOCAL, GATEWAY), _SHIPS, takes_traces_only=takes_traces_only, shared=shared)


SINKS = {
    "file": Choice("one file of OTLP JSON lines per signal", (LOCAL, GATEWAY), _SHIPS),
    "lgtm": Choice("metrics to Prometheus, traces to Tempo, logs to Loki", (LOCAL, GATEWAY), _SHIPS),
    "mlflow": _product("traces to an experiment of MLflow", (*_LLM_SPANS, "mlflow_sessions")),
    "otlp": Choice("everything to another OTLP receiver", (LOCAL, GATEWAY), _SHIPS),
    "langfuse": _product("rollouts and their calls to Langfuse"),
    "langsmith": _product("rollouts and their calls to a project of LangSmith"),
    "logfire": _product("rollouts and their calls, metrics and logs to Logfire", takes_traces_only=False),
    "opik": _product("rollouts and their calls to a project of Opik"),
    "phoenix": _product("rollouts and their calls to a project of Phoenix"),
    "weave": _product("rollouts and their calls to a project of W&B Weave"),
    "jaeger": _product("traces to Jaeger", ()),
    "zipkin": _product("traces to Zipkin", ()),
}

_IN_TLS = ("tls", "a certificate is shown in TLS")
_SECRET_NEEDS_TLS = ("tls", "without TLS everybody on the way reads the secret")

OPTIONS = {
    "content": Choice("prompts, completions, tool arguments and results pass, redacted", (LOCAL, AGENT, GATEWAY)),
    "debug": Choice("every item on stderr as well", (LOCAL, AGENT, GATEWAY)),
    "engine-metrics": Choice("the metrics of vLLM, SGLang, its router and Ray are scraped", (LOCAL, AGENT, GATEWAY)),
    "load-balancing": Choice(
        "traces to a changing set of gateways, for elastic sites that accept loss",
        (AGENT,),
        "only agents ship to gateways",
        {"--gateways": "one spreads traces over a fixed number of gateways, the other over a changing list"},
    ),
    "durable": Choice(
        "the sinks queue on disk",
        (GATEWAY,),
        "an agent always queues on disk, and the files of role local are on disk already",
    ),
    "replay": Choice("dead letters and recorded files are read, redacted and sent on", (LOCAL, AGENT, GATEWAY)),
    "strict": Choice(
        "samples span by span by the trace id and the hint, holds nothing in memory",
        (GATEWAY,),
        "only gateways sample",
    ),
    "trusted-senders": Choice(
        "no second redaction: all senders are agents of this project",
        (GATEWAY,),
        "the first hop always redacts",
        {
            "content": "without redaction at this gateway, content passes or not as the agents decide: give it to them",
            "replay": "recorded files come from no agent, so they are redacted; replay without trusted-senders, and "
            "with content where the agents let it pass",
        },
    ),
    "receiver-tls": Choice(
        "the agent's own receivers speak TLS too",
        (AGENT,),
        "tls means the receivers already",
    ),
    "tls": Choice(
        "TLS: at the receivers (not an agent's), to the gateways, to the sinks",
        (LOCAL, AGENT, GATEWAY),
        brings={LOCAL: "receiver-tls", GATEWAY: "receiver-tls"},
    ),
    "mutual-tls": Choice(
        "the receivers take only senders with a certificate of a given authority",
        (LOCAL, AGENT, GATEWAY),
        needs={LOCAL: _IN_TLS, GATEWAY: _IN_TLS, AGENT: ("receiver-tls", _IN_TLS[1])},
    ),
    "receiver-token": Choice(
        "the agent's own receivers ask for a bearer token too",
        (AGENT,),
        "token means the receivers already",
        {"receiver-basic": "a receiver asks for one kind of credentials"},
    ),
    "receiver-basic": Choice(
        "the agent's own receivers ask for a name and password too",
        (AGENT,),
        "basic means the receivers already",
    ),
    "token": Choice(
        "a bearer token from a file: asked for by the receivers (not an agent's), sent to the gateways",
        (LOCAL, AGENT, GATEWAY),
        conflicts={"basic": "a connection carries one kind of credentials"},
        needs={AGENT: _SECRET_NEEDS_TLS, GATEWAY: _SECRET_NEEDS_TLS},
        brings={LOCAL: "receiver-token", GATEWAY: "receiver-token"},
    ),
    "basic": Choice(
        "name and password from files instead of a token",
        (LOCAL, AGENT, GATEWAY),
        needs={AGENT: _SECRET_NEEDS_TLS, GATEWAY: _SECRET_NEEDS_TLS},
        brings={LOCAL: "receiver-basic", GATEWAY: "receiver-basic"},
    ),
    "sink-token": Choice(
        "a bearer token from a file, or a vendor's key, to each sink",
        (LOCAL, GATEWAY),
        _SHIPS,
        {"sink-basic": "a connection carries one kind of credentials"},
    ),
    "sink-basic": Choice("name and password from a file to each sink", (LOCAL, GATEWAY), _SHIPS),
    "tenant": Choice("the tenant header of Loki, Tempo and Mimir to each sink", (LOCAL, GATEWAY), _SHIPS),
}


@dataclass(frozen=True)
class Selection:
    """The user's choices on the command line."""

    role: str
    sinks: Sequence[str] = ()
    options: Sequence[str] = ()
    gateways: int | None = None
    files: Sequence[Path] = ()
    urls: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> str:
        """Return the arguments that ask for this selection."""
        words = ["--role", self.role]
        words += [] if self.gateways is None else ["--gateways", str(self.gateways)]
        named = [f"{name}={self.urls[name]}" if name in self.urls else name for name in self.sinks]
        words += ["--sink", *named] if named else []
        words += ["--with", *self.options] if self.options else []
        words += [word for file in self.files for word in ("--with-file", str(file))]
        return " ".join(words)


def select(
    role: str,
    sinks: Iterable[str] = (),
    options: Iterable[str] = (),
    gateways: int | None = None,
    files: Iterable[Path] = (),
) -> Selection:
    """Check the choices against the tables. A sink is ``NAME`` or ``NAME=URL``.

    Raises:
        Refused: one is unknown, does not fit the role, conflicts with another, or lacks one that it needs; or a URL
            cannot be the address of its sink.
    """
    names, urls = sink_urls.split(sinks)
    selection = Selection(role, names, list(dict.fromkeys(options)), gateways, list(dict.fromkeys(files)), urls)
    _known("role", [role], ROLES)
    _known("sink", selection.sinks, SINKS)
    _known("option", selection.options, OPTIONS)
    chosen_words = [*selection.sinks, *selection.options, *(["--gateways"] if gateways is not None else [])]
    for kind, chosen, table in (("sink", selection.sinks, SINKS), ("option", selection.options, OPTIONS)):
        for name in chosen:
            _fits(kind, name, table[name], role)
            _agrees(name, table[name], chosen_words)
            _complete(name, table[name], selection)
    for name, url in selection.urls.items():
        sink_urls.check(name, url, shipped(f"sinks/{name}.yaml"))
    if role == GATEWAY:
        _check_sinks(selection.sinks)
    _check_gateways(role, gateways)
    for name in selection.options:
        _changes_something(name, selection)
    return selection


def sources(selection: Selection) -> list[ConfigurationPart]:
    """Return the parts of a configuration in the order in which they are merged.

    Raises:
        Refused: a site's own file cannot be read or is no part of a configuration.
    """
    from otel_rl.collector.parts import credentials, only_sink, own_files  # noqa: PLC0415 - needs the extra

    generated = _GENERATED[selection.role](selection.gateways) if selection.gateways else []
    shipped_first = [
        *(shipped(name) for name in base_files(selection.role)),
        *generated,
        *_shared(selection),
        *(_sink(name, selection.urls) for name in selection.sinks),
    ]
    chosen_then = [
        *(part for name in _with_brought(selection) for part in _option(name, selection)),
        *(part for file in selection.files for part in own_files.own(file, selection.gateways or 1)),
    ]
    parts = [*shipped_first, *only_sink.generated([*shipped_first, *chosen_then]), *chosen_then]
    return [*parts, *credentials.generated(parts)]


def base_files(role: str) -> list[str]:
    """Return the shipped files that every configuration of a role begins with."""
    return ["common.yaml", f"{role}.yaml"]


def _with_brought(selection: Selection) -> list[str]:
    """Return the chosen options and those that they bring, in the order of the table, not of the command line."""
    brought = [(OPTIONS[name].brings or {}).get(selection.role) for name in selection.options]
    return [name for name in OPTIONS if name in selection.options or name in brought]


def _sink(name: str, urls: Mapping[str, str]) -> ConfigurationPart:
    part = shipped(f"sinks/{name}.yaml")
    return sink_urls.put(part, name, urls[name]) if name in urls else part


def _shared(selection: Selection) -> list[ConfigurationPart]:
    names = dict.fromkeys(name for sink in selection.sinks for name in SINKS[sink].shared)
    return [shipped(f"sinks/shared/{name}.yaml") for name in names]


def _option(name: str, selection: Selection) -> list[ConfigurationPart]:
    """Return the file of an option, and those that it has for the role and for single sinks and options.

    A part must not name a sink or an exporter that is not there. What it says of the way to a gateway holds for all.
    """
    beside = [selection.role, *selection.sinks, *_with_brought(selection)]
    names = [f"overlays/{name}.yaml", *(f"overlays/{name}/{other}.yaml" for other in beside)]
    parts = [shipped(file) for file in names if (folder() / file).is_file()]
    parts += _for_each_product(f"overlays/{name}/http.yaml", selection.sinks)
    copies = [copy for part in parts for copy in gateways.copies(part, selection.gateways or 1)]
    return [*parts, *copies]


def _for_each_product(file: str, sinks: Iterable[str]) -> Iterator[ConfigurationPart]:
    """Yield the file, if an option has it, once for each of the sinks with one HTTP exporter, which has their name."""
    if (folder() / file).is_file():
        template = shipped(file)
        for sink in sinks:
            if f"  durable_otlp_http/{sink}:\n" in shipped(f"sinks/{sink}.yaml").text:
                yield ConfigurationPart(f"{file} for {sink}", template.text.replace("SINK", sink))


def _complete(name: str, choice: Choice, selection: Selection) -> None:
    other, reason = (choice.needs or {}).get(selection.role, ("", ""))
    if other and other not in selection.options:
        raise Refused(f"{name} needs {other} with role {selection.role}: {reason}; add --with {other}")


def _changes_something(name: str, selection: Selection) -> None:
    if not _option(name, selection) and not (OPTIONS[name].brings or {}).get(selection.role):
        sinks = " or ".join(sink for sink in SINKS if (folder() / f"overlays/{name}/{sink}.yaml").is_file())
        raise Refused(f"option {name} changes nothing here: it is for --sink {sinks}; add that, or leave {name} out")


def _known(kind: str, chosen: Iterable[str], known: Collection[str]) -> None:
    for name in chosen:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise Refused(f"no {kind} named {name!r}; {hint}")


def _fits(kind: str, name: str, choice: Choice, role: str) -> None:
    if role not in choice.roles:
        raise Refused(f"{kind} {name} does not fit role {role}, only {' and '.join(choice.roles)}: {choice.reason}")


def _agrees(name: str, choice: Choice, others: Sequence[str]) -> None:
    for other, reason in (choice.conflicts or {}).items():
        if other in others:
            raise Refused(f"{name} and {other} cannot be combined: {reason}")


def _check_sinks(sinks: Sequence[str]) -> None:
    """Refuse a gateway of which a signal has no way out."""
    whole = [name for name, sink in SINKS.items() if not sink.takes_traces_only]
    if set(sinks).isdisjoint(whole):
        verb = "take" if sinks[1:] else "takes"
        why = f" for metrics and logs, since {' and '.join(sinks)} {verb} traces only" if sinks else ""
        raise Refused(f"a gateway needs a sink{why or ', else nothing leaves it'}; add --sink {'|'.join(whole)}")


def _check_gateways(role: str, gateways: int | None) -> None:
    if gateways is None:
        return
    if role not in _GENERATED:
        raise Refused(f"--gateways fits the roles {' and '.join(_GENERATED)}; role {role} sends nothing to a gateway")
    if not 1 <= gateways <= MAXIMUM_GATEWAYS:
        raise Refused(f"--gateways {gateways} is not between 1 and {MAXIMUM_GATEWAYS}")
