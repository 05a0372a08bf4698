"""Third set of cases that are judged blind; do not read this before you have written down what the pages say.

Names say nothing, on purpose: sick and healthy runs are mixed. The truths were written before any program was run.
Steps and rounds count from 1 unless it is said.
"""

from __future__ import annotations

from causes.cases import Case, Truth

TWICE = ((), ("--resume",))

CASES: tuple[Case, ...] = (
    Case("e01", "e01.py", ranks=2),
    Case(
        "e02",
        "e02.py",
        truth=Truth(
            cause=(
                "The schedule was made for half of the steps (it divides by an accumulation that is not in use): the "
                "learning rate is 0 in the second half, so nothing is learned any more"
            ),
            cause_words=(
                r"(?:learning rate|\blr\b)[^;]{0,120}(?:zero|\b0(?:\.0+)?\b|vanish|end|ran out|finish|decay|too short|"
                r"fell|fall|drop|constant|stuck|flat)|(?:zero|\b0(?:\.0+)?\b|decay)[^;]{0,80}(?:learning rate|\blr\b)|"
                r"no longer (?:learn|chang|updat)|not (?:learn|chang|updat)|stopped (?:learn|chang)|"
                r"weights[^;]{0,40}(?:frozen|unchang|still)"
            ),
            place_words=r"learning[_ -]?rate|\blr\b|schedul|optimi[sz]er|weights|parameters",
            # Lightning counts from 0: the step that it calls 31 is the first with a rate of 0.
            onset=31,
            effect="The learning rate falls to 0 at step 31 of 64; the loss stays where it is from there on",
        ),
    ),
    Case(
        "e03",
        "e03.py",
        truth=Truth(
            cause=(
                "The judge's quota is used up and each score is the default 0.5 from then on: all rewards of a "
                "group are "
                "the same, so there is no advantage and no gradient"
            ),
            cause_words=(
                r"constant|same (?:reward|score|value)|identical|equal|no spread|zero (?:std|spread|variance|"
                r"advantage|gradient)|"
                r"std[^;]{0,60}(?:zero|\b0\b)|0\.5\b|default|fallback|no (?:signal|advantage|gradient|variance)|"
                r"stuck|flat|"
                r"froze|vanish|quota"
            ),
            place_words=r"style_judge|ask_judge|judge|reward",
            onset=25,
            effect="Rewards of exactly 0.5 with no spread, loss and gradient near 0 from then on",
        ),
    ),
    Case("e04", "e04.py"),
    Case(
        "e05",
        "e05.py",
        truth=Truth(
            cause=(
                "The second server limits the rate: it refuses almost half of the calls with 429 and each is made "
                "again "
                "after a wait, so the rounds wait for the rollouts on it"
            ),
            cause_words=(
                r"429|rate[- ]?limit|retr(?:y|i)|refus|made again|tried again|throttl|RateLimit|too many requests|"
                r"error|fail|slow"
            ),
            place_words=r"23852|second server|server 2",
            onset=21,
            effect="Rounds take more than twice as long; calls to the second server need several tries",
        ),
    ),
    Case(
        "e06",
        "e06.py",
        truth=Truth(
            cause=(
                "The buffer of the hardest samples keeps the logits of every batch with their graph, and is never "
                "trimmed: the memory grows by some 14 MB in each step"
            ),
            cause_words=r"memory|leak|RSS|resident|grow|retain|held|MB|MiB|GiB",
            place_words=r"memory|RSS|resident|buffer|hardest|process|host|heap|MB|MiB",
            onset=21,
            effect="The process grows by about 14 MB in each step, some 500 MB by the end, and does not stop",
        ),
    ),
    Case("e07", "e07.py"),
    Case(
        "e08",
        "e08.py",
        truth=Truth(
            cause=(
                "The tool price_of answers 'no rows yet, try again' for half of the items, and the agent calls it "
                "again "
                "until the limit of the graph's steps ends the rollout without an answer"
            ),
            cause_words=(
                r"loop|again|repeat|same (?:call|arguments|tool)|recursion|more (?:calls|turns|steps)|retr(?:y|i)|"
                r"limit|turns|"
                r"no rows|times as (?:often|many)|calls[^;]{0,60}(?:rose|rise|grew|more|from|jump)"
            ),
            place_words=r"price_of|GraphRecursionError|recursion|turns|agent|graph|tools?\b",
            onset=22,
            effect=(
                "Half of the rollouts take eight turns and end with nothing; rounds are three times as "
                "long, reward halves"
            ),
        ),
    ),
    Case(
        "e09",
        "e09.py",
        ranks=2,
        truth=Truth(
            cause=(
                "With two micro-batches a step, all of them run under no_sync: gradients are not averaged any more "
                "and the "
                "replicas drift apart, each in its own domain"
            ),
            cause_words=(
                r"no_sync|not (?:synchroni[sz]|averag|reduc|shar)|un-?synchroni|drift|diverg|apart|differ|"
                r"(?:all-?reduce|collective|sync)[^;]{0,80}(?:stop|fewer|none|no longer|missing|fell|gone|less)|"
                r"(?:no|fewer|without|missing|stop)[^;]{0,60}(?:all-?reduce|collective|sync)|replica|gap"
            ),
            place_words=r"gradient|all-?reduce|no_sync|replica|rank|DDP|DistributedDataParallel|collective|weights|gap",
            onset=28,
            effect=(
                "The gap of the replicas grows from 0 on; no gradients are exchanged; each rank trains a model of "
                "its own"
            ),
        ),
    ),
    Case("e10", "e10.py"),
    Case(
        "e11",
        "e11.py",
        truth=Truth(
            cause=(
                "From the 24th batch on, the documents come from shards that are far away: the collator takes 0.4 "
                "s for a batch"
            ),
            cause_words=r"slow|longer|wait|starv|blocked|took|takes|time|times as long|bottleneck|latency",
            place_words=(
                r"data|collat|WithDocuments|loader|batch(?:es)? (?:fetch|load|read|prepar)|get_batch|input|documents"
            ),
            # The batch is read one step ahead by the loader of accelerate.
            onset=24,
            effect="Steps take several times as long, all of it in reading the batch",
        ),
    ),
    Case(
        "e12",
        "e12.py",
        attempts=TWICE,
        statuses=(0, 0),
        truth=Truth(
            cause=(
                "The job goes on from the wrong checkpoint: names are sorted as text, so step-9 counts as the "
                "latest, and "
                "27 steps of training are lost while the count goes on at 37"
            ),
            cause_words=(
                r"resum|restart|checkpoint|second (?:attempt|run|part)|stale|old(?:er)? (?:weights|checkpoint)|"
                r"wrong|lost|"
                r"jump|set back|went back|fell back|regress|restor"
            ),
            place_words=r"checkpoint|resum|restart|step-9|attempt|loss|reward|weights|restor",
            onset=37,
            effect=(
                "At the resume the loss jumps back to that of step 9 and the reward falls; all of it is learned anew"
            ),
        ),
    ),
    Case("e13", "e13.py"),
    Case(
        "e14",
        "e14.py",
        truth=Truth(
            cause=(
                "In its second stage the world keeps the contacts of all episodes, which a reset does not clear: a "
                "step of "
                "the environment takes ever longer"
            ),
            cause_words=(
                r"slow|longer|grow|rose|rise|rising|time|fps|times as long|latency|accumulat|throughput|took|takes"
            ),
            place_words=r"env|Push|world|step\b|rollout|fps|_solve_contacts|simulat|collect",
            # Iterations of 256 steps of the environment, with 16 optimizer steps each.
            onset=21,
            effect="An iteration takes from 1.5 to almost 3 times as long, all of it in the steps of the environment",
            counted_by=(1, 16, 256),
        ),
    ),
    Case("e15", "e15.py"),
    Case(
        "e16",
        "e16.py",
        truth=Truth(
            cause=(
                "From step 24 on, each checkpoint holds the whole history of the rollouts: it is large, grows, and "
                "to save "
                "and send it takes up to two seconds each four steps"
            ),
            cause_words=(
                r"slow|longer|grow|larger|bigger|size|rose|rise|rising|time|took|takes|history|times as long|pause|"
                r"stall"
            ),
            place_words=r"checkpoint|sav(?:e|ing)|torch\.save|send|upload|store|history",
            onset=24,
            effect=(
                "Each checkpoint goes from 0.05 s to 0.9 s and then 2.3 s: more than a third of the time from then on"
            ),
        ),
    ),
    Case(
        "e17",
        "e17.py",
        truth=Truth(
            cause=(
                "In the pairs of the second export, chosen and rejected are the same text: the margin is 0, the "
                "loss is "
                "ln 2 and nothing is learned from them"
            ),
            cause_words=(
                r"same|identical|equal|duplicate|zero|\b0(?:\.0+)?\b|0\.693|ln ?2|log ?2|constant|no (?:gradient|"
                r"signal|margin)|"
                r"vanish|collaps|stuck|flat|exactly|froze|fell|fall|drop"
            ),
            place_words=r"margin|accurac|chosen|rejected|pairs|preference|rewards/|loss|grad",
            onset=30,
            effect="Loss exactly 0.693, accuracy and margin 0, gradients 0 from then on",
        ),
    ),
    Case("e18", "e18.py", attempts=TWICE, statuses=(0, 0)),
    Case(
        "e19",
        "e19.py",
        truth=Truth(
            cause=(
                "query_orders of the MCP server opens a connection for each call and closes none: after 200 calls "
                "the pool "
                "is exhausted and each call is an error"
            ),
            cause_words=r"error|fail|exhaust|QueuePool|pool|connection|raise|exception|limit",
            place_words=r"query_orders|MCP[^;]{0,40}(?:orders|server|tool)|\borders\b",
            onset=26,
            effect="Every call of query_orders fails, the reward falls from about a half to 0",
        ),
    ),
    Case(
        "e20",
        "e20.py",
        truth=Truth(
            cause=(
                "The second shard is one sample, over and over (a join on an id that is missing): the model learns "
                "it by "
                "heart, the loss on the training data falls to near 0 while that of the evaluation rises"
            ),
            cause_words=(
                r"duplicat|repeat|same (?:sample|batch|data|example)|identical|memori[sz]|overfit|by heart|one sample|"
                r"eval[^;]{0,80}(?:ris|rose|up|grow|worse|higher|diverg|increas|jump)|"
                r"(?:diverg|gap|ris|rose|worse|increas)[^;]{0,80}eval|(?:loss|entropy)[^;]{0,80}(?:collaps|fell|"
                r"fall|drop|near 0|zero)|"
                r"(?:collaps|fell|fall|drop)[^;]{0,80}(?:loss|entropy)"
            ),
            place_words=r"eval|loss|data|sampl|shard|entropy|token_accuracy|accurac|batch",
            onset=25,
            effect="Training loss from 2.7 to below 0.5 in 25 steps, evaluation loss from 2.7 to more than 4",
        ),
    ),
    Case("e21", "e21.py"),
    Case(
        "e22",
        "e22.py",
        truth=Truth(
            cause=(
                "The sampler takes weights only if their version is higher, and compares versions as text: '10' is "
                "less than "
                "'9', so it keeps the weights of version 9 to the end while the policy goes on"
            ),
            cause_words=(
                r"stale|off-?policy|old (?:weights|policy|version)|not (?:updated|synced|loaded|refreshed)|lag|"
                r"behind|sync|"
                r"(?:kl|clip)[^;]{0,80}(?:ris|rose|grow|grew|jump|up|increas|climb|from)|diverg|drift|ratio|apart|"
                r"stopped"
            ),
            place_words=r"sampler|kl|clip_fraction|clip|weights|version|sync|ratio|policy",
            onset=21,
            effect=(
                "KL to the sampler and the share of clipped ratios grow steadily; the reward of the samples rises "
                "no more"
            ),
        ),
    ),
    Case("e23", "e23.py"),
    Case(
        "e24",
        "e24.py",
        ranks=2,
        truth=Truth(
            cause=(
                "From step 26 on, rank 0 writes and sends the whole table of answers in each step before the "
                "backward pass, "
                "not the last rows: rank 1 waits for it in the exchange of gradients"
            ),
            cause_words=r"slow|straggl|wait|behind|late|longer|upload|idle|imbalanc|uneven|more time|hold",
            place_words=r"rank(?:s)? ?#?0\b|rank=0\b|upload_samples|samples\.csv",
            onset=26,
            effect="Steps take from 1.5 to 2.1 times as long; rank 1 is idle for the difference",
        ),
    ),
    Case(
        "e25",
        "e25.py",
        truth=Truth(
            cause=(
                "A sandbox is lost in each batch and not given back: when the 23 warm ones are gone, each answer "
                "boots a "
                "cold one, and the reward takes almost a second a batch"
            ),
            cause_words=r"slow|longer|took|takes|time|times as long|latency|wait|sandbox|cold|exhaust|bottleneck",
            place_words=r"unit_tests|reward|sandbox|pool|take\b",
            onset=23,
            effect="The reward function goes from 0.05 s to 0.8 s a batch; steps take twice as long or more",
        ),
    ),
    Case("e26", "e26.py"),
    Case(
        "e27",
        "e27.py",
        ranks=2,
        statuses=(1,),
        truth=Truth(
            cause=(
                "The verifier of rank 1 gives no answer any more and rank 1 reads from its socket without a time "
                "limit: "
                "rank 0 waits in the all-reduce until the group's limit ends the job"
            ),
            cause_words=(
                r"hang|hung|stuck|block|wait|stall|time[d ]?-?out|never (?:came|returned|reached|arriv|join)|no "
                r"(?:answer|reply|progress)|"
                r"did not (?:reach|arrive|join|come)|missing|recv|readline"
            ),
            place_words=r"rank(?:s)? ?#?1\b|rank=1\b|verif|readline|socket",
            onset=42,
            effect="No progress in step 42; the job ends with an error of the all-reduce after 14 s",
        ),
    ),
    Case(
        "e28",
        "e28.py",
        truth=Truth(
            cause=(
                "Groups of the hard split whose rewards are all 0 have a spread of 0, and the advantage divides by "
                "it: it is "
                "NaN, so the loss is, the scaler skips each step and halves its scale"
            ),
            cause_words=(
                r"nan|inf\b|infinit|not finite|non-?finite|skip|overflow|divi|scale[^;]{0,60}(?:fell|fall|halv|drop|"
                r"collaps|shr)"
            ),
            place_words=r"loss|grad|advantage|scal|amp|reward|optimi[sz]er",
            onset=33,
            effect="Loss and gradients are NaN, every optimizer step is skipped and the scale shrinks to nothing",
        ),
    ),
    Case("e29", "e29.py"),
    Case(
        "e30",
        "e30.py",
        truth=Truth(
            cause=(
                "The second phase's settings of generation have min_new_tokens 72, the most that is allowed: no "
                "answer ends "
                "by itself, all are cut at the limit"
            ),
            cause_words=(
                r"trunc|clipped|cut|limit|max(?:imum)?[_ ]|no (?:eos|end)|never (?:end|stop|terminat)|not (?:end|"
                r"stop|terminat)|"
                r"longer|length[^;]{0,80}(?:ris|rose|grow|grew|jump|from|up|increas)|terminat|tokens|min_new_tokens"
            ),
            place_words=r"completion|length|clipped_ratio|generat|eos|tokens|min_new_tokens|terminat",
            onset=26,
            effect=("All answers are at 72 tokens from about 25, the clipped ratio goes to 1, generation takes longer"),
        ),
    ),
    Case("e31", "e31.py"),
    Case(
        "e32",
        "e32.py",
        truth=Truth(
            cause=(
                "The judge's server answers with a sentence in place of JSON from then on: no score can be read, "
                "and each "
                "rollout gets a reward of 0"
            ),
            cause_words=(
                r"pars|json|text|sentence|format|prose|"
                r"reward[^;]{0,100}(?:zero|\b0(?:\.0+)?\b|fell|fall|drop|collaps|constant|flat|stuck)|"
                r"(?:zero|fell|fall|drop|collaps|constant|stuck)[^;]{0,60}reward"
            ),
            place_words=r"judge|23872|grad(?:er|ed)\b|reward|score",
            onset=23,
            effect="The reward falls from 0.6 to exactly 0 and stays there",
        ),
    ),
    Case("e33", "e33.py", ranks=2),
    Case("e34", "e34.py"),
)
