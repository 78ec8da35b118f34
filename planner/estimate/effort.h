/* How much work a search does, and what it takes for far, near or alike: the constants that tune the heuristics of
 * search/, pool/, estimate/ and explain/. None of them decides what is legal, priced or proven; each trades the time of
 * a search for plans that it may miss. Behind each stands its reason, and what was measured. "Golden" are the 26 jobs
 * of benchmarks/run_golden; what a whole heuristic earns there stands in benchmarks/results/heuristics.json. What half
 * and twice of each constant do is in docs/effort.md (benchmarks/run_effort). */
#ifndef CLEAVE_ESTIMATE_EFFORT_H
#define CLEAVE_ESTIMATE_EFFORT_H
/* clang-format off */

/* ---- what a small model is ---- */
enum {
    SMALL_LAYERS = 128,    /* Of so few layers solving and judging often is cheap: llama-2-13b has 83. */
    SMALL_PLACES = 1 << 9, /* With branches also so few places to cut. */
};

/* ---- proposals by the formula (propose.c, first_bounds.c) ---- */
enum {
    WAVE = 4,               /* Jobs that are solved before their answers prune: more keep threads busy, prune later. */
    FEW_NODES = 30,         /* Nodes of a knapsack where a plan is wanted and no proof: few have more. */
    ENOUGH_NODES = 300,     /* Nodes of all knapsacks of a configuration then: a hard one does not hold up the wave. */
    MANY_NODES = 3000,      /* Nodes of a knapsack for the proof, behind all others: hard ones take up to 50 ms each
                               (benchmarks/solver_speed). */
    SCOUTS = 3,             /* Plans that are found to begin with: a first incumbent prunes most of what comes. */
    MOST_SCOUTED = 256,     /* Configurations solved in time where no plan fits after layout; then one by one. */
    FAMILY_GAP_PPM = 10000, /* How near plans come to the optimum that only have to be some plan: the walk, which
                               decides among them, is off by a few percent. */
    SLACK_PERMILLE = 10,    /* Plans so much longer by the formula are candidates: the judge sees what it does not. */
    DIVE_SHARE = 20,        /* A bound one part in so many below the incumbent is solved at once: it may prune much. */
    PROOF_WORK = 12000,     /* Knapsacks and passes of the proof before it pauses for the judge: of the golden jobs the
                               one whose proof takes most needs 8,522, half a second. */
    PROOF_NODES = 10000,    /* Nodes of hard knapsacks, then what is solved for the proof alone is left with the bound
                               that it has: llama-2-7b on 4x4 rtx4090 needs 519; vgg-16 on 4x8 a100-sxm-40 in two stages
                               found no other plan by 20,000 (60,044 with what a wave shares out). Those of one wave
                               do not know of each other's. */
    LARGE_SPACE = 20000,    /* Of so many configurations the narrower part goes first: listing and bounding them all
                               may take whatever time there is. */
    EARLY_LOOKS = 16,       /* Candidates of the formula that are walked for an early plan, of which */
    EARLY_TRIES = 3,        /* so many are simulated until one fits: where time is limited, in all 1 % of the search
                               for gpt2, 23 % for gpt3-175b, 41 % for llama-3-70b on 8x8 h100-sxm (`--timings`). */
    EARLY_GROWTH = 3,       /* It is looked for again when the proof has done so many times as much, so that a proof
                               that takes long keeps nobody waiting: scouts of llama-3-405b find 118 s, its proof soon
                               7.1. */
    EARLY_GAIN_SHARE = 32,  /* Another early plan has to be one part in so many shorter: for gpt-1t on 64x8 a100-sxm-80,
                               batch 3072, three more were simulated for 0.7 %, 1.6 s beside 0.8 of all else. */
};

/* ---- families (families.c): without them 7 golden jobs take longer, by up to 9.1 %, 4 less, by up to 1 %; a sixth
 * of the time ---- */
