// The context units of scrn, all steps of a segment in one launch: the equations of kernels/scrn.py, under its numbers.
// A thread computes one unit of one sequence. alpha (C,) holds the share of each unit; U, RU, dhs and dU have S
// columns, of which the last C belong to the context units. The hidden units run the kernels of rnn.cu.

#include "common.cuh"

// ss (K+1, B, C) starts with the state before the segment.
extern "C" __global__ void scrn_forward(
    Index K, Index B, Index C, Index S, Index recorded, Index learned, const real* U, const real* alpha, real* ss,
    real* e_kept)
{
    EACH(e, B * C);
    const Index b = e / C, j = e % C;
    const real a = alpha[j], left = real(1) - a;
    real s = ss[e];
    for (Index t = 0; t < K; t++) {
        const real u = U[(t * B + b) * S + S - C + j];
        if (recorded && learned) e_kept[t * B * C + e] = (s - u) * (a * left);  // L2
        s = left * u + a * s;  // F1
        ss[(t + 1) * B * C + e] = s;
    }
}

// Rss (K+1, B, C) starts with the tangent before the segment; Rq is read only where alpha is learned.
extern "C" __global__ void scrn_rforward(
    Index K, Index B, Index C, Index S, Index learned, const real* RU, const real* alpha, const real* e_kept,
    const real* Rq, real* Rss)
{
    EACH(e, B * C);
    const Index b = e / C, j = e % C;
    const real a = alpha[j], left = real(1) - a;
    real Rs = Rss[e];
    for (Index t = 0; t < K; t++) {
        Rs = left * RU[(t * B + b) * S + S - C + j] + a * Rs;  // R1
        if (learned) Rs += e_kept[t * B * C + e] * Rq[j];  // R1
        Rss[(t + 1) * B * C + e] = Rs;
    }
}

// Before the call, dss holds da_t @ W_s.T; ds (B, C) changes from the adjoint after the segment to that before it.
extern "C" __global__ void scrn_backward(
    Index K, Index B, Index C, Index S, Index learned, const real* dhs, const real* alpha, const real* e_kept,
    real* dss, real* ds, real* dU)
{
    EACH(e, B * C);
    const Index b = e / C, j = e % C;
    const real a = alpha[j];
    real after = ds[e];
    for (Index t = K - 1; t >= 0; t--) {
        const Index now = t * B * C + e, wide = (t * B + b) * S + S - C + j;
        const real ds_t = dss[now] + dhs[wide] + after;  // B3
        dU[wide] = (real(1) - a) * ds_t;  // B4
        dss[now] = learned ? ds_t * e_kept[now] : ds_t;  // B5
        after = a * ds_t;  // B3
    }
    ds[e] = after;
}
