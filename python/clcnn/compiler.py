"""compile(): a model for a device."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from clcnn import _arguments, _core, sources, wisdom
from clcnn import device as devices
from clcnn import zeros as known_zeros
from clcnn._background.building import Loading, Watch, patiently
from clcnn._log import logger
from clcnn._onnx_file import OnnxFile
from clcnn.device import parse_bytes
from clcnn.errors import ArgumentError, BuildError
from clcnn.graph import Graph
from clcnn.plan import Plan
from clcnn.report import size
from clcnn.state import State
from clcnn.wisdom import profile

EVERY_LAYER = "*"


def compile(
    model: Any,
    input_shape: Any = None,
    device: devices.Selector | Sequence[devices.Selector] = None,
    *,
    precision: _arguments.Precision = "highest",
    workspace_limit: int | str = 64 << 20,
    memory_limit: int | str = 0,
    algorithms: str | Mapping[str, str] | None = None,
    outputs: Iterable[str] = (),
    fuse: bool = True,
    chain: bool | None = None,
    batch_part: int = 0,
    skip: bool = True,
    zeros: known_zeros.Given = None,
    guard: bool = False,
    tune: wisdom.Tune | None = None,
    state: State | None = None,
    like: Plan | None = None,
    threads: int | None = None,
    background: bool = False,
) -> Plan:
    """Chooses algorithms, builds kernels, packs weights and plans memory; returns a Plan that is ready to
    run.

    Parameters
    ----------
    model : nn.Module, Graph, clcnn.onnx.Model, path, bytes, torch.nn.Module, or any object with build()
        A path names an ONNX file (.onnx) or one that clcnn.save() wrote, bytes are an ONNX file. A module
        of PyTorch goes through torch's exporter to ONNX, in eval mode.
    input_shape : shape, sequence of shapes, or dict of shapes by input name
        N,C,spatial...; not needed for a Graph, a saved model, nor an ONNX model whose inputs have no
        unknown dimension. For a module of PyTorch example inputs, a tensor or a tuple of them, or shapes.
    device : Device or selector, or a list of them, optional
        See clcnn.Device. Of a list, each once, it returns a clcnn.PlanGroup, a plan that uses them all.
    precision : {"highest", "strict", "high", "medium"}
        "highest": float32 as PyTorch means it. "strict": no transformed sums. "high": operands rounded to
        tf32. "medium": weights stored as halves, and on GPUs large maps between steps, too, where what
        exceeds 65504 becomes infinite; inputs, outputs and what `outputs` names stay float32, and
        Plan.explain() tells what is stored how.
    workspace_limit : int or str
        Bytes of scratch that one layer may use, also as text ("512M"); on GPUs also what other layers need
        for their activations anyway.
    memory_limit : int or str
        Bytes that activations, workspace and weights may take, 0 for no limit. A plan that takes more gives
        way to the one that is expected to be fastest among those with less scratch, filters that are made
        in every run and, where batch_part is 0, fewer items of the batch at a time; Plan.explain() tells.
        On CPU devices it reads inputs where they are: a run that has to copy them, with a timeout or at an
        address that is no multiple of 16, takes their bytes besides. Refused, before anything is allocated,
        where the smallest takes more.
    algorithms : str or {layer: algorithm}, optional
        Algorithms to force (see Plan.explain()); a layer that was merged with another one is taken apart
        where the merged one cannot use it. "*" stands for every layer that is not named: each whose
        operator has the algorithm and can use it does, the rules decide elsewhere. One name is short for
        {"*": name}.
    outputs : iterable of str
        Names of layers whose results are wanted besides the model's own.
    fuse : bool
        False keeps every layer by itself.
    chain : bool, optional
        Run consecutive steps inside one kernel, which saves their launches (CPU devices; NVIDIA GPUs from
        Ampere on): None where a rule expects a gain, True wherever the device can, False nowhere;
        Plan.stats tells "chained_steps" and "launch_count".
    batch_part : int
        Items of a batch that layers compute at a time, one layer after the other for these before the next
        items follow, wherever it divides the batch; maps between such layers take memory for so many items
        only. 0: as is expected to be fastest (CPU devices, for maps that leave the cache); the batch
        itself: every layer at once. explain() tells which layers do so.
    skip : bool
        False computes every zero, for comparison; True leaves out zeros that lie together in maps, with the
        same results to the last bit (Winograd), and those of a linear layer's one row that comes out of a
        relu (CPU devices).
    zeros : Zeros, path, {layer: share}, or float, optional
        What is known of the zeros in the inputs of layers, for choices: what clcnn.calibrate() gave, a file
        of it, shares of zero elements, or one share for all. None: what the model was saved with, if
        anything; {}: nothing.
    guard : bool
        Test mode with guard bands around every buffer.
    tune : {"off", "table", "measure"}, optional
        "off" chooses by the rules alone; "table" (the default, unless CLCNN_TUNE says otherwise) follows
        what was measured for the device, see clcnn.wisdom; "measure" measures this model first and
        remembers it. The rules know a CPU device's profile once it was measured, which only "measure" does
        (clcnn.wisdom.profile).
    state : State, optional
        On the same device, has the arrays of the graph's states; plans of other batches may share it.
    like : Plan, optional
        A plan of the same net for another size, on the same CPU device: its algorithms and kernels are taken
        wherever they serve, so that hardly any has to be built (elsewhere it changes nothing).
    threads : int, optional
        Cores of a CPU device that runs may use, where `device` is no open one; None for all of them.
    background : bool
        On a CPU device, and unless the best kernels are there already, begin with few and small ones, and
        build the best while the plan already runs; the first run after they are there takes them (see
        Plan.ready and Plan.wait). Results then may
        differ by what the precision allows, and until then both forms of the weights take memory. Elsewhere
        it changes nothing.

    Returns
    -------
    Plan

    Raises
    ------
    ArgumentError, ShapeError, UnsupportedError
        What is wrong with the model or an argument.
    DeviceMemoryError, BuildError, NoDeviceError, DeviceError
        What the device refused.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> net = clcnn.nn.Sequential(clcnn.nn.Conv2d(3, 8, 3, padding=1), clcnn.nn.ReLU())
    >>> with clcnn.compile(net, (1, 3, 32, 32)) as plan:
    ...     y = plan(np.zeros((1, 3, 32, 32), np.float32))
    >>> y.shape
    (1, 8, 32, 32)
    """
    if not isinstance(device, devices.ONE):
        return _group(**locals())
    opening = devices.opening(device, threads)
    model, input_shape = sources.opened(model, input_shape, kept=True)
    graph = sources.graph_of(model, input_shape)
    sparse = dict(known_zeros.of_graph(known_zeros.of_model(model) if zeros is None else zeros, graph))
    main = tuple(graph.outputs)
    extra = _arguments.names(outputs, "outputs")
    overrides = _overrides(algorithms)
    if extra and graph is model:
        graph = graph.copy()  # the extra outputs are this plan's, not the caller's graph's
    for name in extra:
        graph.output(graph.layer(name), name)
    target = opening()
    start = time.perf_counter()
    limit = parse_bytes(workspace_limit, "workspace_limit")
    mode = wisdom.mode(tune)
    known = profile.of(target, measured=mode == "measure")
    options: dict[str, Any] = dict(
        precision=precision,
        workspace_limit=limit,
        memory_limit=parse_bytes(memory_limit, "memory_limit"),
        overrides=overrides,
        wisdom=_wisdom(graph, target, mode, precision, known, limit, sparse, state),
        profile=known,
        zeros={**sparse},
        fuse=fuse,
        chain=chain,
        batch_part=batch_part,
        skip=skip,
        guard=guard,
        state=state,
        like=like._core if isinstance(like, Plan) else like,
    )
    if background and target.type == "cpu":
        plan = _begun(_kept(graph, options), target, main, options)
    else:
        if isinstance(model, OnnxFile):
            graph._donate(())  # nobody else has its arrays
        core = patiently(lambda watch: _core.Plan(target, graph._core, watch=watch, **options))
        plan = Plan(core, main, graph.rows())
    stats = plan._core.stats()
    logger.info(
        "compiled %d layers to %d steps in %.0f ms, %s of device memory",
        len(plan.rows),
        stats["step_count"],
        1e3 * (time.perf_counter() - start),
        size(stats["peak_bytes"]),
    )
    for note in plan._core.rewrites():
        logger.debug("rewrite: %s", note)
    return plan


def _group(model: Any, input_shape: Any, device: Any, threads: int | None, **options: Any) -> Plan:
    """compile() for several devices."""
    from clcnn import plan_group

    if options["state"] is not None:
        raise ArgumentError("state: it lies on one device; train.Trainer(device=[...]) trains on several")
    given = device if isinstance(device, list | tuple) else [device]
    chosen = given if threads is None else [devices.get(one, threads) for one in given]
    several = devices.several(chosen, "device")
    return plan_group.compiled(compile, *sources.opened(model, input_shape), several, options)


def _begun(graph: Graph, device: _core.Device, main: tuple[str, ...], options: dict[str, Any]) -> Plan:
    """A plan with the best kernels where they are there already, else with few and small ones, while the best
    are built."""

    def best(watch: Watch) -> _core.Plan:
        return _core.Plan(device, graph._core, watch=watch, **options)

    with suppress(BuildError):
        return Plan(patiently(best, Loading()), main, graph.rows())
    quick = patiently(lambda watch: _core.Plan(device, graph._core, watch=watch, quick=True, **options))
    plan = Plan(quick, main, graph.rows())
    plan._improve(best)
    return plan


def _kept(graph: Graph, options: dict[str, Any]) -> Graph:
    """A graph that the caller cannot change while it is compiled."""
    if graph.states:
        raise ArgumentError("background: a plan with states keeps the kernels that it begins with")
    options["overrides"] = dict(options["overrides"])
    return graph.copy()


def _overrides(algorithms: str | Mapping[str, str] | None) -> dict[str, str]:
    """{layer: algorithm}, with "*" for every layer."""
    if isinstance(algorithms, str):
        algorithms = {EVERY_LAYER: algorithms}
    overrides = _arguments.mapping(
        algorithms, "algorithms", 'an algorithm or {layer: algorithm}, "*" for all'
    )
    if EVERY_LAYER in overrides:
        known = {name for op in _core.ops().values() for name in op["algos"]}
        if overrides[EVERY_LAYER] not in known:
            wrong = _arguments.shown(overrides[EVERY_LAYER])
            raise ArgumentError(
                f"algorithms: there is no algorithm {wrong}; there are {', '.join(sorted(known))}"
            )
    return overrides


def _wisdom(
    graph: Graph,
    device: _core.Device,
    mode: str,
    precision: _arguments.Precision,
    known_of_device: profile.Profile,
    limit: int,
    zeros: dict[str, known_zeros.LayerZeros],
    state: State | None,
) -> wisdom.Wisdom:
    if mode == "off":
        return {}
    known = wisdom.known(device)
    if mode == "measure":
        from clcnn.wisdom.measure import measure

        found = measure(
            graph,
            device,
            precision=precision,
            workspace_limit=limit,
            profile=known_of_device,
            zeros=zeros,
            state=state,
        )
        known = found.into(known)
        wisdom.remember(device, known, found.times)
    return known
