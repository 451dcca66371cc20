// One step of gru-torch for unit j of sequence b: the equations of kernels/gru_torch.py, under its numbers. The blocks
// r, z and n of a unit are H columns apart.

// s is the product s_t of this unit. Where nothing is recorded, k and rz are not written.
__device__ inline void gru_torch_unit(
    Index t, Index b, Index j, Index B, Index H, Index recorded, const real s[3], const real* U, const real* b_hn,
    real* hs, real* k, real* rz)
{
    const Index now = (t * B + b) * H + j;
    const real* U_t = U + (t * B + b) * 3 * H + j;
    const real r = sigma(U_t[0] + s[0]), z = sigma(U_t[H] + s[1]), m = s[2] + b_hn[j];  // F2, F3
    const real n = tanh_of(U_t[2 * H] + r * m), h = hs[now];  // F4
    hs[now + B * H] = (h - n) * z + n;  // F5
    if (!recorded) return;
    real *k_t = k + (t * B + b) * 3 * H + j, *gates = rz + (t * B + b) * 2 * H + j;
    k_t[0] = m * r * (real(1) - r);  // L1
    k_t[H] = (h - n) * z * (real(1) - z);  // L2
    k_t[2 * H] = (real(1) - z) * (real(1) - n * n);  // L3
    gates[0] = r;
    gates[H] = z;
}

// recurrent holds the products with W_h of this unit. Rhs (K+1, B, H) starts with the tangent before the segment.
__device__ inline void gru_torch_tangent(
    Index t, Index b, Index j, Index B, Index H, const real recurrent[3], const real* RU, const real* Rs,
    const real* Rb_hn, const real* rz, const real* k, real* Rhs)
{
    const Index at = (t * B + b) * 3 * H + j, now = (t * B + b) * H + j;
    const real* gates = rz + (t * B + b) * 2 * H + j;
    const real Ra_r = RU[at] + Rs[at] + recurrent[0];  // R1, R2
    const real Ra_z = RU[at + H] + Rs[at + H] + recurrent[1];  // R1, R2
    const real Rm = Rs[at + 2 * H] + recurrent[2] + Rb_hn[j];  // R3
    const real Ra_n = RU[at + 2 * H] + k[at] * Ra_r + gates[0] * Rm;  // R4
    Rhs[now + B * H] = k[at + H] * Ra_z + k[at + 2 * H] * Ra_n + gates[H] * Rhs[now];  // R5
}

// dh_t is the whole adjoint of h_t. Returns z * dh_t, a part of that of h_{t-1}.
__device__ inline real gru_torch_adjoint(
    Index t, Index b, Index j, Index B, Index H, real dh_t, const real* rz, const real* k, real* dU, real* ds)
{
    const Index at = (t * B + b) * 3 * H + j;
    const real* gates = rz + (t * B + b) * 2 * H + j;
    const real da_z = dh_t * k[at + H], da_n = dh_t * k[at + 2 * H], da_r = da_n * k[at];  // B1, B2
    dU[at] = ds[at] = da_r;  // B3
    dU[at + H] = ds[at + H] = da_z;  // B3
    dU[at + 2 * H] = da_n;
    ds[at + 2 * H] = da_n * gates[0];  // B2
    return dh_t * gates[H];  // B4
}
