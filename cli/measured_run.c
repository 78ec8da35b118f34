#include "cli/measured_run.h"
#include <math.h>
#include <string.h>

static const char *const answers[] = { "", "no", "yes", NULL }, *const truths[] = { "", "false", "true", NULL };

/* ---- the columns ---- */
#define MOST 1000000000
#define RUN(member) offsetof(struct measured_run, member)
#define TEXT(name, member, doc_)                                                                                       \
    {                                                                                                                  \
        .key = name, .type = FIELD_STRING, .offset = member, .doc = doc_                                               \
    }
#define NEEDED_TEXT(name, member, doc_)                                                                                \
    {                                                                                                                  \
        .key = name, .type = FIELD_STRING, .offset = member, .required = true, .doc = doc_                             \
    }
#define COUNT(name, member, doc_)                                                                                      \
    {                                                                                                                  \
        .key = name, .type = FIELD_INT, .offset = member, .min = 1, .max = MOST, .doc = doc_                           \
    }
#define NEEDED_COUNT(name, member, doc_)                                                                               \
    {                                                                                                                  \
        .key = name, .type = FIELD_INT, .offset = member, .required = true, .min = 1, .max = MOST, .doc = doc_         \
    }
#define AMOUNT(name, member, doc_)                                                                                     \
    {                                                                                                                  \
        .key = name, .type = FIELD_DOUBLE, .offset = member, .doc = doc_                                               \
    }
#define ANSWER(name, member, words, doc_)                                                                              \
    {                                                                                                                  \
        .key = name, .type = FIELD_ENUM, .offset = member, .names = words, .doc = doc_                                 \
    }

