"""The state timeline: every lane keeps its time, whatever the order; the page has a bounded text of it."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from support.reward_readers import tables_of
from unit.report.made_up_jobs import STARTED, Job, rollout
from unit.report.synthetic_run import SECOND, process
from unit.report.test_report_page import EVIL, Page

from otel_rl.report import write_report
from otel_rl.report.core import colours
from otel_rl.report.core.charts import Charts
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.stretches import paint
from otel_rl.report.subjects import load
from otel_rl.report.subjects.state_timeline import exact, fleet, packed, section, timeline
from otel_rl.report.subjects.state_timeline.states import STATES
from otel_rl.store.reader import Process, Reader, Span, find_run
from otel_rl.store.reader.records import SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from otel_rl.report.core.blocks import Section
    from otel_rl.report.subjects.state_timeline.timeline import StateTimeline

MILLISECOND = SECOND // 1000


def rank(number: int, **identity: Any) -> Process:
    resource = {"rl.rank": number, "host.name": f"node-{number // 4}", "rl.role": "trainer", "rl.run.attempt": "0.0.0"}
    return Process(f"rank-{number}", resource=resource | identity)


def span(of: Process, name: str, start: float, end: float, values: dict[str, Any] | None = None, **more: Any) -> Span:
    """A span; times in s since STARTED."""
    fields = {"trace_id": "trace", "span_id": "span", "parent_id": "parent", "events": []} | more
    begin, stop = (STARTED + round(seconds * SECOND) for seconds in (start, end))
    return Span(
        of, "scope", name, start=begin, end=stop, attributes=values or {}, failed=False, message="", dropped=0, **fields
    )


def phase(of: Process, name: str, start: float, end: float, step: int = 1) -> Span:
    return span(of, f"rl.{name}", start, end, {"rl.phase": name, "rl.loop.iteration": step})


def rank_step(of: Process, start: float, end: float, step: int = 1, **more: Any) -> Span:
    return span(of, "rl.rank.step", start, end, {"rl.loop.iteration": step}, **more)


def one_step(of: Process, at: float = 0.0, step: int = 1) -> list[Span]:
    """Children before what is around them, as they are written."""
    return [
        phase(of, "generate", at + 0.1, at + 0.4, step),
        phase(of, "sample", at + 0.0, at + 0.5, step),
        phase(of, "forward", at + 0.5, at + 0.6, step),
        phase(of, "backward", at + 0.6, at + 0.8, step),
        phase(of, "train", at + 0.5, at + 0.85, step),
        rank_step(of, at, at + 0.9, step),
    ]


def timeline_of(spans: Iterable[Span]) -> StateTimeline:
    return timeline.of_tables(tables_of(*spans), timeline.Painted())[0]


def seconds(drawn: StateTimeline, name: str) -> dict[str, float]:
    """Seconds of the lane with this name by state, to a microsecond."""
    lane = next(lane for lane in drawn.lanes if lane.name == name)
    totals = zip(STATES, lane.totals, strict=True)
    return {state.name: round(total, 6) for state, total in totals if total > 1e-9}


def content_of(drawn: StateTimeline) -> dict[str, Any]:
    return json.loads(packed.pack(drawn).text)


def stretches(lane: dict[str, Any]) -> list[tuple[str, int, int]]:
    """State, begin and end (µs) of what the page has exactly of a lane."""
    found, at = [], 0
    for part in filter(None, lane["exact"].split(";")):
        gap, length, kind = map(int, part.split(",")[:3])
        found.append((STATES[kind].name, at + gap, at + gap + length))
        at += gap + length
    return found


def built(run: Path) -> tuple[Section, Collected]:
    collected = Collected(Reader(find_run(run)), load()).read(lambda _: None)
    charts = Charts()
    return section.build(collected, charts), collected


OWN = {"sample": 0.2, "generate": 0.3, "forward": 0.1, "backward": 0.2, "train": 0.05, "in no phase": 0.05}


# -- what a lane did ------------------------------------------------------------------------------------------------


def test_each_phase_has_the_time_that_no_phase_inside_of_it_has() -> None:
    assert seconds(timeline_of(one_step(rank(0))), "rank 0") == OWN


def test_the_order_of_the_records_does_not_matter() -> None:
    zero, one = rank(0), rank(1)
    spans = [part for step in range(5) for of in (zero, one) for part in one_step(of, step * 1.0, step)]
    expected = content_of(timeline_of(spans))
    for seed in range(5):
        mixed = random.Random(seed).sample(spans, len(spans))  # noqa: S311
        assert content_of(timeline_of(mixed)) == expected


def test_time_between_two_steps_of_a_rank_and_for_data_and_in_collectives_is_waiting() -> None:
    of = rank(0)
    event = SpanEvent("torch.distributed.collective", STARTED + 700 * MILLISECOND, {"torch.distributed.duration": 0.05})
    spans = [
        *one_step(of)[:-1],
        rank_step(of, 0.0, 0.9, events=[event]),
        span(of, "rl.data_wait", 0.95, 1.0, {"rl.phase": "data_wait"}),
        *one_step(of, 1.0, 2),
    ]
    got = seconds(timeline_of(spans), "rank 0")
    waiting = {name: value for name, value in got.items() if name.startswith("waiting")}
    assert waiting == {"waiting in a collective": 0.05, "waiting for data": 0.05, "waiting between steps": 0.05}
    assert got["backward"] == 0.35
    assert all(state.waits for state in STATES if state.name in waiting)


def test_between_steps_of_which_others_were_not_recorded_nothing_is_known() -> None:
    spans = [*one_step(rank(70), 0.0, 1), *one_step(rank(70), 10.0, 11)]
    assert sum(seconds(timeline_of(spans), "rank 70").values()) == pytest.approx(1.8)


def test_an_engine_is_busy_asleep_or_gets_weights() -> None:
    of = rank(0)
    spans = [
        span(of, "chat", 0.0, 0.4, {"rl.engine.requests": 8, "gen_ai.operation.name": "chat"}),
        span(of, "chat", 0.2, 0.5, {"rl.engine.requests": 8, "gen_ai.operation.name": "chat"}),
        span(of, "rl.sync", 0.5, 0.6, {"rl.phase": "sync", "rl.sync.operation": "sleep"}),
        span(of, "rl.sync", 1.0, 1.1, {"rl.phase": "sync", "rl.sync.operation": "wake_up"}),
        span(of, "rl.sync", 1.1, 1.3, {"rl.phase": "sync", "rl.sync.operation": "update_weights"}),
        *one_step(of),
    ]
    expected = {"busy": 0.5, "load": 0.2, "asleep": 0.4, "weight sync": 0.2}
    drawn = timeline_of(spans)
    assert seconds(drawn, "engine of rank 0") == expected
    assert [moment - STARTED for moment in drawn.syncs] == [500 * MILLISECOND, SECOND, 1100 * MILLISECOND]


def test_a_model_server_is_busy_while_at_least_one_call_is_open() -> None:
    call = {"gen_ai.operation.name": "chat", "server.address": "10.0.0.7", "server.port": 8000}
    spans = [span(rank(number), "chat", 0.1 * number, 0.1 * number + 0.5, call) for number in range(4)]
    assert seconds(timeline_of([*spans, *one_step(rank(0))]), "10.0.0.7:8000") == {"busy": 0.8}


def test_a_rollout_generates_uses_tools_is_rewarded_and_waits_between() -> None:
    of, trace = rank(0), {"trace_id": "rollout-trace"}
    call = {"gen_ai.operation.name": "chat", "rl.engine.queue_time": 0.1}
    children = [
        span(of, "chat", 0.0, 0.4, call, **trace),
        span(of, "search", 0.5, 0.6, {"gen_ai.operation.name": "execute_tool"}, **trace),
        span(of, "rl.reward", 0.6, 0.7, {"rl.phase": "reward", "rl.rollout.id": "r"}, **trace),
    ]
    root = span(of, "rl.rollout", 0.0, 0.8, {"rl.rollout.id": "r", "rl.loop.iteration": 1}, **trace)
    expected = [
        ("waiting in a queue", 0, 100_000),
        ("generate", 100_000, 400_000),
        ("waiting between calls", 400_000, 500_000),
        ("tool", 500_000, 600_000),
        ("reward", 600_000, 700_000),
        ("waiting between calls", 700_000, 800_000),
    ]
    for spans in ([*children, root], [root, *children]):
        [one] = content_of(timeline_of(spans))["rollouts"]
        assert (one["name"], stretches(one)) == ("r", expected)


def test_a_call_of_an_engine_is_prefill_until_its_first_token() -> None:
    of, trace = rank(0), {"trace_id": "rollout-trace"}
    times = {"rl.engine.queue_time": 0.1, "rl.engine.time_to_first_token": 0.15}
    call = span(of, "chat", 0.0, 0.4, {"gen_ai.operation.name": "chat", **times}, **trace)
    root = span(of, "rl.rollout", 0.0, 0.4, {"rl.rollout.id": "r"}, **trace)
    [one] = content_of(timeline_of([call, root]))["rollouts"]
    assert stretches(one) == [
        ("waiting in a queue", 0, 100_000),
        ("prefill", 100_000, 150_000),
        ("generate", 150_000, 400_000),
    ]


def test_a_rollout_has_a_lane_for_the_prefill_server_and_one_for_the_decode_server() -> None:
    of, trace = rank(0), {"trace_id": "rollout-trace"}
    times = {
        "rl.engine.queue_time": 0.02,
        "rl.engine.prefill.bootstrap_queue_time": 0.05,
        "rl.engine.prefill_time": 0.1,
        "rl.engine.prefill.transfer_queue_time": 0.03,
        "rl.engine.decode.bootstrap_time": 0.01,
        "rl.engine.decode.alloc_wait_time": 0.01,
        "rl.engine.decode.prealloc_time": 0.02,
        "rl.engine.transfer_time": 0.03,
        "rl.engine.decode_time": 0.2,
    }
    call = span(of, "chat", 0.0, 0.4, {"gen_ai.operation.name": "chat", **times}, **trace)
    root = span(of, "rl.rollout", 0.0, 0.4, {"rl.rollout.id": "r"}, **trace)
    [one] = content_of(timeline_of([call, root]))["rollouts"]
    assert stretches(one) == [("generate", 0, 400_000)]
    assert {lane["name"]: stretches(lane) for lane in one["beneath"]} == {
        "[P] r": [
            ("waiting in a queue", 0, 50_000),
            ("prefill", 50_000, 120_000),
            ("waiting for the transfer of a cache", 120_000, 150_000),
        ],
        "[D] r": [
            ("waiting in a queue", 150_000, 170_000),
            ("waiting for the transfer of a cache", 170_000, 200_000),
            ("generate", 200_000, 400_000),
        ],
    }


def test_outermost_calls_of_agents_are_rollouts_until_one_is_marked() -> None:
    of = rank(0)
    agent = span(of, "invoke_agent", 0, 1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
    agent.parent_id = ""
    assert [one["name"] for one in content_of(timeline_of([agent]))["rollouts"]] == ["a trace"]
    marked = span(of, "rl.rollout", 1, 2, {"rl.rollout.id": "b"}, trace_id="other")
    assert [one["name"] for one in content_of(timeline_of([agent, marked, agent]))["rollouts"]] == ["b"]


def test_the_shortest_of_very_many_stretches_is_seen_and_those_below_a_longer_one_are_not() -> None:
    below = [(place, place + 1, 2, 1, place) for place in range(1, 999)]
    short = (500, 501, 3, 0, 7)
    rows = sorted([(0, 1000, 1, 0, -1), (998, 1002, 4, 1, -1), *below, short])
    assert list(paint(rows)) == [(0, 500, 1, -1), (*short[:3], 7), (501, 1000, 1, -1), (1000, 1002, 4, -1)]


# -- bounded --------------------------------------------------------------------------------------------------------


def long_run(steps: int, ranks: int = 2) -> Iterable[Span]:
    processes = [rank(number) for number in range(ranks)]
    for step in range(steps):
        for of in processes:
            yield from one_step(of, step * 1.0, step)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is full early."""
    monkeypatch.setattr(exact, "LATEST", 1000)


