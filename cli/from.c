#include "cli/from.h"
#include "base/num.h"
#include "cli/aim.h"
#include "cli/called_script.h"
#include "cli/print.h"
#include "cli/stages.h"
#include "models/layer_kind.h"
#include "planner/estimate/estimate.h"
#include "planner/estimate/pace.h"
#include "planner/search/baseline.h"
#include "planner/tables/workbench.h"
#include "targets/decoder.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Degrees that a launch says nowhere may stand in words that cannot be known: priced without, it would be another. */
static bool check_hidden(const struct launch_read *read, const char *launch, struct error *err)
{
    const struct launch *l = &read->launch;
    bool says = l->tensor * l->context * l->pipeline * l->expert > 1 || l->shard_group > 0;
    return !read->hidden || says || read->cluster_devices == 1 ||
           fail(err,
                "%.200s: what %s stands for is not known, and no other word of the launch says a degree above 1: "
                "write its words in its place",
                launch, read->hidden);
}

static bool read_launch(struct from *from, struct inputs *in, const char *launch, struct error *err)
{
    const char *text = launch, *script = NULL, *before = NULL;
    size_t length = strlen(launch);
    bool is_file = strcmp(launch, "-") == 0 || access(launch, R_OK) == 0;
    if (!from->target->read)
        return fail(err, "--from %s: its launches are written, not read", from->target->name);
    if (!is_file && !strpbrk(launch, " \t\n"))
        return fail(err, "--from %s: %s: neither a file that can be read nor the arguments of a launch",
                    from->target->name, launch);
    if (!is_file && !called_script(&script, &before, launch, &in->arena, err))
        return false;
    if (script) {
        launch = script;
        is_file = true;
    }
    if (is_file && !beside_text(in, launch, &text, &length, err))
        return false;
    if (is_file && !script && !launch_refuse_python(from->target, launch, text, length, err))
        return false;
    if (script) { /* on its first line, so that places stay */
        size_t more = strlen(before);
        char *whole = arena_alloc(&in->arena, more + length + 1, 1);
        if (!whole)
            return fail_memory(err);
        memcpy(whole, before, more);
        memcpy(whole + more, text, length);
        text = whole;
        length += more;
    }
    struct beside beside = beside_of(in, is_file && strcmp(launch, "-") != 0 ? launch : NULL, &from->seen);
    from->read.beside = &beside.way;
    bool good = from->target->read(&from->read, &in->arena, is_file ? launch : "launch", text, length, err);
    from->read.beside = NULL;
    good = good && check_hidden(&from->read, is_file ? launch : "launch", err);
    size_t own = strlen(launch);
    bool says_place = strncmp(err->message, launch, own) == 0 && err->message[own] == ':' &&
                      err->message[own + 1] >= '0' && err->message[own + 1] <= '9'; /* in the launch itself */
    if (good || !from->seen.elsewhere || err->kind != ERROR_INPUT || says_place)
        return good;
    struct text quoted = { 0 };
    text_add_quoted(&quoted, from->seen.elsewhere);
    *err = (struct error){ 0 }; /* a stranger's launch must not show what lies there */
    fail(err,
         "%s: it names %s, which is not in its folder and cannot be taken: read that by itself to see why: cleave "
         "estimate --from %s %s",
         launch, from->seen.elsewhere, from->target->name, quoted.data ? quoted.data : "");
    text_free(&quoted);
    return false;
}

/* Of the cluster that is named, before the launch is read; without one they stay 0, and the device unknown. */
static bool count_devices(struct launch_read *read, struct inputs *in, const char *cluster, struct error *err)
{
    struct inputs own = { .cli = in->cli };
    bool good = !cluster || inputs_cluster(&own, cluster, err);
    if (good && cluster) {
        read->cluster_devices = own.cluster->device_count;
        read->device_name = arena_strdup(&in->arena, own.cluster->types[0].device.name);
        good = read->device_name || fail_memory(err);
        read->place.node_devices = cluster_node_size(own.cluster);
        read->place.nodes = max_i64(1, read->cluster_devices / read->place.node_devices);
    }
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
    from->usual_sequence = !job->sequence && from->read.usual_sequence > 0;
    if (from->usual_sequence)
        job->sequence = from->read.usual_sequence;
    if (!job->dtype)
        job->dtype = given->otherwise.dtype;
    if (!job->cluster)
        job->cluster = given->otherwise.cluster;
    if (!job->framework)
        job->framework = from->read.framework ? from->read.framework : from->target->framework;
    return job->cluster ||
           fail(err, "--cluster is missing: what the launch runs on, for example --cluster 8x8:h100-sxm");
}