enum {
    FAMILY_PERMILLE = 300, /* Families whose bound is further above the best are left out: trades time for what the
                              walk might prefer. */
    SMALL_PERMILLE = 1000, /* The same of small models, of which more is soon looked at. */
    FAMILY_TRIES = 2,      /* Configurations solved for a family until one has a plan, those of the least relaxation. */
    FAMILY_SOLVES = 24,    /* Of all families. */
    FAMILY_LOOKS = 8,      /* Relaxations for each of these, which cost less: without, of large models two solved
                              micro-batches that do not fit were all that a family got, and llama-3-70b on 32x8 h100-sxm,
                              batch 768, took 3.6 % longer. */
    SMALL_MORE = 4,        /* Small models get so many times as many solves and tries. */
    ORDERS_MORE = 4,       /* Likewise clusters with the most orders of groups, each of which has its own families. */
    FAMILY_ALL = 1024,     /* Of at most so many configurations not only those are looked at that promise to win:
                              vgg-16 on 2x4 a10g, of 123, took 4.7 % longer, bert-large on 2x3 a10g in three stages
                              of 1f1b, of 24, 5 %. mixtral-8x7b on 8x8 h100-sxm, of 3,776, would take 1.5 times the
                              processor time. */
    FAMILY_RANKED = 2,     /* The best of each family come first into the ranking. */
};

/* ---- ranking by the walk (rank.c): by the formula alone 17 of 22 golden jobs took longer, up to 61 % ---- */
enum {
    RANKED = 128,          /* Candidates that become plans unless more are asked for: walks are cheap. */
    RANK_FIRST = 16,       /* After so many it is known what is far: */
    RANK_FAR_SHARE = 4,    /* walks end when they are one part in so many above the best of these. */
};

/* ---- climbing (climb.c): without it 2 golden jobs take longer, by up to 6.1 %, 1 less, by 0.04 % ---- */
enum {
    CLIMB_LEADERS = 12,       /* Configurations whose cuts and strategies are moved. */
    CLIMB_SMALL_LEADERS = 64, /* Of small models, as far as the visits go. */
    CLIMB_ALIKE = 3,          /* Of one that the formula does not bound, where cuts say more than it does; else one. */
    CLIMB_EACH = 1 << 18,     /* Layers visited by walks for one candidate. */
    CLIMB_DEAR = 2048,        /* Of walks that visit more layers, */
    CLIMB_PERMILLE = 50,      /* a step may become so much shorter, or as much as another's did. */
    CLIMB_ALIKE_PERCENT = 5,  /* Where walk and formula agree to within this, other cuts are hardly better. */
};

