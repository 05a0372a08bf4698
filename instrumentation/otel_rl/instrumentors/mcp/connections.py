"""What is known of the connection that a session writes to: its transport, the server's address, the session's id."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from otel_rl.instrumentors.patch_functions import observing, replacing, together
from otel_rl.process import child_processes
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import NetworkTransportValues
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

_HTTP = "http"
#: A server over standard input and output runs on this machine.
_THIS_MACHINE = "localhost"
_SESSION_ID = "mcp-session-id"
_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True, eq=False)
class Connection:
    """One connection; ``labels`` may be on metrics, ``host`` is where the requests go, empty where nobody knows."""

    host: str = ""
    labels: dict[str, Any] = field(default_factory=dict)
    #: Version of the protocol, once the two ends have agreed on it.
    version: str | None = None
    #: The library's HTTP transport, which keeps the id of the session.
    transport: Any = None

    @property
    def session_id(self) -> str | None:
        """Id of the session, where the server has given one."""
        session_id = getattr(self.transport, "session_id", None)
        return session_id if isinstance(session_id, str) else None


def over_pipe() -> Connection:
    """Return a connection over standard input and output."""
    return Connection(_THIS_MACHINE, {attributes.NETWORK_TRANSPORT: NetworkTransportValues.PIPE})


def over_http(url: str | None = None) -> Connection:
    """Return a connection over HTTP; a server does not know the URL that its client uses."""
    labels: dict[str, Any] = {
        attributes.NETWORK_TRANSPORT: NetworkTransportValues.TCP,
        attributes.NETWORK_PROTOCOL_NAME: _HTTP,
    }
    if url is None:
        return Connection("", labels)
    parts = urlsplit(url)
    labels[attributes.SERVER_ADDRESS] = parts.hostname
    labels[attributes.SERVER_PORT] = parts.port or _PORTS.get(parts.scheme)
    return Connection(parts.hostname or "", labels)


def of_http_request(request: Any) -> Connection:
    """Return the connection that a server got a request of HTTP over."""
    connection = over_http()
    headers = getattr(request, "headers", None)
    session = headers.get(_SESSION_ID) if headers is not None else None
    # All that a server knows of the session.
    connection.transport = SimpleNamespace(session_id=session)
    return connection


#: Servers in Python that the program has started over stdio, and that do not record. The last line names the way.
unrecorded_servers = 0

#: By the stream that the library writes messages to.
_connections: WeakKeyDictionary[Any, Connection] = WeakKeyDictionary()


def connection_of(stream: Any) -> Connection:
    """Return the connection behind a stream that a session writes to; an unknown one for a foreign stream."""
    try:
        return _connections.setdefault(_key(stream), Connection())
    except TypeError:  # a stream of somebody else that has no weak references or no hash
        return Connection()


def of_owner(owner: Any) -> Connection:
    """Return the connection of a session or dispatcher; an unknown one if it has no stream."""
    return connection_of(getattr(owner, "_write_stream", None))


def _key(stream: Any) -> Any:
    # mcp 2.x wraps the stream of anyio in one that has no weak references (`mcp.shared._context_streams`).
    return getattr(stream, "_inner", stream)


def _note(stream: Any, connection: Connection) -> None:
    _connections.setdefault(_key(stream), connection)


def _with_process(server: Any, *_: Any, **__: Any) -> Connection:
    global unrecorded_servers
    is_python = PurePath(server.command).name.startswith("python")
    if is_python and not _is_recorded(server.env or {}):
        unrecorded_servers += 1
    return over_pipe()


def _is_recorded(environ: Mapping[str, str]) -> bool:
    """Return whether a server in Python with this environment records: the library passes on few variables itself."""
    return child_processes.MARKER in environ and environ.get(child_processes.CHILDREN, "").strip().lower() == "all"


def _with_url(url: Any, *_: Any, **__: Any) -> Connection:
    return over_http(str(url))


def _posts(transport: Any, _: Any, __: Any, ___: Any, write_stream: Any, *____: Any, **_____: Any) -> None:
    connection_of(write_stream).transport = transport


def _noting(describe: Callable[..., Connection]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a factory of replacements for a context manager that gives two streams, to read and to write."""

    def factory(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def client(*args: Any, **kwargs: Any) -> Any:
            # Made here: what the program gave wrongly is refused where it is refused without us.
            made = [original(*args, **kwargs)]

            def manager() -> Any:
                # As a decorator it is entered with each call of what it decorates, and each needs another one.
                return made.pop() if made else original(*args, **kwargs)

            return _entered(manager, functools.partial(describe, *args, **kwargs))

        return client

    return factory


@asynccontextmanager
async def _entered(manager: Callable[[], Any], describe: Callable[[], Connection]) -> AsyncIterator[Any]:
    async with manager() as streams:
        with guard("mcp.connection"):
            _note(streams[1], describe())
        yield streams


patch_stdio_client = replacing("stdio_client", _noting(_with_process))
patch_stdio_server = replacing("stdio_server", _noting(lambda *_, **__: over_pipe()))
patch_sse_client = replacing("sse_client", _noting(_with_url))
#: By its older and its newer name.
patch_http_client = together(
    replacing("streamablehttp_client", _noting(_with_url), required=False),
    replacing("streamable_http_client", _noting(_with_url), required=False),
    observing("StreamableHTTPTransport.post_writer", before=_posts),
)
