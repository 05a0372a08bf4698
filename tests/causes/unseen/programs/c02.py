"""A job."""

from __future__ import annotations

import rollouts

if __name__ == "__main__":
    rollouts.main()
