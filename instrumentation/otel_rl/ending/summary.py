"""The one line on stderr at the end: what was recorded and how to see it, or what was lost and what to do."""

# ruff: noqa: PTH109, PTH118 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_rl.core import instrumentor_status, settings, stderr
from otel_rl.pipeline import exporter_selection
from otel_rl.pipeline.outage import in_words
from otel_rl.pipeline.sink import NO_ANSWER
from otel_rl.process import child_processes, process_identity
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import drops, run_span
from otel_rl.training import step_sampling, steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_rl.pipeline.destination import Destination
    from otel_rl.pipeline.providers import Telemetry
    from otel_rl.pipeline.sink import Sink


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


#: Reasons of the file store for a drop that nobody wanted.
_UNWRITTEN = ("store_unwritable", "disk_full")
_started_in = _working_directory()
_started_at = time.monotonic()
#: Backward passes from which on a program trains.
_FEWEST_PASSES = 3
#: Seconds after which a process is no short helper any more, such as those that a shell script calls.
_A_WHILE = 10.0

#: Follows "no step" where collectives were counted, and where an optimizer was made.
_COUNTED = "collectives were counted; `with otel_rl.step(number):` around each iteration shows who is late, and why"
_MARKED = "`with otel_rl.step(number):` around each iteration marks the steps of any loop"
_BY_HAND = f"{{passes}} backward passes, and no optimizer of PyTorch moved; {_MARKED}"
_LOOP = f"an optimizer was made, and none made a step after a backward pass; {_MARKED}"
_NOT_GUESSED = f"an optimizer was made, and its steps are not guessed (otel_rl_torch_training: {{reason}}); {_MARKED}"
_SILENT_WORKERS = (
    "they did nothing that is recorded, or do not find otel-rl: install it where the Python of the nodes is; a"
    " `runtime_env` of the job must not replace PYTHONPATH"
)
#: What lowers the cost of otel-rl itself, by the beginning of the names of the places where most of it was measured.
_CHEAPER = {
    "collectives": "which OTEL_RL_COLLECTIVES=off would lower: most of it counts collectives",
    "torch_training.": (
        "which OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=otel_rl_torch_training would lower: most of it guesses the steps"
    ),
}


def write(telemetry: Telemetry) -> None:
    """Print what was lost, from any process, and what was recorded, from the leading one unless quiet."""
    losses = [*_losses(telemetry), *_unwritten(telemetry)]
    who, recorded = process_identity.current(), _delivered(telemetry)
    reports = not settings.current().quiet and who.leads and who.rank in (0, None)
    worth_a_line = reports and _is_worth_a_line(telemetry, recorded)
    if losses:
        rest = [f"recorded {_recorded(telemetry, recorded)}"] if worth_a_line else []
        stderr.write_line(f"{_prefix()}: {'; '.join([*losses, *rest])}{_own_cost() if reports else ''}")
    elif worth_a_line:
        stderr.write_line(f"otel-rl: recorded {_recorded(telemetry, recorded)}{_remarks()}")
    elif reports and telemetry.store.children_recorded:
        stderr.write_line(f"otel-rl: child processes recorded; {_show(telemetry.store.run_directory)}{_remarks()}")
    elif reports and who.role == RlRoleValues.DRIVER and "ray" in sys.modules and how_to_show(telemetry):
        stderr.write_line(f"otel-rl: no worker of this Ray job recorded anything: {_SILENT_WORKERS}{_remarks()}")
    elif reports and _starts_kernels():
        stderr.write_line(f"otel-rl: nothing was recorded of Jupyter itself{_kernels(telemetry)}{_remarks()}")
    elif reports and (hint := _hint_of_steps()):
        where = _where(telemetry) if any(recorded.values()) else ""
        stderr.write_line(f"otel-rl: recorded no step{hint}{where and f'; {where}'}{_remarks()}")
    elif reports and (any(recorded.values()) or _patched_something()):
        stderr.write_line(
            "otel-rl: no span was recorded: the program used no supported trainer, model client or agent library;"
            " `otel-rl doctor` lists them, and otel_rl.step() and otel_rl.rollout() mark a loop of your own"
            f"{_remarks()}"
        )
    elif reports and _is_worth_explaining(telemetry):
        stderr.write_line(f"otel-rl: nothing was recorded: {_why_nothing()}{_unrecorded_libraries()}")


