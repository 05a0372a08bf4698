"""Attribute keys and values: generated; edit instrumentation/registry and run `make generate`."""

# ruff: noqa: S105 - a key with the word token is no password
from __future__ import annotations

from types import MappingProxyType
from typing import Final

CODE_FILE_PATH: Final = "code.file.path"
"""Path of a source file, as Python knows it."""

CODE_FUNCTION_NAME: Final = "code.function.name"
"""Name of a function, with its module and class where they are known."""

CODE_LINE_NUMBER: Final = "code.line.number"
"""Line of a source file."""

CPU_MODE: Final = "cpu.mode"
"""Mode of the CPU."""

CPYTHON_GC_GENERATION: Final = "cpython.gc.generation"
"""Generation of objects that the garbage collector of CPython looked at."""

ERROR_TYPE: Final = "error.type"
"""Kind of the error that ended the work, as a low-cardinality name, e.g. the class of the exception."""

EXCEPTION_MESSAGE: Final = "exception.message"
"""Message of the exception."""

EXCEPTION_STACKTRACE: Final = "exception.stacktrace"
"""Traceback as the interpreter prints it."""

EXCEPTION_TYPE: Final = "exception.type"
"""Qualified class name of the exception."""

GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
"""Name of the agent."""

GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""Identity of the conversation, where the program has one."""

GEN_AI_EMBEDDINGS_DIMENSION_COUNT: Final = "gen_ai.embeddings.dimension.count"
"""Dimensions that embeddings were asked for."""

GEN_AI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
"""Reason for the score."""

GEN_AI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
"""Name of the evaluation; for a reward the name of its function."""

GEN_AI_EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
"""Reading of the score in words."""

GEN_AI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
"""Score that the evaluation gave."""

GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
"""Messages given to the model; content, captured on request only."""

GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
"""Name of the operation."""

GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
"""Messages that the model returned; content, captured on request only."""

GEN_AI_OUTPUT_TYPE: Final = "gen_ai.output.type"
"""Kind of content that was asked for."""

GEN_AI_PROMPT_NAME: Final = "gen_ai.prompt.name"
"""Name of the prompt."""

GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
"""Provider as the client's instrumentation knows it."""

GEN_AI_REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
"""Number of candidates asked for."""

GEN_AI_REQUEST_ENCODING_FORMATS: Final = "gen_ai.request.encoding_formats"
"""Forms that embeddings were asked for in; a client may ask for one by itself."""

GEN_AI_REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
"""Penalty on tokens by how often they occurred."""

GEN_AI_REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
"""Most tokens that may be generated."""

GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
"""Model that was asked for."""

GEN_AI_REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
"""Penalty on tokens that occurred."""

GEN_AI_REQUEST_SEED: Final = "gen_ai.request.seed"
"""Seed of the request."""

GEN_AI_REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
"""Sequences at which generation stops."""

GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
"""True where the answer was asked for as a stream."""

GEN_AI_REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
"""Sampling temperature."""

GEN_AI_REQUEST_TOP_K: Final = "gen_ai.request.top_k"
"""Number of most likely tokens that are sampled from."""

GEN_AI_REQUEST_TOP_P: Final = "gen_ai.request.top_p"
"""Nucleus sampling."""

GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
"""Reason for the end of generation, one per candidate."""

GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
"""Identity of the answer."""

GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
"""Model that answered."""

GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""Time from the request to the first chunk of the stream, in seconds."""

GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
"""System instructions; content, captured on request only."""

GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"
"""Kind of token."""

GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
"""Arguments of the tool call; content, captured on request only."""

GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
"""Identity of the tool call."""

GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
"""Result of the tool call; content, captured on request only."""

GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
"""Definitions of the tools offered to the model; content, captured on request only."""

GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
"""Name of the tool."""

GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
"""Kind of the tool; function, extension or datastore."""

GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
"""Input tokens that came from the server's cache."""

GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
"""Input tokens that the server wrote to its cache."""

GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""Tokens of the input."""

GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
"""Tokens of the output."""

GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
"""Output tokens spent on reasoning."""

GEN_AI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"
"""Name of the workflow."""

HOST_NAME: Final = "host.name"
"""Name of the host."""

HTTP_REQUEST_METHOD: Final = "http.request.method"
"""Method of the request; `_OTHER` where it is none of the known ones."""

HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
"""Status of the answer."""

HW_ID: Final = "hw.id"
"""Number of the device on its node, from 0."""

HW_TYPE: Final = "hw.type"
"""Kind of the device."""

JSONRPC_REQUEST_ID: Final = "jsonrpc.request.id"
"""Identity of the request in its session."""

MCP_METHOD_NAME: Final = "mcp.method.name"
"""Method of the request."""

MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
"""Version of the protocol that the two ends speak."""

MCP_RESOURCE_URI: Final = "mcp.resource.uri"
"""Resource that is read or subscribed to."""

MCP_SESSION_ID: Final = "mcp.session.id"
"""Identity of the session, where the transport gives it one (header `Mcp-Session-Id`)."""

NETWORK_PROTOCOL_NAME: Final = "network.protocol.name"
"""Protocol on top of the transport."""

NETWORK_TRANSPORT: Final = "network.transport"
"""Transport between the two ends."""

OPENAI_API_TYPE: Final = "openai.api.type"
"""Protocol of OpenAI for chats that a call speaks."""

OTEL_COMPONENT_NAME: Final = "otel.component.name"
"""Name of the instance among those of its kind in the process."""

OTEL_COMPONENT_TYPE: Final = "otel.component.type"
"""Kind of the queue, reader or exporter."""

PROCESS_COMMAND_ARGS: Final = "process.command_args"
"""The program and its arguments, without the interpreter; what looks like a secret is replaced by ***."""

PROCESS_CREATION_TIME: Final = "process.creation.time"
"""Moment at which the process was created, in UTC as ISO 8601; as the kernel has it, to 10 ms."""

PROCESS_EXIT_CODE: Final = "process.exit.code"
"""Exit status of the process."""

PROCESS_PID: Final = "process.pid"
"""Process id."""

RL_ACTIVE_DURATION: Final = "rl.active_duration"
"""Seconds of all stretches of a phase that was interrupted, on the span of the last one."""

RL_ADVANTAGE_ESTIMATOR: Final = "rl.advantage.estimator"
"""Formula by which the advantages come from the rewards, where it is known."""

RL_AGENT_HANDOFF_SOURCE: Final = "rl.agent.handoff.source"
"""Name of the agent that has handed over to this one."""

RL_AGENT_NODE_NAME: Final = "rl.agent.node.name"
"""Name of the node in the agent's graph, or of the task."""

RL_ALGORITHM: Final = "rl.algorithm"
"""Training algorithm."""

RL_CALL_ENDING: Final = "rl.call.ending"
"""Ending of a call that hung."""

RL_CALL_HANGING: Final = "rl.call.hanging"
"""Calls of that name that have been open for longer than the limit."""

RL_CALL_KIND: Final = "rl.call.kind"
"""Kind of a call."""

RL_CALL_NAME: Final = "rl.call.name"
"""Name by which calls are compared: the tool, the operation and the model, or the service."""

RL_CALL_USUAL_DURATION: Final = "rl.call.usual_duration"
"""Median of the last durations of calls of that name in the process, in seconds."""

RL_CAUSE_EXCEPTION_MESSAGE: Final = "rl.cause.exception.message"
"""Message of the exception at the root of the chain of causes."""

RL_CAUSE_EXCEPTION_TYPE: Final = "rl.cause.exception.type"
"""Class of the exception at the root of the chain of causes, where that is another one."""

RL_CGROUP_MEMORY_EVENT: Final = "rl.cgroup.memory.event"
"""Event that the kernel counts for the memory of a control group."""

RL_CHECKPOINT_BEST_METRIC: Final = "rl.checkpoint.best.metric"
"""Metric by which the trainer compares checkpoints, in its words."""

RL_CHECKPOINT_BEST_NAME: Final = "rl.checkpoint.best.name"
"""Name of the checkpoint that the trainer calls the best."""

RL_CHECKPOINT_BEST_VALUE: Final = "rl.checkpoint.best.value"
"""Value of the metric of the best checkpoint."""

RL_CHECKPOINT_DURATION: Final = "rl.checkpoint.duration"
"""Seconds that saving the checkpoint took, of one written in the background until it was written."""

RL_CHECKPOINT_FORMAT: Final = "rl.checkpoint.format"
"""Format of a checkpoint."""

RL_CHECKPOINT_NAME: Final = "rl.checkpoint.name"
"""Name of the checkpoint's file or folder, without the folder that it is in."""

RL_CHECKPOINT_NUMBER: Final = "rl.checkpoint.number"
"""Number of the checkpoint among those that the process has saved, from 1."""

RL_CHECKPOINT_OPERATION: Final = "rl.checkpoint.operation"
"""Operation on a checkpoint."""

RL_CHECKPOINT_SIZE: Final = "rl.checkpoint.size"
"""Size of the checkpoint in bytes, with all files of a folder."""

RL_CHECKPOINT_STATE: Final = "rl.checkpoint.state"
"""State of the checkpoint at the end of the process."""

RL_CHILD_OOM_KILLS: Final = "rl.child.oom_kills"
"""OOM kills that the cgroup of the parent has counted since the end of the child before."""

RL_CHILD_PID: Final = "rl.child.pid"
"""Process id of a child of the process that reports."""

RL_CHILD_RANK: Final = "rl.child.rank"
"""Rank of the child, where its parent gave it one."""

RL_CHILD_SIGNAL: Final = "rl.child.signal"
"""Signal that killed the child."""

RL_COMPILE_DURATION: Final = "rl.compile.duration"
"""Time that the compilation took, in seconds."""

RL_COMPILE_FUNCTION: Final = "rl.compile.function"
"""Name of the compiled function, with its file and line."""

RL_COMPILE_REASON: Final = "rl.compile.reason"
"""Reason for a recompilation, as torch.compile gives it; texts in it are replaced."""

RL_CUDA_DEVICE: Final = "rl.cuda.device"
"""Number of the CUDA device in the process, from 0."""

RL_CUDA_MEMORY_STATE: Final = "rl.cuda.memory.state"
"""State of memory in the CUDA allocator of PyTorch."""

