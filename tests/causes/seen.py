"""Faults that the detectors may be developed on: the truth of each."""

from __future__ import annotations

from causes.cases import Case, Truth

GROWS = r"grow|growth|rise|rises|longer|more with|increas|climb|from .* to|doubl"
CONSTANT = (
    r"constant|exactly|identical|the same|never (move|chang)|no spread|without spread|stuck|frozen|freez"
    r"|does not (move|change)"
)
SLOWER = r"slow|takes|longer|took|wait|latency|seconds|cost|\d ?m?s\b"
EVERY_THIRD = r"every (third|3rd|3 )|(third|3rd) step|period|of 3 steps|modulo|every 3"
FRESH = (
    r"fresh|lost|without|not (restored|loaded|resumed)|restart|began again|begins? again|reset"
    r"|from the (start|beginning)|warm-?up"
)


def _resumed(after: int) -> tuple[tuple[str, ...], ...]:
    return ("--stop-after", str(after)), ("--resume",)


LOOP = (
    Case(
        "loop-index-rebuild",
        "loop.py",
        bug="index_rebuild",
        quick=True,
        truth=Truth(
            "The tool search rebuilds its index in every third step",
            SLOWER,
            r"search",
            22,
            "0.5 s more in every third step of 0.4 s",
        ),
    ),
    Case(
        "loop-judge-cache",
        "loop.py",
        bug="judge_cache",
        quick=True,
        truth=Truth(
            "The reward judge is served from a cache whose key lost the answer: exactly 0.531",
            CONSTANT,
            r"judge",
            24,
            "spread 0 in one of three rewards",
        ),
    ),
    Case(
        "loop-history-graph",
        "loop.py",
        bug="history_graph",
        truth=Truth(
            "The history of losses keeps graphs and tensors: memory grows by 8 MB a step",
            GROWS,
            r"memory|rss|resident",
            10,
            "400 MB in 50 steps",
        ),
    ),
    Case(
        "loop-clip-unit",
        "loop.py",
        bug="clip_unit",
        truth=Truth(
            "The gradient is clipped at 0.2 in every step: the norm is exactly 0.2",
            CONSTANT + r"|clip",
            r"grad_?norm|gradient norm|clip",
            30,
            "norm without any spread; 0.2 to 0.5 before",
        ),
    ),
    Case(
        "loop-search-pages",
        "loop.py",
        bug="search_pages",
        truth=Truth(
            "The results of search double every three steps, and with them the prompts",
            GROWS,
            r"search|context_length|prompt|input tokens|result",
            23,
            "100 times the characters at the end",
        ),
    ),
    Case(
        "loop-sandbox-quota",
        "loop.py",
        bug="sandbox_quota",
        truth=Truth(
            "The tool python says in its text that it failed, and is asked again with the same arguments",
            r"error|fail|repeat|same arguments|again|twice|times|more calls|calls",
            r"python",
            26,
            "6 of 10 calls; up to three calls instead of one",
        ),
    ),
    Case(
        "loop-eval-grows",
        "loop.py",
        ("--eval-every", "2"),
        bug="eval_grows",
        truth=Truth(
            "The evaluation asks six times as many questions",
            SLOWER + "|" + GROWS + r"|share|%",
            r"evaluat",
            28,
            "0.25 s more in every second step of 0.35 s",
        ),
    ),
    Case(
        "loop-checkpoint-replay",
        "loop.py",
        ("--save-every", "3"),
        bug="checkpoint_replay",
        truth=Truth(
            "Checkpoints contain the replay buffer, which doubles every six steps",
            GROWS + r"|size|MiB|MB|larger|big",
            r"checkpoint",
            24,
            "0.5 MB before, 64 MB at the end",
        ),
    ),
    Case(
        "loop-optimizer-of-old",
        "loop.py",
        bug="optimizer_of_old",
        truth=Truth(
            "The parameters were made anew: the optimizer has the old ones, which get no gradient",
            r"no gradient|without (a )?gradient|moved? nothing|nothing (is|was) (updated|moved|learned)"
            r"|(not|n't|un|never) ?(updat|mov|chang)|optimizer",
            r"optimizer|parameter|gradient|policy|weights",
            25,
            "nothing is learned any more",
        ),
    ),
    Case(
        "loop-resume-fresh",
        "loop.py",
        ("--schedule", "warmup", "--save-every", "5"),
        bug="resume_fresh",
        attempts=_resumed(30),
        statuses=(0, 0),
        truth=Truth(
            "The second attempt began with a fresh optimizer and schedule",
            FRESH,
            r"optimizer|schedule|learning.rate|attempt",
            31,
            "learning rate 1/12 again, moments of Adam lost",
        ),
    ),
)

