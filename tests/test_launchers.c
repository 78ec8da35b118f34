/* What launchers say: where ranks are, whether that suits the cluster, and where processes meet. */
#define _POSIX_C_SOURCE 200809L
#include "tests/check.h"
#include "executor/launch.h"
#include "executor/rendezvous.h"
#include "tests/tcp_ends.h"
#include <pthread.h>
#include <string.h>

enum { RANKS = 4 };

/* ---- hosts ---- */
struct host_check {
    struct rendezvous *rendezvous;
    const struct cluster *cluster;
    bool ok;
    struct error error;
};

static void *check_host(void *argument)
{
    struct host_check *check = argument;
    check->ok = launch_check_hosts(check->rendezvous, check->cluster, &check->error);
    return NULL;
}

/* Four ranks, per_host of them on each host, for a cluster of 2 x 2. */
static void check_hosts(int per_host, const char *expected)
{
    struct link_level levels[2] = { { .name = "node", .fanout = 2 }, { .name = "cluster", .fanout = 2 } };
    struct node_type type = { .levels = levels, .device_count = 4 };
    struct node_group group = { .device_count = 4 };
    const struct cluster cluster = { .name = "small",
                                     .level_count = 2,
                                     .type_count = 1,
                                     .group_count = 1,
                                     .types = &type,
                                     .groups = &group,
                                     .device_count = 4 };
    struct host_check checks[RANKS];
    pthread_t threads[RANKS];
    struct meeting meeting;
    struct error error = { 0 };
    ck_assert(tcp_meeting(&meeting, RANKS, &error));
    for (int r = 0; r < RANKS; r++) {
        struct meeting m = tcp_meeting_of(&meeting, r, per_host);
        checks[r] = (struct host_check){ .cluster = &cluster };
        ck_assert(rendezvous_open(&checks[r].rendezvous, &m, NULL, NULL, &error));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_create(&threads[r], NULL, check_host, &checks[r]);
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = RANKS - 1; r >= 0; r--) {
        ck_assert_int_eq(checks[r].ok, !expected);
        if (expected)
            ck_assert_msg(strstr(checks[r].error.message, expected) != NULL, "%s", checks[r].error.message);
        rendezvous_close(checks[r].rendezvous);
    }
}

START_TEST(ranks_must_be_where_the_cluster_has_them)
{
    check_hosts(2, NULL);
    check_hosts(1,
                "rank 0 runs on host host-0 and rank 1 on host host-1, but the plan's cluster small has both in one");
    check_hosts(3,
                "rank 0 and rank 2 both run on host host-0, but the plan's cluster small has them in different nodes");
    check_hosts(4, "rank 0 and rank 2 both run on host host-0");
}
END_TEST

START_TEST(the_first_of_slurms_hosts)
{
    static const char *const lists[][2] = {
        { "node1", "node1" },
        { "node1,node2", "node1" },
        { "gpu[07-09,12],login", "gpu07" },
        { "gpu[7]", "gpu7" },
        { "rack[1-2]n[03,5]-ib", "rack1n03-ib" },
        { "", NULL },
        { ",a", NULL },
        { "a]", NULL },
        { "a[", NULL },
        { "a[]", NULL },
        { "a[1", NULL },
    };
    char host[SOCKET_HOST_BYTES], longest[2 * SOCKET_HOST_BYTES] = { 0 };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        bool ok = launch_first_host(host, lists[i][0]);
        ck_assert_msg(ok == (lists[i][1] != NULL), "'%s'", lists[i][0]);
        if (ok)
            ck_assert_str_eq(host, lists[i][1]);
    }
    memset(longest, 'x', sizeof longest - 1);
    ck_assert(!launch_first_host(host, longest));
}
END_TEST

/* ---- launchers ---- */
static const char *const *variables; /* name, value, ..., NULL */
static const char *look_up(const char *name)
{
    for (const char *const *v = variables; *v; v += 2)
        if (strcmp(v[0], name) == 0)
            return v[1];
    return NULL;
}

static bool find_meeting(const char *const *set, struct meeting *meeting, struct error *err)
{
    struct launch launch;
    variables = set;
    *err = (struct error){ 0 };
    return launch_detect(&launch, look_up, err) && launch_meeting(meeting, &launch, 5, look_up, err);
}

#define RANK_OF_TORCHRUN "RANK", "1", "WORLD_SIZE", "4", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2"
#define RANK_OF_SLURM "SLURM_PROCID", "3", "SLURM_NTASKS", "4", "SLURM_LOCALID", "1"
#define RANK_OF_OPEN_MPI "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_RANK", "1"