/* What a launch says is changed there, and no option beside it would have an effect; one that leaves its micro-batch
 * or recomputation open takes them from their options. */
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
        if (from->read.micro_batch_is_open && strcmp(choice_facts[i].name, "micro-batch") == 0) {
            from->read.launch.micro_batch = given->number[i];
            from->read.micro_batches = 0;
            if (!from->read.says_batch) /* both are less than 2^31 */
                from->read.rank_batch = given->number[i] * from->read.accumulation;
        } else if (from->read.recompute_is_open && strcmp(choice_facts[i].name, "recompute") == 0 && given->word[i]) {
            bool none = strcmp(given->word[i], "none") == 0;
            if (!none && strcmp(given->word[i], "full") != 0)
                return fail(err, "--recompute: expected none or full of such a launch, found %s", given->word[i]);
            from->read.launch.recompute = none ? RECOMPUTE_NONE : RECOMPUTE_BLOCK;
        } else {
            said = choice_facts[i].name;
        }
    }
    return !said || fail(err, "--%s: the launch says it; change it there", said);
}

/* What the first frozen matrices of a block are stored in. */
static enum quantized stored_in(const struct model *model)
{
    int form = QUANTIZED_NONE;
    for (int i = 0; i < model->layer_count && !form; i++)
        form = ((const struct layer_head *)model->layers[i].fields)->quantized;
    return (enum quantized)form;
}

/* What is given beside the launch goes before what it names; NULL: its own description, or none. */
static const char *model_named(const struct launch_read *read, const char *given, const char *otherwise)
{
    return given || read->model ? given : read->zoo ? read->zoo : otherwise;
}

