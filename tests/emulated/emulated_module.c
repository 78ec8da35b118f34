/* The CUDA module with an emulated GPU in its place, for tests of the program. */
#include "tests/emulated/emulated.h"

__attribute__((visibility("default"))) gpu_module_open cleave_gpu_open;

bool cleave_gpu_open(struct gpu *out, const char *version, int place, struct error *err)
{
    (void)version, (void)place;
    return gpu_emulated_open(out, 1, 2, true, err);
}
