"""Shared by the tests of trainers: the patches, and two runs that are only read, one plain, one watched."""

from __future__ import annotations

import pytest
import runs
import torch
from support import trl_runs

from otel_rl.instrumentors.transformers import TransformersInstrumentor
from otel_rl.instrumentors.trl import TRLInstrumentor

# The tests run in several processes: with more threads than processors a step takes many times as long.
torch.set_num_threads(1)


@pytest.fixture
def instrumented(recorded):
    """The instrumentors of transformers and TRL, in place; a test may take them away itself."""
    instrumentors = [TransformersInstrumentor(), TRLInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    yield instrumentors
    for instrumentor in instrumentors:
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()


@pytest.fixture(scope="session")
def watched_run(tmp_path_factory):
    return runs.read(trl_runs.watched(tmp_path_factory))


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    return runs.read(trl_runs.plain(tmp_path_factory))
