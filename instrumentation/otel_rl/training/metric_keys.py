"""Keys of trainers that have a metric of the registry: generated; run `make generate`.

``instrumentation/metric_keys.csv`` has all keys that are known. Several keys per metric: trainers and versions name
them differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.semconv.definitions import MetricDefinition

CANONICAL: Final[Mapping[str, MetricDefinition]] = {
    "actor/entropy": metrics.RL_TRAIN_ENTROPY,
    "actor/grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "actor/kl_loss": metrics.RL_TRAIN_KL,
    "actor/lr": metrics.RL_TRAIN_LEARNING_RATE,
    "actor/pg_clipfrac": metrics.RL_TRAIN_CLIP_RATIO,
    "actor/pg_loss": metrics.RL_TRAIN_LOSS,
    "clip_ratio": metrics.RL_TRAIN_CLIP_RATIO,
    "clip_ratio/region_mean": metrics.RL_TRAIN_CLIP_RATIO,
    "completion_length": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "completions/clipped_ratio": metrics.RL_SAMPLE_TRUNCATED_RATIO,
    "completions/mean_length": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "critic/score/mean": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "entropy": metrics.RL_TRAIN_ENTROPY,
    "env/all/reward/total": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "frac_reward_zero_std": metrics.RL_SAMPLE_ZERO_VARIANCE_RATIO,
    "generate/avg_num_tokens": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "kl": metrics.RL_TRAIN_KL,
    "learning_rate": metrics.RL_TRAIN_LEARNING_RATE,
    "logprob_difference": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "logprob_difference/max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
    "loss": metrics.RL_TRAIN_LOSS,
    "loss/policy_avg": metrics.RL_TRAIN_LOSS,
    "lr": metrics.RL_TRAIN_LEARNING_RATE,
    "objective/entropy": metrics.RL_TRAIN_ENTROPY,
    "objective/kl": metrics.RL_TRAIN_KL,
    "objective/scores": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "offpolicy/logprob_abs_diff/max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
    "offpolicy/logprob_abs_diff/mean": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "optim/entropy": metrics.RL_TRAIN_ENTROPY,
    "optim/lr": metrics.RL_TRAIN_LEARNING_RATE,
    "policy/clipfrac_avg": metrics.RL_TRAIN_CLIP_RATIO,
    "policy/grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "policy/loss_metrics/clip_ratio": metrics.RL_TRAIN_CLIP_RATIO,
    "policy/policy_entropy": metrics.RL_TRAIN_ENTROPY,
    "policy/policy_kl": metrics.RL_TRAIN_KL,
    "policy/policy_loss": metrics.RL_TRAIN_LOSS,
    "policy/policy_lr": metrics.RL_TRAIN_LEARNING_RATE,
    "policy/rollout_train_logprobs_abs_diff_max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
    "policy/rollout_train_logprobs_abs_diff_mean": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "response_length/clip_ratio": metrics.RL_SAMPLE_TRUNCATED_RATIO,
    "response_length/mean": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "reward": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "reward/avg_raw_reward": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "reward_std": metrics.RL_ENVIRONMENT_REWARD_STD,
    "rollout/raw_reward": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "rollout/response_length_mean": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "rollout/response_lengths": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "rollout/reward_mean": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "rollout/reward_std": metrics.RL_ENVIRONMENT_REWARD_STD,
    "rollout/truncated_rate": metrics.RL_SAMPLE_TRUNCATED_RATIO,
    "rollout/truncated_ratio": metrics.RL_SAMPLE_TRUNCATED_RATIO,
    "sampling/sampling_logp_difference/max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
    "sampling/sampling_logp_difference/mean": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "skyrl.ai/grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "train/actor_grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "train/actor_lr": metrics.RL_TRAIN_LEARNING_RATE,
    "train/entropy_loss": metrics.RL_TRAIN_ENTROPY,
    "train/grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "train/kl": metrics.RL_TRAIN_KL,
    "train/kl_loss": metrics.RL_TRAIN_KL,
    "train/loss": metrics.RL_TRAIN_LOSS,
    "train/lr": metrics.RL_TRAIN_LEARNING_RATE,
    "train/pg_clipfrac": metrics.RL_TRAIN_CLIP_RATIO,
    "train/policy_loss": metrics.RL_TRAIN_LOSS,
    "train/reward": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "train/train_rollout_logprob_abs_diff": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "train_mean_nll": metrics.RL_TRAIN_LOSS,
    "trajectory/response_length/clip_ratio": metrics.RL_SAMPLE_TRUNCATED_RATIO,
    "trajectory/response_length/mean": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
}
"""Key -> metric."""