@pytest.mark.usefixtures("narrow")
def test_merging_keeps_the_time_of_every_phase() -> None:
    got = seconds(timeline_of(long_run(1000)), "rank 1")
    wanted = {name: pytest.approx(1000 * value, abs=1e-3) for name, value in OWN.items()}
    assert got == wanted | {"waiting between steps": pytest.approx(99.9, abs=1e-3)}


@pytest.mark.usefixtures("narrow")
def test_a_long_run_has_its_latest_steps_and_the_slowest_one_exactly_and_the_rest_in_bins() -> None:
    slow = [phase(rank(0), "generate", 5.905, 7.4, 5), rank_step(rank(0), 5.9, 7.5, 5)]
    shifted = [one for one in long_run(1000) if not 5.0 <= (one.start - STARTED) / SECOND < 7.5]
    drawn = timeline_of(sorted([*shifted, *slow], key=lambda one: one.end))
    content = content_of(drawn)
    assert sum(lane["exact"].count(";") + 1 for lane in content["lanes"]) <= 1100
    assert content["windows"][0] == [5_900_000, 7_500_000]
    assert content["windows"][1][0] > 900_000_000
    zero = content["lanes"][0]
    assert ("generate", 5_905_000, 7_400_000) in stretches(zero)
    assert len(zero["bins"]) == 2 * drawn.bins.number
    assert content["steps"][content["slowest"]][0] == "5"
    assert {zero["bins"][place] for place in range(0, len(zero["bins"]), 2)} <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ.")


