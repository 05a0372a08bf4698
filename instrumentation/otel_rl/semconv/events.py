"""Events: generated; edit instrumentation/registry and run `make generate`."""

from __future__ import annotations

from typing import Final

from otel_rl.semconv import attributes, definitions

GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS: Final = definitions.EventDefinition(
    name="gen_ai.client.inference.operation.details",
    description="Content and facts of a call to a model, for who keeps content apart from traces",
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.GEN_AI_RESPONSE_MODEL,
        attributes.GEN_AI_RESPONSE_ID,
        attributes.GEN_AI_USAGE_INPUT_TOKENS,
        attributes.GEN_AI_CONVERSATION_ID,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.RL_INFERENCE_RETRIES,
        attributes.RL_INFERENCE_ROLE,
        attributes.RL_INFERENCE_TOOL_CALLS,
        attributes.RL_INFERENCE_INVALID_TOOL_CALLS,
        attributes.RL_ROLLOUT_TURN,
        attributes.ERROR_TYPE,
        attributes.GEN_AI_REQUEST_STREAM,
        attributes.GEN_AI_REQUEST_MAX_TOKENS,
        attributes.GEN_AI_REQUEST_TEMPERATURE,
        attributes.GEN_AI_REQUEST_TOP_P,
        attributes.GEN_AI_REQUEST_SEED,
        attributes.GEN_AI_REQUEST_CHOICE_COUNT,
        attributes.GEN_AI_REQUEST_TOP_K,
        attributes.GEN_AI_REQUEST_FREQUENCY_PENALTY,
        attributes.GEN_AI_REQUEST_PRESENCE_PENALTY,
        attributes.GEN_AI_REQUEST_STOP_SEQUENCES,
        attributes.GEN_AI_OUTPUT_TYPE,
        attributes.OPENAI_API_TYPE,
        attributes.GEN_AI_RESPONSE_FINISH_REASONS,
        attributes.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        attributes.GEN_AI_USAGE_OUTPUT_TOKENS,
        attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        attributes.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        attributes.GEN_AI_AGENT_NAME,
        attributes.GEN_AI_INPUT_MESSAGES,
        attributes.RL_INFERENCE_EARLIER_MESSAGES,
        attributes.RL_INFERENCE_EARLIER_SPAN_ID,
        attributes.GEN_AI_OUTPUT_MESSAGES,
        attributes.GEN_AI_SYSTEM_INSTRUCTIONS,
        attributes.GEN_AI_TOOL_DEFINITIONS,
        attributes.RL_INFERENCE_STREAM_ENDED,
        attributes.RL_INFERENCE_TOKEN_IDS_COUNT,
        attributes.RL_INFERENCE_LOGPROBS_COUNT,
        attributes.RL_INFERENCE_WEIGHT_VERSION,
        attributes.RL_INFERENCE_SERVER_QUEUE_TIME,
        attributes.RL_INFERENCE_SERVER_TIME_TO_FIRST_TOKEN,
        attributes.RL_INFERENCE_SERVER_GENERATION_TIME,
        attributes.RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED,
        attributes.RL_INFERENCE_ENGINE,
    ),
)
GEN_AI_EVALUATION_RESULT: Final = definitions.EventDefinition(
    name="gen_ai.evaluation.result",
    description="Result of an evaluation of the span it belongs to; a reward is one",
    attributes=(
        attributes.GEN_AI_EVALUATION_NAME,
        attributes.GEN_AI_EVALUATION_SCORE_VALUE,
        attributes.GEN_AI_EVALUATION_SCORE_LABEL,
        attributes.GEN_AI_EVALUATION_EXPLANATION,
        attributes.RL_ROLLOUT_TURN,
        attributes.RL_REWARD_WEIGHT,
        attributes.RL_ROLLOUT_ID,
        attributes.RL_GROUP_ID,
        attributes.RL_POLICY_VERSION,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_TRAJECTORY_REASON,
        attributes.GEN_AI_RESPONSE_ID,
        attributes.ERROR_TYPE,
    ),
)
RL_CALL_HANG: Final = definitions.EventDefinition(
    name="rl.call.hang",
    description="A call has not returned for longer than its limit; the body says where it is; WARN",
    attributes=(
        attributes.RL_CALL_KIND,
        attributes.RL_CALL_NAME,
        attributes.RL_HANG_DURATION,
        attributes.RL_HANG_LIMIT,
        attributes.RL_CALL_USUAL_DURATION,
        attributes.RL_CALL_HANGING,
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.RL_SERVICE,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.RL_ROLLOUT_ID,
        attributes.CODE_FUNCTION_NAME,
        attributes.CODE_FILE_PATH,
        attributes.CODE_LINE_NUMBER,
        attributes.RL_RANK,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_PHASE,
    ),
)
RL_CALL_HANG_END: Final = definitions.EventDefinition(
    name="rl.call.hang.end",
    description="The call that an rl.call.hang event told of does not hang any more; another one of its name may",
    attributes=(
        attributes.RL_CALL_KIND,
        attributes.RL_CALL_NAME,
        attributes.RL_HANG_DURATION,
        attributes.RL_CALL_ENDING,
        attributes.RL_ROLLOUT_ID,
        attributes.RL_RANK,
    ),
)
RL_CHECKPOINT_CHECKED: Final = definitions.EventDefinition(
    name="rl.checkpoint.checked",
    description="State of the latest checkpoints, at the end of the process that saved them",
    attributes=(
        attributes.RL_CHECKPOINT_BEST_NAME,
        attributes.RL_CHECKPOINT_BEST_METRIC,
        attributes.RL_CHECKPOINT_BEST_VALUE,
    ),
)
RL_CHECKPOINT_SAVED: Final = definitions.EventDefinition(
    name="rl.checkpoint.saved",
    description="The process has saved a checkpoint, of 64 KiB or more",
    attributes=(
        attributes.RL_CHECKPOINT_NUMBER,
        attributes.RL_CHECKPOINT_NAME,
        attributes.RL_CHECKPOINT_FORMAT,
        attributes.RL_CHECKPOINT_SIZE,
        attributes.RL_CHECKPOINT_DURATION,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
    ),
)
RL_COMPILE_RECOMPILATION: Final = definitions.EventDefinition(
    name="rl.compile.recompilation",
    description="torch.compile compiled again what it had compiled before",
    attributes=(
        attributes.RL_COMPILE_FUNCTION,
        attributes.RL_COMPILE_REASON,
        attributes.RL_COMPILE_DURATION,
        attributes.RL_LOOP_ITERATION,
    ),
)
RL_EVENT_LOOP_BLOCKED: Final = definitions.EventDefinition(
    name="rl.event_loop.blocked",
    description="One piece of code has blocked an event loop; the body has its stack, taken while it did; WARN",
    attributes=(
        attributes.RL_EVENT_LOOP_BLOCKED_DURATION,
        attributes.RL_EVENT_LOOP_BLOCKED_NUMBER,
        attributes.RL_EVENT_LOOP_BLOCKED_TOTAL,
        attributes.RL_EVENT_LOOP_BLOCKED_STATE,
        attributes.RL_EVENT_LOOP_BLOCKED_ONGOING,
        attributes.CODE_FUNCTION_NAME,
        attributes.CODE_FILE_PATH,
        attributes.CODE_LINE_NUMBER,
        attributes.RL_EVENT_LOOP_TASK,
        attributes.RL_EVENT_LOOP_COROUTINE,
        attributes.RL_EVENT_LOOP_ROLLOUTS,
        attributes.RL_EVENT_LOOP_MODEL_CALLS,
        attributes.RL_RANK,
        attributes.RL_LOOP_ITERATION,
    ),
)
RL_HANG: Final = definitions.EventDefinition(
    name="rl.hang",
    description="A process makes no progress for longer than its limit; the body has the stacks of its threads; ERROR",
    attributes=(
        attributes.RL_HANG_DURATION,
        attributes.RL_HANG_LIMIT,
        attributes.RL_RANK,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_PHASE,
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
        attributes.TORCH_DISTRIBUTED_SEQUENCE_NUMBER,
    ),
)
RL_HANG_END: Final = definitions.EventDefinition(
    name="rl.hang.end",
    description="A process that an rl.hang event told of makes progress again",
    attributes=(
        attributes.RL_HANG_DURATION,
        attributes.RL_RANK,
    ),
)
RL_HEALTH_CHANGED: Final = definitions.EventDefinition(
    name="rl.health.changed",
    description="A health rule has become a warning or critical, or is no longer so",
    attributes=(
        attributes.RL_HEALTH_CODE,
        attributes.RL_HEALTH_STATE,
        attributes.RL_HEALTH_PREVIOUS_STATE,
        attributes.RL_HEALTH_ONSET_ITERATION,
        attributes.RL_HEALTH_METRIC,
        attributes.RL_HEALTH_VALUE,
        attributes.RL_HEALTH_THRESHOLD,
        attributes.RL_HEALTH_EVIDENCE,
        attributes.RL_HEALTH_NEXT,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
    ),
)
RL_HEALTH_FINAL: Final = definitions.EventDefinition(
    name="rl.health.final",
    description="The states of all health rules at the end of the process, once per loop that was judged",
    attributes=(
        attributes.RL_HEALTH_CRITICAL,
        attributes.RL_HEALTH_WARNING,
        attributes.RL_HEALTH_HEALTHY,
        attributes.RL_HEALTH_UNOBSERVED,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
    ),
)
RL_LOG_ERROR: Final = definitions.EventDefinition(
    name="rl.log.error",
    description="The program has logged errors at a place, or an asyncio task died of an exception that nobody awaits",
    attributes=(
        attributes.RL_LOG_LOGGER,
        attributes.RL_LOG_RECORDS,
        attributes.RL_EXCEPTION_NEVER_RETRIEVED,
        attributes.EXCEPTION_TYPE,
        attributes.EXCEPTION_MESSAGE,
        attributes.CODE_FILE_PATH,
        attributes.CODE_LINE_NUMBER,
        attributes.CODE_FUNCTION_NAME,
        attributes.RL_LOOP_ITERATION,
    ),
)
RL_PROCESS_EXCEPTION: Final = definitions.EventDefinition(
    name="rl.process.exception",
    description="An uncaught exception ended the process (FATAL; Ctrl-C WARN), or a thread or cell of it (ERROR)",
    attributes=(
        attributes.EXCEPTION_TYPE,
        attributes.EXCEPTION_MESSAGE,
        attributes.EXCEPTION_STACKTRACE,
        attributes.RL_CAUSE_EXCEPTION_TYPE,
        attributes.RL_CAUSE_EXCEPTION_MESSAGE,
        attributes.CODE_FILE_PATH,
        attributes.CODE_LINE_NUMBER,
        attributes.CODE_FUNCTION_NAME,
        attributes.RL_EXCEPTION_LIBRARY,
        attributes.RL_EXCEPTION_PROGRAM_LOCATION,
        attributes.THREAD_NAME,
        attributes.RL_EXCEPTION_CELL,
        attributes.RL_RANK,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_EXCEPTION_IN_STEP,
        attributes.RL_PHASE,
    ),
)
RL_PROCESS_EXIT: Final = definitions.EventDefinition(
    name="rl.process.exit",
    description="A child ended otherwise than with status 0, as its parent saw it; ERROR, after SIGTERM INFO",
    attributes=(
        attributes.RL_CHILD_PID,
        attributes.RL_CHILD_RANK,
        attributes.RL_CHILD_SIGNAL,
        attributes.RL_CHILD_OOM_KILLS,
        attributes.PROCESS_EXIT_CODE,
    ),
)
RL_RUN_CONFIGURATION: Final = definitions.EventDefinition(
    name="rl.run.configuration",
    description="Settings of the program as one source knows them, from the leading process",
    attributes=(
        attributes.RL_RUN_ID,
        attributes.RL_RUN_ATTEMPT,
        attributes.RL_RUN_CONFIGURATION_SOURCE,
        attributes.RL_RUN_CONFIGURATION_LEFT_OUT,
    ),
)
RL_RUN_END: Final = definitions.EventDefinition(
    name="rl.run.end",
    description="A process that had begun ended in order; without it, the process was killed",
    attributes=(
        attributes.RL_RUN_ID,
        attributes.RL_RUN_ATTEMPT,
        attributes.RL_RUN_END_STATUS,
        attributes.RL_RUN_RESULT_LEFT_OUT,
        attributes.RL_RUN_END_SIGNAL,
        attributes.PROCESS_EXIT_CODE,
        attributes.PROCESS_CREATION_TIME,
        attributes.PROCESS_COMMAND_ARGS,
        attributes.VCS_REF_HEAD_REVISION,
        attributes.RL_RUN_START_UP_DURATION,
        attributes.RL_TELEMETRY_START_UP_DURATION,
        attributes.RL_RUN_LIBRARY_VERSIONS,
        attributes.RL_RUN_SEED,
        attributes.RL_MODEL_NAME,
        attributes.RL_DATASET_NAME,
        attributes.ERROR_TYPE,
    ),
)
RL_RUN_PROGRAM: Final = definitions.EventDefinition(
    name="rl.run.program",
    description="Program of the leading process, seconds after its first record and again when more is known",
    attributes=(
        attributes.PROCESS_CREATION_TIME,
        attributes.PROCESS_COMMAND_ARGS,
        attributes.VCS_REF_HEAD_REVISION,
        attributes.RL_RUN_START_UP_DURATION,
        attributes.RL_TELEMETRY_START_UP_DURATION,
        attributes.RL_RUN_LIBRARY_VERSIONS,
        attributes.RL_RUN_SEED,
        attributes.RL_MODEL_NAME,
        attributes.RL_DATASET_NAME,
    ),
)
RL_RUN_START: Final = definitions.EventDefinition(
    name="rl.run.start",
    description="A rank or driver has begun and knows its identity, or another process has made its first record",
    attributes=(
        attributes.RL_RUN_ID,
        attributes.RL_RUN_ATTEMPT,
    ),
)
RL_STEP: Final = definitions.EventDefinition(
    name="rl.step",
    description="Exact values of one log call, or of one step of a program; the body maps keys to values",
    attributes=(
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
        attributes.RL_LOOP_SOURCE,
        attributes.RL_STEP_FIRST,
        attributes.RL_STEP_LAST,
    ),
)
RL_STRAGGLER: Final = definitions.EventDefinition(
    name="rl.straggler",
    description="A rank makes the others wait again and again; severity WARN",
    attributes=(
        attributes.RL_STRAGGLER_RANK,
        attributes.RL_STRAGGLER_HOST,
        attributes.RL_PHASE,
        attributes.RL_STRAGGLER_LOST_TIME,
        attributes.RL_STRAGGLER_LOST_SHARE,
        attributes.RL_STRAGGLER_ALONE_LOST_TIME,
        attributes.RL_STRAGGLER_ALL_LOST_TIME,
        attributes.RL_STRAGGLER_BESIDE,
        attributes.RL_STRAGGLER_FIRST_ITERATION,
        attributes.RL_LOOP_NAME,
        attributes.RL_LOOP_ITERATION,
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
    ),
)
RL_STRAGGLER_END: Final = definitions.EventDefinition(
    name="rl.straggler.end",
    description="The rank that an event rl.straggler has named makes the others wait no more",
    attributes=(
        attributes.RL_STRAGGLER_RANK,
        attributes.RL_STRAGGLER_HOST,
        attributes.RL_PHASE,
        attributes.RL_STRAGGLER_LOST_TIME,
        attributes.RL_STRAGGLER_LOST_SHARE,
        attributes.RL_STRAGGLER_ALONE_LOST_TIME,
        attributes.RL_STRAGGLER_ALL_LOST_TIME,
        attributes.RL_STRAGGLER_BESIDE,
        attributes.RL_STRAGGLER_FIRST_ITERATION,
        attributes.RL_LOOP_NAME,
        attributes.RL_LOOP_ITERATION,
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
    ),
)
RL_SYNC_PROBLEM: Final = definitions.EventDefinition(
    name="rl.sync.problem",
    description="A sync has not brought the trainer's weights to an engine, or not all; severity WARN",
    attributes=(
        attributes.RL_SYNC_VERDICT,
        attributes.RL_SYNC_OPERATION,
        attributes.RL_SYNC_UPDATES_BEHIND,
        attributes.RL_SYNC_TENSORS_COMPARED,
        attributes.RL_SYNC_TENSORS_CHANGED,
        attributes.RL_SYNC_TENSORS_BEHIND,
        attributes.RL_SYNC_TENSORS_NAMES,
        attributes.RL_POLICY_VERSION,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
    ),
)
RL_TOOL_RETURNED: Final = definitions.EventDefinition(
    name="rl.tool.returned",
    description="A request of a trajectory gives a model the result of a tool that it asked for",
    attributes=(
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_TOOL_CALL_ID,
        attributes.RL_TOOL_ROUND_TRIP,
        attributes.RL_TOOL_RESULT_SIZE,
        attributes.RL_ROLLOUT_TURN,
    ),
)
RL_TOOL_UNKNOWN: Final = definitions.EventDefinition(
    name="rl.tool.unknown",
    description="A model asked for a tool that the agent does not have",
    attributes=(
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_AGENT_NAME,
    ),
)
RL_TRAJECTORIES: Final = definitions.EventDefinition(
    name="rl.trajectories",
    description="Numbers of the samples that ended in a process in one iteration, a row per sample and no content",
    attributes=(
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
        attributes.RL_TRAJECTORIES_STEP,
        attributes.RL_TRAJECTORIES_CALLER_PID,
        attributes.RL_TRAJECTORIES_RESTARTS,
        attributes.RL_TRAJECTORIES_SOURCE,
        attributes.RL_TRAJECTORIES_STARTED,
        attributes.RL_TRAJECTORIES_LEFT_OUT,
        attributes.RL_ADVANTAGE_ESTIMATOR,
        attributes.RL_GROUP_SIZE,
    ),
)
RL_TRAJECTORIES_CHANGES: Final = definitions.EventDefinition(
    name="rl.trajectories.changes",
    description="Later judgements and scores of trajectories, and the calls of their child processes",
    attributes=(
        attributes.RL_TRAJECTORIES_LEFT_OUT,
        attributes.RL_ADVANTAGE_ESTIMATOR,
    ),
)
RL_TRAJECTORIES_PENDING: Final = definitions.EventDefinition(
    name="rl.trajectories.pending",
    description="Copy of rows of a step that is still open; the step's rl.trajectories has all of them",
    attributes=(
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
        attributes.RL_TRAJECTORIES_STEP,
        attributes.RL_TRAJECTORIES_CALLER_PID,
        attributes.RL_TRAJECTORIES_RESTARTS,
        attributes.RL_TRAJECTORIES_SOURCE,
        attributes.RL_ADVANTAGE_ESTIMATOR,
        attributes.RL_GROUP_SIZE,
    ),
)
RL_TRAJECTORY_CONTENT: Final = definitions.EventDefinition(
    name="rl.trajectory.content",
    description="Prompt and completion of one sample that a trainer made in a batch",
    attributes=(
        attributes.RL_ROLLOUT_ID,
        attributes.RL_TRAJECTORY_REASON,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_GROUP_ID,
        attributes.RL_POLICY_VERSION,
        attributes.RL_ROLLOUT_REWARD,
        attributes.RL_ROLLOUT_ADVANTAGE,
        attributes.RL_ROLLOUT_STATUS,
        attributes.RL_ROLLOUT_DISCARD_REASON,
        attributes.RL_ROLLOUT_TRAINED,
        attributes.RL_ROLLOUT_TURNS,
        attributes.RL_ROLLOUT_MODEL_CALLS,
        attributes.RL_ROLLOUT_MODEL_ERRORS,
        attributes.RL_ROLLOUT_JUDGE_CALLS,
        attributes.RL_ROLLOUT_JUDGE_ERRORS,
        attributes.RL_ROLLOUT_JUDGE_INPUT_TOKENS,
        attributes.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS,
        attributes.RL_ROLLOUT_TOOL_MODEL_CALLS,
        attributes.RL_ROLLOUT_TOOL_MODEL_ERRORS,
        attributes.RL_ROLLOUT_TOOL_MODEL_INPUT_TOKENS,
        attributes.RL_ROLLOUT_TOOL_MODEL_OUTPUT_TOKENS,
        attributes.RL_ROLLOUT_TOOL_CALLS,
        attributes.RL_ROLLOUT_TOOL_ERRORS,
        attributes.RL_ROLLOUT_TOOL_RETRIES,
        attributes.RL_ROLLOUT_REPEATED_CALLS,
        attributes.RL_ROLLOUT_REPEATED_TOOL,
        attributes.RL_ROLLOUT_SPAN_ERRORS,
        attributes.RL_ROLLOUT_SERVICE_CALLS,
        attributes.RL_ROLLOUT_SERVICE_SECONDS,
        attributes.RL_ROLLOUT_INPUT_TOKENS,
        attributes.RL_ROLLOUT_OUTPUT_TOKENS,
        attributes.RL_ROLLOUT_STOP_REASON,
        attributes.RL_ROLLOUT_POLICY_VERSION_MIN,
        attributes.RL_ROLLOUT_POLICY_VERSION_MAX,
        attributes.RL_ROLLOUT_VERSIONS_BEHIND,
        attributes.RL_ROLLOUT_SUSPECT,
        attributes.RL_ROLLOUT_SUCCESS,
        attributes.GEN_AI_INPUT_MESSAGES,
        attributes.GEN_AI_OUTPUT_MESSAGES,
    ),
)
RL_WAIT: Final = definitions.EventDefinition(
    name="rl.wait",
    description="A part of the run outside of steps takes longer than the limit; the body has all stacks; WARN",
    attributes=(
        attributes.RL_WAIT_FOR,
        attributes.RL_WAIT_MOVES,
        attributes.RL_HANG_DURATION,
        attributes.RL_HANG_LIMIT,
        attributes.RL_RANK,
        attributes.RL_LOOP_ITERATION,
    ),
)
RL_WAIT_END: Final = definitions.EventDefinition(
    name="rl.wait.end",
    description="A part of the run that an rl.wait event told of is over",
    attributes=(
        attributes.RL_WAIT_FOR,
        attributes.RL_HANG_DURATION,
        attributes.RL_RANK,
    ),
)
RL_WORKER_END: Final = definitions.EventDefinition(
    name="rl.worker.end",
    description="A worker has ended, as the process knows from the cluster; WARN where the program has not ended it",
    attributes=(
        attributes.RL_WORKER_ID,
        attributes.RL_WORKER_NAME,
        attributes.RL_WORKER_END_REASON,
        attributes.RL_WORKER_END_EXPECTED,
        attributes.RL_WORKER_RESTARTS,
        attributes.RL_CHILD_PID,
    ),
)
TORCH_DISTRIBUTED_COLLECTIVE: Final = definitions.EventDefinition(
    name="torch.distributed.collective",
    description="One of the slowest collectives of an iteration, as a span event on rl.rank.step",
    attributes=(
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE,
        attributes.TORCH_DISTRIBUTED_SOURCE,
        attributes.TORCH_DISTRIBUTED_DURATION,
        attributes.TORCH_DISTRIBUTED_MESSAGE_SIZE,
    ),
)
TORCH_DISTRIBUTED_COLLECTIVES: Final = definitions.EventDefinition(
    name="torch.distributed.collectives",
    description="Device times of the collectives of one rank since its previous event",
    attributes=(
        attributes.TORCH_DISTRIBUTED_TIMING,
        attributes.TORCH_DISTRIBUTED_COLLECTIVES_LEFT_OUT,
    ),
)
