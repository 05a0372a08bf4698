"""The rules of grafana/dashboard-linter, and what else makes a board that an on-call engineer can read."""

from __future__ import annotations

import json
import re
from itertools import combinations

import promql_parser
import pytest
from rendered_boards import COLLECTOR, RANKS, RENDERED

from dashboards.lib.layout import Cell, Row, place
from dashboards.lib.panels import timeseries
from dashboards.lib.queries import PromQuery
from dashboards.queries_of import substituted
from dashboards.rules.runs import RUN_START
from otel_rl.semconv import events
from otel_rl.training import guessed_records

UNITS = {"none", "short", "s", "bytes", "Bps", "percentunit", "cps", "sci"}
DATA_SOURCES = {"prom": "prometheus", "tempo": "tempo", "loki": "loki"}


def test_a_board_is_in_the_final_classic_schema_and_read_only(board):
    assert board["schemaVersion"] == 42
    assert board["editable"] is False
    assert board["uid"].startswith("otel-rl-")
    assert board["tags"] == ["otel-rl"]
    assert board["graphTooltip"] == 1
    assert board["refresh"] == "30s"
    assert board["description"]


def test_a_board_lets_its_user_choose_its_data_sources_and_the_run_or_the_collectors(board):
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    for name, kind in DATA_SOURCES.items():
        if board["uid"] == COLLECTOR and name == "tempo":
            continue
        assert (variables[name]["type"], variables[name]["query"]) == ("datasource", kind)
    if board["uid"] == COLLECTOR:
        assert {"role", "instance"} <= variables.keys()
    else:
        assert variables["run"]["regex"] == '/rl_run_id="([^"]+)"/'


def test_a_board_opens_on_the_run_that_began_last():
    """Grafana keeps the order of an instant query's series only where it does not sort itself."""
    for uid in RENDERED.keys() - {COLLECTOR}:
        (run,) = [one for one in RENDERED[uid]["templating"]["list"] if one["name"] == "run"]
        assert run["query"]["qryType"] == 3
        assert run["query"]["query"].startswith(
            f"query_result(sort_desc(max by (rl_run_id) (last_over_time({RUN_START.name}["
        )
        assert run["sort"] == 0
        assert "current" not in run


def test_a_query_variable_follows_the_time_range(board):
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["refresh"] == 2
            assert variable["datasource"]["uid"] == "${prom}"


def test_every_variable_that_is_chosen_is_used_and_every_used_one_can_be_chosen(board):
    text = json.dumps([board["panels"], board["annotations"], board["templating"]])
    used = set(re.findall(r"\$\{?([a-z_]+)", text))
    chosen = {variable["name"] for variable in board["templating"]["list"]}
    assert {name for name in used if not name.startswith("__")} == chosen


def test_nothing_of_the_old_shapes_is_left(board):
    text = json.dumps(board)
    assert "null" not in re.findall(r"\bnull\b", text)
    assert not re.search(r'"(intervalFactor|maxDataPoints|gnetId|sharedCrosshair|hideControls|span|minSpan)"', text)


def test_every_panel_says_what_it_shows_in_which_unit_and_what_to_do(panels):
    for panel in panels:
        assert panel["title"]
        assert len(panel["description"].split()) >= 8, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]


def test_titles_are_unique_within_a_row_of_a_board(board):
    titles: list[str] = []
    for panel in board["panels"]:
        titles = [] if panel["type"] == "row" else [*titles, panel["title"]]
        assert len(titles) == len(set(titles))


def test_every_panel_and_target_takes_its_data_source_from_the_matching_variable(panels):
    uids = {kind: f"${{{name}}}" for name, kind in DATA_SOURCES.items()}
    for panel in panels:
        for source in [panel["datasource"], *(target["datasource"] for target in panel["targets"])]:
            assert source["uid"] == uids[source["type"]]
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])


def test_panels_have_their_own_place_and_id(board):
    def area(panel):
        position = panel["gridPos"]
        columns = range(position["x"], position["x"] + position["w"])
        return {(x, y) for x in columns for y in range(position["y"], position["y"] + position["h"])}

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations(board["panels"], 2):
        assert not area(one) & area(other), (one["title"], other["title"])


