/* `cleave partition --format galvatron`: its profile's folders instead of a file. */
#include "cli/partition_formats.h"
#include "host/galvatron_folder.h"
#include <math.h>

struct answered {
    struct galvatron_answer answer;
    struct galvatron_price price;
    struct stage_plan found;
};

static bool make_problem(const struct partition_request *request, const struct galvatron_profile *profile,
                         struct galvatron_problem *out, struct error *err)
{
    if (request->memory_bytes <= 0)
        return fail(err, "cleave partition: --memory is needed for galvatron: bytes of a device");
    if (request->devices < 1 || request->layers < 1 || request->hidden < 1 || request->batch < 1)
        return fail(err, "cleave partition: --devices, --layers, --hidden and --batch are needed for galvatron");
    *out = (struct galvatron_problem){
        profile,        (int)request->devices, request->hidden, request->memory_bytes / 0x1p30, (int)request->layers,
        request->batch,
    };
    return true;
}

/* What the verb reports of every format. */
static bool describe(struct answered *a, struct arena *arena, struct error *err)
{
    const struct galvatron_plan *plan = &a->answer.plan;
    a->found = (struct stage_plan){ .feasible = a->answer.feasible,
                                    .optimal = a->answer.optimal,
                                    .exhausted = true,
                                    .value = a->answer.feasible ? a->answer.step_s : INFINITY,
                                    .bound = a->answer.feasible ? a->answer.bound_s : INFINITY,
                                    .stage_count = plan->stage_count,
                                    .work = a->answer.knapsacks };
    a->found.stages = arena_alloc(arena, (size_t)plan->stage_count, sizeof *a->found.stages);
    return a->found.stages || fail_memory(err);
}

static bool solve_galvatron(const struct partition_request *request, struct arena *arena, struct partition_answer *out,
                            struct error *err)
{
    struct galvatron_text texts[GALVATRON_FILES];
    struct galvatron_profile *profile = arena_alloc(arena, 1, sizeof *profile);
    struct answered *a = arena_alloc(arena, 1, sizeof *a);
    struct galvatron_problem problem;
    if (!profile || !a)
        return fail_memory(err);
    if (!galvatron_folder_read(texts, request->folders, request->folder_count, arena, err) ||
        !galvatron_read_profile(profile, texts, request->sequence, err) ||
        !make_problem(request, profile, &problem, err) || !galvatron_solve(&problem, arena, &a->answer, err) ||
        !describe(a, arena, err))
        return false;
    *out = (struct partition_answer){ .found = &a->found, .unit = "s per step", .plan = a, .graph = profile };
    if (!a->answer.feasible)
        return true;
    if (!galvatron_evaluate(&problem, &a->answer.plan, &a->price, err))
        return false;
    out->objective = a->price.memory_mb <= a->price.limit_mb * (1 + 1e-9) ? a->price.step_s : NAN;
    return true;
}

static int first_layer(const struct galvatron_plan *plan, int stage)
{
    int layer = 0;
    for (int s = 0; s < stage; s++)
        layer += plan->stage_layers[s];
    return layer;
}

static bool same(const struct galvatron_layer *a, const struct galvatron_layer *b)
{
    return a->tensor == b->tensor && a->zero3 == b->zero3 && a->checkpoint == b->checkpoint;
}

/* Equal layers behind each other: the index behind the last of them. */
static int run_end(const struct galvatron_plan *plan, int layer, int end)
{
    int next = layer + 1;
    while (next < end && same(&plan->layers[layer], &plan->layers[next]))
        next++;
    return next;
}

static void write_galvatron(struct json_writer *w, const struct partition_answer *answer, int stage)
{
    const struct answered *a = answer->plan;
    const struct galvatron_plan *plan = &a->answer.plan;
    int begin = first_layer(plan, stage), end = begin + plan->stage_layers[stage];
    json_put_int(w, "micro_batches", plan->chunks);
    json_put_int(w, "vocabulary_tensor", plan->vocabulary_tensor);
    json_put_bool(w, "vocabulary_sequence", plan->vocabulary_sequence);
    json_put_bool(w, "embedding_zero3", plan->embedding_zero3);
    json_write_key(w, "layers");
    json_begin_array(w);
    for (int l = begin, next; l < end; l = next) {
        next = run_end(plan, l, end);
        json_begin_object(w);
        json_put_int(w, "count", next - l);
        json_put_int(w, "tensor", plan->layers[l].tensor);
        json_put_int(w, "zero", plan->layers[l].zero3 ? 3 : 2);
        json_put_bool(w, "checkpoint", plan->layers[l].checkpoint);
        json_end_object(w);
    }
    json_end_array(w);
}

static void print_galvatron(struct text *out, const struct partition_answer *answer, int stage)
{
    const struct answered *a = answer->plan;
    const struct galvatron_plan *plan = &a->answer.plan;
    int begin = first_layer(plan, stage), end = begin + plan->stage_layers[stage];
    text_printf(out, "%d micro-batches, vocabulary over %d%s;", plan->chunks, plan->vocabulary_tensor,
                plan->vocabulary_sequence ? " by sequence" : "");
    for (int l = begin, next; l < end; l = next) {
        next = run_end(plan, l, end);
        text_printf(out, "%s %d layers: tensor %d, ZeRO-%d%s", l > begin ? "," : "", next - l, plan->layers[l].tensor,
                    plan->layers[l].zero3 ? 3 : 2, plan->layers[l].checkpoint ? ", checkpointed" : "");
    }
}

const struct partition_format partition_galvatron = {
    .name = "galvatron",
    .solve = solve_galvatron,
    .write_stage = write_galvatron,
    .print_stage = print_galvatron,
    .lack = "memory per device",
    .reads_folders = true,
};
