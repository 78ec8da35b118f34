#include "host/blas_core.h"
#include <stddef.h>
#include <strings.h>

/* Core types of OpenBLAS 0.3 for x86-64 without AVX2. */
static const char *const before_avx2[] = { "Prescott",  "Atom",        "Core2",  "Penryn",    "Dunnington",
                                           "Nehalem",   "Sandybridge", "Athlon", "Opteron",   "Opteron_SSE3",
                                           "Barcelona", "Nano",        "Bobcat", "Bulldozer", "Piledriver",
                                           "Unknown",   NULL };

static bool is_before_avx2(const char *core)
{
    for (int i = 0; before_avx2[i]; i++)
        if (strcasecmp(core, before_avx2[i]) == 0)
            return true;
    return false;
}

const char *blas_core_instead(const char *found, bool avx2, bool avx512)
{
    bool old = is_before_avx2(found);
    if (avx512 && (old || strcasecmp(found, "Haswell") == 0))
        return "SkylakeX";
    return avx2 && old ? "Haswell" : NULL;
}

void blas_core_extensions(bool *avx2, bool *avx512)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    *avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    *avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    *avx2 = *avx512 = false;
#endif
}
