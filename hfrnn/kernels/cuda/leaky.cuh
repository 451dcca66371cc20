// One step of leaky for one unit: the equations of kernels/leaky.py, under its numbers.

// a_t is the pre-activation and `before` is h_{t-1}. Returns h_t; k and e receive the coefficients of R2.
__device__ inline real leaky_unit(Index kind, real a_t, real leak, real before, real* k, real* e)
{
    const real g = activate(kind, a_t), kept = real(1) - leak;  // F2
    *k = slope_of(kind, g) * leak;  // L1
    *e = (g - before) * (leak * kept);  // L2
    return before * kept + g * leak;  // F3
}

// Returns Rh_t; `before` is Rh_{t-1}. Rq is 0 where the leak is not learned.
__device__ inline real leaky_tangent(real Ra_t, real leak, real before, real k, real e, real Rq)
{
    return before * (real(1) - leak) + k * Ra_t + e * Rq;  // R2
}
