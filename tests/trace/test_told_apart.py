"""Compiles are told apart by process, rank and run of ids, and every page counts them alike."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from repro_kit.explain.report import ExplainReport, page
from repro_kit.explain.sections import sections
from repro_kit.explain.sentences import sentences
from repro_kit.session.explained import Explained, context_of
from repro_kit.trace.extraction import listed
from repro_kit.trace.insights import gather
from repro_kit.trace.insights.breaks import ExportKind
from repro_kit.trace.reader import read

FIXTURES = Path(__file__).parent / "fixtures" / "insights"
CASES = ("four_sizes_static.log", "breaks_on_data.log", "hit_limit.log", "hit_limit.txt")


def numbers(totals, factor=1):
    fields = ("compiles", "graphs", "recompiles", "limit_hits", "graph_breaks", "failures")
    return {name: factor * getattr(totals, name) for name in fields}


def other_process(text):
    return re.sub(r"^([VIWEC]\d{4} \S+) (\d+) ", lambda match: f"{match[1]} {int(match[2]) + 1} ", text, flags=re.M)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("again", [str, other_process], ids=["the same process", "another process"])
def test_a_log_that_begins_anew_counts_twice(tmp_path, case, again):
    text = (FIXTURES / case).read_text()
    once = gather(FIXTURES / case)
    (tmp_path / case).write_text(text + again(text))
    twice = gather(tmp_path / case)
    assert numbers(twice.totals) == numbers(once.totals, 2)
    assert twice.totals.functions == once.totals.functions and twice.overview.anew == 1
    assert twice.overview.guards == 2 * once.overview.guards
    assert [recompiled.count for recompiled in twice.recompiles] == 2 * [one.count for one in once.recompiles]


def test_artifacts_of_two_runs_of_ids_have_two_paths(tmp_path):
    text = (FIXTURES / "four_sizes_static.log").read_text()
    (tmp_path / "a.log").write_text(text + text)
    paths = [info.path for info in listed(read(tmp_path / "a.log"))]
    assert len(paths) == len(set(paths))


def ranked(directory, changes, name="rank_{}.log"):
    """A job whose ranks ran one program; `changes` are made to the text of each rank."""
    text = (FIXTURES / "four_sizes_static.log").read_text()
    for rank, change in enumerate(changes):
        log = re.sub(r'("frame_id": )', rf'"rank": {rank}, \1', text)
        (directory / name.format(rank)).write_text(change(log))
    return gather(directory)


def test_ranks_that_differ_in_device_port_and_directory_alone_agree(tmp_path):
    said = "        # File: /home/rank{0}/job/a.py:3 in f, code: to(device(type='cuda', index={0})), "
    said += "'cuda:{0}', rank={0}, tcp://10.0.0.{0}:295{0}{0}\n\t"
    job = ranked(
        tmp_path,
        [
            lambda log, rank=rank: log.replace("\tclass GraphModule", f"\t{said.format(rank)}class GraphModule")
            for rank in (0, 1)
        ],
    )
    assert job.ranks.ranks == (0, 1) and job.ranks.divergences == ()
    assert job.parting is None


def test_ranks_whose_graphs_differ_are_told(tmp_path):
    job = ranked(tmp_path, [str, lambda log: log.replace("relu + 1", "relu + 2")])
    assert {divergence.what for divergence in job.ranks.divergences} == {"graph"}


def test_the_same_ranks_that_differ_in_many_compiles_are_one_divergence(tmp_path):
    job = ranked(tmp_path, [str, str, lambda log: log.replace("relu + 1", "relu + 2")])
    (one,) = job.ranks.divergences
    assert one.compile_ids == ("0/0", "0/1", "0/2", "0/3")
    assert [ranks for _, ranks in one.groups] == [(0, 1), (2,)]
    ranks = next(section for section in sections(context_of(job, tmp_path)) if section.name == "ranks")
    titles = [item.title for item in ranks.items]
    assert ranks.summary == "1 divergence" and titles[-1] == "0/0, 0/1, 0/2, 0/3: the graphs differ"


def test_other_results_of_a_cache_are_another_divergence(tmp_path):
    for rank in (0, 1):
        told = ("hit", "miss") if rank else ("miss", "hit")
        records = (
            written(
                {"artifact": {"name": f"fx_graph_cache_{result}", "encoding": "json"}},
                {}, rank=rank, frame_id=frame, frame_compile_id=0, attempt=0,
            )
            for frame, result in enumerate((*told, told[0]))
        )  # fmt: skip
        (tmp_path / f"rank_{rank}.log").write_text("".join(records))
    assert [one.compile_ids for one in gather(tmp_path).ranks.divergences] == [("0/0", "2/0"), ("1/0",)]


def test_ranks_are_those_of_the_file_names_where_no_record_tells_them(tmp_path):
    text = (FIXTURES / "four_sizes_static.log").read_text()
    for rank in (0, 5):
        (tmp_path / f"dedicated_log_torch_trace_rank_{rank}_ab.log").write_text(text)
    job = gather(tmp_path)
    assert job.overview.ranks == job.ranks.ranks == (0, 5)
    assert len(job.ranks.named) == 2


def test_a_copied_log_keeps_the_rank_of_its_name(tmp_path):
    ranked(tmp_path, [str, str])
    (tmp_path / "rank_2.log").write_text((tmp_path / "rank_1.log").read_text())
    job = gather(tmp_path)
    assert job.ranks.ranks == (0, 1, 2) and job.ranks.named == ("rank_2.log",)
    assert len(set(job.ranks.compiles.values())) == 1


def written(event, payload=None, **context):
    """One record as torch writes it."""
    text = json.dumps(payload) if payload is not None else ""
    digest = {"has_payload": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()} if text else {}
    head = f"V1120 17:29:59.000000 4244 torch/_inductor/debug.py:764] {json.dumps({**event, **context, **digest})}\n"
    return head + (f"\t{text}\n" if text else "")


def test_runtimes_tensors_and_the_order_of_graphs_are_compared_over_ranks(tmp_path):
    at = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    for rank, (size, order) in enumerate([(4, ["0/0", "1/0"]), (4, ["0/0", "1/0"]), (8, ["1/0", "0/0"])]):
        op = {"name": "mm", "type": "compute", "estimated_runtime_ns": 1e6 * size, "outputs": [{"shape": [size]}]}
        meta = {"artifact": {"name": "inductor_runtime_and_tensor_meta", "encoding": "json"}}
        ran = {"artifact": {"name": "graph_execution", "encoding": "json"}}
        steps = {"graph_execution_order": [{"compile_id": one} for one in order]}
        log = written(meta, {"ops": [op]}, rank=rank, **at) + written(ran, steps, rank=rank)
        (tmp_path / f"rank_{rank}.log").write_text(log)
    ranks = gather(tmp_path).ranks
    assert ranks.runtimes == {0: 0.004, 1: 0.004, 2: 0.008}
    (uneven,) = ranks.uneven
    assert (uneven.compile_id, uneven.seconds, uneven.spread) == ("0/0", ranks.runtimes, 0.004)
    assert [text for text, _ in ranks.divergences[1].groups] == [
        "operator 1: mm makes [4]", "operator 1: mm makes [8]",
    ]  # fmt: skip
    assert [(one.what, one.compile_id, [at for _, at in one.groups]) for one in ranks.divergences] == [
        ("order", "", [(0, 1), (2,)]), ("tensors", "0/0", [(0, 1), (2,)]),
    ]  # fmt: skip


def test_what_draft_export_worked_around_is_told(tmp_path):
    names = {"str": ["/me/model.py", 1]}
    stack = [{"line": 279, "name": "forward", "filename": 1, "loc": "return z[:a]"}]
    data = {"propagate_real_tensors_provenance": {"expr": "Eq(u0, 3)", "result": "False", "user_stack": stack}}
    guard = {"guard_added": {"expr": "Eq(s0, 3)", "prefix": "eval", "user_stack": stack}}
    kernel = {"missing_fake_kernel": {"op": "mylib::f"}}
    (tmp_path / "export.log").write_text("".join(written(one) for one in (names, guard, data, data, kernel)))
    exports = gather(tmp_path / "export.log").exports
    assert [(one.kind, one.what, one.result, one.count) for one in exports] == [
        (ExportKind.GUARD, "Eq(s0, 3)", "", 1),
        (ExportKind.DATA, "Eq(u0, 3)", "False", 2),
        (ExportKind.MISSING, "mylib::f", "", 1),
    ]
    assert exports[1].where.file == "/me/model.py" and exports[1].where.line == 279
    (tmp_path / "compile.log").write_text("".join(written(one) for one in (names, guard)))
    assert gather(tmp_path / "compile.log").exports == ()


WORDS = {
    "compiles": r"(?<!limit of )\b(\d+) compiles?(?=: \d| of \d)",
    "graphs": r"(\d+) graphs? (?:was|were) compiled of",
    "functions": r"\b(?:compiled|compiles?) of (\d+) functions?",
    "graph_breaks": r"(\d+) graph breaks? at",
    "places_of_breaks": r"graph breaks? at (\d+) places?",
    "recompiles": r"(\d+) recompiles? of",
    "recompiled_functions": r"recompiles? of (\d+) functions?",
    "limit_hits": r"(\d+) compiles? refused",
    "failures": r"(\d+) compiles? failed",
}


@pytest.mark.parametrize(
    "case", [path.name for path in sorted(FIXTURES.glob("*.*")) if path.suffix in (".log", ".txt")]
)
def test_every_page_has_the_counts_of_one_table(case):
    insights = gather(FIXTURES / case)
    context = context_of(insights, Path("/nowhere"))
    said = sentences(context, ())
    report = ExplainReport(case, said, sections(context, ""))
    shown = " ".join([*(one.text for one in said), *(f"{one.title}: {one.summary}." for one in report.sections)])
    html = re.sub(r"<[^>]+>", " ", page(report))
    totals = insights.totals
    assert Explained(case, said, (), insights).as_json()["insights"]["totals"].get("compiles", 0) == totals.compiles
    for name, pattern in WORDS.items():
        found = {int(number) for text in (shown, html) for number in re.findall(pattern, text)}
        assert found <= {getattr(totals, name)}, name
    if not insights.text:
        assert totals.compiles == sum(totals.states.values()) == len(insights.overview.compiles)
        assert totals.graph_breaks >= totals.places_of_breaks
