"""The JSON Schemas are those of the classes, and what is written keeps to them."""

import json
import tomllib
from dataclasses import MISSING

import jsonschema
import pytest

from planted_secrets import case, with_program
from repro_kit.bundle.archive.manifest import PLACE, SCHEMAS, Manifest, schemas
from repro_kit.case.case import Case
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.failure.failure import ExceptionLink, Failure, Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.options.stages import BundleOptions
from repro_kit.recipe import Autocast, Recipe
from repro_kit.serialize import to_data
from repro_kit.stages.bundle import stage
from repro_kit.ui import SilentUi
from root import ROOT

__all__ = ["case"]

DOCS = ROOT / "docs" / "reference" / "bundle-format.md"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_packaged_file_is_up_to_date(name: str) -> None:
    packaged = json.loads((PLACE / f"{name}.schema.json").read_text())
    assert packaged == schemas()[name], "python -m repro_kit.bundle.archive.manifest writes it"
    jsonschema.Draft202012Validator.check_schema(packaged)


@pytest.mark.parametrize("level", ["script", "program"])
def test_what_a_bundle_holds_keeps_to_them(case: Case, level: str) -> None:
    if level == "program":
        with_program(case)
    stage.run(case, BundleOptions(trace="yes"), SilentUi())
    seen = set()
    for name, (file, _) in SCHEMAS.items():
        path = case.path / "bundle" / file
        if path.is_file():
            data = tomllib.loads(path.read_text()) if path.suffix == ".toml" else json.loads(path.read_text())
            jsonschema.validate(data, schemas()[name])
            seen.add(name)
    assert seen >= {"manifest", "environment", "redactions", "story", *(["recipe"] if level == "program" else [])}


def test_a_full_ablation_keeps_to_its_schema() -> None:
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("E", "m"),), tolerance=(0.1, 0.2))
    recipe = Recipe(autocast=Autocast("cuda"), config={"inductor.cpp.simdlen": 8}, options={"a": [1, None]}, rtol=1e-3)
    cell = Cell("a", True, recipe, Verdict(Status.FAIL, failure), Signature(Kind.CRASH), changed={"x": 1})
    data = json.loads(json.dumps(to_data(Ablation("program", (cell,), Layer.INDUCTOR, recipe=recipe))))
    jsonschema.validate(data, schemas()["ablation"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "layer": "kernel"}, schemas()["ablation"])


def test_every_field_and_role_is_documented(case: Case) -> None:
    stage.run(case, BundleOptions(trace="yes"), SilentUi())
    text = DOCS.read_text()
    manifest = json.loads((case.path / "bundle/manifest.json").read_text())
    fields = Manifest.__dataclass_fields__
    needed = {name for name, it in fields.items() if it.default is MISSING}
    assert needed <= set(manifest) <= set(fields)
    words = {*manifest, *(it["role"] for it in manifest["files"]), *manifest["files"][0], *SCHEMAS}
    assert {word for word in words if word not in text} == set()
