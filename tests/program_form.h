/* The lines of a program's text, as they are read: a second description beside the one that writes them
 * (formats/program_text.c). Both have the words of ops.c. */
#ifndef CLEAVE_TESTS_PROGRAM_FORM_H
#define CLEAVE_TESTS_PROGRAM_FORM_H
#include "planner/program/program.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Growing list of the pairs or waits that are read. */
struct form_list {
    int *data;
    int count, capacity;
};
struct form_lists {
    struct form_list operands, pairs, waits; /* pairs: source, destination */
};
struct form {
    const char *name, *at, *end, *line_start;
    int line;
    bool line_begun, failed;
    struct error *err;
};
/* The first line. Counts are those of the program; they are checked against the length of the text. */
struct form_counts {
    int stages, buffers, assignments;
};

static const char *const op_words[OP_COUNT + 1] = {
#define OP(id, name, reads, writes, traffic) [OP_##id] = name,
#include "planner/program/ops.def"
#undef OP
};

/* ---- failures and words ---- */
static void refuse(struct form *f, const char *at, const char *expected)
{
    size_t length = 0;
    while (at + length < f->end && length < 40 && at[length] != ' ' && at[length] != '\n')
        length++;
    if (!f->failed)
        fail_kind(f->err, ERROR_INPUT, "%s:%d:%d: expected %s, found %s%.*s%s", f->name, f->line,
                  (int)(at - f->line_start) + 1, expected,
                  length        ? "'"
                  : at < f->end ? "the end of the line"
                                : "the end of the text",
                  (int)length, at, length ? "'" : "");
    f->failed = true;
}

static void separate(struct form *f)
{
    if (f->line_begun && !f->failed) {
        if (f->at < f->end && *f->at == ' ')
            f->at++;
        else
            refuse(f, f->at, "a space and more of the line");
    }
    f->line_begun = true;
}

/* Length of the word that comes. */
static size_t word_length(const struct form *f)
{
    const char *at = f->at;
    while (at < f->end && *at != ' ' && *at != '\n')
        at++;
    return (size_t)(at - f->at);
}

static bool comes(const struct form *f, const char *word)
{
    return word_length(f) == strlen(word) && memcmp(f->at, word, strlen(word)) == 0;
}

static void literal(struct form *f, const char *word)
{
    char expected[64] = "'";
    separate(f);
    if (!f->failed && comes(f, word)) {
        f->at += strlen(word);
    } else {
        strncat(expected, word, 50);
        strcat(expected, "'");
        refuse(f, f->at, expected);
    }
}

/* A word that is there or not. */
static bool optional(struct form *f, const char *word)
{
    size_t length = strlen(word);
    bool found = !f->failed && f->at < f->end && *f->at == ' ' && (size_t)(f->end - f->at) > length &&
                 !memcmp(f->at + 1, word, length) &&
                 (f->at + 1 + length == f->end || f->at[1 + length] == ' ' || f->at[1 + length] == '\n');
    if (found)
        literal(f, word);
    return found;
}

