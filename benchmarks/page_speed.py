"""The figures of docs/speed.md, from the JSON files in results/; each function returns Markdown. See tables.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from page_text import listed, load, ms, paragraph, table

PRODUCTS = "products-cpu.json"
OLDER_JAX = "jax-0.4.31/products-cpu.json"
SPEED = {
    "products": PRODUCTS,
    "products, JAX 0.4.31": OLDER_JAX,
    "where the time goes": "account-cpu.json",
    "architectures": "architectures-cpu.json",
    "architectures, numba": "architectures-cpu-numba.json",
    "numba and NumPy at 64 units": "hidden-64/architectures-cpu-numba.json",
    "memory": "memory-cpu.json",
    "planner": "planner-cpu.json",
    "large vocabularies": "vocabulary-cpu.json",
    "word-level training": "epoch-cpu.json",
    "alternatives": "alternatives-cpu.json",
    "fused passes": "fused-passes-cpu.json",
    "parts of an update": "update-account-cpu.json",
    "updates of small networks": "updates-cpu.json",
    "small networks": "small-cpu.json",
    "where the time of small networks goes": "account-small-cpu.json",
}
"""The measurements of docs/speed.md."""
MIDDLE = (256, 100, 256)
"""H, T and B of the size for which the account is shown in detail."""
Value = Callable[[dict[str, Any]], str | None]
"""What a table shows of the candidates of an operation; None if a candidate did not take part."""


def speed_runs() -> str:
    """What was measured by which command, when and on which machine."""
    rows = []
    for what, file in SPEED.items():
        facts = load(file)["machine"]
        load_average = f"{facts['load_before']:.1f}"
        if "load_after" in facts:
            load_average += f", {facts['load_after']:.1f}"
        kernels = sorted({entry.rsplit(", ", 1)[-1].removesuffix(" kernels") for entry in facts["blas"]})
        rows.append(
            [
                f"{what}: `{facts['command']}`",
                f"`{file}`",
                facts["date"][:10],
                f"`{facts['commit'][:9]}`",
                facts["processor"],
                ", ".join(kernels),
                load_average,
            ]
        )
    return table(["measurement", "file", "date", "commit", "processor", "BLAS kernels", "load"], rows)


def versions() -> str:
    """The versions of the packages that products.py compared."""
    packages = load(PRODUCTS)["machine"]["packages"]
    names = {"numpy": "NumPy", "scipy": "SciPy", "jax": "JAX", "torch": "PyTorch", "numba": "numba"}
    found = [f"{shown} {packages[name].split('+')[0]}" for name, shown in names.items() if name in packages]
    return paragraph(f"The versions were {listed(found)}.")


def _by_size(file: str = PRODUCTS) -> dict[tuple[int, int, int], dict[str, dict[str, Any]]]:
    """The cases of products.py: {(H, T, B): {architecture: case}}."""
    sizes: dict[tuple[int, int, int], dict[str, dict[str, Any]]] = {}
    for case in load(file)["cases"]:
        sizes.setdefault((case["H"], case["T"], case["B"]), {})[case["arch"]] = case
    return sizes


def _cell(cases: dict[str, dict[str, Any]], operation: str, value: Value) -> str:
    """The values of all architectures that have one, separated by slashes."""
    found = (value(case["operations"][operation]["candidates"]) for case in cases.values())
    return " / ".join(each for each in found if each is not None)


def _milliseconds(name: str) -> Value:
    return lambda found: ms(found[name]["median"]) if name in found else None


def _ratio(name: str, other: str) -> Value:
    return lambda found: f"{found[name]['median'] / found[other]['median']:.2f}"


def _share(name: str) -> Value:
    return lambda found: f"{found[name]['share_of_peak']:.0%}"


def products() -> str:
    """Gradients and products beside the peers'."""
    sizes = _by_size()
    labels = {
        ("gradient", "hfrnn"): "gradient: hfrnn",
        ("gradient", "hfrnn, numba"): "gradient: hfrnn, `--backend numba`",
        ("gradient", "jax"): "gradient: JAX",
        ("gradient", "torch"): "gradient: PyTorch",
        ("product", "hfrnn"): "product: hfrnn",
        ("product", "hfrnn, numba"): "product: hfrnn, `--backend numba`",
        ("product", "jax kept"): "product: JAX, linearization kept",
        ("product", "jax"): "product: JAX, jvp and vjp",
        ("product", "torch"): "product: PyTorch, double backward",
        ("product", "torch kept"): "product: PyTorch, graphs kept",
    }
    rows = _rows(sizes, labels)
    for name, label in (("hfrnn", "hfrnn"), ("hfrnn, numba", "`numba`")):
        for what, value in (
            ("time on one thread over time on two", _ratio(f"{name}, 1 thread", name)),
            ("fraction of the matrix-product peak", _share(name)),
        ):
            cells = (_cell(cases, "product", value) for cases in sizes.values())
            rows.append([f"product, {what}: {label}", *cells])
    return table(_head(sizes), rows)


