"""A convolutional classifier whose C++ kernel does not compile.

kind:   compile-error
layer:  inductor
source: injected with torch's own switch, torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY
run:    python examples/inductor_cpp_compile_error.py
seen:   torch 2.13.0, CPU: InductorError: CppCompileError (error: 'compile' was not declared in this scope), exit 1
"""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Classifier(nn.Module):
    def __init__(self, channels=8, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        x = torch.relu(self.norm(self.stem(images)))
        x = x.mean((2, 3))
        return torch.softmax(self.head(x), -1)


def main():
    torch.manual_seed(0)
    model = torch.compile(Classifier().eval())
    with torch.no_grad():
        probabilities = model(torch.randn(4, 3, 16, 16))
    print("class of each image:", probabilities.argmax(-1).tolist())


if __name__ == "__main__":
    main()
