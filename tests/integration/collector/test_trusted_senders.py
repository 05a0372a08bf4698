"""A gateway masks again what it receives, unless it is told that all its senders have done so."""

from __future__ import annotations

import random
import string

import pytest
from collector_process import CollectorProcess, wait_for
from otlp import log_resource

PLANTED = "hf_" + "".join(random.Random(7).choices(string.ascii_letters, k=34))  # noqa: S311  (nobody's secret)


@pytest.mark.parametrize(("overlays", "masked"), [((), True), (("overlays/trusted-senders.yaml",), False)])
def test_only_a_gateway_with_trusted_senders_passes_what_is_not_masked(otelcol_rl, tmp_path, overlays, masked):
    with CollectorProcess(otelcol_rl, ["gateway.yaml", "sinks/file.yaml", *overlays], tmp_path) as gateway:
        gateway.send("logs", [log_resource([{"body": {"stringValue": f"token {PLANTED} was used"}}])])
        wait_for(lambda: "was used" in gateway.text("logs"), "the log record is written")
    assert (PLANTED not in gateway.text("logs")) is masked
