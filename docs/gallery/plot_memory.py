"""
Time over a memory limit
========================

What ``clcnn.compile(..., memory_limit=)`` costs: the time of ResNet-50 at batch 8, as a multiple of that
without a limit, over the bytes that the plan may take. The results are those of
``benchmarks/memory.py --limit --nets resnet50 --batch 8 --json memory.json``.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

stored = json.loads(Path("results/memory.json").read_text())
rows = sorted(stored["results"], key=lambda row: row["peak_bytes"])

# %%
# What the planner expected lies beside what was measured.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
mib = [row["peak_bytes"] / 2**20 for row in rows]
axes.plot(mib, [row["time"] for row in rows], "o-", label="measured")
axes.plot(mib, [row["expected"] for row in rows], "s--", label="expected")
axes.set(xlabel="MiB that the plan takes", ylabel="time / time without a limit")
_ = axes.legend()
