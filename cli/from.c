#include "cli/from.h"
#include "base/num.h"
#include "cli/aim.h"
#include "cli/print.h"
#include "cli/stages.h"
#include "planner/estimate/estimate.h"
#include "planner/estimate/pace_shelf.h"
#include "planner/program/schedule.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The target or source of that name, else a failure that lists them. */
static bool find_source(const struct target **out, const char *name, struct error *err)
{
    struct text names = { 0 };
    *out = launch_source_find(name);
    if (*out)
        return true;
    for (int i = 0; targets[i]; i++)
        text_printf(&names, "%s, ", targets[i]->name);
    for (int i = 0; launch_sources[i]; i++)
        text_printf(&names, "%s%s", i > 0 ? ", " : "", launch_sources[i]->name);
    fail(err, "--from: expected one of %s; found '%s'", names.data ? names.data : "none", name);
    text_free(&names);
    return false;
}

/* Files that a launch names lie where it does; what was typed names them from here. */
struct beside {
    struct launch_beside way;
    struct inputs *in;
    const char *launch; /* its path; NULL: it was typed */
};

static bool read_beside(const struct launch_beside *way, struct arena *arena, const char *name, const char **text,
                        size_t *length, struct error *err)
{
    const struct beside *beside = (const struct beside *)way;
    struct text path = { 0 };
    const char *slash = beside->launch && name[0] != '/' ? strrchr(beside->launch, '/') : NULL;
    if (slash)
        text_printf(&path, "%.*s", (int)(slash + 1 - beside->launch), beside->launch);
    text_printf(&path, "%s", name);
    const char *kept = path.failed ? NULL : arena_strndup(arena, path.data, path.length);
    text_free(&path);
    return kept ? inputs_text(beside->in, kept, text, length, err) : fail_memory(err);
}

static bool read_launch(struct from *from, struct inputs *in, const char *launch, struct error *err)
{
    const char *text = launch;
    size_t length = strlen(launch);
    bool is_file = strcmp(launch, "-") == 0 || access(launch, R_OK) == 0;
    if (!from->target->read)
        return fail(err, "--from %s: its launches are written, not read", from->target->name);
    if (!is_file && !strpbrk(launch, " \t\n"))
        return fail(err, "--from %s: %s: neither a file that can be read nor the arguments of a launch",
                    from->target->name, launch);
    if (is_file && !inputs_text(in, launch, &text, &length, err))
        return false;
    struct beside beside = { { read_beside }, in, is_file && strcmp(launch, "-") != 0 ? launch : NULL };
    from->read.beside = &beside.way;
    bool good = from->target->read(&from->read, &in->arena, is_file ? launch : "launch", text, length, err);
    from->read.beside = NULL;
    return good;
}

/* Of the cluster that is named, before the launch is read; 0: none is. */
static bool count_devices(int64_t *count, const struct inputs *in, const char *cluster, struct error *err)
{
    struct inputs own = { .cli = in->cli };
    bool good = !cluster || inputs_cluster(&own, cluster, err);
    *count = good && cluster ? own.cluster->device_count : 0;
    inputs_free(&own);
    return good;
}

/* What the launch says of the job where no option says otherwise. */
static bool fill_job(struct from *from, const struct given_options *given, struct error *err)
{
    const struct launch *launch = &from->read.launch;
    struct space_options *job = &from->job;
    *job = given->space;
    if (!job->batch && from->read.says_batch)
        job->batch = launch->batch;
    int64_t ranks = from->read.cluster_devices / (launch->tensor * launch->context * launch->pipeline);
    if (!job->batch && from->read.rank_batch > 0 && !mul_i64(&job->batch, from->read.rank_batch, max_i64(ranks, 1)))
        return fail(err, "the launch: expected a batch of less than 2^63 sequences");
    if (!job->sequence && from->read.says_sequence)
        job->sequence = launch->sequence;
    if (!job->dtype && from->read.says_dtype)
        job->dtype = dtype_names[launch->dtype];
    if (!job->batch)
        job->batch = given->otherwise.batch;
    if (!job->sequence)
        job->sequence = given->otherwise.sequence;
    if (!job->dtype)
        job->dtype = given->otherwise.dtype;
    if (!job->cluster)
        job->cluster = given->otherwise.cluster;
    if (!job->framework)
        job->framework = from->target->framework;
    return job->cluster ||
           fail(err, "--cluster is missing: what the launch runs on, for example --cluster 8x8:h100-sxm");
}

