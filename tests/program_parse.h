/* Reads the text of a program back, for tests of what program_print() wrote. */
#ifndef CLEAVE_TESTS_PROGRAM_PARSE_H
#define CLEAVE_TESTS_PROGRAM_PARSE_H
#include "tests/program_form.h"

struct parse {
    struct form form;
    struct program *program;
    struct form_lists lists;
};

static bool short_of_memory(struct parse *p)
{
    p->form.failed = true;
    return fail_kind(p->form.err, ERROR_ENVIRONMENT, "%s: out of memory", p->form.name);
}

static int *copy_list(struct arena *arena, const struct form_list *list)
{
    int *copy = arena_alloc(arena, (size_t)list->count, sizeof *copy);
    if (copy && list->count)
        memcpy(copy, list->data, (size_t)list->count * sizeof *copy);
    return copy;
}

static bool parse_tables(struct parse *p, const struct form_counts *counts)
{
    struct program *program = p->program;
    program->stage_count = counts->stages;
    program->buffer_count = counts->buffers;
    program->stages = arena_alloc(&program->arena, (size_t)counts->stages, sizeof *program->stages);
    program->buffers = calloc((size_t)counts->buffers + 1, sizeof *program->buffers);
    program->assignments = arena_alloc(&program->arena, (size_t)counts->assignments, sizeof *program->assignments);
    if (!program->stages || !program->buffers || !program->assignments)
        return short_of_memory(p);
    for (int i = 0; i < counts->assignments && !p->form.failed; i++)
        form_assignment(&p->form, i, &program->assignments[i]);
    for (int i = 0; i < counts->buffers && !p->form.failed; i++) {
        int line = p->form.line, stage;
        form_buffer(&p->form, i, &program->buffers[i]);
        stage = program->buffers[i].stage;
        if (!p->form.failed && (stage < 0 || stage >= counts->stages)) {
            p->form.failed = true;
            fail_kind(p->form.err, ERROR_INPUT, "%s:%d:1: expected a stage below %d, found %d", p->form.name, line,
                      counts->stages, stage);
        }
    }
    return !p->form.failed;
}

static bool parse_stage(struct parse *p, int index)
{
    struct stage_program *stage = &p->program->stages[index];
    form_stage(&p->form, index, stage);
    if (p->form.failed)
        return false;
    p->lists.waits.count = 0;
    stage->instrs = arena_alloc(&p->program->arena, (size_t)stage->instr_count, sizeof *stage->instrs);
    if (!stage->instrs)
        return short_of_memory(p);
    for (int i = 0; i < stage->instr_count && !p->form.failed; i++) {
        form_instr(&p->form, i, &stage->instrs[i], &p->lists);
    }
    stage->wait_count = p->lists.waits.count;
    stage->waits = copy_list(&p->program->arena, &p->lists.waits);
    return stage->waits ? !p->form.failed : short_of_memory(p);
}

/* The flat list of sources and destinations is the array of pairs; that of operands becomes the program's. */
static bool close_lists(struct parse *p)
{
    struct program *program = p->program;
    program->operand_count = p->lists.operands.count;
    program->operands = p->lists.operands.data;
    p->lists.operands.data = NULL;
    program->pair_count = p->lists.pairs.count / 2;
    program->pairs = calloc((size_t)program->pair_count + 1, sizeof *program->pairs);
    if (!program->pairs)
        return short_of_memory(p);
    for (int i = 0; i < program->pair_count; i++)
        program->pairs[i] = (struct pair){ p->lists.pairs.data[2 * i], p->lists.pairs.data[2 * i + 1] };
    return true;
}

static bool check_counts(const struct parse *p, const struct form_counts *counts)
{
    const struct program *program = p->program;
    if (p->form.failed)
        return false;
    if (counts->stages != program->plan->stage_count || counts->assignments != program->graph->segment_count)
        return fail_kind(
            p->form.err, ERROR_INPUT,
            "%s:1:1: expected %d stages and %d assignments, as the plan and the model have, found %d and %d",
            p->form.name, program->plan->stage_count, program->graph->segment_count, counts->stages,
            counts->assignments);
    return true;
}

/* Exactly what program_print() writes, of the same graph and plan, which are borrowed; anything else is refused with
 * its place. */
static inline bool program_parse(struct program **out, const struct graph *graph, const struct plan *plan,
                                 const char *name, const char *text, size_t length, struct error *err)
{
    struct parse p = {
        .form = { .name = name, .at = text, .end = text + length, .line_start = text, .line = 1, .err = err }
    };
    struct form_counts counts = { 0 };
    p.program = calloc(1, sizeof *p.program);
    if (!p.program)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    p.program->graph = graph;
    p.program->plan = plan;
    form_header(&p.form, graph->model_hash, plan_hash(plan), &counts);
    bool ok = check_counts(&p, &counts) && parse_tables(&p, &counts);
    for (int s = 0; ok && s < counts.stages; s++)
        ok = parse_stage(&p, s);
    if (ok && !p.form.failed && p.form.at != p.form.end) {
        p.form.failed = true;
        fail_kind(err, ERROR_INPUT, "%s:%d:1: expected the end of the text", name, p.form.line);
    }
    ok = ok && !p.form.failed && close_lists(&p) && program_index(p.program, err);
    free(p.lists.operands.data);
    free(p.lists.pairs.data);
    free(p.lists.waits.data);
    if (!ok) {
        program_free(p.program);
        return false;
    }
    *out = p.program;
    return true;
}
#endif
