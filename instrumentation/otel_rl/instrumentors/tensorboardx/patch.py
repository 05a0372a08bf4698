"""Wrappers of tensorboardX's ``SummaryWriter``."""

from __future__ import annotations

from functools import partial

from otel_rl.instrumentors import summary_writers

patch_writer = partial(summary_writers.patch, library="tensorboardx")
