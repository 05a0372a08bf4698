"""Sinks for LLM products, Jaeger and Zipkin, with the real binary: what each gets; a broken one touches no other."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml
from bad_input import by_command
from certificates import secret
from collector_process import CONFIGURATION, CollectorProcess, wait_for
from otlp import log_resource, metric_resource, span, trace_resource
from otlp_backend import LOGIN_PAGE, ZIPKIN, OtlpBackend, Request
from test_durable_delivery import metric

from otel_rl import cli
from otel_rl.collector import composed
from otel_rl.collector.parts import choices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "s3cr3t-of-the-site"
FILES = ("LANGFUSE_SECRET_KEY_FILE", "LANGSMITH_KEY_FILE", "LOGFIRE_TOKEN_FILE", "WEAVE_KEY_FILE")
NAMES = {"LANGFUSE_PUBLIC_KEY": "pk", "WEAVE_ENTITY": "team", "PROJECT": "7", "OPIK_WORKSPACE": "lab"}
PREFIX = "OTEL_RL_COLLECTOR_"
OTEL_RL, OTHERS = "otel_rl.api", "opentelemetry.instrumentation.somebody"
#: Name -> attributes and scope of spans that an LLM product has a place for; and of those that it has none for.
PASSING: dict[str, tuple[dict[str, Any], str]] = {
    "rl.rollout": ({"rl.rollout.id": "r1"}, OTEL_RL),
    "chat tiny": ({"rl.rollout.id": "r1", "gen_ai.operation.name": "chat"}, OTHERS),
    "execute_tool add": ({"rl.rollout.id": "r1", "gen_ai.operation.name": "execute_tool"}, OTEL_RL),
    "invoke_agent a": ({"rl.rollout.id": "r1", "gen_ai.operation.name": "invoke_agent"}, OTEL_RL),
    "node n": ({"rl.rollout.id": "r1", "rl.agent.node.name": "n"}, OTEL_RL),
    "rl.reward": ({"rl.rollout.id": "r1", "rl.reward.name": "exact"}, OTEL_RL),
    "verify_answer": ({"rl.rollout.id": "r1"}, OTEL_RL),
    "plan": ({"rl.rollout.id": "r1"}, OTHERS),
    "ChatCompletion": ({"openinference.span.kind": "LLM"}, OTHERS),
    "openai.chat": ({"traceloop.span.kind": "task"}, OTHERS),
    "chat judge": ({"gen_ai.operation.name": "chat"}, OTHERS),
}
WITHHELD: dict[str, tuple[dict[str, Any], str]] = {
    "rl.loop": ({"rl.loop.iteration": 1}, OTEL_RL),
    "rl.rank.step": ({}, OTEL_RL),
    "rl.sample": ({}, OTEL_RL),
    "rl.generate": ({"rl.rollout.id": "r1"}, OTEL_RL),
    "rl.train": ({}, OTEL_RL),
    "rl.sync": ({}, OTEL_RL),
    "rl.weight_sync": ({}, OTEL_RL),
    "rl.run": ({}, OTEL_RL),
    "rl.run.part": ({}, OTEL_RL),
    "all_reduce": ({"torch.distributed.operation": "all_reduce"}, OTEL_RL),
    "evaluate_model": ({}, OTEL_RL),
    "GET": ({"rl.rollout.id": "r1", "http.request.method": "GET"}, OTHERS),
}
LLM = ("langfuse", "langsmith", "logfire", "opik", "phoenix", "weave")
ALL = ("mlflow", "jaeger", "zipkin")
WHOLE_TRACES = {*PASSING, *WITHHELD}


def spans(which: dict[str, tuple[dict[str, Any], str]]) -> list[dict[str, Any]]:
    """Resource groups of these spans, each with its scope."""
    groups = []
    for name, (attributes, scope) in which.items():
        group = trace_resource([span(name, attributes)])
        group["scopeSpans"][0]["scope"]["name"] = scope
        groups.append(group)
    return groups


class Seen(NamedTuple):
    """A span as a backend of OTLP has it."""

    name: str
    attributes: dict[str, Any]
    resource: dict[str, Any]


def _plain(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


def seen(requests: list[Request]) -> list[Seen]:
    """Every span of these requests."""
    return [
        Seen(each.name, _plain(each.attributes), _plain(resource.resource.attributes))
        for request in requests
        if request.path == "/v1/traces"
        for resource in request.message.resource_spans
        for scope in resource.scope_spans
        for each in scope.spans
    ]


def credentials(folder: Path) -> dict[str, str]:
    """Every variable of the sinks but for their addresses."""
    files = {name: secret(folder, name.lower(), SECRET) for name in FILES}
    return {f"{PREFIX}{name}": text for name, text in {**files, **NAMES, "MLFLOW_EXPERIMENT_ID": "007"}.items()}


class FanOut(NamedTuple):
    """What every sink got of the same spans, and the collector that sent it."""

    requests: dict[str, list[Request]]
    collector: CollectorProcess


@pytest.fixture(scope="module")
def fan_out(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FanOut]:
    """One collector with all sinks, by the command; every signal was sent once and has arrived."""
    folder = tmp_path_factory.mktemp("fan-out")
    requests: dict[str, list[Request]] = {name: [] for name in (*LLM, *ALL)}

    def take_for(name: str) -> Callable[[Request], int]:
        def take(request: Request) -> int:
            requests[name].append(request)
            return 202 if request.path == ZIPKIN else 200

        return take

    backends = {name: OtlpBackend(answer=take_for(name)) for name in requests}
    words = [f"{name}={backend.url}" for name, backend in backends.items()]
    for backend in backends.values():
        backend.__enter__()
    with by_command(otelcol_rl, folder, ["--role", "local", "--sink", *words], **credentials(folder)) as collector:
        collector.send("traces", spans({**PASSING, **WITHHELD}))
        collector.send("metrics", [metric_resource("rl.loop.current", 1.0)])
        collector.send("logs", [log_resource([{"body": {"stringValue": "a line"}}])])

        def all_have_traces() -> bool:
            return all(any(r.path in {"/v1/traces", ZIPKIN} for r in came) for came in requests.values())

        wait_for(all_have_traces, "every sink to have the traces")
        wait_for(lambda: "a line" in names(requests["logfire"]), "Logfire to have the log record")
        wait_for(lambda: "rl.loop.current" in names(requests["logfire"]), "Logfire to have the metric")
        yield FanOut(requests, collector)
    for backend in backends.values():
        backend.__exit__()


def names(requests: list[Request]) -> set[str]:
    """Names or bodies of what came, without what a collector says about itself."""
    return {name for request in requests for name in request.items}


@pytest.mark.parametrize("sink", LLM)
def test_an_llm_product_gets_rollouts_agents_calls_tools_and_rewards_and_no_more(fan_out: FanOut, sink: str):
    assert {each.name for each in seen(fan_out.requests[sink])} == set(PASSING)


@pytest.mark.parametrize("sink", ["mlflow", "jaeger"])
def test_mlflow_and_jaeger_get_every_span(fan_out: FanOut, sink: str):
    assert {each.name for each in seen(fan_out.requests[sink])} == WHOLE_TRACES


def test_zipkin_gets_every_span_as_json_of_its_version_2(fan_out: FanOut):
    found = [each for request in fan_out.requests["zipkin"] for each in request.message]
    assert {each["name"] for each in found} == {name.lower() for name in WHOLE_TRACES}
    rollout = next(each for each in found if each["name"] == "rl.rollout")
    assert rollout["tags"]["rl.rollout.id"] == "r1"
    assert rollout["localEndpoint"] == {"serviceName": "train"}
    assert {request.headers["content-type"] for request in fan_out.requests["zipkin"]} == {"application/json"}


@pytest.mark.parametrize("sink", [name for name in (*LLM, *ALL) if name != "logfire"])
def test_metrics_and_logs_go_to_logfire_only(fan_out: FanOut, sink: str):
    assert {request.path for request in fan_out.requests["logfire"]} == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert {request.path for request in fan_out.requests[sink]} == {ZIPKIN if sink == "zipkin" else "/v1/traces"}


PUBLISHED = {
    "langfuse": ("/api/public/otel/v1/traces", {"x-langfuse-ingestion-version": "4"}),
    "langsmith": ("/otel/v1/traces", {"x-api-key": SECRET, "langsmith-project": "7"}),
    "logfire": ("/v1/traces", {"authorization": SECRET}),
    "mlflow": ("/v1/traces", {"x-mlflow-experiment-id": "007"}),
    "opik": ("/api/v1/private/otel/v1/traces", {"projectname": "7", "comet-workspace": "lab"}),
    "phoenix": ("/v1/traces", {}),
    "weave": ("/otel/v1/traces", {"wandb-api-key": SECRET}),
    "jaeger": ("/v1/traces", {}),
}
"""Path and headers as the vendors publish them."""
BASIC = base64.b64encode(f"pk:{SECRET}".encode()).decode()


@pytest.mark.parametrize("sink", PUBLISHED)
def test_a_sink_keeps_to_what_its_vendor_publishes(fan_out: FanOut, sink: str):
    path, headers = PUBLISHED[sink]
    headers = {**headers, "content-type": "application/x-protobuf", "content-encoding": "gzip"}
    headers |= {"authorization": f"Basic {BASIC}"} if sink == "langfuse" else {}
    for request in fan_out.requests[sink]:
        if request.path == "/v1/traces":
            assert request.target == path
            assert headers.items() <= request.headers.items()


@pytest.mark.parametrize(
    ("sink", "project"),
    [("phoenix", {"openinference.project.name": "7"}), ("weave", {"wandb.entity": "team", "wandb.project": "7"})],
)
def test_a_product_that_takes_its_project_from_the_resource_finds_it_there(
    fan_out: FanOut, sink: str, project: dict[str, str]
):
    for each in seen(fan_out.requests[sink]):
        assert project.items() <= each.resource.items()
    assert not project.keys() & seen(fan_out.requests["langfuse"])[0].resource.keys()


def test_no_secret_is_in_the_log_or_the_configuration_of_the_collector(fan_out: FanOut):
    log = fan_out.collector.log()
    file = next(line for line in log.splitlines() if "configuration /" in line).partition("configuration ")[2]
    for text in (log, Path(file).read_text()):
        assert SECRET not in text
        assert BASIC not in text


SESSIONS = [
    ({"rl.rollout.id": "r1"}, "r1", "r1"),
    ({"rl.rollout.id": "r1", "gen_ai.conversation.id": "c"}, "c", "c"),
    ({"rl.rollout.id": "r1", "session.id": "s"}, "s", "s"),
    ({"gen_ai.conversation.id": "c", "session.id": "s"}, "c", "s"),
    ({}, "00000000000000000000000000000001", "00000000000000000000000000000001"),
    ({"rl.rollout.id": "x" * 199}, "x" * 199, "x" * 199),
    ({"rl.rollout.id": "x" * 200}, "x" * 200, None),
    ({"gen_ai.conversation.id": "Gespräch"}, "Gespräch", None),
    ({"gen_ai.conversation.id": 7}, 7, 7),
]
"""Attributes of a model call; its conversation and session in a product. None: a hash of the conversation."""


def test_each_span_has_a_conversation_and_a_session_within_the_limits_of_langfuse(otelcol_rl: Path, tmp_path: Path):
    requests: list[Request] = []
    calls = [
        span(f"chat {number}", {"gen_ai.operation.name": "chat", **given}, trace_id=f"{1:032x}")
        for number, (given, _, _) in enumerate(SESSIONS)
    ]
    with OtlpBackend(answer=lambda request: requests.append(request) or 200) as backend:
        arguments = ["--role", "local", "--sink", f"langfuse={backend.url}"]
        with by_command(otelcol_rl, tmp_path, arguments, **credentials(tmp_path)) as collector:
            collector.send("traces", [trace_resource(calls)])
            wait_for(lambda: len(backend.taken) == len(SESSIONS), "the spans to arrive")
    found = {each.name: each.attributes for each in seen(requests)}
    for number, (_, conversation, session) in enumerate(SESSIONS):
        attributes = found[f"chat {number}"]
        assert attributes["gen_ai.conversation.id"] == conversation
        if session is None:
            assert len(attributes["session.id"]) == 64
            assert attributes["session.id"].isascii()
        else:
            assert attributes["session.id"] == session
    assert found["chat 6"]["session.id"] != found["chat 7"]["session.id"]


def test_a_step_in_mlflow_has_no_session_and_a_rollout_has(fan_out: FanOut):
    found = {each.name: each.attributes for each in seen(fan_out.requests["mlflow"])}
    assert found["rl.rollout"]["gen_ai.conversation.id"] == found["rl.rollout"]["session.id"] == "r1"
    assert not {"gen_ai.conversation.id", "session.id"} & found["rl.loop"].keys()


# -- one that is broken ---------------------------------------------------------------------------------------------

FAILED = "otelcol_exporter_failed_requests"
ROLLOUTS = 40


class Hanging:
    """An answer that comes only when the test is over."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, _: Request) -> int:
        self.over.wait()
        return 503


