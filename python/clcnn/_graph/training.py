"""What steps of training are made of, in a graph: states that outlive runs, and gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from clcnn._graph.facts import Facts
from clcnn._graph.records import Record

if TYPE_CHECKING:
    from clcnn.value import Value


class Training(Facts):
    """The part of clcnn.Graph that makes states and gradients."""

    if TYPE_CHECKING:
        _value_names: Counter[str]
        _node_names: Counter[str]

        def value(self, x: Any, dtype: str = "float32") -> Value: ...
        def _new_value(self) -> Value: ...

    def state(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """An array that outlives runs: that of this name in the clcnn.State which a plan is compiled with.

        Every step finds it as it was when the run began; assign() says what is in it afterwards.

        Parameters
        ----------
        name : str
        shape : sequence of int
        dtype : {"float32", "int64", "int32", "bool", "uint8"}
            Default "float32".

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            The name is taken; what is wrong with shape or dtype.

        Examples
        --------
        See assign().

        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.state("total", (2,)).shape, list(g.states)
        ((2,), ['total'])
        """
        self._core.state(name, shape, dtype)
        self._value_names[name] += 1
        value = self._new_value()
        self._records.append(Record("state", name, (value.id,), shape=value.shape, dtype=dtype))
        return value

    def assign(self, state: Value, value: Any) -> None:
        """What a run that commits, Plan.step(), leaves in a state; other runs leave it as it is.

        Parameters
        ----------
        state : Value
            Given by state(), and assigned to once.
        value : Value, array or number
            Of the same shape and dtype.

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            `state` is none, or was assigned to; `value` does not fit.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> total = g.state("total", (2,))
        >>> g.assign(total, total + g.input("x", (2,)))
        >>> g.output(total)
        >>> with clcnn.State({"total": np.ones(2, np.float32)}) as state:
        ...     _ = clcnn.compile(g, state=state, device=state.device).step([1.0, 2.0])
        ...     state["total"].tolist()
        [2.0, 3.0]
        """
        to, new = self.value(state), self.value(value)
        self._core.assign(to.id, new.id)
        name = next(r.name for r in self._records if to.id in r.values)
        self._records.append(Record("assign", name, (), inputs=(to.id, new.id)))

    def commit_when(self, value: Value) -> None:
        """The condition of all that is assigned: a step that finds it false leaves every state as it is.

        Parameters
        ----------
        value : Value
            One bool.

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            There is a condition already; `value` is not one bool.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> best, x = g.state("best", (1,)), g.input("x", (1,))
        >>> g.assign(best, x)
        >>> g.commit_when(x > best)
        >>> g.output(best)
        >>> with clcnn.State({"best": np.zeros(1, np.float32)}) as state:
        ...     plan = clcnn.compile(g, state=state, device=state.device)
        ...     for n in (3.0, 2.0):
        ...         _ = plan.step([n])
        ...     state["best"].item()
        3.0
        """
        at = self.value(value).id
        self._core.commit_when(at)
        self._records.append(Record("commit_when", "commit_when", (), inputs=(at,)))

    def gradients(self, loss: Value, wrt: Iterable[Value]) -> list[Value | None]:
        """Gradients of a value with respect to others; clcnn.grad() says more.

        Parameters
        ----------
        loss : Value
            float32 of one element.
        wrt : iterable of Value

        Returns
        -------
        list of Value
            Each of the shape of its own; None where the loss does not depend on a value.

        Raises
        ------
        UnsupportedError
            An operator on the way has no gradient.
        ArgumentError, ShapeError, DtypeError
            The loss has several elements, say.

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> x, y = g.input("x", (2, 3)), g.input("y", (4,))
        >>> dx, dy = g.gradients((x * x).sum(), [x, y])
        >>> dx.shape, dy
        ((2, 3), None)
        """
        ids = [self.value(x).id for x in (loss, *wrt)]
        known = {row["name"] for row in self._core.nodes()}
        found, count = self._core.gradients(ids[0], ids[1:])
        made = tuple(self._new_value().id for _ in range(len(self._values), count))
        self._node_names.update(row["name"] for row in self._core.nodes() if row["name"] not in known)
        self._records.append(Record("gradients", "gradients", made, inputs=tuple(ids)))
        return [None if i is None else self._values[i] for i in found]
