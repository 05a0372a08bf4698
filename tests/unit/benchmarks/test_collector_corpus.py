"""The corpus of the collector's benchmarks is what its generator writes and what its README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
FOLDER = BENCHMARKS / "corpora" / "collector"

pytest.importorskip("numpy")
pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


@pytest.fixture
def corpus_module(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import collector_corpus

    return collector_corpus


def test_the_files_are_those_of_the_generator():
    done = subprocess.run(
        [sys.executable, FOLDER / "generate.py", "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _percent(cell: str) -> float:
    return float(cell.split("%", maxsplit=1)[0].strip() or 0) / 100


@pytest.mark.parametrize("variant", ["free_text", "no_free_text", "cold_cache", "worst_case"])
def test_the_readme_says_what_is_in_it(corpus_module, variant: str):
    (row,) = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith(f"| `{variant}`")]
    cells = [cell.strip().replace(",", "") for cell in row.split("|")[2:-1]]
    described = corpus_module.Corpus(variant).describe()
    assert int(cells[0]) == round(described["encoded_bytes_per_span"])
    assert int(cells[1]) == described["free_texts_per_span"]
    assert int(cells[2]) == round(described["scanned_bytes_per_span"])
    shares = ("repetition_share", "keyword_share", "secret_share")
    for cell, share in zip(cells[3:], shares, strict=True):
        assert _percent(cell) == pytest.approx(described[share], abs=0.0006), share


def test_each_sending_has_new_trace_ids_and_keeps_the_shape(corpus_module):
    import numpy as np
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    (request, *_) = corpus_module.Corpus("free_text").requests
    seen, sizes = set(), set()
    draw = np.random.default_rng(1)
    for _ in range(3):
        request.renew(draw)
        decoded = ExportTraceServiceRequest.FromString(bytes(request.body))
        spans = [span for group in decoded.resource_spans for scope in group.scope_spans for span in scope.spans]
        assert len(spans) == request.spans
        seen |= {span.trace_id for span in spans}
        sizes.add(len({span.trace_id for span in spans}))
    assert sizes == {len(decoded.resource_spans)}
    assert len(seen) == 3 * len(decoded.resource_spans)
