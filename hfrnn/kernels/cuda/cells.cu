// One step of both memory cells, for lstm, lstm-krause, mlstm and mlstm-standard: the equations of kernels/cells.py,
// under its numbers.
//
// The gates i, f, o and g of a unit are H columns apart. U, RU and dU have S columns, of which the first 4H are used.
// Before a forward step, row t of k holds the recurrent part of a_t; the step replaces it by the coefficients. Where
// nothing is recorded, k has one row, which is not changed. cs (2, B, H) holds c_{t-1} and c_t in turn.

#define GATES(x, row, columns) const real* x##_t = x + ((row) * B + b) * (columns) + j

extern "C" __global__ void standard_forward(
    Index t, Index B, Index H, Index S, Index recorded, const real* U, real* cs, real* hs, real* k, real* f_kept,
    real* k_c)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    GATES(U, t, S);
    real* a = k + ((recorded ? t : 0) * B + b) * 4 * H + j;
    const real i = sigma(a[0] + U_t[0]), f = sigma(a[H] + U_t[H]), o = sigma(a[2 * H] + U_t[2 * H]);  // F1
    const real g = tanh_of(a[3 * H] + U_t[3 * H]);  // F2
    const real before = cs[(t % 2) * B * H + e], c = f * before + i * g, z = tanh_of(c);  // F3
    cs[((t + 1) % 2) * B * H + e] = c;
    hs[now + B * H] = o * z;  // F4
    if (!recorded) return;
    a[0] = g * i * (real(1) - i);  // L1
    a[H] = before * f * (real(1) - f);  // L2
    a[2 * H] = z * o * (real(1) - o);  // L3
    a[3 * H] = i * (real(1) - g * g);  // L4
    k_c[now] = o * (real(1) - z * z);  // L5
    f_kept[now] = f;
}

extern "C" __global__ void krause_forward(
    Index t, Index B, Index H, Index S, Index recorded, const real* U, real* cs, real* hs, real* k, real* f_kept,
    real* k_c)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    GATES(U, t, S);
    real* a = k + ((recorded ? t : 0) * B + b) * 4 * H + j;
    const real i = sigma(a[0] + U_t[0]), f = sigma(a[H] + U_t[H]), o = sigma(a[2 * H] + U_t[2 * H]);  // F1
    const real g = a[3 * H] + U_t[3 * H];  // F2
    const real before = cs[(t % 2) * B * H + e], c = f * before + i * g;  // F3
    const real h = tanh_of(c * o), slope = real(1) - h * h;
    cs[((t + 1) % 2) * B * H + e] = c;
    hs[now + B * H] = h;  // F4
    if (!recorded) return;
    a[0] = g * i * (real(1) - i);  // L1
    a[H] = before * f * (real(1) - f);  // L2
    a[2 * H] = c * o * (real(1) - o) * slope;  // L3
    a[3 * H] = i;  // L4
    k_c[now] = o * slope;  // L5
    f_kept[now] = f;
}

// The tangent of a_t is Ra_t + recurrent + RU_t. Rc (B, H) changes from that of step t-1 to that of step t.
extern "C" __global__ void cell_rforward(
    Index t, Index B, Index H, Index S, const real* RU, const real* Ra, const real* recurrent, const real* k,
    const real* f, const real* k_c, real* Rc, real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    GATES(RU, t, S);
    GATES(Ra, t, 4 * H);
    GATES(recurrent, 0, 4 * H);
    GATES(k, t, 4 * H);
    const real Ri = k_t[0] * (Ra_t[0] + recurrent_t[0] + RU_t[0]);
    const real Rf = k_t[H] * (Ra_t[H] + recurrent_t[H] + RU_t[H]);
    const real Ro = k_t[2 * H] * (Ra_t[2 * H] + recurrent_t[2 * H] + RU_t[2 * H]);
    const real Rg = k_t[3 * H] * (Ra_t[3 * H] + recurrent_t[3 * H] + RU_t[3 * H]);
    const real R = f[now] * Rc[e] + Ri + Rf + Rg;  // R1
    Rc[e] = R;
    Rhs[now] = Ro + k_c[now] * R;  // R2
}

// The adjoint of h_t is dh (B, H) + dhs_t. dc (B, H) changes from the adjoint of c_t to that of c_{t-1}. da (K, B, 4H)
// and the first columns of dU receive the same values; they are one array where S = 4H.
extern "C" __global__ void cell_backward(
    Index t, Index B, Index H, Index S, const real* dhs, const real* k, const real* f, const real* k_c, const real* dh,
    real* dc, real* da, real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    GATES(k, t, 4 * H);
    real *da_t = da + (t * B + b) * 4 * H + j, *dU_t = dU + (t * B + b) * S + j;
    const real dh_t = dh[e] + dhs[now], dc_t = dc[e] + k_c[now] * dh_t;  // B1
    dU_t[0] = da_t[0] = k_t[0] * dc_t;  // B2
    dU_t[H] = da_t[H] = k_t[H] * dc_t;  // B2
    dU_t[2 * H] = da_t[2 * H] = k_t[2 * H] * dh_t;  // B2
    dU_t[3 * H] = da_t[3 * H] = k_t[3 * H] * dc_t;  // B2
    dc[e] = dc_t * f[now];  // B4
}
