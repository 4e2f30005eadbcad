// Barriers among any number of cores. Every ordered pair of cores has a line of shared memory: the first core counts in
// it how often it has synchronised with the second, with the tag and the trap site of the last two times. A core posts
// to the lines of all its peers, then waits until the count of each peer has reached its own. Both cores of a pair see
// the same two tags, so both detect that these differ, or that the other core has ended.

enum { LINE_BYTES = 64 };

struct line {
    shared times;
    shared ended; // 1 once the first core has ended
    struct record {
        int64_t tag, site;
    } records[2]; // two are enough, as one core is at most one ahead of the other
    int64_t unused[2];
};
_Static_assert(sizeof(struct line) == LINE_BYTES, "a cache line");

struct barrier_arguments {
    int64_t lines; // a slot of the frame
    int64_t tag;   // cores that meet pass the same one
    int64_t site;
    int64_t peers;
    struct peer {
        int64_t own, other; // the lines of this core for the peer and of the peer for this core, in bytes
        int64_t rank;
    } peer[];
};

// Wait until the peer has come; false if it has ended instead, or the launch is cancelled.
static bool has_come(struct frame *frame, struct line *other, int64_t times) {
    for (int64_t looks = 0; atomic_load_explicit(&other->times, memory_order_acquire) < times; looks++) {
        if (atomic_load_explicit(&other->ended, memory_order_acquire)) // it may have come before it ended
            return atomic_load_explicit(&other->times, memory_order_acquire) >= times;
        if (looks > SPINS) {
            sched_yield();
            poll_now(frame, -ANYWHERE);
            if (frame->status->site != 0)
                return false;
        }
    }
    return true;
}

void nki_barrier(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct barrier_arguments *barrier = (const void *)args;
    char *lines = ((char **)frame)[barrier->lines];
    struct status *status = frame->status;
    if (status->site != 0)
        return;
    for (int64_t i = 0; i < barrier->peers; i++) {
        struct line *own = (struct line *)(lines + barrier->peer[i].own);
        int64_t times = atomic_load_explicit(&own->times, memory_order_relaxed) + 1;
        own->records[times & 1] = (struct record){barrier->tag, barrier->site};
        atomic_store_explicit(&own->times, times, memory_order_release);
    }
    for (int64_t i = 0; i < barrier->peers; i++) {
        struct line *own = (struct line *)(lines + barrier->peer[i].own);
        struct line *other = (struct line *)(lines + barrier->peer[i].other);
        int64_t times = atomic_load_explicit(&own->times, memory_order_relaxed);
        bool came = has_come(frame, other, times);
        const struct record *record = &other->records[times & 1];
        if (came && record->tag == barrier->tag)
            continue;
        if (status->site == 0) { // else it is cancelled
            status->site = barrier->site;
            status->operand = DEADLOCK;
            status->index = came ? record->site : 0;
            status->peer = barrier->peer[i].rank;
        }
        return;
    }
}

// Tell the peers of core `rank` that it has ended.
static void end_core(struct line *lines, int64_t rank, int64_t cores) {
    for (int64_t peer = 0; peer < cores; peer++)
        atomic_store_explicit(&lines[rank * cores + peer].ended, 1, memory_order_release);
}

// ---------------------------------------------------------------------------------------------------------------------
// Teams. The thread that launches leads: it alone walks the table. At a region it offers chunks of partitions, takes
// chunks itself, and goes on when all are done; helpers take those that are free. So a helper that is late, or that the
// operating system does not run, costs its help only, and a leader without helpers does all the work.
//
// A ticket holds the number of the offer in its upper half, and a bit for each chunk that is free in its lower
// half. A leader offers nothing new before all chunks are done, so the words of an offer stay as long as a chunk of it
// can be taken. Helpers look at the ticket for some microseconds, then sleep until the next offer. They belong to no
// interpreter: they run native code only, without Python's lock, and handle no signals.

enum { MOST_CHUNKS = 32 }; // of an offer, each of which has a bit of the ticket
#define FREE ((INT64_C(1) << MOST_CHUNKS) - 1)
#define LINE __attribute__((aligned(LINE_BYTES))) // what different threads write lies in different lines

struct team {
    LINE shared ticket;
    LINE shared done; // chunks
    LINE shared busy; // 1: it helps a launch
    LINE shared sleepers;
    shared stop;
    LINE struct offer {
        shared frames, step;          // of the helpers: the address of the first and the bytes from one to the next
        shared rows, number, args;    // the address of the rows, their number, and the address of their arguments
        shared size, chunks, members; // partitions of a chunk, number of chunks, threads that may take chunks
    } offer;
    LINE char mutex[128];
    LINE char condition[128];
};

