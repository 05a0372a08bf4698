"""The component types that otelcol-rl is built with, from the manifest that builds it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from otel_rl.collector.errors import Refused
from otel_rl.core import packaged_data

KINDS = ("extensions", "receivers", "processors", "connectors", "exporters")

_ENTRY = re.compile(
    r"^(?:(?P<kind>[a-z]+):\s*$|\s*- gomod:\s+(?P<module>\S+)\s+v\S+(?:.*\n\s+import:\s+(?P<package>\S+))?)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Types:
    """Component types that one package of the manifest adds, with their deprecated aliases."""

    names: tuple[str, ...]
    former: tuple[str, ...] = field(default=())


_SAME = re.compile(r"(extension|receiver|processor|connector|exporter)$")

_NAMED_OTHERWISE = {
    "credentialfilesextension": Types(("credential_files",)),
    "cumulativetodeltaprocessor": Types(("cumulative_to_delta",), ("cumulativetodelta",)),
    "deltatocumulativeprocessor": Types(("delta_to_cumulative",), ("deltatocumulative",)),
    "durableotlpgrpc": Types(("durable_otlp_grpc",)),
    "durableotlphttp": Types(("durable_otlp_http",)),
    "filelogreceiver": Types(("file_log",), ("filelog",)),
    "filestorage": Types(("file_storage",)),
    "headerssetterextension": Types(("headers_setter",)),
    "healthcheckextension": Types(("health_check",)),
    "hostmetricsreceiver": Types(("host_metrics",), ("hostmetrics",)),
    "k8sattributesprocessor": Types(("k8s_attributes",), ("k8sattributes",)),
    "linefileexporter": Types(("line_file",)),
    "loadbalancingexporter": Types(("load_balancing",), ("loadbalancing",)),
    "memorylimiterextension": Types(("memory_limiter",)),
    "memorylimiterprocessor": Types(("memory_limiter",)),
    "metricstarttimeprocessor": Types(("metric_start_time",), ("metricstarttime",)),
    "ownlogsreceiver": Types(("own_logs",)),
    "otlpexporter": Types(("otlp_grpc",), ("otlp",)),
    "otlphttpexporter": Types(("otlp_http",), ("otlphttp",)),
    "otlpjsonfilereceiver": Types(("otlp_json_file",), ("otlpjsonfile",)),
    "probabilisticsamplerprocessor": Types(("probabilistic_sampler",)),
    "prometheusremotewriteexporter": Types(("prometheus_remote_write",), ("prometheusremotewrite",)),
    "queuestorageextension": Types(("queue_storage",)),
    "requestguardextension": Types(("request_guard",)),
    "resourcedetectionprocessor": Types(("resource_detection",), ("resourcedetection",)),
    "secretredactionprocessor": Types(("secret_redaction",)),
    "servicegraphconnector": Types(("service_graph",), ("servicegraph",)),
    "sidesinkprocessor": Types(("side_sink",)),
    "signaltometricsconnector": Types(("signal_to_metrics",), ("signaltometrics",)),
    "spanmetricsconnector": Types(("span_metrics",), ("spanmetrics",)),
    "statusextension": Types(("health_status",)),
    "tailsamplingprocessor": Types(("tail_sampling",)),
    "tracebudgetextension": Types(("trace_budget",)),
}
"""Last part of a package's path -> its types, where they are not that part without its kind.

A test compares this with what the built program lists.
"""

REMOVED = {"exporters": {"logging": "it is called debug"}}
"""Types that the manifest leaves out on purpose, with what serves instead."""


@lru_cache(maxsize=1)
def built() -> dict[str, dict[str, str]]:
    """For each kind of component the types in the manifest, former names among them, each with its present name.

    Raises:
        Refused: this installation lacks the manifest.
    """
    present: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    kind = ""
    for entry in _ENTRY.finditer(_manifest()):
        if entry["kind"]:
            kind = entry["kind"]
        elif kind in present:
            types = types_of(entry["package"] or entry["module"])
            present[kind] |= {name: name for name in types.names}
            present[kind] |= dict.fromkeys(types.former, types.names[0])
    return present


def types_of(package: str) -> Types:
    """Return the component types of a Go package."""
    last = package.rpartition("/")[2]
    return _NAMED_OTHERWISE.get(last) or Types((_SAME.sub("", last),))


def versions() -> tuple[str, str]:
    """Version of otelcol-rl and of the OpenTelemetry Collector in it."""
    manifest = _manifest()
    ours = re.search(r"^\s+version: (\S+)", manifest, re.MULTILINE)
    core = re.search(r"go\.opentelemetry\.io/collector/receiver/otlpreceiver v(\S+)", manifest)
    return (ours[1] if ours else "unknown", core[1] if core else "unknown")


@lru_cache(maxsize=1)
def _manifest() -> str:
    try:
        return (packaged_data.path("otelcol-builder") / "manifest.yaml").read_text(encoding="utf-8")
    except packaged_data.MissingDataError as error:
        raise Refused(str(error)) from None
