/* Certificates of random searches: the checker accepts all of them, and refuses them when any member is changed. */
#include "planner/check/check.h"
#include "planner/search/certificate_hash.h"
#include "planner/search/config_name.h"
#include "planner/search/workbench.h"
#include "tests/fact_files.h"
#include "tests/random_worlds.h"
#include "tests/written_claim.h"
#include <math.h>

struct written {
    struct random_world w;
    struct search_result *result;
    char *text; /* the certificate, an object */
};

/* False: nothing fits. */
static bool written_open(struct written *out, uint64_t seed)
{
    struct search_options options = { .top = 1, .rank_count = 1, .no_advice = true };
    struct error err = { 0 };
    size_t length = 0;
    *out = (struct written){ .w = random_world(seed, false) };
    options.space = out->w.space;
    if (!search_run(&out->result, out->w.world.model, &out->w.world.facts, &options, &err) || !out->result->feasible)
        return false;
    out->text = certificate_text(out->result, &out->w.space, &length);
    return true;
}

static void written_close(struct written *written)
{
    search_result_free(written->result);
    random_world_close(&written->w);
    free(written->text);
}

/* Reads and checks; *undecided: configurations of which nothing was found out. */
static bool holds_as(const struct written *written, const struct json *certificate, struct check_report *report,
                     struct error *err)
{
    struct claim claim;
    const struct plan *plan = written->result->plans[0].plan;
    bool good =
        claim_read(&claim, certificate, &written->w.space, err) &&
        certificate_check(report, &claim, written->w.world.model, &written->w.world.facts, plan, NULL, NULL, err);
    claim_free(&claim);
    return good;
}

static bool holds(const struct written *written, const struct json *certificate, int64_t *undecided, struct error *err)
{
    struct check_report report = { 0 };
    bool good = holds_as(written, certificate, &report, err);
    *undecided = report.undecided;
    return good;
}

/* ---- multipliers ---- */

/* The same with the digest that it then has. */
static struct json_doc *signed_again(const struct json *certificate)
{
    struct json_writer w = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    char digest[CERTIFICATE_DIGEST_BYTES];
    size_t length = 0;
    ck_assert(certificate_digest(digest, certificate));
    json_begin_object(&w);
    for (int i = 0; i < json_count(certificate); i++) {
        json_write_key(&w, json_key(certificate, i));
        if (strcmp(json_key(certificate, i), "digest") == 0)
            json_write_string(&w, digest);
        else
            json_write_value(&w, json_member_at(certificate, i));
    }
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    ck_assert(json_parse(&doc, "signed", text, length, &err));
    free(text);
    return doc;
}

enum cleared { CLEAR_MULTIPLIERS, CLEAR_CAPS };
enum { CAP_PLACE = 4, RECORD_DEPTH = 2, VECTOR_DEPTH = 4 };

/* The same with all multipliers set to 0, or caps so high that they rule nothing out; *changed: how many were not. */
static void clear_value(struct json_writer *w, const struct json *value, int depth, enum cleared what, bool solved,
                        int *changed)
{
    int64_t whole;
    if (json_type(value) == JSON_OBJECT) {
        json_begin_object(w);
        for (int i = 0; i < json_count(value); i++) {
            json_write_key(w, json_key(value, i));
            clear_value(w, json_member_at(value, i), depth, what,
                        strcmp(json_key(value, i), "configurations_solved") == 0, changed);
        }
        json_end_object(w);
    } else if (json_type(value) == JSON_ARRAY) {
        json_begin_array(w);
        for (int i = 0; i < json_count(value); i++) {
            bool cap = what == CLEAR_CAPS && solved && depth + 1 == RECORD_DEPTH && i == CAP_PLACE;
            *changed += cap;
            if (cap)
                json_write_int(w, INT64_C(1) << 53);
            else
                clear_value(w, json_at(value, i), depth + 1, what, solved, changed);
        }
        json_end_array(w);
    } else if (what == CLEAR_MULTIPLIERS && solved && depth == VECTOR_DEPTH &&
               json_int(value, 0, INT64_C(1) << 53, &whole, &(struct error){ 0 })) {
        *changed += whole != 0;
        json_write_int(w, 0);
    } else {
        json_write_value(w, value);
    }
}

