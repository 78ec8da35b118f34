/* Which of OpenBLAS's kernels suit this processor. */
#ifndef CLEAVE_HOST_BLAS_CORE_H
#define CLEAVE_HOST_BLAS_CORE_H
#include <stdbool.h>

/**
 * OpenBLAS chooses kernels by the processor's model number. One that is newer than the library gets those of an old
 * processor: Haswell's (AVX2) or even Prescott's (SSE3, a tenth of the speed) where AVX-512 would do.
 *
 * @param found the core type that OpenBLAS took (openblas_get_corename()).
 * @param avx2 the processor has AVX2 and FMA.
 * @param avx512 the processor has AVX-512 F, BW, DQ and VL.
 * @return the OPENBLAS_CORETYPE to set instead; NULL: what was found is right, or is not known here.
 */
const char *blas_core_instead(const char *found, bool avx2, bool avx512);
/* What this processor has. */
void blas_core_extensions(bool *avx2, bool *avx512);
#endif
