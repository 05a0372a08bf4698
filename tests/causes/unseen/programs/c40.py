"""Two ranks; the first one writes a summary of the weights now and then."""

from __future__ import annotations

import ddp
from bugs import now, wait

preprocess = ddp.preprocess


def with_summary(rows):
    if ddp.RANK == 0 and now["step"] >= 18 and now["step"] % 6 == 0:
        wait(0.6, 0.1)
    return preprocess(rows)


ddp.preprocess = with_summary

if __name__ == "__main__":
    ddp.main()