/* ---- the judge (judge.c) ---- */
enum {
    JUDGE_BUDGET = 700000, /* Effort before the best plans are settled: about instructions lowered and simulated. */
    JUDGED_FAMILIES = 4,   /* The best of so many families is simulated while it may still win, */
    FAMILY_BUDGETS = 12,   /* within so many budgets. */
    DOUBT_PERCENT = 10,    /* So far may the rank be off, much alike for plans of one configuration. */
    SPARE_PLANS = 4,       /* Incumbents of before that are kept: the last may take longer once it is simulated whole,
                              by 4 % for llama-2-7b on 2x4 rtx4090, batch 64. */
    LATE_JUDGED = 2,       /* When time is over and there is no plan, so many more are judged. */
    MORE_BUDGETS = 2,      /* Of candidates that came since, what may win and so many budgets allow; */
    DEAR = 2,              /* then those that lead by rank and cost more, until so many fit */
    DEAR_TRIES = 6,        /* or so many were looked at, */
    DEAR_BUDGETS = 16,     /* of up to so many budgets each: without llama-3-405b takes 31.7 % longer, gpt-1t 10.3. */
    CHEAPER_SHARE = 64,    /* Of candidates whose expected steps differ by less than one part in so many the cheaper is
                              simulated first: else llama-3-405b on 2048x8 h100-sxm takes 1.5 % longer. */
    KIN_PERMILLE = 1,      /* So far may the walk of a large plan be off beside what it was off for one of its family, */
    OTHER_PERMILLE = 10,   /* or for another with the same schedule; no more where a simulation takes more than a
                              budget: llama-3-405b on 2048x8 h100-sxm would gain 0.06 % by a fifth of its time. */
    JUDGED_DEAR = 300000,  /* Where a simulation takes more than this, kin is simulated that promises to be shorter by
                              KIN_PERMILLE, */
    DEAR_PERMILLE = 3,     /* and others are doubted so far: llama-3-70b on 8x8 h100-sxm simulates 1 plan and not 4. */
    MAX_SHRINKS = 6,       /* How often a candidate whose layout does not fit is solved again with less memory. */
    SHRUNK_GAP_PPM = 1000, /* How closely. */
    ROOM_PERMILLE = 2,     /* A plan leaves room for its layout beforehand where that lengthens it by so little: without,
                              llama-3-70b on 2x8 h100-sxm, sequence 32768, takes 3 % longer. */
    MARGIN_SHARE = 8,      /* A layout one part in so many below memory, or above, may turn with more micro-batches. */
    HELD_DOUBT_SHARE = 25,  /* A plan whose stages hold, by their prices, one part in so many more than they have is not
                              lowered: of 130 plans of the golden jobs prices said 0.6 to 1.04 times the bytes of the
                              layout, where they are most 0.97 to 1.01. */
    LACKING_EFFORT = 10,    /* So many times what is expected beforehand a program of split backward passes takes: 10 to
                              12 in llama-3-405b and mixtral-8x7b. */
    HARDLY_SHARE = 400,    /* A plan whose walk is not one part in so many shorter than the rival's is not simulated:
                              of 14 such 13 took 0.1 to 0.7 % longer, one 0.1 % less (llama-3-70b on 8x8 h100-sxm,
                              draws of noise). */
};

/* ---- plans that lack memory (reserve.c, host_room.c) ---- */
enum {
    PACKED_SHARE = 100,      /* A layout that nobody made would take about one part in so many more than its bound: of
                                what explain finds for mixtral-8x7b on 8x8 h100-sxm 5 plans are shorter with this than
                                without, by up to 1.3 %, none longer; with 200 2 are, with 50 one is 0.3 % longer. */
    RESERVE_STEPS = 1024,    /* What is kept free goes in steps of one part in so many of memory: few tables differ. */
    SHRINK_SHARE = 200,      /* Where stages have several meshes all get so much less at a time. */
    HOST_PRICES = 24,        /* Powers of two that are tried as the price of a MiB there, in ns (by 26 more is kept), */
    HOST_PRICED_BITS = 20,   /* which is that MiB; */
    HOST_GAP_PPM = 1000,     /* so closely. */
    HOST_SHIFTED = 64,       /* Layers that are shifted at once between two such solutions, then half as many, and so
                                on. */
    HOST_MARGIN_PERCENT = 2, /* More is expected there than was found, with each try but the first: layouts differ. */
};

/* ---- schedules that the formula does not bound (unbounded_trials.c): without them 8 golden jobs take longer, by up
 * to 32 % ---- */
enum {
    TRIAL_LEADERS = 6,        /* Leaders, each of another family, whose decisions are tried under other schedules. */
    TRIAL_SMALL_LEADERS = 24, /* Of a small model, */
    TRIAL_SMALL_FAMILY = 8,   /* so many of a family. */
    TRIAL_BLIND = 16,         /* Where no plan fits, so many configurations are tried without a leader. */
    TRIAL_JOINED = 48,        /* With both ends on one stage, of a small model: without them 3 golden jobs take longer,
                                 by up to 26 %; 32 are too few for gpt2 on 2x8:l40s (32.0 ms for 31.2). */
    TRIAL_WAVE = 8,           /* Proposals that are tried before they are walked. */
    TRIAL_NEAR_SHARE = 20,    /* A proposal is rarely walked in less than it promises but for one part in so many:
                                 llama-3-405b tries 16 of 91, mixtral-8x7b 88 of 237; with 50 llama-2-7b on 2x8
                                 l40s takes 8 % longer. */
    TRIAL_FAR_SHARE = 6,      /* Climbing rarely gains more; with 8 vgg-16 on 3x2:rtx4090 takes 8 % longer. */
    TRIAL_DOUBT_SHARE = 25,   /* The walk is too long by one part in so many at most: what is further above the
                                 incumbent is not simulated. */
};

