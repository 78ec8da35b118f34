#include "cli/free_look.h"
#include "base/text.h"
#include "host/parallel.h"

/* What is guessed to have more instructions is not simulated for the sake of one line: a pipeline of 64 stages of
 * deepseek-v3 took 1.6 s of processor. The closed form speaks then. Nor is all proven, which takes 1.3 s there: what a
 * third of the work of a search leaves open counts by its bound. */
enum { LOOK_INSTRS = 50000, LOOK_WORK = 4000 };
/* Where more is left unproven, a plan without limits may well be so much shorter, and nobody knows what they cost. */
enum { UNKNOWN_PERCENT = 2 };

static void *look_around(void *self)
{
    struct free_look *look = self;
    look->good = search_run(&look->result, &look->model, look->facts, &look->options, &look->err);
    return NULL;
}

static void await(struct free_look *look)
{
    if (look->apart)
        pthread_join(look->thread, NULL);
    else
        look_around(look);
    look->apart = false;
}

/* Waits for what is still looked for, and forgets it. */
static void drop(struct free_look *look)
{
    if (look->apart)
        await(look);
    search_result_free(look->result);
    look->result = NULL;
    look->err = (struct error){ 0 };
    look->begun = false;
}

void free_look_begin(struct free_look *look, const struct inputs *in, const struct search_options *options,
                     int64_t below_ns)
{
    struct space usual = space_default(options->space.batch, options->space.sequence, options->space.dtype);
    drop(look);
    if (look->of != in->model || look->facts != &in->facts)
        price_shelf_close(&look->prices);
    usual.clip_norm = options->space.clip_norm;
    usual.optimizer = options->space.optimizer;
    space_set_bucket_bytes(&usual, space_bucket_bytes(&options->space));
    space_as_run(&usual, in);
    look->of = in->model;
    look->model = *in->model;
    look->model.whole_blocks = false;
    look->facts = &in->facts;
    struct search_options *own = &look->options;
    *own = *options;
    own->prices = &look->prices; /* whoever searches may be done with others before the look is over */
    own->paces = NULL;
    own->rates = 1;
    own->space = usual;
    own->top = 1;
    own->no_advice = own->thrifty = own->paced = own->any_plan = true;
    own->most_instrs = LOOK_INSTRS;
    own->proof_work = LOOK_WORK;
    own->skip |= 1u << PART_FAMILIES | 1u << PART_CLIMB;
    own->worth_ns = own->below_ns = below_ns;
    look->begun = true;
    if (!look->timed && workers_at_once(&options->calls.workers) > 1) {
        own->calls.progress = NULL; /* is told by one thread */
        look->apart = thread_start(&look->thread, look_around, look, "a look at plans without limits", NULL);
    }
}

void free_look_free(struct free_look *look)
{
    drop(look);
    price_shelf_close(&look->prices);
    *look = (struct free_look){ .timed = look->timed };
}

static int64_t found_ns(const struct free_look *look)
{
    return look->good && look->result->feasible ? look->result->plans[0].estimate->prediction.step_ns : INT64_MAX;
}

bool free_look_say(struct free_look *look, const struct cli *cli, const struct inputs *in,
                   const struct search_options *options, int64_t step_ns, int64_t formula_ns, struct error *err)
{
    char number[TEXT_NUMBER_BYTES], own[TEXT_NUMBER_BYTES];
    if (look->begun)
        await(look);
    bool beyond = found_ns(look) >= step_ns; /* of use is only what is shorter than the plan */
    if (!look->begun || (look->good && beyond && (look->options.below_ns < step_ns || found_ns(look) < INT64_MAX))) {
        free_look_begin(look, in, options, step_ns);
        await(look);
    }
    if (!look->good)
        return fail_with(err, &look->err);
    const struct certificate *certificate = &look->result->certificate;
    int64_t bound_ns = certificate->bound_ns;
    if (found_ns(look) < step_ns)
        fprintf(cli->out, "its limits cost %.1f %% or more: without them %s\n",
                100 * ((double)step_ns / (double)found_ns(look) - 1), text_duration_ns(number, found_ns(look)));
    else if (certificate->ended || bound_ns <= 0)
        fprintf(cli->out, "what its limits cost is not known: the look at plans without them was cut short\n");
    else if (bound_ns < formula_ns - formula_ns / 100 * UNKNOWN_PERCENT)
        fprintf(
            cli->out,
            "what its limits cost is not known: a short look found no shorter plan without them, and by the formula "
            "none is ruled out above %s (this one takes %s by it); the same command with --framework %s in place of "
            "--target looks longer\n",
            text_duration_ns(number, bound_ns), text_duration_ns(own, formula_ns), in->framework.name);
    else if (bound_ns < formula_ns)
        fprintf(cli->out,
                "its limits cost nothing that a short look found; by the formula no plan without them is more than "
                "%.1f %% shorter\n",
                100 * ((double)formula_ns / (double)bound_ns - 1));
    else
        fprintf(cli->out, "its limits cost nothing: without them no plan is shorter by the formula\n");
    return true;
}
