"""`issue.md` box by box, and what is told of a failure in it: kind of reproducer, aspects, title, labels, links."""

import re
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from programs import FAILING
from report_pages import page_of
from repro_kit.bundle.pages import html, markdown
from repro_kit.bundle.story import issue_form
from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.answer_lines import contrast_line, nightly, prose
from repro_kit.bundle.story.aspects import aspects, kind_of_program, kind_of_script, ops_of
from repro_kit.bundle.story.issue_form import labels_of
from repro_kit.bundle.story.story import Excerpt
from repro_kit.bundle.story.title import title_of
from repro_kit.case.stage_results import NumberFound, TwinFound
from repro_kit.diagnosis.answers import (
    Answers,
    DoubleErrors,
    FirstWrong,
    GeneratedKernel,
    TorchSource,
    TriedVariant,
    TriedWorkaround,
    UnknownFact,
)
from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.layer import USER_ERROR
from repro_kit.failure.failure import Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse
from repro_kit.probe.repro_probe.protocol.recipe_data import AOT_INDUCTOR
from repro_kit.recipe import Recipe
from stories import shown_issue, story_of

REPRO = "@@code 0@@"


def named(name):
    return next(it for it in FAILING if it.name == name)


def test_the_boxes_are_those_of_the_form_in_their_order():
    text = markdown.issue(story_of("accuracy"))
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == ["🐛 Describe the bug", "Error logs", "Versions"]
    order = ["**Expected:** The compiled code gives the same results", REPRO, "- **Runs:**", "**Where: inductor**"]
    places = [text.index(part) for part in (*order, "| what ran | result |", "### Error logs", "### Versions")]
    assert places == sorted(places)
    folded = text.partition("### Versions")[2]
    assert "- `inductor.simdlen=1` (slower)" in folded and "@torch.compiler.disable" in folded
    assert "| inductor | ✗ fails | ✗ fails | ✗ fails |" in folded and "nightly: not tried" in text
    assert text.count("<details>") == text.count("</details>") == folded.count("<details>")


TOLD = Answers(
    first_wrong=FirstWrong("value", "grad of x", "1.0", "0.25", "[0, 3]", "1.0"),
    double=(DoubleErrors("grad of x", "float32", 0.0, 0.75),),
    with_casts="fails",
    places=(
        TorchSource("lowering of aten.relu.default", "torch/_inductor/lowering.py", 7, link="https://github.com/x#L7"),
        TorchSource("relu", "torch/_refs/nn.py", 9),
        TorchSource("relu", "torch/_refs/nn.py", 12),
    ),
    kernel=GeneratedKernel(
        "cpp_relu_0", "cpp", "void kernel()\n{\n    auto tmp0 = 0.25;\n}", marked=3, why="a quarter"
    ),
    runs="5 of 5 runs fail, exit status 1",
    devices=(TriedVariant("CPU", "fails"), TriedVariant("CUDA", "not tried (this machine has no accelerator)")),
    builds=(TriedVariant("torch 2.12.0", "passes"), TriedVariant("torch 2.13.0", "fails")),
    variants=(TriedVariant("size 2 for 1", "passes"), TriedVariant("float64", "fails")),
    workaround=TriedWorkaround("dynamic=False", "script", ("torch.compile(f, dynamic=False)",)),
    replay="TORCH_BISECT_BACKEND=inductor TORCH_BISECT_SUBSYSTEM=lowerings TORCH_BISECT_MAX=1 python repro.py",
    subsystems=(TriedVariant("lowerings", "passes"), TriedVariant("joint_graph_passes", "fails as observed")),
)