ROLLOUTS = (
    Case(
        "rollouts-second-slow",
        "rollouts.py",
        bug="second_slow",
        quick=True,
        truth=Truth(
            "The second model server takes three times as long",
            SLOWER,
            r"{second}",
            20,
            "0.06 s more for a call of half of the calls",
        ),
    ),
    Case(
        "rollouts-compaction",
        "rollouts.py",
        bug="compaction",
        truth=Truth(
            "The first model server is slow in bursts: steps 16-20, 31-35, 46-50",
            SLOWER,
            r"{first}",
            16,
            "3.5 times the latency of half of the calls in 15 of 55 steps",
        ),
    ),
    Case(
        "rollouts-cut-arguments",
        "rollouts.py",
        bug="cut_arguments",
        quick=True,
        truth=Truth(
            "Half of the calls of bash have arguments that are no JSON; the rollouts die",
            r"JSON|arguments",
            r"bash|JSONDecodeError",
            18,
            "a third of the rollouts get 0",
        ),
    ),
    Case(
        "rollouts-restarts",
        "rollouts.py",
        bug="restarts",
        truth=Truth(
            "The second model server restarts after every 20 calls",
            r"connect|disconnect|refus|reset|retr|restart|unavailable|fail|closed",
            r"{second}",
            15,
            "0.4 s away each time; the client tries again",
        ),
    ),
    Case(
        "rollouts-permit-leak",
        "rollouts.py",
        bug="permit_leak",
        truth=Truth(
            "A permit of the semaphore is lost every fourth step: rollouts wait before their first call",
            r"wait|queue|concurren|at once|before (its|the|their) first|parallel|in flight",
            r"rollout|first (model )?call|sample|concurren|in flight",
            12,
            "8 at once before, 2 at the end; calls are as fast as before",
        ),
    ),
    Case(
        "rollouts-store-key",
        "rollouts.py",
        bug="store_key",
        truth=Truth(
            "Half of the trajectories are lost: the task that stores them dies of a KeyError nobody awaits",
            r"KeyError|exception|task|fell|falls|drop|half|fewer|from .* to|lost",
            r"store|batch_size|KeyError",
            21,
            "the trainer gets 8 instead of 16 trajectories",
        ),
    ),
    Case(
        "rollouts-sticky-route",
        "rollouts.py",
        bug="sticky_route",
        truth=Truth(
            "All requests go to the first server; the second one is idle",
            r"no (more )?(call|request)|disappear|stopp?ed|idle|last (asked|call|seen)|all (calls|requests)|gets none|"
            r"no longer|"
            r"doubl|twice|from .* to",
            r"{second}|{first}",
            26,
            "half of the capacity unused",
        ),
    ),
)

