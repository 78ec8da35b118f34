/* What users of torchtitan have: recipes in Python, options of 0.3.0, and TOML of releases up to 0.2. */
#include "targets/launch_text.h"
#include "targets/torchtitan/torchtitan.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include <stdio.h>
#include <string.h>

enum { MOST_PIECES = 4096 };

/* By the file's name, else by what it looks like. */
static enum titan_form form_of(const char *name, const char *text, size_t length)
{
    const char *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".toml") == 0)
        return TITAN_TOML;
    if (dot && strcmp(dot, ".py") == 0)
        return TITAN_RECIPE;
    if (dot && (strcmp(dot, ".sh") == 0 || strcmp(dot, ".sbatch") == 0))
        return TITAN_OPTIONS;
    bool starts_line = true;
    for (size_t i = 0; i < length; i++) {
        if (starts_line && text[i] == '[')
            return TITAN_TOML;
        if (text[i] == '-' && i + 1 < length && text[i + 1] == '-' && (i == 0 || strchr(" \n\t", text[i - 1])))
            return TITAN_OPTIONS;
        if (starts_line && (length - i > 7) &&
            (memcmp(text + i, "import ", 7) == 0 || memcmp(text + i, "from ", 5) == 0))
            return TITAN_RECIPE;
        starts_line = text[i] == '\n';
    }
    return memchr(text, '=', length) ? TITAN_RECIPE : TITAN_OPTIONS;
}

const char *const titan_sections[] = { "experimental", "training", "parallelism", NULL };

static const struct setting *take_text(struct titan_reading *r, const char *option)
{
    const struct setting *found = NULL;
    for (int i = 0; titan_sections[i]; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s.%s", titan_sections[i], option);
        const struct setting *here = settings_take(&r->settings, key);
        found = here ? here : found;
    }
    return found;
}

static bool read_checkpoints(struct titan_reading *r)
{
    static const char *const modes[] = { "none", "selective", "full", NULL };
    struct launch *launch = &r->out->launch;
    int mode = 1;
    const struct setting *call = settings_take(&r->settings, "activation_checkpoint");
    if (call) {
        if (strstr(call->value, "FullAC"))
            mode = 2;
        else if (strstr(call->value, "SelectiveAC"))
            mode = 1;
        else if (strcmp(call->value, "None") == 0)
            mode = 0;
        else
            return setting_fail(&r->settings, call, r->err,
                                "expected None, SelectiveAC.Config() or FullAC.Config(), found %.80s", call->value);
    }
    /* As an option it is a word of its own: activation_checkpoint:full. */
    for (int i = 0; i < r->settings.count; i++) {
        struct setting *one = &r->settings.list[i];
        const char *rest = one->value + strlen("activation_checkpoint:");
        if (!one->word || (strncmp(one->value, "activation_checkpoint:", 22) != 0 &&
                           strncmp(one->value, "activation-checkpoint:", 22) != 0))
            continue;
        mode = strcmp(rest, "none") == 0 ? 0 : strcmp(rest, "selective") == 0 ? 1 : strcmp(rest, "full") == 0 ? 2 : -1;
        if (mode < 0)
            return fail(r->err, "%s:%d:%d: %.80s: expected none, selective or full", r->settings.name, one->line,
                        one->column, one->value);
    }
    if (!settings_word(&r->settings, "activation_checkpoint.mode", modes, &mode, NULL, r->err))
        return false;
    const struct setting *option = settings_take(&r->settings, "activation_checkpoint.selective_ac_option");
    if (option && mode == 1 && strcmp(option->value, "op") != 0)
        return setting_fail(&r->settings, option, r->err,
                            "expected op: every %.20s-th block alone is not planned; use op or full", option->value);
    launch->recompute = mode == 0 ? RECOMPUTE_NONE : RECOMPUTE_BLOCK;
    launch->excepted = mode == 1 ? titan_kept(launch->expert > 1) : 0;
    return true;
}

