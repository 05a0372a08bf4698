"""A job."""

from __future__ import annotations

import lightning_fit

if __name__ == "__main__":
    lightning_fit.main()
