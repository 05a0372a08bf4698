"""Check our own Go modules: `lint` is gofmt and go vet, `test` is go test with the seeds of every fuzz test.

    python otelcol-builder/check.py lint|test|race|score|cost|generate|vulnerabilities|fuzz [SECONDS]

`race` is test with Go's race detector, which needs a C compiler; without one it says so.
`score` measures the redaction on our own suites: recall, and the share of look-alikes that stays as it is; this share
also in the sources of the installed packages.
`cost` measures what a byte costs for every word of the redaction's rules, in texts of 1 MiB (half an hour).
`generate` writes what the collector's own generator, mdatagen, makes of every component's metadata.yaml.
`vulnerabilities` runs govulncheck; where its database cannot be reached it says that nothing was looked for.
`fuzz` gives every fuzz test that many seconds; without a number those of CI share 40.
Go is the one that build.py takes; `lint` installs none and says so where there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import build
import go_build
import installed_look_alikes

TEST_SECONDS = 600
CI_FUZZ_SECONDS = 40
"""Shared by the fuzz tests of CI: `test` has run all their seeds, and new inputs are looked for by `make fuzz`."""
CI_FUZZ = {"components/extension/requestguardextension", "components/processor/secretredactionprocessor/detect"}
"""What takes bytes that anybody may send: its fuzz tests run in CI, five of them, and all others by `make fuzz`."""
REDACTION = build.HERE / "components" / "processor" / "secretredactionprocessor"
LEAST_RECALL = 0.99
LEAST_UNTOUCHED = 0.95
LEAST_INSTALLED_UNTOUCHED = 0.999
"""Of the lines and paragraphs of the packages that are installed here."""
LEAST_OF_PERSONAL_CLASS = 0.95
"""Of each class of personal data: the share found from start to end, and the share of findings that are right."""
LEAST_PERSONAL_UNTOUCHED = 0.98
SCORES_PAGE = REDACTION / "testdata" / "README.md"


def modules() -> list[Path]:
    """Return the folders of our own Go modules: the components, and what the fault tests send with."""
    return [*(build.HERE / name for name in build.COMPONENTS), build.HERE.parent / "tests" / "faults" / "ledger"]


def unformatted(go: Path, folder: Path) -> list[str]:
    """Return the files that gofmt would change."""
    gofmt = go.with_name("gofmt")
    command = [gofmt if gofmt.exists() else "gofmt", "-l", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def lint(go: Path, folder: Path) -> None:
    """Check format and vet one module.

    Raises:
        go_build.BuildError: there is something to change.
    """
    if files := unformatted(go, folder):
        raise go_build.BuildError(f"gofmt -w {' '.join(str(folder / name) for name in files)}")
    go_build.run([go, "vet", "./..."], folder, go_build.go_environment())


def test(go: Path, folder: Path) -> None:
    """Test one module."""
    go_build.run([go, "test", "-timeout", f"{TEST_SECONDS}s", "./..."], folder, go_build.go_environment())


def race(go: Path, folder: Path) -> None:
    """Test one module with the race detector."""
    environment = {**go_build.go_environment(), "CGO_ENABLED": "1"}
    go_build.run([go, "test", "-race", "-timeout", f"{2 * TEST_SECONDS}s", "./..."], folder, environment)


def fuzz_tests() -> list[tuple[Path, str]]:
    """Return the package and the name of every fuzz test."""
    files = sorted(file for folder in modules() for file in folder.rglob("*_test.go"))
    return [
        (file.parent, name)
        for file in files
        for name in re.findall(r"^func (Fuzz\w+)\(", file.read_text(), re.MULTILINE)
    ]


def fuzz(go: Path, seconds: int | None) -> None:
    """Give each fuzz test so many seconds, or those of CI their share; testdata/fuzz keeps an input that fails."""
    chosen = fuzz_tests()
    if seconds is None:
        chosen = [(package, name) for package, name in chosen if package in {build.HERE / folder for folder in CI_FUZZ}]
        seconds = CI_FUZZ_SECONDS // len(chosen)
    for package, name in chosen:
        command = [str(go), "test", "-run=^$", f"-fuzz=^{name}$", f"-fuzztime={seconds}s", "."]
        done = subprocess.run(
            command,
            cwd=package,
            env=go_build.go_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        go_build.progress(f"{name}\n{done.stdout}")
        if done.returncode and not ended_by_its_own_deadline(done.stdout):
            raise go_build.BuildError(f"{name} failed in {package}")


def ended_by_its_own_deadline(output: str) -> bool:
    """Return whether a fuzz test failed for no input, but since its time was over in the middle of one.

    Before Go 1.27 the end of ``-fuzztime`` may be taken for a failure: https://github.com/golang/go/issues/75804.
    """
    _, found, failure = output.partition("--- FAIL: ")
    return bool(found) and failure.split("\n")[1:3] == ["    context deadline exceeded", "FAIL"]


def cost(go: Path) -> None:
    """Measure the cost of a byte in long texts; `test` does it in short ones."""
    command: list[str | Path] = [go, "test", "-v", "-timeout=3h", "-run=TestTheCostOfAByte", "./detect"]
    go_build.run(command, REDACTION, {**go_build.go_environment(), "OTEL_RL_LONG_COST": "1"})


def locked_tool(go: Path, package: str) -> Path:
    """Return a Go program, compiled once in the version that the module of its name here locks."""
    name = package.rpartition("/")[2]
    locked = build.HERE / name

    def compile_tool(folder: Path) -> None:
        command: list[str | Path] = [go, "build", "-trimpath", "-o", folder / name, package]
        go_build.run(command, locked, go_build.go_environment())

    key = go_build.key_of([locked / "go.mod", locked / "go.sum"], [])
    return go_build.build_once(go_build.cache_directory() / name / key, compile_tool) / name


def vulnerabilities(go: Path) -> None:
    """Look for known vulnerabilities in what our modules call; says so where their database cannot be reached.

    Raises:
        go_build.BuildError: there is one.
    """
    program = locked_tool(go, "golang.org/x/vuln/cmd/govulncheck")
    environment = {**go_build.go_environment(), "PATH": f"{go.parent}:{os.environ['PATH']}"}
    for folder in modules():
        command = [program, "./..."]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if "fetching vulnerabilities" in done.stderr:
            go_build.progress(f"known vulnerabilities were NOT looked for: {done.stderr.strip()}")
            return
        if done.returncode:
            raise go_build.BuildError(f"{folder.name}: govulncheck\n{done.stdout}{done.stderr}")
    go_build.progress("no known vulnerability in what our modules call")


def generate(go: Path, components: Path = build.HERE / "components") -> None:
    """Write the generated files of every component in a folder."""
    generator = locked_tool(go, "go.opentelemetry.io/collector/cmd/mdatagen")
    for metadata in sorted(components.rglob("metadata.yaml")):
        go_build.run([generator, "metadata.yaml"], metadata.parent, go_build.go_environment())


def score(go: Path) -> None:
    """Score the redaction on our own suites, and compare the scores of personal data with those of its page.

    Raises:
        go_build.BuildError: it finds too little or what is none, or the page has other scores.
    """
    least = [f"-min-recall={LEAST_RECALL}", f"-min-untouched={LEAST_UNTOUCHED}"]
    suites = sorted((REDACTION / "testdata").glob("*.jsonl"))
    go_build.run([go, "run", "./cmd/redaction-score", *least, *suites], REDACTION, go_build.go_environment())
    score_installed(go)
    least = [f"-min-recall={LEAST_OF_PERSONAL_CLASS}", f"-min-precision={LEAST_OF_PERSONAL_CLASS}"]
    least += [f"-min-untouched={LEAST_PERSONAL_UNTOUCHED}", f"-page={SCORES_PAGE}"]
    suites = sorted((REDACTION / "testdata" / "personal").glob("*.jsonl"))
    go_build.run([go, "run", "./cmd/span-score", *least, *suites], REDACTION, go_build.go_environment())


def score_installed(go: Path) -> None:
    """Score what the redaction leaves alone in the installed packages; says so where they are too few."""
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "installed.jsonl"
        if not installed_look_alikes.write(suite, Path(sysconfig.get_path("purelib"))):
            go_build.progress(
                "the sources of installed packages were NOT scored: run it in the environment of `make install`"
            )
            return
        least = f"-min-untouched={LEAST_INSTALLED_UNTOUCHED}"
        go_build.run([go, "run", "./cmd/redaction-score", least, suite], REDACTION, go_build.go_environment())


OF_EACH = {"lint": lint, "test": test, "race": race}
"""Actions on one Go module; ``main`` calls them for every module in turn."""
OF_ALL = {"score": score, "cost": cost, "generate": generate, "vulnerabilities": vulnerabilities}
"""Actions that ``main`` calls once: each finds the modules that it needs by itself."""


def main() -> int:
    """Check every module that is there; the exit code is 1 where one has a fault."""
    action, *numbers = sys.argv[1:] or [""]
    seconds = int(numbers[0]) if action == "fuzz" and len(numbers) == 1 and numbers[0].isdigit() else None
    if action not in {*OF_ALL, *OF_EACH, "fuzz"} or (numbers and not seconds):
        print(__doc__, file=sys.stderr)
        return 2
    if action == "lint" and not shutil.which("go"):
        go_build.progress("no Go on PATH: gofmt and go vet were not run")
        return 0
    if action == "race" and not (shutil.which("gcc") or shutil.which("clang")):
        go_build.progress("no C compiler on PATH: the race detector was not run")
        return 0
    try:
        go = go_build.go_command()
        if action == "fuzz":
            fuzz(go, seconds)
        elif action in OF_ALL:
            OF_ALL[action](go)
        else:
            for folder in modules():
                OF_EACH[action](go, folder)
    except go_build.BuildError as error:
        go_build.progress(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
