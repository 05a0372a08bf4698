"""Groups of logged keys, by how the keys begin: what the report puts together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of a key that begins as none of the others do.
OTHER: Final = "other"
#: Group -> beginnings of keys. The longest that fits counts.
CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "reward": (
        *("reward", "score", "advantage", "return", "critic/score", "critic/rewards", "critic/advantages"),
        *("critic/returns", "rollout/reward", "rollout/raw_reward", "rollout/advantages", "rollout/returns"),
        *("rollout/zero_std", "frac_reward", "trace/reward_metrics", "trace/success", "objective/scores", "env/"),
        *("baseline_reward", "gdpo", "objective/rlhf_reward", "objective/non_score_reward"),
    ),
    "learning": (
        *("loss", "actor", "critic", "policy", "objective", "optim", "grad", "lr", "learning_rate", "kl", "entropy"),
        *("clip", "cispo", "vespo", "logps", "logits", "pg_", "ppo", "value", "sampling/", "offpolicy", "rollout_corr"),
        *("variance_proxy", "distillation", "on_policy_distillation", "moe", "mtp", "aux_loss", "mean_token_accuracy"),
        *("logprob", "training/rollout_probs", "training/rollout_actor_probs", "rollout/log_probs", "accuracy"),
        *(
            "tis",
            "ois",
            "opsm",
            "train_rollout_logprob",
            "rollout/ref_log_probs",
            "rollout/rollout_log_probs",
            "rollout/values",
        ),
        *(
            "rollout/teacher_log_probs",
            "torch/loss",
            "torch/learning_rate",
            "torch/grad_norm",
            "torch/without_gradient",
            "torch/unchanged",
        ),
    ),
    "rollout": (
        *("rollout", "completion", "response", "prompt_length", "trajectory", "multi_turn", "num_turns", "turns"),
        *("tool", "trace", "fully_async", "training/off_policy", "training/num_turns", "agent_loop", "episode"),
        *("wasted", "max_gen_tokens_per_turn", "training/filter_groups", "histogram", "separate_async", "async/"),
    ),
    "engine": ("vllm", "sglang", "gen_fleet", "router", "rollout/spec_", "rollout/prefix_cache", "engine", "transfer"),
    "time": (
        *("time", "timing", "perf/time", "step_time", "agent_loop/slowest", "profiling", "idle", "efficiency"),
        *("trajectory_duration_s", "fully_async/processing_time", "fully_async/total_wait_time", "rollout/idle_s"),
        *("rollout/agent_loop_latency", "agent_loop/compute_score", "agent_loop/generate", "agent_loop/tool_calls"),
    ),
    "throughput": (
        *("perf", "throughput", "tokens", "num_tokens", "global_seqlen", "payload", "checkpoint_engine", "delta"),
        *("actor/perf", "critic/perf", "memory", "system", "train/mfu", "train/total_tokens", "train/global_tokens"),
        *("torch/",),
    ),
    "evaluation": ("eval", "val", "validation", "test", "passrate", "val-core", "val-aux", "pass@"),
}
#: Transformers puts it before the keys that it hands to trackers.
TRAINER_PREFIX: Final = "train/"
_BY_PREFIX = sorted(
    ((prefix, category) for category, prefixes in CATEGORIES.items() for prefix in prefixes),
    key=lambda pair: len(pair[0]),
    reverse=True,
)


def category_of(key: str) -> str:
    """Return the group of ``key``; also found behind ``train/``."""
    for name in (key, key.removeprefix(TRAINER_PREFIX)):
        for prefix, category in _BY_PREFIX:
            if name.startswith(prefix):
                return category
    return OTHER