RL_DATASET_NAME: Final = "rl.dataset.name"
"""Data set that the trainer was given; of files the kind of file."""

RL_DATASET_ROWS_AFTER: Final = "rl.dataset.rows.after"
"""Rows that this left."""

RL_DATASET_ROWS_BEFORE: Final = "rl.dataset.rows.before"
"""Rows of a data set before it was mapped or filtered."""

RL_ENGINE_ABORTED_SAMPLES: Final = "rl.engine.aborted_samples"
"""Candidates whose generation was aborted."""

RL_ENGINE_CACHED_TOKENS: Final = "rl.engine.cached_tokens"
"""Tokens of the prompts that the engine took from its prefix cache."""

RL_ENGINE_DECODE_ALLOC_WAIT_TIME: Final = "rl.engine.decode.alloc_wait_time"
"""Time from bootstrap to memory for the cache on the decode server, in seconds."""

RL_ENGINE_DECODE_BOOTSTRAP_TIME: Final = "rl.engine.decode.bootstrap_time"
"""Time in which the decode server met the prefill server, in seconds."""

RL_ENGINE_DECODE_PREALLOC_TIME: Final = "rl.engine.decode.prealloc_time"
"""Time in which the decode server reserved memory for the cache, in seconds."""

RL_ENGINE_DECODE_THROUGHPUT: Final = "rl.engine.decode_throughput"
"""Tokens per second of a request after its first token."""

RL_ENGINE_DECODE_TIME: Final = "rl.engine.decode_time"
"""Time from the first token of a request to its last one, in seconds."""

RL_ENGINE_FINISH_REASON: Final = "rl.engine.finish_reason"
"""Reason for the end of a candidate, in the words of the engine."""

RL_ENGINE_INPUT_TOKENS: Final = "rl.engine.input_tokens"
"""Tokens of the prompts; those of a prompt with several candidates once."""

RL_ENGINE_MAX: Final = "rl.engine.max"
"""Largest value of the requests of a step."""

RL_ENGINE_MEDIAN: Final = "rl.engine.median"
"""Median over the requests of a step, of each time that the step has a mean of."""

RL_ENGINE_OUTPUT_TOKENS: Final = "rl.engine.output_tokens"
"""Tokens that the engine generated."""

RL_ENGINE_P95: Final = "rl.engine.p95"
"""95th percentile over the requests of a step."""

RL_ENGINE_PREEMPTIONS: Final = "rl.engine.preemptions"
"""Times that the engine interrupted a request for lack of memory."""

RL_ENGINE_PREFILL_ALLOC_WAIT_TIME: Final = "rl.engine.prefill.alloc_wait_time"
"""Time from bootstrap to the queue of the prefill server, in seconds."""

RL_ENGINE_PREFILL_BOOTSTRAP_QUEUE_TIME: Final = "rl.engine.prefill.bootstrap_queue_time"
"""Time from the begin of bootstrap to the queue of the prefill server, in seconds."""

RL_ENGINE_PREFILL_BOOTSTRAP_TIME: Final = "rl.engine.prefill.bootstrap_time"
"""Time in which the prefill server met the decode server, in seconds."""

RL_ENGINE_PREFILL_RETRIES: Final = "rl.engine.prefill.retries"
"""Times that prefill servers began a request anew."""

RL_ENGINE_PREFILL_TRANSFER_QUEUE_TIME: Final = "rl.engine.prefill.transfer_queue_time"
"""Time from the end of prefill to the end of the transfer of the cache, in seconds."""

RL_ENGINE_PREFILL_TIME: Final = "rl.engine.prefill_time"
"""Time from the scheduling of a request to its first token, in seconds."""

RL_ENGINE_PROFILED_REQUESTS: Final = "rl.engine.profiled_requests"
"""Requests of which the engine reported times."""

RL_ENGINE_QUEUE_TIME: Final = "rl.engine.queue_time"
"""Time that a request waited before the engine scheduled it, in seconds."""

RL_ENGINE_REQUEST_TIME: Final = "rl.engine.request_time"
"""Time from the arrival of a request to its last token, in seconds."""

RL_ENGINE_REQUESTS: Final = "rl.engine.requests"
"""Requests that the engine has finished."""

RL_ENGINE_SAMPLES: Final = "rl.engine.samples"
"""Candidates that the engine generated."""

RL_ENGINE_STAGE: Final = "rl.engine.stage"
"""Stage of a request between separate prefill and decode servers."""

RL_ENGINE_TIME_TO_FIRST_TOKEN: Final = "rl.engine.time_to_first_token"
"""Time from the arrival of a request to its first token, in seconds."""

RL_ENGINE_TRANSFER_SIZE: Final = "rl.engine.transfer_size"
"""Size of the cache of a request that was transferred, in bytes."""

RL_ENGINE_TRANSFER_SPEED: Final = "rl.engine.transfer_speed"
"""Speed of the transfer of the cache of a request, in bytes per second."""

RL_ENGINE_TRANSFER_TIME: Final = "rl.engine.transfer_time"
"""Time that the cache of a request took from prefill server to decode server, in seconds."""

RL_ENGINE_TRUNCATED_SAMPLES: Final = "rl.engine.truncated_samples"
"""Candidates that ended at the largest number of tokens."""

RL_ENVIRONMENT_EVALUATION: Final = "rl.environment.evaluation"
"""The episodes ended within the phase rl.evaluate."""

RL_ENVIRONMENT_NAME: Final = "rl.environment.name"
"""Id under which the environment is registered, or the name of its class."""

RL_EVENT_LOOP_BLOCKED_DURATION: Final = "rl.event_loop.blocked.duration"
"""Seconds for which one piece of code blocked the event loop."""

RL_EVENT_LOOP_BLOCKED_NUMBER: Final = "rl.event_loop.blocked.number"
"""Number of the block in its process, from 1; numbers that are missing have no event."""

RL_EVENT_LOOP_BLOCKED_ONGOING: Final = "rl.event_loop.blocked.ongoing"
"""True where the event loop was still blocked at the event; one with the same number tells of its end."""

RL_EVENT_LOOP_BLOCKED_STATE: Final = "rl.event_loop.blocked.state"
"""State of the thread while its event loop was blocked."""

RL_EVENT_LOOP_BLOCKED_TOTAL: Final = "rl.event_loop.blocked.total"
"""Seconds of all blocks of the process up to the event, also of those without an event."""

RL_EVENT_LOOP_COROUTINE: Final = "rl.event_loop.coroutine"
"""Coroutine of the asyncio task that blocked the event loop."""

RL_EVENT_LOOP_MODEL_CALLS: Final = "rl.event_loop.model_calls"
"""Model calls that were open in the event loop while it was blocked."""

RL_EVENT_LOOP_ROLLOUTS: Final = "rl.event_loop.rollouts"
"""Rollouts that were open in the event loop while it was blocked; with the one that blocked it."""

RL_EVENT_LOOP_TASK: Final = "rl.event_loop.task"
"""Name of the asyncio task that blocked the event loop."""

RL_EXCEPTION_CELL: Final = "rl.exception.cell"
"""Execution count of the notebook's cell that raised it."""

RL_EXCEPTION_IN_STEP: Final = "rl.exception.in_step"
"""True where the iteration was open and was not completed."""

RL_EXCEPTION_LIBRARY: Final = "rl.exception.library"
"""Installed package in whose code the root cause was raised; absent for the program's own files."""

RL_EXCEPTION_NEVER_RETRIEVED: Final = "rl.exception.never_retrieved"
"""True for the exception of an asyncio task or future that nobody has awaited."""

RL_EXCEPTION_PROGRAM_LOCATION: Final = "rl.exception.program.location"
"""Line of the program's own files that was being executed, where the root cause was raised elsewhere."""

RL_GROUP_ID: Final = "rl.group.id"
"""Identity of the group of trajectories of the same prompt whose rewards are compared."""

RL_GROUP_SIZE: Final = "rl.group.size"
"""Samples of a group."""

RL_HANG_DURATION: Final = "rl.hang.duration"
"""Seconds without progress."""

RL_HANG_LIMIT: Final = "rl.hang.limit"
"""Seconds without progress from which on the watchdog reports a hang."""

RL_HEALTH_CODE: Final = "rl.health.code"
"""Rule of the health of a run."""

RL_HEALTH_CRITICAL: Final = "rl.health.critical"
"""Codes of the rules that are critical."""

RL_HEALTH_EVIDENCE: Final = "rl.health.evidence"
"""The evidence in one sentence."""

RL_HEALTH_HEALTHY: Final = "rl.health.healthy"
"""Codes of the rules that found nothing."""

RL_HEALTH_METRIC: Final = "rl.health.metric"
"""Key of the trainer, or name of the metric, that told most."""

RL_HEALTH_NEXT: Final = "rl.health.next"
"""Things to look at next, the most telling first."""

RL_HEALTH_ONSET_ITERATION: Final = "rl.health.onset_iteration"
"""Iteration at which the evidence began, not the one at which the rule was sure."""

RL_HEALTH_PREVIOUS_STATE: Final = "rl.health.previous_state"
"""State of the rule before, in the words of rl.health.state."""

RL_HEALTH_STATE: Final = "rl.health.state"
"""State of a rule."""

RL_HEALTH_THRESHOLD: Final = "rl.health.threshold"
"""Threshold that this value has passed."""

RL_HEALTH_UNOBSERVED: Final = "rl.health.unobserved"
"""Codes of the rules that could not judge."""

RL_HEALTH_VALUE: Final = "rl.health.value"
"""Value of that metric that told most."""

RL_HEALTH_WARNING: Final = "rl.health.warning"
"""Codes of the rules that warn."""

RL_INFERENCE_EARLIER_MESSAGES: Final = "rl.inference.earlier_messages"
"""Input messages before those of this span, which an earlier call of the trajectory has recorded."""

RL_INFERENCE_EARLIER_SPAN_ID: Final = "rl.inference.earlier_span_id"
"""Span of the model call whose first input messages the left out ones are."""

RL_INFERENCE_ENGINE: Final = "rl.inference.engine"
"""Inference engine that answered, where the answer shows it."""

RL_INFERENCE_INVALID_TOOL_CALLS: Final = "rl.inference.invalid_tool_calls"
"""Names of the tools that the answer asks for with arguments that are no JSON, one for each such call."""