@pytest.mark.parametrize(
    "answer",
    [
        "Eager **`1.0`**, compiled **`0.25`**, float64 **`1.0`**: `grad of x` at `[0, 3]`.",
        "- **Runs:** 5 of 5 runs fail, exit status 1; without torch.compile it passes\n",
        "- **Against float64:** `grad of x`: eager off by 0, compiled off by 0.75",
        "- **Precision casts:** with `TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1` it still fails",
        "- **Devices:** CPU: fails · CUDA: not tried (this machine has no accelerator)",
        "- **Builds:** torch 2.13.0: fails · last good build: torch 2.12.0 · nightly: not tried",
        "| torch 2.12.0 | passes |",
        "- **Sizes and dtypes:** `x` float32 [4, 4]; size 2 for 1: passes; float64: fails",
        "- **Workaround:** `dynamic=False` makes the script pass, with these sizes",
        "`TORCH_BISECT_BACKEND=inductor TORCH_BISECT_SUBSYSTEM=lowerings TORCH_BISECT_MAX=1 python repro.py` fails\n",
        "| without lowerings | passes |",
        "| without joint_graph_passes | fails as observed |",
        "| backend eager | passes |",
        "lowering of aten.relu.default: [`torch/_inductor/lowering.py:7`](https://github.com/x#L7); "
        "relu: `torch/_refs/nn.py:9`, `torch/_refs/nn.py:12`\n",
        "    auto tmp0 = 0.25;  // <-- a quarter",
    ],
)
def test_what_maintainers_ask_stands_before_the_log(answer):
    assert answer in markdown.issue(story_of("accuracy", answers=TOLD)).partition("### Error logs")[0]


def test_an_element_that_is_nan_on_one_side_has_no_distance_from_float64():
    rows = (DoubleErrors("output 0", "float32", 0.0, 0.0, 0, 1), DoubleErrors("output 1", "float32", 0.5, 0.5, 2, 0))
    text = markdown.issue(story_of("accuracy", answers=replace(TOLD, double=rows)))
    first = (
        "`output 0`: eager off by 0, compiled is NaN or infinite at 1 element where float64 is not, or the reverse; "
    )
    second = (
        "`output 1`: eager is NaN or infinite at 2 elements where float64 is not, or the reverse, else off by 0.5, "
    )
    assert f"{first}{second}compiled off by 0.5\n" in text


def test_whole_numbers_have_no_tolerance_and_are_not_held_against_float64():
    rows = (DoubleErrors("output 0", "int64", 0.0, 4294967296.0),)
    told = replace(TOLD, first_wrong=FirstWrong("value", "output 0", "3", "-1"), double=rows)
    text = markdown.issue(story_of("accuracy", answers=told))
    assert "float64" not in text.partition("### Error logs")[0].replace("float64: fails", "")
    assert "Precision casts" not in text and "the same results as eager.\n" in text


def test_a_bug_that_a_setting_of_torchs_tests_injects_is_called_so():
    story = replace(story_of("accuracy"), repro="torch.compile(f)(x)\n")
    assert "on purpose" not in markdown.issue(story)
    switch = "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'"
    text = markdown.issue(replace(story, repro=f"{switch}\n{story.repro}"))
    assert "> The code sets `inject_relu_bug_TESTING_ONLY`, with which torch's own tests **inject a bug" in text


def test_of_a_fact_that_could_not_be_had_the_issue_says_why():
    facts = ("first_wrong", "double", "with_casts", "eager_seconds")
    unknown = Answers(unknown=tuple(UnknownFact(fact, f"no {fact}") for fact in facts))
    text = markdown.issue(story_of("accuracy", answers=unknown))
    assert all(f"no {fact}" in text for fact in facts[:3]) and "no eager_seconds" not in text
    nowhere = Answers(unknown=tuple(UnknownFact(fact, f"no {fact}") for fact in ("places", "replay", "kernel")))
    shown = markdown.issue(story_of("accuracy", answers=nowhere))
    assert "Where to look: not known: no places" in shown and "variables: not known: no replay" in shown
    assert "Generated kernel: none is shown: no kernel" in shown
    alike = Answers(unknown=tuple(UnknownFact(fact, "no graph") for fact in facts))
    assert markdown.issue(story_of("accuracy", answers=alike)).count("not known: no graph") == 1, "one line for both"
    hang = Signature(Kind.TIMEOUT, message="compiling in Inductor")
    assert "- **Eager:** time not known: no eager_seconds" in markdown.issue(
        story_of("accuracy", signature=hang, answers=unknown)
    )
    told = Answers(eager_seconds=0.02)
    assert "- **Eager:** takes less than 0.02 s" in markdown.issue(story_of("accuracy", signature=hang, answers=told))


def test_nothing_is_to_be_attached():
    traced = (("trace/", "torch's structured trace"),)
    for write in (shown_issue, markdown.readme, page_of):
        text = write(story_of("accuracy", answers=TOLD, files=traced))
        assert "Attach" not in text and "attached" not in text.replace("Nothing needs to be attached", "")


