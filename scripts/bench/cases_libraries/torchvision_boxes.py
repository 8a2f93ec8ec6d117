"""A small detector of torchvision, whose compiled ReLU is wrong; its graphs hold operators of torchvision."""

import torch
import torch._inductor.config
import torchvision
from torchvision.ops import MultiScaleRoIAlign, box_iou, nms

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        resnet = torchvision.models.resnet18(weights=None)
        self.stem = torch.nn.Sequential(resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool, resnet.layer1)
        self.align = MultiScaleRoIAlign(["0"], output_size=3, sampling_ratio=2)
        self.head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64 * 9, 8))

    def forward(self, images, boxes):
        features = self.stem(images)
        pooled = self.align({"0": features}, [boxes], [(64, 64)])
        return self.head(pooled), box_iou(boxes, boxes)


torch.manual_seed(0)
model = Detector().eval()
images = torch.rand(1, 3, 64, 64)
corners = torch.rand(6, 2) * 30
boxes = torch.cat([corners, corners + 20], 1)
boxes = boxes[nms(boxes, torch.rand(6), 0.9)]
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(images, boxes), model(images, boxes), rtol=1e-3, atol=1e-3)
