"""Tokens of services, private paths and addresses are gone from texts of every kind; what a report needs stays."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.bundle.privacy.redact import Redactor
from samples.private_addresses import HARMLESS, leaf_alone, planted
from samples.secret_samples import CONTEXTS, FORMS, left_of, sample


def redacted(text, name="text.txt"):
    redactor = Redactor()
    redactor.learn(text, name)
    return redactor.redact(text, name).text


def test_forms_and_contexts_are_as_many_as_promised():
    assert len(FORMS) >= 40 and len(CONTEXTS) >= 12


def test_a_key_that_begins_like_a_hex_number_goes_and_an_address_stays():
    key = "0Xu2iJgoBLYZRZNmYX+NGCMOnEXSNekyy9Gy85AhZeCKU+kW5K1q9dk/iTfNvGcsZg1r47rRTBlHXAvj8cRxZQ=="
    assert redacted(f"argv: ['train.py', '--azure-key', '{key}']").count("REDACTED") == 1
    assert "0Xu2" not in redacted(f"argv: ['train.py', '--azure-key', '{key}']")
    address = "<function main at 0x7f3d44114410>, token 0xFFFFFFFFFFFFFFFFull"
    assert redacted(address) == address


# A key without a prefix is known by its randomness alone: now and then chance makes one that could be written.
PREFIXED = sorted(set(FORMS) - {"comet", "cohere", "aws secret", "heroku"})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PREFIXED), st.sampled_from(sorted(CONTEXTS)), st.integers(0, 2**32))
def test_no_piece_of_a_token_is_left(form, context, seed):
    case = sample(form, context, random.Random(seed))
    assert left_of(case, redacted(case.text, case.name)) == ""


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_is_known_in_a_message(form):
    case = sample(form, "message", random.Random(7))
    assert left_of(case, redacted(case.text)) == ""


@pytest.mark.parametrize("length", [32, 40])
def test_an_unquoted_hex_key_goes_and_a_sum_stays(length):
    key = "9f8e7d6c5b4a3f2e1d0c9b8a7f6e5d4c3b2a1f0e"[:length]
    assert key not in redacted(f"wandb: ERROR api key {key} is invalid")
    assert key not in redacted(f"denied: {key}")
    for before in ("torch git version: ", '"has_payload": "', "commit ", "sha256: "):
        assert key in redacted(f"{before}{key}")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_a_report_needs_stays(text):
    assert redacted(text) == text
    assert redacted(f"RuntimeError: {text}") == f"RuntimeError: {text}"


@pytest.mark.parametrize("case", planted(240, seed=1), ids=lambda case: case.form)
def test_a_private_path_host_or_address_is_gone(case):
    text = redacted(case.text, case.name)
    assert not [private for private in case.private if private in text]


@pytest.mark.parametrize("case", leaf_alone(10, seed=1), ids=lambda case: case.private[0])
def test_the_name_of_a_data_file_is_gone_without_its_path_too(case):
    assert case.private[0] not in redacted(case.text)


def test_a_data_file_keeps_its_extension_and_code_its_name():
    text = "open('/mnt/data/umbrella-customers-2024.csv') in /mnt/code/train.py; umbrella-customers-2024.csv is empty"
    assert redacted(text) == "open('<dir-1>/<file-1>.csv') in <dir-2>/train.py; <file-1>.csv is empty"


def test_a_data_file_is_known_from_another_text():
    redactor = Redactor()
    redactor.learn("s3://bucket/eu/umbrella-customers-2024.parquet")
    assert "umbrella" not in redactor.redact("row 3 of umbrella-customers-2024.parquet").text


def test_the_letter_of_an_escape_is_no_part_of_a_secret():
    assert redacted(r'{"at": "x\nalice@umbrella.museum\nZk4Qw8Rt2Yp6Lm9Xv3Nb"}').count(r"\n") == 2


def test_products_of_matrices_in_code_are_no_mail():
    code = "def f(x, w):\n    return x@w.museum + x@w.T\n"
    assert redacted(code, "train.py") == code