@pytest.mark.parametrize("lines", [1, 25, 60, 400])
@pytest.mark.parametrize("answers", [Answers(), TOLD])
def test_a_maintainer_reads_80_lines(lines, answers):
    kernel = replace(TOLD.kernel, code="    auto tmp = 1;\n" * 60, left_out=40) if answers is TOLD else None
    story = story_of(
        "accuracy", repro="x = 1\n" * lines, log="Traceback\n" * 500 + "ValueError: no\n",
        answers=replace(answers, kernel=kernel), ranks=("rank 0 waits",) * 4, others=("TypeError: no",) * 3,
    )  # fmt: skip
    text = shown_issue(story)
    read = issue_form.body_of(text).partition("### Versions")[0]
    assert len(read.splitlines()) <= 80
    assert "x = 1" in text and ("x = 1" in read) == (lines <= 25)
    assert ("below, after the versions" in read) != ("x = 1" in read)
    assert "ValueError: no" in read


def test_the_number_that_decides_stands_with_where_it_begins_to_fail():
    words = "fails from 9 up, passes with 8 as dimension 0 of `x`"
    what = "8 in place of 9 as dimension 0 of `x`"
    story = story_of("accuracy", answers=replace(TOLD, variants=(TriedVariant(what, "passes"),)))
    assert story.reduction is not None
    number = NumberFound("dimension 0 of `x`", 9, 8, words)
    story = replace(story, twin=TwinFound(what, ""), reduction=replace(story.reduction, number=number))
    assert f"- **Sizes and dtypes:** `x` float32 [4, 4]; {words}\n" in markdown.issue(story)


def test_a_statement_that_is_needed_is_no_size():
    variants = (TriedVariant("without `y = x.cumsum(0)`", "passes"), TriedVariant("float64", "fails"))
    story = replace(story_of("accuracy", answers=replace(TOLD, variants=variants)), repro="y = x.cumsum(0)\n")
    text = markdown.issue(story)
    assert "- **Sizes and dtypes:** `x` float32 [4, 4]; float64: fails\n" in text
    assert "- **Needed:** without `y = x.cumsum(0)`: passes\n" in text
    inlined = markdown.issue(replace(story, repro="return torch.tensor(1).cumsum(0)\n"))
    assert "- **Needed:** without `cumsum`: passes\n" in inlined, "no name that repro.py does not have"


def test_of_a_script_that_exports_and_decomposes_the_call_is_the_one_that_fails():
    story = story_of("accuracy", level="script", layer=Layer.EXPORT, ops=())
    own = [("export", False), ("export-draft", False), ("export-decomposed", True)]
    cells = [
        Cell(name, True, Recipe(backend=name), Verdict(Status.FAIL if fails else Status.PASS), same=fails)
        for name, fails in own
    ]
    ablation = replace(story.ablation, recipe=Recipe(backend="export-decomposed"), cells=cells)
    assert replace(story, ablation=ablation).call == "run_decompositions"


@pytest.mark.parametrize(
    ("recipe", "level", "layer", "call"),
    [
        (Recipe(), "program", Layer.INDUCTOR, "torch.compile"),
        (Recipe(backend=AOT_INDUCTOR), "program", Layer.INDUCTOR, "aoti_compile_and_package"),
        (Recipe(), "script", Layer.EXPORT, "torch.export"),
        (Recipe(), "script", None, "torch.compile"),
    ],
)
def test_the_issue_begins_with_the_call_that_fails(recipe, level, layer, call) -> None:
    story = story_of("accuracy", recipe=recipe, level=level, layer=layer, ops=("relu",))
    assert f"under `{call}`. **Expected:**" in markdown.issue(story)
    assert f"{call} failure" in html.report(story)[0]


def test_a_failure_in_code_of_the_script_is_for_its_maintainer_first():
    ablation = replace(story_of("accuracy").ablation, cause="script-code")
    story = story_of("accuracy", ablation=ablation, evidence="A custom operator of the script (peek) was running.")
    text = markdown.issue(story)
    assert "> **Code of the script was running.** A custom operator of the script (peek) was running." in text
    assert issue_form.FORM in text and "not a PyTorch bug" not in text
    assert title_of(replace(story, program="")) == "[code of the script] wrong result of relu"
    labels = labels_of(story)
    assert labels[0] == "oncall: pt2" and not any("inductor" in label for label in labels)


