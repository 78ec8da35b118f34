#include "cli/cholesky.h"
#include <math.h>

void cholesky_factor(double *m, int n)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            m[j * n + j] -= m[j * n + k] * m[j * n + k];
        m[j * n + j] = sqrt(m[j * n + j]);
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++)
                m[i * n + j] -= m[i * n + k] * m[j * n + k];
            m[i * n + j] /= m[j * n + j];
        }
    }
}

void cholesky_solve(const double *factor, double *b, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= factor[i * n + k] * b[k];
        b[i] /= factor[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            b[i] -= factor[k * n + i] * b[k];
        b[i] /= factor[i * n + i];
    }
}
