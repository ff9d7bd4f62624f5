"""What a device can do at most, measured: multiply-adds in registers, and copies in memory."""

from __future__ import annotations

import importlib.util
import threading
import time

import common
import numpy as np

import clcnn

CHAINS, STEPS, GROUPS = 24, 20000, 64  # independent sums hide the latency of a multiply-add

FMA = """
kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fma_peak(global float *y, float b)
{
    float%(width)d sum[%(chains)d];
    for (int i = 0; i < %(chains)d; i++)
        sum[i] = (float%(width)d)(b + i);
    for (int step = 0; step < %(steps)d; step++)
        #pragma unroll
        for (int i = 0; i < %(chains)d; i++)
            sum[i] = fma(sum[i], (float%(width)d)(b), (float%(width)d)(b));
    for (int i = 1; i < %(chains)d; i++)
        sum[0] += sum[i];
    vstore%(width)d(sum[0], get_global_id(0), y);
}
"""


def copy_bandwidth() -> float:
    """GB/s, reads and writes together, of copies on every core at once: less than a kernel that only reads
    can have, and more than one with a bad pattern gets."""
    size, threads = 64 << 20, common.cores()
    pairs = [(np.zeros(size, np.uint8), np.ones(size, np.uint8)) for _ in range(threads)]

    def once() -> float:
        workers = [threading.Thread(target=np.copyto, args=pair) for pair in pairs]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - start

    return 2e-9 * size * threads / min(once() for _ in range(8))


def fma_rate(device: clcnn.Device) -> float | None:
    """GFLOP/s of multiply-adds on vectors in registers, on every compute unit of a CPU device; None without
    pyopencl."""
    if not importlib.util.find_spec("pyopencl"):
        return None
    import pyopencl as cl

    found = [d for p in cl.get_platforms() for d in p.get_devices() if d.name.strip() == device.name]
    if not found:
        return None
    width = max(4, min(16, device.float_width))
    context = cl.Context(found[:1])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    kernel = cl.Program(context, FMA % {"width": width, "chains": CHAINS, "steps": STEPS}).build().fma_peak
    y = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, 4 * width * GROUPS)
    times = []
    for _ in range(50):
        done = kernel(queue, (GROUPS,), (1,), y, np.float32(0.5))
        done.wait()
        times.append(done.profile.end - done.profile.start)
    return 2.0 * width * CHAINS * STEPS * GROUPS / min(times)
