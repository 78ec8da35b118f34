#include "executor/run_options.h"
#include "executor/backends.h"
#include <math.h>

static const double PI = 3.14159265358979323846;

struct run_options run_options_default(void)
{
    return (struct run_options){ .step_count = 10,
                                 .device = &device_cpu,
                                 .learning_rate = 3e-4,
                                 .floor_rate = 3e-5,
                                 .warmup_steps = 0,
                                 .decay_steps = 0,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8,
                                 .weight_decay = 0.1,
                                 .timeout_s = 60,
                                 .mute_instr = -1 };
}

double run_learning_rate(const struct run_options *o, int64_t step)
{
    if (step <= o->warmup_steps)
        return o->learning_rate * (double)step / (double)o->warmup_steps;
    if (o->decay_steps <= o->warmup_steps)
        return o->learning_rate;
    double part = fmin(1, (double)(step - o->warmup_steps) / (double)(o->decay_steps - o->warmup_steps));
    return o->floor_rate + (o->learning_rate - o->floor_rate) * (1 + cos(PI * part)) / 2;
}
