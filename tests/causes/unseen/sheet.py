"""Cases that are judged blind; do not read this before you have written down what the pages say.

Names say nothing, on purpose: sick and healthy runs are mixed.
"""

from __future__ import annotations

from causes.cases import Case, Truth

CASES: tuple[Case, ...] = (
    Case(
        "c01",
        "c01.py",
        arguments=("--schedule", "warmup", "--save-every", "20", "--eval-every", "15", "--seed", "3"),
    ),
    Case(
        "c02",
        "c02.py",
        arguments=("--seed", "18", "--steps", "12"),
    ),
    Case(
        "c03",
        "c03.py",
        arguments=("--seed", "16"),
    ),
    Case(
        "c04",
        "c04.py",
        arguments=("--seed", "12", "--schedule", "warmup", "--steps", "15"),
    ),
    Case(
        "c05",
        "c05.py",
        arguments=("--seed", "34"),
        truth=Truth(
            cause="Training takes fewer samples than are made: the queue before it grows",
            cause_words=r"grow|growth|rise|rises|rose|increas|climb|from .* to|backlog",
            place_words=r"queue",
            onset=20,
            effect="5 samples more with every step; near 0 before",
        ),
    ),
    Case(
        "c06",
        "c06.py",
        arguments=("--seed", "14"),
        beside=1,
    ),
    Case(
        "c07",
        "c07.py",
        ranks=2,
        arguments=("--save-every", "4", "--steps", "52"),
        truth=Truth(
            cause=("Checkpoints contain a list that grows with every step: each takes longer than the one before"),
            cause_words=(
                r"grow|growth|slow|takes|longer|took|rise|rose|increas|larger|size|from .* to|doubl|"
                r"MiB|MB"
            ),
            place_words=r"checkpoint|sav(e|ing)",
            onset=16,
            effect="from 1 to 20 MB, from 0.1 to 1.2 s",
        ),
    ),
    Case(
        "c08",
        "c08.py",
        arguments=("--seed", "22"),
        truth=Truth(
            cause="The reference model became the policy itself: the KL divergence is exactly 0",
            cause_words=r"exactly|constant|zero|\b0\b|stuck|frozen|never moves|the same",
            place_words=r"\bkl\b",
            onset=27,
            effect="kl exactly 0 instead of 0.05 and more",
        ),
    ),
    Case(
        "c09",
        "c09.py",
        arguments=("MODEL", "--steps", "50"),
        truth=Truth(
            cause=(
                "Answers are no longer sampled: all answers to a question are the same, so rewards in a group are equal"
            ),
            cause_words=(
                r"no (learning )?signal|zero|spread|constant|exactly|equal|same|dead|teach|identical|"
                r"\b0\b"
            ),
            place_words=r"group|reward|signal|advantage|gradient|grad_norm",
            onset=25,
            effect="reward_std 0, frac_reward_zero_std 1",
        ),
    ),
    Case(
        "c10",
        "c10.py",
        arguments=("--seed", "38"),
        truth=Truth(
            cause="find_order of the second server says in its text that its limit is exceeded",
            cause_words=r"error|fail|repeat|same arguments|again|in a row|limit",
            place_words=r"find_order",
            onset=17,
            effect="two of three calls on one of two servers; the agent asks again",
        ),
    ),
    Case(
        "c11",
        "c11.py",
        arguments=("MODEL", "--save-every", "10", "--schedule", "cosine"),
        attempts=(("--stop-after", "20"), ("--resume",)),
        statuses=(0, 0),
    ),
    Case(
        "c12",
        "c12.py",
        arguments=("--seed", "26"),
        truth=Truth(
            cause="The tool lookup is slow in bursts: steps 19-22, 33-36, 45-48",
            cause_words=r"slow|takes|longer|took|latency|\d ?m?s\b|burst",
            place_words=r"lookup",
            onset=19,
            effect="0.13 instead of 0.006 s in 12 of 55 steps",
        ),
    ),
    Case(
        "c13",
        "c13.py",
        arguments=("--seed", "11", "--slow-start", "3"),
    ),
    Case(
        "c14",
        "c14.py",
        arguments=("--seed", "17", "--largest", "1000"),
    ),
    Case(
        "c15",
        "c15.py",
        arguments=("--seed", "32", "--steps", "50"),
        truth=Truth(
            cause=("Examples are added to the system prompt and never removed: prompts grow with every step"),
            cause_words=r"grow|growth|rise|rises|rose|longer|increas|climb|from .* to|doubl",
            place_words=r"input tokens|prompt|context|tokens",
            onset=15,
            effect="prompts of 50 tokens at step 15, of more than 2,000 at the end",
        ),
    ),
    Case(
        "c16",
        "c16.py",
        arguments=("MODEL", "--lr", "5e-4", "--steps", "60", "--batch", "16"),
    ),
    Case(
        "c17",
        "c17.py",
        truth=Truth(
            cause=("The arm's joint turns the wrong way: it no longer reaches its goal; the other robot does"),
            cause_words=r"fell|fall|drop|from .* to|jump|lower|rose|longer|success|since",
            place_words=r"Arm",
            onset=19,
            effect="return of Arm-v0 from about 0 to -10 and below, success from 0.9 to less than 0.3",
        ),
    ),
    Case(
        "c18",
        "c18.py",
        arguments=("--save-every", "8", "--seed", "39"),
        attempts=((), ("--resume",)),
        statuses=(-9, 0),
        truth=Truth(
            cause=(
                "The second attempt, after a kill, began at step 33 with fresh weights: the reward is that of the begin"
            ),
            cause_words=(
                r"fresh|lost|without|not (restored|loaded|resumed)|restart|began again|again|reset|"
                r"fell|fall|drop|from .* to"
            ),
            place_words=r"weights|reward|attempt|policy|checkpoint|resum",
            onset=33,
            effect="reward from 1.6 to 1.0",
        ),
    ),
    Case(
        "c19",
        "c19.py",
        arguments=("--save-every", "10", "--schedule", "linear"),
        ranks=2,
        beside=1,
    ),
    Case(
        "c20",
        "c20.py",
        arguments=("MODEL", "--warmup", "12", "--schedule", "linear"),
    ),
    Case(
        "c21",
        "c21.py",
        arguments=("--seed", "20", "--ramp", "45", "--at-once", "4"),
    ),
    Case(
        "c22",
        "c22.py",
        arguments=("--eval-every", "25", "--steps", "75"),
        truth=Truth(
            cause="In every fifth step figures are uploaded for 0.7 s after the batch",
            cause_words=(
                r"every (fifth|5th|5 )|(fifth|5th) step|period|of 5 steps|modulo|every 5|slow|takes|"
                r"longer|took|cost"
            ),
            place_words=r"step|uncovered|no phase|outside|callback|hook",
            onset=20,
            effect="0.7 s in every fifth step of 0.13 s",
        ),
    ),
    Case(
        "c23",
        "c23.py",
        truth=Truth(
            cause=(
                "The first of three workers of the loader is slow: 0.9 s for a batch; every third batch is waited for"
            ),
            cause_words=r"slow|takes|longer|took|wait|every (third|3)|\d ?m?s\b",
            place_words=r"data|loader|worker|batch",
            onset=25,
            effect="about 0.7 s of waiting in every third step of 0.1 s",
        ),
    ),
    Case(
        "c24",
        "c24.py",
        arguments=("--seed", "15", "--curriculum", "24", "--grow"),
    ),
    Case(
        "c25",
        "c25.py",
        arguments=("MODEL", "--eval-every", "4", "--steps", "70", "--lr", "2e-3"),
        truth=Truth(
            cause=(
                "The last shard is read again and again: training loss falls to nothing while evaluation loss rises"
            ),
            cause_words=r"gap|diverg|overfit|rose|rises|fell|fall|drop|apart|from .* to",
            place_words=r"loss|accuracy",
            onset=21,
            effect="loss from 2.4 to 1.2, eval_loss from 2.3 to 3.2",
        ),
    ),
    Case(
        "c26",
        "c26.py",
        arguments=("--anneal", "--save-every", "10", "--eval-every", "8", "--iterations", "36", "--seed", "2"),
    ),
    Case(
        "c27",
        "c27.py",
        ranks=2,
        arguments=("--steps", "52"),
        truth=Truth(
            cause="The guard of the optimizer refuses every update: nothing is learned any more",
            cause_words=(
                r"no (update|step|progress)|(not|n't|un|never|nothing|stopp?ed) ?(is |was |"
                r"has )?(updat|mov|chang|step)|skipp|refus|optimizer|flat|stopp"
            ),
            place_words=r"optimizer|update|parameter|weights|loss",
            onset=26,
            effect="27 of 52 steps change nothing",
        ),
    ),
    Case(
        "c28",
        "c28.py",
        arguments=(
            "MODEL",
            "--beta",
            "0.0",
            "--temperature",
            "1.2",
            "--accumulate",
            "2",
            "--steps",
            "30",
            "--longest",
            "32",
        ),
    ),
    Case(
        "c29",
        "c29.py",
        arguments=("--seed", "19"),
        beside=2,
        beside_after=14.0,
    ),
    Case(
        "c30",
        "c30.py",
        arguments=("--seed", "28"),
        truth=Truth(
            cause=("The second server cuts answers off after 14 tokens: they end with length, without a number"),
            cause_words=r"cut|truncat|length|limit|short|fell|fall|drop|from .* to",
            place_words=r"{second}",
            onset=24,
            effect="more than 8 of 10 final answers of one of two servers",
        ),
    ),
    Case(
        "c31",
        "c31.py",
        arguments=("MODEL", "--eval-every", "5", "--workers", "2"),
    ),
    Case(
        "c32",
        "c32.py",
        arguments=("--seed", "13", "--samples", "6", "--prompts", "3", "--eval-every", "10"),
    ),
    Case(
        "c33",
        "c33.py",
        arguments=("--seed", "36", "--turns", "10", "--steps", "45"),
        truth=Truth(
            cause=("The model asks bash for the same command until its turns are over, in a third of the rollouts"),
            cause_words=r"same arguments|repeat|in a row|again|loop|turns|calls|times",
            place_words=r"bash",
            onset=22,
            effect="10 calls of bash instead of 1 or 2, and no answer, in a third of the rollouts",
        ),
    ),
    Case(
        "c34",
        "c34.py",
        arguments=("--seed", "33"),
        truth=Truth(
            cause="The archive of answers is never written: memory grows by 7 MB a step",
            cause_words=r"grow|growth|rise|rises|rose|increas|climb|leak",
            place_words=r"memory|rss|resident",
            onset=18,
            effect="250 MB in 37 steps",
        ),
    ),
    Case(
        "c35",
        "c35.py",
        arguments=("--eval-every", "2", "--iterations", "40"),
        truth=Truth(
            cause="Each evaluation has 10 instead of 3 episodes",
            cause_words=r"slow|takes|longer|took|grow|rose|share|%|from .* to|episodes|cost",
            place_words=r"evaluat|eval",
            onset=20,
            effect="about a third of the time",
            counted_by=(1, 16, 256),
        ),
    ),
    Case(
        "c36",
        "c36.py",
        arguments=("--uneven",),
        ranks=2,
    ),
    Case(
        "c37",
        "c37.py",
        ranks=2,
        arguments=("--batch", "24"),
        truth=Truth(
            cause="Rank 1 gets batches of a quarter of the size",
            cause_words=r"fell|fall|drop|from .* to|smaller|fewer|quarter|differ|less|since",
            place_words=r"batch|sample|token|rank 1",
            onset=22,
            effect="6 instead of 24 rows on one of two ranks",
        ),
    ),
    Case(
        "c38",
        "c38.py",
        arguments=("--seed", "21"),
        truth=Truth(
            cause="The filter asks for three times the length: far fewer answers are trained on",
            cause_words=r"fell|fall|drop|from .* to|jump|lower|fewer|since",
            place_words=r"accept|filter",
            onset=33,
            effect="share of accepted answers from 0.95 to less than 0.6",
        ),
    ),
    Case(
        "c39",
        "c39.py",
        arguments=("--tasks", "4", "--steps", "45", "--seed", "5"),
    ),
    Case(
        "c40",
        "c40.py",
        ranks=2,
        arguments=("--steps", "72"),
        truth=Truth(
            cause="Rank 0 writes a summary for 0.6 s in every sixth step; rank 1 waits for it",
            cause_words=r"slow|takes|longer|took|late|behind|waits? for|every (sixth|6)|cost",
            place_words=r"rank 0",
            onset=18,
            effect="0.6 s in every sixth step of 0.1 s",
        ),
    ),
)