/* [["tok_embeddings", "layers.0"], ["layers.1", "norm", "lm_head"]]; blocks must follow each other. */
static bool read_pieces(struct titan_reading *r, const struct setting *setting)
{
    struct launch *launch = &r->out->launch;
    int *blocks = arena_alloc(r->arena, MOST_PIECES, sizeof *blocks);
    int count = 0, next = 0, depth = 0;
    if (!blocks)
        return fail_memory(r->err);
    for (const char *c = setting->value; *c; c++) {
        if (*c == '[') {
            depth++;
            if (depth > 2 || count >= MOST_PIECES)
                return setting_fail(&r->settings, setting, r->err, "expected at most %d lists of names, found %s",
                                    MOST_PIECES, depth > 2 ? "a list within them" : "more");
            count += depth == 2;
        } else if (*c == ']') {
            depth--;
        } else if (*c == '"' || *c == '\'') {
            const char *name = c + 1, *end = strchr(name, *c);
            if (!end || depth != 2)
                return setting_fail(&r->settings, setting, r->err, "expected lists of names within a list");
            if (strncmp(name, "layers.", 7) == 0) {
                int number = 0;
                for (const char *d = name + 7; d < end; d++)
                    number = *d >= '0' && *d <= '9' && number < MOST_DEGREE ? number * 10 + (*d - '0') : MOST_COUNT;
                if (number != next)
                    return setting_fail(&r->settings, setting, r->err, "expected layers.%d, found %.*s", next,
                                        (int)(end - name < 40 ? end - name : 40), name);
                next++;
                blocks[count - 1]++;
            }
            c = end;
        }
    }
    if (depth != 0 || count == 0)
        return setting_fail(&r->settings, setting, r->err, "expected lists of names within a list");
    if (r->blocks > 0 && next != r->blocks)
        return setting_fail(&r->settings, setting, r->err, "expected all %lld layers, found %d", (long long)r->blocks,
                            next);
    if (count % launch->pipeline != 0)
        return setting_fail(&r->settings, setting, r->err, "expected a multiple of %lld pieces, found %d",
                            (long long)launch->pipeline, count);
    launch->piece_count = count;
    launch->piece_blocks = blocks;
    launch->chunks = count / launch->pipeline;
    return true;
}

/* As the release shares blocks out, where the embedding and the head count as some
 * (_generate_llm_fqn_per_model_part). */
static bool share_blocks(struct titan_reading *r, int64_t pieces, int64_t input, int64_t output)
{
    int64_t all = r->blocks + input + output, each = all / pieces, more = all % pieces;
    if (pieces > MOST_PIECES || each < 1 || input > each || output > each)
        return fail(r->err,
                    "%s: %lld pieces of %lld layers, an embedding that counts as %lld and a head that counts as %lld: "
                    "a piece would be empty",
                    r->settings.name, (long long)pieces, (long long)r->blocks, (long long)input, (long long)output);
    int *blocks = arena_alloc(r->arena, (size_t)pieces, sizeof *blocks);
    if (!blocks)
        return fail_memory(r->err);
    for (int64_t p = 0; p < pieces; p++)
        blocks[p] = (int)(each + (p < more) - (p == 0 ? input : 0) - (p == pieces - 1 ? output : 0));
    r->out->launch.piece_count = (int)pieces;
    r->out->launch.piece_blocks = blocks;
    return true;
}

