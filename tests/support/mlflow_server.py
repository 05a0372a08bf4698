"""MLflow's tracking server for tests: a real one, and a stand-in that answers as 3.17.2 does, in memory.

What the stand-in refuses was measured on the real server; `test_process_mlflow` holds both to the same answers.
"""

from __future__ import annotations

import gzip
import json
import os
import posixpath
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "/api/2.0/mlflow/"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
_NAME = re.compile(r"[\w/.\- :]*")
#: A loaded machine needs minutes.
_READY_SECONDS = 600


class TrackedRuns:
    """Reads what a server has, over its REST API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """The answer to one request: GET, or POST of ``content``."""
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            self.url + path, data=body, headers={"content-type": "application/json"}, method="POST" if body else "GET"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def experiment(self, name: str) -> str:
        """Id of the experiment."""
        return str(self.ask(f"{API}experiments/get-by-name?experiment_name={name}")["experiment"]["experiment_id"])

    def runs(self, name: str) -> list[dict[str, Any]]:
        """Runs of the experiment."""
        found = self.ask(f"{API}runs/search", {"experiment_ids": [self.experiment(name)]}).get("runs", [])
        return [self.ask(f"{API}runs/get?run_id={run['info']['run_id']}")["run"] for run in found]

    def run(self, name: str) -> dict[str, Any]:
        """The only run of the experiment."""
        [run] = self.runs(name)
        return run

    def curve(self, run: dict[str, Any], key: str) -> list[tuple[int, float]]:
        """Steps and values of a metric."""
        found = self.ask(f"{API}metrics/get-history?run_id={run['info']['run_id']}&metric_key={key}")
        return [(int(point["step"]), point["value"]) for point in found.get("metrics", [])]

    def new_run(self, name: str) -> str:
        """A run of somebody else, in a new experiment."""
        experiment = self.ask(f"{API}experiments/create", {"name": name})["experiment_id"]
        made = self.ask(f"{API}runs/create", {"experiment_id": experiment, "start_time": 1700000000000})
        return str(made["run"]["info"]["run_id"])

    def traces(self, name: str) -> set[str]:
        """Ids of the traces of the experiment."""
        at = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": self.experiment(name)}}
        found = self.ask("/api/3.0/mlflow/traces/search", {"locations": [at], "max_results": 500})
        return {trace["trace_id"].removeprefix("tr-") for trace in found.get("traces", [])}


def pairs(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Key -> value of metrics, parameters or tags."""
    return {item["key"]: item["value"] for item in items}


