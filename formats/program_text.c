#include "formats/program_text.h"
#include <inttypes.h>

static const char *const part_words[] = { [STEP_OWN] = "", [STEP_OPENING] = " opening", [STEP_AHEAD] = " ahead" };

static void print_buffer(struct text *out, int index, const struct buffer *b)
{
    text_printf(out, "buffer %d %s stage %d id %d%s%s%s micro %d ring %d %d part %d %d %d version %d", index,
                buffer_kind_names[b->kind], b->stage, b->id, b->is_weight ? " weight" : "",
                b->persistent ? " persistent" : "", b->host ? " host" : "", b->micro, b->ring_round, b->ring_atom,
                b->part, b->part_count, b->part_dim, b->version);
    if (b->version_count > 1)
        text_printf(out, " of %d", b->version_count);
    if (b->wraps > 0)
        text_printf(out, " wraps %d", b->wraps);
    text_add(out, " layout");
    for (int atom = 0; atom < MAX_ATOMS; atom++) { /* "R", "S1.0": dim and order follow where one of them is not 0 */
        text_printf(out, " %c", "RSPFO"[b->layout.kind[atom]]);
        if (b->layout.dim[atom] || b->layout.order[atom])
            text_printf(out, "%d.%d", b->layout.dim[atom], b->layout.order[atom]);
    }
    text_printf(out, " elements %" PRId64 " bytes %" PRId64 " offset %" PRId64 "\n", buffer_holds(b), b->bytes,
                b->offset);
}

/* "3,-,5=": buffers of a role, '-' absent, '=' overwritten; trailing absent ones are left out, and so are roles of
 * which none is there. */
static void print_operands(struct text *out, const struct program *program, const struct instr *instr, enum role role)
{
    unsigned define = role_written(instr->phase, role) ? instr->define : 0;
    int last = MAX_OPERANDS - 1;
    while (last >= 0 && instr_operand(program, instr, role, last) < 0 && !(define >> last & 1))
        last--;
    for (int i = 0; i <= last; i++) {
        int buffer = instr_operand(program, instr, role, i);
        if (i == 0)
            text_printf(out, " %s ", role_names[role]);
        text_add(out, i ? "," : "");
        if (buffer < 0)
            text_add(out, "-");
        else
            text_printf(out, "%d", buffer);
        text_add(out, define >> i & 1 ? "=" : "");
    }
}

static void print_instr(struct text *out, const struct program *program, const int *waits, int index,
                        const struct instr *instr)
{
    text_printf(out,
                "instr %d %s %s on %s%s%s%s%s%s fold %s layer %d segment %d micro %d round %d atoms %d peer %d tag %d",
                index, op_info[instr->op].name, phase_names[instr->phase], lane_names[instr->lane],
                part_words[instr->part], instr->again ? " again" : "", instr->late ? " late" : "",
                instr->first ? " first" : "", instr->accumulate ? " accumulate" : "", program_fold_names[instr->fold],
                instr->layer, instr->segment, instr->micro, instr->round, instr->atoms, instr->peer_stage, instr->tag);
    for (int role = 0; role < ROLE_COUNT; role++)
        print_operands(out, program, instr, (enum role)role);
    for (int i = 0; i < instr->pair_count; i++) {
        const struct pair *pair = &program->pairs[instr->pair_first + i];
        text_printf(out, "%s %d %d", i == 0 ? " pairs" : "", pair->source, pair->destination);
    }
    for (int i = 0; i < instr->wait_count; i++)
        text_printf(out, "%s %d", i == 0 ? " waits" : "", waits[instr->wait_first + i]);
    text_add(out, "\n");
}

void program_print(const struct program *program, struct text *out)
{
    text_printf(out, "program model %016" PRIx64 " plan %016" PRIx64 " stages %d buffers %d assignments %d\n",
                program->graph->model_hash, plan_hash(program->plan), program->stage_count, program->buffer_count,
                program->graph->segment_count);
    for (int i = 0; i < program->graph->segment_count; i++) {
        text_printf(out, "assignment %d axis", i);
        for (int atom = 0; atom < MAX_ATOMS; atom++)
            text_printf(out, " %d", program->assignments[i].axis[atom]);
        text_printf(out, " ring %d slice %d slices %d\n", program->assignments[i].ring_atom,
                    program->assignments[i].slice_axis, program->assignments[i].slices);
    }
    for (int i = 0; i < program->buffer_count; i++)
        print_buffer(out, i, &program->buffers[i]);
    for (int s = 0; s < program->stage_count; s++) {
        const struct stage_program *stage = &program->stages[s];
        text_printf(out, "stage %d instrs %d arena %" PRId64 " persistent %" PRId64 " scratch %" PRId64 " %" PRId64, s,
                    stage->instr_count, stage->arena_bytes, stage->persistent_bytes, stage->scratch_offset,
                    stage->scratch_bytes);
        if (stage->host_bytes > 0)
            text_printf(out, " host %" PRId64, stage->host_bytes);
        text_add(out, "\n");
        for (int i = 0; i < stage->instr_count; i++)
            print_instr(out, program, stage->waits, i, &stage->instrs[i]);
    }
}
