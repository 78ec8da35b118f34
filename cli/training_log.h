/* Steps and peak memory from the lines that training programs print. */
#ifndef CLEAVE_CLI_TRAINING_LOG_H
#define CLEAVE_CLI_TRAINING_LOG_H
#include "base/arena.h"
#include "base/error.h"
#include <stdint.h>

/* Whose lines a log has: where of several, as Megatron-DeepSpeed prints its own beside DeepSpeed's, the first of these
 * tells the step. */
enum training_log_kind {
    TRAINING_LOG_MEGATRON,
    TRAINING_LOG_TORCHTITAN,
    TRAINING_LOG_DEEPSPEED,
    TRAINING_LOG_TRANSFORMERS, /* its Trainer's progress bar, and what it prints at the end */
    TRAINING_LOG_COUNT
};
extern const char *const training_log_names[TRAINING_LOG_COUNT + 1];

struct training_log {
    enum training_log_kind kind;
    int step_count; /* that were told */
    /* One of these, the median of those after the first, which warms up; the others are 0. */
    double step_s;        /* Megatron's, transformers' */
    double tokens_per_s;  /* torchtitan's, of one device */
    double samples_per_s; /* DeepSpeed's, of all devices */
    int64_t batch;        /* sequences of a step, as Megatron and transformers say it; 0: not said */
    int64_t devices;      /* Megatron's world size; 0: not said */
    const char *how;      /* the step was come by, where a line does not say it; else "" */
    int64_t peak_bytes;   /* 0: not told */
};
/**
 * Reads the lines that are known, wherever they stand in the log, colours or not. Refused: a log without a step or of
 * the first alone, and, with line and column, one with a number that is none.
 */
bool training_log_read(struct training_log *out, const char *name, const char *text, size_t length, struct error *err);
/* Seconds of a step of so many sequences of so many tokens on so many devices. */
double training_log_step_s(const struct training_log *log, int64_t batch, int64_t sequence, int devices);
#endif
