"""``otel-rl sql``: questions that the docs answer, and queries that do more than ask."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from unit.report.synthetic_run import GrpoRun, process, write_agent_run

from otel_rl.cli import main
from otel_rl.store.tables import free_queries

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
QUESTIONS = re.findall(r"^(\S[^\n]*\?)\n\n```sql\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return GrpoRun(tmp_path_factory.mktemp("data"), steps=12).write()


@pytest.fixture(scope="module")
def of_agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_agent_run(tmp_path_factory.mktemp("agents"))


@pytest.fixture
def ask(run: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def ask(*words: str, of: Path = run) -> tuple[int, str, str]:
        status = main(["sql", str(of), *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return ask


def test_the_page_has_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(("question", "query"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_the_queries_of_the_page_have_an_answer(ask, run, of_agents, question, query):
    answers = [ask(query, of=folder) for folder in (run, of_agents)]
    assert {(status, err) for status, _, err in answers} == {(0, "")}
    assert any(len(out.splitlines()) > 1 for _, out, _ in answers) or "min(reward) = max(reward)" in query


def test_steps_are_those_of_the_ranks_and_numbers_stand_right(ask):
    status, out, _ = ask("SELECT rank, count(*) AS steps FROM steps GROUP BY rank ORDER BY rank")
    assert (status, out) == (0, "rank  steps\n   0     12\n   1     12\n")


def test_a_query_may_be_longer_than_a_name_and_stand_before_the_folder(run, capsys):
    query = "SELECT count(*) AS number FROM steps".ljust(300)
    assert main(["sql", query, str(run)]) == 0
    assert capsys.readouterr().out == "number\n    24\n"


def test_a_query_may_come_after_an_option_and_what_is_no_option_is_refused(run, capsys):
    assert main(["sql", str(run.parent), "--run", run.name[:4], "SELECT 1 AS one"]) == 0
    assert capsys.readouterr().out == "one\n  1\n"
    with pytest.raises(SystemExit):
        main(["sql", str(run), "SELECT 1", "--what"])
    assert "unrecognized arguments: --what" in capsys.readouterr().err


def test_columns_of_one_name_are_all_in_the_json(ask):
    status, out, _ = ask("SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a", "--json")
    assert (status, json.loads(out)) == (0, {"a": 1, "a_2": 2, "a_2_2": 3, "a_3": 4})


def test_text_that_a_spreadsheet_takes_for_a_formula_has_an_apostrophe_in_the_csv(ask):
    assert ask("SELECT '=1+1' AS text, -1 AS number", "--csv")[1] == "text,number\n'=1+1,-1\n"


def test_columns_without_a_type_are_listed_and_conditions_are_none():
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (\n    turns, -- turns\n    name TEXT, -- name\n    PRIMARY KEY (name)\n)")
    database.execute("INSERT INTO t VALUES (1, 'a')")
    assert free_queries.tables(database) == {"t": [("turns", "", "turns"), ("name", "TEXT", "name")]}


def test_whoever_takes_rows_slowly_takes_no_time_of_the_query(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(free_queries.time, "monotonic", lambda: now[0])
    database = sqlite3.connect(":memory:", isolation_level=None)
    rows = free_queries.Restricted(database, 5).unhurried(
        database.execute("WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT i FROM n")
    )
    for _ in rows:
        now[0] += 1
    assert now[0] == 100_000


def test_rows_come_as_csv_and_as_json(ask):
    query = "SELECT step, 1e999 AS far, x'ff' AS byte, NULL AS none FROM steps WHERE rank = 0 ORDER BY step LIMIT 2"
    assert ask(query, "--csv")[1] == "step,far,byte,none\n1,inf,ff,\n2,inf,ff,\n"
    rows = [json.loads(line) for line in ask(query, "--json")[1].splitlines()]
    assert rows[0] == {"step": 1, "far": "inf", "byte": "ff", "none": None}


def test_of_many_rows_a_table_shows_the_first_and_says_so(ask):
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1500) SELECT x FROM n"
    _, out, err = ask(many)
    assert len(out.splitlines()) == 1001
    assert err == "otel-rl sql: the first 1000 rows are shown; --csv and --json print all\n"
    assert len(ask(many, "--csv")[1].splitlines()) == 1501


def test_without_a_query_the_tables_with_rows_and_their_columns_are_printed(ask):
    _, out, _ = ask()
    assert "step, and the view steps\n" in out
    assert re.search(r"^  waited +REAL +seconds in collectives, at most all of them$", out, re.MULTILINE)
    assert "change" not in out


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO call SELECT * FROM call", "DELETE FROM step", "DROP TABLE step", "PRAGMA writable_schema = 1",
        "ATTACH '{file}' AS other", "VACUUM INTO '{file}'", "CREATE TEMP TABLE own (x)", "COMMIT",
        "WITH x AS (SELECT 1) INSERT INTO call SELECT * FROM call", "SELECT load_extension('{file}')",
    ],
)  # fmt: skip
def test_a_query_that_does_more_than_read_is_refused(ask, tmp_path, query):
    status, out, err = ask(query.format(file=tmp_path / "made"))
    assert (status, out) == (2, "")
    assert "a query can only read; start it with SELECT or WITH" in err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n", "takes too long"),
        ("SELECT nowhere FROM steps", "no such column: nowhere; without a query `otel-rl sql` prints the tables"),
        ("SELECT 1; SELECT 2", "several statements are given; ask one at a time"),
        ("SELECT 1 FROM", "incomplete input"),
        ("SELECT zeroblob(2000000000)", "too big"),
    ],
)
def test_a_query_that_is_wrong_or_never_ends_says_what_to_do(ask, query, said):
    status, _, err = ask(query, "--seconds", "0.2")
    assert status == 2
    assert err.startswith("otel-rl sql: ")
    assert said in err


def test_text_of_the_run_moves_no_cursor(ask, tmp_path):
    writer = process(tmp_path / "run", 0, world_size=1, started=1_700_000_000 * 10**9)
    values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "\x1b[2J'; DROP TABLE call --"}
    writer.span("execute_tool", 1, 2, values)
    writer.write()
    _, out, _ = ask("SELECT name FROM calls", of=tmp_path / "run")
    assert out == "name\n\\x1b[2J'; DROP TABLE call --\n"


def test_a_folder_without_a_run_is_no_input(ask, tmp_path):
    status, _, err = ask("SELECT 1", of=tmp_path)
    assert status == 2
    assert "is empty" in err


def test_the_database_is_one_file_with_the_views(run, tmp_path, capsys):
    target = tmp_path / "run.sqlite"
    assert main(["export", str(run), "--sqlite", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert list(tmp_path.iterdir()) == [target]
    database = sqlite3.connect(target)
    assert database.execute("SELECT count(*) FROM steps").fetchone() == (24,)
    database.close()


def test_the_database_is_of_the_whole_run_and_needs_a_folder(run, tmp_path, capsys):
    assert main(["export", str(run), "--sqlite", str(tmp_path / "none" / "run.sqlite")]) == 2
    assert "create it first" in capsys.readouterr().err
    assert main(["export", str(run), "--sqlite", str(tmp_path / "run.sqlite"), "--step", "1-2"]) == 2
    assert "choose steps and ranks in your queries" in capsys.readouterr().err
