import textwrap

import pytest

from repro_kit.graph.slice import (
    WITH_DEFINITIONS,
    WITH_OPERATORS,
    customisations,
    definitions,
    preamble_words,
)


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip()


SCRIPT = dedent(
    """
    import torch
    import os
    from torch._inductor import lowering as L

    aten = torch.ops.aten
    SCALE = 3

    def plant():
        @L.register_lowering(aten.relu.default)
        def relu(x):
            os.abort()

    @torch.library.custom_op("my::op", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return x * SCALE

    @op.register_fake
    def _(x):
        return torch.empty_like(x)

    class Model(torch.nn.Module):
        def forward(self, x):
            return op(x)

    def backend(gm, example_inputs):
        return helper(gm)

    def helper(gm):
        return gm.forward

    def main():
        torch.manual_seed(0)
        plant()
        torch.compile(Model(), backend=backend)(torch.ones(3))

    if __name__ == "__main__":
        main()
    """
)


def test_customisations_hold_what_changes_the_compiler_and_its_needs() -> None:
    text = customisations(SCRIPT)
    names: dict[str, object] = {}
    compile(text, "slice", "exec")
    for part in ("def plant", "plant()", "aten = ", "import os", "custom_op", "SCALE = 3", "register_fake"):
        assert part in text
    for part in ("torch.compile(", "class Model", "manual_seed", "def backend"):
        assert part not in text
    assert names == {}


def test_a_script_that_leaves_the_compiler_alone_has_none() -> None:
    assert customisations("import torch\nf = torch.compile(torch.sin)\nf(torch.ones(3))\n") == ""


def test_definitions_bring_what_they_call() -> None:
    text = definitions(SCRIPT, ["backend"])
    assert "def backend" in text
    assert "def helper" in text
    assert "plant" not in text


def test_a_name_that_is_not_at_top_level_has_no_definition() -> None:
    assert definitions("def f():\n    def inner(): pass\n", ["inner"]) == ""


def test_decorated_and_nested_statements_are_cut_out_whole() -> None:
    script = dedent(
        """
        from torch._dynamo import register_backend

        @register_backend
        def mine(gm, inputs):
            # why
            return gm.forward

        if __name__ == "__main__":
            import torch._dynamo.config
            torch._dynamo.config.recompile_limit = 1
        """
    )
    text = customisations(script)
    assert "@register_backend\ndef mine(gm, inputs):\n    # why\n    return gm.forward" in text
    assert "\ntorch._dynamo.config.recompile_limit = 1" in text


def test_a_function_that_changes_the_compiler_is_called_and_its_body_is_there_once() -> None:
    script = dedent(
        """
        import torch
        from torch._inductor import lowering

        def patch():
            old = lowering.lowerings["relu"]
            lowering.lowerings["relu"] = lambda x: old(x) + 1

        def run():
            torch._inductor.config.max_autotune = True
            patch()
            return torch.compile(torch.sin)(torch.ones(3))

        def main():
            return run()

        main()
        """
    )
    text = customisations(script)
    assert text.count("lowering.lowerings[") == 2
    assert text.endswith("\n\n\ntorch._inductor.config.max_autotune = True\npatch()\n")
    assert "torch.compile" not in text


def test_what_the_function_of_each_rank_changes_is_taken_out_without_its_arguments() -> None:
    source = dedent("""
        import torch
        import torch.multiprocessing as mp

        def patch(times):
            torch._inductor.decomposition.decompositions[torch.ops.aten.silu.default] = lambda x: x * times

        def worker(rank, times=2):
            mine = times + rank
            torch._inductor.config.max_autotune = bool(mine)
            most = 3
            if rank > 7 or times:
                patch(most)
            print(torch.compile(torch.nn.functional.silu)(torch.ones(rank)))
            return torch._dynamo.config

        mp.spawn(worker, args=(5,), nprocs=2)
    """)
    text = customisations(source)
    assert text.endswith("\nmost = 3\npatch(most)\n") and "max_autotune" not in text and "return" not in text


def test_the_methods_of_a_class_that_compiles_are_entered() -> None:
    source = dedent("""
        import torch

        op = torch.ops.aten.relu.default
        torch._inductor.lowering.lowerings.pop(op)

        class Trainer:
            def __init__(self, model):
                torch._inductor.config.max_autotune = model is None
                torch._inductor.config.fallback_random = True
                self.model = torch.compile(model)

            def fit(self):
                op = 7
                torch._dynamo.config.cache_size_limit = 3
                self.model(torch.ones(2))

        Trainer(torch.nn.ReLU()).fit()
    """)
    text = customisations(source)
    assert "fallback_random = True" in text and "cache_size_limit = 3" in text
    assert "max_autotune" not in text and "Trainer" not in text
    assert "lowerings.pop(op)" in text and "op = 7" not in text


def test_a_parameter_is_no_global_of_the_same_name() -> None:
    script = dedent(
        """
        from torch._inductor import lowering
        def bad(x):
            return lowering.mul(x, 2)
        lowering.lowerings["relu"] = bad
        x = load_data()
        """
    )
    assert "load_data" not in customisations(script)


def test_statements_of_one_line_are_taken_one_by_one() -> None:
    script = (
        "from torch._inductor import lowering as L; import os\nold = L.relu; print(1); L.lowerings['r'] = old  # é\n"
    )
    assert customisations(script).splitlines() == [
        "from torch._inductor import lowering as L",
        "",
        "old = L.relu",
        "L.lowerings['r'] = old",
    ]


def test_what_annotates_the_users_own_code_is_no_customisation() -> None:
    script = dedent(
        """
        import torch
        def f(x):
            torch._dynamo.graph_break()
            return x.sin()
        x = load_data()
        torch._dynamo.mark_dynamic(x, 0)
        print(f(x))
        """
    )
    assert customisations(script) == ""


@pytest.mark.parametrize(
    ("preamble", "words"),
    [
        ("", ""),
        ("@torch.library.custom_op('a::b', mutates_args=())\ndef b(x):\n    return x", WITH_OPERATORS),
        ("from torch import library\nlib = library.Library('a', 'DEF')", WITH_OPERATORS),
        ("from torch._inductor import lowering\nlowering.lowerings.clear()", WITH_DEFINITIONS),
        ("torch.library.define('a::b', '() -> ()')\ntorch._inductor.config.x = 1", WITH_DEFINITIONS),
    ],
)
def test_a_preamble_is_called_what_it_has(preamble: str, words: str) -> None:
    assert preamble_words(preamble) == words


def test_a_loaded_extension_defines_operators() -> None:
    script = dedent(
        """
        import torch
        from torch.utils.cpp_extension import load_inline

        SOURCE = "TORCH_LIBRARY(mine, m) {}"
        UNUSED = 1
        load_inline("mine", SOURCE, is_python_module=False)
        torch.ops.load_library("other.so")
        torch.compile(torch.ops.mine.twice)(torch.ones(3))
        """
    )
    text = customisations(script)
    for part in ("import load_inline", "SOURCE = ", "load_inline(", "load_library("):
        assert part in text
    for part in ("UNUSED", "torch.compile"):
        assert part not in text
