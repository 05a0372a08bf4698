"""What the durable exporters promise, with the real binary: nothing is dropped in silence."""

from __future__ import annotations

import json
import shutil
import stat
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import shipped_settings
from collector_process import CollectorProcess, free_ports, wait_for
from otlp import log_resource, span, trace_resource, value
from otlp_backend import OtlpBackend, Request, take

if TYPE_CHECKING:
    from pathlib import Path

LGTM = ["gateway.yaml", "sinks/lgtm.yaml"]
DURABLE = [*LGTM, "overlays/durable.yaml", "overlays/durable/lgtm.yaml"]


def to(backend: OtlpBackend | str, **more: str) -> dict[str, str]:
    """Return the variables that send everything to one backend, quickly."""
    url = backend if isinstance(backend, str) else backend.url
    return {
        "OTEL_RL_COLLECTOR_LOKI_URL": url,
        "OTEL_RL_COLLECTOR_TEMPO_URL": url,
        "OTEL_RL_COLLECTOR_PROMETHEUS_URL": url,
        **shipped_settings.flush_timeout("50ms"),
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
        "OTEL_RL_COLLECTOR_DEAD_LETTER_DIR": "letters",
        **more,
    }


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def logs(*bodies: str) -> list[dict]:
    return [log_resource([{"body": value(body)} for body in bodies])]


