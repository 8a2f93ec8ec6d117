"""A loaded package of AOTInductor returns a wrong result: a buffer is cleared after it was merged (issue 198094)."""

import torch
import torch._inductor


class Window(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(6)

    def forward(self, cache, rows):
        rows = self.norm(rows)
        merged = torch.slice_scatter(cache, rows[1:3], dim=0, start=1, end=3)
        score = (merged * rows).sum(-1)
        cache.zero_()
        return merged, score


def main():
    torch.manual_seed(0)
    cache, rows = torch.randn(4, 6), torch.randn(4, 6)
    window = Window().eval()
    with torch.no_grad():
        merged, score = window(cache.clone(), rows)
        package = torch._inductor.aoti_compile_and_package(torch.export.export(window, (cache.clone(), rows)))
        loaded_merged, loaded_score = torch._inductor.aoti_load_package(package)(cache.clone(), rows)
    assert torch.allclose(score, loaded_score), "score"
    assert torch.allclose(merged, loaded_merged, atol=1e-5), "merged"


if __name__ == "__main__":
    main()
