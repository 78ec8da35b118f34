/* Linear systems of symmetric positive definite matrices, (n, n), of a few hundred rows. */
#ifndef CLEAVE_CLI_CHOLESKY_H
#define CLEAVE_CLI_CHOLESKY_H
/* Factors m in place: its lower triangle becomes L of m = L L^T. */
void cholesky_factor(double *m, int n);
/* Solves m x = b with the factor: b, (n), becomes x. */
void cholesky_solve(const double *factor, double *b, int n);
#endif