/* ---- neighbours of the incumbent (polish.c): without them 8 golden jobs take longer, by up to 2.5 %,
 * 1 less, by 0.3 % ---- */
enum {
    POLISH_NEAR_PERCENT = 3,  /* What the walk finds so much longer than the incumbent is not simulated. */
    POLISH_VISITS = 1 << 18,  /* Layers visited by walks in a round, for each kind of neighbours. */
    POLISH_ALIKE = 16,        /* Plans of a configuration whose neighbours are looked at: without a cap vgg-16 on 4x8
                                 a100-sxm-80 takes 17 % longer, batch 32. */
};

/* ---- where nothing fits, and other questions (nearest.c, advice.c, batch.c, near.c, explain/) ---- */
enum {
    /* Under other rates only configurations near the best are looked at: of 18 draws of noise for llama-3-70b on 8x8
     * h100-sxm all 18 find the same plan among these 96 as among all 8,459. Of 24 and 24 they do, too, but with 10 % less
     * memory the best of them takes 55.4 s in place of 55.2; so it does where the proof begins with the former best in
     * place of a scout. */
    OTHER_FACTS_CANDIDATES = 64, /* Of candidates at most. */
    OTHER_FACTS_BOUNDED = 128,   /* Of others at most. */
    OTHER_FACTS_SHARE = 8,       /* The bound of these lies at most one part in so many above the best. */
    OTHER_FACTS_KIN = 2,         /* So many of these for each kind of mesh. */
    OTHER_FACTS_LACKING = 4,     /* Where more than one in so many lacks memory all are looked at: with 1 % more of it
                                    llama-2-70b on 2x8 a100-sxm-80 has better plans that are near none of these. */
    NEAREST_DOUBT_SHARE = 16, /* A layout may need one part in so many less than was expected. */
    NEAREST_FRUITLESS = 8,    /* After so many in a row that came no nearer the rest is not looked at. */
    ADVICE_TIMES = 64,        /* Up to so many times the devices are tried, doubled each time. */
    HOST_ADVICE_SHARE = 2,    /* Devices take what they have room for, or half of it, where hosts lack memory. */
    ADVICE_HALVES = 7,        /* So often the sequence is halved: nobody asks for shorter ones. */
    BATCH_TRIES = 32,         /* Batches that are searched for --batch auto. */
    BATCH_BETTER_PPM = 1000,  /* More sequences must make so many more per second to be taken, */
    BATCH_WORTH_PPM = 5000,   /* and so many to be worth doubling on. */
    LIGHT_RANKED = 16,        /* A light search of explain/ ranks so many, and simulates the first that fits. */
    GLANCE_RANKED = 8,        /* One at a glance ranks so many, */
    GLANCE_GAP_PPM = 50000,   /* as near the optimum as this. */
    TIMED_LIMIT = 40000,      /* Plans of so many layers times micro-batches are simulated in less than a second. */
    OTHER_LEADERS = 6,        /* Configurations near the plan's that lead to those of other schedules. */
    DISTINCT_SHARE = 3,       /* Plans that decide one in so many layers otherwise are told beside each other. */
    FRONTIER_SHARE = 32,      /* Each search of a frontier has one part in so many less memory than the one before, */
    FRONTIER_SOLVED = 48,     /* and there are so many. */
    CONFLICT_RANKED = 8,      /* Where any plan that fits will do so many are ranked, */
    CONFLICT_GAP_PPM = 100000, /* as near the optimum as this, */
    CONFLICT_HALVES = 7,      /* and memory is halved so often: to less than 1 %. */
};

