#include "cli/inputs.h"
#include "cli/partition_formats.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

struct partition_options {
    const char *format, *machines, *bandwidth, *time_unit, *memory;
    double time_limit_s;
    int64_t devices, cpus, micro_batches, ideals, work, layers, hidden, batch, sequence;
    bool exact_transfers, json;
};
static const struct option options[] = {
    TEXT_OPTION("format", offsetof(struct partition_options, format), "NAME",
                "pipedream, piper, dnn-partitioning or galvatron"),
    TEXT_OPTION("machines", offsetof(struct partition_options, machines), "N[,M]",
                "pipedream: machines, or machines per server and servers"),
    TEXT_OPTION("bandwidth", offsetof(struct partition_options, bandwidth), "B[,B2]",
                "bytes per second of each level; piper: one number instead of the file's"),
    TEXT_OPTION("memory", offsetof(struct partition_options, memory), "BYTES",
                "per device, such as 8GiB, instead of the file's"),
    INT_OPTION("devices", offsetof(struct partition_options, devices), "K", 0, 16384,
               "piper, galvatron: devices; dnn-partitioning: accelerators"),
    INT_OPTION("cpus", offsetof(struct partition_options, cpus), "K", 0, 1024, "dnn-partitioning: CPUs"),
    INT_OPTION("micro-batches", offsetof(struct partition_options, micro_batches), "N", 1, 1e9,
               "piper: micro-batches per batch"),
    INT_OPTION("layers", offsetof(struct partition_options, layers), "N", 1, 1024, "galvatron: layers of the model"),
    INT_OPTION("hidden", offsetof(struct partition_options, hidden), "WIDTH", 1, 1e6, "galvatron: width of the model"),
    INT_OPTION("batch", offsetof(struct partition_options, batch), "SEQUENCES", 1, 1e6,
               "galvatron: sequences per step"),
    INT_OPTION("seq", offsetof(struct partition_options, sequence), "TOKENS", 1, 1e9,
               "galvatron: which of the profile's sequence lengths, if it has several"),
    TEXT_OPTION("time-unit", offsetof(struct partition_options, time_unit), "s|ms",
                "piper: unit of timePerSample; s is what the peer computes, whatever the file's profile was in"),
    FLAG_OPTION("exact-transfers", offsetof(struct partition_options, exact_transfers),
                "pipedream: what crosses a cut counts once; the peer looks at each last node alone"),
    INT_OPTION("ideals", offsetof(struct partition_options, ideals), "N", 1, 100e6,
               "most order ideals for an exact answer (1000000); beyond it bound and gap"),
    INT_OPTION("work", offsetof(struct partition_options, work), "N", 1, 1e15,
               "most stages to look at (no limit); beyond it bound and gap. Unlike seconds the same on every machine"),
    DOUBLE_OPTION("time-limit", offsetof(struct partition_options, time_limit_s), "S", 0, 1e9,
                  "seconds of CPU time (60); then the best so far with bound and gap"),
    FLAG_OPTION("json", offsetof(struct partition_options, json), "one JSON object"),
};
static const struct partition_options defaults = { .devices = -1, .cpus = -1, .micro_batches = -1, .time_limit_s = 60 };

