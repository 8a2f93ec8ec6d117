"""`issue.md` box by box, and what is told of a failure in it: rank, aspects, title, labels, links."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from programs import FAILING
from stories import story_of

from repro_kit.bundle import filing, prose
from repro_kit.bundle.aspects import aspects, ops_of, rank_of_program, rank_of_script
from repro_kit.model.failure import Kind, Layer
from repro_kit.program import parse


def named(name):
    return next(it for it in FAILING if it.name == name)


def test_the_boxes_are_those_of_the_form_in_their_order():
    text = prose.issue(story_of("accuracy"))
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == ["🐛 Describe the bug", "Error logs", "Versions"]
    assert text.index("#### Minimal reproducer") < text.index(prose.REPRO) < text.index("### Error logs")
    assert "**Expected:** The compiled graph gives what eager gives" in text
    assert "Nightly: not tried" in text and "Rank 1 of" in text and "| inductor | ✗ fails | ✗ fails | ✗ fails |" in text


def test_a_bisection_stands_in_the_issue():
    text = prose.issue(story_of("accuracy", bisected="torch 2.12 is the first build that fails.\n\n| a | b |"))
    assert "#### First bad build\n\ntorch 2.12 is the first" in text and "Nightly: builds were bisected" in text


@pytest.mark.parametrize("characters", [10, 40_000, 70_000, 400_000])
def test_an_issue_fits_githubs_limit(characters):
    story = story_of("accuracy", log="x\n" * characters, repro="# line\n" * (characters // 7))
    text = prose.issue(story)
    shown = text.replace(prose.REPRO, story.repro)
    assert len(shown) <= filing.LONGEST_BODY
    assert (prose.REPRO in text) or "too long to show here" in text


def test_what_the_captured_graph_had_and_the_repro_needs():
    captured, kept = parse(named("backward_accuracy").text), parse(named("accuracy").text)
    words = {it.name: prose.aspect_words(it) for it in aspects(captured, kept)}
    assert words["Autograd"] == "not needed; the captured graph had: backward() is called"
    assert words["Context managers"] == "not needed; the captured graph had: autocast(cpu, bfloat16)"
    assert words["Configuration"].startswith("needed: inductor.cpp.inject_relu_bug_TESTING_ONLY='accuracy'")
    assert "originally: backend='negated'" in words["Configuration"]
    assert words["Tensor subclasses"] == "not involved"
    (dynamic,) = [it for it in aspects(kept, parse(named("several_calls").text)) if it.name == "Dynamic shapes"]
    assert dynamic.kept == "dynamic=True, 3 calls"


def test_operators_are_told_by_their_names():
    assert ops_of(parse(named("backward_accuracy").text)) == ("matmul", "tanh")
    assert ops_of(parse(named("several_calls").text)) == ("add", "mul_")


@pytest.mark.parametrize(
    ("rank", "number"),
    [
        (rank_of_program("import torch\n", stored=False, included=False), 1),
        (rank_of_program("import torch\n" * 100, stored=False, included=False), 2),
        (rank_of_program("import torch\n", stored=True, included=True), 2),
        (rank_of_program("import torch\nimport torchvision.ops\n", stored=False, included=False), 3),
        (rank_of_program("import torch\n", stored=True, included=False), 4),
        (rank_of_script(["import os\nimport mine\n", "import torch\n"], ["mine"], complete=True), 1),
        (rank_of_script(["import torch\n" * 100], [], complete=True), 2),
        (rank_of_script(["from transformers import x\n"], ["mine"], complete=True), 3),
        (rank_of_script(["import torch\n"], [], complete=False), 4),
    ],
)
def test_ranks(rank, number):
    assert rank.number == number


def test_title_and_labels():
    story = story_of("accuracy", layer=Layer.INDUCTOR, ops=("relu",))
    assert filing.title_of(story) == "[inductor] wrong result: values differ from eager's (relu)"
    assert filing.labels_of(story)[0] == "oncall: pt2"
    assert "module: correctness (silent)" in filing.labels_of(story)
    long = story_of("accuracy", ops=tuple(f"torch.op{number}" for number in range(60)))
    assert len(filing.title_of(long)) <= 120


def query(link):
    return parse_qs(urlsplit(link).query)


def test_duplicates_are_looked_for_by_the_words_that_tell():
    story = story_of("compile_error")
    assert story.signature.kind is Kind.COMPILE_ERROR
    words, link = filing.searches(story)[0]
    assert query(link)["q"] == [f'is:issue label:"oncall: pt2" {words}']
    assert "CppCompileError" in words and "scope" in words


@pytest.mark.parametrize("lines", [1, 3000])
def test_a_link_that_opens_the_issue_is_short_enough(lines):
    story = story_of("accuracy")
    body = "### A\n\n```\n" + "é & = # ?\n" * lines + "```\n"
    link = filing.new_issue_link(story, body)
    assert len(link) <= 8000
    found = query(link)
    assert found["title"] == [filing.title_of(story)] and found["labels"][0].startswith("oncall: pt2")
    shown = found["body"][0]
    assert (shown == body) == (lines == 1)
    assert shown.count("```") == 2 and ("rest is in issue.md" in shown) == (lines > 1)
