"""What the documentation says can be followed: links, commands, module names, figures; and the README stays short."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from pages import PAGES, ROOT, anchors, commands, module_paths, relative_links
from repro_kit.case import stage_results
from repro_kit.case.case import ResultFile
from repro_kit.cli.main import COMMANDS, cli

README = ROOT / "README.md"
#: Files that a case, a bundle or a reader's own project holds.
NOT_OURS = {"repro.py", "check.py", "test_repro.py", "best.py", "program.py", "twin.py", "train.py", "fresh.py"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_readme_is_short() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in relative_links(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(link)
    assert dead == []


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """hatch_build.py; the library that calls it is there only while a wheel is built."""
    interface = types.ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_index_page_has_absolute_links_or_none(hook: types.ModuleType) -> None:
    text = README.read_text(encoding="utf-8")
    there = hook.absolute(text, "https://github.com/o/r")
    assert relative_links(there) == [] and "](https://github.com/o/r/blob/HEAD/docs/install.md)" in there
    assert "and the verified result](https://github.com/o/r/raw/HEAD/docs/pictures/collect.svg)" in there
    nowhere = hook.absolute(text, "")
    assert relative_links(nowhere) == [] and "](docs" not in nowhere and "![" not in nowhere
    assert "pip install repro-kit" not in nowhere


def test_the_repository_is_the_one_that_publishes(
    hook: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPRO_KIT_REPOSITORY", raising=False)
    assert (hook.repository_of(tmp_path), hook.links("")) == ("", {})
    (tmp_path / "PKG-INFO").write_text("Name: x\nProject-URL: Issues, https://x\nProject-URL: Source, https://h/o/r\n")
    assert hook.repository_of(tmp_path) == "https://h/o/r"
    monkeypatch.setenv("REPRO_KIT_REPOSITORY", "https://github.com/a/b/")
    assert hook.repository_of(tmp_path) == "https://github.com/a/b"
    monkeypatch.delenv("REPRO_KIT_REPOSITORY")
    (tmp_path / "PKG-INFO").unlink()
    for remote in ("git@github.com:a/b.git", "https://token@github.com/a/b", "ssh://git@github.com/a/b/"):
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        subprocess.run(["git", "-C", tmp_path, "config", "remote.origin.url", remote], check=True)
        assert hook.repository_of(tmp_path) == "https://github.com/a/b"


def test_the_recipe_of_conda_needs_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8").partition("  run:\n")[2].partition("\ntest:")[0]
    wanted = [f"python{project['requires-python']}", *project["dependencies"]]
    assert [line.strip("- ").replace(" ", "") for line in recipe.splitlines() if line.strip()] == wanted


def wrong_option(words: Sequence[str]) -> str | None:
    """The first word of a shown command line that repro-kit would not take; what follows a script is the script's."""
    if not words or words[0].startswith("-"):
        return None
    for name in words[0].split("|"):
        if name == "COMMAND":
            continue
        if name not in COMMANDS:
            return name
        command, rest = cli.get_command(click.Context(cli), name), words[1:]
        if isinstance(command, click.Group) and rest:
            command, rest = command.get_command(click.Context(command), rest[0]), rest[1:]
            if command is None:
                return words[1]
        assert command is not None
        wrong = _wrong_of(command, rest)
        if wrong:
            return wrong
    return None


def _wrong_of(command: click.Command, words: Sequence[str]) -> str | None:
    context = click.Context(command)
    options = {
        spelling: param
        for param in command.get_params(context)
        if isinstance(param, click.Option)
        for spelling in (*param.opts, *param.secondary_opts)
    }
    after_case = False
    rest = iter(words)
    for word in rest:
        if word in ("--", "-m") or word.endswith((".py", "SCRIPT")):
            return None
        if not word.startswith("-"):
            after_case = after_case or word.endswith((".repro", "CASE"))
            continue
        spelling = word.split("=")[0]
        if spelling not in options:
            return word
        if after_case and command.name in ("collect", "observe", "capture", "ablate", "minify", "bundle"):
            return f"{word} after a case"
        if not (options[spelling].is_flag or "=" in word):
            next(rest, None)
    return None


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=named)
def test_every_command_that_is_shown_exists(page: Path) -> None:
    shown = list(commands(page.read_text(encoding="utf-8")))
    assert [(" ".join(words), wrong) for words in shown if (wrong := wrong_option(words))] == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert wrong_option(["collect", "--no-such-option", "train.py"]) == "--no-such-option"
    assert wrong_option(["gather", "train.py"]) == "gather"
    assert wrong_option(["bundle", "train.repro", "--dry-run"]) == "--dry-run after a case"
    assert wrong_option(["collect", "--timeout", "60", "train.py", "--epochs", "1"]) is None
    assert list(commands("```\n$ repro-kit env --json | jq .\n```")) == [["env", "--json"]]


