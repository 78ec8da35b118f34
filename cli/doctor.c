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

/* What was found of a module that is opened when it is asked for. Children answer with it, so that texts lie inside. */
struct found {
    bool is;
    char text[640]; /* what it is, or why there is none */
};
struct module {
    bool dies;
    struct found module;           /* its path */
    struct found gpu, nccl, cupti; /* of CUDA's */
    char libraries[640];           /* what serves beside the GPU; empty: there is no module */
};
static const struct {
    const char *name, *what;
} modules[] = { { "mpi", "MPI" }, { "cuda", "CUDA" } };
enum { CUDA = 1, MODULE_COUNT = sizeof modules / sizeof *modules };
struct findings {
    char machine[HOST_TEXT_BYTES * 2];
    const char *library, *kernels; /* of the matmuls; NULL: own code */
    const char *catalogue;
    int device_types;
    struct module modules[MODULE_COUNT];
};

#define DIES "dies or hangs when it is loaded: out of memory, or made for another machine"
#define LOADING_S 60 /* CUDA's libraries are 700 MB, which a slow disk reads at 20 MB a second */

/* Takes what was said of it, or why there is none, and leaves both empty for the next. */
static struct found found_of(bool is, struct text *text, struct error *error)
{
    struct found found = { .is = is };
    snprintf(found.text, sizeof found.text, "%.*s", (int)sizeof found.text - 1,
             is && text->data ? text->data : error->message);
    text_free(text);
    *error = (struct error){ 0 };
    return found;
}

static void look_for_gpu(const char *folder, struct module *out)
{
    struct error error = { 0 };
    struct text text = { 0 };
    bool is = device_cuda_describe(folder, &text, NULL, NULL, &error);
    out->gpu = found_of(is, &text, &error);
    is = device_cuda_describe_nccl(folder, &text, &error);
    out->nccl = found_of(is, &text, &error);
    is = device_cuda_describe_records(folder, &text, &error);
    out->cupti = found_of(is, &text, &error);
    device_cuda_libraries(folder, &text);
    snprintf(out->libraries, sizeof out->libraries, "%s", text.data ? text.data : "");
    text_free(&text);
}

/* Opens a module and asks it, in a child. */
static void look(void *context, int index, void *answer)
{
    const struct cli *cli = context;
    struct module *out = answer;
    char path[sizeof out->module.text];
    snprintf(path, sizeof path, "%s/cleave-%s.so", cli->module_dir, modules[index].name);
    for (int turn = 0; turn < 2 && !out->module.is; turn++) /* where memory was short it may be there now */
        out->module.is = dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
    const char *reason = out->module.is ? path : dlerror();
    /* without memory for the version of a symbol the dynamic linker calls it undefined (of libgcc's, for cuBLASLt) */
    bool vague = reason && strstr(reason, "undefined symbol");
    snprintf(out->module.text, sizeof out->module.text, "%.600s%s", reason ? reason : "out of memory",
             vague ? " (or there was no memory to load it)" : "");
    if (index == CUDA)
        look_for_gpu(cli->module_dir, out);
}

/* Children open the modules, since libraries that these bring along may die while they are loaded, as cuBLASLt does
 * where memory is short. Asked before OpenBLAS, which starts threads. */
static bool look_for_modules(struct findings *f, const struct cli *cli, struct error *err)
{
    static const struct found dead = { false, DIES };
    enum apart_end ends[MODULE_COUNT];
    struct cli own = *cli;
    if (!apart_for(1, LOADING_S, MODULE_COUNT, look, &own, f->modules, sizeof *f->modules, ends, err))
        return false;
    for (int i = 0; i < MODULE_COUNT; i++)
        if (ends[i] != APART_ANSWERED)
            f->modules[i] = (struct module){ true, dead, dead, dead, dead, "" };
    return true;
}

static bool examine(struct findings *f, const struct cli *cli, struct error *err)
{
    struct host_machine machine;
    struct inputs in = { .cli = cli };
    *f = (struct findings){ .catalogue = cli->data_dir };
    host_machine_read(&machine);
    host_machine_text(&machine, f->machine, sizeof f->machine);
    if (!look_for_modules(f, cli, err))
        return false;
    const struct blas *blas = blas_open();
    f->library = blas ? blas->config() : NULL;
    f->kernels = blas ? blas->core() : NULL;
    bool ok = inputs_catalogue(&in, err);
    if (ok)
        f->device_types = in.catalogue->count;
    inputs_free(&in);
    return ok;
}

static void print_found(const struct cli *cli, const char *what, const struct found *found)
{
    fprintf(cli->out, "%-10s %s%s\n", what, found->is ? "" : "absent: ", found->text);
}

static void write_found(struct json_writer *w, const char *what, const struct found *found)
{
    json_write_key(w, what);
    json_begin_object(w);
    json_put_bool(w, "found", found->is);
    json_put_string(w, found->is ? "description" : "reason", found->text);
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
    for (int i = 0; i < MODULE_COUNT; i++) {
        const struct found *module = &f->modules[i].module;
        fprintf(cli->out, "%-10s %s: %s\n", modules[i].what, module->is ? "found" : "absent", module->text);
    }
    const struct module *cuda = &f->modules[CUDA];
    print_found(cli, "GPU", &cuda->gpu);
    print_found(cli, "NCCL", &cuda->nccl);
    print_found(cli, "CUPTI", &cuda->cupti);
    if (*cuda->libraries)
        fprintf(cli->out, "%-10s %s\n", "on GPUs", cuda->libraries);
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
    for (int i = 0; i < MODULE_COUNT; i++) {
        const struct found *module = &f->modules[i].module;
        json_begin_object(&w);
        json_put_string(&w, "name", modules[i].name);
        json_put_bool(&w, "found", module->is);
        json_put_string(&w, module->is ? "path" : "reason", module->text);
        json_end_object(&w);
    }
    json_end_array(&w);
    const struct module *cuda = &f->modules[CUDA];
    write_found(&w, "gpu", &cuda->gpu);
    write_found(&w, "nccl", &cuda->nccl);
    write_found(&w, "cupti", &cuda->cupti);
    if (*cuda->libraries)
        json_put_string(&w, "gpu_libraries", cuda->libraries);
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
        for (int i = 0; i < MODULE_COUNT; i++)
            if (findings.modules[i].dies)
                fail_kind(err, ERROR_ENVIRONMENT, "cleave-%s.so " DIES, modules[i].name);
    }
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