def _rows(
    sizes: dict[tuple[int, int, int], dict[str, dict[str, Any]]], labels: dict[tuple[str, str], str]
) -> list[list[str]]:
    """Return a row of milliseconds for each operation and candidate, under their label."""
    return [
        [label, *(_cell(cases, operation, _milliseconds(name)) for cases in sizes.values())]
        for (operation, name), label in labels.items()
    ]


def _head(sizes: dict[tuple[int, int, int], dict[str, dict[str, Any]]]) -> list[str]:
    archs = " / ".join(next(iter(sizes.values())))
    return [f"{archs}; H, T, B", *(", ".join(map(str, size)) for size in sizes)]


def older_jax() -> str:
    """Gradients and products beside those of JAX 0.4.31."""
    sizes = _by_size(OLDER_JAX)
    labels = {
        ("gradient", "hfrnn"): "gradient: hfrnn",
        ("gradient", "hfrnn, numba"): "gradient: hfrnn, `--backend numba`",
        ("gradient", "jax"): "gradient: JAX 0.4.31",
        ("product", "hfrnn"): "product: hfrnn",
        ("product", "hfrnn, numba"): "product: hfrnn, `--backend numba`",
        ("product", "jax kept"): "product: JAX 0.4.31, linearization kept",
    }
    return table(_head(sizes), _rows(sizes, labels))


def peak() -> str:
    """The peak that fractions refer to."""
    return paragraph(
        f"""
        The peak is the best rate of a large `np.matmul` in the same run, {load(PRODUCTS)["peak"] / 1e9:.0f} GFLOP/s.
        The fraction counts the matrix products of the recurrent and output maps: once for the loss, three times for
        the gradient and four times for the product. It counts nothing for the one-hot input map.
        """
    )


def product_over_gradient() -> str:
    """The range of a product's time over a gradient's."""
    ratios = [
        case["operations"]["product"]["candidates"]["hfrnn"]["median"]
        / case["operations"]["gradient"]["candidates"]["hfrnn"]["median"]
        for case in load(PRODUCTS)["cases"]
    ]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def numba_over_numpy() -> str:
    """The time with numba over the time with NumPy, by size."""
    rows = []
    for (H, T, B), cases in _by_size().items():
        for operation in ("gradient", "product"):
            for threads, suffix in (("2", ""), ("1", ", 1 thread")):
                ratio = _cell(cases, operation, _ratio(f"hfrnn, numba{suffix}", f"hfrnn{suffix}"))
                rows.append([f"{H}, {T}, {B}", operation, threads, ratio])
    archs = " / ".join(next(iter(_by_size().values())))
    return table(["H, T, B", "operation", "threads", archs], rows)


def hidden_64() -> str:
    """The time of a product with numba over the time with NumPy, for each architecture at 64 units."""
    compiled, same = [], []
    for row in load(SPEED["numba and NumPy at 64 units"])["architectures"]:
        ratio = row["product"]["median"] / row["product_numpy"]["median"]
        (compiled if row["compiled"] else same).append((f"{row['arch']} {ratio:.2f}", ratio))
    noise = [ratio for _, ratio in same]
    return paragraph(
        f"With 64 units on one thread, the time of a product with numba, divided by that with NumPy, is: "
        f"{', '.join(text for text, _ in compiled)}. The architectures without a compiled variant run the same NumPy "
        f"code on both backends and give {min(noise):.2f} to {max(noise):.2f}, which shows the noise."
    )


