"""Imported by ``opentelemetry-instrument`` before it execs the program: chooses our distro and fixes the run id.

Without this import ``opentelemetry-instrument`` would use ``opentelemetry-distro`` where that is installed.

No constant here may begin with ``OTEL_``: ``opentelemetry.instrumentation.auto_instrumentation.run`` (0.65b0) turns
each into a flag, and every such flag can make an abbreviated flag of the user ambiguous.
"""

from __future__ import annotations

import os as _os
import sys as _sys

from otel_rl.distro import instrument_command as _command
from otel_rl.process import launch as _launch

_launch.choose_distro(_os.environ)
_launch.prepare(_os.environ, _sys.argv, begins=True)
_command.take_over()