RL_INFERENCE_LOGPROBS_COUNT: Final = "rl.inference.logprobs.count"
"""Log-probabilities of output tokens that the answer carried."""

RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED: Final = "rl.inference.output_tokens.estimated"
"""Chunks with content, counted by the client since the server sent no token count."""

RL_INFERENCE_RETRIES: Final = "rl.inference.retries"
"""Number of times that the client sent the request again."""

RL_INFERENCE_ROLE: Final = "rl.inference.role"
"""Part of the model in the trajectory, where one is open or the part is known without."""

RL_INFERENCE_STREAM_ENDED: Final = "rl.inference.stream.ended"
"""End of the reading of the stream."""

RL_INFERENCE_TOKEN_IDS_COUNT: Final = "rl.inference.token_ids.count"
"""Token ids that the answer carried."""

RL_INFERENCE_TOOL_CALLS: Final = "rl.inference.tool_calls"
"""Names of the tools that the answer asks for."""

RL_INFERENCE_WEIGHT_VERSION: Final = "rl.inference.weight_version"
"""Version of the weights that the server says it answered with."""

RL_INFERENCE_WEIGHT_VERSION_TOKENS: Final = "rl.inference.weight_version_tokens"
"""Output tokens that each of these versions made."""

RL_INFERENCE_WEIGHT_VERSIONS: Final = "rl.inference.weight_versions"
"""Versions of the weights that made the answer, in the order of its tokens, if there are several."""

RL_JOB_ID: Final = "rl.job.id"
"""Identity that the launcher or scheduler gave the job."""

RL_LAUNCHER: Final = "rl.launcher"
"""Launcher that started the process."""

RL_LOCAL_RANK: Final = "rl.local_rank"
"""Rank of the process on its node, from 0."""

RL_LOG_LOGGER: Final = "rl.log.logger"
"""Name of the logger."""

RL_LOG_RECORDS: Final = "rl.log.records"
"""Records of errors at this place so far."""

RL_LOOP_COMPILE_TIME: Final = "rl.loop.compile_time"
"""Time that torch.compile took for what it compiled in the iteration, in seconds."""

RL_LOOP_CPU_STEPS: Final = "rl.loop.cpu_steps"
"""Iterations that the CPU times are of; several where guessed ones follow each other."""

RL_LOOP_CPU_TIME: Final = "rl.loop.cpu_time"
"""CPU time of the process in its latest iterations, from the end of the one before them, in seconds."""

RL_LOOP_CPU_WAIT_TIME: Final = "rl.loop.cpu_wait_time"
"""Time for which the thread of these iterations was ready to run and had no CPU, in seconds."""

RL_LOOP_GC_TIME: Final = "rl.loop.gc_time"
"""Time for which the garbage collector of Python stopped the process in the iteration, in seconds."""

RL_LOOP_ITERATION: Final = "rl.loop.iteration"
"""Training iteration, numbered as the trainer's global step after its increment."""

RL_LOOP_MEMORY: Final = "rl.loop.memory"
"""Resident memory of the process without file and shared pages, at the iteration's end, in bytes."""

RL_LOOP_NAME: Final = "rl.loop.name"
"""Name that the program gave the loop, where a process runs several at once."""

RL_LOOP_SAMPLES: Final = "rl.loop.samples"
"""Samples that the data loaders gave this rank for the iteration."""

RL_LOOP_SOURCE: Final = "rl.loop.source"
"""Source of the beginnings and ends of the loop's iterations."""

RL_LOSS_TYPE: Final = "rl.loss.type"
"""Kind of loss, in the words of the trainer."""

RL_MODEL_NAME: Final = "rl.model.name"
"""Model that is trained, as the trainer knows it; of a model in a folder, the name of the folder."""

RL_NODE_RANK: Final = "rl.node.rank"
"""Rank of the node in the run, from 0."""

RL_PHASE: Final = "rl.phase"
"""Part of an iteration."""

RL_POLICY_AGE: Final = "rl.policy.age"
"""Seconds since the engine got its weights, at the begin of a call; of a step their mean."""

RL_POLICY_VERSION: Final = "rl.policy.version"
"""Version of the policy that made the trajectory, e.g. the iteration whose weights it used."""

RL_RANK: Final = "rl.rank"
"""Rank of the process in the run, from 0."""

RL_REWARD_INPUT: Final = "rl.reward.input"
"""Arguments of the reward function; content, captured on request only."""

RL_REWARD_JUDGE_CALLS: Final = "rl.reward.judge_calls"
"""Calls of judges that ended in the reward and are in no row of a trajectory, failed ones too."""

RL_REWARD_JUDGE_ERRORS: Final = "rl.reward.judge_errors"
"""Those of them that failed."""

RL_REWARD_JUDGE_INPUT_TOKENS: Final = "rl.reward.judge_input_tokens"
"""Input tokens of these calls, as far as servers said them."""

RL_REWARD_JUDGE_OUTPUT_TOKENS: Final = "rl.reward.judge_output_tokens"
"""Output tokens of these calls, as far as servers said them."""

RL_REWARD_JUDGE_SECONDS: Final = "rl.reward.judge_seconds"
"""Sum of the durations of these calls in seconds, also of several at once."""

RL_REWARD_NAME: Final = "rl.reward.name"
"""Name of the reward function."""

RL_REWARD_NAMES: Final = "rl.reward.names"
"""Names of the reward functions, in the order of their lists of scores."""

RL_REWARD_OUTPUT: Final = "rl.reward.output"
"""Result of the reward function; content, captured on request only."""

RL_REWARD_SCORES: Final = "rl.reward.scores"
"""Scores of all samples, a list per reward function."""

RL_REWARD_WEIGHT: Final = "rl.reward.weight"
"""Weight of the score in the reward of its trajectory, where it is not 1."""

RL_REWARD_WEIGHTS: Final = "rl.reward.weights"
"""Weights of the reward functions, in the order of their names; 0 for a part of another one."""

RL_ROLE: Final = "rl.role"
"""Role of the process in the run."""

RL_ROLLOUT_ADVANTAGE: Final = "rl.rollout.advantage"
"""Advantage that the trainer computed for the sample."""

RL_ROLLOUT_AGE: Final = "rl.rollout.age"
"""Seconds from the request for the sample until the trainer took it."""

RL_ROLLOUT_ATTEMPT: Final = "rl.rollout.attempt"
"""Number of the try at its sample, from 1, as the program says."""

RL_ROLLOUT_CHILD_CALLS: Final = "rl.rollout.child_calls"
"""Model and tool calls of the trajectory that were made in child processes."""

RL_ROLLOUT_CUMULATIVE_REWARDS: Final = "rl.rollout.cumulative_rewards"
"""Sum of the rewards of the turns up to each turn of the trajectory."""

RL_ROLLOUT_DISCARD_REASON: Final = "rl.rollout.discard_reason"
"""Reason not to use the trajectory."""

RL_ROLLOUT_END_TIME: Final = "rl.rollout.end_time"
"""End of a trajectory that belongs to no step, in ns since the Unix epoch."""

RL_ROLLOUT_ENGINE_VERSIONS: Final = "rl.rollout.engine_versions"
"""Highest version of the weights that each of the engines has answered the trajectory with."""

RL_ROLLOUT_ENGINE_VERSIONS_BEHIND: Final = "rl.rollout.engine_versions_behind"
"""Versions by which each of the engines was behind when the trajectory ended."""

RL_ROLLOUT_ENGINES: Final = "rl.rollout.engines"
"""Engines that have said the version of their weights in the trajectory, each a server and a model."""

RL_ROLLOUT_EVALUATION: Final = "rl.rollout.evaluation"
"""The trajectory ended within the phase rl.evaluate."""

RL_ROLLOUT_ID: Final = "rl.rollout.id"
"""Identity of the trajectory."""

RL_ROLLOUT_INPUT: Final = "rl.rollout.input"
"""Arguments of the function that makes the trajectory; content, captured on request only."""

RL_ROLLOUT_INPUT_TOKENS: Final = "rl.rollout.input_tokens"
"""Input tokens of the policy's model calls, or the prompt tokens of a trainer's sample."""

RL_ROLLOUT_JUDGE_CALLS: Final = "rl.rollout.judge_calls"
"""Calls of a judge in the trajectory, failed ones too; they are no turns."""

RL_ROLLOUT_JUDGE_ERRORS: Final = "rl.rollout.judge_errors"
"""Calls of a judge in the trajectory that failed."""

RL_ROLLOUT_JUDGE_INPUT_TOKENS: Final = "rl.rollout.judge_input_tokens"
"""Input tokens of the calls of a judge in the trajectory."""

RL_ROLLOUT_JUDGE_OUTPUT_TOKENS: Final = "rl.rollout.judge_output_tokens"
"""Output tokens of the calls of a judge in the trajectory."""

RL_ROLLOUT_METRIC_NAMES: Final = "rl.rollout.metric.names"
"""Names of the program's own values of a rollout, in the order of their lists of values."""

RL_ROLLOUT_METRIC_VALUES: Final = "rl.rollout.metric.values"
"""The program's own values of all rollouts, a list per name."""

RL_ROLLOUT_MODEL_CALLS: Final = "rl.rollout.model_calls"
"""Calls of the policy's model in the trajectory, failed ones too."""

RL_ROLLOUT_MODEL_ERRORS: Final = "rl.rollout.model_errors"
"""Calls of the policy's model in the trajectory that failed."""

RL_ROLLOUT_OUTPUT: Final = "rl.rollout.output"
"""Result of the function that makes the trajectory; content, captured on request only."""

RL_ROLLOUT_OUTPUT_TOKENS: Final = "rl.rollout.output_tokens"
"""Tokens that the policy's model made in the trajectory."""

RL_ROLLOUT_POLICY_VERSION_MAX: Final = "rl.rollout.policy_version.max"
"""Highest version of the weights that answered in the trajectory, as the engine says."""

RL_ROLLOUT_POLICY_VERSION_MIN: Final = "rl.rollout.policy_version.min"
"""Lowest version of the weights that answered in the trajectory, as the engine says."""

RL_ROLLOUT_REPEATED_CALLS: Final = "rl.rollout.repeated_calls"
"""Most calls of a tool by one agent in a row, with equal arguments and result; absent where none is."""

