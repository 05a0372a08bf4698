"""A job."""

from __future__ import annotations

import gc

import loop
from bugs import now

ballast = [[number] for number in range(600_000)]
update = loop.update


def with_collection(*args):
    if now["step"] % 10 == 0:
        gc.collect()
    return update(*args)


loop.update = with_collection

if __name__ == "__main__":
    loop.main()
