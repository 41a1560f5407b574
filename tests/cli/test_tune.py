"""`hakmem tune`: which settings it tries, what it says of them, and what it leaves."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest
from hakmem.tune.bandit import Bandit
from hakmem.tune.policies import POLICIES, REFERENCE, Policy
from hakmem.tune.search import FINAL_ROUNDS, PRICES, Contender, Match, Tuning

from .command import REPOSITORY, Command
from .conftest import Compile

# Takes a MiB, and 32 more for each of its arguments, such as HAKMEM_DECAY_MS=500, that is not in force; and
# the same time each time.
TAKES_MORE = f"""
#include "{REPOSITORY}/include/hakmem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#pragma weak hak_option_count
#pragma weak hak_option_info
static int in_force(const char *setting) {{
    size_t length = strcspn(setting, "=");
    for (int i = 0; i < hak_option_count(); i++) {{
        hak_option_info_t info;
        hak_option_info(i, &info);
        if (strncmp(info.environment, setting, length) == 0 && info.environment[length] == 0)
            return strcmp(info.value, setting + length + 1) == 0;
    }}
    return 0;
}}
int main(int count, char **arguments) {{
    size_t bytes = 1 << 20;
    for (int i = 1; i < count; i++)
        bytes += in_force(arguments[i]) ? 0 : 32 << 20;
    memset(malloc(bytes), 1, bytes);
    usleep(50000);
    return 0;
}}
"""
# Fails where free memory does not stay, as it has asked for.
ASKS_TO_KEEP = """
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#define EACH (1 << 20)
static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}
int main(void) {
    static void *blocks[64];
    mallopt(M_TRIM_THRESHOLD, -1);
    long before = 0;
    for (int again = 0; again < 5; again++) {
        before = again == 1 ? faults() : before;
        for (int i = 0; i < 64; i++)
            memset(blocks[i] = malloc(EACH), 1, EACH);
        for (int i = 0; i < 64; i++)
            free(blocks[i]);
    }
    return faults() - before > 1000;
}
"""
ROUNDS = 15  # enough for all to be tried before what won is put together


@pytest.fixture
def tune(hakmem: Command) -> Command:
    return Command(
        [*hakmem.arguments, "tune", "--for", "memory", "--rounds", str(ROUNDS)], hakmem.environment
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return tmp_path / "settings"


def lines_of(saved: Path) -> list[str]:
    comment, *lines = saved.read_text().splitlines()
    assert comment.startswith("# hakmem tune, for memory: ")
    return lines


def test_what_is_better_is_found_and_said(tune: Command, compiled: Compile, saved: Path) -> None:
    outcome = tune("--save", saved, compiled(TAKES_MORE), "HAKMEM_BACKGROUND_THREAD=0")
    assert outcome.status == 0, outcome.stderr
    *_, verdict, settings = outcome.stdout.splitlines()
    assert verdict.startswith("no-thread is better: ")
    assert verdict.endswith(f"better in {FINAL_ROUNDS} of {FINAL_ROUNDS} further rounds.")
    assert settings.split() == ["HAKMEM_BACKGROUND_THREAD=0"]
    assert lines_of(saved) == ["HAKMEM_BACKGROUND_THREAD=0"]
    assert outcome.stderr == ""


def test_what_wins_by_itself_wins_together(tune: Command, compiled: Compile, saved: Path) -> None:
    wanted = ["HAKMEM_BACKGROUND_THREAD=0", "HAKMEM_RETAIN_GRACE=1073741824"]
    outcome = tune("--rounds", "24", "--save", saved, "--json", compiled(TAKES_MORE), *wanted)
    document = json.loads(outcome.stdout)
    assert document["finalist"] == "together"
    assert document["found"]
    assert len(document["final"]) == FINAL_ROUNDS
    assert document["settings"] == {"HAKMEM_BACKGROUND_THREAD": "0", "HAKMEM_RETAIN_GRACE": "1G"}
    assert sorted(lines_of(saved)) == ["HAKMEM_BACKGROUND_THREAD=0", "HAKMEM_RETAIN_GRACE=1G"]


def test_an_interrupt_between_two_runs_ends_them_with_a_report(
    hakmem: Command, saved: Path, tmp_path: Path
) -> None:
    runs = f"echo run >> {tmp_path}/runs"
    outcome = hakmem.interrupted("tune", "--save", saved, "sh", "-c", runs)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "Stopped: no further rounds, and no verdict." in outcome.stdout
    assert (tmp_path / "runs").read_text() == "run\n" * 2
    assert not saved.exists()


def test_the_better_ones_are_run_more_often(tune: Command, compiled: Compile) -> None:
    outcome = tune("--json", compiled(TAKES_MORE), "HAKMEM_BACKGROUND_THREAD=0")
    runs = {entry["name"]: len(entry["matches"]) for entry in json.loads(outcome.stdout)["tried"]}
    assert runs["no-thread"] == max(runs.values())
    assert min(runs.values()) >= 1
    assert sum(runs.values()) == 2 * ROUNDS


def test_nothing_is_better(tune: Command, compiled: Compile, saved: Path) -> None:
    as_it_is = ["HAKMEM_DECAY_MS=500", "HAKMEM_HUGE_PAGES=1", "HAKMEM_RETAIN_PERCENT=12"]
    as_it_is += ["HAKMEM_RETAIN_MIN=2883584", "HAKMEM_RETAIN_GRACE=134217728"]
    as_it_is += ["HAKMEM_BACKGROUND_THREAD=1", "HAKMEM_MAGAZINE_BYTES=393216"]
    outcome = tune("--save", saved, compiled(TAKES_MORE), *as_it_is)
    assert outcome.status == 0, outcome.stderr
    assert "Nothing is reliably better than the settings in force." in outcome.stdout
    assert lines_of(saved) == []


def test_settings_under_which_the_program_fails_are_out(tune: Command, saved: Path) -> None:
    outcome = tune(
        "--save", saved, "sh", "-c", 'test "$HAKMEM_HUGE_PAGES" != 0 || { echo sorry >&2; exit 9; }'
    )
    assert outcome.status == 0
    assert "With small-pages, the program ended with exit status 9.\n    it said: sorry" in outcome.stdout
    assert not any(line.split()[:1] == ["small-pages"] for line in outcome.stdout.splitlines())


def test_a_program_that_does_not_always_end_alike(tune: Command, tmp_path: Path, saved: Path) -> None:
    program = f"echo >> {tmp_path}/n; test $(wc -l < {tmp_path}/n) != 2 || exit 7"
    outcome = tune("--save", saved, "sh", "-c", program)
    assert outcome.status == 0
    assert "With as it is, the program ended with exit status 7." in outcome.stdout
    assert "Stopped: no further rounds, and no verdict." in outcome.stdout
    assert not saved.exists()


@pytest.mark.parametrize("program", [["--polling", "true"], ["sh", "-c", "kill -KILL $$"]])
def test_a_program_of_which_nothing_was_seen(tune: Command, program: list[str]) -> None:
    outcome = tune("--rounds", "1", "--only", "--try", "HAKMEM_RETAIN_MIN=64M", *program)
    assert "HAKMEM_RETAIN_MIN=64M" in outcome.stdout
    assert outcome.stderr == ""


def test_a_peak_that_may_be_less_than_that_of_children_is_said(tune: Command) -> None:
    outcome = tune("--rounds", "1", "--only", "--try", "HAKMEM_RETAIN_MIN=64M", "sh", "-c", "sleep 0; true")
    assert "peak RSS: of the first process; those that it started took at most " in outcome.stdout


def test_status_output_and_input_are_those_of_the_first_run(tune: Command) -> None:
    outcome = tune("--rounds", "1", "sh", "-c", 'read x; echo "got $x"; test "$x" = word; exit $((3 + $?))',
                   stdin="word\n")  # fmt: skip
    assert outcome.status == 3
    assert outcome.stdout.count("got word") == 1
    assert "Not tried, for want of rounds: " in outcome.stdout


@pytest.mark.parametrize("users", [{}, {"HAKMEM_RETAIN_MIN": "5M", "HAKMEM_PROFILE": "speed"}])
def test_all_runs_have_an_environment_of_the_same_size(
    tune: Command, tmp_path: Path, users: dict[str, str]
) -> None:
    note = "import os, sys; print(len(os.environ), sum(map(len, os.environb.values())) + "
    note += "sum(map(len, os.environb)), file=open(sys.argv[1], 'a'))"
    outcome = tune("--rounds", "7", sys.executable, "-c", note, tmp_path / "sizes", **users)
    assert outcome.status == 0, outcome.stderr
    assert len(set((tmp_path / "sizes").read_text().splitlines())) == 1


def settings_seen(tune: Command, notes: Path, own: str, **users: str) -> list[dict[str, str]]:
    """The variables of the library's in each different environment that runs had, those in force first."""
    note = "import json, os, sys; print(json.dumps({name: value for name, value in os.environ.items() "
    note += "if name.startswith('HAKMEM_')}, sort_keys=True), file=open(sys.argv[1], 'a'))"
    outcome = tune("--rounds", "1", "--only", "--try", own, sys.executable, "-c", note, notes, **users)
    assert outcome.status == 0, outcome.stderr
    return [json.loads(line) for line in dict.fromkeys(notes.read_text().splitlines())]