def test_a_failure_of_the_users_own_operator_is_not_for_pytorch():
    text = markdown.issue(story_of("accuracy", layer=Layer.USER, evidence="The operator writes to its argument."))
    assert "> **This is not a PyTorch bug.** The operator writes to its argument." in text
    assert issue_form.FORM not in text and "Labels:" not in text
    assert issue_form.FORM in markdown.issue(story_of("accuracy"))


@pytest.mark.parametrize(
    ("layer", "cause", "to", "advice"),
    [
        (Layer.INDUCTOR, "", Addressee.PYTORCH, ""),
        (None, "", Addressee.PYTORCH, ""),
        (Layer.BACKEND, "", Addressee.BACKEND, "Ask whoever maintains the backend before PyTorch."),
        (Layer.DYNAMO, USER_ERROR, Addressee.PROGRAM, "Ask whoever maintains the program before PyTorch."),
        (Layer.DYNAMO, "script-code", Addressee.SCRIPT_CODE, "Ask whoever maintains that code before PyTorch."),
        (Layer.USER, "custom-operator", Addressee.USER, "The report is for whoever maintains that code."),
    ],
)
@pytest.mark.parametrize("write", [markdown.issue, markdown.readme, page_of])
def test_all_texts_name_the_same_addressee(layer, cause, to, advice, write):
    story = story_of("accuracy", layer=layer, ablation=replace(story_of("accuracy").ablation, cause=cause))
    text = write(story)
    assert story.addressee is to and to.advice == advice
    if advice:
        assert to.finding in text and advice in text
    assert all(other.advice not in text for other in Addressee if other.advice not in ("", advice))
    assert (issue_form.FORM in text) == to.takes_pytorch
    assert (labels_of(story)[0] in text) == to.takes_pytorch


@pytest.mark.parametrize("write", [markdown.readme, page_of])
def test_a_bundle_that_is_not_verified_is_mended_before_it_is_reported(write):
    words = "mend that before you report it"
    assert words in write(story_of("accuracy", verified=False)) and words not in write(story_of("accuracy"))


def test_of_the_users_own_files_the_issue_has_what_may_go_out():
    files = (("files/train.py", "import model\n"), ("files/model.py", "SIZE = '```'\n"))
    excerpt = Excerpt("files/model.py", 7, "SIZE = '```'")
    story = story_of("accuracy", level="script", sources=files, reason="no graph was compiled", excerpt=excerpt)
    text = shown_issue(story)
    assert "at line 7 of `files/model.py`:\n\n````python\nSIZE = '```'\n````\n" in text and "import model" not in text
    assert "`repro.py` runs the user's own files (`python train.py`)" in text and "import model" in page_of(story)
    alone = replace(story, sources=(), excerpt=None, lacks_source=True, verified=False)
    for write in (shown_issue, page_of, markdown.readme):
        assert " not " in write(alone) and "SIZE" not in write(alone)


@pytest.mark.parametrize(
    ("torch", "words"),
    [
        (
            "2.13.0",
            "nightly: not tried (`pip install --pre torch --index-url https://download.pytorch.org/whl/nightly/cpu`)",
        ),
        ("2.13.0+cu130", "whl/nightly/cu130`"),
        ("2.14.0.dev20300102+cpu", "this is the nightly of 20300102"),
    ],
)
def test_whether_a_nightly_was_tried(torch, words):
    story = story_of("accuracy")
    assert words in nightly(replace(story, environment=replace(story.environment, torch=torch)))


def test_what_an_error_says_is_not_taken_for_markdown():
    text = markdown.issue(story_of("accuracy", reduction=None, error="TypeError: <lambda>() of `x` @user\n#12"))
    assert "\n`` TypeError: <lambda>() of `x` @user #12 ``\n" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("wrong gradient of avg_pool2d(a, b=True); it is 2.5", "wrong gradient of `avg_pool2d(a, b=True)`; it is 2.5"),
        ("[0, 0].pop(x.shape[0]) does not compile", "`[0, 0].pop(x.shape[0])` does not compile"),
        ("wrong result of x[0](y)_z, x[1][2]", "wrong result of `x[0](y)_z`, `x[1][2]`"),
        ("crash in compiled x[:, i], mul", "crash in compiled `x[:, i]`, mul"),
        ("__torch_function__ of mine::op, and F.relu.", "`__torch_function__` of `mine::op`, and `F.relu`."),
        ("<b> @user #12 a*b*", "`<b>` `@user` `#12` `a*b*`"),
        ("a `b` c", "a `` `b` `` c"),
        ("reached by x * self.i: guard self.i == 7", "reached by `x * self.i`: guard `self.i == 7`"),
        ("f(a, b) % 2 * c[0] fails, add + sin fused", "`f(a, b) % 2 * c[0]` fails, add + sin fused"),
        ("a" * 3000, "a" * 3000),
    ],
)
def test_code_in_a_sentence_is_marked_and_nothing_else(text, shown):
    assert prose(text) == shown


