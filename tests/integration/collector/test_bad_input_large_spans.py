"""A span that is larger than a batch or than a backend takes never costs the spans beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import shipped_settings
from bad_input import by_command, export, post
from collector_process import CollectorProcess, wait_for
from otlp import span

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "OTEL_RL_COLLECTOR_"
KEEP_ALL = {
    f"{PREFIX}SAMPLED_PERCENTAGE": "100",
    f"{PREFIX}DECISION_WAIT": "2s",
    f"{PREFIX}ROOT_WAIT": "1s",
}
FOUR_MEBIBYTES = """
receivers:
  otlp: {protocols: {grpc: {max_recv_msg_size_mib: 4}}}
"""


def _trace(name: str, size: int = 0) -> dict[str, Any]:
    """Return a span that is a trace of its own, with about that many KiB of words."""
    words = {f"note-{number}": f"word {number} " * 1000 for number in range(size // 9)}
    return span(name, words, trace_id=os.urandom(16).hex())


def _names(collector: CollectorProcess) -> set[str]:
    return {each.get("name", "") for each in collector.spans()}


def test_a_large_span_and_its_neighbours_go_from_the_agent_to_the_gateway(otelcol_rl: Path, tmp_path: Path):
    folders = {role: tmp_path / role for role in ("agent", "gateway")}
    for folder in folders.values():
        folder.mkdir()
    sent = {"before", "of-5-mb", "after", "of-12-mb", "last"}
    with by_command(otelcol_rl, folders["gateway"], ["--role", "gateway", "--sink", "file"], **KEEP_ALL) as gateway:
        address = f"127.0.0.1:{gateway.environment[f'{PREFIX}GRPC_PORT']}"
        with by_command(otelcol_rl, folders["agent"], ["--role", "agent"], **{f"{PREFIX}GATEWAY": address}) as agent:
            assert post(agent, export([_trace("before"), _trace("of-5-mb", 5_000), _trace("after")]))[0] == 200
            assert post(agent, export([_trace("of-12-mb", 12_000), _trace("last")]))[0] == 200
            wait_for(lambda: sent <= _names(gateway), "all spans are at the gateway")
            assert "dropping items" not in agent.log()


def test_a_span_that_the_backend_does_not_take_goes_to_the_dead_letters_alone(otelcol_rl: Path, tmp_path: Path):
    folders = {role: tmp_path / role for role in ("gateway", "backend")}
    for folder in folders.values():
        folder.mkdir()
    small = tmp_path / "four-mebibytes.yaml"
    small.write_text(FOUR_MEBIBYTES)
    letters = tmp_path / "letters"
    with CollectorProcess(otelcol_rl, ["local.yaml", small], folders["backend"]) as backend:
        variables = {
            **KEEP_ALL,
            f"{PREFIX}OTLP_ENDPOINT": f"127.0.0.1:{backend.environment[f'{PREFIX}GRPC_PORT']}",
            shipped_settings.SINK_INSECURE: "true",
            f"{PREFIX}DEAD_LETTER_DIR": str(letters),
        }
        with by_command(
            otelcol_rl, folders["gateway"], ["--role", "gateway", "--sink", "otlp"], **variables
        ) as gateway:
            assert post(gateway, export([_trace("before"), _trace("too-large", 6_000), _trace("after")]))[0] == 200
            wait_for(lambda: {"before", "after"} <= _names(backend), "the neighbours are at the backend")
            wait_for(
                lambda: any("too-large" in file.read_text() for file in letters.rglob("*") if file.is_file()),
                "the large span is in a dead letter",
            )
        assert "too-large" not in _names(backend)
