/* Certificates of random searches are refused when any member is changed. */
#include "planner/space/config_name.h"
#include "tests/written_certificate.h"
#include <math.h>

/* One value of the certificate, numbered as they are met. */
struct change {
    int wanted, met, in_space;
    bool down;     /* numbers go down instead of up; lists lose a value instead of having one twice */
    bool of_space; /* it is of the space's restrictions */
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
        for (int i = wanted && change->down; i < json_count(value); i++)
            copy_value(w, change, json_at(value, i), name);
        if (wanted && !change->down && json_count(value) > 0)
            json_write_value(w, json_at(value, 0));
        else if (wanted && json_count(value) == 0)
            json_write_int(w, 1);
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

/* Or not held in full: undecided in part, or older by its own word, of which the report tells what was not checked. */
static bool refused(const struct written *written, const struct json *certificate)
{
    struct error err = { 0 };
    struct check_report report = { 0 };
    if (holds_as(written, certificate, &report, &err))
        return report.undecided > 0 || report.version < CERTIFICATE_VERSION;
    ck_assert_msg(err.kind == ERROR_GATE || err.kind == ERROR_INPUT, "%s", err.message);
    return true;
}

/* The best plan's stages have several meshes, whose numbers can be changed. */
static bool is_turned(const struct written *written)
{
    return strstr(written->result->certificate.best, "meshes=") != NULL;
}

struct tally {
    int changes, forged;
};

/* Every value of the certificate in turn, up and down, with the old digest and with a new one. */
static void refuse_changes(const struct written *written, const struct json *certificate, const char *of,
                           struct tally *tally)
{
    struct json_doc *changed;
    for (int wanted = 1, down = 0;; wanted += down, down = !down) {
        struct change change = { .wanted = wanted, .down = down };
        if (!(changed = changed_certificate(certificate, &change)))
            break;
        ck_assert_msg(refused(written, json_root(changed)), "%s: %s changed %s is accepted", of, change.where,
                      down ? "down" : "up");
        tally->changes++;
        struct json_doc *forged = strcmp(change.where, "digest") ? signed_again(json_root(changed)) : NULL;
        /* Restrictions may say the same in other words: then space_hash, too, was found to be the same. What has no
         * weights, or none to share them with, costs the same with any ZeRO stage. With a wider gap it is as complete.
         */
        if (forged && !change.of_space && strcmp(change.where, "zero") != 0 &&
            strcmp(change.where, "asked_gap_ppm") != 0)
            ck_assert_msg(refused(written, json_root(forged)), "%s: forged %s changed %s is accepted%s%s", of,
                          change.where, down ? "down" : "up", change.changed[0] ? ": " : "", change.changed);
        tally->forged += forged != NULL;
        json_free(forged);
        json_free(changed);
    }
}

/* The same with one more of one member and one less of another. */
static struct json_doc *moved(const struct json *certificate, const char *from, const char *to)
{
    struct json_writer w = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    size_t length = 0;
    json_begin_object(&w);
    for (int i = 0; i < json_count(certificate); i++) {
        const char *key = json_key(certificate, i);
        int64_t count = 0, more = !strcmp(key, to) - !strcmp(key, from);
        json_write_key(&w, key);
        if (more != 0 && json_int(json_member_at(certificate, i), 0, INT64_MAX, &count, &err))
            json_write_int(&w, count + more);
        else
            json_write_value(&w, json_member_at(certificate, i));
    }
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    ck_assert_msg(json_parse(&doc, "moved", text, length, &err), "%s", err.message);
    free(text);
    return doc;
}

/* No two whole numbers of the certificate can make up for each other. */
static void refuse_moves(const struct written *written, const struct json *certificate, const char *of,
                         struct tally *tally)
{
    int64_t count;
    for (int i = 0; i < json_count(certificate); i++)
        for (int k = 0; k < json_count(certificate); k++) {
            const char *from = json_key(certificate, i), *to = json_key(certificate, k);
            if (i == k || !json_int(json_member_at(certificate, i), 0, INT64_MAX, &count, &(struct error){ 0 }) ||
                !json_int(json_member_at(certificate, k), 0, INT64_MAX, &count, &(struct error){ 0 }))
                continue;
            struct json_doc *changed = moved(certificate, from, to), *forged = signed_again(json_root(changed));
            ck_assert_msg(refused(written, json_root(forged)), "%s: one of %s counted as of %s is accepted", of, from,
                          to);
            tally->forged++;
            json_free(forged);
            json_free(changed);
        }
}

static void refuse_all(const struct written *written, const char *of, struct tally *tally)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    int64_t undecided = 0;
    ck_assert(json_parse(&doc, "certificate", written->text, strlen(written->text), &err));
    const struct json *certificate = json_member(json_root(doc), "certificate");
    ck_assert_msg(holds(written, certificate, &undecided, &err), "%s: %s", of, err.message);
    refuse_changes(written, certificate, of, tally);
    refuse_moves(written, certificate, of, tally);
    json_free(doc);
}