/* What a launch says is changed there, and no option beside it would have an effect; one that leaves its micro-batch
 * open takes it from its option. */
static bool take_choices(struct from *from, const struct given_options *given, struct error *err)
{
    const struct space_options *job = &given->space;
    const char *said = job->fix.count > 0       ? "fix"
                       : job->stages            ? "stages"
                       : given->reversed        ? "reversed"
                       : given->chunk_group > 0 ? "chunk-group"
                                                : NULL;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        if (!given->word[i] && !given->flag[i] && given->number[i] == GIVEN_UNSAID)
            continue;
        if (from->read.micro_batch_is_open && strcmp(choice_facts[i].name, "micro-batch") == 0)
            from->read.launch.micro_batch = given->number[i];
        else
            said = choice_facts[i].name;
    }
    return !said || fail(err, "--%s: the launch says it; change it there", said);
}

/* The model's own description, where the launch has it, is read like a file's. */
static bool read_job(struct from *from, struct space *space, struct inputs *in, const char *model, struct error *err)
{
    size_t length = 0;
    char *own = !model && from->read.model ? model_write(from->read.model, &length) : NULL;
    const char *name = own ? arena_strndup(&in->arena, own, length) : model;
    free(own);
    if (!name)
        return fail(err,
                    "--model is missing: the launch does not describe the model; name a file or one of the zoo%s%s",
                    from->read.unknown_count > 0 ? "; not understood: " : "",
                    from->read.unknown_count > 0 ? from->read.unknown[0] : "");
    if (!space_inputs(in, space, name, &from->job, err))
        return false;
    in->context.target = from->target->allow ? from->target->name : NULL;
    in->model->whole_blocks = true;
    return true;
}

/* Numbers of the first and the last block; -1: there is none. */
static void number_blocks(const struct graph *graph, int *first, int *last)
{
    *first = *last = -1;
    for (int l = 0; l < graph->layer_count; l++) {
        *first = *first < 0 ? graph->layers[l].block : *first;
        *last = graph->layers[l].block > *last ? graph->layers[l].block : *last;
    }
}

/* What blocks have to themselves, as far as the launch that is planned was not changed there. */
static bool set_blocks(const struct launch_read *read, const struct launch *launch, struct plan *plan,
                       const struct graph *graph, struct error *err)
{
    int first, last;
    if (read->block_count == 0)
        return true;
    number_blocks(graph, &first, &last);
    for (int place = 0; place < plan->layer_count; place++) {
        struct plan_layer *layer = &plan->layers[place];
        int block = graph->layers[plan_layer_at(plan, place)].block;
        if (launch->zero == read->launch.zero)
            layer->zero = block >= 0 ? read->blocks[block - first].zero : (int8_t)read->ends_zero;
        if (launch->recompute == read->launch.recompute)
            layer->recompute = block >= 0 ? read->blocks[block - first].recompute : RECOMPUTE_NONE;
    }
    return plan_check(plan, graph, err);
}

/* Blocks of the launch are the model's. */
static bool count_blocks(const struct launch_read *read, const struct graph *graph, struct error *err)
{
    int first, last;
    number_blocks(graph, &first, &last);
    int count = first < 0 ? 0 : last - first + 1;
    return read->block_count == 0 || count == read->block_count ||
           fail(err, "the launch is for a model of %d blocks, this one has %d: name the model that it is for",
                read->block_count, count);
}

/* Those that predict further tokens are parts of their piece, too, and so are the losses between them. */
static bool add_further(struct stage_cuts *cuts, const struct launch *launch, struct arena *arena, struct error *err)
{
    int *blocks = arena_alloc(arena, (size_t)launch->piece_count, sizeof *blocks);
    if (!blocks)
        return fail_memory(err);
    memcpy(blocks, launch->piece_blocks, (size_t)launch->piece_count * sizeof *blocks);
    blocks[launch->further_piece] += 2 * launch->further - 1;
    cuts->blocks = blocks;
    return true;
}

