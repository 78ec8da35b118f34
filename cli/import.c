#include "cli/inputs.h"
#include "cli/weights_check.h"
#include "host/galvatron_folder.h"
#include "profiler/from_galvatron.h"
#include <stdlib.h>
#include <string.h>

struct import_options {
    const char *output, *from, *as, *adapter, *quantized, *safetensors, *model, *cluster;
    int64_t sequence;
    bool multi_token, quantized_experts;
};
static const struct option options[] = {
    TEXT_OPTION("from", offsetof(struct import_options, from), "NAME",
                "hf: the operand is a model's file, as without it (config.json, or calculon's application); galvatron: "
                "the operands are the folders of its "
                "profiling files, and a profile is made of them"),
    TEXT_OPTION("model", offsetof(struct import_options, model), "MODEL", "with --from galvatron: what was measured"),
    TEXT_OPTION("cluster", offsetof(struct import_options, cluster), "CLUSTER",
                "with --from galvatron: where it was measured"),
    INT_OPTION(
        "seq", offsetof(struct import_options, sequence), "TOKENS", 1, 1 << 27,
        "tokens per sequence, where the model's file says none or another; with --from galvatron: which sequence "
        "length, if the files have several"),
    TEXT_OPTION("as", offsetof(struct import_options, as), "FAMILY",
                "reads a config.json of an unknown model_type as if it said this one"),
    FLAG_OPTION(
        "mtp", offsetof(struct import_options, multi_token),
        "with the blocks that predict further tokens, which a config.json may name (DeepSeek-V3, GLM-4.5); without "
        "it they are left out, as the published counts leave them out"),
    TEXT_OPTION("adapter", offsetof(struct import_options, adapter), "FILE",
                "PEFT's adapter_config.json: the model is frozen and has these low-rank adapters; the one beside the "
                "model's file if absent"),
    TEXT_OPTION("quantized", offsetof(struct import_options, quantized), "FORM",
                "what the frozen matrices of a model with adapters are stored in (QLoRA), whatever quantization_config "
                "says: nf4, nf4-double (its scales quantized in turn), int4 (GPTQ, AWQ), int8, none"),
    FLAG_OPTION("quantized-experts", offsetof(struct import_options, quantized_experts),
                "experts' matrices are stored so, too (transformers before 5, axolotl's quantize_moe_experts)"),
    TEXT_OPTION("safetensors", offsetof(struct import_options, safetensors), "FILE",
                "holds the parameters against the headers of this file, or of those that an index names"),
    OUTPUT_OPTION(offsetof(struct import_options, output),
                  "native model JSON, or the profile; standard output when absent"),
};

/* How large the model is, to be held against what its makers say. */
static bool say_count(struct inputs *in, const char *safetensors, struct error *err)
{
    struct graph *graph = NULL;
    if (!in->reading.foreign && !safetensors)
        return true;
    if (!graph_build(&graph, in->model, 1, 1, 1, err)) /* the count is the same for any sequence */
        return false;
    int64_t trained = graph_trainable_count(graph);
    fprintf(in->cli->talk, "%s: %lld parameters, sequences of %lld tokens\n", in->model->name,
            (long long)graph_parameter_count(graph), (long long)in->model->sequence);
    if (trained < graph_parameter_count(graph))
        fprintf(in->cli->talk, "  of them %lld are trained\n", (long long)trained);
    bool ok = !safetensors || weights_check(in, graph, safetensors, err);
    graph_free(graph);
    return ok;
}

static bool import_model(struct inputs *in, const struct import_options *o, const char *const *operands,
                         int operand_count, struct error *err)
{
    size_t length = 0;
    if (operand_count > 1)
        return fail(err, "cleave import: expected 1 operand, found %d; several folders belong to --from galvatron",
                    operand_count);
    if (o->model || o->cluster)
        return fail(err, "cleave import: --model and --cluster belong to --from galvatron");
    in->reading.adapter_name = o->adapter;
    if (o->adapter && !inputs_text(in, o->adapter, &in->reading.adapter, &in->reading.adapter_length, err))
        return false;
    if (o->quantized && !inputs_word("--quantized", o->quantized, quantized_names, &in->reading.quantized, err))
        return false;
    in->reading.quantized += o->quantized != NULL;
    in->reading.quantizes_experts = o->quantized_experts;
    in->reading.as = o->as;
    in->reading.sequence = o->sequence;
    in->reading.multi_token = o->multi_token;
    if (!inputs_model(in, operands[0], err) || !say_count(in, o->safetensors, err))
        return false;
    char *text = model_write(in->model, &length);
    return inputs_hand_out(in->cli, o->output, text, length, err);
}

static void say_use(const struct inputs *in, const struct import_options *o, const struct profile *profile,
                    int64_t sequence)
{
    fprintf(in->cli->talk,
            "%d computations (fitted) and %d curves; to plan with it: cleave plan %s --cluster %s --seq %lld --dtype "
            "bf16 --profile %s\n",
            profile->compute_count, profile->curve_count, o->model, o->cluster, (long long)sequence,
            inputs_is_stdout(o->output) || !o->output ? "FILE" : o->output);
}

static bool import_galvatron(struct inputs *in, const struct import_options *o, const char *const *operands,
                             int operand_count, struct error *err)
{
    struct galvatron_text texts[GALVATRON_FILES];
    struct galvatron_profile *peer = arena_alloc(&in->arena, 1, sizeof *peer);
    struct profile *profile = NULL;
    size_t length = 0;
    if (!peer)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!o->model || !o->cluster)
        return fail(err, "cleave import: --from galvatron needs --model and --cluster: what was measured, and where "
                         "(cleave devices)");
    if (!galvatron_folder_read(texts, operands, operand_count, &in->arena, err) ||
        !galvatron_read_profile(peer, texts, o->sequence, err) || !inputs_model(in, o->model, err) ||
        !inputs_cluster(in, o->cluster, err) || !profile_from_galvatron(&profile, peer, in->model, in->cluster, err))
        return false;
    char *text = profile_write(profile, &length);
    bool ok = inputs_hand_out(in->cli, o->output, text, length, err);
    if (ok)
        say_use(in, o, profile, peer->sequence);
    profile_free(profile);
    return ok;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct import_options *o = given;
    struct inputs in = { .cli = cli };
    enum { FROM_HF, FROM_GALVATRON };
    static const char *const sources[] = { [FROM_HF] = "hf", [FROM_GALVATRON] = "galvatron", NULL };
    int source = FROM_HF;
    if (!o->from || inputs_word("cleave import: --from", o->from, sources, &source, err)) {
        if (source == FROM_GALVATRON)
            import_galvatron(&in, o, operands, operand_count, err);
        else
            import_model(&in, o, operands, operand_count, err);
    }
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_import = {
    .name = "import",
    .summary = "turns a foreign model description into native JSON, or foreign measurements into a profile",
    .usage =
        "FILE|FOLDER... [--from hf] [--as FAMILY] [--seq TOKENS] [--mtp] | [--from galvatron --model MODEL --cluster "
        "CLUSTER] [-o FILE]",
    .examples = "  cleave import config.json -o model.json   a Hugging Face config.json\n"
                "  cleave import config.json --seq 8192 --as llama -o model.json   of an unknown model_type\n"
                "  cleave import --from galvatron configs hardware_configs --model llama-2-7b --cluster "
                "1x8:a100-sxm-80 -o profile.json\n",
    .min_operands = 1,
    .max_operands = 4,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct import_options),
    .run = run,
};
