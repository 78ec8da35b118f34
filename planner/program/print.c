#include "planner/program/form.h"

/* A line function may change what it reads into, so each gets a copy. */
static void print_assignment(struct form *form, int index, struct assignment assignment)
{
    form_assignment(form, index, &assignment);
}

static void print_buffer(struct form *form, int index, struct buffer buffer)
{
    form_buffer(form, index, &buffer);
}

static void print_stage(struct form *form, int index, struct stage_program stage)
{
    form_stage(form, index, &stage);
}

static void print_instr(struct form *form, int index, struct instr instr, const struct program *program,
                        const int *waits)
{
    form_instr(form, index, &instr, program, waits, &(struct form_lists){ 0 });
}

void program_print(const struct program *program, struct text *out)
{
    struct form form = { .out = out };
    struct form_counts counts = { program->stage_count, program->buffer_count, program->graph->segment_count };
    form_header(&form, program->graph->model_hash, plan_hash(program->plan), &counts);
    for (int i = 0; i < counts.assignments; i++)
        print_assignment(&form, i, program->assignments[i]);
    for (int i = 0; i < program->buffer_count; i++)
        print_buffer(&form, i, program->buffers[i]);
    for (int s = 0; s < program->stage_count; s++) {
        const struct stage_program *stage = &program->stages[s];
        print_stage(&form, s, *stage);
        for (int i = 0; i < stage->instr_count; i++)
            print_instr(&form, i, stage->instrs[i], program, stage->waits);
    }
}
