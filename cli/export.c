/* A plan as what a framework is launched with. */
#include "cli/aim.h"
#include "cli/print.h"
#include "cli/program_options.h"
#include "formats/plan_file.h"
#include "host/file.h"
#include "targets/launch_text.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct export_options {
    struct source_options source;
    const char *to, *output;
};
#define AT(field) offsetof(struct export_options, field)
static const struct option options[] = {
    TEXT_OPTION("to", AT(to), "TARGET", "megatron-lm, torchtitan, ...: what the plan is for"),
    OUTPUT_OPTION(AT(output), "the folder that is made (MODEL-TARGET)"),
    SOURCE_OPTIONS(struct export_options, source),
};

/* Whether one of the files says the launch again, as whoever reads it understands it. */
static bool reads_back(const struct target *target, const struct launch_files *files, const struct launch *launch,
                       struct inputs *in, struct error *err)
{
    bool same = !target->read;
    for (int i = 0; i < files->count && !same; i++) {
        const struct launch_file *file = &files->list[i];
        struct launch_read read = { 0 };
        struct error why = { 0 };
        if (!file->text.failed &&
            target->read(&read, &in->arena, file->name, file->text.data, file->text.length, &why)) {
            read.launch.data = read.says_data ? read.launch.data : launch->data;
            read.launch.sequence = read.says_sequence ? read.launch.sequence : launch->sequence;
            read.launch.dtype = read.says_dtype ? read.launch.dtype : launch->dtype;
            same = launch_equal(&read.launch, launch);
        }
        model_free(read.model);
        if (file->text.failed || why.kind == ERROR_ENVIRONMENT)
            return fail_memory(err);
    }
    return same || fail_kind(err, ERROR_BUG, "what is written for %s is not read back as the plan", target->name);
}

/* A folder that is there is filled again. */
static bool make_folder(const char *path, struct error *err)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ||
           fail_kind(err, ERROR_ENVIRONMENT, "%s: cannot make the folder: %s", path, strerror(errno));
}

static bool write_one(const char *folder, const struct launch_file *file, struct error *err)
{
    struct text path = { 0 };
    text_printf(&path, "%s/%s", folder, file->name);
    if (!path.failed && strcmp(file->name, LAUNCH_HOSTFILE) == 0 && access(path.data, F_OK) == 0) {
        text_free(&path);
        return true; /* somebody's names */
    }
    bool good = !path.failed && !file->text.failed ? file_write(path.data, file->text.data, file->text.length, err)
                                                   : fail_memory(err);
    if (good && file->executable && chmod(path.data, 0755) != 0)
        good = fail_kind(err, ERROR_ENVIRONMENT, "%s: cannot be made executable: %s", path.data, strerror(errno));
    text_free(&path);
    return good;
}

static bool write_all(FILE *out, const char *folder, const struct launch_files *files, struct error *err)
{
    if (!make_folder(folder, err))
        return false;
    for (int i = 0; i < files->count; i++)
        if (!write_one(folder, &files->list[i], err))
            return false;
    for (int i = 0; i < files->count; i++)
        fprintf(out, "%s/%s\n", folder, files->list[i].name);
    return true;
}

/* Where devices are of several types the launch says which nodes have which: a plan is only as fast in its own order.
 */
static bool name_devices(struct launch_context *context, struct inputs *in, const struct launch *launch,
                         struct error *err)
{
    int nodes = (int)launch_nodes(launch, context), each = (int)launch_devices_per_node(launch, context);
    const char **names = arena_alloc(&in->arena, (size_t)nodes, sizeof *names);
    if (!names)
        return fail_memory(err);
    for (int n = 0; n < nodes; n++)
        for (int t = 0; t < in->cluster->type_count; t++)
            if (cluster_ranks_of(in->cluster, t, n * each, each) > 0)
                names[n] = in->cluster->types[t].device.name;
    context->device_name = NULL;
    context->node_devices = names;
    return true;
}

bool aim_export(FILE *out, struct inputs *in, const struct target *target, const struct plan *plan,
                const struct launch_context *context, const char *folder, struct error *err)
{
    struct launch_files files = { 0 };
    struct text left_out = { 0 };
    struct launch launch;
    struct launch_context where = *context;
    bool good = aim_launch(&launch, in, target, plan, err) &&
                (in->cluster->type_count == 1 || name_devices(&where, in, &launch, err)) &&
                (target->write(&files, &launch, &where) || fail_memory(err)) &&
                reads_back(target, &files, &launch, in, err) &&
                (launch_text_left_out(&files, &left_out, target, in->model) || fail_memory(err)) &&
                (launch_text_hosts(&files, &launch, &where) || fail_memory(err)) && write_all(out, folder, &files, err);
    for (char *line = good ? left_out.data : NULL, *end; line && (end = strchr(line, '\n')); line = end + 1)
        fprintf(in->cli->talk, "note: left out: %.*s; README.md says more\n", (int)(end - line), line);
    if (good)
        fprintf(in->cli->talk, "for %s; next: read %s/README.md\n", target->release, folder);
    launch_files_free(&files);
    text_free(&left_out);
    return good;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct export_options *o = given;
    struct inputs in = { .cli = cli };
    struct text folder = { 0 };
    const struct target *target = NULL;
    (void)operand_count;
    if (!o->to) {
        fail(err, "--to is missing: for example --to %s", targets[0]->short_name);
        return ERROR_NONE;
    }
    if (!aim_target(&target, "--to", o->to, err) ||
        !inputs_plan(&in, operands[0], o->source.model, o->source.cluster, &o->source.profiles, err))
        goto cleanup;
    struct launch_context context = aim_context(&in);
    if (!aim_predicted(&context, &in, err))
        goto cleanup;
    if (o->output)
        text_add(&folder, o->output);
    else {
        launch_text_name(&folder, in.model->name);
        text_printf(&folder, "-%s", target->short_name);
    }
    if (folder.failed)
        fail_memory(err);
    else if (!aim_export(cli->out, &in, target, in.plan_file->plan, &context, folder.data, err) &&
             err->kind == ERROR_INPUT)
        aim_say_nearest(cli, &in, target);
cleanup:
    text_free(&folder);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_export = {
    .name = "export",
    .summary = "writes what a framework is launched with so that it trains by a plan",
    .usage = "PLAN --to TARGET [-o DIR]",
    .examples = "  cleave plan config.json --cluster 8x8:h100-sxm --batch 512 --target megatron-lm -o plan.json\n"
                "  cleave export plan.json --to megatron -o launch\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct export_options),
    .run = run,
};