def dead_letters(collector: CollectorProcess) -> list[dict]:
    files = sorted((collector.folder / "letters").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def metric(collector: CollectorProcess, name: str, **labels: str) -> float:
    """Return the sum of the collector's own metric over the series with these labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    wanted = [f'{label}="{content}"' for label, content in labels.items()]
    found = [line for line in lines if line.startswith(f"{name}{{") and all(each in line for each in wanted)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def refuse_item(name: str, status: int):
    def answer(request: Request) -> int:
        return status if name in request.items else 200

    return answer


def test_nothing_is_lost_to_an_endpoint_that_is_set_up_wrongly_or_busy(otelcol_rl: Path, tmp_path: Path):
    """The body of a record is the status with which the endpoint answers until it is repaired."""
    statuses = [401, 403, 404, 415, 429, 500, 503]
    soon = shipped_settings.of_exporters("retry_on_failure::initial_interval", "200ms")
    with (
        OtlpBackend() as backend,
        CollectorProcess(otelcol_rl, DURABLE, tmp_path, to(backend, **soon)) as gateway,
    ):

        def failed() -> float:
            return metric(gateway, "otelcol_exporter_failed_requests", exporter="durable_otlp_http/loki")

        for status in statuses:
            backend.answer = lambda _, status=status: status
            before = failed()
            gateway.send("logs", logs(f"{status}", f"beside {status}"))
            wait_for(lambda before=before: failed() > before + 1, f"tries that end with {status}")
            backend.answer = take
            wait_for(lambda status=status: f"{status}" in backend.taken, f"delivered after the repair of {status}")
        wait_for(lambda: len(backend.taken) >= 2 * len(statuses), "all records")
        assert sorted(backend.taken) == sorted(text for each in statuses for text in (f"{each}", f"beside {each}"))
        assert dead_letters(gateway) == []


def test_an_endpoint_that_refuses_gzip_with_400_gets_everything_once_it_takes_it(otelcol_rl: Path, tmp_path: Path):
    def no_gzip(request: Request) -> int:
        return 400 if request.coding else 200

    with (
        OtlpBackend(answer=no_gzip) as backend,
        CollectorProcess(otelcol_rl, DURABLE, tmp_path, to(backend)) as gateway,
    ):
        gateway.send("logs", logs("one"))
        said = wait_for(lambda: [line for line in gateway.log().splitlines() if "Fix:" in line], "a line with the fix")
        assert "refuses even a request without items" in said[0]
        backend.answer = lambda _: 200
        wait_for(lambda: backend.taken == ["one"], "delivered after the repair")
        assert dead_letters(gateway) == []


def test_only_the_refused_item_becomes_a_dead_letter_and_it_can_be_replayed(otelcol_rl: Path, tmp_path: Path):
    good = [f"record {number}" for number in range(200)]
    with OtlpBackend(answer=refuse_item("bad", 422)) as backend:
        with CollectorProcess(otelcol_rl, DURABLE, made(tmp_path / "gateway"), to(backend)) as gateway:
            gateway.send("logs", logs(*good[:100], "bad", *good[100:]))
            wait_for(lambda: len(backend.taken) == len(good), "the others")
            wait_for(lambda: dead_letters(gateway), "the dead letter")
            wait_for(lambda: metric(gateway, "otelcol_exporter_dead_letter_items", reason="refused") == 1, "counted")
        assert sorted(backend.taken) == sorted(good)
        (letter,) = dead_letters(gateway)
        assert letter["deadLetter"]["reason"] == "refused"
        assert "422" in letter["deadLetter"]["error"]
        (file,) = (gateway.folder / "letters").glob("*.jsonl")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

        replay = made(tmp_path / "replay")
        shutil.move(file, replay)
        backend.answer = lambda _: 200
        variables = to(backend, **{shipped_settings.REPLAYED_FILES: f'["{replay}/*.jsonl"]'})
        with CollectorProcess(
            otelcol_rl, [*LGTM, "overlays/replay.yaml"], made(tmp_path / "again"), variables
        ) as again:
            wait_for(lambda: backend.taken.count("bad") == 1, "the replayed record")
            assert dead_letters(again) == []


def test_an_endpoint_that_refuses_requests_without_items_blocks_nothing(otelcol_rl: Path, tmp_path: Path):
    """Loki does so: 422, at least one valid stream is required."""

    def as_loki(request: Request) -> int:
        return 422 if not request.items or "bad" in request.items else 200

    good = [f"record {number}" for number in range(50)]
    with (
        OtlpBackend(answer=as_loki) as backend,
        CollectorProcess(otelcol_rl, DURABLE, tmp_path, to(backend)) as gateway,
    ):
        gateway.send("logs", logs(*good, "bad"))
        wait_for(lambda: sorted(backend.taken) == sorted(good), "the others")
        wait_for(lambda: "'bad'" in str(dead_letters(gateway)), "the dead letter")


def test_what_is_refused_again_in_a_replay_is_not_read_again(otelcol_rl: Path, tmp_path: Path):
    replay = made(tmp_path / "replay")
    line = {"resourceLogs": logs("bad")}
    (replay / "letters.jsonl").write_text(json.dumps(line) + "\n")
    with OtlpBackend(answer=refuse_item("bad", 400)) as backend:
        variables = to(backend, **{shipped_settings.REPLAYED_FILES: f'["{replay}/*.jsonl"]'})
        with CollectorProcess(
            otelcol_rl, [*LGTM, "overlays/replay.yaml"], made(tmp_path / "again"), variables
        ) as again:
            wait_for(lambda: len(dead_letters(again)) == 1, "a new dead letter")
            requests = backend.requests
            again.send("logs", logs("after"))
            wait_for(lambda: "after" in backend.taken, "later records")
            assert len(dead_letters(again)) == 1
            assert backend.requests - requests < 10
        assert len(list(replay.iterdir())) == 1


def test_a_killed_gateway_delivers_what_it_took_after_its_restart(otelcol_rl: Path, tmp_path: Path):
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    with CollectorProcess(otelcol_rl, DURABLE, tmp_path, to(nowhere)) as gateway:
        gateway.send("logs", logs("before the kill"))
        assert gateway.process is not None
        gateway.process.kill()
        gateway.process.wait()
    with OtlpBackend() as backend, CollectorProcess(otelcol_rl, DURABLE, tmp_path, to(backend)):
        wait_for(lambda: backend.taken == ["before the kill"], "the record of before")


def test_stopping_with_a_dead_backend_turns_queues_in_memory_into_dead_letters(otelcol_rl: Path, tmp_path: Path):
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    with CollectorProcess(otelcol_rl, LGTM, tmp_path, to(nowhere)) as gateway:
        gateway.send("logs", logs("one", "two"))
        gateway.send("traces", [trace_resource([span("rl.loop")])])
        wait_for(
            lambda: metric(gateway, "otelcol_exporter_failed_requests", exporter="durable_otlp_http/loki") > 0,
            "a try",
        )
        assert gateway.stop() == 0
    letters = dead_letters(gateway)
    kept = [letter["deadLetter"]["items"] for letter in letters if "resourceLogs" in letter]
    assert sum(kept) >= 2
    assert any("rl.loop" in json.dumps(letter) for letter in letters), "also what tail sampling had not decided yet"
    assert {letter["deadLetter"]["reason"] for letter in letters} == {"shutdown"}
    assert "Dropping data" not in gateway.log()
