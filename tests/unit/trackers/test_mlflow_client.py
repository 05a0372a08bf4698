"""What the client makes of the server's answers, and of what it is given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from support.mlflow_server import Fault, pairs

from otel_rl.process import process_identity
from otel_rl.telemetry import drops
from otel_rl.trackers.mlflow import destination, points, program_run, server
from otel_rl.trackers.mlflow import run as run_module
from otel_rl.trackers.mlflow.points import LoggedPoints

MOMENT = 1_700_000_000_000
BAD_HOST = b"Invalid Host header - possible DNS rebinding attack detected"
LOCKED = b'{"error_code": "INTERNAL_ERROR", "message": "database is locked"}'


def logged(step, **values):
    return LoggedPoints(step, MOMENT, tuple(values.items()))


def span():
    with TracerProvider().get_tracer("program").start_as_current_span("work") as made:
        pass
    return made


class TestValues:
    def test_they_are_in_the_run_by_key_and_step(self, mlflow, client):
        answer = client.scalars.export([logged(1, loss=0.5, kl=2), logged(2, loss=0.25)])

        assert answer.is_acceptance
        assert not answer.rejected
        run = mlflow.run("tried")
        assert mlflow.curve(run, "loss") == [(1, 0.5), (2, 0.25)]
        assert mlflow.curve(run, "kl") == [(1, 2)]
        assert pairs(run["data"]["tags"])["otel_rl.run_id"] == "our-run"

    def test_a_key_that_the_server_refuses_costs_no_other_value(self, mlflow, client, monkeypatch):
        monkeypatch.setattr("otel_rl.trackers.mlflow.names.clean", lambda key: key)
        values = {f"key {number}": number for number in range(99)}
        answer = client.scalars.export([logged(1, **values, **{"pass@1": 1.0})])

        assert (answer.rejected, answer.is_acceptance) == (1, True)
        assert len(mlflow.run("tried")["data"]["metrics"]) == 99

        before = len(mlflow.requests)
        assert client.scalars.export([logged(2, **values, **{"pass@1": 1.0})]).rejected == 1
        assert mlflow.requests[before:] == ["/api/2.0/mlflow/runs/log-batch"]

    def test_a_database_that_is_locked_is_an_outage_until_it_stays_so(self, mlflow, client):
        client.scalars.export([logged(1, loss=1.0)])
        mlflow.faults.append(Fault("log-batch", 500, LOCKED, times=5))

        answers = [client.scalars.export([logged(2, loss=2.0)]) for _ in range(5)]
        assert [answer.is_outage for answer in answers] == [True] * 4 + [False]
        assert client.scalars.export([logged(3, loss=3.0)]).is_acceptance

    def test_a_busy_server_says_when_to_come_back(self, mlflow, client):
        mlflow.faults.append(Fault("runs/create", 429, headers={"Retry-After": "7"}, times=1))

        answer = client.scalars.export([logged(1, loss=1.0)])
        assert (answer.is_outage, answer.retry_after) == (True, 7.0)
        assert client.scalars.export([logged(1, loss=1.0)]).is_acceptance

    def test_a_request_without_an_answer_is_not_sent_again(self, mlflow, client, monkeypatch):
        client.scalars.export([logged(1, loss=1.0)])
        monkeypatch.setattr("otel_rl.trackers.mlflow.api._ANSWER", 0.05)
        mlflow.answers.clear()

        assert client.scalars.export([logged(2, loss=2.0)]).is_silence

    def test_of_a_rank_that_does_not_lead_they_are_the_leaders(self, mlflow, client, monkeypatch):
        identity = replace(process_identity.current(), leads=False, rank=1)
        monkeypatch.setattr(process_identity, "_current", identity)

        assert client.scalars.export([logged(1, loss=1.0)]).is_acceptance
        assert mlflow.requests == []

    def test_of_figures_go_to_the_run_that_the_program_logs_to_and_describe_nothing(self, mlflow, client, monkeypatch):
        monkeypatch.setattr(program_run, "is_tracking", lambda: True)
        monkeypatch.setattr(run_module.parameters, "collect", lambda: {"lr": "1"})
        client.run.__init__("", is_described=False)
        client.run.use(mlflow.new_run("theirs"))
        client.scalars.export([logged(1, **{"otel_rl/seconds": 2.0})])

        run = mlflow.run("theirs")
        assert mlflow.curve(run, "otel_rl/seconds") == [(1, 2.0)]
        assert run["data"]["params"] == []


class TestAnswers:
    @pytest.mark.parametrize(
        ("fault", "advice"),
        [
            (Fault("", 401), "MLFLOW_TRACKING_USERNAME"),
            (Fault("", 403, b'{"error_code": "PERMISSION_DENIED", "message": "no"}'), "others in"),
            (Fault("", 403, BAD_HOST), "--allowed-hosts"),
            (Fault("", 404, b"<html>"), "no MLflow server"),
            (Fault("", 200, b"<html>", {"Content-Type": "text/html"}), "no MLflow server"),
            (Fault("", 302, headers={"Location": "http://login"}), "no MLflow server"),
            (Fault("", 503), "overloaded"),
        ],
        ids=["credentials", "permission", "host", "other", "login", "redirect", "busy"],
    )
    def test_each_comes_with_what_to_do(self, mlflow, client, fault, advice):
        mlflow.faults.append(fault)
        answer = client.scalars.export([logged(1, loss=1.0)])

        assert not answer.is_acceptance
        assert advice in destination.fix(answer.reason), answer.reason

    def test_a_refusal_stands_for_a_while_without_further_requests(self, mlflow, client, monkeypatch):
        mlflow.faults.append(Fault("experiments", 401, times=1))
        assert not client.scalars.export([logged(1, loss=1.0)]).is_acceptance
        assert not client.traces.export([span()]).is_acceptance
        assert len(mlflow.requests) == 1

        monkeypatch.setattr(client.run, "_refused_until", 0.0)
        assert client.scalars.export([logged(1, loss=1.0)]).is_acceptance

    def test_without_a_server_that_speaks_http_nothing_is_asked(self, client, monkeypatch):
        target = server.configured({"MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"})
        monkeypatch.setattr(client.scalars._api, "server", target)

        answer = client.scalars.export([logged(1, loss=1.0)])
        assert "http address" in destination.fix(answer.reason)

    @pytest.mark.parametrize(
        "url",
        ["http://me:hunter2", "http://[::1:hunter2", "http://me:hunter2@[::1:5000", "http://me:hunter2/x@host:5000"],
    )
    def test_a_malformed_address_is_not_shown(self, client, monkeypatch, url):
        target = server.configured({"MLFLOW_TRACKING_URI": url})
        monkeypatch.setattr(client.scalars._api, "server", target)

        answer = client.scalars.export([logged(1, loss=1.0)])
        assert "hunter2" not in f"{answer.reason} {target.shown}"
        assert "http address" in destination.fix(answer.reason)

    @pytest.mark.parametrize(
        "url", ["http://[::1]:5000/x", "https://host", "http://me:p[w]@host:5000", "http://h_1:80"]
    )
    def test_an_address_that_can_be_asked_is(self, url):
        assert server.configured({"MLFLOW_TRACKING_URI": url}).url == url

    def test_nobody_listens(self, mlflow, client):
        mlflow.stop()
        assert client.scalars.export([logged(1, loss=1.0)]).is_outage


class TestRun:
    def test_the_one_of_the_environment_is_joined(self, mlflow, client):
        client.run._named = mlflow.new_run("theirs")
        client.scalars.export([logged(1, loss=1.0)])
        client.traces.export([span()])

        run = mlflow.run("theirs")
        assert mlflow.curve(run, "loss") == [(1, 1.0)]
        headers = mlflow.spans[0][0]
        assert headers["x-mlflow-run-id"] == run["info"]["run_id"]
        assert headers["x-mlflow-experiment-id"] == run["info"]["experiment_id"]

    def test_its_end_is_left_to_who_has_made_it(self, mlflow, client, monkeypatch):
        monkeypatch.setattr(run_module.lifecycle, "is_ending", True)
        client.run._named = mlflow.new_run("theirs")
        client.scalars.export([logged(1, loss=1.0)])
        client.scalars.shutdown()

        assert mlflow.run("theirs")["info"]["status"] == "RUNNING"

    def test_one_of_ours_is_finished_once(self, mlflow, client, monkeypatch):
        client.scalars.export([logged(1, loss=1.0)])
        client.run.tags = {"otel_rl.last_step": "1"}
        monkeypatch.setattr(run_module.lifecycle, "is_ending", True)
        client.scalars.shutdown()
        client.traces.shutdown()

        run = mlflow.run("tried")
        assert run["info"]["status"] == "FINISHED"
        assert pairs(run["data"]["tags"])["otel_rl.last_step"] == "1"
        assert mlflow.requests.count("/api/2.0/mlflow/runs/update") == 1

    def test_that_the_program_logs_to_gets_what_it_lacks_under_a_prefix(self, mlflow, client, monkeypatch):
        run_id = mlflow.new_run("theirs")
        theirs = {"key": "loss", "value": 1.0, "timestamp": MOMENT, "step": 1}
        mlflow.ask("/api/2.0/mlflow/runs/log-batch", {"run_id": run_id, "metrics": [theirs]})
        monkeypatch.setattr(program_run, "is_tracking", lambda: True)
        monkeypatch.setattr(program_run, "active_run_id", lambda: run_id)
        client.scalars.export([logged(1, loss=1.0, kl=2.0)])

        run = mlflow.run("theirs")
        assert mlflow.curve(run, "loss") == [(1, 1.0)]
        assert mlflow.curve(run, "otel_rl/kl") == [(1, 2.0)]
        assert set(pairs(run["data"]["metrics"])) == {"loss", "otel_rl/kl"}

    def test_of_the_program_on_another_server_is_not_joined(self, mlflow, client, monkeypatch):
        monkeypatch.setattr(program_run, "active_run_id", lambda: "elsewhere")
        assert client.scalars.export([logged(1, loss=1.0)]).is_acceptance
        assert mlflow.run("tried")["info"]["run_name"] == "our-run"

    def test_a_launch_that_was_started_again_goes_on_with_it(self, mlflow, client, monkeypatch):
        client.scalars.export([logged(1, loss=1.0)])
        identity = replace(process_identity.current(), attempt="0.1.0")
        monkeypatch.setattr(process_identity, "_current", identity)
        again = type(client)(mlflow.url)
        again.scalars.export([logged(2, loss=2.0)])

        run = mlflow.run("tried")
        assert mlflow.curve(run, "loss") == [(1, 1.0), (2, 2.0)]
        assert pairs(run["data"]["tags"])["otel_rl.attempt"] == "0.1.0"

    def test_that_is_deleted_gets_nothing_more_and_traces_go_on(self, mlflow, client):
        client.scalars.export([logged(1, loss=1.0)])
        mlflow.ask("/api/2.0/mlflow/runs/delete", {"run_id": client.run.id})

        answer = client.scalars.export([logged(2, loss=2.0)])
        assert "mlflow runs restore" in destination.fix(answer.reason)
        before = len(mlflow.requests)
        assert not client.scalars.export([logged(3, loss=3.0)]).is_acceptance
        assert len(mlflow.requests) == before
        assert client.traces.export([span()]).is_acceptance
        assert "x-mlflow-run-id" not in mlflow.spans[0][0]

    def test_that_does_not_exist_is_named_in_what_to_do(self, client):
        client.run._named = "nope"
        answer = client.scalars.export([logged(1, loss=1.0)])
        assert "correct MLFLOW_RUN_ID" in destination.fix(answer.reason)

    def test_an_experiment_that_is_deleted_takes_nothing(self, mlflow, client):
        number = mlflow.ask("/api/2.0/mlflow/experiments/create", {"name": "tried"})["experiment_id"]
        mlflow.experiments[number]["lifecycle_stage"] = "deleted"
        answer = client.scalars.export([logged(1, loss=1.0)])
        assert "mlflow experiments restore" in destination.fix(answer.reason)

    def test_other_ranks_wait_for_the_experiment_and_send_spans_alone(self, mlflow, client, monkeypatch):
        leading = process_identity.current()
        monkeypatch.setattr(process_identity, "_current", replace(leading, leads=False, rank=1))
        rank = type(client)(mlflow.url)
        assert rank.traces.export([span()]).is_outage

        monkeypatch.setattr(process_identity, "_current", leading)
        client.scalars.export([logged(1, loss=1.0)])
        monkeypatch.setattr(process_identity, "_current", replace(leading, leads=False, rank=1))
        assert rank.traces.export([span()]).is_acceptance
        assert len(mlflow.runs("tried")) == 1

    def test_whose_making_got_no_answer_is_looked_for(self, mlflow, client, monkeypatch):
        mlflow.ask("/api/2.0/mlflow/experiments/create", {"name": "tried"})
        made = client.run._create

        def unanswered(api):
            made(api)
            client.run.id, client.run._may_exist = "", True
            return run_module.outage("timed out")

        monkeypatch.setattr(client.run, "_create", unanswered)
        assert client.scalars.export([logged(1, loss=1.0)]).is_outage
        monkeypatch.setattr(client.run, "_create", made)
        assert client.scalars.export([logged(1, loss=1.0)]).is_acceptance
        assert len(mlflow.runs("tried")) == 1

    def test_parameters_that_it_has_are_left_as_they_are(self, mlflow, client, monkeypatch):
        run_id = client.run._named = mlflow.new_run("theirs")
        mlflow.ask("/api/2.0/mlflow/runs/log-batch", {"run_id": run_id, "params": [{"key": "lr", "value": "1"}]})
        found = {"lr": "2", "beta@0": "x" * 7000}
        monkeypatch.setattr(run_module.parameters, "collect", lambda: found)
        client.scalars.export([logged(1, loss=1.0)])

        assert pairs(mlflow.run("theirs")["data"]["params"]) == {"lr": "1", "beta_0": "x" * 6000}

    def test_settings_of_the_program_become_parameters_a_hundred_in_a_request(self, mlflow, client, monkeypatch):
        monkeypatch.setattr(run_module.parameters, "collect", lambda: {"learning_rate": "1e-5"})
        client.run.configured("trl", {**{f"setting{number}": number for number in range(250)}, "nothing": None})
        client.run.configured("trl", {"learning_rate": 1e-05, "setting0": 7})
        client.run.configured("wandb", {"setting0": 8, "setting1": 1, "pass@1": True})
        client.scalars.export([logged(1, loss=1.0)])

        found = pairs(mlflow.run("tried")["data"]["params"])
        assert len(found) == 250 + 5
        assert (found["setting0"], found["setting249"], found["nothing"], found["pass_1"]) == (
            "0",
            "249",
            "None",
            "True",
        )
        assert found["learning_rate"] == "1e-5"
        assert {name: text for name, text in found.items() if "/" in name} == {
            "trl/learning_rate": "1e-05",
            "wandb/setting0": "8",
        }
        assert max(len(batch.get("params", [])) for batch in mlflow.batches) == 100

    def test_settings_that_come_later_follow_at_once_or_at_the_end(self, mlflow, client, monkeypatch):
        client.scalars.export([logged(1, loss=1.0)])
        client.run.configured("wandb", {"lr": 0.1})
        client.scalars.export([logged(2, loss=1.0)])
        client.scalars.export([logged(3, loss=1.0)])
        assert [batch["params"] for batch in mlflow.batches if batch.get("params")] == [[{"key": "lr", "value": "0.1"}]]

        client.run.configured("wandb", {"lr": 0.2, "seed": 3})
        monkeypatch.setattr(run_module.lifecycle, "is_ending", True)
        client.scalars.shutdown()
        assert pairs(mlflow.run("tried")["data"]["params"]) == {"lr": "0.1", "seed": "3"}

    def test_settings_wait_while_the_server_is_away(self, mlflow, client):
        client.run.configured("wandb", {"lr": 0.1})
        mlflow.faults.append(Fault("log-batch", 503, times=1))
        client.scalars.export([logged(1, loss=1.0)])
        client.scalars.export([logged(2, loss=1.0)])
        assert pairs(mlflow.run("tried")["data"]["params"]) == {"lr": "0.1"}

    def test_parameters_of_a_run_of_the_program_are_left_to_it(self, mlflow, client, monkeypatch):
        run_id = client.run._named = mlflow.new_run("theirs")
        mlflow.ask("/api/2.0/mlflow/runs/log-batch", {"run_id": run_id, "params": [{"key": "lr", "value": "1"}]})
        monkeypatch.setattr(program_run, "is_tracking", lambda: True)
        client.run.configured("mlflow", {"lr": 1, "later": 2})
        client.run.configured("trl", {"lr": 1, "beta": 0.04})
        client.scalars.export([logged(1, loss=1.0)])
        # MLflow refuses another value, and raises in the program.
        mlflow.ask("/api/2.0/mlflow/runs/log-batch", {"run_id": run_id, "params": [{"key": "beta", "value": "4e-2"}]})

        found = pairs(mlflow.run("theirs")["data"]["params"])
        assert found == {"lr": "1", "otel_rl/beta": "0.04", "beta": "4e-2"}

    def test_parameters_of_a_run_that_the_program_opens_later_are_left_to_it_too(self, mlflow, client, monkeypatch):
        client.run._named = mlflow.new_run("theirs")
        client.scalars.export([logged(1, loss=1.0)])
        monkeypatch.setattr(program_run, "is_tracking", lambda: True)
        client.run.configured("transformers", {"report_to": "['mlflow']"})
        client.scalars.export([logged(2, loss=1.0)])
        assert pairs(mlflow.run("theirs")["data"]["params"]) == {"otel_rl/report_to": "['mlflow']"}

    def test_parameters_that_the_server_takes_none_of_are_counted(self, mlflow, client):
        before = drops.snapshot().get(("logs", "parameters_refused"), 0)
        client.run.configured("wandb", {"lr": 0.1, "seed": 3})
        mlflow.faults.append(Fault("log-batch", 400, b'{"error_code": "INVALID_PARAMETER_VALUE"}', times=1))
        client.scalars.export([logged(1, loss=1.0)])
        assert drops.snapshot()["logs", "parameters_refused"] == before + 2


class TestPoints:
    def test_numbers_alone_are_values(self):
        given = {"loss": 1.5, "epoch": 2, "done": True, "name": "text", "nothing": None}
        assert points.of_log_call(3, given, 5_000_000, None) == [LoggedPoints(3, 5, (("loss", 1.5), ("epoch", 2)))]

    def test_what_is_not_finite_is_counted(self):
        before = drops.snapshot().get(("metrics", "non_finite"), 0)
        assert points.of_log_call(1, {"a": float("nan"), "b": float("inf")}, 0, None) == []
        assert drops.snapshot()["metrics", "non_finite"] == before + 2

    def test_a_step_beyond_64_bit_is_counted_and_not_stored_as_another(self):
        before = drops.snapshot().get(("metrics", "step_range"), 0)
        assert points.of_log_call(2**63, {"a": 1.0}, 0, None) == []
        assert points.of_log_call(-5, {"a": 1.0}, 0, None)[0].step == -5
        assert drops.snapshot()["metrics", "step_range"] == before + 1

    def test_a_loop_with_a_name_has_keys_of_its_own(self):
        [item] = points.of_log_call(1, {"loss": 1.0}, 0, "critic")
        assert item.values == (("critic/loss", 1.0),)

    def test_many_keys_become_several_items(self):
        items = points.of_log_call(1, dict.fromkeys(map(str, range(5000)), 1.0), 0, None)
        assert points.count(items) == 5000
        assert max(len(item.values) for item in items) == points.MOST_VALUES
