#include "base/num.h"
#include "planner/program/schedule.h"

/* Counts time in slots of one pass each, as if all took as long. A micro-batch goes down one stage per slot and comes
 * back up, the next one follows two slots later. So a stage has forwards of the first copy and backwards of the second
 * in one of every two slots, forwards of the second copy and backwards of the first in the other; half as many
 * micro-batches as stages of either kind, then as many of the other. */
static struct action pass_of(const struct schedule_place *place, int chunk, int number)
{
    int half = place->stages / 2, round = number / place->stages, at = number % place->stages;
    bool forward = at < half;
    return (struct action){ .kind = forward ? ACTION_FORWARD : ACTION_BACKWARD,
                            .chunk = forward ? chunk : 1 - chunk,
                            .micro = 2 * (round * half + at % half) + (forward ? chunk : 1 - chunk) };
}

static int order(const struct schedule_place *place, struct action *out)
{
    int begin[2] = { place->stage, place->stages - 1 - place->stage }, count = 0;
    for (int slot = 0; out && count < 2 * place->micro_count; slot++)
        for (int chunk = 0; chunk < 2; chunk++) {
            int since = slot - begin[chunk];
            if (since >= 0 && since % 2 == 0 && since / 2 < place->micro_count)
                out[count++] = pass_of(place, chunk, since / 2);
        }
    return 2 * place->micro_count;
}

static int in_flight(const struct schedule_place *place)
{
    int half = place->stages / 2;
    return min_int(half, place->stages - place->stage) + min_int(half, place->stage + 1);
}

/* Li and Hoefler 2021 (Chimera); of more micro-batches than stages their direct concatenation. */
extern const struct schedule schedule_chimera;
const struct schedule schedule_chimera = {
    .name = "chimera",
    .doc = "two copies of the model, one from the first stage to the last, one back: half the idle time of 1f1b, "
           "weights and optimizer state twice",
    .in_flight_doc = "min(P / 2, P - k) of one piece and min(P / 2, k + 1) of the other",
    .interleaves = true,
    .folded = true,
    .copies = true,
    .equal_passes = true,
    .by_stages = true,
    .legal = schedule_check_copies,
    .order = order,
    .in_flight = in_flight,
};
