"""Stands for vLLM, which is not installed: a server with its HTTP endpoints, an engine, and the transfer of weights.

TRL's own code runs up to these: ``VLLMGeneration``, ``VLLMClient`` and the trainers are constructed with
``use_vllm=True``. Of the client only ``init_communicator`` is left out, which needs a CUDA device.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[str], None]

COMPLETION = [5, 6, 7, 2]
#: What the colocated engine's caller puts into the environment.
_ENVIRONMENT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

_CONFIGURATION = {
    "weight_transfer_config": {"backend": "nccl"},
    "model_config": {"logprobs_mode": "processed_logprobs"},
}
_GET = {
    "/health": {},
    "/v1/models": {"data": [{"id": "model", "max_model_len": 1024}]},
    "/get_world_size": {"world_size": 1},
    "/server_info": {"vllm_config": _CONFIGURATION},
}


class Server(ThreadingHTTPServer):
    """Answers like ``vllm serve``: every prompt has the same completion, every token the same probability."""

    daemon_threads = True

    def __init__(self, work: Work) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.work = work
        #: Paths that were asked for, with POST.
        self.posted: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer(_GET.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        self.server.posted.append(self.path)
        if self.path != "/v1/completions":
            self._answer({"success": True})
        elif "prompt_logprobs" in body:
            self.server.work("log_probs")
            self._answer({"choices": [_judged(sequence) for sequence in body["prompt"]]})
        else:
            self.server.work("sample")
            self._answer({"choices": [_completed(one, body) for one in body["prompt"] for _ in range(body["n"])]})

    def _answer(self, content: Any) -> None:
        encoded = json.dumps(content).encode()
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: Any) -> None:
        pass


def _completed(prompt: Any, body: dict[str, Any]) -> dict[str, Any]:
    tokens = [f"token_id:{token}" for token in COMPLETION]
    logprobs = {
        "tokens": tokens,
        "token_logprobs": [-1.0] * len(tokens),
        "top_logprobs": [{token: -1.0} for token in tokens],
    }
    return {
        "prompt_token_ids": prompt if isinstance(prompt, list) else COMPLETION,
        "token_ids": COMPLETION,
        "logprobs": None if body.get("logprobs") is None else logprobs,
    }


def _judged(sequence: list[int]) -> dict[str, Any]:
    return {"prompt_logprobs": [{str(token): {"logprob": -1.0, "rank": 1}} for token in sequence]}


class Engine:
    """Stands for ``vllm.LLM`` in the process of the trainer."""

    def __init__(self, work: Work, **_: Any) -> None:
        self._work = work
        model = SimpleNamespace(load_weights=lambda _: work("sync"))
        runner = SimpleNamespace(model_runner=SimpleNamespace(model=model))
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))

    def wake_up(self, tags: list[str]) -> None:
        pass

    def sleep(self, level: int) -> None:
        pass

    def reset_prefix_cache(self) -> None:
        pass

    def generate(self, prompts: list[Any], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        self._work("sample")
        logprobs = [{token: SimpleNamespace(logprob=-1.0, rank=1)} for token in COMPLETION]
        output = SimpleNamespace(token_ids=COMPLETION, logprobs=logprobs)
        outputs = [output] * sampling_params.n
        return [
            SimpleNamespace(
                prompt_token_ids=one["prompt_token_ids"] if isinstance(one, dict) else COMPLETION, outputs=outputs
            )
            for one in prompts
        ]


def install(monkeypatch: Any, work: Work) -> None:
    """Let TRL find vLLM, in all modules that ask for it when a trainer is made."""
    from trl.generation import vllm_client

    def send(iterator: Any, trainer_args: Any) -> None:
        assert len(list(iterator)) > 0
        work("sync")

    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", lambda *_, **__: None)
    engine = SimpleNamespace(trainer_send_weights=send)
    monkeypatch.setattr(vllm_client, "NCCLWeightTransferEngine", engine, raising=False)
    monkeypatch.setattr(vllm_client, "NCCLTrainerSendWeightsArgs", SimpleNamespace, raising=False)
    for name, module in list(sys.modules.items()):
        if name.startswith("trl.") and name != "trl.import_utils" and "is_vllm_available" in vars(module):
            monkeypatch.setattr(module, "is_vllm_available", lambda *_, **__: True)
            monkeypatch.setattr(module, "LLM", functools.partial(Engine, work), raising=False)
            monkeypatch.setattr(module, "SamplingParams", SimpleNamespace, raising=False)
    # Online DPO asks for the device to hand to `init_communicator`; others ask for one that is there.
    none = torch.device("cpu")
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available=False: None if check_available else none
    )
    for name in _ENVIRONMENT:
        # As it was after the test: TRL sets them.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@functools.cache
def teacher(work: Work) -> str:
    """Address of a server that judges sequences, for as long as the process runs."""
    from trl.generation import vllm_client

    vllm_client.is_vllm_available = lambda *_, **__: True
    return Server(work).url
