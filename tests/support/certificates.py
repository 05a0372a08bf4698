"""Clients of HTTP without the machine's certificates: httpx reads all of them for each client, in 30 ms of CPU."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def no_certificates(folder: Path) -> Iterator[None]:
    """Let clients, and programs started meanwhile, look for certificates in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(folder))
        yield
