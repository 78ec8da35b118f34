#define _GNU_SOURCE
#include "base/num.h"
#include "executor/launch.h"
#include "executor/meeting_file.h"
#include "host/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ports that follow from a job's number: below those that systems give to clients (32768 on). */
enum { FIRST_PORT = 20000, PORT_COUNT = 12000, TOKEN_FILE_BYTES = 4096 };

static const char this_host[] = "127.0.0.1";

static void name_host(struct meeting *m)
{
    gethostname(m->host_name, sizeof m->host_name);
    m->host_name[sizeof m->host_name - 1] = '\0';
}

/* ---- where ---- */
/* One part of a host list, up to its end: text, or the first of the numbers in brackets. */
static const char *take_part(char *out, size_t *length, const char *at)
{
    bool bracket = *at == '[';
    size_t taken = bracket ? strcspn(at + 1, "-,]") : strcspn(at, "[],");
    if (taken == 0 || *length + taken >= SOCKET_HOST_BYTES)
        return NULL;
    memcpy(out + *length, at + (bracket ? 1 : 0), taken);
    *length += taken;
    if (!bracket)
        return at + taken;
    const char *close = strchr(at, ']');
    return close ? close + 1 : NULL;
}

bool launch_first_host(char out[SOCKET_HOST_BYTES], const char *list)
{
    size_t length = 0;
    while (list && *list && *list != ',')
        list = *list == ']' ? NULL : take_part(out, &length, list);
    out[length] = '\0';
    return list && length > 0;
}