START_TEST(changes_are_refused)
{
    int shown = 0, turned = 0;
    struct tally tally = { 0 };
    for (uint64_t seed = 1, certificates = 0; certificates < 6 || shown < 2 || turned < 1; seed++) {
        struct written written;
        char of[32];
        if (!written_open(&written, seed) || written.result->certificate.bound_ns == 0 ||
            written.result->certificate.record_count > 12 ||
            (certificates >= 6 && !written.result->certificate.best_plan) ||
            (certificates >= 6 && shown >= 2 && !is_turned(&written))) {
            written_close(&written);
            continue;
        }
        certificates++;
        shown += written.result->certificate.best_plan != NULL;
        turned += written.result->certificate.best_plan && is_turned(&written);
        snprintf(of, sizeof of, "seed %d", (int)seed);
        refuse_all(&written, of, &tally);
        written_close(&written);
    }
    ck_assert_int_gt(tally.changes, 300);
    ck_assert_int_gt(tally.forged, 600);
}
END_TEST

/* The same of searches that were cut short: whatever was left or unseen, no member can be changed. */
START_TEST(changes_of_searches_cut_short_are_refused)
{
    int left = 0, unseen = 0;
    struct tally tally = { 0 };
    struct search_options options = { .space = space_default(24, 0, DTYPE_BF16), .top = 1, .no_advice = true };
    if (small_share() && _i > 0)
        return;
    if (_i == 1)
        only_bounded(&options.space);
    for (int64_t limit = 1; limit < 2000 && (left < 2 || unseen < 1); limit += 1 + limit / 4) {
        struct written written = written_cut_short(world_open("1x4:toy", 80000000000, 2), &options, limit);
        const struct certificate *c = &written.result->certificate;
        char of[32];
        snprintf(of, sizeof of, "limit %d", (int)limit);
        if ((c->left > 0 && left < 2) || (c->unseen > 0 && unseen < 1))
            refuse_all(&written, of, &tally);
        left += c->left > 0;
        unseen += c->unseen > 0;
        search_result_free(written.result);
        free(written.text);
        world_close(&written.w.world);
    }
    ck_assert_msg(left > 1 && unseen > 0, "%d with some left, %d with some unseen", left, unseen);
    ck_assert_int_gt(tally.forged, 300);
}
END_TEST

/* ---- fates ---- */

enum { RULED_OUT = -1 };

/* What the claim says of each place, one by one: (count). */
static struct claimed_config *list_places(const struct written *written, const struct claim *claim, int *count)
{
    struct arena arena = { 0 };
    char name[CONFIG_NAME_BYTES];
    const struct config *configs = configs_of(written, &arena, count);
    struct claimed_config *places = calloc((size_t)*count, sizeof *places);
    for (int at = 0; at < *count; at++) {
        places[at].fate = (enum config_fate)RULED_OUT;
        config_name(name, &configs[at]);
        for (int i = 0; i < claim->config_count; i++) {
            const struct claimed_config *own = &claim->configs[i];
            if (own->name ? strcmp(own->name, name) == 0 : own->first <= at && at <= own->last)
                places[at] = *own;
        }
        places[at].name = NULL;
        places[at].first = places[at].last = at;
    }
    arena_free(&arena);
    return places;
}

