// One step of gru for unit j of sequence b, in two parts around the product with W_hg: the equations of kernels/gru.py,
// under its numbers. U and RU have 3H columns: r, z and g. Where nothing is recorded, rz, q and g have one row.

// r_sum and z_sum are the products with W_h of this unit.
__device__ inline void gru_reset_unit(
    Index t, Index b, Index j, Index B, Index H, Index recorded, real r_sum, real z_sum, const real* U,
    const real* hs, real* rz, real* q, real* k_rz)
{
    const Index row = (recorded ? t : 0) * B + b, at = row * 2 * H + j;
    const real *U_t = U + (t * B + b) * 3 * H + j, h = hs[(t * B + b) * H + j];
    const real r = sigma(r_sum + U_t[0]), z = sigma(z_sum + U_t[H]);  // F1
    rz[at] = r;
    rz[at + H] = z;
    q[row * H + j] = r * h;  // F2
    if (recorded) k_rz[at] = h * r * (real(1) - r);  // L1
}

// g_sum is the product with W_hg of this unit.
__device__ inline void gru_update_unit(
    Index t, Index b, Index j, Index B, Index H, Index recorded, real g_sum, const real* U, real* hs, const real* rz,
    real* k_g, real* k_rz)
{
    const Index at = ((recorded ? t : 0) * B + b) * 2 * H + j, now = (t * B + b) * H + j;
    const real z = rz[at + H], h = hs[now], g_t = tanh_of(g_sum + U[(t * B + b) * 3 * H + 2 * H + j]);
    hs[now + B * H] = z * (h - g_t) + g_t;  // F3, F4
    if (!recorded) return;
    k_rz[at + H] = (h - g_t) * z * (real(1) - z);  // L2
    k_g[now] = (real(1) - z) * (real(1) - g_t * g_t);  // L3
}

// Rhs (K+1, B, H) starts with the tangent before the segment. Leaves k_z * Ra_z in Ra; returns Rq_t.
__device__ inline real gru_reset_tangent(
    Index t, Index b, Index j, Index B, Index H, real r_sum, real z_sum, const real* RU, const real* rz,
    const real* k_rz, const real* Rhs, real* Ra)
{
    const Index at = (t * B + b) * 2 * H + j;
    const real* RU_t = RU + (t * B + b) * 3 * H + j;
    const real Ra_r = Ra[at] + r_sum + RU_t[0], Ra_z = Ra[at + H] + z_sum + RU_t[H];  // R1
    Ra[at + H] = k_rz[at + H] * Ra_z;
    return k_rz[at] * Ra_r + rz[at] * Rhs[(t * B + b) * H + j];  // R2
}

__device__ inline void gru_update_tangent(
    Index t, Index b, Index j, Index B, Index H, real g_sum, const real* RU, const real* rz, const real* k_g,
    const real* Ra, const real* Ra_g, real* Rhs)
{
    const Index at = (t * B + b) * 2 * H + H + j, now = (t * B + b) * H + j;
    const real R = Ra_g[now] + g_sum + RU[(t * B + b) * 3 * H + 2 * H + j];  // R3
    Rhs[now + B * H] = Ra[at] + k_g[now] * R + rz[at] * Rhs[now];  // R4
}

// dh_t is the whole adjoint of h_t. Returns z * dh_t, a part of that of h_{t-1}.
__device__ inline real gru_update_adjoint(
    Index t, Index b, Index j, Index B, Index H, real dh_t, const real* rz, const real* k_rz, const real* k_g,
    real* da, real* da_g, real* dU)
{
    const Index at = (t * B + b) * 2 * H + H + j, now = (t * B + b) * H + j;
    real* dU_t = dU + (t * B + b) * 3 * H + j;
    dU_t[H] = da[at] = dh_t * k_rz[at];  // B1
    dU_t[2 * H] = da_g[now] = dh_t * k_g[now];  // B1
    return dh_t * rz[at];  // B4
}

// dq is the adjoint of q_t. Returns r * dq, a part of the adjoint of h_{t-1}.
__device__ inline real gru_reset_adjoint(
    Index t, Index b, Index j, Index B, Index H, real dq, const real* rz, const real* k_rz, real* da, real* dU)
{
    const Index at = (t * B + b) * 2 * H + j;
    dU[(t * B + b) * 3 * H + j] = da[at] = dq * k_rz[at];  // B3
    return rz[at] * dq;  // B4
}