def test_a_step_of_very_many_stretches_is_merged_to_what_a_screen_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "LATEST", 500)
    of = rank(0)
    many = [phase(of, ("forward", "backward")[place % 2], place / 1000, (place + 1) / 1000) for place in range(4000)]
    packed_run = packed.pack(timeline_of([*many, rank_step(of, 0, 4)]))
    [lane] = json.loads(packed_run.text)["lanes"]
    assert lane["exact"].count(";") < 500
    assert packed_run.shortest >= 4 * MILLISECOND
    assert sum(end - start for _, start, end in stretches(lane)) == 4_000_000
    assert lane["exact"].split(";")[0].endswith(",50")


def test_the_text_of_the_largest_job_stays_within_its_bound() -> None:
    content = packed.pack(timeline_of(long_run(60, ranks=300)))
    assert len(content.text) <= packed.BYTES < 3 * 2**20
    assert content.since > STARTED


def test_a_step_whose_number_comes_again_is_the_later_one_and_ranks_of_one_step_are_together() -> None:
    zero, one = rank(0), rank(1)
    again = [rank_step(zero, 0, 1), rank_step(zero, 500, 501), rank_step(one, 502, 503)]
    for spans in (again, again[::-1]):
        [step] = timeline_of(spans).steps
        assert ((step.start - STARTED) / SECOND, (step.end - STARTED) / SECOND) == (500, 503)


