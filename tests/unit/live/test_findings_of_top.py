"""What `otel-rl top` says is wrong: what happens now, and what is recorded and is not said by that."""

from __future__ import annotations

from typing import Any

import pytest

from otel_rl.live.standing import LiveFinding, Standing
from otel_rl.report.core.curves import Curve
from otel_rl.report.core.finding import Severity

terminal = pytest.importorskip("otel_rl.live.terminal")
essentials = pytest.importorskip("otel_rl.live.essentials")


def _recorded(subject: str) -> dict[str, Any]:
    return {
        "code": "hanging_call",
        "severity": "critical",
        "text": f"Tool {subject} hung for 60 s.",
        "subject": subject,
    }


def test_a_call_that_hangs_now_is_said_once_with_who_is_late_for_it() -> None:
    now = LiveFinding("hanging_call", Severity.CRITICAL, "Tool lookup hangs", "Rank 1 waits in tool `lookup`.", [1])
    now.evidence.append("Rank 1 has not entered barrier; rank 0 has waited for it 12 s.")
    now.evidence.append("More.")
    view = terminal.View("run", standing=Standing([], [now]))
    view.content = {"findings": [_recorded("lookup"), _recorded("look")]}
    assert [str(line) for line in terminal._findings(view)] == [
        "critical: Rank 1 waits in tool `lookup`. Rank 1 has not entered barrier; rank 0 has waited for it 12 s.",
        "critical: Tool look hung for 60 s.",
    ]


def test_a_call_that_hung_is_said_of_a_run_that_is_over() -> None:
    view = terminal.View("run", standing=Standing([], []))
    view.content = {"findings": [_recorded("lookup")]}
    assert [str(line) for line in terminal._findings(view)] == ["critical: Tool lookup hung for 60 s."]


@pytest.mark.parametrize(("last", "said"), [(None, "NaN"), (float("inf"), "inf"), (0.25, 0.25)])
def test_a_value_that_is_not_finite_now_is_not_said_to_be_what_it_was(last: float | None, said: float | str) -> None:
    assert essentials._value("Loss", Curve("loss", [1.0], [0.25], 1), {"loss": last})["last"] == said
