import hashlib
import json

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.redact_files import without_model_code

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


def test_the_course_of_a_compilation_names_no_value_and_quotes_no_line() -> None:
    metrics = {
        "co_name": "forward",
        "graph_node_shapes": "{'l_sauce_': [3]}",
        "exception_stack_trace": ["x = self.sauce(x)"],
    }
    event = json.dumps({"name": "compile", "ts": 1.5, "args": {**metrics, "graph_op_count": 2}}, indent=0)
    payload = "".join(f"\t{line}\n" for line in event.splitlines())
    text = without_model_code(
        f'{HEAD}{{"dynamo_output_graph": {{"sizes": {{"l_sauce_": [3]}}}}, "has_payload": "0"}}\n\tclass G: sauce\n'
        f'{HEAD}{{"compilation_metrics": {json.dumps(metrics)}}}\n'
        f'{HEAD}{{"chromium_event": {{}}, "has_payload": "{md5(event)}"}}\n{payload}'
        f'{HEAD}{{"chromium_event": {{}}, "has_payload": "1"}}\n\tno JSON, sauce\n'
    )
    assert "sauce" not in text
    assert all(it in text for it in ('"co_name":"forward"', '"graph_op_count":2', '"ts":1.5', "dynamo_output_graph"))
    assert text.count('"payload_left_out":true') == 2
