"""Instrumentation of Tinker's client, for loops of the program's own and below ``tinker_cookbook``.

A call of ``SamplingClient.sample`` is a model call, from its submission until its future has an answer. Operations on
the model that trains are parts of the open step. Without a step that the program or a trainer reports, a step is what
ends with ``optim_step``: such steps are numbered from 1, per training client.

The client sends its requests from the event loop of a background thread, in the context of the caller. Where the caller
has no span, the context of the step or of the run is put in its place, so that the spans of its HTTP library
(``pyqwest``) have a parent.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TinkerInstrumentor(Instrumentor):
    """Patches the clients that sample and train, and how they hand requests to the background thread."""

    requirements: ClassVar = ("tinker >= 0.25, < 1",)
    training: ClassVar = {
        "steps": "known, by `optim_step`",
        "phases": "sampling, forward, backward, optimizer, weight sync, checkpoint, load",
        "values": "learning rate",
    }
    modules: ClassVar = {
        "tinker.lib.internal_client_holder": "clients:patch_holder",
        "tinker.lib.public_interfaces.sampling_client": "clients:patch_sampling_client",
        "tinker.lib.public_interfaces.service_client": "clients:patch_service_client",
        "tinker.lib.public_interfaces.training_client": "clients:patch_training_client",
    }