def account() -> str:
    """The parts of the time of an operation, on two threads."""
    parts = ("products", "passes", "interpreter", "waiting", "rest")
    found = load(SPEED["where the time goes"])["cases"]
    rows = []
    for each in found:
        if each["arch"] == "lstm" or ((each["H"], each["T"], each["B"]) == MIDDLE and each["backend"] == "numba"):
            spent, size = each["threads"]["2"], f"{each['H']}, {each['T']}, {each['B']}"
            times = (ms(seconds) for seconds in (spent["seconds"], *(spent["parts"][part] for part in parts)))
            what = f"{each['arch']}, {size}: {each['operation']}, `{each['backend']}`"
            rows.append([what, *times, f"{spent['rate_over_step']:.0%}"])
    return table(["operation", "total, ms", *parts, "rate over a step's"], rows)


def account_of_passes() -> str:
    """The bytes of the passes of an LSTM, and how fast memory and the cache are."""
    found = load(SPEED["where the time goes"])
    speed = {int(size): rate for size, rate in found["bandwidths"]["2"].items()}
    sentences = [
        f"On two threads, each of them moves {speed[2**20] / 1e9:.0f} GB/s in arrays of 1 MiB and "
        f"{speed[max(speed)] / 1e9:.0f} GB/s in arrays of {max(speed) >> 20} MiB."
    ]
    for each in found["cases"]:
        if each["arch"] == "lstm" and (each["H"], each["T"], each["B"]) == MIDDLE:
            steps = each["T"] * each["shards"]
            sentences.append(
                f"A {each['operation']} of the LSTM with H = {each['H']} makes {each['calls']:,} calls with "
                f"`{each['backend']}`, and its passes read {each['read'] / steps / 2**20:.1f} MiB and write "
                f"{each['written'] / steps / 2**20:.1f} MiB for each step of a shard."
            )
    return paragraph(" ".join(sentences))


def architectures() -> str:
    """The product of every architecture, and its floor."""
    numba = {row["arch"]: row for row in load(SPEED["architectures, numba"])["architectures"]}
    rows = []
    for row in load(SPEED["architectures"])["architectures"]:
        other = numba.get(row["arch"], {})
        cells = ms(row["product"]["median"]), ms(row["floor"]), f"{row['time_over_floor']:.2f}"
        compiled = f"{other['time_over_floor']:.2f}" if other.get("compiled") else "-"
        rows.append([row["arch"], f"{row['parameters']:,}", *cells, compiled])
    return table(["architecture", "weights", "product, ms", "floor, ms", "time over floor", "`numba`"], rows)


def memory() -> str:
    """Memory and time of square-root checkpoints."""
    found = load(SPEED["memory"])
    lengths = sorted({row["T"] for row in found["lengths"]})
    rows = []
    for operation in ("gradient", "product"):
        rows.append([operation])
        for row in (row for T in lengths for row in found["lengths"] if (row["operation"], row["T"]) == (operation, T)):
            way, ratio = row["ways"]["sqrt"], row["time_ratio"]
            cell = f"{way['growing'] / 2**20:.0f} MiB, {way['median'] * 1e3:.0f} ms"
            rows[-1].append(cell if ratio is None else f"{cell}, {ratio:.2f}")
    return table(["T", *map(str, lengths)], rows)


def memory_growth() -> str:
    """The exponents of memory over T."""
    found = load(SPEED["memory"])["exponents"]
    powers = {f"T^{found[f'{operation}, sqrt']['growing']:.2f}" for operation in ("gradient", "product")}
    whole = {f"T^{found[f'{operation}, keep all']['growing']:.2f}" for operation in ("gradient", "product")}
    return paragraph(
        f"The buffers grow as {listed(sorted(powers))}; those of keeping everything grow as {listed(sorted(whole))}."
    )


def planner() -> str:
    """How exact the plans' memory is."""
    ratios = [case["ratio"] for case in load(SPEED["planner"])["cases"]]
    return paragraph(
        "`python benchmarks/planner.py` compares the bytes that a plan expects with the traced bytes, over "
        f"{len(ratios)} random configurations of all architectures and on the number of threads of the plan. The ratio "
        f"is between {min(ratios):.3f} and {max(ratios):.3f}."
    )


