"""What `opentelemetry-instrument python program.py` does with nothing set."""

from __future__ import annotations

import json
import stat

from process_support import INSTRUMENT, ONE_SPAN, Programs


def test_nothing_set_records_to_files_and_says_how_to_see_them(programs: Programs) -> None:
    done = programs.instrumented(ONE_SPAN)

    assert done.code == 0
    assert programs.store.span_names() == ["work"]
    assert [point["asInt"] for point in programs.store.points("made")] == ["1"]
    (run,) = [path for path in (programs.directory / "otel-rl").iterdir() if path.is_dir()]
    (line,) = done.err.splitlines()
    assert line.endswith(f"otel-rl report ./otel-rl/{run.name} ({run.as_uri()})")
    assert "2 spans" in line
    (manifest,) = programs.store.manifests()
    assert manifest["format"] == "otel-rl/1"
    assert manifest["clean_exit"] is True
    assert manifest["command"] == "program.py"
    assert {"otel_rl", "python", "opentelemetry-sdk"} == set(manifest["versions"])


def test_quiet_silences_the_summary_line(programs: Programs) -> None:
    assert programs.instrumented(ONE_SPAN, OTEL_RL_QUIET="1").err == ""
    assert programs.store.span_names() == ["work"]


def test_program_that_records_nothing_leaves_no_file_no_thread_and_no_output(programs: Programs) -> None:
    done = programs.instrumented("import threading; print(threading.active_count())")

    assert (done.out, done.err) == ("1\n", "")
    assert not (programs.directory / "otel-rl").exists()


def test_files_are_for_their_owner_only_and_hidden_from_git(programs: Programs) -> None:
    programs.instrumented(ONE_SPAN)

    root = programs.directory / "otel-rl"
    assert (root / ".gitignore").read_text() == "*\n"
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_data_directory_is_fixed_before_the_program_changes_its_own(programs: Programs) -> None:
    (programs.directory / "elsewhere").mkdir()
    programs.instrumented("import os; os.chdir('elsewhere')\n" + ONE_SPAN)

    assert programs.store.span_names() == ["work"]


def test_resource_says_who_and_where(programs: Programs) -> None:
    programs.instrumented(
        ONE_SPAN, OTEL_RL_RUN_ID="nightly 7", RANK="1", WORLD_SIZE="4", TORCHELASTIC_RESTART_COUNT="2"
    )

    resource = programs.store.resources()[0]
    assert resource["service.name"] == "program"
    assert resource["rl.run.id"] == "nightly 7"
    assert (resource["rl.rank"], resource["rl.world_size"]) == (1, 4)
    assert resource["rl.run.attempt"].startswith("0.2.")
    (directory,) = programs.store.directories
    assert directory.parent.name == "nightly_7"
    assert "-rank1-" in directory.name
    assert directory.name.endswith(resource["service.instance.id"].replace("-", "")[:8])


def test_rank_that_becomes_known_later_is_on_everything(programs: Programs) -> None:
    programs.instrumented(
        "import sys, types; sys.modules['torch.distributed'] = types.ModuleType('torch.distributed')\n"
        + ONE_SPAN
        + "import time; time.sleep(0.3)\n"
        "from otel_rl.process import process_identity; process_identity.update(rank=3, system='trl')\n" + ONE_SPAN,
        OTEL_BSP_SCHEDULE_DELAY="50",
        OTEL_METRIC_EXPORT_INTERVAL="50",
    )

    for signal in ("traces", "metrics"):
        assert {(one.get("rl.rank"), one.get("rl.system.name")) for one in programs.store.resources(signal)} == {
            (3, "trl")
        }
    assert "-rank3-" in programs.store.directories[0].name


def test_later_rank_that_is_not_the_first_does_not_speak_for_the_run(programs: Programs) -> None:
    done = programs.instrumented(
        "from otel_rl.process import process_identity; process_identity.update(rank=3)\n" + ONE_SPAN
    )

    assert done.err == ""
    assert [span["name"] for span in programs.store.spans()] == ["work"]


def test_users_service_name_and_resource_attributes_win(programs: Programs) -> None:
    programs.instrumented(ONE_SPAN, OTEL_SERVICE_NAME="mine", OTEL_RESOURCE_ATTRIBUTES="host.name=h")

    resource = programs.store.resources()[0]
    assert (resource["service.name"], resource["host.name"]) == ("mine", "h")


