"""What mutations.py breaks: pieces of source text, what takes their place, and the tests that ought to notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutation:
    """Replace `old`, which stands exactly once in `file`, by `new`; `tests` are pytest arguments."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: {old}  ->  {new}"

    def applicable(self, project: Path) -> bool:
        """Whether the text stands exactly once in the project's file."""
        path = project / self.file
        return path.is_file() and path.read_text(encoding="utf-8").count(self.old) == 1

    def apply(self, project: Path) -> None:
        """Replace the text in the project's file."""
        path = project / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


ORACLE = "tests/oracle/test_oracle_networks.py"
KERNELS, GRADCHECK = ("tests/test_kernels.py",), ("tests/test_gradcheck.py",)
CASES = {  # which of the oracle's cases run for a mutation
    "rnn": ("rnn-single-softmax", "rnn-stack"),
    "relu": ("rnn-relu-stack",),
    "logistic": ("rnn-logistic-stack",),
    "mrnn": ("mrnn-single-softmax", "mrnn-chain"),
    "lstm": ("lstm-single-softmax", "lstm-real-input-carried"),
    "lstm-krause": ("lstm-krause-single-softmax", "lstm-krause-real-input-carried"),
    "mlstm": ("mlstm-single-softmax", "mlstm-one-step-carried"),
    "mlstm-standard": ("mlstm-standard-single-softmax",),
    "losses": ("rnn-single-softmax", "rnn-single-logistic", "rnn-single-squared"),
    "stack": ("rnn-stack", "mrnn-no-direct-output", "mrnn-no-direct-input"),
    "padding": ("rnn-ragged", "mrnn-ragged"),
}


def mutations(file: str, *rows: tuple[str, str, str]) -> list[Mutation]:
    """One for each (key of CASES, old, new)."""
    return [
        Mutation(f"hfrnn/{file}", old, new, (ORACLE, "-k", " or ".join(f"[{case}" for case in CASES[key])))
        for key, old, new in rows
    ]


def own_mutations(arch: str, file: str, *rows: tuple[str, str]) -> list[Mutation]:
    """One for each (old, new), tried on the tests of the architecture's own and of every kernel."""
    tests = (f"tests/test_{arch}.py", "tests/test_kernels.py", "-k", arch)
    return [Mutation(f"hfrnn/{file}", old, new, tests) for old, new in rows]


