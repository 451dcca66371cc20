// One step of rate for one unit: the equations of kernels/rate.py, under its numbers.

// x changes from x_{t-1} to x_t; n_t is the input of the unit. Returns r_t; k and e receive the coefficients of R2, R3.
__device__ inline real rate_unit(Index kind, real n_t, real leak, real* x, real* k, real* e)
{
    const real before = *x, kept = real(1) - leak;
    *x = before * kept + n_t * leak;  // F2
    const real r = activate(kind, *x);  // F3
    *k = slope_of(kind, r);  // L1
    *e = (n_t - before) * (leak * kept);  // L2
    return r;
}

// Rx changes from that of step t-1 to that of step t. Returns Rr_t. Rq is 0 where the leak is not learned.
__device__ inline real rate_tangent(real Rn_t, real leak, real k, real e, real Rq, real* Rx)
{
    *Rx = *Rx * (real(1) - leak) + Rn_t * leak + e * Rq;  // R2
    return k * *Rx;  // R3
}
