"""Rollouts, tools and rewards: what the agents do, what it costs, and what it earns."""

from __future__ import annotations

from dashboards.boards.annotations import FIRING_ALERTS
from dashboards.boards.engine_row import ENGINES
from dashboards.boards.event_loop_row import EVENT_LOOPS
from dashboards.boards.lines import failures, quantiles
from dashboards.boards.rollout_rows import MODEL_CALLS, SERVICES, TOOLS
from dashboards.boards.run_selector import RUN
from dashboards.boards.trajectory_row import TRAJECTORIES
from dashboards.boards.weight_sync_row import WEIGHT_SYNC
from dashboards.lib import panels, search
from dashboards.lib.layout import Board, Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import Match, buckets, latest, mean, quantile
from dashboards.lib.queries import LokiQuery, PromQuery, TempoQuery
from dashboards.lib.variables import REWARD, SLOWER_THAN, WINDOW
from otel_rl.semconv import attributes, events, metrics, spans

_CHOSEN_REWARDS = (Match(attributes.RL_REWARD_NAME, "$reward", "=~"),)
_REWARD = shown(attributes.RL_REWARD_NAME)
_EVALUATION_LINE = (
    f"{search.field(attributes.GEN_AI_EVALUATION_NAME)} = {search.field(attributes.GEN_AI_EVALUATION_SCORE_VALUE)}"
)

_AGENT = metrics.GEN_AI_INVOKE_AGENT_DURATION
_AGENT_NAME = shown(attributes.GEN_AI_AGENT_NAME)
_ROLLOUT = metrics.RL_ROLLOUT_DURATION

_AGENTS = Row(
    "Agents and rollouts",
    (
        Cell(
            panels.timeseries(
                "Agent duration, by agent",
                "Mean duration of an agent's invocation, and what 19 of 20 stay below. Grows with the reward "
                "unchanged: the agent takes more turns for the same result.",
                [
                    PromQuery(mean(_AGENT, attributes.GEN_AI_AGENT_NAME), f"{_AGENT_NAME} mean"),
                    PromQuery(
                        quantile(0.95, _AGENT, attributes.GEN_AI_AGENT_NAME),
                        f"{_AGENT_NAME} p95",
                        exemplar=True,
                    ),
                ],
                unit="s",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Rollout duration",
                "Duration of a trajectory. The step waits for the slowest one: p99 far above p50 is idle hardware; "
                "cap the turns or start training on what is ready.",
                quantiles(_ROLLOUT),
                unit="s",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Failed rollouts",
                "Trajectories that ended in an error per second, by kind. They are missing from the batch or score 0: "
                "either way the reward curve is about the rest.",
                [failures(_ROLLOUT)],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.table(
                "Slowest rollouts",
                "Rollouts that took at least the time chosen at the top, of those that sampling kept (errors, slow "
                "and forced ones, and a share of the rest). Open the first and look which call or tool fills it.",
                [
                    TempoQuery(
                        search.traces_of_run(
                            search.named(spans.RL_ROLLOUT),
                            "duration >= ${slower_than}",
                            show=(
                                attributes.RL_ROLLOUT_ID,
                                attributes.RL_LOOP_ITERATION,
                                attributes.RL_POLICY_VERSION,
                                attributes.RL_ROLLOUT_TURNS,
                                attributes.RL_ROLLOUT_OUTPUT_TOKENS,
                                attributes.RL_ROLLOUT_JUDGE_CALLS,
                                attributes.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS,
                                attributes.RL_ROLLOUT_TOOL_ERRORS,
                                attributes.RL_ROLLOUT_REWARD,
                            ),
                        )
                    )
                ],
                unit="none",
                sort_by="Duration",
            ),
            width=24,
        ),
    ),
)

_REWARDS = Row(
    "Rewards",
    (
        Cell(
            panels.heatmap(
                "Reward scores",
                "How many samples scored what, chosen reward functions together (choose one at the top). A single "
                "dark band is no signal; two bands drifting apart are samples that learn to win or lose.",
                PromQuery(
                    buckets(metrics.RL_REWARD_SCORE, where=_CHOSEN_REWARDS),
                    legend="{{le}}",
                    format="heatmap",
                    exemplar=True,
                ),
                unit="short",
            )
        ),
        Cell(
            panels.timeseries(
                "Mean score, by reward function",
                "Which function the policy learns to please. One that climbs while the others fall is being exploited.",
                [PromQuery(mean(metrics.RL_REWARD_SCORE, attributes.RL_REWARD_NAME, where=_CHOSEN_REWARDS), _REWARD)],
                unit="short",
            )
        ),
        Cell(
            panels.timeseries(
                "Spread of the scores, by reward function",
                "Ninth decile less first decile of the raw scores (to the width of a bucket). At 0 the function tells "
                "no sample from another and teaches nothing.",
                [
                    PromQuery(
                        quantile(0.9, metrics.RL_REWARD_SCORE, attributes.RL_REWARD_NAME, where=_CHOSEN_REWARDS)
                        + " - "
                        + quantile(0.1, metrics.RL_REWARD_SCORE, attributes.RL_REWARD_NAME, where=_CHOSEN_REWARDS),
                        _REWARD,
                    )
                ],
                unit="short",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Groups without variance",
                "Share of groups whose samples all got the same reward: no advantage, no gradient. Rising: prompts "
                "have become too easy or are still too hard; filter or mix them.",
                [PromQuery(latest(metrics.RL_SAMPLE_ZERO_VARIANCE_RATIO), legend="groups without variance")],
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
        ),
        Cell(
            panels.logs(
                "Evaluations",
                "Every score of a rollout, and those of a few samples of a trainer's batch (rl.trajectory.reason). The "
                "way to the trace is in the details. Read the samples behind the highest scores before you believe "
                "the curve.",
                LokiQuery(f'{search.events(events.GEN_AI_EVALUATION_RESULT)} | line_format "{_EVALUATION_LINE}"'),
            ),
            width=16,
        ),
    ),
)

BOARD = Board(
    name="rollouts-tools-rewards",
    title="otel-rl / Rollouts, tools and rewards",
    description="What the agents do, what their calls and tools cost, where they fail, and what it earns.",
    variables=(RUN, WINDOW, SLOWER_THAN, REWARD),
    rows=(MODEL_CALLS, TOOLS, SERVICES, _AGENTS, TRAJECTORIES, EVENT_LOOPS, _REWARDS, ENGINES, WEIGHT_SYNC),
    annotations=(FIRING_ALERTS,),
)
