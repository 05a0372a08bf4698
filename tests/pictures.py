"""Makes the pictures of docs/tour.md anew: `python tests/pictures.py` (a minute; needs chromium)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from integration.live import tour_views
from integration.report.browser import EXECUTABLE

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def main() -> None:
    if EXECUTABLE is None:
        sys.exit("no Chromium on PATH (Debian: apt-get install chromium)")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, view in tour_views.make_all(Path(folder)).items():
            file = PICTURES / f"{name}.png"
            file.write_bytes(view.picture)
            print(f"{file} ({len(view.picture) / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
