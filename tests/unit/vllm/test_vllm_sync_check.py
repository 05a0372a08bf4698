"""When an engine is asked for its weights, and what happens where that goes wrong; the engines are stand-ins.

The real ones are asked in `tests/engines/test_weight_sync_truth.py`.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import otel_rl
from otel_rl.core import settings
from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.vllm import batches, operations, sync_check, weights
from otel_rl.semconv import attributes
from otel_rl.training import engine_versions
from otel_rl.weight_sync.trainer_updates import trainer_updates

torch = pytest.importorskip("torch")

TOKENS = [3, 4, 5]


class Core:
    """An ``LLMEngine``: its log-probabilities are those of its weight, and it asks what it is told."""

    def __init__(self, weight: float = 1.0) -> None:
        self.model = torch.nn.Linear(1, 1, bias=False).requires_grad_(requires_grad=False)
        self.model.weight.fill_(weight)
        self.vllm_config = SimpleNamespace(
            parallel_config=SimpleNamespace(distributed_executor_backend="uni", world_size=1, data_parallel_size=1),
            cache_config=SimpleNamespace(block_size=16),
        )
        self.model_config = SimpleNamespace(
            dtype=torch.float32, max_model_len=16, skip_tokenizer_init=False, served_model_name="tiny"
        )
        self.renderer = SimpleNamespace(render_cmpl=lambda prompts: [{"type": "token", **prompts[0]}])
        self.requests: dict[str, object] = {}
        self.asked = 0
        self.prompts: list[list[int]] = []
        self.aborted: list[str] = []
        self.sleeps = False
        self.error: BaseException | None = None

    def get_tokenizer(self):
        return SimpleNamespace(encode=lambda _: TOKENS)

    def is_sleeping(self):
        return self.sleeps

    def has_unfinished_requests(self):
        return bool(self.requests)

    def add_request(self, name, prompt, sampling):
        assert sampling.temperature == 0.0
        self.asked += 1
        self.prompts.append(prompt["prompt_token_ids"])
        self.requests[name] = prompt
        return name

    def step(self):
        if self.error is not None:
            raise self.error
        [(name, prompt)] = self.requests.items()
        self.requests.clear()
        logprob = SimpleNamespace(logprob=float(self.model.weight))
        known = [None, *({token: logprob} for token in prompt["prompt_token_ids"][1:])]
        return [SimpleNamespace(finished=True, request_id=name, prompt_logprobs=known)]

    def abort_request(self, names, *, internal):
        assert internal
        self.aborted += names
        self.requests.clear()

    def collective_rpc(self, method, args=()):
        assert method == "apply_model"
        return [args[0](self.model)]


class LLM:
    """What a program calls."""

    def __init__(self) -> None:
        self.llm_engine = Core()

    def generate(self, prompts, sampling_params=None, *, lora_request=None):
        return [prompts]

    def update_weights(self, weight):
        if weight is not None:
            self.llm_engine.model.weight.fill_(weight)
        return "updated"


class LoRARequest:
    """Names an adapter."""


@pytest.fixture
def watched(monkeypatch, recorded):
    """A program's engine under the check of every kind."""
    vllm = ModuleType("vllm")
    vllm.SamplingParams = SimpleNamespace
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setenv("OTEL_RL_SYNC_CHECK", "all")
    settings.reset()
    engine_versions.forget()
    patches = Patches()
    sync_check.watch(patches)
    patches.observe(LLM, "generate", begin=batches.beginning("text_completion"), end=batches.end)
    patches.observe(LLM, "update_weights", begin=operations.beginning("update_weights"), end=operations.end)
    yield LLM()
    patches.restore()
    monkeypatch.undo()
    settings.reset()


