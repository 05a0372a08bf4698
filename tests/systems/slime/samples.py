"""Print the samples that slime has kept, by the names of their files, as JSON: `python samples.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

KEPT = ("index", "group_index", "reward", "status", "response_length", "weight_versions")
found = {}
for file in Path(sys.argv[1]).glob("*.pt"):
    samples = torch.load(file, weights_only=False)["samples"]
    found[file.stem] = [{key: sample[key] for key in KEPT} for sample in samples]
json.dump(found, sys.stdout)