def test_a_run_that_prints_nothing_is_said_to():
    shown = markdown.issue(story_of("accuracy", log="\n\n/x/a.py:1: UserWarning: no\n  warn()\n"))
    assert "### Error logs\n\n```\n(the run prints nothing)\n[1 warning left out]\n```\n" in shown
    assert "prints nothing" not in markdown.issue(story_of("accuracy", log="[1, 2]\nExit\n"))


def test_of_a_script_of_dynamos_no_rounding_is_in_question():
    values = FirstWrong("value", "output 0", "1.0", "2.0")
    none = UnknownFact("double", "there is no graph"), UnknownFact("with_casts", "not at fault")
    told = Answers(first_wrong=values, unknown=none)
    of_dynamo = story_of("accuracy", program="", level="script", layer=Layer.DYNAMO, answers=told)
    assert "not known: there is no graph" not in markdown.issue(of_dynamo)
    assert "not known: there is no graph" in markdown.issue(replace(of_dynamo, layer=Layer.INDUCTOR))


def test_that_it_is_compiled_is_said_once():
    values = FirstWrong("value", "output 0", "1.0", "2.0", "[0]")
    shown = markdown.issue(story_of("accuracy", program="", answers=replace(TOLD, first_wrong=values)))
    assert "compiled 2.0, under `torch.compile`. **Expected:**" in shown
    error = Signature(Kind.COMPILE_ERROR, ("InductorError", "TypeError"), "no")
    shown = markdown.issue(story_of("accuracy", signature=error, error="TypeError: no"))
    assert "='accuracy'`: no. **Expected:**" in shown
    shown = markdown.issue(story_of("accuracy", signature=error, error="TypeError: no", in_eager=True))
    assert "fails without `torch.compile` too: TypeError: no. **Expected:**" in shown


def test_a_bisection_stands_in_the_issue():
    text = markdown.issue(story_of("accuracy", bisected="torch 2.12 is the first build that fails.\n\n| a | b |"))
    assert "- **Builds:** torch 2.12 is the first build that fails.\n" in text
    assert "| a | b |" in text.partition("### Versions")[2]


