"""Entities: generated; edit instrumentation/registry and run `make generate`."""

from __future__ import annotations

from typing import Final

from otel_rl.semconv import attributes, definitions

RL_PROCESS: Final = definitions.EntityDefinition(
    type="rl.process",
    description="A process of a training run",
    identity=(attributes.SERVICE_INSTANCE_ID,),
    attributes=(
        attributes.SERVICE_NAME,
        attributes.SERVICE_VERSION,
        attributes.HOST_NAME,
        attributes.PROCESS_PID,
        attributes.RL_RANK,
        attributes.RL_LOCAL_RANK,
        attributes.RL_NODE_RANK,
        attributes.RL_ROLE,
        attributes.RL_WORKER_NAME,
        attributes.RL_WORKER_ID,
        attributes.TELEMETRY_SDK_NAME,
        attributes.TELEMETRY_SDK_LANGUAGE,
        attributes.TELEMETRY_SDK_VERSION,
        attributes.TELEMETRY_DISTRO_NAME,
        attributes.TELEMETRY_DISTRO_VERSION,
    ),
)
RL_TRAINING_RUN: Final = definitions.EntityDefinition(
    type="rl.training_run",
    description="A training run",
    identity=(attributes.RL_RUN_ID,),
    attributes=(
        attributes.RL_RUN_ATTEMPT,
        attributes.RL_SYSTEM_NAME,
        attributes.RL_SYSTEM_VERSION,
        attributes.RL_ALGORITHM,
        attributes.RL_WORLD_SIZE,
        attributes.RL_LAUNCHER,
        attributes.RL_JOB_ID,
    ),
)