/* ---- the walk (pipeline.c), and few micro-batches that judge many (estimate_few.c, estimate_memory.c): without these
 * the CPU time of 8 golden jobs was 1.7 times as long, and one step 3 % longer ---- */
enum {
    STEADY_WHOLE = 64,     /* Where steps run into each other and a stage holds more micro-batches than this the layout
                              makes some use of their places for other things, so short steps are estimated whole. */
    LAYER_INSTRS = 16,     /* Instructions of a layer for one micro-batch; gathers and tensor parallelism make it 40.
                              */
    WHOLE_EFFORT = 100000, /* Steps of so little effort are judged whole: the few buffers of tiny models pack in leaps,
                              and nothing else can be promised. */
    PERIOD_BEGINS = 2,     /* The two steps that tell the pace of all others have so many times the micro-batches that
                              settle, */
    PERIODS_END = 5,       /* and so many; */
    WORTH_IT = 2,          /* the whole step must be so many times as long. */
    NEAR_SHARE = 1000,     /* What no layout can change by more than one part in so many is good enough where the step
                              would not be simulated whole in any case. */
    SHORT_UNITS = 4,       /* Micro-batches, in units of the schedule, of a step just long enough to show a short
                              period; */
    LONGER = 2,            /* a step that is not so many times as long as the one that shows a period is simulated
                              whole. */
    ALL_PERIODS = 6,       /* What a longer step adds is a multiple of so many units, into which periods of 1, 2, 3 and
                              6 go. */
    SOON = 10000000,       /* Effort of a step that is soon simulated whole: the answer tells the memory of all of it
                              then. */
    DOUBT_SHARE = 40,      /* Where the few micro-batches take one part in so many more or less than the walk says,
                              their pace is simulated, not walked: with 32 the step of llama-3-405b for torchtitan
                              on 1024 h100-sxm was told 3 % too short; */
    WAITS_SHARE = 64,      /* so it is where waits for bytes that are used again take one in so many, since those of
                              later micro-batches may be longer. */
    SPLIT_FURTHER = 32,    /* Of split backward passes at least so many more: by half of 9, zb-h2 of 4 stages was told 12 %
                              too long, by 16 4 %, by this 1.6 %. */
    LONG_SHARE = 4,        /* Where it is doubted, one part in so many of what it says of the others may be too much. */
    ROOM_SHARE = 64,       /* A shortened step promises one part in so many less than it has: later micro-batches may
                              need it. */
    MOVING_SHARE = 8,     /* Nor, each time, more than one part in so many of what does not persist. */
    SETTLE_INSTRS = 20000, /* A program of so many instructions is laid out in a tenth of a second. */
    TOLD_INSTRS = 1000000, /* Of so many, one plan that a user asks about is laid out and simulated in two seconds. */
    FEW_INSTRS = 100000,   /* Of fewer, more micro-batches may pack otherwise in leaps. */
    GLANCE_SHARE = 50,     /* A glance may say one part in so many too much: of 49 none did, or 0.8 % too little, and
                              what else launches of llama-3-405b could be is told in a sixth of the time. */
    MIDDLE_SHARE = 4,      /* The pace of long steps is that of one part in so many of the micro-batches that settle,
                              but of */
    LEAST_MIDDLE = 32,     /* at least so many: with 4 long steps of two stages were off by 5.5 %, so by 0.6. */
    QUADRATIC = 500,       /* Effort counts, beside a stage's length, its square over this. Placing buffers no longer
                              takes so (64 times the micro-batches of gpt2-medium in two stages of gpipe take 88 times as
                              long to simulate), but all budgets are measured so. */
};
/* clang-format on */
#endif
