"""The aten border: the graphs of a program that Inductor compiles, each as a program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from repro_kit.errors import ReproKitError
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import judged_as
from repro_kit.program import Program
from repro_kit.program.plain import runnable
from repro_kit.program.python_code import joined
from repro_kit.program.reading.from_runnable import from_runnable
from repro_kit.runner.compiler import give_probes
from repro_kit.runner.launch import launch
from repro_kit.runner.places import temporary_variables
from repro_kit.runner.scratch import scratch
from repro_kit.trace.reader import read
from repro_kit.trace.runnables import artifacts


def aten_programs(program: Program, inputs: Path, python: str, kind: Kind, timeout: float) -> Iterator[Program]:
    """The `fx_graph_runnable` artifacts in the trace of a run of `program`; unusable artifacts are left out.

    A backward graph becomes a forward graph. A trace has no values, so floats are random. `inputs`: the directory of
    the stored values. `timeout`: seconds for the run.
    """
    with scratch() as directory:
        (directory / "program.py").write_text(runnable(program), encoding="utf-8")
        (directory / "inputs").symlink_to(inputs.resolve())
        plain = {key: value for key, value in os.environ.items() if not key.startswith("TORCH")}
        give_probes(python, directory / "cache")
        launch(
            [python, str(directory / "program.py")],
            cwd=directory,
            env={
                **plain,
                **temporary_variables(),
                "TORCH_TRACE": str(directory / "trace"),
                "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache"),
            },
            timeout=timeout,
            stdout=directory / "stdout.txt",
            stderr=directory / "stderr.txt",
        )
        runnables = artifacts(read(directory / "trace")) if (directory / "trace").is_dir() else []
    recipe = program.recipe
    for artifact in runnables:
        try:
            aten = from_runnable(artifact.text)
        except ReproKitError:
            continue
        carried = {**judged_as(kind), "threads": recipe.threads, "env": recipe.env, "memory": recipe.memory}
        imports = tuple(dict.fromkeys((*program.imports, *aten.imports)))
        yield aten.with_(
            recipe=aten.recipe.with_(**carried), imports=imports, preamble=joined((aten.preamble, program.preamble))
        )