def _is_worth_a_line(telemetry: Telemetry, recorded: dict[str, int]) -> bool:
    """Return whether more was recorded than that the run began and ended."""
    if _without_spans(telemetry) or _sampled(telemetry):
        return any(recorded.values())
    own = run_span.own_records
    return recorded["traces"] > own["traces"] or recorded["logs"] > own["logs"]


def _recorded(telemetry: Telemetry, recorded: dict[str, int]) -> str:
    remarks = f"{_of_rank(process_identity.current())}{_without_spans(telemetry)}{_sampled(telemetry)}{_dropped()}"
    if hint := _hint_of_steps():
        remarks += f", no step{hint}"
    return f"{in_words(recorded)}{remarks}; {_where(telemetry)}{_kernels(telemetry)}"


def _starts_kernels() -> bool:
    """Return whether this program starts notebook kernels, and they record: JupyterLab, nbconvert, papermill."""
    return "jupyter_client.manager" in sys.modules and settings.current().children != "none"


def _kernels(telemetry: Telemetry) -> str:
    if not _starts_kernels():
        return ""
    return f"; each notebook kernel records a run of its own{how_to_show(telemetry, of_all_runs=True)}"


def how_to_show(telemetry: Telemetry, *, of_all_runs: bool = False) -> str:
    """Return how to see this run, or the newest of the data directory; empty where none of it is in files."""
    if not any(sink.destination.is_file for sink in telemetry.sinks):
        return ""
    run = telemetry.store.run_directory
    return f"; {_show(run.parent, 'the newest') if of_all_runs else _show(run)}"


def _hint_of_steps() -> str:
    """Return how to record steps where the program trains, and none was opened; empty elsewhere."""
    # Nothing is imported at the end: who has counted a collective, or measured the cost, has loaded its module.
    first_use = sys.modules.get("otel_rl.collectives.first_use")
    if first_use is not None and first_use.is_counted and steps.last_iteration() is None:
        how = _COUNTED
    elif (passes := _passes_without_step()) >= _FEWEST_PASSES:
        how = _BY_HAND.format(passes=passes)
    elif steps.is_missing():
        guessing = instrumentor_status.snapshot().get("otel_rl_torch_training")
        is_off = guessing is not None and guessing["state"] == instrumentor_status.SKIPPED
        how = _NOT_GUESSED.format(reason=guessing["reason"]) if guessing is not None and is_off else _LOOP
    else:
        return ""
    return f" ({how})"


def _passes_without_step() -> int:
    guessed = sys.modules.get("otel_rl.training.guessed_steps")
    return guessed.passes_without_step() if guessed is not None else 0


def _without_spans(telemetry: Telemetry) -> str:
    has_exporter = any(sink.signal == "traces" for sink in telemetry.sinks)
    return "" if has_exporter else " (no spans: they have no exporter)"


def _sampled(telemetry: Telemetry) -> str:
    """Name a sampler that leaves spans out: their number is not that of what happened."""
    sampler = getattr(telemetry.tracer_provider, "sampler", None)
    root = getattr(sampler, "_root", sampler)
    if root is None or root is ALWAYS_ON:
        return ""
    try:
        return f" (spans sampled by {root.get_description()})"
    except Exception:  # noqa: BLE001 - a sampler of anybody's
        return f" (spans sampled by {type(root).__name__})"


def _of_rank(who: process_identity.ProcessIdentity) -> str:
    return f" on rank 0 of {who.world_size}" if who.rank == 0 and (who.world_size or 1) > 1 else ""


def _dropped() -> str:
    """Count what the process dropped, by signal and reason; spans that are left out by design are no loss."""
    parts: dict[str, list[str]] = {}
    for (signal, reason), number in sorted(drops.snapshot().items()):
        if reason not in step_sampling.REASONS:
            parts.setdefault(signal, []).append(f"{number} {reason}")
    if not parts:
        return ""
    words = "; ".join(f"{signal}: {', '.join(reasons)}" for signal, reasons in parts.items())
    advice = "; raise OTEL_BSP_MAX_QUEUE_SIZE or OTEL_BLRP_MAX_QUEUE_SIZE" if "queue_full" in words else ""
    return f", dropped ({words}{advice})"


def _remarks() -> str:
    return f"{_degraded()}{_unrecorded_servers()}{_unrecorded_libraries()}{_own_cost()}"