static int64_t word(shared *place) { return atomic_load_explicit(place, memory_order_relaxed); }

static void set(shared *place, int64_t value) { atomic_store_explicit(place, value, memory_order_relaxed); }

// A team without helpers, which is never freed: a helper may look at it after it has ended.
struct team *nki_new_team(void) {
    char *block = calloc(1, sizeof(struct team) + 64);
    if (!block)
        return 0;
    struct team *team = (struct team *)(block + (-(int64_t)block & 63));
    pthread_mutex_init(team->mutex, 0);
    pthread_cond_init(team->condition, 0);
    return team;
}

static void wake(struct team *team) {
    if (atomic_load(&team->sleepers) > 0) {
        pthread_mutex_lock(team->mutex);
        pthread_cond_broadcast(team->condition);
        pthread_mutex_unlock(team->mutex);
    }
}

// Let the helpers end, which may sleep; a launch that they help goes on without them.
void nki_stop_team(struct team *team) {
    atomic_store(&team->stop, 1);
    wake(team);
}

// Take a chunk of `ticket`, which has a free one; -1 if the ticket has changed. It is the first free chunk from
// `preferred` on, so that a thread finds in its cache what it had there before.
static int64_t take_chunk(struct team *team, int64_t ticket, int64_t preferred) {
    uint64_t untaken = ticket & FREE, beyond = untaken >> preferred << preferred;
    int64_t chunk = __builtin_ctzll(beyond ? beyond : untaken);
    int64_t after = ticket & ~(INT64_C(1) << chunk);
    return atomic_compare_exchange_strong(&team->ticket, &ticket, after) ? chunk : -1;
}

// Sleep until the offer of `ticket` is past.
static void sleep_on(struct team *team, int64_t ticket) {
    pthread_mutex_lock(team->mutex);
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->ticket) >> MOST_CHUNKS == ticket >> MOST_CHUNKS && !atomic_load(&team->stop))
        pthread_cond_wait(team->condition, team->mutex);
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(team->mutex);
}

// Take chunks of what the team is offered, as its helper `index`, until it is to stop.
static void help(struct team *team, int64_t index) {
    struct offer *offer = &team->offer;
    for (int64_t idle = 0; !atomic_load(&team->stop);) {
        int64_t ticket = atomic_load(&team->ticket);
        // These words may be those of the next offer; then the ticket has changed, and the chunk is not taken.
        int64_t frames = word(&offer->frames), step = word(&offer->step), rows = word(&offer->rows);
        int64_t number = word(&offer->number), args = word(&offer->args), size = word(&offer->size);
        int64_t chunks = word(&offer->chunks), members = word(&offer->members);
        if ((ticket & FREE) == 0 || index >= members) {
            nki_pause();
            if (++idle > SPINS) {
                sleep_on(team, ticket);
                idle = 0;
            }
            continue;
        }
        idle = 0;
        int64_t chunk = take_chunk(team, ticket, index * chunks / members);
        if (chunk < 0)
            continue;
        struct frame *frame = (struct frame *)(frames + (index - 1) * step);
        if (!is_cancelled(frame))
            walk_range((void *)rows, number, (void *)args, frame, chunk * size, (chunk + 1) * size);
        atomic_fetch_add(&team->done, 1);
    }
}

struct helper {
    struct team *team;
    int64_t index;
};

static void *run_helper(void *argument) {
    const struct helper *helper = argument;
    help(helper->team, helper->index);
    return 0;
}

