#include "planner/explain/explain_facts.h"
#include "base/num.h"
#include "base/text.h"
#include "planner/cost/cost_group.h"
#include <math.h>
#include <string.h>

struct variation variation_none(void)
{
    struct variation v = { .matmul = 1, .attention = 1, .vector = 1, .memory = 1, .times = 1, .widen = 1 };
    for (int i = 0; i < MAX_LEVELS; i++)
        v.bandwidth[i] = 1;
    return v;
}

bool variation_keeps_prices(const struct cluster *cluster, const struct variation *v)
{
    struct variation own = variation_none();
    bool counts = cluster->type_count == 1 && cluster->level_count > 1;
    bool same = v->matmul == own.matmul && v->attention == own.attention && v->vector == own.vector &&
                v->types == own.types && v->devices == own.devices && v->widen == own.widen &&
                (counts || (v->units == own.units && v->times == own.times));
    for (int i = 0; i < MAX_LEVELS; i++)
        same = same && v->bandwidth[i] == own.bandwidth[i];
    return same;
}

/* Draws from 1 - amount to 1 + amount, by 53 bits of a counter-based generator. */
static double draw(uint64_t seed, uint64_t which, double amount)
{
    double unit = (double)(mix64(mix64(seed) + which) >> 11) / 9007199254740992.0;
    return 1 + amount * (2 * unit - 1);
}

struct variation variation_noise(uint64_t seed, double amount)
{
    struct variation v = variation_none();
    v.matmul = draw(seed, 0, amount);
    v.attention = draw(seed, 1, amount);
    v.vector = draw(seed, 2, amount);
    v.memory = draw(seed, 3, amount);
    for (int i = 0; i < MAX_LEVELS; i++)
        v.bandwidth[i] = draw(seed, 4 + (uint64_t)i, amount);
    return v;
}

int variation_unit_devices(const struct cluster *cluster, int type)
{
    return cluster->level_count > 1 ? cluster_unit(cluster, type, cluster->level_count - 2) : 1;
}

int variation_units(const struct cluster *cluster)
{
    int units = 0;
    for (int g = 0; g < cluster->group_count; g++)
        units += cluster->groups[g].device_count / variation_unit_devices(cluster, cluster->groups[g].type);
    return units;
}

void varied_free(struct varied *varied)
{
    cluster_free(varied->cluster);
    for (int i = 0; i < varied->profile_count; i++)
        profile_free(varied->profiles[i]);
    arena_free(&varied->arena);
    *varied = (struct varied){ 0 };
}

/* ---- the cluster ---- */

/* Gives the type of the original that the index-th one left is. */
static int original_type(const struct variation *v, int index)
{
    int type = 0;
    for (int left = index; v->types != 0 && (!(v->types >> type & 1) || left-- > 0); type++)
        ;
    return v->types != 0 ? type : index;
}

/* Leaves the groups of these types; where those between go, neighbours become one. */
static bool keep_types(struct cluster *c, const struct variation *v, struct error *err)
{
    int groups = 0, types = 0, renamed[MAX_TYPES] = { 0 };
    for (int t = 0; t < c->type_count; t++)
        if (v->types >> t & 1) {
            c->types[types] = c->types[t];
            renamed[t] = types++;
        }
    for (int g = 0; g < c->group_count; g++) {
        struct node_group group = c->groups[g];
        if (!(v->types >> group.type & 1))
            continue;
        group.type = renamed[group.type];
        if (groups > 0 && c->groups[groups - 1].type == group.type)
            c->groups[groups - 1].device_count += group.device_count;
        else
            c->groups[groups++] = group;
    }
    c->group_count = groups;
    c->type_count = types;
    return groups > 0 || fail(err, "%s: has no such types of devices", c->name);
}

/* Sets the first `units` units of all groups; more than there are: of the last group. Types that are left without ranks
 * are the last ones, since types stand in the order of their first ranks. */