BROKEN: dict[str, tuple[Callable[[Request], int], str]] = {
    "refuses": (lambda _: 503, "unavailable"),
    "wrong token": (lambda _: 401, "configuration"),
    "login page": (lambda _: LOGIN_PAGE, "configuration"),
    "no such path": (lambda _: 404, "configuration"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_sink_that_refuses_is_counted_and_the_others_have_all(otelcol_rl: Path, tmp_path: Path, fault: str):
    answer, reason = BROKEN[fault]
    with OtlpBackend(answer=answer) as broken, OtlpBackend() as sound:
        words = [f"langsmith={broken.url}", f"opik={sound.url}"]
        with by_command(
            otelcol_rl, tmp_path, ["--role", "local", "--sink", *words], **credentials(tmp_path)
        ) as collector:
            collector.send("traces", spans(PASSING))
            wait_for(lambda: len(sound.taken) == len(PASSING), "the sound sink to have all")
            labels = {"exporter": "durable_otlp_http/langsmith", "reason": reason}
            wait_for(lambda: metric(collector, FAILED, **labels) >= 1, "the broken one to be counted")
            assert SECRET not in collector.log()
    assert broken.taken == []


def test_a_dead_and_a_hanging_sink_drop_and_count_and_the_ledger_of_the_third_is_complete(
    otelcol_rl: Path, tmp_path: Path
):
    """Both have room for a few spans; what they have no room for is counted, and every span is sent but once."""
    hang = Hanging()
    padding = "x" * 2000
    small = {
        f"exporters::durable_otlp_http/{name}::sending_queue::{setting}": value
        for name in ("phoenix", "jaeger")
        for setting, value in (("queue_size", "20000"), ("batch::min_size", "1000"))
    }
    with OtlpBackend(answer=hang) as hanging, OtlpBackend() as sound, OtlpBackend() as whole:
        dead = OtlpBackend()
        dead.__enter__()
        dead.__exit__()
        words = [f"phoenix={hanging.url}", f"jaeger={dead.url}", f"opik={sound.url}", f"mlflow={whole.url}"]
        with by_command(
            otelcol_rl, tmp_path, ["--role", "local", "--sink", *words], **{**credentials(tmp_path), **small}
        ) as collector:
            for number in range(ROLLOUTS):
                trace = {"trace_id": f"{number + 1:032x}"}
                both = [
                    span(f"chat {number}", {"gen_ai.operation.name": "chat", "padding": padding}, **trace),
                    span(f"rl.train {number}", {"padding": padding}, **trace),
                ]
                collector.send("traces", [trace_resource(both)])
            wait_for(lambda: len(sound.taken) >= ROLLOUTS, "the sound LLM sink to have all")
            wait_for(lambda: len(whole.taken) >= 2 * ROLLOUTS, "the sink of whole traces to have all")
            for exporter in ("phoenix", "jaeger"):
                labels = {"exporter": f"durable_otlp_http/{exporter}"}
                assert metric(collector, "otelcol_exporter_overflow_dropped_items", **labels) > 0
            hang.over.set()
    assert sorted(sound.taken) == sorted(f"chat {number}" for number in range(ROLLOUTS))
    both = [f"{name} {number}" for name in ("chat", "rl.train") for number in range(ROLLOUTS)]
    assert sorted(whole.taken) == sorted(both)
    assert {span["name"] for span in collector.spans()} == set(both)


def test_zipkin_that_is_no_zipkin_is_counted_and_the_others_have_all(otelcol_rl: Path, tmp_path: Path):
    """The path is not there: an OTLP endpoint, say."""
    soon = {
        "exporters::zipkin::retry_on_failure": "{initial_interval: 100ms, max_interval: 200ms, max_elapsed_time: 1s}"
    }
    with OtlpBackend(answer=lambda _: 404) as otlp, OtlpBackend() as sound:
        arguments = ["--role", "local", "--sink", f"zipkin={otlp.url}", f"jaeger={sound.url}"]
        with by_command(otelcol_rl, tmp_path, arguments, **soon) as collector:
            collector.send("traces", spans(PASSING))
            wait_for(lambda: len(sound.taken) == len(PASSING), "the other sink to have all")
            failed = {"exporter": "zipkin"}
            lost = "otelcol_exporter_send_failed_spans"
            wait_for(lambda: metric(collector, lost, **failed) == len(PASSING), "the spans to be counted as failed")
            assert "failed the request with status code 404" in collector.log()


def test_a_full_queue_of_zipkin_pushes_nothing_back_to_the_sender(otelcol_rl: Path, tmp_path: Path):
    small = {"exporters::zipkin::sending_queue::queue_size": "3000", "exporters::zipkin::sending_queue::batch": "null"}
    with OtlpBackend(answer=lambda _: 503) as away, OtlpBackend() as sound:
        arguments = ["--role", "local", "--sink", f"zipkin={away.url}", f"jaeger={sound.url}"]
        with by_command(otelcol_rl, tmp_path, arguments, **small) as collector:
            sent: list[str] = []

            def dropping() -> bool:
                sent.append(f"rollout {len(sent)}")
                collector.send("traces", [trace_resource([span(sent[-1], {"padding": "x" * 2000})])])
                return metric(collector, "otelcol_processor_side_sink_dropped_items", data_type="traces") > 0

            wait_for(dropping, "Zipkin's queue to be full")
            wait_for(lambda: len(sound.taken) >= len(sent), "the other sink to have all")
    assert sorted(sound.taken) == sorted(sent)


def test_a_request_that_is_too_large_for_a_product_is_sent_in_smaller_ones(otelcol_rl: Path, tmp_path: Path):
    """Vendors limit the size of a request; a sender's large one is halved until it fits."""
    limit = 60_000
    with OtlpBackend(answer=lambda request: 413 if request.message.ByteSize() > limit else 200) as product:
        arguments = ["--role", "local", "--sink", f"langsmith={product.url}"]
        with by_command(otelcol_rl, tmp_path, arguments, **credentials(tmp_path)) as collector:
            calls = [
                span(f"chat {number}", {"gen_ai.operation.name": "chat", "padding": "x" * 5000}) for number in range(40)
            ]
            collector.send("traces", [trace_resource(calls)])
            wait_for(lambda: len(product.taken) >= len(calls), "all spans to arrive")
    assert sorted(product.taken) == sorted(call["name"] for call in calls)


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sinks", "said"),
    [
        ("langfuse=https://pk:s3cr3t-of-the-site@host", "the URL of sink langfuse has credentials in it"),
        ("opik=localhost:5173", "the URL of sink opik has no scheme; write --sink opik=http://... or https://..."),
        ("phoenix=", "the URL of sink phoenix has no scheme"),
        ("phoenix=ftp://host", "the URL of sink phoenix has no scheme"),
        ("phoenix=http://host:99999", "the URL of sink phoenix is none; write scheme, host, port and path only"),
        ("phoenix=http://host/?key=s3cr3t-of-the-site", "the URL of sink phoenix is none"),
        ("phoenix=http://${env:HOME}", "the URL of sink phoenix is none"),
        ("file=http://host", "sink file has no endpoint that one URL could replace; write --sink file without ="),
        ("lgtm=http://host", "sink lgtm has no endpoint that one URL could replace"),
        ("phoneix=http://host", "no sink named 'phoneix'; did you mean phoenix?"),
        ("jaeger=http://a jaeger=http://b", "sink jaeger is named twice; name it once, with one URL at most"),
        ("zipkin zipkin", "sink zipkin is named twice"),
        ("langsmith=http://langsmith.invalid", "durable_otlp_http/langsmith sends credentials to http://langsmith"),
        ("jaeger", "OTEL_RL_COLLECTOR_JAEGER_URL is not set and has no default"),
    ],
)
def test_a_sink_that_cannot_be_meant_is_refused_in_one_line_without_its_secrets(
    refused: Callable[..., str], tmp_path: Path, sinks: str, said: str
):
    lines = refused(["--role", "local", "--sink", *sinks.split(" ")], **credentials(tmp_path)).splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert SECRET not in lines[0]


@pytest.mark.parametrize("variable", FILES)
def test_a_missing_or_empty_file_of_a_key_is_named(refused: Callable[..., str], tmp_path: Path, variable: str):
    sink = variable.partition("_")[0].lower()
    given = credentials(tmp_path)
    for value, says in ((secret(tmp_path, "empty", "\n"), "is empty"), ("/nowhere", "does not exist"), ("", "not set")):
        said = refused(["--role", "local", "--sink", sink], **{**given, f"{PREFIX}{variable}": value})
        assert f"{value or PREFIX + variable} {'is ' if not value else ''}{says}" in said


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("exporter: {durable_otlp_http/opik: {}}", "no section is named exporter; did you mean exporters?"),
        ("exporters: {durable_otlp_htp/opik: {}}", "built without durable_otlp_htp; did you mean durable_otlp_http?"),
        ("exporters: {durable_otlp_http/opik: {header: {Comet-Workspace: lab}}}", "has invalid keys: header"),
    ],
)
def test_a_typing_error_in_a_file_for_a_sink_is_named(
    otelcol_rl: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    own: str,
    said: str,
):
    monkeypatch.setenv("OTEL_RL_COLLECTOR_BINARY", str(otelcol_rl))
    (tmp_path / "own.yaml").write_text(own)
    words = ["--role", "local", "--sink", "opik", "--with-file", str(tmp_path / "own.yaml")]
    assert cli.main(["collector", "config", *words]) == cli.FAILED
    assert said in capfd.readouterr().err


