"""Stand-ins for what Tinker's client and its cookbook call around our hooks: the same names, signatures and kinds.

The packages want another Transformers than the test environment has. `tests/unit/tinker_client` has the real ones, in
the environments of `tests/library_versions.py`, oldest and latest; `make test-systems` runs them with a real server.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from opentelemetry import trace

if TYPE_CHECKING:
    from concurrent.futures import Future

#: A span that another process or moment records.
OF_RUN = "span of the run"
#: Spans that were current where the background thread handled a request, by what it was.
handled: list[tuple[str, str | None]] = []


class AwaitableConcurrentFuture:
    def __init__(self, future):
        self._future = future

    def future(self):
        return self._future

    def result(self, timeout=None):
        return self._future.result(timeout)

    def __await__(self):
        return asyncio.wrap_future(self._future).__await__()


class InternalClientHolder:
    def __init__(self):
        self._constructor_kwargs = {"base_url": "http://127.0.0.1:8123/x"}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run_coroutine_threadsafe(self, coro):
        return AwaitableConcurrentFuture(asyncio.run_coroutine_threadsafe(coro, self.loop))

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)


async def _handle(name, answer, after=None):
    span = trace.get_current_span()
    handled.append((name, getattr(span, "name", OF_RUN) if span.get_span_context().is_valid else None))
    if after is not None:
        await after
    await asyncio.sleep(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


class SamplingClient:
    #: What `sample` answers with next, unless an answer of two tokens.
    error: Exception | None = None

    def __init__(self, holder):
        self.holder = holder

    @staticmethod
    async def _create_impl(holder, *, model_path, base_model, sampling_session_id, retry_config=None):
        return SamplingClient(holder)

    @staticmethod
    def create(holder, *, model_path=None, base_model=None, sampling_session_id=None):
        return holder.run_coroutine_threadsafe(
            SamplingClient._create_impl(
                holder, model_path=model_path, base_model=base_model, sampling_session_id=sampling_session_id
            )
        )

    def sample(self, prompt, num_samples, sampling_params, include_prompt_logprobs=False) -> Future:
        sequences = [SimpleNamespace(tokens=[1, 2], stop_reason="length") for _ in range(num_samples)]
        answer = self.error or SimpleNamespace(sequences=sequences)
        return self.holder.run_coroutine_threadsafe(_handle("sample", answer)).future()

    async def sample_async(self, prompt, num_samples, sampling_params):
        return await AwaitableConcurrentFuture(self.sample(prompt, num_samples, sampling_params))


class TrainingClient:
    def __init__(self, holder, model_seq_id, model_id):
        self.holder = holder
        #: What the gradients wait for before they are answered.
        self.gradients_after = None

    def _submit(self, name, answer=None, after=None):
        return self.holder.run_coroutine_threadsafe(_handle(name, answer, after))

    def forward(self, data, loss_fn, loss_fn_config=None):
        return self._submit("forward")

    def forward_backward(self, data, loss_fn, loss_fn_config=None):
        return self._submit("forward_backward", after=self.gradients_after)

    def optim_step(self, adam_params):
        return self._submit("optim_step")

    def save_state(self, name, ttl_seconds=None):
        return self._submit("save_state", SimpleNamespace(path=f"tinker://{name}"))

    def _load_state_impl(self, path, optimizer, weights_access_token):
        return self._submit("load_state")

    def _save_weights_for_sampler_impl(self, name, ttl_seconds):
        answer = "session" if name is None else SimpleNamespace(path=f"tinker://{name}")
        return self._submit("save_weights_for_sampler", answer)

    def save_weights_and_get_sampling_client(self):
        session = self._save_weights_for_sampler_impl(None, None).result()
        return SamplingClient.create(self.holder, sampling_session_id=session).result()


class ServiceClient:
    def __init__(self):
        self.holder = InternalClientHolder()

    def _create_lora_training_client_submit(self, base_model, rank):
        async def create():
            return TrainingClient(self.holder, 0, "id")

        return self.holder.run_coroutine_threadsafe(create())

    def _create_training_client_via_load_weights_submit(self, path, optimizer, base_model):
        return self._create_lora_training_client_submit(base_model, 8)

    def create_lora_training_client(self, base_model, rank=8):
        return self._create_lora_training_client_submit(base_model, rank).result()


# -- the cookbook ------------------------------------------------------------------------------------------------------


@contextmanager
def trace_iteration(step):
    yield SimpleNamespace(step=step)


@asynccontextmanager
async def scope_span(name):
    yield


@contextmanager
def scope_span_sync(name):
    yield


def update_scope_context(values):
    pass


class MultiplexLogger:
    def __init__(self, loggers):
        self.loggers = loggers

    def log_metrics(self, metrics, step=None):
        for logger in self.loggers:
            logger.log_metrics(metrics, step)


async def run_rollout(policy, env, *, limits=None, hooks=None):
    answer = await policy.sample_async(SimpleNamespace(length=3), 1, SimpleNamespace(max_tokens=2))
    if env.error is not None:
        raise env.error
    transition = SimpleNamespace(
        reward=env.reward, metrics={"correct": env.reward}, ac=answer.sequences[0], ob=SimpleNamespace(length=3)
    )
    return _Trajectory([transition], env.stop_reason)


class _Trajectory:
    def __init__(self, transitions, stop_reason):
        self.transitions = transitions
        self.stop_reason = stop_reason


class _Group:
    def __init__(self, trajectories, final):
        self.trajectories_G, self.final_rewards_G = trajectories, final

    def get_total_rewards(self):
        rewards = zip(self.trajectories_G, self.final_rewards_G, strict=True)
        return [sum(transition.reward for transition in made.transitions) + final for made, final in rewards]


async def do_group_rollout(env_group_builder, policy, strategy=None, termination=None):
    rollouts = sys_modules()["tinker_cookbook.rl.rollout_runner"].run_rollout
    made = await asyncio.gather(*[rollouts(policy, env) for env in env_group_builder.envs])
    async with sys_modules()["tinker_cookbook.utils.trace"].scope_span("compute_group_rewards"):
        return _Group(made, env_group_builder.final_rewards)


def assemble_training_data(trajectory_groups_P, advantages_P):  # noqa: N803 - names of the library
    return [], []


async def train_step(training_client, data):
    gradients = training_client.forward_backward(data, "importance_sampling")
    update = training_client.optim_step(SimpleNamespace(learning_rate=0.1))
    await gradients
    await update


async def save_checkpoint_and_get_sampling_client(training_client, checkpoint_mgr=None, i_batch=0):
    if checkpoint_mgr is not None:
        await sys_modules()["tinker_cookbook.checkpoint_utils"].save_checkpoint_async(training_client, "name")
    session = await training_client._save_weights_for_sampler_impl(None, None)
    return await SamplingClient.create(training_client.holder, sampling_session_id=session)


async def save_checkpoint_async(training_client, name):
    await training_client.save_state(name)


def save_checkpoint(training_client, name):
    training_client.save_state(name).result()


async def run_evaluations_parallel(evaluators, sampling_client):
    pass


async def rl_main(config, rollout_executor=None):
    """One iteration: the loop of `rl.train.main`."""
    modules = sys_modules()
    trainer, utils = modules["tinker_cookbook.rl.train"], modules["tinker_cookbook.utils.trace"]
    client, logger = config.client, modules["tinker_cookbook.utils.ml_log"].MultiplexLogger(config.loggers)
    sampler = await trainer.save_checkpoint_and_get_sampling_client(client)
    for batch in range(config.steps):
        with utils.trace_iteration(step=batch):
            async with utils.scope_span("sampling"):
                rollouts = modules["tinker_cookbook.rl.rollouts"].do_group_rollout
                group = await rollouts(config.builder, sampler)
            rewards = group.get_total_rewards()
            mean = sum(rewards) / len(rewards)
            advantages = [[reward - mean + config.shift for reward in rewards]]
            modules["tinker_cookbook.rl.data_processing"].assemble_training_data([group], advantages)
            await trainer.train_step(client, [])
            sampler = await trainer.save_checkpoint_and_get_sampling_client(client, config.manager)
        logger.log_metrics({"env/all/reward/total": mean, "batch": batch}, step=batch)


async def sl_main(config):
    """The loop of `supervised.train.main`: the next batch is submitted before the one before is finished."""
    utils = sys_modules()["tinker_cookbook.utils.trace"]
    logger = sys_modules()["tinker_cookbook.utils.ml_log"].MultiplexLogger(config.loggers)

    async def finish(step, gradients, update):
        utils.update_scope_context({"step": step})
        async with utils.scope_span("step"):
            await gradients
            await update
        logger.log_metrics(metrics={"train_mean_nll": 0.5}, step=step)

    pending = []
    for step in range(config.first, config.first + config.steps):
        utils.update_scope_context({"step": step})
        async with utils.scope_span("get_batch"):
            data = []
        gradients = config.client.forward_backward(data, "cross_entropy")
        pending.append((step, gradients, config.client.optim_step(SimpleNamespace(learning_rate=0.1))))
        if len(pending) == 2:
            await finish(*pending.pop(0))
    while pending:
        await finish(*pending.pop(0))


def _module(name, *things, **named):
    module = ModuleType(name)
    for thing in things:
        setattr(module, thing.__name__, thing)
    for key, thing in named.items():
        setattr(module, key, thing)
    return module


@functools.cache
def sys_modules():
    """The modules by their names."""
    interfaces = "tinker.lib.public_interfaces"
    made = [
        _module("tinker.lib.internal_client_holder", InternalClientHolder),
        _module(f"{interfaces}.sampling_client", SamplingClient),
        _module(f"{interfaces}.service_client", ServiceClient),
        _module(f"{interfaces}.training_client", TrainingClient),
        _module("tinker_cookbook.checkpoint_utils", save_checkpoint, save_checkpoint_async),
        _module("tinker_cookbook.rl.data_processing", assemble_training_data),
        _module("tinker_cookbook.rl.rollout_runner", run_rollout),
        _module("tinker_cookbook.rl.rollouts", do_group_rollout),
        _module(
            "tinker_cookbook.rl.train",
            train_step,
            save_checkpoint_and_get_sampling_client,
            run_evaluations_parallel,
            main=rl_main,
        ),
        _module("tinker_cookbook.supervised.train", main=sl_main),
        _module("tinker_cookbook.utils.ml_log", MultiplexLogger),
        _module("tinker_cookbook.utils.trace", trace_iteration, scope_span, scope_span_sync, update_scope_context),
    ]
    return {module.__name__: module for module in made}