/* The plan of a launch. clips: the user says whether gradients are clipped. */
static bool plan_of(struct plan **out, const struct from *from, const struct launch *launch, struct inputs *in,
                    const struct space *space, struct error *err)
{
    const struct space_options *job = &from->job;
    struct search_options options = space_search_options(job, space);
    options.space.optimizer = launch->optimizer;
    struct stage_cuts cuts = { launch->piece_count, launch->piece_blocks };
    if (launch->further > 0 && launch->piece_count > 0 && !add_further(&cuts, launch, &in->arena, err))
        return false;
    struct space said = { .tensor = allowed_only(launch->tensor),
                          .context = allowed_only(launch->context),
                          .stages = allowed_only(launch->pipeline),
                          .expert = allowed_only(launch->expert),
                          .experts_over = allowed_only(launch_experts_over(launch)),
                          .micro = allowed_only(launch->micro_batch),
                          .sequence_parallel = allowed_only(launch->sequence_parallel),
                          .context_dimension = allowed_only(launch->context_dimension),
                          .shard_group = allowed_only(launch->shard_group),
                          .schedule = allowed_only(launch->schedule),
                          .chunks = allowed_only(launch->chunks),
                          .bucket_bytes = allowed_only(launch->bucket_bytes),
                          .prefetch = allowed_only(launch->prefetch),
                          .loss_chunks = allowed_only(launch->loss_chunks),
                          .zero = allowed_only(launch->zero),
                          .recompute = allowed_only(launch->recompute),
                          .excepted = allowed_only((int64_t)launch->excepted),
                          .offload = allowed_only(launch->offload),
                          .reshard = allowed_only(launch->reshard) };
    if (job->clip == NULL)
        options.space.clip_norm = launch->clip_norm;
    if (cuts.count > 0 && !space_cut_by_hand(&options.space, in, &cuts, err))
        return false;
    graph_free(in->graph);
    in->graph = NULL;
    if (!given_plan(out, in, &options, &said, launch->chunk_group, true, false, err) ||
        !set_blocks(&from->read, launch, *out, in->graph, err))
        return false;
    launch_keep_others(launch, *out, in->graph);
    return true;
}

bool from_price(struct from *from, struct plan **plan, struct estimate **estimate, struct inputs *in,
                const struct given_options *given, const char *target, const char *model, const char *launch,
                struct error *err)
{
    struct space space;
    struct launch *own = &from->read.launch;
    *from = (struct from){ 0 };
    if (!count_devices(&from->read.cluster_devices, in, given->space.cluster, err) ||
        !find_source(&from->target, target, err) || !read_launch(from, in, launch, err) ||
        !take_choices(from, given, err) || !fill_job(from, given, err) ||
        !read_job(from, &space, in, model || from->read.model ? model : given->otherwise.model, err))
        return false;
    int64_t others = own->tensor * own->context * own->pipeline, devices = in->cluster->device_count;
    if (devices % others != 0)
        return fail(err,
                    "the launch has %lld tensor x context x pipeline ranks, which do not divide the cluster's %lld "
                    "devices",
                    (long long)others, (long long)devices);
    if (from->read.says_data && own->data * others != devices)
        return fail(err, "the launch is for %lld devices, the cluster has %lld", (long long)(own->data * others),
                    (long long)devices);
    if (from->read.says_data && from->read.devices > 0 && from->read.devices < devices)
        fprintf(in->cli->talk, "note: the launch counts %lld devices by itself; it is priced on the cluster's %lld\n",
                (long long)from->read.devices, (long long)devices);
    own->data = devices / others;
    own->batch = space.batch;
    if (from->read.micro_batches > 0) {
        if (own->batch % (own->data * from->read.micro_batches) != 0)
            return fail(err, "the batch of %lld: expected a multiple of %lld data-parallel ranks x %lld micro-batches",
                        (long long)own->batch, (long long)own->data, (long long)from->read.micro_batches);
        own->micro_batch = own->batch / (own->data * from->read.micro_batches);
    }
    if (!graph_take(&in->graph, in->model, space.batch, space.sequence, 1, err))
        return false;
    own->sequence = in->graph->sequence;
    own->dtype = space.dtype;
    return space_optimizer(&own->optimizer, &from->job, own->dtype, err) && count_blocks(&from->read, in->graph, err) &&
           aim_check(in, from->target, own, err) && plan_of(plan, from, own, in, &space, err) &&
           given_estimate(estimate, in, *plan, err);
}

