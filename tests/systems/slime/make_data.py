"""Make questions with answers: `python make_data.py FILE COUNT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

file, count = Path(sys.argv[1]), int(sys.argv[2])
file.write_text("".join(json.dumps({"prompt": f"{one} + 2 =", "label": str(one + 2)}) + "\n" for one in range(count)))