def vocabulary() -> str:
    """Segments and class softmax at a large vocabulary."""
    found = load(SPEED["large vocabularies"])
    of_memory, classes = found["memory"], found["class_softmax"]
    parts, once = of_memory["ways"]["segments"], of_memory["ways"]["all at once"]
    gradient, product = (classes["operations"][name] for name in ("gradient", "product"))
    segments, whole = (way["depends_on_V_and_T"] / 2**20 for way in (parts, once))
    return paragraph(
        f"""
        A gradient at V = {of_memory["V"]:,}, H = {of_memory["H"]}, B = {of_memory["B"]}, T = {of_memory["T"]} needs
        {segments:.1f} MiB for the arrays that depend on V and T, with the plan's segments of {parts["segment"]} steps.
        With all logits at once it needs {whole:.1f} MiB ({of_memory["times_less"]:.2f} times as much). The segments
        take {parts["median"] / once["median"]:.2f} times as long. Class softmax (V = {classes["V"]:,},
        H = {classes["H"]}, C = {classes["C"]}) takes {ms(gradient["classes"]["median"])} ms for the gradient of 1,000
        tokens; full softmax takes {ms(gradient["full"]["median"])} ms ({gradient["times_faster"]:.1f} times as long).
        For the product the times are {ms(product["classes"]["median"])} and {ms(product["full"]["median"])} ms
        ({product["times_faster"]:.1f} times as long).
        """
    )


def epoch() -> str:
    """An update and an epoch of word-level training."""
    found = load(SPEED["word-level training"])
    names = {"hfrnn": "hfrnn", "torch": "PyTorch", "hfrnn, class softmax": "hfrnn, class softmax"}
    rows = [
        [shown, ms(found[name]["median"]), f"{found[name]['epoch_seconds']:.0f}"]
        for name, shown in names.items()
        if name in found
    ]
    return table(["", "update, ms", "epoch of PTB, s"], rows)


def other_lookups() -> str:
    """Ways to compute the gradient of a look-up."""
    cases = load(SPEED["alternatives"])["lookups"]
    names = list(cases[0]["seconds"])
    rows = [
        [f"{case['V']}, {case['columns']}, {case['tokens']}", *(f"{1e6 * case['seconds'][name]:.0f}" for name in names)]
        for case in cases
    ]
    return table(["symbols, columns, tokens", *names], rows)


def other_steps() -> str:
    """Ways to compute the matrix product of a step."""
    cases = load(SPEED["alternatives"])["steps"]
    names = list(dict.fromkeys(name for case in cases for name in case["seconds"]))
    rows = [
        [
            f"{case['B']}, {case['H']}, {case['columns']}",
            *(f"{1e6 * case['seconds'][name]:.0f}" if name in case["seconds"] else "-" for name in names),
        ]
        for case in cases
    ]
    return table(["sequences, units, columns", *names], rows)


def updates() -> str:
    """Updates of small networks with the defaults of training, before a change and after it, and their parts."""
    found = load(SPEED["updates of small networks"])
    checkouts = found["machine"]["checkouts"]
    wholes = {"all": "processor", "training": "training"}
    rows = []
    for record in found["cases"]:
        before, after = (record["medians"][name] for name in ("before", "after"))
        cells = [_change(before[entry], after[entry]) for entry in wholes.values()]
        rows.append([record["case"], str(record["threads"]), *cells])
    one = {record["case"]: record["medians"]["after"] for record in found["cases"] if record["threads"] == 1}
    first = next(iter(one.values()))
    skipped = {"updates", "clock", "processor", "training", "loss"}
    parts = [[part, *(ms(each[part]) for each in one.values())] for part in first if part not in skipped]
    about = paragraph(
        f"Processor milliseconds per update at commit `{checkouts['before'][:9]}` and at `{checkouts['after'][:9]}`, "
        f"which took turns (medians of {found['rounds']} runs); in brackets: how many times as many updates per second."
    )
    then = "The parts of an update at the later commit, on one thread:"
    whole = table(["network and data", "threads", *wholes], rows)
    return f"{about}\n\n{whole}\n\n{then}\n\n{table(['', *one], parts)}"


def _change(before: float, after: float) -> str:
    return f"{ms(before)} to {ms(after)} ({before / after:.2f})"


