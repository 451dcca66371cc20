"""The program of a network in C99: one step of one sequence, without allocation."""

from __future__ import annotations

import functools
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.backend import HostArray
from hfrnn.exports.program import Program, about_data
from hfrnn.exports.walk import compute, evaluate

FUNCTIONS = {
    "sigmoid": "static real sigmoid(real a) { return (real)0.5 * TANH((real)0.5 * a) + (real)0.5; }",
    "relu": "static real relu(real a) { return a > 0 ? a : 0; }",
    "maximum": "static real maximum(real a, real b) { return a > b ? a : b; }",
    "softplus": "static real softplus(real a) { return (a > 0 ? a : 0) + LOG1P(EXP(a > 0 ? -a : a)); }",
    "product": """static void product(const real *x, int n, const real *W, int stride, int m, real *out)
{   /* out = x @ W: (n) times (n, m) */
    for (int j = 0; j < m; ++j) out[j] = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < m; ++j) out[j] += x[i] * W[i * stride + j];
}""",
    "softmax": """static void softmax(const real *a, int n, real *out)
{
    real most = a[0], sum = 0;
    for (int k = 1; k < n; ++k) if (a[k] > most) most = a[k];
    for (int k = 0; k < n; ++k) sum += out[k] = EXP(a[k] - most);
    for (int k = 0; k < n; ++k) out[k] /= sum;
}""",
    "class_softmax": """static void class_softmax(const real *y, const real *z, real *of_class, real *work, real *out)
{   /* a softmax over the classes, times one over the symbols of each class */
    softmax(y, CLASSES, of_class);
    for (int c = 0, k = 0; c < CLASSES; k += class_size[c], ++c) {
        softmax(z + k, class_size[c], work + k);
        for (int n = k; n < k + class_size[c]; ++n) work[n] *= of_class[c];
    }
    for (int k = 0; k < NETWORK_OUTPUTS; ++k) out[k] = work[column_of_symbol[k]];
}""",
}
"""The functions of a program; only those that it calls are in it."""
HEADER = """/* {net}: a network of hfrnn {version}, in C99.

{about}

    network_state state;
    network_start(&state);  (once, before the first step)
    network_step(&state, {argument}, outputs);  (for each step)

A step allocates no memory and uses nothing global but constants, so every sequence may have a state of its own. */

#ifndef NETWORK_H
#define NETWORK_H

typedef {type} real;

{sizes}

typedef struct {{
    /* the state */
    {state}
    /* values within a step */
    {work}
}} network_state;

void network_start(network_state *state);
void network_step(network_state *state, {given}, real *outputs);

#endif
"""


