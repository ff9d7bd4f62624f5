"""
The roofline of ResNet-50
=========================

Each layer of ResNet-50 at batch 1 over its arithmetic intensity, below the two ceilings of the processor:
memory and multiply-adds. Algorithms that need fewer products, such as Winograd's, can lie above the second
one. The results are those of ``benchmarks/layers.py --net resnet50 --json layers.json``.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

stored = json.loads(Path("results/layers.json").read_text())
layers = [
    row for row in stored["results"] if row.get("gflops") and row.get("gbs") and row["algorithm"] != "-"
]
top, bandwidth = stored["ceilings"]["gflops"], stored["ceilings"]["gbs"]

# %%
# A colour for each algorithm.

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
for algorithm in sorted({row["algorithm"] for row in layers}):
    rows = [row for row in layers if row["algorithm"] == algorithm]
    axes.scatter([r["gflops"] / r["gbs"] for r in rows], [r["gflops"] for r in rows], s=18, label=algorithm)
intensity = np.geomspace(0.1, 500, 50)
axes.plot(intensity, np.minimum(top, bandwidth * intensity), color="black", linewidth=0.8)
axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="GFLOP/s")
axes.set_title(f"{top:.0f} GFLOP/s, {bandwidth:.0f} GB/s")
_ = axes.legend()