@contextmanager
def real_server(folder: Path) -> Iterator[TrackedRuns]:
    """`mlflow server` over a database in ``folder``; it takes a minute or more to be ready."""
    command = shutil.which("mlflow", path=str(Path(sys.executable).parent))
    assert command is not None, "mlflow is not installed here"
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        port = free.server_address[1]
    options = ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--port", str(port), "--workers", "1"]
    artifacts = ["--artifacts-destination", str(folder / "artifacts")]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(
        [command, "server", "--host", "127.0.0.1", *options, *artifacts],
        cwd=folder,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _await(process, url)
        yield TrackedRuns(url)
    finally:
        # Its workers too.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        log.close()


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError("mlflow server was not ready in time")


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """An answer that is no success."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.body = json.dumps({"error_code": code, "message": message}).encode()


@dataclass
class Fault:
    """What the stand-in answers instead, to paths that contain ``path``, so many ``times``."""

    path: str
    status: int
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1 << 30


class StandIn(TrackedRuns):
    """The server itself, and what it was sent."""

    def __init__(self, port: int = 0) -> None:
        self.experiments: dict[str, dict[str, Any]] = {"0": {"name": "Default", "lifecycle_stage": "active"}}
        self.stored: dict[str, dict[str, Any]] = {}
        self.history: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.spans: list[tuple[dict[str, str], bytes]] = []
        self.artifacts: dict[str, bytes] = {}
        #: Paths of all requests.
        self.requests: list[str] = []
        self.batches: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Fault] = []
        #: Requests wait for it; cleared: the server hangs.
        self.answers = threading.Event()
        self.answers.set()
        #: Set with each batch of values that was taken.
        self.took = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        super().__init__(f"http://127.0.0.1:{self._server.server_address[1]}")

    def stop(self) -> None:
        """Stop listening."""
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """What the real server answers."""
        parts = urlsplit(target)
        if parts.path == "/v1/traces":
            return self._take_spans(headers, body)
        if parts.path.startswith(ARTIFACTS) and method == "PUT":
            self.artifacts[parts.path.removeprefix(ARTIFACTS)] = body
            return 200, b""
        if parts.path == "/version":
            return 200, b"3.17.2"
        if parts.path == "/api/3.0/mlflow/traces/search":
            return 200, json.dumps({"traces": [{"trace_id": f"tr-{trace}"} for trace in self._trace_ids()]}).encode()
        content = json.loads(body) if body else dict(parse_qsl(parts.query))
        name = parts.path.removeprefix(API).replace("/", "_").replace("-", "_")
        return 200, json.dumps(getattr(self, f"_{name}")(content)).encode()

    def _take_spans(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        experiment = headers.get("x-mlflow-experiment-id")
        if experiment is None:
            return 422, b'{"detail":[{"type":"missing","loc":["header","x-mlflow-experiment-id"]}]}'
        if not body:
            return 400, b'{"detail":"Invalid OpenTelemetry format - no spans found"}'
        if experiment not in self.experiments:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"No Experiment with id={experiment} exists")
        self.spans.append((headers, gzip.decompress(body)))
        return 200, b""

    def _trace_ids(self) -> set[str]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        return {
            span.trace_id.hex()
            for _, body in self.spans
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def _experiments_get(self, content: dict[str, Any]) -> Any:
        number = content["experiment_id"]
        if number not in self.experiments:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"No Experiment with id={number} exists")
        return {"experiment": {"experiment_id": number, **self.experiments[number]}}

    def _experiments_get_by_name(self, content: dict[str, Any]) -> Any:
        name = content["experiment_name"]
        found = [number for number, experiment in self.experiments.items() if experiment["name"] == name]
        if not found:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Could not find experiment with name '{name}'")
        return self._experiments_get({"experiment_id": found[0]})

    def _experiments_create(self, content: dict[str, Any]) -> Any:
        number = str(len(self.experiments))
        self.experiments[number] = {"name": content["name"], "lifecycle_stage": "active"}
        return {"experiment_id": number}

    def _runs_create(self, content: dict[str, Any]) -> Any:
        number = f"{len(self.stored):032x}"
        info = {"run_id": number, "status": "RUNNING", "lifecycle_stage": "active", **content}
        info["artifact_uri"] = f"mlflow-artifacts:/{content['experiment_id']}/{number}/artifacts"
        self.stored[number] = {"info": info, "data": {"tags": list(info.pop("tags", [])), "params": [], "metrics": []}}
        return {"run": self.stored[number]}

    def _runs_get(self, content: dict[str, Any]) -> Any:
        if content["run_id"] not in self.stored:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Run with id={content['run_id']} not found")
        return {"run": self.stored[content["run_id"]]}

    def _runs_search(self, content: dict[str, Any]) -> Any:
        tag = re.search(r"tags\.`(.+)` = '(.+)'", content.get("filter", ""))
        found = [run for run in self.stored.values() if run["info"]["experiment_id"] in content["experiment_ids"]]
        return {"runs": [run for run in found if not tag or pairs(run["data"]["tags"]).get(tag[1]) == tag[2]]}

    def _runs_update(self, content: dict[str, Any]) -> Any:
        self._active(content["run_id"])["info"].update(content)
        return {}

    def _runs_delete(self, content: dict[str, Any]) -> Any:
        self._active(content["run_id"])["info"]["lifecycle_stage"] = "deleted"
        return {}

    def _active(self, number: str) -> dict[str, Any]:
        run: dict[str, Any] = self._runs_get({"run_id": number})["run"]
        if run["info"]["lifecycle_stage"] == "deleted":
            message = f"The run {number} must be in the 'active' state. Current state is deleted."
            raise Refused(400, "INVALID_PARAMETER_VALUE", message)
        return run

    def _runs_log_batch(self, content: dict[str, Any]) -> Any:
        run = self._active(content["run_id"])
        metrics, params, tags = (content.get(kind, []) for kind in ("metrics", "params", "tags"))
        self._check_batch(run, metrics, params, tags)
        for metric in metrics:
            step = metric["step"] if type(metric["step"]) is int and abs(metric["step"]) < 2**63 else 0
            self.history.setdefault((content["run_id"], metric["key"]), []).append({**metric, "step": step})
        data = run["data"]
        for kind, items in (("metrics", metrics), ("params", params), ("tags", tags)):
            data[kind] = list({item["key"]: item for item in [*data[kind], *items]}.values())
        self.batches.append(content)
        if metrics:
            self.took.set()
        return {}

    @staticmethod
    def _check_batch(run: dict[str, Any], metrics: list[Any], params: list[Any], tags: list[Any]) -> None:
        keys = [item["key"] for item in (*metrics, *params, *tags)]
        bad = [key for key in keys if not _NAME.fullmatch(key) or len(key) > 250 or _is_no_path(key)]
        is_large = len(keys) > 1000 or len(params) > 100 or len(tags) > 100
        known = pairs(run["data"]["params"])
        changed = [item["key"] for item in params if known.get(item["key"], item["value"]) != item["value"]]
        if bad or is_large or changed or any(type(metric["value"]) not in (int, float) for metric in metrics):
            raise Refused(400, "INVALID_PARAMETER_VALUE", f"Invalid value {(bad or changed or [''])[0]!r}")

    def _metrics_get_history(self, content: dict[str, Any]) -> Any:
        return {"metrics": self.history.get((content["run_id"], content["metric_key"]), [])}


def _is_no_path(key: str) -> bool:
    normal = posixpath.normpath(key)
    return normal != key or normal == "." or normal.startswith(("..", "/"))


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            sent = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append(self.path)
            server.headers.append(sent)
            server.answers.wait()
            fault = next((fault for fault in server.faults if fault.path in self.path and fault.times > 0), None)
            if fault is not None:
                fault.times -= 1
                self._send(fault.status, fault.body, fault.headers)
                return
            try:
                status, content = server.answer(self.command, self.path, sent, body)
            except Refused as refused:
                status, content = refused.status, refused.body
            except (AttributeError, KeyError, ValueError):
                status, content = 404, b"<!doctype html>"
            self._send(status, content, {"Content-Type": "text/html" if content[:1] == b"<" else "application/json"})

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - names of the base

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silent."""

    return Handler
