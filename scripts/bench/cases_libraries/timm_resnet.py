"""The gradients of a small ResNet of timm, whose compiled ReLU is wrong. Needs the package timm."""

import timm
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
model = timm.create_model("resnet10t", pretrained=False, num_classes=4).eval()
image = torch.randn(2, 3, 64, 64)


def gradient(function):
    model.zero_grad()
    function(image).square().sum().backward()
    return model.fc.weight.grad.clone()


torch.testing.assert_close(gradient(torch.compile(model)), gradient(model))
