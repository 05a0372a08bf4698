"""Clients of HTTP without the machine's certificates: httpx reads all of them for each client, in 30 ms of CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let clients, and programs started meanwhile, look for certificates in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        yield
