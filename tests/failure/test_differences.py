"""How differences between eager and compiled results are told."""

from repro_kit.failure.differences import SettingTried


def test_a_setting_that_does_not_help_does_not_read_as_one_that_does() -> None:
    assert SettingTried("x=True", False, 1.8e-05).ending == "still differs from eager, by 1.8e-05 at most"
    assert SettingTried("x=True", True, 1.8e-05).ending == "differs from eager by 1.8e-05 at most, which agrees"
    assert SettingTried("x=True", True, 0.0).ending == "gives eager's results bit for bit"
