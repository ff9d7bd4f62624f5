"""Which models of torchvision, timm and others clcnn loads, and whether it agrees with onnxruntime.

    models.py --list
    models.py --nets detection                          # a group of it
    models.py --nets 'torchvision:resnet18,timm:resnet*' --exporters script

Models have random weights and small images. Each is exported by PyTorch's two exporters, loaded and run in a
process of its own, and every output is compared with onnxruntime's: shapes and integers must be equal, floats
agree within --limit of the largest one. Detectors' last layers are scaled until their numbers spread, so that
some boxes count and others do not. A rounding error can move a box across a threshold or change places with
its neighbour, so of detectors nine rows of ten must be found among onnxruntime's, in any order, and the other
way round. A model that its library or an exporter fails on is told and counts for
neither; so does a library that is not installed.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import common
import numpy as np

MARK = "result: "
EXPORTERS = ("script", "dynamo")
NEEDED = ("torch", "onnx", "onnxruntime")
HEAD = ["model", "exporter", "result", "load s", "run s", "error", "why"]
WIDTHS = [42, 8, 9, 7, 7, 8, 60]

CLASSIFIERS = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet"),
    *("inception_v3", "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"),
    *("regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5"),
    *("squeezenet1_0", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11", "vgg11_bn", "vit_b_32"),
    "wide_resnet50_2",
)
SEGMENTERS = (
    "deeplabv3_mobilenet_v3_large",
    "deeplabv3_resnet50",
    "fcn_resnet50",
    "lraspp_mobilenet_v3_large",
)
DETECTORS = (
    *("fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2", "fasterrcnn_mobilenet_v3_large_fpn"),
    *("fasterrcnn_mobilenet_v3_large_320_fpn", "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn"),
    *("retinanet_resnet50_fpn", "fcos_resnet50_fpn", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large"),
)
VIDEOS = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d")
TIMM = (
    *("beit_base_patch16_224", "botnet26t_256", "cait_xxs24_224", "coat_lite_tiny", "coatnet_nano_rw_224"),
    *(
        "convmixer_768_32",
        "convnextv2_atto",
        "crossvit_tiny_240",
        "cspdarknet53",
        "davit_tiny",
        "deit_tiny_patch16_224",
    ),
    *(
        "dla34",
        "dm_nfnet_f0",
        "dpn48b",
        "eca_nfnet_l0",
        "edgenext_xx_small",
        "efficientformer_l1",
        "efficientvit_b0",
    ),
    *(
        "fastvit_t8",
        "fbnetc_100",
        "focalnet_tiny_srf",
        "gcvit_xxtiny",
        "gernet_s",
        "ghostnet_100",
        "ghostnetv2_100",
    ),
    *("hardcorenas_a", "hgnet_tiny", "hrnet_w18_small", "inception_next_tiny", "inception_v4", "lcnet_050"),
    *("levit_128s", "mixer_s32_224", "mixnet_s", "mobilenetv4_conv_small", "mobileone_s0", "mobilevit_xxs"),
    *(
        "mobilevitv2_050",
        "nest_tiny",
        "nf_resnet50",
        "pit_ti_224",
        "poolformer_s12",
        "pvt_v2_b0",
        "regnetz_b16",
    ),
    *(
        "repghostnet_050",
        "repvgg_a0",
        "repvit_m0_9",
        "res2net50_26w_4s",
        "resmlp_12_224",
        "resnest14d",
        "rexnet_100",
    ),
    *(
        "sequencer2d_s",
        "skresnet18",
        "swinv2_cr_tiny_224",
        "tf_efficientnet_b0",
        "tiny_vit_5m_224",
        "tinynet_e",
    ),
    *(
        "tnt_s_patch16_224",
        "twins_svt_small",
        "vit_tiny_patch16_224",
        "volo_d1_224",
        "vovnet39a",
        "xception41",
    ),
    "xcit_nano_12_p16_224",
)
GROUPS = {
    "classifiers": [f"torchvision:{name}" for name in CLASSIFIERS],
    "segmentation": [f"torchvision:{name}" for name in SEGMENTERS],
    "detection": [
        *(f"torchvision:{name}" for name in DETECTORS),
        "own:masks",
        "own:keypoints",
        "own:yolo_nms",
    ],
    "videos": [f"torchvision:{name}" for name in VIDEOS],
    "timm": [f"timm:{name}" for name in TIMM],
    "smp": [f"smp:{name}" for name in ("Unet", "FPN", "Linknet", "PSPNet", "DeepLabV3Plus", "MAnet")],
    "ultralytics": [f"ultralytics:{name}" for name in ("yolov8n", "yolov8n-seg", "yolo11n")],
}
MODELS = [name for names in GROUPS.values() for name in names]
LIBRARIES = {"smp": "segmentation_models_pytorch", "own": "torchvision"}  # others are called as they are
SHARE = 0.9  # of a detector's rows
SMALL = 96  # pixels of an image's side, where the model takes any


# ---- models ------------------------------------------------------------------------------------------------


def make(name: str) -> tuple[Any, list[Any], str]:
    """The module, its arguments, and the kind of images: batch, or list (of torchvision's detectors)."""
    import torch

    torch.manual_seed(0)
    library, _, model = name.partition(":")
    if library == "own" and model == "yolo_nms":
        return _YoloNms.make(), [torch.rand(1, 3, SMALL, SMALL)], "batch"
    if library == "own":
        return _before_loops({"masks": "maskrcnn", "keypoints": "keypointrcnn"}[model] + "_resnet50_fpn")
    if library == "timm":
        import timm

        net = timm.create_model(model, pretrained=False).eval()
        size = timm.get_pretrained_cfg(model).input_size if timm.get_pretrained_cfg(model) else (3, 224, 224)
        return net, [torch.randn(1, *size)], "batch"
    if library == "smp":
        import segmentation_models_pytorch as smp

        return (
            getattr(smp, model)("resnet18", encoder_weights=None).eval(),
            [torch.randn(1, 3, SMALL, SMALL)],
            "batch",
        )
    if library == "ultralytics":
        import ultralytics

        return ultralytics.YOLO(f"{model}.yaml").model.eval(), [torch.rand(1, 3, SMALL, SMALL)], "batch"
    return _torchvision(model)


def _torchvision(model: str) -> tuple[Any, list[Any], str]:
    import torch
    from torchvision import models

    options: dict[str, Any] = {"weights": None}
    if model in (*SEGMENTERS, *DETECTORS):
        options["weights_backbone"] = None
    if model in DETECTORS:
        if not model.startswith("ssd"):
            options |= {"min_size": 160, "max_size": 192}
        net = models.get_model(model, **options).eval()
        images = [torch.rand(3, 150, 170)]
        _spread(net, images)
        return net, [images], "list"
    if model in VIDEOS:
        return models.get_model(model, **options).eval(), [torch.randn(1, 3, 16, 112, 112)], "batch"
    size = 299 if model == "inception_v3" else 224 if model.startswith(("maxvit", "vit", "swin")) else SMALL
    return models.get_model(model, **options).eval(), [torch.randn(1, 3, size, size)], "batch"


# Parts of the names of the layers whose numbers decide, and their standard deviation.
_LAST = {"cls_logits": 1.5, "cls_score": 3.0, "classification_head.module_list": 2.0, "bbox_pred": 0.5}
_LAST |= {"regression_head.module_list": 0.5, "bbox_reg": 0.5, "kps_score": 3.0, "mask_fcn_logits": 3.0}


def _spread(net: Any, images: list[Any]) -> None:
    """Weights under which float32 errors mean something, last layers scaled until their numbers spread."""
    import torch
    from population_nets import build

    build.draw_all(net, torch.Generator().manual_seed(1))
    build.set_statistics(net, [*images, *(image.flip(-1) for image in images)])
    for name, layer in net.named_modules():
        wanted = next((v for part, v in _LAST.items() if part in name), None)
        if wanted is None or not isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)) or layer.bias is None:
            continue
        seen: list[float] = []
        hook = layer.register_forward_hook(lambda m, x, y, seen=seen: seen.append(float(y.std())))
        with torch.no_grad():
            net(images)
            hook.remove()
            if seen and max(seen) > 0:
                layer.weight.mul_(wanted / max(seen))