def torch_products() -> str:
    """Products of PyTorch's recurrent modules by hfrnn, double backward and curvlinops, with the circumstances."""
    found = load("torch-products.json")
    names = {
        "hfrnn": "hfrnn", "hfrnn, numba": "`numba`", "double backward": "double backward",
        "double backward, graphs kept": "graphs kept", "curvlinops": "curvlinops",
    }  # fmt: skip
    rows = [
        [f"`nn.{record['kind']}`, {record['H']}", *(_way(record["ways"].get(name)) for name in names)]
        for record in found["products"]
    ]
    facts = found["machine"]
    packages = facts["packages"]
    about = paragraph(
        f"In brackets: times hfrnn's. Measured by `{facts['command']}` on {facts['date'][:10]} ({facts['processor']}; "
        f"PyTorch {packages['torch'].split('+')[0]}, curvlinops {packages['curvlinops-for-pytorch']}). Other programs "
        f"were running: the load was {facts['load_before']:.1f} before and {facts['load_after']:.1f} after. PyTorch's "
        'times are the faster of oneDNN on and off. `numba` is `from_torch(model, backend="numba")`. Kept graphs '
        "take memory for every step."
    )
    return f"{table(['model, H', *names.values()], rows)}\n\n{about}"


def _way(way: dict[str, Any] | None) -> str:
    return "" if way is None else f"{ms(way['median'])} ({way['times_hfrnn']:.1f})"


def small_account() -> str:
    """The parts of the time of gradients and products of small networks on one thread, and the rates of products."""
    found = load("account-small-cpu.json")
    parts = ("products", "passes", "interpreter", "rest")
    rows = []
    for each in found["cases"]:
        spent = each["threads"]["1"]
        rates = [product["rates"]["1"] / 1e9 for product in each["products"][:3]]
        rows.append(
            [
                f"{each['arch']} {each['H']}, {each['T']}, {each['B']}: {each['operation']}",
                *(ms(seconds) for seconds in (spent["seconds"], *(spent["parts"][part] for part in parts))),
                f"{each['calls']}",
                ", ".join(f"{rate:.0f}" for rate in rates),
            ]
        )
    head = paragraph(
        f"Milliseconds on one thread with the backend `numba`, at commit `{found['machine']['commit'][:9]}`; then the "
        "calls that Python makes, and the rates of the three largest kinds of matrix products, each timed alone, in "
        f"GFLOP/s. A large product reached {found['peaks']['1'] / 1e9:.0f} GFLOP/s in the same run."
    )
    return f"{head}\n\n{table(['operation', 'total', *parts, 'calls', 'GFLOP/s'], rows)}"


def small(file: str = "small-cpu.json") -> str:
    """Gradients and products of small networks on one thread, beside an earlier build, JAX, the floor and the peak."""
    found = load(file)
    facts, one = found["machine"], found["machine"]["threads"] == 1
    beside = any(each["jax_product_times"] for each in found["rows"])
    several = f"{facts['vectors']} vectors"
    columns = ["network and H, T, B", "gradient", "product", several]
    columns += ["their share of the peak", "floor over product"] if one else []
    columns += ["JAX, gradient and product"] if beside else []
    rows = []
    for each in found["rows"]:
        times, jax = each["milliseconds"], each["jax_gradient_times"]
        cells = {
            "network and H, T, B": f"{each['arch']} {each['H']}, {each['T']}, {each['B']}",
            "gradient": f"{ms(times['g0'] / 1e3)} to {ms(times['g1'] / 1e3)} ({each['gradient_times']:.2f})",
            "product": f"{ms(times['p0'] / 1e3)} to {ms(times['p1'] / 1e3)} ({each['product_times']:.2f})",
            several: f"{each['several_times']:.2f}",
            "their share of the peak": f"{each['several_share']:.0%}",
            "floor over product": f"{each['floor_share']:.0%}",
            "JAX, gradient and product": "" if jax is None else f"{jax:.1f}, {each['jax_product_times']:.1f}",
        }
        rows.append([cells[name] for name in columns])
    notes = [f"*{several}* has this ratio for a product with so many vectors."]
    notes += ["*Their share of the peak* is that of their recurrent matrix products."] if one else []
    notes += ["*JAX* has the time of JAX over ours; JAX keeps the linearization of a product."] if beside else []
    head = paragraph(
        f"{'Processor milliseconds' if one else 'Milliseconds on two threads'} at commit `{facts['before'][:9]}` and "
        f"at `{facts['commit'][:9]}`, which took turns (medians); in brackets: how many times as fast. "
        f"{' '.join(notes)} Ratios are medians of ratios within a turn."
    )
    return f"{head}\n\n{table(columns, rows)}"


def small_two_threads() -> str:
    """The same on two threads."""
    return small("small-cpu-2-threads.json")


def larger() -> str:
    """The same of larger networks, on one thread and without JAX."""
    return small("larger-cpu.json")
