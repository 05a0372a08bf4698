"""What is run: jobs that are driven into a failure of known place and step, and healthy ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from otel_rl.semconv.attributes import RlHealthCodeValues as Rule

#: The step from which on something is wrong.
STEP = 16
#: So far an onset may be from that.
TOLERANCE = 3


@dataclass(frozen=True)
class Expected:
    """The finding that has to be there.

    Attributes:
        code: of the finding.
        onset: its first step; 0 for the step at which ``halves`` does so.
        subject: value of the trainer, tool, reward function or model that it names.
        rank: the rank that it names.
        words: what the text says of the place besides.
    """

    code: str
    onset: int = STEP
    subject: str = ""
    rank: int | None = None
    words: str = ""
    #: Value of the trainer that falls slowly: its onset is the step from which on it is below half of its start.
    halves: str = ""

    @property
    def place(self) -> str:
        """In words."""
        parts = [self.subject, f"rank {self.rank}" if self.rank is not None else "", self.words]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Case:
    """One job; a healthy one has nothing ``expected``."""

    name: str
    program: str
    plan: dict[str, Any]
    expected: tuple[Expected, ...] = ()
    ranks: int = 1
    environ: dict[str, str] = field(default_factory=dict)
    quick: bool = False
    #: The job does not end by itself.
    hangs: bool = False
    #: Why it is not found as wanted.
    miss: str = ""


def trl(trainer: str, steps: int, *rewards: str, **plan: Any) -> dict[str, Any]:
    """The plan of a job of TRL."""
    return {"trainer": trainer, "steps": steps, "rewards": list(rewards), **plan}


def grpo(steps: int, *rewards: str, **plan: Any) -> dict[str, Any]:
    """The plan of a GRPO job; what is changed, from ``STEP`` on."""
    if "change" in plan:
        plan["change"] = {"step": STEP, **plan["change"]}
    return trl("GRPOTrainer", steps, *rewards, **plan)


def later(steps: int = 40, **plan: Any) -> dict[str, Any]:
    """The plan of another job whose ``change`` comes at ``STEP``."""
    return {"steps": steps, **plan, "change": {"step": STEP, **plan["change"]}}


def loop(learns: str, **change: Any) -> dict[str, Any]:
    """The plan of a loop of its own whose ``change`` comes when it has a level to fall from."""
    return {"learns": learns, "steps": 2 * LATE, **({"change": {"step": LATE, **change}} if change else {})}


TRL, DDP, AGENT, LOOP = "trl_program.py", "ddp_program.py", "agent_program.py", "loop_program.py"
#: The step of the change in :func:`loop`.
LATE = 61

SICK = [
    Case(
        "learning rate too high",
        TRL,
        grpo(36, "accuracy", arguments={"beta": 0.01}, change={"learning_rate": 0.03}),
        (Expected(Rule.LEARNING_RATE, subject="learning_rate"), Expected(Rule.P3_KL_EXPLOSION, subject="kl")),
        quick=True,
    ),
    Case(
        "entropy collapse: one answer is the best",
        TRL,
        grpo(60, "sevens", arguments={"learning_rate": 5e-3}),
        (Expected(Rule.P4_ENTROPY_COLLAPSE, onset=0, subject="entropy", halves="entropy"),),
    ),
    Case(
        "gamed reward: the judge's weight rises",
        TRL,
        grpo(
            50,
            "accuracy",
            "judge",
            "brevity",
            # Before, the policy must hardly move: chance alone may have it please the judge.
            arguments={"learning_rate": 3.3e-4, "adam_beta1": 0.5, "per_device_train_batch_size": 32},
            change={"reward_weights": [0.2, 3.0, 1.0], "learning_rate": 3e-3},
        ),
        (Expected(Rule.P5_REWARD_HACKING, subject="rewards/accuracy/mean"),),
    ),
    Case(
        "truncation: the limit is cut",
        TRL,
        grpo(36, "accuracy", change={"longest": 2}),
        (Expected(Rule.P9_TRUNCATION, subject="completions/clipped_ratio"),),
        quick=True,
    ),
    Case(
        "truncation: a model that never ends",
        TRL,
        grpo(24, "accuracy", model="random"),
        (Expected(Rule.P9_TRUNCATION, onset=1, subject="completions/clipped_ratio"),),
    ),
    Case(
        "dead groups: the reward is constant",
        TRL,
        grpo(36, "accuracy", change={"constant_reward": 0.0}),
        (Expected(Rule.NO_SIGNAL, subject="frac_reward_zero_std"),),
    ),
    Case(
        "loss of precision: a weight is NaN",
        TRL,
        {**trl("SFTTrainer", 30), "change": {"step": STEP, "broken_weight": True}},
        (Expected(Rule.NON_FINITE),),
    ),
    Case(
        "slow reward function on one rank",
        TRL,
        grpo(32, "accuracy", "brevity", change={"slow_reward": 0.3, "rank": 1}),
        (Expected("slower_reward", subject="accuracy", rank=1),),
        ranks=2,
        quick=True,
    ),
    Case(
        "slow tool",
        AGENT,
        later(first_chunk=0.03, change={"slow_tool": "search", "seconds": 0.2}),
        (Expected("slower_tool", subject="search"),),
        quick=True,
    ),
    Case(
        "failing tool",
        AGENT,
        later(first_chunk=0.03, change={"failing_tool": "run_code", "share": 0.4}),
        (Expected("failing_tool", subject="run_code", words="TimeoutError"),),
        quick=True,
    ),
    Case(
        "degrading model server with retries",
        AGENT,
        later(first_chunk=0.02, change={"first_chunk": 0.3, "refused": 0.5}),
        (Expected("slower_model", subject="tiny", words="were retried"),),
        quick=True,
    ),
    Case(
        "killed rank",
        DDP,
        later(fetched="inside", change={"kill": True, "rank": 1}),
        (Expected("ended", rank=1),),
        ranks=2,
        quick=True,
    ),
    Case(
        "hanging rank",
        DDP,
        later(fetched="inside", change={"hang": True, "rank": 1}),
        (Expected("ended", rank=1, words="reward"),),
        ranks=2,
        environ={"OTEL_RL_HANG_SECONDS": "5"},
        hangs=True,
    ),
    Case(
        "data stall of one rank, in the step",
        DDP,
        later(fetched="inside", change={"stall": 0.2, "rank": 0}),
        (Expected("slower_phase", rank=0, words="outside of all phases"),),
        ranks=2,
        quick=True,
    ),
    Case(
        "data stall of one rank, between steps",
        DDP,
        later(fetched="between", change={"stall": 0.2, "rank": 0}),
        (Expected("slower_phase", rank=0),),
        ranks=2,
    ),
    Case(
        "data stall of one rank, in a phase",
        DDP,
        later(fetched="phase", change={"stall": 0.2, "rank": 0}),
        (Expected("slower_phase", rank=0, words="data_wait"),),
        ranks=2,
    ),
    Case(
        "collapsing reward: other tokens are right",
        LOOP,
        loop("rewards", other_reward=True),
        (Expected(Rule.REWARD_COLLAPSE, LATE, subject="reward"),),
        quick=True,
    ),
    Case(
        "diverging loss: targets in another unit",
        LOOP,
        loop("targets", unit=50),
        (Expected(Rule.LOSS_DIVERGENCE, LATE, subject="loss"),),
        quick=True,
    ),
    Case(
        "exploding entropy: a head that is nearly flat",
        LOOP,
        loop("rewards", flat_head=True),
        (Expected(Rule.ENTROPY_EXPLOSION, LATE, subject="entropy"),),
    ),
    Case(
        "negative KL: samples of another policy",
        LOOP,
        loop("rewards", foreign_samples=True),
        (Expected(Rule.KL_ESTIMATE, LATE, subject="kl"),),
    ),
    Case(
        "constant KL: that of an old batch",
        LOOP,
        loop("rewards", itself=True),
        (Expected(Rule.KL_ESTIMATE, LATE, subject="kl", words="log calls in a row"),),
    ),
    Case(
        "no update: the schedule is over",
        LOOP,
        loop("rewards", rate=0.0),
        (Expected(Rule.NO_UPDATE, LATE, subject="learning_rate"),),
    ),
    Case(
        "preferences at chance: pairs that are alike",
        LOOP,
        loop("pairs", alike=True),
        (Expected(Rule.PREFERENCE, LATE, subject="rewards/accuracies"),),
        quick=True,
    ),
    Case(
        "unscored samples: a judge that fails",
        LOOP,
        loop("rewards", failing_judge=0.4),
        (Expected(Rule.UNSCORED, LATE, subject="unscored_ratio"),),
        quick=True,
    ),
]

HEALTHY = [
    Case("GRPO, one reward", TRL, grpo(40, "accuracy", arguments={"learning_rate": 5e-4}), quick=True),
    Case(
        "GRPO, two rewards, KL penalty, evaluation",
        TRL,
        grpo(
            40,
            "accuracy",
            "brevity",
            evaluate=True,
            arguments={
                "beta": 0.04,
                "eval_strategy": "steps",
                "eval_steps": 8,
                "per_device_eval_batch_size": 16,
            },
        ),
    ),
    Case(
        "GRPO on two ranks, checkpoint",
        TRL,
        grpo(30, "accuracy", "brevity", arguments={"save_strategy": "steps", "save_steps": 15}),
        ranks=2,
    ),
    Case("GRPO, six steps", TRL, grpo(6, "accuracy"), quick=True),
    Case(
        "GRPO, large batch, warm-up and cosine",
        TRL,
        grpo(
            60,
            "accuracy",
            "brevity",
            arguments={
                "per_device_train_batch_size": 48,
                "learning_rate": 1e-3,
                "lr_scheduler_type": "cosine",
                "warmup_steps": 6,
            },
        ),
    ),
    Case("RLOO", TRL, trl("RLOOTrainer", 40, "accuracy", arguments={"learning_rate": 3e-4})),
    Case("SFT", TRL, trl("SFTTrainer", 60)),
    Case("DPO", TRL, trl("DPOTrainer", 40)),
    Case("KTO", TRL, trl("KTOTrainer", 40)),
    Case("loop of its own: rewards", LOOP, loop("rewards"), quick=True),
    Case("loop of its own: targets", LOOP, loop("targets")),
    Case("loop of its own: pairs", LOOP, loop("pairs")),
    Case("DDP loop, checkpoint", DDP, {"steps": 40, "fetched": "phase", "checkpoint": 20}, ranks=2, quick=True),
    Case("agent with three tools", AGENT, {"steps": 40, "first_chunk": 0.03}, quick=True),
    Case(
        "agent whose tool fails once in sixty calls",
        AGENT,
        {
            "steps": 40,
            "first_chunk": 0.03,
            "change": {"step": 1, "failing_tool": "run_code", "share": 1 / 60},
        },
    ),
]

ALL = [*SICK, *HEALTHY]
