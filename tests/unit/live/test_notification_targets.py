"""What `--notify` takes, and what of it is ever shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from otel_rl.cli import main
from otel_rl.live.notifications import Notifier, NotifyTarget, UnusableTarget
from otel_rl.live.standing import LiveFinding, Standing
from otel_rl.report.core.finding import Severity


def test_an_address_is_named_without_its_path_user_or_query() -> None:
    target = NotifyTarget.of("https://user:SECRET@hooks.example.com/services/SECRET?token=SECRET")
    assert target.label == "https://hooks.example.com"
    assert target.address.endswith("SECRET")


def test_a_command_is_split_as_a_shell_does_it_and_named_without_its_arguments() -> None:
    target = NotifyTarget.of("/usr/local/bin/page-me --key 'SECRET key'")
    assert (target.label, target.command) == ("page-me", ("/usr/local/bin/page-me", "--key", "SECRET key"))


@pytest.mark.parametrize("text", ["", "  ", "http://", "https://[", "http://host:port/SECRET", "https://a b", "say 'x"])
def test_what_is_neither_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UnusableTarget) as refused:
        NotifyTarget.of(text)
    assert "SECRET" not in str(refused.value)


def test_no_page_without_notify_says_that_there_is_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", "--no-page"]) == 2
    assert "--no-page is for --notify" in capsys.readouterr().err


def test_a_storm_of_findings_ends_and_that_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    found = [LiveFinding("hang", Severity.CRITICAL, "hangs", "It hangs.", [rank]) for rank in range(60)]
    watch = SimpleNamespace(run_id="run", folder=SimpleNamespace(name="run"), standing=Standing([], found), findings=[])
    notifier = Notifier([])
    for _ in range(2):
        notifier.tell(watch)
    assert capfd.readouterr().err == "otel-rl live: run: 50 notifications were sent, no more will be\n"
