#include "cli/outputs.h"
#include "cli/printed_fields.h"

/* Their writers stand in the verbs' files; tests/test_cli_contract.py holds what these print against the tables. */
#define FORMAT(name_) TEXT("format", "\"" name_ "\"."), WHOLE("version", "1.")

static const struct json_field predicted_fields[] = {
    NUMBER("step_s", "Seconds of a step."),
    NUMBER("tokens_per_s_per_device", "Tokens of a step over its time and all devices."),
    NUMBER("mfu", "What the model asks for of the devices' peak, from 0 to 1; 0 where no peak is known."),
    TRUTH("fits", "Whether no stage needs more than its devices have."),
    NODE("peak_bytes", "Of one device, by stage."),
    NODE("available_bytes", "For plans on one device: a number, or by stage where stages differ."),
    NODE("host_bytes", "Of host memory for one device, by stage; absent where nothing is offloaded."),
    WHOLE("host_available_bytes", "Host memory of one device, where it is known."),
    WHOLE("fullest_stage", "The one that has least room."),
    NODE("fullest_stage_bytes", "What its bytes are: items.memory."),
    WHOLE("micro_batches_simulated", "Where the step was simulated by fewer than it has; absent: all were."),
    NODE("breakdown_s", "Seconds of the step by item: items.time."),
    NODE("durations", "Where they come from, true or false each: {analytic, measured, extrapolated}."),
    NODE("accuracy", "How published runs of its kind were predicted: {words, runs, median, low, high}, the last three "
                     "as shares, where there are runs."),
};
static const struct json_field context_fields[] = {
    NODE("model", "plan.origin."),
    NODE("cluster", "plan.origin."),
    NODE("profile", "plan.origin, or null: {source, name, hash}, of several with commas between."),
    NODE("framework", "plan.origin; absent: cleave itself."),
    TEXT("target", "What it can be told to; absent: nothing was asked."),
    NODE("options", "plan.origin of decisions that were typed (cleave estimate), or null."),
    TEXT("reserve", "Bytes of each device that were kept from it, where that was asked for."),
    TEXT("cleave", "The version that wrote it."),
};
#define CHOICE(ID, member, name, SCOPE, KIND, least, most, usual, BY_DEFAULT, VALUE, doc) NODE(name, doc "."),
static const struct json_field space_fields[] = {
#include "planner/space/choices.def"
};
#undef CHOICE
static const struct json_field time_fields[] = {
    NUMBER("compute", "Kernels of forward and backward passes, in seconds as all of these."),
    NUMBER("recompute", "Kernels of forward passes that are done again."),
    NUMBER("tp", "Transfers of tensor parallelism that nothing hides."),
    NUMBER("dp", "Of gradients and weights among data ranks."),
    NUMBER("cp", "Of context parallelism."),
    NUMBER("ep", "Of tokens to experts and back."),
    NUMBER("pp", "Messages between stages."),
    NUMBER("bubble", "A stage waits for others."),
    NUMBER("optimizer", "The update, with its norm."),
    NUMBER("host", "Copies to host memory and back."),
    NUMBER("issue", "The device waits for the host to issue work."),
};
static const struct json_field memory_fields[] = {
    WHOLE("weights", "Stored weights, in bytes as all of these."),
    WHOLE("optimizer", "The optimizer's states."),
    WHOLE("gradients", "Accumulated gradients of weights."),
    WHOLE("activations", "Kept for backward passes, or in use."),
    WHOLE("logits", "With probabilities and their gradients."),
    WHOLE("gathered", "Weights and inputs that ranks gathered."),
    WHOLE("transient", "Gradients of values, parts of transfers."),
    WHOLE("workspace", "Of kernels."),
    WHOLE("gaps", "That the layout leaves."),
};
static const struct json_field check_fields[] = {
    FORMAT("cleave-check"),
    TRUTH("holds", "True: the certificate does. Else exit 4, and the message says where not."),
    WHOLE("certificate_version", "Of the plan file."),
    NUMBER("bound_s", "No plan of the space is shorter, by the formula."),
    NUMBER("simulated_bound_s", "Nor in simulation."),
    NUMBER("formula_s", "Of the plan, by the formula."),
    NUMBER("step_s", "Of the plan, simulated."),
    WHOLE("configurations", "Of the space."),
    WHOLE("beside", "Further ones, of which the bound says nothing."),
    WHOLE("by_bound", "Excluded since their bounds are longer."),
    WHOLE("by_memory", "Excluded since nothing of them fits."),
    WHOLE("by_cut", "Solved."),
    WHOLE("undecided", "Left open, by their bounds."),
    WHOLE("refused", "That cannot be lowered."),
    WHOLE("left", "That the search did not come to."),
    WHOLE("ideals", "Of a model with branches: the places where it may be cut."),
    NUMBER("orders_bound_s", "Of a model with branches: the bound over all orders of its layers."),
};
static const struct json_field simulation_fields[] = {
    FORMAT("cleave-simulation"),
    NUMBER("step_s", "Seconds of the step."),
    NODE("stages",
         "One for each stage: {stage, devices, peak_bytes, host_bytes, promised_bytes, outside_arena_bytes, "
         "breakdown_s}: its devices in words, the bytes of one of them as laid out, of host memory likewise, as the "
         "plan file promises and beside the arena, and items.time."),
};
static const struct json_field recommendation_fields[] = {
    FORMAT("cleave-recommendation"),
    TEXT("model", "Its name."),
    WHOLE("batch", "Sequences of a step."),
    WHOLE("sequence", "Tokens of a sequence."),
    NUMBER("steps", "Of all of the training."),
    NUMBER("tokens", "Of all of it, where that was asked for."),
    NUMBER("target_s", "Seconds that it may take in all, where that was asked for."),
    NUMBER("budget_dollars", "Dollars that it may cost, likewise."),
    TEXT("goal", "What was sought: smallest, cheapest or fastest."),
    TEXT("best", "The cluster that was found, or null."),
    WHOLE("searched", "Of the candidates."),
    NODE("candidates", "All that were looked at: recommendation.candidate."),
};
static const struct json_field candidate_fields[] = {
    TEXT("cluster", "Its short form."),
    WHOLE("devices", "How many it has."),
    TEXT("verdict", "Whether it serves, or why it was left out."),
    TEXT("why", "What a search of it failed by; absent where none did."),
    TEXT("widened", "Choices by which the space became wider, since nothing fits without; absent where it did not."),
    TRUTH("narrow", "No wider space was searched, as another cluster serves better; absent: not so."),
    NUMBER("bound_step_s", "No step on it is shorter, by the devices' peak."),
    NUMBER("step_s", "Of the plan that was found; absent with all below: there is none."),
    NUMBER("tokens_per_s", "Of all devices."),
    WHOLE("peak_bytes", "Of one device."),
    NUMBER("total_s", "Of all steps."),
    NUMBER("total_dollars", "Of all steps, where prices are known; as dollars_per_hour, dollars_per_step and "
                            "dollars_per_1e9_tokens (plan.cost)."),
    NUMBER("total_kwh", "Of all steps, where watts are known; as watts, kwh_per_step and kwh_per_1e9_tokens."),
};
static const struct json_field step_fields[] = {
    WHOLE("step", "From 1."),
    NUMBER("loss", "Over all tokens of the step."),
    NUMBER("step_s", "Seconds that it took."),
    NUMBER("tokens_per_s", "Of all ranks."),
    NODE("summary", "Of the last line, which has nothing else: run.summary."),
};
static const struct json_field summary_fields[] = {
    NUMBER("step_s_median", "Of all steps but the first."),
    NUMBER("predicted_step_s", "Of the plan."),
    NUMBER("error", "The prediction over the median, less 1."),
    NUMBER("first_loss", "Of the first step."),
    NUMBER("last_loss", "Of the last one."),
    NODE("peak_bytes", "That were in use, by rank."),
    NODE("predicted_peak_bytes", "By rank."),
    WHOLE("breakdown_rank", "The rank of the next four."),
    WHOLE("breakdown_stage", "Its stage."),
    NUMBER("timeline_step_s", "Of the step that was recorded."),
    NODE("breakdown_s", "What was measured of it: items.time."),
    NODE("predicted_breakdown_s", "Likewise predicted."),
    NODE("ranks", "All of them: {rank, stage, breakdown_s, predicted_breakdown_s}."),
};
static const struct json_field comparison_fields[] = {
    FORMAT("cleave-comparison"),
    TEXT("model", "Its name."),
    TEXT("cluster", "Its name."),
    NUMBER("mean_error", "Mean of the errors' sizes over the plans that ran; or null."),
    NUMBER("reference_product_s", "Of the product that is timed before and after runs, in the median; or null."),
    NUMBER("reference_drift", "How much longer its longest time is than its shortest, as a share; or null."),
    NUMBER("profile_reference_product_s", "As the profile has it; or null."),
    NODE("plans", "comparison.plan."),
    NODE("frontier", "With --pareto: {devices, step_s, peak_bytes, plan}, the plan in words."),
    NODE("scaling", "On fewer and more devices, likewise."),
    NODE("provenance", "What was used, by name: command, machine, cleave, compiler, matmuls, transport, time, runs, "
                       "drift of the machine, profile, software of the profile, profile made."),
};
static const struct json_field compared_fields[] = {
    TEXT("name", "The file's, or what it is."),
    TEXT("description", "Its decisions in a line."),
    TRUTH("chosen", "Whether the search chose it."),
    TEXT("failure", "Why it did not run, or null."),
    NUMBER("predicted_step_s", "Seconds."),
    NUMBER("measured_step_s", "Median of the timed steps; or null."),
    NUMBER("measured_spread", "Their interquartile range over their median; or null."),
    WHOLE("steps", "Of each run."),
    WHOLE("timed_steps", "Of all runs, without those that warm up."),
    WHOLE("runs", "That count."),
    WHOLE("runs_left_out", "Since the machine was not steady."),
    NUMBER("error", "The prediction over the measured step, less 1; or null."),
    WHOLE("tokens_per_step", "Of all ranks."),
    NODE("peak_bytes", "Measured, by rank."),
    NODE("predicted_peak_bytes", "By rank."),
    TRUTH("fits", "As predicted."),
    NUMBER("mfu", "Of the measured step; or null."),
    NODE("predicted_breakdown_s", "items.time."),
    NODE("measured_breakdown_s", "Likewise; absent: nothing was measured."),
    NODE("losses", "Of the last run's steps, where it has them."),
    NODE("predicted_peak_bytes_by_stage", "Where all ranks of a stage are alike and too many to list"),
    NODE("rounds",
         "Of each run: {counts, first_step_s, step_s, reference_before_s, reference_after_s}: whether it counts, its "
         "first step, the others, and the reference product before and after."),
    NODE("plan_file", "The whole plan file."),
};
static const struct json_field validation_fields[] = {
    FORMAT("cleave-validation"),
    TEXT("by", "The column whose values make groups."),
    NODE("rows", "validation.row."),
    NODE("summary", "validation.errors of each group, by its name."),
    NODE("total", "validation.errors of all."),
    NODE("out_of_memory",
         "Runs that were short of memory: {rows, predicted, ran, ran_predicted}: how many, of how many "
         "that was predicted, how many others ran, of how many the contrary was."),
    NODE("rank", "Groups that differ in configuration alone: {groups, agreed, mean_regret}: in how many the predicted "
                 "best is, and how much longer it took than the measured best in the mean, as a share."),
    NODE("skipped", "{by, reason, rows}."),
};
static const struct json_field row_fields[] = {
    TEXT("id", "The row's."),
    TEXT("by", "Its group."),
    NUMBER("predicted_step_s", "Seconds; or null."),
    NUMBER("measured_step_s", "Seconds; or null."),
    NUMBER("error", "The first over the second, less 1; or null."),
    WHOLE("predicted_peak_bytes", "Of one device; or null."),
    WHOLE("measured_peak_bytes", "Of one device; or null."),
    TRUTH("counts", "Whether it is summed up."),
    TRUTH("out_of_memory", "Whether the run was short of memory."),
    TRUTH("fits", "As predicted."),
    TEXT("standin", "What stands for what the row does not say, or estimate cannot express; or null."),
    TEXT("skipped", "Why it was not predicted; or null."),
};
static const struct json_field error_fields[] = {
    WHOLE("rows", "Whose steps are compared."),
    NUMBER("mape", "Mean of the errors' sizes, as a share as all of these."),
    NUMBER("median_error", "Median of their sizes."),
    NUMBER("signed_median_error", "Median with their signs."),
    NUMBER("max_error", "The largest size."),
    WHOLE("memory_rows", "Whose memory is compared; with memory_mape, memory_median_error, memory_signed_median_error "
                         "and memory_max_error of it."),
};
static const struct json_field calibrated_fields[] = {
    FORMAT("cleave-calibrated"),
    TEXT("source", "The files, and their runs."),
    WHOLE("rows", "Runs that were fitted to."),
    NODE("before", "Without corrections: {mape, median_error}, as in validation.errors."),
    NODE("after", "With them, likewise."),
    NODE("like_runs", "Of runs that are told by others like them: {runs, mape, median_error}."),
    NODE("held_out", "With --hold-out, of each group by corrections of all others."),
    NODE("corrections", "calibration.correction, each speed as a list of itself and, with --hold-out, its range."),
};
static const struct json_field dimension_fields[] = {
    NODE("dimensions",
         "Of cleave dimensions: {name, doc, lane, splits_batch, shards}: what plan files call it, what it "
         "does, whose lane its transfers take, whether its ranks have other sequences, whether ZeRO may "
         "share out weights over them."),
    NODE("schedules",
         "Of cleave schedules: {name, doc, asynchronous, in_flight, staleness, searched, proven, "
         "interleaves}: micro-batches in flight and versions of weights in words; whether a search tries it "
         "unasked, and its proof speaks of it."),
    NODE("devices", "Of cleave devices: device, each with its name."),
};
static const struct json_field doctor_fields[] = {
    FORMAT("cleave-doctor"),
    TEXT("cleave", "The version."),
    TEXT("machine", "Processor, memory and system in words."),
    NODE("matmuls", "What multiplies on the processor: {library, kernels}."),
    NODE("catalogue", "{folder, device_types}: where it lies, and how many it has."),
    NODE("modules", "{name, found, path} of each, or why it was not found (reason)."),
    NODE("gpu", "{found, reason or description}; likewise nccl and cupti."),
    NODE("nccl", "As gpu."),
    NODE("cupti", "As gpu."),
    TEXT("gpu_libraries", "What of cuBLAS and cuDNN is used, in words."),
};