static const struct json_field run_columns[] = {
    TEXT("id", RUN(id), "names the row"),
    TEXT("source_key", RUN(source_key), "who measured; errors are told by it (the file's name)"),
    TEXT("framework", RUN(framework),
         "what ran it: a name that --framework takes, or words that begin as Megatron-LM, Megatron-Core, NeMo, "
         "Megatron-Bridge, Megatron-DeepSpeed, DeepSpeed, accelerate, PyTorch FSDP (llm-foundry), torchtitan, MaxText "
         "or PaxML do; Megatron-LM, Megatron-DeepSpeed and Alpa reduce gradients at the end where dp_overlap does not "
         "say"),
    NEEDED_TEXT("family", RUN(family),
                "says what the architecture's columns leave open: rotary or learned positions, "
                "norm, biases"),
    TEXT("model", RUN(model), "its name"),
    NEEDED_COUNT("layers", RUN(layers), "blocks of attention and feed-forward"),
    NEEDED_COUNT("hidden", RUN(hidden), "features of a token"),
    NEEDED_COUNT("heads", RUN(heads), "attention heads"),
    COUNT("kv_heads", RUN(kv_heads), "heads of keys and values (heads)"),
    COUNT("head_dim", RUN(head_dim), "features of a head (hidden / heads)"),
    COUNT("ffn_hidden", RUN(ffn_hidden), "inner features of a dense feed-forward block"),
    NEEDED_TEXT("ffn_kind", RUN(ffn_kind), "gelu, gelu-gated, swiglu or squared_relu"),
    NEEDED_COUNT("vocab", RUN(vocab), "words of the vocabulary"),
    NEEDED_COUNT("seq_len", RUN(seq_len), "tokens of a sequence"),
    COUNT("n_experts", RUN(n_experts), "experts of a mixture"),
    COUNT("topk", RUN(topk), "experts that a token goes to"),
    COUNT("moe_ffn", RUN(moe_ffn), "inner features of an expert"),
    COUNT("moe_layers", RUN(moe_layers), "blocks with a mixture, the last ones"),
    COUNT("shared_expert_ffn", RUN(shared_expert_ffn), "inner features of the expert that all tokens go to"),
    NEEDED_TEXT("gpu", RUN(gpu), "begins with a GPU's name and memory, such as A100-40GB or H100"),
    NEEDED_COUNT("n_gpus", RUN(n_gpus), "GPUs in all"),
    NEEDED_COUNT("gpus_per_node", RUN(gpus_per_node), "GPUs of a node"),
    TEXT("inter_link", RUN(inter_link), "the network, in words of which some are known (the catalogue's)"),
    TEXT("dtype", RUN(dtype), "bf16, fp16, fp32, fp8, mxfp8, fp8-rowwise or nvfp4 (bf16; fp16 on a V100)"),
    NEEDED_COUNT("tp", RUN(tp), "tensor ranks"),
    NEEDED_COUNT("pp", RUN(pp), "pipeline stages"),
    COUNT("vp", RUN(vp), "model chunks of a stage (1)"),
    COUNT("cp", RUN(cp), "context ranks (1)"),
    COUNT("ep", RUN(ep), "expert ranks, which are data ranks (1)"),
    COUNT("etp", RUN(etp), "tensor ranks of experts"),
    NEEDED_COUNT("dp", RUN(dp), "data ranks"),
    { .key = "zero_stage", .type = FIELD_INT, .offset = RUN(zero_stage), .max = 3, .doc = "ZeRO stage (0)" },
    ANSWER("seq_par", RUN(seq_par), answers, "sequence parallelism beside tensor ranks"),
    TEXT("recompute", RUN(recompute), "none, selective, full (none)"),
    NEEDED_COUNT("micro_batch", RUN(micro_batch), "sequences of a micro-batch on a data rank"),
    NEEDED_COUNT("global_batch", RUN(global_batch), "sequences of a step"),
    TEXT("optimizer", RUN(optimizer),
         "muon; adam and all others: AdamW; with \"16 bit\" among the words neither master weights nor moments are "
         "wider than that"),
    COUNT("lora_rank", RUN(lora_rank), "of adapters, which alone are trained (all weights are)"),
    TEXT("lora_modules", RUN(lora_modules), "their matrices as PEFT names them, joined by +, such as q_proj+v_proj"),
    AMOUNT("lora_dropout", RUN(lora_dropout), "share that they drop of what they read (0)"),
    TEXT("quantized", RUN(quantized), "nf4, nf4-double, int4 or int8: what the frozen matrices are stored in"),
    ANSWER("dp_overlap", RUN(dp_overlap), answers, "gradients are reduced beside the backward pass (by framework)"),
    ANSWER("flash_attn", RUN(flash_attn), answers, "attention is fused, and keeps no scores (by framework)"),
    AMOUNT("step_time_s", RUN(step_time_s), "seconds of a step"),
    AMOUNT("tokens_per_s_per_gpu", RUN(tokens_per_s_per_gpu), "says it where step_time_s does not"),
    AMOUNT("peak_mem_gib", RUN(peak_mem_gib), "memory of the fullest GPU"),
    TEXT("mem_kind", RUN(mem_kind),
         "OOM: the run ended for want of memory; words with nvidia-smi: with context and libraries; GB as "
         "printed: likewise, of the first stage"),
    TEXT("cuda_graph", RUN(cuda_graph), "full_iteration: a graph is the whole step; none:... and others: it is not"),
    TEXT("complete", RUN(complete), "yes or near: the step's error counts; no: too much had to be assumed (yes)"),
    TEXT("quality", RUN(quality), "begins with check or BAD: the row is skipped"),
    TEXT("notes", RUN(notes), "of which some words are known: CUDA_LAUNCH_BLOCKING=1, tokendrop;, deepep, hybridep"),
};

