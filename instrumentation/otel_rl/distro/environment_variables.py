"""Imported by ``opentelemetry-instrument`` before it execs the program.

Choosing our distro here is what makes it work with no variable set: ``opentelemetry-distro`` registers a distro of its
own, and the first one found would win. The constants make ``opentelemetry-instrument`` offer a flag each
(``--rl_run_id`` ...).
"""

from __future__ import annotations

import os as _os
import sys as _sys

from otel_rl.process import launch as _launch

OTEL_RL_RUN_ID = "OTEL_RL_RUN_ID"
OTEL_RL_DATA_DIR = "OTEL_RL_DATA_DIR"
OTEL_RL_QUIET = "OTEL_RL_QUIET"
OTEL_RL_CHILDREN = "OTEL_RL_CHILDREN"
OTEL_RL_FILE_MAX_BYTES = "OTEL_RL_FILE_MAX_BYTES"
OTEL_RL_DATA_MAX_BYTES = "OTEL_RL_DATA_MAX_BYTES"
OTEL_RL_EXIT_TIMEOUT = "OTEL_RL_EXIT_TIMEOUT"
OTEL_RL_COLLECTIVES = "OTEL_RL_COLLECTIVES"
OTEL_RL_SLOWEST = "OTEL_RL_SLOWEST"
OTEL_RL_ROLE = "OTEL_RL_ROLE"
OTEL_RL_ALGORITHM = "OTEL_RL_ALGORITHM"
OTEL_RL_STATUS_FILE = "OTEL_RL_STATUS_FILE"

_launch.choose_distro(_os.environ)
_launch.prepare(_os.environ, _sys.argv)
