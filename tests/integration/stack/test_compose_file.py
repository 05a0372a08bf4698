"""compose.yaml cannot be run everywhere; what can be checked without an engine is: paths, versions, ports, links."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from dashboards.lib.rules import STACK

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "compose"
FILE = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES = FILE["services"]


def test_every_published_port_is_on_the_loopback_interface():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_mounted_file_exists_and_every_volume_is_declared():
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (COMPOSE / source).exists() if source.startswith(".") else source in FILE["volumes"], mount
    assert (COMPOSE / SERVICES["otelcol-rl"]["build"] / "Dockerfile").exists()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_has_a_health_check_and_a_fixed_version(name: str):
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert "build" in SERVICES[name] or re.search(r":v?\d+\.\d+\.\d+$", SERVICES[name]["image"])


def test_images_have_the_versions_that_are_built_from_source():
    def version(name: str, module: str) -> str:
        lines = (ROOT / "compose" / "backends" / name / "go.mod").read_text()
        found = re.search(rf"^\t{re.escape(module)} (v\S+)", lines, re.MULTILINE)
        assert found
        return found[1]

    assert version("loki", "github.com/grafana/loki/v3") == f"v{SERVICES['loki']['image'].split(':')[1]}"
    major, minor, patch = SERVICES["prometheus"]["image"].split(":v")[1].split(".")
    assert version("prometheus", "github.com/prometheus/prometheus") == f"v0.{major}{int(minor):02d}.{patch}"
    # Tempo's module has no release tags; this commit is the one tagged v2.9.0.
    assert SERVICES["tempo"]["image"] == "grafana/tempo:2.9.0"
    assert version("tempo", "github.com/grafana/tempo") == "v1.5.1-0.20251008140505-607c7fb69662"


def test_prometheus_gets_the_same_flags_as_without_docker(monkeypatch: pytest.MonkeyPatch):
    import services
    from stack import free_ports

    monkeypatch.setattr(services, "build", lambda script, *names: Path("/programs"))
    started = services.services(free_ports(), Path("/data"))[0].command
    chosen = {flag for flag in started if flag.startswith(("--web.enable", "--enable", "--storage.tsdb.retention"))}
    in_container = SERVICES["prometheus"]["command"]
    assert chosen <= set(in_container)
    assert {_name_of(flag) for flag in started[1:]} == {_name_of(flag) for flag in in_container} | {
        "--web.listen-address"
    }


def _name_of(flag: str) -> str:
    return flag.partition("=")[0]


def test_the_links_of_alerts_lead_to_what_the_stack_publishes():
    prometheus, grafana = SERVICES["prometheus"], SERVICES["grafana"]
    (address,) = [flag.split("=")[1] for flag in prometheus["command"] if flag.startswith("--web.external-url=")]
    assert address.removeprefix("http://") + ":9090" in prometheus["ports"]
    assert STACK.grafana in {f"http://{_published(port)}" for port in grafana["ports"]}
    (pages,) = [flag.split("=")[1] for flag in prometheus["command"] if flag.startswith("--web.user-assets=")]
    assert f"../dashboards/runbooks:{pages}:ro" in prometheus["volumes"]


def _published(port: str) -> str:
    """Host and port of a published port, each variable with its default."""
    return re.sub(r"\$\{\w+:-(\d+)\}", r"\1", port).rpartition(":")[0]


def test_data_sources_link_to_data_sources_that_exist_and_point_to_services():
    provisioned = yaml.safe_load((COMPOSE / "grafana" / "datasources" / "otel-rl.yaml").read_text())["datasources"]
    uids = {source["uid"] for source in provisioned}
    linked = set(re.findall(r'"datasourceUid": "(\w+)"', json.dumps(provisioned)))
    assert linked == uids == {"prometheus", "tempo", "loki"}
    for source in provisioned:
        host = re.match(r"http://([\w-]+):\d+$", source["url"])
        assert host
        assert host[1] in SERVICES


def test_home_board_exists():
    path = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / "dashboards" / "generated" / "grafana" / Path(path).name).exists()
