"""What texts may cost: a batch of ordinary prompts passes whole, and a hostile text costs no other text its place."""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from collector_process import CollectorProcess, wait_for
from otlp import attributes, span, trace_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

SPANS = 512
"""What the SDK sends in one request."""

VENDORS = (
    "adafruit adobe algolia asana atlassian bitbucket bittrex codecov coinbase confluent contentful "
    "databricks datadog discord droneci dropbox etsy facebook finicity finnhub flickr freshbooks gitter "
    "hubspot infracost intercom jfrog kraken kucoin launchdarkly linear linkedin looker mailchimp mailgun "
    "mapbox mattermost netlify newrelic nytimes okta plaid rapidapi sendbird sentry shippo sidekiq snyk "
    "squarespace sumologic telegram travis trello twitch twitter typeform yandex zendesk "
)
"""A value behind each of these makes some rule look for what it is."""


@cache
def pieces() -> list[str]:
    """Return Markdown and code of the packages that are installed."""
    found = [part for each in distributions() for part in (each.read_text("METADATA") or "").split("\n\n")]
    site = Path(next(path for path in sys.path if path.endswith("site-packages")))
    for file in sorted(site.glob("*/*.py"))[:500]:
        found += [f"```python\n{part}\n```" for part in file.read_text(errors="replace").split("\n\n\n")]
    return found


def prompts(number: int, size: int) -> list[str]:
    """Return messages as instrumentors write them."""
    draw = random.Random(7)  # noqa: S311
    made = []
    for _ in range(number):
        text = ""
        while len(text) < size:
            text += draw.choice(pieces()) + "\n\n"
        made.append(json.dumps([{"role": "user", "parts": [{"type": "text", "content": text[:size]}]}]))
    return made


@pytest.fixture(scope="module")
def whole(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """A collector that lets long content pass."""
    folder = tmp_path_factory.mktemp("whole")
    long = folder / "long.yaml"
    long.write_text("processors: {secret_redaction: {content: {action: redact, max_bytes: 65536}}}\n")
    with CollectorProcess(otelcol_rl, ["local.yaml", "overlays/content.yaml", long], folder, {}) as running:
        yield running


@pytest.mark.parametrize("kibibytes", [8, 24])
def test_a_batch_of_prompts_of_markdown_and_code_passes_whole(whole: CollectorProcess, kibibytes: int):
    sent = [span("chat", {"gen_ai.input.messages": each}) for each in prompts(SPANS, kibibytes << 10)]
    ids = {each["spanId"] for each in sent}
    whole.send("traces", [trace_resource(sent)])

    def written() -> list[dict[str, Any]]:
        return [each for each in whole.spans() if each["spanId"] in ids]

    wait_for(lambda: len(written()) == SPANS, "the spans")
    got = [attributes(each)["gen_ai.input.messages"] for each in written()]
    assert not [text for text in got if "[dropped by redaction" in text or "[truncated" in text]
    assert whole.ask("/status")[0] == 200


def test_a_text_that_is_too_costly_is_dropped_and_no_other_senders_text(start_collector):
    collector = start_collector("local.yaml")
    hostile = "".join(f"{name} a8Kd03jfLs92mZqP " for name in VENDORS.split()) * 200
    notes = [hostile, "what another sender says", hostile, "and a third one"]
    collector.send("traces", [trace_resource([span("call", {"note": note})]) for note in notes])
    wait_for(lambda: len(collector.spans()) == len(notes), "the spans")
    got = [attributes(each)["note"] for each in collector.spans()]
    assert got == ["[dropped by redaction: cost]", notes[1], "[dropped by redaction: cost]", notes[3]]
    (said,) = [line for line in collector.log().splitlines() if "Redaction drops values" in line]
    assert '"dropped": {"cost":2}' in said
    code, status = collector.ask("/status")
    assert (code, status["components"][0]["component"]) == (503, "processor:secret_redaction")
    assert "Fix: " in status["components"][0]["reason"]