def test_records_of_a_wrong_clock_are_left_out_and_counted() -> None:
    of = rank(0)
    wrong = [rank_step(of, -STARTED / SECOND + 5, -STARTED / SECOND + 6), rank_step(of, 9e8, 9e8 + 1)]
    drawn = timeline_of([wrong[0], *one_step(of), wrong[1], span(of, "rl.train", 5, 4, {"rl.phase": "train"})])
    assert drawn.misdated == 3
    assert drawn.end - drawn.start == 900 * MILLISECOND


def test_rollouts_beyond_those_that_are_kept_are_counted() -> None:
    of = rank(0)
    spans = [
        span(of, "rl.rollout", 0.0, 0.1 + number / 1000, {"rl.rollout.id": str(number), "rl.loop.iteration": 1},
             trace_id=str(number))
        for number in range(100)
    ]  # fmt: skip
    content = packed.pack(timeline_of([*spans, *one_step(of)]))
    chosen = json.loads(content.text)["chosen"]
    assert content.rollouts == 68
    assert (len(chosen["longest"]), len(chosen["latest"])) == (32, 32)
    assert [len(chosen["steps"]["0"][0]), chosen["steps"]["0"][1]] == [32, 100]


def test_the_latest_rollouts_are_those_that_ended_last_whichever_file_is_read_first() -> None:
    spans = [
        span(
            rank(number),
            "rl.rollout",
            step,
            step + 0.5,
            {"rl.rollout.id": f"{step}-{number}"},
            trace_id=f"{step}-{number}",
        )
        for number in (0, 1)
        for step in range(40)
    ]
    content = content_of(timeline_of(spans))
    latest = [content["rollouts"][place]["name"] for place in content["chosen"]["latest"]]
    assert latest == [f"{step}-{number}" for step in range(24, 40) for number in (0, 1)]