static struct json_doc *without(const struct json *certificate, enum cleared what, int *changed)
{
    struct json_writer w = { 0 };
    struct json_doc *doc = NULL;
    size_t length = 0;
    *changed = 0;
    clear_value(&w, certificate, 0, what, false, changed);
    char *text = json_finish(&w, &length);
    ck_assert(json_parse(&doc, "cleared", text, length, &(struct error){ 0 }));
    free(text);
    return doc;
}

/* Whether the certificate is refused when its multipliers, or its caps, say nothing; *any: it has some. */
static bool needs_its(const struct written *written, const struct json *certificate, enum cleared what, bool *any)
{
    struct check_report report = { 0 };
    struct error err = { 0 };
    int changed = 0;
    struct json_doc *cleared = without(certificate, what, &changed), *forged = signed_again(json_root(cleared));
    bool good = holds_as(written, json_root(forged), &report, &err);
    ck_assert_msg(good || strstr(err.message, "multipliers"), "%s", err.message);
    json_free(cleared);
    json_free(forged);
    *any = changed > 0;
    return !good;
}

START_TEST(certificates_hold)
{
    int checked = 0, undecided_ones = 0, chunked = 0, mixed = 0, turned = 0, spread = 0, reordered = 0, multiplied = 0,
        needed = 0, caps_needed = 0, shown = 0;
    int64_t by_multipliers = 0, by_cut = 0;
    const int share = small_share() ? 4 : 1;
    for (uint64_t seed = 1; seed <= 250; seed += (uint64_t)share) {
        struct written written;
        struct json_doc *doc = NULL;
        struct error err = { 0 };
        struct check_report report = { 0 };
        bool any = false;
        if (written_open(&written, seed)) {
            ck_assert(json_parse(&doc, "certificate", written.text, strlen(written.text), &err));
            const struct json *certificate = json_member(json_root(doc), "certificate");
            ck_assert_msg(holds_as(&written, certificate, &report, &err), "seed %llu: %s", (unsigned long long)seed,
                          err.message);
            checked++;
            undecided_ones += report.undecided > 0;
            by_multipliers += report.by_multipliers;
            by_cut += report.by_cut;
            needed += needs_its(&written, certificate, CLEAR_MULTIPLIERS, &any);
            caps_needed += needs_its(&written, certificate, CLEAR_CAPS, &(bool){ false });
            multiplied += any;
            chunked += written.result->plans[0].plan->chunk_count > 1;
            mixed += written.w.world.cluster->type_count > 1;
            reordered += report.ideals > 0;
            shown += json_member(certificate, "best_plan") != NULL;
            turned += strstr(written.result->certificate.best, "meshes=") != NULL;
            spread += strstr(written.result->certificate.best, "spread=") != NULL;
        }
        json_free(doc);
        written_close(&written);
    }
    ck_assert_int_gt(checked, 100 / share);
    ck_assert_int_gt(turned, 5 / share);
    ck_assert_int_gt(spread, 2 / share);
    ck_assert_int_gt(reordered, 10 / share);
    ck_assert(chunked > 0 || share > 1);
    ck_assert_int_gt(mixed, 20 / share);
    ck_assert_int_gt(shown, 10 / share);
    ck_assert_msg(undecided_ones <= checked / 20, "%d of %d undecided", undecided_ones, checked);
    /* problems this small are often proven without any, or only by whole numbers of layers */
    ck_assert_msg(by_multipliers > by_cut / 4, "%d by multipliers, %d by solving", (int)by_multipliers, (int)by_cut);
    ck_assert_msg(multiplied > 10 / share && needed > multiplied / 5, "%d certificates of %d need their multipliers",
                  needed, multiplied);
    ck_assert_msg(caps_needed > 5 / share, "%d certificates of %d need their caps", caps_needed, multiplied);
}
END_TEST

/* ---- changes ---- */

/* One value of the certificate, numbered as they are met. */
struct change {
    int wanted, met, in_space, depth;
    bool down;     /* numbers go down instead of up; lists lose a value instead of having one twice */
    bool of_space; /* it is of the space's restrictions */
    bool of_proof; /* it is a list of thresholds or vectors, of which more or fewer may prove the same */
    enum json_type type;
    char where[96], changed[256]; /* changed: the string that it now is */
};