def test_nothing_is_set_but_what_the_policy_says_and_the_user(tune: Command, tmp_path: Path) -> None:
    own = "HAKMEM_RETAIN_MIN=7M"
    assert settings_seen(tune, tmp_path / "alone", own) == [{}, {"HAKMEM_RETAIN_MIN": "7M"}]
    users = {"HAKMEM_DECAY_MS": "70", "HAKMEM_RETAIN_MIN": "9M"}
    assert settings_seen(tune, tmp_path / "both", own, **users) == [
        users,
        {**users, "HAKMEM_RETAIN_MIN": "7M"},
    ]


def test_a_profile_leaves_what_is_set_by_itself(tune: Command, compiled: Compile, saved: Path) -> None:
    wanted = ["HAKMEM_PROFILE=memory", "HAKMEM_RETAIN_MIN=7340032", "HAKMEM_HUGE_PAGES=0"]
    own = "HAKMEM_PROFILE=memory,HAKMEM_RETAIN_MIN=7M"
    outcome = tune("--only", "--try", own, "--save", saved, compiled(TAKES_MORE), *wanted)
    assert outcome.status == 0, outcome.stderr
    assert lines_of(saved) == ["HAKMEM_PROFILE=memory", "HAKMEM_RETAIN_MIN=7M"]