/* A row of Megatron-LM's functional tests: its memory counts, a step of a toy model says nothing. */
struct golden_run {
    struct measured_run run;
    const char *test, *test_type, *vocab, *recompute, *fsdp, *fp8, *impl;
    int64_t kv_groups, experts, vp_layers_per_stage;
    int swiglu, untie_emb, dist_opt, fp16, overlap_grad_reduce;
    double mem_max_allocated_bytes_last;
};
#define GOLDEN(member) offsetof(struct golden_run, member)
#define OF_RUN(member) GOLDEN(run.member)
static const struct json_field golden_columns[] = {
    TEXT("id", OF_RUN(id), "names the row"),
    NEEDED_TEXT("test", GOLDEN(test), "the functional test: of what its name says some cannot be told"),
    TEXT("test_type", GOLDEN(test_type), "regular: one run is held against stored losses"),
    NEEDED_TEXT("gpu", OF_RUN(gpu), "begins with a GPU's name and memory"),
    COUNT("n_gpus", OF_RUN(n_gpus), "GPUs in all (8)"),
    COUNT("gpus_per_node", OF_RUN(gpus_per_node), "GPUs of a node (8)"),
    NEEDED_COUNT("layers", OF_RUN(layers), "blocks of attention and feed-forward"),
    NEEDED_COUNT("hidden", OF_RUN(hidden), "features of a token"),
    NEEDED_COUNT("heads", OF_RUN(heads), "attention heads"),
    COUNT("kv_groups", GOLDEN(kv_groups), "heads of keys and values (heads)"),
    COUNT("ffn_hidden", OF_RUN(ffn_hidden), "inner features of a feed-forward block (4 or 8/3 hidden)"),
    ANSWER("swiglu", GOLDEN(swiglu), truths, "gated units (GELU)"),
    NEEDED_COUNT("seq_len", OF_RUN(seq_len), "tokens of a sequence"),
    TEXT("vocab", GOLDEN(vocab), "words of the vocabulary, or a tokenizer whose size is known (GPT-2's)"),
    ANSWER("untie_emb", GOLDEN(untie_emb), truths, "the head has a matrix of its own"),
    COUNT("experts", GOLDEN(experts), "experts of a mixture"),
    COUNT("topk", OF_RUN(topk), "experts that a token goes to (2)"),
    COUNT("moe_ffn", OF_RUN(moe_ffn), "inner features of an expert (ffn_hidden)"),
    NEEDED_COUNT("tp", OF_RUN(tp), "tensor ranks"),
    NEEDED_COUNT("pp", OF_RUN(pp), "pipeline stages"),
    COUNT("vp_layers_per_stage", GOLDEN(vp_layers_per_stage), "blocks of a model chunk"),
    COUNT("cp", OF_RUN(cp), "context ranks (1)"),
    COUNT("ep", OF_RUN(ep), "expert ranks, which are data ranks (1)"),
    COUNT("etp", OF_RUN(etp), "tensor ranks of experts"),
    COUNT("dp", OF_RUN(dp), "data ranks (all others)"),
    ANSWER("seq_par", OF_RUN(seq_par), truths, "sequence parallelism beside tensor ranks"),
    ANSWER("dist_opt", GOLDEN(dist_opt), truths, "the optimizer's state is spread over data ranks"),
    TEXT("fsdp", GOLDEN(fsdp), "not blank: weights are, too"),
    TEXT("recompute", GOLDEN(recompute), "none, selective, full (none)"),
    NEEDED_COUNT("micro_batch", OF_RUN(micro_batch), "sequences of a micro-batch on a data rank"),
    NEEDED_COUNT("global_batch", OF_RUN(global_batch), "sequences of a step"),
    ANSWER("fp16", GOLDEN(fp16), truths, "fp16 (bf16)"),
    TEXT("fp8", GOLDEN(fp8), "not blank: fp8"),
    TEXT("impl", GOLDEN(impl), "local: attention keeps its scores"),
    ANSWER("overlap_grad_reduce", GOLDEN(overlap_grad_reduce), truths,
           "gradients are reduced beside the backward pass"),
    { .key = "mem_max_allocated_bytes_last",
      .type = FIELD_DOUBLE,
      .offset = GOLDEN(mem_max_allocated_bytes_last),
      .required = true,
      .doc = "most bytes that were allocated at once" },
    AMOUNT("iter_time_median_s", OF_RUN(step_time_s), "seconds of a step"),
};

enum { FORMAT_RUN, FORMAT_GOLDEN, FORMAT_COUNT };
#define DOC                                                                                                            \
    "Columns of a CSV file that `cleave validate` reads; others may stand beside them, and what is not required may "  \
    "be "                                                                                                              \
    "missing or blank."
const struct json_format measured_formats[] = {
    [FORMAT_RUN] = JSON_FORMAT("measurements", run_columns, DOC),
    [FORMAT_GOLDEN] = JSON_FORMAT("measurements.golden", golden_columns, DOC),
    [FORMAT_COUNT] = { 0 },
};
#undef DOC

bool measured_format_of(int *index, const struct csv *csv, struct error *err)
{
    int format = csv_column(csv, "test") >= 0 && csv_column(csv, "mem_max_allocated_bytes_last") >= 0 ? FORMAT_GOLDEN
                                                                                                      : FORMAT_RUN;
    for (size_t i = 0; i < measured_formats[format].count; i++) {
        const struct json_field *column = &measured_formats[format].fields[i];
        if (!column->required || csv_column(csv, column->key) >= 0)
            continue;
        const char *near = csv_nearest(csv, column->key);
        return fail(err, "%s:1: expected a column %s (%s), found none%s%s%s; cleave schema %s lists them", csv->name,
                    column->key, column->doc, near ? "; is it " : "", near ? near : "", near ? "?" : "",
                    measured_formats[format].name);
    }
    *index = format;
    return true;
}