def _before_loops(model: str) -> tuple[Any, list[Any], str]:
    """A detector without its last step, which resizes each mask or heat map to its own size in a Loop."""
    from torchvision.models.detection import roi_heads, transform

    transform.paste_masks_in_image = lambda masks, boxes, shape, padding=1: masks
    roi_heads.heatmaps_to_keypoints = lambda maps, rois: (maps.flatten(2)[..., :3], maps.amax((2, 3)))
    return _torchvision(model)


class _YoloNms:
    """A head of one map, and non-max suppression behind it as exporters write it: each class apart."""

    @staticmethod
    def make() -> Any:
        import torch
        import torchvision
        from torch import nn

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                widths = (3, 16, 32, 64)
                self.trunk = nn.Sequential(
                    *(m for a, b in zip(widths, widths[1:]) for m in (nn.Conv2d(a, b, 3, 2, 1), nn.SiLU()))
                )
                self.head = nn.Conv2d(64, 3 * (5 + 8), 1)

            def forward(self, x: Any) -> Any:
                y = self.head(self.trunk(x)) * 40.0
                n, _, h, w = y.shape
                y = y.view(n, 3, 13, h, w).permute(0, 1, 3, 4, 2).reshape(n, -1, 13)[0]
                centre, size = y[:, :2].sigmoid() * 96.0, y[:, 2:4].sigmoid() * 40.0
                boxes = torch.cat([centre - size / 2, centre + size / 2], 1)
                scores, classes = (y[:, 4:5].sigmoid() * y[:, 5:].sigmoid()).max(1)
                kept = scores > 0.25
                boxes, scores, classes = boxes[kept], scores[kept], classes[kept]
                best = torchvision.ops.nms(boxes + classes[:, None].float() * 96.0, scores, 0.45)[:50]
                return boxes[best], scores[best], classes[best]

        return Net().eval()