static bool read_pipeline(struct titan_reading *r)
{
    struct launch *launch = &r->out->launch;
    int64_t input = 1, output = 1, each = 0;
    const struct setting *schedule = take_text(r, "pipeline_parallel_schedule");
    const struct setting *pieces = take_text(r, "module_fqns_per_model_part");
    const struct settings_option options[] = {
        { "pipeline_parallel_first_stage_less_layers", .integer = &input, .sections = titan_sections,
          .most = MOST_DEGREE },
        { "pipeline_parallel_last_stage_less_layers", .integer = &output, .sections = titan_sections,
          .most = MOST_DEGREE },
        { "pipeline_parallel_layers_per_stage", .integer = &each, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE },
    };
    if (!settings_read(&r->settings, options, sizeof options / sizeof *options, r->err))
        return false;
    const struct setting *csv = take_text(r, "pipeline_parallel_schedule_csv");
    if (launch->pipeline == 1)
        return true;
    if (csv && csv->value[0] != '\0' && strcmp(csv->value, "None") != 0)
        return setting_fail(&r->settings, csv, r->err, "a schedule of one's own is not planned");
    int number = schedule ? titan_schedule_named(schedule->value) : SCHEDULE_one_f_one_b;
    if (number == -2)
        return setting_fail(&r->settings, schedule, r->err,
                            "expected 1F1B, GPipe, Interleaved1F1B or ZBVZeroBubble, found %.40s", schedule->value);
    if (number < 0)
        return setting_fail(&r->settings, schedule, r->err,
                            "%.40s is not planned; 1F1B, GPipe, Interleaved1F1B and ZBVZeroBubble are",
                            schedule->value);
    bool several = number == SCHEDULE_interleaved || number == SCHEDULE_zb_v;
    launch->schedule = number;
    launch->chunks = several ? 2 : 1;
    if (each > 0 && r->blocks > 0) {
        int64_t count = ceil_div(r->blocks + input + output, each);
        if (count % launch->pipeline != 0)
            return fail(
                r->err,
                "%s: pipeline_parallel_layers_per_stage %lld makes %lld pieces: expected a multiple of the %lld "
                "stages",
                r->settings.name, (long long)each, (long long)count, (long long)launch->pipeline);
        launch->chunks = count / launch->pipeline;
    }
    if (pieces && strcmp(pieces->value, "None") != 0) {
        if (!read_pieces(r, pieces))
            return false;
    } else if (r->blocks > 0) {
        if (!share_blocks(r, launch->pipeline * launch->chunks, input, output))
            return false;
    }
    if (launch->chunks > PLAN_MAX_CHUNKS || (several ? launch->chunks < 2 : launch->chunks != 1) ||
        (number == SCHEDULE_zb_v && launch->chunks != 2))
        return fail(r->err, "%s: %s with %lld pieces of the model on each stage: expected %s", r->settings.name,
                    titan_schedule(number), (long long)launch->chunks,
                    number == SCHEDULE_zb_v ? "2"
                    : several               ? "2 or more"
                                            : "1");
    return true;
}

/* Devices of torchrun's options, of torchtitan's scripts, or of Slurm's. */
static bool read_devices(struct titan_reading *r)
{
    int64_t nodes = 1, each = 0;
    bool said;
    const struct settings_option options[] = {
        { "nnodes", .integer = &nodes, .least = 1, .most = MOST_DEGREE },
        { "nodes", .integer = &nodes, .least = 1, .most = MOST_DEGREE },
        { "nproc_per_node", .integer = &each, .least = 1, .most = MOST_DEGREE, .said = &said },
        { "gpus_per_node", .integer = &each, .least = 1, .most = MOST_DEGREE, .said = &said },
    };
    if (!settings_read(&r->settings, options, sizeof options / sizeof *options, r->err))
        return false;
    r->out->devices = said ? nodes * each : 0;
    return true;
}