/* ---- what would be better ---- */

struct change {
    char words[FROM_WORDS];
    struct launch launch;
};
enum { MOST_CHANGES = 24 };

/* Another one that is like the launch until it is changed; NULL: there are enough. */
static struct change *add_change(struct change *list, int *count, const struct launch *own)
{
    if (*count == MOST_CHANGES)
        return NULL;
    struct change *c = &list[(*count)++];
    *c = (struct change){ .launch = *own };
    return c;
}

static void set_number(struct change *list, int *count, const struct launch *own, size_t offset, const char *name,
                       int64_t value)
{
    int64_t was;
    memcpy(&was, (const char *)own + offset, sizeof was);
    struct change *c = value >= 1 && value != was ? add_change(list, count, own) : NULL;
    if (!c)
        return;
    memcpy((char *)&c->launch + offset, &value, sizeof value);
    snprintf(c->words, sizeof c->words, "%s %lld in place of %lld", name, (long long)value, (long long)was);
}

/* The number that stands at the offset in a launch, halved and doubled. */
static void change_number(struct change *list, int *count, const struct launch *own, size_t offset, const char *name)
{
    int64_t was;
    memcpy(&was, (const char *)own + offset, sizeof was);
    set_number(list, count, own, offset, name, was / 2);
    set_number(list, count, own, offset, name, 2 * was);
}

/* What follows from a change: ranks that it frees or takes are data-parallel ones, other stages are cut anew. */
static void settle(struct launch *l, const struct launch *own, int64_t ranks)
{
    l->data = ranks / (l->tensor * l->context * l->pipeline);
    l->sequence_parallel = l->sequence_parallel && l->tensor > 1;
    if (l->pipeline != own->pipeline || l->chunks != own->chunks) {
        l->piece_count = 0;
        l->piece_blocks = NULL;
        l->further_piece = l->further > 0 ? (int)(l->pipeline * l->chunks) - 1 : 0;
    }
    if (l->pipeline != own->pipeline || l->chunks != own->chunks ||
        l->data * l->micro_batch != own->data * own->micro_batch) {
        int64_t each = l->data * l->micro_batch; /* 0: more ranks than there are, which no look takes */
        int64_t count = each > 0 ? l->batch / each : 0;
        int group =
            schedules[l->schedule]->grouped && count > 0 ? schedule_least_group((int)l->pipeline, (int)count) : 0;
        l->chunk_group = group > l->pipeline ? group : 0;
    }
    if (l->pipeline == 1) {
        l->chunks = 1;
        l->chunk_group = 0;
        l->schedule = schedule_find("1f1b");
    }
}

