"""Stories as the bundle stage would tell them, of the programs in `programs.py`; no torch is needed."""

from dataclasses import replace

from programs import FAILING
from repro_kit.bundle.facts import Facts, failure_line
from repro_kit.bundle.pages import markdown
from repro_kit.bundle.repro.program_repro import render_program
from repro_kit.bundle.story.aspects import aspects, kind_of_program, ops_of
from repro_kit.bundle.story.story import Story
from repro_kit.case.stage_results import Environment, Reduction, ReductionStep, TwinFound
from repro_kit.diagnosis.answers import TriedVariant
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.evidence import Chain, Flip, Link, Side, Untried
from repro_kit.diagnosis.workaround import Intrusion, Workaround
from repro_kit.failure.failure import Layer, Status, Verdict
from repro_kit.graph import parse
from repro_kit.recipe import Recipe

ENV = Environment(
    "3.11.7", "/usr/bin/python3", "Linux", "2.13.0", collect_env="PyTorch version: 2.13.0\n" * 9,
    packages={"torch": "2.13.0", "numpy": "2.0"}, variables={"TORCH_LOGS": "<b>"},
)  # fmt: skip


CHAIN = Chain(
    "program",
    (
        Link(
            "backend", "inductor", "Inductor is at fault.", Side("eager", "passes", "python a.py"), Side("x<y", "fails")
        ),
        Link("flips", "inductor.simdlen", "`simdlen` matters to #5.", beside=True),
    ),
    (Untried("needs", "no settings of the user's"),),
    (Flip("inductor.simdlen", 1, limits="slower"),),
)
WAYS = (
    Workaround(
        "leave inner to eager", Intrusion.DISABLE, ("@torch.compiler.disable",), "above `def inner`", status=Status.PASS
    ),
    Workaround("no cure", Intrusion.EAGER, ("pass",), "anywhere", status=Status.FAIL),
)


def shown_issue(story):
    """`issue.md` as a reader sees it."""
    text = markdown.issue(story)
    for mark, code in markdown.marks(story).items():
        text = text.replace(mark, code)
    return text


def cells(signature):
    yield Cell("no torch.compile", False, Recipe(), Verdict(Status.PASS))
    for backend in ("eager", "inductor"):
        for dynamic in (None, True, False):
            fails = backend == "inductor"
            verdict = Verdict(Status.FAIL if fails else Status.PASS)
            recipe = Recipe(backend=backend, dynamic=dynamic)
            name = f"{backend} dynamic={dynamic}"
            repeat = f"python cell.py {backend} {dynamic}"
            changed = {"backend": backend} if dynamic is None else {"backend": backend, "dynamic": dynamic}
            found = signature if fails else None
            yield Cell(name, True, recipe, verdict, found, same=fails, repeat=repeat, changed=changed)


def story_of(name, **changes):
    failing = next(it for it in FAILING if it.name == name)
    program = parse(failing.text)
    repro = render_program(program, Facts(failing.signature, None, ENV))["repro.py"]
    story = Story(
        signature=failing.signature,
        error=failure_line(failing.signature, None),
        environment=ENV,
        level="program",
        repro=repro,
        verified=True,
        layer=Layer.INDUCTOR,
        evidence="Inductor is at fault: backend 'eager' passes, 'inductor' fails.",
        ablation=Ablation("program", tuple(cells(failing.signature)), Layer.INDUCTOR, chain=CHAIN, workarounds=WAYS),
        insights=("2 graph breaks in `train.py`.",),
        recipe=program.recipe,
        command="python train.py",
        captured="Its graph fails alone: 9 statements.",
        minimized="Reduced from 9 to 1 statement in 12 tries.",
        reduction=Reduction(
            9, 1, 12, 8.5, True, True, (ReductionStep("guess", 1, 4, "history/000.py", 2.5),), minimal=True,
            removals=(TriedVariant("without `relu`", "pass"),),
        ),
        twin=TwinFound("`x` is float64", "--- fails\n+++ passes\n-    x = torch.randn(4)\n+    x = 1 < 2\n"),
        program=failing.text,
        ops=ops_of(program),
        reproducer_kind=kind_of_program(repro, stored=False, included=False),
        aspects=aspects(program, program),
        log="Traceback\n<script>alert(1)</script>\nerror",
        files=(("repro.py", "run this"), ("issue.md", "to paste")),
    )  # fmt: skip
    return replace(story, **changes)
