"""No rule warns of healthy curves, whatever the kind of training, the noise and the distance of log calls."""

from __future__ import annotations

import healthy_shapes
import pytest

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

SEEDS = 20
#: Four samples that are all wrong in most steps do give no signal at first.
EXPECTED = {healthy_shapes.few_samples: {Code.NO_SIGNAL, Code.P1_PLATEAU}}


def found(runs, every=1):
    fed = Monitor(defaults())
    for step, values in enumerate(runs, 1):
        if step % every == 0:
            fed.log(step, values, step - every + 1)
        fed.step(step, 1.0)
    return [(one.code, one.evidence) for one in fed.verdicts() if one.is_finding]


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("shape", healthy_shapes.SHAPES)
def test_healthy_curves_raise_no_alarm(shape, every):
    expected = EXPECTED.get(shape, set())
    for seed in range(3 * SEEDS if every == 1 and shape in (healthy_shapes.grpo, healthy_shapes.dpo) else SEEDS):
        assert [one for one in found(shape(seed), every) if one[0] not in expected] == [], seed


@pytest.mark.parametrize("shape", [healthy_shapes.grpo, healthy_shapes.supervised, healthy_shapes.dpo])
def test_a_run_that_is_resumed_at_an_earlier_step_raises_no_alarm(shape):
    for seed in range(10):
        values = list(shape(seed))
        half = len(values) // 2
        fed = Monitor(defaults())
        for step in (*range(half), *range(half - 20, len(values))):
            fed.log(step + 1, values[step])
            fed.step(step + 1, 1.0)

        assert [one.evidence for one in fed.verdicts() if one.is_finding] == [], seed
