"""The handles of a case's result files: the stage that writes each one, its path, and its class."""

from __future__ import annotations

from repro_kit.case.case import ResultFile
from repro_kit.case.stage_results import (
    BuildsTried,
    BundleResult,
    Capture,
    Environment,
    Observation,
    ObservedFailure,
    Reduction,
)
from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.failure.rounding import Rounding
from repro_kit.model.measure.symptom import Symptom

ENVIRONMENT = ResultFile("observe", "env.json", Environment)
OBSERVATION = ResultFile("observe", "observe/run.json", Observation)
FAILURE = ResultFile("observe", "observe/failure.json", ObservedFailure)
SYMPTOM = ResultFile("observe", "observe/symptom.json", Symptom)
ROUNDING = ResultFile("observe", "observe/rounding.json", Rounding)
CAPTURE = ResultFile("capture", "capture/capture.json", Capture)
ABLATION = ResultFile("ablate", "ablation.json", Ablation)
REDUCTION = ResultFile("minify", "minify/minify.json", Reduction)
SOURCE_REDUCTION = ResultFile("minify", "minify/source/minify.json", Reduction)
REDUCED_FAILURE = ResultFile("minify", "minify/failure.json", ObservedFailure)  # of the reduced program
SOURCE_FAILURE = ResultFile("minify", "minify/source/failure.json", ObservedFailure)  # of the reduced script
BUNDLE = ResultFile("bundle", "bundle.json", BundleResult)
RELEASES = ResultFile("bundle", "releases.json", BuildsTried)  # of `verify --on`
