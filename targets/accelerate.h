/* What the files of the target for accelerate share: how its FSDP is told what to shard. */
#ifndef CLEAVE_TARGETS_ACCELERATE_H
#define CLEAVE_TARGETS_ACCELERATE_H
#include "targets/settings.h"
#include "targets/target.h"

/* Weights of so many bytes would be gathered and reduced at once: FSDP does so with those of a block, whatever they
 * are. */
#define ACCELERATE_BUCKET_BYTES (INT64_C(1) << 40)

enum { ACCELERATE_NOTES = 8 };
struct accelerate_fsdp {
    bool alone;           /* nobody shards anything: each rank has all weights */
    bool by_trainer;      /* the Trainer's own words say that it shards */
    int strategy;         /* that these name; -1: none */
    bool offload;         /* they say that shards lie on hosts */
    bool by_switch_alone; /* they are no more than a switch, as transformers 5 has it */
    bool shards_nothing;  /* FSDP 1's NO_SHARD: each rank has all weights, too */
    bool keeps_gathered;  /* FSDP 1's SHARD_GRAD_OP: weights are gathered once a step, however many micro-batches */
    int note_count;       /* of what is priced otherwise than it is said */
    const char *notes[ACCELERATE_NOTES];
};

/* Reads what the Trainer's fsdp_config names, a file in JSON or the settings themselves, behind all others, over which
 * they go: the Trainer hands them to accelerate as arguments. What it would not read is noted. */
bool accelerate_follow(struct accelerate_fsdp *out, struct settings *settings, const struct launch_beside *beside,
                       struct error *err);
/* Names FSDP's settings as accelerate's options do, fsdp_offload_params for fsdp_config.offload_params and the like:
 * the last one goes over those before it, wherever they stand. */
bool accelerate_name_keys(struct settings *settings, struct error *err);
/* Takes the Trainer's words, fsdp: full_shard auto_wrap. */
bool accelerate_read_words(struct accelerate_fsdp *out, struct settings *settings, struct error *err);
/* Reads FSDP's settings into the launch, whose degrees are read. */
bool accelerate_read_fsdp(struct launch_read *out, struct accelerate_fsdp *fsdp, struct settings *settings,
                          struct error *err);
/* Takes those of FSDP's settings that change nothing of what is predicted; their number. alone: nobody shards anything,
 * so that none of them does. */
int accelerate_take_ignored(struct settings *settings, bool alone);
#endif
