/* Which SEND belongs to which RECEIVE, and which NORM_REDUCE to which: the partners across stages. */
#ifndef CLEAVE_PROGRAM_PAIRING_H
#define CLEAVE_PROGRAM_PAIRING_H
#include "planner/program/program.h"

struct pairing {
    struct arena arena;
    int **partner; /* [stage][instr]: of a SEND or RECEIVE its partner's index in peer_stage; of a NORM_REDUCE which one
                      it is, from 0; else -1 */
    int **norm;    /* [stage][k]: index of the k-th NORM_REDUCE */
    int norm_count; /* of each stage */
};
/* Fails when a SEND or RECEIVE has no partner or several, when the two move other buffers or numbers of elements, or
 * when the stages have different numbers of NORM_REDUCE. peer_stage must be in range. */
bool pairing_build(struct pairing *out, const struct program *program, struct error *err);
void pairing_free(struct pairing *pairing);
/* Writes "stage 0 instr 12 (send tag 3 to stage 1)" into out, which is returned. */
enum { INSTR_NAME_BYTES = 160 };
const char *instr_name(char out[INSTR_NAME_BYTES], const struct program *program, int stage, int index);
#endif
