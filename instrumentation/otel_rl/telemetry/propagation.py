"""Injects trace context and baggage for other processes, and extracts both from incoming requests.

``traceparent`` goes to every host: it says nothing but two random numbers. Baggage goes out only as far as it is ours
(``rl.*``), and only to loopback, to private addresses, to names inside a cluster and to ``OTEL_RL_PROPAGATE_TO``.
``OTEL_RL_PROPAGATE=off`` stops both.

The host is that of the request as the program makes it. Names are never resolved: that would block its thread. A proxy
between sees what the host would get. Clients send headers on where a redirect leads: their instrumentors call
:func:`withhold` for each.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry import baggage, propagate
from opentelemetry import trace as trace_api
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_rl.core import settings
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes
from otel_rl.telemetry import open_trajectory
from otel_rl.telemetry.context import attach
from otel_rl.telemetry.correlation import ALLOWED, is_ours, within_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

_BAGGAGE = "baggage"
#: Variables that carry a context into a child process.
ENVIRONMENT = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")
_PRIVATE_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        (
            "127.0.0.0/8",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "169.254.0.0/16",
            "::1",
            "fc00::/7",
            "fe80::/10",
        ),
    )
)
#: Endings of names that public DNS does not serve: mDNS, private use (ICANN), services of Kubernetes.
_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".svc")
_DIGITS = frozenset("0123456789.xXabcdefABCDEF")


def inject(headers: MutableMapping[str, str], url_or_host: Any, *, others: bool = False) -> None:
    """Write ``traceparent``, ``tracestate`` and, where the host may have it, ``baggage`` into ``headers``.

    Args:
        headers: Headers of the request; a ``baggage`` that the program put there stays as it is.
        url_or_host: Where the request goes: a URL as text, an object with a ``host``, or a host.
        others: Send the baggage of the program too, for a library that would send it without us.
    """
    with guard("propagation.inject"):
        if settings.current().propagate == "off":
            return
        context = get_current()
        everything = baggage.get_all(context)
        if everything:
            sent: Mapping[str, object] = {}
            if not _has_baggage(headers):
                ours = may_have_baggage(host_of(url_or_host))
                # A value of the program's that cannot be written as text costs the baggage, and not the trace context.
                with guard("propagation.baggage"):
                    sent = within_limits(
                        {key: value for key, value in everything.items() if (ours if is_ours(key) else others)}
                    )
            context = _with_baggage(sent, everything, context)
        propagate.inject(headers, context)


def _with_baggage(sent: Mapping[str, object], everything: Mapping[str, object], context: Context) -> Context:
    """``context``, whose baggage is ``everything``, with ``sent`` of it."""
    if len(sent) != len(everything):
        context = baggage.clear(context)
        for key, value in sent.items():
            context = baggage.set_baggage(key, value, context)
    return context


def _has_baggage(headers: Mapping[str, str]) -> bool:
    """Return whether the program has written some. ``urllib3``'s headers may be a dictionary, names in any case."""
    if not isinstance(headers, dict):
        return _BAGGAGE in headers
    return any(_is_baggage(name) for name in headers)


def _is_baggage(name: object) -> bool:
    """Return whether a header has this name; clients take bytes, too."""
    return isinstance(name, str | bytes) and name.lower() in (_BAGGAGE, _BAGGAGE.encode())


def withhold(headers: MutableMapping[str, str], url_or_host: Any) -> None:
    """Take ``rl.*`` baggage out of ``headers`` where the host that a redirect leads to may not have it."""
    with guard("propagation.withhold"):
        if not _has_baggage(headers) or may_have_baggage(host_of(url_or_host)):
            return
        # Those of a dictionary may be in any case.
        for name in [one for one in headers if _is_baggage(one)]:
            kept = _without_ours(headers[name])
            if not kept:
                del headers[name]
            elif kept != headers[name]:
                headers[name] = kept


def _without_ours(written: Any) -> Any:
    """Return the value of a header without what is ours in it, as text or as bytes, like ``written``."""
    is_bytes = isinstance(written, bytes)
    members = (written.decode("latin-1") if is_bytes else written).split(",")
    kept = ",".join(member for member in members if not is_ours(member.partition("=")[0].strip()))
    return kept.encode("latin-1") if is_bytes else kept


def host_of(url_or_host: Any) -> str:
    """Return the host that a URL, or an object that stands for one, names; empty where it names none."""
    host = getattr(url_or_host, "host", None)
    if host is None:
        text = str(url_or_host)
        host = urlsplit(text).hostname if "//" in text else text
    if isinstance(host, bytes):
        host = host.decode("ascii", errors="replace")
    return str(host or "").strip("[]").rstrip(".").lower()


