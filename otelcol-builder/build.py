"""Build otelcol-rl from the locked modules; the last line on stdout is the path of the program.

    python otelcol-builder/build.py [--find]

With --find nothing is built: the exit code is 1 where the program of these sources is not built yet.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import go_build

HERE = Path(__file__).resolve().parent
COMPONENTS = tuple(sorted(str(module.parent.relative_to(HERE)) for module in HERE.glob("components/*/*/go.mod")))
"""Folders of our own components: Go modules that the locked go.mod takes from beside the generated sources."""


def inputs() -> list[Path]:
    """Return every file that decides what the program is; tests, metadata and documents of the components do not."""
    locked = [HERE / name for name in ("manifest.yaml", "go.mod", "go.sum", "ocb/go.mod", "ocb/go.sum")]
    sources = (
        file
        for component in COMPONENTS
        for file in (HERE / component).rglob("*")
        if file.suffix in {".go", ".mod", ".sum"}
        and "testdata" not in file.parts
        and not file.name.endswith("_test.go")
    )
    return locked + sorted(sources)


BUILD_TAGS = "grpcnotrace,remove_all_sd"
"""The same as dist.build_tags in manifest.yaml: OCB only generates here, it does not compile."""


def build_generator(folder: Path) -> Path:
    """Compile the OpenTelemetry Collector Builder (OCB) in its locked version."""
    generator = folder / "ocb"
    go = go_build.go_command()
    module = "go.opentelemetry.io/collector/cmd/builder"
    command: list[str | Path] = [go, "build", "-v", "-trimpath", "-o", generator, module]
    go_build.run(command, HERE / "ocb", go_build.go_environment(), "compiling the generator of the sources")
    return generator


def build_collector(staging: Path) -> None:
    """Generate the collector's sources, put the locked modules beside them and compile."""
    work = staging / "work"
    sources = work / "_build"
    sources.mkdir(parents=True)
    shutil.copy(HERE / "manifest.yaml", work)
    for component in COMPONENTS:
        shutil.copytree(HERE / component, work / component, ignore=shutil.ignore_patterns("*_test.go", "testdata"))
    generator = build_generator(work)
    # OCB's own module step downloads the modules of every platform and so needs more than the build does.
    generate: list[str | Path] = [generator, "--config", "manifest.yaml", "--skip-get-modules", "--skip-compilation"]
    go_build.run(generate, work, go_build.go_environment())
    for locked in ("go.mod", "go.sum"):
        shutil.copy(HERE / locked, sources)
    compiler: list[str | Path] = [go_build.go_command(), "build", "-v", *go_build.COMPILE_FLAGS, "-tags", BUILD_TAGS]
    doing = "compiling otelcol-rl (some minutes the first time)"
    go_build.run([*compiler, "-o", staging / "otelcol-rl", "."], sources, go_build.go_environment(), doing)
    shutil.rmtree(work)


def main() -> int:
    """Build when an input changed, and print where the program is."""
    try:
        target = go_build.cache_directory() / "otelcol-rl" / go_build.key_of(inputs(), [BUILD_TAGS])
        if "--find" in sys.argv[1:] and not target.is_dir():
            return 1
        print(go_build.build_once(target, build_collector) / "otelcol-rl")
    except go_build.BuildError as error:
        go_build.progress(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