/* A whole number of any magnitude up to limit, in the form in which it is written: no plus, no leading zeros. */
static bool scan_number(struct form *f, int64_t limit, int64_t *out)
{
    const char *start = f->at, *at = start;
    bool negative = at < f->end && *at == '-';
    at += negative;
    const char *digits = at;
    int64_t value = 0;
    for (; at < f->end && *at >= '0' && *at <= '9'; at++) {
        if (value > (limit - (*at - '0')) / 10) {
            refuse(f, start, "a smaller number");
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    if (at == digits || (*digits == '0' && (at - digits > 1 || negative))) {
        refuse(f, start, "a whole number");
        return false;
    }
    f->at = at;
    *out = negative ? -value : value;
    return true;
}

static void number64(struct form *f, const char *key, int64_t *value)
{
    if (key)
        literal(f, key);
    separate(f);
    if (!f->failed)
        scan_number(f, INT64_MAX, value);
}

static void number(struct form *f, const char *key, int *value)
{
    int64_t wide = *value;
    const char *before;
    if (key)
        literal(f, key);
    before = f->at;
    number64(f, NULL, &wide);
    if (!f->failed && (wide > INT32_MAX || wide < -INT32_MAX))
        refuse(f, before + 1, "a number of 31 bits");
    *value = (int)wide;
}

static void small_number(struct form *f, const char *key, int limit, int *value)
{
    const char *before;
    if (key)
        literal(f, key);
    before = f->at;
    number(f, NULL, value);
    if (!f->failed && (*value < -limit || *value > limit))
        refuse(f, before + 1, "a number in range");
}

static void word(struct form *f, const char *key, const char *const *words, int *index)
{
    if (key)
        literal(f, key);
    separate(f);
    for (int i = 0; !f->failed && words[i]; i++)
        if (comes(f, words[i])) {
            f->at += strlen(words[i]);
            *index = i;
            return;
        }
    refuse(f, f->at, key ? key : "a known word");
}

static void hash(struct form *f, const char *key, uint64_t value)
{
    char text[17];
    literal(f, key);
    snprintf(text, sizeof text, "%016" PRIx64, value);
    separate(f);
    if (!f->failed && comes(f, text))
        f->at += 16;
    else
        refuse(f, f->at, "the hash of the model and plan that the program was made for");
}

static void line_end(struct form *f)
{
    f->line_begun = false;
    if (!f->failed && f->at < f->end && *f->at == '\n') {
        f->line_start = ++f->at;
        f->line++;
    } else {
        refuse(f, f->at, "the end of the line");
    }
}

/* More things than bytes that are left cannot come. */
static void count(struct form *f, const char *key, int *value)
{
    number(f, key, value);
    if (!f->failed && (*value < 0 || *value > f->end - f->at))
        refuse(f, f->line_start, "counts that the text can hold");
}

static void check_index(struct form *f, const char *key, int index)
{
    int read = index;
    const char *before;
    literal(f, key);
    before = f->at;
    number(f, NULL, &read);
    if (!f->failed && read != index)
        refuse(f, before + 1, "the next index");
}

/* ---- lines ---- */
static void form_header(struct form *f, uint64_t model_hash, uint64_t plan_hash, struct form_counts *counts)
{
    literal(f, "program");
    hash(f, "model", model_hash);
    hash(f, "plan", plan_hash);
    count(f, "stages", &counts->stages);
    count(f, "buffers", &counts->buffers);
    count(f, "assignments", &counts->assignments);
    line_end(f);
}

static void tiny(struct form *f, const char *key, int8_t *value)
{
    int wide = *value;
    small_number(f, key, INT8_MAX, &wide);
    *value = (int8_t)wide;
}

static void form_assignment(struct form *f, int index, struct assignment *assignment)
{
    int slices = 0;
    check_index(f, "assignment", index);
    literal(f, "axis");
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        tiny(f, NULL, &assignment->axis[atom]);
    tiny(f, "ring", &assignment->ring_atom);
    tiny(f, "slice", &assignment->slice_axis);
    small_number(f, "slices", INT16_MAX, &slices);
    assignment->slices = (int16_t)slices;
    line_end(f);
}

/* "R", "S1.0": the dim and the order follow where one of them is not 0. */
static void layout_word(struct form *f, struct layout *layout, int atom)
{
    static const char letters[] = "RSPFO";
    separate(f);
    if (f->failed)
        return;
    const char *start = f->at, *letter = f->at < f->end && *f->at ? strchr(letters, *f->at) : NULL;
    int64_t dim = 0, order = 0;
    if (!letter) {
        refuse(f, start, "a layout (R, S, P, F or O)");
        return;
    }
    layout->kind[atom] = (uint8_t)(letter - letters);
    f->at++;
    if (f->at == f->end || *f->at == ' ' || *f->at == '\n')
        return;
    bool ok = scan_number(f, UINT8_MAX, &dim) && f->at < f->end && *f->at++ == '.' && scan_number(f, UINT8_MAX, &order);
    if (!ok || dim < 0 || order < 0 || (!dim && !order))
        refuse(f, start, "a layout such as S1.0");
    layout->dim[atom] = (uint8_t)dim;
    layout->order[atom] = (uint8_t)order;
}

/* Whole elements of a few bytes each. */
static void sizes_form(struct form *f, struct buffer *buffer)
{
    int64_t elements = 0;
    number64(f, "elements", &elements);
    literal(f, "bytes");
    const char *before = f->at;
    number64(f, NULL, &buffer->bytes);
    if (f->failed)
        return;
    int64_t each = elements > 0 ? buffer->bytes / elements : elements == 0;
    if (each < 1 || each > UINT8_MAX || buffer->bytes != each * elements)
        refuse(f, before + 1, "the bytes of so many elements");
    buffer->element_bytes = (uint8_t)each;
}

static void form_buffer(struct form *f, int index, struct buffer *buffer)
{
    int kind = 0, ring_atom = 0, part = 0, part_count = 0, part_dim = 0;
    check_index(f, "buffer", index);
    word(f, NULL, buffer_kind_names, &kind);
    buffer->kind = (enum buffer_kind)kind;
    number(f, "stage", &buffer->stage);
    number(f, "id", &buffer->id);
    buffer->is_weight = optional(f, "weight");
    buffer->persistent = optional(f, "persistent");
    buffer->host = optional(f, "host");
    number(f, "micro", &buffer->micro);
    number(f, "ring", &buffer->ring_round);
    small_number(f, NULL, MAX_ATOMS, &ring_atom);
    small_number(f, "part", INT16_MAX, &part);
    small_number(f, NULL, INT16_MAX, &part_count);
    small_number(f, NULL, MAX_DIMS, &part_dim);
    buffer->ring_atom = (int8_t)ring_atom;
    buffer->part = (int16_t)part;
    buffer->part_count = (int16_t)part_count;
    buffer->part_dim = (int8_t)part_dim;
    number(f, "version", &buffer->version);
    if (optional(f, "of"))
        number(f, NULL, &buffer->version_count);
    if (optional(f, "wraps"))
        number(f, NULL, &buffer->wraps);
    literal(f, "layout");
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        layout_word(f, &buffer->layout, atom);
    sizes_form(f, buffer);
    number64(f, "offset", &buffer->offset);
    line_end(f);
}

static void form_stage(struct form *f, int index, struct stage_program *stage)
{
    check_index(f, "stage", index);
    count(f, "instrs", &stage->instr_count);
    number64(f, "arena", &stage->arena_bytes);
    number64(f, "persistent", &stage->persistent_bytes);
    number64(f, "scratch", &stage->scratch_offset);
    number64(f, NULL, &stage->scratch_bytes);
    if (optional(f, "host"))
        number64(f, NULL, &stage->host_bytes);
    line_end(f);
}

/* "3,-,5=": buffers of a role, '-' absent, '=' overwritten; trailing absent ones are left out. */
static void operands_read(struct form *f, int operand[MAX_OPERANDS], uint8_t *define)
{
    const char *start;
    separate(f);
    start = f->at;
    unsigned bits = 0;
    for (int i = 0; !f->failed && i < MAX_OPERANDS; i++) {
        int64_t buffer = -1;
        if (f->at < f->end && *f->at == '-')
            f->at++;
        else if (!scan_number(f, INT32_MAX, &buffer))
            return;
        operand[i] = (int)buffer;
        if (f->at < f->end && *f->at == '=') {
            bits |= 1u << i;
            f->at++;
        }
        if (f->at < f->end && *f->at == ',') {
            f->at++;
            continue;
        }
        *define = (uint8_t)bits;
        if (buffer < 0 && !(bits >> i & 1))
            break;
        return;
    }
    refuse(f, start, "a list of operands that ends with one that is there");
}

static void roles_form(struct form *f, struct instr *instr, struct operand_table *table)
{
    for (int role = 0; role < ROLE_COUNT; role++) {
        bool written = role_written(instr->phase, (enum role)role);
        uint8_t define = 0;
        if (!optional(f, role_names[role]))
            continue;
        const char *before = f->at;
        operands_read(f, table->buffer[role], &define);
        if (define && !written)
            refuse(f, before + 1, "operands that the phase does not overwrite");
        if (written)
            instr->define = define;
    }
}

static bool list_grow(struct form *f, struct form_list *list, int more)
{
    if (list->count + more > list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64; /* more is at most 64 */
        int *grown = realloc(list->data, (size_t)capacity * sizeof *grown);
        if (!grown) {
            fail_kind(f->err, ERROR_ENVIRONMENT, "%s: out of memory", f->name);
            f->failed = true;
            return false;
        }
        list->data = grown;
        list->capacity = capacity;
    }
    return true;
}

static void list_add(struct form *f, struct form_list *list, int value)
{
    if (list_grow(f, list, 1))
        list->data[list->count++] = value;
}

static void operands_form(struct form *f, struct instr *instr, struct form_list *read)
{
    struct operand_table table = program_no_operands;
    roles_form(f, instr, &table);
    if (!f->failed && list_grow(f, read, OPERAND_SLOTS))
        read->count += instr_pack(instr, &table, read->count, &read->data[read->count]);
}

static void pairs_form(struct form *f, struct instr *instr, struct form_list *read)
{
    if (!optional(f, "pairs"))
        return;
    instr->pair_first = read->count / 2;
    do {
        int source = 0, destination = 0;
        number(f, NULL, &source);
        number(f, NULL, &destination);
        list_add(f, read, source);
        list_add(f, read, destination);
    } while (!f->failed && f->end - f->at > 1 && *f->at == ' ' &&
             (f->at[1] == '-' || (f->at[1] >= '0' && f->at[1] <= '9')));
    instr->pair_count = read->count / 2 - instr->pair_first;
}

static void waits_form(struct form *f, struct instr *instr, struct form_list *read)
{
    if (!optional(f, "waits"))
        return;
    instr->wait_first = read->count;
    do {
        int wait = 0;
        const char *before = f->at;
        number(f, NULL, &wait);
        if (!f->failed && instr->wait_count++ == UINT16_MAX)
            refuse(f, before + 1, "fewer waits");
        list_add(f, read, wait);
    } while (!f->failed && f->at < f->end && *f->at == ' ');
}

static void atom_mask(struct form *f, int *atoms)
{
    const char *before = f->at;
    number(f, "atoms", atoms);
    if (!f->failed && (*atoms < 0 || *atoms > UINT8_MAX))
        refuse(f, before + 1, "a mask of mesh atoms");
}

/* The instruction's ranges point at what is appended to the lists. */
static void form_instr(struct form *f, int index, struct instr *instr, struct form_lists *read)
{
    int op = 0, phase = 0, lane = 0, fold = 0, atoms = 0;
    check_index(f, "instr", index);
    word(f, NULL, op_words, &op);
    word(f, NULL, phase_names, &phase);
    word(f, "on", lane_names, &lane);
    bool opening = optional(f, "opening"), ahead = !opening && optional(f, "ahead");
    instr->part = opening ? STEP_OPENING : ahead ? STEP_AHEAD : STEP_OWN;
    instr->again = optional(f, "again");
    instr->late = optional(f, "late");
    instr->first = optional(f, "first");
    instr->accumulate = optional(f, "accumulate");
    word(f, "fold", program_fold_names, &fold);
    number(f, "layer", &instr->layer);
    number(f, "segment", &instr->segment);
    number(f, "micro", &instr->micro);
    number(f, "round", &instr->round);
    atom_mask(f, &atoms);
    number(f, "peer", &instr->peer_stage);
    number(f, "tag", &instr->tag);
    instr->phase = (enum phase)phase;
    operands_form(f, instr, &read->operands);
    pairs_form(f, instr, &read->pairs);
    waits_form(f, instr, &read->waits);
    line_end(f);
    instr->op = (enum op)op;
    instr->lane = (enum lane)lane;
    instr->fold = (enum fold)fold;
    instr->atoms = (uint8_t)atoms;
}
#endif
