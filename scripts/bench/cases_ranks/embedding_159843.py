"""pytorch/pytorch#159843: Dynamo cannot trace an embedding with a sharded weight (DTensor)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor, init_device_mesh


def shard(name, module, mesh):
    for own_name, parameter in list(module.named_parameters()):
        module.register_parameter(own_name, nn.Parameter(distribute_tensor(parameter, mesh, [Shard(0)])))


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
module = distribute_module(nn.Embedding(10, 20), mesh, shard)
indices = distribute_tensor(torch.randint(0, 10, (8, 2)), mesh, [Replicate()])
print(module(indices).shape)
print(torch.compile(module)(indices).shape)
dist.destroy_process_group()
