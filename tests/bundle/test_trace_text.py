import hashlib

from repro_kit.bundle.contents import Contents
from repro_kit.bundle.redact import Redactor

HEAD = "V1121 04:31:32.007000 7150 torch/_dynamo/utils.py:2350] "


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def test_a_redacted_trace_has_the_checksums_of_its_new_payloads_and_of_the_old_ones() -> None:
    kept, private = "one\ntwo", "see /srv/people/eve/model.py"
    text = (
        f'{HEAD}{{"artifact": {{"name": "a"}}, "has_payload": "{md5(kept)}"}}\n\tone\n\ttwo\n'
        f'{HEAD}{{"artifact": {{"name": "b"}}, "has_payload": "{md5(private)}"}}\n\t{private}\n'
    )
    contents = Contents(Redactor(paths=[("/srv/people/eve", "<home>")]))
    contents.add_text("trace/a.log", text, "trace")
    packed = contents.entries["trace/a.log"].data.decode()
    assert md5(kept) in packed
    assert md5("see <home>/model.py") in packed
    assert "eve" not in packed
    assert "REDACTED_" not in packed
