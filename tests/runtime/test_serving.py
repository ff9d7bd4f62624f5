"""clcnn.ray.Predictor and clcnn.mlserver.Runtime: what they compute, and what they do when it goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import nn
from clcnn.errors import ArgumentError, StateError
from clcnn.ray import Predictor, claim

IMAGE = (2, 8, 8)
pytestmark = [  # what Ray and MLServer warn of themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def net():
    nn.init.manual_seed(3)
    return nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 3))


def images(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, *IMAGE), np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "net.clcnn"
    clcnn.save(net(), path, (4, *IMAGE))
    return path


# ---- Ray ----


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_a_predictor_fills_and_cuts_batches(device, model, rows):
    predictor = Predictor(model, 4, "image", device=device, results=["scores"])
    x = images(rows)
    found = predictor({"image": x, "other": np.arange(rows)})
    assert list(found) == ["scores"] and found["scores"].shape == (rows, 3)
    with clcnn.compile(net(), (4, *IMAGE), device) as plan:
        for i in range(rows):
            wanted = plan(np.repeat(x[i : i + 1], 4, axis=0))[0]
            np.testing.assert_allclose(found["scores"][i], wanted, rtol=1e-5, atol=1e-6)
    objects = np.empty(rows, object)  # as Ray has arrays of several shapes
    objects[:] = list(x)
    np.testing.assert_array_equal(predictor({"image": objects})["scores"], found["scores"])


def test_a_predictor_maps_columns_to_inputs(device):
    class Both(nn.Module):
        def forward(self, a, b):
            return a + b, a * b

    predictor = Predictor(Both(), 2, ["left", "right"], device=device, results=["sum", "product"])
    a, b = np.arange(6).reshape(3, 2), np.full((3, 2), 2)
    found = predictor({"right": b, "left": a})
    np.testing.assert_array_equal(found["sum"], a + 2.0)
    np.testing.assert_array_equal(found["product"], a * 2.0)


def test_wrong_uses_of_a_predictor(device, model):
    with pytest.raises(ArgumentError, match="Predictor: batch_size"):
        Predictor(model, 0, "image")
    with pytest.raises(ArgumentError, match=r"no column \['image'\]; there are \['photo'\]"):
        Predictor(model, 4, "image", device=device)({"photo": images(1)})


def test_actors_claim_devices(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, held = claim([3, 5])
    second, also = claim([3, 5])
    assert (first, second) == (3, 5)
    with pytest.raises(StateError, match=r"other processes have all devices of \[3, 5\]"):
        claim([3, 5])
    os.close(held)
    assert claim([3, 5])[0] == 3
    os.close(also)


def test_map_batches_of_ray(model):
    ray = pytest.importorskip("ray")
    data = pytest.importorskip("ray.data")
    if DEVICE != "cpu":
        pytest.skip("two actors share the one device")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        x = images(21)
        with clcnn.compile(net(), (21, *IMAGE), DEVICE) as plan:
            wanted = plan(x)
        found = (
            data.from_numpy([x[:10], x[10:]])  # a block for each actor
            .map_batches(
                Predictor,
                fn_constructor_args=[str(model), 4, "data"],
                fn_constructor_kwargs={"device": DEVICE, "results": ["scores"]},
                batch_size=4,
                concurrency=2,
            )
            .take_all()
        )
        scores = np.stack([row["scores"] for row in found])
        by_first = [y[np.argsort(y[:, 0])] for y in (scores, wanted)]  # Ray keeps no order
        np.testing.assert_allclose(*by_first, rtol=1e-4, atol=1e-5)
    finally:
        ray.shutdown()


# ---- MLServer ----


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """MLServer with one model, in a process of its own."""

    def __init__(self, folder, net, shape, **settings):
        clcnn.onnx.save(net, folder / "net.onnx", shape)
        self.ports = [free_port() for _ in range(3)]
        names = ("http_port", "grpc_port", "metrics_port")
        server = {"host": "127.0.0.1", "parallel_workers": 0, **dict(zip(names, self.ports))}
        (folder / "settings.json").write_text(json.dumps(server))
        extra = {"device": DEVICE, **settings.pop("extra", {})}
        parameters = {"uri": "./net.onnx", "extra": extra}
        described = {"name": "net", "implementation": "clcnn.mlserver.Runtime", "parameters": parameters}
        (folder / "model-settings.json").write_text(json.dumps(described | settings))
        command = [sys.executable, "-c", "from mlserver.cli import main; main()", "start", str(folder)]
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._wait()

    def _wait(self):
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            try:
                if self.get("v2/models/net/ready") is not None:
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/{path}", timeout=30) as answer:
            return answer.read()

    def infer(self, x):
        """Status, and the first output or the error."""
        row = {"name": "input", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()}
        url = f"http://127.0.0.1:{self.ports[0]}/v2/models/net/infer"
        request = urllib.request.Request(
            url, json.dumps({"inputs": [row]}).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                output = json.load(answer)["outputs"][0]
            return 200, np.array(output["data"], np.float32).reshape(output["shape"])
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def end(self):
        """By SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def mlserver():
    return pytest.importorskip("mlserver")


def test_a_server_gives_the_same_bits(mlserver, tmp_path):
    x = images(4)
    with Server(tmp_path, net(), (4, *IMAGE)) as server:
        with clcnn.InferenceSession(tmp_path / "net.onnx", device=DEVICE) as session:
            (wanted,) = session.run(None, {"input": x})
        status, found = server.infer(x)
        assert status == 200
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(over_grpc(server.ports[1], x), wanted)
        metadata = json.loads(server.get("v2/models/net"))
        assert metadata["inputs"][0] | {"parameters": None} == {
            "name": "input", "datatype": "FP32", "shape": [4, *IMAGE], "parameters": None,
        }  # fmt: skip
        status, error = server.infer(images(3))
        assert status == 400 and "ShapeError" in error and "input" in error
        assert server.infer(x)[0] == 200
        assert server.end() == 0


def over_grpc(port, x):
    import grpc
    from mlserver.grpc import converters, dataplane_pb2_grpc
    from mlserver.types import InferenceRequest, RequestInput

    row = RequestInput(name="input", shape=list(x.shape), datatype="FP32", data=x.ravel().tolist())
    request = converters.ModelInferRequestConverter.from_types(InferenceRequest(inputs=[row]), "net")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    output = converters.ModelInferResponseConverter.to_types(answer).outputs[0]
    return np.array(list(output.data), np.float32).reshape(output.shape)


def test_a_full_queue_and_the_end_of_a_busy_server(mlserver, tmp_path):
    slow = nn.Sequential(*(nn.Conv2d(2, 2, 31, padding=15) for _ in range(6)))
    x = np.zeros((1, 2, 256, 256), np.float32)
    with Server(tmp_path, slow, x.shape, extra={"queue": 1}) as server:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(server.infer(x)[0])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(answers) == {200, 503}
        last = threading.Thread(target=lambda: answers.append(server.infer(x)[0]))
        last.start()
        time.sleep(0.02)
        assert server.end() == 0
        last.join(timeout=30)
        assert not last.is_alive()