static bool read_degrees(struct titan_reading *r)
{
    struct launch *launch = &r->out->launch;
    int64_t replicas = 1, shards = -1, devices = r->out->devices;
    bool sp = true, ignored, loss_parallel = true;
    const struct settings_option options[] = {
        { "tensor_parallel_degree", .integer = &launch->tensor, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE },
        { "context_parallel_degree", .integer = &launch->context, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE },
        { "pipeline_parallel_degree", .integer = &launch->pipeline, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE },
        { "expert_parallel_degree", .integer = &launch->expert, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE },
        { "data_parallel_degree", .integer = &shards, .sections = titan_sections, .least = -1, .most = MOST_DEGREE },
        { "data_parallel_shard_degree", .integer = &shards, .sections = titan_sections, .least = -1,
          .most = MOST_DEGREE },
        { "data_parallel_replicate_degree", .integer = &replicas, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE },
        { "parallelism.enable_sequence_parallel", .flag = &sp },
        { "parallelism.disable_loss_parallel", .flag = &loss_parallel, .said = &ignored },
    };
    if (!settings_read(&r->settings, options, sizeof options / sizeof *options, r->err))
        return false;
    r->out->ignored_count += ignored;
    const struct setting *rotate = take_text(r, "context_parallel_rotate_method");
    static const char *const balanced[] = { "headtail", "ptrr", NULL }; /* as attention is priced */
    if (launch->context > 1)
        settings_keep_unusual(&r->settings, "parallelism.context_parallel_load_balancer", balanced);
    if (rotate && launch->context > 1)
        launch->context_dimension = strcmp(rotate->value, "alltoall") == 0 ? DIM_cp_ring : DIM_cp_gather;
    launch->sequence_parallel = sp && launch->tensor > 1;
    launch->experts_whole = launch->expert > 1 && launch->tensor > 1;
    int64_t others = launch->tensor, most = INT64_C(1) << 40;
    if (!mul_i64(&others, others, launch->context) || !mul_i64(&others, others, launch->pipeline) ||
        !mul_i64(&others, others, replicas) || others > most)
        return fail(r->err, "%s: expected at most %lld devices, found more", r->settings.name, (long long)most);
    if (shards == 0)
        return fail(r->err, "%s: data_parallel_shard_degree: expected -1, 1 or more, found 0", r->settings.name);
    if (shards < 0 && devices == 0 && replicas > 1) /* the rest of the cluster's, which no configuration says */
        devices = r->out->place.nodes * r->out->place.node_devices;
    if (shards < 0 && devices > 0) {
        if (devices % others != 0 || devices / others < 1)
            return fail(r->err,
                        "%s: %lld devices: expected a multiple of replicas %lld x context %lld x tensor %lld x "
                        "pipeline %lld",
                        r->settings.name, (long long)devices, (long long)replicas, (long long)launch->context,
                        (long long)launch->tensor, (long long)launch->pipeline);
        shards = devices / others;
    }
    if (shards < 0 && replicas > 1)
        return fail(r->err,
                    "%s: data_parallel_replicate_degree %lld: expected data_parallel_shard_degree or the number of "
                    "devices (--nnodes, --nproc_per_node) beside it",
                    r->settings.name, (long long)replicas);
    if (shards > 0 && devices > 0 && others * shards != devices)
        return fail(
            r->err,
            "%s: replicas %lld x shards %lld x context %lld x tensor %lld x pipeline %lld are %lld devices, and "
            "%lld are started",
            r->settings.name, (long long)replicas, (long long)shards, (long long)launch->context,
            (long long)launch->tensor, (long long)launch->pipeline, (long long)(others * shards), (long long)devices);
    r->out->says_data = shards > 0;
    r->out->devices = shards > 0 ? others * shards : 0;
    launch->data = shards > 0 ? replicas * shards : 0;
    launch->shard_group = replicas > 1 && shards * launch->context > 1 ? shards : 0;
    launch->zero = shards < 0 || shards * launch->context > 1 ? 3 : 0;
    if (r->kv_heads > 0 && r->kv_heads % launch->tensor != 0)
        return fail(r->err, "%s: tensor_parallel_degree %lld: expected a divisor of the %lld key and value heads",
                    r->settings.name, (long long)launch->tensor, (long long)r->kv_heads);
    return true;
}

static bool read_reshard(struct titan_reading *r)
{
    static const char *const words[] = { "default", "always", "never", NULL };
    struct launch *launch = &r->out->launch;
    int policy = 0;
    if (!settings_word(&r->settings, "parallelism.fsdp_reshard_after_forward", words, &policy, NULL, r->err))
        return false;
    if (launch->zero == 3 && (policy == 2 || (policy == 0 && launch->pipeline > 1)))
        launch->reshard = RESHARD_EACH_STEP;
    return true;
}

