// One step of both memory cells for one unit: the equations of kernels/cells.py, under its numbers.

// The pre-activations a of the gates i, f, o and g are replaced by the coefficients k. c changes from c_{t-1} to c_t.
// Returns h_t.
__device__ inline real standard_cell(real a[4], real* c, real* f_kept, real* k_c)
{
    const real i = sigma(a[0]), f = sigma(a[1]), o = sigma(a[2]), g = tanh_of(a[3]);  // F1, F2
    const real before = *c, after = f * before + i * g, z = tanh_of(after);  // F3
    a[0] = g * i * (real(1) - i);  // L1
    a[1] = before * f * (real(1) - f);  // L2
    a[2] = z * o * (real(1) - o);  // L3
    a[3] = i * (real(1) - g * g);  // L4
    *k_c = o * (real(1) - z * z);  // L5
    *f_kept = f;
    *c = after;
    return o * z;  // F4
}

__device__ inline real krause_cell(real a[4], real* c, real* f_kept, real* k_c)
{
    const real i = sigma(a[0]), f = sigma(a[1]), o = sigma(a[2]), g = a[3];  // F1, F2
    const real before = *c, after = f * before + i * g;  // F3
    const real h = tanh_of(after * o), slope = real(1) - h * h;  // F4
    a[0] = g * i * (real(1) - i);  // L1
    a[1] = before * f * (real(1) - f);  // L2
    a[2] = after * o * (real(1) - o) * slope;  // L3
    a[3] = i;  // L4
    *k_c = o * slope;  // L5
    *f_kept = f;
    *c = after;
    return h;
}

__device__ inline real cell(Index krause, real a[4], real* c, real* f_kept, real* k_c)
{
    return krause ? krause_cell(a, c, f_kept, k_c) : standard_cell(a, c, f_kept, k_c);
}

// Rc changes from that of step t-1 to that of step t; k and the pre-activations' tangents Ra are H columns apart.
// Returns Rh_t.
__device__ inline real cell_tangent(const real* k, const real Ra[4], real f, real k_c, Index H, real* Rc)
{
    *Rc = f * *Rc + k[0] * Ra[0] + k[H] * Ra[1] + k[3 * H] * Ra[3];  // R1
    return k[2 * H] * Ra[2] + k_c * *Rc;  // R2
}

// dc changes from the adjoint of c_t that comes from step t+1 to that of c_{t-1}. da receives the adjoints of the
// gates.
__device__ inline void cell_adjoint(const real* k, real dh, real f, real k_c, Index H, real* dc, real da[4])
{
    const real dc_t = *dc + k_c * dh;  // B1
    da[0] = k[0] * dc_t;  // B2
    da[1] = k[H] * dc_t;  // B2
    da[2] = k[2 * H] * dh;  // B2
    da[3] = k[3 * H] * dc_t;  // B2
    *dc = dc_t * f;  // B4
}