# -- the page -------------------------------------------------------------------------------------------------------


def _job(folder: Path, ranks: int, steps: int = 6) -> Path:
    return Job(folder / "run-1", lambda _step, _rank: {"sample": 1.0, "train": 0.5}, ranks=ranks, steps=steps).write()


def keys(of: Section) -> list[str]:
    return [drawing.key for block in of.blocks for drawing in block.charts]


def test_up_to_32_ranks_are_lanes_and_more_have_an_overview_too(tmp_path: Path) -> None:
    few, _ = built(_job(tmp_path / "few", 32))
    assert keys(few) == ["states-ranks"]
    many, collected = built(_job(tmp_path / "many", 33))
    assert keys(many) == ["states-shares", "states-own-work", "states-ranks"]
    [plot] = [drawing.plot for block in many.blocks for drawing in block.charts if drawing.key == "states-ranks"]
    assert len(plot.rows) == 32
    _, table = fleet.shares(timeline.of_run(collected))
    assert table.sum(axis=0).max() <= 100 + 1e-6
    assert table.sum(axis=0)[1:-1].min() > 99
    steps, quantiles = fleet.own_work(collected)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert all(list(of_step) == sorted(of_step) for of_step in zip(*quantiles, strict=True))


def test_waiting_is_light_and_hatched_and_work_is_not(tmp_path: Path) -> None:
    many, _ = built(_job(tmp_path, 33))
    plots = {drawing.key: drawing.plot for block in many.blocks for drawing in block.charts}
    looks = {glyph.values["name"]: glyph.values for glyph in plots["states-ranks"].glyphs}
    assert looks["states-ranks-waits"]["hatch_pattern"] == "/"
    assert looks["states-ranks-waits"]["fill_color"] == colours.WAITING
    assert "hatch_pattern" not in looks["states-ranks-work"]
    assert {state.colour for state in STATES if state.waits} == {colours.WAITING}
    assert colours.WAITING not in {state.colour for state in STATES if not state.waits}


def test_a_run_without_steps_and_rollouts_has_no_timeline_and_says_what_would_bring_it(tmp_path: Path) -> None:
    writer = process(tmp_path / "run-1", 0, started=STARTED)
    writer.span("chat", 0, 1, {"gen_ai.operation.name": "chat", "server.address": "localhost"})
    writer.span("rl.checkpoint", 1, 2, {"rl.phase": "checkpoint"})
    writer.write()
    empty, _ = built(tmp_path / "run-1")
    assert (empty.blocks, empty.filler) == ([], "Steps with phases bring it, and rollouts.")


def test_an_agent_without_training_has_its_rollouts_and_its_engine(tmp_path: Path) -> None:
    writer = process(tmp_path / "run-1", None, started=STARTED)
    parts = [("chat", 0.5, {"gen_ai.operation.name": "chat", "server.address": "localhost"})]
    rollout(writer, 1, 1, 1.0, parts)
    writer.write()
    agent, _ = built(tmp_path / "run-1")
    assert keys(agent) == ["states-ranks", "states-rollouts"]


def test_names_of_the_run_are_data_and_never_markup(tmp_path: Path) -> None:
    writer = process(tmp_path / "run-1", None, started=STARTED, rl__role=EVIL, host__name="node")
    call = {"gen_ai.operation.name": "chat", "server.address": EVIL}
    trace = {"rl.rollout.id": EVIL, "rl.loop.iteration": 1}
    writer.span("chat", 0, 1, call)
    writer.span("rl.rollout", 0, 1, trace)
    writer.span("rl.rank.step", 0, 1, {"rl.loop.iteration": 1})
    writer.write()
    report = write_report(tmp_path / "run-1", None)
    html = report.output.read_text()
    assert EVIL not in html
    page = Page(report.output)
    assert "states" in page.texts


def test_the_page_says_what_is_merged_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "LATEST", 3)
    of_job, _ = built(_job(tmp_path, 2, steps=30))
    note = of_job.blocks[-1].note
    assert "the slowest step; before that each lane shows for every" in note
    assert "are merged there too" in note
