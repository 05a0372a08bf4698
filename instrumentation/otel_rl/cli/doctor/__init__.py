"""``otel-rl doctor [--json] [[--] COMMAND ...]``: the arguments.

Modules:
    environment_checks: the findings about this environment, as one object.
    installed_instrumentors: the installed instrumentors, and the library version that each of them meets.
    uncovered_frameworks: frameworks that are installed and not covered, and what is recorded of a program with them.
    ray_workers: how workers of Ray get to know of us.
    late_ranks: whether the ranks that the others wait for can be named.
    named_functions: the functions of the program that two variables name.
    credential_files: the files that the variables for TLS name.
    redaction_function: whether the function of ``OTEL_RL_REDACT`` can be imported.
    otlp_request: an empty OTLP request per signal, sent as a run would send it.
    otlp_answers: what each answer means and how to mend it.
    products: what an answer means in the words of the product behind an address.
    mlflow_server: whether the MLflow server would take what a run writes.
    run_under_doctor: the findings of a program that ran under ``opentelemetry-instrument``.
    findings_text: the findings as text.
"""

from __future__ import annotations

import argparse
import json
import os

from otel_rl.cli import complain

_DESCRIPTION = """\
Say what opentelemetry-instrument would do here: which libraries are instrumented and which not, and why; where
telemetry goes, and how an empty OTLP request per signal is answered there; the run id; whether files can be
written."""

_EPILOG = """\
With a command, run it under opentelemetry-instrument and report what was really instrumented:

    otel-rl doctor -- python train.py

Exit codes: 0 all well, 1 problems were found (they are listed last), 2 the check itself could not be made."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.usage = "%(prog)s [-h] [--json] [[--] COMMAND ...]"
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout; a COMMAND's output goes to stderr"
    )
    # All words from the program on are its own, options too, with and without -- before it.
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="program to run and watch, with its arguments"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check, print, and say by the exit code whether all is well."""
    from otel_rl.cli.doctor import environment_checks, findings_text, run_under_doctor  # noqa: PLC0415 - heavy

    # argparse leaves the separator in what remains.
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    findings = environment_checks.check(os.environ, command)
    if command:
        try:
            run_under_doctor.observe(findings, command, keep_stdout=not arguments.json)
        except run_under_doctor.CannotRun as error:
            return complain("doctor", str(error))
    print(json.dumps(findings, indent=2) if arguments.json else findings_text.as_text(findings))
    return 1 if findings["problems"] else 0
