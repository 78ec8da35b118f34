#include "base/num.h"
#include "cli/measured_device.h"
#include "cli/measured_mapping.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Networks whose words say another rate than the device's: bytes per second of a node, of which the device reaches its
 * share. Omni-Path is Jean Zay's, whose four links carried 135 Gb/s of a node together (Bekman, Machine Learning
 * Engineering, network/README.md; bigscience-workshop/bigscience, experiments/README.md), 0.9 of this. */
static const struct {
    const char *words;
    double node_bytes_per_s;
} networks[] = { { "Omni-Path", 18.75e9 }, { "1600 Gb/s", 200e9 }, { "800 Gb/s per node", 100e9 } };
#define EXCHANGES_OVERLAP "moe a2a overlap"
/* Frameworks by the beginning of their names, in letters of any case, by whether their attention is fused (any, where
 * there is no answer), and by what notes, graphs or the type say. */
static const struct {
    const char *words;
    enum answer fused;
    const char *framework;
    const char *says, *also; /* NULL: whatever they say */
} frameworks[] = { { "Megatron-DeepSpeed", ANSWER_NONE, "megatron-deepspeed-blocking", "CUDA_LAUNCH_BLOCKING=1", NULL },
                   { "Megatron-DeepSpeed", ANSWER_NONE, "megatron-deepspeed", NULL, NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-graphs-overlap", "full_iteration",
                     EXCHANGES_OVERLAP },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex-overlap", "deepep", EXCHANGES_OVERLAP },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex-overlap", "hybridep", EXCHANGES_OVERLAP },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-graphs", "full_iteration", NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex", "deepep", NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex", "hybridep", NULL },
                   { "Megatron-LM", ANSWER_NO, "megatron-lm", NULL, NULL },
                   { "Megatron-LM", ANSWER_NONE, "megatron-lm-te", NULL, NULL },
                   { "NeMo Megatron", ANSWER_NO, "megatron-lm", NULL, NULL },
                   { "NeMo", ANSWER_NONE, "megatron-core", NULL, NULL },
                   { "Megatron-Core", ANSWER_NO, "megatron-lm-unfused", NULL, NULL },
                   { "Megatron-Core (Megatron-Bridge", ANSWER_NONE, "megatron-core", NULL, NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-lm-te", NULL, NULL },
                   { "DeepSpeed", ANSWER_YES, "deepspeed-transformers", NULL, NULL },
                   { "DeepSpeed", ANSWER_NONE, "deepspeed", NULL, NULL },
                   { "PyTorch FSDP (llm-foundry)", ANSWER_NONE, "llm-foundry", NULL, NULL },
                   { "torchtitan FSDP2 + torch.compile", ANSWER_NONE, "torchtitan-compile", "rowwise", NULL },
                   { "torchtitan FSDP2 + torch.compile", ANSWER_NONE, "torchtitan-tensorwise", "fp8", NULL },
                   { "torchtitan FSDP2 + torch.compile", ANSWER_NONE, "torchtitan-compile", NULL, NULL },
                   { "torchtitan", ANSWER_NONE, "torchtitan", NULL, NULL },
                   { "Megatron-Bridge", ANSWER_NONE, "megatron-core", NULL, NULL },
                   { "accelerate", ANSWER_NONE, "accelerate-fsdp2", NULL, NULL },
                   { "MaxText", ANSWER_NONE, "maxtext", NULL, NULL },
                   { "PaxML", ANSWER_NONE, "maxtext", NULL, NULL },
                   { "cleave", ANSWER_NONE, "cleave", NULL, NULL },
                   { "llm.c", ANSWER_NONE, "cleave", NULL, NULL },
                   { "nnScaler", ANSWER_NONE, "cleave", NULL, NULL },
                   { "Alpa", ANSWER_NONE, "cleave", NULL, NULL } };
/* Frameworks that reduce gradients after the last backward pass, by the beginning of their names. */
static const char *const late_reducers[] = { "Megatron-LM", "Megatron-DeepSpeed", "Alpa/JAX", NULL };

static bool is_run_by(const struct measured_run *run, const char *words)
{
    return strncasecmp(run->framework, words, strlen(words)) == 0;
}

void mapping_stand_in(struct mapping *m, const char *words)
{
    text_printf(&m->standin, "%s%s", m->standin.length ? "; " : "", words);
}

bool mapping_known(const struct mapping *m, int64_t value, const char *column)
{
    return value != BLANK || fail(m->why, "row lacks %s", column);
}

