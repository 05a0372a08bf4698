"""The report says what inference engines did in the steps: as a table, as charts and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from unit.export.recorded_lines import Lines
from unit.report.synthetic_run import process

from otel_rl.cli import main
from otel_rl.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 8
#: Of one rank and step; only half of the requests told times.
WORK: dict[str, Any] = {
    "rl.engine.requests": REQUESTS,
    "rl.engine.profiled_requests": REQUESTS // 2,
    "rl.engine.samples": 16,
    "rl.engine.truncated_samples": 4,
    "rl.engine.aborted_samples": 1,
    "rl.engine.input_tokens": 1000,
    "rl.engine.output_tokens": 5000,
    "rl.engine.cached_tokens": 250,
    "rl.engine.time_to_first_token": 0.5,
    "rl.engine.decode_time": 2.0,
}
STEPS, RANKS = 3, 2


def write(folder: Path, *, engines: bool) -> Path:
    run = folder / "run"
    for rank in range(RANKS):
        writer = process(run, rank, world_size=RANKS, started=1_700_000_000)
        for step in range(STEPS):
            queue = {"rl.engine.queue_time": 0.1 * (step + 1)} if engines else {}
            if engines:
                spread = {"median": 0.1, "p95": 0.2, "max": 0.3 + 0.1 * rank}
                queue.update({f"rl.engine.{name}.queue_time": value for name, value in spread.items()})
            attributes = {"rl.loop.iteration": step, "rl.rank": rank, **(WORK if engines else {}), **queue}
            writer.span("rl.rank.step", float(step), step + 0.9, attributes)
        writer.write()
    return run


def test_the_numbers_are_sums_over_ranks_and_means_of_the_requests_with_times(tmp_path):
    found = write_report(write(tmp_path, engines=True), tmp_path / "page.html").engines

    assert found is not None
    assert [one["step"] for one in found["steps"]] == [0, 1, 2]
    assert found["steps"][1]["requests"] == RANKS * REQUESTS
    times = found["steps"][1]["times"]
    assert {name: time["mean"] for name, time in times.items()} == pytest.approx(
        {"queue_time": 0.2, "time_to_first_token": 0.5, "decode_time": 2.0}
    )
    assert times["queue_time"] == pytest.approx(
        {"mean": 0.2, "median": 0.1, "p95": 0.2, "max": 0.3 + 0.1 * (RANKS - 1)}
    )
    whole = found["whole"]
    assert whole["output_tokens"] == STEPS * RANKS * 5000
    assert whole["cached_share"] == 0.25
    assert whole["times"]["queue_time"]["mean"] == pytest.approx(0.2)
    assert (whole["profiled_requests"], whole["requests"]) == (24, 48)


def test_the_page_has_a_table_and_charts(tmp_path):
    page = tmp_path / "page.html"
    write_report(write(tmp_path, engines=True), page)
    section = page.read_text().partition('id="engines"')[2].partition("</section>")[0]

    assert "24 of 48 requests" in section
    assert "8 of 16" in section
    assert "25 %" in section
    for title in ("Times of a request", "Tokens of a step", "Cache and ends"):
        assert title in section
    assert "Transfer" not in section


def test_tokens_that_no_answer_said_are_not_known(tmp_path, monkeypatch):
    for name in ("input", "output", "cached"):
        monkeypatch.delitem(WORK, f"rl.engine.{name}_tokens")
    page = tmp_path / "page.html"
    found = write_report(write(tmp_path, engines=True), page).engines

    assert found is not None
    assert (found["whole"]["input_tokens"], found["whole"]["output_tokens"], found["whole"]["cached_share"]) == (
        None,
    ) * 3
    assert "Tokens of a step" not in page.read_text()


def test_a_run_without_engines_says_what_would_fill_the_section(tmp_path):
    page = tmp_path / "page.html"
    report = write_report(write(tmp_path, engines=False), page)

    assert report.engines is None
    assert "Inference engines" in page.read_text()
    assert "Times of a request" not in page.read_text()


def test_times_of_calls_are_exact_over_the_run_and_by_server_without_any_step(tmp_path):
    lines = Lines(tmp_path / "run")
    for port, queue in ((8000, 0.01), (8001, 0.5)):
        for number in range(10):
            times = {"rl__engine__queue_time": queue, "rl__engine__time_to_first_token": queue + number / 100}
            call = {"gen_ai__operation__name": "chat", "server__address": "10.0.0.1", "server__port": port, **times}
            lines.span("chat m", number * 100, number * 100 + 90, f"c{port}{number}", **call)
    lines.write()
    page = tmp_path / "page.html"
    found = write_report(tmp_path / "run", page).engines

    assert found is not None
    assert found["whole"]["times"]["queue_time"] == pytest.approx(
        {"mean": 0.255, "median": 0.5, "p95": 0.5, "max": 0.5}
    )
    assert [one["server"] for one in found["servers"]] == ["10.0.0.1:8000", "10.0.0.1:8001"]
    assert found["servers"][0]["times"]["time_to_first_token"]["max"] == pytest.approx(0.1)
    section = page.read_text().partition('id="engines"')[2].partition("</section>")[0]
    assert "How long requests took, by server" in section


def test_queue_and_cache_of_each_replica_are_charts_even_if_no_step_asked_an_engine(tmp_path):
    lines = Lines(tmp_path / "run")
    for port in (8000, 8001):
        for second in range(0, 60, 15):
            place = {"server.address": "10.0.0.1", "server.port": port}
            lines.gauge("rl.engine.requests.waiting", second * 1000, float(second * (port - 7999)), **place)
            lines.gauge("rl.engine.kv_cache.usage", second * 1000, 0.5, **place)
    lines.write()
    page = tmp_path / "page.html"
    write_report(tmp_path / "run", page)
    section = page.read_text().partition('id="engines"')[2].partition("</section>")[0]

    assert "Requests in the queue of an engine" in section
    assert "Cache of an engine in use" in section
    assert "Requests that an engine works on" not in section, "nobody said it"
    for replica in ("10.0.0.1:8000", "10.0.0.1:8001"):
        assert replica in page.read_text()


def test_the_command_prints_it_for_programs(tmp_path, capsys):
    main(["report", str(write(tmp_path, engines=True)), "--json", "-o", str(tmp_path / "page.html")])

    assert json.loads(capsys.readouterr().out)["engines"]["whole"]["requests"] == 48
