"""Parts that ``--gateways N`` adds: on an agent the routing, on a gateway its share of the sampling budget.

The last two hexadecimal digits of a trace id select one of 256 buckets. Each gateway owns a contiguous range of
buckets, the same on every agent. A hash of the node's name selects the gateway for all metrics and logs of the node.
This keeps their order and gives each series a single writer.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from otel_rl.collector.errors import Refused
from otel_rl.collector.parts.files import ConfigurationPart, shipped

BUCKETS = 256
TEMPLATE = "durable_otlp_grpc/gateway_1"
_PREFIX = TEMPLATE.removesuffix("1")
ENDPOINT = re.compile(r"\$\{env:OTEL_RL_COLLECTOR_GATEWAY\}")

TRACE = "Substring(span.trace_id.string, 30, 2)"
#: A node without a name has no bucket: the connector's default pipeline gets its data.
NODE = 'Substring(SHA256(resource.attributes["host.name"]), 62, 2)'


class Range(NamedTuple):
    """The buckets from `first` to `last`, both of them included."""

    first: int
    last: int

    def condition(self, digits: str) -> str:
        """Return the OTTL condition that matches this range; hexadecimal digits sort like their numbers."""
        return f'{digits} >= "{self.first:02x}" and {digits} <= "{self.last:02x}"'


class Way(NamedTuple):
    """Routing of one signal: the connector's context, and the OTTL expression of the two bucket digits."""

    signal: str
    context: str
    digits: str


WAYS = (Way("traces", "span", TRACE), Way("metrics", "resource", NODE), Way("logs", "resource", NODE))


def exporter(number: int) -> str:
    """Return the name of the exporter to the gateway of this number."""
    return f"{_PREFIX}{number}"


def ranges(gateways: int) -> list[Range]:
    """Split the buckets: each belongs to exactly one gateway, and sizes differ by at most one.

    Raises:
        Refused: no such number of gateways.
    """
    if not 1 <= gateways <= BUCKETS:
        raise Refused(f"--gateways {gateways}: choose a number from 1 to {BUCKETS}")
    bounds = [number * BUCKETS // gateways for number in range(gateways + 1)]
    return [Range(first, after - 1) for first, after in pairwise(bounds)]


def variables(gateways: int) -> list[str]:
    """Return the environment variables that an agent with this number of gateways needs."""
    return [f"OTEL_RL_COLLECTOR_GATEWAY_{number}" for number in range(1, gateways + 1)]


def parts(gateways: int) -> list[ConfigurationPart]:
    """Return what is merged after ``agent.yaml`` for this number of gateways."""
    shares = ranges(gateways)
    lines = [
        f"# Traces by trace id to {gateways} gateways, metrics and logs by node. A disk queue per gateway:",
        "# one that is down holds up nobody. Its address is in OTEL_RL_COLLECTOR_GATEWAY_<n>, the same on every node.",
        "exporters:",
        *_exporters(gateways),
        "connectors:",
        *(line for way in WAYS for line in _connector(way, shares)),
        "service:",
        "  pipelines:",
        *(line for way in WAYS for line in _pipelines(way, gateways)),
    ]
    return [ConfigurationPart(f"--gateways {gateways}", "\n".join(lines) + "\n")]


def gateway_parts(gateways: int) -> list[ConfigurationPart]:
    """Return what is merged after ``gateway.yaml``: each of the gateways may spend its share of the sampling budget."""
    ranges(gateways)
    text = f"""\
# One of {gateways} gateways: the sampling budget is divided by their number.
extensions:
  trace_budget:
    gateways: {gateways}
"""
    return [ConfigurationPart(f"--gateways {gateways}", text)]


def copies(part: ConfigurationPart, gateways: int) -> list[ConfigurationPart]:
    """Return what a part says of the first gateway, once more for each of the others."""
    block = _block(part.text)
    if not block or gateways == 1:
        return []
    lines = [f"# {part.name} for the other gateways: the same as for the first.", "exporters:"]
    for number in range(2, gateways + 1):
        lines += [f"  {exporter(number)}:", *block]
    return [ConfigurationPart(f"{part.name} --gateways {gateways}", "\n".join(lines) + "\n")]


def _exporters(gateways: int) -> list[str]:
    """Return the exporter of ``agent.yaml``, once per gateway; the first keeps its name, and with it its queue."""
    block = _block(shipped("agent.yaml").text)
    if not any(ENDPOINT.search(line) for line in block):
        raise Refused(f"agent.yaml has no exporter {TEMPLATE} with the endpoint of a gateway")
    lines = [f"  {TEMPLATE}:", "    endpoint: ${env:OTEL_RL_COLLECTOR_GATEWAY_1}"]
    for number, variable in enumerate(variables(gateways)[1:], start=2):
        lines.append(f"  {exporter(number)}:")
        lines += [ENDPOINT.sub(f"${{env:{variable}}}", line) for line in block]
    return lines


def _block(text: str) -> list[str]:
    """Return the settings of the exporter to the first gateway in a shipped file, without the comments."""
    _, _, rest = text.partition(f"\n  {TEMPLATE}:\n")
    lines = []
    for line in rest.splitlines():
        if line.strip() and not line.startswith("   "):
            break
        if line.strip() and not line.lstrip().startswith("#"):
            lines.append(line)
    return lines


def _connector(way: Way, shares: list[Range]) -> list[str]:
    lines = [
        f"  routing/{way.signal}_by_gateway:",
        f"    default_pipelines: [{way.signal}/gateway_1]",
        "    table:",
    ]
    for number, share in enumerate(shares, start=1):
        lines += [
            f"      - context: {way.context}",
            f"        condition: '{share.condition(way.digits)}'",
            f"        pipelines: [{way.signal}/gateway_{number}]",
        ]
    return lines


def _pipelines(way: Way, gateways: int) -> list[str]:
    connector = f"routing/{way.signal}_by_gateway"
    lines = [f"    {way.signal}/gateway: {{receivers: [forward/{way.signal}_out], exporters: [{connector}]}}"]
    lines += [
        f"    {way.signal}/gateway_{number}: {{receivers: [{connector}], exporters: [{exporter(number)}]}}"
        for number in range(1, gateways + 1)
    ]
    return lines