static bool copy(char *out, size_t size, const char *what, const char *text, struct error *err)
{
    if (!text[0] || strlen(text) >= size)
        return fail_kind(err, ERROR_INPUT, "%s: expected 1 to %zu characters, found %zu", what, size - 1, strlen(text));
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static const char *slurm_hosts(launch_environment *environment)
{
    const char *list = environment("SLURM_STEP_NODELIST");
    list = list ? list : environment("SLURM_JOB_NODELIST");
    return list ? list : environment("SLURM_NODELIST");
}

static bool find_host(struct meeting *m, const struct launch *launch, launch_environment *environment,
                      struct error *err)
{
    const char *named = environment("MASTER_ADDR"), *list = slurm_hosts(environment);
    if (named)
        return copy(m->host, sizeof m->host, "MASTER_ADDR", named, err);
    if (list)
        return launch_first_host(m->host, list) ||
               fail_kind(err, ERROR_INPUT, "Slurm's list of nodes '%s' has no first host: set MASTER_ADDR", list);
    if (launch->local_count == launch->rank_count)
        return copy(m->host, sizeof m->host, "host", this_host, err);
    return fail_kind(
        err, ERROR_INPUT,
        "%s started rank %d of several hosts, and nobody says where the ranks meet: set MASTER_ADDR to the "
        "host of rank 0 and MASTER_PORT to a free port there, or CLEAVE_MEETING_FOLDER to a folder that all hosts "
        "share",
        launch->launcher, launch->rank);
}

/* What names the job, or NULL. */
static const char *job_name(launch_environment *environment, char *out, size_t size)
{
    const char *run = environment("TORCHELASTIC_RUN_ID"), *job = environment("SLURM_JOB_ID");
    const char *step = environment("SLURM_STEP_ID"), *space = environment("PMIX_NAMESPACE");
    if (run)
        snprintf(out, size, "torchrun %s", run);
    else if (job)
        snprintf(out, size, "Slurm %s.%s", job, step ? step : "");
    else if (space)
        snprintf(out, size, "PMIx %s", space);
    return run || job || space ? out : NULL;
}

/* Only rank 0 needs to know a host where ranks meet by a file, and it finds its own if it is not told. */
static bool find_own_host(struct meeting *m, const struct launch *launch, launch_environment *environment,
                          struct error *err)
{
    const char *named = environment("MASTER_ADDR");
    if (named)
        return copy(m->host, sizeof m->host, "MASTER_ADDR", named, err);
    if (launch->local_count == launch->rank_count)
        memcpy(m->host, this_host, sizeof this_host);
    return true;
}

static bool find_port(struct meeting *m, const char *job, launch_environment *environment, struct error *err)
{
    const char *own = environment("CLEAVE_MASTER_PORT"), *named = environment("MASTER_PORT");
    const char *agent = environment("TORCHELASTIC_USE_AGENT_STORE");
    const char *what = own ? "CLEAVE_MASTER_PORT" : "MASTER_PORT", *text = own ? own : named;
    if (!text && job) {
        m->port = FIRST_PORT + (int)(hash_string(0, job) % PORT_COUNT);
        return true;
    }
    if (!text)
        return fail_kind(err, ERROR_INPUT, "set MASTER_PORT to a port that is free on the host of rank 0 (%s)",
                         m->host);
    char *end;
    long port = strtol(text, &end, 10);
    if (end == text || *end || port < 1 || port > 65535)
        return fail_kind(err, ERROR_INPUT, "%s: expected a port from 1 to 65535, found '%s'", what, text);
    m->port = (int)port;
    /* torchrun says so when its agent's own store listens on that port */
    if (!own && agent && strcmp(agent, "True") == 0)
        m->port += port < 65535 ? 1 : -1;
    return true;
}

static bool read_token(struct meeting *m, const char *path, struct error *err)
{
    char *text;
    size_t length;
    if (!file_read_limited(&text, &length, path, TOKEN_FILE_BYTES, err))
        return error_within(err, "CLEAVE_JOB_TOKEN_FILE");
    text[strcspn(text, "\r\n")] = '\0';
    bool ok = copy(m->token, sizeof m->token, "the first line of CLEAVE_JOB_TOKEN_FILE", text, err);
    free(text);
    return ok;
}

bool launch_meeting(struct meeting *out, const struct launch *launch, double timeout_s, launch_environment *environment,
                    struct error *err)
{
    struct meeting m = {
        .rank = launch->rank, .rank_count = launch->rank_count, .listener = -1, .timeout_s = timeout_s
    };
    char job_text[TOKEN_BYTES];
    const char *job = job_name(environment, job_text, sizeof job_text);
    const char *token = environment("CLEAVE_JOB_TOKEN"), *file = environment("CLEAVE_JOB_TOKEN_FILE");
    const char *listener = environment("CLEAVE_LISTENER");
    /* who names a port of ours means it */
    const char *folder = environment("CLEAVE_MASTER_PORT") ? NULL : environment("CLEAVE_MEETING_FOLDER");
    if (folder ? !find_own_host(&m, launch, environment, err)
               : !find_host(&m, launch, environment, err) || !find_port(&m, job, environment, err))
        return false;
    if (!token && !file && !job)
        return fail_kind(err, ERROR_INPUT,
                         "the job needs a token, by which its processes know each other: set CLEAVE_JOB_TOKEN to the "
                         "same secret text for all, or CLEAVE_JOB_TOKEN_FILE to a file that holds it");
    if (token || !file ? !copy(m.token, sizeof m.token, "CLEAVE_JOB_TOKEN", token ? token : job, err)
                       : !read_token(&m, file, err))
        return false;
    if (listener && launch->rank == 0 && !folder) {
        m.listener = atoi(listener);
        if (!socket_is_listening(m.listener))
            return fail_kind(err, ERROR_INPUT, "CLEAVE_LISTENER: expected a socket that listens, found descriptor '%s'",
                             listener);
    }
    name_host(&m);
    if (folder && !meeting_file_find(&m, folder, err))
        return false;
    *out = m;
    return true;
}

bool launch_watch(struct meeting *out, const struct launch *launch, double timeout_s, launch_environment *environment,
                  struct error *err)
{
    const char *named = environment("MASTER_ADDR");
    *out = (struct meeting){ .listener = -1, .timeout_s = timeout_s };
    name_host(out);
    if (named)
        return copy(out->host, sizeof out->host, "MASTER_ADDR", named, err);
    if (launch->local_count == launch->rank_count)
        memcpy(out->host, this_host, sizeof this_host);
    return true;
}

/* ---- are the ranks where the plan has them ---- */
struct host_name {
    char text[STATUS_HOST_BYTES];
};

static bool same_host(const struct host_name *a, const struct host_name *b)
{
    return strcmp(a->text, b->text) == 0;
}

/* Writes what is wrong, or nothing. */
static void judge_hosts(char *out, size_t size, const struct host_name *hosts, int count, const struct cluster *cluster)
{
    static const char *const advice = "start the processes of one node on one host, in order";
    out[0] = '\0';
    for (int r = 1; r < count && !out[0]; r++) {
        bool begins_node = cluster_place(cluster, r, 0) == 0;
        if (!begins_node && !same_host(&hosts[r - 1], &hosts[r]))
            snprintf(
                out, size,
                "rank %d runs on host %s and rank %d on host %s, but the plan's cluster %s has both in one node: %s",
                r - 1, hosts[r - 1].text, r, hosts[r].text, cluster->name, advice);
        for (int other = 0; begins_node && other < r && !out[0]; other++)
            if (same_host(&hosts[other], &hosts[r]))
                snprintf(out, size,
                         "rank %d and rank %d both run on host %s, but the plan's cluster %s has them in different "
                         "nodes: %s, or imitate the cluster with --shape",
                         other, r, hosts[r].text, cluster->name, advice);
    }
}

static bool collect_hosts(struct rendezvous *rendezvous, const struct cluster *cluster, struct error *err)
{
    int count = rendezvous_meeting(rendezvous)->rank_count;
    struct host_name *hosts = calloc((size_t)count, sizeof *hosts);
    char key[RENDEZVOUS_KEY_BYTES], verdict[ERROR_MESSAGE_BYTES];
    size_t bytes;
    bool ok = hosts || fail_kind(err, ERROR_ENVIRONMENT, "no memory for the hosts of %d ranks", count);
    for (int r = 0; ok && r < count; r++) {
        snprintf(key, sizeof key, "host/%d", r);
        ok = rendezvous_get(rendezvous, key, hosts[r].text, sizeof hosts[r].text - 1, &bytes, err);
    }
    if (ok)
        judge_hosts(verdict, sizeof verdict, hosts, count, cluster);
    ok = ok && rendezvous_put(rendezvous, "hosts", verdict, strlen(verdict), err);
    free(hosts);
    return ok;
}

/* Rank 0 takes the store with it when it ends: it waits until all have read why. */
static void tell_read(struct rendezvous *rendezvous)
{
    const struct meeting *m = rendezvous_meeting(rendezvous);
    char key[RENDEZVOUS_KEY_BYTES], nothing[1];
    size_t bytes;
    snprintf(key, sizeof key, "read/%d", m->rank);
    rendezvous_put(rendezvous, key, NULL, 0, NULL);
    for (int r = 1; m->rank == 0 && r < m->rank_count; r++) {
        snprintf(key, sizeof key, "read/%d", r);
        if (!rendezvous_get(rendezvous, key, nothing, sizeof nothing, &bytes, NULL))
            return;
    }
}

bool launch_check_hosts(struct rendezvous *rendezvous, const struct cluster *cluster, struct error *err)
{
    const struct meeting *m = rendezvous_meeting(rendezvous);
    char key[RENDEZVOUS_KEY_BYTES], verdict[ERROR_MESSAGE_BYTES];
    size_t bytes;
    snprintf(key, sizeof key, "host/%d", m->rank);
    if (!rendezvous_put(rendezvous, key, m->host_name, strlen(m->host_name), err) ||
        (m->rank == 0 && !collect_hosts(rendezvous, cluster, err)) ||
        !rendezvous_get(rendezvous, "hosts", verdict, sizeof verdict - 1, &bytes, err))
        return false;
    verdict[bytes] = '\0';
    if (bytes > 0)
        tell_read(rendezvous);
    return bytes == 0 || fail(err, "%s", verdict);
}
