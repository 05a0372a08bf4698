"""Stand-ins for what slime 0.3.1 calls around our hooks: the same names, signatures and kinds of functions.

slime needs SGLang and Megatron, which the tests' environment does not have. An actor is an object here whose methods
run when the driver waits for their results.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace

MODEL = "/models/Qwen/Qwen3-0.6B"
_ids = itertools.count()
#: Name of the timer, and what is logged: dictionary and step key.
TIMED: list[str] = []
LOGGED: list[tuple[dict, str]] = []


def arguments(**given):
    """The options of a program that the hooks read, and that the stand-ins have."""
    options = {
        "hf_checkpoint": MODEL,
        "advantage_estimator": "grpo",
        "start_rollout_id": 0,
        "num_rollout": 3,
        "eval_interval": None,
        "save_interval": None,
        "group_rm": False,
        "reward_key": None,
        "custom_rm_path": None,
        "rm_type": "math",
        "samples": 2,
    }
    return SimpleNamespace(**options | given)


# -- ray ---------------------------------------------------------------------------------------------------------------


class ObjectRef:
    def __init__(self, run):
        self.run = run
        self.id = next(_ids).to_bytes(4, "big")

    def binary(self):
        return self.id


class ActorHandle:
    def __init__(self, target):
        self.target = target

    def _actor_method_call(self, method_name, args=None, kwargs=None, name="", num_returns=None):
        return ObjectRef(lambda: getattr(self.target, method_name)(*(args or ()), **(kwargs or {})))

    def __getattr__(self, method):
        call = self._actor_method_call
        return SimpleNamespace(remote=lambda *args, **kwargs: call(method, args=args, kwargs=kwargs, name=""))


def get(object_refs, *, timeout=None):
    """Wait for results, which means to make them here."""
    return [ref.run() for ref in object_refs] if isinstance(object_refs, list) else object_refs.run()


# -- slime ------------------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    group_index: int | None = None
    index: int | None = None
    response_length: int = 0
    reward: object = None
    status: Status = Status.PENDING
    metadata: dict = field(default_factory=dict)
    custom_rm_path: str | None = None


async def async_rm(args, sample, **kwargs):
    return 0.5 if sample.index is None else float(sample.index)


async def generate_and_rm(args, sample, sampling_params, evaluation=False):
    if sample.status in (Sample.Status.COMPLETED, Sample.Status.TRUNCATED):
        return sample
    sample = sampling_params["make"](sample)
    if not args.group_rm:
        for one in sample if isinstance(sample, list) else [sample]:
            if one.status is not Sample.Status.ABORTED and one.reward is None:
                one.reward = await _asked["async_rm"](args, one)
    return sample


async def generate_and_rm_group(args, group, sampling_params, evaluation=False):
    made = await asyncio.gather(*(_asked["generate_and_rm"](args, one, sampling_params, evaluation) for one in group))
    if args.group_rm:
        for sample in made:
            sample.reward = 2.0
    return made


def completed(sample):
    """Make a sample."""
    sample.status, sample.response_length = Sample.Status.COMPLETED, 3
    return sample


def set_current_rollout_id(rollout_id):
    """As slime's ``sample_hooks``."""


def log(args, metrics, step_key: str):
    LOGGED.append((dict(metrics), step_key))


class Timer:
    def start(self, name):
        TIMED.append(f"start {name}")

    def end(self, name):
        TIMED.append(f"end {name}")

    @contextmanager
    def context(self, name):
        self.start(name)
        try:
            yield
        finally:
            self.end(name)


class RolloutManager:
    def __init__(self, args):
        self.args = args

    def generate(self, rollout_id):
        _asked["set_current_rollout_id"](rollout_id)
        group = [Sample(rollout_id, rollout_id * self.args.samples + one) for one in range(self.args.samples)]
        made = asyncio.run(_asked["generate_and_rm_group"](self.args, group, {"make": completed}))
        _asked["log"](self.args, {"rollout/raw_reward": made[0].reward, "rollout/step": rollout_id}, "rollout/step")
        return made

    def eval(self, rollout_id):
        _asked["set_current_rollout_id"](rollout_id)
        asyncio.run(_asked["generate_and_rm"](self.args, Sample(None, 0), {"make": completed}, evaluation=True))

    def dispose(self):
        """End."""


