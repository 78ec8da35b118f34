/* How FSDP is told what to shard: by accelerate's settings, and by the Trainer's words and the file that they name. */
#include "base/text.h"
#include "targets/accelerate.h"
#include "targets/trainer.h"
#include <string.h>
#include <strings.h>

#define DATA_PARALLEL_BUCKET_BYTES (INT64_C(25) << 20) /* torch/nn/parallel/distributed.py, bucket_cap_mb */

static const char file_key[] = "fsdp_config", section[] = "fsdp_config.";

static void note(struct accelerate_fsdp *fsdp, const char *words)
{
    if (fsdp->note_count < ACCELERATE_NOTES)
        fsdp->notes[fsdp->note_count++] = words;
}

/* The settings themselves, in JSON, as the Trainer takes them in place of a file's name (transformers,
 * training_args.py, __post_init__); their places are those of the whole. */
static bool read_inside(struct settings *file, const struct setting *named, struct error *err)
{
    file->name = file_key;
    if (!settings_read_json(file, named->value, strlen(named->value), err))
        return memory_has_fallen_short() ? false
                                         : error_within(err, "%s:%d:%d", named->file, named->line, named->column);
    for (int i = 0; i < file->count; i++) {
        file->list[i].file = named->file;
        file->list[i].line = named->line;
        file->list[i].column = named->column;
    }
    return true;
}

static bool ends_in_json(const char *name)
{
    static const char end[] = ".json";
    size_t length = strlen(name);
    return length >= sizeof end - 1 && strcmp(name + length - (sizeof end - 1), end) == 0;
}

bool accelerate_follow(struct accelerate_fsdp *out, struct settings *settings, const struct launch_beside *beside,
                       struct error *err)
{
    const struct setting *named = settings_take(settings, file_key);
    struct settings file = { .arena = settings->arena, .name = settings->name };
    bool shards = false;
    for (int i = 0; i < settings->count; i++)
        shards = shards || (!settings->list[i].word && strcmp(settings->list[i].key, "fsdp") == 0 &&
                            !settings_is_nothing(settings->list[i].value));
    if (!named || settings_is_nothing(named->value))
        return true;
    bool inside = named->value[0] == '{';
    if (!inside && !ends_in_json(named->value))
        return setting_fail(settings, named, err, "expected a file, NAME.json, or its settings, {...}, found %.80s",
                            named->value);
    if (!(inside ? read_inside(&file, named, err) : settings_read_beside(&file, named, beside, err)))
        return false;
    if (!shards) {
        struct setting *own = settings->list + (named - settings->list);
        own->value = "null"; /* so that it does not speak of FSDP */
        note(out, "fsdp_config (the Trainer reads it beside --fsdp alone)");
        return true;
    }
    for (int i = 0; i < file.count; i++) {
        struct text key = { 0 };
        text_printf(&key, "%s%s", section, file.list[i].key);
        file.list[i].key = key.failed ? NULL : arena_strdup(settings->arena, key.data);
        text_free(&key);
        if (!file.list[i].key)
            return fail_memory(err);
    }
    return settings_put_over(settings, &file, err);
}

/* The names of the strategies, in their order (accelerate/utils/constants.py, FSDP_SHARDING_STRATEGY), then what stands
 * beside them (transformers, trainer_utils.py, FSDPOption). */
enum { FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, STRATEGIES };
static const char *const words[] = { "full_shard",         "shard_grad_op", "no_shard",  "hybrid_shard",
                                     "hybrid_shard_zero2", "offload",       "auto_wrap", NULL };

/* Whether blocks are units of their own: without auto_wrap, a class or a policy all of them would be one, but for
 * transformers 5, which has a switch and wraps by itself. */
static bool wraps_blocks(const struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        if (strstr(one->key, "layer_cls_to_wrap") || strstr(one->key, "auto_wrap_policy") ||
            (strcmp(one->key, "fsdp") == 0 && (strstr(one->value, "auto_wrap") || settings_is_true(one->value))))
            return true;
    }
    return false;
}

