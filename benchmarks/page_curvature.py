"""Figures about what the curvature is used for: influence of sequences, and several vectors at once."""

from __future__ import annotations

from page_text import load, paragraph, table

HESSIAN = "hessian, tolerance 0.0001"


def influence() -> str:
    """The scores beside leaving sequences out and training again."""
    found = load("influence-cpu.json")
    G, coarse, H = (found[name] for name in ("gauss-newton, tolerance 0.0001", "gauss-newton, tolerance 0.1", HESSIAN))
    return paragraph(
        f"`python benchmarks/influence.py` trains an LSTM regression of {found['weights']} weights on "
        f"{found['sequences']} sequences to a minimum, then again without each of {found['left_out']} of them. "
        "Spearman's correlation of the changes of the validation loss with the scores is "
        f"{H['spearman']:.2f} for the Hessian and {G['spearman']:.2f} for G (tolerance 1e-4; {H['cg_iterations']} and "
        f"{G['cg_iterations']} iterations of CG), and {coarse['spearman']:.2f} for G with the tolerance 0.1 "
        f"({coarse['cg_iterations']} iterations). What is missing with G is the curvature of the outputs times the "
        "residuals, not the accuracy of CG."
    )


def influence_weak() -> str:
    """The same with a weak penalty, for whole sequences and for a small share of each."""
    whole, share = (load(f"influence-weak-penalty/{name}influence-cpu.json") for name in ("", "share/"))
    G = "gauss-newton, tolerance 0.0001"
    return paragraph(
        f"The estimate is of first order. With l2 = {whole['l2']:g} in place of 0.01 and less noise, leaving out "
        f"{100 * share['share']:.0f}% of the weight of each of {share['left_out']} sequences agrees with the Hessian's "
        f"scores (Spearman {share[HESSIAN]['spearman']:.3f}; G {share[G]['spearman']:.2f}), but leaving the whole "
        f"sequences out does not ({whole[HESSIAN]['spearman']:.2f}; G {whole[G]['spearman']:.2f}): the weights then "
        f"move too far (`{share['machine']['command']}`, and the same without `--share`)."
    )


def several_vectors() -> str:
    """k products, the bound of stacking, and the matrix products at their peak."""
    rows = [
        (
            f"{case['arch']}, H {case['H']}, T {case['T']}, B {case['B']}, `{case['backend']}`",
            *(f"{case[name] * 1e3:.0f}" for name in ("products", "stacked", "at_peak")),
            f"{case['products'] / case['stacked']:.2f}",
        )
        for case in load("several-vectors-cpu.json")["cases"]
    ]
    return table(("network", "16 products", "one, 16 copies", "matrix products at their peak", "ratio"), rows)