def test_users_own_distro_is_kept(programs: Programs) -> None:
    done = programs.instrumented(
        "from opentelemetry import trace; print(type(trace.get_tracer_provider()).__module__)\n" + ONE_SPAN,
        OTEL_PYTHON_DISTRO="distro",
        OTEL_PYTHON_CONFIGURATOR="configurator",
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="*",
        OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none",
        OTEL_LOGS_EXPORTER="none",
    )

    assert done.code == 0
    assert not (programs.directory / "otel-rl").exists()


def test_disabled_sdk_imports_and_patches_nothing(programs: Programs) -> None:
    text = (
        "import sys\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('otel_rl.')}\n"
        "print(sorted(rooms & {'ending', 'instrumentors', 'store', 'telemetry', 'training'}))\n"
        "print('otel_rl.core.import_hooks' in sys.modules)\n"
        "print(any(type(finder).__name__ == 'ImportHooks' for finder in sys.meta_path))\n"
        "print(sys.excepthook is sys.__excepthook__)\n"
    )
    done = programs.instrumented(text + ONE_SPAN, OTEL_SDK_DISABLED="true")

    assert done.out == "[]\nFalse\nFalse\nTrue\n"
    assert done.err == ""
    assert not (programs.directory / "otel-rl").exists()


def test_environment_context_parents_the_run_span_and_reaches_children(programs: Programs) -> None:
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    done = programs.instrumented(
        ONE_SPAN + "import os; print(os.environ['TRACEPARENT'])",
        TRACEPARENT=f"00-{trace_id}-{parent}-01",
        BAGGAGE="rl.group.id=g7,secret=no",
    )

    (run_span,) = [span for span in programs.store.spans() if span["name"] == "rl.run"]
    assert (run_span["traceId"], run_span["parentSpanId"]) == (trace_id, parent)
    assert done.out.strip() == f"00-{trace_id}-{parent}-01"
    (work,) = [span for span in programs.store.spans() if span["name"] == "work"]
    assert {"key": "rl.group.id", "value": {"stringValue": "g7"}} in work["attributes"]
    assert "secret" not in json.dumps(work)


def test_launcher_offers_no_flag_of_ours_so_abbreviations_of_its_own_stay_unambiguous(programs: Programs) -> None:
    help_page = programs.run(INSTRUMENT, "--help")

    assert help_page.code == 0
    assert "--rl_" not in help_page.out


def test_unparsable_setting_costs_one_line_and_the_default_is_used(programs: Programs) -> None:
    done = programs.instrumented(ONE_SPAN, OTEL_RL_EXIT_TIMEOUT="soon", OTEL_RL_QUIET="1")

    assert done.code == 0
    (line,) = done.err.splitlines()
    assert 'OTEL_RL_EXIT_TIMEOUT="soon"' in line
    assert "using 1.5" in line
    assert programs.store.span_names() == ["work"]


def test_unparsable_setting_is_reported_under_a_foreign_distro_with_our_configurator_too(programs: Programs) -> None:
    environ = {"OTEL_PYTHON_DISTRO": "distro", "OTEL_PYTHON_CONFIGURATOR": "otel_rl", "OTEL_RL_QUIET": "1"}
    environ["OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"] = "*"
    done = programs.instrumented(ONE_SPAN, OTEL_RL_EXIT_TIMEOUT="soon", **environ)

    assert [line for line in done.err.splitlines() if "OTEL_RL_EXIT_TIMEOUT" in line] == [
        'otel-rl: OTEL_RL_EXIT_TIMEOUT="soon" is not valid (accepted: a number of seconds from 0 to 3600); using 1.5'
    ]


def test_long_attribute_of_anybody_is_cut_visibly(programs: Programs) -> None:
    programs.instrumented(
        "from opentelemetry import trace\n"
        "trace.get_tracer('foreign').start_span('long', attributes={'text': 'x' * 20000, 'short': 'y' * 8192}).end()"
    )

    (span,) = [span for span in programs.store.spans() if span["name"] == "long"]
    values = {item["key"]: item["value"]["stringValue"] for item in span["attributes"]}
    assert len(values["text"]) == 8192
    assert values["text"].endswith("[truncated]")
    assert values["short"] == "y" * 8192


def test_status_file_tells_what_became_of_each_instrumentor(programs: Programs) -> None:
    path = programs.directory / "status.json"
    programs.instrumented("pass", OTEL_RL_STATUS_FILE=str(path))

    status = json.loads(path.read_text())
    assert status["otel_rl_openai"]["state"] == "waiting"