/* Words that stand as "full_shard auto_wrap", [full_shard, auto_wrap], or one. */
static bool read_some(struct accelerate_fsdp *out, struct settings *settings, const struct setting *said,
                      struct error *err)
{
    static const char between[] = "[]'\", \t";
    size_t length;
    for (const char *at = said->value; *(at += strspn(at, between)); at += length) {
        length = strcspn(at, between);
        int w = 0;
        while (words[w] && (strlen(words[w]) != length || strncasecmp(words[w], at, length) != 0))
            w++;
        if (!words[w])
            return setting_fail(settings, said, err,
                                "expected full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, "
                                "offload or auto_wrap, found %.*s",
                                (int)(length < 40 ? length : 40), at);
        out->strategy = w < STRATEGIES ? w : out->strategy;
        out->offload = out->offload || strcmp(words[w], "offload") == 0;
    }
    return true;
}

bool accelerate_read_words(struct accelerate_fsdp *out, struct settings *settings, struct error *err)
{
    bool wraps = wraps_blocks(settings), switched = false;
    out->strategy = -1;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        if (one->word || strcmp(one->key, "fsdp") != 0)
            continue;
        bool none = settings_is_nothing(one->value), is_switch = settings_is_true(one->value);
        one->taken = none || (wraps && !one->empty);
        one->unusual = !one->taken;
        out->by_trainer = out->by_trainer || !none;
        switched = switched || is_switch;
        if (!none && !is_switch && !one->empty && !read_some(out, settings, one, err))
            return false;
    }
    out->by_switch_alone = switched && out->strategy < 0;
    return true;
}

/* FSDP 1 shards the same weights as FSDP 2, of a block together, and is priced so (accelerate/utils/dataclasses.py,
 * FullyShardedDataParallelPlugin; torch/distributed/fsdp/api.py, ShardingStrategy). */