static bool set_units(struct cluster *c, int units, struct error *err)
{
    int kept = 0, types = 0;
    for (int g = 0; g < c->group_count && units > 0; g++) {
        struct node_group *group = &c->groups[g];
        int size = variation_unit_devices(c, group->type), own = group->device_count / size;
        own = own > units || g == c->group_count - 1 ? units : own;
        if (own > MAX_DEVICES / size)
            return fail(err, "%s: expected at most %d devices in all, found more", c->name, (int)MAX_DEVICES);
        group->device_count = own * size;
        units -= own;
        types = group->type >= types ? group->type + 1 : types;
        kept++;
    }
    c->group_count = kept;
    c->type_count = types;
    return true;
}

/* Leaves so many devices of the only unit: whole units of each level inside it. */
static bool divide_unit(struct cluster *c, int devices, struct error *err)
{
    int left = devices;
    for (int i = 0; i + 1 < c->level_count; i++) {
        struct link_level *level = &c->types[0].levels[i];
        level->fanout = min_int(level->fanout, left);
        if (left % level->fanout != 0)
            break;
        left /= level->fanout;
    }
    c->groups[0].device_count = devices;
    return left == 1 || fail(err, "%s: one unit has no part of %d devices", c->name, devices);
}

/* Widens nodes: neighbouring ones become one. */
static bool widen(struct cluster *c, int times, struct error *err)
{
    for (int g = 0; g < c->group_count; g++)
        if (c->level_count < 2 || c->groups[g].device_count / cluster_unit(c, c->groups[g].type, 0) % times != 0)
            return fail(err, "%s: nodes cannot be joined by %d", c->name, times);
    for (int t = 0; t < c->type_count; t++) {
        struct link_level *levels = c->types[t].levels;
        if (c->level_count > 2 && levels[1].fanout % times != 0)
            return fail(err, "%s: nodes cannot be joined by %d", c->name, times);
        levels[0].fanout *= times;
        levels[1].fanout /= c->level_count > 2 ? times : 1; /* the outermost fanout is counted anew */
    }
    return true;
}

static bool set_shape(struct cluster *c, const struct variation *v, int level_count, struct error *err)
{
    if (v->times == 1)
        c->level_count = level_count; /* one node alone stays without a network */
    if (v->types != 0 && !keep_types(c, v, err))
        return false;
    cluster_number(c);
    if ((v->units > 0 && !set_units(c, v->units, err)) || (v->devices > 0 && !divide_unit(c, v->devices, err)) ||
        (v->widen > 1 && !widen(c, v->widen, err)))
        return false;
    cluster_number(c);
    return c->device_count <= MAX_DEVICES ||
           fail(err, "%s: expected at most %d devices in all, found %d", c->name, (int)MAX_DEVICES, c->device_count);
}

static void set_rates(struct node_type *type, const struct variation *v, int level_count, int64_t usable_bytes)
{
    struct device_type *d = &type->device;
    int64_t more_bytes = (int64_t)llround((double)usable_bytes * (v->memory - 1));
    for (int i = 0; i < DTYPE_COUNT; i++)
        d->matmul_flops_per_s[i] *= v->matmul;
    d->attention_forward_efficiency *= v->attention / v->matmul;
    d->attention_backward_efficiency *= v->attention / v->matmul;
    d->flash2_flops_per_s *= v->attention;
    d->vector_flops_per_s *= v->vector;
    d->memory_bytes_per_s *= v->vector;
    d->memory_bytes += more_bytes;
    type->memory_bytes += more_bytes;
    for (int i = 0; i < level_count; i++)
        type->levels[i].bytes_per_s *= v->bandwidth[i];
}

/* ---- the profile ---- */

static int64_t slower_ns(int64_t ns, double rate)
{
    return cost_round_ns((double)ns / rate);
}