def _unrecorded_libraries() -> str:
    """Return the libraries of agents and models that the program has loaded and nothing records."""
    try:
        from otel_rl.process import agent_libraries  # noqa: PLC0415 - a child that says nothing does without it
    except ImportError:
        return ""  # the process can load no files any more
    loaded, states = agent_libraries.loaded(), instrumentor_status.snapshot()
    # An agent library that is recorded may use a client that is not.
    words = {False: "agents and tools of ", True: "direct model calls of "}
    named = [
        f"{what}{', '.join(libraries)}"
        for clients, what in words.items()
        if (libraries := agent_libraries.unrecorded(loaded, states, clients=clients))
    ]
    return f"; {' and '.join(named)} are not recorded (`otel-rl doctor` says what is)" if named else ""


def _unrecorded_servers() -> str:
    connections = sys.modules.get("otel_rl.instrumentors.mcp.connections")
    if connections is None or not connections.unrecorded_servers:
        return ""
    return (
        "; the program's MCP servers over stdio were not recorded"
        " (OTEL_RL_CHILDREN=all and StdioServerParameters(..., env=dict(os.environ)) record them)"
    )


def _degraded() -> str:
    """Return the libraries of which only a part is recorded, and why."""
    reasons = [
        f"{name} is degraded ({outcome['reason']})"
        for name, outcome in instrumentor_status.snapshot().items()
        if outcome["state"] == instrumentor_status.DEGRADED
    ]
    return "".join(f"; {reason}" for reason in reasons)


def _own_cost() -> str:
    """Return what otel-rl itself took of the steps, where that is more than users have to expect."""
    own_cost = sys.modules.get("otel_rl.training.own_cost")
    share = None if own_cost is None else own_cost.excessive_share()
    if own_cost is None or share is None:
        return ""
    advice = next((f", {advice}" for places, advice in _CHEAPER.items() if own_cost.is_mostly_of(places)), "")
    return f"; otel-rl itself took {share:.1%} of the time from step to step{advice}"


def _is_worth_explaining(telemetry: Telemetry) -> bool:
    """Return whether a program ran for a while, and nothing was recorded although something was to be.

    False for an interactive interpreter, and where a child may have sent something.
    """
    if time.monotonic() - _started_at < _A_WHILE or _sampled(telemetry) or _without_spans(telemetry):
        return False
    if child_processes.program(child_processes.original_arguments())[0] == "none":
        return False
    spent = os.times()
    # Files of children would have been found.
    only_files = all(sink.destination.is_file for sink in telemetry.sinks)
    return only_files or spent.children_user + spent.children_system == 0


def _why_nothing() -> str:
    waiting = sum(outcome["state"] == instrumentor_status.WAITING for outcome in _outcomes().values())
    if not waiting:
        return "no library is instrumented, `otel-rl doctor` says why"
    left_out = [
        f"{name.removeprefix('otel_rl_')} ({outcome['reason']})"
        for name, outcome in _outcomes().items()
        if outcome["state"] in (instrumentor_status.SKIPPED, instrumentor_status.FAILED)
    ]
    return (
        f"the program imported none of the {waiting} instrumented libraries;"
        + (f" not instrumented: {', '.join(left_out)};" if left_out else "")
        + " `otel-rl doctor` lists them, and otel_rl.step() and otel_rl.rollout() mark a loop of your own"
    )


def _patched_something() -> bool:
    """Return whether an instrumented library was imported: the user had reason to expect something."""
    patched = instrumentor_status.ACTIVE, instrumentor_status.DEGRADED
    return any(outcome["state"] in patched for outcome in _outcomes().values())


def _outcomes() -> dict[str, instrumentor_status.ReportedState]:
    """Return the outcomes of our instrumentors whose library suggests an AI workload."""
    outcomes = instrumentor_status.snapshot().items()
    is_general_purpose = instrumentor_status.is_general_purpose
    return {name: outcome for name, outcome in outcomes if name.startswith("otel_rl_") and not is_general_purpose(name)}


def _delivered(telemetry: Telemetry) -> dict[str, int]:
    """Return the items of each signal that reached a destination; one that reached two counts once."""
    return _most(telemetry.sinks, lambda sink: sink.delivered)


def _most(sinks: list[Sink], number: Callable[[Sink], int]) -> dict[str, int]:
    counts = dict.fromkeys(exporter_selection.SIGNALS, 0)
    for sink in sinks:
        counts[sink.signal] = max(counts[sink.signal], number(sink))
    return counts


