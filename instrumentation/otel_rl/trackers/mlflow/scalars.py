"""Writes logged values to the run, a request for each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.pipeline.otlp_answer import ACCEPTED, OtlpAnswer, Outcome
from otel_rl.process import process_identity
from otel_rl.trackers.keys import PREFIX
from otel_rl.trackers.mlflow import parameters
from otel_rl.trackers.mlflow.api import refusal
from otel_rl.trackers.mlflow.names import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.trackers.mlflow.api import MlflowApi, MlflowReply
    from otel_rl.trackers.mlflow.points import LoggedPoints
    from otel_rl.trackers.mlflow.run import MlflowRun

_INVALID = "INVALID_PARAMETER_VALUE"
#: What MLflow 3.17 says of a run that has been deleted (``_check_run_is_active``).
_IS_DELETED = "Current state is deleted"
#: Most requests that look for the values which make the server refuse a batch: enough for two among a thousand.
_MOST_REQUESTS = 40
#: Answers 500 in a row after which a batch is given up; a database that is locked recovers sooner.
_MOST_TROUBLE = 5

Metric = dict[str, Any]


class ScalarWriter:
    """An exporter of :class:`LoggedPoints`; :attr:`answer` says what became of the latest batch."""

    def __init__(self, api: MlflowApi, run: MlflowRun) -> None:
        self._api = api
        self._run = run
        self._names = Names()
        #: Names of which is known whether the program writes them too.
        self._compared: set[str] = set()
        self._refused: set[str] = set()
        self._troubles = 0
        self.answer: OtlpAnswer | None = None

    def export(self, batch: Sequence[LoggedPoints], **_: Any) -> OtlpAnswer:
        """Write ``batch``."""
        self.answer = self._write(batch)
        return self.answer

    def shutdown(self) -> None:
        """Finish the run where the process ends, and close the connection."""
        self._run.finish(self._api)
        self._api.close()

    def _write(self, batch: Sequence[LoggedPoints]) -> OtlpAnswer:
        # Recorded before it was known who leads: the leading rank writes the same.
        if not process_identity.current().leads_training:
            return ACCEPTED
        joined = self._run.join(self._api)
        if not joined.is_acceptance:
            return joined
        metrics = [metric for points in batch for metric in self._metrics(points)]
        wanted = [metric for metric in metrics if metric["key"] not in self._refused]
        answer = self._log(wanted)
        rejected = answer.rejected + len(metrics) - len(wanted)
        if answer.is_acceptance and rejected:
            reason = answer.reason or "code: 400, it refuses these keys"
            return OtlpAnswer(Outcome.REJECTED, rejected, reason)
        return answer

    def _metrics(self, points: LoggedPoints) -> list[Metric]:
        named = [(self._names.of(key), value) for key, value in points.values]
        if self._run.is_shared:
            self._compare({name for name, _ in named if not name.startswith(PREFIX)})
            theirs = {name for name in self._run.metrics if not name.startswith(PREFIX)}
            named = [(_prefixed(name), value) for name, value in named if name not in theirs]
        at = {"timestamp": points.timestamp, "step": points.step}
        return [{"key": name, "value": value, **at} for name, value in named]

    def _compare(self, names: set[str]) -> None:
        """Find out which keys the program writes to the run itself; it has done so before they come here."""
        new = names - self._compared
        if new and self._run.reload(self._api):
            self._compared |= new

    def _log(self, metrics: list[Metric]) -> OtlpAnswer:
        """Write ``metrics``; halve what the server refuses until the values that it means are alone.

        Of a batch that is halved, what was written before an outage comes twice.
        """
        waiting, rejected, reason = [metrics], 0, ""
        for _ in range(_MOST_REQUESTS):
            if not waiting:
                break
            part = waiting.pop()
            reply = self._post(part)
            if reply.succeeded:
                continue
            if _IS_DELETED in reply.answer.reason:
                return self._run.give_up()
            if reply.error != _INVALID or not part:
                return self._trouble(reply)
            reason = reply.answer.reason
            if len(part) == 1:
                rejected += 1
                self._refused.add(part[0]["key"])
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
        self._troubles = 0
        rejected += sum(map(len, waiting))
        return OtlpAnswer(Outcome.REJECTED, rejected, reason) if rejected else ACCEPTED

    def _post(self, metrics: list[Metric]) -> MlflowReply:
        tags = self._run.tags
        content = {"run_id": self._run.id, "metrics": metrics, "tags": parameters.as_list(tags)}
        reply = self._api.post("runs/log-batch", content)
        # Another step may have been recorded meanwhile.
        if reply.succeeded and self._run.tags is tags:
            self._run.tags = {}
        return reply

    def _trouble(self, reply: MlflowReply) -> OtlpAnswer:
        """Give up a batch that the server fails on again and again; others may pass."""
        self._troubles = self._troubles + 1 if "code: 500" in reply.answer.reason else 0
        if self._troubles < _MOST_TROUBLE:
            return reply.answer
        self._troubles = 0
        return refusal(reply.answer.reason)


def _prefixed(name: str) -> str:
    return name if name.startswith(PREFIX) else PREFIX + name
