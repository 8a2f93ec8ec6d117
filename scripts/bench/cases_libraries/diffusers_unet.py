"""A UNet of diffusers, made from a configuration, whose compiled ReLU is wrong. Needs the package diffusers."""

import torch
import torch._inductor.config
from diffusers import UNet2DModel

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    act_fn="relu",
    norm_num_groups=8,
).eval()
sample, step = torch.randn(1, 3, 16, 16), torch.tensor([7])
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(sample, step).sample, model(sample, step).sample)