@pytest.mark.parametrize("characters", [10, 40_000, 70_000, 400_000])
def test_an_issue_fits_githubs_limit(characters):
    story = story_of("accuracy", log="x\n" * characters, repro="# line\n" * (characters // 7))
    text = markdown.issue(story)
    shown = shown_issue(story)
    assert len(shown) <= issue_form.LONGEST_BODY
    assert REPRO in text or "The code is too long for an issue." in text


def test_what_the_captured_graph_had_and_the_repro_needs():
    captured, kept = parse(named("backward_accuracy").text), parse(named("accuracy").text)
    words = {aspect.name: markdown.aspect_words(aspect, minimal=True) for aspect in aspects(captured, kept)}
    assert words["Autograd"] == "not needed (the captured graph had: a backward runs)"
    assert words["Context managers"] == "not needed (the captured graph had: autocast(cpu, bfloat16))"
    assert words["Configuration"].startswith("needed: inductor.cpp.inject_relu_bug_TESTING_ONLY='accuracy'")
    stopped = {aspect.name: markdown.aspect_words(aspect, minimal=False) for aspect in aspects(captured, kept)}
    assert stopped["Configuration"].startswith("not reduced: "), "what was not tried is not known to be needed"
    assert "originally: backend='negated'" in words["Configuration"]
    assert words["Tensor subclasses"] == "not involved"
    (dynamic,) = [
        aspect for aspect in aspects(kept, parse(named("several_calls").text)) if aspect.name == "Dynamic shapes"
    ]
    assert dynamic.kept == "dynamic=True, 3 calls"


@pytest.mark.parametrize(
    ("body", "name", "words"),
    [
        ("y = torch._functorch.predispatch._jvp_increment_nesting()", "Autograd", "forward-mode"),
        ("y = torch.func.grad(f)(x)", "Autograd", "gradients inside the graph"),
        ("y = torch._nested_view_from_jagged(x, o)", "Tensor subclasses", "a nested tensor"),
        ("y = torch.nested.nested_tensor_from_jagged(x, o)", "Tensor subclasses", "a nested tensor"),
        ("y = torch.nested.nested_tensor(x)", "Dynamic shapes", "the sizes of a nested tensor are symbolic"),
    ],
)
def test_what_the_text_of_a_graph_uses_is_not_called_absent(body, name, words):
    text = named("accuracy").text.replace("relu = torch.relu(x)", f"{body}\n    relu = torch.relu(x)")
    (told,) = [aspect for aspect in aspects(parse(text), parse(text)) if aspect.name == name]
    assert words in told.kept


@pytest.mark.parametrize(
    "code",
    [
        "torch._inductor.config.post_grad_custom_pre_pass = mine\nconfig.mine == 3\n",
        "import torch._inductor.config as ic\nic.post_grad_custom_pre_pass = mine\nmusic.mine = 3\n",
        "from torch._inductor import config as ic\nic.post_grad_custom_pre_pass = mine\n",
    ],
)
def test_settings_that_a_program_carries_in_its_code_are_not_called_absent(code):
    captured = parse(named("accuracy").text).with_(preamble=code)
    captured = captured.with_(recipe=captured.recipe.with_(threads=None))
    (name,) = captured.recipe.config
    twice = captured.with_(preamble=f"{code}torch._{name.replace('.', '.config.', 1)} = 'accuracy'\n")
    for program in (captured, twice):
        (told,) = [aspect for aspect in aspects(program, program) if aspect.name == "Configuration"]
        assert told.kept == f"{name}='accuracy', config.post_grad_custom_pre_pass"
    carried = twice.with_(recipe=twice.recipe.with_(config={}))
    (told,) = [aspect for aspect in aspects(captured, carried) if aspect.name == "Configuration"]
    assert told.kept == f"config.post_grad_custom_pre_pass, config.{name.partition('.')[2]}"


def test_the_backend_at_which_torch_begins_to_fail_is_not_called_a_setting_that_is_needed():
    kept = parse(named("accuracy").text)
    for backend, words in (("aot_eager", ""), ("mine", "backend='mine', ")):
        chosen = kept.with_(recipe=kept.recipe.with_(backend=backend))
        (told,) = [aspect for aspect in aspects(chosen, chosen) if aspect.name == "Configuration"]
        assert told.kept.startswith(f"{words}inductor.cpp")


def test_of_many_settings_the_first_are_named():
    kept = parse(named("accuracy").text)
    many = kept.with_(recipe=kept.recipe.with_(config={f"inductor.{name}": 1 for name in "abcdef"}))
    (told,) = [aspect for aspect in aspects(many, kept) if aspect.name == "Configuration"]
    assert told.captured.endswith("inductor.c=1 and 4 more") and told.captured.count("=") == 3


def test_operators_of_torch_over_ranks_are_no_custom_ones():
    text = named("accuracy").text.replace("torch.relu(x)", "torch.ops._c10d_functional.wait_tensor(x)")
    for namespace, words in (("_c10d_functional", ""), ("mine", "torch.ops.mine")):
        program = parse(text.replace("_c10d_functional", namespace))
        (told,) = [aspect for aspect in aspects(program, program) if aspect.name == "Custom operators"]
        assert told.kept == words


def test_settings_of_the_capture_are_not_called_the_users():
    kept = parse(named("accuracy").text)
    captured = kept.with_(recipe=kept.recipe.with_(fullgraph=True, threads=2))
    (told,) = [aspect for aspect in aspects(captured, kept) if aspect.name == "Configuration"]
    assert "fullgraph" not in told.captured and "2 threads" not in told.captured


def test_operators_are_told_by_their_names():
    assert ops_of(parse(named("backward_accuracy").text)) == ("matmul", "tanh")
    assert ops_of(parse(named("several_calls").text)) == ("add", "mul_")


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (kind_of_program("import torch\n", stored=False, included=False), 1),
        (kind_of_program("import torch\n" * 100, stored=False, included=False), 2),
        (kind_of_program("import torch\n", stored=True, included=True), 2),
        (kind_of_program("import torch\nimport torchvision.ops\n", stored=False, included=False), 3),
        (kind_of_program("import torch\n", stored=True, included=False), 4),
        (kind_of_script(["import os\nimport mine\n", "import torch\n"], ["mine"], complete=True), 1),
        (kind_of_script(["import torch\n" * 100], [], complete=True), 2),
        (kind_of_script(["from transformers import x\n"], ["mine"], complete=True), 3),
        (kind_of_script(["import torch\n"], [], complete=False), 4),
    ],
)
def test_kinds_of_reproducers(kind, number):
    assert kind.number == number


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.MEMORY, "The measured value stays below that limit."),
        (Kind.OOM, "The memory is sufficient"),
        (Kind.CRASH, "The process does not crash"),
        (Kind.TIMEOUT, "The run ends"),
        (Kind.RUNTIME_ERROR, "The code compiles and runs"),
    ],
)
def test_what_should_happen_instead(kind, expected):
    story = story_of("accuracy", signature=Signature(kind, message="memory 3.1 > 2.0"), layer=None)
    assert f"**Expected:** {expected}" in markdown.issue(story)


