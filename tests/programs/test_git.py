"""git: a thousand files through commit, repack, gc, fsck, log and clone."""

from __future__ import annotations

from pathlib import Path

from .harness import Runner, required_program

FILES = 1000
IDENTITY = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def write_files(directory: Path, generation: int) -> None:
    for i in range(FILES):
        if generation and i % 3:
            continue
        path = directory / f"folder{i % 40}" / f"file{i}.txt"
        path.parent.mkdir(exist_ok=True)
        lines = (
            f"line {j} of file {i}, generation {generation if j % 5 == 0 else 0}\n" for j in range(5 + i % 60)
        )
        path.write_text("".join(lines))


def history(runner: Runner, repository: Path, preloaded: bool) -> str:
    """Makes the same history, and gives what git says of it: hashes, so equality is of every byte."""
    repository.mkdir()
    git = required_program("git")
    said: list[str] = []

    def call(*words: str) -> None:
        command = [git, *words]
        run = runner.run if preloaded else runner.run_plain
        said.append(run(command, cwd=repository, env=IDENTITY).text)

    call("init", "-q", "-b", "main")
    for generation in range(3):
        write_files(repository, generation)
        call("add", "-A")
        call("commit", "-q", "-m", f"generation {generation}")
    call("checkout", "-q", "-b", "side", "HEAD~1")
    (repository / "side.txt").write_text("side\n" * 1000)
    call("add", "-A")
    call("commit", "-q", "-m", "side")
    call("merge", "-q", "-m", "merge", "main")
    call("-c", "pack.threads=2", "repack", "-a", "-d", "-f", "-q")
    call("gc", "-q", "--prune=now", "--aggressive")
    call("fsck", "--full", "--strict")
    call("log", "--stat", "--format=%H %T %s")
    call("diff", "--stat", "HEAD~2", "HEAD")
    call("grep", "-c", "generation 2")
    call("blame", "folder0/file0.txt")
    call("clone", "-q", "--no-local", ".", "../clone-of-" + repository.name)
    call("-C", "../clone-of-" + repository.name, "fsck", "--full")
    call("-C", "../clone-of-" + repository.name, "rev-parse", "HEAD")
    return "\n".join(said)


def test_git_makes_the_same_history(runner: Runner, tmp_path: Path) -> None:
    plain = history(runner, tmp_path / "plain", preloaded=False)
    preloaded = history(runner, tmp_path / "preloaded", preloaded=True)
    assert preloaded == plain
