/* What this machine offers cleave, and what is absent and why. */
#include "cli/inputs.h"
#include "cli/setup.h"
#include "host/machine.h"
#include <dlfcn.h>
#include <string.h>

#ifdef HAVE_OPENBLAS
char *openblas_get_corename(void);
char *openblas_get_config(void);
#endif

static void say_module(const struct cli *cli, const char *name, const char *what)
{
    struct text path = { 0 };
    text_printf(&path, "%s/cleave-%s.so", cli->module_dir, name);
    void *module = path.data ? dlopen(path.data, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (module) {
        fprintf(cli->out, "%-10s found: %s\n", what, path.data);
        dlclose(module);
    } else {
        const char *reason = dlerror();
        fprintf(cli->out, "%-10s absent: %s\n", what, reason ? reason : "not built");
    }
    text_free(&path);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    struct host_machine machine;
    struct inputs in = { .cli = cli };
    char line[HOST_TEXT_BYTES * 2];
    (void)given, (void)operands, (void)operand_count;
    setup_blas(cli);
    host_machine_read(&machine);
    host_machine_text(&machine, line, sizeof line);
    fprintf(cli->out, "%-10s %s\n", "cleave", CLEAVE_VERSION);
    fprintf(cli->out, "%-10s %s\n", "machine", line);
#ifdef HAVE_OPENBLAS
    fprintf(cli->out, "%-10s %s; kernels for %s\n", "matmuls", openblas_get_config(), openblas_get_corename());
#else
    fprintf(cli->out, "%-10s own code (OpenBLAS was absent at build time): slower\n", "matmuls");
#endif
    if (inputs_catalogue(&in, err))
        fprintf(cli->out, "%-10s %s: %d device types\n", "catalogue", cli->data_dir, in.catalogue->count);
    say_module(cli, "mpi", "MPI");
    say_module(cli, "cuda", "CUDA");
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "says what this machine offers and what is absent",
    .usage = "",
    .examples = "  cleave doctor\n",
    .options_bytes = 1,
    .run = run,
};
