"""Further runs of the subject, to collect more: what the user asks for, and Dynamo's verbose log."""

from __future__ import annotations

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.model.failure.failure import Kind
from repro_kit.runner.launch import exit_name
from repro_kit.session.options import Options
from repro_kit.session.script_run import run_subject
from repro_kit.ui import Ui

#: Values of --logs that stand for several of TORCH_LOGS' options.
PRESETS = {
    "dynamo": "+dynamo,graph_breaks,guards,recompiles,trace_source,trace_bytecode,bytecode",
    "aot": "+aot,aot_graphs,aot_joint_graph",
    "inductor": "+inductor,schedule,fusion,output_code,post_grad_graphs",
    "dynamic": "+dynamic,guards,recompiles",
    "perf": "perf_hints,graph_breaks,recompiles,cudagraphs",
}

_VERBOSE = "+dynamo,trace_source,trace_bytecode"
_KEPT = 400  # lines of the verbose log


def runs(case: Case, options: Options, ui: Ui, found: list[ObservedFailure]) -> None:
    """Make the further runs that are called for; each leaves its files below `observe/`."""
    if options.logs or options.debug_artifacts or options.function:
        ui.progress("running again to collect more")
        ended = _run(case, options, "extra", _wanted(case, options))
        ui.note(f"Further logs are in {case.path / 'observe' / 'extra'} ({ended}).")
    if found and found[0].failure.kind == Kind.DYNAMO_ERROR:
        ui.progress("running again with Dynamo's verbose log")
        _run(case, options, "dynamo", {"TORCH_LOGS": _VERBOSE})
        log = case.path / "observe" / "dynamo" / "stderr.txt"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_KEPT:]
        log.unlink()
        (case.path / "observe" / "logs" / "dynamo_last.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _wanted(case: Case, options: Options) -> dict[str, str]:
    env: dict[str, str] = {}
    if options.logs:
        env["TORCH_LOGS"] = PRESETS.get(options.logs, options.logs)
    if options.debug_artifacts:
        env["TORCH_COMPILE_DEBUG"] = "1"
        env["TORCH_COMPILE_DEBUG_DIR"] = str(case.path.absolute() / "observe" / "extra")
    if options.function:
        env["TORCHDYNAMO_DEBUG_FUNCTION"] = options.function
    return env


def _run(case: Case, options: Options, name: str, wanted: dict[str, str]) -> str:
    place = case.path / "observe" / name
    return exit_name(run_subject(case, place, timeout=options.timeout, env=wanted))