RL_ROLLOUT_REPEATED_TOOL: Final = "rl.rollout.repeated_tool"
"""The tool of these calls."""

RL_ROLLOUT_REWARD: Final = "rl.rollout.reward"
"""Weighted sum of the scores that the trajectory got in its own process before it ended."""

RL_ROLLOUT_SECONDS: Final = "rl.rollout.seconds"
"""Duration of the trajectory in seconds."""

RL_ROLLOUT_SERVICE_CALLS: Final = "rl.rollout.service_calls"
"""Requests of the trajectory to named services, failed ones too."""

RL_ROLLOUT_SERVICE_SECONDS: Final = "rl.rollout.service_seconds"
"""Seconds of the requests of the trajectory to named services, those at the same time added up."""

RL_ROLLOUT_SPAN_ERRORS: Final = "rl.rollout.span_errors"
"""Spans of the program's own, and requests to named services, in the trajectory that failed."""

RL_ROLLOUT_STATUS: Final = "rl.rollout.status"
"""Outcome of the trajectory."""

RL_ROLLOUT_STOP_REASON: Final = "rl.rollout.stop_reason"
"""Reason of the model to stop at the end of the trajectory, in the words of the engine."""

RL_ROLLOUT_SUCCESS: Final = "rl.rollout.success"
"""The trajectory has done its task, as the program says."""

RL_ROLLOUT_SUSPECT: Final = "rl.rollout.suspect"
"""The reward is the lowest that is given, and the trajectory or something in it failed."""

RL_ROLLOUT_TOKENS_BEHIND: Final = "rl.rollout.tokens_behind"
"""Output tokens of the trajectory that older weights made than the newest known at its end."""

RL_ROLLOUT_TOOL_CALLS: Final = "rl.rollout.tool_calls"
"""Calls of tools in the trajectory, failed ones too; an estimate where they lack the model's ids."""

RL_ROLLOUT_TOOL_ERRORS: Final = "rl.rollout.tool_errors"
"""Calls of tools in the trajectory that failed or were cancelled; absent if that is known of no call."""

RL_ROLLOUT_TOOL_MODEL_CALLS: Final = "rl.rollout.tool_model_calls"
"""Calls of a model inside of its tools in the trajectory, failed ones too; they are no turns."""

RL_ROLLOUT_TOOL_MODEL_ERRORS: Final = "rl.rollout.tool_model_errors"
"""Calls of a model inside of its tools in the trajectory that failed."""

RL_ROLLOUT_TOOL_MODEL_INPUT_TOKENS: Final = "rl.rollout.tool_model_input_tokens"
"""Input tokens of the calls of a model inside of its tools in the trajectory."""

RL_ROLLOUT_TOOL_MODEL_OUTPUT_TOKENS: Final = "rl.rollout.tool_model_output_tokens"
"""Output tokens of the calls of a model inside of its tools in the trajectory."""

RL_ROLLOUT_TOOL_RETRIES: Final = "rl.rollout.tool_retries"
"""Calls of tools in the trajectory that repeat the failed call before them, with the same arguments."""

RL_ROLLOUT_TRACE_ID: Final = "rl.rollout.trace_id"
"""Trace of the trajectory, where it has one of its own."""

RL_ROLLOUT_TRAINED: Final = "rl.rollout.trained"
"""The trainer takes the sample into its loss."""

RL_ROLLOUT_TURN: Final = "rl.rollout.turn"
"""Number of the turn in its trajectory, from 1; each answer of the model begins one."""

RL_ROLLOUT_TURN_REWARDS: Final = "rl.rollout.turn_rewards"
"""Reward of each turn of the trajectory, from the first; empty for a turn without one."""

RL_ROLLOUT_TURNS: Final = "rl.rollout.turns"
"""Answers of the policy's model in the trajectory."""

RL_ROLLOUT_VERSIONS_BEHIND: Final = "rl.rollout.versions_behind"
"""Versions by which the oldest weights of the trajectory are behind the newest known at its end."""

RL_RUN_ATTEMPT: Final = "rl.run.attempt"
"""Start of the run, scheduler restarts, elastic restarts and resume number, compared in this order."""

RL_RUN_CONFIGURATION_LEFT_OUT: Final = "rl.run.configuration.left_out"
"""Settings of the source that had no room."""

RL_RUN_CONFIGURATION_SOURCE: Final = "rl.run.configuration.source"
"""Trainer, tracker or framework that the settings come from."""

RL_RUN_END_SIGNAL: Final = "rl.run.end.signal"
"""Signal that ended the process in order, after what it had recorded was delivered."""

RL_RUN_END_STATUS: Final = "rl.run.end.status"
"""Way in which a process ended in order."""

RL_RUN_ID: Final = "rl.run.id"
"""Identity of the training run, the same in all its processes and restarts."""

RL_RUN_LIBRARY_VERSIONS: Final = "rl.run.library.versions"
"""Python and the loaded libraries that shape a run, each with its version."""

RL_RUN_PART: Final = "rl.run.part"
"""Activity of the process outside of steps."""

RL_RUN_RESULT_BEST: Final = "rl.run.result.best"
"""Best value, of keys of which it is known whether more or less is better."""

RL_RUN_RESULT_BEST_STEP: Final = "rl.run.result.best_step"
"""Iteration at which the best value was first logged."""

RL_RUN_RESULT_KEY: Final = "rl.run.result.key"
"""Key under which the program logged a value."""

RL_RUN_RESULT_LAST: Final = "rl.run.result.last"
"""Value that was logged last."""

RL_RUN_RESULT_LAST_STEP: Final = "rl.run.result.last_step"
"""Iteration at which it was logged."""

RL_RUN_RESULT_LEFT_OUT: Final = "rl.run.result.left_out"
"""Keys that had no room in the result."""

RL_RUN_SEED: Final = "rl.run.seed"
"""Seed that the trainer was given."""

RL_RUN_START_UP_DURATION: Final = "rl.run.start_up.duration"
"""Seconds from the creation of the process until its program could begin."""

RL_SAMPLE_BATCH_SIZE: Final = "rl.sample.batch_size"
"""Samples that are made at a time, over all ranks."""

RL_SAMPLE_ID: Final = "rl.sample.id"
"""Identity of the prompt or task in the data set, the same in all steps; with TRL a hash of the prompt."""

RL_SAMPLE_STATE: Final = "rl.sample.state"
"""Progress of the samples of a prompt."""

RL_SAMPLING_BEYOND_LIMIT: Final = "rl.sampling.beyond_limit"
"""1 in a rollout beyond the number of which a process sends the spans in any case."""

RL_SAMPLING_PRIORITY: Final = "rl.sampling.priority"
"""Wish of the producer, 1 (or more) to keep the trace, 0 (or absent) none."""

RL_SAMPLING_REASON: Final = "rl.sampling.reason"
"""Reason to keep the trace of this span; spans of step traces need none."""

RL_SERVICE: Final = "rl.service"
"""Name of the service, as `OTEL_RL_SERVICES` gives it."""

RL_SPAN_NAME: Final = "rl.span.name"
"""Name that the program gave the span, where the span has another."""

RL_STEP_FIRST: Final = "rl.step.first"
"""First iteration that the record covers."""

RL_STEP_LAST: Final = "rl.step.last"
"""Last iteration that the record covers."""

RL_STRAGGLER_ALL_LOST_TIME: Final = "rl.straggler.all_lost_time"
"""The same for all late ranks of the step; for one rank it is at most what that works longer."""

RL_STRAGGLER_ALONE_LOST_TIME: Final = "rl.straggler.alone_lost_time"
"""Seconds of it that mending this rank alone gives back; little where another rank is as late."""

RL_STRAGGLER_BESIDE: Final = "rl.straggler.beside"
"""Other ranks that are late in the same steps; absent without any."""

RL_STRAGGLER_FIRST_ITERATION: Final = "rl.straggler.first_iteration"
"""Iteration of the first compared step in which it was late."""

RL_STRAGGLER_HOST: Final = "rl.straggler.host"
"""Name of the host of the rank that makes the others wait."""

RL_STRAGGLER_LOST_SHARE: Final = "rl.straggler.lost_share"
"""The same as a share of the step, from 0 to 1."""

RL_STRAGGLER_LOST_TIME: Final = "rl.straggler.lost_time"
"""Seconds that a step would be shorter for the others if the late ranks worked as the fastest."""

RL_STRAGGLER_RANK: Final = "rl.straggler.rank"
"""Rank that makes the others wait."""

RL_SUSPENDED: Final = "rl.suspended"
"""The span is a stretch of a phase that another phase interrupted; a later span goes on with it."""

RL_SYNC_OPERATION: Final = "rl.sync.operation"
"""Operation on the weights, the memory or the caches of an engine, in the words of the engine."""

RL_SYNC_SIZE: Final = "rl.sync.size"
"""Bytes of the weights that the operation brings, where its arguments say it."""

RL_SYNC_TENSORS_BEHIND: Final = "rl.sync.tensors.behind"
"""Tensors of the engine that should have changed and have not."""

RL_SYNC_TENSORS_CHANGED: Final = "rl.sync.tensors.changed"
"""Tensors of the engine that have changed since the comparison before."""

RL_SYNC_TENSORS_COMPARED: Final = "rl.sync.tensors.compared"
"""Tensors of the engine that are compared with those of the trainer."""

RL_SYNC_TENSORS_NAMES: Final = "rl.sync.tensors.names"
"""Names of those tensors in the engine, the first 16."""

RL_SYNC_UPDATES_BEHIND: Final = "rl.sync.updates_behind"
"""Steps of the optimizers since the engine was last found to hold what the trainer holds."""

RL_SYNC_VERDICT: Final = "rl.sync.verdict"
"""Outcome of a comparison of the engine's weights with the trainer's."""

RL_SYSTEM_NAME: Final = "rl.system.name"
"""Post-training system that drives the run; the first specific one where there are several."""

RL_SYSTEM_VERSION: Final = "rl.system.version"
"""Version of the post-training system."""

RL_TELEMETRY_CPU_TIME: Final = "rl.telemetry.cpu_time"
"""CPU time that otel-rl took in the latest iterations of the process, in seconds."""

