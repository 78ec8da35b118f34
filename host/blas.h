/* OpenBLAS, opened when somebody multiplies: a program that only plans neither waits for it nor needs it. */
#ifndef CLEAVE_HOST_BLAS_H
#define CLEAVE_HOST_BLAS_H
#include "base/error.h"

/* The numbers of cblas.h. */
enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANS = 111, BLAS_TRANS = 112 };
struct blas {
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double *a,
                  int lda, const double *b, int ldb, double beta, double *c, int ldc);
    char *(*config)(void), *(*core)(void); /* for people: version and options, kernels */
};
/**
 * NULL: the build leaves it out, or the library is not there. The first call opens it and sets the environment that it
 * reads then, where the user has not: one thread, since ranks are the parallelism, and kernels that suit the processor
 * where it does not know it (blas_core.h). So make it before there are other threads. Later ones only look. It is
 * opened in a process apart first: where memory is short OpenBLAS takes its process with it.
 */
const struct blas *blas_open(void);
enum { BLAS_MOST_CALLERS = 64 }; /* half of what its builds have room for */
/**
 * Lets OpenBLAS take its buffers for so many callers at once, with which it would otherwise begin in the first
 * products: there it asks without end where memory is short. Fails with ERROR_ENVIRONMENT where there is not enough,
 * also for loading it. Does nothing where OpenBLAS is not in use. Only from a process of one thread.
 */
bool blas_reserve(int callers, struct error *err);
/* Why blas_open() gave NULL. */
const char *blas_absence(void);
#endif
