/* What this machine offers cleave, and what is absent and why. */
#include "cli/inputs.h"
#include "cli/software.h"
#include "executor/backends.h"
#include "host/apart.h"
#include "host/blas.h"
#include "host/machine.h"
#include <dlfcn.h>
#include <string.h>

struct doctor_options {
    bool json;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct doctor_options, json), "one JSON object"),
};

/* What was found of a module that is opened when it is asked for. */
struct module {
    const char *name, *what;
    bool found, dies;
    struct text path, reason;
};
struct findings {
    char machine[HOST_TEXT_BYTES * 2];
    const char *library, *kernels; /* of the matmuls; NULL: own code */
    const char *catalogue;
    int device_types;
    struct module modules[2];
    struct found {
        bool is;
        struct text text; /* what it is, or why there is none */
    } gpu, nccl, cupti;
    struct text libraries; /* what serves beside the GPU; empty: there is no module */
};

#define LOADING_S 60 /* CUDA's libraries are 700 MB, which a slow disk reads at 20 MB a second */

static void load(void *path, int index, void *answer)
{
    (void)index;
    *(bool *)answer = dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
}

/* A child opens it first: libraries that a module brings along may die while they are loaded, as cuBLASLt does where
 * memory is short. */
static void look_for_module(const struct cli *cli, struct module *m)
{
    bool opened = false;
    enum apart_end end = APART_ANSWERED;
    struct error error = { 0 };
    text_printf(&m->path, "%s/cleave-%s.so", cli->module_dir, m->name);
    if (m->path.data && !apart_for(1, LOADING_S, 1, load, m->path.data, &opened, sizeof opened, &end, &error)) {
        text_add(&m->reason, error.message);
        return;
    }
    m->dies = end != APART_ANSWERED;
    if (m->dies) {
        text_add(&m->reason, "it dies or hangs when it is loaded: out of memory, or made for another machine");
        return;
    }
    void *module = m->path.data ? dlopen(m->path.data, RTLD_NOW | RTLD_LOCAL) : NULL;
    m->found = module != NULL;
    if (module) {
        dlclose(module);
        return;
    }
    const char *reason = dlerror();
    text_add(&m->reason, reason ? reason : "out of memory");
}

static void look_for_gpu(const struct cli *cli, struct findings *f)
{
    struct error error = { 0 };
    const struct module *cuda = &f->modules[1];
    if (cuda->dies) {
        for (size_t i = 0; i < 3; i++)
            text_add(&(struct found *[]){ &f->gpu, &f->nccl, &f->cupti }[i]->text, cuda->reason.data);
        return;
    }
    f->gpu.is = device_cuda_describe(cli->module_dir, &f->gpu.text, NULL, NULL, &error);
    if (!f->gpu.is)
        text_add(&f->gpu.text, error.message);
    error = (struct error){ 0 };
    f->nccl.is = device_cuda_describe_nccl(cli->module_dir, &f->nccl.text, &error);
    if (!f->nccl.is)
        text_add(&f->nccl.text, error.message);
    error = (struct error){ 0 };
    f->cupti.is = device_cuda_describe_records(cli->module_dir, &f->cupti.text, &error);
    if (!f->cupti.is)
        text_add(&f->cupti.text, error.message);
    device_cuda_libraries(cli->module_dir, &f->libraries);
}

static bool examine(struct findings *f, const struct cli *cli, struct error *err)
{
    struct host_machine machine;
    struct inputs in = { .cli = cli };
    *f = (struct findings){ .catalogue = cli->data_dir, .modules = { { "mpi", "MPI" }, { "cuda", "CUDA" } } };
    host_machine_read(&machine);
    host_machine_text(&machine, f->machine, sizeof f->machine);
    for (size_t i = 0; i < sizeof f->modules / sizeof *f->modules; i++)
        look_for_module(cli, &f->modules[i]); /* while there is one thread: OpenBLAS starts more */
    const struct blas *blas = blas_open();
    f->library = blas ? blas->config() : NULL;
    f->kernels = blas ? blas->core() : NULL;
    bool ok = inputs_catalogue(&in, err);
    if (ok)
        f->device_types = in.catalogue->count;
    inputs_free(&in);
    look_for_gpu(cli, f);
    return ok;
}