RL_TELEMETRY_DROP_REASON: Final = "rl.telemetry.drop.reason"
"""Reason for the drop."""

RL_TELEMETRY_INSTRUMENTOR: Final = "rl.telemetry.instrumentor"
"""Entry point name of the instrumentor."""

RL_TELEMETRY_SIGNAL: Final = "rl.telemetry.signal"
"""Signal that lost an item."""

RL_TELEMETRY_SITE: Final = "rl.telemetry.site"
"""Place in otel-rl where an error was caught."""

RL_TELEMETRY_START_UP_DURATION: Final = "rl.telemetry.start_up.duration"
"""Seconds of the start-up that otel-rl took."""

RL_TELEMETRY_THREAD: Final = "rl.telemetry.thread"
"""Threads on which otel-rl worked."""

RL_TOOL_ARGUMENTS_SIZE: Final = "rl.tool.arguments.size"
"""Size of the arguments of a tool call as JSON without blanks, in characters, escapes not counted."""

RL_TOOL_OUTCOME: Final = "rl.tool.outcome"
"""Outcome of the tool call, in the same words for every kind of tool."""

RL_TOOL_RESULT_SIZE: Final = "rl.tool.result.size"
"""Size of the result of a tool call as JSON without blanks, in characters, escapes not counted."""

RL_TOOL_RETRY: Final = "rl.tool.retry"
"""Number of the repetition of a failed call with the same arguments, from 1."""

RL_TOOL_ROUND_TRIP: Final = "rl.tool.round_trip"
"""Seconds between the answer that asks for a tool and the request with its result."""

RL_TRAIN_BATCH_SIZE: Final = "rl.train.batch_size"
"""Samples per optimizer step, over all ranks."""

RL_TRAINER_METRIC_KEY: Final = "rl.trainer.metric.key"
"""Key under which the trainer logged the value, unchanged."""

RL_TRAJECTORIES_CALLER_PID: Final = "rl.trajectories.caller_pid"
"""Process in whose step the rollouts began, where they ran in the worker of a pool."""

RL_TRAJECTORIES_LEFT_OUT: Final = "rl.trajectories.left_out"
"""Trajectories that ended and have no row, because there were too many."""

RL_TRAJECTORIES_RESTARTS: Final = "rl.trajectories.restarts"
"""Number of times that the steps of the loop had begun again, where they had."""

RL_TRAJECTORIES_SOURCE: Final = "rl.trajectories.source"
"""Origin of the samples of the record."""

RL_TRAJECTORIES_STARTED: Final = "rl.trajectories.started"
"""Trajectories that began in this process since its previous record."""

RL_TRAJECTORIES_STEP: Final = "rl.trajectories.step"
"""Step of the program's own loop in which the trajectories ended, whose rewards they are."""

RL_TRAJECTORY_REASON: Final = "rl.trajectory.reason"
"""Reason to record this sample on its own, of those of its batch."""

RL_WAIT_FOR: Final = "rl.wait.for"
"""Part of the run that takes long, by its rl.run.part, or data_loader for the wait for a batch."""

RL_WAIT_MOVES: Final = "rl.wait.moves"
"""True where the process or its children used a CPU, read or wrote in it."""

RL_WORKER_END_EXPECTED: Final = "rl.worker.end.expected"
"""True where the program itself has ended the worker."""

RL_WORKER_END_REASON: Final = "rl.worker.end.reason"
"""Reason of the end in the words of the cluster."""

RL_WORKER_ID: Final = "rl.worker.id"
"""Id of the actor that the process runs."""

RL_WORKER_NAME: Final = "rl.worker.name"
"""Class of the actor that the process runs, as its program names it."""

RL_WORKER_RESTARTS: Final = "rl.worker.restarts"
"""Number of times that the cluster has started the worker again."""

RL_WORLD_SIZE: Final = "rl.world_size"
"""Number of ranks of the run."""

RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
"""Code of the JSON-RPC error that the other end answered with."""

SERVER_ADDRESS: Final = "server.address"
"""Host name or address of the server, as the client addresses it."""

SERVER_PORT: Final = "server.port"
"""Port of the server."""

SERVICE_INSTANCE_ID: Final = "service.instance.id"
"""Identity of one process; a forked child gets a new one."""

SERVICE_NAME: Final = "service.name"
"""Logical name of the program; the stem of the script where the user gives none."""

SERVICE_VERSION: Final = "service.version"
"""Version of the program."""

SYSTEM_MEMORY_STATE: Final = "system.memory.state"
"""State of memory."""

TELEMETRY_DISTRO_NAME: Final = "telemetry.distro.name"
"""Name of the distribution that set telemetry up."""

TELEMETRY_DISTRO_VERSION: Final = "telemetry.distro.version"
"""Version of the distribution that set telemetry up."""

TELEMETRY_SDK_LANGUAGE: Final = "telemetry.sdk.language"
"""Language of the telemetry SDK."""

TELEMETRY_SDK_NAME: Final = "telemetry.sdk.name"
"""Name of the telemetry SDK."""

TELEMETRY_SDK_VERSION: Final = "telemetry.sdk.version"
"""Version of the telemetry SDK."""

THREAD_NAME: Final = "thread.name"
"""Name of the thread."""

TORCH_DISTRIBUTED_BYTES: Final = "torch.distributed.bytes"
"""Size of the tensors given to the collectives of the iteration, in bytes."""

TORCH_DISTRIBUTED_CALLS: Final = "torch.distributed.calls"
"""Collectives launched in the iteration."""

TORCH_DISTRIBUTED_COLLECTIVE_CREATED: Final = "torch.distributed.collective.created"
"""Moment at which the host enqueued each collective, in ns since the epoch."""

TORCH_DISTRIBUTED_COLLECTIVE_DURATION: Final = "torch.distributed.collective.duration"
"""Seconds of each collective on the device, from when this rank was ready there."""

TORCH_DISTRIBUTED_COLLECTIVE_GROUP: Final = "torch.distributed.collective.group"
"""Index of each collective's group in torch.distributed.groups."""

TORCH_DISTRIBUTED_COLLECTIVE_NUMBER: Final = "torch.distributed.collective.number"
"""Number of each collective in its group, alike in all ranks of the group."""

TORCH_DISTRIBUTED_COLLECTIVE_OPERATION: Final = "torch.distributed.collective.operation"
"""Operation of each collective."""

TORCH_DISTRIBUTED_COLLECTIVES_LEFT_OUT: Final = "torch.distributed.collectives.left_out"
"""Upper bound of the collectives without a row: overwritten, not timed, too many."""

TORCH_DISTRIBUTED_DURATION: Final = "torch.distributed.duration"
"""Host time spent in the collective, launching it and waiting for it, in seconds."""

TORCH_DISTRIBUTED_GROUP_NAME: Final = "torch.distributed.group.name"
"""Name of the process group."""

TORCH_DISTRIBUTED_GROUP_SIZE: Final = "torch.distributed.group.size"
"""Number of ranks in the process group."""

TORCH_DISTRIBUTED_GROUPS: Final = "torch.distributed.groups"
"""Process groups of the rows: name, description, ranks and a generation above 1, with tabs."""

TORCH_DISTRIBUTED_HOST_TIME: Final = "torch.distributed.host_time"
"""Host time spent launching the collectives of the iteration, in seconds."""

TORCH_DISTRIBUTED_MESSAGE_SIZE: Final = "torch.distributed.message.size"
"""Size of the tensors given to the collective, in bytes."""

TORCH_DISTRIBUTED_OPERATION: Final = "torch.distributed.operation"
"""Collective operation."""

TORCH_DISTRIBUTED_SEQUENCE_NUMBER: Final = "torch.distributed.sequence_number"
"""Number of the collective in its process group, from 1, alike in all ranks of the group."""

TORCH_DISTRIBUTED_SOURCE: Final = "torch.distributed.source"
"""Issuer of the collective."""

TORCH_DISTRIBUTED_TIMING: Final = "torch.distributed.timing"
"""State of the timing of NCCL's collectives."""

TORCH_DISTRIBUTED_UNSEEN: Final = "torch.distributed.unseen"
"""Lower bound of the iteration's collectives that were not seen, which no other figure contains."""

TORCH_DISTRIBUTED_WAIT_TIME: Final = "torch.distributed.wait_time"
"""Host time spent waiting for the collectives of the iteration, in seconds."""

URL_FULL: Final = "url.full"
"""Address of the request, without user, password, query and what looks like a token."""

URL_PATH: Final = "url.path"
"""Path of the request, without what looks like a token."""

URL_SCHEME: Final = "url.scheme"
"""Scheme of the request."""

VCS_REF_HEAD_REVISION: Final = "vcs.ref.head.revision"
"""Commit that is checked out in the program's folder."""


class CpuModeValues:
    """Known values of `cpu.mode`."""

    USER: Final = "user"
    """User space."""
    SYSTEM: Final = "system"
    """Kernel."""
    IDLE: Final = "idle"
    """Nothing to do."""
    IOWAIT: Final = "iowait"
    """Waiting for a disk."""
    STEAL: Final = "steal"
    """Taken by other virtual machines."""


class ErrorTypeValues:
    """Known values of `error.type`."""

    OTHER: Final = "_OTHER"
    """An error for which no name is known."""


class GenAiOperationNameValues:
    """Known values of `gen_ai.operation.name`."""

    CHAT: Final = "chat"
    """Chat completion."""
    TEXT_COMPLETION: Final = "text_completion"
    """Text completion."""
    GENERATE_CONTENT: Final = "generate_content"
    """Multimodal content generation."""
    EMBEDDINGS: Final = "embeddings"
    """Embeddings."""
    EXECUTE_TOOL: Final = "execute_tool"
    """Execution of a tool."""
    CREATE_AGENT: Final = "create_agent"
    """Creation of an agent."""
    INVOKE_AGENT: Final = "invoke_agent"
    """Invocation of an agent."""
    INVOKE_WORKFLOW: Final = "invoke_workflow"
    """Invocation of a workflow."""


class GenAiOutputTypeValues:
    """Known values of `gen_ai.output.type`."""

    TEXT: Final = "text"
    """Plain text."""
    JSON: Final = "json"
    """A JSON object."""
    IMAGE: Final = "image"
    """Image."""
    SPEECH: Final = "speech"
    """Speech."""


