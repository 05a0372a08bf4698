"""vLLM's `LLM` gets new weights by its own API for weight transfer, and has too few blocks of memory for its requests.

    python transfer_program.py MODEL

The backends that come with vLLM need GPUs; this one reads a file. Prints the tokens of each step as JSON.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams, _custom_ops
from vllm.config import WeightTransferConfig
from vllm.distributed.weight_transfer import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferEngine

import otel_rl

# vLLM's CPU build packs weights and cannot load them again. Without oneDNN it keeps its tensors, as on a GPU.
_custom_ops._supports_onednn = False

BLOCK = 32
#: Three requests of six blocks each, of which three are shared, do not fit.
BLOCKS = 10
PROMPT = list(range(10, 10 + 3 * BLOCK))


@dataclass
class Source:
    """Where the trainer leaves the weights."""

    folder: str


@dataclass
class Update:
    """Tensors of one file, described as those of the backends of vLLM are."""

    file: str
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]


class FileTransfer(WeightTransferEngine[Source, Update]):
    """Reads the weights from a file."""

    init_info_cls = Source
    update_info_cls = Update

    def init_transfer_engine(self, init_info: Source) -> None:
        self._folder = Path(init_info.folder)

    def start_weight_update(self) -> None:
        """Nothing: weights are applied in place."""

    def finish_weight_update(self) -> None:
        """Nothing either."""

    def update_weights(self, update_info: dict) -> None:
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: Update) -> None:
        found = torch.load(self._folder / update_info.file)
        self.model.load_weights((name, found[name]) for name in update_info.names)

    def shutdown(self) -> None:
        """Nothing is open."""


WeightTransferEngineFactory.register_engine("file", FileTransfer)


def send(llm: LLM, policy: torch.nn.Module, number: int) -> None:
    """Everything but the last tensor, then that one."""
    tensors = {name: one.detach() for name, one in policy.named_parameters()}
    torch.save(tensors, "weights.pt")
    llm.start_weight_update()
    for names in (list(tensors)[:-1], list(tensors)[-1:]):
        shapes = [list(tensors[name].shape) for name in names]
        described = {"names": names, "dtype_names": ["float32"] * len(names), "shapes": shapes}
        llm.update_weights({"update_info": {"file": "weights.pt", **described}})
    llm.finish_weight_update(weight_version=f"v{number}")


def main(folder: str) -> None:
    llm = LLM(
        folder,
        served_model_name="tiny",
        dtype="float32",
        enforce_eager=True,
        max_model_len=192,
        max_num_seqs=8,
        block_size=BLOCK,
        num_gpu_blocks_override=BLOCKS,
        disable_log_stats=False,
        weight_transfer_config=WeightTransferConfig(backend="file"),
        seed=0,
    )
    llm.init_weight_transfer_engine({"init_info": {"folder": "."}})
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    generated = []
    for number in (1, 2):
        with otel_rl.step(number):
            with otel_rl.phase("sample"):
                # The same prompt twice: the second finds its blocks in the cache, and a growing answer pushes one out.
                sampling = SamplingParams(max_tokens=2 * BLOCK, temperature=0, ignore_eos=True)
                prompts = [{"prompt_token_ids": [start, *PROMPT]} for start in (5, 6, 5)]
                outputs = llm.generate(prompts, sampling, use_tqdm=False)
                generated.append([list(output.outputs[0].token_ids) for output in outputs])
            with torch.no_grad():
                for parameter in policy.parameters():
                    parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
            send(llm, policy, number)
            llm.reset_prefix_cache()
    print(json.dumps({"generated": generated, "bytes": sum(one.nbytes for one in policy.parameters())}))


if __name__ == "__main__":
    main(sys.argv[1])
