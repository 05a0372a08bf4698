"""A real program under `opentelemetry-instrument`: forced and slow rollouts ask to be kept, others do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from process_support import plain

if TYPE_CHECKING:
    from process_support import Programs

PROGRAM = """
import time, otel_rl
for number in range(40):
    with otel_rl.rollout(f"ordinary {number}", iteration=1):
        with otel_rl.tool("search"):
            time.sleep(0.002)
with otel_rl.rollout("forced", iteration=1, keep=True), otel_rl.tool("search"):
    pass
with otel_rl.rollout("whole", iteration=50), otel_rl.tool("search"):
    pass
with otel_rl.rollout("slow", iteration=1):
    with otel_rl.tool("search"):
        time.sleep(0.5)
    otel_rl.reward("exact_match", 0.0)
"""


def test_the_wish_to_keep_a_rollout_leaves_the_process_on_each_of_its_spans(programs: Programs) -> None:
    done = programs.instrumented(PROGRAM, OTEL_RL_WHOLE_STEPS="50")
    assert (done.code, done.out) == (0, "")

    wishes: dict[str, set[int | None]] = {}
    for span in programs.store.spans():
        found = plain(span["attributes"])
        if "rl.rollout.id" in found:
            wishes.setdefault(found["rl.rollout.id"], set()).add(found.get("rl.sampling.priority"))
    assert wishes["forced"] == wishes["whole"] == wishes["slow"] == {1}
    # A busy machine may make one of the others slow too.
    ordinary = [wish for name, wish in wishes.items() if name.startswith("ordinary")]
    assert sum(wish == {None} for wish in ordinary) > len(ordinary) * 3 / 4