# -- the configuration ----------------------------------------------------------------------------------------------


def test_the_url_is_printed_and_replaces_the_variable():
    selection = choices.select("local", ["langfuse=https://langfuse.site:8443/base/", "otlp=http://127.0.0.1:9"])
    text = composed.compose(selection, None).text
    exporters = yaml.safe_load(text)["exporters"]
    assert exporters["durable_otlp_http/langfuse"]["endpoint"] == "https://langfuse.site:8443/base/api/public/otel"
    assert exporters["durable_otlp_grpc/sink"]["endpoint"] == "http://127.0.0.1:9"
    assert exporters["durable_otlp_grpc/sink"]["tls"] == {"insecure": True}
    assert "LANGFUSE_URL" not in text
    assert f"otel-rl collector config {selection.arguments()}" in text


@pytest.mark.parametrize("sink", [name for name, choice in choices.SINKS.items() if choice.shared])
def test_the_filter_stands_in_one_file(sink: str):
    assert "filter/llm_spans:" not in (CONFIGURATION / "sinks" / f"{sink}.yaml").read_text()
    processors = yaml.safe_load(composed.compose(choices.select("local", [sink]), None).text)["processors"]
    assert {"filter/llm_spans", "transform/llm_sessions"} <= processors.keys()


@pytest.mark.parametrize("sink", ["langfuse", "logfire", "mlflow", "opik", "zipkin"])
def test_with_durable_the_queue_of_a_sink_is_on_disk(sink: str):
    values = composed.compose(choices.select("gateway", ["file", sink], ["durable"]), None).values
    exporter = values["exporters"]["zipkin" if sink == "zipkin" else f"durable_otlp_http/{sink}"]
    assert exporter["sending_queue"]["storage"] == "queue_storage"


@pytest.mark.parametrize("sink", [name for name in choices.SINKS if name not in {"file", "lgtm"}])
def test_a_sink_that_drops_has_a_queue_that_leaves_the_others_their_memory(sink: str):
    """In memory it takes twice its bytes; 512 MiB are all that role local has."""
    exporters = composed.compose(choices.select("local", [sink]), None).values["exporters"]
    queues = [each["sending_queue"] for each in exporters.values() if "sending_queue" in each]
    assert [(queue["sizer"], queue["queue_size"]) for queue in queues] == [("bytes", 32 << 20)]
