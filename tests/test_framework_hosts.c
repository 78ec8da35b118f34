/* What hosts do under a framework: gathers that they list and wait for, and states that they keep and update. */
#include "planner/cost/cost.h"
#include "tests/framework_job.h"

/* A host that lists the parts of a collective takes time for each rank, and one that waits before gathers issues none
 * before all that comes earlier in its list has ended. */
START_TEST(hosts_list_ranks_and_wait_before_gathers)
{
    struct framework lists = framework_of(", \"issue_kernel_ns\": 10, \"issue_transfer_ns\": 100, "
                                          "\"issue_rank_ns\": 1000, \"host_waits_for\": \"gathers\"");
    union fixed u = fixed_none();
    u.stages = 1;
    u.zero = 3;
    struct job job = job_of(NULL, &lists, u, DTYPE_BF16);
    const struct stage_program *list = &job.program->stages[0];
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate(&timeline, &job.world.facts, job.program, &err), "%s", err.message);
    int gathers = 0, reductions = 0;
    for (int i = 0; i < list->instr_count; i++) {
        enum op op = list->instrs[i].op;
        struct host_issue issue = cost_issue(&job.world.facts, job.program, 0, &list->instrs[i]);
        ck_assert_int_eq(issue.waits, op == OP_ALL_GATHER ? HOST_WAITS_FOR_ALL : HOST_WAITS_FOR_NOTHING);
        if (op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER)
            ck_assert_int_eq(issue.ns, 100 + 2 * 1000);
        else if (op == OP_COMPUTE)
            ck_assert_int_eq(issue.ns, 10);
        if (op == OP_ALL_GATHER && i > 0)
            ck_assert_int_ge(timeline->ranks[0].spans[i].start_ns, timeline->ranks[0].spans[i - 1].finish_ns + 2100);
        gathers += op == OP_ALL_GATHER;
        reductions += op == OP_REDUCE_SCATTER;
    }
    ck_assert_int_gt(gathers, 0);
    ck_assert_int_gt(reductions, 0);
    timeline_free(timeline);
    job_close(&job);
}
END_TEST

/* Where a host updates the optimizer's state that it keeps, all its devices' elements take their time there; gradients
 * go down and weights come back in place of state, which the device fetches where no framework says so. */
START_TEST(hosts_update_what_they_keep)
{
    struct framework there = framework_of(", \"host_updates_per_s\": 1e6"), here = framework_of("");
    union fixed u = fixed_none();
    u.stages = 1;
    u.zero = 1;
    u.offload = OFFLOAD_OPTIMIZER;
    struct job job = job_of(NULL, &there, u, DTYPE_BF16);
    struct facts other = job.world.facts;
    other.framework = &here;
    const struct device_type *device = &job.world.cluster->types[0].device;
    int64_t updates = 0;
    for (int i = 0; i < job.program->stages[0].instr_count; i++) {
        const struct instr *instr = &job.program->stages[0].instrs[i];
        const struct pair *pair = &job.program->pairs[instr->pair_first];
        int64_t ns = cost_instr_ns(&job.world.facts, job.program, 0, instr),
                device_ns = cost_instr_ns(&other, job.program, 0, instr);
        if (instr->op == OP_UPDATE) {
            int64_t elements = buffer_holds(&job.program->buffers[pair->source]);
            ck_assert_int_ge(ns, elements * 2 * 1000 + cost_launch_ns(&job.world.facts, job.program, 0, instr));
            ck_assert_int_le(ns, elements * 2 * 1000 + device_ns); /* that begins it likewise */
            updates++;
        } else if (instr->op == OP_FETCH || instr->op == OP_OFFLOAD) {
            int64_t elements = buffer_holds(&job.program->buffers[pair->source]),
                    bytes = elements * (instr->op == OP_FETCH ? 2 : 4);
            double copied_ns = (double)device->host_latency_ns + (double)bytes / device->host_bytes_per_s * 1e9;
            ck_assert_double_eq_tol((double)ns, copied_ns, 1);
            ck_assert_int_lt(ns, device_ns);
        } else {
            ck_assert_int_eq(ns, device_ns);
        }
    }
    ck_assert_int_gt(updates, 8);
    job_close(&job);
}
END_TEST

static Suite *framework_hosts_suite(void)
{
    Suite *suite = suite_create("framework_hosts");
    CHECK_ADD(suite, hosts_list_ranks_and_wait_before_gathers);
    CHECK_ADD(suite, hosts_update_what_they_keep);
    return suite;
}

CHECK_MAIN(framework_hosts_suite)