static double cpu_s(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) ? 0 : (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool is_late(void *self)
{
    return cpu_s() > *(const double *)self;
}

static const struct partition_format *find_format(const char *name, struct error *err)
{
    int index;
    if (!name) {
        fail(err, "cleave partition: --format is needed: pipedream, piper, dnn-partitioning or galvatron");
        return NULL;
    }
    return inputs_word("cleave partition: --format", name, partition_format_names, &index, err)
               ? partition_formats[index]
               : NULL;
}

static bool make_request(struct inputs *in, const struct partition_options *o, const struct partition_format *format,
                         const char *const *operands, int operand_count, double *until_s, struct partition_request *out,
                         struct error *err)
{
    static const char *const units[] = { "s", "ms", NULL };
    int unit = 0;
    *out = (struct partition_request){ .name = operands[0],
                                       .folders = operands,
                                       .folder_count = operand_count,
                                       .layers = o->layers,
                                       .hidden = o->hidden,
                                       .batch = o->batch,
                                       .sequence = o->sequence,
                                       .machines = o->machines,
                                       .bandwidth = o->bandwidth,
                                       .devices = o->devices,
                                       .cpus = o->cpus,
                                       .micro_batches = o->micro_batches,
                                       .exact_transfers = o->exact_transfers,
                                       .limits = { .ideals = o->ideals, .work = o->work ? o->work : INT64_MAX } };
    if (o->time_unit && !inputs_word("cleave partition: --time-unit", o->time_unit, units, &unit, err))
        return false;
    out->milliseconds = unit == 1;
    if (o->devices == 0 && !format->may_lack_devices)
        return fail(err, "cleave partition: --devices: expected a number from 1 to 16384 for --format %s, found 0",
                    format->name);
    int64_t memory_bytes = 0;
    if (o->memory && (!text_read_bytes(o->memory, &memory_bytes) || memory_bytes < 1))
        return fail(err,
                    "cleave partition: --memory: expected bytes per device, such as 8589934592 or 8GiB, found \"%s\"",
                    o->memory);
    out->memory_bytes = (double)memory_bytes;
    *until_s = cpu_s() + o->time_limit_s;
    out->limits.stops = is_late;
    out->limits.self = until_s;
    if (operand_count > 1 && !format->reads_folders)
        return fail(err, "cleave partition: --format %s reads one file, found %d operands", format->name,
                    operand_count);
    return format->reads_folders || inputs_text(in, operands[0], &out->text, &out->length, err);
}

static double gap_of(const struct partition_answer *answer)
{
    double bound = answer->found->bound;
    return answer->found->optimal ? 0 : bound > 0 ? (answer->objective - bound) / bound : INFINITY;
}

static const char *reason_of(const struct partition_answer *answer, const struct partition_format *format)
{
    return !answer->found->exhausted ? "no placement was found before a limit; that none exists is not proven"
           : format->lack[0] == 'm' && format->lack[1] == 'e' ? "no split fits the memory of a device"
                                                              : "no split uses all machines";
}

static void write_json(const struct cli *cli, const struct partition_format *format,
                       const struct partition_answer *answer, double seconds, struct error *err)
{
    const struct stage_plan *found = answer->found;
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-partition", 1);
    json_put_string(&w, "problem", format->name);
    json_put_double(&w, "objective", found->feasible ? answer->objective : INFINITY);
    json_put_bool(&w, "optimal", found->optimal);
    json_put_double(&w, "bound", found->bound);
    json_put_double(&w, "gap", found->feasible ? gap_of(answer) : INFINITY);
    json_put_double(&w, "cpu_s", seconds);
    json_put_int(&w, "ideals", found->ideals);
    json_put_int(&w, "work", found->work);
    if (!found->feasible) {
        json_write_key(&w, "infeasible");
        json_begin_object(&w);
        json_put_string(&w, "constraint", format->lack);
        json_put_string(&w, "reason", reason_of(answer, format));
        json_put_bool(&w, "proven", found->exhausted);
        json_end_object(&w);
    }
    json_write_key(&w, "stages");
    json_begin_array(&w);
    for (int s = 0; s < found->stage_count; s++) {
        json_begin_object(&w);
        format->write_stage(&w, answer, s);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    inputs_hand_out_json(cli, NULL, &w, err);
}

static void print_answer(const struct cli *cli, const struct partition_format *format,
                         const struct partition_answer *answer, double seconds)
{
    const struct stage_plan *found = answer->found;
    fprintf(cli->out, "%s: %.12g %s in %d stages, %s\n", format->name, answer->objective, answer->unit,
            found->stage_count, found->optimal ? "proven optimal" : "not proven optimal");
    if (!found->optimal)
        fprintf(cli->out, "  bound %.12g, gap %.3g %%\n", found->bound, 100 * gap_of(answer));
    for (int s = 0; s < found->stage_count; s++) {
        struct text line = { 0 };
        format->print_stage(&line, answer, s);
        fprintf(cli->out, "  stage %d: %s\n", s, line.failed ? "" : line.data);
        text_free(&line);
    }
    fprintf(cli->out, "  %lld ideals, %lld stages looked at, %.3f s of CPU\n", (long long)found->ideals,
            (long long)found->work, seconds);
}

/* Every plan is computed anew from its nodes; the search may not have believed in something else, but for what its sums
 * lose. Where that is more than nothing the answer is what the nodes say, with a bound that holds. */
static bool check_answer(struct partition_answer *answer, const char *name, struct error *err)
{
    static const double told_apart = 1e-9;
    struct stage_plan *found = answer->found;
    double rounding = (answer->sums.terms + 8) * DBL_EPSILON, lost = rounding * answer->sums.time;
    bool coarse = lost > told_apart * found->value;
    if (!found->feasible)
        return true;
    if (isinf(answer->objective) && rounding * answer->sums.bytes > told_apart * answer->room_bytes)
        return fail(
            err,
            "%s: the bytes of nodes add up to %.3g, of which numbers of 64 bits do not tell %.3g apart, too few "
            "for devices of %.3g",
            name, answer->sums.bytes, rounding * answer->sums.bytes, answer->room_bytes);
    if (!(fabs(answer->objective - found->value) <= told_apart * fabs(found->value) + lost))
        return fail_kind(err, ERROR_BUG, "partition: the search says %.17g, the plan's nodes say %.17g", found->value,
                         answer->objective);
    if (coarse) {
        found->bound = fmax(0, fmin(found->bound, answer->objective) - 2 * lost);
        found->optimal = answer->objective - found->bound <= told_apart * found->bound;
    }
    return true;
}

static void report(const struct cli *cli, const struct partition_options *o, const struct partition_format *format,
                   const struct partition_request *request, const struct partition_answer *answer, double seconds,
                   struct error *err)
{
    if (o->json)
        write_json(cli, format, answer, seconds, err);
    else if (answer->found->feasible)
        print_answer(cli, format, answer, seconds);
    if (answer->found->feasible)
        return;
    if (answer->found->exhausted)
        fail_kind(err, ERROR_INFEASIBLE, "%s: %s; try more: --memory, --devices", request->name,
                  reason_of(answer, format));
    else
        fail_kind(err, ERROR_INFEASIBLE, "%s: %s; try more: --work, --time-limit, --ideals", request->name,
                  reason_of(answer, format));
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct partition_options *o = given;
    const struct partition_format *format = find_format(o->format, err);
    struct inputs in = { .cli = cli };
    struct partition_request request;
    struct partition_answer answer;
    double start_s = cpu_s(), until_s = 0;
    if (format && make_request(&in, o, format, operands, operand_count, &until_s, &request, err) &&
        format->solve(&request, &in.arena, &answer, err) && check_answer(&answer, operands[0], err))
        report(cli, o, format, &request, &answer, cpu_s() - start_s, err);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_partition = {
    .name = "partition",
    .summary = "solves the problems of other planners, under their objectives",
    .usage = "FILE|FOLDER... --format NAME [--json]",
    .examples = "  cleave partition graph.txt --format pipedream --machines 4,4 --bandwidth 10e9,1.25e9\n"
                "  cleave partition bert.json --format piper --memory 8GiB --devices 32\n"
                "  cleave partition graph.json --format dnn-partitioning\n"
                "  cleave partition configs --format galvatron --devices 8 --memory 36GiB --layers 32 --hidden "
                "4096 --batch 16\n",
    .min_operands = 1,
    .max_operands = 4,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct partition_options),
    .defaults = &defaults,
    .run = run,
};