TRL = (
    Case(
        "grpo-judge-saturates",
        "grpo.py",
        ("MODEL",),
        bug="judge_saturates",
        quick=True,
        truth=Truth(
            "The reward judge is exactly 1 for every answer",
            CONSTANT,
            r"judge",
            20,
            "spread 0 in one of three rewards",
        ),
    ),
    Case(
        "grpo-shard-ends",
        "grpo.py",
        ("MODEL",),
        bug="shard_ends",
        truth=Truth(
            "Data arrive 0.8 s late in every third step",
            SLOWER + "|" + EVERY_THIRD,
            r"data|loader|batch",
            15,
            "0.8 s in every third step of 0.1 s",
        ),
    ),
    Case(
        "grpo-longest-answers",
        "grpo.py",
        ("MODEL",),
        bug="longest_answers",
        truth=Truth(
            "Answers have at least 20 tokens: their length jumps",
            GROWS + r"|jump|length|long|cut|clipped|limit",
            r"length|completion|answer|token",
            22,
            "21 instead of 7 tokens on average",
        ),
    ),
    Case(
        "grpo-kept-outputs",
        "grpo.py",
        ("MODEL", "--steps", "60"),
        bug="kept_outputs",
        truth=Truth("Every step keeps 6 MB: memory grows", GROWS, r"memory|rss|resident", 8, "300 MB in 52 steps"),
    ),
    Case(
        "rloo-same-in-group",
        "rloo.py",
        ("MODEL",),
        bug="same_in_group",
        truth=Truth(
            "All answers to a question get the same score: no advantage",
            CONSTANT + r"|no (learning )?signal|zero|spread|dead|teach",
            r"group|verify|reward|signal|advantage",
            22,
            "reward_std 0 within groups",
        ),
    ),
    Case(
        "rloo-length-slow",
        "rloo.py",
        ("MODEL",),
        bug="length_slow",
        truth=Truth(
            "The reward function length takes 12 ms more with every step",
            SLOWER + "|" + GROWS,
            r"length",
            18,
            "0.3 s at the end, in steps of 0.1 s",
        ),
    ),
    Case(
        "dpo-swapped",
        "dpo.py",
        ("MODEL",),
        bug="swapped",
        truth=Truth(
            "Chosen and rejected answers are swapped: accuracies and margins fall",
            r"fell|fall|drop|from .* to|negative|revers|sign|jump|since",
            r"accurac|margin|chosen|rejected",
            24,
            "rewards/accuracies from 1 to 0",
        ),
    ),
    Case(
        "dpo-slow-storage",
        "dpo.py",
        ("MODEL", "--save-every", "5"),
        bug="slow_storage",
        truth=Truth(
            "A checkpoint takes 1.6 s more, in every fifth step",
            SLOWER + "|" + GROWS,
            r"checkpoint|sav(e|ing)",
            25,
            "1.6 s in every fifth step of 0.1 s",
        ),
    ),
    Case(
        "dpo-eval-twice",
        "dpo.py",
        ("MODEL", "--eval-every", "4"),
        bug="eval_twice",
        truth=Truth(
            "Each evaluation is made five times",
            SLOWER + "|" + GROWS + r"|share|%|more often|times",
            r"evaluat",
            20,
            "1.2 s in every fourth step of 0.1 s",
        ),
    ),
    Case(
        "sft-worker-slow",
        "sft.py",
        ("MODEL", "--workers", "2", "--steps", "60"),
        bug="worker_slow",
        truth=Truth(
            "One of two workers of the loader is slow: data arrive 0.7 s late in every second step",
            SLOWER,
            r"data|loader|worker|batch",
            22,
            "0.7 s in every second step of 0.1 s",
        ),
    ),
    Case(
        "sft-frozen-body",
        "sft.py",
        ("MODEL",),
        bug="frozen_body",
        truth=Truth(
            "Only the norms are trained: most parameters get no gradient",
            r"no gradient|without (a )?gradient|frozen|not (trained|updated)|fell|fall|drop|from .* to",
            r"parameter|gradient|grad_?norm",
            20,
            "5 of 24 tensors are trained",
        ),
    ),
    Case(
        "sft-resume-fresh",
        "sft.py",
        ("MODEL", "--save-every", "10", "--warmup", "10", "--schedule", "linear"),
        bug="resume_fresh",
        attempts=_resumed(20),
        statuses=(0, 0),
        truth=Truth(
            "The second attempt began with a fresh optimizer and schedule",
            FRESH,
            r"optimizer|schedule|learning.rate|attempt",
            21,
            "warm-up again, moments of Adam lost",
        ),
    ),
)

