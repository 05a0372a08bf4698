"""Modules whose import makes an instrumentor of ours worth loading: generated; run `make generate`.

The class of an instrumentor declares them (:meth:`otel_rl.instrumentors.base.Instrumentor.triggers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

TRIGGERS: Final[Mapping[str, tuple[str, ...]]] = {
    "otel_rl_accelerate": ("accelerate.accelerator", "accelerate"),
    "otel_rl_aiohttp": ("aiohttp.client", "aiohttp.client_reqrep", "aiohttp.streams", "aiohttp"),
    "otel_rl_deepspeed": ("deepspeed.runtime.engine", "deepspeed.monitor.monitor", "deepspeed"),
    "otel_rl_gymnasium": (
        "gymnasium.core",
        "gymnasium.wrappers.common",
        "gymnasium.vector.vector_env",
        "gymnasium.vector.async_vector_env",
        "gymnasium",
    ),
    "otel_rl_httpx": ("httpx._client", "httpx._models", "httpx"),
    "otel_rl_httpx2": ("httpx2._client", "httpx2._models", "httpx2"),
    "otel_rl_langchain": (
        "langchain_core.callbacks.manager",
        "langchain_core.runnables.config",
        "langchain_core.tools.base",
        "langgraph._internal._runnable",
        "langgraph.utils.runnable",
        "langgraph.prebuilt.tool_node",
        "opentelemetry.instrumentation.genai.langchain.callback_handler",
        "opentelemetry.instrumentation.genai.langchain._run_context",
        "langchain_core",
    ),
    "otel_rl_lightning": (
        "lightning.pytorch.core.optimizer",
        "lightning.pytorch.loops.evaluation_loop",
        "lightning.pytorch.loops.prediction_loop",
        "lightning.pytorch.loops.training_epoch_loop",
        "lightning.pytorch.trainer.call",
        "lightning.pytorch.trainer.connectors.logger_connector.logger_connector",
        "lightning.pytorch.trainer.trainer",
        "pytorch_lightning.core.optimizer",
        "pytorch_lightning.loops.evaluation_loop",
        "pytorch_lightning.loops.prediction_loop",
        "pytorch_lightning.loops.training_epoch_loop",
        "pytorch_lightning.trainer.call",
        "pytorch_lightning.trainer.connectors.logger_connector.logger_connector",
        "pytorch_lightning.trainer.trainer",
        "lightning",
    ),
    "otel_rl_mcp": (
        "mcp.client.stdio",
        "mcp.client.streamable_http",
        "mcp.client.sse",
        "mcp.server.stdio",
        "mcp.client.session",
        "mcp.server.lowlevel.server",
        "mcp.shared.session",
        "mcp.shared._otel",
        "mcp.shared.jsonrpc_dispatcher",
        "mcp.shared.direct_dispatcher",
        "mcp.server.runner",
        "mcp",
    ),
    "otel_rl_mlflow": ("mlflow.tracking.client", "mlflow"),
    "otel_rl_openai": (
        "openai._base_client",
        "openai.lib.streaming.chat._completions",
        "openai.lib.streaming.responses._responses",
        "openai",
    ),
    "otel_rl_requests": ("requests.sessions", "requests.models", "requests"),
    "otel_rl_safetensors": ("safetensors.torch", "safetensors"),
    "otel_rl_stable_baselines3": (
        "stable_baselines3.common.base_class",
        "stable_baselines3.common.logger",
        "stable_baselines3.common.evaluation",
        "stable_baselines3.common.vec_env.subproc_vec_env",
        "stable_baselines3",
    ),
    "otel_rl_swanlab": ("swanlab.sdk.internal.run", "swanlab.sdk.internal.run.components.config", "swanlab"),
    "otel_rl_tensorboard": ("torch.utils.tensorboard.writer", "tensorboard"),
    "otel_rl_tensorboardx": ("tensorboardX.writer", "tensorboardX"),
    "otel_rl_torch_checkpoint": (
        "torch.serialization",
        "torch.distributed.checkpoint.state_dict_saver",
        "torch.distributed.checkpoint.state_dict_loader",
        "torch",
    ),
    "otel_rl_torch_distributed": ("torch.distributed.distributed_c10d", "torch.nn.parallel.distributed", "torch"),
    "otel_rl_torch_training": ("torch.optim.optimizer", "torch.autograd", "torch.utils.data.dataloader", "torch"),
    "otel_rl_trackio": ("trackio.run", "trackio"),
    "otel_rl_transformers": (
        "transformers.training_args",
        "transformers.trainer_callback",
        "transformers.trainer",
        "transformers.modeling_utils",
        "transformers.tokenization_utils_base",
        "accelerate.accelerator",
        "datasets.load",
        "datasets.arrow_dataset",
        "transformers",
    ),
    "otel_rl_trl": (
        "trl.extras.profiling",
        "trl.generation.vllm_generation",
        "trl.trainer.grpo_trainer",
        "trl.trainer.rloo_trainer",
        "trl.trainer.distillation_trainer",
        "trl.experimental.a2po.a2po_trainer",
        "trl.experimental.async_distillation.async_distillation_trainer",
        "trl.experimental.async_grpo.async_grpo_trainer",
        "trl.experimental.gkd.gkd_trainer",
        "trl.experimental.gold.gold_trainer",
        "trl.experimental.iw_opd.iw_opd_trainer",
        "trl.experimental.online_dpo.online_dpo_trainer",
        "trl.experimental.sdft.sdft_trainer",
        "trl.experimental.sdpo.sdpo_trainer",
        "trl",
    ),
    "otel_rl_urllib3": ("urllib3.connectionpool", "urllib3.poolmanager", "urllib3.response", "urllib3"),
    "otel_rl_vllm": (
        "vllm.entrypoints.llm",
        "vllm.v1.engine.llm_engine",
        "vllm.v1.engine.async_llm",
        "vllm.tracing.otel",
        "vllm",
    ),
    "otel_rl_wandb": ("wandb.sdk.wandb_run", "wandb"),
}
"""Entry point -> the modules that it patches, and last the library itself."""
GENERAL_PURPOSE: Final = ("otel_rl_aiohttp", "otel_rl_httpx", "otel_rl_httpx2", "otel_rl_requests", "otel_rl_urllib3")
"""Entry points whose library does not suggest an AI workload."""
