"""Installed into a trainer's environment, otel-rl changes nothing there but OpenTelemetry packages."""

import peers
import pytest
from support import distribution


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return distribution.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def pip(tmp_path_factory):
    return distribution.create_environment(tmp_path_factory.mktemp("pip"), "--seed") / "pip"


def test_pip_finds_the_dependencies_without_a_long_search(wheel, pip, tmp_path):
    # A combination of betas that excludes the newest SDK once sent pip through every version of urllib3.
    plan = peers.plan_of_installing(str(wheel), peers.empty_environment(pip, tmp_path / "environment"))

    assert {"otel-rl", "opentelemetry-sdk", "opentelemetry-instrumentation"} <= set(plan.versions)


@pytest.mark.parametrize(
    "peer",
    # pip plans for about two minutes beside vLLM.
    ["langfuse", "mlflow", "ray[default]", "trl", pytest.param("vllm", marks=pytest.mark.slow), "wandb"],
)
def test_pip_changes_nothing_but_opentelemetry_beside(peer, wheel, pip, tmp_path):
    environment = peers.environment_with(peer, pip, tmp_path / "environment")

    plan = peers.plan_of_installing(str(wheel), environment)

    assert "otel-rl" in plan.versions
    foreign = {
        name: how for name, how in peers.changes(environment, plan).items() if not name.startswith("opentelemetry-")
    }
    assert foreign == {}
    assert peers.broken_requirements(environment, plan) == []


def test_a_change_of_another_package_would_be_seen(pip, tmp_path):
    environment = peers.environment_with("requests==2.32.3", pip, tmp_path / "environment")

    plan = peers.plan_of_installing("urllib3<2", environment)

    assert list(peers.changes(environment, plan)) == ["urllib3"]
    assert peers.broken_requirements(environment, plan) == []


def test_a_requirement_that_would_break_is_named(pip, tmp_path):
    environment = peers.environment_with("requests==2.32.3", pip, tmp_path / "environment")

    plan = peers.plan_of_installing("idna<2.5", environment)

    assert peers.broken_requirements(environment, plan) == ["requests needs idna<4,>=2.5, would get 2.4"]