static void change_number(struct json_writer *w, const struct change *change, const struct json *value)
{
    struct error err = { 0 };
    int64_t whole;
    double number;
    if (json_int(value, INT64_MIN, INT64_MAX, &whole, &err)) {
        json_write_int(w, change->down ? whole - 1 - whole / 50 : whole + 1 + whole / 50);
        return;
    }
    ck_assert(json_double(value, -INFINITY, INFINITY, &number, &(struct error){ 0 }));
    json_write_double(w, change->down ? number - 0.001 - number / 50 : number + 0.001 + number / 50);
}

static void change_leaf(struct json_writer *w, struct change *change, const struct json *value)
{
    struct error err = { 0 };
    const char *word = NULL;
    bool flag = false;
    if (json_type(value) == JSON_STRING && json_string(value, &word, &err)) {
        snprintf(change->changed, sizeof change->changed, "%s", word);
        change->changed[strlen(word) / 2]++;
        json_write_string(w, change->changed);
    } else if (json_bool(value, &flag, &err)) {
        json_write_bool(w, !flag);
    } else {
        change_number(w, change, value);
    }
}

/* Copies the value; the one wanted differently. */
static void copy_value(struct json_writer *w, struct change *change, const struct json *value, const char *name)
{
    bool wanted = ++change->met == change->wanted;
    bool space = strcmp(name, "space") == 0;
    change->in_space += space;
    if (wanted) {
        snprintf(change->where, sizeof change->where, "%s", name);
        change->type = json_type(value);
        change->of_space = change->in_space > 0;
        change->of_proof = change->depth == 2 && json_type(value) == JSON_ARRAY;
    }
    if (json_type(value) == JSON_OBJECT) {
        json_begin_object(w);
        for (int i = 0; i < json_count(value); i++) {
            json_write_key(w, json_key(value, i));
            copy_value(w, change, json_member_at(value, i), json_key(value, i));
        }
        if (wanted)
            json_put_int(w, "unheard-of", 1);
        json_end_object(w);
    } else if (json_type(value) == JSON_ARRAY) {
        json_begin_array(w);
        change->depth++;
        for (int i = wanted && change->down; i < json_count(value); i++)
            copy_value(w, change, json_at(value, i), name);
        if (wanted && !change->down && json_count(value) > 0)
            json_write_value(w, json_at(value, 0));
        else if (wanted && json_count(value) == 0)
            json_write_int(w, 1);
        change->depth--;
        json_end_array(w);
    } else if (wanted) {
        change_leaf(w, change, value);
    } else {
        json_write_value(w, value);
    }
    change->in_space -= space;
}

/* The certificate with one change; NULL: it has no such value. */
static struct json_doc *changed_certificate(const struct json *certificate, struct change *change)
{
    struct json_writer w = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    size_t length = 0;
    copy_value(&w, change, certificate, "certificate");
    char *text = json_finish(&w, &length);
    if (change->met >= change->wanted)
        ck_assert_msg(json_parse(&doc, "changed", text, length, &err), "%s", err.message);
    free(text);
    return doc;
}

/* What only the digest guards: how the search went about it; bounds of single configurations, which may be lower, or
 * higher than the search went on to prove; and multipliers, any of which prove what they prove. */
static bool only_the_digest(const struct change *change)
{
    static const char *const free_members[] = { "candidates", "ranked",        "judged", "rejected",
                                                "complete",   "pruned_memory", "digest" };
    for (size_t i = 0; i < sizeof free_members / sizeof *free_members; i++)
        if (strcmp(change->where, free_members[i]) == 0)
            return true;
    return (change->type == JSON_NUMBER || change->of_proof) && strncmp(change->where, "configurations_", 15) == 0;
}

/* The change makes a record speak of another configuration of the space, for which its proof may do as well, while the
 * one that it was of may need none. */
static bool names_another(const struct written *written, const struct change *change)
{
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    char name[CONFIG_NAME_BYTES];
    int count = 0;
    bool another = false;
    if (change->type != JSON_STRING || strncmp(change->where, "configurations_", 15) != 0)
        return false;
    ck_assert(workbench_open(&bench, written->w.world.model, &written->w.world.facts, &written->w.space, &err));
    ck_assert(space_configs(&configs, &count, &arena, &written->w.space, bench.graph, written->w.world.cluster, &err));
    for (int i = 0; i < count; i++)
        another = another || strcmp(config_name(name, &configs[i]), change->changed) == 0;
    workbench_close(&bench);
    arena_free(&arena);
    return another;
}