/* Each changes one thing. */
static int list_changes(struct change *list, const struct launch *own, int64_t blocks)
{
    struct change *c;
    int count = 0, other = own->recompute == RECOMPUTE_NONE ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    int64_t ranks = own->tensor * own->context * own->pipeline * own->data;
    change_number(list, &count, own, offsetof(struct launch, tensor), "tp");
    change_number(list, &count, own, offsetof(struct launch, context), "cp");
    change_number(list, &count, own, offsetof(struct launch, pipeline), "pp");
    change_number(list, &count, own, offsetof(struct launch, micro_batch), "micro-batch");
    if ((c = add_change(list, &count, own))) {
        c->launch.recompute = other;
        c->launch.excepted = 0;
        c->launch.recompute_first = 0;
        snprintf(c->words, sizeof c->words, "recompute %s", other == RECOMPUTE_NONE ? "none" : "full");
    }
    for (int64_t part = 1, first = 0, before; part < 4 && own->excepted == 0; part++) {
        before = first;
        first = launch_most_blocks(own, blocks) * part / 4;
        if (first == before || (own->recompute != RECOMPUTE_NONE && own->recompute_first == first) ||
            !(c = add_change(list, &count, own)))
            continue;
        c->launch.recompute = RECOMPUTE_BLOCK;
        c->launch.recompute_first = first;
        snprintf(c->words, sizeof c->words, "recompute full of the first %lld of each piece's blocks",
                 (long long)first);
    }
    for (int zero = 0; zero < 4; zero++)
        if (zero != own->zero && (c = add_change(list, &count, own))) {
            c->launch.zero = zero;
            snprintf(c->words, sizeof c->words, "ZeRO %d in place of %lld", zero, (long long)own->zero);
        }
    if (own->tensor > 1 && (c = add_change(list, &count, own))) {
        c->launch.sequence_parallel = !own->sequence_parallel;
        snprintf(c->words, sizeof c->words, "%s sequence parallelism", own->sequence_parallel ? "without" : "with");
    }
    for (int64_t chunks = 2; own->pipeline > 1 && own->chunks == 1 && chunks <= 4; chunks *= 2)
        if ((c = add_change(list, &count, own))) {
            c->launch.chunks = chunks;
            c->launch.schedule = schedule_find("interleaved");
            snprintf(c->words, sizeof c->words, "%lld chunks on each stage, interleaved", (long long)chunks);
        }
    for (int i = 0; i < count; i++)
        settle(&list[i].launch, own, ranks);
    return count;
}

/* The same of a launch that none of these makes fit: the steps are longer. */
static int list_large_changes(struct change *list, const struct launch *own)
{
    int count = 0;
    int64_t ranks = own->tensor * own->context * own->pipeline * own->data;
    for (int64_t times = 4; times <= 16; times *= 2) {
        set_number(list, &count, own, offsetof(struct launch, tensor), "tp", times * own->tensor);
        set_number(list, &count, own, offsetof(struct launch, pipeline), "pp", times * own->pipeline);
        set_number(list, &count, own, offsetof(struct launch, context), "cp", times * own->context);
    }
    if (own->micro_batch > 2) /* half of it was tried */
        set_number(list, &count, own, offsetof(struct launch, micro_batch), "micro-batch", 1);
    for (int what = OFFLOAD_NONE + 1; what < OFFLOAD_COUNT; what++) {
        struct change *c = what != own->offload ? add_change(list, &count, own) : NULL;
        if (c) {
            c->launch.offload = what;
            snprintf(c->words, sizeof c->words, "offload %s", offload_names[what]);
        }
    }
    for (int i = 0; i < count; i++)
        settle(&list[i].launch, own, ranks);
    return count;
}

/* A look at few micro-batches. *step_ns 0: it breaks a rule, cannot be planned, does not fit, or takes worth_ns. The
 * inputs' graph stays the launch's. */
static bool try_change(int64_t *step_ns, struct from *from, struct inputs *in, const struct change *change,
                       struct pace_shelf *paces, int64_t worth_ns)
{
    const struct launch *l = &change->launch;
    struct space space = space_default(l->batch, l->sequence, l->dtype);
    struct graph *own = in->graph;
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    struct error why = { 0 };
    *step_ns = 0;
    bool good = l->tensor * l->context * l->pipeline * l->data == in->cluster->device_count &&
                aim_check(in, from->target, l, &why);
    in->graph = NULL;
    good = good && plan_of(&plan, from, l, in, &space, &why) &&
           estimate_plan_paced(&estimate, paces, in->model, in->graph, plan, &in->facts, worth_ns, &why);
    if (good && estimate->prediction.fits && !estimate->beaten)
        *step_ns = estimate->prediction.step_ns;
    graph_free(in->graph);
    in->graph = own;
    estimate_free(estimate);
    plan_free(plan);
    return why.kind != ERROR_ENVIRONMENT && why.kind != ERROR_BUG;
}

