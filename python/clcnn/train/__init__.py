"""Training on any OpenCL device: a trainer compiles forward, backward and update of a net into one plan::

    data = train.digits()
    net = clcnn.zoo.lenet5()
    trainer = train.Trainer(net, nn.CrossEntropyLoss(), optim.AdamW(net.parameters(), lr=2e-3))
    for x, y in data.train.batches(32, augment=data.augment):
        loss = trainer.step(x, y)
    print(trainer.evaluate(data.test)["accuracy"])

Trainer.fit() is this loop with progress, validation, callbacks and checkpoints.
"""

from __future__ import annotations

from clcnn.train.augment import RandomAffine
from clcnn.train.data import Arrays, Split
from clcnn.train.digits import digits
from clcnn.train.fit import EarlyStopping
from clcnn.train.folder import ImageFolder
from clcnn.train.metrics import Accuracy, ConfusionMatrix, Metric
from clcnn.train.pixels import Pixels
from clcnn.train.ranks import Ranks
from clcnn.train.trainer import Trainer

__all__ = [
    "Accuracy",
    "Arrays",
    "ConfusionMatrix",
    "EarlyStopping",
    "ImageFolder",
    "Metric",
    "Pixels",
    "RandomAffine",
    "Ranks",
    "Split",
    "Trainer",
    "digits",
]
