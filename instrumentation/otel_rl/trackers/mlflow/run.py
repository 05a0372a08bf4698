"""The experiment and the run that this process writes to: joined where there is one, else made by the leading process.

The run is, in this order: that of ``MLFLOW_RUN_ID``; the one that the program has open; where a launch goes on after a
restart, the one that it had before; a new one.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock
from otel_rl.core.threads import allocate_lock
from otel_rl.pipeline.otlp_answer import ACCEPTED, OtlpAnswer
from otel_rl.pipeline.sink import NO_ANSWER
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlRunEndStatusValues as Status
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops, lifecycle, run_span
from otel_rl.trackers.keys import PREFIX
from otel_rl.trackers.mlflow import lookups, parameters, program_run, server
from otel_rl.trackers.mlflow.api import EXISTS, MlflowApi, MlflowReply, outage, refusal
from otel_rl.trackers.mlflow.names import Names, clean

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds for which a refusal stands before the server is asked again.
REFUSED_FOR = 60.0
#: Why parameters are counted as dropped: the server takes none or all of a request.
REFUSED_PARAMETERS = "parameters_refused"
#: Seconds that a thread waits for another one that asks for the same.
_PATIENCE = 1.0
_STATUS = {Status.COMPLETED: "FINISHED", Status.FAILED: "FAILED", Status.STOPPED: "KILLED"}


class MlflowRun:
    """Asks the server once, and again after an outage. The sender of spans and the writer of scalars share it."""

    def __init__(self, named: str = "", *, is_described: bool = True) -> None:
        #: What ``MLFLOW_RUN_ID`` said at the start of the process.
        self._named = named
        self._has_parameters = is_described
        #: Settings of the program by their source, each record of them; and the names of parameters.
        self._configured: list[tuple[str, Mapping[str, Any]]] = []
        self._names = Names()
        #: Ids; empty where they are not known.
        self.experiment_id = self.id = ""
        #: This process has made it, or one before it of the same launch: its end is ours to write.
        self.is_ours = False
        #: The program logs to it too.
        self.is_shared = False
        #: Metrics and parameters that it has.
        self.metrics: frozenset[str] = frozenset()
        self.parameters: frozenset[str] = frozenset()
        #: Tags that it is to get with the next request, and those of the latest step.
        self.tags: dict[str, str] = {}
        self._is_described = self._is_finished = False
        self._refusal = ACCEPTED
        self._refused_until = 0.0
        # A request to make the run got no answer: it may be there.
        self._may_exist = False
        self._asking = allocate_lock()

    def after_fork_in_child(self) -> None:
        """Keep what is known; the lock may be held by a thread of the parent."""
        self._asking = allocate_lock()

    def join(self, api: MlflowApi) -> OtlpAnswer:
        """Find or make the run; :attr:`id` is set where the answer is an acceptance."""
        if self.id and self._is_described:
            return ACCEPTED
        if time.monotonic() < self._refused_until:
            return self._refusal
        # Only at the end of the process do two threads of ours meet here, each within the time of the last delivery.
        if not self._asking.acquire(timeout=_PATIENCE):
            return outage(NO_ANSWER)
        try:
            answer = ACCEPTED if self.id else self._join(api)
            if answer.is_acceptance and not self._is_described:
                self._describe(api)
        finally:
            self._asking.release()
        if not answer.is_acceptance and answer.is_final:
            self._refusal, self._refused_until = answer, time.monotonic() + REFUSED_FOR
        return answer

    def configured(self, source: str, settings: Mapping[str, Any]) -> None:
        """Take in settings of the program: parameters that the run gets with its next values, or at the end."""
        self._configured.append((source, settings))
        self._is_described = False

    def use(self, run_id: str) -> None:
        """Join this run of the program's, unless one is named or has been joined."""
        self._named = self._named or run_id

    def give_up(self) -> OtlpAnswer:
        """Write no more to a run that somebody has deleted, and make no other one in its place."""
        self._refusal, self._refused_until = refusal(f"code: 400, run {self.id} is deleted"), math.inf
        self.id = ""
        return self._refusal

    def finish(self, api: MlflowApi) -> None:
        """Write at the end of the process how a run of ours has ended; one of somebody else's ends without us."""
        if not self.id or self._is_finished or not (lifecycle.is_ending and process_identity.current().leads_training):
            return
        self._is_finished = True
        if not self._is_described:
            self._describe(api)
        if self.tags:
            api.post("runs/log-batch", {"run_id": self.id, "tags": parameters.as_list(self.tags)})
        if self.is_ours:
            status = _STATUS[run_span.how_it_ended()]
            api.post("runs/update", {"run_id": self.id, "status": status, "end_time": clock.now() // 1_000_000})

    def reload(self, api: MlflowApi) -> bool:
        """Ask again which metrics the run has."""
        found = lookups.find_run(api, self.id)
        if found.answer.is_acceptance:
            self._read(found.content)
        return found.answer.is_acceptance

    def _join(self, api: MlflowApi) -> OtlpAnswer:
        if self._named:
            return self._open(api, self._named)
        if not process_identity.current().leads_training:
            return self._find_experiment(api) or refusal("the leading rank writes the run")
        opened = program_run.active_run_id()
        if opened and self._open(api, opened).is_acceptance:
            return ACCEPTED
        return self._find_experiment(api) or self._resume(api) or self._create(api)

    def _open(self, api: MlflowApi, run_id: str) -> OtlpAnswer:
        """Join a run that somebody else has made."""
        found = lookups.find_run(api, run_id)
        # There are traces at least, where the run takes nothing.
        self.experiment_id = found.experiment_id
        if found.answer.is_acceptance:
            self.is_shared = program_run.is_tracking()
            self._take(found.content)
        return found.answer

    def _find_experiment(self, api: MlflowApi) -> OtlpAnswer | None:
        """Find or make the experiment; return why not, or None."""
        if self.experiment_id:
            return None
        target = server.configured_now()
        found = lookups.find_experiment(api, target)
        if found.is_missing:
            return self._create_experiment(api, target.experiment_name)
        self.experiment_id = found.experiment_id
        return None if self.experiment_id else found.answer

    def _create_experiment(self, api: MlflowApi, name: str) -> OtlpAnswer | None:
        if not process_identity.current().leads_training:
            return outage(f"experiment {name} waits for the leading rank")
        reply = api.post("experiments/create", {"name": name})
        if reply.error == EXISTS:
            # Somebody was faster; the next attempt finds it.
            return outage(f"experiment {name} has just been made")
        self.experiment_id = str(reply.body.get("experiment_id", "")) if reply.succeeded else ""
        return None if self.experiment_id else _later(reply)

    def _resume(self, api: MlflowApi) -> OtlpAnswer | None:
        """Go on with the run that the launch had before its restart; None where there is none."""
        identity = process_identity.current()
        if not self._may_exist and identity.attempt == process_identity.ProcessIdentity.attempt:
            return None
        found = lookups.find_own_run(api, self.experiment_id, str(identity.id))
        if not found.answer.is_acceptance:
            return found.answer
        if not found.content:
            return None
        self.is_ours = True
        self._take(found.content)
        api.post("runs/update", {"run_id": self.id, "status": "RUNNING"})
        return ACCEPTED

    def _create(self, api: MlflowApi) -> OtlpAnswer:
        identity = process_identity.current()
        content = {
            "experiment_id": self.experiment_id,
            "run_name": identity.id,
            "start_time": clock.now() // 1_000_000,
            "tags": parameters.as_list(parameters.tags_of_new_run()),
        }
        reply = api.post("runs/create", content)
        if reply.succeeded and "run" in reply.body:
            self.is_ours = True
            self._take(reply.body["run"])
            return ACCEPTED
        self._may_exist = reply.answer.is_silence
        return _later(reply)

    def _describe(self, api: MlflowApi) -> None:
        """Write parameters that the run has not yet, and tags; whatever the server makes of them, values follow."""
        # First: settings may come meanwhile.
        self._is_described = True
        if not process_identity.current().leads_training:
            return
        # The program may have begun to log to it since we have joined it.
        self.is_shared = self.is_shared or (not self.is_ours and program_run.is_tracking())
        new = self._new_parameters()
        tags = parameters.as_list(parameters.tags())
        for start in range(0, max(len(new), 1), parameters.MOST):
            part = dict(new[start : start + parameters.MOST])
            content = {"params": parameters.as_list(part, parameters.LONGEST_PARAMETER), "tags": tags}
            reply = api.post("runs/log-batch", {"run_id": self.id, **content})
            if reply.answer.is_outage:
                self._is_described = False
                return
            if not reply.answer.is_acceptance:
                drops.count(Signal.LOGS, REFUSED_PARAMETERS, len(part))
            self.parameters |= part.keys()
            tags = []

    def _new_parameters(self) -> list[tuple[str, str]]:
        """Return names and texts. In a run of the program's they are none that it may give a value of its own."""
        collected = parameters.collect() if self._has_parameters else {}
        known = self._with_settings(collected).items()
        if self.is_shared:
            known = {f"{PREFIX}{key}": text for key, text in known if clean(key) not in self.parameters}.items()
        named = [(self._names.of(key), text) for key, text in known]
        return [(name, text) for name, text in named if name not in self.parameters]

    def _with_settings(self, collected: Mapping[str, str]) -> dict[str, str]:
        # What the program has given MLflow itself is in its run.
        given = [item for item in self._configured if not (self.is_shared and item[0] == "mlflow")]
        return parameters.with_settings(collected, given)

    def _take(self, run: Mapping[str, Any]) -> None:
        self._read(run)
        # Last: who sees the id may use the rest.
        self.id = str(run["info"].get("run_id") or run["info"].get("run_uuid"))

    def _read(self, run: Mapping[str, Any]) -> None:
        data = run.get("data") or {}
        self.metrics = frozenset(str(metric["key"]) for metric in data.get("metrics") or ())
        self.parameters = frozenset(str(parameter["key"]) for parameter in data.get("params") or ())


def _later(reply: MlflowReply) -> OtlpAnswer:
    return outage(reply.answer.reason) if reply.answer.is_silence else reply.answer