static bool read_batch(struct titan_reading *r)
{
    struct launch *launch = &r->out->launch;
    int64_t local = 8, global = -1, each = 0, count = 0;
    bool each_said = false, count_said = false;
    launch->sequence = 2048;
    const struct settings_option options[] = {
        { "training.batch_size", .integer = &local, .least = 1, .most = MOST_COUNT },
        { "training.local_batch_size", .integer = &local, .least = 1, .most = MOST_COUNT },
        { "training.global_batch_size", .integer = &global, .least = -1, .most = MOST_COUNT },
        { "training.seq_len", .integer = &launch->sequence, .least = 1, .most = MOST_COUNT,
          .said = &r->out->says_sequence },
        { "pipeline_parallel_microbatch_size", .integer = &each, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE, .said = &each_said },
        { "pipeline_parallel_microbatches", .integer = &count, .sections = titan_sections, .least = 1,
          .most = MOST_DEGREE, .said = &count_said },
    };
    if (!settings_read(&r->settings, options, sizeof options / sizeof *options, r->err))
        return false;
    r->out->says_sequence = true;
    if (launch->pipeline > 1 && count_said && !each_said && local % count == 0)
        each = local / count;
    if (launch->pipeline > 1 && each == 0)
        each = 1;
    launch->micro_batch = launch->pipeline > 1 ? each : local;
    if (local % launch->micro_batch != 0)
        return fail(r->err,
                    "%s: training.local_batch_size %lld: expected a multiple of pipeline_parallel_microbatch_size %lld",
                    r->settings.name, (long long)local, (long long)each);
    int64_t round = local * (launch->data > 0 ? launch->data : 1);
    if (launch->data > 0 && global < 0)
        global = round;
    if (global == 0 || (global > 0 && global % round != 0))
        return fail(r->err,
                    "%s: training.global_batch_size %lld: expected a multiple of local_batch_size %lld x data-parallel "
                    "ranks %lld",
                    r->settings.name, (long long)global, (long long)local, (long long)launch->data);
    r->fills = launch->pipeline > 1 && launch->data > 0 ? global / round : 1;
    r->out->says_batch = global > 0;
    r->out->rank_batch = global > 0 ? 0 : local;
    launch->batch = max_i64(global, 0);
    int64_t parts = (launch->sequence_parallel ? launch->tensor : 1) * (launch->context > 1 ? 2 * launch->context : 1);
    if (launch->sequence % parts != 0)
        return fail(r->err,
                    "%s: training.seq_len %lld: expected a multiple of %lld for sequence and context parallelism",
                    r->settings.name, (long long)launch->sequence, (long long)parts);
    int64_t together = local / launch->micro_batch;
    if (launch->pipeline > 1 && launch->schedule == SCHEDULE_one_f_one_b && together < launch->pipeline)
        return fail(r->err, "%s: 1F1B with %lld micro-batches on %lld stages: expected as many or more",
                    r->settings.name, (long long)together, (long long)launch->pipeline);
    int64_t rounds = launch->pipeline > 1 ? together / launch->pipeline : 0;
    if (launch->pipeline > 1 && launch->schedule == SCHEDULE_interleaved && rounds > 0 && together % rounds != 0)
        return fail(r->err, "%s: Interleaved1F1B with %lld micro-batches on %lld stages: expected a multiple of %lld",
                    r->settings.name, (long long)together, (long long)launch->pipeline, (long long)rounds);
    if (launch->pipeline > 1 && launch->schedule == SCHEDULE_interleaved && rounds > 0)
        launch->chunk_group = together / rounds == launch->pipeline ? 0 : together / rounds;
    return true;
}

static bool read_rest(struct titan_reading *r)
{
    struct launch *launch = &r->out->launch;
    bool compile = false, async = false, graphs_off = false, offload = false, here = false;
    static const char *const types[] = { "bfloat16", "float32", NULL };
    int type = 0, stored = 1;
    const struct setting *loss = settings_take(&r->settings, "loss"),
                         *components = settings_take(&r->settings, "compile.components");
    bool whole = r->form == TITAN_TOML || (loss && strstr(loss->value, "CrossEntropyLoss"));
    launch->bucket_bytes = TITAN_BUCKET_BYTES;
    launch->loss_chunks = whole ? 1 : TITAN_LOSS_CHUNKS;
    const struct settings_option options[] = {
        { "training.compile", .flag = &compile },
        { "compile.enable", .flag = &compile },
        { "compile.enable_async_tensor_parallel", .flag = &async },
        { "training.disable_cuda_graphs", .flag = &graphs_off },
        { "training.enable_cpu_offload", .flag = &offload, .said = &here },
        { "loss.num_chunks", .integer = &launch->loss_chunks, .least = 1, .most = PLAN_MAX_LOSS_CHUNKS },
        { "training.max_norm", .real = &launch->clip_norm },
        { "training.mixed_precision_param", .word = &type, .words = types, .said = &r->out->says_dtype },
        { "training.dtype", .word = &stored, .words = types },
    };
    if (!settings_read(&r->settings, options, sizeof options / sizeof *options, r->err))
        return false;
    bool split = launch->pipeline > 1 && launch->schedule == SCHEDULE_zb_v;   /* pytorch#161904 */
    compile = compile && (!components || strstr(components->value, "model")); /* that of the loss has no price */
    r->out->says_dtype = true;
    if (r->fp8 && type != 0 && stored != 0) {
        r->fp8 = TITAN_FP8_NONE;
        if (!titan_leave_converters(r, "not priced beside training.mixed_precision_param float32"))
            return false;
    }
    if (r->fp8 && !compile &&
        !titan_leave_converters(r, "priced as torch.compile fuses its casts, which is not enabled: takes longer"))
        return false;
    launch->dtype = type != 0 && stored != 0 ? DTYPE_FP32 : r->fp8 ? DTYPE_FP8 : DTYPE_BF16;
    launch->optimizer = stored == 0 ? titan_narrow : launch->optimizer;
    r->out->framework = !compile                        ? "torchtitan"
                        : r->fp8 == TITAN_FP8_BY_TENSOR ? "torchtitan-tensorwise"
                                                        : "torchtitan-compile";
    r->out->beyond = split && !compile ? titan_uncompiled : NULL;
    if (split && compile)
        return fail(r->err, "%s: ZBVZeroBubble, whose backward passes compiled blocks do not bear: expected %s",
                    r->settings.name, "compile.enable false, or Interleaved1F1B");
    if (async && !compile)
        return fail(r->err, "%s: compile.enable_async_tensor_parallel: expected compile.enable", r->settings.name);
    if (r->form != TITAN_TOML && launch->pipeline > 1 && !graphs_off)
        return fail(r->err, "%s: pipeline_parallel_degree %lld: expected training.disable_cuda_graphs with it",
                    r->settings.name, (long long)launch->pipeline);
    launch->offload = offload && launch->zero == 3 ? OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS : OFFLOAD_NONE;
    return true;
}