def test_what_the_program_sets_itself_is_in_force(tune: Command, compiled: Compile, saved: Path) -> None:
    conf = 'const char *hakmem_conf = "retain_min=64M,decay_ms=5000";'
    program = compiled(TAKES_MORE + conf, "-rdynamic")
    own = ("--only", "--try", "HAKMEM_RETAIN_MIN=64M", "--try", "HAKMEM_RETAIN_MIN=64M,HAKMEM_DECAY_MS=5000")
    wanted = ["HAKMEM_RETAIN_MIN=67108864", "HAKMEM_DECAY_MS=5000"]
    outcome = tune(*own, "--save", saved, program, *wanted)
    assert "Nothing is reliably better than the settings in force." in outcome.stdout, outcome.stderr
    assert lines_of(saved) == []


def test_what_the_program_asks_of_mallopt_has_effect(tune: Command, compiled: Compile) -> None:
    outcome = tune("--rounds", "1", "--only", "--try", "HAKMEM_MAGAZINE_BYTES=1M", compiled(ASKS_TO_KEEP))
    assert outcome.status == 0, outcome.stdout
    assert "ended with exit status" not in outcome.stdout


def test_what_is_in_force_already_is_not_tried(tune: Command, compiled: Compile) -> None:
    outcome = tune("--rounds", "1", "--json", "true", HAKMEM_RETAIN_MIN="64M", HAKMEM_PROFILE="memory")
    document = json.loads(outcome.stdout)
    assert document["in_force"]["HAKMEM_RETAIN_MIN"] == "67108864"
    names = {entry["name"] for entry in document["tried"]}
    assert names == {policy.name for policy in POLICIES} - {"keep-64M", "memory", "no-grace", "small-pages",
                                                            "small-caches"}  # fmt: skip


class TestOwnSettings:
    def test_alone(self, tune: Command, compiled: Compile, saved: Path) -> None:
        own = "HAKMEM_RETAIN_MIN=7M, HAKMEM_DECAY_MS=70"
        wanted = ["HAKMEM_DECAY_MS=70", "HAKMEM_RETAIN_MIN=7340032"]
        outcome = tune("--only", "--try", own, "--save", saved, compiled(TAKES_MORE), *wanted)
        assert outcome.status == 0, outcome.stderr
        assert lines_of(saved) == ["HAKMEM_RETAIN_MIN=7M", "HAKMEM_DECAY_MS=70"]

    @pytest.mark.parametrize("own", ["HAKMEM_NONSENSE=1", "HAKMEM_RETAIN_MIN", "", "LD_PRELOAD=x"])
    def test_unknown(self, tune: Command, own: str) -> None:
        outcome = tune("--try", own, "true")
        assert outcome.status == 1
        assert f"'{own}' is no setting to try" in outcome.error_line()
        assert "HAKMEM_RETAIN_MIN" in outcome.error_line()

    def test_bad_value(self, tune: Command) -> None:
        outcome = tune("--try", "HAKMEM_RETAIN_MIN=much", "true")
        assert outcome.status == 1
        line = outcome.error_line()
        assert "the settings 'HAKMEM_RETAIN_MIN=much' cannot be tried: " in line
        assert "expected a size such as" in line

    def test_in_force_already(self, tune: Command, tmp_path: Path) -> None:
        ran = tmp_path / "ran"
        outcome = tune("--only", "--try", "HAKMEM_DECAY_MS=500", "touch", str(ran))
        assert outcome.status == 1
        assert "'HAKMEM_DECAY_MS=500' is what is in force already" in outcome.error_line()
        assert not ran.exists()

    def test_are_asked_of_the_library_that_is_chosen(
        self, tune: Command, library: Path, tmp_path: Path
    ) -> None:
        chosen = shutil.copy(library, tmp_path)
        outcome = tune("--only", "--try", "HAKMEM_DECAY_MS=500", "true", HAKMEM_LIBRARY=str(chosen))
        assert "'HAKMEM_DECAY_MS=500' is what is in force already" in outcome.error_line()

    def test_none(self, tune: Command) -> None:
        outcome = tune("--only", "true")
        assert outcome.status == 2
        assert "--only leaves nothing to try" in outcome.stderr


