"""pytest plugin: whatever a client sends counts as a request for tokens, so that all that we do runs in each test.

The plain run loads it too, and there it does nothing.
"""

from __future__ import annotations

import sys


def _target_of(method, path):
    return Target(CHAT, anywhere=True)  # noqa: F821 - names of the module whose function it becomes


def _may_be_target(url):
    return True


def pytest_configure():
    if "otel_rl" in sys.modules:
        from otel_rl.inference.http import paths

        # Senders have imported the function by name.
        paths.target_of.__wrapped__.__code__ = _target_of.__code__
        paths.may_be_target.__code__ = _may_be_target.__code__
