"""Optimisers with torch.optim's names, arguments and defaults, for clcnn.train.Trainer.

An optimiser says what a step does with parameters and gradients; the trainer makes it part of the plan of a
step, in one pass over all parameters of a group.
"""

from __future__ import annotations

from clcnn.optim import lr_scheduler
from clcnn.optim.optimizer import Optimizer
from clcnn.optim.rules import SGD, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
