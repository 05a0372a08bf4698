"""The health rules: generated; edit rules.yaml and run `make generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_rl.health.rule_definitions import Input, Limit, Rule
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

INPUTS: Final[Mapping[str, Input]] = {
    "reward": Input(
        "mean reward of the batch",
        "{reward}",
        (
            "reward",
            "objective/scores",
            "critic/score/mean",
            "rollout/raw_reward",
            "rollout/reward_mean",
            "reward/mean",
            "score/mean",
            "critic/rewards/mean",
            "rollout/rewards",
            "ppo_actor/task_reward/avg",
            "env/all/reward/total",
            "reward/avg_raw_reward",
            "reward_mean",
            "rewards/mean",
            "rollout/ep_rew_mean",
            "charts/episodic_return",
            "environment/return_mean",
        ),
        metrics.RL_ENVIRONMENT_REWARD_MEAN.name,
    ),
    "reward_std": Input(
        "standard deviation of the reward in the batch",
        "{reward}",
        (
            "reward_std",
            "rollout/reward_std",
            "reward/std",
            "rewards/std",
            "score/std",
        ),
        metrics.RL_ENVIRONMENT_REWARD_STD.name,
    ),
    "reward_function": Input(
        "mean of one reward function",
        "{reward}",
        (
            "rewards/*/mean",
            "trace/reward_metrics/*/avg",
        ),
    ),
    "evaluation_reward": Input(
        "mean reward of the evaluation",
        "{reward}",
        (
            "eval_reward",
            "eval/reward",
            "val-core/*/reward/mean@1",
            "val-core/*/mean@*",
            "validation/data/reward/mean@1",
            "val/avg_reward",
            "val_score/all/mean",
            "eval/eval_*_pass1",
            "val/*/pass@1",
            "test_score/*",
            "eval/all/avg_score",
            "eval/mean_reward",
        ),
    ),
    "zero_variance": Input(
        "share of groups whose samples all got the same reward",
        "1",
        ("frac_reward_zero_std",),
        metrics.RL_SAMPLE_ZERO_VARIANCE_RATIO.name,
    ),
    "kl": Input(
        "divergence from the reference per token",
        "{nat}",
        (
            "kl",
            "actor/kl_loss",
            "train/kl_loss",
            "critic/kl",
            "policy/policy_kl",
        ),
        metrics.RL_TRAIN_KL.name,
        not_beside=(
            "rewards/chosen",
            "rewards/rejected",
        ),
    ),
    "kl_sequence": Input("divergence from the reference per answer", "{nat}", ("objective/kl",)),
    "kl_update": Input(
        "divergence of an update from the policy before it, per token",
        "{nat}",
        (
            "actor/ppo_kl",
            "train/ppo_kl",
            "actor/approxkl",
            "ppo_actor/update/approx_kl/avg",
            "policy/approxkl_avg",
            "approx_kl",
        ),
    ),
    "entropy": Input(
        "mean entropy of the policy per token",
        "{nat}",
        (
            "entropy",
            "actor/entropy",
            "actor/entropy_loss",
            "train/entropy_loss",
            "entropy_loss",
            "policy/entropy_avg",
            "ppo_actor/update/entropy/avg",
            "optim/entropy",
            "objective/entropy",
            "policy/policy_entropy",
        ),
        metrics.RL_TRAIN_ENTROPY.name,
    ),
    "clip_ratio": Input(
        "share of tokens whose ratio was clipped",
        "1",
        (
            "clip_ratio/region_mean",
            "clip_ratio",
            "actor/pg_clipfrac",
            "train/pg_clipfrac",
            "actor/ppo_ratio_clipfrac",
            "actor/clipfrac",
            "policy/clipfrac_avg",
            "ppo_actor/update/clip_ratio/avg",
            "policy/loss_metrics/clip_ratio",
        ),
        metrics.RL_TRAIN_CLIP_RATIO.name,
    ),
    "gradient_norm": Input(
        "norm of the gradient before clipping",
        "{norm}",
        (
            "grad_norm",
            "actor/grad_norm",
            "actor_grad_norm",
            "ppo_actor/update/grad_norm/avg",
            "optim/grad_norm",
            "skyrl.ai/grad_norm",
            "policy/grad_norm",
        ),
        metrics.RL_TRAIN_GRAD_NORM.name,
    ),
    "learning_rate": Input(
        "learning rate as applied",
        "{rate}",
        (
            "learning_rate",
            "actor/lr",
            "lr",
            "actor_lr",
            "ppo_actor/update/lr/avg",
            "optim/lr",
            "progress/lr",
            "policy/policy_lr",
        ),
        metrics.RL_TRAIN_LEARNING_RATE.name,
    ),
    "loop_gradient_norm": Input(
        "norm of the gradient before clipping, of a loop without a trainer", "{norm}", ("torch/grad_norm",)
    ),
    "loop_learning_rate": Input(
        "learning rate as applied, of a loop without a trainer", "{rate}", ("torch/learning_rate",)
    ),
    "without_gradient": Input(
        "share of the optimizer's trainable parameters that had no gradient; 1 where none has one",
        "1",
        ("torch/without_gradient",),
    ),
    "unchanged": Input(
        "1 where the optimizer's step has changed no parameter, though earlier ones had", "1", ("torch/unchanged",)
    ),
    "trainable_parameters": Input(
        "trainable parameters (tensors) of the optimizer", "{parameter}", ("torch/trainable_parameters",)
    ),
    "loss": Input(
        "training loss",
        "{loss}",
        (
            "loss",
            "actor/pg_loss",
            "policy_loss",
            "train/pg_loss",
            "train_loss",
            "train_loss_step",
            "train_mean_nll",
            "torch/loss",
            "policy/policy_loss",
        ),
        metrics.RL_TRAIN_LOSS.name,
    ),
    "length": Input(
        "mean length of the answers",
        "{token}",
        (
            "completions/mean_length",
            "completion_length",
            "response_length/mean",
            "trajectory/response_length/mean",
            "rollout/response_length_mean",
            "rollout/response_lengths",
            "response_length",
            "tokens/response_length/mean",
            "generate/avg_num_tokens",
        ),
        metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN.name,
    ),
    "truncated": Input(
        "share of answers cut at the length limit",
        "1",
        (
            "completions/clipped_ratio",
            "response_length/clip_ratio",
            "trajectory/response_length/clip_ratio",
            "rollout/truncated_ratio",
            "rollout/truncated",
            "rollout/truncated_rate",
        ),
        metrics.RL_SAMPLE_TRUNCATED_RATIO.name,
    ),
    "aborted": Input(
        "share of answers that were aborted or are empty",
        "1",
        (
            "response/aborted_ratio",
            "trajectory/response/aborted_ratio",
        ),
    ),
    "repetition": Input(
        "share of answers that repeat themselves",
        "1",
        (
            "rollout/repetition_frac",
            "repetition_ratio",
        ),
    ),
    "staleness": Input(
        "versions by which the policy of the samples is behind",
        "{version}",
        (
            "training/off_policy/trajectory_staleness/mean",
            "async/staleness_mean",
            "ppo_actor/update/version_stats/sample_staleness_theta_avg",
        ),
    ),
    "logprob_difference": Input(
        "mean difference of trainer and engine in the log-probability of a sampled token, without sign",
        "{nat}",
        (
            "sampling/sampling_logp_difference/mean",
            "train_rollout_logprob_abs_diff",
            "offpolicy/logprob_abs_diff/mean",
            "logprob_difference",
            "policy/rollout_train_logprobs_abs_diff_mean",
        ),
        metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN.name,
    ),
    "preference_accuracy": Input("share of pairs whose chosen answer the policy prefers", "1", ("rewards/accuracies",)),
    "preference_margin": Input(
        "mean of the reward of the chosen answer less that of the rejected one", "{reward}", ("rewards/margins",)
    ),
    "unscored": Input("share of finished samples without a finite score", "1", ("unscored_ratio",)),
    "failed_calls": Input(
        "share of the calls of one tool, model or service that failed, as this process saw them",
        "1",
        ("calls/*/failed_share",),
    ),
    "call_seconds": Input(
        "mean time of the calls of one tool or service, or of a model for 100 tokens, as this process saw them",
        "s",
        ("calls/*/seconds",),
    ),
    "versions_behind": Input(
        "mean of the versions by which the weights that answered a rollout are behind",
        "{version}",
        ("versions_behind",),
    ),
    "step_time": Input(
        "time from the end of one step to the end of the next",
        "s",
        (
            "step_time",
            "timing_s/step",
            "timing/s/step",
            "perf/time_per_step",
            "perf/step_time",
            "timing/step_total",
            "time/step_total",
            "timing/train/total_step_time",
            "timing/step",
        ),
    ),
}
"""Input -> what it is, and the keys of trainers that give it."""

RULES: Final[Mapping[str, Rule]] = {
    "P1_plateau": Rule(
        title="Plateau",
        means="The reward has not moved for many steps, and the policy does not move either.",
        needs=(
            (
                "reward",
                "kl",
            ),
            (
                "reward",
                "gradient_norm",
            ),
        ),
        source="plateau of the reward with ppo_kl near 0 and a tiny gradient norm",
        limits={
            "window": Limit(50, "{step}", "steps whose first and second half are compared"),
            "rise": Limit(0.1, "1", "least change between the halves, as a share of the level of the reward"),
            "still_kl": Limit(0.0001, "{nat}", "divergence below which the policy stands still"),
            "still_norm": Limit(0.001, "{norm}", "norm of the gradient below which it stands still"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "learning rate and its schedule",
            "share of groups without a difference in reward (no_signal)",
            "whether the prompts are too hard or solved",
        ),
    ),
    "P2_oscillation": Rule(
        title="Oscillation",
        means="The reward swings by half its level or more while updates are clipped. It does not rise.",
        needs=(
            (
                "reward",
                "clip_ratio",
            ),
        ),
        source="pg_clipfrac above 5 %; spread of the reward against its mean",
        limits={
            "window": Limit(20, "{step}", "steps that are looked at"),
            "swing": Limit(
                0.5, "1", "standard deviation of the reward, as a share of its mean or, where larger, of reward_std"
            ),
            "clip_warning": Limit(0.05, "1", "median share of clipped tokens from which it is a warning"),
            "clip_critical": Limit(0.3, "1", "from which it is critical"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "learning rate",
            "batch size and number of samples per prompt",
            "updates per batch (num_iterations, ppo_epochs)",
        ),
    ),
    "P3_kl_explosion": Rule(
        title="KL explosion",
        means="The policy has run away from the reference, or an update changed it too much.",
        needs=(
            ("kl",),
            ("kl_update",),
            ("kl_sequence",),
        ),
        source="ppo_kl 0.01 to 0.05 is healthy, above 0.1 for many steps is not",
        limits={
            "kl_warning": Limit(1.0, "{nat}", "divergence from the reference per token"),
            "kl_critical": Limit(3.0, "{nat}", "the same"),
            "jump": Limit(10, "1", "growth within ten steps that is a warning"),
            "jump_floor": Limit(0.3, "{nat}", "divergence from which such a jump counts"),
            "update_warning": Limit(0.1, "{nat}", "divergence of an update per token"),
            "update_critical": Limit(0.5, "{nat}", "the same"),
            "sequence_warning": Limit(50, "{nat}", "divergence from the reference per answer"),
            "sequence_critical": Limit(200, "{nat}", "the same"),
            "onset": Limit(0.1, "1", "share of the warning's threshold from which on the rise is dated"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.7, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "learning rate at the onset",
            "weight of the KL penalty (beta)",
            "reward and entropy from the onset on",
            "the last checkpoint before the onset",
        ),
    ),
    "P4_entropy_collapse": Rule(
        title="Entropy collapse",
        means="The policy gives nearly the same tokens each time. It no longer explores.",
        needs=(
            (
                "entropy",
                "reward",
            ),
        ),
        source="entropy near 0, or below a tenth of what it was, in tens of steps",
        limits={
            "baseline": Limit(5, "{step}", "first steps whose median is the level to compare with"),
            "warning": Limit(0.1, "{nat}", "entropy below which it is a warning"),
            "warning_share": Limit(0.1, "1", "and share of the first steps' level"),
            "critical": Limit(0.02, "{nat}", "entropy below which it is critical"),
            "critical_share": Limit(0.05, "1", "and share of the first steps' level"),
            "gone": Limit(0.002, "{nat}", "entropy below which it is critical whatever it was before"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(1.5, "1", "multiple of a threshold above which the state falls"),
        },
        next_steps=(
            "KL and learning rate around the onset",
            "temperature of the sampling",
            "completions around the onset, whether they are all alike",
            "the weight of the entropy bonus, or a higher upper clip",
        ),
    ),
    "P5_reward_hacking": Rule(
        title="Reward hacking",
        means="The reward rises at the cost of one of its parts, of the evaluation, or by ever longer answers.",
        needs=(
            ("reward_function",),
            (
                "reward",
                "evaluation_reward",
            ),
            (
                "reward",
                "length",
                "truncated",
            ),
        ),
        source="training reward rises, validation falls, answers get longer",
        limits={
            "baseline": Limit(5, "{step}", "first steps whose median is the level to compare with"),
            "rise": Limit(0.2, "1", "rise of the one, as a share of its level"),
            "fall": Limit(0.5, "1", "fall of the other, as a share of its level"),
            "gone": Limit(0.8, "1", "fall from which it is critical if answers reach the limit or entropy is low"),
            "noise": Limit(3, "1", "least size of both, in multiples of the usual change from step to step"),
            "cap": Limit(0.8, "1", "share of truncated answers that counts as length at its limit"),
            "low_entropy": Limit(0.1, "{nat}", "entropy that counts as low"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "completions with the highest reward after the onset",
            "weights of the reward functions",
            "length of the answers and truncation",
            "an evaluation that the reward does not see",
        ),
    ),
    "P6_validation_collapse": Rule(
        title="Validation collapse",
        means="The reward of the evaluation has fallen well below its best value.",
        needs=(("evaluation_reward",),),
        source="validation below its best while training rises",
        limits={
            "fall": Limit(0.3, "1", "fall below the best value, as a share of it"),
            "gone": Limit(0.6, "1", "fall from which it is critical"),
            "noise": Limit(3, "1", "least fall, in multiples of the usual change from one evaluation to the next"),
            "warm_up": Limit(5, "{evaluation}", "fewest evaluations"),
            "raise_after": Limit(2, "{evaluation}", "evaluations in a row before the state rises"),
            "clear_after": Limit(2, "{evaluation}", "evaluations in a row before it falls"),
        },
        next_steps=(
            "the checkpoint of the best evaluation",
            "KL and entropy since then",
            "whether training and evaluation have the same prompts and the same reward",
        ),
    ),
    "P7_slow_step": Rule(
        title="Slow steps",
        means="Steps take much longer than the steps before, and longer answers do not explain it.",
        needs=(("step_time",),),
        source="more than 1.5 times the median of the last 50 steps",
        limits={
            "warm_up": Limit(3, "{step}", "first steps that are left out; they import and compile"),
            "reference": Limit(8, "{step}", "fewest steps to compare with"),
            "window": Limit(5, "{step}", "latest steps whose median is judged"),
            "warning": Limit(1.5, "1", "multiple of the earlier median"),
            "critical": Limit(3.0, "1", "the same"),
            "shortest": Limit(0.1, "s", "least difference"),
            "lost": Limit(3, "s", "least time that the slow steps have cost altogether; a busy machine is no finding"),
            "noise": Limit(4, "1", "least difference, in multiples of the usual deviation from the median"),
            "raise_after": Limit(4, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.8, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "phase that the evidence names, by rank",
            "calls, tools and reward functions since the onset",
            "stragglers and waits in collectives",
            "memory of the host and garbage collection",
        ),
    ),
    "P8_garbled_output": Rule(
        title="Garbled output",
        means="Answers are nearly empty, aborted, or repeat themselves up to the limit.",
        needs=(
            ("length",),
            ("aborted",),
            ("repetition",),
            (
                "entropy",
                "truncated",
            ),
        ),
        source="slime's rollout/repetition_frac and verl's response/aborted_ratio",
        limits={
            "baseline": Limit(5, "{step}", "first steps whose median is the level to compare with"),
            "short_share": Limit(
                0.1, "1", "mean length below which answers are nearly empty, as a share of the first steps'"
            ),
            "short": Limit(2, "{token}", "mean length below which it is critical"),
            "aborted_warning": Limit(0.2, "1", "share of aborted answers"),
            "aborted_critical": Limit(0.5, "1", "the same"),
            "repetition_warning": Limit(0.3, "1", "share of answers that repeat themselves"),
            "repetition_critical": Limit(0.7, "1", "the same"),
            "flat_entropy": Limit(0.02, "{nat}", "entropy below which answers that reach the limit repeat themselves"),
            "cap": Limit(0.95, "1", "share of truncated answers for that"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "completions after the onset, read them",
            "KL and entropy (P3, P4), which come first",
            "stop tokens, chat template and the server's sampling parameters",
        ),
    ),
    "P9_truncation": Rule(
        title="Truncation",
        means="Answers are cut at the length limit, so their end is never scored.",
        needs=(("truncated",),),
        source="a healthy clip ratio is near 0",
        limits={
            "window": Limit(5, "{step}", "latest steps whose median is judged"),
            "warning": Limit(0.5, "1", "share of truncated answers"),
            "critical": Limit(0.97, "1", "the same"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.9, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "limit of the length (max_completion_length, max_response_length)",
            "whether the model ever ends its answers, and the stop tokens",
            "length of the answers over the run",
        ),
    ),
    "no_signal": Rule(
        title="No signal",
        means="The samples of nearly all groups get the same reward, so there is nothing to learn from.",
        needs=(
            ("zero_variance",),
            ("reward_std",),
            ("reward",),
        ),
        source="GRPO: an advantage is the difference to the group; TRL logs frac_reward_zero_std",
        limits={
            "dead": Limit(0.99, "1", "share of groups without a difference from which there is no signal"),
            "few": Limit(0.8, "1", "mean share of the window from which it is a warning"),
            "window": Limit(8, "{step}", "steps in a row without any signal that are a warning"),
            "after_life": Limit(
                10, "{step}", "steps in a row without any signal that are critical if there was one before"
            ),
            "never": Limit(30, "{step}", "first steps without any signal that are critical"),
            "raise_after": Limit(1, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(3, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "the reward functions on a few completions, by hand",
            "whether prompts are too hard or solved",
            "temperature and number of samples per prompt",
            "truncation, where the reward needs a complete answer",
        ),
    ),
    "learning_rate": Rule(
        title="Learning rate too high",
        means="The learning rate is far above what post-training uses, or jumped up. Critical once the policy suffers.",
        needs=(("learning_rate",),),
        source="usual for post-training: 1e-7 to 1e-4, with adapters up to 1e-3",
        limits={
            "warning": Limit(0.01, "{rate}", "learning rate from which it is a warning"),
            "jump": Limit(10, "1", "growth above the highest value of the steps before that is a warning"),
            "settled": Limit(10, "{step}", "steps without a rise before a growth counts as a jump; a warm-up has none"),
            "hurt_kl": Limit(1.0, "{nat}", "divergence from the reference that makes it critical"),
            "hurt_entropy": Limit(0.1, "1", "entropy that makes it critical, as a share of the first steps'"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "learning rate and schedule in the configuration",
            "KL, entropy and gradient norm since the onset",
        ),
    ),
    "gradient_norm": Rule(
        title="Gradient blow-up",
        means="The norm of the gradient has grown manyfold, and stays there.",
        needs=(("gradient_norm",),),
        source="spikes of the norm come before a divergence of the loss; verl and TRL log the norm before clipping",
        limits={
            "reference": Limit(10, "{step}", "fewest steps to compare with; those without a gradient do not count"),
            "window": Limit(3, "{step}", "latest steps whose median is judged"),
            "warning": Limit(10, "1", "multiple of the earlier median"),
            "critical": Limit(100, "1", "the same"),
            "floor": Limit(5, "{norm}", "norm below which nothing is said"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.7, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "gradient clipping (max_grad_norm) and learning rate",
            "the batches at the onset",
            "precision of the training",
        ),
    ),
    "non_finite": Rule(
        title="Not a number",
        means="Values of the training are NaN or infinite.",
        needs=(
            ("loss",),
            ("gradient_norm",),
            ("kl",),
            ("entropy",),
            ("reward",),
        ),
        source="loss of precision; a scaled gradient may overflow a few times at the start without harm",
        limits={
            "scaling": Limit(
                1,
                "{step}",
                "steps in ten log calls whose gradient may overflow, as by loss scaling; 5 in the first 20 steps",
            ),
            "warning": Limit(
                1, "{step}", "further steps in these log calls that surely have such a value, for a warning"
            ),
            "critical": Limit(4, "{step}", "the same"),
            "raise_after": Limit(1, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "the batch at the onset",
            "precision (fp16, bf16) and loss scaling",
            "gradient norm and learning rate before the onset",
        ),
    ),
    "staleness": Rule(
        title="Stale samples",
        means="Samples come from a policy that is many versions behind.",
        needs=(("staleness",),),
        source="asynchronous trainers bound it; AReaL and verl use 1 to 8",
        limits={
            "window": Limit(5, "{step}", "latest steps whose median is judged"),
            "warning": Limit(8, "{version}", "mean age of the samples"),
            "critical": Limit(32, "{version}", "the same"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.7, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "limit of the staleness in the configuration",
            "duration of rollouts against updates",
            "clip ratio and importance weights",
        ),
    ),
    "engine_drift": Rule(
        title="Engine drift",
        means="The engine gives its tokens other probabilities than the trainer does. Its weights may be old.",
        needs=(("logprob_difference",),),
        source="TRL, slime and rLLM log the difference; from different kernels alone it stays small and level",
        limits={
            "reference": Limit(5, "{step}", "fewest steps to compare with"),
            "window": Limit(3, "{step}", "latest steps whose median is judged"),
            "jump": Limit(5, "1", "multiple of the earlier median that is a warning"),
            "floor": Limit(0.05, "{nat}", "mean difference below which nothing is said"),
            "warning": Limit(0.5, "{nat}", "mean difference that is a warning whatever it was before"),
            "critical": Limit(2.0, "{nat}", "mean difference that is critical"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.7, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "the operations of rl.sync in the step of the onset",
            "OTEL_RL_SYNC_CHECK, which compares the engine's weights with the trainer's",
            "precision and sampling parameters of the engine against the trainer's",
        ),
    ),
    "reward_collapse": Rule(
        title="Reward collapse",
        means="The reward of the training has fallen well below its best level, for tens of steps.",
        needs=(("reward",),),
        source="the reward is what the training is for; the best level is that of P6, over more steps",
        limits={
            "window": Limit(20, "{step}", "steps whose mean is a level"),
            "fall": Limit(0.5, "1", "fall below the best level, as a share of it or, where larger, of what was gained"),
            "gone": Limit(0.8, "1", "fall from which it is critical"),
            "noise": Limit(
                1.25, "1", "least fall, in multiples of the largest mean change from step to step within a window"
            ),
            "raise_after": Limit(10, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "the last checkpoint before the onset",
            "KL, entropy and learning rate before the onset",
            "the reward functions and what they call, by hand on a few completions",
            "whether the prompts changed at the onset",
        ),
    ),
    "loss_divergence": Rule(
        title="Loss divergence",
        means="The loss has left its late range manyfold, for several steps.",
        needs=(("loss",),),
        source="a loss that explodes while the gradient is clipped before it is logged",
        limits={
            "reference": Limit(15, "{step}", "fewest steps to compare with"),
            "window": Limit(5, "{step}", "latest steps whose median is judged"),
            "warning": Limit(3, "1", "distance from the usual loss, in multiples of that with its range"),
            "critical": Limit(30, "1", "the same"),
            "floor": Limit(0.5, "{loss}", "distance below which nothing is said"),
            "start_share": Limit(0.5, "1", "the same, as a share of the loss of the first steps"),
            "raise_after": Limit(5, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.7, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "learning rate and gradient norm before the onset",
            "the batches at the onset",
            "precision of the training",
            "the last checkpoint before the onset",
        ),
    ),
    "entropy_explosion": Rule(
        title="Entropy explosion",
        means="The entropy of the policy is manyfold of what it was. Its answers turn into noise.",
        needs=(
            (
                "entropy",
                "reward",
            ),
        ),
        source="entropy far above its first level, where answers are no longer sentences",
        limits={
            "baseline": Limit(5, "{step}", "first steps whose median is the level to compare with"),
            "warning": Limit(1.5, "{nat}", "entropy from which it is a warning"),
            "warning_growth": Limit(3, "1", "and multiple of the first steps' level"),
            "critical": Limit(4, "{nat}", "entropy from which it is critical"),
            "critical_growth": Limit(6, "1", "and multiple of the first steps' level"),
            "highest": Limit(13, "{nat}", "level of the first steps from which on it is no entropy of a token"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.8, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "completions after the onset, whether they are sentences",
            "the weight of the entropy bonus, and the upper clip",
            "learning rate and KL around the onset",
            "temperature of the sampling",
        ),
    ),
    "kl_estimate": Rule(
        title="KL estimate",
        means="The divergence from the reference is clearly negative or always the same, which a divergence never is.",
        needs=(("kl",),),
        source="no mean divergence is negative, and no two batches have the same estimate",
        limits={
            "negative": Limit(0.1, "{nat}", "distance below zero from which it is a warning"),
            "noise": Limit(3, "1", "least distance below zero, in multiples of the usual change from step to step"),
            "constant": Limit(20, "{step}", "equal values in a row that are a warning; zeros only after other values"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "log-probabilities of policy, reference and engine, for the same tokens",
            "masks of prompt and padding",
            "weights of the reference, and whether the policy is updated",
            "temperature with which log-probabilities are computed",
        ),
    ),
    "no_update": Rule(
        title="No update",
        means="Learning rate or gradient is exactly zero for long, or nothing changes. The weights stay as they are.",
        needs=(
            ("learning_rate",),
            ("gradient_norm",),
            ("loop_learning_rate",),
            ("loop_gradient_norm",),
            ("without_gradient",),
            ("unchanged",),
        ),
        source="a schedule that has ended, frozen parameters, a guard that skips updates, or a loss without a gradient",
        limits={
            "window": Limit(
                20,
                "{step}",
                "zeros in a row that are a warning; of guessed steps, of which some have values, the steps",
            ),
            "critical": Limit(60, "{step}", "zeros in a row that are critical"),
            "without": Limit(
                5, "{step}", "steps in a row that are critical in which no parameter has a gradient, or none changes"
            ),
            "most": Limit(
                0.5,
                "1",
                "share of parameters without a gradient so far, above which it is a warning, after `window` steps",
            ),
            "dead": Limit(
                0.99, "1", "share of groups without a difference that explains a gradient of zero (no_signal)"
            ),
            "raise_after": Limit(1, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(3, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "length of the schedule against the steps of the run",
            "which parameters are trained (requires_grad, adapters), and whether the optimizer has those of the model",
            "masks of the loss, and truncation",
        ),
    ),
    "preference": Rule(
        title="Preference",
        means="Preference training does not make the policy prefer the chosen answers, or no longer.",
        needs=(
            ("preference_accuracy",),
            ("preference_margin",),
        ),
        source="rewards/accuracies and rewards/margins of TRL's DPO, CPO and ORPO; chance is 0.5",
        limits={
            "window": Limit(
                20, "{step}", "steps whose mean is a level; twice as many for an accuracy that stays at chance"
            ),
            "settled": Limit(60, "{step}", "fewest steps"),
            "chance": Limit(0.5, "1", "accuracy from which down it is a warning"),
            "wrong": Limit(0.3, "1", "accuracy from which down it is critical"),
            "growth": Limit(
                0.25, "1", "growth of the margins that excuses such an accuracy, in multiples of their usual change"
            ),
            "fall": Limit(0.8, "1", "fall of the margins below their best level, as a share of it"),
            "noise": Limit(
                1.25, "1", "least fall, in multiples of the largest mean change from step to step within a window"
            ),
            "raise_after": Limit(5, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "whether chosen and rejected are swapped or alike in the data",
            "learning rate and beta",
            "log-probabilities of the chosen answers, whether they fall too",
        ),
    ),
    "unscored": Rule(
        title="Unscored samples",
        means="Many finished samples got no finite score, so they teach nothing or count as zero.",
        needs=(("unscored",),),
        source="a judge that fails or times out, or a reward function that returns NaN",
        limits={
            "window": Limit(5, "{step}", "latest steps whose median is judged"),
            "warning": Limit(0.1, "1", "share of samples without a score"),
            "critical": Limit(0.5, "1", "the same"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.8, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "errors and time limits of the reward functions and judges",
            "what a reward function returns for a few completions, by hand",
            "rollouts that end before they are scored",
        ),
    ),
    "failing_calls": Rule(
        title="Failing calls",
        means="A notable share of the calls of a tool, model or service fails.",
        needs=(("failed_calls",),),
        source="calls of the leading process, judged while it runs; the report judges those of all processes",
        limits={
            "window": Limit(
                4, "{step}", "latest steps whose mean is judged, each with five calls or as many steps as have them"
            ),
            "warning": Limit(0.25, "1", "share of the calls that fail"),
            "critical": Limit(0.5, "1", "the same"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.8, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "errors and time limits of the calls since the onset",
            "what the tool depends on, such as its server",
        ),
    ),
    "slow_calls": Rule(
        title="Slow calls",
        means="Calls of a tool, model or service take manyfold of what they did.",
        needs=(("call_seconds",),),
        source="calls of the leading process, judged while it runs; those of a model by the tokens that it made",
        limits={
            "window": Limit(5, "{step}", "latest steps with such calls whose median is judged"),
            "reference": Limit(10, "{step}", "fewest earlier steps to compare with"),
            "floor": Limit(0.05, "s", "least rise of the mean time"),
            "warning": Limit(3, "1", "multiple of the earlier median"),
            "critical": Limit(10, "1", "the same"),
            "raise_after": Limit(3, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(5, "{step}", "steps in a row before it falls"),
            "clear_share": Limit(0.8, "1", "share of a threshold below which the state falls"),
        },
        next_steps=(
            "load of the machine or server that answers",
            "number of calls at once, and their queue",
        ),
    ),
    "stale_engine": Rule(
        title="Stale engine",
        means="The engines answer with weights that fall behind those of the trainer.",
        needs=(("versions_behind",),),
        source="an engine that a weight sync no longer reaches is one version more behind with each update",
        limits={
            "window": Limit(5, "{step}", "latest steps whose median is judged, and first ones to compare with"),
            "warning": Limit(4, "{version}", "versions behind beyond those of the first steps"),
            "critical": Limit(16, "{version}", "the same"),
            "raise_after": Limit(2, "{step}", "steps in a row before the state rises"),
            "clear_after": Limit(3, "{step}", "steps in a row before it falls"),
        },
        next_steps=(
            "weight syncs since the onset, and the engines that they reached",
            "version that each engine reports",
        ),
    ),
}
"""Code -> rule."""