/* Looks at all of the list, and keeps the best. */
static bool keep_best(struct from *from, struct inputs *in, const struct change *list, int count,
                      const struct estimate *estimate, struct error *err)
{
    bool fits = estimate->prediction.fits, good = true;
    int64_t worth_ns = fits ? estimate->prediction.step_ns : INT64_MAX, step_ns;
    struct pace_shelf paces;
    pace_shelf_open(&paces);
    for (int i = 0; i < count && good; i++) {
        good = try_change(&step_ns, from, in, &list[i], &paces, worth_ns) || fail_memory(err);
        if (!good || step_ns == 0 || step_ns >= worth_ns)
            continue;
        int at = from->better_count < FROM_BETTER ? from->better_count++ : FROM_BETTER;
        for (; at > 0 && from->better[at - 1].step_ns > step_ns; at--)
            if (at < FROM_BETTER)
                from->better[at] = from->better[at - 1];
        if (at == FROM_BETTER)
            continue;
        from->better[at].step_ns = step_ns;
        memcpy(from->better[at].words, list[i].words, sizeof list[i].words);
    }
    from->tried += count;
    pace_shelf_close(&paces);
    return good;
}

bool from_weigh(struct from *from, struct inputs *in, const struct estimate *estimate, struct error *err)
{
    struct change *list = arena_alloc(&in->arena, MOST_CHANGES, sizeof *list);
    int64_t blocks = 0;
    if (!list)
        return fail_memory(err);
    for (int l = 0; l < in->graph->layer_count; l++)
        blocks += in->graph->layers[l].block >= 0;
    struct launch own = from->read.launch;
    if (!keep_best(from, in, list, list_changes(list, &own, blocks), estimate, err))
        return false;
    return estimate->prediction.fits || from->better_count > 0 ||
           keep_best(from, in, list, list_large_changes(list, &own), estimate, err);
}

void from_say(const struct cli *cli, const struct from *from, const struct estimate *estimate)
{
    const struct launch_read *read = &from->read;
    char number[TEXT_NUMBER_BYTES];
    bool fits = estimate->prediction.fits;
    const char *aim = fits ? "shortens it" : "makes it fit";
    for (int i = 0; i < read->unknown_count; i++)
        fprintf(cli->talk, "%s%s%s", i == 0 ? "not understood: " : ", ", read->unknown[i],
                i + 1 == read->unknown_count ? "\n" : "");
    for (int i = 0; i < from->better_count; i++) {
        int64_t step_ns = from->better[i].step_ns;
        if (i == 0)
            fprintf(cli->out, "one change that %s:\n", aim);
        fprintf(cli->out, "  %s: %s", from->better[i].words, text_duration_ns(number, step_ns));
        if (fits)
            fprintf(cli->out, " (%+.1f %%)", 100 * ((double)step_ns / (double)estimate->prediction.step_ns - 1));
        fprintf(cli->out, "\n");
    }
    if (from->better_count == 0)
        fprintf(cli->out, "no single change of %d that were tried %s%s%s\n", from->tried, aim,
                fits || !from->target->allow ? "" : "; several at once: cleave plan MODEL --target ",
                fits || !from->target->allow ? "" : from->target->name);
}

void from_put(struct json_writer *w, const struct from *from)
{
    json_write_key(w, "launch");
    json_begin_object(w);
    json_put_string(w, "target", from->target->name);
    json_put_string(w, "release", from->target->release);
    json_write_key(w, "not_understood");
    json_begin_array(w);
    for (int i = 0; i < from->read.unknown_count; i++)
        json_write_string(w, from->read.unknown[i]);
    json_end_array(w);
    json_put_int(w, "changes_tried", from->tried);
    json_write_key(w, "changes");
    json_begin_array(w);
    for (int i = 0; i < from->better_count; i++) {
        json_begin_object(w);
        json_put_string(w, "change", from->better[i].words);
        json_put_double(w, "step_s", (double)from->better[i].step_ns * 1e-9);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

void from_free(struct from *from)
{
    model_free(from->read.model);
    from->read.model = NULL;
}
