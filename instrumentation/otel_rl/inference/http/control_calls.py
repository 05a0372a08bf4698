"""One request that changes an engine: its weights, its cache, whether it sleeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.inference import servers
from otel_rl.inference.http.base_call import FAILED, HttpCall, default_port
from otel_rl.semconv import attributes
from otel_rl.telemetry import lifecycle, open_trajectory
from otel_rl.training import engine_versions, steps
from otel_rl.training.sync_operations import SyncOperation, is_phase

if TYPE_CHECKING:
    from otel_rl.inference.http.base_call import Url
    from otel_rl.inference.http.paths import Target
    from otel_rl.telemetry.scope import Scope

_VERSION = guard("served_engines.version")


class ControlCall(HttpCall):
    """A request that changes an engine.

    Of several that run at once the first is the phase ``rl.sync``: they are one stretch of time.
    """

    #: The one that is the phase now.
    timed: ControlCall | None = None

    def __init__(self, scope: Scope, target: Target, url: Url, body: dict[str, Any]) -> None:
        self._name = target.operation
        # vLLM and SGLang name it alike in all that take one, but for `update_weight_version`.
        version = body.get("weight_version", body.get("new_version"))
        values = {
            attributes.SERVER_ADDRESS: servers.ascii_host(url.host),
            attributes.SERVER_PORT: url.port,
            attributes.RL_POLICY_VERSION: str(version) if isinstance(version, str | int) else None,
        }
        is_timed = _is_timed(target)
        self._operation = SyncOperation(scope, self._name, values, is_phase=is_timed)
        #: What the engine has when it is done; None where the request does not say.
        self._brings = None if version is None else (url.host, url.port or default_port(url), version)
        self.has_ended = False
        if is_timed:
            ControlCall.timed = self

    def failed(self, error: BaseException | None) -> None:
        """No answer came, or one of which nothing is known."""
        self._end(error)

    def answered(self, _response: object, status: int, _content: bytes | None) -> None:
        """End the operation: the engine answers when it is done."""
        if self._brings is not None and status < FAILED:
            with _VERSION:
                host, port, version = self._brings
                engine_versions.given(servers.ascii_host(host), port, version)
        # SGLang refuses to empty its cache while requests run, and programs ask again until it does.
        self._end(str(status) if status >= FAILED and self._name != "flush_cache" else None)

    def _end(self, error: BaseException | str | None) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        if ControlCall.timed is self:
            ControlCall.timed = None
        self._operation.end(error)


def _is_timed(target: Target) -> bool:
    # Threads of a pool know nothing of the step: whoever waits for them may be in a phase. A rollout has no phase sync.
    if ControlCall.timed is not None or steps.where().step_of_context is None or open_trajectory.current() is not None:
        return False
    return is_phase(brings_weights=target.brings_weights)


def _after_fork_in_child() -> None:
    """Forget the operation of the parent."""
    ControlCall.timed = None


lifecycle.after_fork_in_child(_after_fork_in_child)