/* AdamW alone is told to torchtitan; what its configurations call others is refused with how these are priced.
 * training.dtype says what it keeps. */
static bool read_optimizer(struct titan_reading *r)
{
    static const struct {
        const char *of_name, *instead;
    } others[] = { { "Muon", "--optimizer muon" },
                   { "muon", "--optimizer muon" },
                   { "8bit", "--moments 8bit" },
                   { "SGD", "--optimizer sgd" },
                   { "sgd", "--optimizer sgd" } };
    static const char *const usual[] = { "fused", "foreach", "for-loop", NULL }, *const no[] = { "false", NULL };
    const struct setting *name = settings_take(&r->settings, "optimizer.name"),
                         *call = settings_take(&r->settings, "optimizer"), *said = name ? name : call;
    settings_keep_unusual(&r->settings, "optimizer.implementation", usual);
    settings_keep_unusual(&r->settings, "optimizer.early_step_in_backward", no);
    static const char *const known[] = { "AdamW", "Adam" };
    if (!said)
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(said->value, others[i].of_name))
            return setting_fail(&r->settings, said, r->err,
                                "expected AdamW or Adam, found %.40s: use cleave estimate MODEL --framework torchtitan "
                                "%s",
                                said->value, others[i].instead);
    const char *meant = name ? text_nearest(name->value, known, sizeof known / sizeof *known) : NULL;
    if (meant && strcmp(name->value, known[0]) != 0 && strcmp(name->value, known[1]) != 0)
        return setting_fail(&r->settings, name, r->err, "found %.40s, did you mean %s; known are AdamW and Adam",
                            name->value, meant);
    return strstr(said->value, "Adam") || strstr(said->value, "adam") ||
           (!name && strstr(said->value, "OptimizersContainer")) ||
           setting_fail(&r->settings, said, r->err, "expected AdamW or Adam, found %.40s, which is not planned",
                        said->value);
}

/* Understood, and without effect on time and memory. */
static const char *const ignored[] = { "job.",
                                       "profil",
                                       "metrics.",
                                       "tokenizer",
                                       "dataloader",
                                       "optimizer.lr",
                                       "optimizer.beta",
                                       "optimizer.eps",
                                       "optimizer.weight_decay",
                                       "optimizer.implementation",
                                       "optimizer.early_step_in_backward",
                                       "lr_scheduler",
                                       "checkpoint.",
                                       "comm.",
                                       "validat",
                                       "debug.",
                                       "loss.",
                                       "hf_assets_path",
                                       "dump_folder",
                                       "training.steps",
                                       "training.dataset",
                                       "training.seed",
                                       "training.gc_freq",
                                       "training.warmup_steps",
                                       "training.mixed_precision_reduce",
                                       "activation_checkpoint.",
                                       "parallelism.spmd_backend",
                                       "parallelism.context_parallel_load_balancer",
                                       "rdzv",
                                       "master_",
                                       "node_rank",
                                       "local_ranks_filter",
                                       "role",
                                       "tee",
                                       "max_restarts",
                                       "module",
                                       "config",
                                       NULL };