static void print_found(const struct cli *cli, const char *what, const struct found *found)
{
    fprintf(cli->out, "%-10s %s%s\n", what, found->is ? "" : "absent: ", found->text.data ? found->text.data : "");
}

static void write_found(struct json_writer *w, const char *what, const struct found *found)
{
    json_write_key(w, what);
    json_begin_object(w);
    json_put_bool(w, "found", found->is);
    json_put_string(w, found->is ? "description" : "reason", found->text.data);
    json_end_object(w);
}

static void print_findings(const struct cli *cli, const struct findings *f)
{
    fprintf(cli->out, "%-10s %s\n", "cleave", CLEAVE_VERSION);
    fprintf(cli->out, "%-10s %s\n", "machine", f->machine);
    struct text matmuls = { 0 };
    software_matmuls(&matmuls);
    fprintf(cli->out, "%-10s %s\n", "matmuls", matmuls.data);
    text_free(&matmuls);
    fprintf(cli->out, "%-10s %s: %d device types\n", "catalogue", f->catalogue, f->device_types);
    for (size_t i = 0; i < sizeof f->modules / sizeof *f->modules; i++) {
        const struct module *m = &f->modules[i];
        fprintf(cli->out, "%-10s %s: %s\n", m->what, m->found ? "found" : "absent",
                m->found ? m->path.data : m->reason.data);
    }
    print_found(cli, "GPU", &f->gpu);
    print_found(cli, "NCCL", &f->nccl);
    print_found(cli, "CUPTI", &f->cupti);
    if (f->libraries.data)
        fprintf(cli->out, "%-10s %s\n", "on GPUs", f->libraries.data);
}

static void write_json(const struct cli *cli, const struct findings *f, struct error *err)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-doctor", 1);
    json_put_string(&w, "cleave", CLEAVE_VERSION);
    json_put_string(&w, "machine", f->machine);
    json_write_key(&w, "matmuls");
    json_begin_object(&w);
    json_put_string(&w, "library", f->library ? f->library : "own code");
    json_put_string(&w, "kernels", f->kernels);
    json_end_object(&w);
    json_write_key(&w, "catalogue");
    json_begin_object(&w);
    json_put_string(&w, "folder", f->catalogue);
    json_put_int(&w, "device_types", f->device_types);
    json_end_object(&w);
    json_write_key(&w, "modules");
    json_begin_array(&w);
    for (size_t i = 0; i < sizeof f->modules / sizeof *f->modules; i++) {
        const struct module *m = &f->modules[i];
        json_begin_object(&w);
        json_put_string(&w, "name", m->name);
        json_put_bool(&w, "found", m->found);
        json_put_string(&w, m->found ? "path" : "reason", m->found ? m->path.data : m->reason.data);
        json_end_object(&w);
    }
    json_end_array(&w);
    write_found(&w, "gpu", &f->gpu);
    write_found(&w, "nccl", &f->nccl);
    write_found(&w, "cupti", &f->cupti);
    if (f->libraries.data)
        json_put_string(&w, "gpu_libraries", f->libraries.data);
    json_end_object(&w);
    inputs_hand_out_json(cli, NULL, &w, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct doctor_options *o = given;
    struct findings findings;
    (void)operands, (void)operand_count;
    if (examine(&findings, cli, err)) {
        if (o->json)
            write_json(cli, &findings, err);
        else
            print_findings(cli, &findings);
    }
    for (size_t i = 0; i < sizeof findings.modules / sizeof *findings.modules; i++) {
        text_free(&findings.modules[i].path);
        text_free(&findings.modules[i].reason);
    }
    text_free(&findings.gpu.text);
    text_free(&findings.nccl.text);
    text_free(&findings.cupti.text);
    text_free(&findings.libraries);
    return ERROR_NONE;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "says what this machine offers and what is absent",
    .usage = "[--json]",
    .examples = "  cleave doctor\n",
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct doctor_options),
    .run = run,
};
