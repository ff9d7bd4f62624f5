"""
Speed beside other libraries
============================

How many times as fast as each library clcnn runs the seven benchmark networks: above 1 it is faster. The
results are those of ``benchmarks/cpu_inference.py --batch 1 --json inference.json``.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

stored = json.loads(Path("results/inference.json").read_text())
rows = [row for row in stored["results"] if row.get("ratio")]
nets = list(dict.fromkeys(row["case"] for row in rows))
peers = list(dict.fromkeys(row["peer"] for row in rows))

# %%
# One group of bars a network; the line is equal speed.

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
width = 0.8 / len(peers)
for i, peer in enumerate(peers):
    ratio = {row["case"]: row["ratio"] for row in rows if row["peer"] == peer}
    axes.bar(np.arange(len(nets)) + i * width, [ratio.get(net, 0) for net in nets], width, label=peer)
axes.axhline(1, color="black", linewidth=0.8)
axes.set_xticks(np.arange(len(nets)) + 0.4 - width / 2, nets, rotation=20)
axes.set_ylabel("time of the other / time of clcnn")
axes.set_title(stored["machine"].get("cpu", "CPU"))
_ = axes.legend()
