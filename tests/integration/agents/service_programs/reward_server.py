"""A reward server over ASGI (FastAPI under uvicorn) or WSGI (wsgiref), with our middleware, or none: `plain`."""

from __future__ import annotations

import json
import sys

import otel_rl


def score(answer):
    if answer == "fail":
        raise ValueError(answer)
    with otel_rl.tool("run_tests"):
        pass
    otel_rl.reward("tests", float(answer))
    return {"score": float(answer)}


def asgi():
    import asyncio

    import uvicorn
    from fastapi import FastAPI

    from otel_rl.services import ASGIMiddleware

    app = FastAPI()

    @app.post("/sync")
    def answer_in_a_thread(request: dict):
        return score(request["answer"])

    @app.post("/score")
    async def answer(request: dict):
        return score(request["answer"])

    class Announced(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    server = Announced(uvicorn.Config(ASGIMiddleware(app), port=0, log_level="critical"))

    async def serve():
        task = asyncio.ensure_future(server.serve())
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await task

    asyncio.run(serve())


def wsgi(middleware):
    import threading
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log_message(self, *_):
            pass

    def app(environ, start_response):
        request = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        if environ["PATH_INFO"] == "/stream":
            start_response("200 OK", [("content-type", "application/json")])
            return streamed(request["answer"])
        try:
            status, found = "200 OK", score(request["answer"])
        except ValueError:
            status, found = "500 Internal Server Error", {}
        start_response(status, [("content-type", "application/json")])
        return [json.dumps(found).encode()]

    def streamed(answer):
        yield json.dumps(score(answer)).encode()

    with make_server("127.0.0.1", 0, middleware(app), handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        print(server.server_port, flush=True)
        sys.stdin.read()
        server.shutdown()
        thread.join()


if sys.argv[1] == "asgi":
    asgi()
elif sys.argv[1] == "wsgi":
    from otel_rl.services import WSGIMiddleware

    wsgi(WSGIMiddleware)
else:
    wsgi(lambda app: app)
