"""Address and credentials of the tracking server, from MLflow's own variables."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from otel_rl.core import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

TRACKING_URI = "MLFLOW_TRACKING_URI"
EXPERIMENT_ID, EXPERIMENT_NAME = "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"
RUN_ID = "MLFLOW_RUN_ID"
USERNAME, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
INSECURE_TLS = "MLFLOW_TRACKING_INSECURE_TLS"
SERVER_CERTIFICATE, CLIENT_CERTIFICATE = "MLFLOW_TRACKING_SERVER_CERT_PATH", "MLFLOW_TRACKING_CLIENT_CERT_PATH"
WORKSPACE = "MLFLOW_WORKSPACE"
#: The experiment of MLflow's servers where none is named.
DEFAULT_EXPERIMENT = "0"


@dataclass(frozen=True)
class TrackingServer:
    """One server as its variables describe it; ``problem`` says why none can be asked, or is empty."""

    url: str = ""
    experiment_id: str = ""
    experiment_name: str = ""
    #: ``Authorization``, the workspace.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)
    #: As ``requests`` takes it: whether the certificate is checked, or the file of its authority.
    verify: bool | str = True
    #: File of the client's certificate and key.
    certificate: str | None = None
    problem: str = ""

    @property
    def shown(self) -> str:
        """The address without credentials."""
        return addresses.without_credentials(self.url) or "MLflow"


def configured(environ: Mapping[str, str]) -> TrackingServer:
    """Return the server of ``environ``. ``mlflow`` writes what the program sets into its variables, so ask late."""

    def value(name: str) -> str:
        return environ.get(name, "").strip()

    url, problem = value(TRACKING_URI).rstrip("/"), ""
    if not url:
        problem = f"{TRACKING_URI} is not set"
    elif not url.lower().startswith(("http://", "https://")):
        problem = f"{TRACKING_URI}={addresses.without_credentials(url)} is no server"
    elif not _has_host(url):
        # What is a password in it nobody can tell.
        problem = f"{TRACKING_URI} is no valid address"
    user, password, token = value(USERNAME), value(PASSWORD), value(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token and not user else {}
    if workspace := value(WORKSPACE):
        headers["X-MLFLOW-WORKSPACE"] = workspace
    insecure = value(INSECURE_TLS).lower() in ("true", "1")
    return TrackingServer(
        url="" if problem else url,
        experiment_id=value(EXPERIMENT_ID),
        experiment_name=value(EXPERIMENT_NAME),
        headers=headers,
        login=(user, password) if user else None,
        verify=not insecure and (value(SERVER_CERTIFICATE) or True),
        certificate=value(CLIENT_CERTIFICATE) or None,
        problem=problem,
    )


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(addresses.without_credentials(url))
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def run_id() -> str:
    """Return the run that the environment names. ``mlflow.start_run`` takes it out of there, so ask early."""
    return os.environ.get(RUN_ID, "").strip()


def configured_now() -> TrackingServer:
    """Return the server of the environment as it is now."""
    return configured(os.environ)