def _losing(telemetry: Telemetry) -> list[Sink]:
    """Return the sinks that did not deliver everything; the file store reports itself what it could not write."""
    return [
        sink
        for sink in telemetry.sinks
        if sink.kept or (sink.lost and not (sink.explains_losses and not sink.timed_out))
    ]


def _prefix() -> str:
    who = process_identity.current()
    return f"otel-rl (rank {who.rank})" if who.rank is not None and (who.world_size or 1) > 1 else "otel-rl"


def _losses(telemetry: Telemetry) -> list[str]:
    # Signals that go to the same place share a sentence.
    by_place: dict[tuple[Destination, bool], list[Sink]] = {}
    for sink in _losing(telemetry):
        by_place.setdefault((sink.destination, sink.unopened), []).append(sink)
    sentences = []
    for (destination, unopened), sinks in by_place.items():
        counts, reason = _most(sinks, lambda sink: sink.lost + sink.kept), _reason(sinks)
        because, advice = f" ({reason})" if reason else "", destination.advice(reason, unopened=unopened)
        what = f"{in_words(counts)} could not be delivered to {destination.words}{because}"
        sentences.append(f"{what}{_kept(telemetry, sinks)}; {advice}")
    return sentences


def _kept(telemetry: Telemetry, sinks: list[Sink]) -> str:
    """Say what is in files of all that could not be delivered, and how it is sent."""
    kept, directory = _most(sinks, lambda sink: sink.kept), telemetry.store.files.directory
    if directory is None or not any(kept.values()):
        return ""
    run = _quoted(directory.parent)
    unanswered, lost = _most(sinks, lambda sink: sink.unanswered), _most(sinks, lambda sink: sink.lost)
    what = f"{in_words(kept)} of them " if any(lost.values()) else ""
    twice = f" ({in_words(unanswered)} got no answer and may come twice)" if any(unanswered.values()) else ""
    is_all = not any(sink.delivered for sink in telemetry.sinks)
    show = f", or show them with `otel-rl report {run}`" if is_all else ""
    return f": {what}kept in {run}; send them with `otel-rl replay {run} --endpoint URL`{twice}{show}"


def _unwritten(telemetry: Telemetry) -> list[str]:
    """Return what the file store lost beside what it wrote; one that never wrote has said so, and lost all."""
    dropped, directory = drops.snapshot(), telemetry.store.files.directory
    counts = {
        signal: sum(dropped.get((signal, reason), 0) for reason in _UNWRITTEN) for signal in exporter_selection.SIGNALS
    }
    if directory is None or settings.current().quiet or not any(counts.values()):
        return []
    return [f"{in_words(counts)} could not be written to {directory}; set OTEL_RL_DATA_DIR to a directory with space"]


def _reason(sinks: list[Sink]) -> str:
    reasons = [reason for sink in sinks if (reason := sink.loss_reason or sink.reason)]
    # What the system said beats the mere passing of time.
    reasons.sort(key=lambda reason: reason == NO_ANSWER)
    return reasons[0] if reasons else ""


def _where(telemetry: Telemetry) -> str:
    files = telemetry.store.files.directory
    elsewhere = [sink for sink in telemetry.sinks if sink.delivered and not sink.destination.is_file]
    parts = [f"sent to {', '.join(sorted({sink.destination.words for sink in elsewhere}))}"] if elsewhere else []
    if files is not None:
        written = {sink.signal for sink in telemetry.sinks if sink.destination.is_file}
        is_rest = elsewhere and written.isdisjoint(sink.signal for sink in elsewhere)
        if not elsewhere or any(sink.destination.is_file for sink in telemetry.sinks):
            parts.append(f"{_show(files.parent, 'the rest' if is_rest else 'it')}{_upload()}")
    return "; ".join(parts)


def _upload() -> str:
    """Say how the page gets into the run of MLflow: making it takes longer than the end of a program may."""
    return "; --mlflow after it uploads that page to the run of MLflow" if settings.current().mlflow else ""


def _show(run: Path, what: str = "it") -> str:
    # Terminals open an address on a click.
    address = f" ({run.as_uri()})" if run.is_absolute() else ""
    return f"show {what} with: otel-rl report {_quoted(run)}{address}"


def _quoted(run: Path) -> str:
    import shlex  # noqa: PLC0415 - a process that records nothing needs it not

    return shlex.quote(_shown(str(run)))


def _shown(path: str) -> str:
    """Return the path relative to where the program was started, which is where the user's shell is."""
    relative = os.path.relpath(path, _started_in)
    return path if relative.startswith("..") else os.path.join(".", relative)