/* ---- one row ---- */

static bool read_number(double *out, const struct json_field *column, const struct csv *csv, int row, int at,
                        struct error *err)
{
    const char *text = csv_at(csv, row, at)->text;
    bool whole = column->type == FIELD_INT, limited = column->max > column->min;
    double value = 0;
    if (text_read_double(text, strlen(text), &value) && (!whole || value == floor(value)) && value >= column->min &&
        (!limited || value <= column->max)) {
        *out = value;
        return true;
    }
    return limited ? csv_fail(csv, row, at, err, "expected %s from %.0f to %.0f or nothing, found '%.80s'",
                              whole ? "a whole number" : "a number", column->min, column->max, text)
                   : csv_fail(csv, row, at, err, "expected a number of %.0f or more or nothing, found '%.80s'",
                              column->min, text);
}

/* at: of the column in the file; -1: it has none. */
static bool read_field(void *out, const struct json_field *column, const struct csv *csv, int row, int at,
                       struct error *err)
{
    char *member = (char *)out + column->offset;
    const char *text = at < 0 ? "" : csv_at(csv, row, at)->text;
    double number = BLANK;
    int word = 0;
    if (column->type == FIELD_STRING) {
        *(const char **)(void *)member = text;
        return true;
    }
    if (column->type == FIELD_ENUM) {
        while (column->names[word] && strcmp(column->names[word], text))
            word++;
        *(int *)(void *)member = word;
        return column->names[word] || csv_fail(csv, row, at, err, "expected %s, %s or nothing, found '%.80s'",
                                               column->names[2], column->names[1], text);
    }
    if (*text && !read_number(&number, column, csv, row, at, err))
        return false;
    if (column->type == FIELD_INT)
        *(int64_t *)(void *)member = (int64_t)number;
    else
        *(double *)(void *)member = number;
    return true;
}

static int64_t or_else(int64_t value, int64_t other)
{
    return value == BLANK ? other : value;
}

/* What a test's name says of it that no plan can be, and that reason. */
static const char *reason_of_test(const char *test)
{
    static const struct {
        const char *words, *reason;
    } cases[] = { { "hybrid", "Mamba layers (hybrid model)" },
                  { "nemotron", "Mamba layers (hybrid model)" },
                  { "mamba", "Mamba layers (hybrid model)" },
                  { "mla", "MLA attention" },
                  { "deepseek", "MLA attention" },
                  { "grpo", "reinforcement learning (two meshes)" },
                  { "fine_grained_offloading", "offload of single operators" },
                  { "mtp", "multi-token prediction head" },
                  { "distill", "distillation (two models)" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strstr(test, cases[i].words))
            return cases[i].reason;
    return NULL;
}

static int64_t vocabulary_of(const char *words)
{
    static const struct {
        const char *words;
        int64_t count;
    } tokenizers[] = { { "", 50257 }, { "GPTSentencePieceTokenizer", 256000 }, { "Llama2Tokenizer", 32000 } };
    double number;
    if (text_read_double(words, strlen(words), &number) && number >= 1 && number <= MOST)
        return (int64_t)number;
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++)
        if (!strcmp(words, tokenizers[i].words))
            return tokenizers[i].count;
    return BLANK;
}

/* Tests that hold the losses of one run against stored ones ask Transformer Engine for attention that is not fused,
 * where ranks do not share sequences and the loss is not fused either (tests/functional_tests/test_cases,
 * model_config.yaml). */
static bool asks_for_unfused(const struct golden_run *g)
{
    return !strcmp(g->test_type, "regular") && g->run.cp <= 1 && strstr(g->test, "gpt3_mcore_te_") &&
           !strstr(g->test, "_resume_") && !strstr(g->test, "cross_entropy_loss_fusion");
}