def test_stopping_it_ends_the_program_and_says_no_verdict(tune: Command) -> None:
    status, rest = tune.terminated()
    assert status == 5
    assert rest.startswith("caught\n")
    assert "Stopped: no further rounds, and no verdict." in rest


def verdict(*advantages: float) -> bool:
    """Of a final in which peak memory was by these parts less."""
    contender = Contender(Policy("other", "", {}), {})
    final = [Match(1, 1 - advantage) for advantage in advantages]
    tuning = Tuning(PRICES["memory"], Contender(REFERENCE, {}), [contender], None, contender, final)
    return tuning.found()


def test_the_verdict_takes_nearly_all_of_the_final_and_more_than_noise() -> None:
    assert verdict(*[0.1] * 8)
    assert verdict(*[0.1] * 7, -0.5)
    assert not verdict(*[0.1] * 6, -0.1, -0.1)
    assert not verdict(*[0.1] * 7)
    assert not verdict(*[0.01] * 8)


def is_put_together(*times: float) -> bool:
    """Whether a policy is, after matches that took these parts of the time, and nearly as much memory."""
    matches = [Match(time, 0.99) for time in times]
    return Contender(Policy("other", "", {}), {}, matches).is_sure(PRICES["balanced"])


def test_only_what_wins_often_each_time_and_by_much_is_put_together_with_others() -> None:
    assert is_put_together(0.7, 0.7, 0.7)
    assert is_put_together(0.7, 0.7, 0.999)
    assert not is_put_together(0.7, 0.7)
    assert not is_put_together(0.7, 0.7, 0.7, 1.1)
    held_up = 0.3  # the run that it was compared with, and nothing else
    assert not is_put_together(held_up, 0.98, 0.99)


class TestBandit:
    def test_what_was_never_tried_comes_first_and_in_order(self) -> None:
        bandit: Bandit[str] = Bandit()
        for arm in "abcd":
            bandit.add(arm)
        bandit.note("b", 1.0)
        assert bandit.choose(3) == ["a", "c", "d"]
        bandit.remove("a")
        assert bandit.choose(9) == ["c", "d", "b"]

    def test_it_comes_back_to_what_did_badly_at_first(self) -> None:
        bandit: Bandit[str] = Bandit()
        for arm, reward in (("good", 0.6), ("unlucky", 0.4)):
            bandit.add(arm)
            bandit.note(arm, reward)
        pulled = []
        for _ in range(20):
            (arm,) = bandit.choose(1)
            bandit.note(arm, 0.6)
            pulled.append(arm)
        assert {"good", "unlucky"} == set(pulled)

    def test_it_finds_the_best_with_fewer_pulls_than_taking_turns(self) -> None:
        def loss(draw: random.Random, *, by_turns: bool) -> float:
            true = [draw.gauss(0, 0.05) for _ in range(12)]
            seen: list[list[float]] = [[] for _ in true]
            bandit: Bandit[int] = Bandit()
            for arm in range(len(true)):
                bandit.add(arm)
            for number in range(40):
                arm = number % len(true) if by_turns else bandit.choose(1)[0]
                seen[arm].append(true[arm] + draw.gauss(0, 0.05))
                bandit.note(arm, 0.5 + seen[arm][-1] / 0.2)
            chosen = max(range(len(true)), key=lambda arm: sum(seen[arm]) / (len(seen[arm]) + 1))
            return max(true) - true[chosen]

        repeated = range(500)
        turns = sum(loss(random.Random(number), by_turns=True) for number in repeated)
        chosen = sum(loss(random.Random(number), by_turns=False) for number in repeated)
        assert chosen < 0.7 * turns