# ---- one model in its process ------------------------------------------------------------------------------


def export(name: str, exporter: str, path: Path) -> None:
    """The model as an ONNX file."""
    import torch

    net, given, kind = make(name)
    options: dict[str, Any] = (
        {"dynamo": False} if exporter == "script" else {"dynamo": True, "verbose": False}
    )
    options["opset_version"] = 17 if exporter == "script" else 20
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        args = tuple(given) if kind == "batch" else (given[0],)
        torch.onnx.export(net, args, str(path), **options)


def child(name: str, exporter: str, device: str, limit: float) -> dict[str, Any]:
    """What became of a model: result is agrees, differs, refused, failed, or not exported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        try:
            export(name, exporter, path)
        except Exception as error:
            return {"result": "no export", "why": f"{type(error).__name__}: {error}".splitlines()[0]}
        return compare(path, device, limit, name in GROUPS["detection"])


def compare(path: Path, device: str, limit: float, rows: bool = False) -> dict[str, Any]:
    """A file's outputs by clcnn and by onnxruntime. rows: of detections, in any order."""
    import onnxruntime

    import clcnn

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {i.name: rng.random(i.shape, np.float32) for i in theirs.get_inputs()}
    wanted = theirs.run(None, feeds)
    record: dict[str, Any] = {}
    start = time.perf_counter()
    try:
        ours = clcnn.InferenceSession(str(path), device=device)
        record["load_s"] = time.perf_counter() - start
        start = time.perf_counter()
        got = ours.run(None, feeds)
    except clcnn.UnsupportedError as error:
        return record | {"result": "refused", "why": " ".join(str(error).split())}
    except Exception as error:
        return record | {"result": "failed", "why": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    record |= {"run_s": time.perf_counter() - start, "sizes": [list(w.shape) for w in wanted]}
    record["error"] = max((difference(g, w) for g, w in zip(got, wanted, strict=True)), default=0.0)
    told = str(record["sizes"])
    if record["error"] > limit and rows:
        record["rows"] = shared_rows(got, wanted, limit)
        told = f"{record['rows']:.1%} of {told}"
    agrees = record["error"] <= limit or record.get("rows", 0.0) >= SHARE
    return record | {"result": "agrees" if agrees else "differs", "why": told}


def shared_rows(got: list[np.ndarray], want: list[np.ndarray], limit: float) -> float:
    """The share of rows, of all outputs side by side, that the other has too; the smaller one of both
    ways."""
    if any(len({len(array) for array in arrays}) != 1 for arrays in (got, want)):
        return 0.0
    most = [max(float(np.max(np.abs(w), initial=0.0)), 1e-30) for w in want]
    ours, theirs = (
        np.concatenate([a.reshape(len(a), -1) / m for a, m in zip(arrays, most, strict=True)], 1)
        for arrays in (got, want)
    )
    if not len(ours) or not len(theirs):
        return float(len(ours) == len(theirs))
    near = np.array([[np.max(np.abs(a - b)) <= limit for b in theirs] for a in ours])
    return float(min(near.any(0).mean(), near.any(1).mean()))


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """Of the largest number; infinite where shapes, integers or what is no number differ."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.dtype.kind != "f":
        return 0.0 if np.array_equal(got, want) else float("inf")
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return float("inf")
    most = float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want)))
    apart = np.abs(got.astype(np.float64) - want)
    return float(np.max(apart, initial=0.0, where=np.isfinite(want))) / max(most, 1e-30)


def fresh(name: str, exporter: str, args: Any) -> dict[str, Any]:
    """child() in a new process."""
    command = [sys.executable, __file__, "--child", f"{name},{exporter}", "--device", args.device]
    command += ["--limit", str(args.limit)]
    base = {"case": name, "exporter": exporter}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.seconds, check=False)
    except subprocess.TimeoutExpired:
        return base | {"result": "failed", "why": f"it took longer than {args.seconds:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if lines:
        return base | json.loads(lines[-1].removeprefix(MARK))
    return base | {
        "result": "failed",
        "why": f"the process ended with {done.returncode}: {done.stderr[-200:]}",
    }


# ---- all of them -------------------------------------------------------------------------------------------


def select(wanted: list[str]) -> list[str]:
    """Models of names, groups and patterns, each once. Raises ValueError for one that is nothing of these."""
    chosen: list[str] = []
    for word in wanted:
        found = GROUPS.get(word) or [name for name in MODELS if fnmatch.fnmatchcase(name, word)]
        if not found:
            raise ValueError(f"no model or group {word!r}; groups: {', '.join(GROUPS)}")
        chosen += found
    return list(dict.fromkeys(chosen))


def installed(name: str) -> bool:
    library = name.partition(":")[0]
    return importlib.util.find_spec(LIBRARIES.get(library, library)) is not None


def row(record: dict[str, Any]) -> list[Any]:
    numbers = [f"{record[key]:.{d}f}" if key in record else "" for key, d in (("load_s", 1), ("run_s", 2))]
    error = f"{record['error']:.1e}" if "error" in record else ""
    return [
        record["case"],
        record["exporter"],
        record["result"],
        *numbers,
        error,
        record.get("why", "")[:300],
    ]


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument(
        "--nets", type=common.names, default=MODELS, help="models, groups, patterns, with commas"
    )
    parser.add_argument("--exporters", type=common.names, default=list(EXPORTERS), help="script,dynamo")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    parser.add_argument(
        "--limit", type=float, default=1e-3, help="error of the largest number (default 1e-3)"
    )
    parser.add_argument("--list", action="store_true", help="only name the models")
    parser.add_argument("--child", help="(internal)")
    parser.set_defaults(seconds=600.0)
    args = parser.parse_args()
    if args.child:
        name, exporter = args.child.split(",")
        print(MARK + json.dumps(child(name, exporter, args.device, args.limit)), flush=True)
        os._exit(0)
    chosen = select(args.nets)
    if args.list:
        print("\n".join(chosen))
        return 0
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed (pip install clcnn[bench])")
        return 0
    absent = sorted({name.partition(":")[0] for name in chosen if not installed(name)})
    for library in absent:
        print(f"{library}: skipped, it is not installed")
    results = []
    print(common.table(HEAD, [], WIDTHS))
    for name in filter(installed, chosen):
        for exporter in args.exporters:
            results.append(fresh(name, exporter, args))
            print("  ".join(map(str, row(results[-1]))), flush=True)
            common.write(results, args.json, device=args.device)
    counts = Counter(record["result"] for record in results)
    print(", ".join(f"{n} {word}" for word, n in counts.most_common()))
    common.finish(results, args.json, device=args.device)
    return int(any(record["result"] in ("differs", "refused", "failed") for record in results))


if __name__ == "__main__":
    sys.exit(main())