static bool refused(const struct written *written, const struct json *certificate)
{
    struct error err = { 0 };
    int64_t undecided = 0;
    if (holds(written, certificate, &undecided, &err))
        return undecided > 0;
    ck_assert_msg(err.kind == ERROR_GATE || err.kind == ERROR_INPUT, "%s", err.message);
    return true;
}

/* The best plan's stages have several meshes, whose numbers can be changed. */
static bool is_spread(const struct written *written)
{
    return strstr(written->result->certificate.best, "spread=") != NULL;
}

/* From here on the next of those is near; they are few. */
enum { SPREAD_SEED = 1250 };

START_TEST(changes_are_refused)
{
    int changes = 0, forged_count = 0, shown = 0, spread = 0;
    for (uint64_t seed = 1, certificates = 0; certificates < 6 || shown < 2 || spread < 1; seed++) {
        struct written written;
        struct json_doc *doc = NULL, *changed;
        if (certificates >= 6 && shown >= 2 && seed < SPREAD_SEED)
            seed = SPREAD_SEED;
        struct error err = { 0 };
        if (!written_open(&written, seed) || written.result->certificate.bound_ns == 0 ||
            written.result->certificate.record_count > 12 ||
            (certificates >= 6 && !written.result->certificate.best_plan) ||
            (certificates >= 6 && shown >= 2 && !is_spread(&written))) {
            written_close(&written);
            continue;
        }
        certificates++;
        shown += written.result->certificate.best_plan != NULL;
        spread += written.result->certificate.best_plan && is_spread(&written);
        ck_assert(json_parse(&doc, "certificate", written.text, strlen(written.text), &err));
        const struct json *certificate = json_member(json_root(doc), "certificate");
        for (int wanted = 1, down = 0;; wanted += down, down = !down) {
            struct change change = { .wanted = wanted, .down = down };
            if (!(changed = changed_certificate(certificate, &change)))
                break;
            ck_assert_msg(refused(&written, json_root(changed)), "seed %d: %s changed %s is accepted", (int)seed,
                          change.where, down ? "down" : "up");
            changes++;
            struct json_doc *forged = only_the_digest(&change) ? NULL : signed_again(json_root(changed));
            /* Restrictions may say the same in other words: then space_hash, too, was found to be the same. What has
             * no weights, or none to share them with, costs the same with any ZeRO stage. */
            if (forged && !change.of_space && strcmp(change.where, "zero") != 0 && !names_another(&written, &change))
                ck_assert_msg(refused(&written, json_root(forged)), "seed %d: forged %s changed %s is accepted",
                              (int)seed, change.where, down ? "down" : "up");
            forged_count += forged != NULL;
            json_free(forged);
            json_free(changed);
        }
        json_free(doc);
        written_close(&written);
    }
    ck_assert_int_gt(changes, 300);
    ck_assert_int_gt(forged_count, 200);
}
END_TEST

/* A certificate of other gradient buckets is not the plan's, and the hash of its space says which it is of. */
START_TEST(other_buckets_are_refused)
{
    int refused_count = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct written written;
        struct error err = { 0 };
        if (written_open(&written, seed)) {
            struct written_claim read = written_claim_open(written.result, &written.w.space);
            struct plan *plan = written.result->plans[0].plan;
            struct check_report report;
            ck_assert_int_eq(plan->bucket_bytes, space_bucket_bytes(&read.claim.space));
            plan->bucket_bytes++;
            ck_assert(!certificate_check(&report, &read.claim, written.w.world.model, &written.w.world.facts, plan,
                                         NULL, NULL, &err));
            ck_assert_msg(err.kind == ERROR_GATE && strstr(err.message, "about gradient buckets"), "%s", err.message);
            read.claim.space.bucket.values[0]++;
            err = (struct error){ 0 };
            ck_assert(!certificate_check(&report, &read.claim, written.w.world.model, &written.w.world.facts, plan,
                                         NULL, NULL, &err));
            ck_assert_msg(err.kind == ERROR_GATE, "%s", err.message);
            refused_count++;
            written_claim_close(&read);
        }
        written_close(&written);
    }
    ck_assert_int_gt(refused_count, 10);
}
END_TEST

