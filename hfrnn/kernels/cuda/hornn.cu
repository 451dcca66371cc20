// One step of hornn, hornn-fofe, hornn-max and hornn-gated: the equations of the four reference kernels, under their
// numbers. The N products of a step and the factors of a thread's unit are arrays (N, B, H) in the order of time: row m
// belongs to h_{t-N+m}, which is n = N - m in the equations. hs and Rhs (N+K, B, H) hold h_t in row N+t.

#include "common.cuh"

// The adjoints of step t+1 that come through its products: dh_{t+1-n} += work_n, alpha^n times for fofe.
__device__ inline void collect(
    Index t, Index n, Index N, Index e, double alpha, const real* work, const real* more, real* dh)
{
    double power = alpha;
    for (Index m = N - 1; m >= 0; m--, power *= alpha) {
        real sum = real(power) * work[m * n + e];
        if (more) sum += more[m * n + e];
        dh[(t + 1 + m) * n + e] += sum;  // B2 of hornn.py, B3 of the others
    }
}

// fofe with alpha = 1 is hornn.
extern "C" __global__ void fofe_forward(
    Index t, Index n, Index N, Index kind, Index recorded, double alpha, const real* U, const real* x, real* hs,
    real* slope)
{
    EACH(e, n);
    real a = U[t * n + e];
    double power = alpha;
    for (Index m = N - 1; m >= 0; m--, power *= alpha) a += real(power) * x[m * n + e];  // F2
    const real h = activate(kind, a);  // F3
    hs[(N + t) * n + e] = h;
    if (recorded) slope[t * n + e] = slope_of(kind, h);  // L1
}

extern "C" __global__ void fofe_rforward(
    Index t, Index n, Index N, double alpha, const real* Ra, const real* Rx, const real* slope, real* Rhs)
{
    EACH(e, n);
    real Ra_t = Ra[t * n + e];
    double power = alpha;
    for (Index m = N - 1; m >= 0; m--, power *= alpha) Ra_t += real(power) * Rx[m * n + e];  // R2
    Rhs[(N + t) * n + e] = slope[t * n + e] * Ra_t;  // R3
}

extern "C" __global__ void fofe_backward(
    Index t, Index n, Index N, double alpha, const real* dhs, const real* work, const real* slope, real* dh, real* da)
{
    EACH(e, n);
    collect(t, n, N, e, alpha, work, nullptr, dh);
    da[t * n + e] = (dh[(N + t) * n + e] + dhs[t * n + e]) * slope[t * n + e];  // B1
}

// What comes from the first step of a segment to the states before it. `more` is used by hornn-gated only.
extern "C" __global__ void hornn_finish(
    Index n, Index N, double alpha, Index gated, const real* work, const real* more, real* dh)
{
    EACH(e, n);
    collect(-1, n, N, e, alpha, work, gated ? more : nullptr, dh);
}

// c (N, rows, B, H) has one row where nothing is recorded, and its first index is n - 1, as in the reference.
extern "C" __global__ void max_forward(
    Index t, Index n, Index N, Index rows, Index kind, Index recorded, double tie, const real* U, const real* x,
    real* hs, real* c, real* slope)
{
    EACH(e, n);
    Index winner = 0;
    real best = x[(N - 1) * n + e], sum = 0;
    for (Index i = 1; i < N; i++) {
        const real x_n = x[(N - 1 - i) * n + e];
        if (x_n - best > tie) {
            best = x_n;
            winner = i;
        }
    }
    for (Index i = 0; i < N; i++) {
        const real c_n = winner == i ? real(1) : real(0);
        c[(i * rows + t % rows) * n + e] = c_n;  // L2
        sum += c_n * x[(N - 1 - i) * n + e];  // F2; NaN stays NaN, whichever product is the largest
    }
    const real h = activate(kind, U[t * n + e] + sum);  // F3
    hs[(N + t) * n + e] = h;
    if (recorded) slope[t * n + e] = slope_of(kind, h);  // L1
}

extern "C" __global__ void max_rforward(
    Index t, Index n, Index N, Index K, const real* Ra, const real* Rx, const real* c, const real* slope, real* Rhs)
{
    EACH(e, n);
    real Ra_t = Ra[t * n + e];
    for (Index m = 0; m < N; m++) Ra_t += c[((N - 1 - m) * K + t) * n + e] * Rx[m * n + e];  // R2
    Rhs[(N + t) * n + e] = slope[t * n + e] * Ra_t;  // R3
}

extern "C" __global__ void max_backward(
    Index t, Index n, Index N, Index K, const real* dhs, const real* work, const real* c, const real* slope, real* dh,
    real* da, real* dx)
{
    EACH(e, n);
    collect(t, n, N, e, 1.0, work, nullptr, dh);
    const real da_t = (dh[(N + t) * n + e] + dhs[t * n + e]) * slope[t * n + e];  // B1
    da[t * n + e] = da_t;
    for (Index m = 0; m < N; m++) dx[m * n + e] = c[((N - 1 - m) * K + t) * n + e] * da_t;  // B2
}

// r and l (N, rows, B, H) have one row where nothing is recorded, and their first index is n - 1.
extern "C" __global__ void gated_forward(
    Index t, Index B, Index H, Index N, Index rows, Index kind, Index recorded, const real* U, const real* x,
    const real* y, real* hs, real* r, real* l, real* slope)
{
    EACH(e, B * H);
    const Index n = B * H;
    const real* U_t = U + (t * B + e / H) * (N + 1) * H + e % H;
    real a = U_t[0];
    for (Index i = 0; i < N; i++) {
        const Index m = N - 1 - i, at = (i * rows + t % rows) * n + e;
        const real r_n = sigma(U_t[(i + 1) * H] + y[m * n + e]), x_n = x[m * n + e];  // F2
        a += r_n * x_n;  // F3
        r[at] = r_n;
        l[at] = x_n * r_n * (real(1) - r_n);  // L2
    }
    const real h = activate(kind, a);  // F4
    hs[(N + t) * n + e] = h;
    if (recorded) slope[t * n + e] = slope_of(kind, h);  // L1
}

extern "C" __global__ void gated_rforward(
    Index t, Index n, Index N, Index K, const real* Ra, const real* Rx, const real* Ry, const real* r, const real* l,
    const real* slope, real* Rhs)
{
    EACH(e, n);
    real Ra_t = Ra[t * n + e];
    for (Index m = 0; m < N; m++) {
        const Index at = ((N - 1 - m) * K + t) * n + e;
        Ra_t += r[at] * Rx[m * n + e] + l[at] * Ry[m * n + e];  // R2
    }
    Rhs[(N + t) * n + e] = slope[t * n + e] * Ra_t;  // R3
}

extern "C" __global__ void gated_backward(
    Index t, Index n, Index N, Index K, const real* dhs, const real* work, const real* more, const real* r,
    const real* l, const real* slope, real* dh, real* da, real* dx, real* dy)
{
    EACH(e, n);
    collect(t, n, N, e, 1.0, work, more, dh);
    const real da_t = (dh[(N + t) * n + e] + dhs[t * n + e]) * slope[t * n + e];  // B1
    da[t * n + e] = da_t;
    for (Index m = 0; m < N; m++) {
        const Index at = ((N - 1 - m) * K + t) * n + e;
        dx[m * n + e] = r[at] * da_t;  // B2
        dy[m * n + e] = l[at] * da_t;  // B2
    }
}
