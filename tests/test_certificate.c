/* Certificates of random searches: the checker accepts all of them, as they are written now and were before. */
#include "formats/certificate_write.h"
#include "planner/space/config_name.h"
#include "planner/search/search_parts.h"
#include "tests/written_certificate.h"
#include <math.h>

/* ---- older files ---- */

/* BY_NAME: as it was written before places stood for names, with the effort of the search among its members;
 * WITH_MULTIPLIERS: as it was when multipliers stood behind the names of what they proved, and what lacked memory could
 * be called solved. */
enum form { BY_NAME, WITH_MULTIPLIERS };

static void write_older_record(struct json_writer *w, const char *name, int64_t bound_ns, enum form form)
{
    json_begin_array(w);
    json_write_string(w, name);
    json_write_int(w, bound_ns);
    if (form == WITH_MULTIPLIERS) { /* these prove nothing, and nobody asks them to */
        json_begin_array(w);
        json_write_int(w, 4096);
        json_end_array(w);
        json_begin_array(w);
        json_begin_array(w);
        for (int i = 0; i < 4; i++)
            json_write_int(w, i);
        json_end_array(w);
        json_end_array(w);
        json_write_int(w, INT64_C(1) << 53);
    }
    json_end_array(w);
}

static void write_older_records(struct json_writer *w, const struct certificate *c, const struct config *configs,
                                enum config_fate fate, enum form form)
{
    char name[CONFIG_NAME_BYTES];
    int64_t bound_ns = c->bound_ns > 0 || form == WITH_MULTIPLIERS ? c->bound_ns : 1;
    for (int i = 0; i < c->range_count; i++)
        for (int at = c->ranges[i].first; c->ranges[i].fate == fate && at <= c->ranges[i].last; at++)
            write_older_record(w, config_name(name, &configs[at]), fate == FATE_UNSEEN ? 0 : bound_ns, form);
}

static void write_older_list(struct json_writer *w, const struct certificate *c, const struct config *configs,
                             enum config_fate fate, enum form form)
{
    json_begin_array(w);
    write_older_records(w, c, configs, fate, form);
    if (fate == FATE_LEFT)
        write_older_records(w, c, configs, FATE_UNSEEN, form);
    if (fate == FATE_SOLVED && form == WITH_MULTIPLIERS)
        write_older_records(w, c, configs, FATE_MEMORY, form);
    json_end_array(w);
}

/* The number that the form has in place of the member's; -1: the same. */
static int64_t older_count(const struct certificate *c, const char *key, enum form form)
{
    if (form == BY_NAME)
        return -1;
    return !strcmp(key, "solved") ? c->solved + c->pruned_memory : !strcmp(key, "pruned_memory") ? 0 : -1;
}

static bool is_newer(const char *key)
{
    return !strcmp(key, "version") || !strcmp(key, "left") || !strcmp(key, "unseen") ||
           !strcmp(key, "configurations_unseen") || !strcmp(key, "asked_gap_ppm");
}

static struct json_doc *older_form(const struct written *written, const struct json *certificate,
                                   const struct config *configs, enum form form)
{
    const struct certificate *c = &written->result->certificate;
    struct json_writer w = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    size_t length = 0;
    json_begin_object(&w);
    for (int i = 0; i < json_count(certificate); i++) {
        const char *key = json_key(certificate, i);
        int fate = 0;
        while (fate < FATE_COUNT &&
               (strncmp(key, "configurations_", 15) != 0 || strcmp(key + 15, config_fate_names[fate])))
            fate++;
        if (form == BY_NAME && is_newer(key))
            continue;
        json_write_key(&w, key);
        if (older_count(c, key, form) >= 0)
            json_write_int(&w, older_count(c, key, form));
        else if (form == WITH_MULTIPLIERS && fate == FATE_MEMORY)
            write_older_list(&w, c, configs, FATE_COUNT, form); /* none */
        else if (form == BY_NAME ? fate < FATE_COUNT : fate == FATE_SOLVED)
            write_older_list(&w, c, configs, (enum config_fate)fate, form);
        else
            json_write_value(&w, json_member_at(certificate, i));
    }
    if (form == BY_NAME) {
        json_put_int(&w, "candidates", c->candidates);
        json_put_int(&w, "ranked", c->ranked);
        json_put_int(&w, "judged", c->judged);
        json_put_int(&w, "rejected", c->rejected);
    }
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    ck_assert_msg(json_parse(&doc, "older", text, length, &err), "%s", err.message);
    free(text);
    return doc;
}

