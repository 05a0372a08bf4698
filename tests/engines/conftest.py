"""A tiny model that every engine of these tests serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A random model with a tokenizer, built here."""
    tiny_model = pytest.importorskip("tiny_model")
    return tiny_model.build(tmp_path_factory.mktemp("model") / "tiny", heads=2)