START_TEST(launchers_say_where_to_meet)
{
    struct meeting m, n;
    struct error error;
    static const char *const torchrun[] = { RANK_OF_TORCHRUN, "MASTER_ADDR",         "head",  "MASTER_PORT",
                                            "29500",          "TORCHELASTIC_RUN_ID", "seven", NULL };
    ck_assert_msg(find_meeting(torchrun, &m, &error), "%s", error.message);
    ck_assert(m.rank == 1 && m.rank_count == 4 && m.port == 29500 && m.listener == -1);
    ck_assert_str_eq(m.host, "head");
    ck_assert_str_eq(m.token, "torchrun seven");
    static const char *const agent[] = {
        RANK_OF_TORCHRUN, "MASTER_ADDR",      "head", "MASTER_PORT", "29500", "TORCHELASTIC_USE_AGENT_STORE",
        "True",           "CLEAVE_JOB_TOKEN", "mine", NULL
    };
    ck_assert(find_meeting(agent, &m, &error) && m.port == 29501);
    ck_assert_str_eq(m.token, "mine");
    static const char *const slurm[] = { RANK_OF_SLURM, "SLURM_JOB_ID",        "4711",     "SLURM_STEP_ID",
                                         "0",           "SLURM_STEP_NODELIST", "n[08-09]", NULL };
    static const char *const next_job[] = { RANK_OF_SLURM, "SLURM_JOB_ID",        "4712",     "SLURM_STEP_ID",
                                            "0",           "SLURM_STEP_NODELIST", "n[08-09]", NULL };
    ck_assert(find_meeting(slurm, &m, &error) && m.rank == 3 && m.port >= 20000 && m.port < 32000);
    ck_assert_str_eq(m.host, "n08");
    ck_assert_str_eq(m.token, "Slurm 4711.0");
    ck_assert(find_meeting(next_job, &n, &error) && n.port != m.port);
    static const char *const mpi[] = {
        RANK_OF_OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "PMIX_NAMESPACE", "99", NULL
    };
    ck_assert(find_meeting(mpi, &m, &error));
    ck_assert_str_eq(m.host, "127.0.0.1");
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    struct meeting m;
    struct error error;
    static const char *const spread[] = { RANK_OF_OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE", "1", NULL };
    ck_assert(!find_meeting(spread, &m, &error) && strstr(error.message, "set MASTER_ADDR"));
    static const char *const no_port[] = { RANK_OF_TORCHRUN, "MASTER_ADDR", "head", NULL };
    ck_assert(!find_meeting(no_port, &m, &error) && strstr(error.message, "set MASTER_PORT"));
    static const char *const bad_port[] = { RANK_OF_TORCHRUN, "MASTER_ADDR", "head", "MASTER_PORT", "0x10", NULL };
    ck_assert(!find_meeting(bad_port, &m, &error) && strstr(error.message, "from 1 to 65535, found '0x10'"));
    static const char *const no_token[] = { RANK_OF_TORCHRUN, "MASTER_ADDR", "head", "MASTER_PORT", "9", NULL };
    ck_assert(!find_meeting(no_token, &m, &error) && strstr(error.message, "set CLEAVE_JOB_TOKEN"));
    static const char *const no_socket[] = {
        RANK_OF_TORCHRUN, "CLEAVE_LISTENER", "0", "MASTER_ADDR", "h", "MASTER_PORT", "9", "CLEAVE_JOB_TOKEN", "t", NULL
    };
    struct launch first = { .rank = 0, .rank_count = 4 };
    variables = no_socket, error = (struct error){ 0 };
    ck_assert(!launch_meeting(&m, &first, 5, look_up, &error) && strstr(error.message, "a socket that listens"));
    static const char *const empty[] = {
        RANK_OF_TORCHRUN, "MASTER_ADDR", "head", "MASTER_PORT", "9", "CLEAVE_JOB_TOKEN", "", NULL
    };
    ck_assert(!find_meeting(empty, &m, &error) && strstr(error.message, "CLEAVE_JOB_TOKEN: expected 1 to"));
}
END_TEST

static Suite *launchers_suite(void)
{
    Suite *suite = suite_create("launchers");
    CHECK_ADD(suite, ranks_must_be_where_the_cluster_has_them);
    CHECK_ADD(suite, the_first_of_slurms_hosts);
    CHECK_ADD(suite, launchers_say_where_to_meet);
    CHECK_ADD(suite, what_is_missing_is_named);
    return suite;
}

CHECK_MAIN(launchers_suite)