MUTATIONS = [
    *[
        Mutation("hfrnn/class_softmax.py", old, new, ("tests/test_class_softmax.py",))
        for old, new in (
            ("symbol * count // n_out for symbol", "symbol % count for symbol"),
            ("if given.size != n_out:", "if False:"),
            ("np.arange(n_out)\n        self.costly", "np.arange(n_out)[::-1]\n        self.costly"),
            ("int(np.argmax(self.sizes[self.class_of]))", "int(np.argmin(self.sizes[self.class_of]))"),
            ("tokens = np.flatnonzero(wanted)", "tokens = np.arange(wanted.size)"),
            ("tokens, targets = tokens[order], targets[order]", "targets = targets[order]"),
            ("columns = self.column_of[targets] - self.starts[classes]", "columns = 0 * classes"),
            ("scale=scale.reshape(-1, 1)[on_device]", "scale=scale.reshape(-1, 1)[: tokens.size]"),
            (
                "of_tokens = normalise_(xp, q, (xp.arange(N), aim.classes))",
                "of_tokens = 0 * normalise_(xp, q, (xp.arange(N), aim.classes))",
            ),
            ("part -= part.real.max(axis=-1, keepdims=True)", "pass"),
            ("part /= totals[tokens]", "pass"),
            ("of_tokens += xp.log(totals[:, 0]) - chosen", "of_tokens -= chosen"),
            ("losses[aim.tokens] = of_tokens", "losses[: aim.tokens.size] = of_tokens"),
            ("rows(dy)[tape.xp.arange(aim.tokens.size), aim.classes] -= 1", "pass"),
            ("dz[aim.outputs] -= 1", "pass"),
            (
                "self.class_map.rforward(p, v, found, Rfound, tape, Ry)  # R1",
                "self.class_map.forward(p, Rfound, tape, Ry)",
            ),
            ("curve_(xp, y, Ry, tape.scratch", "(xp, y, Ry, tape.scratch"),
            ("self.map.columns(p, columns), self.map.columns(v, columns)", "(self.map.columns(p, columns),) * 2"),
            ("curve_(xp, _part(z, *group), part, _part(work, *group))", "pass"),
            ("dy *= aim.scale", "pass"),
            ("part *= aim.scale[:, tokens]", "pass"),
            ("self.class_map.backward(p, found, dy, tape, grad, by_class)", "[h.fill(0) for h in by_class.values()]"),
            ("dh += by_word[l]", "pass"),
            ("dhs[l][...] = 0", "pass"),
            ("total += dh", "pass"),
            ("_log_softmax(backend.xp, log_p[:, :, of_class]) + log_q", "log_p[:, :, of_class] + log_q"),
            ("return log_p[:, :, backend.asarray(self.column_of)]", "return log_p"),
            (
                "z[:, :, : self.n_classes] = self.class_map.rforward",
                "z[:, :, self.n_classes :][:, :, : self.n_classes] = self.class_map.rforward",
            ),
        )
    ],
    *[
        Mutation("hfrnn/data/vocabulary.py", old, new, ("tests/test_class_softmax.py",))
        for old, new in (
            ("so_far * n_classes >= (c + 1) * total", "so_far * n_classes > (c + 1) * total"),
            ("if c < n_classes - 1 and", "if"),
            ("np.argsort(-uses.astype(np.int64)", "np.argsort(uses.astype(np.int64)"),
        )
    ],
    *mutations(
        "kernels/rnn.py",
        ("rnn", 'hs[0] = state["h"]', "hs[0] = 0"),
        ("logistic", '1.0 if name == "tanh" else h', "1.0"),
        ("relu", "out[...] = h.real > 0", "out[...] = 1"),
        ("rnn", 'product(tape, hs[:K], v["W_h"], out=Ra)', "Ra[...] = 0"),
        ("rnn", 'xp.matmul(Rh, p["W_h"], out=work)', 'xp.matmul(Rh, p["W_h"].T, out=work)'),
        ("rnn", "xp.matmul(da, W_T, out=dh)", "xp.matmul(da, W_T.T, out=dh)"),
        ("rnn", 'dh[...] = dstate["h"]', "dh[...] = 0"),
        ("rnn", "da += tape.preactivation_adjoint[t]", "da -= tape.preactivation_adjoint[t]"),
        ("rnn", 'add_weight_gradient(tape, hs[:K], dU, grad["W_h"])', 'grad["W_h"] *= 1'),
    ),
    *mutations(
        "kernels/mrnn.py",
        ("mrnn", "Rxi[t], work, U_m[t], RU[t]", "Rxi[t], work, xi[t], RU[t]"),
        ("mrnn", "dm, U_m[t], xi[t], dxi[t]", "dm, U_m[t], m[t], dxi[t]"),
        ("mrnn", "xp.multiply(dh, slope[t], out=da)", "da[...] = dh"),
        ("mrnn", "xp.matmul(da, W_mh_T, out=dm)", "xp.matmul(da, W_mh_T.T, out=dm)"),
        ("mrnn", 'add_weight_gradient(tape, hs[:K], dxi, grad["W_hm"])', 'grad["W_hm"] *= 1'),
    ),
    *mutations(
        "kernels/lstm.py",
        ("lstm", "xp.matmul(Rh, W, out=work)", "work[...] = 0"),
        ("lstm", "Ra += RU", "pass"),
        ("lstm", 'Rc[...] = Rstate["c"]', "Rc[...] = 0"),
        ("lstm", 'dc[...] = dstate["c"]', "dc[...] = 0"),
        ("lstm-krause", "xp.matmul(dU[t], W_T, out=dh)", "xp.matmul(dU[t], -W_T, out=dh)"),
        ("lstm-krause", 'tape["h"][:K], dU, grad["W_h"]', 'tape["h"][1:], dU, grad["W_h"]'),
    ),
    *mutations(
        "kernels/cells.py",
        ("lstm", 'depth, B, H)[0] = state["c"]', "depth, B, H)[0] = 0"),
        ("lstm", "a += U[:, : 4 * H]", "pass"),
        ("mlstm", "Ra += recurrent", "pass"),
        ("lstm", "dh += dhs", "dh[...] = dhs"),
        ("lstm", "c[...] = cs[K % cs.shape[0]]", "c[...] = cs[0]"),
        ("lstm", 'tape.new("h", K + 1, B, H)[0] = state["h"]', 'tape.new("h", K + 1, B, H)[0] = 0'),
        ("lstm-krause", "xp.multiply(f, before, out=c)", "xp.multiply(o, before, out=c)"),
        ("mlstm-standard", "xp.tanh(g, out=g)", "pass"),
        ("lstm", "slope_of_tanh(xp, g, out)", "out[...] = 1"),
        ("lstm-krause", "        out[...] = 1\n", "        out[...] = g\n"),
        ("mlstm", "gates *= work", "pass"),
        ("lstm", "xp.subtract(1.0, gates, out=work)", "xp.add(1.0, gates, out=work)"),
        ("lstm", "k_g *= i  # L4", "pass"),
        ("lstm", "i *= g  # L1", "i *= before"),
        ("lstm", "f *= before  # L2", "f *= cs[1:]"),
        ("mlstm-standard", "o *= factor", "pass"),
        ("lstm-krause", "k_o *= slope", "pass"),
        ("lstm-krause", "*k_o.shape)[...] = k_o", "*k_o.shape)[...] = k_o * slope"),
        ("lstm", 'xp.multiply(o, slope, out=tape.new("k_c", K, B, H))', 'tape.new("k_c", K, B, H)[...] = o'),
        ("lstm", 'Rc *= tape["f"][t]', 'Rc *= tape["k"][t][:, :H]'),
        ("lstm-krause", "Rc += Ri", "Rc -= Ri"),
        ("mlstm", "Rc += Rf", "pass"),
        ("mlstm-standard", "Rc += Rg", "pass"),
        ("lstm-krause", "Rh += Ro", "pass"),
        ("mlstm", 'Rzeta += tape["o"][t] * Rc', "pass"),
        ("lstm", "enumerate((dc, dc, dh, dc))", "enumerate((dc, dh, dc, dc))"),
        ("lstm-krause", "dc += work", "dc[...] = work"),
        ("mlstm", 'dc *= tape["f"][t]', "pass"),
        ("mlstm", 'dc += tape["o"][t] * extra', "pass"),
        ("lstm-krause", 'da[:, 2 * H : 3 * H] += tape["k_zo"][t] * extra', "pass"),
    ),
    *mutations(
        "kernels/mlstm.py",
        ("mlstm", "Ra += RU[:, :, : 4 * H]", "pass"),
        ("mlstm", 'product(tape, m, v["W_m"]', 'product(tape, xi, v["W_m"]'),
        ("mlstm", "xp.multiply(U_m[t], xi[t], out=m[t])", "m[t] = xi[t]"),
        ("mlstm", "xp.matmul(dxi[t], W_hm_T, out=dh)", "xp.matmul(dxi[t], W_hm_T.T, out=dh)"),
        ("mlstm-standard", 'add_weight_gradient(tape, m, das, grad["W_m"])', 'grad["W_m"] *= 1'),
    ),
    *[
        Mutation("hfrnn/kernels/compiled.py", old, new, ("tests/test_compiled.py", "-k", "float64 and carried-all-3"))
        for old, new in (
            ("np.dot(hs[t], W, k[t % k.shape[0]])", "np.dot(hs[0], W, k[t % k.shape[0]])"),
            ("h1[j] = o * _tanh(cj)", "h1[j] = o * cj"),
            ("a_f[j] = c0[j] * f * (ONE - f)  # L2\n            a_o[j] = z", "a_f[j] = f\n            a_o[j] = z"),
            ("k[j] = o * (ONE - z * z)", "k[j] = o * (ONE - z)"),
            ("h1[j] = _tanh(cj * o)", "h1[j] = _tanh(cj)"),
            ("a_o[j] = cj * o * (ONE - o) * slope", "a_o[j] = cj * o * (ONE - o)"),
            ("Rcj = fb[j] * Rcb[j] + Ri + Rf + Rg", "Rcj = fb[j] * Rcb[j] + Ri + Rf"),
            ("(x_o[j] + y_o[j] + z_o[j])", "(x_o[j] + y_o[j])"),
            ("dcj = dcb[j] + kc[j] * dhj", "dcj = kc[j] * dhj"),
            ("dcb[j] = dcj * fb[j]", "dcb[j] = dcj"),
            ("product[j] = Ru[j] * x[j] + u[j] * (Rx[j] + y[j])", "product[j] = Ru[j] * x[j] + u[j] * y[j]"),
            ("np.dot(dU[t], W_T, dh)", "np.dot(dU[0], W_T, dh)"),
            ("d[j], d_m[j] = adjoint[j] * u[j], adjoint[j] * x[j]", "d[j], d_m[j] = adjoint[j] * u[j], adjoint[j]"),
            ("du[: 4 * H] = da[t, b]", "pass"),
        )
    ],
    *own_mutations(
        "gru",
        "kernels/gru.py",
        ('hs[0] = state["h"]', "hs[0] = 0"),
        ('xp.matmul(hs[t], p["W_h"], out=gates)', "gates[...] = 0"),
        ("gates += U[t, :, : 2 * H]", "pass"),
        ("xp.multiply(gates[:, :H], hs[t], out=q_t)", "xp.multiply(gates[:, H:], hs[t], out=q_t)"),
        ("xp.tanh(g_t, out=g_t)", "pass"),
        ("h *= gates[:, H:]", "h *= gates[:, :H]"),
        ("h += g_t", "pass"),
        ("q[t % steps]", "q[0]"),
        ("k_r *= before", "pass"),
        ("k_z *= difference", "pass"),
        ("k *= rz", "pass"),
        ("g *= k_z", "g *= rz[:, :, H:]"),
        ("slope_of_tanh(xp, g, g)", "g[...] = 1"),
        ('product(tape, hs[:K], v["W_h"]', 'product(tape, hs[1:], v["W_h"]'),
        ("Ra += RU[:, :, : 2 * H]", "pass"),
        ("Ra_t += wide", "Ra_t -= wide"),
        ("xp.multiply(rz[t, :, :H], Rh, out=Rq)", "Rq[...] = 0"),
        ("Rq += Ra_t[:, :H]", "pass"),
        ('product(tape, q, v["W_hg"]', 'product(tape, hs[:K], v["W_hg"]'),
        ("Ra_g += RU[:, :, 2 * H :]", "pass"),
        ("work += Ra_g[t]", "work[...] = Ra_g[t]"),
        ("work *= k_g[t]", "pass"),
        ("xp.multiply(rz[t, :, H:], Rh, out=Rh_t)", "Rh_t[...] = Rh"),
        ("Rh_t += Ra_t[:, H:]", "pass"),
        ("Rh_t += work", "pass"),
        ('dh[...] = dstate["h"]', "dh[...] = 0"),
        ("xp.multiply(dh, k_rz[t, :, H:], out=da[:, H:])", "xp.multiply(dh, k_rz[t, :, :H], out=da[:, H:])"),
        ("xp.multiply(dh, k_g[t], out=da_g)", "da_g[...] = dh"),
        ("xp.matmul(da_g, W_g_T, out=dq)", "xp.matmul(da_g, W_g_T.T, out=dq)"),
        ("xp.multiply(dq, k_rz[t, :, :H], out=da[:, :H])", "da[:, :H] = dq"),
        ("dh *= rz[t, :, H:]", "pass"),
        ("dq *= rz[t, :, :H]", "pass"),
        ("dh += dq", "pass"),
        ("dh += work", "pass"),
        ('add_weight_gradient(tape, hs[:K], das, grad["W_h"])', 'grad["W_h"] *= 1'),
        ("tape, q, das_g, grad", "tape, q, das[:, :, :H], grad"),
    ),
    *own_mutations(
        "clockwork",
        "kernels/clockwork.py",
        ('tape.start = start = state["t"]', "tape.start = start = 0"),
        ('"t": start + K', '"t": start + K - 1'),
        ('hs[0] = state["h"]', "hs[0] = 0"),
        ("h[...] = hs[t]  # F3", "h[...] = 0"),
        ("a += U[t, :, part.columns]", "pass"),
        ("xp.tanh(a, out=h[:, part.columns])", "h[:, part.columns] = a"),
        ("slope_of_tanh(xp, hs[1:], ", "slope_of_tanh(xp, hs[:K], "),
        ("time % part.period == 0", "time % part.period == part.period - 1"),
        ("slice(-start % self.period, K", "slice(start % self.period, K"),
        ("(period <= T for T in self.periods)", "(period < T or period == 1 for T in self.periods)"),
        ('v["W_h"], part, rows(share))', 'p["W_h"], part, rows(share))'),
        ("share += RU[times, :, part.columns]", "pass"),
        ('Rhs[0] = Rstate["h"]', "Rhs[0] = 0"),
        ("Rh[...] = Rhs[t]  # R3", "Rh[...] = 0"),
        ("Ra_t += _hear(tape, Rhs[t]", "Ra_t += _hear(tape, Rh"),
        ("xp.multiply(slope[t, :, part.columns], Ra_t, out=Rh[:, part.columns])", "Rh[:, part.columns] = Ra_t"),
        ('dh[...] = dstate["h"]', "dh[...] = 0"),
        ("dh_part, slope[t,", "dh_part, slope[0,"),
        ("dh_part[...] = 0", "pass"),
        ("dh_heard += work", "dh_heard[...] = work"),
        ("dU[...] = 0", "dU[...] = 1"),
        ("dU[times, :, part.columns] = da", "dU[times, :, part.columns] = 0"),
        ("add_weight_gradient(tape, before[:, :, heard], da", "add_weight_gradient(tape, hs[: len(da), :, heard], da"),
        ("if n > 0:", "if n > 1:"),
        ("gathered[...] = picked", "gathered[...] = hs[: len(picked)]"),
        ("W_h[heard, part.columns] = values[heard, part.columns]", "W_h[...] = values"),
        ("tuple(2**n for n", "tuple(n + 1 for n"),
    ),
    *own_mutations(
        "clockwork",
        "sweep.py",
        ("self.integers[name, s] = [", "self.integers[name, s] = self.integers.get((name, 0)) or ["),
    ),
    *own_mutations("clockwork", "model.py", ("value if stop <= longest else last[name]", "value")),
    *mutations(
        "kernels/pointwise.py",
        ("mrnn", "xp.subtract(1.0, out, out=out)", "xp.add(1.0, out, out=out)"),
        ("logistic", "x += 0.5", "x += 0.4"),
        ("rnn", "part += work", "part[...] = work"),
        ("losses", "part += work", "part[...] = work"),
        ("mrnn", "p[name].swapaxes(-1, -2) if prepared is None else prepared", "p[name]"),
        ("mlstm", "recurrent += Rxi", "pass"),
        ("mrnn", "recurrent *= U_m", "recurrent *= xi"),
        ("mlstm", "xp.multiply(RU[:, -Rm.shape[1] :], xi, out=Rm)", "Rm[...] = 0"),
        ("mrnn", "Rm += recurrent", "Rm[...] = recurrent"),
        ("mlstm", "xp.multiply(dm, U_m, out=dxi)", "dxi[...] = dm"),
        ("mrnn", "out=dU[:, -dm.shape[1] :])", "out=dU[:, : dm.shape[1]])"),
    ),
    *[
        Mutation(f"hfrnn/kernels/{file}", old, new, (*KERNELS, f"tests/test_{name}.py", *GRADCHECK, "-k", name))
        for file, name, old, new in (
            ("hornn.py", "hornn", 'hs[:N] = state["history"][::-1]', 'hs[:N] = state["history"]'),
            ("hornn.py", "hornn", "xp.matmul(hs[N + t - 1 - n], p[name][n]", "xp.matmul(hs[t + n], p[name][n]"),
            ("hornn.py", "hornn", "a += x[0, n]  # F2", "a += x[0, 0]"),
            ("hornn.py", "hornn", "a[...] = U[t]\n", "a[...] = 0\n"),
            ("hornn.py", "hornn", "activate_(xp, self.activation, a)", 'activate_(xp, "tanh", a)'),
            ("hornn.py", "hornn", "slope_of(xp, self.activation, hs[N:]", 'slope_of(xp, "tanh", hs[N:]'),
            ("hornn.py", "hornn", '"history", hs[K:])', '"history", hs[:N])'),
            ("hornn.py", "hornn", "product(tape, _before(hs, n, N, K), v[name][n]", "product(tape, hs[N:], v[name][n]"),
            ("hornn.py", "hornn", "Ra += self.route(tape, i, n, slice(K), Rxs, out=Rxs)", "Ra += Rxs"),
            ("hornn.py", "hornn", 'Rhs[:N] = Rstate["history"][::-1]', "Rhs[:N] = 0"),
            ("hornn.py", "hornn", "xp.matmul(Rhs[N + t - 1 - n]", "xp.matmul(Rhs[N + t - 1]"),
            ("hornn.py", "hornn", "Ra_t += self.route(tape, i, n, t, Rx, out=Rx)", "Ra_t += Rx"),
            ("hornn.py", "hornn", "xp.multiply(slope[t], Ra_t, out=Rhs[N + t])", "Rhs[N + t] = Ra_t"),
            ("hornn.py", "hornn", '"Rhistory", Rhs[K:])', '"Rhistory", Rhs[:N])'),
            ("hornn.py", "hornn", "dh[:K] = 0", "dh[:K] = dhs[0]"),
            ("hornn.py", "hornn", 'dh[K:] = dstate["history"][::-1]', "dh[K:] = 0"),
            ("hornn.py", "hornn", "dh_t += dhs[t]", "dh_t[...] = dhs[t]"),
            ("hornn.py", "hornn", "xp.multiply(dh_t, slope[t], out=da)", "da[...] = dh_t"),
            ("hornn.py", "hornn", "da += tape.preactivation_adjoint[t]", "da -= tape.preactivation_adjoint[t]"),
            ("hornn.py", "hornn", "dx = self.route(tape, i, n, t, da, out=routed)", "dx = da"),
            ("hornn.py", "hornn", "before += work  # B3", "before[...] = work"),
            ("hornn.py", "hornn", "dxs = self.route(tape, i, n, slice(K), das, out=all_routed)", "dxs = das"),
            ("hornn.py", "hornn", "_before(hs, n, N, K), dxs, grad[name][n])", "hs[:K], dxs, grad[name][n])"),
            ("hornn.py", "hornn", '"dhistory", dh[:N])', '"dhistory", dh[K:])'),
            ("hornn.py", "hornn", "counted *= self.alpha ** (n + 1)", "counted *= self.alpha"),
            ("hornn.py", "hornn", "tape.xp.multiply(x, self.alpha ** (n + 1), out=out)", "out[...] = x"),
            ("hornn.py", "hornn", "best.real > TIE", "best.real >= 0"),
            ("hornn.py", "hornn", "TIE = 1e-30", "TIE = 0.0"),
            ("hornn.py", "hornn", "best[...] = xp.where(better, x[0, n], best)", "pass"),
            ("hornn.py", "hornn", "winner[...] = xp.where(better, n, winner)", "pass"),
            ("hornn.py", "hornn", "taken *= routes[n, t % rows]", "pass"),
            ("hornn.py", "hornn", "normal(self.scale)", "normal(1.0)"),
            ("hornn_gated.py", "hornn", "slice((n + 1) * self.hidden, (n + 2) * self.hidden)", "slice(self.hidden)"),
            ("hornn_gated.py", "hornn", "r += x[1, n]", "r += x[0, n]"),
            ("hornn_gated.py", "hornn", "sigmoid_(xp, r)  # F2", "pass"),
            ("hornn_gated.py", "hornn", "xp.multiply(r, x[0, n], out=work)", "work[...] = x[0, n]"),
            ("hornn_gated.py", "hornn", "l *= r\n", "pass\n"),
            ("hornn_gated.py", "hornn", "l_n *= work  # L2", "pass"),
            ("hornn_gated.py", "hornn", 'tape[("r", "l")[i]][n, t]', 'tape["r"][n, t]'),
            ("hornn_gated.py", "hornn", "Ra += work  # R2", "pass"),
            ("hornn_gated.py", "hornn", "dU[:, :, :H] = das", "dU[:, :, :H] = 0"),
            ("hornn_gated.py", "hornn", 'tape["l"][n], das, out=dU', 'tape["r"][n], das, out=dU'),
            ("scrn.py", "scrn", 'ss[0] = state["s"]', "ss[0] = 0"),
            ("scrn.py", "scrn", 'hs[0] = state["h"]', "hs[0] = 0"),
            ("scrn.py", "scrn", 'product(tape, ss[1:], p["W_s"], out=a_s)', 'product(tape, ss[:K], p["W_s"], out=a_s)'),
            ("scrn.py", "scrn", "a_s += U[:, :, :H]", "pass"),
            ("scrn.py", "scrn", "a += a_s[t]  # F2", "a[...] = a_s[t]"),
            ("scrn.py", "scrn", "sigmoid_(xp, a)  # F3", "xp.tanh(a, out=a)"),
            ("scrn.py", "scrn", 'slope_of(xp, "logistic"', 'slope_of(xp, "tanh"'),
            ("scrn.py", "scrn", "xp.subtract(ss[:K], U_s, out=e)", "xp.subtract(ss[1:], U_s, out=e)"),
            ("scrn.py", "scrn", "e *= alpha * (1.0 - alpha)", "e *= alpha"),
            ("scrn.py", "scrn", 'Rss[0] = Rstate["s"]', "Rss[0] = 0"),
            ("scrn.py", "scrn", 'xp.multiply(tape["e"], v["q"], out=eRq)', "eRq[...] = 0"),
            ("scrn.py", "scrn", '(ss[1:], v["W_s"])', '(ss[:K], v["W_s"])'),
            ("scrn.py", "scrn", '(Rss[1:], p["W_s"])', '(Rss[:K], p["W_s"])'),
            ("scrn.py", "scrn", '(hs[:K], v["W_h"])', '(hs[1:], v["W_h"])'),
            ("scrn.py", "scrn", 'Rhs[0] = Rstate["h"]', "Rhs[0] = 0"),
            ("scrn.py", "scrn", "Ra_t += step  # R2", "pass"),
            ("scrn.py", "scrn", "xp.multiply(slope[t], Ra_t, out=Rhs[t + 1])", "Rhs[t + 1] = Ra_t"),
            ("scrn.py", "scrn", 'dh[...], ds[...] = dstate["h"], dstate["s"]', 'dh[...], ds[...] = dstate["h"], 0'),
            ("scrn.py", "scrn", "dh += dhs[t, :, :H]", "dh[...] = dhs[t, :, :H]"),
            ("scrn.py", "scrn", "xp.multiply(dh, slope[t], out=das[t])", "das[t] = dh"),
            ("scrn.py", "scrn", "xp.matmul(das[t], W_T, out=dh)", 'xp.matmul(das[t], p["W_h"], out=dh)'),
            ("scrn.py", "scrn", 'product(tape, das, p["W_s"].T, out=dss)', "dss[...] = 0"),
            ("scrn.py", "scrn", "dss += dhs[:, :, H:]", "pass"),
            ("scrn.py", "scrn", "ds_t += ds  # B3", "pass"),
            ("scrn.py", "scrn", "xp.multiply(ds_t, alpha, out=ds)", "ds[...] = ds_t"),
            ("scrn.py", "scrn", "xp.multiply(dss, 1.0 - alpha, out=dU", "xp.multiply(dss, alpha, out=dU"),
            ("scrn.py", "scrn", 'hs[:K], das, grad["W_h"]', 'hs[1:], das, grad["W_h"]'),
            ("scrn.py", "scrn", 'ss[1:], das, grad["W_s"]', 'ss[:K], das, grad["W_s"]'),
            ("scrn.py", "scrn", 'grad["q"] += ', 'grad["q"] -= '),
            ("scrn.py", "scrn", "y[:, :, self.hidden :] = ss", "y[:, :, self.hidden :] = 0"),
            ("scrn.py", "scrn", "xp.multiply(inputs, 1.0 - alpha, out=s[1:])", "s[1:] = inputs"),
            ("scrn.py", "scrn", "xp.multiply(s[t], alpha, out=work)", "work[...] = s[t]"),
            ("scrn.py", "scrn", "math.log(self.alpha / (1 - self.alpha))", "math.log(self.alpha)"),
            ("scrn.py", "scrn", "alpha: float = 0.95", "alpha: float = 0.6"),
        )
    ],
    *mutations(
        "output_map.py",
        ("losses", "xp.multiply(p, Rz.sum(axis=-1, keepdims=True), out=work)", "work[...] = 0"),
        ("rnn", "self._add(v, hs, tape, Rz, start=False)", "pass"),
        ("lstm", "Rz += v[self.bias]", "pass"),
        ("lstm", "grad[self.bias] += rows(dz).sum(axis=0)", "grad[self.bias] += rows(dz).mean(axis=0)"),
        ("stack", "z += product(tape, hs[l]", "z[...] = product(tape, hs[l]"),
        ("padding", "dz *= aim.scale", "dz *= aim.scale.max()"),
        ("padding", "Rz *= aim.scale", "Rz *= aim.scale.max()"),
    ),
    *mutations(
        "heads.py",
        ("losses", "xp.subtract(1.0, p, out=work)", "work[...] = 1"),
        ("losses", "return 0.5 * (difference", "return (difference"),
        ("losses", "- targets * z).sum(axis=-1)", "- z).sum(axis=-1)"),
        ("losses", "targets.reshape(-1)] -= 1", "targets.reshape(-1)] += 1"),
    ),
    *mutations(
        "input_map.py",
        ("stack", 'terms.append((layer.below, below, own.get("W_below")))', "pass"),
        ("stack", "self.xp.matmul(rows(dU)[:, start : start + width], columns.T, out=rows(work))", "work[...] = 0"),
        ("lstm", "W, b = self._with_bias(W, biased, b), None", "b = None"),
        ("lstm", ".sum(axis=0)  # B1", ".mean(axis=0)  # B1"),
        ("stack", "terms += [(layer.below, below, vown.get", "terms += [(layer.below, Rbelow, vown.get"),
    ),
    *mutations(
        "sweep.py",
        ("padding", "term *= self.mask[stretch.span]", "pass"),
        ("rnn", "strength = structural / self.total_weight", "strength = structural"),
        ("rnn", 'tape["Ra"] if self.metric == "preactivation" else Rhs', "Rhs"),
        ("rnn", "Rstate = self._rforward(stretch, v, Rstate)", "self._rforward(stretch, v, Rstate)"),
        ("rnn", "dstate = self._backward(stretch, dhs, dstate, grad)", "self._backward(stretch, dhs, dstate, grad)"),
        ("stack", "below = stretch.hs[l]\n", "below = Rbelow\n"),
        ("stack", "dh[...] = 0", "pass"),
    ),
]
