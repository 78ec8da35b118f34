/* The planner for programs that embed it. Texts in, texts out: no files, no printing, no threads, no global state.
 *
 *     struct cleave_request request = { .model_name = "gpt2.json", .model = text, .model_length = length,
 *                                       .cluster = "1x8:my-gpu", .devices = &device, .device_count = 1, .batch = 64 };
 *     struct cleave_answer answer;
 *     if (cleave_plan(&request, &answer) == 0)
 *         puts(answer.plan);
 *     else
 *         fputs(answer.message, stderr);
 *     cleave_answer_free(&answer);
 */
#ifndef CLEAVE_H
#define CLEAVE_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A device of the catalogue: its name and its JSON (`cleave schema device`). */
struct cleave_device { const char *name, *json; size_t length; };

struct cleave_request {
    const char *model_name, *model;        /* name for messages; native JSON or a Hugging Face config.json */
    size_t model_length;
    const char *cluster;                   /* the short form or a cluster JSON */
    const struct cleave_device *devices;   /* catalogue from which the cluster's type is taken */
    int device_count;
    const char *profile;                   /* profile JSON or NULL: analytic numbers */
    size_t profile_length;
    int64_t batch;                         /* sequences per step */
    int64_t sequence;                      /* tokens per sequence; 0: the model's own */
    const char *dtype;                     /* "bf16", "fp16", "fp32", "fp8"; NULL: bf16 */
};

struct cleave_answer {
    char *plan;         /* the plan file, or NULL */
    size_t plan_length;
    double step_s;      /* predicted */
    char message[2048]; /* why there is no plan */
};

/* The plan clips gradients to global norm 1. Returns 0: answer->plan is filled. Else an exit code of the program: 1 no
 * memory, 2 bad input, 3 nothing fits, 70 a bug. */
int cleave_plan(const struct cleave_request *request, struct cleave_answer *answer);
void cleave_answer_free(struct cleave_answer *answer);
const char *cleave_version(void);

#ifdef __cplusplus
}
#endif
#endif