def test_cells_wrap_when_a_row_is_full_and_the_next_row_starts_below_the_tallest():
    def cell(width, height):
        return Cell(timeseries("t", "d", [PromQuery("up")], unit="s"), width, height)

    panels = place((Row("a", (cell(16, 4), cell(8, 9), cell(12, 3))), Row("b", (cell(24, 2),))))
    assert [(p.gridPos.x, p.gridPos.y) for p in panels] == [(0, 0), (0, 1), (16, 1), (0, 10), (0, 13), (0, 14)]


def expressions(panels):
    for panel in panels:
        for target in panel["targets"]:
            if target["datasource"]["type"] == "prometheus":
                yield panel, target


def test_every_promql_parses_and_is_limited_to_the_chosen_run_or_collectors(board, panels):
    limits = ['rl_run_id="$run"'] if board["uid"] != COLLECTOR else ['instance=~"$instance"', 'role=~"$role"']
    for panel, target in expressions(panels):
        promql_parser.parse(substituted(target["expr"], run="r"))
        selectors = re.findall(r"[a-zA-Z_:]+\{([^}]*)\}", target["expr"])
        assert selectors, panel["title"]
        assert all(limit in selector for selector in selectors for limit in limits), panel["title"]


def test_rates_are_taken_over_the_window_that_the_user_chooses(panels):
    for panel, target in expressions(panels):
        assert set(re.findall(r"\[([^\]]+)\]", target["expr"])) <= {"$window", "$__range"}, panel["title"]


def test_counters_are_shown_as_rates_or_increases_never_as_they_are(panels):
    for panel, target in expressions(panels):
        bare = re.sub(r"(rate|increase)\([^()]*\)", "", target["expr"])
        assert not re.search(r"\w+_total\b", bare), panel["title"]


def test_only_panels_that_can_draw_exemplars_ask_for_them_and_only_of_buckets(panels):
    for panel, target in expressions(panels):
        if target["exemplar"]:
            assert panel["type"] in {"timeseries", "heatmap"}, panel["title"]
            assert "_bucket{" in target["expr"], panel["title"]
        if panel["type"] == "heatmap":
            assert target["exemplar"]
            assert target["format"] == "heatmap"
            assert panel["options"]["exemplars"]["color"]


def test_the_line_of_a_log_record_takes_its_fields_as_the_templates_of_loki_do(panels):
    for panel in panels:
        for target in panel["targets"]:
            line = target.get("expr", "").partition("| line_format ")[2]
            fields = re.findall(r"\{\{(.*?)\}\}", line)
            assert all(re.fullmatch(r"\.\w+|__line__", field) for field in fields), panel["title"]


def test_the_board_of_ranks_shows_hangs_and_late_ranks_with_their_ends():
    panels = RENDERED[RANKS]["panels"]
    shown = " ".join(target["expr"] for panel in panels if panel["type"] == "logs" for target in panel["targets"])
    for definition in (events.RL_HANG, events.RL_HANG_END, events.RL_STRAGGLER, events.RL_STRAGGLER_END):
        assert definition.name.replace(".", "[.]") in shown


def test_the_board_of_tools_shows_calls_that_hang_with_their_ends():
    panels = RENDERED["otel-rl-rollouts-tools-rewards"]["panels"]
    shown = " ".join(target["expr"] for panel in panels if panel["type"] == "logs" for target in panel["targets"])
    for definition in (events.RL_CALL_HANG, events.RL_CALL_HANG_END):
        assert definition.name.replace(".", "[.]") in shown


def test_a_legend_names_only_labels_that_its_query_keeps(panels):
    for panel, target in expressions(panels):
        kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]


def test_an_unknown_variable_in_a_query_is_an_error():
    with pytest.raises(KeyError, match="nonsense"):
        substituted('up{a="$nonsense"}', run="r")


def test_learning_panels_show_what_pytorch_knows_of_a_loop_that_no_trainer_runs():
    shown = {
        panel["title"]: [target["expr"] for target in panel["targets"]]
        for board in RENDERED.values()
        for panel in board["panels"]
        if panel["title"] in {"Loss", "Learning rate", "Gradient norm"}
    }
    for title, key in (("Loss", "loss"), ("Learning rate", "learning_rate"), ("Gradient norm", "grad_norm")):
        [query] = shown[title]
        canonical, _, guessed = query.partition(" or ")
        assert f"rl_train_{key}" in canonical
        assert f'rl_trainer_metric_key="{guessed_records.PREFIX}{key}"' in guessed
