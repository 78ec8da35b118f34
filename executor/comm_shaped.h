/* A transport that is as slow as a described cluster: what a network would do to a run, without privileges. */
#ifndef CLEAVE_EXECUTOR_COMM_SHAPED_H
#define CLEAVE_EXECUTOR_COMM_SHAPED_H
#include "executor/transport.h"
#include "planner/facts/cluster.h"

/**
 * Wraps the ends of this process in place; closing one closes what it wraps. A transfer takes the latency of the level
 * that joins the two ranks plus its bytes over that level's bandwidth. Transfers that use one link of a rank in one
 * direction at the same time share it equally, whatever their lane. On a level whose bandwidth is that of a whole unit,
 * the ranks of this process share the unit's link; in other processes each rank has its equal part. Messages
 * between which nobody calls next() are one transfer, which takes its latency once. In transfers both ways ranks pass
 * on what they get: of these settle() takes the latencies, those of the hops on the slowest way that a message went.
 * The compute lane's channel is not delayed. The cluster is borrowed. On failure all stay as they were.
 */
bool comm_shaped_wrap(struct transport *transports, int count, const struct cluster *cluster, struct error *err);
#endif