// Start helper `index`: its thread; 0 if the operating system refuses, and the work is done without it.
int64_t nki_start_helper(struct team *team, int64_t index) {
    int64_t thread = 0;
    struct helper *helper = calloc(1, sizeof(struct helper)); // which stays, like the team
    if (!helper)
        return 0;
    *helper = (struct helper){team, index};
    return pthread_create(&thread, 0, run_helper, helper) == 0 ? thread : 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Parallel regions: rows that run for one chunk of partitions after the other, or for several at one time. No partition
// that a row of a region uses meets what another row does in another partition (region_builder.py). So chunks may run
// in any order, each through all rows: one thread runs chunks whose data fit the cache, a team runs them side by side.

struct region_arguments {
    int64_t first, rows;
    int64_t partitions; // of the largest row
    int64_t block;      // partitions of a chunk whose data fit the cache
    int64_t granule;    // bounds of chunks are multiples of so many partitions, a power of two
};

static struct frame *helper_frame(struct frame *frame, int64_t index) {
    return (struct frame *)(frame->helpers + index * frame->helper_step);
}

static struct status *helper_status(struct frame *frame, int64_t index) {
    return (struct status *)((char *)helper_frame(frame, index) + ((char *)frame->status - (char *)frame));
}

// The partitions of each of `number` equal chunks, in whole granules.
static int64_t shared_out(const struct region_arguments *region, int64_t number) {
    int64_t each = (int64_t)((uint64_t)(region->partitions + number - 1) / (uint64_t)number);
    return (each + region->granule - 1) & -region->granule;
}

static void run_chunk(struct frame *frame, const struct region_arguments *region, int64_t start, int64_t size) {
    walk_range(frame->table + region->first, region->rows, frame->args, frame, start, start + size);
    poll(frame, &frame->status->countdown, -ANYWHERE);
}

static void make_offer(struct frame *frame, const struct region_arguments *region, int64_t size, int64_t chunks) {
    struct team *team = frame->team;
    struct offer *offer = &team->offer;
    set(&offer->frames, (int64_t)frame->helpers);
    set(&offer->step, frame->helper_step);
    set(&offer->rows, (int64_t)(frame->table + region->first));
    set(&offer->number, region->rows);
    set(&offer->args, (int64_t)frame->args);
    set(&offer->size, size);
    set(&offer->chunks, chunks);
    set(&offer->members, frame->threads);
    set(&team->done, 0);
    uint64_t past = (uint64_t)atomic_load(&team->ticket) >> MOST_CHUNKS;
    atomic_store(&team->ticket, (int64_t)((past + 1) << MOST_CHUNKS | (uint64_t)FREE >> (MOST_CHUNKS - chunks)));
    wake(team);
}

// Run a region with the team of the frame: offer its chunks, and take those that no helper takes.
static void lead_region(struct frame *frame, const struct region_arguments *region) {
    struct team *team = frame->team;
    struct status *status = frame->status;
    int64_t share = shared_out(region, frame->threads), least = shared_out(region, MOST_CHUNKS);
    int64_t size = region->block < share ? region->block : share;
    size = size < least ? least : size;
    int64_t chunks = (int64_t)((uint64_t)(region->partitions + size - 1) / (uint64_t)size), ticket;
    make_offer(frame, region, size, chunks);
    while ((ticket = atomic_load(&team->ticket)) & FREE) {
        int64_t chunk = take_chunk(team, ticket, 0);
        if (chunk < 0)
            continue;
        if (status->site == 0)
            run_chunk(frame, region, chunk * size, size);
        atomic_fetch_add(&team->done, 1);
    }
    for (int64_t looks = 1; atomic_load(&team->done) < chunks; looks++) {
        nki_pause();
        wait_after(looks);
    }
    // All chunks fail in the same row, if any does.
    for (int64_t i = 0; i < frame->threads - 1; i++) {
        const struct status *other = helper_status(frame, i);
        if (other->site != 0 && status->site == 0) {
            status->site = other->site;
            status->operand = other->operand;
            status->index = other->index;
            status->peer = other->peer;
        }
    }
}

void nki_region(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct region_arguments *region = (const void *)args;
    if (frame->team) {
        lead_region(frame, region);
        return;
    }
    for (int64_t start = 0; start < region->partitions && frame->status->site == 0; start += region->block)
        run_chunk(frame, region, start, region->block);
}

// Let the team of the frame help this launch, or take it out of the frame if it is busy.
static void begin_team(struct frame *frame) {
    if (atomic_exchange(&frame->team->busy, 1)) {
        frame->team = 0;
        return;
    }
    int64_t slots = ((char *)frame->status - (char *)frame) / 8;
    for (int64_t i = 0; i < frame->threads - 1; i++) {
        struct frame *helper = helper_frame(frame, i);
        for (int64_t slot = 0; slot < slots; slot++)
            ((int64_t *)helper)[slot] = ((const int64_t *)frame)[slot];
        helper->status = helper_status(frame, i);
        helper->scratch = (char *)helper + (frame->arena - (char *)frame); // it has no arena
        *helper->status = (struct status){0};
    }
}

static void end_team(struct frame *frame) {
    if (frame->team)
        atomic_store(&frame->team->busy, 0);
}
