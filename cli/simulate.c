#include "base/num.h"
#include "cli/inputs.h"
#include "cli/print.h"
#include "cli/program_options.h"
#include "formats/program_text.h"
#include "planner/estimate/estimate.h"
#include <stdlib.h>

struct simulate_options {
    struct source_options source;
    const char *trace, *program;
    bool json;
};
static const struct option options[] = {
    TEXT_OPTION("trace", offsetof(struct simulate_options, trace), "FILE",
                "timeline as Chrome trace JSON, for ui.perfetto.dev"),
    TEXT_OPTION("program", offsetof(struct simulate_options, program), "FILE", "the lowered program as text"),
    FLAG_OPTION("json", offsetof(struct simulate_options, json), "one JSON object"),
    SOURCE_OPTIONS(struct simulate_options, source),
};

static void stage_devices(const struct cluster *cluster, const struct plan *plan, int stage, char out[PRINT_LINE_BYTES])
{
    print_devices_line(cluster, plan->stages[stage].first_rank, plan_stage_rank_count(plan, stage), out);
}

static void print_stage(const struct cli *cli, const struct cluster *cluster, const struct program *program,
                        const struct timeline *timeline, int r)
{
    int64_t ns[TIME_KIND_COUNT];
    char number[TEXT_NUMBER_BYTES], devices[PRINT_LINE_BYTES];
    const struct rank_timeline *rank = &timeline->ranks[r];
    bool several = cluster->type_count > 1;
    timeline_breakdown(program, timeline, r, ns);
    stage_devices(cluster, program->plan, rank->stage, devices);
    const struct stage_program *stage = &program->stages[rank->stage];
    fprintf(cli->out, "stage %d%s%s: %d instructions, peak %s", rank->stage, several ? " on " : "",
            several ? devices : "", stage->instr_count, text_bytes(number, rank->peak_bytes));
    if (stage->host_bytes > 0)
        fprintf(cli->out, " and %s of host memory", text_bytes(number, stage->host_bytes));
    fprintf(cli->out, ";");
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        if (ns[k] > 0)
            fprintf(cli->out, " %s %s", time_kind_names[k], text_duration_ns(number, ns[k]));
    fprintf(cli->out, "\n");
}

/* Of what one of the stage's devices has beside its arena, as measured: the most. */
static int64_t outside_bytes(const struct facts *facts, const struct plan *plan, int stage)
{
    int64_t most = 0;
    for (int r = 0; r < plan_stage_rank_count(plan, stage); r++)
        most = max_i64(
            most, facts_outside_arena_bytes(facts, cluster_type(facts->cluster, plan->stages[stage].first_rank + r)));
    return most;
}

/* promised_bytes: what the search takes a plan's stages to need when it judges it. */
static void write_json(const struct cli *cli, const struct facts *facts, const struct program *program,
                       const struct timeline *timeline, const int64_t *promised_bytes, struct error *err)
{
    const struct cluster *cluster = facts->cluster;
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-simulation", 1);
    json_put_double(&w, "step_s", (double)timeline->step_ns / 1e9);
    json_write_key(&w, "stages");
    json_begin_array(&w);
    for (int r = 0; r < timeline->rank_count; r++) {
        int64_t ns[TIME_KIND_COUNT];
        char devices[PRINT_LINE_BYTES];
        timeline_breakdown(program, timeline, r, ns);
        stage_devices(cluster, program->plan, timeline->ranks[r].stage, devices);
        json_begin_object(&w);
        json_put_int(&w, "stage", timeline->ranks[r].stage);
        json_put_string(&w, "devices", devices);
        json_put_int(&w, "peak_bytes", timeline->ranks[r].peak_bytes);
        json_put_int(&w, "host_bytes", program->stages[timeline->ranks[r].stage].host_bytes);
        json_put_int(&w, "promised_bytes", promised_bytes[timeline->ranks[r].stage]);
        json_put_int(&w, "outside_arena_bytes", outside_bytes(facts, program->plan, timeline->ranks[r].stage));
        json_write_key(&w, "breakdown_s");
        json_begin_object(&w);
        for (int k = 0; k < TIME_KIND_COUNT; k++) {
            json_put_double(&w, time_kind_names[k], (double)ns[k] / 1e9);
        }
        json_end_object(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    inputs_hand_out_json(cli, NULL, &w, err);
}

static bool write_program(const struct cli *cli, const char *path, const struct program *program, struct error *err)
{
    struct text text = { 0 };
    program_print(program, &text);
    return inputs_hand_out_text(cli, path, &text, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct simulate_options *o = given;
    struct inputs in = { .cli = cli };
    struct program *program = NULL;
    struct timeline *timeline = NULL;
    (void)operand_count;
    if (!inputs_can_write(o->program, err) || !inputs_can_write(o->trace, err) ||
        !inputs_plan(&in, operands[0], o->source.model, o->source.cluster, &o->source.profiles, err) ||
        !inputs_program(&program, in.plan_file->plan, in.graph, err) || !simulate(&timeline, &in.facts, program, err) ||
        !timeline_is_counted(timeline->step_ns, err))
        goto cleanup;
    if ((o->program && !write_program(cli, o->program, program, err)) ||
        (o->trace && !inputs_write_trace(cli, o->trace, program, timeline, err)))
        goto cleanup;
    if (o->json) {
        int64_t *promised = arena_alloc(&in.arena, (size_t)program->stage_count, sizeof *promised);
        if (!promised)
            fail_kind(err, ERROR_ENVIRONMENT, "simulate: out of memory");
        else if (estimate_plan_bytes(promised, in.model, in.plan_file->plan, err))
            write_json(cli, &in.facts, program, timeline, promised, err);
        goto cleanup;
    }
    char number[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "step: %s%s\n", text_duration_ns(number, timeline->step_ns),
            in.profile ? "" : " (analytic numbers: no profile)");
    for (int r = 0; r < timeline->rank_count; r++)
        print_stage(cli, in.cluster, program, timeline, r);
cleanup:
    timeline_free(timeline);
    program_free(program);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_simulate = {
    .name = "simulate",
    .summary = "runs a plan on a virtual clock",
    .usage = "PLAN [--trace FILE] [--json]",
    .examples = "  cleave simulate plan.json --trace trace.json   then open trace.json in ui.perfetto.dev\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct simulate_options),
    .run = run,
};
