"""A checkpoint is refused that was cut, changed, or made by somebody else, even if its checksum is right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as safetensors_bytes
from support.damage import a_handful, sealed_checkpoint
from support.refusals import COMMANDS, READ, RESUME, call, refused, replaced
from support.tiny_runs import snapshot, tiny_train

from hfrnn.runs.checkpoint import checkpoint_bytes, load_checkpoint


@pytest.mark.nightly
def test_a_checkpoint_that_is_cut_anywhere_is_refused() -> None:
    for name, arguments in (("last", RESUME), ("best", ["evaluate", "run"])):
        content = Path(f"run/{name}.safetensors").read_bytes()
        header = 8 + int.from_bytes(content[:8], "little")
        places = {1, 4, 7, 8, 9, 40, header - 1, header, header + 1, len(content) - 1}
        places |= set(range(100, len(content), len(content) // 12))
        for place in sorted(places):
            with replaced(f"run/{name}.safetensors", content[:place]):
                assert f"{name}.safetensors" in refused(*arguments)


def with_theta(
    change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], name: str = "theta"
) -> Callable[[Any, Any], bytes]:
    return lambda arrays, meta: checkpoint_bytes({**arrays, name: change(arrays[name])}, meta)


def with_meta(**changes: Any) -> Callable[[Any, Any], bytes]:
    return lambda arrays, meta: checkpoint_bytes(arrays, {**meta, **changes})


def without(*names: str) -> Callable[[Any, Any], bytes]:
    return lambda arrays, meta: checkpoint_bytes(
        {key: value for key, value in arrays.items() if key not in names},
        {key: value for key, value in meta.items() if key not in names},
    )


def with_entry(value: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    def change(theta: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        theta = theta.copy()
        theta[5] = value
        return theta

    return change


def header_of(length: int, text: bytes) -> bytes:
    return length.to_bytes(8, "little") + text


FORGED: dict[str, Callable[[Any, Any], bytes]] = {  # refused by whoever reads them
    "foreign safetensors": lambda arrays, meta: safetensors_bytes(arrays),
    "another format": lambda arrays, meta: sealed_checkpoint("1", json.dumps(meta), arrays, "other"),
    "a newer version": lambda arrays, meta: sealed_checkpoint("2", json.dumps(meta), arrays),
    "meta is no JSON": lambda arrays, meta: sealed_checkpoint("1", "{", arrays),
    "meta is nested too deeply": lambda arrays, meta: sealed_checkpoint("1", "[" * 100_000, arrays),
    "a header longer than the file": lambda arrays, meta: header_of(10**6, b"{}"),
    "a header of 2^64 bytes": lambda arrays, meta: header_of(2**64 - 1, b"{}"),
    "a header with a list of metadata": lambda arrays, meta: header_of(19, b'{"__metadata__":[]}'),
    "a header nested too deeply": lambda arrays, meta: header_of(100_000, b"[" * 100_000),
    "a parameter less": with_theta(lambda theta: theta[:-1]),
    "parameters as a column": with_theta(lambda theta: theta[:, None]),
    "parameters in double precision": with_theta(lambda theta: theta.astype(np.float64)),
    "a parameter that is NaN": with_theta(with_entry(np.nan)),
    "an average that is NaN": with_theta(with_entry(np.nan), "method.average"),
}
SIZES = {"n_in": 28, "n_out": 28}
FORGED_NETWORKS: dict[str, Callable[[Any, Any], bytes]] = {  # read by evaluate and sample
    "no network": without("network"),
    "a network without sizes": with_meta(network={}),
    "a network of another size": with_meta(network={"n_in": 3, "n_out": 3, "loss": "softmax"}),
    "a network of a boundless size": with_meta(network={"n_in": 10**30, "n_out": 10**30, "loss": "softmax"}),
    "a network with another loss": with_meta(network={"n_in": 28, "n_out": 28, "loss": "hinge"}),
    "classes that are none": with_meta(network={**SIZES, "loss": "class-softmax", "classes": ["a"] * 28}),
    "too few classes": with_meta(network={**SIZES, "loss": "class-softmax", "classes": [0, 1]}),
    "a network with an unknown option": with_meta(network={"n_in": 28, "n_out": 28, "loss": "softmax", "colour": 1}),
}
METHOD_STATES: dict[str, Any] = {"kind": "heavy", "mu": float("nan"), "sampler": [1, 2]}
FORGED_STATES: dict[str, Callable[[Any, Any], bytes]] = {  # read by --resume
    **{
        f"a {key} of the method": lambda arrays, meta, key=key: checkpoint_bytes(
            arrays, {**meta, "method": {**meta["method"], key: METHOD_STATES[key]}}
        )
        for key in METHOD_STATES
    },
    **{f"no {name}": without(name) for name in ("update", "seconds", "symbols", "method", "best", "last", "plans")},
    "an update below 0": with_meta(update=-1),
    "another update": with_meta(update=1),
    "a best that is a number": with_meta(best=3),
    "plans without shards": with_meta(plans={"gradient": {}, "curvature": {}}),
    "plans of another batch": with_meta(
        plans={role: {"shards": [0, 3], "stretch": 10, "keep": "all", "slots": 1} for role in ("gradient", "curvature")}
    ),
}


@pytest.mark.parametrize("case", a_handful(FORGED))
def test_a_foreign_checkpoint_is_refused_though_its_checksum_is_right(case: str) -> None:
    arrays, meta = load_checkpoint("run/last.safetensors")
    for name in ("last.safetensors", "best.safetensors"):
        with replaced(f"run/{name}", FORGED[case](arrays, meta)):
            for command in READ[name]:
                assert "run" in refused(*COMMANDS[command])


@pytest.mark.parametrize("case", a_handful(FORGED_NETWORKS))
def test_a_checkpoint_with_another_network_is_refused_though_its_checksum_is_right(case: str) -> None:
    content = FORGED_NETWORKS[case](*load_checkpoint("run/best.safetensors"))
    with replaced("run/best.safetensors", content):
        assert re.search("checkpoint|class|loss", refused("evaluate", "run"))
        assert re.search("checkpoint|class|loss", refused("sample", "run"))


@pytest.mark.parametrize("case", a_handful(FORGED_STATES))
def test_a_checkpoint_with_another_state_is_refused_though_its_checksum_is_right(case: str) -> None:
    content = FORGED_STATES[case](*load_checkpoint("run/last.safetensors"))
    with replaced("run/last.safetensors", content):
        assert "last.safetensors" in refused(*RESUME)


def test_a_checkpoint_with_another_vector_of_cg_is_refused() -> None:
    arrays, meta = load_checkpoint("run/last.safetensors")
    vector = arrays.pop("method.cg_solution")
    for other in (None, vector[:-1], vector.astype(np.float64), np.full_like(vector, np.nan)):
        changed = arrays if other is None else {**arrays, "method.cg_solution": other}
        with replaced("run/last.safetensors", checkpoint_bytes(changed, meta)):
            refused(*RESUME)


STREAMS = {"arch": "rnn", "streams": 4}


@pytest.mark.parametrize(("method", "options"), [
    ("sgd", STREAMS),
    *(pytest.param(method, STREAMS, marks=pytest.mark.nightly) for method in ("adam", "soap", "muon")),
    pytest.param("online", {"arch": "lstm-krause", "streams": 2, "sequence_length": 50}, marks=pytest.mark.nightly),
])  # fmt: skip
def test_every_array_of_a_method_is_needed_as_it_was(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    tiny_train(tmp_path, optimizer=method, **options)
    path = tmp_path / "run" / "last.safetensors"
    whole, (arrays, meta) = path.read_bytes(), load_checkpoint(path)
    resume = ["train", "--resume", str(tmp_path / "run"), *RESUME[3:]]
    names = [name for name in arrays if name.startswith("method.")]
    assert names
    for name in names:
        value = arrays[name]
        for damaged in (None, value[:-1], value[None], value.astype(np.float64), np.full_like(value, np.nan)):
            others = {key: array for key, array in arrays.items() if key != name}
            path.write_bytes(checkpoint_bytes(others if damaged is None else {**others, name: damaged}, meta))
            before = snapshot(tmp_path)
            assert "last.safetensors" in refused(*resume)
            assert snapshot(tmp_path) == before
    path.write_bytes(whole)
    assert call(*resume).exit_code == 0


def test_a_network_whose_weights_make_it_overflow_says_so() -> None:
    arrays, meta = load_checkpoint("run/best.safetensors")
    huge = with_theta(lambda theta: np.full_like(theta, 3e38), "method.average")
    with replaced("run/best.safetensors", huge(arrays, meta)):
        assert "not finite" in refused("evaluate", "run", code=1)
        assert "not finite" in refused("sample", "run", code=1)