/* The command of torchtune, whose options have other names. */
static bool refuse_torchtune(const struct titan_reading *r)
{
    const struct setting *list = r->settings.list;
    for (int i = 0; i + 1 < r->settings.count; i++)
        if (list[i].word && list[i + 1].word && strcmp(list[i].value, "tune") == 0 &&
            strcmp(list[i + 1].value, "run") == 0)
            return fail(r->err,
                        "%s:%d:%d: expected a launch of torchtitan, found one of torchtune, which is not read: cleave "
                        "estimate MODEL --framework torchtitan prices it by its degrees, --micro-batch and --batch",
                        r->settings.name, list[i].line, list[i].column);
    return true;
}

/* What options name: a configuration, or the recipe that `cleave export` writes. */
static bool read_named(struct titan_reading *r)
{
    static const char *const files[] = { "job.config_file", NULL };
    int before = r->settings.count;
    if (!refuse_torchtune(r) || !titan_refuse_unnamed(r) ||
        !settings_follow(&r->settings, files, r->out->beside, r->err))
        return false;
    if (r->settings.count > before)
        r->form = TITAN_TOML;
    const struct setting *module = settings_take(&r->settings, "module");
    if (!module || strcmp(module->value, "cleave_recipe") != 0 || !r->out->beside)
        return true;
    settings_take(&r->settings, "config"); /* the function's name in the recipe */
    struct setting file = *module;
    file.value = "cleave_recipe.py";
    r->form = TITAN_RECIPE;
    return settings_read_beside(&r->settings, &file, r->out->beside, r->err);
}

/* Says what the price does not have. */
static bool note_unpriced(struct titan_reading *r)
{
    static const char experts[] =
        "SelectiveAC of experts (what their exchange brings back is priced as if the product before it were kept: that "
        "product is not counted again)";
    char fills[192];
    int length = snprintf(fills, sizeof fills,
                          "accumulation (the pipeline fills and drains %lld times in a step, for local_batch_size each "
                          "time; priced as once: it takes longer)",
                          (long long)r->fills);
    return (r->out->launch.excepted == 0 || r->out->launch.expert < 2 ||
            launch_read_add_unknown(r->out, r->arena, experts, sizeof experts - 1, r->err)) &&
           (r->fills < 2 || launch_read_add_unknown(r->out, r->arena, fills, (size_t)length, r->err));
}

bool titan_read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                struct error *err)
{
    struct titan_reading r = {
        .settings = { .arena = arena, .name = name, .place = &out->place, .beside = out->beside },
        .out = out,
        .arena = arena,
        .err = err
    };
    launch_read_begin(out);
    r.form = form_of(name, text, length);
    bool good = r.form == TITAN_TOML     ? settings_read_toml(&r.settings, text, length, err)
                : r.form == TITAN_RECIPE ? settings_read_python(&r.settings, text, length, err)
                                         : settings_read_flags(&r.settings, text, length, err) && read_named(&r);
    good = good && titan_read_base(&r) && titan_read_converters(&r) && read_devices(&r) && read_degrees(&r) &&
           read_reshard(&r) && read_pipeline(&r) && read_batch(&r) && read_checkpoints(&r) && read_rest(&r) &&
           read_optimizer(&r);
    good = good && titan_refuse_slips(&r);
    if (good)
        out->ignored_count += settings_take_all(&r.settings, ignored);
    good = good && settings_say_something(&r.settings,
                                          r.form == TITAN_TOML
                                              ? "settings of torchtitan, such as training.local_batch_size or "
                                                "parallelism.tensor_parallel_degree"
                                              : "settings of torchtitan, such as training.local_batch_size or "
                                                "parallelism.tensor_parallel_degree, or --job.config_file FILE.toml",
                                          err);
    out->hidden = r.settings.hidden;
    good = good && (settings_left(&r.settings, &out->unknown_count, &out->unknown) || fail_memory(err)) &&
           note_unpriced(&r);
    if (!good) {
        model_free(out->model);
        out->model = NULL;
    }
    return good;
}