static void add_to_count(struct claim *claim, int fate, int more)
{
    int64_t *const counts[] = {
        [FATE_SOLVED] = &claim->solved, [FATE_MEMORY] = &claim->pruned_memory, [FATE_REFUSED] = &claim->refused
    };
    *(fate == RULED_OUT ? &claim->pruned_bound : counts[fate]) += more;
}

/* Whether the claim holds when it says that of one place, and counts it so. */
static bool holds_with(const struct written *written, const struct claim *claim, const struct claimed_config *places,
                       int count, int at, int fate)
{
    struct claim other = *claim;
    struct check_report report = { 0 };
    struct error err = { 0 };
    other.configs = calloc((size_t)count, sizeof *other.configs);
    other.config_count = 0;
    for (int i = 0; i < count; i++)
        if (i == at && fate != RULED_OUT)
            other.configs[other.config_count++] = (struct claimed_config){
                .first = at, .last = at, .fate = (enum config_fate)fate, .bound_ns = claim->bound_ns
            };
        else if (i != at && (int)places[i].fate != RULED_OUT)
            other.configs[other.config_count++] = places[i];
    add_to_count(&other, (int)places[at].fate, -1);
    add_to_count(&other, fate, 1);
    bool good = check_certificate(&report, &other, written->w.world.model, &written->w.world.facts,
                                  written->result->plans[0].plan, NULL, NULL, &err);
    ck_assert_msg(good || err.kind == ERROR_GATE, "%s", err.message);
    free(other.configs);
    return good && report.undecided == 0;
}

/* Where devices are of one type the fate of every configuration is the only one that it can have; but that a
 * certificate which calls itself coarse may list what its first bound rules out. */
START_TEST(no_configuration_can_have_another_fate)
{
    static const int short_of_memory[] = { 1486, 1638, 2109 }; /* there some configurations are */
    int met[FATE_COUNT + 1] = { 0 }, more = (int)(sizeof short_of_memory / sizeof *short_of_memory);
    for (int n = small_share() ? -13 : share_stride() > 1 ? -40 : -120; n < more; n++) {
        struct written written;
        uint64_t seed = (uint64_t)(n < 0 ? -n : short_of_memory[n]);
        if (written_open(&written, seed) && written.result->certificate.bound_ns > 0 &&
            written.w.world.cluster->type_count == 1 && written.result->certificate.configurations <= 60) {
            struct written_claim read = written_claim_open(written.result, &written.w.space);
            int count = 0;
            struct claimed_config *places = list_places(&written, &read.claim, &count);
            for (int at = 0; at < count; at++)
                for (int fate = RULED_OUT; fate <= FATE_REFUSED; fate++) {
                    bool own = fate == (int)places[at].fate;
                    met[(int)places[at].fate + 1]++;
                    struct claim coarse = read.claim;
                    coarse.coarse = true;
                    if ((int)places[at].fate == RULED_OUT && fate == FATE_SOLVED)
                        ck_assert(holds_with(&written, &coarse, places, count, at, fate));
                    ck_assert_msg(own || !holds_with(&written, &read.claim, places, count, at, fate),
                                  "seed %d: configuration %d of fate %d is accepted with %d", (int)seed, at,
                                  (int)places[at].fate, fate);
                }
            free(places);
            written_claim_close(&read);
        }
        written_close(&written);
    }
    ck_assert_msg(met[0] > 100 && met[FATE_SOLVED + 1] > 100 && met[FATE_MEMORY + 1] > 0,
                  "%d ruled out, %d solved, %d by memory", met[0], met[FATE_SOLVED + 1], met[FATE_MEMORY + 1]);
}
END_TEST

static Suite *certificate_changes_suite(void)
{
    Suite *suite = suite_create("certificate_changes");
    CHECK_ADD(suite, changes_are_refused);
    CHECK_ADD_LOOP(suite, changes_of_searches_cut_short_are_refused, 2);
    CHECK_ADD(suite, no_configuration_can_have_another_fate);
    return suite;
}

CHECK_MAIN(certificate_changes_suite)
