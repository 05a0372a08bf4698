"""``otel-rl import`` of slime's files: loaded without running code of theirs."""

from __future__ import annotations

import pathlib
import pickle
import sys
from pathlib import Path

import pytest

from otel_rl.cli import main

torch = pytest.importorskip("torch")
RUN = Path("otel-rl/imported")


def sample(index, **given):
    """A sample as ``Sample.to_dict`` of slime has it."""
    return {
        "group_index": index // 2,
        "index": index,
        "rollout_id": 0,
        "prompt": [{"role": "user", "content": f"{index // 2} + 1 = ?"}],
        "tokens": list(range(10)),
        "response": f"It is {index}.",
        "response_length": 4,
        "label": "1",
        "reward": float(index % 2),
        "loss_mask": None,
        "weight_versions": [],
        "rollout_log_probs": torch.zeros(4),
        "status": "completed",
        "metadata": {},
        **given,
    }


def dump(path, samples, step=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"rollout_id": step, "samples": samples}, path)


def test_samples_are_rows_with_what_slime_knows_of_them(tmp_path, rows):
    folder = tmp_path / "details"
    of_first = [
        sample(0, loss_mask=[1, 0, 0, 1], weight_versions=["3", "4"]),
        sample(1, status="truncated"),
        sample(2, status="aborted", reward=None),
        sample(3, status="failed", tokens=torch.arange(10)),
    ]
    dump(folder / "rollout_data" / "0.pt", of_first)
    dump(folder / "rollout_data" / "eval_0.pt", [sample(0)])
    dump(folder / "train_data" / "0_0.pt", [])

    assert main(["import", str(folder), "--run", "imported"]) == 0
    evaluated, first, truncated, aborted, failed = rows(RUN)
    assert (evaluated["rl.rollout.id"], evaluated["rl.rollout.evaluation"]) == ("eval-0-0", True)
    assert {key: first[f"rl.rollout.{key}"] for key in ("id", "status", "stop_reason", "reward")} == {
        "id": "0",
        "status": "finished",
        "stop_reason": "stop",
        "reward": 0.0,
    }
    assert (first["step"], first["rl.group.id"]) == (0, "0")
    assert (first["rl.rollout.input_tokens"], first["rl.rollout.output_tokens"]) == (6, 2)
    assert (first["rl.rollout.policy_version.min"], first["rl.rollout.policy_version.max"]) == (3, 4)
    assert first["metrics"] == {"response_length": 4}
    assert (truncated["rl.rollout.status"], truncated["rl.rollout.stop_reason"]) == ("finished", "length")
    assert (aborted["rl.rollout.status"], aborted["rl.rollout.discard_reason"]) == ("discarded", "aborted")
    assert "rl.rollout.reward" not in aborted
    assert (failed["rl.rollout.status"], failed["rl.rollout.input_tokens"]) == ("failed", 6)


def test_of_a_reward_with_several_values_the_named_one_counts(tmp_path, rows, capsys):
    dump(tmp_path / "0.pt", [sample(0, reward={"score": 0.5, "format": 1.0})])

    assert main(["import", "0.pt"]) == 2
    assert "--reward-key: score, format" in capsys.readouterr().err
    assert main(["import", "0.pt", "--reward-key", "score", "--run", "imported"]) == 0
    [row] = rows(RUN)
    assert row["rl.rollout.reward"] == 0.5
    assert row["scores"] == {"reward": 0.5, "reward/format": 1.0}
    assert row["weights"] == {"reward/format": 0.0}


class Harmful:
    """Runs code where it is loaded with the whole of pickle."""

    def __reduce__(self):
        return print, ("was run",)


@pytest.mark.parametrize(("value", "named"), [(pathlib.PurePosixPath("/data"), "pathlib"), (Harmful(), "print")])
@pytest.mark.bad_input("code in a pickle")
def test_a_type_that_is_not_known_is_named_and_the_file_is_never_loaded_otherwise(
    value, named, tmp_path, rows, capsys, monkeypatch
):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    dump(tmp_path / "dumps" / "0.pt", [sample(0)])
    dump(tmp_path / "dumps" / "1.pt", [sample(1, metadata={"seen": value})], 1)

    assert main(["import", "dumps", "--run", "imported"]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{RUN}\n"
    [line] = captured.err.splitlines()
    assert line.startswith("otel-rl import: dumps/1.pt: not loaded")
    assert named in line
    assert "no proof of malice" in line
    assert [row["rl.rollout.id"] for row in rows(RUN)] == ["0"]


def test_files_that_are_no_dumps_are_named_once_each_and_the_others_imported(tmp_path, rows, capsys):
    folder = tmp_path / "dumps"
    dump(folder / "0.pt", [sample(0)])
    whole = (folder / "0.pt").read_bytes()
    (folder / "1.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "2.pt").write_bytes(b"")
    # An archive follows a file of the old format.
    (folder / "3.pt").write_bytes(pickle.dumps({"samples": []}) + whole)
    torch.save({"weights": torch.zeros(3)}, folder / "4.pt")
    torch.save({"rollout_id": 5, "samples": [1]}, folder / "5.pt")
    dump(folder / "6.pt", [sample(0, weight_versions=3)])

    assert main(["import", "dumps", "--run", "imported"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == [f"dumps/{number}.pt" for number in range(1, 7)]
    assert [row["rl.rollout.id"] for row in rows(RUN)] == ["0"]


def test_without_torch_one_line_says_so(tmp_path, capsys, monkeypatch):
    dump(tmp_path / "0.pt", [sample(0)])
    monkeypatch.setitem(sys.modules, "torch", None)

    assert main(["import", "0.pt"]) == 2
    assert "needs torch" in capsys.readouterr().err


def test_a_prompt_of_messages_is_a_conversation(tmp_path, exported, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    dump(tmp_path / "0.pt", [sample(0), sample(1, prompt=None), sample(2, prompt="2 + 1 = ?")])
    assert main(["import", "0.pt", "--run", "imported"]) == 0

    first, without, last = exported(RUN)[0]
    assert [(one["role"], one["parts"][0]["content"]) for one in first["messages"]] == [
        ("user", "0 + 1 = ?"),
        ("assistant", "It is 0."),
    ]
    assert first["messages"][1]["finish_reason"] == "stop"
    assert "messages" not in without
    assert last["messages"][0]["parts"][0]["content"] == "2 + 1 = ?"
