"""Supervised fine-tuning of a small GPT-2; metrics go to a tracking server after each step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

STEPS = 78


def serve() -> None:
    """Tracking server; its store takes so many writes before it compacts in the background."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    writes = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_) -> None:
            pass

        def do_POST(self) -> None:
            nonlocal writes
            self.rfile.read(int(self.headers["content-length"]))
            writes += 1
            time.sleep(0.003 if writes <= 33 else 0.45)
            answer = b'{"ok": true}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


class Tracker:
    def __init__(self, address: str):
        import requests

        self.session = requests.Session()
        self.url = f"{address}/api/runs/7/metrics"

    def log_metrics(self, step: int, metrics: dict[str, float]) -> None:
        self.session.post(self.url, json={"step": step, "metrics": metrics}, timeout=5).raise_for_status()


def train(tracker: Tracker) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(9)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=600, n_positions=128, n_embd=128, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 10)
    generator = torch.Generator().manual_seed(9)
    for step in range(STEPS):
        begin = time.monotonic()
        starts = torch.randint(600, (8, 1), generator=generator)
        strides = torch.randint(1, 6, (8, 1), generator=generator)
        tokens = (starts + strides * torch.arange(80)) % 600
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        metrics = {
            "loss": loss.item(),
            "grad_norm": norm.item(),
            "lr": schedule.get_last_lr()[0],
            "seconds": time.monotonic() - begin,
        }
        tracker.log_metrics(step, metrics)
        print(json.dumps({"step": step, **{name: round(one, 5) for name, one in metrics.items()}}), flush=True)


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    )
    try:
        train(Tracker(f"http://127.0.0.1:{int(server.stdout.readline())}"))
    finally:
        server.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve()
    else:
        main()
