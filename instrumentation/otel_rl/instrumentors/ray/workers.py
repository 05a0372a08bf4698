"""Which worker of the program this process is: the class of its actor, and the role that its name tells."""

from __future__ import annotations

import re
import sys

from otel_rl.core.guard import guard
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlRoleValues as Role
from otel_rl.telemetry import lifecycle

_SITE = guard("ray.identify")
#: The first one counts whose words are in the name of the class.
_ROLES = (
    (r"Queue|Storage|Buffer|Data(set|Loader|Worker|Source)", Role.DATA),
    (r"TaskRunner|Controller|Driver|Entrypoint", Role.DRIVER),
    (r"Reward|Judge|Verifier|Grader", Role.REWARD),
    (r"Critic|Value(Model|Worker)", Role.CRITIC),
    (r"Ref(erence)?(Model|Worker|Policy|Actor|Log)|Reference", Role.REFERENCE),
    (r"vLLM|VLLM|SGLang|LLMServer|HttpServer|LLMEngine|InferenceEngine|Server$|Engine$", Role.ENGINE),
    (r"Rollout|AgentLoop|Generat|Sampler|EnvWorker|Environment", Role.ROLLOUT),
    (r"Trainer|TrainRayActor|TrainWorker|Policy|Learner|WorkerDict|ActorModel|Actor(Ref|Rollout|Worker)", Role.TRAINER),
)
_known: str | None = None


def identify(name: str) -> None:
    """Complete the identity of this process by the actor that it runs; ``name`` is its class, empty for a task."""
    global _known
    lifecycle.may_be_killed = True
    if not name or name == _known:
        return
    _known = name
    with _SITE:
        process_identity.update(worker_name=name, worker_id=_actor_id(), role=_role(name))


def _role(name: str) -> str | None:
    known = process_identity.current().role
    return known or next((role for words, role in _ROLES if re.search(words, name)), None)


def _actor_id() -> str | None:
    """Return the id of the actor, which the worker knows from before its constructor on."""
    worker = getattr(sys.modules.get("ray._private.worker"), "global_worker", None)
    actor_id = getattr(worker, "actor_id", None)
    return None if actor_id is None or actor_id.is_nil() else str(actor_id.hex())
