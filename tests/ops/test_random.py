"""Numbers that operators draw."""

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn._reference.elementwise import MASK, philox4x32

# Known answers of Random123 (tests/kat_vectors): counter, key, result.
KNOWN = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_the_definition_gives_the_known_answers(counter, key, result):
    found = philox4x32([np.full(1, word, np.uint64) for word in counter], list(key))
    assert [int(word[0]) for word in found] == result


def dropped(shape, key, **attrs):
    graph = clcnn.Graph()
    x, k = graph.input("x", shape), graph.input("key", (2,), "int64")
    graph.output(ops.dropout_train(x, k, **attrs))
    with clcnn.compile(graph) as plan:
        return plan(np.ones(shape, np.float32), np.array(key, np.int64))


def test_masks_differ_by_seed_step_and_layer_alone():
    mask = dropped((3, 40), (1, 1))
    np.testing.assert_array_equal(dropped((3, 40), (1, 1)), mask)
    for other in (dropped((3, 40), (2, 1)), dropped((3, 40), (1, 2)), dropped((3, 40), (1, 1), layer=1)):
        assert not np.array_equal(other, mask)
    np.testing.assert_array_equal(dropped((120,), (1, 1)).reshape(3, 40), mask)


def test_as_many_are_dropped_as_asked_for():
    share = np.mean(dropped((200, 500), (7, 3), p=0.3) == 0)
    assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 100000)
