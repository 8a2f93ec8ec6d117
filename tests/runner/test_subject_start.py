from repro_kit.case.case import Subject
from repro_kit.probe.repro_probe.protocol.recipe_data import CONFIG_MODULES
from repro_kit.runner.subject_start import command_with


def test_a_command_with_settings_names_the_config_module_of_each() -> None:
    script = Subject(form="script", argv=("train.py", "--fast"), cwd="/work", python="python")
    python, flag, code, *rest = command_with(script, {f"{short}.key": 1 for short in CONFIG_MODULES})
    assert (python, flag, rest) == ("python", "-c", ["--fast"])
    assert code.startswith("import runpy, ")
    for module in CONFIG_MODULES.values():
        assert f"{module}.key = 1" in code
        assert module in code.partition(";")[0]