class GenAiProviderNameValues:
    """Known values of `gen_ai.provider.name`."""

    OPENAI: Final = "openai"
    """OpenAI or a server that speaks its protocol."""
    ANTHROPIC: Final = "anthropic"
    """Anthropic."""
    AZURE_AI_OPENAI: Final = "azure.ai.openai"
    """Azure OpenAI."""
    AWS_BEDROCK: Final = "aws.bedrock"
    """AWS Bedrock."""
    GCP_GEMINI: Final = "gcp.gemini"
    """Gemini."""
    GCP_VERTEX_AI: Final = "gcp.vertex_ai"
    """Vertex AI."""
    MISTRAL_AI: Final = "mistral_ai"
    """Mistral AI."""
    DEEPSEEK: Final = "deepseek"
    """DeepSeek."""
    GROQ: Final = "groq"
    """Groq."""
    PERPLEXITY: Final = "perplexity"
    """Perplexity."""
    X_AI: Final = "x_ai"
    """xAI."""
    COHERE: Final = "cohere"
    """Cohere."""
    AZURE_AI_INFERENCE: Final = "azure.ai.inference"
    """Azure AI Inference."""
    DASHSCOPE: Final = "dashscope"
    """DashScope of Alibaba Cloud; as its library and LoongSuite name it."""
    FIREWORKS_AI: Final = "fireworks_ai"
    """Fireworks AI; not of the conventions."""
    HUGGING_FACE: Final = "hugging_face"
    """Hugging Face; not of the conventions."""
    OLLAMA: Final = "ollama"
    """Ollama; not of the conventions."""
    OPENROUTER: Final = "openrouter"
    """OpenRouter; not of the conventions."""
    TOGETHER_AI: Final = "together_ai"
    """Together AI; not of the conventions."""
    OTHER: Final = "_OTHER"
    """A provider that is not known."""


class GenAiTokenTypeValues:
    """Known values of `gen_ai.token.type`."""

    INPUT: Final = "input"
    """Tokens of the input."""
    OUTPUT: Final = "output"
    """Tokens of the output."""


class HwTypeValues:
    """Known values of `hw.type`."""

    GPU: Final = "gpu"
    """Graphics processor."""


class NetworkTransportValues:
    """Known values of `network.transport`."""

    TCP: Final = "tcp"
    """TCP; that of HTTP."""
    UDP: Final = "udp"
    """UDP."""
    PIPE: Final = "pipe"
    """Pipe; that of standard input and output."""
    UNIX: Final = "unix"
    """Unix domain socket."""
    QUIC: Final = "quic"
    """QUIC."""


class OpenaiApiTypeValues:
    """Known values of `openai.api.type`."""

    RESPONSES: Final = "responses"
    """Responses."""
    CHAT_COMPLETIONS: Final = "chat_completions"
    """Chat completions."""


class RlAdvantageEstimatorValues:
    """Known values of `rl.advantage.estimator`."""

    GRPO: Final = "grpo"
    """Difference to the mean of the group, divided by its standard deviation (of n - 1) + 1e-4."""
    GRPO_BATCH: Final = "grpo_batch"
    """The same, divided by the standard deviation of the batch + 1e-4."""
    DR_GRPO: Final = "dr_grpo"
    """Difference to the mean of the group."""
    RLOO: Final = "rloo"
    """Difference to the mean of the others of the group."""


class RlAlgorithmValues:
    """Known values of `rl.algorithm`."""

    GRPO: Final = "grpo"
    """Group relative policy optimization."""
    PPO: Final = "ppo"
    """Proximal policy optimization."""
    RLOO: Final = "rloo"
    """REINFORCE leave-one-out."""
    DPO: Final = "dpo"
    """Direct preference optimization."""
    SFT: Final = "sft"
    """Supervised fine-tuning."""
    KTO: Final = "kto"
    """Kahneman-Tversky optimization."""
    ONLINE_DPO: Final = "online_dpo"
    """DPO on samples of the policy."""
    DISTILLATION: Final = "distillation"
    """Distillation from a teacher."""
    REWARD_MODELING: Final = "reward_modeling"
    """Training a reward model."""


class RlCallEndingValues:
    """Known values of `rl.call.ending`."""

    RETURNED: Final = "returned"
    """It returned."""
    FAILED: Final = "failed"
    """It raised or said that it failed."""
    DROPPED: Final = "dropped"
    """The program has dropped it."""
    USUAL: Final = "usual"
    """Others of its name have ended by now and take as long: it is none."""
    WENT_ON: Final = "went_on"
    """A call inside of it or a part of its answer came."""


class RlCallKindValues:
    """Known values of `rl.call.kind`."""

    TOOL: Final = "tool"
    """A tool."""
    MODEL: Final = "model"
    """A model behind a client."""
    ENGINE: Final = "engine"
    """An inference engine in the process."""
    SERVICE: Final = "service"
    """A named service."""
    REQUEST: Final = "request"
    """A request that the process answers."""


class RlCgroupMemoryEventValues:
    """Known values of `rl.cgroup.memory.event`."""

    HIGH: Final = "high"
    """Processes were slowed down at the soft limit."""
    MAX: Final = "max"
    """The limit was met."""
    OOM: Final = "oom"
    """The limit could not be kept."""
    OOM_KILL: Final = "oom_kill"
    """A process was killed for memory."""


class RlCheckpointFormatValues:
    """Known values of `rl.checkpoint.format`."""

    TORCH: Final = "torch"
    """A file of torch.save."""
    SAFETENSORS: Final = "safetensors"
    """A file of safetensors."""
    DISTRIBUTED: Final = "distributed"
    """A folder of torch.distributed.checkpoint."""
    TRAINER: Final = "trainer"
    """A folder in which a trainer puts several files."""


class RlCheckpointOperationValues:
    """Known values of `rl.checkpoint.operation`."""

    SAVE: Final = "save"
    """Writing a checkpoint."""
    LOAD: Final = "load"
    """Reading a checkpoint."""
    STAGE: Final = "stage"
    """Copying what is written later in the background."""
    PERSIST: Final = "persist"
    """Writing in the background what was staged."""


class RlCheckpointStateValues:
    """Known values of `rl.checkpoint.state`."""

    KEPT: Final = "kept"
    """It is still there, also under another name in its folder."""
    CUT: Final = "cut"
    """It is still there, smaller than it was when it had been saved, and its end is missing."""
    SMALLER: Final = "smaller"
    """It is still there, smaller than it was when it had been saved, as after another save."""
    OVERWRITTEN: Final = "overwritten"
    """A later checkpoint has its place."""
    DELETED: Final = "deleted"
    """It is no longer in its folder: moved or deleted."""


class RlCudaMemoryStateValues:
    """Known values of `rl.cuda.memory.state`."""

    ALLOCATED: Final = "allocated"
    """Held by tensors."""
    RESERVED: Final = "reserved"
    """Held by PyTorch's allocator, tensors included."""
    INACTIVE: Final = "inactive"
    """Free parts of split blocks, which cannot be given back."""


class RlEngineStageValues:
    """Known values of `rl.engine.stage`."""

    PREFILL_BOOTSTRAP_QUEUE: Final = "prefill_bootstrap_queue"
    """From the begin of bootstrap to the queue of the prefill server."""
    PREFILL_BOOTSTRAP: Final = "prefill_bootstrap"
    """The prefill server meets the decode server."""
    PREFILL_ALLOC_WAIT: Final = "prefill_alloc_wait"
    """From bootstrap to the queue of the prefill server."""
    PREFILL_TRANSFER_QUEUE: Final = "prefill_transfer_queue"
    """From the end of prefill to the end of the transfer."""
    DECODE_PREALLOC: Final = "decode_prealloc"
    """The decode server reserves memory for the cache."""
    DECODE_BOOTSTRAP: Final = "decode_bootstrap"
    """The decode server meets the prefill server."""
    DECODE_ALLOC_WAIT: Final = "decode_alloc_wait"
    """From bootstrap to memory on the decode server."""


class RlEventLoopBlockedStateValues:
    """Known values of `rl.event_loop.blocked.state`."""

    COMPUTES: Final = "computes"
    """Its thread used the CPU for most of the time."""
    WAITS: Final = "waits"
    """Its thread waited, for a socket, a lock or a timer."""


class RlHealthCodeValues:
    """Known values of `rl.health.code`."""

    P1_PLATEAU: Final = "P1_plateau"
    """The reward stands still and the policy no longer moves."""
    P2_OSCILLATION: Final = "P2_oscillation"
    """The reward swings and updates are clipped."""
    P3_KL_EXPLOSION: Final = "P3_kl_explosion"
    """The policy has run away from the reference or from itself."""
    P4_ENTROPY_COLLAPSE: Final = "P4_entropy_collapse"
    """The policy gives nearly the same answer each time."""
    P5_REWARD_HACKING: Final = "P5_reward_hacking"
    """The reward rises and what it stands for does not."""
    P6_VALIDATION_COLLAPSE: Final = "P6_validation_collapse"
    """The reward of the evaluation has fallen."""
    P7_SLOW_STEP: Final = "P7_slow_step"
    """Steps take longer than before."""
    P8_GARBLED_OUTPUT: Final = "P8_garbled_output"
    """Answers are empty, aborted or repeat themselves."""
    P9_TRUNCATION: Final = "P9_truncation"
    """Answers are cut at the length limit."""
    NO_SIGNAL: Final = "no_signal"
    """All samples of a group get the same reward."""
    LEARNING_RATE: Final = "learning_rate"
    """The learning rate is too high."""
    GRADIENT_NORM: Final = "gradient_norm"
    """The norm of the gradient has grown manyfold."""
    NON_FINITE: Final = "non_finite"
    """A value of the training is NaN or infinite."""
    STALENESS: Final = "staleness"
    """Samples come from a policy that is no longer trained."""
    ENGINE_DRIFT: Final = "engine_drift"
    """The engine gives other probabilities than the trainer."""
    REWARD_COLLAPSE: Final = "reward_collapse"
    """The reward of the training has fallen for tens of steps."""
    LOSS_DIVERGENCE: Final = "loss_divergence"
    """The loss has left its late range manyfold."""
    ENTROPY_EXPLOSION: Final = "entropy_explosion"
    """The entropy is manyfold of what it was."""
    KL_ESTIMATE: Final = "kl_estimate"
    """The KL is clearly negative or always the same."""
    NO_UPDATE: Final = "no_update"
    """Learning rate or gradient is exactly zero for long."""
    PREFERENCE: Final = "preference"
    """The policy does not prefer the chosen answers."""
    UNSCORED: Final = "unscored"
    """Many samples got no finite score."""
    FAILING_CALLS: Final = "failing_calls"
    """Calls of a tool, model or service fail."""
    SLOW_CALLS: Final = "slow_calls"
    """Calls of a tool, model or service take longer than before."""
    STALE_ENGINE: Final = "stale_engine"
    """Engines answer with weights that fall behind."""


