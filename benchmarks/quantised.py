"""Networks in 8 bits: QDQ files beside OpenVINO's and onnxruntime's int8, and beside float32.

    quantised.py --nets resnet50 --batch 1,8
    quantised.py --nets timm:deit_small_patch16_224,convnext_tiny --batch 1     # those of population.py
    quantised.py --nets timm:deit_small_patch16_224 --dynamic                   # steps chosen in every run

The zoo's nets with weights as nets.py sets them, and networks of population.py, are exported, and quantised
by onnxruntime.quantization with a scale for each channel of the weights, static ones calibrated on random
images. Logits that are within one step of onnxruntime's count as the same; 99.9 % of them must be, or what
differs must be less than what 8 bits changed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
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
WIDTHS = [30, 5, 8, 8, 11, 13, 7]


class Images:
    """Calibration data as onnxruntime reads them, a batch at a time."""

    def __init__(self, name: str, images: np.ndarray, batch: int) -> None:
        self._left = [{name: images[i : i + batch]} for i in range(0, len(images) - batch + 1, batch)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


class OfZoo:
    """A net of the zoo: x of a batch, and its ONNX file."""

    input = "input"

    def __init__(self, name: str) -> None:
        self.name, self._net = name, Net(name)
        self.inputs = self._net.inputs

    def file(self, folder: Path, batch: int) -> Path:
        path = folder / f"plain-{batch}.onnx"
        clcnn.onnx.save(self._net.module, path, self.inputs(batch).shape)
        return path


class OfPopulation:
    """The same of a network of population.py."""

    input = "x0"

    def __init__(self, name: str, entry: Any) -> None:
        from population_nets import build

        self.name, self._entry, self._build = name, entry, build

    def inputs(self, batch: int) -> np.ndarray:
        return np.asarray(self._build.inputs(self._entry, batch))

    def file(self, folder: Path, batch: int) -> Path:
        return Path(self._build.onnx(self.name, self._entry, batch, folder, "torchscript"))


Source = OfZoo | OfPopulation


def sources(names: list[str]) -> Iterator[Source]:
    import population_nets

    for name in names:
        if name in clcnn.zoo.NETS:
            yield OfZoo(name)
        else:
            yield from (OfPopulation(*found) for found in population_nets.select([name]).items())


def quantise(net: Source, batch: int, folder: Path, dynamic: bool) -> tuple[Path, Path]:
    """The files of a net with float32 and with 8 bits."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    plain = net.file(folder, batch)
    ready, done = (folder / f"{kind}-{batch}.onnx" for kind in ("ready", "int8"))
    quant_pre_process(plain, ready, skip_symbolic_shape=True)
    if dynamic:
        quantize_dynamic(ready, done, weight_type=QuantType.QInt8)
        return plain, done
    quantize_static(
        ready,
        done,
        Images(net.input, net.inputs(max(4, batch)), batch),
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
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})[0]


def of_openvino(path: Path, x: np.ndarray) -> Run:
    import openvino

    model = openvino.Core().read_model(path)
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


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def measure(
    net: Source, batch: int, files: tuple[Path, Path], args: argparse.Namespace
) -> tuple[list[Any], list[dict[str, Any]]]:
    """A line of the table, and a row for each of the others."""
    x = net.inputs(batch)
    runs = {
        "clcnn": of_clcnn(files[1], x),
        "openvino": of_openvino(files[1], x),
        "onnxruntime": of_onnxruntime(files[1], x),
        "clcnn float32": of_clcnn(files[0], x),
    }
    got, wanted = runs["clcnn"](), runs["onnxruntime"]()
    same = same_share(got, wanted)
    if same < SAME and not rms(got - wanted) < rms(wanted - runs["clcnn float32"]()):
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
    parser.add_argument("--dynamic", action="store_true", help="steps of maps chosen in every run")
    args = parser.parse_args()
    results: list[dict[str, Any]] = []
    print(common.table(HEAD, [], WIDTHS))
    for net in sources(args.nets):
        with tempfile.TemporaryDirectory() as folder:
            for batch in args.batch:
                files = quantise(net, batch, Path(folder), args.dynamic)
                line, rows = measure(net, batch, files, args)
                print(common.table([], [line], WIDTHS), flush=True)
                results += rows
                common.write(results, args.json)
    common.finish(results, args.json)


if __name__ == "__main__":
    main()