def test_what_should_happen_where_the_program_may_be_mistaken() -> None:
    ablation = replace(story_of("accuracy").ablation, cause=USER_ERROR)
    warning = Signature(Kind.WARNING, ("UserWarning",), "old code")
    story = story_of("accuracy", layer=Layer.DYNAMO, ablation=ablation, signature=warning)
    assert story.expected == "The compiled code gives no warning, as eager gives none, unless the program is mistaken."


def query(link):
    return parse_qs(urlsplit(link).query)


def test_duplicates_are_looked_for_by_the_words_that_tell():
    story = story_of("compile_error")
    assert story.signature.kind is Kind.COMPILE_ERROR
    words, link = issue_form.searches(story)[0]
    assert query(link)["q"] == [f'is:issue label:"oncall: pt2" {words}']
    assert "CppCompileError" in words and "scope" in words


def test_a_wrong_result_of_a_script_is_looked_for_by_what_it_calls():
    source = "import torch\ntorch.compile(lambda i, j: i / len(set(j)), backend='eager')(torch.ones(1), [1])\n"
    reduced = {"level": "script", "program": "", "ops": (), "sources": (("files/reduced.py", source),)}
    checked = Signature(Kind.ACCURACY, ("AssertionError",), difference="value")
    story = replace(story_of("accuracy"), **reduced, named=("files/reduced.py",), signature=checked)
    assert [words for words, _ in issue_form.searches(story)] == ["set wrong result", "set"]
    chained = source.replace("i / len(set(j))", "i.register_hook(print).remove()")
    refused = Signature(Kind.DYNAMO_ERROR, ("AssertionError",), "idx must not be None for hook removal")
    story = replace(story, sources=(("files/reduced.py", chained),), signature=refused)
    words = ["AssertionError must None hook removal", "AssertionError register_hook"]
    assert [words for words, _ in issue_form.searches(story)] == words


@pytest.mark.parametrize("lines", [1, 3000])
def test_a_link_that_opens_the_issue_is_short_enough(lines):
    story = story_of("accuracy")
    body = "### A\n\n```\n" + "é & = # ?\n" * lines + "```\n"
    link = issue_form.new_issue_link(story, body)
    assert len(link) <= 8000
    found = query(link)
    assert found["title"] == [title_of(story)] and found["labels"][0].startswith("oncall: pt2")
    shown = found["body"][0]
    assert (shown == body) == (lines == 1)
    assert shown.count("```") == 2 and ("rest is in issue.md" in shown) == (lines > 1)


@pytest.mark.parametrize(("stride", "said"), [("(4, 1)", False), ("(1, 4)", True)])
def test_strides_are_told_where_they_are_not_the_usual_ones(stride, said):
    strided = f"torch.randn(16).as_strided((4, 4), {stride})"
    program = named("accuracy").text.replace("torch.randn(4, 4)", strided)
    assert strided in program
    assert ("float32 [4, 4] strides" in markdown.issue(story_of("accuracy", program=program))) is said


def test_the_state_that_differs_is_named_with_the_call_that_left_it() -> None:
    lost = FirstWrong("state", "seen after call 1", "2 items", "1 item")
    words = contrast_line(story_of("accuracy", answers=replace(TOLD, first_wrong=lost)))
    assert words == "Eager **`2 items`**, compiled **`1 item`**: state of `seen` after call 1."
