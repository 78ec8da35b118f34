#include "cli/calibrated.h"
#include "base/text.h"
#include "cli/inputs.h"
#include <math.h>

#define UNEXPLAINED .05 /* of a step: twice what corrections of published runs leave in the median */

static void print_speeds(FILE *out, const struct calibrated *found, const struct correction *own, int holder)
{
    fprintf(out, "%s%s%s (%lld %s)\n", *own->device ? own->device : own->framework,
            *own->device && *own->framework ? " under " : "", *own->device ? own->framework : "", (long long)own->rows,
            own->rows == 1 ? "run" : "runs");
    for (int k = 0; k < MECHANISM_COUNT; k++) {
        int at = holder * MECHANISM_COUNT + k;
        if (fabs(own->speed[k] - 1) < .005)
            continue;
        fprintf(out, "  %-14s %6.2f", mechanism_names[k], own->speed[k]);
        if (found->least)
            fprintf(out, "  %.2f to %.2f", found->least[at], found->most[at]);
        fprintf(out, "\n");
    }
    if (own->memory_bytes > 0)
        fprintf(out, "  memory beside what is predicted: %s\n",
                text_bytes((char[TEXT_NUMBER_BYTES]){ 0 }, own->memory_bytes));
}

/* How many speeds stand at their limits: there is nothing further for them to explain. */
static int limited_speeds(const struct calibration *c)
{
    int count = 0;
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < MECHANISM_COUNT; k++)
            count += c->corrections[i].speed[k] < 1.01 * LEAST_SPEED || c->corrections[i].speed[k] > .99 * MOST_SPEED;
    return count;
}

void calibrated_note(FILE *out, const struct calibrated *found)
{
    char measured[TEXT_NUMBER_BYTES], corrected[TEXT_NUMBER_BYTES];
    int limited = limited_speeds(&found->calibration);
    if (found->after.median < UNEXPLAINED && limited == 0)
        return;
    fprintf(out, "note: %s: a step of %s was measured, %s is predicted with the corrections", found->worst.name,
            text_duration_ns(measured, llround(found->worst.measured_s * 1e9)),
            text_duration_ns(corrected, llround(found->worst.corrected_s * 1e9)));
    if (limited > 0)
        fprintf(out, ", %d of them at the limit (%g to %d)", limited, LEAST_SPEED, MOST_SPEED);
    fprintf(out,
            "; what speeds do not explain may be another model, batch, cluster or dtype than the run's, or what no "
            "device does: data that is waited for, checkpoints, evaluations, other jobs\n");
}

void calibrated_print(FILE *out, const struct calibrated *found)
{
    fprintf(out, "speeds as shares of what is predicted without; those within 0.5 %% of 1 are left out%s%s\n",
            found->least ? "; and their range, by what is held out of " : "",
            found->least ? found->held_by->item[0] : "");
    for (int i = 0; i < found->calibration.count; i++)
        print_speeds(out, found, &found->calibration.corrections[i], i);
    fprintf(out, "%-40s %6s %8s %8s\n", "step time, error in %", "rows", "MAPE", "median");
    fprintf(out, "%-40s %6d %8.1f %8.1f\n", "as predicted without", found->run_count, 100 * found->before.mean,
            100 * found->before.median);
    fprintf(out, "%-40s %6d %8.1f %8.1f\n", "with the corrections", found->run_count, 100 * found->after.mean,
            100 * found->after.median);
    if (found->calibration.run_count > 1)
        fprintf(out, "%-40s %6d %8.1f %8.1f\n", "and each by what all others left", found->calibration.run_count,
                100 * found->like.mean, 100 * found->like.median);
    for (int i = 0; i < found->held_by->count; i++)
        fprintf(out, "%-40s %6d %8.1f %8.1f  (%d groups by %s)\n", "fitted to other groups", found->run_count,
                100 * found->held_out[i].mean, 100 * found->held_out[i].median, found->group_count[i],
                found->held_by->item[i]);
}

static void put_errors(struct json_writer *w, const struct fit_errors *e)
{
    json_put_double(w, "mape", e->mean);
    json_put_double(w, "median_error", e->median);
    json_end_object(w);
}

bool calibrated_write_json(const struct cli *cli, const struct calibrated *found, struct error *err)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-calibrated", 1);
    json_put_string(&w, "source", found->calibration.source);
    json_put_int(&w, "rows", found->run_count);
    json_write_key(&w, "before");
    json_begin_object(&w);
    put_errors(&w, &found->before);
    json_write_key(&w, "after");
    json_begin_object(&w);
    put_errors(&w, &found->after);
    json_write_key(&w, "like_runs");
    json_begin_object(&w);
    json_put_int(&w, "runs", found->calibration.run_count);
    put_errors(&w, &found->like);
    json_write_key(&w, "held_out");
    json_begin_array(&w);
    for (int i = 0; i < found->held_by->count; i++) {
        json_begin_object(&w);
        json_put_string(&w, "by", found->held_by->item[i]);
        json_put_int(&w, "groups", found->group_count[i]);
        put_errors(&w, &found->held_out[i]);
    }
    json_end_array(&w);
    json_write_key(&w, "corrections");
    json_begin_array(&w);
    for (int i = 0; i < found->calibration.count; i++) {
        const struct correction *own = &found->calibration.corrections[i];
        json_begin_object(&w);
        json_put_string(&w, "device", *own->device ? own->device : NULL);
        json_put_string(&w, "framework", *own->framework ? own->framework : NULL);
        json_put_int(&w, "rows", own->rows);
        json_put_int(&w, "memory_bytes", own->memory_bytes);
        for (int k = 0; k < MECHANISM_COUNT; k++) {
            int at = i * MECHANISM_COUNT + k;
            json_write_key(&w, mechanism_names[k]);
            json_begin_array(&w);
            json_write_double(&w, own->speed[k]);
            if (found->least) {
                json_write_double(&w, found->least[at]);
                json_write_double(&w, found->most[at]);
            }
            json_end_array(&w);
        }
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    return inputs_hand_out_json(cli, NULL, &w, err);
}