/* ---- more orders than are searched ---- */

/* ---- gaps ---- */

static bool checks(const struct written *written, const struct claim *claim, struct error *err)
{
    struct check_report report = { 0 };
    *err = (struct error){ 0 };
    return certificate_check(&report, claim, written->w.world.model, &written->w.world.facts,
                             written->result->plans[0].plan, NULL, NULL, err);
}

/* Every gap of the certificate is absent where its bound is 0, which it may also say in words; else it must be there.
 */
static void check_gaps_of(const struct written *written)
{
    struct written_claim read = written_claim_open(written->result, &written->w.space);
    struct claim *c = &read.claim;
    double *const gaps[] = { &c->gap, &c->formula_gap, &c->proof_gap, &c->simulated_gap };
    struct error err;
    ck_assert_msg(checks(written, c, &err), "%s", err.message);
    for (int i = 0; i < 4; i++) {
        bool proven = (i < 3 ? c->bound_ns : c->simulated_bound_ns) > 0;
        double written_gap = *gaps[i];
        ck_assert_int_eq(isnan(written_gap), !proven);
        *gaps[i] = proven ? NAN : 0;
        ck_assert_msg(checks(written, c, &err) == !proven, "gap %d: %s", i, err.message);
        ck_assert_msg(!proven || strstr(err.message, "it has no "), "%s", err.message);
        *gaps[i] = proven ? written_gap : 0.25;
        ck_assert_msg(checks(written, c, &err) == proven, "gap %d: %s", i, err.message);
        *gaps[i] = written_gap;
    }
    written_claim_close(&read);
}

START_TEST(there_is_no_gap_to_no_bound)
{
    int with = 0, without = 0, few = small_share() ? 1 : 5;
    for (uint64_t seed = 1; seed <= 400 && (with <= few || without <= few); seed++) {
        struct written written;
        if (written_open(&written, seed)) {
            without += written.result->certificate.bound_ns == 0;
            with += written.result->certificate.bound_ns > 0;
            check_gaps_of(&written);
        }
        written_close(&written);
    }
    ck_assert_msg(with > few && without > few, "%d with, %d without a bound", with, without);
}
END_TEST

/* Wherever time ends, while the space is listed and before all have a bound too, what is claimed holds. */
START_TEST(searches_cut_short_claim_what_holds)
{
    int plain = 0, unbound = 0, bound = 0;
    struct search_options options = { .space = space_default(24, 0, DTYPE_BF16), .top = 1, .no_advice = true };
    options.space.spread = (struct allowed){ 2, { 1, 2 } };
    for (int64_t limit = 1; limit < 2000; limit += 1 + (small_share() ? 2 * limit : limit / 2)) {
        struct written written = { .w.world = world_open("1x4:toy", 80000000000, 2), .w.space = options.space };
        struct error err = { 0 };
        int64_t clock = 0;
        options.time_limit_ns = limit;
        options.calls = (struct search_calls){ .self = &clock, .now_ns = toy_tick };
        ck_assert_msg(search_run(&written.result, written.w.world.model, &written.w.world.facts, &options, &err),
                      "limit %lld: %s", (long long)limit, err.message);
        plain += written.result->certificate.plain_only;
        unbound += written.result->certificate.bound_ns == 0;
        bound += written.result->certificate.bound_ns > 0;
        check_gaps_of(&written);
        search_result_free(written.result);
        world_close(&written.w.world);
    }
    ck_assert_msg(plain > 0 && unbound > plain && bound > 0, "%d plain, %d without, %d with a bound", plain, unbound,
                  bound);
}
END_TEST

static Suite *certificate_suite(void)
{
    Suite *suite = suite_create("certificate");
    CHECK_ADD(suite, other_buckets_are_refused);
    CHECK_ADD(suite, there_is_no_gap_to_no_bound);
    CHECK_ADD(suite, searches_cut_short_claim_what_holds);
    CHECK_ADD(suite, certificates_hold);
    CHECK_ADD(suite, changes_are_refused);
    return suite;
}

CHECK_MAIN(certificate_suite)
