#include "base/num.h"
#include "cli/validation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

/* errors: (count), which are left in another order and without signs. */
static struct error_summary summarise(double *errors, int count)
{
    struct error_summary s = { .rows = count };
    if (count == 0)
        return s;
    s.signed_median = median_of(errors, count);
    for (int i = 0; i < count; i++) {
        errors[i] = fabs(errors[i]);
        s.mean += errors[i] / count;
        s.most = fmax(s.most, errors[i]);
    }
    s.median = median_of(errors, count);
    return s;
}

/* room: (count). */
static void fill_group(struct validation_group *group, const struct validated_row *rows, int count, double *room)
{
    int steps = 0, memories = 0;
    for (int i = 0; i < count; i++)
        if (validated_step(&rows[i]) && (!group->name || !strcmp(rows[i].group, group->name)))
            room[steps++] = validated_step_error(&rows[i]);
    group->step = summarise(room, steps);
    for (int i = 0; i < count; i++)
        if (validated_memory(&rows[i]) && (!group->name || !strcmp(rows[i].group, group->name)))
            room[memories++] = validated_memory_error(&rows[i]);
    group->memory = summarise(room, memories);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void fill_groups(struct validation *v, const struct validated_row *rows, int count, const char **names,
                        double *room)
{
    for (int i = 0; i < count; i++)
        names[i] = rows[i].group;
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int i = 0; i < count; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]))
            v->groups[v->group_count++].name = names[i];
    for (int i = 0; i < v->group_count; i++)
        fill_group(&v->groups[i], rows, count, room);
    fill_group(&v->all, rows, count, room);
}

/* ---- which configuration is the best ---- */

/* What two rows have alike that differ in configuration alone. */
static int compare_jobs(const struct measured_run *a, const struct measured_run *b)
{
    const char *texts[][2] = {
        { a->source_key, b->source_key }, { a->model, b->model }, { a->gpu, b->gpu }, { a->dtype, b->dtype }
    };
    const int64_t counts[][2] = { { a->n_gpus, b->n_gpus },
                                  { a->seq_len, b->seq_len },
                                  { a->global_batch, b->global_batch } };
    int order = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts && order == 0; i++)
        order = strcmp(texts[i][0], texts[i][1]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && order == 0; i++)
        order = (counts[i][0] > counts[i][1]) - (counts[i][0] < counts[i][1]);
    return order;
}

static int by_job(const void *a, const void *b)
{
    return compare_jobs(&(*(const struct validated_row *const *)a)->run,
                        &(*(const struct validated_row *const *)b)->run);
}

/* How much longer than the best of these rows the one took that is predicted to be it. */
static double regret_of(const struct validated_row *const *rows, int count)
{
    double best_s = rows[0]->measured_s, chosen_s = 0;
    int64_t least_ns = rows[0]->predicted_ns;
    int chosen = 0;
    for (int i = 0; i < count; i++) {
        best_s = fmin(best_s, rows[i]->measured_s);
        least_ns = min_i64(least_ns, rows[i]->predicted_ns);
    }
    for (int i = 0; i < count; i++)
        if (rows[i]->predicted_ns == least_ns) {
            chosen_s += rows[i]->measured_s;
            chosen++;
        }
    return chosen_s / chosen / best_s - 1;
}

static void rank(struct validation *v, const struct validated_row *rows, int count, const struct validated_row **sorted)
{
    int left = 0, end;
    for (int i = 0; i < count; i++)
        if (validated_step(&rows[i]))
            sorted[left++] = &rows[i];
    if (left > 0)
        qsort(sorted, (size_t)left, sizeof(void *), by_job);
    for (int i = 0; i < left; i = end) {
        for (end = i + 1; end < left && by_job(&sorted[i], &sorted[end]) == 0;)
            end++;
        if (end - i < VALIDATION_LEAST_RANKED)
            continue;
        double regret = regret_of(&sorted[i], end - i);
        v->rank_groups++;
        v->rank_agreed += 100 * regret <= VALIDATION_AGREED_PERCENT;
        v->rank_regret += regret;
    }
    if (v->rank_groups > 0)
        v->rank_regret /= v->rank_groups;
}

/* ---- skips ---- */

static int by_skip(const void *a, const void *b)
{
    const struct validation_skip *x = a, *y = b;
    int order = strcmp(x->group, y->group);
    return order ? order : strcmp(x->reason, y->reason);
}

static void count_skips(struct validation *v, const struct validated_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (rows[i].skipped)
            v->skips[v->skipped_rows++] = (struct validation_skip){ rows[i].group, rows[i].skipped, 1 };
    if (v->skipped_rows > 0)
        qsort(v->skips, (size_t)v->skipped_rows, sizeof *v->skips, by_skip);
    for (int i = 0; i < v->skipped_rows; i++)
        if (v->skip_count > 0 && by_skip(&v->skips[v->skip_count - 1], &v->skips[i]) == 0)
            v->skips[v->skip_count - 1].count++;
        else
            v->skips[v->skip_count++] = v->skips[i];
}

bool validation_of(struct validation *out, const struct validated_row *rows, int count, struct error *err)
{
    size_t room = (size_t)count;
    *out = (struct validation){ 0 };
    double *errors = arena_alloc(&out->arena, room, sizeof *errors);
    const char **names = arena_alloc(&out->arena, room, sizeof *names);
    const struct validated_row **sorted = arena_alloc(&out->arena, room, sizeof *sorted);
    out->groups = arena_alloc(&out->arena, room, sizeof *out->groups);
    out->skips = arena_alloc(&out->arena, room, sizeof *out->skips);
    if (arena_failed(&out->arena))
        return fail_memory(err);
    fill_groups(out, rows, count, names, errors);
    rank(out, rows, count, sorted);
    count_skips(out, rows, count);
    for (int i = 0; i < count; i++)
        if (!rows[i].skipped) {
            out->oom_count += rows[i].out_of_memory;
            out->oom_seen += rows[i].out_of_memory && !rows[i].fits;
            out->ran_count += !rows[i].out_of_memory;
            out->ran_refused += !rows[i].out_of_memory && !rows[i].fits;
        }
    return true;
}

void validation_free(struct validation *v)
{
    arena_free(&v->arena);
}
