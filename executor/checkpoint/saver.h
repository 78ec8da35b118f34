/* When a run saves, and saving beside its steps. Rank 0 decides at the end of a step and tells the others; each rank
 * then writes its file on a thread of its own, from a copy that is made before anything changes what it is made of, and
 * says in its next words to rank 0 that it is done; with the last of them rank 0 commits, beside the steps as well.
 * After the last step nothing goes on beside it, and so nothing is copied. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_SAVER_H
#define CLEAVE_EXECUTOR_CHECKPOINT_SAVER_H
#include "executor/checkpoint/manifest.h"
#include "executor/run_options.h"
#include "planner/program/program.h"

struct rank;
struct checkpoint_folder;
struct saver;
/* What a rank says of its save to rank 0 at the end of a step; as it travels. */
struct save_word {
    struct file_record record;
    int32_t has_record, asked_to_end;
};
/* What rank 0 answers: after which step (steps done; 0: none) to save under which number, and whether to end then. */
struct save_order {
    int64_t step, save;
    int32_t ends, reserved;
};
struct save_times {
    int64_t count, save_ns, wait_ns; /* saves; from the order to the name on the disk; what the steps waited of that */
};

/* folder: of the run, in the process that has rank 0 and owns it. */
bool saver_new(struct saver **out, struct rank *rank, struct checkpoint_folder *folder, struct error *err);
/* Waits for what is under way on this rank, which may be left unfinished. Accepts NULL. */
void saver_free(struct saver *saver);

/* ---- at the end of each step ---- */
/* What this rank has to say. Fails where writing has. */
bool saver_word(struct saver *saver, struct save_word *word, struct error *err);
/* Rank 0: what rank r said, its own word included. */
void saver_hear(struct saver *saver, int r, const struct save_word *word);
/* Rank 0, after all words: goes on with the save that is under way, and decides about the next. A later one is for the
 * end of the step after this: ranks that run ahead hear of it in time. */
bool saver_decide(struct saver *saver, int64_t steps_done, bool later, struct save_order *order, struct error *err);
/* Whether every rank knows by itself that there is a save after so many steps. */
bool saver_is_due(const struct saver *saver, int64_t steps_done);
/* All ranks, after the same step, as ordered; last: no step follows. */
bool saver_save(struct saver *saver, const struct save_order *order, bool last, struct error *err);
/* All ranks: the save that is under way is finished. */
bool saver_finish(struct saver *saver, struct error *err);

/* ---- within a step ---- */
/* Before an instruction, on any lane: waits while it would change what is being copied. */
void saver_guard(struct saver *saver, const struct instr *instr);
struct save_times saver_times(const struct saver *saver);
#endif