class Rank:
    def __init__(self, update):
        self.update = update

    def train(self, rollout_id, rollout_data_ref, external_data=None):
        with Timer().context("train"), Timer().context("ref_log_probs"):
            self.update()
        _asked["log"](None, {"train/loss": 1.0, "train/step": rollout_id}, step_key="train/step")


class RayTrainGroup:
    def __init__(self, update=lambda: None):
        self.actors = [ActorHandle(Rank(update))]

    def async_train(self, rollout_id, rollout_data_ref, external_data=None):
        return [actor.train.remote(rollout_id, rollout_data_ref, external_data=external_data) for actor in self.actors]

    def save_model(self, rollout_id, force_sync=False):
        """Save."""

    def update_weights(self):
        """Bring the weights."""


def create_rollout_manager(args, pg):
    return ActorHandle(RolloutManager(args)), None


def _begin(args):
    manager, _ = _asked["create_rollout_manager"](args, None)
    return manager, RayTrainGroup(getattr(args, "update", lambda: None)), _asked["get"]


def train(args):
    """The order of the calls of ``train.py``."""
    manager, actors, wait = _begin(args)
    actors.update_weights()
    for number in range(args.start_rollout_id, args.num_rollout):
        if args.eval_interval and number == 0:
            wait(manager.eval.remote(number))
        made = wait(manager.generate.remote(number))
        wait(actors.async_train(number, made))
        if args.save_interval:
            actors.save_model(number)
        actors.update_weights()
        if args.eval_interval:
            wait(manager.eval.remote(number))
    wait(manager.dispose.remote())


def train_async(args, interval=1):
    """The order of the calls of ``train_async.py``."""
    manager, actors, wait = _begin(args)
    actors.update_weights()
    following = manager.generate.remote(args.start_rollout_id)
    made = None
    for number in range(args.start_rollout_id, args.num_rollout):
        if following is not None:
            made = wait(following)
        if number + 1 < args.num_rollout:
            following = manager.generate.remote(rollout_id=number + 1)
        wait(actors.async_train(number, made))
        if (number + 1) % interval == 0:
            made = wait(following) if following is not None else None
            following = None
            actors.update_weights()
    wait(manager.dispose.remote())


_MODULES = {
    "slime.rollout.sample_hooks": (set_current_rollout_id,),
    "slime.rollout.rm_hub": (async_rm,),
    "slime.rollout.sglang_rollout": (generate_and_rm, generate_and_rm_group),
    "slime.observability.timer": (Timer,),
    "slime.observability.logging_utils": (log,),
    "slime.ray.actor_group": (RayTrainGroup,),
    "slime.ray.placement_group": (create_rollout_manager,),
}


class _Asked:
    """The functions as the modules have them: those that are hooked."""

    def __init__(self):
        self.modules = {}

    def __getitem__(self, name):
        if name == "get":
            return self.modules["slime.ray.placement_group"].ray.get
        return next(vars(module)[name] for module in self.modules.values() if name in vars(module))


_asked = _Asked()


def modules() -> dict[str, ModuleType]:
    """The modules, by name, that hold them."""
    found = {}
    for name, contents in _MODULES.items():
        found[name] = module = ModuleType(name)
        for one in contents:
            setattr(module, one.__name__, one)
    ray = ModuleType("ray_of_slime")
    ray.get, ray.actor = get, ModuleType("ray_of_slime.actor")
    ray.actor.ActorHandle = ActorHandle
    found["slime.ray.placement_group"].ray = ray
    _asked.modules = found
    return found


def function(name):
    """Return a function as its module has it."""
    return _asked[name]
