"""Devices of a program, the program on the CPU, and with other sizes."""

from repro_kit.graph import parse, render
from repro_kit.graph.placement import devices_in, on_cpu
from repro_kit.graph.sizes import with_other_sizes
from repro_kit.recipe import Autocast, Recipe

TEXT = """# repro-kit program 1
import pathlib

import torch
from torch import device, inf, nan

RECIPE = {'contexts': ["torch.device('cuda:0')"]}


def graph(x, y):
    a = x.to(device(type='cuda', index=0))
    b = torch.full((4, 8), 1.0, device='cuda:1')
    c = a.view(32) + b.cuda(0).view(32)
    d = c.to('cpu')
    e = torch.cuda.current_device()
    return (d, e, y)


def calls():
    x = torch.randn(4, 8, device='cuda:0')
    y = torch.empty_like(x, device=torch.device('cuda'))
    return [(x, y)]
"""


def test_every_place_that_names_a_device_is_moved() -> None:
    program = parse(TEXT)
    program = program.with_(recipe=program.recipe.with_(autocast=Autocast(device="cuda", dtype="float16")))
    assert devices_in(program) == {"cuda"}
    moved = on_cpu(program, ("cuda",))
    assert devices_in(moved) == frozenset()
    assert moved.recipe.autocast == Autocast(device="cpu", dtype="float16")
    assert moved.recipe.contexts == ("torch.device('cpu')",)
    text = render(moved)
    assert "x = torch.randn(4, 8)\n" in text
    assert "a = x.to(device('cpu'))" in text
    assert "b = torch.full((4, 8), 1.0, device='cpu')" in text
    assert "b.cpu().view(32)" in text
    assert "y = torch.empty_like(x, device=torch.device('cpu'))" in text
    assert "e = torch.cuda.current_device()" in text  # only a run tells whether the CPU has it
    assert render(parse(text)) == text


def test_a_program_on_the_cpu_and_other_devices_stay() -> None:
    program = parse(TEXT)
    assert on_cpu(program, ("xpu",)) == program
    plain = on_cpu(program, ("cuda",))
    assert on_cpu(plain, ("cuda",)) == plain
    assert devices_in(parse(TEXT.replace("cuda", "xpu"))) == {"xpu"}
    assert devices_in(plain.with_(recipe=Recipe())) == frozenset()


def test_sizes_become_larger_and_smaller_and_stay_consistent() -> None:
    program = on_cpu(parse(TEXT), ("cuda",))
    variants = dict(with_other_sizes(program))
    assert "x = torch.randn(16, 32)" in render(variants["every size times 4"])
    alone = render(variants["size 8 times 0.5"])
    assert "x = torch.randn(4, 4)" in alone and "view(16)" in alone  # 32 is a multiple of 8
    assert len(variants) <= 10 and program not in variants.values()


def test_a_variant_does_not_become_huge() -> None:
    program = on_cpu(parse(TEXT.replace("randn(4, 8,", "randn(4096, 4096,")), ("cuda",))
    assert all("times 4" not in words and "times 16" not in words for words, _ in with_other_sizes(program))