def may_have_baggage(host: str) -> bool:
    """Return whether ``host`` is local, in a private network or a cluster, or allowed by the user."""
    return _is_private(host) or _is_named(host, settings.current().propagate_to or ())


@lru_cache(maxsize=1024)
def _is_named(host: str, named: tuple[str, ...]) -> bool:
    return any(host == name or (name.startswith(".") and host.endswith(name)) for name in named)


@lru_cache(maxsize=1024)
def _is_private(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot is found by the hosts file or a search domain: a node or service beside this one. Some
        # resolvers read a lone number as a public address.
        single = bool(host) and "." not in host and ":" not in host and not _DIGITS.issuperset(host)
        return single or host == "localhost" or host.endswith(_PRIVATE_ENDINGS)
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return any(address.version == network.version and address in network for network in _PRIVATE_NETWORKS)


def extract(carrier: Mapping[str, str], base: Context | None = None) -> Context:
    """Return the context that a request or an environment carries, for the server side.

    The remote span becomes the parent of what starts in the context. Of the baggage only the
    correlation entries are taken: whoever can reach a server could otherwise choose its attributes.

    Args:
        carrier: Headers in any case.
        base: Context to build on; an empty one by default, since a server's thread may still hold an older request.
    """
    context = base if base is not None else Context()
    with guard("propagation.extract"):
        lowered = {str(key).lower(): value for key, value in carrier.items()}
        context = TraceContextTextMapPropagator().extract(lowered, context)
        for key, value in baggage.get_all(W3CBaggagePropagator().extract(lowered, Context())).items():
            if key in ALLOWED:
                context = baggage.set_baggage(key, value, context)
    return context


def link(carrier: Mapping[str, str]) -> Link | None:
    """Return a link to the caller's span, for work that has a trace of its own; None when it sent no trace."""
    parent = trace_api.get_current_span(extract(carrier)).get_span_context()
    return Link(parent) if parent.is_valid else None


def to_cluster(context: Context) -> dict[str, str]:
    """Return ``traceparent``, ``tracestate`` and our ``baggage`` for a call to a worker of the same program.

    Empty with ``OTEL_RL_PROPAGATE=off``, or where ``context`` holds none of them.
    """
    return _carrier("cluster", context, is_ours)


def to_environment(context: Context) -> dict[str, str]:
    """``TRACEPARENT``, ``TRACESTATE`` and ``BAGGAGE`` for a child process on this machine; all baggage goes along."""
    return {key.upper(): value for key, value in _carrier("environment", context, lambda _: True).items()}


def _carrier(site: str, context: Context, is_sent: Callable[[str], bool]) -> dict[str, str]:
    """Return the headers with the baggage whose keys are sent."""
    carrier: dict[str, str] = {}
    with guard(f"propagation.{site}"):
        if settings.current().propagate != "off":
            # First: it depends on nothing of the program's.
            TraceContextTextMapPropagator().inject(carrier, context)
            everything = baggage.get_all(context)
            sent = within_limits({key: value for key, value in everything.items() if is_sent(key)})
            W3CBaggagePropagator().inject(carrier, _with_baggage(sent, everything, context))
    return carrier


def carry_on(environment: Mapping[str, str]) -> bool:
    """If this process was started inside a rollout, make that rollout's context current in this thread permanently.

    Returns whether it was.

    A process that was started inside anything else has traces of its own: thousands of rollouts would become one.
    """
    with guard("propagation.carry_on"):
        lowered = {key.lower(): environment[key] for key in ENVIRONMENT if environment.get(key)}
        context = TraceContextTextMapPropagator().extract(lowered, get_current())
        context = W3CBaggagePropagator().extract(lowered, context)
        if baggage.get_baggage(attributes.RL_ROLLOUT_ID, context) is not None:
            attach(context)
            return True
    return False


def leave_rollout() -> None:
    """Leave the rollout whose context :func:`carry_on` has made current in this thread."""
    with guard("propagation.leave"):
        context = get_current()
        entries = [key for key in baggage.get_all(context) if is_ours(key)]
        if attributes.RL_ROLLOUT_ID not in entries:
            return
        for key in entries:
            context = baggage.remove_baggage(key, context)
        context = trace_api.set_span_in_context(trace_api.INVALID_SPAN, context)
        attach(open_trajectory.context_of_trace(context))
