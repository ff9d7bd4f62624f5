"""Ctrl-C at any time, between any two steps of Python: threads that work for the main thread go on."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

import clcnn
from clcnn._background.threads import Task, Threads
from helpers import python
from trainers import interrupt_after

WANTED = 300  # interrupts


def test_work_is_done_or_was_never_begun() -> None:
    """A task that was begun has ended before KeyboardInterrupt is raised."""
    threads, rng, interrupted, begun = Threads(2), random.Random(0), 0, [0, 0]

    def work(i: int) -> None:
        begun[i] += 1
        time.sleep(1e-4)
        begun[i] -= 1

    while interrupted < WANTED:
        tasks = [Task(lambda i=i: work(i)) for i in range(2)]
        try:
            with interrupt_after(rng.uniform(1e-6, 4e-4)):
                threads.finish(tasks)
        except KeyboardInterrupt:
            interrupted += 1
        assert begun == [0, 0]
    threads.close()


def test_the_streams_of_map_end_and_others_begin(device: clcnn.Device) -> None:
    rng, interrupted, x = random.Random(1), 0, np.zeros((1, 1, 28, 28), np.float32)
    with clcnn.compile(clcnn.zoo.lenet5(), x.shape, device=device) as plan:
        wanted = plan(x)
        while interrupted < 20:
            try:
                with interrupt_after(rng.uniform(1e-5, 5e-3)):
                    for y in plan.map(x for _ in range(40)):
                        np.testing.assert_array_equal(y, wanted)
            except KeyboardInterrupt:
                interrupted += 1
        assert [y.tobytes() for y in plan.map([x] * 3)] == [wanted.tobytes()] * 3


def test_stop_is_called_for_work_that_has_begun() -> None:
    threads, stopped = Threads(1), []

    def work() -> None:
        while not stopped:
            time.sleep(1e-3)

    never = Task(lambda: stopped.append("the second task began"))
    with pytest.raises(KeyboardInterrupt), interrupt_after(0.05):
        threads.finish([Task(work), never], lambda: stopped.append("stop"))
    assert stopped == ["stop"] and never.done
    threads.close()


def test_tasks_give_and_raise_once() -> None:
    threads = Threads(1)
    right, wrong = Task(lambda: 7), Task(lambda: int("seven"))
    threads.finish([right, wrong])
    assert right.error is None and isinstance(wrong.error, ValueError)
    assert right.result() == 7
    with pytest.raises(ValueError, match="seven"):
        wrong.result()
    threads.close()


def test_a_task_that_waits_longer_than_asked() -> None:
    task = Task(lambda: None)
    assert not task.wait(0.01) and not task.done
    task.cancel()
    task()
    assert task.wait(0.0) and task.done


def test_threads_begin_and_end_or_were_never_there() -> None:
    """Nor is anything but KeyboardInterrupt raised, and threads that were made can be closed again."""
    rng, interrupted, threads = random.Random(2), 0, Threads(1)
    while interrupted < WANTED:
        try:
            with interrupt_after(rng.uniform(1e-6, 3e-4)):
                threads = Threads(3)
                threads.close()
        except KeyboardInterrupt:
            interrupted += 1
            threads.close()


def test_threads_that_nobody_closes_do_not_keep_the_program() -> None:
    code = """
from clcnn._background.threads import Task, Threads
threads = Threads(2)
task = Task(lambda: print("done"))
threads.begin(task)
"""
    assert python(code).strip() == "done"


def test_threads_that_nobody_has_any_more_end() -> None:
    """Without Python code that Ctrl-C could interrupt: what __del__() raises is lost."""
    threads = Threads(3)
    mine = list(threads._threads)
    threads.finish([Task(int)])
    del threads
    assert all(thread.wait(10) for thread in mine)
    assert not hasattr(Threads, "__del__")


def test_a_forked_child_is_told() -> None:
    code = """
import os
from clcnn._background.threads import Task, Threads
from clcnn.errors import StateError
threads = Threads(1)
child = os.fork()
if child == 0:
    try:
        threads.finish([Task(int)])
    except StateError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert "the process was forked" in python(code)
