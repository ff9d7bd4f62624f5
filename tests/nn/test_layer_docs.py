"""Docstrings of layers that share text with others of their family."""

import inspect
import re

import pytest

from clcnn import nn
from clcnn.nn._docs import ORDER, merged

OWN = """What it computes.

    Examples
    --------
    >>> 1
    1
    """
BASE = """What all compute.

    Parameters
    ----------
    n : int

    See Also
    --------
    others
    """


def titles(doc: str) -> list[str]:
    return re.findall(r"^(\w[\w ]*)\n-{3,}$", doc, re.MULTILINE)


def test_own_text_comes_first_and_examples_last():
    doc = merged(OWN, BASE, ["n"])
    assert doc.startswith("What it computes.\n\nWhat all compute.\n\nParameters\n----------\nn : int\n\n")
    assert titles(doc) == ["Parameters", "See Also", "Examples"]


def test_arguments_stand_in_the_order_of_the_constructor():
    own = "Own.\n\nParameters\n----------\nm : int"
    assert merged(own, BASE, ["n", "m"]).count("n : int\nm : int") == 1
    assert "n : int" not in merged(own, BASE, ["m"])


LAYERS = [thing for thing in vars(nn).values() if inspect.isclass(thing) and issubclass(thing, nn.Module)]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_every_layer_has_each_section_once(layer):
    found = titles(inspect.getdoc(layer) or "")
    assert found == [title for title in ORDER if title in found]
    assert "Examples" in found