/* Whether the certificate holds in that older form, too. */
static bool holds_as_older(const struct written *written, const struct json *certificate, enum form form,
                           struct error *err)
{
    struct arena arena = { 0 };
    int64_t undecided = 0;
    int count = 0;
    struct json_doc *older = older_form(written, certificate, configs_of(written, &arena, &count), form),
                    *forged = signed_again(json_root(older));
    bool good = holds(written, json_root(forged), &undecided, err);
    json_free(older);
    json_free(forged);
    arena_free(&arena);
    return good;
}

START_TEST(certificates_hold)
{
    int checked = 0, undecided_ones = 0, chunked = 0, mixed = 0, turned = 0, reordered = 0, shown = 0;
    int64_t by_cut = 0;
    const int share = small_share() ? 8 : share_stride() > 1 ? 3 : 1;
    for (uint64_t seed = 1; seed <= 250; seed += (uint64_t)share) {
        struct written written;
        struct json_doc *doc = NULL;
        struct error err = { 0 };
        struct check_report report = { 0 };
        if (written_open(&written, seed)) {
            ck_assert(json_parse(&doc, "certificate", written.text, strlen(written.text), &err));
            const struct json *certificate = json_member(json_root(doc), "certificate");
            ck_assert_msg(holds_as(&written, certificate, &report, &err), "seed %llu: %s", (unsigned long long)seed,
                          err.message);
            for (int form = BY_NAME; form <= WITH_MULTIPLIERS; form++)
                ck_assert_msg(holds_as_older(&written, certificate, (enum form)form, &err), "seed %llu, form %d: %s",
                              (unsigned long long)seed, form, err.message);
            checked++;
            undecided_ones += report.undecided > 0;
            by_cut += report.by_cut;
            chunked += written.result->plans[0].plan->chunk_count > 1;
            mixed += written.w.world.cluster->type_count > 1;
            reordered += report.ideals > 0;
            shown += json_member(certificate, "best_plan") != NULL;
            turned += strstr(written.result->certificate.best, "meshes=") != NULL;
        }
        json_free(doc);
        written_close(&written);
    }
    ck_assert_int_gt(checked, 100 / share);
    ck_assert_int_gt(turned, 5 / share);
    ck_assert_int_gt(reordered, 10 / share);
    ck_assert(chunked > 0 || share > 1);
    ck_assert_int_gt(mixed, 20 / share);
    ck_assert_int_gt(shown, 10 / share);
    ck_assert_msg(undecided_ones <= checked / 20, "%d of %d undecided", undecided_ones, checked);
    ck_assert_int_gt(by_cut, checked);
}
END_TEST

