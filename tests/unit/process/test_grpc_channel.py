"""How soon gRPC connects again after an outage: the options of the channel that an exporter really has."""

from __future__ import annotations

import pytest

exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")

from otel_rl.pipeline.otlp_exporter import OtlpExporter  # noqa: E402 - after the check


class Exporter(exporters.OTLPSpanExporter):
    """Keeps the options of each channel that it opens."""

    opened: list[dict[str, int]]

    def _initialize_channel_and_stub(self) -> None:
        self.opened = [*getattr(self, "opened", ()), dict(self._channel_options)]
        super()._initialize_channel_and_stub()


def _options_of_the_last_channel(**chosen: int) -> dict[str, int]:
    options = tuple((f"grpc.{name}", value) for name, value in chosen.items())
    exporter = Exporter(endpoint="http://127.0.0.1:1", insecure=True, channel_options=options)
    watched = OtlpExporter(exporter, "traces")
    watched.shutdown()
    assert len(exporter.opened) == 2
    return exporter.opened[-1]


def test_a_channel_connects_again_within_seconds_and_shares_no_wait_with_another() -> None:
    options = _options_of_the_last_channel()
    assert options["grpc.initial_reconnect_backoff_ms"] <= 1000
    # An attempt itself, and the wait between two.
    assert options["grpc.min_reconnect_backoff_ms"] <= 5000
    assert options["grpc.max_reconnect_backoff_ms"] <= 3000
    assert options["grpc.use_local_subchannel_pool"] == 1


def test_what_the_user_has_chosen_for_the_channel_stays() -> None:
    options = _options_of_the_last_channel(max_reconnect_backoff_ms=60_000)
    assert options["grpc.max_reconnect_backoff_ms"] == 60_000
    assert options["grpc.initial_reconnect_backoff_ms"] <= 1000
