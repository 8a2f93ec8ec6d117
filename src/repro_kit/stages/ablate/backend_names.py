"""Check that the torch of the case knows the backends and settings that the user named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.errors import StageError, UsageError
from repro_kit.probe.repro_probe.protocol.programs import NamesData
from repro_kit.runner.ask import NoAnswer, Probe, Question
from repro_kit.session.oracles import open_oracle
from repro_kit.stages.ablate.matrix import MODES, Modes

_QUESTION = Question(seconds=180, module="repro_probe.common.torch_environment")


def check_names(case: Case, backends: Sequence[str], settings: Sequence[str]) -> None:
    """Raise ReproKitError for a backend or a setting that is unknown in the case's interpreter.

    A name in the script counts as known too: the script may register a backend, or define one as a function.
    """
    if not backends and not settings:
        return
    unknown = unknown_names(case, backends, settings)
    if unknown["settings"]:
        raise UsageError(f"--axis: the torch of {case.file.subject.python} has no setting {unknown['settings'][0]}.")
    file_texts = texts(case)
    missing = [name for name in unknown["backends"] if not any(name in text for text in file_texts)]
    if missing:
        raise UsageError(
            f"--backend: {missing[0]} is neither a backend that torch knows (torch._dynamo.list_backends()), nor a name"
            " in the script, nor a MODULE:FUNCTION that can be imported."
        )


def unknown_names(case: Case, backends: Sequence[str], settings: Sequence[str]) -> NamesData:
    """Those of the names that the torch of the case does not know. Raises StageError if it cannot be asked."""
    request: NamesData = {"backends": list(backends), "settings": list(settings)}
    python = case.file.subject.python
    try:
        return Probe(python, Path(case.file.subject.cwd)).ask(_QUESTION, NamesData, request)
    except NoAnswer as error:
        raise StageError(f"{python} could not list its backends and settings ({error.said}).") from error


def modes_of(case: Case) -> Modes:
    """The modes of the case's torch with their options; those of torch 2.13 if it cannot list them."""
    with open_oracle(case) as oracle:
        return oracle.capabilities().get("modes") or MODES


def texts(case: Case) -> list[str]:
    """The texts of the files that the command names."""
    paths = [Path(case.file.subject.cwd) / word for word in case.file.subject.argv]
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()]
