"""Metrics: generated; edit instrumentation/registry and run `make generate`."""

from __future__ import annotations

from typing import Final

from otel_rl.semconv import attributes, definitions

CPYTHON_GC_COLLECTIONS: Final = definitions.MetricDefinition(
    name="cpython.gc.collections",
    instrument="counter",
    unit="{collection}",
    description="Runs of the garbage collector of Python",
    boundaries=None,
    attributes=(attributes.CPYTHON_GC_GENERATION,),
)
GEN_AI_CLIENT_OPERATION_DURATION: Final = definitions.MetricDefinition(
    name="gen_ai.client.operation.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a call to a model",
    boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK: Final = definitions.MetricDefinition(
    name="gen_ai.client.operation.time_to_first_chunk",
    instrument="histogram",
    unit="s",
    description="Time from the request to the first chunk of the stream",
    boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_CLIENT_TOKEN_USAGE: Final = definitions.MetricDefinition(
    name="gen_ai.client.token.usage",
    instrument="histogram",
    unit="{token}",
    description="Tokens of a call, by kind",
    boundaries=(
        1.0,
        4.0,
        16.0,
        64.0,
        256.0,
        1024.0,
        4096.0,
        16384.0,
        65536.0,
        262144.0,
        1048576.0,
        4194304.0,
        16777216.0,
        67108864.0,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.ERROR_TYPE,
        attributes.GEN_AI_TOKEN_TYPE,
    ),
)
GEN_AI_EXECUTE_TOOL_DURATION: Final = definitions.MetricDefinition(
    name="gen_ai.execute_tool.duration",
    instrument="histogram",
    unit="s",
    description="Duration of an execution of a tool",
    boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    attributes=(
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_OPERATION_NAME,
        attributes.RL_TOOL_OUTCOME,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_INVOKE_AGENT_DURATION: Final = definitions.MetricDefinition(
    name="gen_ai.invoke_agent.duration",
    instrument="histogram",
    unit="s",
    description="Duration of an invocation of an agent",
    boundaries=(0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6),
    attributes=(
        attributes.GEN_AI_AGENT_NAME,
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_INVOKE_WORKFLOW_DURATION: Final = definitions.MetricDefinition(
    name="gen_ai.invoke_workflow.duration",
    instrument="histogram",
    unit="s",
    description="Duration of an invocation of a workflow",
    boundaries=(1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0),
    attributes=(
        attributes.GEN_AI_WORKFLOW_NAME,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_SERVER_REQUEST_DURATION: Final = definitions.MetricDefinition(
    name="gen_ai.server.request.duration",
    instrument="histogram",
    unit="s",
    description="Time from the arrival of a request in the engine to its last token",
    boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.ERROR_TYPE,
    ),
)
GEN_AI_SERVER_TIME_PER_OUTPUT_TOKEN: Final = definitions.MetricDefinition(
    name="gen_ai.server.time_per_output_token",
    instrument="histogram",
    unit="s",
    description="Mean time per token of a request after its first one",
    boundaries=(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
GEN_AI_SERVER_TIME_TO_FIRST_TOKEN: Final = definitions.MetricDefinition(
    name="gen_ai.server.time_to_first_token",
    instrument="histogram",
    unit="s",
    description="Time from the arrival of a request in the engine to its first token",
    boundaries=(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
HW_GPU_MEMORY_LIMIT: Final = definitions.MetricDefinition(
    name="hw.gpu.memory.limit",
    instrument="updowncounter",
    unit="By",
    description="Memory that the GPU has",
    boundaries=None,
    attributes=(attributes.HW_ID,),
)
HW_GPU_MEMORY_USAGE: Final = definitions.MetricDefinition(
    name="hw.gpu.memory.usage",
    instrument="updowncounter",
    unit="By",
    description="Memory of the GPU in use, by all processes",
    boundaries=None,
    attributes=(attributes.HW_ID,),
)
HW_GPU_UTILIZATION: Final = definitions.MetricDefinition(
    name="hw.gpu.utilization",
    instrument="gauge",
    unit="1",
    description="Share of time in which the GPU ran a kernel",
    boundaries=None,
    attributes=(attributes.HW_ID,),
)
HW_POWER: Final = definitions.MetricDefinition(
    name="hw.power",
    instrument="gauge",
    unit="W",
    description="Power that the device takes",
    boundaries=None,
    attributes=(
        attributes.HW_ID,
        attributes.HW_TYPE,
    ),
)
HW_TEMPERATURE: Final = definitions.MetricDefinition(
    name="hw.temperature",
    instrument="gauge",
    unit="Cel",
    description="Temperature of the device",
    boundaries=None,
    attributes=(
        attributes.HW_ID,
        attributes.HW_TYPE,
    ),
)
MCP_CLIENT_OPERATION_DURATION: Final = definitions.MetricDefinition(
    name="mcp.client.operation.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a request of the Model Context Protocol, from its sending to its answer",
    boundaries=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
    attributes=(
        attributes.MCP_METHOD_NAME,
        attributes.MCP_PROTOCOL_VERSION,
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_PROMPT_NAME,
        attributes.RPC_RESPONSE_STATUS_CODE,
        attributes.NETWORK_TRANSPORT,
        attributes.NETWORK_PROTOCOL_NAME,
        attributes.ERROR_TYPE,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
MCP_SERVER_OPERATION_DURATION: Final = definitions.MetricDefinition(
    name="mcp.server.operation.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a request of the Model Context Protocol at its receiver, until its answer is sent",
    boundaries=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
    attributes=(
        attributes.MCP_METHOD_NAME,
        attributes.MCP_PROTOCOL_VERSION,
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_TOOL_NAME,
        attributes.GEN_AI_PROMPT_NAME,
        attributes.RPC_RESPONSE_STATUS_CODE,
        attributes.NETWORK_TRANSPORT,
        attributes.NETWORK_PROTOCOL_NAME,
        attributes.ERROR_TYPE,
    ),
)
OTEL_SDK_EXPORTER_LOG_EXPORTED: Final = definitions.MetricDefinition(
    name="otel.sdk.exporter.log.exported",
    instrument="counter",
    unit="{log_record}",
    description="Log records that were delivered, or with error.type those that were lost",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
        attributes.ERROR_TYPE,
    ),
)
OTEL_SDK_EXPORTER_LOG_INFLIGHT: Final = definitions.MetricDefinition(
    name="otel.sdk.exporter.log.inflight",
    instrument="updowncounter",
    unit="{log_record}",
    description="Log records that an exporter was given and has not answered for",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
OTEL_SDK_EXPORTER_METRIC_DATA_POINT_EXPORTED: Final = definitions.MetricDefinition(
    name="otel.sdk.exporter.metric_data_point.exported",
    instrument="counter",
    unit="{data_point}",
    description="Data points that were delivered, or with error.type those that were lost",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
        attributes.ERROR_TYPE,
    ),
)
OTEL_SDK_EXPORTER_METRIC_DATA_POINT_INFLIGHT: Final = definitions.MetricDefinition(
    name="otel.sdk.exporter.metric_data_point.inflight",
    instrument="updowncounter",
    unit="{data_point}",
    description="Data points that an exporter was given and has not answered for",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
OTEL_SDK_EXPORTER_SPAN_EXPORTED: Final = definitions.MetricDefinition(
    name="otel.sdk.exporter.span.exported",
    instrument="counter",
    unit="{span}",
    description="Spans that were delivered, or with error.type those that were lost",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
        attributes.ERROR_TYPE,
    ),
)
OTEL_SDK_EXPORTER_SPAN_INFLIGHT: Final = definitions.MetricDefinition(
    name="otel.sdk.exporter.span.inflight",
    instrument="updowncounter",
    unit="{span}",
    description="Spans that an exporter was given and has not answered for",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
OTEL_SDK_PROCESSOR_LOG_PROCESSED: Final = definitions.MetricDefinition(
    name="otel.sdk.processor.log.processed",
    instrument="counter",
    unit="{log_record}",
    description="Log records that a queue passed on, or with error.type those it dropped",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
        attributes.ERROR_TYPE,
    ),
)
OTEL_SDK_PROCESSOR_LOG_QUEUE_CAPACITY: Final = definitions.MetricDefinition(
    name="otel.sdk.processor.log.queue.capacity",
    instrument="updowncounter",
    unit="{log_record}",
    description="Log records that a queue can hold",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
OTEL_SDK_PROCESSOR_LOG_QUEUE_SIZE: Final = definitions.MetricDefinition(
    name="otel.sdk.processor.log.queue.size",
    instrument="updowncounter",
    unit="{log_record}",
    description="Log records that wait in a queue",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
OTEL_SDK_PROCESSOR_SPAN_PROCESSED: Final = definitions.MetricDefinition(
    name="otel.sdk.processor.span.processed",
    instrument="counter",
    unit="{span}",
    description="Spans that a queue passed on, or with error.type those it dropped",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
        attributes.ERROR_TYPE,
    ),
)
OTEL_SDK_PROCESSOR_SPAN_QUEUE_CAPACITY: Final = definitions.MetricDefinition(
    name="otel.sdk.processor.span.queue.capacity",
    instrument="updowncounter",
    unit="{span}",
    description="Spans that a queue can hold",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
OTEL_SDK_PROCESSOR_SPAN_QUEUE_SIZE: Final = definitions.MetricDefinition(
    name="otel.sdk.processor.span.queue.size",
    instrument="updowncounter",
    unit="{span}",
    description="Spans that wait in a queue",
    boundaries=None,
    attributes=(
        attributes.OTEL_COMPONENT_TYPE,
        attributes.OTEL_COMPONENT_NAME,
    ),
)
PROCESS_CPU_TIME: Final = definitions.MetricDefinition(
    name="process.cpu.time",
    instrument="counter",
    unit="s",
    description="CPU time of the process",
    boundaries=None,
    attributes=(attributes.CPU_MODE,),
)
PROCESS_MEMORY_USAGE: Final = definitions.MetricDefinition(
    name="process.memory.usage",
    instrument="updowncounter",
    unit="By",
    description="Physical memory of the process",
    boundaries=None,
    attributes=(),
)
PROCESS_MEMORY_VIRTUAL: Final = definitions.MetricDefinition(
    name="process.memory.virtual",
    instrument="updowncounter",
    unit="By",
    description="Virtual memory of the process",
    boundaries=None,
    attributes=(),
)
PROCESS_THREAD_COUNT: Final = definitions.MetricDefinition(
    name="process.thread.count",
    instrument="updowncounter",
    unit="{thread}",
    description="Threads of the process",
    boundaries=None,
    attributes=(),
)
PROCESS_UNIX_FILE_DESCRIPTOR_COUNT: Final = definitions.MetricDefinition(
    name="process.unix.file_descriptor.count",
    instrument="updowncounter",
    unit="{file_descriptor}",
    description="Open file descriptors of the process",
    boundaries=None,
    attributes=(),
)
RL_CGROUP_MEMORY_EVENTS: Final = definitions.MetricDefinition(
    name="rl.cgroup.memory.events",
    instrument="counter",
    unit="{event}",
    description="Events of memory that the kernel counted for the control group",
    boundaries=None,
    attributes=(attributes.RL_CGROUP_MEMORY_EVENT,),
)
RL_CGROUP_MEMORY_LIMIT: Final = definitions.MetricDefinition(
    name="rl.cgroup.memory.limit",
    instrument="updowncounter",
    unit="By",
    description="Least memory limit of the control groups around the process",
    boundaries=None,
    attributes=(),
)
RL_CGROUP_MEMORY_USAGE: Final = definitions.MetricDefinition(
    name="rl.cgroup.memory.usage",
    instrument="updowncounter",
    unit="By",
    description="Memory of the control group of the process, its file cache included",
    boundaries=None,
    attributes=(),
)
RL_CHECKPOINT_IO: Final = definitions.MetricDefinition(
    name="rl.checkpoint.io",
    instrument="counter",
    unit="By",
    description="Size of what was saved and loaded, where it is known",
    boundaries=None,
    attributes=(
        attributes.RL_CHECKPOINT_OPERATION,
        attributes.RL_CHECKPOINT_FORMAT,
    ),
)
RL_CHECKPOINT_OPERATIONS: Final = definitions.MetricDefinition(
    name="rl.checkpoint.operations",
    instrument="counter",
    unit="{operation}",
    description="Saves and loads, small ones and those in memory too; one inside another is part of that",
    boundaries=None,
    attributes=(
        attributes.RL_CHECKPOINT_OPERATION,
        attributes.RL_CHECKPOINT_FORMAT,
    ),
)
RL_COMPILE_COMPILATIONS: Final = definitions.MetricDefinition(
    name="rl.compile.compilations",
    instrument="counter",
    unit="{compilation}",
    description="Compilations by torch.compile, recompilations included",
    boundaries=None,
    attributes=(),
)
RL_COMPILE_RECOMPILATIONS: Final = definitions.MetricDefinition(
    name="rl.compile.recompilations",
    instrument="counter",
    unit="{compilation}",
    description="Compilations of what torch.compile had compiled before",
    boundaries=None,
    attributes=(),
)
RL_COMPILE_TIME: Final = definitions.MetricDefinition(
    name="rl.compile.time",
    instrument="counter",
    unit="s",
    description="Time that torch.compile took",
    boundaries=None,
    attributes=(),
)
RL_CUDA_ALLOC_RETRIES: Final = definitions.MetricDefinition(
    name="rl.cuda.alloc_retries",
    instrument="counter",
    unit="{retry}",
    description="Allocations on a CUDA device that first had to empty the cache",
    boundaries=None,
    attributes=(attributes.RL_CUDA_DEVICE,),
)
RL_CUDA_MEMORY_PEAK: Final = definitions.MetricDefinition(
    name="rl.cuda.memory.peak",
    instrument="gauge",
    unit="By",
    description="Most memory that tensors held on a CUDA device since the program reset this figure",
    boundaries=None,
    attributes=(attributes.RL_CUDA_DEVICE,),
)
RL_CUDA_MEMORY_USAGE: Final = definitions.MetricDefinition(
    name="rl.cuda.memory.usage",
    instrument="updowncounter",
    unit="By",
    description="Memory in the CUDA allocator of PyTorch",
    boundaries=None,
    attributes=(
        attributes.RL_CUDA_DEVICE,
        attributes.RL_CUDA_MEMORY_STATE,
    ),
)
RL_CUDA_OOMS: Final = definitions.MetricDefinition(
    name="rl.cuda.ooms",
    instrument="counter",
    unit="{error}",
    description="Out-of-memory errors of the CUDA allocator",
    boundaries=None,
    attributes=(attributes.RL_CUDA_DEVICE,),
)
RL_ENGINE_CACHED_TOKENS: Final = definitions.MetricDefinition(
    name="rl.engine.cached.tokens",
    instrument="counter",
    unit="{token}",
    description="Tokens of prompts that the engine took from its prefix cache",
    boundaries=None,
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_CALL_DURATION: Final = definitions.MetricDefinition(
    name="rl.engine.call.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a call of the engine, with one request or a batch",
    boundaries=(
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.ERROR_TYPE,
    ),
)
RL_ENGINE_DECODE_DURATION: Final = definitions.MetricDefinition(
    name="rl.engine.decode.duration",
    instrument="histogram",
    unit="s",
    description="Time from the first token of a request to its last one",
    boundaries=(
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_FINISHED: Final = definitions.MetricDefinition(
    name="rl.engine.finished",
    instrument="counter",
    unit="{sample}",
    description="Candidates that the engine generated, by the reason for their end",
    boundaries=None,
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.RL_ENGINE_FINISH_REASON,
    ),
)
RL_ENGINE_KV_CACHE_USAGE: Final = definitions.MetricDefinition(
    name="rl.engine.kv_cache.usage",
    instrument="gauge",
    unit="1",
    description="Share of the memory for keys and values that an engine behind HTTP has in use, by its own metrics",
    boundaries=None,
    attributes=(
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_POLICY_AGE: Final = definitions.MetricDefinition(
    name="rl.engine.policy.age",
    instrument="histogram",
    unit="s",
    description="Time since an engine got its weights, at the begin of a call",
    boundaries=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_PREEMPTED: Final = definitions.MetricDefinition(
    name="rl.engine.preempted",
    instrument="counter",
    unit="{preemption}",
    description="Times that the engine interrupted a request for lack of memory",
    boundaries=None,
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_PREFILL_DURATION: Final = definitions.MetricDefinition(
    name="rl.engine.prefill.duration",
    instrument="histogram",
    unit="s",
    description="Time from the scheduling of a request to its first token",
    boundaries=(
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_PREFILL_RETRIED: Final = definitions.MetricDefinition(
    name="rl.engine.prefill.retried",
    instrument="counter",
    unit="{retry}",
    description="Times that prefill servers began a request anew",
    boundaries=None,
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_QUEUE_DURATION: Final = definitions.MetricDefinition(
    name="rl.engine.queue.duration",
    instrument="histogram",
    unit="s",
    description="Time that a request waited before the engine scheduled it",
    boundaries=(
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_REQUESTS_RUNNING: Final = definitions.MetricDefinition(
    name="rl.engine.requests.running",
    instrument="gauge",
    unit="{request}",
    description="Requests that an engine behind HTTP works on, by its own metrics",
    boundaries=None,
    attributes=(
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_REQUESTS_WAITING: Final = definitions.MetricDefinition(
    name="rl.engine.requests.waiting",
    instrument="gauge",
    unit="{request}",
    description="Requests that wait in the queue of an engine behind HTTP, by its own metrics",
    boundaries=None,
    attributes=(
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_STAGE_DURATION: Final = definitions.MetricDefinition(
    name="rl.engine.stage.duration",
    instrument="histogram",
    unit="s",
    description="Time that a request spent in a stage between separate prefill and decode servers",
    boundaries=(
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.RL_ENGINE_STAGE,
    ),
)
RL_ENGINE_TOKENS: Final = definitions.MetricDefinition(
    name="rl.engine.tokens",
    instrument="counter",
    unit="{token}",
    description="Tokens of prompts and of candidates",
    boundaries=None,
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
        attributes.GEN_AI_TOKEN_TYPE,
    ),
)
RL_ENGINE_TRANSFER_DURATION: Final = definitions.MetricDefinition(
    name="rl.engine.transfer.duration",
    instrument="histogram",
    unit="s",
    description="Time that the cache of a request took from prefill server to decode server",
    boundaries=(
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
    ),
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENGINE_TRANSFERRED: Final = definitions.MetricDefinition(
    name="rl.engine.transferred",
    instrument="counter",
    unit="By",
    description="Size of the caches that went from prefill servers to decode servers",
    boundaries=None,
    attributes=(
        attributes.GEN_AI_OPERATION_NAME,
        attributes.GEN_AI_PROVIDER_NAME,
        attributes.GEN_AI_REQUEST_MODEL,
        attributes.SERVER_ADDRESS,
        attributes.SERVER_PORT,
    ),
)
RL_ENVIRONMENT_EPISODE_LENGTH_MEAN: Final = definitions.MetricDefinition(
    name="rl.environment.episode.length.mean",
    instrument="gauge",
    unit="{token}",
    description="Mean length of the episodes of the batch",
    boundaries=None,
    attributes=(),
)
RL_ENVIRONMENT_EPISODE_RETURN_MAX: Final = definitions.MetricDefinition(
    name="rl.environment.episode.return.max",
    instrument="gauge",
    unit="{reward}",
    description="Highest sum of rewards of the last 100 episodes of the process",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_EPISODE_RETURN_MEAN: Final = definitions.MetricDefinition(
    name="rl.environment.episode.return.mean",
    instrument="gauge",
    unit="{reward}",
    description="Mean sum of rewards of the last 100 episodes of the process",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_EPISODE_RETURN_MIN: Final = definitions.MetricDefinition(
    name="rl.environment.episode.return.min",
    instrument="gauge",
    unit="{reward}",
    description="Lowest sum of rewards of the last 100 episodes of the process",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_EPISODE_STEPS_MAX: Final = definitions.MetricDefinition(
    name="rl.environment.episode.steps.max",
    instrument="gauge",
    unit="{step}",
    description="Longest length of the last 100 episodes of the process",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_EPISODE_STEPS_MEAN: Final = definitions.MetricDefinition(
    name="rl.environment.episode.steps.mean",
    instrument="gauge",
    unit="{step}",
    description="Mean length of the last 100 episodes of the process",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_EPISODE_STEPS_MIN: Final = definitions.MetricDefinition(
    name="rl.environment.episode.steps.min",
    instrument="gauge",
    unit="{step}",
    description="Shortest length of the last 100 episodes of the process",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_EPISODES: Final = definitions.MetricDefinition(
    name="rl.environment.episodes",
    instrument="counter",
    unit="{episode}",
    description="Episodes that have ended, by the environment or by a reset",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_ENVIRONMENT_REWARD_MEAN: Final = definitions.MetricDefinition(
    name="rl.environment.reward.mean",
    instrument="gauge",
    unit="{reward}",
    description="Mean reward of the batch",
    boundaries=None,
    attributes=(),
)
RL_ENVIRONMENT_REWARD_STD: Final = definitions.MetricDefinition(
    name="rl.environment.reward.std",
    instrument="gauge",
    unit="{reward}",
    description="Standard deviation of the reward in the batch",
    boundaries=None,
    attributes=(),
)
RL_ENVIRONMENT_STEPS: Final = definitions.MetricDefinition(
    name="rl.environment.steps",
    instrument="counter",
    unit="{step}",
    description="Steps of environments, those of open episodes too",
    boundaries=None,
    attributes=(attributes.RL_ENVIRONMENT_NAME,),
)
RL_ENVIRONMENT_SUCCESS_RATIO: Final = definitions.MetricDefinition(
    name="rl.environment.success_ratio",
    instrument="gauge",
    unit="1",
    description="Share of the last 100 episodes that succeeded, of those whose environment says so",
    boundaries=None,
    attributes=(
        attributes.RL_ENVIRONMENT_NAME,
        attributes.RL_ENVIRONMENT_EVALUATION,
    ),
)
RL_EVENT_LOOP_BLOCKED_DURATION: Final = definitions.MetricDefinition(
    name="rl.event_loop.blocked.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a block of an event loop by one piece of code",
    boundaries=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
    attributes=(attributes.RL_EVENT_LOOP_BLOCKED_STATE,),
)
RL_EVENT_LOOP_LAG: Final = definitions.MetricDefinition(
    name="rl.event_loop.lag",
    instrument="histogram",
    unit="s",
    description="Delay of a callback that is due at a random moment",
    boundaries=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    attributes=(),
)
RL_GC_TIME: Final = definitions.MetricDefinition(
    name="rl.gc.time",
    instrument="counter",
    unit="s",
    description="Time for which the garbage collector of Python stopped the process",
    boundaries=None,
    attributes=(attributes.CPYTHON_GC_GENERATION,),
)
RL_HANG_ACTIVE: Final = definitions.MetricDefinition(
    name="rl.hang.active",
    instrument="gauge",
    unit="{hang}",
    description="Hang of a process, as its watchdog sees it: 1 in a hang or an rl.wait in which nothing moves, else 0",
    boundaries=None,
    attributes=(),
)
RL_HEALTH: Final = definitions.MetricDefinition(
    name="rl.health",
    instrument="gauge",
    unit="1",
    description="State of a health rule: 0 healthy, 1 warning, 2 critical, -1 unobserved",
    boundaries=None,
    attributes=(attributes.RL_HEALTH_CODE,),
)
RL_LOOP_CURRENT: Final = definitions.MetricDefinition(
    name="rl.loop.current",
    instrument="gauge",
    unit="{step}",
    description="Iteration that the process is in",
    boundaries=None,
    attributes=(),
)
RL_LOOP_DURATION: Final = definitions.MetricDefinition(
    name="rl.loop.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a training iteration on a rank, from the arrival of its data on",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(),
)
RL_PHASE_DURATION: Final = definitions.MetricDefinition(
    name="rl.phase.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a part of a phase",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(attributes.RL_PHASE,),
)
RL_PINNED_MEMORY_USAGE: Final = definitions.MetricDefinition(
    name="rl.pinned_memory.usage",
    instrument="updowncounter",
    unit="By",
    description="Host memory that PyTorch has pinned for CUDA",
    boundaries=None,
    attributes=(),
)
RL_REWARD_DURATION: Final = definitions.MetricDefinition(
    name="rl.reward.duration",
    instrument="histogram",
    unit="s",
    description="Duration of the phase that scores samples",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(),
)
RL_REWARD_SCORE: Final = definitions.MetricDefinition(
    name="rl.reward.score",
    instrument="histogram",
    unit="{reward}",
    description="Raw score that a reward function gave a sample",
    boundaries=(
        -10.0,
        -5.0,
        -2.0,
        -1.0,
        -0.75,
        -0.5,
        -0.25,
        -0.1,
        0.0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1.0,
        2.0,
        5.0,
        10.0,
    ),
    attributes=(attributes.RL_REWARD_NAME,),
)
RL_ROLLOUT_DURATION: Final = definitions.MetricDefinition(
    name="rl.rollout.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a trajectory",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(attributes.ERROR_TYPE,),
)
RL_ROLLOUT_STALENESS: Final = definitions.MetricDefinition(
    name="rl.rollout.staleness",
    instrument="histogram",
    unit="{version}",
    description="Versions by which the oldest weights of a trajectory are behind the newest known at its end",
    boundaries=(0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0),
    attributes=(),
)
RL_RUN_ENDED: Final = definitions.MetricDefinition(
    name="rl.run.ended",
    instrument="gauge",
    unit="{process}",
    description="Orderly end of a rank, a driver or the leading process: 0 while it runs, 1 at its end",
    boundaries=None,
    attributes=(attributes.RL_RUN_END_STATUS,),
)
RL_SAMPLE_DURATION: Final = definitions.MetricDefinition(
    name="rl.sample.duration",
    instrument="histogram",
    unit="s",
    description="Duration of the phase that makes samples",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(),
)
RL_SAMPLE_LOGPROB_DIFFERENCE_MAX: Final = definitions.MetricDefinition(
    name="rl.sample.logprob_difference.max",
    instrument="gauge",
    unit="{nat}",
    description="Largest difference, without sign, of trainer and engine in the log-probability of a sampled token",
    boundaries=None,
    attributes=(),
)
RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN: Final = definitions.MetricDefinition(
    name="rl.sample.logprob_difference.mean",
    instrument="gauge",
    unit="{nat}",
    description="Mean difference, without sign, of trainer and engine in the log-probability of a sampled token",
    boundaries=None,
    attributes=(),
)
RL_SAMPLE_QUEUE_SIZE: Final = definitions.MetricDefinition(
    name="rl.sample.queue.size",
    instrument="gauge",
    unit="{prompt}",
    description="Prompts that stay between trainer and rollouts when the trainer takes a batch",
    boundaries=None,
    attributes=(attributes.RL_SAMPLE_STATE,),
)
RL_SAMPLE_SAMPLES: Final = definitions.MetricDefinition(
    name="rl.sample.samples",
    instrument="counter",
    unit="{sample}",
    description="Samples made",
    boundaries=None,
    attributes=(),
)
RL_SAMPLE_TRUNCATED_RATIO: Final = definitions.MetricDefinition(
    name="rl.sample.truncated_ratio",
    instrument="gauge",
    unit="1",
    description="Share of samples that were cut at the length limit",
    boundaries=None,
    attributes=(),
)
RL_SAMPLE_ZERO_VARIANCE_RATIO: Final = definitions.MetricDefinition(
    name="rl.sample.zero_variance_ratio",
    instrument="gauge",
    unit="1",
    description="Share of groups whose samples all got the same reward, so that they teach nothing",
    boundaries=None,
    attributes=(),
)
RL_SERVICE_DURATION: Final = definitions.MetricDefinition(
    name="rl.service.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a request to a named service, as its client span has it",
    boundaries=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
    attributes=(
        attributes.RL_SERVICE,
        attributes.ERROR_TYPE,
    ),
)
RL_STRAGGLER_LOST_SHARE: Final = definitions.MetricDefinition(
    name="rl.straggler.lost_share",
    instrument="gauge",
    unit="1",
    description="The same as a share of these steps",
    boundaries=None,
    attributes=(attributes.RL_STRAGGLER_RANK,),
)
RL_STRAGGLER_LOST_TIME: Final = definitions.MetricDefinition(
    name="rl.straggler.lost_time",
    instrument="gauge",
    unit="s",
    description="Seconds that the last compared steps would be shorter if late ranks worked as the fastest",
    boundaries=None,
    attributes=(attributes.RL_STRAGGLER_RANK,),
)
RL_SYNC_CHECK_DURATION: Final = definitions.MetricDefinition(
    name="rl.sync.check.duration",
    instrument="histogram",
    unit="s",
    description="Time that a comparison has taken from the program",
    boundaries=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96),
    attributes=(),
)
RL_SYNC_CHECKS: Final = definitions.MetricDefinition(
    name="rl.sync.checks",
    instrument="counter",
    unit="{check}",
    description="Comparisons of the engine's weights with the trainer's, by their outcome",
    boundaries=None,
    attributes=(attributes.RL_SYNC_VERDICT,),
)
RL_SYNC_DURATION: Final = definitions.MetricDefinition(
    name="rl.sync.duration",
    instrument="histogram",
    unit="s",
    description="Duration of the phase that brings new weights to the inference engine",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(),
)
RL_SYNC_OPERATION_DURATION: Final = definitions.MetricDefinition(
    name="rl.sync.operation.duration",
    instrument="histogram",
    unit="s",
    description="Duration of an operation on the weights, the memory or the caches of an engine",
    boundaries=(
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
    ),
    attributes=(
        attributes.RL_SYNC_OPERATION,
        attributes.ERROR_TYPE,
    ),
)
RL_SYNC_TRANSFERRED: Final = definitions.MetricDefinition(
    name="rl.sync.transferred",
    instrument="counter",
    unit="By",
    description="Bytes of weights that were brought to an engine, where the arguments of the operation say it",
    boundaries=None,
    attributes=(attributes.RL_SYNC_OPERATION,),
)
RL_SYNC_UPDATES: Final = definitions.MetricDefinition(
    name="rl.sync.updates",
    instrument="counter",
    unit="{update}",
    description="Versions of the weights that an engine has got since the process began",
    boundaries=None,
    attributes=(),
)
RL_TELEMETRY_CPU_TIME: Final = definitions.MetricDefinition(
    name="rl.telemetry.cpu.time",
    instrument="counter",
    unit="s",
    description="CPU time that otel-rl took itself; measured on its own threads, estimated on those of the program",
    boundaries=None,
    attributes=(attributes.RL_TELEMETRY_THREAD,),
)
RL_TELEMETRY_DROPPED: Final = definitions.MetricDefinition(
    name="rl.telemetry.dropped",
    instrument="counter",
    unit="{item}",
    description="Items of telemetry that were dropped",
    boundaries=None,
    attributes=(
        attributes.RL_TELEMETRY_SIGNAL,
        attributes.RL_TELEMETRY_DROP_REASON,
    ),
)
RL_TELEMETRY_ERRORS: Final = definitions.MetricDefinition(
    name="rl.telemetry.errors",
    instrument="counter",
    unit="{error}",
    description="Errors that otel-rl caught; its own, and those of span processors and sinks of the program",
    boundaries=None,
    attributes=(attributes.RL_TELEMETRY_SITE,),
)
RL_TELEMETRY_INSTRUMENTOR_STATUS: Final = definitions.MetricDefinition(
    name="rl.telemetry.instrumentor.status",
    instrument="gauge",
    unit="{status}",
    description="State of an instrumentor; 1 active, 0.5 degraded, 0 skipped, -1 failed",
    boundaries=None,
    attributes=(attributes.RL_TELEMETRY_INSTRUMENTOR,),
)
RL_TRAIN_CLIP_RATIO: Final = definitions.MetricDefinition(
    name="rl.train.clip_ratio",
    instrument="gauge",
    unit="1",
    description="Share of tokens whose probability ratio was clipped",
    boundaries=None,
    attributes=(),
)
RL_TRAIN_DURATION: Final = definitions.MetricDefinition(
    name="rl.train.duration",
    instrument="histogram",
    unit="s",
    description="Duration of the phase that updates the policy",
    boundaries=(
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
        163.84,
        327.68,
        655.36,
        1310.72,
    ),
    attributes=(),
)
RL_TRAIN_ENTROPY: Final = definitions.MetricDefinition(
    name="rl.train.entropy",
    instrument="gauge",
    unit="{nat}",
    description="Mean entropy of the policy over the tokens of the batch, in nats",
    boundaries=None,
    attributes=(),
)
RL_TRAIN_GRAD_NORM: Final = definitions.MetricDefinition(
    name="rl.train.grad_norm",
    instrument="gauge",
    unit="{norm}",
    description="Norm of the gradient before clipping",
    boundaries=None,
    attributes=(),
)
RL_TRAIN_KL: Final = definitions.MetricDefinition(
    name="rl.train.kl",
    instrument="gauge",
    unit="{nat}",
    description="Divergence of the policy from the reference, as the trainer estimates it",
    boundaries=None,
    attributes=(),
)
RL_TRAIN_LEARNING_RATE: Final = definitions.MetricDefinition(
    name="rl.train.learning_rate",
    instrument="gauge",
    unit="{rate}",
    description="Learning rate",
    boundaries=None,
    attributes=(),
)
RL_TRAIN_LOSS: Final = definitions.MetricDefinition(
    name="rl.train.loss", instrument="gauge", unit="{loss}", description="Training loss", boundaries=None, attributes=()
)
RL_TRAIN_STEPS: Final = definitions.MetricDefinition(
    name="rl.train.steps",
    instrument="counter",
    unit="{step}",
    description="Optimizer steps",
    boundaries=None,
    attributes=(),
)
RL_TRAIN_TOKENS: Final = definitions.MetricDefinition(
    name="rl.train.tokens",
    instrument="counter",
    unit="{token}",
    description="Tokens trained on",
    boundaries=None,
    attributes=(),
)
RL_TRAINER_METRIC: Final = definitions.MetricDefinition(
    name="rl.trainer.metric",
    instrument="gauge",
    unit="{value}",
    description="Latest value of a scalar that the trainer logged",
    boundaries=None,
    attributes=(attributes.RL_TRAINER_METRIC_KEY,),
)
RL_TRAJECTORY_ENDED: Final = definitions.MetricDefinition(
    name="rl.trajectory.ended",
    instrument="counter",
    unit="{trajectory}",
    description="Trajectories that have ended, by their outcome",
    boundaries=None,
    attributes=(
        attributes.RL_TRAJECTORIES_SOURCE,
        attributes.RL_ROLLOUT_STATUS,
        attributes.RL_ROLLOUT_DISCARD_REASON,
    ),
)
RL_TRAJECTORY_STARTED: Final = definitions.MetricDefinition(
    name="rl.trajectory.started",
    instrument="counter",
    unit="{trajectory}",
    description="Trajectories that have begun",
    boundaries=None,
    attributes=(attributes.RL_TRAJECTORIES_SOURCE,),
)
RL_TRAJECTORY_SUSPECT: Final = definitions.MetricDefinition(
    name="rl.trajectory.suspect",
    instrument="counter",
    unit="{trajectory}",
    description="Trajectories with the lowest reward that is given in which something failed",
    boundaries=None,
    attributes=(attributes.RL_TRAJECTORIES_SOURCE,),
)
RL_TRAJECTORY_TRAINED: Final = definitions.MetricDefinition(
    name="rl.trajectory.trained",
    instrument="counter",
    unit="{trajectory}",
    description="Trajectories that the trainer takes into its loss",
    boundaries=None,
    attributes=(attributes.RL_TRAJECTORIES_SOURCE,),
)
RL_TRAJECTORY_TURNS: Final = definitions.MetricDefinition(
    name="rl.trajectory.turns",
    instrument="histogram",
    unit="{turn}",
    description="Answers of the model in a trajectory",
    boundaries=(0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0),
    attributes=(attributes.RL_TRAJECTORIES_SOURCE,),
)
RL_WORKER_CALL_DURATION: Final = definitions.MetricDefinition(
    name="rl.worker.call.duration",
    instrument="histogram",
    unit="s",
    description="Duration of a call in the worker that runs it",
    boundaries=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0),
    attributes=(
        attributes.CODE_FUNCTION_NAME,
        attributes.ERROR_TYPE,
    ),
)
SYSTEM_CPU_TIME: Final = definitions.MetricDefinition(
    name="system.cpu.time",
    instrument="counter",
    unit="s",
    description="CPU time of the node, from one process of it",
    boundaries=None,
    attributes=(attributes.CPU_MODE,),
)
SYSTEM_MEMORY_LIMIT: Final = definitions.MetricDefinition(
    name="system.memory.limit",
    instrument="updowncounter",
    unit="By",
    description="Memory that the node has, from one process of it",
    boundaries=None,
    attributes=(),
)
SYSTEM_MEMORY_USAGE: Final = definitions.MetricDefinition(
    name="system.memory.usage",
    instrument="updowncounter",
    unit="By",
    description="Memory of the node by state, from one process of it",
    boundaries=None,
    attributes=(attributes.SYSTEM_MEMORY_STATE,),
)
TORCH_DISTRIBUTED_ARRIVAL_SPREAD: Final = definitions.MetricDefinition(
    name="torch.distributed.arrival.spread",
    instrument="gauge",
    unit="s",
    description="Longest time in the last compared step from first to last rank entering a collective",
    boundaries=None,
    attributes=(attributes.TORCH_DISTRIBUTED_GROUP_NAME,),
)
TORCH_DISTRIBUTED_ARRIVAL_WAIT_SHARE: Final = definitions.MetricDefinition(
    name="torch.distributed.arrival.wait_share",
    instrument="gauge",
    unit="1",
    description="Mean share of the last compared step that a rank waited for others to enter",
    boundaries=None,
    attributes=(),
)
TORCH_DISTRIBUTED_CLOCK_OFFSET: Final = definitions.MetricDefinition(
    name="torch.distributed.clock.offset",
    instrument="gauge",
    unit="s",
    description="Wall clock of the process minus that of rank 0, measured when the process group was set up",
    boundaries=None,
    attributes=(),
)
TORCH_DISTRIBUTED_COLLECTIVE_CALLS: Final = definitions.MetricDefinition(
    name="torch.distributed.collective.calls",
    instrument="counter",
    unit="{call}",
    description="Collectives launched",
    boundaries=None,
    attributes=(
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE,
        attributes.TORCH_DISTRIBUTED_SOURCE,
    ),
)
TORCH_DISTRIBUTED_COLLECTIVE_HOST_TIME: Final = definitions.MetricDefinition(
    name="torch.distributed.collective.host_time",
    instrument="counter",
    unit="s",
    description="Host time spent launching collectives",
    boundaries=None,
    attributes=(
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE,
        attributes.TORCH_DISTRIBUTED_SOURCE,
    ),
)
TORCH_DISTRIBUTED_COLLECTIVE_IO: Final = definitions.MetricDefinition(
    name="torch.distributed.collective.io",
    instrument="counter",
    unit="By",
    description="Size of the tensors given to collectives",
    boundaries=None,
    attributes=(
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE,
        attributes.TORCH_DISTRIBUTED_SOURCE,
    ),
)
TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME: Final = definitions.MetricDefinition(
    name="torch.distributed.collective.wait_time",
    instrument="counter",
    unit="s",
    description="Host time spent waiting for collectives",
    boundaries=None,
    attributes=(
        attributes.TORCH_DISTRIBUTED_OPERATION,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE,
        attributes.TORCH_DISTRIBUTED_SOURCE,
    ),
)
SELF_TELEMETRY: Final = frozenset(
    {
        CPYTHON_GC_COLLECTIONS.name,
        HW_GPU_MEMORY_LIMIT.name,
        HW_GPU_MEMORY_USAGE.name,
        HW_GPU_UTILIZATION.name,
        HW_POWER.name,
        HW_TEMPERATURE.name,
        OTEL_SDK_EXPORTER_LOG_EXPORTED.name,
        OTEL_SDK_EXPORTER_LOG_INFLIGHT.name,
        OTEL_SDK_EXPORTER_METRIC_DATA_POINT_EXPORTED.name,
        OTEL_SDK_EXPORTER_METRIC_DATA_POINT_INFLIGHT.name,
        OTEL_SDK_EXPORTER_SPAN_EXPORTED.name,
        OTEL_SDK_EXPORTER_SPAN_INFLIGHT.name,
        OTEL_SDK_PROCESSOR_LOG_PROCESSED.name,
        OTEL_SDK_PROCESSOR_LOG_QUEUE_CAPACITY.name,
        OTEL_SDK_PROCESSOR_LOG_QUEUE_SIZE.name,
        OTEL_SDK_PROCESSOR_SPAN_PROCESSED.name,
        OTEL_SDK_PROCESSOR_SPAN_QUEUE_CAPACITY.name,
        OTEL_SDK_PROCESSOR_SPAN_QUEUE_SIZE.name,
        PROCESS_CPU_TIME.name,
        PROCESS_MEMORY_USAGE.name,
        PROCESS_MEMORY_VIRTUAL.name,
        PROCESS_THREAD_COUNT.name,
        PROCESS_UNIX_FILE_DESCRIPTOR_COUNT.name,
        RL_CGROUP_MEMORY_EVENTS.name,
        RL_CGROUP_MEMORY_LIMIT.name,
        RL_CGROUP_MEMORY_USAGE.name,
        RL_COMPILE_COMPILATIONS.name,
        RL_COMPILE_RECOMPILATIONS.name,
        RL_COMPILE_TIME.name,
        RL_CUDA_ALLOC_RETRIES.name,
        RL_CUDA_MEMORY_PEAK.name,
        RL_CUDA_MEMORY_USAGE.name,
        RL_CUDA_OOMS.name,
        RL_GC_TIME.name,
        RL_PINNED_MEMORY_USAGE.name,
        RL_RUN_ENDED.name,
        RL_TELEMETRY_CPU_TIME.name,
        RL_TELEMETRY_DROPPED.name,
        RL_TELEMETRY_ERRORS.name,
        RL_TELEMETRY_INSTRUMENTOR_STATUS.name,
        SYSTEM_CPU_TIME.name,
        SYSTEM_MEMORY_LIMIT.name,
        SYSTEM_MEMORY_USAGE.name,
    }
)
"""Names of the metrics that otel-rl keeps about itself."""
