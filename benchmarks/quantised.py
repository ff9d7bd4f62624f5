"""Networks in 8 bits: static QDQ files beside OpenVINO's and onnxruntime's int8, and beside float32.

    quantised.py --nets resnet50 --batch 1,8

The zoo's nets with weights as nets.py sets them are exported, and quantised by onnxruntime.quantization with
a scale for each channel of the weights, calibrated on random images. Logits that are within one step of
onnxruntime's count as the same; 99.9 % of them must be.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from nets import Net

import clcnn
import clcnn.onnx

Run = Callable[[], np.ndarray]
SAME = 0.999  # of the logits
HEAD = ["net", "batch", "clcnn", "openvino", "onnxruntime", "clcnn float32", "same"]
WIDTHS = [14, 5, 8, 8, 11, 13, 7]


class Images:
    """Calibration data as onnxruntime reads them, two at a time."""

    def __init__(self, name: str, images: np.ndarray) -> None:
        self._left = [{name: images[i : i + 2]} for i in range(0, len(images), 2)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def quantise(net: Net, folder: Path) -> tuple[Path, Path]:
    """The files of a net with float32 and with 8 bits."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    plain, ready, done = (folder / f"{net.name}-{kind}.onnx" for kind in ("plain", "ready", "int8"))
    x = net.inputs(4)
    clcnn.onnx.save(net.module, plain, (1, *x.shape[1:]), dynamic_batch=True)
    quant_pre_process(plain, ready, skip_symbolic_shape=True)
    quantize_static(
        ready,
        done,
        Images("input", x),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return plain, done


def of_clcnn(path: Path, x: np.ndarray) -> Run:
    plan = clcnn.compile(clcnn.onnx.load(path), x.shape, device="cpu")
    return lambda: plan(x)


def of_onnxruntime(path: Path, x: np.ndarray) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = common.cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"input": x})[0]


def of_openvino(path: Path, x: np.ndarray) -> Run:
    import openvino

    model = openvino.Core().read_model(path)
    model.reshape(x.shape)
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": common.cores()}
    request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()

    def run() -> np.ndarray:
        request.infer([x], share_inputs=True)
        return request.get_output_tensor(0).data.copy()

    return run


def same_share(got: np.ndarray, wanted: np.ndarray) -> float:
    """Of elements within one step of the wanted ones, which are whole numbers of steps."""
    step = float(np.diff(np.unique(wanted)).min())
    return float(np.mean(np.abs(got - wanted) < 1.5 * step))


def measure(
    net: Net, batch: int, files: tuple[Path, Path], args: argparse.Namespace
) -> tuple[list[Any], list[dict[str, Any]]]:
    """A line of the table, and a row for each of the others."""
    x = net.inputs(batch)
    runs = {
        "clcnn": of_clcnn(files[1], x),
        "openvino": of_openvino(files[1], x),
        "onnxruntime": of_onnxruntime(files[1], x),
        "clcnn float32": of_clcnn(files[0], x),
    }
    same = same_share(runs["clcnn"](), runs["onnxruntime"]())
    if same < SAME:
        raise common.Wrong(f"{net.name}: {same:.2%} of the logits are within a step of onnxruntime's")
    times = common.interleave(runs, args.rounds, args.seconds)
    ours = times.pop("clcnn")
    rows = [
        {
            "net": net.name,
            "batch": batch,
            "peer": peer,
            "ms": ours,
            "peer_ms": t,
            "ratio": t["min"] / ours["min"],
        }
        for peer, t in times.items()
    ]
    return [net.name, batch, ours["min"], *(times[name]["min"] for name in HEAD[3:6]), same], rows


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=["resnet50", "mobilenet_v1"])
    parser.add_argument("--batch", type=common.ints, default=[1, 8])
    args = parser.parse_args()
    results: list[dict[str, Any]] = []
    print(common.table(HEAD, [], WIDTHS))
    for name in args.nets:
        net = Net(name)
        with tempfile.TemporaryDirectory() as folder:
            files = quantise(net, Path(folder))
            for batch in args.batch:
                line, rows = measure(net, batch, files, args)
                print(common.table([], [line], WIDTHS), flush=True)
                results += rows
                common.write(results, args.json)
    common.finish(results, args.json)


if __name__ == "__main__":
    main()
