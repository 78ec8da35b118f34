/* What readers of a comparison must know of its plans and of the machine. */
#include "cli/compare_job.h"
#include "cli/inputs.h"
#include "cli/print.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether the machine was too unsteady to compare times on it; then says so. */
static bool warn_of_drift(const struct report_speed *speed, bool steady, char *out, size_t size)
{
    static const double STEADY = 0.05;
    if (steady || speed->drift <= STEADY)
        return false;
    snprintf(
        out, size,
        "the machine's speed changed by %.0f %% meanwhile, so the times say little: run it again when nothing else "
        "runs, or with --steady 5",
        100 * speed->drift);
    return true;
}

/* Whether plans are of other models or other batches than the first, so that their steps are not of the same work; then
 * says so. */
static bool warn_of_jobs(const struct comparison *c, char *out, size_t size)
{
    const struct graph *first = c->entries[0].graph;
    for (int i = 1; i < c->count && first; i++) {
        const struct graph *own = c->entries[i].graph;
        if (!own)
            continue;
        int64_t tokens = own->batch * own->sequence, first_tokens = first->batch * first->sequence;
        double count = (double)graph_parameter_count(own), first_count = (double)graph_parameter_count(first);
        if (tokens == first_tokens && fabs(count / first_count - 1) < .01)
            continue;
        snprintf(out, size,
                 "these are not steps of the same work: %s has %.4g billion parameters and %lld tokens a step, %s %.4g "
                 "billion and %lld; compare tokens/s of one model",
                 c->entries[0].name, first_count / 1e9, (long long)first_tokens, c->entries[i].name, count / 1e9,
                 (long long)tokens);
        return true;
    }
    return false;
}

static const char *place_of(const struct inputs *in, bool devices)
{
    return devices ? in->cluster->name : in->facts.framework ? in->facts.framework->name : "cleave";
}

static bool is_first_of_place(const struct job *job, int index, bool devices)
{
    bool first = true;
    for (int i = 0; i < index; i++)
        first = first && strcmp(place_of(job->inputs[index], devices), place_of(job->inputs[i], devices)) != 0;
    return first;
}

/* Whether plans are for other devices than the first, or priced as another framework runs them (!devices), so that the
 * fastest need not be the one to choose: the first plan of each is named. */
static bool warn_of_places(const struct job *job, bool devices, char *out, size_t size)
{
    const struct comparison *c = &job->comparison;
    size_t length = 0;
    for (int i = 1; i < job->input_count && i < c->count; i++) {
        if (length >= size || !is_first_of_place(job, i, devices))
            continue;
        if (length == 0)
            length = (size_t)snprintf(out, size, "these are not steps of the same %s: %s is %s %.80s",
                                      devices ? "devices" : "framework", c->entries[0].name,
                                      devices ? "for" : "priced as by", place_of(job->inputs[0], devices));
        if (length < size)
            length += (size_t)snprintf(out + length, size - length, ", %s %s %.80s", c->entries[i].name,
                                       devices ? "for" : "as by", place_of(job->inputs[i], devices));
    }
    return length > 0;
}

void compare_note_all(struct compare_notes *notes, const struct job *job, const struct report_speed *speed)
{
    int count = 0;
    *notes = (struct compare_notes){ 0 };
    if (warn_of_jobs(&job->comparison, notes->text[count], COMPARE_NOTE_BYTES))
        notes->list[count] = notes->text[count], count++;
    for (int devices = 1; devices >= 0; devices--)
        if (warn_of_places(job, devices, notes->text[count], COMPARE_NOTE_BYTES))
            notes->list[count] = notes->text[count], count++;
    if (warn_of_drift(speed, job->a->steady_percent > 0, notes->text[count], COMPARE_NOTE_BYTES))
        notes->list[count] = notes->text[count], count++;
    if (print_speed_change(notes->text[count], COMPARE_NOTE_BYTES, speed->reference_ns, compare_reference_ns(job)))
        notes->list[count] = notes->text[count], count++;
    for (int i = 0; i < count; i++)
        fprintf(job->cli->talk, "note: %s\n", notes->list[i]);
}