@pytest.fixture
def trainer():
    """A parameter and its optimizer; each step adds one."""
    parameter = torch.nn.Parameter(torch.ones(1, 1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)

    def train():
        parameter.grad = -torch.ones(1, 1)
        optimizer.step()
        return float(parameter.detach())

    return train


def problems(recorded):
    return [record.attributes for record in recorded.events("rl.sync.problem")]


def test_a_sync_that_brings_nothing_is_told_in_the_step_that_samples_next(watched, trainer, recorded):
    for step in range(1, 6):
        with otel_rl.step(step):
            watched.generate("a")
            moved = trainer()
            watched.update_weights(None if step == 3 else moved)
    [one] = problems(recorded)
    assert (one[attributes.RL_LOOP_ITERATION], one[attributes.RL_SYNC_VERDICT]) == (4, "skipped")
    assert (one[attributes.RL_SYNC_OPERATION], one[attributes.RL_SYNC_UPDATES_BEHIND]) == ("update_weights", 1)
    assert one[attributes.RL_SYNC_TENSORS_NAMES] == ("weight",)


def test_an_engine_is_asked_once_per_version_of_the_weights(watched, trainer):
    for _ in range(3):
        watched.generate("a")
    assert watched.llm_engine.asked == 1
    watched.update_weights(trainer())
    for _ in range(3):
        watched.generate("a")
    assert watched.llm_engine.asked == 2
    trainer()
    watched.generate("a")
    assert watched.llm_engine.asked == 3


def test_an_engine_that_is_busy_or_asleep_is_not_asked(watched, trainer):
    core = watched.llm_engine
    core.requests["program's"] = {}
    watched.generate("a")
    assert (core.asked, list(core.requests)) == (0, ["program's"])
    core.requests.clear()
    core.sleeps = True
    watched.generate("a")
    assert core.asked == 0
    core.sleeps = False
    watched.generate("a")
    assert core.asked == 1


def test_an_engine_is_not_asked_while_weights_are_on_their_way(watched):
    weights.of_engine(watched.llm_engine).started()
    watched.generate("a")
    assert watched.llm_engine.asked == 0
    weights.of_engine(watched.llm_engine).changed()
    watched.generate("a")
    assert watched.llm_engine.asked == 1


@pytest.mark.parametrize(("block_size", "tokens"), [(16, 12), (8, 7)])
def test_the_prompt_fills_no_block_of_the_cache(watched, monkeypatch, block_size, tokens):
    core = watched.llm_engine
    core.vllm_config.cache_config.block_size = block_size
    monkeypatch.setattr(core, "get_tokenizer", lambda: SimpleNamespace(encode=lambda _: list(range(40))))
    watched.generate("a")
    assert [len(one) for one in core.prompts] == [tokens]


@pytest.mark.parametrize("mode", ["logprobs", "all"])
def test_where_every_token_fills_a_block_no_prompt_is_asked(watched, trainer, recorded, monkeypatch, mode):
    monkeypatch.setenv("OTEL_RL_SYNC_CHECK", mode)
    settings.reset()
    watched.llm_engine.vllm_config.cache_config.block_size = 1
    for _ in range(3):
        watched.generate("a")
        watched.update_weights(trainer())
    assert (watched.llm_engine.asked, problems(recorded)) == (0, [])


def test_an_adapter_is_not_compared_with_the_model(watched):
    watched.generate("a", lora_request=LoRARequest())
    watched.generate("a", lora_request=[LoRARequest()])
    assert watched.llm_engine.asked == 0


@pytest.mark.parametrize(
    "parallel",
    [
        {"distributed_executor_backend": "external_launcher", "world_size": 2},
        {"data_parallel_size": 2},
    ],
)
def test_ranks_that_compute_in_step_are_not_asked_on_their_own(watched, parallel, caplog, monkeypatch):
    core = watched.llm_engine
    vars(core.vllm_config.parallel_config).update(parallel)
    # ``LLMEngine.has_unfinished_requests`` of vLLM 0.32 reduces over the engines that compute in step.
    collectives: list[str] = []
    for name in ("has_unfinished_requests", "is_sleeping", "collective_rpc"):
        monkeypatch.setattr(core, name, lambda *_, name=name, **__: collectives.append(name))
    for _ in range(3):
        watched.generate("a")
    assert (core.asked, collectives) == (0, [])
    assert len([one for one in caplog.records if "are not compared" in one.message]) == 1


def test_an_engine_that_takes_no_functions_is_asked_for_log_probabilities(watched, trainer, recorded, monkeypatch):
    def refuse(*_, **__):
        raise TypeError("insecure")

    monkeypatch.setattr(watched.llm_engine, "collective_rpc", refuse)
    for step in range(1, 5):
        with otel_rl.step(step):
            watched.generate("a")
            moved = trainer()
            watched.update_weights(None if step == 3 else moved)
    [one] = problems(recorded)
    assert one[attributes.RL_LOOP_ITERATION] == 4
    assert attributes.RL_SYNC_TENSORS_CHANGED not in one


def test_an_engine_that_fails_to_answer_is_not_asked_again_and_the_program_goes_on(watched, caplog):
    watched.llm_engine.error = RuntimeError("dead")
    assert watched.generate("a") == ["a"]
    assert "not compared: RuntimeError: dead" in caplog.text
    assert watched.llm_engine.aborted
    assert not watched.llm_engine.requests
    watched.llm_engine.error = None
    assert watched.update_weights(2.0) == "updated"
    assert watched.generate("a") == ["a"]
    assert watched.llm_engine.asked == 1


def test_an_interrupt_while_the_engine_is_asked_is_the_program_s_and_leaves_no_request(watched):
    watched.llm_engine.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        watched.generate("a")
    assert not watched.llm_engine.requests
    watched.llm_engine.error = None
    assert watched.generate("a") == ["a"]


def test_a_method_that_only_reads_weights_is_no_sync(watched, trainer, recorded):
    for _ in range(2):
        watched.generate("a")
        watched.update_weights(trainer())
    watched.generate("a")
    for number in range(3):
        trainer()
        operations.begin_rpc(watched, "get_weight_norm").end(None)
        watched.generate("a")
        # It always came before: the first time that it does not is told, and by that name.
        assert [one.get(attributes.RL_SYNC_OPERATION) for one in problems(recorded)][: number + 1] == [None] * (
            number + 1
        )


def test_each_engine_is_compared_on_its_own(watched, trainer, recorded):
    other = LLM()
    watched.generate("a")
    other.generate("a")
    moved = trainer()
    watched.update_weights(moved)
    other.update_weights(None)
    watched.generate("a")
    other.generate("a")
    assert [one[attributes.RL_SYNC_VERDICT] for one in problems(recorded)] == ["skipped"]


def test_after_restoring_nothing_watches_the_optimizers(watched, trainer):
    before = trainer_updates.updates
    trainer()
    assert trainer_updates.updates == before + 1


def test_an_engine_is_not_kept_alive(watched):
    import gc
    import weakref

    other = LLM()
    other.generate("a")
    gone = weakref.ref(other.llm_engine)
    del other
    gc.collect()
    assert gone() is None


def test_a_call_says_how_old_its_weights_are_and_a_rollout_how_many_versions(watched, recorded):
    with otel_rl.step(1), otel_rl.rollout("r0"):
        watched.generate("a")
    watched.update_weights(2.0)
    with otel_rl.step(2):
        with otel_rl.rollout("r1"):
            watched.generate("a")
            watched.update_weights(3.0)
            with otel_rl.rollout("r2"):
                watched.generate("a")
    ages = [span.attributes.get(attributes.RL_POLICY_AGE) for span in recorded.spans if span.name.startswith("text")]
    assert [age is not None for age in ages] == [False, True, True]
    behind = {
        span.attributes["rl.rollout.id"]: span.attributes.get(attributes.RL_ROLLOUT_VERSIONS_BEHIND)
        for span in recorded.spans
        if span.name == "rl.rollout"
    }
    assert behind == {"r0": None, "r1": 1, "r2": 0}
    [step] = [one for one in recorded.spans if one.name == "rl.rank.step" and one.attributes["rl.loop.iteration"] == 2]
    assert step.attributes[attributes.RL_POLICY_AGE] >= 0
