"""Spans: generated; edit instrumentation/registry and run `make generate`."""

from __future__ import annotations

from typing import Final

from otel_rl.semconv import attributes, definitions

GEN_AI_EMBEDDINGS: Final = definitions.SpanDefinition(
    type="gen_ai.embeddings",
    kind="client",
    description="A call to a model that embeds",
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
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_EXECUTE_TOOL: Final = definitions.SpanDefinition(
    type="gen_ai.execute_tool",
    kind="internal",
    description="One execution of a tool",
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_TOOL_TYPE,
        attributes.GEN_AI_TOOL_CALL_ID,
        attributes.GEN_AI_TOOL_CALL_ARGUMENTS,
        attributes.GEN_AI_TOOL_CALL_RESULT,
        attributes.GEN_AI_AGENT_NAME,
        attributes.RL_SAMPLING_REASON,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_INFERENCE: Final = definitions.SpanDefinition(
    type="gen_ai.inference",
    kind="client",
    description="A call to a model that generates",
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
        attributes.GEN_AI_RESPONSE_FINISH_REASONS,
        attributes.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        attributes.GEN_AI_USAGE_OUTPUT_TOKENS,
        attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        attributes.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        attributes.GEN_AI_AGENT_NAME,
        attributes.GEN_AI_INPUT_MESSAGES,
        attributes.GEN_AI_OUTPUT_MESSAGES,
        attributes.GEN_AI_SYSTEM_INSTRUCTIONS,
        attributes.GEN_AI_TOOL_DEFINITIONS,
        attributes.RL_INFERENCE_STREAM_ENDED,
        attributes.RL_INFERENCE_TOKEN_IDS_COUNT,
        attributes.RL_INFERENCE_WEIGHT_VERSION,
        attributes.RL_INFERENCE_SERVER_QUEUE_TIME,
        attributes.RL_INFERENCE_SERVER_TIME_TO_FIRST_TOKEN,
        attributes.RL_INFERENCE_SERVER_GENERATION_TIME,
        attributes.RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED,
        attributes.RL_INFERENCE_ENGINE,
    ),
)
GEN_AI_INVOKE_AGENT: Final = definitions.SpanDefinition(
    type="gen_ai.invoke_agent",
    kind="internal",
    description="One invocation of an agent",
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_AGENT_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.GEN_AI_CONVERSATION_ID,
        attributes.GEN_AI_USAGE_INPUT_TOKENS,
        attributes.GEN_AI_USAGE_OUTPUT_TOKENS,
        attributes.GEN_AI_INPUT_MESSAGES,
        attributes.GEN_AI_OUTPUT_MESSAGES,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_INVOKE_WORKFLOW: Final = definitions.SpanDefinition(
    type="gen_ai.invoke_workflow",
    kind="internal",
    description="One invocation of a workflow of agents",
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_WORKFLOW_NAME,
        attributes.GEN_AI_CONVERSATION_ID,
        attributes.GEN_AI_INPUT_MESSAGES,
        attributes.GEN_AI_OUTPUT_MESSAGES,
        attributes.ERROR_TYPE,
    ),
)
RL_AGENT_NODE: Final = definitions.SpanDefinition(
    type="rl.agent.node",
    kind="internal",
    description="One run of a node of an agent's graph, or of a task that a node started",
    attributes=(
        attributes.RL_AGENT_NODE_NAME,
        attributes.GEN_AI_AGENT_NAME,
        attributes.ERROR_TYPE,
    ),
)
RL_BACKWARD: Final = definitions.SpanDefinition(
    type="rl.backward",
    kind="internal",
    description="Backward pass",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_CHECKPOINT: Final = definitions.SpanDefinition(
    type="rl.checkpoint",
    kind="internal",
    description="Saving a checkpoint",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_DATA_WAIT: Final = definitions.SpanDefinition(
    type="rl.data_wait",
    kind="internal",
    description="Waiting for the data of an iteration",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_EVALUATE: Final = definitions.SpanDefinition(
    type="rl.evaluate",
    kind="internal",
    description="Evaluation",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_FORWARD: Final = definitions.SpanDefinition(
    type="rl.forward",
    kind="internal",
    description="Forward pass and loss",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_GENERATE: Final = definitions.SpanDefinition(
    type="rl.generate",
    kind="internal",
    description="Generation of tokens",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_LOG_PROBS: Final = definitions.SpanDefinition(
    type="rl.log_probs",
    kind="internal",
    description="Log-probabilities of samples under the policy or the reference",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_LOOP: Final = definitions.SpanDefinition(
    type="rl.loop",
    kind="internal",
    description="One training iteration (one optimizer step), the root of its trace",
    attributes=(
        attributes.RL_LOOP_ITERATION,
        attributes.RL_RUN_ID,
        attributes.RL_RUN_ATTEMPT,
        attributes.RL_LOOP_NAME,
        attributes.RL_MODEL_NAME,
        attributes.RL_LOSS_TYPE,
        attributes.RL_TRAIN_BATCH_SIZE,
        attributes.RL_SAMPLE_BATCH_SIZE,
        attributes.RL_SAMPLING_REASON,
        attributes.ERROR_TYPE,
    ),
)
RL_OPTIMIZER: Final = definitions.SpanDefinition(
    type="rl.optimizer",
    kind="internal",
    description="Optimizer step",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_RANK_STEP: Final = definitions.SpanDefinition(
    type="rl.rank.step",
    kind="internal",
    description="The work of one rank in an iteration, from the arrival of its data on",
    attributes=(
        attributes.RL_LOOP_ITERATION,
        attributes.RL_LOOP_NAME,
        attributes.RL_RANK,
        attributes.TORCH_DISTRIBUTED_CALLS,
        attributes.TORCH_DISTRIBUTED_BYTES,
        attributes.TORCH_DISTRIBUTED_HOST_TIME,
        attributes.TORCH_DISTRIBUTED_WAIT_TIME,
        attributes.TORCH_DISTRIBUTED_UNSEEN,
        attributes.RL_LOOP_CPU_TIME,
        attributes.RL_TELEMETRY_CPU_TIME,
        attributes.RL_LOOP_GC_TIME,
        attributes.RL_LOOP_COMPILE_TIME,
        attributes.RL_SAMPLING_REASON,
        attributes.ERROR_TYPE,
    ),
)
RL_REWARD: Final = definitions.SpanDefinition(
    type="rl.reward",
    kind="internal",
    description="Phase in which samples are scored; also one span per reward function, then with its name",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
        attributes.RL_REWARD_NAME,
    ),
)
RL_ROLLOUT: Final = definitions.SpanDefinition(
    type="rl.rollout",
    kind="internal",
    description="One trajectory, root of a trace of its own that is linked to the trace of its iteration",
    attributes=(
        attributes.RL_ROLLOUT_ID,
        attributes.RL_SAMPLE_ID,
        attributes.RL_GROUP_ID,
        attributes.RL_POLICY_VERSION,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_ROLLOUT_REWARD,
        attributes.RL_SAMPLING_REASON,
        attributes.ERROR_TYPE,
    ),
)
RL_RUN: Final = definitions.SpanDefinition(
    type="rl.run",
    kind="internal",
    description="The life of the process that speaks for the run, which is rank 0 or has no rank",
    attributes=(
        attributes.RL_RUN_ID,
        attributes.RL_RUN_ATTEMPT,
        attributes.ERROR_TYPE,
    ),
)
RL_SAMPLE: Final = definitions.SpanDefinition(
    type="rl.sample",
    kind="internal",
    description="Phase in which the policy makes samples",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_SYNC: Final = definitions.SpanDefinition(
    type="rl.sync",
    kind="internal",
    description="Phase in which new weights reach the inference engine",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_TRAIN: Final = definitions.SpanDefinition(
    type="rl.train",
    kind="internal",
    description="Phase in which the policy is updated",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
RL_WEIGHT_SYNC: Final = definitions.SpanDefinition(
    type="rl.weight_sync",
    kind="internal",
    description="Transfer of weights to the inference engine",
    attributes=(
        attributes.RL_PHASE,
        attributes.RL_LOOP_ITERATION,
        attributes.RL_SUSPENDED,
        attributes.RL_ACTIVE_DURATION,
        attributes.ERROR_TYPE,
    ),
)