#define DOC(verb_) "Part of what `cleave " verb_ " --json` prints."
#define IN_PLANS "Part of a plan file, which `cleave plan`, `estimate` and `show --json` print."
const struct json_format output_formats[] = {
    JSON_FORMAT("plan.predicted", predicted_fields, IN_PLANS),
    JSON_FORMAT("plan.context", context_fields, IN_PLANS),
    JSON_FORMAT("plan.certificate.space", space_fields,
                IN_PLANS " Of each choice that was not left open its values; in parentheses what is usual."),
    JSON_FORMAT("items.time", time_fields, "Items of a step's time, wherever they stand."),
    JSON_FORMAT("items.memory", memory_fields, "Items of a device's memory, wherever they stand."),
    JSON_FORMAT("check", check_fields, DOC("check")),
    JSON_FORMAT("simulation", simulation_fields, DOC("simulate")),
    JSON_FORMAT("recommendation", recommendation_fields, DOC("recommend")),
    JSON_FORMAT("recommendation.candidate", candidate_fields, DOC("recommend")),
    JSON_FORMAT("run.step", step_fields, "A line of what `cleave run --json` prints."),
    JSON_FORMAT("run.summary", summary_fields, DOC("run")),
    JSON_FORMAT("comparison", comparison_fields, DOC("compare")),
    JSON_FORMAT("comparison.plan", compared_fields, DOC("compare")),
    JSON_FORMAT("validation", validation_fields, DOC("validate")),
    JSON_FORMAT("validation.row", row_fields, DOC("validate")),
    JSON_FORMAT("validation.errors", error_fields, DOC("validate")),
    JSON_FORMAT("calibrated", calibrated_fields, DOC("calibrate")),
    JSON_FORMAT("listing", dimension_fields, "What `cleave dimensions`, `schedules` and `devices --json` print."),
    JSON_FORMAT("doctor", doctor_fields, DOC("doctor")),
    { 0 },
};
