"""The handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from clcnn.train.augment import RandomAffine, affine
from clcnn.train.data import Arrays, Split

SIDE = 28  # what nets for MNIST take
TEST_SHARE = 5  # one sample of so many is for testing


def digits(seed: int = 0) -> Split:
    """1797 handwritten digits, enlarged from 8x8 to (1, 28, 28) and scaled to 0 to 1.

    Four fifths of each class are for training, the rest for testing. `augment` moves images by up to 2
    pixels, turns them by up to 10 degrees and scales them by up to 10 %. Source: UCI ML hand-written
    digits, as scikit-learn ships them.

    Parameters
    ----------
    seed : int
        Of the split and of the order of training.

    Returns
    -------
    Split
        Of Arrays: x float32 (N, 1, 28, 28), y int64 (N,).

    Raises
    ------
    ImportError
        scikit-learn is not installed.

    Examples
    --------
    >>> from clcnn import train
    >>> data = train.digits()  # doctest: +SKIP
    >>> len(data.train), len(data.test)  # doctest: +SKIP
    (1438, 359)
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError('train.digits() needs scikit-learn: pip install "clcnn[train]"') from error

    images, labels = load_digits(return_X_y=True)
    small = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    enlarge = np.array([[8 / SIDE, 0, 0], [0, 8 / SIDE, 0]])
    x = affine(small, np.broadcast_to(enlarge, (len(small), 2, 3)), (SIDE, SIDE))
    y = labels.astype(np.int64)
    rng = np.random.default_rng(seed)
    for_test = np.zeros(len(y), bool)
    for digit in range(10):
        of_digit = rng.permutation(np.flatnonzero(y == digit))
        for_test[of_digit[: round(len(of_digit) / TEST_SHARE)]] = True
    return Split(
        Arrays(x[~for_test], y[~for_test], seed=seed), Arrays(x[for_test], y[for_test]), RandomAffine()
    )