bool mapping_on_one_line(const char **out, struct json_writer *w, struct mapping *m)
{
    size_t length = 0;
    char *text = json_finish(w, &length), *to = text;
    for (const char *p = text; p && *p; p++)
        if (*p == '\n')
            p += strspn(p + 1, " ");
        else
            *to++ = *p;
    *out = text ? arena_strndup(m->arena, text, (size_t)(to - text)) : NULL;
    free(text);
    return *out || fail_memory(m->why);
}

/* ---- the cluster ---- */

/* GPUs within the inner level. Of GB200 and GB300 that is the NVLink domain of up to 72, not the tray of 4: the first
 * part of one that divides all, where 64, the power of two, comes before 72. */
static int64_t inner_devices(const struct measured_run *run)
{
    static const int domains[] = { 64, 72, 48, 36, 32 };
    if (!strstr(run->gpu, "GB200") && !strstr(run->gpu, "GB300"))
        return run->gpus_per_node;
    if (run->n_gpus <= 72)
        return run->n_gpus;
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (run->n_gpus % domains[i] == 0)
            return domains[i];
    return 4;
}

static void put_level(struct json_writer *w, const char *name, int64_t fanout, double bytes_per_s)
{
    json_begin_object(w);
    json_put_string(w, "name", name);
    json_put_int(w, "fanout", fanout);
    if (bytes_per_s > 0)
        json_put_double(w, "bytes_per_s", bytes_per_s);
    json_end_object(w);
}

static bool make_cluster(struct measured_case *out, struct mapping *m, const struct catalogue *catalogue)
{
    const struct measured_run *run = m->run;
    struct json_writer w = { 0 };
    if (!*run->gpu)
        return fail(m->why, "row lacks gpu");
    m->device = measured_device(run->gpu, catalogue->entries, catalogue->count);
    if (!m->device)
        return fail(m->why, "no device %s in the catalogue (\"cleave devices\" lists what is)", run->gpu);
    if (!KNOWN(n_gpus) || !KNOWN(gpus_per_node))
        return false;
    int64_t inner = inner_devices(run), nodes = run->n_gpus / inner;
    if (run->n_gpus > inner && run->n_gpus % inner)
        return fail(m->why, "devices do not fill whole nodes");
    json_begin_format(&w, "cleave-cluster", 1);
    json_put_string(&w, "device", m->device);
    json_write_key(&w, "levels");
    json_begin_array(&w);
    put_level(&w, "node", min_i64(run->n_gpus, inner), 0);
    if (nodes > 1) {
        double bytes_per_s = 0;
        for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
            if (strstr(run->inter_link, networks[i].words))
                bytes_per_s = networks[i].node_bytes_per_s / (double)inner;
        put_level(&w, "cluster", nodes, bytes_per_s);
        if (!*run->inter_link)
            mapping_stand_in(m, "network of the catalogue");
    }
    json_end_array(&w);
    json_end_object(&w);
    return mapping_on_one_line(&out->cluster, &w, m);
}

/* ---- the choices ---- */

static bool choose_dtype(struct measured_case *out, struct mapping *m)
{
    static const char *const fp8[] = { "fp8", "mxfp8", "fp8-rowwise", NULL };
    const char *dtype = m->run->dtype;
    if (!strcmp(dtype, "tf32"))
        return fail(m->why, "dtype tf32");
    bool lacks_bf16 = begins_with(m->device, "v100") || !strcmp(m->device, "t4");
    bool half = lacks_bf16 || is_run_by(m->run, "Megatron-DeepSpeed");
    out->dtype = is_one_of(dtype, fp8) ? "fp8" : *dtype ? dtype : half ? "fp16" : "bf16";
    return true;
}

/* What notes say of layers whose activations go to host memory; a layer of theirs is two here, behind the embedding. */
static void choose_offload(struct text *fix, const struct mapping *m)
{
    static const char words[] = "activation offload to CPU for ";
    const char *at = strstr(m->run->notes, words);
    long layers = at ? strtol(at + strlen(words), NULL, 10) : 0;
    if (strstr(m->run->notes, "parameters offload to CPU"))
        text_add(fix, ",offload=optimizer+parameters");
    if (layers > 0 && layers <= m->run->layers)
        text_printf(fix, ",layer[1-%ld].offload=activations", 2 * layers);
}

/* Adds the operators that one of Megatron-Core's recompute_modules forgets (megatron/core/transformer/
 * transformer_config.py, and where each is checkpointed). What a module makes last nothing reads backward. */
