"""Build a backend (prometheus with promtool, tempo, loki) from its locked modules.

The last line on stdout is the folder of its programs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "otelcol-builder"))

import go_build  # noqa: E402  (the shared part lives beside the collector's build)

PACKAGES = {
    "prometheus": ("github.com/prometheus/prometheus/cmd/prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
    "tempo": ("github.com/grafana/tempo/cmd/tempo",),
    "loki": ("github.com/grafana/loki/v3/cmd/loki",),
}
"""Go packages of each backend. One module per backend: the versions that they need exclude each other."""


def build(name: str) -> Path:
    """Build the backend unless it is in the cache and return the folder of its programs."""
    module = HERE / name

    def compile_programs(staging: Path) -> None:
        command = [go_build.go_command(), "build", "-v", *go_build.COMPILE_FLAGS, "-o", f"{staging}/"]
        go_build.run([*command, *PACKAGES[name]], module, go_build.go_environment(), f"compiling {name} (some minutes)")

    key = go_build.key_of([module / "go.mod", module / "go.sum"], PACKAGES[name])
    return go_build.build_once(go_build.cache_directory() / name / key, compile_programs)


def main() -> int:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PACKAGES))
    try:
        print(build(parser.parse_args().name))
    except go_build.BuildError as error:
        go_build.progress(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