/* What lacks memory is called solved there: of one such search, in a whole run of three. */
START_TEST(what_lacks_memory_was_solved_beside_multipliers)
{
    enum { MOST_SEEDS = 4000 };
    int found = 0, wanted = share_stride() > 1 ? 1 : 3;
    for (uint64_t seed = 2000; found < wanted && seed < 2000 + MOST_SEEDS; seed++) {
        struct written written;
        struct json_doc *doc = NULL;
        struct error err = { 0 };
        if (written_open(&written, seed) && written.result->certificate.pruned_memory > 0 &&
            written.w.world.cluster->type_count == 1) {
            ck_assert(json_parse(&doc, "certificate", written.text, strlen(written.text), &err));
            ck_assert_msg(holds_as_older(&written, json_member(json_root(doc), "certificate"), WITH_MULTIPLIERS, &err),
                          "seed %llu: %s", (unsigned long long)seed, err.message);
            json_free(doc);
            found++;
        }
        written_close(&written);
    }
    ck_assert_int_eq(found, wanted);
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
            ck_assert(allowed_has(&read.claim.space.bucket_bytes, plan->bucket_bytes));
            plan->bucket_bytes = INT64_C(1) << 40;
            ck_assert(!check_certificate(&report, &read.claim, written.w.world.model, &written.w.world.facts, plan,
                                         NULL, NULL, &err));
            ck_assert_msg(err.kind == ERROR_GATE && strstr(err.message, "about gradient buckets"), "%s", err.message);
            read.claim.space.bucket_bytes.values[0]++;
            err = (struct error){ 0 };
            ck_assert(!check_certificate(&report, &read.claim, written.w.world.model, &written.w.world.facts, plan,
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

/* ---- gaps ---- */

static bool checks_as(const struct written *written, const struct claim *claim, struct check_report *report,
                      struct error *err)
{
    *err = (struct error){ 0 };
    return check_certificate(report, claim, written->w.world.model, &written->w.world.facts,
                             written->result->plans[0].plan, NULL, NULL, err);
}

static bool checks(const struct written *written, const struct claim *claim, struct error *err)
{
    struct check_report report = { 0 };
    return checks_as(written, claim, &report, err);
}

/* What was asked for is held against the proof's gap. Returns how often it is what the checker names: a bound that is
 * lower than the search's may be refused for more. */
static int check_asked_gap_of(const struct written *written)
{
    struct written_claim read = written_claim_open(written->result, &written->w.space);
    struct claim *c = &read.claim;
    struct error err;
    int named = 0;
    ck_assert(c->asked_gap_ppm == 0 && c->complete && c->best_ns == c->bound_ns);
    c->complete = false;
    ck_assert(!checks(written, c, &err) && strstr(err.message, "as close as was asked for"));
    c->bound_ns -= c->bound_ns / 1000, c->bound_s = (double)c->bound_ns / 1e9;
    c->proof_gap = (double)(c->best_ns - c->bound_ns) / (double)c->bound_ns;
    for (int i = 0; i < c->config_count; i++)
        c->configs[i].bound_ns = c->bound_ns;
    for (int complete = 0; complete < 2; complete++)
        for (int64_t ppm = -1; ppm < 20000; ppm = ppm < 0 ? 100 : 3 * ppm) {
            c->complete = complete, c->asked_gap_ppm = ppm;
            bool refused = !checks(written, c, &err) && strstr(err.message, "was asked for"),
                 wrong = complete ? ppm >= 0 && (double)ppm < 1e6 * c->proof_gap : (double)ppm > 1e6 * c->proof_gap;
            ck_assert_msg(wrong || !refused, "%d, %lld: %s", complete, (long long)ppm, err.message);
            named += refused;
        }
    written_claim_close(&read);
    return named;
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
    int with = 0, without = 0, asked = 0, few = small_share() ? 1 : 5;
    for (uint64_t seed = 1; seed <= 400 && (with <= few || without <= few); seed++) {
        struct written written;
        if (written_open(&written, seed)) {
            without += written.result->certificate.bound_ns == 0;
            with += written.result->certificate.bound_ns > 0;
            check_gaps_of(&written);
            if (written.result->certificate.complete && written.result->certificate.bound_ns > 0)
                asked += check_asked_gap_of(&written);
        }
        written_close(&written);
    }
    ck_assert_msg(with > few && without > few, "%d with, %d without a bound", with, without);
    ck_assert_int_gt(asked, 0);
}
END_TEST

/* ---- of version 1 ---- */

static void claim_simulated(struct claim *c, int64_t bound_ns, int64_t step_ns)
{
    c->simulated_bound_ns = bound_ns;
    c->simulated_bound_s = (double)bound_ns / 1e9;
    c->simulated_gap = (double)(step_ns - bound_ns) / (double)bound_ns;
}

/* Of versions 2 and 3 the space has another hash, of version 1 the prices, too. */
static void check_versions_2_and_3(struct written *written)
{
    struct written_claim read = written_claim_open(written->result, &written->w.space);
    struct claim *c = &read.claim;
    struct check_report report;
    struct error err;
    c->space_hash = "0123456789abcdef";
    ck_assert(!checks(written, c, &err) && err.kind == ERROR_GATE && strstr(err.message, "space_hash"));
    for (c->version = CERTIFICATE_VERSION - 1; c->version > 1; c->version--) {
        ck_assert_msg(checks_as(written, c, &report, &err), "%s", err.message);
        ck_assert_int_eq(report.version, c->version);
    }
    c->version = 2;
    c->prices_hash = "0123456789abcdef";
    ck_assert(!checks(written, c, &err) && err.kind == ERROR_GATE && strstr(err.message, "prices_hash"));
    written_claim_close(&read);
}

/* Other prices, more than kernels prove, and more than the plan's own step. */
static void check_version_1(struct written *written, int *unproven)
{
    struct written_claim read = written_claim_open(written->result, &written->w.space);
    struct claim *c = &read.claim;
    struct check_report report;
    struct error err;
    const char *prices_hash = c->prices_hash;
    int64_t bound_ns = c->simulated_bound_ns, step_ns = written->result->plans[0].estimate->prediction.step_ns;
    c->prices_hash = "0123456789abcdef";
    ck_assert(!checks(written, c, &err) && err.kind == ERROR_GATE && strstr(err.message, "prices_hash"));
    c->version = 1;
    ck_assert_msg(checks_as(written, c, &report, &err), "%s", err.message);
    ck_assert(report.version == 1 && report.simulated_bound_ns == bound_ns && report.unchecked_simulated_ns == 0);
    claim_simulated(c, step_ns, step_ns);
    ck_assert_msg(checks_as(written, c, &report, &err), "%s", err.message);
    ck_assert_int_eq(report.simulated_bound_ns + report.unchecked_simulated_ns, step_ns);
    *unproven += report.unchecked_simulated_ns > 0;
    c->version = CERTIFICATE_VERSION;
    c->prices_hash = prices_hash;
    ck_assert(checks(written, c, &err) == (report.unchecked_simulated_ns == 0));
    ck_assert(report.unchecked_simulated_ns == 0 || strstr(err.message, "kernels do not keep every plan"));
    claim_simulated(c, step_ns + 1, step_ns);
    for (c->version = 1; c->version <= CERTIFICATE_VERSION; c->version++)
        ck_assert(!checks(written, c, &err) && err.kind == ERROR_GATE);
    written_claim_close(&read);
}

START_TEST(what_older_ones_claim_of_the_simulation_is_told_apart)
{
    int checked = 0, unproven = 0, wanted = small_share() ? 5 : 20;
    for (uint64_t seed = 1; checked < wanted; seed++) {
        struct written written;
        if (written_open(&written, seed) && written.result->certificate.simulated_bound_ns > 0) {
            check_version_1(&written, &unproven);
            check_versions_2_and_3(&written);
            checked++;
        }
        written_close(&written);
    }
    ck_assert_int_gt(unproven, checked / 2);
}
END_TEST

static void check_older_form(struct written *written)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    size_t length = 0;
    written->text = certificate_text(written->result, &written->w.space, &length);
    ck_assert(json_parse(&doc, "certificate", written->text, length, &err));
    const struct json *certificate = json_member(json_root(doc), "certificate");
    for (int form = BY_NAME; form <= WITH_MULTIPLIERS; form++)
        if (!written->result->certificate.narrower_only) /* of the space that was asked for */
            ck_assert_msg(holds_as_older(written, certificate, (enum form)form, &err), "form %d: %s", form,
                          err.message);
    json_free(doc);
    free(written->text);
}

/* Wherever time ends, or who searches does not want to go on: while the space is listed, then before all have a bound,
 * and behind that, what is claimed holds. */
START_TEST(searches_cut_short_claim_what_holds)
{
    bool is_cancelled = _i == 1;
    int narrowed = 0, unbound = 0, left = 0;
    struct search_options options = { .space = space_default(24, 0, DTYPE_BF16), .top = 1, .no_advice = true };
    options.space.turns = (struct allowed){ 2, { 1, 2 } };
    for (int64_t limit = 1; limit < 2000; limit += 1 + (share_stride() > 1 ? limit : limit / 2)) {
        struct written written = { .w.world = world_open("1x4:toy", 80000000000, 2), .w.space = options.space };
        struct error err = { 0 };
        struct toy_asked asked = { 0, limit };
        options.time_limit_ns = is_cancelled ? 0 : limit;
        options.calls = is_cancelled ? (struct search_calls){ .self = &asked, .cancelled = toy_cancelled }
                                     : (struct search_calls){ .self = &asked.asked, .now_ns = toy_tick };
        ck_assert_msg(search_run(&written.result, written.w.world.model, &written.w.world.facts, &options, &err),
                      "limit %lld: %s", (long long)limit, err.message);
        narrowed += written.result->certificate.narrower_only;
        unbound += written.result->certificate.bound_ns == 0;
        left += written.result->certificate.bound_ns > 0 && written.result->certificate.left > 0;
        check_gaps_of(&written);
        check_older_form(&written);
        search_result_free(written.result);
        world_close(&written.w.world);
    }
    ck_assert_msg(narrowed > 0 && (unbound > narrowed) == is_cancelled && left > 0,
                  "%d narrowed, %d without, %d with a bound of what is left", narrowed, unbound, left);
}
END_TEST

/* ---- size ---- */

enum { MOST_BYTES = 1000000 };

/* Of a large space nothing was looked at, or much of it. */
START_TEST(searches_cut_short_write_little)
{
    int64_t most_left = 0;
    struct search_options options = { .space = space_default(512, 0, DTYPE_BF16), .top = 1, .no_advice = true };
    options.space.turns = (struct allowed){ 3, { 1, 2, 4 } };
    options.space.slices = (struct allowed){ 3, { 1, 2, 4 } };
    options.space.bucket_bytes = (struct allowed){ 4, { 0, 1 << 20, 4 << 20, USUAL_BUCKET_BYTES } };
    for (int64_t limit = 20; limit < 20000; limit *= small_share() ? 14 : share_stride() > 1 ? 8 : 2) {
        struct written written = written_cut_short(world_open("64x8:toy", 80000000000, 8), &options, limit);
        const struct certificate *c = &written.result->certificate;
        struct error err = { 0 };
        int64_t undecided = 0;
        size_t length = strlen(written.text);
        struct json_doc *doc = NULL;
        ck_assert_msg((int64_t)length < MOST_BYTES, "%zu bytes for %lld configurations", length,
                      (long long)c->configurations);
        most_left = c->left > most_left ? c->left : most_left;
        ck_assert(json_parse(&doc, "certificate", written.text, length, &err));
        ck_assert_msg(holds(&written, json_member(json_root(doc), "certificate"), &undecided, &err), "limit %lld: %s",
                      (long long)limit, err.message);
        ck_assert_int_eq(undecided, 0);
        json_free(doc);
        search_result_free(written.result);
        free(written.text);
        world_close(&written.w.world);
    }
    ck_assert_int_gt(most_left, 1000);
}
END_TEST

/* Records of random fates and places: each lies in one range, of its own fate or, where there are too many, of one that
 * claims no more of it; ranges hold no other record; what they say adds up. */
START_TEST(folded_records_are_few_and_true)
{
    enum { PLACES = 400000 };
    static const int most_gaps[] = { 1, 2, 3, 40 };
    uint64_t state = (uint64_t)_i + 1;
    struct config_record *records = calloc(PLACES, sizeof *records);
    int8_t *fate = malloc(PLACES);
    struct search_result result = { .certificate = { .configurations = PLACES, .records = records } };
    struct run run = { .result = &result, .options = &(struct search_options){ 0 }, .err = &(struct error){ 0 } };
    struct certificate *c = &result.certificate;
    int64_t counts[FATE_COUNT] = { 0 };
    memset(fate, -1, PLACES);
    for (int at = 0; at < PLACES; at += 1 + (int)(mix64(state++) % (uint64_t)most_gaps[_i % 4])) {
        static const enum config_fate fates[] = { FATE_SOLVED, FATE_LEFT, FATE_MEMORY };
        fate[at] = (int8_t)fates[mix64(state++) % (_i < 4 ? 1 : 3)];
        records[c->record_count++] = (struct config_record){ .config = at, .fate = (enum config_fate)fate[at] };
    }
    ck_assert(certificate_ranges_make(&run));
    ck_assert_int_lt(c->range_count, 20000);
    for (int i = 0; i < c->range_count; i++) {
        const struct config_range *range = &c->ranges[i];
        ck_assert(range->first <= range->last && (i == 0 || c->ranges[i - 1].last < range->first));
        counts[range->fate] += range->last - range->first + 1;
        for (int at = range->first; at <= range->last; at++) {
            ck_assert_msg(fate[at] != FATE_LEFT || range->fate == FATE_LEFT, "%d of fate %d is %s", at, fate[at],
                          config_fate_names[range->fate]);
            fate[at] = -1;
        }
    }
    for (int at = 0; at < PLACES; at++)
        ck_assert_int_lt(fate[at], 0);
    ck_assert_int_eq(c->solved, counts[FATE_SOLVED]);
    ck_assert_int_eq(c->left, counts[FATE_LEFT]);
    ck_assert_int_eq(c->pruned_memory, counts[FATE_MEMORY]);
    ck_assert_int_eq(c->complete, c->left == 0);
    ck_assert(c->coarse || c->pruned_bound == PLACES - c->record_count);
    ck_assert_int_eq(c->solved + c->left + c->pruned_memory + c->pruned_bound, PLACES);
    arena_free(&result.arena);
    free(records);
    free(fate);
}
END_TEST

/* What few searches claim. */
START_TEST(all_that_can_be_claimed_is_written)
{
    static const int cut[] = { 0, 3 };
    struct search_result result = {
        .certificate = { .coarse = true, .widened = 1 << CHOICE_ZERO, .ideals = 0, .orders_bound_ns = 5 }
    };
    struct space space = space_default(8, 0, DTYPE_BF16);
    struct json_writer w = { 0 };
    size_t length;
    space.cut = (struct space_cut){ 2, cut };
    space.rule_count = 1;
    space.rules[0] =
        (struct layer_rule){ .first = 0, .last = 1, .choice = CHOICE_ZERO, .allowed = { .count = 1, .values = { 3 } } };
    json_begin_object(&w);
    certificate_write(&w, &result, &space);
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    static const char *const words[] = { "\"widened\": [\n      \"zero\"", "\"coarse\": true", "\"orders_bound_ns\": 5",
                                         "\"stages\": [", "\"last\": 1" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(text, words[i]) != NULL, "%s: %s", words[i], text);
    free(text);
}
END_TEST

static Suite *certificate_suite(void)
{
    Suite *suite = suite_create("certificate");
    CHECK_ADD(suite, all_that_can_be_claimed_is_written);
    CHECK_ADD(suite, other_buckets_are_refused);
    CHECK_ADD(suite, there_is_no_gap_to_no_bound);
    CHECK_ADD(suite, what_older_ones_claim_of_the_simulation_is_told_apart);
    CHECK_ADD_LOOP(suite, searches_cut_short_claim_what_holds, 2);
    CHECK_ADD(suite, certificates_hold);
    CHECK_ADD(suite, what_lacks_memory_was_solved_beside_multipliers);
    CHECK_ADD(suite, searches_cut_short_write_little);
    CHECK_ADD_LOOP(suite, folded_records_are_few_and_true, 8);
    return suite;
}

CHECK_MAIN(certificate_suite)