/* What Megatron-LM's arguments leave out has the value that it gives them. */
static void complete_golden(struct golden_run *g)
{
    struct measured_run *run = &g->run;
    bool gated = g->swiglu == ANSWER_YES;
    const char *slash = strchr(g->test, '/');
    run->source_key = "golden";
    run->framework = "Megatron-Core";
    run->family = "gpt-megatron";
    run->model = slash ? slash + 1 : g->test;
    run->ffn_kind = gated ? "swiglu" : "gelu";
    run->kv_heads = g->kv_groups;
    if (run->hidden != BLANK)
        run->ffn_hidden = or_else(run->ffn_hidden, gated ? 8 * run->hidden / 3 / 64 * 64 : 4 * run->hidden);
    run->vocab = vocabulary_of(g->vocab);
    run->n_experts = g->experts;
    run->topk = or_else(run->topk, 2);
    run->moe_ffn = or_else(run->moe_ffn, run->ffn_hidden);
    run->moe_layers = run->layers;
    run->n_gpus = or_else(run->n_gpus, 8);
    run->gpus_per_node = or_else(run->gpus_per_node, 8);
    if (strstr(g->test, "_1node")) { /* tests/test_utils/recipes/gb200 */
        run->n_gpus = run->gpus_per_node;
        run->dp = BLANK;
    }
    run->vp = g->vp_layers_per_stage > 0 && run->pp > 1 ? run->layers / run->pp / g->vp_layers_per_stage : 1;
    double others = (double)run->tp * (double)run->pp * (double)or_else(run->cp, 1);
    if (run->tp != BLANK && run->pp != BLANK)
        run->dp = or_else(run->dp, (int64_t)((double)run->n_gpus / others));
    run->zero_stage = *g->fsdp ? 3 : g->dist_opt == ANSWER_YES ? 1 : 0;
    run->recompute = strstr(g->test, "full_recompute") ? "full" : g->recompute;
    run->dtype = *g->fp8 ? "fp8" : g->fp16 == ANSWER_YES ? "fp16" : "bf16";
    run->dp_overlap = g->overlap_grad_reduce;
    run->flash_attn = !strcmp(g->impl, "local") || asks_for_unfused(g) ? ANSWER_NO : ANSWER_YES;
    run->tied = g->untie_emb == ANSWER_YES ? ANSWER_NO : ANSWER_YES;
    run->peak_mem_gib = g->mem_max_allocated_bytes_last < 0 ? BLANK : g->mem_max_allocated_bytes_last / (1 << 30);
    run->mem_kind = MEASURED_ON_LAST_RANK; /* which alone writes the log (megatron/training/global_vars.py) */
    run->complete = "no";
    run->cuda_graph = "";
    run->optimizer = strstr(g->test, "muon") ? "muon" : "";
    run->notes = g->test;
}

/* The file's name without folders and its ending: whose rows they are where nothing else says it. */
static const char *key_of_file(const char *name, struct arena *arena)
{
    const char *slash = strrchr(name, '/'), *begin = slash ? slash + 1 : name;
    size_t length = strlen(begin);
    return arena_strndup(arena, begin, length > 4 && !strcmp(begin + length - 4, ".csv") ? length - 4 : length);
}

bool measured_run_read(struct measured_run *out, const char **reason, const struct csv *csv, int row, int format,
                       struct arena *arena, struct error *err)
{
    struct golden_run golden = { 0 };
    struct measured_run *run = &golden.run;
    for (size_t i = 0; i < measured_formats[FORMAT_RUN].count && format != FORMAT_RUN; i++)
        read_field(&golden, &run_columns[i], csv, row, -1, err); /* nothing, of those that it lacks */
    for (size_t i = 0; i < measured_formats[format].count; i++) {
        const struct json_field *column = &measured_formats[format].fields[i];
        if (!read_field(&golden, column, csv, row, csv_column(csv, column->key), err))
            return false;
    }
    *reason = NULL;
    if (format == FORMAT_GOLDEN) {
        complete_golden(&golden);
        *reason = reason_of_test(golden.test);
    }
    run->kv_heads = or_else(run->kv_heads, run->heads);
    run->vp = or_else(run->vp, 1);
    run->cp = or_else(run->cp, 1);
    run->ep = or_else(run->ep, 1);
    run->zero_stage = or_else(run->zero_stage, 0);
    if (!*run->source_key)
        run->source_key = key_of_file(csv->name, arena);
    *out = *run;
    return run->source_key || fail_memory(err);
}

static const struct json_field *text_column(const char *name)
{
    for (size_t i = 0; i < sizeof run_columns / sizeof *run_columns; i++)
        if (run_columns[i].type == FIELD_STRING && !strcmp(run_columns[i].key, name))
            return &run_columns[i];
    return NULL;
}

bool measured_run_has_text(const char *column)
{
    return text_column(column) != NULL;
}

const char *measured_run_text(const struct measured_run *run, const char *column)
{
    return *(const char *const *)(const void *)((const char *)run + text_column(column)->offset);
}
