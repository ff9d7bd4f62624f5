"""The networks of population.py: where each comes from, what it takes, and the groups it belongs to.

Needs neither torch nor clcnn; `build.py` makes the modules.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

IMAGE = (3, 224, 224)


@dataclass(frozen=True)
class Entry:
    """A network. source: "torchvision:NAME", "timm:NAME", "smp:DECODER/ENCODER" (the package
    segmentation_models_pytorch), or "own:FILE.FUNCTION" of this folder. shape: of its input without the
    batch; None asks the library. options: for its constructor."""

    source: str
    shape: tuple[int, ...] | None = IMAGE
    groups: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def _torchvision(name: str, *groups: str, shape: tuple[int, ...] = IMAGE, **options: Any) -> Entry:
    return Entry(f"torchvision:{name}", shape, groups, options)


def _timm(name: str, *groups: str, shape: tuple[int, ...] = IMAGE, **options: Any) -> Entry:
    return Entry(f"timm:{name}", shape, groups, options)


def _own(name: str, *groups: str, shape: tuple[int, ...], **options: Any) -> Entry:
    return Entry(f"own:{name}", shape, groups, options)


NETS: dict[str, Entry] = {
    # decoders and pictures to pictures
    "dcgan": _own("pictures.dcgan", "core", "decoders", shape=(100, 1, 1)),
    "unet": _own("pictures.unet", "core", "decoders", "segmentation", shape=(3, 256, 256)),
    "espcn": _own("pictures.espcn", "core", "pictures", shape=(1, 224, 224)),
    "edsr": _own("pictures.edsr", "pictures", shape=(3, 96, 96)),
    "style": _own("pictures.style", "pictures", shape=(3, 256, 256)),
    "cyclegan": _own("pictures.cyclegan", "pictures", "decoders", shape=(3, 128, 128)),
    "srresnet": _own("pictures.srresnet", "pictures", shape=(3, 64, 64)),
    "dncnn": _own("pictures.dncnn", "pictures", shape=(1, 128, 128)),
    # the two sides of generative networks, and autoencoders
    "pix2pix": _own("gans.pix2pix", "gans", "decoders", shape=(3, 256, 256)),
    "patchgan": _own("gans.patchgan", "gans", shape=(6, 256, 256)),
    "discriminator": _own("gans.discriminator", "gans", shape=(3, 64, 64)),
    "vae": _own("gans.vae", "gans", "decoders", shape=(3, 64, 64)),
    # transformers and what came of them
    "convnext_tiny": _torchvision("convnext_tiny", "core", "transformers"),
    "vit_tiny": _timm("vit_tiny_patch16_224", "core", "transformers"),
    "swin_t": _torchvision("swin_t", "transformers"),
    "mobilevit_s": _timm("mobilevit_s", "transformers", "mobile", shape=(3, 256, 256)),
    "convnextv2_atto": _timm("convnextv2_atto", "transformers"),
    "coatnet_nano": _timm("coatnet_nano_rw_224", "transformers"),
    "mixer_s16": _timm("mixer_s16_224", "transformers"),
    "poolformer_s12": _timm("poolformer_s12", "transformers"),
    # for phones
    "efficientnet_b0": _torchvision("efficientnet_b0", "core", "mobile", "gates"),
    "efficientnet_v2_s": _torchvision("efficientnet_v2_s", "mobile", "gates"),
    "mobilenet_v2": _torchvision("mobilenet_v2", "core", "mobile"),
    "mobilenet_v3_large": _torchvision("mobilenet_v3_large", "core", "mobile", "gates"),
    "mobilenet_v3_small": _torchvision("mobilenet_v3_small", "mobile", "gates"),
    "mnasnet": _torchvision("mnasnet1_0", "mobile"),
    "ghostnet": _timm("ghostnet_100", "core", "mobile", "gates"),
    "shufflenet_v2": _torchvision("shufflenet_v2_x1_0", "core", "mobile"),
    "squeezenet": _torchvision("squeezenet1_1", "core", "mobile"),
    # classifiers
    "vgg11": _torchvision("vgg11", "core", "classifiers"),
    "resnet50_640": _torchvision("resnet50", "core", "classifiers", shape=(3, 640, 640)),
    "wide_resnet50": _torchvision("wide_resnet50_2", "core", "classifiers"),
    "resnext50": _torchvision("resnext50_32x4d", "core", "classifiers", "grouped"),
    "regnet_y_3_2gf": _torchvision("regnet_y_3_2gf", "core", "classifiers", "grouped", "gates"),
    "inception_v3": _torchvision(
        "inception_v3", "core", "classifiers", shape=(3, 299, 299), aux_logits=False, init_weights=False
    ),
    "densenet169": _torchvision("densenet169", "classifiers"),
    "darknet53": _timm("darknet53", "core", "classifiers", shape=(3, 256, 256)),
    "hrnet_w18": _timm("hrnet_w18", "core", "classifiers"),
    "repvgg_a2": _timm("repvgg_a2", "classifiers"),
    "res2net50": _timm("res2net50_26w_4s", "classifiers"),
    "seresnet50": _timm("seresnet50", "classifiers", "gates"),
    "resnest50": _timm("resnest50d", "classifiers", "grouped", "gates"),
    "nfnet_l0": _timm("eca_nfnet_l0", "classifiers", "grouped", "gates"),
    # as they are trained: branches that are added
    "repvgg_branches": _own("branches.repvgg", "branches", shape=(3, 224, 224)),
    "mobileone_branches": _own("branches.mobileone", "branches", shape=(3, 224, 224)),
    # a value for each pixel, and boxes
    "fcn_resnet50": _torchvision("fcn_resnet50", "core", "segmentation"),
    "deeplabv3_resnet50": _torchvision("deeplabv3_resnet50", "segmentation"),
    "yolo": _own("detectors.yolo", "detection", shape=(3, 416, 416)),
    "retinanet": _own("detectors.retinanet", "detection", shape=(3, 320, 320)),
    # small ones
    "ds_cnn": _own("small.ds_cnn", "small", shape=(1, 49, 10)),
    "pointnet": _own("small.pointnet", "small", shape=(3, 1024)),
    "lenet": _own("small.lenet", "small", shape=(1, 28, 28)),
    "mlp": _own("small.mlp", "small", shape=(784,)),
    "dqn": _own("small.dqn", "small", shape=(4, 84, 84)),
    "gru_sound": _own("small.recurrent", "small", "recurrent", shape=(100, 40)),
    "lstm_text": _own(
        "small.recurrent",
        "small",
        "recurrent",
        shape=(64, 300),
        kind="LSTM",
        inputs=300,
        width=256,
        both=True,
    ),
    "codec": _own("small.codec", "small", "recurrent", shape=(1, 24000)),
    "autoencoder": _own("small.autoencoder", "small", shape=(1, 1024)),
    "unet1d": _own("small.unet1d", "small", shape=(2, 1024)),
    "ecg": _own("small.ecg", "small", shape=(12, 1000)),
    "fsrcnn": _own("small.fsrcnn", "small", shape=(1, 96, 96)),
    "onet": _own("small.onet", "small", shape=(3, 48, 48)),
    "pnet": _own("small.pnet", "small", shape=(3, 120, 160)),
    "blazeface": _own("small.blazeface", "small", shape=(3, 128, 128)),
    "text_cnn": _own("small.text_cnn", "small", shape=(128, 64)),
    "resnet8": _own("small.resnet8", "small", shape=(3, 32, 32)),
    # one and three dimensions
    "m5": _own("sounds.m5", "dimensions", shape=(1, 16000)),
    "tcn": _own("sounds.tcn", "dimensions", shape=(40, 1000)),
    "r3d_18": _torchvision("r3d_18", "dimensions", shape=(3, 16, 112, 112)),
}


def groups() -> dict[str, list[str]]:
    """{group: names}; "core" are the networks that the first table of all this named, "all" is everything."""
    found: dict[str, list[str]] = {"all": list(NETS)}
    for name, entry in NETS.items():
        for group in entry.groups:
            found.setdefault(group, []).append(name)
    return found


def select(wanted: Iterable[str]) -> dict[str, Entry]:
    """The networks of names, groups, patterns ("mobilenet*") and library names ("timm:edgenext_xx_small"),
    each once, in the order asked for. "-" in front takes away again; "@160x192" behind is another size of
    images. Raises ValueError for one that is nothing of these."""
    known = groups()
    chosen: dict[str, Entry] = {}
    for word in wanted:
        away, (name, _, size) = word.startswith("-"), word.removeprefix("-").partition("@")
        if name in known:
            found = {n: NETS[n] for n in known[name]}
        elif name.startswith(("timm:", "torchvision:", "smp:")):
            found = {name: Entry(name, None)}
        else:
            found = {n: entry for n, entry in NETS.items() if fnmatch.fnmatchcase(n, name)}
        if not found:
            raise ValueError(
                f"no network or group {name!r}; networks: {', '.join(NETS)}; groups: {', '.join(known)}"
            )
        for n, entry in (_resized(found, size) if size else found).items():
            if away:
                chosen.pop(n, None)
            else:
                chosen.setdefault(n, entry)
    return chosen


def _resized(nets: dict[str, Entry], size: str) -> dict[str, Entry]:
    """The networks for images of "HEIGHTxWIDTH"; those that know no channels of their own take three."""
    sides = tuple(int(side) for side in size.split("x"))
    return {
        f"{name}@{size}": replace(entry, shape=((entry.shape or IMAGE)[0], *sides))
        for name, entry in nets.items()
    }