static bool add_module(struct text *operators, const char *name, int length)
{
    static const struct {
        const char *name, *operators;
    } modules[] = {
        { "core_attn", "core" },
        { "layernorm", "norm" },
        { "mla_up_proj", "q+k+v+rope_q+join_k" },
        { "mlp", "gate+up+act" },
        { "moe_act", "expert_act" },
        { "shared_experts", "shared_gate+shared_up+shared_act" },
        { "moe", "dispatch+expert_gate+expert_up+expert_act+expert_down+shared_gate+shared_up+shared_act" },
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if ((int)strlen(modules[i].name) == length && !strncmp(modules[i].name, name, (size_t)length)) {
            text_printf(operators, "%s%s", operators->length > 0 ? "+" : "", modules[i].operators);
            return true;
        }
    return false;
}

/* Modules joined by +. */
static bool choose_modules(struct text *fix, const char *modules)
{
    struct text operators = { 0 };
    bool known = true;
    while (known && *modules) {
        int length = (int)strcspn(modules, "+");
        known = add_module(&operators, modules, length);
        modules += length + (modules[length] == '+');
    }
    if (known)
        text_printf(fix, ",recompute-except=%s", operators.data);
    text_free(&operators);
    return known;
}

/* Adam and AdamW keep as much and cost as much. */
static void choose_optimizer(struct measured_case *out, struct mapping *m)
{
    const char *optimizer = m->run->optimizer;
    char words[128];
    out->narrow_states = strstr(optimizer, "16 bit") != NULL;
    if (strstr(optimizer, "muon"))
        out->optimizer = "muon";
    else if (*optimizer && !strstr(optimizer, "adam")) {
        snprintf(words, sizeof words, "optimizer %.64s as adamw", optimizer);
        mapping_stand_in(m, words);
    }
}

static void choose_recomputation(struct text *fix, struct mapping *m)
{
    static const char *const choices[] = { "none", "full", "selective", NULL };
    const char *recompute = m->run->recompute;
    char words[128];
    int kind = (int)strcspn(recompute, ":");
    if (begins_with(recompute, "selective:") && choose_modules(fix, recompute + kind + 1))
        return;
    if (is_one_of(recompute, choices))
        text_printf(fix, ",recompute=%s", recompute);
    else if (begins_with(recompute, "full:"))
        text_add(fix, ",recompute=full");
    else if (begins_with(recompute, "custom:remat save_qkv_proj")) /* MaxText saves what these three make */
        text_add(fix, ",recompute=full,recompute-except=q+k+v");
    else {
        snprintf(words, sizeof words, "recompute %.*s of single operators as none", kind, recompute);
        mapping_stand_in(m, kind ? words : "recompute not stated: none");
    }
}

static bool choose(struct measured_case *out, struct mapping *m)
{
    const struct measured_run *run = m->run;
    struct text fix = { 0 };
    bool tensor = run->tp > 1, experts = run->n_experts != BLANK && run->ep > 1, late = run->dp_overlap == ANSWER_NO;
    if (!KNOWN(tp) || !KNOWN(pp) || !KNOWN(dp) || !KNOWN(micro_batch) || !KNOWN(global_batch))
        return false;
    if ((double)run->tp * (double)run->pp * (double)run->cp * (double)run->dp != (double)run->n_gpus)
        return fail(m->why, "tp*pp*cp*dp is not the number of devices");
    /* Ranks of context come first, and before them those of a tensor degree that splits no expert. */
    int64_t ranks = run->tp * run->cp;
    bool whole = experts && tensor && run->etp == 1 && run->seq_par == ANSWER_YES && run->ep % ranks == 0 &&
                 run->dp % (run->ep / ranks) == 0;
    bool context = experts && run->ep % run->cp == 0 && run->dp % (run->ep / run->cp) == 0;
    int64_t inside = whole ? ranks : context ? run->cp : 1;
    if (experts && run->dp % (run->ep / inside))
        return fail(m->why, "experts over ranks that are not data ranks (ep does not divide dp)");
    text_printf(&fix, "tp=%lld,pp=%lld,dp=%lld,zero=%lld,micro-batch=%lld", (long long)run->tp, (long long)run->pp,
                (long long)run->dp, (long long)run->zero_stage, (long long)run->micro_batch);
    if (run->seq_par == ANSWER_YES && tensor)
        text_add(&fix, ",sp=true");
    if (run->cp > 1)
        text_printf(&fix, ",cp=%lld,cp-by=cp-ring", (long long)run->cp);
    if (experts)
        text_printf(&fix, ",ep=%lld", (long long)run->ep);
    if (inside > 1)
        text_printf(&fix, ",ep-over=%s", whole ? "tensor" : "context");
    if (says(run, "multi_dist_optimizer_instances") && run->dp % 4 == 0) /* Megatron-LM's tests have two */
        text_printf(&fix, ",hsdp=%lld", (long long)run->dp / 2);
    if (experts && run->etp != BLANK && run->etp != run->tp && !whole)
        mapping_stand_in(m, "etp as tp");
    if (experts && run->etp == BLANK && tensor)
        mapping_stand_in(m, "etp not stated: as tp");
    if (run->vp > 1)
        text_printf(&fix, ",schedule=interleaved,interleave=%lld", (long long)run->vp);
    if (experts && says(run, EXCHANGES_OVERLAP)) /* Megatron-Core has one more in flight, whose passes are paired */
        text_add(&fix, ",extra-in-flight=1");
    choose_recomputation(&fix, m);
    choose_offload(&fix, m);
    choose_optimizer(out, m);
    if (is_run_by(run, "torchtitan") && run->zero_stage == 3 && run->pp > 1)
        text_add(&fix, ",reshard=false"); /* its default where there are stages */
    for (int i = 0; late_reducers[i] && run->dp_overlap == ANSWER_NONE; i++)
        late = late || is_run_by(run, late_reducers[i]);
    if (late)
        text_add(&fix, ",bucket=1TiB"); /* one bucket of everything: it is full when the backward pass ends */
    out->framework = m->framework;
    for (size_t i = sizeof frameworks / sizeof *frameworks; i-- > 0 && !m->framework;)
        if (is_run_by(run, frameworks[i].words) && (!frameworks[i].says || says(run, frameworks[i].says)) &&
            (!frameworks[i].also || says(run, frameworks[i].also)) &&
            (frameworks[i].fused == ANSWER_NONE || frameworks[i].fused == (enum answer)run->flash_attn))
            out->framework = frameworks[i].framework;
    if (out->framework && run->lora_rank != BLANK && !m->framework && strcmp(out->framework, "deepspeed") == 0)
        out->framework = "deepspeed-transformers"; /* adapters are of peft's, and in modules of transformers */
    if (!out->framework && *run->framework) {
        mapping_stand_in(m, "its framework is not known: as cleave");
        out->unknown_framework = true;
    }
    out->framework = out->framework ? out->framework : "cleave";
    out->batch = run->global_batch;
    out->sequence = run->seq_len;
    out->fix = fix.failed ? NULL : arena_strdup(m->arena, fix.data);
    text_free(&fix);
    return out->fix || fail_memory(m->why);
}

/* In single quotes, as a shell takes it. */
static bool keep_words(struct measured_case *out, struct mapping *m)
{
    struct text command = { 0 };
    text_add(&command, "cleave estimate ");
    text_add_quoted(&command, out->model);
    text_add(&command, " --cluster ");
    text_add_quoted(&command, out->cluster);
    text_printf(&command, " --batch %lld --seq %lld --dtype ", (long long)out->batch, (long long)out->sequence);
    text_add_quoted(&command, out->dtype);
    text_add(&command, " --framework ");
    text_add_quoted(&command, out->framework);
    if (out->optimizer)
        text_printf(&command, " --optimizer %s", out->optimizer);
    if (out->narrow_states)
        text_printf(&command, " --moments bf16 --master-weights none --gradient-dtype %s", out->dtype);
    text_printf(&command, " --fix %s --json", out->fix);
    out->command = command.failed ? NULL : arena_strdup(m->arena, command.data);
    out->standin = m->standin.failed ? NULL : arena_strdup(m->arena, m->standin.data ? m->standin.data : "");
    text_free(&command);
    return (out->command && out->standin) || fail_memory(m->why);
}

bool measured_case_of(struct measured_case *out, const struct measured_run *run, const char *framework,
                      const struct catalogue *catalogue, struct arena *arena, struct error *why)
{
    struct mapping m = { .run = run, .arena = arena, .why = why, .framework = framework };
    struct measured_case made = { 0 };
    bool good = measured_model(&made, &m) && make_cluster(&made, &m, catalogue) && choose_dtype(&made, &m) &&
                choose(&made, &m) && keep_words(&made, &m);
    text_free(&m.standin);
    made.device = m.device;
    if (good)
        *out = made;
    return good;
}