FRAMEWORKS = (
    Case(
        "lightning-short-schedule",
        "lightning_fit.py",
        ("--schedule", "linear", "--clip", "1.0"),
        bug="short_schedule",
        truth=Truth(
            "The schedule of the learning rate is over after half of the steps: it is exactly 0",
            r"exactly 0|is 0|zero|0\.0|\b0\b",
            r"learning.rate|\blr\b",
            31,
            "30 of 60 steps change nothing",
        ),
    ),
    Case(
        "lightning-half-labels",
        "lightning_fit.py",
        bug="half_labels",
        truth=Truth(
            "Half of the training labels are turned round: training accuracy falls, validation does not",
            r"fell|fall|drop|from .* to|gap|diverg|since|below|lower|rose|jump",
            r"accuracy|train_loss|training loss",
            26,
            "train_accuracy from 0.9 to 0.5",
        ),
    ),
    Case(
        "lightning-validation-store",
        "lightning_fit.py",
        ("--eval-every", "5"),
        bug="validation_store",
        truth=Truth(
            "Each validation waits 1.2 s for its data",
            SLOWER + "|" + GROWS + r"|share|%",
            r"evaluat|validat",
            30,
            "1.2 s in every fifth step of 0.12 s",
        ),
    ),
    Case(
        "ddp-bursts",
        "ddp.py",
        bug="bursts",
        ranks=2,
        quick=True,
        truth=Truth(
            "Rank 1 is slow in bursts: steps 16-20, 31-35, 46-50",
            SLOWER + r"|late|behind|waits? for",
            r"rank 1",
            16,
            "0.18 s more in 15 of 60 steps of 0.1 s",
        ),
    ),
    Case(
        "ddp-cold-cache",
        "ddp.py",
        bug="cold_cache",
        ranks=2,
        truth=Truth(
            "The data of rank 1 take 0.6 s in every fourth step",
            SLOWER + r"|late|behind|waits? for",
            r"rank 1",
            14,
            "0.6 s in every fourth step of 0.1 s",
        ),
    ),
    Case(
        "ddp-dedup-table",
        "ddp.py",
        bug="dedup_table",
        ranks=2,
        truth=Truth(
            "A table of rank 1 grows by 6 MB a step",
            GROWS,
            r"rank 1[\s\S]*(memory|rss)|(memory|rss)[\s\S]*rank 1",
            10,
            "300 MB in 50 steps",
        ),
    ),
    Case(
        "ddp-rate-zero",
        "ddp.py",
        ("--schedule", "linear"),
        bug="rate_zero",
        ranks=2,
        truth=Truth(
            "The learning rate is exactly 0",
            r"exactly 0|is 0|zero|0\.0|\b0\b",
            r"learning.rate|\blr\b",
            25,
            "36 of 60 steps change nothing",
        ),
    ),
    Case(
        "fsdp-sandbox-dead",
        "fsdp.py",
        bug="sandbox_dead",
        ranks=2,
        truth=Truth(
            "The verifier of rank 1 gives 0 for everything",
            CONSTANT + r"|\b0\b|zero|half|fell|fall|drop",
            r"reward|verify|rank 1",
            21,
            "rank 1 learns nothing; half of the rewards are 0",
        ),
    ),
    Case(
        "fsdp-simulator-tail",
        "fsdp.py",
        bug="simulator_tail",
        ranks=2,
        truth=Truth(
            "The simulator of rank 0 hangs for 0.35 s in every second step or so",
            SLOWER + r"|late|behind|waits? for",
            r"rank 0",
            18,
            "0.35 s in half of the steps of 0.15 s",
        ),
    ),
    Case(
        "fsdp-slow-disk",
        "fsdp.py",
        ("--save-every", "4"),
        bug="slow_disk",
        ranks=2,
        truth=Truth(
            "Rank 1 takes 0.9 s more for its part of each checkpoint",
            SLOWER + r"|late|behind|waits? for|" + GROWS,
            r"checkpoint|sav(e|ing)",
            20,
            "0.9 s in every fourth step of 0.15 s",
        ),
    ),
    Case(
        "agent-order-index",
        "agent.py",
        bug="order_index",
        truth=Truth(
            "find_order fails in half of its calls on the second server, and never on the first",
            r"fail|error",
            r"find_order[\s\S]*{second}|{second}[\s\S]*find_order",
            14,
            "50 % on one of two servers",
        ),
    ),
    Case(
        "agent-order-history",
        "agent.py",
        bug="order_history",
        truth=Truth(
            "The results of find_order grow from 60 to 20,000 characters, and with them the prompts",
            GROWS,
            r"find_order|input tokens|prompt|result",
            13,
            "300 times",
        ),
    ),
    Case(
        "agent-stock-text-errors",
        "agent.py",
        bug="stock_text_errors",
        truth=Truth(
            "stock says in its text that it failed, and is asked again with the same arguments",
            r"error|fail|repeat|same arguments|again|in a row",
            r"stock",
            16,
            "all calls; three or four in a task instead of one",
        ),
    ),
    Case(
        "agent-never-satisfied",
        "agent.py",
        bug="never_satisfied",
        quick=True,
        truth=Truth(
            "The agent asks find_order with the same arguments until the recursion limit",
            r"same arguments|repeat|in a row|again|recursion|loop",
            r"find_order",
            15,
            "12 calls a task in half of the tasks",
        ),
    ),
    Case(
        "sb3-reset-mesh",
        "sb3.py",
        bug="reset_mesh",
        truth=Truth(
            "Resetting one of four environments takes 0.12 s",
            SLOWER,
            r"environment|reset|sampl|rollout|fps",
            14,
            "0.2 s an iteration of 0.15 s",
            counted_by=(1, 16, 256),
        ),
    ),
    Case(
        "sb3-reward-sensor",
        "sb3.py",
        bug="reward_sensor",
        truth=Truth(
            "The environments give a reward of exactly 0 in each step",
            CONSTANT + r"|fell|fall|drop|from .* to",
            r"reward|return",
            16,
            "returns of 0; they were as long as episodes",
            counted_by=(1, 16, 256),
        ),
    ),
    Case(
        "sb3-slow-transfer",
        "sb3.py",
        bug="slow_transfer",
        truth=Truth(
            "Before each rollout there is a wait that grows by 20 ms an iteration",
            SLOWER + "|" + GROWS,
            r"step|iteration|uncovered|no phase|before|rollout|fps|between",
            13,
            "0.36 s at the end, in iterations of 0.15 s",
            counted_by=(1, 16, 256),
        ),
    ),
)

CASES: tuple[Case, ...] = (*LOOP, *ROLLOUTS, *TRL, *FRAMEWORKS)