class RlHealthStateValues:
    """Known values of `rl.health.state`."""

    UNOBSERVED: Final = "unobserved"
    """An input is missing, or there were too few steps."""
    HEALTHY: Final = "healthy"
    """Judged and nothing found."""
    WARNING: Final = "warning"
    """Deserves a look."""
    CRITICAL: Final = "critical"
    """The run is not worth its cost as it is."""


class RlInferenceEngineValues:
    """Known values of `rl.inference.engine`."""

    VLLM: Final = "vllm"
    """vLLM."""
    SGLANG: Final = "sglang"
    """SGLang."""


class RlInferenceRoleValues:
    """Known values of `rl.inference.role`."""

    POLICY: Final = "policy"
    """Its answer is a turn of the trajectory."""
    JUDGE: Final = "judge"
    """It scores, in a reward function or a phase rl.reward, or by its name."""
    TOOL: Final = "tool"
    """A tool makes it."""


class RlInferenceStreamEndedValues:
    """Known values of `rl.inference.stream.ended`."""

    COMPLETED: Final = "completed"
    """Read to its end."""
    CLOSED: Final = "closed"
    """Closed by the program before its end."""
    ABANDONED: Final = "abandoned"
    """Dropped by the program without closing it."""
    CANCELLED: Final = "cancelled"
    """Cancelled with its task."""


class RlLauncherValues:
    """Known values of `rl.launcher`."""

    TORCHRUN: Final = "torchrun"
    """torchrun or another torchelastic agent."""
    ACCELERATE: Final = "accelerate"
    """accelerate launch."""
    DEEPSPEED: Final = "deepspeed"
    """The launcher of DeepSpeed."""
    MULTIPROCESSING: Final = "multiprocessing"
    """multiprocessing of a driver."""
    SLURM: Final = "slurm"
    """Slurm."""
    RAY: Final = "ray"
    """Ray."""
    MPI: Final = "mpi"
    """An MPI launcher."""
    KUBERNETES: Final = "kubernetes"
    """A Kubernetes operator."""
    NONE: Final = "none"
    """Started by hand."""


class RlLoopSourceValues:
    """Known values of `rl.loop.source`."""

    GIVEN: Final = "given"
    """The program marks its steps."""
    KNOWN: Final = "known"
    """An instrumented trainer says where they begin and end."""
    GUESSED: Final = "guessed"
    """Guessed from optimizer steps, backward passes and data loaders."""
    LOGGED: Final = "logged"
    """Taken from what the program logs by step: from one log call to the next."""


class RlPhaseValues:
    """Known values of `rl.phase`."""

    SAMPLE: Final = "sample"
    """Making samples with the policy."""
    REWARD: Final = "reward"
    """Scoring samples."""
    TRAIN: Final = "train"
    """Updating the policy."""
    SYNC: Final = "sync"
    """Bringing new weights to the inference engine."""
    GENERATE: Final = "generate"
    """Generation of tokens."""
    LOG_PROBS: Final = "log_probs"
    """Log-probabilities under the policy or the reference."""
    FORWARD: Final = "forward"
    """Forward pass and loss."""
    BACKWARD: Final = "backward"
    """Backward pass."""
    OPTIMIZER: Final = "optimizer"
    """Optimizer step."""
    DATA_WAIT: Final = "data_wait"
    """Waiting for the next batch."""
    CHECKPOINT: Final = "checkpoint"
    """Saving a checkpoint."""
    LOAD: Final = "load"
    """Loading a checkpoint."""
    EVALUATE: Final = "evaluate"
    """Evaluation."""
    WEIGHT_SYNC: Final = "weight_sync"
    """Transfer of weights."""


class RlRoleValues:
    """Known values of `rl.role`."""

    TRAINER: Final = "trainer"
    """A rank that trains the policy."""
    ROLLOUT: Final = "rollout"
    """A process that runs agents or generates samples."""
    ENGINE: Final = "engine"
    """An inference engine."""
    CRITIC: Final = "critic"
    """A rank that trains the value model."""
    REFERENCE: Final = "reference"
    """A rank of the reference model."""
    REWARD: Final = "reward"
    """A process that scores samples."""
    DATA: Final = "data"
    """A process that keeps or hands on samples."""
    LAUNCHER: Final = "launcher"
    """A process that only starts and watches ranks."""
    TOOL: Final = "tool"
    """A tool or sandbox."""
    DRIVER: Final = "driver"
    """The single controller of a run."""


class RlRolloutStatusValues:
    """Known values of `rl.rollout.status`."""

    FINISHED: Final = "finished"
    """It came to its end."""
    FAILED: Final = "failed"
    """An error ended it."""
    CANCELLED: Final = "cancelled"
    """The program gave it up."""
    DISCARDED: Final = "discarded"
    """It came to its end and is not used."""


class RlRunEndStatusValues:
    """Known values of `rl.run.end.status`."""

    COMPLETED: Final = "completed"
    """The program came to its end."""
    STOPPED: Final = "stopped"
    """SIGTERM or Ctrl-C ended it."""
    FAILED: Final = "failed"
    """An uncaught exception ended it."""


class RlRunPartValues:
    """Known values of `rl.run.part`."""

    IMPORT: Final = "import"
    """Importing large libraries."""
    MODEL: Final = "model"
    """Loading a model."""
    TOKENIZER: Final = "tokenizer"
    """Loading a tokenizer."""
    DATASET: Final = "dataset"
    """Loading or mapping a data set."""
    TRAINER: Final = "trainer"
    """Making a trainer ready for its first step."""
    CHECKPOINT: Final = "checkpoint"
    """Loading a checkpoint."""
    ENGINE: Final = "engine"
    """Starting an inference engine in the process."""
    RENDEZVOUS: Final = "rendezvous"
    """Waiting until all ranks have joined the process group."""


class RlSampleStateValues:
    """Known values of `rl.sample.state`."""

    PENDING: Final = "pending"
    """Asked for and not begun."""
    RUNNING: Final = "running"
    """Samples of it are being made."""
    FINISHED: Final = "finished"
    """All samples wait for the trainer."""
    FAILED: Final = "failed"
    """All samples have ended and one or more failed."""


class RlSamplingReasonValues:
    """Known values of `rl.sampling.reason`."""

    FORCED: Final = "forced"
    """The program asked for it."""
    WHOLE_STEP: Final = "whole_step"
    """It belongs to an iteration of which everything is kept."""
    SLOW: Final = "slow"
    """It took long compared with the others of this run."""


class RlSyncVerdictValues:
    """Known values of `rl.sync.verdict`."""

    CURRENT: Final = "current"
    """The engine holds what the trainer holds."""
    SKIPPED: Final = "skipped"
    """The trainer has moved on and nothing of the engine has changed."""
    PARTIAL: Final = "partial"
    """Some tensors of the engine have changed and others that should have not."""
    BEHIND: Final = "behind"
    """The engine holds an earlier version, as it did before in this run."""
    DIFFERENT: Final = "different"
    """The engine has changed and holds something else than the trainer."""
    UNKNOWN: Final = "unknown"
    """There is nothing to compare with, such as a trainer in another process."""


class RlSystemNameValues:
    """Known values of `rl.system.name`."""

    TRL: Final = "trl"
    """Hugging Face TRL."""
    VERL: Final = "verl"
    """verl."""
    SLIME: Final = "slime"
    """slime."""
    OPENRLHF: Final = "openrlhf"
    """OpenRLHF."""
    NEMO_RL: Final = "nemo_rl"
    """NVIDIA NeMo-RL."""
    AREAL: Final = "areal"
    """AReaL."""
    ROLL: Final = "roll"
    """ROLL."""
    SKYRL: Final = "skyrl"
    """SkyRL."""
    TINKER: Final = "tinker"
    """Tinker and its cookbook."""
    TRANSFORMERS: Final = "transformers"
    """Hugging Face Transformers without a system on top."""
    LIGHTNING: Final = "lightning"
    """PyTorch Lightning."""
    ACCELERATE: Final = "accelerate"
    """A loop of the program's own with Hugging Face Accelerate."""
    DEEPSPEED: Final = "deepspeed"
    """A loop of the program's own with DeepSpeed."""


class RlTelemetrySignalValues:
    """Known values of `rl.telemetry.signal`."""

    TRACES: Final = "traces"
    """Spans."""
    METRICS: Final = "metrics"
    """Metric points."""
    LOGS: Final = "logs"
    """Log records."""
    CONTEXT: Final = "context"
    """Correlation context."""
    STEPS: Final = "steps"
    """Steps for sinks of the program."""


class RlTelemetryThreadValues:
    """Known values of `rl.telemetry.thread`."""

    PROGRAM: Final = "program"
    """Threads of the program, on which the work of otel-rl is estimated."""
    OWN: Final = "own"
    """Threads of otel-rl itself, which are measured."""


class RlToolOutcomeValues:
    """Known values of `rl.tool.outcome`."""

    OK: Final = "ok"
    """The tool returned a result."""
    TOOL_ERROR: Final = "tool_error"
    """The tool raised, or said in its result that it failed."""
    TIMEOUT: Final = "timeout"
    """The tool did not end in time."""
    INVALID_ARGUMENTS: Final = "invalid_arguments"
    """The arguments were refused before the tool began."""
    UNKNOWN_TOOL: Final = "unknown_tool"
    """There is no tool of this name."""
    CANCELLED: Final = "cancelled"
    """The program gave the call up."""
    ERROR_TEXT: Final = "error_text"
    """The tool returned a text that begins as an error does: suspected, and no failed span."""


