"""Send a corpus to a collector over OTLP/HTTP, as fast as it takes it, new trace ids and new text each time."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collector_corpus import Corpus, Request

CONNECTIONS = 2
_HEADERS = {"Content-Type": "application/x-protobuf"}
_TRY_AGAIN = (429, 502, 503, 504)


@dataclass
class Sent:
    """What one sending came to."""

    spans: int = 0
    refusals: int = 0


def _deliver(connection: http.client.HTTPConnection, request: Request) -> int:
    """Send until the collector takes the request; returns how often it refused."""
    refusals = 0
    while True:
        connection.request("POST", "/v1/traces", bytes(request.body), _HEADERS)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 200:
            return refusals
        if answer.status not in _TRY_AGAIN:
            raise RuntimeError(f"the collector answered {answer.status}: {said[:300]!r}")
        refusals += 1
        time.sleep(0.05)


def send(corpus: Corpus, port: int, spans: int) -> Sent:
    """Send the corpus over and over until at least `spans` spans are accepted."""
    total = Sent()
    lock = threading.Lock()
    failures: list[Exception] = []

    def work(requests: list[Request]) -> None:
        draw = np.random.default_rng()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            while total.spans < spans and not failures:
                for request in requests:
                    request.renew(draw)
                    refusals = _deliver(connection, request)
                    with lock:
                        total.spans += request.spans
                        total.refusals += refusals
        except Exception as error:  # noqa: BLE001 - handed to the caller's thread
            failures.append(error)
        finally:
            connection.close()

    # Each thread has requests of its own: a request is renewed in place.
    threads = [threading.Thread(target=work, args=(corpus.requests[n::CONNECTIONS],)) for n in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return total