/* Slows a curve: the latency stays, what is beyond it goes with the bandwidth. */
static void set_curve(struct collective_curve *curve, double bandwidth)
{
    for (int i = 0; i < curve->point_count; i++) {
        int64_t *ns = &curve->points[i].m.ns, latency_ns = min_i64(*ns, cost_round_ns(curve->latency_ns));
        *ns = latency_ns + slower_ns(*ns - latency_ns, bandwidth);
    }
    curve->bytes_per_s *= bandwidth;
}

static void set_profile(struct profile *p, const struct variation *v)
{
    for (int i = 0; i < p->compute_count; i++) {
        const char *work = p->compute[i].work;
        double rate = !strncmp(work, "matmul.", 7)       ? v->matmul
                      : !strncmp(work, "attention.", 10) ? v->attention
                                                         : v->vector;
        p->compute[i].m.ns = slower_ns(p->compute[i].m.ns, rate);
    }
    for (int i = 0; i < p->linear_count; i++) {
        p->linear[i].fixed_ns /= v->vector;
        p->linear[i].ns_per_unit /= v->vector;
    }
    for (int i = 0; i < p->curve_count; i++)
        if (is_index(p->curves[i].level, MAX_LEVELS))
            set_curve(&p->curves[i], v->bandwidth[p->curves[i].level]);
}

/* Copies all profiles, or that of the only type left. */
static bool copy_profiles(struct varied *out, const struct facts *facts, const struct variation *v, struct error *err)
{
    bool one = facts->cluster->type_count > 1 && out->cluster->type_count == 1;
    const struct profile *p = one ? facts_profile(facts, original_type(v, 0)) : facts->profile;
    for (; p && out->profile_count < (one ? 1 : MAX_TYPES); p = p->next) {
        struct profile *copy = NULL;
        if (!profile_merge(&copy, p, NULL, err))
            return false;
        copy->next = NULL;
        set_profile(copy, v);
        if (out->profile_count > 0)
            out->profiles[out->profile_count - 1]->next = copy;
        out->profiles[out->profile_count++] = copy;
    }
    return true;
}

/* ---- what it is called ---- */

static bool set_names(struct varied *out, const struct cluster *whole, const struct variation *v, struct error *err)
{
    struct text words = { 0 }, typed = { 0 };
    int types[MAX_TYPES], count = out->cluster->type_count;
    for (int t = 0; t < count; t++) {
        types[t] = original_type(v, t);
        out->of_type[types[t]] = out->cluster->types[t].device_count;
        text_printf(&words, "%s%d %s",
                    t == 0          ? ""
                    : t + 1 < count ? ", "
                                    : " and ",
                    out->of_type[types[t]], out->cluster->types[t].device.name);
    }
    if (out->cluster->device_count < whole->device_count && cluster_part_name(&typed, whole, out->cluster, types))
        out->typed = arena_strdup(&out->arena, typed.failed ? "" : typed.data);
    out->words = arena_strdup(&out->arena, words.failed ? "" : words.data);
    bool good = !words.failed && !typed.failed && out->words;
    text_free(&words);
    text_free(&typed);
    return good || fail_memory(err);
}

bool varied_open(struct varied *out, const struct facts *facts, const struct variation *variation, struct error *err)
{
    *out = (struct varied){ 0 };
    bool ok = cluster_scaled(&out->cluster, facts->cluster, variation->times, err) &&
              set_shape(out->cluster, variation, facts->cluster->level_count, err) &&
              copy_profiles(out, facts, variation, err) && set_names(out, facts->cluster, variation, err);
    if (!ok) {
        varied_free(out);
        return false;
    }
    for (int t = 0; t < out->cluster->type_count; t++)
        set_rates(&out->cluster->types[t], variation, out->cluster->level_count,
                  facts_available_bytes(facts, original_type(variation, t)));
    out->facts = (struct facts){ out->cluster, out->profile_count ? out->profiles[0] : NULL, facts->framework };
    return true;
}
