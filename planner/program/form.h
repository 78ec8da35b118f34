/* The text form of a program, line by line. Each line is described once, by a function that both writes and reads it.
 */
#ifndef CLEAVE_PROGRAM_FORM_H
#define CLEAVE_PROGRAM_FORM_H
#include "base/text.h"
#include "planner/program/program.h"

/* Growing list of the pairs or waits that are read. */
struct form_list {
    int *data;
    int count, capacity;
};

struct form {
    struct text *out;                         /* writing; NULL: reading */
    const char *name, *at, *end, *line_start; /* reading */
    int line;
    bool line_begun, failed;
    struct error *err;
};
/* The first line. Counts are those of the program; reading checks them against the length of the text. */
struct form_counts {
    int stages, buffers, assignments;
};
void form_header(struct form *form, uint64_t model_hash, uint64_t plan_hash, struct form_counts *counts);
void form_assignment(struct form *form, int index, struct assignment *assignment);
void form_buffer(struct form *form, int index, struct buffer *buffer);
void form_stage(struct form *form, int index, struct stage_program *stage);
struct form_lists {
    struct form_list operands, pairs, waits; /* pairs: source, destination */
};
/* Writing: the program's operands and pairs, the stage's waits. Reading: they are appended to the lists, and the
 * instruction's ranges point at them. */
void form_instr(struct form *form, int index, struct instr *instr, const struct program *program, const int *waits,
                struct form_lists *read);
#endif