EXPLAINING = [page for page in PAGES if page.parent.name == "explanation" or page.name == "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", EXPLAINING, ids=named)
def test_every_module_that_is_named_is_there(page: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = listed.stdout.splitlines()
    lost = [
        path
        for path in module_paths(page.read_text(encoding="utf-8"))
        if path not in NOT_OURS and not any(f"/{file}".endswith(f"/{path}") for file in files)
    ]
    assert lost == []


def test_the_overview_has_a_line_for_each_package() -> None:
    page = (ROOT / "docs/explanation/overview.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| [^|]+ \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(
        path.name for path in (ROOT / "src/repro_kit").iterdir() if path.is_dir() and path.name != "__pycache__"
    )


def test_the_chart_shows_the_figures_of_the_table(tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.svg"
    subprocess.run([sys.executable, ROOT / "scripts" / "bench" / "draw.py", drawn], check=True)
    picture = ROOT / "docs" / "pictures" / "minify_vs_pytorch.svg"
    assert picture.read_text(encoding="utf-8") == drawn.read_text(encoding="utf-8"), "run scripts/bench/draw.py"
    text = (ROOT / "scripts" / "bench" / "minify_vs_pytorch.toml").read_text(encoding="utf-8")
    table = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for case in tomllib.loads(text)["case"]:
        sides = (case["repro_kit"], case["pytorch"])
        cells = " | ".join(f"{it['queries']}, {it['seconds']} s [{it['cpu']}], {it['left']}" for it in sides)
        assert f"| {case['name']} ({case['statements']}) | {cells} |" in table


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=named)
def test_a_picture_loads_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert not any(word in text for word in ("@font-face", "@import", "url(http", "<script", "xlink:href", "<image"))


def test_the_index_links_every_page_of_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    pages = set(re.findall(r"- ([\w/-]+\.md)$", nav, re.MULTILINE)) - {"index.md"}
    assert len(pages) > 20
    assert pages - set(relative_links((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))) == set()


def files_of_a_case(tree: str) -> set[str]:
    """The paths in the drawn tree of a case; a line that is indented further goes on with the directory above it."""
    files, directory = set(), ""
    for line in tree.splitlines():
        if re.match(r"  \S", line):
            first = line.split()[0]
            directory = first if first.endswith("/") else ""
        files |= {directory + word for word in line.split()}
    return files


def test_the_tree_of_a_case_has_every_result_file() -> None:
    text = (ROOT / "docs" / "explanation" / "overview.md").read_text(encoding="utf-8")
    tree = text.split("\n## What is on disk\n")[1].split("```")[1]
    declared = {value.name for value in vars(stage_results).values() if isinstance(value, ResultFile)}
    assert {"env.json", "minify/source/failure.json"} <= declared
    assert declared - files_of_a_case(tree) == set()


@pytest.mark.parametrize(("status", "shown"), [(0, ""), (1, "a case newly fails\nsummary\n")])
def test_the_script_for_cron_is_silent_on_a_quiet_night(tmp_path: Path, status: int, shown: str) -> None:
    text = (ROOT / "docs" / "how-to" / "nightly.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    fake = tmp_path / "repro-kit"
    fake.write_text(
        "#!/usr/bin/env bash\nmkdir -p cases/.nightly\necho a case newly fails\nsleep 0.1\n"
        f"echo summary >cases/.nightly/nightly.md\nexit {status}\n"
    )
    fake.chmod(0o755)
    ended = subprocess.run(
        ["bash", "-c", script, "nightly.sh", "cases"],
        cwd=tmp_path, env={**os.environ, "REPRO_KIT": str(fake)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, shown, "")
