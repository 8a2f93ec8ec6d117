"""Commits as builds, and commits between builds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import git
import pytest

from repro_kit.builds.commits import on_main
from repro_kit.builds.interpreters import github_url
from repro_kit.bundle.pages.templates import render
from repro_kit.cli.main import main
from repro_kit.commands.bisect.answer import ops_in
from repro_kit.regressions.ranking import Clues, Commit, rank
from repro_kit.regressions.search_state import read_state
from wheelhouse import BAD, GOOD, SCRIPT, make_wheel


def commit(repo: git.Repo, files: dict[str, str], title: str) -> str:
    root = Path(str(repo.working_tree_dir))
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        repo.index.add([name])
    return repo.index.commit(title).hexsha


@pytest.fixture
def clone(project: Path) -> git.Repo:
    """Twelve commits of a model and of its documentation; the model is broken from the eighth on."""
    repo = git.Repo.init(project / "clone")
    for number in range(12):
        code = f"# {number}\n" + (BAD if number >= 8 else GOOD)
        place = "frob/__init__.py" if number % 2 == 0 else "docs/notes.md"
        commit(repo, {place: code}, f"change {number}")
    repo.create_tag("v0", ref=list(repo.iter_commits())[-1])
    return repo


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["bisect", "--python", sys.executable, *words])
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out + shown.err


def test_a_change_of_ones_own_broke_it(clone, monkeypatch, capsys) -> None:
    monkeypatch.chdir(clone.working_tree_dir)
    before = clone.git.status("--porcelain"), clone.head.commit
    (Path.cwd() / "check.py").write_text("import sys; sys.path.insert(0, '.')\n" + SCRIPT)
    code, out = run(capsys, "--package", "frob", "--git", ".", "--good", "v0", "-o", "../found", "check.py")
    assert (code, "change 8 is the first build that fails" in out) == (0, True)
    assert "change 7 is the last one" in out
    (Path.cwd() / "check.py").unlink()
    assert (clone.git.status("--porcelain"), clone.head.commit) == before
    assert len(clone.git.worktree("list").splitlines()) == 1, "no work tree is left"


def test_only_commits_that_touch_a_path_with_a_build_command(clone, project, capsys) -> None:
    words = ["--package", "frob", "--git", "clone", "--path", "frob", "--good", "v0", "--bad", "HEAD"]
    build = 'cp -r frob "$("$PYTHON" -c "import sysconfig; print(sysconfig.get_path(\'purelib\'))")"'
    code, out = run(capsys, *words, "--build", build, "-o", "found", "use.py")
    assert (code, "change 8 is the first build that fails" in out, "change 6 is the last" in out) == (0, True, True)
    state = read_state(project / "found")
    assert state is not None and len(state.builds) == 7  # 0, 2, 4, 6, 8, 10, and the end that was named


def test_into_the_branch_that_a_merge_brought_in(clone, project, capsys) -> None:
    start = clone.head.commit
    main_branch = clone.active_branch
    clone.create_head("topic", start).checkout()
    commit(clone, {"frob/__init__.py": GOOD}, "mend")
    tip = commit(clone, {"docs/b.md": "b"}, "topic docs")
    main_branch.checkout()
    base = commit(clone, {"docs/c.md": "c"}, "main docs")
    clone.git.merge("--no-ff", "-m", "merge topic", tip)
    words = ["--package", "frob", "--git", "clone", "--find-fix", "--bad", base, "--all-parents", "-o", "found"]
    code, out = run(capsys, *words, "use.py")
    assert (code, "mend is the first build that no longer fails" in out) == (0, True), out
    assert "was merged by" in out and "merge topic" in out


EVERY_THIRD = "open('../runs', 'a').write('x')\nraise SystemExit(len(open('../runs').read()) % 3 == 0)\n"


@pytest.mark.parametrize("repeats", [1, 3], ids=["always", "flaky"])
@pytest.mark.parametrize("find_fix", [False, True])
def test_the_script_for_git_bisect_run_works(project, find_fix, repeats) -> None:
    repo = git.Repo.init(project / "clone")
    shas = []
    for number in range(8):
        broken = (number < 5) if find_fix else (number >= 5)
        fails = "raise SystemExit(1)\n" if repeats == 1 else EVERY_THIRD
        shas.append(commit(repo, {"frob.py": f"# {number}\n{fails if broken else ''}"}, f"change {number}"))
    script = render(
        "git_bisect.sh.j2",
        title="t",
        package="frob",
        name="git-bisect.sh",
        build="test -f frob.py",
        test=f"{sys.executable} frob.py",
        directory=project / "clone",
        find_fix=find_fix,
        repeats=repeats,
        old=shas[0],
        new=shas[-1],
    )
    (project / "git-bisect.sh").write_text(script)
    ran = subprocess.run(["sh", "../git-bisect.sh"], cwd=project / "clone", capture_output=True, text=True, check=False)
    assert f"{shas[5]} is the first {'fixed' if find_fix else 'bad'} commit" in ran.stdout, ran


def test_a_build_command_that_fails_skips_the_commit(clone, project, capsys) -> None:
    words = ["--package", "frob", "--git", "clone", "--good", "v0", "--build", "echo no compiler >&2; false"]
    code, out = run(capsys, *words, "--max-skips", "2", "-o", "found", "use.py")
    assert (code, "no compiler" in out, "at the newer end can be judged" in out) == (125, True, True)


def test_commits_that_are_too_many_are_not_searched_in_part(clone, project, capsys, monkeypatch) -> None:
    monkeypatch.setattr("repro_kit.builds.commits.MOST_COMMITS", 10)
    code, out = run(capsys, "--git", "clone", "--good", "HEAD~11", "--bad", "HEAD", "use.py")
    assert (code, "more than 10 commits" in out) == (2, True), out


def test_the_commits_between_two_wheels_are_ranked(clone, project, capsys) -> None:
    first = clone.head.commit.hexsha
    commit(clone, {"torch/_inductor/lowering.py": "1", "README.md": "1"}, "Faster pooling")
    culprit = commit(clone, {"torch/_inductor/lowering.py": "2"}, "Rewrite the backward of avg_pool2d")
    main_sha = commit(clone, {"docs/a.md": "3"}, "Docs")
    nightly = commit(clone, {"version.txt": "4"}, f"2026-01-04 nightly release ({main_sha})")
    clone.create_remote("origin", "git@github.com:someone/frob.git")
    for version, sha, code in (("1.0", first, GOOD), ("1.1", nightly, BAD)):
        wheel = f"git_version = '{sha}'\n" + code
        make_wheel(project / "dist", version, wheel)
    # version.py of the wheel goes before the module
    for wheel in (project / "dist").iterdir():
        subprocess.run(["zip", "-qd", str(wheel), "frob/version.py"], check=True)
    script = project / "use.py"
    script.write_text(SCRIPT)
    code, out = run(
        capsys, "--package", "frob", "--wheels", "dist", "--good", "1.0", "--repo", "clone", "-o", "found", "use.py"
    )
    assert code == 0
    assert f"https://github.com/someone/frob/compare/{first}...{main_sha}" in out
    answer = (project / "found" / "answer.md").read_text()
    assert "The most likely of the 3 commits between" in answer and culprit[:12] in answer
    bisecting = (project / "found" / "git-bisect.sh").read_text()
    assert f"git bisect start --first-parent {main_sha} {first}" in bisecting
    assert subprocess.run(["sh", "-n", str(project / "found" / "git-bisect.sh")], check=False).returncode == 0


def test_the_closest_commit_comes_first() -> None:
    commits = [
        Commit("a", "Update docs of inductor", ("docs/inductor.rst",)),
        Commit("b", "Fix a typo", ("torch/nn/modules/linear.py",)),
        Commit("c", "Dynamo: trace more", ("torch/_dynamo/variables/builder.py",)),
        Commit("d", "Inductor: loops", ("torch/_inductor/ir.py", "torch/nn/functional.py")),
        Commit("e", "Tidy", ("torch/_inductor/codegen/cpp.py",)),
        Commit("f", "[inductor] avg pool2d backward in one kernel", ("torch/_inductor/lowering.py",)),
    ]
    clues = Clues("inductor", ("cpp.py",), ("aten.avg_pool2d_backward.default",))
    ranked = rank(commits, clues)
    assert [it.commit.sha for it in ranked] == ["f", "e", "d", "b", "c", "a"]
    assert ranked[0].why.startswith("names avg_pool2d")
    assert ranked[-1].why == "touches nothing that is installed"


@pytest.mark.parametrize(
    ("op", "title", "path", "named"),
    [
        ("aten.add.Tensor", "Add support for padding", "torch/_inductor/ir.py", False),
        ("aten.add.Tensor", "Fix aten.add of complex numbers", "torch/_inductor/ir.py", True),
        ("aten.add.Tensor", "Fix the strides of `add`", "torch/_inductor/ir.py", True),
        ("aten.sum.default", "Assume static shapes in cumsum", "torch/_inductor/ir.py", False),
        ("aten.relu.default", "Faster ReLU", "torch/_inductor/ir.py", True),
        ("aten.relu.default", "Prelude to a refactoring", "torch/_inductor/ir.py", False),
        ("aten.max_pool2d_with_indices.default", "x", "aten/src/ATen/native/DilatedMaxPool2d.cpp", False),
        ("aten.max_pool2d.default", "x", "aten/src/ATen/native/DilatedMaxPool2d.cpp", True),
        ("aten.avg_pool2d_backward.default", "AvgPool2dBackward in channels-last", "a.cpp", True),
    ],
)
def test_what_names_an_operator(op: str, title: str, path: str, named: bool) -> None:
    (ranked,) = rank([Commit("a", title, (path,))], Clues(ops=(op,)))
    assert ("names" in ranked.why) == named


@pytest.mark.parametrize(
    ("path", "shipped"),
    [
        ("tools/autograd/derivatives.yaml", True),
        ("aten/src/ATen/native/native_functions.yaml", True),
        ("CMakeLists.txt", True),
        (".ci/docker/ci_commit_pins/triton.txt", True),
        (".ci/docker/build.sh", False),
        (".github/workflows/pull.yml", False),
        ("docs/source/conf.py", False),
    ],
)
def test_what_can_change_a_build(path: str, shipped: bool) -> None:
    (ranked,) = rank([Commit("a", "x", (path,))], Clues(layer="inductor"))
    assert (ranked.score >= 0) == shipped


def test_a_nightlys_commit_stands_for_the_one_on_main() -> None:
    assert on_main("2026-01-04 nightly release (0123456789abcdef)", "fff") == "0123456789abcdef"
    assert on_main("Fix nightly release (0123456)", "fff") == "fff"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("git@github.com:pytorch/pytorch.git", "https://github.com/pytorch/pytorch"),
        ("https://github.com/pytorch/pytorch", "https://github.com/pytorch/pytorch"),
        ("https://token@github.com/a/b.git", "https://github.com/a/b"),
        ("https://github.com/a/b/issues", None),
        ("https://gitlab.com/a/b", None),
        ("", None),
    ],
)
def test_repositories_on_github(url, told) -> None:
    assert github_url(url) == told


def test_operators_of_a_reduced_program() -> None:
    assert ops_in("def graph(x):\n    a = torch.nn.functional.avg_pool2d(x, 2)\n    return (a,)\n") == [
        "torch.nn.functional.avg_pool2d"
    ]
    assert ops_in("this is no python") == []


def test_builds_that_are_no_commits_need_no_git(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "repro_kit", "bisect", "--log", "use.py"]
    (tmp_path / "use.py").touch()
    env = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Nothing was judged yet" in done.stderr) == (2, True)
    done = subprocess.run([*words, "--git", "."], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "no git command" in done.stderr) == (2, True)