/* The model's own description, where the launch has it, is read like a file's. */
static bool read_job(struct from *from, struct space *space, struct inputs *in, const char *model, struct error *err)
{
    size_t length = 0;
    char *own = !model && from->read.model ? model_write(from->read.model, &length) : NULL;
    const char *name = own ? arena_strndup(&in->arena, own, length) : model;
    free(own);
    if (!name && from->read.hub)
        return fail(err,
                    "--model is missing: the launch names a model that is the Hugging Face hub's %s: `hf download %s "
                    "config.json --local-dir %s`, then give --model %s",
                    from->read.hub, from->read.hub, strrchr(from->read.hub, '/') + 1, strrchr(from->read.hub, '/') + 1);
    if (!name && from->read.lacks)
        return fail(
            err,
            "--model is missing: the launch says all of the model but %s: give it as --vocab-size N, or name a file "
            "or one of the zoo",
            from->read.lacks);
    if (!name)
        return fail(err,
                    "--model is missing: the launch does not describe the model%s; name a file or one of the zoo%s%s",
                    from->read.other_model ? " by its sizes, hybrid or with an encoder as it is" : "",
                    from->read.unknown_count > 0 ? "; not understood: " : "",
                    from->read.unknown_count > 0 ? from->read.unknown[0] : "");
    if (from->read.adapter_config && !own) { /* of a Hugging Face configuration */
        in->reading.adapter = from->read.adapter_config;
        in->reading.adapter_length = strlen(from->read.adapter_config);
        in->reading.adapter_name = from->read.adapters;
    }
    in->reading.quantized = from->read.quantized ? 1 + (int)from->read.quantized : 0;
    in->reading.quantizes_experts = from->read.quantizes_experts;
    if (!space_inputs(in, space, name, &from->job, err))
        return false;
    if (!from->read.quantized && stored_in(in->model) && !in->silent)
        fprintf(in->cli->talk, "note: %s stores frozen matrices in %s, of which the launch says nothing\n", name,
                quantized_names[stored_in(in->model)]);
    if (from->read.adapters && decoder_trains(NULL, in->model) == TRAINS_ALL)
        return fail(err,
                    "%s: the launch trains adapters, and of the model all weights are trained: name %s, or take the "
                    "setting out",
                    from->read.adapters,
                    from->read.adapter_config ? "its Hugging Face config.json, which gets those of the launch"
                                              : "a model with adapters (cleave import FOLDER, where "
                                                "adapter_config.json lies beside config.json)");
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
        *last = max_int(*last, graph->layers[l].block);
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

/* The model that the launch is priced as has the sizes that the launch says: else the answer is that of another job. */
static bool check_sizes(const struct launch_read *read, const struct inputs *in, bool named, struct error *err)
{
    struct text differ = { 0 };
    const struct decoder said = read->model ? decoder_of(read->model) : read->sizes;
    decoder_put_differences(&differ, &said, in->model);
    if (differ.failed)
        fail_memory(err);
    else if (differ.length > 0)
        fail(err, "the launch is for another model than %s: %s: %s", in->model->name, differ.data,
             read->model   ? "leave --model out: the launch describes its own"
             : read->lacks ? named
                                 ? "give its vocabulary as --vocab-size N in place of --model: the rest it says itself"
                                 : "give its vocabulary as --vocab-size N: the rest it says itself"
                           : "name the model that it is for: --model MODEL");
    const bool same = !differ.failed && differ.length == 0;
    text_free(&differ);
    return same;
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

/* Frameworks run stages that hold nothing, which no plan has. */
static bool check_pieces(const struct launch *launch, struct error *err)
{
    for (int i = 1; i < launch->piece_count - 1; i++)
        if (launch->piece_blocks[i] == 0 && (launch->further == 0 || i != launch->further_piece))
            return fail(err,
                        "the launch's layout: stage %d of %d, counted from 0, is empty, which cannot be priced: give "
                        "each a block (t), or take it out",
                        i, launch->piece_count);
    return true;
}

bool from_plan(struct plan **out, const struct from *from, const struct launch *launch, struct inputs *in,
               const struct space *space, struct error *err)
{
    const struct space_options *job = &from->job;
    struct search_options options = space_search_options(job, space);
    options.space.optimizer = launch->optimizer;
    struct stage_cuts cuts = { launch->piece_count, launch->piece_blocks };
    if (!check_pieces(launch, err))
        return false;
    if (launch->further > 0 && launch->piece_count > 0 && !add_further(&cuts, launch, &in->arena, err))
        return false;
    struct space said = { .experts_over = allowed_only(launch_experts_over(launch)) };
    for (int c = 0; c < CHOICE_COUNT; c++) {
        int64_t value;
        if (launch_choice(&value, launch, (enum space_choice)c))
            said.range[c] = allowed_only(value);
    }
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

static void allow(struct allowed *allowed, int64_t value)
{
    if (!allowed_has(allowed, value) && allowed->count < SPACE_VALUES)
        allowed->values[allowed->count++] = value;
}

static bool is_priced(const struct price_table *table, const struct plan *plan)
{
    for (int l = 0; table && l < plan->layer_count; l++)
        if (price_strategy(price_of_plan_stage(table, plan, plan_stage_of_layer(plan, l)), &plan->layers[l]) < 0)
            return false;
    return table != NULL;
}

/* Judges the plan as a search judges its best in the end. *out stays NULL where a decision of it has no price. */
static bool judge(struct estimate **out, const struct inputs *in, const struct plan *plan, struct error *err)
{
    struct config config;
    struct workbench bench;
    struct space own = *in->given;
    const struct price_table *table = NULL;
    for (int l = 0; l < plan->layer_count; l++) { /* by now layers may recompute otherwise */
        allow(&own.recompute, plan->layers[l].recompute);
        allow(&own.excepted, (int64_t)plan->layers[l].excepted);
    }
    if (!workbench_open(&bench, in->model, &in->facts, &own, err))
        return false;
    bool good = baseline_config(&config, &own, false, bench.graph, in->cluster, err) &&
                workbench_table(&bench, &config, false, &table, err);
    if (good && is_priced(table, plan))
        good = estimate_plan_steady(out, in->model, in->graph, plan, &bench.chain, table, &in->facts, INT64_MAX, err) &&
               estimate_whole(out, in->model, in->graph, plan, &in->facts, err) &&
               estimate_settle(*out, in->model, plan, &in->facts, err);
    workbench_close(&bench);
    return good;
}

/* Prices a launch as its plan was priced: of pipelines that are too long to be simulated whole in passing, a search
 * looks at few micro-batches, which by 512 of llama-3-405b in 16 x 4 chunks are 0.9 % off. Of one that does not fit a
 * search knows no time, which is told here all the same. */
static bool estimate_as_planned(struct estimate **out, const struct inputs *in, const struct plan *plan,
                                struct error *err)
{
    *out = NULL;
    if (in->given && !inputs_soon_verified(plan) && pace_is_uneven(plan) && !judge(out, in, plan, err))
        return false;
    if (*out && !(*out)->prediction.fits) {
        estimate_free(*out);
        *out = NULL;
    }
    return *out || given_estimate(out, in, plan, err);
}

/* What options say beside a launch goes with the micro-batches that it states, as the framework asserts of them. */
static bool check_accumulation(const struct from *from, const struct given_options *given, struct error *err)
{
    const struct launch *own = &from->read.launch;
    int64_t steps = from->read.accumulation, product;
    if (steps == 0 || (!given->space.batch && !from->read.micro_batch_is_open) ||
        (mul_i64(&product, own->micro_batch, steps) && mul_i64(&product, product, own->data) && product == own->batch))
        return true;
    return fail(err,
                "the batch of %lld: expected micro-batches of %lld x gradient_accumulation_steps %lld x %lld "
                "data-parallel ranks: change --batch or --micro-batch, or the steps in the launch",
                (long long)own->batch, (long long)own->micro_batch, (long long)steps, (long long)own->data);
}

/* What is given beside the launch is what it leaves open, and nothing else. otherwise: the model of those that say
 * none, which a vocabulary beside several launches does not speak of; NULL: there is none. */
static bool is_its_vocabulary(const struct from *from, int64_t words, const char *model, const char *otherwise,
                              struct error *err)
{
    struct decoder own = { 0 };
    if (words == 0 || (!model && !from->read.model && otherwise))
        return true;
    if (model || !from->read.model)
        return fail(err, "--vocab-size: %s",
                    model ? "--model has one" : "the launch leaves more open: --model says all");
    own = decoder_of(from->read.model);
    return own.vocab_size == words || fail(err, "--vocab-size: the launch says %lld itself", (long long)own.vocab_size);
}

static void say_overruled(const struct inputs *in, const char *option, int64_t given, bool said, int64_t own)
{
    if (given > 0 && said && own > 0 && given != own && !in->silent)
        fprintf(in->cli->talk, "note: --%s %lld goes before the launch's %lld\n", option, (long long)given,
                (long long)own);
}

/* What was taken where neither the launch nor an option says it. */
static void say_open(const struct inputs *in, const struct from *from, const struct space *space)
{
    if (!from->job.dtype && !in->silent)
        fprintf(in->cli->talk,
                "note: the launch says no precision, by which PyTorch computes in fp32: it is priced in "
                "%s; --dtype says another\n",
                dtype_names[space->dtype]);
    if (from->usual_sequence && !in->silent)
        fprintf(in->cli->talk,
                "note: the launch says no length of its sequences: it is priced with %lld tokens, %s; --seq says "
                "another\n",
                (long long)from->read.usual_sequence, from->read.usual_sequence_words);
    else if (space->sequence == 0 && in->model->image_size == 0 && !in->silent)
        fprintf(in->cli->talk,
                "note: the launch says no length of its sequences: it is priced with the model's longest, %lld tokens; "
                "--seq says another\n",
                (long long)in->graph->sequence);
}

static bool price(struct from *from, struct plan **plan, struct estimate **estimate, struct inputs *in,
                  const struct given_options *given, const char *target, const char *model, const char *launch,
                  struct error *err)
{
    struct space space;
    struct launch *own = &from->read.launch;
    const char *cluster = given->space.cluster ? given->space.cluster : given->otherwise.cluster;
    int64_t words = from->read.vocabulary;
    if (!count_devices(&from->read, in, cluster, err) || !from_source(&from->target, target, err) ||
        !read_launch(from, in, launch, err) || !is_its_vocabulary(from, words, model, given->otherwise.model, err) ||
        !take_choices(from, given, err) || !fill_job(from, given, err) ||
        !read_job(from, &space, in, model_named(&from->read, model, given->otherwise.model), err) ||
        !check_sizes(&from->read, in, model, err))
        return false;
    if (from->usual_sequence && in->model->sequence < space.sequence) { /* longer than any that the model knows */
        from->usual_sequence = false;
        from->job.sequence = space.sequence = 0;
    }
    say_overruled(in, "batch", given->space.batch, from->read.says_batch, own->batch);
    say_overruled(in, "seq", given->space.sequence, from->read.says_sequence, own->sequence);
    int64_t others = own->tensor * own->context * own->pipeline, devices = in->cluster->device_count;
    if (devices % others != 0)
        return fail(err,
                    "the launch has %lld tensor x context x pipeline ranks, which do not divide the cluster's %lld "
                    "devices",
                    (long long)others, (long long)devices);
    if (from->read.says_data && own->data * others != devices)
        return fail(err, "the launch is for %lld devices, the cluster has %lld", (long long)(own->data * others),
                    (long long)devices);
    if (from->read.says_data && from->read.devices > 0 && from->read.devices < devices && !in->silent)
        fprintf(in->cli->talk, "note: the launch counts %lld devices by itself; it is priced on the cluster's %lld\n",
                (long long)from->read.devices, (long long)devices);
    own->data = devices / others;
    own->zero = own->data * own->context == 1 ? 0 : own->zero; /* with whom would one rank share */
    own->batch = space.batch;
    if (from->read.micro_batches > 0) {
        if (own->batch % (own->data * from->read.micro_batches) != 0)
            return fail(err, "the batch of %lld: expected a multiple of %lld data-parallel ranks x %lld micro-batches",
                        (long long)own->batch, (long long)own->data, (long long)from->read.micro_batches);
        own->micro_batch = own->batch / (own->data * from->read.micro_batches);
    }
    if (!check_accumulation(from, given, err))
        return false;
    if (!graph_take(&in->graph, in->model, space.batch, space.sequence, 1, err))
        return false;
    own->sequence = in->graph->sequence;
    own->dtype = space.dtype;
    say_open(in, from, &space);
    return space_optimizer(&own->optimizer, &from->job, own->dtype, err) && count_blocks(&from->read, in->graph, err) &&
           aim_check(in, from->target, own, from->read.beyond, err) && from_plan(plan, from, own, in, &space, err) &&
           estimate_as_planned(estimate, in, *plan, err);
}

bool from_price(struct from *from, struct plan **plan, struct estimate **estimate, struct inputs *in,
                const struct given_options *given, const char *target, const char *model, const char *launch,
                struct error *err)
{
    *from = (struct from){ .read.vocabulary = given->otherwise.vocabulary };
    if (price(from, plan, estimate, in, given, target, model, launch, err))
        return true;
    if (from->seen.unread && err->kind == ERROR_INPUT &&
        !strstr(err->message, "not read, since")) { /* what it lacks may stand there */
        struct error why = *err;
        *err = (struct error){ 0 };
        fail(err, "%s (the launch takes in %.200s, which is not read: %s)", why.message, from->seen.unread,
             from->seen.why);
    }
    return false;
}

void from_say(const struct cli *cli, const struct from *from, const struct estimate *estimate)
{
    const struct launch_read *read = &from->read;
    char number[TEXT_NUMBER_BYTES];
    bool fits = estimate->prediction.fits;
    for (int i = 0; i < read->unknown_count; i++)
        fprintf(cli->talk, "%s%s%s", i == 0 ? "not understood: " : ", ", read->unknown[i],
                i + 1 == read->unknown_count ? "\n" : "");
    for (int i = 0; i < from->better_count; i++) {
        int64_t step_ns = from->better[i].step_ns;
        if (i == 0)
            fprintf(cli->out, "%s %s:\n", from->pairs_tried > 0 ? "two changes that" : "one change that",
                    from->pairs_tried > 0 ? fits ? "shorten it" : "make it fit"
                    : fits                ? "shortens it"
                                          : "makes it fit");
        fprintf(cli->out, "  %s: %s", from->better[i].words, text_duration_ns(number, step_ns));
        if (fits)
            fprintf(cli->out, " (%+.1f %%)", 100 * ((double)step_ns / (double)estimate->prediction.step_ns - 1));
        fprintf(cli->out, "\n");
    }
    if (from->better_count > 0)
        return;
    fprintf(cli->out, "no single change of %d", from->tried);
    if (from->pairs_tried > 0)
        fprintf(cli->out, " and no pair of %d", from->pairs_tried);
    fprintf(cli->out, " that were tried %s", fits ? "shortens it" : "makes it fit");
    if (!fits && from->target->allow)
        fprintf(cli->out, "; several at once: cleave plan MODEL --target %s", from->target->name);
    fprintf(cli->out, "\n");
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
    json_put_int(w, "pairs_tried", from->pairs_tried);
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
