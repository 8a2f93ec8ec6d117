"""`check` on a fake first stage: what is new, known and mended, the baseline, the reports, and the exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
import tomllib
from xml.etree import ElementTree

import pytest

from repro_kit.case.case import Case
from repro_kit.commands.check_findings import Ending, Finding, Results, compare, updated
from repro_kit.commands.check_targets import target_of
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from root import ROOT

pytestmark = pytest.mark.torch  # the interpreter is looked at for torch, which is not imported

#: Observes what the name of the script says.
OBSERVE = """
    from repro_kit.case.stage_results import ENVIRONMENT, OBSERVATION, Environment, Observation, ObservedFailure
    from repro_kit.errors import Exit, Stop, UsageError
    from repro_kit.failure.failure import Difference, Failure
    from repro_kit.failure.kinds import Kind
    from repro_kit.failure.signature import signature_of
    from pathlib import Path

    def run(case, options, ui):
        text = Path(case.file.subject.argv[-1].partition("::")[0]).read_text()
        case.store(ENVIRONMENT, Environment("3.11", "python", "Linux", "2.13.0"))
        failures = ()
        if "wrong" in text:
            kind = "dtype" if "dtype" in text else "value"
            difference = Difference(kind, "output 0", 1.0, 0.5)
            failure = Failure(Kind.ACCURACY, text=f"in step at {case.file.subject.argv[0]}:3", difference=difference)
            failures = (ObservedFailure(failure, signature_of(failure), source="measured"),)
        told = (None, None, False, 1.0, 5, None, "2.13.0")
        case.store(OBSERVATION, Observation((), *told, failures=failures, graphs="idle" not in text, compared=3))
        if "own" in text:
            raise Stop(Exit.USER_BUG, "It fails without torch.compile, too.")
        if "no module" in text:
            raise UsageError("The script does not begin: ModuleNotFoundError.")
        if failures:
            case.update(signature=failures[0].signature)
        ui.done("observed")
    """


@pytest.fixture(autouse=True)
def observed(fakes, work, monkeypatch):
    fakes.replace("observe", OBSERVE)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in (("good", "x"), ("bad", "wrong"), ("other", "wrong dtype"), ("mine", "own"), ("idle", "idle")):
        (work / f"{name}.py").write_text(f"# {text}\n# 2\n# 3\n")
    return work


def told(repro_kit, *words: str):
    result = repro_kit("check", "--json", *words)
    assert result.stdout.startswith("{"), result.output
    data = json.loads(result.stdout)
    assert data["exit"] == result.exit_code
    return data


def names(data, standing: str) -> list[str]:
    return [each["target"] for each in data[standing]]


def test_what_agrees_leaves_nothing_behind(work, repro_kit):
    result = repro_kit("check", "good.py")
    assert result.exit_code == 0
    assert "3 compiled calls agree with eager" in result.output and "1 agreeing; torch 2.13.0." in result.output
    assert not list(work.glob("**/*.repro"))


def test_a_new_failure_is_reduced_unless_nobody_wants_it(work, fakes, repro_kit):
    result = repro_kit("check", "good.py", "bad.py")
    assert result.exit_code == 1
    assert fakes.ran() == ["observe", "observe", "capture", "minify", "ablate", "bundle"]
    assert (work / "repro-kit-check" / "bad.py.repro.zip").is_file()
    assert "repro-kit-check/bad.py.repro.zip" in result.output and "1 new, 1 agreeing" in result.output
    (work / "b").mkdir()
    (work / "b" / "ad.py").write_text("# wrong")
    (work / "b-ad.py").write_text("# wrong dtype")
    cases = told(repro_kit, "b/ad.py", "b-ad.py", "--no-reduce")["results"]["findings"]
    assert len({each["case"] for each in cases}) == 2
    fakes.ran()
    data = told(repro_kit, "bad.py", "--no-reduce")
    assert fakes.ran() == ["observe"]
    assert data["new"] == [
        {"target": "bad.py", "check": "accuracy", "function": "step",
         "words": "wrong result: values differ from eager's by 0.5 (relative) (output of step)"},
    ]  # fmt: skip
    assert data["results"]["findings"][0]["line"] == 3
    assert told(repro_kit, "bad.py", "--no-reduce", "-o", ".")["results"]["findings"][0]["line"] == 3


def test_a_reduction_that_finds_rounding_alone_takes_the_failure_back(work, fakes, repro_kit):
    fakes.replace(
        "capture",
        """
        from repro_kit.errors import Exit, Stop

        def run(case, options, ui):
            raise Stop(Exit.ROUNDING, "Rounding, not a bug.")
        """,
    )
    data = told(repro_kit, "bad.py")
    assert (data["exit"], data["new"]) == (0, [])
    assert data["results"]["findings"][0]["words"] == "the results differ by rounding alone"
    assert not (work / "repro-kit-check").exists()


def test_the_baseline_knows_what_fails_and_tells_what_is_mended(work, repro_kit):
    run = ["--no-reduce", "bad.py", "other.py"]
    first = told(repro_kit, *run, "--update-baseline")
    assert (first["exit"], names(first, "new")) == (0, [])
    assert names(first, "known") == names(first, "accepted") == ["bad.py", "other.py"]
    written = (work / "repro-kit-baseline.toml").read_text()
    assert [(each["target"], each["failure"]) for each in tomllib.loads(written)["known"]] == [
        ("bad.py", "wrong result: values differ from eager's"),
        ("other.py", "wrong result: dtype differs from eager's"),
    ]
    known = told(repro_kit, *run)
    assert (known["exit"], names(known, "known"), names(known, "new")) == (0, ["bad.py", "other.py"], [])
    (work / "bad.py").write_text("# wrong dtype")  # another failure is new, and hides whether the known one is mended
    data = told(repro_kit, *run)
    assert [names(data, standing) for standing in ("new", "mended", "hidden")] == [["bad.py"], [], ["bad.py"]]
    (work / "bad.py").write_text("# fine now")
    mended = told(repro_kit, *run)
    assert (mended["exit"], names(mended, "mended")) == (0, ["bad.py"])
    assert told(repro_kit, *run, "--strict")["exit"] == 1
    assert names(told(repro_kit, "other.py", "--no-reduce"), "mended") == []  # what was not run is not mended
    told(repro_kit, *run, "--update-baseline")
    assert [each["target"] for each in tomllib.loads((work / "repro-kit-baseline.toml").read_text())["known"]] == [
        "other.py"
    ]


def test_two_writings_of_one_baseline_are_the_same_text(work, repro_kit):
    baseline = work / "known.toml"
    words = ["--no-reduce", "--update-baseline", "--baseline", str(baseline)]
    told(repro_kit, *words, "other.py", "bad.py")
    first = baseline.read_text()
    baseline.write_text(first.replace('target = "bad.py"', 'target = "bad.py"\nnote = "pytorch#1"', 1))
    told(repro_kit, *words, "bad.py", "other.py")
    assert baseline.read_text().replace('note = "pytorch#1"\n', "") == first
    assert 'note = "pytorch#1"' in baseline.read_text()


def test_a_failure_is_known_only_in_the_versions_that_its_entry_names(work, repro_kit):
    told(repro_kit, "--no-reduce", "--update-baseline", "bad.py")
    path = work / "repro-kit-baseline.toml"
    text = path.read_text()
    for versions, new in ((">=2.13", []), ("<2.13", ["bad.py"])):
        path.write_text(text.replace("[[known]]", f'[[known]]\ntorch = "{versions}"'))
        data = told(repro_kit, "--no-reduce", "bad.py")
        assert (names(data, "new"), names(data, "mended")) == (new, [])


def test_what_could_not_be_judged_is_no_success(work, repro_kit):
    (work / "broken.py").write_text("# no module")
    data = told(repro_kit, "--no-reduce", "good.py", "mine.py", "idle.py", "broken.py")
    assert (data["exit"], names(data, "unjudged")) == (2, ["mine.py", "idle.py", "broken.py"])
    assert [each["words"] for each in data["unjudged"]] == [
        "It fails without torch.compile, too.",
        "nothing was compiled: no compiled function was called",
        "The script does not begin: ModuleNotFoundError.",
    ]
    told(repro_kit, "--no-reduce", "--update-baseline", "bad.py")
    (work / "bad.py").write_text("# own")
    assert names(told(repro_kit, "--no-reduce", "bad.py"), "mended") == []


def test_bad_input_is_one_sentence_and_runs_nothing(work, fakes, repro_kit):
    (work / "x.toml").write_text("known = 3")
    (work / "y.toml").write_text('schema = 1\n[[known]]\ntarget = "a"\n')
    (work / "z.json").write_text("{}")
    for words, sentence in (
        (["good.py", "nowhere"], "nowhere is no target of check: give module:function"),
        (["nowhere.py:f"], "There is no file nowhere.py"),
        (["nowhere:f"], "finds no module nowhere"),
        (["good.py", "--baseline", "a.json", "--update-baseline"], "a.json holds results"),
        (["good.py", "--baseline", "none/x.toml", "--update-baseline"], "There is no directory none"),
        (["good.py", "--baseline", "none.toml"], "There is no baseline none.toml"),
        (["good.py", "--baseline", "x.toml"], "x.toml is no baseline of repro-kit"),
        (["good.py", "--baseline", "y.toml"], "y.toml is no baseline of repro-kit"),
        (["z.json"], "z.json does not hold what `repro-kit check --json` printed"),
        (["good.py", "--check", "speed"], "'speed' is not a symptom"),
    ):
        result = repro_kit("check", *words)
        assert (result.exit_code, sentence in result.output) == (2, True), result.output
        assert len(result.stderr.splitlines()) == 1
    assert fakes.ran() == []


def test_the_results_of_two_machines_are_compared_without_a_run(work, fakes, repro_kit):
    for name, scripts in (("one", ["good.py", "bad.py"]), ("two", ["other.py", "bad.py"])):
        (work / f"{name}.json").write_text(json.dumps(told(repro_kit, "--no-reduce", *scripts)))
    fakes.ran()
    data = told(repro_kit, "one.json", "--baseline", "two.json")
    assert (data["exit"], names(data, "known"), names(data, "new")) == (0, ["bad.py"], [])
    data = told(repro_kit, "two.json", "--baseline", "one.json")
    assert (data["exit"], names(data, "new"), names(data, "known")) == (1, ["other.py"], ["bad.py"])
    assert data["notes"][0].startswith("Here: torch 2.13.0, Linux")
    assert data["notes"][1:] == [
        "Fail here, and one.json does not judge them: other.py.",
    ]
    assert told(repro_kit, "one.json", "--baseline", "two.json")["notes"][1:] == [
        "Fail in two.json, and are not judged here: other.py.",
    ]
    assert fakes.ran() == []


def test_reports_of_a_run(work, monkeypatch, repro_kit):
    told(repro_kit, "--no-reduce", "--update-baseline", "bad.py")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(work.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(work / "summary.md"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(work / "output"))
    words = ["--no-reduce", "--junit", "out/j.xml", "--sarif", "s.json", "good.py", "bad.py", "other.py", "mine.py"]
    result = repro_kit("check", *words)
    assert result.exit_code == 1
    assert f"::error file={work.name}/other.py,line=3,title=repro-kit%3A compiled differs from eager::" in result.output
    assert f"::error file={work.name}/mine.py,line=1,title=repro-kit%3A not judged::mine.py" in result.output
    suite = ElementTree.parse(work / "out" / "j.xml").getroot()[0]
    assert [suite.get(name) for name in ("tests", "failures", "skipped", "errors")] == ["4", "1", "1", "1"]
    assert [[each.tag for each in case] for case in suite] == [[], ["skipped"], ["failure"], ["error"]]
    (run,) = json.loads((work / "s.json").read_text())["runs"]
    assert [each["baselineState"] for each in run["results"]] == ["new", "unchanged", "new"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == (f"{work.name}/other.py", 3)
    (work / "s.json").unlink()
    accepted = repro_kit("check", "--update-baseline", *words)
    assert (accepted.exit_code, accepted.output.count("::error"), "::mine.py" in accepted.output) == (2, 1, True)
    assert "2 known (1 of them accepted now), 1 agreeing, 1 not judged" in accepted.output
    suite = ElementTree.parse(work / "out" / "j.xml").getroot()[0]
    assert [suite.get(name) for name in ("tests", "failures", "skipped", "errors")] == ["4", "0", "2", "1"]
    told_of = [inner.get("message") for case in suite for inner in case if inner.tag == "skipped"]
    assert [each.partition(": ")[0] for each in told_of] == ["known failure, in repro-kit-baseline.toml"] * 2
    (run,) = json.loads((work / "s.json").read_text())["runs"]
    assert [(each["baselineState"], each["level"]) for each in run["results"]] == [
        *[("unchanged", "note")] * 2,
        ("new", "warning"),
    ]
    assert "| · accepted | other.py |" in (work / "summary.md").read_text()
    assert (work / "output").read_text().splitlines()[6:8] == ["exit-code=2", "new=0"]
    summary = (work / "summary.md").read_text()
    assert "| ✗ new | other.py | accuracy | wrong result: dtype differs" in summary
    assert (work / "output").read_text().startswith("exit-code=1\nnew=1\nknown=1\nmended=0\nagreeing=1\nnot-judged=1\n")


def test_a_function_is_run_by_a_script_of_its_own(work, repro_kit):
    (work / "models.py").write_text("import torch\n\n\ndef encoder():\n    return wrong\n")
    folder = work / "repro-kit-check"
    data = told(repro_kit, "--no-reduce", "models:encoder", "models.py:encoder")
    assert [each["words"] for each in data["results"]["findings"]] == ["3 compiled calls agree with eager"] * 2
    assert [(each["file"], each["line"]) for each in data["results"]["findings"]] == [("models.py", 4)] * 2
    assert not folder.exists()  # nobody needs the scripts of what agrees
    folder.mkdir()
    (folder / "models-encoder.py").write_text("mine")
    (data,) = told(repro_kit, "--no-reduce", "models:encoder")["unjudged"]
    assert "models-encoder.py is in the way" in data["words"] and (folder / "models-encoder.py").read_text() == "mine"
    (folder / "models-encoder.py").unlink()
    (work / "wrong.py").write_text("def encoder(): ...\n")
    failed = repro_kit("check", "--no-reduce", "wrong:encoder")
    assert "Cases that `repro-kit collect` goes on with: repro-kit-check/wrong-encoder.repro" in failed.output
    script = (folder / "wrong-encoder.py").read_text()
    assert "from wrong import encoder as target" in script and repr(str(work)) in script
    compile(script, "script", "exec")


def test_the_action_passes_its_inputs_on(work):
    """The step of action.yml runs as a runner would run it, with a stand-in for repro-kit."""
    own, other = work / "temp" / "repro-kit" / "bin", work / "other"
    for place, name, text in (
        (own, "repro-kit", '#!/bin/sh\nfor word; do echo "[$word]"; done >>calls\necho {}\nexit 1\n'),
        (own, "python", "#!/bin/sh\n"),
        (other, "python", "#!/bin/sh\n"),
    ):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    step = textwrap.dedent((ROOT / "action.yml").read_text().rpartition("run: |\n")[2])
    runner = {"PATH": f"{other}:/usr/bin:/bin", "RUNNER_TEMP": str(work / "temp"), "HERE": str(ROOT)}
    inputs = {
        "INPUT_TARGETS": "models:encoder\n\n  my train.py  \n$(touch hacked)\n",
        "INPUT_CHECK": "accuracy\ngraph-breaks>0\n",
        "INPUT_BASELINE": "known.toml",
        "INPUT_REDUCE": "false",
        "INPUT_STRICT": "true",
        "INPUT_DIRECTORY": "out",
        "INPUT_PYTHON": "python",
    }

    def ran(**changes: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-eo", "pipefail", "-c", step]
        env = {**runner, **inputs, **changes}
        return subprocess.run(command, env=env, cwd=work, capture_output=True, text=True, check=False)

    assert ran().returncode == 1
    assert (work / "calls").read_text().splitlines() == [
        "[check]", "[--yes]", "[--json]", "[--python]", f"[{other}/python]", "[--output]", "[out]",
        "[--junit]", "[out/junit.xml]", "[--sarif]", "[out/results.sarif]",
        "[--check]", "[accuracy]", "[--check]", "[graph-breaks>0]", "[--baseline]", "[known.toml]",
        "[--strict]", "[--no-reduce]", "[--]", "[models:encoder]", "[my train.py]", "[$(touch hacked)]",
    ]  # fmt: skip
    assert (work / "out" / "results.json").read_text() == "{}\n"
    assert not (work / "hacked").exists()
    refused = ran(INPUT_TARGETS=" \n")
    assert (refused.returncode, "needs the input `targets`" in refused.stderr) == (2, True)


def test_the_action_names_what_its_script_reads_and_what_check_writes():
    action, script = ((ROOT / name).read_text() for name in ("action.yml", "scripts/action"))
    assert set(re.findall(r"INPUT_\w+", script)) <= set(re.findall(r"(INPUT_\w+): \$\{\{ inputs\.", action))
    inputs = action.partition("inputs:")[2].partition("outputs:")[0]
    assert set(re.findall(r"^  ([\w-]+):", inputs, re.MULTILINE)) == set(re.findall(r"inputs\.([\w-]+)", action))
    outputs = set(re.findall(r"steps\.check\.outputs\.([\w-]+)", action))
    assert outputs == {"exit-code", "new", "known", "mended", "not-judged"}
    assert "${{" not in "".join(line for line in action.splitlines() if line.lstrip().startswith(("run:", "PATH=")))


def test_a_test_is_run_by_pytest(work, repro_kit):
    (work / "test_g.py").write_text("# wrong\n")
    data = told(repro_kit, "--no-reduce", "test_g.py::test_g")
    assert (data["exit"], names(data, "new")) == (1, ["test_g.py::test_g"])
    assert Case.open(work / data["results"]["findings"][0]["case"]).file.subject.words == (
        *("-m", "pytest"),
        "test_g.py::test_g",
    )


def test_a_target_that_cannot_begin_does_not_end_the_others(work, repro_kit):
    (work / "syntax.py").write_text("def f(:\n")
    (work / "x.pt2").write_text("no archive")
    data = told(repro_kit, "--no-reduce", "syntax.py", "x.pt2", "bad.py")
    assert (data["exit"], names(data, "unjudged"), names(data, "new")) == (1, ["syntax.py", "x.pt2"], ["bad.py"])
    told_of = [each["words"] for each in data["unjudged"]]
    assert "syntax.py has a syntax error" in told_of[0] and told_of[0].endswith("SyntaxError: invalid syntax")
    assert "is not a file of torch.export.save" in told_of[1]


def test_a_file_of_tests_is_run_by_pytest_and_a_long_name_has_a_short_case(work, repro_kit):
    (work / "test_all.py").write_text("def test_a():\n    wrong\n")
    name = f"test_all.py::test_a[{'long' * 100}]"
    data = told(repro_kit, "--no-reduce", "test_all.py", name, name.replace("long]", "last]"))
    cases = [each["case"] for each in data["results"]["findings"]]
    assert len(set(cases)) == 3 and max(map(len, cases)) < 200
    assert Case.open(work / cases[0]).file.subject.words == ("-m", "pytest", "test_all.py")


@pytest.mark.parametrize(
    ("file", "target", "load"),
    [
        ("models.py", "models:f", "from models import f as target"),
        ("my-models.py", "my-models.py:f", "target = sys.modules['my-models'].f"),
        ("pkg/net.py", "pkg/net.py:f", "from pkg.net import f as target"),
    ],
)
def test_a_module_is_imported_by_the_name_that_its_package_gives_it(work, file, target, load):
    (work / "pkg").mkdir()
    (work / "pkg" / "__init__.py").touch()
    (work / file).write_text("def f(): ...\n")
    made = target_of(target)
    assert load in made.script and made.directory == str(work)
    compile(made.script, "script", "exec")


def test_what_cannot_be_compiled_is_said_in_the_words_of_the_script(work, fakes, repro_kit):
    fakes.replace(
        "observe",
        """
        from repro_kit.errors import Exit, Stop

        def run(case, options, ui):
            (case.path / "observe").mkdir(exist_ok=True)
            (case.path / "observe" / "stderr.txt").write_text("noise\\nrepro-kit check: models:f takes x\\n")
            raise Stop(Exit.USER_BUG, "It fails without torch.compile, too.")
        """,
    )
    (work / "models.py").write_text("def f(x): ...\n")
    assert [each["words"] for each in told(repro_kit, "models:f")["unjudged"]] == ["models:f takes x"]


def counted(value: float, *causes: str) -> Finding:
    signature = Signature(Kind.GRAPH_BREAKS, message="graph-breaks>0")
    return Finding("t", "graph-breaks>0", Ending.FAILS, "breaks", signature, value=value, causes=causes)


def test_more_breaks_and_other_breaks_are_new_and_fewer_are_known():
    baseline = updated([], compare(Results((counted(3, "a", "b"),), "2.13.0"), []), "2.13.0")

    def standing(*finding: Finding, torch: str = "2.13.0") -> list[int]:
        found = compare(Results(finding, torch), baseline)
        return [len(found.new), len(found.known), len(found.mended), len(found.hidden)]

    assert standing(counted(3, "b")) == [0, 1, 0, 0]
    assert standing(counted(4, "b")) == [1, 0, 0, 1]
    assert standing(counted(3, "b", "c")) == [1, 0, 0, 1]
    assert standing(counted(3, "c"), torch="2.15.0") == [0, 1, 0, 0]  # another torch has other words
    (now,) = updated(baseline, compare(Results((counted(2, "b"),), "2.13.0"), baseline), "2.13.0")
    assert (now.value, now.causes) == (2, ("b",))
    (now,) = updated(baseline, compare(Results((counted(4, "c"),), "2.13.0"), baseline), "2.13.0")
    assert (now.value, now.causes) == (4, ("c",))


def test_a_runner_is_told_of_bad_input_and_of_what_is_mended_under_strict(work, monkeypatch, repro_kit):
    (work / "my bad.py").write_text("# wrong")
    told(repro_kit, "--no-reduce", "--update-baseline", "bad.py")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(work / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(work / "summary.md"))
    assert "::error title=repro-kit::There is no file nowhere.py" in repro_kit("check", "nowhere.py:f").output
    assert (work / "output").read_text() == "exit-code=2\n"
    assert "There is no file nowhere.py" in (work / "summary.md").read_text()
    (work / "bad.py").write_text("# fine")
    words = ["--no-reduce", "--strict", "--junit", "j.xml", "--sarif", "s.json", "bad.py", "my bad.py"]
    assert "::error title=repro-kit%3A mended::bad.py" in repro_kit("check", *words).output
    suite = ElementTree.parse(work / "j.xml").getroot()[0]
    assert [suite.get(name) for name in ("tests", "failures")] == ["3", "2"]
    assert [each.get("classname") for each in suite if len(each)] == ["my bad.py", "bad.py"]
    result, mended = json.loads((work / "s.json").read_text())["runs"][0]["results"]
    assert (mended["ruleId"], mended["baselineState"], mended["level"]) == ("mended", "absent", "error")
    assert "| ✗ mended | bad.py |" in (work / "summary.md").read_text()
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20bad.py"
