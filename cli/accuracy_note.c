#include "cli/accuracy_note.h"
#include "cli/accuracy.h"
#include <string.h>

/* Of cleave itself no run is published: what is known is what was measured of its kernels and transfers. */
static void tell_own(struct text *out, const struct prediction *p, const struct inputs *in)
{
    if (p->measured && !p->analytic)
        text_printf(out, "all durations were measured on %s, for cleave run",
                    *in->profile->machine ? in->profile->machine : "the profile's machine");
    else if (p->measured)
        text_add(out, "durations were measured in part; what the profile lacks is the catalogue's, of which no run "
                      "of cleave's own was held against this price");
    else
        text_add(out, "by the catalogue alone, and no run of cleave's own was held against this price; cleave "
                      "profile measures, --framework NAME says what else runs it");
}

/* Whether the model has a mixture of experts, as layers of their own or within whole blocks. */
static bool has_experts(const struct graph *graph)
{
    for (int i = 0; i < graph->segment_count; i++)
        if (graph->segments[i].kernel == KERNEL_DISPATCH)
            return true;
    return false;
}

static bool read_catalogue(struct accuracy *out, struct inputs *in, struct error *err)
{
    const char *text, *path;
    size_t length;
    struct text name = { 0 };
    text_printf(&name, "%s/planner/facts/accuracy.json", in->cli->data_dir);
    path = name.failed ? NULL : arena_strdup(&in->arena, name.data);
    text_free(&name);
    return path ? inputs_text(in, path, &text, &length, err) && accuracy_read(out, &in->arena, path, text, length, err)
                : fail_memory(err);
}

bool accuracy_note(struct prediction *p, struct inputs *in, enum dtype dtype, struct error *err)
{
    struct accuracy accuracy;
    const struct cluster *cluster = in->cluster;
    const struct framework *framework = in->facts.framework;
    struct accuracy_question question = { .framework = framework ? framework->name : "cleave",
                                          .device = cluster->type_count == 1 ? cluster->types[0].device.name : "",
                                          .dtype = dtype_names[dtype],
                                          .experts = has_experts(in->graph),
                                          .devices = cluster->device_count };
    const struct accuracy_entry *entry = NULL;
    struct text out = { 0 };
    if (framework && !read_catalogue(&accuracy, in, err))
        return false;
    for (int i = 0; i < in->calibration_count; i++) {
        const struct calibration *c = &in->calibrations[i];
        text_printf(&out, "corrected by %s: steps that were off by %.1f %% in the median are by %.1f %%; without: ",
                    *c->source ? c->source : "a calibration", 100 * c->error_before, 100 * c->error_after);
    }
    if (framework)
        accuracy_tell(&out, &entry, &accuracy, &question);
    else
        tell_own(&out, p, in);
    p->accuracy.words = out.failed ? NULL : arena_strdup(&in->arena, out.data);
    text_free(&out);
    if (entry) {
        p->accuracy.runs = entry->rows;
        p->accuracy.median = entry->median;
        p->accuracy.low = entry->low;
        p->accuracy.high = entry->high;
    }
    return p->accuracy.words || fail_memory(err);
}
