"""Second set of cases that are judged blind; do not read this before you have written down what the pages say.

Names say nothing, on purpose: sick and healthy runs are mixed. The truths were written before any program was run.
"""

from __future__ import annotations

from causes.cases import Case, Truth

CASES: tuple[Case, ...] = (
    Case("d01", "d01.py"),
    Case(
        "d02",
        "d02.py",
        truth=Truth(
            cause=(
                "The pairs from the forum, half of each batch from then on, have chosen and rejected exchanged "
                "(a reply counted from 1 is looked up from 0): the model is taught the opposite in them"
            ),
            cause_words=(
                r"swap|invert|revers|flip|exchang|mislabel|wrong(?:ly)? label|opposite|contradict|"
                r"(?:accurac|margin|prefer)[^;]{0,120}(?:fell|fall|drop|declin|decreas|collaps|lower|down|worse|chang|"
                r"jump|shift|from .{1,30} to|→|->|negativ|chance)|"
                r"(?:fell|fall|drop|declin|decreas|collaps|lower|worse|chang|jump|shift)[^;]{0,120}(?:accurac|margin)"
            ),
            place_words=r"accurac|margin|rewards/(?:chosen|rejected)|preference|forum|chosen|pairs",
            # Steps count from 1, as the trainer logs them: 43 batches of curated pairs, then mixed ones.
            onset=44,
            effect="rewards/accuracies from 1.0 to about 0.5, the loss from near 0 to 1 and more",
        ),
    ),
    Case(
        "d03",
        "d03.py",
        ranks=2,
        truth=Truth(
            cause=(
                "From the second pass over the data on, each batch is sorted by length before it is shared: rank 1 "
                "always gets the long half, rank 0 the short one and waits"
            ),
            cause_words=(
                r"longer|long half|slow|straggl|imbalanc|uneven|unequal|more (?:tokens|work|data)|larger|bigger|skew|"
                r"wait|behind|late|idle"
            ),
            place_words=r"rank(?:s)? ?#?1\b|rank=1\b",
            # Steps count from 1; 35 of them are the first pass.
            onset=36,
            effect="rank 1 has more than twice the tokens of rank 0, which is idle for half of each step; steps a third longer",
        ),
    ),
    Case(
        "d04",
        "d04.py",
        truth=Truth(
            cause=(
                "The store of the old log-probabilities is full: they are taken from the policy of the very update "
                "instead, so the ratio is always 1, nothing is clipped and the KL divergence reads 0"
            ),
            cause_words=(
                r"constant|froze|frozen|exactly|stuck|flat|unchang|always|no longer|never|stopped|"
                r"\b(?:is|at|to|be|became|become|becomes|was|reads|=) ?(?:0|1)(?:\.0*)?(?![\d.]*[1-9])|zero|recomput"
            ),
            place_words=r"\bratio|clip.?frac|clipping|clipped (?:share|part)|\bkl\b|approx.?kl|old.?log",
            # Steps count from 1; 5504 rows of the store are 43 steps of 128.
            onset=44,
            effect="clip fraction and approximate KL exactly 0, ratio exactly 1; both moved before",
            # A step makes 12 updates.
            counted_by=(1, 12),
        ),
    ),
    Case(
        "d05",
        "d05.py",
        truth=Truth(
            cause=(
                "One of two loader workers has come to files in the object store and reads row by row: every other "
                "batch comes late and the training waits for it"
            ),
            cause_words=r"wait|slow|late\b|latency|stall|starv|longer|takes|took|block|delay|behind|idle",
            place_words=(
                r"data.?load|loader|worker|input pipeline|next.?batch|batch(?:es)? (?:from|of)|time/data|fetch|"
                r"read_store|__next__|_next_data|_get_data|wait\w* for (?:the )?(?:data|batch|input)|data wait"
            ),
            # Steps count from 0; worker 1 makes the odd ones, its first 21 are local.
            onset=43,
            effect="0.5 s and more before every second step, none before",
        ),
    ),
    Case("d06", "d06.py"),
    Case(
        "d07",
        "d07.py",
        truth=Truth(
            cause="The plan of the search is used up: the tool answers with an error as text, which is no error for MCP",
            cause_words=r"error|fail|exhaust|quota|plan|402|unavailable|refus|limit",
            place_words=r"search_notes",
            # Iterations count from 1; the plan of 104 queries is 26 iterations of 4.
            onset=27,
            effect="every search fails, three in place of one per task; the reward falls from 0.5 on average to -0.4",
        ),
    ),
    Case(
        "d08",
        "d08.py",
        truth=Truth(
            cause=(
                "The filter against used prompts compares the first four words only: with the puzzles it takes more "
                "and more new prompts for old ones, and the batch shrinks"
            ),
            cause_words=(
                r"shr[iau]nk|drop|filter|duplicat|discard|reject|remov|fewer|fell|fall|decreas|declin|smaller|lower|less|"
                r"reduc|starv|down|from .{1,40} to|→|->"
            ),
            place_words=r"kept|filter|UsedBefore|\bkeep\b|batch/|batch size|samples|prompts|tokens",
            # Steps count from 0; the first step with puzzles.
            onset=35,
            effect="from 48 prompts per step to fewer than 10",
        ),
    ),
    Case("d09", "d09.py", ranks=2),
    Case(
        "d10",
        "d10.py",
        truth=Truth(
            cause="The entropy coefficient falls without a floor and becomes negative: a spread of actions is punished",
            cause_words=(
                r"negativ|(?:below|under|less than|past|through|cross\w*) (?:0(?:\.0*)?(?![.\d])|zero)|\b(?:the )?sign\b|"
                r"< ?0(?![.\d])|(?:to|at|=|is|becomes?) ?[-−]0?\.\d"
            ),
            place_words=r"ent(?:ropy)?[_ ]?coef|coefficient",
            # Iterations count from 0; at 40 it is 0, at 41 below.
            onset=41,
            effect="the coefficient from 0.2 to -0.245; the entropy falls from 0.6 to less than 0.3",
            # An iteration makes 16 updates and 128 steps in each of 4 environments.
            counted_by=(1, 16, 128, 512),
        ),
    ),
    Case(
        "d11",
        "d11.py",
        truth=Truth(
            cause=(
                "The second inference server refuses new weights as its disk is full (it says so with status 200): "
                "it samples with those of step 27 for the rest of the run"
            ),
            cause_words=(
                r"stale|old(?:er)? (?:weight|policy|version|model)|outdated|out of date|not updat|no (?:new|newer) weight|"
                r"\blag|mismatch|off.?policy|(?:update|sync|publish|weight)\w*[^.;]{0,60}(?:fail|refus|reject|not|no space)|"
                r"no space|drift|diverg|grow|growth|rises|rose|rising|increas|climb|higher|jump|differ|apart|from .{1,40} to|→|->"
            ),
            place_words=r"second\b(?! of| step)|{second}",
            # Steps count from 1; the weights of step 28 are the first that are refused, sampled with in step 29.
            onset=29,
            effect="logprob_gap/second grows with every step, to ten times that of the first server and more",
        ),
    ),
    Case("d12", "d12.py", attempts=(("--limit", "52"), ("--resume",)), statuses=(0, 0)),
    Case(
        "d13",
        "d13.py",
        truth=Truth(
            cause=(
                "The problems of the second shard have a marker in the solution: the reward for it is 0 for every "
                "answer, right ones too"
            ),
            cause_words=(
                r"zero|constant|stuck|flat|froze|vanish|collaps|dead|always|never|fell|fall|drop|lost|stopped|no spread|"
                r"no longer|(?:is|at|to|be|became|was|=) ?0(?:\.0*)?\b|marker|####|mismatch"
            ),
            place_words=r"matches_solution|solution",
            # Steps count from 1, as the trainer logs them: 38 steps of the first shard.
            onset=39,
            effect="rewards/matches_solution/mean and std exactly 0",
        ),
    ),
    Case(
        "d14",
        "d14.py",
        ranks=2,
        statuses=(1,),
        truth=Truth(
            cause=(
                "The files of rank 1 have fewer rows: it is through with its data after 46 steps and ends, and rank 0 "
                "waits for it in the next all-reduce and dies"
            ),
            cause_words=(
                r"fewer|uneven|unequal|ran out|run out|out of data|shorter|less data|"
                r"(?:rank ?=?1|process|peer)[^;]{0,60}\b(?:end(?:s|ed)|finish\w*|stop\w*|exit\w*|left|leaves|gone|done|complet\w*|"
                r"quit|missing|did not|does not|no longer|earl\w*|last step)|"
                r"\b(?:end(?:s|ed)|finish\w*|stop\w*|exit\w*|left|missing|no more steps|last step)\b[^;]{0,60}rank ?=?1"
            ),
            place_words=r"rank(?:s)? ?#?1\b|rank=1\b",
            # Steps count from 1; the first that rank 1 does not do.
            onset=47,
            effect="the job dies with 'connection closed by peer' on rank 0",
        ),
    ),
    Case(
        "d15",
        "d15.py",
        truth=Truth(
            cause="The tracking server answers slowly: the training waits 0.45 s after each step while it reports metrics",
            cause_words=r"wait|slow|longer|latency|takes|took|block|stall|delay|idle|from .{1,40} to|→|->",
            place_words=r"track|/api/runs|log_metrics|requests?\.|\bhttp|\bPOST\b|post\b|127\.0\.0\.1",
            # Steps count from 0; 33 writes are fast.
            onset=33,
            effect="the time from step to step grows by 0.45 s, to several times of what it was",
        ),
    ),
    Case("d16", "d16.py"),
    Case(
        "d17",
        "d17.py",
        truth=Truth(
            cause=(
                "After the first pass the same 23 comparisons are shown again and again: they are learned by heart, "
                "the evaluation gets worse"
            ),
            cause_words=(
                r"overfit|over-fit|memori[sz]|by heart|repeat|again|same (?:\d+ )?(?:batch|sample|row|data|compar|pair|example)|"
                r"duplicat|generali[sz]|diverg|gap|"
                r"eval\w*[^;]{0,80}(?:rose|rise|rising|grow|grew|worse|increas|up\b|climb|higher|fell|fall|drop|from .{1,40} to|→|->)|"
                r"(?:rose|rise|rising|grow|grew|worse|increas|climb)[^;]{0,80}eval"
            ),
            place_words=r"eval|train(?:ing)? (?:data|set|loss)|dataset|rows|comparisons|samples|pairs",
            # Steps count from 1, as the trainer logs them: 33 of the first pass.
            onset=34,
            effect="the training loss falls from 0.6 to 0.001 while eval_loss rises from 0.6 to more than 1",
        ),
    ),
    Case(
        "d18",
        "d18.py",
        truth=Truth(
            cause=(
                "The optimizer was made for a model that is then exchanged for a loaded one: the weights that are "
                "trained never change"
            ),
            cause_words=(
                r"\b(?:not|never|no|none|nothing|hardly|without|zero|0)\b[^;]{0,80}(?:chang|updat|\bgrad|move|train|optimi[sz])|"
                r"n't [^;]{0,80}(?:chang|updat|move)|frozen|froze|unchanged|\bsame weights|"
                r"(?:other|wrong|different|another|old) (?:model|param|weights|object|tensor)"
            ),
            place_words=r"optimi[sz]er|weight|param",
            onset=None,
            effect="the loss stays at 6.3, that of a guess, for the whole run; eval_loss is the same to the last digit",
        ),
    ),
    Case("d19", "d19.py"),
    Case(
        "d20",
        "d20.py",
        truth=Truth(
            cause=(
                "The second server was exchanged and gives wrong names of arguments in its tool calls (orderId): they "
                "are refused before the tool runs, and its tasks fail after three tries"
            ),
            cause_words=r"error|fail|invalid|validation|field required|missing|argument|orderId|reject|refus|bad (?:call|input)|malform",
            place_words=r"second|{second}|find_order",
            # Iterations count from 1; 192 requests are 32 iterations of 2 tasks with 3 requests.
            onset=33,
            effect="all tasks of the second server fail: the reward falls from 0.85 to 0.43 on average",
        ),
    ),
    Case(
        "d21",
        "d21.py",
        ranks=2,
        truth=Truth(
            cause="Rank 1 keeps the logits of each step in a table: its memory grows by 16 MB with every step",
            cause_words=(
                r"(?:memory|rss|resident|heap|host)[^;]{0,100}(?:grow|grew|rise|rose|rising|increas|climb|leak|from .{1,40} to|up\b|\+)|"
                r"(?:grow|grew|growth|rise|rose|rising|increas|climb|leak|accumulat)[^;]{0,100}(?:memory|rss|resident|heap|host|[MG]i?B)|"
                r"leak"
            ),
            place_words=r"rank(?:s)? ?#?1\b|rank=1\b",
            # Steps count from 0.
            onset=36,
            effect="0.8 GB more at the end than at step 36, on this rank only",
        ),
    ),
    Case("d22", "d22.py"),
    Case(
        "d23",
        "d23.py",
        statuses=(1,),
        truth=Truth(
            cause=(
                "A reference answer is empty: the reward of one answer is minus infinity, which stays in the running "
                "mean, so that all that follows is NaN and no update is made until the job gives up"
            ),
            cause_words=r"-?\binf\b|infinit|not finite|non-?finite|\bnan\b|not a number|empty",
            place_words=r"reward|normali[sz]|running[_ ]mean|advantage|reference",
            # Steps count from 1; the empty one is in the batch of step 49.
            onset=49,
            effect="14 steps without an update, then a crash that blames the learning rate",
        ),
    ),
    Case(
        "d24",
        "d24.py",
        truth=Truth(
            cause=(
                "The pool of warm containers is used up: one in 23 runs of the tests has to wait 1.7 s for a new one, "
                "and the whole step with it"
            ),
            cause_words=(
                r"slow|longer|latency|takes|took|tail|p9\d|outlier|stall|wait|spike|now and then|sometimes|occasional|"
                r"sporadic|some calls|rare|up to \d|from .{1,40} to|→|->"
            ),
            place_words=r"run_tests",
            # Steps count from 1; 168 runs are 28 steps of 6, the first slow one is the next.
            onset=29,
            effect="every fourth step takes 1.9 s, eight times the usual",
        ),
    ),
    Case("d25", "d25.py"),
    Case(
        "d26",
        "d26.py",
        attempts=(("--until", "45"), ()),
        statuses=(0, 0),
        truth=Truth(
            cause=(
                "The checkpoint lacks the mean and deviation that rewards are scaled with: after the resume these "
                "begin at 0 and 1, and rewards are far too large"
            ),
            cause_words=(r"scal(?:e|er|ed|ing)|normali[sz]|statistic|deviation|running (?:mean|std)"),
            place_words=r"reward|scaler|resum|checkpoint|attempt",
            # Steps count from 1; the first after the resume.
            onset=46,
            effect="scaled rewards from 0.6 to 50, the value loss from 0.7 to more than 2000",
            # A step makes 8 updates.
            counted_by=(1, 8),
        ),
    ),
    Case(
        "d27",
        "d27.py",
        truth=Truth(
            cause=(
                "The first evaluation sets the temperature to 0 and does not set it back: all answers of a group are "
                "the same from then on, there is no advantage and nothing is learned"
            ),
            cause_words=(
                r"temperature|identical|same (?:answer|completion|text|output|response)|all (?:the )?same|equal answers|"
                r"distinct|uniqu|duplicat|determinis|greedy|diversity|not sampled"
            ),
            place_words=r"temperature|sampl|answer|completion|response|request|generat|distinct",
            # Steps count from 1; the first evaluation is at the end of step 32.
            onset=33,
            effect="one distinct answer in 8 per group in place of 8, deviation of the rewards, loss and gradient norm 0",
        ),
    ),
    Case("d28", "d28.py"),
    Case(
        "d29",
        "d29.py",
        ranks=2,
        truth=Truth(
            cause=(
                "In the second phase a batch of 8 cut in 5 makes 4 micro-batches, so the one that lets gradients be "
                "averaged never comes: each rank trains a model of its own"
            ),
            cause_words=(
                r"differ|diverg|drift|apart|disagree|out of sync|unsync|no_sync|not (?:the same|equal|in sync|synchron|averag|"
                r"reduc|shar)|no (?:longer )?(?:all.?reduce|collective|communicat|synchron|averag|exchang)|"
                r"(?:all.?reduce|collective|communicat|synchron)\w*[^;]{0,60}\b(?:stop\w*|ends?|ended|missing|none|no more|vanish\w*|ceas\w*)|"
                r"\b(?:stop\w*|ends?|ended|no more|without|missing|ceas\w*)\b[^;]{0,60}(?:all.?reduce|collective|communicat|synchron)"
            ),
            place_words=r"grad|weight|param|all.?reduce|DDP|DistributedDataParallel|collective|model",
            # Steps count from 1.
            onset=41,
            effect="gradient norm and weight norm of the ranks, equal before, differ; no collective operation any more",
        ),
    ),
    Case("d30", "d30.py", ranks=2),
)
