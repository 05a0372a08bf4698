"""Links carry the run and the time range from metric to trace to log."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

from rendered_boards import COLLECTOR, RENDERED

from dashboards.lib import links
from dashboards.lib.queries import LokiQuery


def explore_pane(url):
    """The one pane that a link opens; fails if the address is not what Grafana's Explore reads."""
    address = urlsplit(url)
    assert address.path == "/explore"
    parameters = parse_qs(address.query, strict_parsing=True)
    assert parameters["schemaVersion"] == ["1"]
    (pane,) = json.loads(parameters["panes"][0]).values()
    return pane


def data_links(panel):
    yield from panel["fieldConfig"]["defaults"].get("links", [])
    for override in panel["fieldConfig"]["overrides"]:
        for change in override["properties"]:
            if change["id"] == "links":
                yield from change["value"]


def test_every_data_link_opens_explore_on_the_chosen_source_and_time_range(panels):
    for panel in panels:
        for link in data_links(panel):
            pane = explore_pane(link["url"])
            assert pane["range"] == {"from": "${__from}", "to": "${__to}"}
            assert pane["datasource"] == pane["queries"][0]["datasource"]["uid"]
            assert pane["datasource"] in {"${tempo}", "${loki}"}


def test_every_data_link_is_about_the_chosen_run_or_the_clicked_trace(panels):
    for panel in panels:
        for link in data_links(panel):
            query = explore_pane(link["url"])["queries"][0]
            text = query.get("query") or query["expr"]
            assert "${run}" in text or text == "${__value.raw}"


def test_variables_stay_readable_for_grafana_and_the_rest_is_encoded():
    url = links.explore(LokiQuery('{a="$run"} | b="${__value.raw}" & more'))
    assert "${run}" in url
    assert "${__value.raw}" in url
    assert not set('"{ |&') & set(url.split("panes=")[1].replace("${", "").replace("}", ""))
    assert explore_pane(url)["queries"][0]["expr"] == '{a="${run}"} | b="${__value.raw}" & more'


def test_the_way_from_metric_to_trace_to_log_exists_on_every_board_of_a_run():
    for uid, board in RENDERED.items():
        if uid == COLLECTOR:
            continue
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        targets = [target for panel in panels for target in panel["targets"]]
        found = [link for panel in panels for link in data_links(panel)]
        assert any(target.get("exemplar") for target in targets) or any("${tempo}" in link["url"] for link in found), (
            uid
        )
        assert any(target["datasource"]["type"] == "loki" for target in targets), uid


def test_a_trace_id_leads_to_the_trace_and_to_its_logs():
    board = RENDERED["otel-rl-ranks-collectives"]
    (panel,) = [panel for panel in board["panels"] if panel["title"] == "Step traces"]
    trace, logs = [explore_pane(link["url"])["queries"][0] for link in data_links(panel)]
    assert trace["query"] == "${__value.raw}"
    assert logs["expr"].endswith('| trace_id="${__value.raw}"')


def test_boards_link_to_each_other_and_hand_over_run_and_time_range(board):
    (menu,) = board["links"]
    assert menu["tags"] == board["tags"]
    assert menu["includeVars"] is True
    assert menu["keepTime"] is True
