"""Small parts that several programs use: a tiny model and its tokenizer, a chat server on loopback."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def tokenizer(alphabet: str):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *alphabet])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    found = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    found.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return found


def config(words, hidden: int = 64, layers: int = 2, **more):
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
        **more,
    )


def policy(words, ends: float = 0.0, **more):
    """A model with random weights; `ends` is about the chance that it ends its answer at a token."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(3)
    model = LlamaForCausalLM(config(words, **more))
    if ends:
        with torch.no_grad():
            model.model.embed_tokens.weight[:, 0] = 0.2
            model.lm_head.weight[:, 0] = 0.0
            always = model.model(torch.arange(3, len(words))[None]).last_hidden_state[..., 0].mean()
            wanted = torch.tensor(ends * (len(words) - 1) / (1 - ends)).log()
            model.lm_head.weight[words.eos_token_id, 0] = wanted / always
    return model


class Learner:
    """A small net that learns to foretell rewards from features of the rollouts: the update of a round."""

    def __init__(self, lr: float = 3e-3) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(5)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)

    def update(self, features: list[list[float]], rewards: list[float]) -> tuple[float, float]:
        import torch

        loss = (self.net(torch.tensor(features)).squeeze(-1) - torch.tensor(rewards)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss.item(), norm.item()


def calls(name: str, **arguments) -> dict:
    """Message of a model that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{random.getrandbits(40):x}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def says(text: str) -> dict:
    return {"role": "assistant", "content": text}


def serve(port: int, answer, seconds_per_token: float = 1e-3) -> None:
    """Serve chat completions; `answer(body)` gives a message, or a response of aiohttp."""
    import asyncio

    from aiohttp import web

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        message = answer(body)
        if isinstance(message, web.Response):
            return message
        read = sum(len(str(one.get("content") or "")) for one in body["messages"]) // 3
        written = len(str(message.get("content") or "x" * 36)) // 3 + 4
        await asyncio.sleep((0.01 + 3e-5 * read + seconds_per_token * written) * random.lognormvariate(0, 0.2))
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
        }
        return web.json_response(
            {
                "id": f"chatcmpl-{random.getrandbits(40):x}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body["model"],
                "choices": [choice],
                "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
            }
        )

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    application.router.add_get("/health", health)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


def start(script: str, *arguments: str, port: int) -> subprocess.Popen:
    """Start `script serve ...` and wait until it answers."""
    server = subprocess.Popen([sys.executable, script, "serve", *arguments])
    for _ in range(150):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return server
    server.kill()
    raise RuntimeError(f"no server at {port}")


def schema(name: str, argument: str) -> dict:
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
