"""More runs of the subject, to collect logs and artifacts that the user asks for."""

from __future__ import annotations

from repro_kit.case.case import Case
from repro_kit.runner.launch import exit_name
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script.script_run import SubjectRun, run_subject
from repro_kit.ui import Ui

#: Values of --logs that stand for several options of TORCH_LOGS.
PRESETS = {
    "dynamo": "+dynamo,graph_breaks,guards,recompiles,trace_source,trace_bytecode,bytecode",
    "aot": "+aot,aot_graphs,aot_joint_graph",
    "inductor": "+inductor,schedule,fusion,output_code,post_grad_graphs",
    "dynamic": "+dynamic,guards,recompiles",
    "perf": "perf_hints,graph_breaks,recompiles,cudagraphs",
}


def runs(case: Case, options: ObserveOptions, ui: Ui) -> None:
    """Make the runs that the options ask for; their files go below `observe/`."""
    if options.logs or options.debug_artifacts or options.function:
        ui.progress("running again to collect more")
        ended = _run(case, options, "extra", _wanted(case, options))
        ui.note(f"More logs are in {case.path / 'observe' / 'extra'} ({ended}).")


def _wanted(case: Case, options: ObserveOptions) -> dict[str, str]:
    env: dict[str, str] = {}
    if options.logs:
        env["TORCH_LOGS"] = PRESETS.get(options.logs, options.logs)
    if options.debug_artifacts:
        env["TORCH_COMPILE_DEBUG"] = "1"
        env["TORCH_COMPILE_DEBUG_DIR"] = str(case.path.absolute() / "observe" / "extra")
    if options.function:
        env["TORCHDYNAMO_DEBUG_FUNCTION"] = options.function
    return env


def _run(case: Case, options: ObserveOptions, name: str, variables: dict[str, str]) -> str:
    directory = case.path / "observe" / name
    run = SubjectRun(directory, why="further logs were asked for", timeout=options.timeout, env=variables)
    return exit_name(run_subject(case, run))
