"""The backend of the graphs that DDP has Dynamo split."""

import pytest


@pytest.mark.torch
def test_it_is_the_users_and_not_what_splits_the_graphs() -> None:
    from torch._dynamo.backends.distributed import DDPOptimizer
    from torch._dynamo.backends.registry import lookup_backend

    from repro_probe.record.graph import backend_of

    own = lookup_backend("aot_eager")
    assert backend_of(DDPOptimizer(1 << 30, own).compile_fn) == backend_of(own)
