"""The ablation as data: cells, axes, the layer at fault, its causes and the evidence."""
