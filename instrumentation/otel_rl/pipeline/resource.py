"""The resource of this process: complete where the environment names all of it, else completed later."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource

from otel_rl.core import __version__
from otel_rl.process import process_identity
from otel_rl.semconv import SCHEMA_URL, attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN_SERVICE = "unknown_service"
_RUN_ATTRIBUTES = {
    attributes.RL_RUN_ID: "id",
    attributes.RL_RUN_ATTEMPT: "attempt",
    attributes.RL_SYSTEM_NAME: "system",
    attributes.RL_SYSTEM_VERSION: "system_version",
    attributes.RL_ALGORITHM: "algorithm",
    attributes.RL_RANK: "rank",
    attributes.RL_LOCAL_RANK: "local_rank",
    attributes.RL_WORLD_SIZE: "world_size",
    attributes.RL_NODE_RANK: "node_rank",
    attributes.RL_ROLE: "role",
    attributes.RL_LAUNCHER: "launcher",
    attributes.RL_JOB_ID: "job_id",
    attributes.RL_WORKER_NAME: "worker_name",
    attributes.RL_WORKER_ID: "worker_id",
}

# One identity per process: all resources of its three providers read it, so completing it once is enough.
_identity: dict[str, Any] = {}


def identity_attributes() -> dict[str, Any]:
    """Host, process and what :mod:`otel_rl.process.process_identity` knows now."""
    known = process_identity.current()
    values = {key: getattr(known, field) for key, field in _RUN_ATTRIBUTES.items()}
    values[attributes.HOST_NAME] = socket.gethostname()
    values[attributes.PROCESS_PID] = os.getpid()
    values[attributes.TELEMETRY_DISTRO_NAME] = "otel-rl"
    values[attributes.TELEMETRY_DISTRO_VERSION] = __version__
    return {key: value for key, value in values.items() if value is not None}


class RunResource(Resource):
    """A resource whose attributes follow the run's identity.

    The SDK keeps a resource in every tracer, logger and meter and replaces it after a fork by merging; both keep
    working, and the identity (rank, system, algorithm) reaches all of them when it becomes known.
    """

    def __init__(self, base: Mapping[str, Any], schema_url: str | None = SCHEMA_URL) -> None:
        super().__init__(base, schema_url)
        self._base = dict(base)

    def merge(self, other: Resource) -> RunResource:
        """As the SDK's, and the result still follows the identity."""
        return RunResource({**self._base, **other.attributes}, self._schema_url)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes as known now; what the user configured wins."""
        self.refresh()
        return self._attributes

    def refresh(self) -> None:
        """Bring ``_attributes`` (which equality and hash of the base class read) up to date."""
        merged = {**_identity, **self._base}
        if len(merged) != len(self._attributes) or merged != dict(self._attributes):
            self._attributes = BoundedAttributes(attributes=merged, immutable=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunResource) and self._base == other._base

    def __hash__(self) -> int:
        return hash(frozenset(key for key in self._base))


def follow_identity(_: process_identity.ProcessIdentity | None = None) -> None:
    """Take over what is known now; a listener of :mod:`otel_rl.process.process_identity`."""
    _identity.update(identity_attributes())


def create(default_service_name: str) -> RunResource:
    """Return the resource of this process; ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` win."""
    detected = dict(Resource.create({}).attributes)
    if str(detected.get(attributes.SERVICE_NAME, "")).startswith(_UNKNOWN_SERVICE):
        detected[attributes.SERVICE_NAME] = default_service_name
    follow_identity()
    process_identity.add_listener(follow_identity)
    return RunResource(detected)
