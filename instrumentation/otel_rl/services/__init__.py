"""Middleware for the HTTP services of a rollout: what a service does for a request joins the rollout that asks.

``app = otel_rl.services.ASGIMiddleware(app)``, or :class:`WSGIMiddleware`. Without telemetry both only call the
application, and import nothing.

==========  ======================================================
``asgi``    of FastAPI, Starlette, Litestar, Quart, Django
``wsgi``    of Flask, Bottle, Django, ``wsgiref``
``served``  one request, from its headers to the end of its answer
==========  ======================================================
"""

from __future__ import annotations

from otel_rl.services.asgi import ASGIMiddleware
from otel_rl.services.wsgi import WSGIMiddleware

__all__ = ["ASGIMiddleware", "WSGIMiddleware"]
