"""A training step of a small Llama of transformers, whose compiled ReLU does not compile. Needs transformers."""

import torch
import torch._inductor.config
from transformers import LlamaConfig, LlamaForCausalLM

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    hidden_act="relu",
    use_cache=False,
)
model = LlamaForCausalLM(config)
tokens = torch.randint(0, 64, (2, 16))
torch.compile(model)(input_ids=tokens, labels=tokens).loss.backward()
