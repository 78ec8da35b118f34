#include "cli/pareto.h"
#include "cli/explanation.h"
#include "cli/print.h"
#include <string.h>

void pareto_put(struct json_writer *w, const struct frontier *f)
{
    json_write_key(w, "frontier");
    json_begin_array(w);
    for (int i = 0; i < f->count; i++) {
        const struct point *at = &f->points[i];
        json_begin_object(w);
        json_put_double(w, "step_s", (double)at->step_ns / 1e9);
        json_put_int(w, "peak_bytes", at->peak_bytes);
        json_put_int(w, "devices", at->devices);
        json_put_string(w, "cluster", at->cluster);
        json_write_key(w, "plan");
        write_choice(w, at->solution.explained->plan, at->solution.explained->graph);
        json_end_object(w);
    }
    json_end_array(w);
}

/* The shortest point of fewer devices than the whole cluster's best, which is the first known of it; NULL: none is
 * shorter. */
static const struct point *fewer_devices(const struct frontier *f, int devices, int64_t step_ns)
{
    const struct point *first = &f->points[0];
    return f->count > 0 && first->devices < devices && first->step_ns < step_ns ? first : NULL;
}

/* on: what they are of is said, too. */
static void print_points(const struct cli *cli, const struct frontier *f, bool on, bool complete)
{
    char line[PRINT_LINE_BYTES], number[TEXT_NUMBER_BYTES], peak[TEXT_NUMBER_BYTES];
    size_t width = 0;
    for (int i = 0; i < f->count && on; i++)
        width = strlen(f->points[i].cluster) > width ? strlen(f->points[i].cluster) : width;
    fprintf(cli->out, "%8s %9s %8s  %-*s%snone of these is beaten in both%s\n", "step", "memory", "devices", (int)width,
            on ? "cluster" : "", on ? "  " : "", complete ? "" : " (ended early)");
    for (int i = 0; i < f->count; i++) {
        const struct point *at = &f->points[i];
        print_plan_line(at->solution.explained->plan, at->solution.explained->graph, line);
        fprintf(cli->out, "%8s %9s %8d  %-*s%s%s\n", text_duration_ns(number, at->step_ns),
                text_bytes(peak, at->peak_bytes), at->devices, (int)width, on ? at->cluster : "", on ? "  " : "", line);
    }
}

void pareto_print(const struct cli *cli, const struct frontier *f, const struct cluster *whole, int64_t step_ns,
                  bool complete)
{
    const struct point *fewer = whole ? fewer_devices(f, whole->device_count, step_ns) : NULL;
    print_points(cli, f, whole != NULL, complete);
    if (fewer)
        print_fewer(cli->out, fewer->step_ns, step_ns, whole->device_count, fewer->cluster);
}
