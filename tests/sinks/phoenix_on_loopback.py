"""Start Phoenix without its gRPC server, whose port would listen on all interfaces, whatever PHOENIX_HOST is.

https://github.com/Arize-ai/phoenix/blob/main/src/phoenix/server/grpc_server.py binds ``[::]``.
"""

from phoenix.server.grpc_server import GrpcServer
from phoenix.server.main import main


async def _without_a_port(_: GrpcServer) -> None:
    """Listen nowhere; `__aexit__` accepts that."""


GrpcServer.__aenter__ = _without_a_port
main()