static bool read_strategy(int *out, struct settings *settings, int trainers, bool said, struct error *err)
{
    static const char *const strategies[] = { "FULL_SHARD",   "1", "SHARD_GRAD_OP",      "2", "NO_SHARD", "3",
                                              "HYBRID_SHARD", "4", "HYBRID_SHARD_ZERO2", "5", NULL };
    int strategy = 0;
    bool has_strategy;
    const struct settings_option options[] = {
        { "fsdp_reshard_after_forward", .word = &strategy, .words = strategies, .said = &has_strategy },
        { "fsdp_sharding_strategy", .word = &strategy, .words = strategies, .said = &has_strategy },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    *out = trainers >= 0 ? trainers : strategy / 2;
    return has_strategy || trainers >= 0 ||
           fail(err, "%s: fsdp_version: expected 2, or 1 with fsdp_sharding_strategy FULL_SHARD; found %s",
                settings->name, said ? "1" : "none, which is 1");
}

/* Groups of shards are nodes, of which each has all weights (torch/distributed/fsdp/_init_utils.py,
 * _init_process_group_for_hybrid_shard). */
static bool shard_over_nodes(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct launch *launch = &out->launch;
    int64_t machines = 0, each = out->place.node_devices;
    const struct settings_option option = { "num_machines", .integer = &machines, .least = 1, .most = MOST_DEGREE };
    if (!settings_read(settings, &option, 1, err))
        return false;
    if (launch->context > 1 || launch->tensor > 1 || launch->shard_group > 0)
        return fail(
            err,
            "%s: fsdp_sharding_strategy HYBRID_SHARD: expected no parallelism_config beside it, which accelerate "
            "takes with fsdp_version 2 alone",
            settings->name);
    if (each == 0 && machines > 0)
        each = out->devices / machines;
    if (each == 0)
        return fail(err,
                    "%s: fsdp_sharding_strategy HYBRID_SHARD shards over the devices of a node: expected num_processes "
                    "and num_machines, or --cluster, which say how many these are",
                    settings->name);
    launch->shard_group = launch->data == 0 || launch->data > each ? each : 0;
    return true;
}

/* What FSDP 1's strategy makes of the launch. */
static bool apply_strategy(struct launch_read *out, struct accelerate_fsdp *fsdp, int strategy,
                           struct settings *settings, struct error *err)
{
    if (strategy == NO_SHARD) { /* gradients are summed as they are else reduced to shards, block by block */
        fsdp->shards_nothing = true;
        out->launch.zero = 0;
    }
    /* Weights stay gathered between micro-batches, whose gradients are not yet exchanged
     * (torch/distributed/fsdp/_runtime_utils.py, _should_free_in_backward; accelerate/accelerator.py, accumulate). */
    fsdp->keeps_gathered = strategy == SHARD_GRAD_OP || strategy == HYBRID_SHARD_ZERO2;
    return (strategy != HYBRID_SHARD && strategy != HYBRID_SHARD_ZERO2) || shard_over_nodes(out, settings, err);
}

bool accelerate_read_fsdp(struct launch_read *out, struct accelerate_fsdp *fsdp, struct settings *settings,
                          struct error *err)
{
    struct launch *launch = &out->launch;
    int64_t version = 1;
    bool reshard = true, offload = false, again = false, keep = false, said;
    const struct settings_option kind = { "fsdp_version", .integer = &version, .least = 1, .most = 2, .said = &said };
    const struct settings_option options[] = {
        { "fsdp_reshard_after_forward", .flag = &reshard },
        { "fsdp_offload_params", .flag = &offload },
        { "fsdp_activation_checkpointing", .flag = &again },
        { "fsdp_activation_checkpointing_offload", .flag = &keep },
    };
    if (fsdp->alone) {
        launch->zero = 0;
        launch->bucket_bytes = DATA_PARALLEL_BUCKET_BYTES;
        return true;
    }
    if (!settings_read(settings, &kind, 1, err))
        return false;
    int strategy = FULL_SHARD;
    bool first = said ? version == 1 : !fsdp->by_switch_alone; /* which transformers 5 has, and takes for FSDP 2 */
    size_t passed = first ? 1 : 0;                /* FSDP 1 has a strategy's name there, which read_strategy() reads */
    if (!first && fsdp->strategy > SHARD_GRAD_OP) /* transformers/training_args.py, _apply_legacy_fsdp_to_config */
        return fail(err,
                    "%s: fsdp: expected full_shard or shard_grad_op with fsdp_version 2, found %s: write version 1",
                    settings->name, words[fsdp->strategy]);
    reshard = fsdp->strategy != SHARD_GRAD_OP;
    if ((first && (!read_strategy(&strategy, settings, fsdp->strategy, said, err) ||
                   !apply_strategy(out, fsdp, strategy, settings, err))) ||
        !settings_read(settings, options + passed, sizeof options / sizeof *options - passed, err))
        return false;
    const struct setting *wrap = settings_take(settings, "fsdp_auto_wrap_policy");
    if (keep && !again)
        return fail(err, "%s: fsdp_activation_checkpointing_offload: expected fsdp_activation_checkpointing with it",
                    settings->name);
    if (wrap && strcasecmp(wrap->value, "TRANSFORMER_BASED_WRAP") != 0)
        return setting_fail(settings, wrap, err,
                            "expected TRANSFORMER_BASED_WRAP: other units than blocks are not planned");
    offload = offload || fsdp->offload;
    reshard = first ? !fsdp->keeps_gathered : reshard;
    launch->reshard = reshard || launch->zero == 0 ? RESHARD_EACH_PASS : RESHARD_EACH_STEP;
    launch->recompute = again ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    launch->offload = (keep ? OFFLOAD_ACTIVATIONS : 0) | (offload ? OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS : 0);
    if (first)
        note(fsdp, "fsdp_version 1 (priced as 2, which shards the same blocks)");
    return true;
}