class RlTrajectoriesSourceValues:
    """Known values of `rl.trajectories.source`."""

    TRAINER: Final = "trainer"
    """Samples that a trainer made in a batch."""
    ROLLOUT: Final = "rollout"
    """Rollouts of the producer API."""
    AGENT: Final = "agent"
    """Runs of an agent framework that nothing else called."""


class RlTrajectoryReasonValues:
    """Known values of `rl.trajectory.reason`."""

    LOWEST_REWARD: Final = "lowest_reward"
    """The lowest reward of its batch."""
    HIGHEST_REWARD: Final = "highest_reward"
    """The highest reward of its batch."""
    TOOL_ERROR: Final = "tool_error"
    """A call of a tool in it failed."""
    LONGEST: Final = "longest"
    """The most tokens of its batch."""
    REGULAR: Final = "regular"
    """One of every batch whatever came out."""


class SystemMemoryStateValues:
    """Known values of `system.memory.state`."""

    USED: Final = "used"
    """Used by programs and the kernel."""
    FREE: Final = "free"
    """Used for nothing."""
    BUFFERS: Final = "buffers"
    """Buffers of the kernel."""
    CACHED: Final = "cached"
    """Pages of files."""


class TorchDistributedOperationValues:
    """Known values of `torch.distributed.operation`."""

    ALL_REDUCE: Final = "all_reduce"
    """Reduction to all ranks."""
    ALL_GATHER: Final = "all_gather"
    """Gather to all ranks."""
    ALL_TO_ALL: Final = "all_to_all"
    """Exchange between all ranks."""
    BARRIER: Final = "barrier"
    """Barrier."""
    BROADCAST: Final = "broadcast"
    """One rank to all."""
    GATHER: Final = "gather"
    """All ranks to one."""
    REDUCE: Final = "reduce"
    """Reduction to one rank."""
    REDUCE_SCATTER: Final = "reduce_scatter"
    """Reduction whose result is spread over the ranks."""
    SCATTER: Final = "scatter"
    """One rank to all with a part each."""
    SEND: Final = "send"
    """Send to one rank."""
    RECV: Final = "recv"
    """Receive from one rank."""


class TorchDistributedSourceValues:
    """Known values of `torch.distributed.source`."""

    PYTHON: Final = "python"
    """Python code, through a method of the process group."""
    REDUCER: Final = "reducer"
    """C++ code of PyTorch, mostly the reducer of DistributedDataParallel."""
    FUNCTIONAL: Final = "functional"
    """Functional collectives, as DTensor and compiled code issue them."""


class TorchDistributedTimingValues:
    """Known values of `torch.distributed.timing`."""

    ON: Final = "on"
    """PyTorch times each collective."""
    OFF: Final = "off"
    """OTEL_RL_NCCL_TIMING is not on."""
    REFUSED: Final = "refused"
    """A variable of PyTorch that the user has set keeps it from being read."""
    UNAVAILABLE: Final = "unavailable"
    """This version of PyTorch cannot be asked."""


CORRELATION: Final[tuple[str, ...]] = (
    RL_GROUP_ID,
    RL_LOOP_ITERATION,
    RL_POLICY_VERSION,
    RL_ROLLOUT_ATTEMPT,
    RL_ROLLOUT_ID,
    RL_RUN_ATTEMPT,
    RL_RUN_ID,
    RL_SAMPLE_ID,
    RL_SAMPLING_BEYOND_LIMIT,
    RL_SAMPLING_PRIORITY,
)
"""Attributes that any span or log record may carry, copied from baggage."""

CONTENT: Final[tuple[str, ...]] = (
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_SYSTEM_INSTRUCTIONS,
    GEN_AI_TOOL_CALL_ARGUMENTS,
    GEN_AI_TOOL_CALL_RESULT,
    GEN_AI_TOOL_DEFINITIONS,
    RL_REWARD_INPUT,
    RL_REWARD_OUTPUT,
    RL_ROLLOUT_INPUT,
    RL_ROLLOUT_OUTPUT,
)
"""Attributes that hold what users wrote or models said, captured on request only."""

IDENTIFIERS: Final[tuple[str, ...]] = (
    EXCEPTION_MESSAGE,
    EXCEPTION_STACKTRACE,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_EVALUATION_EXPLANATION,
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_RESPONSE_ID,
    GEN_AI_SYSTEM_INSTRUCTIONS,
    GEN_AI_TOOL_CALL_ARGUMENTS,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_CALL_RESULT,
    GEN_AI_TOOL_DEFINITIONS,
    JSONRPC_REQUEST_ID,
    MCP_RESOURCE_URI,
    MCP_SESSION_ID,
    PROCESS_COMMAND_ARGS,
    PROCESS_PID,
    RL_CAUSE_EXCEPTION_MESSAGE,
    RL_CHECKPOINT_BEST_NAME,
    RL_CHECKPOINT_NAME,
    RL_CHECKPOINT_NUMBER,
    RL_CHILD_PID,
    RL_EVENT_LOOP_BLOCKED_NUMBER,
    RL_EVENT_LOOP_TASK,
    RL_EXCEPTION_PROGRAM_LOCATION,
    RL_GROUP_ID,
    RL_INFERENCE_EARLIER_SPAN_ID,
    RL_INFERENCE_WEIGHT_VERSION,
    RL_JOB_ID,
    RL_LOG_LOGGER,
    RL_LOOP_ITERATION,
    RL_POLICY_VERSION,
    RL_REWARD_INPUT,
    RL_REWARD_OUTPUT,
    RL_ROLLOUT_ENGINES,
    RL_ROLLOUT_ID,
    RL_ROLLOUT_INPUT,
    RL_ROLLOUT_OUTPUT,
    RL_ROLLOUT_POLICY_VERSION_MAX,
    RL_ROLLOUT_POLICY_VERSION_MIN,
    RL_ROLLOUT_TRACE_ID,
    RL_ROLLOUT_TURN,
    RL_RUN_ATTEMPT,
    RL_RUN_ID,
    RL_SAMPLE_ID,
    RL_STEP_FIRST,
    RL_STEP_LAST,
    RL_TRAJECTORIES_CALLER_PID,
    RL_TRAJECTORIES_STEP,
    RL_WORKER_ID,
    SERVICE_INSTANCE_ID,
    URL_FULL,
    URL_PATH,
    VCS_REF_HEAD_REVISION,
)
"""Attributes without a bound on their values: never on a metric."""

CARDINALITY: Final = MappingProxyType(
    {
        CODE_FUNCTION_NAME: 200,
        CPU_MODE: 8,
        CPYTHON_GC_GENERATION: 4,
        ERROR_TYPE: 100,
        GEN_AI_AGENT_NAME: 100,
        GEN_AI_EVALUATION_NAME: 50,
        GEN_AI_EVALUATION_SCORE_LABEL: 50,
        GEN_AI_OPERATION_NAME: 20,
        GEN_AI_PROMPT_NAME: 200,
        GEN_AI_PROVIDER_NAME: 30,
        GEN_AI_REQUEST_MODEL: 100,
        GEN_AI_RESPONSE_MODEL: 100,
        GEN_AI_TOKEN_TYPE: 4,
        GEN_AI_TOOL_NAME: 200,
        GEN_AI_WORKFLOW_NAME: 100,
        HTTP_REQUEST_METHOD: 12,
        HTTP_RESPONSE_STATUS_CODE: 64,
        HW_ID: 64,
        HW_TYPE: 2,
        MCP_METHOD_NAME: 64,
        MCP_PROTOCOL_VERSION: 20,
        NETWORK_PROTOCOL_NAME: 8,
        NETWORK_TRANSPORT: 8,
        OTEL_COMPONENT_NAME: 20,
        OTEL_COMPONENT_TYPE: 20,
        RL_ADVANTAGE_ESTIMATOR: 4,
        RL_AGENT_HANDOFF_SOURCE: 100,
        RL_AGENT_NODE_NAME: 200,
        RL_CGROUP_MEMORY_EVENT: 4,
        RL_CHECKPOINT_FORMAT: 4,
        RL_CHECKPOINT_OPERATION: 4,
        RL_CUDA_DEVICE: 64,
        RL_CUDA_MEMORY_STATE: 4,
        RL_ENGINE_FINISH_REASON: 10,
        RL_ENGINE_STAGE: 7,
        RL_ENVIRONMENT_EVALUATION: 3,
        RL_ENVIRONMENT_NAME: 20,
        RL_EVENT_LOOP_BLOCKED_STATE: 2,
        RL_HEALTH_CODE: 25,
        RL_HEALTH_STATE: 4,
        RL_INFERENCE_ROLE: 3,
        RL_PHASE: 14,
        RL_RANK: 4096,
        RL_REWARD_NAME: 50,
        RL_ROLLOUT_DISCARD_REASON: 20,
        RL_ROLLOUT_STATUS: 4,
        RL_RUN_END_STATUS: 3,
        RL_SAMPLE_STATE: 4,
        RL_SAMPLING_REASON: 3,
        RL_SERVICE: 64,
        RL_SPAN_NAME: 200,
        RL_STRAGGLER_RANK: 4096,
        RL_SYNC_OPERATION: 40,
        RL_SYNC_VERDICT: 6,
        RL_TELEMETRY_DROP_REASON: 50,
        RL_TELEMETRY_INSTRUMENTOR: 200,
        RL_TELEMETRY_SIGNAL: 5,
        RL_TELEMETRY_SITE: 200,
        RL_TELEMETRY_THREAD: 2,
        RL_TOOL_OUTCOME: 7,
        RL_TRAINER_METRIC_KEY: 300,
        RL_TRAJECTORIES_SOURCE: 3,
        RL_TRAJECTORY_REASON: 5,
        RPC_RESPONSE_STATUS_CODE: 64,
        SERVER_ADDRESS: 64,
        SERVER_PORT: 64,
        SYSTEM_MEMORY_STATE: 8,
        TORCH_DISTRIBUTED_GROUP_NAME: 32,
        TORCH_DISTRIBUTED_GROUP_SIZE: 32,
        TORCH_DISTRIBUTED_OPERATION: 20,
        TORCH_DISTRIBUTED_SOURCE: 3,
        TORCH_DISTRIBUTED_TIMING: 4,
        URL_SCHEME: 8,
    }
)
"""Most values of an attribute that a metric may carry in one process."""
