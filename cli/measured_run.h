/* Training runs that somebody measured, one a row of a CSV file. */
#ifndef CLEAVE_CLI_MEASURED_RUN_H
#define CLEAVE_CLI_MEASURED_RUN_H
#include "base/json.h"
#include "host/csv.h"

enum { BLANK = -1 };                                /* of a number: the row does not say it */
enum answer { ANSWER_NONE, ANSWER_NO, ANSWER_YES }; /* of what is asked with yes or no */

/* A row, its members named as the columns are. Texts are borrowed from the file and "" where it says nothing. */
struct measured_run {
    const char *id, *source_key, *framework, *family, *model, *ffn_kind, *gpu, *inter_link, *dtype, *recompute,
        *optimizer, *lora_modules, *quantized, *mem_kind, *cuda_graph, *complete, *quality, *notes;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn_hidden, vocab, seq_len;
    int64_t n_experts, topk, moe_ffn, moe_layers, shared_expert_ffn;
    int64_t lora_rank, n_gpus, gpus_per_node, tp, pp, vp, cp, ep, etp, dp, zero_stage, micro_batch, global_batch;
    int seq_par, dp_overlap, flash_attn, tied; /* enum answer; tied: the embedding is the head's matrix, too */
    double lora_dropout, step_time_s, tokens_per_s_per_gpu, peak_mem_gib;
};

#define MEASURED_ON_LAST_RANK "allocated on the last rank" /* a mem_kind */
#define MEASURED_SOMEWHERE "GB as printed"                 /* likewise, of a device that nobody calls the fullest */

/* The index-th table of columns that rows may have, and its name; NULL past the last. For `cleave schema`. */
extern const struct json_format measured_formats[];
/**
 * The columns of a file: those of one table, others beside them are nobody's business. Fails where one is missing
 * without which no row can be told. *index: of the table.
 */
bool measured_format_of(int *index, const struct csv *csv, struct error *err);
/**
 * The row of a file of such columns. What it does not say of kv_heads, vp, cp, ep and zero_stage is as usual: as many
 * heads, one, none. Fails at a field that is not what its column wants. Where the row is one that cannot be told as a
 * training run of one model, *reason says why (static or in the arena), else it is NULL.
 */
bool measured_run_read(struct measured_run *out, const char **reason, const struct csv *csv, int row, int format,
                       struct arena *arena, struct error *err);
/* Whether rows have a text of that column, be it in their file or not; and the text. */
bool measured_run_has_text(const char *column);
const char *measured_run_text(const struct measured_run *run, const char *column);
#endif