@dataclass(frozen=True)
class Vector:
    """A row of numbers: `at` returns the expression of one of them, given that of its index."""

    width: int
    at: Callable[[str], str]
    memory: str = ""  # a pointer to them, if they are in memory


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory, or several of them along a first axis."""

    memory: str
    shape: tuple[int, ...]
    stride: int  # from row to row


@dataclass(frozen=True)
class Count:
    """A count of steps: an expression."""

    text: str


def in_memory(pointer: str, width: int) -> Vector:
    """Return the vector at a pointer."""
    name, _, first = pointer.partition(" + ")
    return Vector(width, lambda k: f"{name}[{first} + {k}]" if first else f"{name}[{k}]", pointer)


def offset(pointer: str, by: int) -> str:
    """Return a pointer to an entry further on."""
    begun = re.fullmatch(r"(.*) \+ (\d+)", pointer)
    name, total = (begun[1], by + int(begun[2])) if begun else (pointer, by)
    return f"{name} + {total}" if total else name


def array_in_c(name: str, shape: tuple[int, ...]) -> Any:
    """Return the value of an array of C by its name."""
    return in_memory(name, shape[0]) if len(shape) == 1 else Matrix(name, shape, shape[-1])


def without_parentheses(text: str) -> str:
    """Return an expression without parentheses around all of it."""
    depth, ends = 0, []
    for n, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            ends.append(n)
    return text[1:-1] if text.startswith("(") and ends == [len(text) - 1] else text


class CMachine:
    """Writes the statements of a step; every buffer is a member of the state."""

    def __init__(self, dtype: str) -> None:
        self.suffix = "f" if dtype == "float32" else ""
        self.lines: list[str] = []
        self.buffers: dict[str, int] = {}
        self.prefix, self.depth = "", 1

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def buffer(self, name: str, width: int) -> Vector:
        """Return a new buffer."""
        name, number = f"{self.prefix}{name}", 1
        while (found := name if number == 1 else f"{name}_{number}") in self.buffers:
            number += 1
        self.buffers[found] = width
        return in_memory(f"s->{found}", width)

    def fill(self, out: Vector, value: Any, start: int = 0) -> None:
        """Write a value to a buffer, from its entry `start` on."""
        width = value.width if isinstance(value, Vector) else out.width
        at = f"k + {start}" if start else "k"
        self.write(f"for (int k = 0; k < {width}; ++k) {out.at(at)} = {without_parentheses(self.text(value, 'k'))};")

    def text(self, value: Any, k: str) -> str:
        """Return the expression of one number of a value."""
        if isinstance(value, Vector):
            return value.at("0" if value.width == 1 else k)
        return repr(float(value)) + self.suffix

    def stored(self, value: Vector, name: str = "a") -> Vector:
        """Return a value in memory."""
        if value.memory:
            return value
        out = self.buffer(name, value.width)
        self.fill(out, value)
        return out

    # ------------------------------------------------------------------ the operations of a machine

    def assign(self, name: str, value: Any) -> Any:
        if isinstance(value, Vector):
            return self.stored(value, name)
        return value

    def binary(self, operator: str, a: Any, b: Any) -> Any:
        if isinstance(a, Count):
            return Count(f"{a.text} {operator} {b}")
        width = max(each.width for each in (a, b) if isinstance(each, Vector))
        return Vector(width, lambda k: f"({self.text(a, k)} {operator} {self.text(b, k)})")

    def product(self, x: Vector, W: Matrix) -> Vector:
        x, (n, m) = self.stored(x), W.shape
        out = self.buffer("product", m)
        self.write(f"product({x.memory}, {n}, {W.memory}, {W.stride}, {m}, {out.memory});")
        return out

    def call(self, function: str, arguments: Sequence[Any]) -> Any:
        if function == "softmax":
            z, out = self.stored(arguments[0]), self.buffer("p", arguments[0].width)
            self.write(f"softmax({z.memory}, {z.width}, {out.memory});")
            return out
        if function == "class_softmax":
            y, z = map(self.stored, arguments)
            buffers = [self.buffer("of_class", y.width), self.buffer("work", z.width), self.buffer("p", z.width)]
            self.write(f"class_softmax({', '.join(each.memory for each in (y, z, *buffers))});")
            return buffers[-1]
        function = function if function in FUNCTIONS else function.upper()
        width = arguments[0].width
        return Vector(width, lambda k: (
            f"{function}({', '.join(without_parentheses(self.text(each, k)) for each in arguments)})"
        ))  # fmt: skip

    def columns(self, x: Any, start: int | None, stop: int | None) -> Any:
        first = start or 0
        if isinstance(x, Matrix):
            last = x.shape[-1] if stop is None else stop
            return replace(x, memory=offset(x.memory, first), shape=(*x.shape[:-1], last - first))
        x = self.stored(x)
        return in_memory(offset(x.memory, first), (x.width if stop is None else stop) - first)

    def rows(self, W: Matrix, start: int | None, stop: int | None) -> Matrix:
        first, last = start or 0, W.shape[0] if stop is None else stop
        return replace(W, memory=offset(W.memory, first * W.stride), shape=(last - first, W.shape[1]))

    def entry(self, x: Matrix, number: int) -> Any:
        pointer = offset(x.memory, number * math.prod(x.shape[1:]))
        return Matrix(pointer, x.shape[1:], x.stride) if len(x.shape) == 3 else in_memory(pointer, x.shape[1])

    def look_up(self, W: Matrix, symbols: Vector) -> Vector:
        return in_memory(f"{W.memory} + (long){symbols.at('0')} * {W.stride}", W.shape[1])

    def split(self, x: Vector, parts: int) -> tuple[Vector, ...]:
        x, width = self.stored(x), x.width // parts
        return tuple(self.columns(x, n * width, (n + 1) * width) for n in range(parts))

    def concat(self, parts: Sequence[Vector]) -> Vector:
        if len(parts) == 1:
            return parts[0]
        out, at = self.buffer("side_by_side", sum(part.width for part in parts)), 0
        for part in parts:
            self.fill(out, part, at)
            at += part.width
        return out

    def stack(self, parts: Sequence[Vector]) -> Matrix:
        width = parts[0].width
        out = self.buffer("stack", len(parts) * width)
        for n, part in enumerate(parts):
            self.fill(out, part, n * width)
        return Matrix(out.memory, (len(parts), width), width)

    def zeros(self, width: int) -> Vector:
        return Vector(width, lambda k: "0")

    def every(self, period: int, t: Count, then: Callable[[], Vector], otherwise: Callable[[], Vector]) -> Vector:
        rest = otherwise()
        out = self.buffer("module", rest.width)
        for test, value in ((f"if ({t.text} % {period} == 0) {{", then), ("} else {", lambda: rest)):
            self.write(test)
            self.depth += 1
            self.fill(out, value())
            self.depth -= 1
        self.write("}")
        return out


def c_source(program: Program) -> dict[str, str]:
    """Return the texts of network.h and network.c by name."""
    machine = CMachine(program.dtype)
    for layer in program.layers:
        machine.buffers |= {f"{layer.group}_{name}": math.prod(shape) for name, shape in layer.state.items()}
    states = len(machine.buffers)
    _write_step(program, machine)
    start, step = _start(program), "\n".join(machine.lines)
    functions = _called(step)
    given = "int symbol" if program.symbols else "const real *inputs"
    text = "\n\n".join([
        f"/* {program.net.describe()}: a network of hfrnn {__version__} */",
        "\n".join(['#include "network.h"', "", "#include <math.h>", "#include <string.h>"]),
        "\n".join([*_macros(program.dtype, "".join([*functions, step])), *_constants(program, start + step)]),
        *functions, start,
        f"void network_step(network_state *s, {given}, real *outputs)\n{{\n{step}\n}}\n",
    ])  # fmt: skip
    return {"network.h": _header(program, list(machine.buffers.items()), states, given), "network.c": text}


def _called(step: str) -> list[str]:
    """Return the functions that the statements of a step call, directly or not."""
    called: list[str] = []
    for name, text in reversed(FUNCTIONS.items()):
        if re.search(rf"\b{name}\(", "\n".join([step, *called])):
            called.insert(0, text)
    return called


def _macros(dtype: str, code: str) -> list[str]:
    """Return the names of the functions of math.h in this precision, those that are called."""
    suffix = "f" if dtype == "float32" else ""
    return [f"#define {name} {name.lower()}{suffix}" for name in ("TANH", "EXP", "LOG1P") if f"{name}(" in code]


def _constants(program: Program, code: str) -> list[str]:
    """Return the definitions of the arrays that the code reads."""
    arrays = {name.replace(".", "_"): (value, "real") for name, value in program.arrays.items()}
    arrays |= {name: (value, "double") for name, value in program.scales.items()}
    found = []
    if "class_softmax(" in code:
        sizes, column_of_symbol = program.class_order
        found += [f"#define CLASSES {len(sizes)}", _array("class_size", np.array(sizes), "int")]
        found.append(_array("column_of_symbol", np.array(column_of_symbol), "int"))
    return found + [_array(name, *of) for name, of in arrays.items() if re.search(rf"\b{name}\b", code)]


def _array(name: str, values: HostArray, kind: str) -> str:
    """Return the definition of an array of C, with numbers that are read back to the same bits."""
    if values.dtype.kind == "f":
        single = values.dtype.itemsize == 4
        texts = [f"{value:.9g}" if single else repr(value) for value in values.ravel().tolist()]
        numbers = [(t if "." in t or "e" in t else f"{t}.0") + "f" * single for t in texts]
    else:
        numbers = list(map(str, values.tolist()))
    lines = textwrap.wrap(", ".join(numbers), 110, break_long_words=False, break_on_hyphens=False)
    return "\n    ".join([f"static const {kind} {name}[{values.size}] = {{  /* {values.shape} */", *lines]) + "};"


def _start(program: Program) -> str:
    """Return the function that writes the state before the first step."""
    lines = []
    for layer in program.layers:
        for name, shape in layer.state.items():
            member, width = f"{layer.group}_{name}", shape[-1] if shape else 0
            if not shape:
                lines.append(f"s->{member} = 0;")
            elif program.initial(layer, name) is None:
                lines.append(f"memset(s->{member}, 0, sizeof s->{member});")
            else:
                index = f"k % {width}" if len(shape) > 1 else "k"
                lines.append(f"for (int k = 0; k < {math.prod(shape)}; ++k) s->{member}[k] = {member}0[{index}];")
    body = "\n".join(f"    {line}" for line in lines or ["(void)s;"])
    return f"void network_start(network_state *s)\n{{\n{body}\n}}"


def _write_step(program: Program, machine: CMachine) -> None:
    """Write the statements of a step."""
    net, scales = program.net, program.scales
    arrays = {name: array_in_c(name.replace(".", "_"), value.shape) for name, value in program.arrays.items()}
    given = Vector(1, lambda k: "symbol") if program.symbols else in_memory("inputs", net.n_in)
    if net.embedding is not None:
        given = machine.look_up(arrays["embedding.E"], given)
    elif "input_mean" in scales:
        scaled = "(real)((inputs[{0}] - input_mean[{0}]) / input_deviation[{0}])"
        given = machine.assign("scaled", Vector(net.n_in, scaled.format))
    handed: dict[str, Any] = {}
    for l, layer in enumerate(program.layers):
        machine.prefix = f"{layer.group}_"
        names: dict[str, Any] = {"inputs": given, "below": handed.get(f"h{l - 1}")}
        names |= {name: arrays[f"{layer.group}.{name}"] for name in layer.parameters}
        for name, shape in layer.state.items():
            member = f"s->{layer.group}_{name}"
            names[name] = array_in_c(member, shape) if shape else Count(member)
        compute(layer.lines, names, machine)
        handed[f"h{l}"] = names[layer.handed_up]
        for name, shape in layer.state.items():
            member, value = f"s->{layer.group}_{name}", names[name]
            changed = f"memcpy({member}, {value.memory}, sizeof {member});" if shape else f"{member} = {value.text};"
            machine.write(changed)
    machine.prefix = ""
    names = handed | {"inputs": given} | {name: arrays[f"output.{name}"] for name in program.head}
    compute(program.output, names, machine)
    outputs = evaluate(program.prediction, names, machine)
    if "target_mean" in scales:
        unscaled = "(real)({} * target_deviation[{}] + target_mean[{}])"
        outputs = Vector(net.n_out, functools.partial(lambda p, k: unscaled.format(p.at(k), k, k), outputs))
    machine.fill(in_memory("outputs", net.n_out), outputs)


def _header(program: Program, members: list[tuple[str, int]], states: int, given: str) -> str:
    """Return network.h; the first members of the struct are the state."""
    net, state = program.net, {f"{each.group}_{name}": s for each in program.layers for name, s in each.state.items()}
    fields = [
        f"unsigned long long {name};" if state.get(name) == () else f"real {name}[{size}];" for name, size in members
    ]
    sizes = [] if program.symbols else [f"#define NETWORK_INPUTS {net.n_in}"]
    return HEADER.format(
        net=net.describe(), version=__version__, about="\n".join(about_data(program)),
        argument="symbol" if program.symbols else "inputs", type="float" if program.dtype == "float32" else "double",
        sizes="\n".join([*sizes, f"#define NETWORK_OUTPUTS {net.n_out}"]),
        state="\n    ".join(fields[:states]), work="\n    ".join(fields[states:]), given=given,
    )  # fmt: skip
